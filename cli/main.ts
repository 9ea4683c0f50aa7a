/** `npm start`: the agent's bundle on a simulated board, and a console to it. */
import { closeSync, ftruncateSync, openSync, writeSync } from "node:fs";
import { cac } from "cac";
import { buildBundle } from "../esbuild.config.mjs";
import { formatProblem } from "../esbuild.check.mjs";
import { createBoard, type Board } from "../host-sim/board";
import { createModelServer, type ModelServer } from "../host-sim/model/server";
import { modelName } from "../host-sim/model/sentence";
import { createStorage, type Storage } from "../host-sim/storage";
import packageJson from "../package.json" with { type: "json" };
import { askOnce, runConsole, showConsole, watchAgent, type Input, type Output } from "./console";
import { layOver, readEnvironment, savedSettings, UsageError, type Settings } from "./settings";
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
  AGENT_PROVIDER  dialect of the server (default: openai)
  AGENT_CONFIG    JSON file of settings, laid over the board's own

Lines piped to it are typed at the console. Exit codes: 0 done, 1 the run failed, 2 bad usage.
`;

/**
 * Runs the program. Returns the exit code: 0, 1 where the run or the build failed, 2 for bad usage, or what the signal
 * says. Everything it opened is closed.
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

/** A file that is written when there is something to write, and opened at once so that a bad path is told at once. */
function openFile(option: string, file: string | undefined): number | undefined {
  if (file === undefined) return undefined;
  try {
    return openSync(file, "w");
  } catch (error) {
    throw new UsageError(`--${option}: ${file} cannot be written: ${(error as Error).message}`);
  }
}

async function start(options: Options, surroundings: Surroundings): Promise<number> {
  const { stdin, stdout, stderr, signal } = surroundings;
  const environment = readEnvironment(surroundings.env);
  let showText: (bytes: string) => void = () => {};
  const storage = openStorage(options.storage, (text) => showText(text));
  const events = openFile("events", options.events);
  const state = openFile("state", options.state);

  let model: ModelServer | undefined;
  let board: Board | undefined;
  let endOutput = (): void => {};
  try {
    const { code, problems } = await (surroundings.build ?? buildBundle)();
    if (problems.length > 0) {
      for (const problem of problems) stderr.write(`${formatProblem(problem)}\n`);
      stderr.write("the bundle could not be built, so there is nothing to start\n");
      return 1;
    }
    const saved = savedSettings(storage);
    const settings: Settings = { ...environment };
    if (!settings.baseUrl && !saved?.baseUrl) {
      model = await createModelServer();
      Object.assign(settings, { baseUrl: model.url, model: modelName });
    }
    const isAsking = options.ask !== undefined;
    const line = `${tellModel({ ...(decodeValue(saved) as Settings | undefined), ...settings }, model !== undefined)}\n`;
    (isAsking ? stderr : stdout).write(line);
    if (saved === undefined && storage.api.read("agent.json") !== undefined) {
      stderr.write("agent.json on the board is not a JSON object: it is left as it is and not used\n");
    }

    install(storage, code);
    board = createBoard({ storage: layOver(storage, settings) });
    const watch = watchAgent(board);
    if (events !== undefined) watch.onEvent((event) => writeSync(events, `${JSON.stringify(event)}\n`));

    const aborted = new Promise<number>((resolve) => {
      if (signal.aborted) resolve(signal.reason as number);
      signal.addEventListener("abort", () => resolve(signal.reason as number));
    });
    if (isAsking) {
      boot(board, (problem) => stderr.write(`${problem}\n`));
      const outcome = await Promise.race([askOnce(board, watch, options.ask!), aborted]);
      if (typeof outcome === "number") return outcome;
      if ("failure" in outcome) {
        stderr.write(`${outcome.failure}\n`);
        return 1;
      }
      stdout.write(`${outcome.answer.trimEnd()}\n`);
      return 0;
    }
    endOutput = showConsole(board, stdout, stdin.isTTY !== true && stdout.isTTY !== true);
    showText = (text) => void stdout.write(text);
    boot(board, () => {});
    // \x10: the line itself is not shown, nor a prompt after it.
    board.console.write("\x10main_loop_entry()\n");
    const end = await Promise.race([runConsole(board, watch, stdin), aborted]);
    return typeof end === "number" ? end : 0;
  } finally {
    if (stdin.isTTY) stdin.setRawMode?.(false);
    endOutput();
    if (board !== undefined && state !== undefined) {
      ftruncateSync(state);
      writeSync(state, `${JSON.stringify(board.state(), null, 2)}\n`);
    }
    board?.stop();
    await model?.close();
    for (const file of [events, state]) if (file !== undefined) closeSync(file);
  }
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
