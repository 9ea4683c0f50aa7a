/** `espruino-agent` in this process, as a script or a person at a terminal would run it. */
import { Readable } from "node:stream";
import type { Surroundings } from "../../cli/command";
import { runProgram } from "../../cli/main";
import type { Input } from "../../cli/console";

export interface Run {
  code: number;
  out: string;
  err: string;
}

export interface RunOptions {
  env?: Record<string, string>;
  stdin?: string;
  /** The bundle that the build gives. */
  bundle?: string;
  signal?: AbortSignal;
}

/** Everything that was printed by any run, to look for secrets in. */
export const allOutput: string[] = [];

export async function run(args: string[], options: RunOptions = {}): Promise<Run> {
  let out = "";
  let err = "";
  const io: Surroundings = {
    env: options.env ?? {},
    stdin: Readable.from(options.stdin === undefined ? [] : [Buffer.from(options.stdin)]) as Input,
    stdout: { write: (data) => void (out += Buffer.from(data as Uint8Array).toString("utf8")) },
    stderr: { write: (data) => void (err += Buffer.from(data as Uint8Array).toString("utf8")) },
    signal: options.signal ?? new AbortController().signal,
    build: async () => ({ code: options.bundle ?? agentCode("new"), map: "", problems: [], sizes: [] }),
  };
  const code = await runProgram(args, io);
  allOutput.push(out, err);
  return { code, out, err };
}

/**
 * A bundle that says which one it is, and only if it is whole: the last statement prints what the first one holds.
 * `bytes` is its length, or a little less.
 */
export function agentCode(name: string, bytes = 3000): string {
  const line = (i: number): string => `/* ${name} ${i} `.padEnd(37, "x") + "*/";
  const filler = Array.from({ length: Math.max(1, Math.floor((bytes - 80) / 40)) }, (_, i) => line(i)).join("\n");
  return `global.agentName="${name}";\n${filler}\nprint("espruino-agent: ask "+agentName);`;
}
