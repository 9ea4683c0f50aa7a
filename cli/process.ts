/** A program of this repository as a process: signals, closed pipes, and the exit code once everything is written. */
import type { Surroundings } from "./command";

/** Runs `program` with the words of the command line, and ends the process with the exit code it gives. */
export async function runProcess(program: (args: string[], io: Surroundings) => Promise<number>): Promise<void> {
  const stopped = new AbortController();
  // Exit codes as a shell gives them: 128 and the signal's number.
  const exitCodes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 };
  const handlers = Object.entries(exitCodes).map(([name, code]) => [name, () => stopped.abort(code)] as const);
  const handle = (isHandled: boolean): void => {
    for (const [name, handler] of handlers) process[isHandled ? "on" : "off"](name, handler);
  };
  handle(true);
  const sigpipe = 141;
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => stopped.abort(sigpipe));

  const { env, stdin, stdout, stderr } = process;
  const code = await program(process.argv.slice(2), {
    env,
    stdin,
    stdout,
    stderr,
    signal: stopped.signal,
    onBlocked: (isBlocked) => handle(!isBlocked),
  });
  // Not before everything is written: a pipe may be slow.
  stdout.write("", () => stderr.write("", () => process.exit(code)));
}
