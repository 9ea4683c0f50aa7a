/** Runs probes on the real interpreter, many of them for each start. */
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestServer } from "./test-server";
import { fillPorts, isOver, type Need, type Probe, settle } from "./transcript";

export interface Interpreter {
  /** What this build has. */
  has: Set<Need>;
  version: string;
  /** What the console shows from the prompt on that the first line is typed at. Throws where the interpreter ends or does not answer. */
  run(probe: Probe, server: TestServer): Promise<string>;
  stop(): Promise<void>;
}

const START_MS = 10_000;
const PROBE_MS = 5_000;
/** How long a line may be silent that shows neither echo nor prompt. */
const SILENT_MS = 150;
const BANNER_END = "Donate\r\n\r\n>";
const LINE_REMOVED = "\r\x1b[J";

/** Starts the interpreter named by `binary` in a folder of its own. */
export const startInterpreter = async (binary: string): Promise<Interpreter> => {
  const folder = await mkdtemp(join(tmpdir(), "fidelity-"));
  const child = spawn(binary, [], { cwd: folder, stdio: ["pipe", "pipe", "ignore"] });
  let output = "";
  let ended: string | undefined;
  let wake = (): void => {};
  const gone = new Promise<void>((resolve) => {
    const end = (how: string) => {
      ended ??= how;
      wake();
      resolve();
    };
    child.once("error", (error) => end(error.message));
    child.once("exit", (code, signal) => end(signal ?? `exit code ${code}`));
  });
  child.stdin.on("error", () => {});
  child.stdout.on("data", (bytes: Buffer) => {
    output += bytes.toString("latin1");
    wake();
  });
  const type = (bytes: string) => child.stdin.write(Buffer.from(bytes, "latin1"));
  /** True once `isThere`; false after `ms`. */
  const waitFor = (isThere: () => boolean, ms: number): Promise<boolean> =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => done(() => resolve(isThere())), ms);
      const done = (settle: () => void) => {
        clearTimeout(timer);
        wake = () => {};
        settle();
      };
      wake = () => {
        if (isThere()) done(() => resolve(true));
        else if (ended) done(() => reject(new Error(`the interpreter ended (${ended})`)));
      };
      wake();
    });
  const need = async (isThere: () => boolean, ms: number, what: string): Promise<void> => {
    if (!(await waitFor(isThere, ms))) throw new Error(`the interpreter did not answer: ${what}`);
  };
  const stop = async (): Promise<void> => {
    child.kill("SIGKILL");
    await gone;
    await rm(folder, { recursive: true, force: true });
  };

  /** Types a line and waits for the prompt that follows it. */
  const typeLine = async (line: string): Promise<void> => {
    const from = output.length;
    type(`${line}\n`);
    const isAnswered = () => output.length > from && /\n[>:]$/.test(output);
    await waitFor(isAnswered, line.startsWith("\x10") ? SILENT_MS : PROBE_MS);
  };
  let marks = 0;
  /** Has the interpreter print a mark after `ms`; gives the place where it stands. */
  const mark = async (ms: number): Promise<number> => {
    const text = `<<${++marks}:${Math.random().toString(36).slice(2)}>>`;
    const from = output.length;
    type(`\x10setTimeout(function(){print(${JSON.stringify(text.slice(0, 2))}+${JSON.stringify(text.slice(2))})},${ms})\n`);
    await need(() => output.indexOf(text, from) >= 0, PROBE_MS + ms, "no mark was printed");
    return output.indexOf(text, from);
  };
  const query = async (expression: string): Promise<string> => {
    const from = output.length;
    await typeLine(`print("<"+"<"+(${expression})+">"+">")`);
    return /<<(.*)>>/.exec(output.slice(from))?.[1] ?? "";
  };

  try {
    await need(() => output.endsWith(BANNER_END), START_MS, "no prompt at start");
    const version = await query("process.version");
    const has = new Set<Need>();
    if ((await query('"\xc3\xa9".length')) === "2") has.add("bytes");
    if ((await query('process.memory().blocksize+" "+process.memory().total')) === "14 4000") has.add("variables");
    // Flash on another chip is named apart, and cannot be mapped.
    if ((await query("process.env.SPIFLASH")) === "undefined") has.add("flash");
    const from = output.length;
    await typeLine("0();");
    if (output.slice(from).split("0();").length > 2) has.add("lines");
    return {
      has,
      version,
      async run(probe, server) {
        let from = output.length;
        // What the probe before has left in flash must not be found.
        type("\x10require('Storage').eraseAll()\nreset()\n");
        await need(() => output.indexOf(BANNER_END, from) >= 0, START_MS, "reset() gave no prompt");
        from = output.length - 1;
        for (const line of probe.input) {
          await typeLine(fillPorts(line, server));
          if (probe.waitMs) await new Promise((resolve) => setTimeout(resolve, probe.waitMs));
        }
        await waitFor(() => isOver(probe, output.slice(from)), PROBE_MS);
        const end = await mark(1);
        const shown = output.slice(from, end);
        return settle(probe, shown.endsWith(LINE_REMOVED) ? shown.slice(0, -LINE_REMOVED.length) : shown, server);
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
};
