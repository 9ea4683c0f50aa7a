/** The command line: from words to options, and a subcommand's help. */
import { cac } from "cac";
import packageJson from "../package.json" with { type: "json" };
import type { Command, Options } from "./command";
import { UsageError } from "./settings";

export const program = "espruino-agent";
export const version = packageJson.version;

/** What every subcommand takes beside its own options. */
const common: Command["options"] = [
  ["--version", "Print the version"],
  ["--help", "Print this"],
];

export interface Arguments {
  positional: string[];
  options: Options;
}

/** Reads what follows the subcommand's name. @throws {UsageError} one line that names what is wrong */
export function readArguments(command: Command, args: string[]): Arguments {
  const cli = cac();
  const known = cli.command("", command.summary);
  for (const [flags, description] of [...command.options, ...common]) {
    // More than one value in a list: what is given twice is seen.
    known.option(flags, description, flags.includes("<") ? { type: [String] } : undefined);
  }
  const valued = known.options.filter((option) => option.required).flatMap((option) => option.names.map(toFlag));
  const { flags, texts, positional } = takeTexts(args, valued);
  const parsed = cli.parse(["node", program, ...flags], { run: false });
  try {
    known.checkUnknownOptions();
    known.checkOptionValue();
  } catch (error) {
    throw new UsageError(`${(error as Error).message}; --help lists the options`);
  }
  const options: Options = {};
  for (const { name, required } of known.options) {
    const given = parsed.options[name] as string[] | boolean | boolean[] | undefined;
    if (Array.isArray(given) && given.length > 1) throw new UsageError(`${toFlag(name)} was given more than once`);
    if (!required) {
      options[name] = given as boolean | undefined;
      continue;
    }
    if (given === undefined) continue;
    const text = texts[Number((given as string[])[0])]!;
    if (text.trim() === "") throw new UsageError(`${toFlag(name)} needs a value that is not empty`);
    options[name] = text;
  }
  return { positional, options };
}

function toFlag(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/**
 * Takes out the words that are no options, and puts its place in `texts` for the value of an option that takes one,
 * because `cac` would take `-3 plus 5` for options and make 7 of `007`.
 */
function takeTexts(args: string[], valued: string[]): { flags: string[]; texts: string[]; positional: string[] } {
  const flags: string[] = [];
  const texts: string[] = [];
  const positional: string[] = [];
  for (let i = 0; i < args.length; i += 1) {
    if (args[i] === "--") return { flags, texts, positional: [...positional, ...args.slice(i + 1)] };
    if (!args[i]!.startsWith("-") || args[i] === "-") {
      positional.push(args[i]!);
      continue;
    }
    const [, flag, text] = /^(--[^=]+)(?:=(.*))?$/s.exec(args[i]!) ?? [];
    if (flag === undefined || !valued.includes(flag)) {
      if (text !== undefined) throw new UsageError(`${flag} takes no value, or is unknown; --help lists the options`);
      flags.push(args[i]!);
      continue;
    }
    if (text === undefined) i += 1;
    const value = text ?? args[i];
    if (value === undefined || (text === undefined && valued.includes(value)))
      throw new UsageError(`${flag} needs a value`);
    flags.push(`${flag}=${texts.push(value) - 1}`);
  }
  return { flags, texts, positional };
}

/** A subcommand's help, as `start`, the words that start it, prints it. */
export function helpOf(command: Command, start = `${program} ${command.name}`): string {
  const options = [...command.options, ...common];
  const width = Math.max(...options.map(([flags]) => flags.length)) + 2;
  const lines = options.map(([flags, description]) => `  ${flags.padEnd(width)}${description}\n`);
  const examples = command.examples.map((example) => `  ${example}\n`);
  return (
    `${command.summary}.\n\nUsage: ${start} ${command.usage}\n\nOptions:\n${lines.join("")}` +
    (examples.length > 0 ? `\nExamples:\n${examples.join("")}` : "") +
    (command.notes === undefined ? "" : `\n${command.notes.trim()}\n`)
  );
}
