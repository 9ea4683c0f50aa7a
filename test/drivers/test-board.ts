import type { AgentEvent } from "../../firmware/types";
import { fromBytes, toBytes } from "./bytes";
import type { ConsoleLog } from "./console-log";
import type { ExpectOptions, Memory, TestBoard } from "./types";

/** What a driver knows how to do; `createTestBoard` makes of it what scenarios use. */
export interface BoardPort {
  log: ConsoleLog;
  /** All events since power-up, `undefined` where nobody listens for them. */
  events: AgentEvent[] | undefined;
  baseUrl: string;
  cardFolder: string;
  moveCard?(isIn: boolean): void;
  hasHardware: boolean;
  hasByteStrings: boolean;
  memoryKind: TestBoard["memoryKind"];
  /** Types bytes at the console, one character each. */
  type(bytes: string): void;
  /** Waits until what the board has to do without delay is done: the agent's words run a moment after their line. */
  settle(): Promise<void>;
  /** Whatever must be done before `main_loop_entry` is typed. */
  beforeChat?(): Promise<void>;
  memory(): Promise<Memory>;
  timers(): Promise<number>;
  file(name: string): Promise<string | undefined>;
  advance(ms: number): Promise<void>;
  stop(): Promise<void>;
}

/** Real milliseconds between two looks at something outside the board. */
const LOOK_MS = 5;

/** The agent writes the REPL's prompt anew after its own output, and the REPL may do the same once more. */
const PROMPT = /(^|\n)>+$/;

/** Waits until the REPL's prompt is the last thing printed and something was printed after `from`. */
export async function waitForPrompt(
  log: ConsoleLog,
  from = 0,
  what = "the prompt",
  options?: ExpectOptions,
): Promise<void> {
  const isThere = (): true | undefined =>
    log.bytes().length > from && PROMPT.test(log.bytes().slice(-4)) ? true : undefined;
  await log.wait(isThere, what, options);
}

export function createTestBoard(port: BoardPort): TestBoard {
  const { log } = port;
  let seen = 0;

  function events(): AgentEvent[] {
    if (!port.events) throw new Error("this board was started with observe: false");
    return port.events;
  }

  function expectEvent(wanted: (event: AgentEvent) => boolean, options?: ExpectOptions): Promise<AgentEvent> {
    const look = (): AgentEvent | undefined => {
      while (seen < events().length) {
        const event = events()[seen++]!;
        if (wanted(event)) return event;
      }
      return undefined;
    };
    return log.wait(look, `an event ${wanted}`, options);
  }

  return {
    baseUrl: port.baseUrl,
    cardFolder: port.cardFolder,
    moveCard: port.moveCard,
    hasHardware: port.hasHardware,
    hasByteStrings: port.hasByteStrings,
    memoryKind: port.memoryKind,
    type: (text) => port.type(toBytes(text)),
    expectOutput: (expected, options) => log.expect(expected, options),
    async runLine(code, options) {
      const from = log.bytes().length;
      const line = `${toBytes(code)}\n`;
      port.type(line);
      await waitForPrompt(log, from + line.length, `the prompt after ${code}`, options);
      await port.settle();
      await waitForPrompt(log, from + line.length, `the prompt after ${code}`, options);
      const printed = log.bytes().slice(from);
      const echo = printed.indexOf(line);
      return fromBytes(printed.slice(echo < 0 ? 0 : echo + line.length).replace(PROMPT, "")).trimEnd();
    },
    async enterChat() {
      await port.beforeChat?.();
      port.type("main_loop_entry\n");
      await log.expect("you> ");
    },
    async ask(text, options) {
      const from = events().length;
      seen = from;
      port.type(toBytes(`ask(${JSON.stringify(text)})\n`));
      await expectEvent((event) => event.type === "final" && !event.agent, options);
      return events().slice(from, seen);
    },
    expectEvent,
    async waitUntil(condition, options) {
      // The log looks again when the board does something; what happens outside it is looked for in between.
      const looking = setInterval(() => log.poke(), LOOK_MS);
      try {
        await log.wait(() => (condition() ? true : undefined), String(condition), options);
      } finally {
        clearInterval(looking);
      }
    },
    events: () => [...events()],
    output: () => log.text(),
    memory: () => port.memory(),
    timers: () => port.timers(),
    file: (name) => port.file(name),
    advance: (ms) => port.advance(ms),
    stop: () => port.stop(),
  };
}
