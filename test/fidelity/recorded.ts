/**
 * Probes that were recorded from the interpreter once, each a small program: what it printed with `p`, and the errors
 * nothing caught. They are not part of the repository; where they are missing there is nothing to compare with.
 */
import { existsSync, readFileSync } from "node:fs";
import { checkSource } from "../../esbuild.check.mjs";
import { createBoard } from "../../host-sim/board";
import { createManualClock } from "../../host-sim/clock";

export interface RecordedProbe {
  code: string;
  /** First line of each text that `p` printed. */
  espruino: string[];
  errors?: string[];
}

const FILE = new URL("../../../shared/espruino/probes.json", import.meta.url);

/** By name; empty where the file is missing. */
export const loadRecorded = (): Record<string, RecordedProbe> =>
  existsSync(FILE) ? JSON.parse(readFileSync(FILE, "utf8")) : {};

/** The probes ran on a computer, whose clock had the date and whose stack had no end worth mentioning. */
const NOW_MS = Date.UTC(2026, 0, 1);
const STACK_BYTES = 1_000_000;
const WAIT_MS = 300;

const toBytes = (text: string) => Buffer.from(text, "utf8").toString("latin1");
const fromBytes = (bytes: string) => Buffer.from(bytes, "latin1").toString("utf8");

const run = (code: string): { printed: string[]; errors: string[] } => {
  const clock = createManualClock();
  const board = createBoard({ clock, timeAtBootMs: NOW_MS, stackBytes: STACK_BYTES });
  let output = "";
  board.console.onData((bytes) => {
    output += bytes;
  });
  board.evaluate('function p(x){print("\\x02"+x)}');
  const errors: string[] = [];
  try {
    board.evaluate(toBytes(code));
    clock.advance(WAIT_MS);
  } catch (error) {
    // The interpreter ended there when it ran a file.
    errors.push((error as Error).message);
  }
  board.stop();
  const lines = fromBytes(output).split("\r\n");
  if (errors.length === 0)
    errors.push(
      ...lines
        .filter((line) => line.includes("Uncaught "))
        .map((line) => line.replace(/^[\s\S]*?Uncaught /, "Uncaught ")),
    );
  return {
    printed: lines.filter((line) => line.includes("\x02")).map((line) => line.slice(line.indexOf("\x02") + 1)),
    errors,
  };
};

const isSyntaxError = (errors: string[]) =>
  errors.length === 1 && /^Uncaught (SyntaxError|ReferenceError)/.test(errors[0]!);

/** Undefined where the simulator does what the interpreter did, else what was wrong. */
export const compareRecorded = (probe: RecordedProbe): string | undefined => {
  const wanted = { printed: probe.espruino, errors: probe.errors ?? [] };
  const got = run(probe.code);
  if (JSON.stringify(got) === JSON.stringify(wanted)) return undefined;
  // What cannot be parsed need not fail with the same words, and need not fail at all where the build refuses it.
  if (isSyntaxError(wanted.errors) && JSON.stringify(got.printed) === JSON.stringify(wanted.printed)) {
    if (isSyntaxError(got.errors) || checkSource(probe.code).length > 0) return undefined;
  }
  return `${probe.code}\n  interpreter ${JSON.stringify(wanted)}\n  simulator   ${JSON.stringify(got)}`;
};
