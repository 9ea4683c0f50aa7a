import { expect, test } from "vitest";
import { espruinoDriver } from "../drivers/espruino";
import { defaultSettings, type Driver, type Memory, type StartOptions, type TestBoard } from "../drivers/types";
import { type RecordedRequest, scriptedModel, type ScriptedModel, type Turn } from "../fixtures/scripted-model";

export interface ScenarioOptions extends Omit<StartOptions, "model"> {
  /** What the model does, in order: all of it must be asked for. A function answers however many requests come. */
  turns?: Turn[] | ((request: RecordedRequest) => Turn);
  /** Console output that fails every other scenario and belongs to this one. */
  allow?: RegExp;
  /** The scenario carries UTF-8: skipped where strings are not bytes. */
  byteStrings?: boolean;
  /** Real milliseconds for the whole scenario. */
  timeoutMs?: number;
}

export interface ScenarioContext {
  board: TestBoard;
  model: ScriptedModel;
}

/** What the REPL prints when something on the board went wrong that nobody has handled. */
const TROUBLE = /Uncaught|New interpreter error|OUT OF MEMORY|LOW_MEMORY|Execution Interrupted|Stack overflow|ERROR:/;

export const driver: Driver =
  process.env.TEST_DRIVER === "espruino"
    ? espruinoDriver(process.env.ESPRUINO_BIN ?? "")
    : (await import("../drivers/sim")).simDriver();

/**
 * One board on whichever driver is chosen, powered up for `body` and ended after it. Beyond what `body` expects, each
 * holds: every turn of the script was asked for, every request kept the rules of the API, nothing was left unhandled at
 * the console, and the API key is in no output and no event.
 */
export async function withBoard(
  options: ScenarioOptions,
  body: (context: ScenarioContext) => Promise<void>,
): Promise<void> {
  const { turns = [], allow, ...start } = options;
  const model = scriptedModel(turns);
  const board = await driver.start({ ...start, model });
  const key = String(options.settings?.apiKey ?? defaultSettings.apiKey);
  try {
    await body({ board, model });
    const output = board.output();
    const trouble = output.split("\n").filter((line) => TROUBLE.test(line) && !allow?.test(line));
    expect(trouble, `unhandled on the board:\n${output.slice(-3000)}`).toEqual([]);
    expect(output).not.toContain(key);
    if (options.observe !== false) expect(JSON.stringify(board.events())).not.toContain(key);
    model.expectAllUsed();
  } catch (error) {
    if (model.problems.length) (error as Error).message += `\nscripted model:\n  ${model.problems.join("\n  ")}`;
    throw error;
  } finally {
    await board.stop();
  }
}

/** One scenario: a test of one board, see `withBoard`. */
export function scenario(
  name: string,
  options: ScenarioOptions,
  body: (context: ScenarioContext) => Promise<void>,
): void {
  test(name, { timeout: options.timeoutMs ?? 60_000 }, ({ skip }) =>
    withBoard(options, async (context) => {
      const { byteStrings } = options;
      if (byteStrings && !context.board.hasByteStrings) {
        skip("this interpreter's strings are Unicode, an ESP32's are bytes");
      }
      await body(context);
    }),
  );
}

/** Prints a memory figure that this driver's board cannot be judged by. */
export function noteMemory(board: TestBoard, what: string, memory: Memory): void {
  const note = { esp32: "", estimate: " (an estimate)", other: " (not comparable)" }[board.memoryKind];
  console.log(`${what}: ${memory.usage} of ${memory.total} variables${note}`);
}
