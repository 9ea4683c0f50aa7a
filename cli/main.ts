/** `npm start`: the agent's bundle on a simulated board, and a console to it. */
import { closeSync, constants, fstatSync, ftruncateSync, openSync, writeFileSync } from "node:fs";
import { cac } from "cac";
import { buildBundle } from "../esbuild.config.mjs";
import { formatProblem } from "../esbuild.check.mjs";
import { createBoard, type Board } from "../host-sim/board";
import { createModelServer, type ModelServer } from "../host-sim/model/server";
import { modelName } from "../host-sim/model/sentence";
import { createStorage, type Storage } from "../host-sim/storage";
import packageJson from "../package.json" with { type: "json" };
import { askOnce, runConsole, showConsole, watchAgent, type Input, type Output, type Watch } from "./console";
import { hidingSources, layOver, readEnvironment, savedSettings, UsageError, type Settings } from "./settings";
import { decodeValue, fromBytes } from "./text";

export interface Surroundings {
  env: Record<string, string | undefined>;
  stdin: Input;
  stdout: Output;
  stderr: Output;
  /** Makes the bundle. Default: the build of this repository, which also writes `dist/`. */
  build?: typeof buildBundle;
  /** Aborted from outside (a signal, a closed pipe); the reason is the exit code. */
  signal: AbortSignal;
}

interface Options {
  ask?: string;
  events?: string;
  state?: string;
  storage?: string;
}

const helpEnd = `
Environment:
  AGENT_BASE_URL  OpenAI-compatible server, up to /v1 (default: the offline stand-in)
  AGENT_API_KEY   its key
  AGENT_MODEL     name of the model
  AGENT_PROVIDER  dialect of the server: openai (default) or anthropic
  AGENT_CONFIG    JSON file of settings, laid over the board's own

Lines piped to it are typed at the console. Exit codes: 0 done; 1 the run failed (of piped lines: any run), or a file
could not be written; 2 bad usage.
`;

/**
 * Runs the program. Returns the exit code: 0, 1 where a run, the build or writing a file failed, 2 for bad usage, or
 * what the signal says. Everything it opened is closed.
 */
export async function main(args: string[], surroundings: Surroundings): Promise<number> {
  const { stderr } = surroundings;
  try {
    const options = readArguments(args, surroundings.stdout);
    return options === undefined ? 0 : await start(options, surroundings);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    stderr.write(`${error.message}\n`);
    return 2;
  }
}

/** Undefined where the arguments only asked for help or the version, which are then printed. */
function readArguments(args: string[], stdout: Output): Options | undefined {
  const cli = cac();
  const command = cli
    .command("", "Runs the agent on a simulated board and opens its console")
    .option("--ask <text>", "Ask once, print only the answer, and exit", { type: [String] })
    .option("--events <file>", "Write the agent's events as JSON lines", { type: [String] })
    .option("--state <file>", "Write the board's final state as JSON", { type: [String] })
    .option("--storage <dir>", "Keep the board's flash in a folder between starts", { type: [String] })
    .option("--version", "Print the version")
    .option("--help", "Print this");
  const { places, texts } = takeTexts(
    args,
    command.options.filter((option) => option.required).map((option) => option.name),
  );
  const parsed = cli.parse(["node", "start", ...places], { run: false });
  if (parsed.options.help === true) {
    const lines = command.options.map((option) => `  ${option.rawName.padEnd(17)}${option.description}\n`);
    stdout.write(`${command.description}.\n\nUsage: npm start -- [options]\n\n${lines.join("")}${helpEnd}`);
    return undefined;
  }
  try {
    command.checkUnknownOptions();
    command.checkOptionValue();
  } catch (error) {
    throw new UsageError(`${(error as Error).message}; --help lists the options`);
  }
  if (parsed.args.length > 0) {
    throw new UsageError(`unexpected ${JSON.stringify(parsed.args[0])}: put a text with spaces in quotes after --ask`);
  }
  if (parsed.options.version === true) return void stdout.write(`${packageJson.version}\n`);
  const options: Options = {};
  for (const name of ["ask", "events", "state", "storage"] as const) {
    const given = parsed.options[name] as string[] | undefined;
    if (given === undefined) continue;
    if (given.length > 1) throw new UsageError(`--${name} was given more than once`);
    options[name] = texts[Number(given[0])]!;
    if (options[name].trim() === "") throw new UsageError(`--${name} needs a value that is not empty`);
  }
  for (const name of ["events", "state"] as const) {
    if (options[name] === "-") throw new UsageError(`--${name}: name a file, "-" is none`);
  }
  return options;
}

/**
 * Puts the place in `texts` for the value of an option that takes one, because `cac` would take `-3 plus 5` for options
 * and make 7 of `007`.
 */
function takeTexts(args: string[], names: string[]): { places: string[]; texts: string[] } {
  const texts: string[] = [];
  const places: string[] = [];
  const flags = names.map((name) => `--${name}`);
  for (let i = 0; i < args.length; i += 1) {
    const [, flag, text] = /^(--[^=]+)(?:=(.*))?$/s.exec(args[i]!) ?? [];
    if (flag === undefined || !flags.includes(flag)) {
      places.push(args[i]!);
      continue;
    }
    if (text === undefined) i += 1;
    const value = text ?? args[i];
    if (value === undefined || (text === undefined && flags.includes(value)))
      throw new UsageError(`${flag} needs a value`);
    places.push(`${flag}=${texts.push(value) - 1}`);
  }
  return { places, texts };
}

/** A file that `--events` or `--state` names. */
interface OutputFile {
  descriptor: number;
  /** Writes all of `text`. Returns what went wrong as a line for the person; "" where it was written. */
  write(text: string): string;
}

/** Opened at the start so that a bad path is told at once; what is in it stays until `emptyFiles`. */
function openFile(option: string, file: string): OutputFile {
  const problem = (error: unknown): string => `--${option}: ${file} cannot be written: ${(error as Error).message}`;
  let descriptor: number;
  try {
    descriptor = openSync(file, constants.O_WRONLY | constants.O_CREAT);
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

async function start(options: Options, surroundings: Surroundings): Promise<number> {
  const { env, stdout, stderr } = surroundings;
  const environment = readEnvironment(env);
  let showText: (text: string) => void = () => {};
  const storage = openStorage(options.storage, (text) => showText(text));

  const files: OutputFile[] = [];
  let model: ModelServer | undefined;
  let board: Board | undefined;
  try {
    const open = (option: "events" | "state"): OutputFile | undefined => {
      const file = options[option] === undefined ? undefined : openFile(option, options[option]);
      if (file !== undefined) files.push(file);
      return file;
    };
    const events = open("events");
    const state = open("state");
    emptyFiles(files);

    const code = await makeBundle(surroundings.build ?? buildBundle, stderr);
    if (code === undefined) return 1;

    const savedBytes = savedSettings(storage);
    const saved = (decodeValue(savedBytes) ?? {}) as Settings;
    const standIn: Settings = {};
    if (!{ ...saved, ...environment }.baseUrl) {
      model = await createModelServer();
      Object.assign(standIn, { baseUrl: model.url, model: modelName, provider: "openai" });
    }
    const settings = { ...environment, ...standIn };
    const sources = hidingSources(saved, env, environment, standIn);
    const line = `${tellModel({ ...saved, ...settings }, model !== undefined)}${tellHiding(sources)}\n`;
    (options.ask !== undefined ? stderr : stdout).write(line);
    if (savedBytes === undefined && storage.api.read("agent.json") !== undefined) {
      stderr.write("agent.json on the board is not a JSON object: it is left as it is and not used\n");
    }

    install(storage, code);
    board = createBoard({ storage: layOver(storage, settings) });
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
    const exitCode = await talk(board, watch, options.ask, { ...surroundings, signal });

    const problem = state?.write(`${JSON.stringify(board.state(), null, 2)}\n`);
    if (problem) problems.push(problem);
    for (const text of problems) stderr.write(`${text}\n`);
    return problems.length > 0 ? exitCode || 1 : exitCode;
  } finally {
    board?.stop();
    await model?.close();
    for (const { descriptor } of files) closeSync(descriptor);
  }
}

/** From power-up to the end of the conversation. Returns the exit code; the terminal is as it was before. */
async function talk(board: Board, watch: Watch, question: string | undefined, to: Surroundings): Promise<number> {
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
    if (event.type === "final" && event.isError) hasFailed = true;
  });
  const endOutput = showConsole(board, stdout, stdin.isTTY !== true && stdout.isTTY !== true);
  try {
    boot(board, () => {});
    // \x10: the line itself is not shown, nor a prompt after it.
    board.console.write("\x10main_loop_entry()\n");
    const end = await Promise.race([runConsole(board, watch, stdin), aborted]);
    if (typeof end === "number") return end;
    // A person at a terminal has seen what failed and gone on.
    return hasFailed && !stdin.isTTY ? 1 : 0;
  } finally {
    if (stdin.isTTY) stdin.setRawMode?.(false);
    endOutput();
  }
}

/** The bundle's code; undefined where the sources have problems, which are then told. */
async function makeBundle(build: typeof buildBundle, stderr: Output): Promise<string | undefined> {
  const { code, problems } = await build().catch((error: NodeJS.ErrnoException) => {
    if (error.syscall === undefined) throw error;
    throw new UsageError(`dist/ cannot be written: ${error.message}`);
  });
  if (problems.length === 0) return code;
  for (const problem of problems) stderr.write(`${formatProblem(problem)}\n`);
  stderr.write("the bundle could not be built, so there is nothing to start\n");
  return undefined;
}

function openStorage(dir: string | undefined, print: (text: string) => void): Storage {
  try {
    return createStorage({ dir, print });
  } catch (error) {
    throw new UsageError(`--storage: ${(error as Error).message}`);
  }
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
