/** `espruino-agent` and `npm start`: from the words of the command line to the subcommand that they name. */
import { helpOf, program, readArguments, version } from "./arguments";
import type { Command, Surroundings } from "./command";
import { UsageError } from "./settings";

export type { Surroundings } from "./command";

/** Loaded when they are needed: some bring a bundler, a simulator or a web server with them. */
const commands: Record<string, () => Promise<Command>> = {
  sim: async () => (await import("./sim")).simCommand,
  flash: async () => (await import("./flash")).flashCommand,
  console: async () => (await import("./terminal")).consoleCommand,
  gateway: async () => (await import("./gateway")).gatewayCommand,
  doctor: async () => (await import("./doctor")).doctorCommand,
  graph: async () => (await import("./graph")).graphCommand,
};

/**
 * Runs `npm start`, which is `espruino-agent sim` without its name. Returns the exit code: 0, 1 where a run, the build
 * or writing a file failed, 2 for bad usage, or what the signal says. Everything it opened is closed.
 */
export async function main(args: string[], surroundings: Surroundings): Promise<number> {
  return runCommand(await commands.sim!(), args, surroundings, "npm start --");
}

/** Runs `espruino-agent`. Returns the exit code: 0, 1 where what was asked for failed, 2 for bad usage. */
export async function runProgram(args: string[], surroundings: Surroundings): Promise<number> {
  const { stdout, stderr } = surroundings;
  const [name = "", ...rest] = args;
  if (name === "" || ["--help", "-h", "help"].includes(name)) {
    const load = Object.hasOwn(commands, rest[0] ?? "") ? commands[rest[0]!] : undefined;
    (name === "" ? stderr : stdout).write(load ? helpOf(await load()) : await help());
    return name === "" ? 2 : 0;
  }
  if (name === "--version" || name === "-v") return print(surroundings, `${version}\n`);
  if (Object.hasOwn(commands, name)) return runCommand(await commands[name]!(), rest, surroundings);
  const names = Object.keys(commands).join(", ");
  stderr.write(`there is no command ${JSON.stringify(name)}: ${names}; ${program} --help says more\n`);
  return 2;
}

async function runCommand(command: Command, args: string[], io: Surroundings, start?: string): Promise<number> {
  try {
    const { positional, options } = readArguments(command, args);
    if (options.help === true) return print(io, helpOf(command, start));
    if (options.version === true) return print(io, `${version}\n`);
    return await command.run(positional, options, io);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    io.stderr.write(`${error.message}\n`);
    return 2;
  }
}

function print(io: Surroundings, text: string): number {
  io.stdout.write(text);
  return 0;
}

async function help(): Promise<string> {
  const all = await Promise.all(Object.values(commands).map((load) => load()));
  const width = Math.max(...all.map(({ name }) => name.length)) + 2;
  const list = all.map(({ name, summary }) => `  ${name.padEnd(width)}${summary}\n`).join("");
  return (
    "An LLM agent that runs on an ESP32 under Espruino.\n\n" +
    `Usage: ${program} <command> [options]\n\nCommands:\n${list}\n` +
    `${program} <command> --help lists a command's options, with examples.\n` +
    `Exit codes: 0 done, 1 what was asked for failed, 2 bad usage.\n`
  );
}
