/** `espruino-agent sim`, which is `npm start`: the agent's bundle on a simulated board, and a console to it. */
import { closeSync, constants, existsSync, fchmodSync, fstatSync, ftruncateSync, openSync, writeFileSync } from "node:fs";
import path from "node:path";
import { createBoard, type Board, type BoardOptions } from "../host-sim/board";
import { createCamera } from "../host-sim/camera";
import { realClock } from "../host-sim/clock";
import { servePty, serveTcp } from "../host-sim/peer";
import { createModelServer, type ModelServer } from "../host-sim/model/server";
import { modelName } from "../host-sim/model/sentence";
import { createSdCard } from "../host-sim/sd";
import { createStorage, encodeName, type Storage } from "../host-sim/storage";
import { makeBundle } from "./bundle";
import type { Command, Surroundings } from "./command";
import { askOnce, runConsole, showConsole, watchAgent, type Watch } from "./console";
import { hidingSources, layOver, readEnvironment, savedSettings, UsageError, type Settings } from "./settings";
import { decodeValue, fromBytes, toBytes } from "./text";

export const simCommand: Command = {
  name: "sim",
  usage: "[options]",
  summary: "Runs the agent on a simulated board and opens its console",
  examples: [
    "espruino-agent sim",
    'espruino-agent sim --ask "what is 21 times 2"',
    "AGENT_BASE_URL=http://localhost:11434/v1 AGENT_MODEL=qwen3 espruino-agent sim",
    'echo "turn on D2" | espruino-agent sim --events events.jsonl --state state.json',
    'espruino-agent sim --sd card --camera pictures --ask "take a photo"',
    "espruino-agent sim --listen 3333    # for flash, console, doctor and others: --port tcp://127.0.0.1:3333",
  ],
  options: [
    ["--ask <text>", "Ask once, print only the answer, and exit"],
    ["--events <file>", "Write the agent's events as JSON lines"],
    ["--state <file>", "Write the board's final state as JSON"],
    ["--storage <dir>", "Keep the board's flash in a folder between starts"],
    ["--sd <dir>", "Put an SD card into the board: a folder, whose files are sd:NAME on the board"],
    ["--camera <dir>", "Wire a serial camera to the board, which takes the .jpg files of a folder, one after the other"],
    ["--listen <address>", "Offer the board's serial console on TCP: a port of 127.0.0.1, or HOST:PORT"],
    ["--pty", "Offer it as a pseudo-terminal, which other programs take for a serial port"],
  ],
  notes: `
Environment:
  AGENT_BASE_URL  OpenAI-compatible server, up to /v1 (default: the offline stand-in)
  AGENT_API_KEY   its key
  AGENT_MODEL     name of the model
  AGENT_PROVIDER  dialect of the server: openai (default) or anthropic
  AGENT_CONFIG    JSON file of settings, laid over the board's own

With --sd or --camera, multimodal is true for this start where it is not set, and with --camera cameraPort is Serial2.

Lines piped to it are typed at the console. With --listen or --pty the console is at Espruino's own prompt, not in the
agent's chat, and the program goes on until Ctrl-D or a signal: whoever reaches the port can run code on the board. A
loop of the board's program then runs until Ctrl-C comes from there, as on a board. The simulated board is in the open
network "espruino-sim": AGENT_WIFI_PASSWORD= espruino-agent flash --wifi espruino-sim joins it.
Exit codes: 0 done; 1 the run failed (of piped lines: any run), a file could not be written, or the port
cannot be had; 2 bad usage.`,
  async run(positional, options, io) {
    if (positional.length > 0) {
      throw new UsageError(`unexpected ${JSON.stringify(positional[0])}: put a text with spaces in quotes after --ask`);
    }
    for (const name of ["events", "state"] as const) {
      if (options[name] === "-") throw new UsageError(`--${name}: name a file, "-" is none`);
    }
    const isOffered = options.listen !== undefined || options.pty === true;
    if (isOffered && options.ask !== undefined) throw new UsageError("--ask asks once and exits: nobody could connect");
    if (options.listen !== undefined) readListen(options.listen as string);
    return start(options as SimOptions, io);
  },
};

interface SimOptions {
  ask?: string;
  events?: string;
  state?: string;
  storage?: string;
  sd?: string;
  camera?: string;
  listen?: string;
  pty?: boolean;
}

/** `3333` or `HOST:3333`. */
function readListen(text: string): { host?: string; port: number } {
  const [, host, port] = /^(?:(\[[^\]]+\]|[^:\s]+):)?(\d{1,5})$/.exec(text) ?? [];
  if (port === undefined || Number(port) > 65_535) {
    throw new UsageError(`--listen: ${JSON.stringify(text)} is no port such as 3333 or 0.0.0.0:3333`);
  }
  return { host: host?.replace(/^\[|\]$/g, ""), port: Number(port) };
}

/**
 * Offers the board's console to other programs, and says where. Returns what ends it.
 * @throws {Error} the port or the pseudo-terminal cannot be had, in words
 */
async function offer(
  board: Board,
  options: SimOptions,
  { stdout, stderr }: Surroundings,
): Promise<() => Promise<void>> {
  const onNotice = (text: string): void => void stderr.write(`${text}\n`);
  const peers: { close(): Promise<void> }[] = [];
  const close = async (): Promise<void> => void (await Promise.all(peers.map((peer) => peer.close())));
  try {
    if (options.listen !== undefined) {
      const peer = await serveTcp(board, { ...readListen(options.listen), onNotice });
      peers.push(peer);
      const host = peer.host.includes(":") ? `[${peer.host}]` : peer.host;
      stdout.write(`console: tcp://${host}:${peer.port}\n`);
    }
    if (options.pty === true) {
      const peer = await servePty(board, { onNotice });
      peers.push(peer);
      stdout.write(`console: ${peer.path}\n`);
    }
  } catch (error) {
    await close();
    throw error;
  }
  return close;
}

/** What `--sd` and `--camera` plug into the board, and the settings that go with it where they are not set. */
function openDevices(options: SimOptions, known: Settings): { hardware: BoardOptions; settings: Settings } {
  const clock = realClock();
  const settings: Settings = options.camera === undefined ? {} : { cameraPort: "Serial2", cameraBaud: 115_200 };
  if (options.sd !== undefined || options.camera !== undefined) settings.multimodal = true;
  for (const name of Object.keys(settings)) if (Object.hasOwn(known, name)) delete settings[name];
  const { cameraPort, cameraBaud } = { ...known, ...settings };
  const plugIn = <T>(option: string, make: () => T): T => {
    try {
      return make();
    } catch (error) {
      throw new UsageError(`--${option}: ${(error as Error).message}`);
    }
  };
  const { sd, camera } = options;
  const hardware: BoardOptions = { clock };
  if (sd !== undefined) hardware.sd = plugIn("sd", () => createSdCard(sd));
  if (camera !== undefined) {
    const make = () => createCamera({ clock, pictures: camera, baud: Number(cameraBaud) });
    hardware.serial = { [String(cameraPort)]: plugIn("camera", make) };
  }
  return { hardware, settings };
}

/** A file that `--events` or `--state` names. */
interface OutputFile {
  descriptor: number;
  /** Writes all of `text`. Returns what went wrong as a line for the person; "" where it was written. */
  write(text: string): string;
}

/** Events and state hold what people typed and what tools gave: they are for their owner alone. */
const fileMode = 0o600;

function narrow(descriptor: number): void {
  try {
    fchmodSync(descriptor, fileMode);
  } catch {
    // It is another user's, who lets this one write it.
  }
}

/** Opened at the start so that a bad path is told at once; what is in it stays until `emptyFiles`. */
function openFile(option: string, file: string): OutputFile {
  const problem = (error: unknown): string => `--${option}: ${file} cannot be written: ${(error as Error).message}`;
  let descriptor: number;
  try {
    descriptor = openSync(file, constants.O_WRONLY | constants.O_CREAT, fileMode);
    // One from an earlier start, too; not a device, nor what is somebody else's.
    if (fstatSync(descriptor).isFile()) narrow(descriptor);
  } catch (error) {
    throw new UsageError(problem(error));
  }
  return {
    descriptor,
    write(text) {
      try {
        writeFileSync(descriptor, text);
        return "";
      } catch (error) {
        return problem(error);
      }
    },
  };
}

/** Refuses one file under two names, before anything in it is lost. */
function emptyFiles(files: OutputFile[]): void {
  const stats = files.map(({ descriptor }) => fstatSync(descriptor));
  const [first, second] = stats;
  if (first && second && first.dev === second.dev && first.ino === second.ino) {
    throw new UsageError("--events and --state name the same file: name two");
  }
  files.forEach(({ descriptor }, index) => stats[index]!.isFile() && ftruncateSync(descriptor));
}

async function start(options: SimOptions, surroundings: Surroundings): Promise<number> {
  const { env, stdout, stderr } = surroundings;
  const environment = readEnvironment(env);
  let showText: (text: string) => void = () => {};
  const storage = openStorage(options.storage, (text) => showText(text));

  const files: OutputFile[] = [];
  let model: ModelServer | undefined;
  let board: Board | undefined;
  let closeOffer: (() => Promise<void>) | undefined;
  try {
    const open = (option: "events" | "state"): OutputFile | undefined => {
      const file = options[option] === undefined ? undefined : openFile(option, options[option]);
      if (file !== undefined) files.push(file);
      return file;
    };
    const events = open("events");
    const state = open("state");
    emptyFiles(files);

    const code = await makeBundle(surroundings.build, stderr);
    if (code === undefined) return 1;

    const savedBytes = savedSettings(storage);
    const saved = (decodeValue(savedBytes) ?? {}) as Settings;
    const standIn: Settings = {};
    if (!{ ...saved, ...environment }.baseUrl) {
      model = await createModelServer();
      Object.assign(standIn, { baseUrl: model.url, model: modelName, provider: "openai" });
    }
    const devices = openDevices(options, { ...saved, ...environment });
    const settings = { ...environment, ...standIn, ...devices.settings };
    const sources = hidingSources(saved, env, environment, standIn);
    const line = `${tellModel({ ...saved, ...settings }, model !== undefined)}${tellHiding(sources)}\n`;
    (options.ask !== undefined ? stderr : stdout).write(line);
    if (savedBytes === undefined && storage.api.read("agent.json") !== undefined) {
      stderr.write("agent.json on the board is not a JSON object: it is left as it is and not used\n");
    }

    install(storage, code);
    const onLongRun = (isRunning: boolean): void => tellLongRun(isRunning, surroundings);
    board = createBoard({ ...devices.hardware, storage: layOver(storage, settings), onLongRun });
    const watch = watchAgent(board);
    const broken = new AbortController();
    const problems: string[] = [];
    watch.onEvent((event) => {
      if (events === undefined || broken.signal.aborted) return;
      const problem = events.write(`${JSON.stringify(event)}\n`);
      if (problem === "") return;
      problems.push(problem);
      broken.abort(1);
    });
    showText = (text) => void (options.ask === undefined && stdout.write(text));
    const signal = AbortSignal.any([surroundings.signal, broken.signal]);
    const isOffered = options.listen !== undefined || options.pty === true;
    if (isOffered) {
      try {
        closeOffer = await offer(board, options, surroundings);
      } catch (error) {
        stderr.write(`${(error as Error).message}\n`);
        return 1;
      }
    }
    const exitCode = await talk(board, watch, { question: options.ask, isOffered }, { ...surroundings, signal });

    const problem = state?.write(`${JSON.stringify(board.state(), null, 2)}\n`);
    if (problem) problems.push(problem);
    for (const text of problems) stderr.write(`${text}\n`);
    return problems.length > 0 ? exitCode || 1 : exitCode;
  } finally {
    await closeOffer?.();
    board?.stop();
    await model?.close();
    for (const { descriptor } of files) closeSync(descriptor);
  }
}

/**
 * As long as the board's program runs without a pause, this process cannot look at the keyboard or at signals: they end
 * it at once, and the keys make signals.
 */
function tellLongRun(isRunning: boolean, { stdin, stderr, onBlocked }: Surroundings): void {
  onBlocked?.(isRunning);
  if (stdin.isTTY) stdin.setRawMode?.(!isRunning);
  const text = isRunning
    ? "the board's program goes on without a pause, as on a real board: Ctrl-C at a connected console breaks it; " +
      "here Ctrl-C or a signal ends the simulated board"
    : "the board's program has paused: the board listens again";
  stderr.write(`[${text}]${stdin.isTTY ? "\r" : ""}\n`);
}

/** From power-up to the end of the conversation. Returns the exit code; the terminal is as it was before. */
async function talk(
  board: Board,
  watch: Watch,
  { question, isOffered }: { question: string | undefined; isOffered: boolean },
  to: Surroundings,
): Promise<number> {
  const { stdin, stdout, stderr, signal } = to;
  const aborted = new Promise<number>((resolve) => {
    if (signal.aborted) resolve(signal.reason as number);
    signal.addEventListener("abort", () => resolve(signal.reason as number));
  });
  if (question !== undefined) {
    boot(board, (problem) => stderr.write(`${problem}\n`));
    const outcome = await Promise.race([askOnce(board, watch, question), aborted]);
    if (typeof outcome === "number") return outcome;
    if ("failure" in outcome) {
      stderr.write(`${outcome.failure}\n`);
      return 1;
    }
    stdout.write(`${outcome.answer.trimEnd()}\n`);
    return 0;
  }

  let hasFailed = false;
  watch.onEvent((event) => {
    if (event.type === "final" && event.isError && !event.agent) hasFailed = true;
  });
  const endOutput = showConsole(board, stdout, stdin.isTTY !== true && stdout.isTTY !== true);
  try {
    boot(board, () => {});
    // \x10: the line itself is not shown, nor a prompt after it.
    if (!isOffered) board.console.write("\x10main_loop_entry()\n");
    const typed = runConsole(board, watch, stdin);
    // The end of a pipe's input is not the end for those who are connected.
    const isOver = isOffered && !stdin.isTTY ? typed.then(() => aborted) : typed;
    const end = await Promise.race([isOver, aborted]);
    if (typeof end === "number") return end;
    // A person at a terminal has seen what failed and gone on.
    return hasFailed && !stdin.isTTY ? 1 : 0;
  } finally {
    if (stdin.isTTY) stdin.setRawMode?.(false);
    endOutput();
  }
}

function openStorage(dir: string | undefined, print: (text: string) => void): Storage {
  if (dir !== undefined) refuseFile(dir);
  try {
    return createStorage({ dir, print });
  } catch (error) {
    throw new UsageError(`--storage: ${(error as Error).message}`);
  }
}

/**
 * Refuses what Espruino's own command line takes for `--storage`, NAME:FILE: a folder of that name would be made, and the
 * file would not be on the board.
 */
function refuseFile(dir: string): void {
  const at = dir.indexOf(":");
  if (at < 0 || existsSync(dir)) return;
  const [name, file] = [dir.slice(0, at), dir.slice(at + 1)];
  // On Windows, C:\flash is a folder.
  if (!path.basename(dir).includes(":") && !existsSync(file)) return;
  throw new UsageError(
    `--storage: ${JSON.stringify(dir)} is no folder: name one for the board's flash, and to put a file into it, copy ` +
      `${file || "it"} to DIR/${encodeName(toBytes(name))}`,
  );
}

const bootCode = 'require("agent")';

/** Puts the bundle into the board's flash. A start-up file of the person's own is left as it is. */
function install(storage: Storage, code: string): void {
  try {
    if (storage.api.read("agent") !== code) storage.api.write("agent", code);
    if (storage.api.read(".bootcde") === undefined) storage.api.write(".bootcde", bootCode);
  } catch (error) {
    // What the board's flash says has a `type`; the rest is about the folder.
    if (!Object.hasOwn(error as Error, "type")) throw new UsageError(`--storage: ${(error as Error).message}`);
    const free = storage.api.getFree();
    throw new UsageError(
      `--storage: the bundle (${code.length} bytes) does not fit, ${free} are free: ${String(error)}`,
    );
  }
}

/** Powers the board up and makes sure the agent runs. `onProblem` gets what the board says about its settings. */
function boot(board: Board, onProblem: (problem: string) => void): void {
  let printed = "";
  const stop = board.console.onData((bytes) => (printed += bytes));
  board.boot();
  if (!/require\(\s*["']agent["']\s*\)/.test(board.storage.api.read(".bootcde") ?? "")) board.evaluate(bootCode);
  stop();
  for (const line of fromBytes(printed).split(/\r?\n/)) if (line.startsWith("agent.json")) onProblem(line);
}

/** One line: which model answers, without anything secret a URL may hold. */
function tellModel(settings: Settings, isOffline: boolean): string {
  if (isOffline) return `model: ${modelName} at ${String(settings.baseUrl)} (set AGENT_BASE_URL to use a real one)`;
  const name = settings.model ? String(settings.model) : "the server's default";
  if (!URL.canParse(String(settings.baseUrl))) return `model: ${name} at a baseUrl that is no URL`;
  const url = new URL(String(settings.baseUrl));
  url.username = url.password = url.search = "";
  return `model: ${name} at ${url.href}`;
}

/** The end of that line, where settings of the board's own are not in use. */
function tellHiding(sources: string[]): string {
  if (sources.length === 0) return "";
  const list = sources.join(" and ");
  return `; for this start, ${list} ${sources.length > 1 ? "are" : "is"} laid over the board's own settings`;
}
