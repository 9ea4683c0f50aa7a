/**
 * Runs Espruino's own test scripts, from a folder of its source, as its `--test` does: the script is evaluated, then
 * everything runs until nothing is left to do; it has passed if the global `result` is true then.
 */
import { spawn } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createBoard } from "../../host-sim/board";
import { createManualClock } from "../../host-sim/clock";
import { createSdCard } from "../../host-sim/sd";

/** A desktop's stack has no end worth mentioning. */
const STACK_BYTES = 1_000_000;
/** Time of the board a script may take, and turns of this computer's event loop it may do nothing in. */
const LIMIT_MS = 60_000;
const IDLE_TURNS = 200;
const INTERPRETER_MS = 30_000;

/** Names of the scripts in a folder, without `.js`. */
export const listTests = (folder: string): string[] =>
  readdirSync(folder)
    .filter((name) => /^test_.*\.js$/.test(name))
    .map((name) => name.slice(0, -3))
    .sort();

export interface TestOutcome {
  hasPassed: boolean;
  /** What the console showed, for a person to read. */
  output: string;
}

/** Runs one script on the simulated board, with time of its own. In `tests` on its SD card are the script and the texts. */
export const runInSimulator = async (folder: string, name: string): Promise<TestOutcome> => {
  const clock = createManualClock();
  const card = mkdtempSync(path.join(tmpdir(), "espruino-test-"));
  mkdirSync(path.join(card, "tests"));
  for (const file of readdirSync(folder))
    if (file === `${name}.js` || file.endsWith(".txt")) copyFileSync(path.join(folder, file), path.join(card, "tests", file));
  const board = createBoard({ clock, timeAtBootMs: Date.now(), stackBytes: STACK_BYTES, sd: createSdCard(card) });
  let output = "";
  board.console.onData((bytes) => {
    output += bytes;
  });
  let hasPassed = false;
  try {
    board.evaluate(readFileSync(path.join(folder, `${name}.js`), "latin1"));
  } catch (error) {
    output += `${(error as Error).message}\n`;
  }
  try {
    let idle = 0;
    for (let turn = 0; clock.now() < LIMIT_MS && idle < IDLE_TURNS; turn++) {
      const before = output.length;
      clock.advance(1);
      // Sockets are real: they need turns of the event loop, and now and then some time.
      await new Promise((resolve) => (turn % 20 ? setImmediate(resolve) : setTimeout(resolve, 1)));
      idle = output.length > before || clock.pending() > 0 ? 0 : idle + 1;
    }
    hasPassed = Boolean(board.evaluate("typeof result!='undefined'&&result"));
  } catch (error) {
    output += `${(error as Error).message}\n`;
  } finally {
    board.stop();
    rmSync(card, { recursive: true, force: true });
  }
  return { hasPassed, output };
};

/** Runs one script on the interpreter, in a folder of its own in which the scripts' folder is called `tests`. */
export const runOnInterpreter = async (binary: string, folder: string, name: string): Promise<TestOutcome> => {
  const work = mkdtempSync(path.join(tmpdir(), "espruino-test-"));
  symlinkSync(path.resolve(folder), path.join(work, "tests"));
  const child = spawn(binary, ["--test", `tests/${name}.js`], { cwd: work, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (bytes: Buffer) => {
      output += bytes.toString("latin1");
    });
  const timer = setTimeout(() => child.kill("SIGKILL"), INTERPRETER_MS);
  await new Promise<void>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", () => resolve());
  }).finally(() => {
    clearTimeout(timer);
    rmSync(work, { recursive: true, force: true });
  });
  return { hasPassed: /-+ PASS /.test(output), output };
};
