import type { AgentEvent } from "../../firmware/types";
import type { ScriptedModel } from "../fixtures/scripted-model";

/** `process.memory()` of the board, in variables; `blocksize` is bytes in one variable. */
export interface Memory {
  usage: number;
  total: number;
  free: number;
  blocksize: number;
}

export interface StartOptions {
  /** Answers `POST …/chat/completions`. Without it every request fails the test. */
  model: ScriptedModel;
  /** Laid over the driver's own `baseUrl`, `model` and `apiKey` in the board's `agent.json`. */
  settings?: Record<string, unknown>;
  /** Storage files written before power-up. Text is written as UTF-8. `agent.json` here replaces the settings whole. */
  files?: Record<string, string | Uint8Array>;
  /** Files of the SD card, which is there even without. */
  card?: Record<string, string | Uint8Array>;
  /** The code stored as `agent`. Default: `dist/agent.js`. */
  bundle?: Uint8Array;
  /** Variables of the board, where the driver can set them: an ESP32-like build reads them from `ESPR_VARS`. */
  variables?: number;
  /** False: nothing of the test's own stays on the board, for memory figures. `events` and `ask` then throw. */
  observe?: boolean;
}

export interface ExpectOptions {
  /** Real milliseconds before the wait is given up. It ends a failing test, it is no assertion. */
  giveUpMs?: number;
}

/** What a scenario may do to a board. All text is characters; the driver turns them into UTF-8 bytes and back. */
export interface TestBoard {
  /** `http://…/v1` where the scripted model answers. */
  readonly baseUrl: string;
  /** Pins that read back what was written, analog inputs, Wi-Fi. The Linux build has no more than the pins' modes. */
  readonly hasHardware: boolean;
  /** Strings are bytes, as on an ESP32. A build with Unicode strings cannot carry UTF-8 through the agent. */
  readonly hasByteStrings: boolean;
  /**
   * What memory figures are worth: those of an ESP32 (14-byte variables, a fixed number of them), an estimate, in which
   * growth is real and size is not, or those of another kind of board, to be printed only.
   */
  readonly memoryKind: "esp32" | "estimate" | "other";
  /** Types at the console. `\x04` is Ctrl-D and `\x03` is Ctrl-C on every driver. */
  type(text: string): void;
  /** The folder that is the board's SD card. */
  readonly cardFolder: string;
  /** Takes the SD card out of its slot, or puts it in; only where there is a slot. */
  moveCard?(isIn: boolean): void;
  /** Waits until what was printed after the last match has `expected`; gives everything printed up to its end. */
  expectOutput(expected: string | RegExp, options?: ExpectOptions): Promise<string>;
  /** Types one REPL line; gives what was printed until it was done and the board at rest, without echo and prompt. */
  runLine(code: string, options?: ExpectOptions): Promise<string>;
  /** Types `main_loop_entry` and waits for the chat's prompt. Only after it does `\x04` leave the chat. */
  enterChat(): Promise<void>;
  /** Types `ask(text)` and gives the events of that run, `final` included. */
  ask(text: string, options?: ExpectOptions): Promise<AgentEvent[]>;
  /** Waits until an event satisfies `wanted` that no earlier call has given. */
  expectEvent(wanted: (event: AgentEvent) => boolean, options?: ExpectOptions): Promise<AgentEvent>;
  /** Waits for something outside the board, such as a request that has arrived. */
  waitUntil(condition: () => boolean, options?: ExpectOptions): Promise<void>;
  /** All events since power-up. */
  events(): AgentEvent[];
  /** Everything printed since power-up. */
  output(): string;
  memory(): Promise<Memory>;
  /** Timers and intervals that wait on the board. Those of the simulated board's own devices count, too. */
  timers(): Promise<number>;
  /** A Storage file as text, `undefined` where there is none. */
  file(name: string): Promise<string | undefined>;
  /** Lets this many of the board's milliseconds pass: at once on an injected clock, really on an interpreter. */
  advance(ms: number): Promise<void>;
  /** Ends the board. Throws where the interpreter had ended on its own. */
  stop(): Promise<void>;
}

export interface Driver {
  readonly name: "sim" | "espruino";
  /** Writes the files, powers the board up and waits for the REPL's prompt. */
  start(options: StartOptions): Promise<TestBoard>;
}

/** The settings every scenario's board has unless it says otherwise. The key is searched for in every output. */
export const defaultSettings = { model: "scripted", apiKey: "sk-scenario-0123456789" };
