/** `espruino-agent console`: a terminal to a board, and its use in scripts. */
import { StringDecoder } from "node:string_decoder";
import type { Command, Options, Surroundings } from "./command";
import { choosePort, messageOf, portOptions, type PortChoice, withDevice } from "./connect";
import type { Input, Output } from "./console";
import { type Device, identity } from "./device";
import { createProgress } from "./progress";
import { UsageError } from "./settings";
import { createPlainOutput, toBytes } from "./text";
import { openWire, type Wire, WireError } from "./wire";

export const consoleCommand: Command = {
  name: "console",
  usage: "--port <port> [options]",
  summary: "Opens a board's console in this terminal",
  examples: [
    "espruino-agent console --port /dev/ttyUSB0",
    "espruino-agent console --port tcp://192.168.1.20:3333",
    `espruino-agent console --port COM3 --send "ask('turn on D2')" --expect "Pin 2 is now on" --timeout 60`,
    "echo 'print(E.getTemperature())' | espruino-agent console --port /dev/ttyUSB0",
  ],
  options: [
    ...portOptions,
    ["--send <text>", "Type this at Espruino's prompt, instead of the keyboard's input"],
    ["--expect <text>", "Wait until the board prints this; exit code 1 where it does not in time"],
    ["--timeout <seconds>", "How long to wait for it, or for the prompt (default 30)"],
  ],
  notes: `
Line editing, history and Tab are Espruino's own. Ctrl-C goes to the board and stops what runs there, Ctrl-] leaves.
What is typed goes out as UTF-8, and what comes is read as UTF-8. Lines that are piped to it are typed one by one, each
when the prompt is back. Exit codes: 0; 1 the board went away, or did not print what was expected; 2 bad usage.`,
  async run(positional, options, io) {
    if (positional.length > 0) {
      throw new UsageError(`unexpected ${JSON.stringify(positional[0])}: text for the board goes behind --send`);
    }
    const script = readScript(options);
    const choice = await choosePort(options, io);
    const isScript = script.send !== undefined || script.expect !== undefined || io.stdin.isTTY !== true;
    try {
      return isScript ? await runScript(choice, script, io) : await runTerminal(choice, io);
    } catch (error) {
      if (io.signal.aborted) return io.signal.reason as number;
      io.stderr.write(`${messageOf(error)}\n`);
      return 1;
    }
  },
};

interface Script {
  send: string | undefined;
  expect: string | undefined;
  ms: number;
}

function readScript(options: Options): Script {
  const seconds = (options.timeout as string | undefined) ?? "30";
  if (!/^\d+(\.\d+)?$/.test(seconds) || Number(seconds) <= 0 || Number(seconds) > 86_400) {
    throw new UsageError(`--timeout: ${JSON.stringify(seconds)} is no number of seconds such as 30`);
  }
  return {
    send: options.send as string | undefined,
    expect: options.expect as string | undefined,
    ms: Number(seconds) * 1000,
  };
}

/** Types lines at the prompt, shows what the board prints, and looks for what is expected in it. */
async function runScript(choice: PortChoice, { send, expect, ms }: Script, io: Surroundings): Promise<number> {
  const progress = createProgress(io, true);
  const say = (text: string): void => {
    progress.end();
    io.stderr.write(`${text}\n`);
  };
  const work = async (device: Device): Promise<number> => {
    const isTyping = send !== undefined || expect === undefined;
    progress.begin("waiting for the board", 0);
    if (isTyping) await device.wake();
    const hasEcho = !isTyping || (await device.hasEcho());
    progress.end();
    if (!hasEcho) say("the board's echo is off: it shows neither its prompt nor results; echo(1) turns it on");
    const shown = device.mark();
    const board = showBoard(device.wire, io.stdout);
    try {
      let printed = "";
      // What is typed comes back as an echo: only what the board prints after it counts.
      if (send !== undefined) {
        for (const line of send.split(/\r?\n/)) printed = await typeLine(device, line, ms, hasEcho);
      } else if (expect === undefined) {
        for await (const line of linesOf(io.stdin)) printed = await typeLine(device, line, ms, hasEcho);
      }
      let end = promptOf(printed);
      const more = device.mark();
      if (expect === undefined && end !== ":") {
        end = end === undefined ? await endsIdle(device, board, ms) : await endsInPrompt(device, printed, ms);
      }
      if (end === ":") {
        board.stop();
        await device.exchange("\x03", (more) => promptOf(more) === ">" || undefined, promptMs);
        say("the input is not complete: a bracket, a comment or a text is open. The board waits for no more of it");
        return 1;
      }
      if (expect === undefined) {
        if (end !== undefined) return 0;
        board.stop();
        // One line may be that of what was typed.
        const isPrinting = more().trim().split(/[\r\n]+/).length > 1;
        const why = isPrinting
          ? ": the text was typed, and the board goes on printing. Ctrl-C in espruino-agent console --port " +
            `${choice.port} stops it, or else reset() there`
          : "";
        say(`the prompt did not come back within ${ms / 1000} s${why}`);
        return 1;
      }
      const wanted = toBytes(expect);
      const isThere = (text: string): true | undefined => text.includes(wanted) || undefined;
      if (isThere(printed) ?? (await device.exchange("", (more) => isThere(printed + more), ms))) return 0;
      board.stop();
      say(`${JSON.stringify(expect)} was not printed within ${ms / 1000} s${shown() === "" ? "; nothing was" : ""}`);
      return 1;
    } finally {
      board.stop();
    }
  };
  try {
    return await withDevice(choice, io, [], progress, work);
  } finally {
    progress.end();
  }
}

/** The prompt at the end of what the board prints: `>`, or `:` where it waits for the rest of a statement. */
const prompt = /(?:^|[\r\n]|\x1b\[J)([>:])(?:\x1b\[[A-Z])*$/;

function promptOf(printed: string): string | undefined {
  return prompt.exec(printed)?.[1];
}

/** Types one line; gives what was printed behind its echo until there was a prompt again, or nothing for a moment. */
async function typeLine(device: Device, line: string, ms: number, hasEcho: boolean): Promise<string> {
  const bytes = toBytes(line);
  const behindEcho = (printed: string): string | undefined => {
    if (!hasEcho) return printed;
    const at = printed.indexOf(`${bytes}\r\n`);
    return at < 0 ? undefined : printed.slice(at + bytes.length);
  };
  let last = "";
  await device.exchange(
    `${bytes}\r`,
    (printed) => {
      last = behindEcho(printed) ?? "";
      return promptOf(last);
    },
    // Without a prompt there is nothing to wait for: the next line waits in the board.
    Math.min(ms, hasEcho ? promptMs : quietMs),
  );
  return last;
}

/** A statement that takes longer than this is not waited for before the next line is typed. */
const promptMs = 3_000;
/** The prompt is there, and nothing more comes: a word of the agent's begins a moment after its line. */
const quietMs = 200;

async function endsInPrompt(device: Device, printed: string, ms: number): Promise<string | undefined> {
  let text = printed;
  const end = Date.now() + ms;
  while (Date.now() < end) {
    const more = await device.exchange("", (bytes) => bytes || undefined, quietMs);
    if (more === undefined && promptOf(text) !== undefined) return promptOf(text);
    text += more ?? "";
  }
  return undefined;
}

/**
 * Where no prompt has come, as echo is off, or has been turned off, or something takes its time: waits until the board
 * answers an enquiry, and does not show that answer.
 */
async function endsIdle(device: Device, board: Shown, ms: number): Promise<string | undefined> {
  const filter = createLineFilter(identity, board.show);
  board.stop();
  const stop = device.wire.onData(filter.feed);
  const isIdle = await device.untilIdle(ms);
  stop();
  filter.end();
  return isIdle ? ">" : undefined;
}

/** Passes bytes on line by line, without the lines that are `unwanted`. */
function createLineFilter(unwanted: RegExp, show: (bytes: string) => void) {
  let rest = "";
  return {
    feed(bytes: string) {
      rest += bytes;
      const end = rest.lastIndexOf("\n") + 1;
      const lines = rest.slice(0, end).split(/(?<=\n)/);
      rest = rest.slice(end);
      show(lines.filter((line) => !unwanted.test(line)).join(""));
    },
    end: () => show(rest),
  };
}

async function* linesOf(input: Input): AsyncGenerator<string> {
  let rest = "";
  const decoder = new StringDecoder("utf8");
  for await (const chunk of input as AsyncIterable<Buffer | string>) {
    rest += typeof chunk === "string" ? chunk : decoder.write(chunk);
    const lines = rest.split(/\r?\n/);
    rest = lines.pop()!;
    yield* lines;
  }
  if (rest !== "") yield rest;
}

/** What shows a board's bytes. */
interface Shown {
  show(bytes: string): void;
  /** Shows no more of what comes. The line that was begun is ended. */
  stop(): void;
}

/** Shows what the board prints from now on, as text; where it is no terminal, without what a terminal is told. */
function showBoard(wire: Wire, stdout: Output): Shown {
  // Characters arrive in pieces.
  const decoder = new StringDecoder("utf8");
  const plain = stdout.isTTY === true ? undefined : createPlainOutput((text) => void stdout.write(text));
  let last = "\n";
  const show = (bytes: string): void => {
    if (plain) plain.feed(bytes);
    else stdout.write(decoder.write(Buffer.from(bytes, "latin1")));
    last = bytes.at(-1) ?? last;
  };
  const stop = wire.onData(show);
  return {
    show,
    stop() {
      stop();
      if (plain) plain.end();
      else if (last !== "\n") stdout.write("\r\n");
      last = "\n";
    },
  };
}

/** Ctrl-]: what telnet and others leave by. It means nothing to Espruino. */
const leaveKey = 0x1d;
/** Milliseconds between two looks for a board that went away. */
const lookMs = 1_000;

/** Joins the terminal and the board until Ctrl-] is typed. The terminal is as it was before, whatever happens. */
async function runTerminal(choice: PortChoice, io: Surroundings): Promise<number> {
  const { stdin, stdout, stderr, signal } = io;
  let wire: Wire | undefined = await openWire(choice.port, { baudRate: choice.baudRate, signal });
  const note = (text: string): void => void stderr.write(`\r\n[${text}]\r\n`);
  let left = (_code: number): void => {};
  const leaving = new Promise<number>((resolve) => (left = resolve));
  let isLeaving = false;
  const leave = (code: number): void => {
    isLeaving = true;
    left(code);
  };

  const onData = (data: Buffer): void => {
    const at = data.indexOf(leaveKey);
    const bytes = at < 0 ? data : data.subarray(0, at);
    if (bytes.length > 0) void wire?.write(bytes.toString("latin1"));
    if (at >= 0) leave(0);
  };
  const onEnd = (): void => leave(0);
  const onAbort = (): void => leave(signal.reason as number);

  function join(to: Wire): void {
    wire = to;
    showBoard(to, stdout);
    to.onEnd((error) => {
      wire = undefined;
      note(`${error.message}. Waiting for it; Ctrl-] leaves`);
      void comeBack();
    });
  }

  /** Looks for the board until it is there again. */
  async function comeBack(): Promise<void> {
    while (!isLeaving) {
      await new Promise((resolve) => setTimeout(resolve, lookMs));
      const again = await openWire(choice.port, { baudRate: choice.baudRate, signal }).catch((error) => {
        if (!(error instanceof WireError)) throw error;
        return undefined;
      });
      if (again && isLeaving) return again.close();
      if (!again) continue;
      note("connected again");
      return join(again);
    }
  }

  try {
    stdin.setRawMode?.(true);
    stdin.on("data", onData);
    stdin.on("end", onEnd);
    stdin.resume();
    signal.addEventListener("abort", onAbort);
    if (signal.aborted) onAbort();
    note(`${choice.port}: Ctrl-C goes to the board, Ctrl-] leaves. Enter shows the prompt`);
    join(wire);
    return await leaving;
  } finally {
    isLeaving = true;
    signal.removeEventListener("abort", onAbort);
    stdin.off("data", onData);
    stdin.off("end", onEnd);
    stdin.setRawMode?.(false);
    stdin.pause();
    await wire?.close();
    stdout.write("\r\n");
  }
}
