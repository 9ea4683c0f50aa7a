/** What a subcommand of `espruino-agent` is, and what it gets from outside. */
import type { buildBundle } from "../esbuild.config.mjs";
import type { Input, Output } from "./console";

/** Where a program runs: everything that a subcommand reads or writes beside files and the network. */
export interface Surroundings {
  env: Record<string, string | undefined>;
  stdin: Input;
  stdout: Output;
  stderr: Output;
  /** Makes the bundle. Default: the build of this repository, which also writes `dist/`. */
  build?: typeof buildBundle;
  /** Aborted from outside (a signal, a closed pipe); the reason is the exit code. */
  signal: AbortSignal;
  /**
   * Called where this program cannot look at signals for a while (`true`), and when it can again: in between they end
   * the process at once.
   */
  onBlocked?(isBlocked: boolean): void;
}

/**
 * Options by name, as `--retry-after` gives `retryAfter`. A text where the option takes a value (`--ask <text>`),
 * exactly as it was typed: `007` and `-3 plus 5` stay texts. `true` where it takes none and was given. Undefined where it
 * was not given; but of a `--no-boot`, `boot` is false where it was given, and true where not.
 */
export type Options = Record<string, string | boolean | undefined>;

/** One subcommand. */
export interface Command {
  /** The word after `espruino-agent`. */
  name: string;
  /** What follows the name in the first line of its help: `[options]`, `token add NAME`. */
  usage: string;
  /** One line for the list of commands: what it does, without a full stop. */
  summary: string;
  /** Whole command lines for the help, each as a person would type it. */
  examples: string[];
  /** `["--listen <port>", "Offer the console on TCP"]`. Given twice, an option is refused before `run`. */
  options: [flags: string, description: string][];
  /** Text below the options in the help: the environment, exit codes. */
  notes?: string;
  /**
   * Does the work. `positional` are the words that are no options, exactly as typed. Returns the exit code: 0, 1 where
   * what was asked for failed, 2 for bad usage, or what `io.signal` says.
   * @throws {UsageError} (`settings.ts`) what the person has to change: its message is printed as one line, exit code 2
   */
  run(positional: string[], options: Options, io: Surroundings): Promise<number>;
}
