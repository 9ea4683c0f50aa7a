import { execFile, execFileSync } from "node:child_process";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { espruinoDriver } from "../test/drivers/espruino";
import type { StartOptions, TestBoard } from "../test/drivers/types";

const CACHE = fileURLToPath(new URL("../node_modules/.cache/bench/", import.meta.url));

/** A file in the flash of the power-up that is measured. Loading the flash goes faster without valgrind. */
const MARK = "measured-by-bench";

/** Real milliseconds for one look at a process under valgrind. */
const LOOK_MS = 50;

const run = promisify(execFile);

/** Whether valgrind, with its callgrind, is installed. */
export function hasValgrind(): boolean {
  try {
    execFileSync("valgrind", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** A command that is `binary`, except that a power-up with `MARK` in its flash runs under valgrind. */
async function wrapper(binary: string, tool: string): Promise<string> {
  const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
  const script = `#!/bin/sh
if [ -n "$BENCH_OUT" ] && grep -aq ${MARK} espruino.flash 2>/dev/null; then
  echo $$ > "$BENCH_OUT/pid"
  exec valgrind ${tool} ${quote(binary)} 2> "$BENCH_OUT/log"
fi
exec ${quote(binary)}
`;
  await mkdir(CACHE, { recursive: true });
  const file = join(CACHE, `espruino-${/--tool=(\w+)/.exec(tool)![1]}`);
  // Left as it is where nothing changed: images of loaded flash are kept by the time of the interpreter's file.
  if ((await readFile(file, "utf8").catch(() => "")) !== script) {
    await writeFile(file, script);
    await chmod(file, 0o755);
  }
  return file;
}

/** Starts a board under valgrind; its output goes to `folder`. */
async function start(
  binary: string,
  tool: string,
  options: StartOptions,
): Promise<{ board: TestBoard; folder: string; pid: string }> {
  const folder = await mkdtemp(join(tmpdir(), "espruino-bench-"));
  process.env.BENCH_OUT = folder;
  try {
    const files = { ...options.files, ".bench": MARK };
    const board = await espruinoDriver(await wrapper(binary, tool)).start({ ...options, files, observe: false });
    return { board, folder, pid: (await readFile(join(folder, "pid"), "utf8")).trim() };
  } finally {
    delete process.env.BENCH_OUT;
  }
}

/** What callgrind counted: instructions in all, and by function what it and all it called took. */
export interface Profile {
  total: number;
  inclusive(name: string): number | undefined;
}

/** Reads callgrind's output format: a line of costs after `calls=` is what the called function took in all. */
function readProfile(text: string): Profile {
  const names = new Map<string, string>();
  const inclusive = new Map<string, number>();
  let called: string | undefined;
  let isCall = false;
  const name = (token: string): string => {
    const [, id, given] = /^\((\d+)\)(?: (.*))?$/.exec(token)!;
    if (given !== undefined) names.set(id!, given);
    return names.get(id!)!;
  };
  for (const line of text.split("\n")) {
    if (line.startsWith("fn=")) name(line.slice(3));
    else if (line.startsWith("cfn=")) called = name(line.slice(4));
    else if (line.startsWith("calls=")) isCall = true;
    else if (isCall) {
      isCall = false;
      inclusive.set(called!, (inclusive.get(called!) ?? 0) + Number(line.split(" ").at(-1)));
    }
  }
  return {
    total: Number(/^(?:totals|summary): (\d+)/m.exec(text)![1]),
    inclusive: (wanted) => inclusive.get(wanted),
  };
}

export interface CountedBoard {
  board: TestBoard;
  /** Instructions that the interpreter takes while `work` goes on, idling included. */
  count(work: () => Promise<void>): Promise<Profile>;
  /** Instructions since power-up, or since the last count. */
  sofar(): Promise<Profile>;
  stop(): Promise<void>;
}

/** A board whose interpreter's instructions are counted. Everything takes some fifty times as long. */
export async function countedBoard(binary: string, options: StartOptions): Promise<CountedBoard> {
  const { board, folder, pid } = await start(
    binary,
    '--tool=callgrind --callgrind-out-file="$BENCH_OUT/profile"',
    options,
  );
  const control = (option: string): Promise<unknown> => run("callgrind_control", [option, pid]);
  const profiles = async (): Promise<string[]> => (await readdir(folder)).filter((file) => /^profile\.\d+$/.test(file));

  async function sofar(): Promise<Profile> {
    const before = await profiles();
    await control("--dump");
    for (;;) {
      const file = (await profiles()).find((one) => !before.includes(one));
      const text = file ? await readFile(join(folder, file), "utf8") : "";
      if (/^(totals|summary): \d+/m.test(text)) return readProfile(text);
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  return {
    board,
    async count(work) {
      await control("--zero");
      await work();
      return sofar();
    },
    sofar,
    async stop() {
      await board.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/**
 * The most stack that the interpreter had in use during `work`, in bytes, its own main loop included. Power-up and what
 * is typed count as well.
 */
export async function deepestStack(
  binary: string,
  options: StartOptions,
  work: (board: TestBoard) => Promise<void>,
): Promise<number> {
  const exact = "--stacks=yes --heap=no --time-unit=i --peak-inaccuracy=0.0 --max-snapshots=10";
  const tool = `--tool=massif ${exact} --massif-out-file="$BENCH_OUT/stack"`;
  const { board, folder } = await start(binary, tool, options);
  try {
    await work(board);
    // It ends properly, so that massif writes down what it saw.
    board.type("quit()\n");
    for (let i = 0; i < 200; i++) {
      const text = await readFile(join(folder, "stack"), "utf8").catch(() => "");
      const sizes = [...text.matchAll(/^mem_stacks_B=(\d+)$/gm)].map((match) => Number(match[1]));
      if (sizes.length) return Math.max(...sizes);
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
    throw new Error(`massif wrote nothing: ${await readFile(join(folder, "log"), "utf8")}`);
  } finally {
    // It has ended on its own, as it was told.
    await board.stop().catch(() => undefined);
    await rm(folder, { recursive: true, force: true });
  }
}
