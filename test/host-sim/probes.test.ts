/**
 * Holds the simulated realm against what the real interpreter printed. `probes.json` is not part of the repository:
 * where it is missing there is nothing to compare with and the suite is skipped.
 */
import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { checkSource } from "../../esbuild.check.mjs";
import { createBoard } from "../../host-sim/board";
import { createManualClock } from "../../host-sim/clock";
import differences from "./probes.differences.json";

interface Probe {
  code: string;
  espruino: string[];
  errors?: string[];
}

const file = new URL("../../../shared/espruino/probes.json", import.meta.url);
const probes: Record<string, Probe> = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
const reasons: Record<string, string> = differences;

/** The probes ran on a computer, whose clock had the date and whose stack had no end worth mentioning. */
const NOW_MS = Date.UTC(2026, 0, 1);
const STACK_BYTES = 1_000_000;
const WAIT_MS = 300;
const MIN_SHARE = 0.95;

const toBytes = (text: string) => Buffer.from(text, "utf8").toString("latin1");
const fromBytes = (bytes: string) => Buffer.from(bytes, "latin1").toString("utf8");

/** What `p` printed (first line of each text only, as the probes were recorded) and the errors nothing caught. */
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

/** Undefined where the probe came out right, else what was wrong. */
const compare = (probe: Probe): string | undefined => {
  const wanted = { printed: probe.espruino, errors: probe.errors ?? [] };
  const got = run(probe.code);
  if (JSON.stringify(got) === JSON.stringify(wanted)) return undefined;
  // What cannot be parsed need not fail with the same words, and need not fail at all where the build refuses it.
  if (isSyntaxError(wanted.errors) && JSON.stringify(got.printed) === JSON.stringify(wanted.printed)) {
    if (isSyntaxError(got.errors) || checkSource(probe.code).length > 0) return undefined;
  }
  return `${probe.code}\n  interpreter ${JSON.stringify(wanted)}\n  simulator   ${JSON.stringify(got)}`;
};

describe.skipIf(!existsSync(file))("probes of the real interpreter", () => {
  it.each(Object.keys(probes))("%s", (name) => {
    const wrong = compare(probes[name]!);
    if (name in reasons) expect(wrong, `"${name}" now agrees: take it out of probes.differences.json`).toBeDefined();
    else expect(wrong).toBeUndefined();
  });

  it("agrees with nearly all of them, and lists no others", () => {
    const names = Object.keys(probes);
    expect(Object.keys(reasons).filter((name) => !names.includes(name))).toEqual([]);
    expect(1 - Object.keys(reasons).length / names.length).toBeGreaterThanOrEqual(MIN_SHARE);
  });
});
