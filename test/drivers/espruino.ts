import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile as writeToDisk } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { crc32 } from "node:zlib";
import type { AgentEvent } from "../../firmware/types";
import { decodeStrings, toBytes } from "./bytes";
import { type ConsoleLog, createConsoleLog } from "./console-log";
import { serve } from "./serve";
import { createTestBoard, waitForPrompt } from "./test-board";
import { defaultSettings, type Driver, type ExpectOptions, type Memory, type TestBoard } from "./types";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** Raw bytes in one `Storage.write` line: escaped, the line and its literal still fit a board of 2,500 variables. */
const PIECE_BYTES = 512;

/** How often a board is loaded anew where a line did not arrive as it was typed. See `Interpreter.query`. */
const LOAD_ATTEMPTS = 3;
const LOAD_LINE_MS = 3000;

/** Bytes in one variable of an ESP32's interpreter with up to 4,096 variables. */
const ESP32_BLOCKSIZE = 14;

/** The byte typed in place of Ctrl-D: the Linux build ends when it reads a 0x04, whoever has the console. */
const CTRL_D_STAND_IN = "\x1d";

interface Interpreter {
  log: ConsoleLog;
  /** Every event the observer has sent. */
  events: AgentEvent[];
  type(bytes: string): void;
  /**
   * Types a line that sends the JSON value of `expression`, and takes it out of the log again. With echo, though it
   * need not be seen: the Linux build's input thread and its main loop share a queue without a lock, and bytes get lost
   * when the main loop reads as fast as the thread writes. Echoing keeps it slower.
   */
  query<T>(expression: string, options?: ExpectOptions): Promise<T>;
  /** Ends the process. Throws where it had ended on its own. */
  kill(): Promise<void>;
}

function startInterpreter(binary: string, folder: string, env: NodeJS.ProcessEnv): Interpreter {
  const events: AgentEvent[] = [];
  const replies = new Map<number, unknown>();
  let lastQuery = 0;
  let ended: string | undefined;
  const log = createConsoleLog((frame) => {
    const reply = /^#(\d+) /.exec(frame);
    if (reply) replies.set(Number(reply[1]), decodeStrings(JSON.parse(frame.slice(reply[0].length))));
    else events.push(decodeStrings(JSON.parse(frame)) as AgentEvent);
  });
  const child = spawn(binary, [], { cwd: folder, env, stdio: ["pipe", "pipe", "pipe"] });
  const gone = new Promise<void>((resolve) => {
    const end = (how: string): void => {
      ended ??= how;
      log.fail(new Error(`the interpreter ended (${how})`));
      resolve();
    };
    child.once("error", (error) => end(error.message));
    child.once("exit", (code, signal) => end(signal ?? `exit code ${code}`));
  });
  let errors = "";
  child.stdout.on("data", (bytes: Buffer) => {
    try {
      log.feed(bytes.toString("latin1"));
    } catch (error) {
      log.fail(error as Error);
    }
  });
  child.stderr.on("data", (bytes: Buffer) => (errors += bytes.toString("latin1")));
  // Writing to a process that has just ended is reported by its exit.
  child.stdin.on("error", () => undefined);

  return {
    log,
    events,
    type(bytes) {
      child.stdin.write(Buffer.from(bytes, "latin1"));
    },
    async query<T>(expression: string, options?: ExpectOptions): Promise<T> {
      const id = ++lastQuery;
      const line = `USB.write("\\x01#${id} "+JSON.stringify([${expression}])+"\\x02")\n`;
      child.stdin.write(Buffer.from(line, "latin1"));
      const printed = `${line}=undefined\n>`;
      // The prompt comes after the reply; output in between (of a run, of a timer) keeps the two apart.
      const reply = await log.wait(
        () => (log.bytes().endsWith(">") ? (replies.get(id) as [T] | undefined) : undefined),
        `the value of ${expression.slice(0, 80)}`,
        options,
      );
      replies.delete(id);
      log.cut(printed);
      return reply[0];
    },
    async kill() {
      const crashed = ended;
      child.kill("SIGKILL");
      await gone;
      if (crashed) {
        throw new Error(`the interpreter ended on its own (${crashed})\n${errors}\n${log.text().slice(-1500)}`);
      }
    },
  };
}

/** Older images in the cache are of bundles that are built no more. */
const IMAGE_MAX_AGE_MS = 24 * 3600 * 1000;

function literal(bytes: string): string {
  const escape = (c: string): string => `\\x${c.charCodeAt(0).toString(16).padStart(2, "0")}`;
  return `"${bytes.replace(/[\x00-\x1f"\\\x7f-\xff]/g, escape)}"`;
}

async function writeFile(board: Interpreter, name: string, content: string | Uint8Array): Promise<void> {
  const bytes = typeof content === "string" ? toBytes(content) : Buffer.from(content).toString("latin1");
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    // The console takes time for each character, and a byte that is none would need four.
    const piece = bytes.slice(at, at + PIECE_BYTES);
    const isText = literal(piece).length < 1.3 * piece.length;
    const data = isText ? literal(piece) : `atob("${Buffer.from(piece, "latin1").toString("base64")}")`;
    const line = `require("Storage").write(${literal(toBytes(name))},${data},${at},${bytes.length})`;
    const ok = await board.query(line, { giveUpMs: LOAD_LINE_MS });
    if (ok !== true) throw new Error(`Storage.write of ${name} at ${at} gave ${JSON.stringify(ok)}`);
  }
  const checksum = `E.CRC32(require("Storage").read(${literal(toBytes(name))}))`;
  const sum = await board.query<number>(checksum, { giveUpMs: LOAD_LINE_MS });
  if (sum !== crc32(Buffer.from(bytes, "latin1"))) throw new Error(`${name} did not arrive as it was sent`);
}

/** Powers an interpreter up in `folder`, writes the files into its flash and ends it. */
async function loadFlash(
  binary: string,
  folder: string,
  image: string | undefined,
  files: Record<string, string | Uint8Array>,
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    if (image) await copyFile(image, join(folder, "espruino.flash"));
    else await rm(join(folder, "espruino.flash"), { force: true });
    const board = startInterpreter(binary, folder, { ...process.env, ESPR_VARS: undefined });
    try {
      await waitForPrompt(board.log);
      for (const [name, content] of Object.entries(files)) await writeFile(board, name, content);
      await board.kill();
      return;
    } catch (error) {
      await board.kill().catch(() => undefined);
      if (attempt === LOAD_ATTEMPTS) throw error;
    }
  }
}

/**
 * A flash image that holds the bundle and nothing that starts it. Typing the bundle in takes seconds, so the image is
 * kept beside the dependencies for each pair of bundle and interpreter.
 */
async function flashImage(binary: string, bundle: Uint8Array): Promise<string> {
  const { size, mtimeMs } = await stat(binary);
  const key = createHash("sha256").update(bundle).update(`${binary} ${size} ${mtimeMs}`).digest("hex").slice(0, 24);
  const cache = join(root, "node_modules", ".cache", "espruino-flash");
  const image = join(cache, `${key}.flash`);
  if (await stat(image).catch(() => undefined)) return image;
  await mkdir(cache, { recursive: true });
  for (const name of await readdir(cache)) {
    const old = await stat(join(cache, name)).catch(() => undefined);
    if (old && Date.now() - old.mtimeMs > IMAGE_MAX_AGE_MS) await rm(join(cache, name), { force: true });
  }
  const folder = await mkdtemp(join(tmpdir(), "espruino-flash-"));
  try {
    await loadFlash(binary, folder, undefined, { agent: bundle });
    const own = `${image}.${process.pid}`;
    await copyFile(join(folder, "espruino.flash"), own);
    await rename(own, image);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return image;
}

/**
 * The real interpreter, built for Linux, in a folder of its own. The model is a real HTTP server on the loopback
 * interface and time is real time.
 */
export function espruinoDriver(binary: string): Driver {
  return {
    name: "espruino",
    async start(options) {
      const { model, observe = true } = options;
      const bundle = options.bundle ?? (await readFile(join(root, "dist", "agent.js")));
      const image = await flashImage(binary, bundle);
      const folder = await mkdtemp(join(tmpdir(), "espruino-board-"));
      const env = { ...process.env, ...(options.variables ? { ESPR_VARS: String(options.variables) } : {}) };
      const server = await serve((request) => model.handle(request), (problem) => model.reportProblem(problem));
      const baseUrl = `${server.url}/v1`;
      let board: Interpreter | undefined;

      async function end(): Promise<void> {
        model.release();
        try {
          await board?.kill();
        } finally {
          await server.close();
          await rm(folder, { recursive: true, force: true });
        }
      }

      try {
        const settings = JSON.stringify({ ...defaultSettings, baseUrl, ...options.settings });
        const files = { "agent.json": settings, ...options.files, ".bootcde": 'require("agent")' };
        await loadFlash(binary, folder, image, files);
        for (const [name, content] of Object.entries(options.card ?? {})) await writeToDisk(join(folder, name), content);
        board = startInterpreter(binary, folder, env);
        await waitForPrompt(board.log);
        return await drive(board, { baseUrl, cardFolder: folder, observe, end });
      } catch (error) {
        await end().catch(() => undefined);
        throw error;
      }
    },
  };
}

/** As a person would look: a query's own line costs variables that a person's does not. */
async function readMemory({ log, type }: Interpreter): Promise<Memory> {
  const from = log.bytes().length;
  const line = "process.memory()\n";
  type(line);
  await waitForPrompt(log, from + line.length, "process.memory()");
  const printed = log.bytes().slice(from);
  log.cut(printed);
  const read = (name: string): number => {
    const found = new RegExp(`\\b${name}: (\\d+)`).exec(printed);
    if (!found) throw new Error(`process.memory() printed no ${name}: ${printed}`);
    return Number(found[1]);
  };
  return { usage: read("usage"), total: read("total"), free: read("free"), blocksize: read("blocksize") };
}

async function drive(
  board: Interpreter,
  { baseUrl, cardFolder, observe, end }: { baseUrl: string; cardFolder: string; observe: boolean; end: () => Promise<void> },
): Promise<TestBoard> {
  const { blocksize } = await readMemory(board);
  const hasByteStrings = (await board.query<number>(`"${toBytes("é")}".length`)) === 2;
  // USB.write also prints while the chat mode has taken the console away from print.
  if (observe) await board.query('E.on("agent",function(e){USB.write("\\x01"+JSON.stringify(e)+"\\x02")})');
  return createTestBoard({
    log: board.log,
    events: observe ? board.events : undefined,
    baseUrl,
    cardFolder,
    hasHardware: false,
    memoryKind: blocksize === ESP32_BLOCKSIZE ? "esp32" : "other",
    hasByteStrings,
    type: (bytes) => board.type(bytes.replaceAll("\x04", CTRL_D_STAND_IN)),
    // The first line may be read just before a timer is due. The input thread then sleeps 50 ms before the second.
    async settle() {
      await board.query("0");
      await board.query("0");
    },
    async beforeChat() {
      // The agent may have taken every listener off when it left the chat, or only its own.
      const forward = `function(d){if(d==${literal(CTRL_D_STAND_IN)})USB.emit("data","\\x04")}`;
      await board.query(`(USB.removeAllListeners("data"),USB.on("data",${forward}))`);
    },
    memory: () => readMemory(board),
    // Where the interpreter keeps what must not be collected, under a name that no program uses by chance.
    timers: () => board.query<number>('Object.keys(global["\\xff"].timers).length'),
    async file(name) {
      return (await board.query<string | null>(`require("Storage").read(${literal(toBytes(name))})`)) ?? undefined;
    },
    advance: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
    stop: end,
  });
}
