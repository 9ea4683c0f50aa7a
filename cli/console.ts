/** The board's console in a terminal, in a pipe, or for one question. */
import type { Board } from "../host-sim/board";
import type { AgentEvent } from "../firmware/types";
import { boardLiteral, createPlainOutput, decodeValue, fromBytes } from "./text";

export interface Input extends NodeJS.ReadableStream {
  isTTY?: boolean;
  setRawMode?(isRaw: boolean): unknown;
}

export interface Output {
  isTTY?: boolean;
  write(data: string | Uint8Array): unknown;
}

/** What the host knows of the agent on the board, from its events. */
export interface Watch {
  /** A run is under way. */
  isBusy(): boolean;
  /** Resolves when no run is under way, after everything the board did at its end. */
  idle(): Promise<void>;
  onEvent(listener: (event: AgentEvent) => void): void;
}

/**
 * Milliseconds of the board's clock within which a typed line has begun what it does: a bare word or a run starts a
 * millisecond later, from the board's idle loop.
 */
const settleMs = 50;

/** Follows the AgentEvents of a board. Events arrive as plain data with Unicode text. */
export function watchAgent(board: Board): Watch {
  let isBusy = false;
  const waiting: (() => void)[] = [];
  const listeners: ((event: AgentEvent) => void)[] = [];
  board.onEvent("agent", (raw: unknown) => {
    const event = decodeValue(raw) as AgentEvent;
    if (event.type === "iterationStart") isBusy = true;
    if (event.type === "final" && !event.agent) isBusy = false;
    for (const listener of listeners) listener(event);
    // The event is sent in the middle of the board's own work.
    if (event.type === "final" && !event.agent) setImmediate(() => waiting.splice(0).forEach((resolve) => resolve()));
  });
  const settled = (): Promise<void> => new Promise((resolve) => board.clock.setTimeout(resolve, settleMs));
  const runEnded = (): Promise<void> => new Promise((resolve) => waiting.push(resolve));
  return {
    isBusy: () => isBusy,
    async idle() {
      await settled();
      while (isBusy) {
        await runEnded();
        await settled();
      }
    },
    onEvent: (listener) => void listeners.push(listener),
  };
}

/** Whether chat mode has the console: then the interpreter has none. */
function isInChat(board: Board): boolean {
  return board.evaluate("E.getConsole()") === null;
}

const ctrlD = 0x04;

/**
 * Joins a terminal or a pipe with the board's console. Bytes go through both ways; Ctrl-D leaves the chat, and the
 * program where the interpreter has the console. In a pipe each line is typed once the board is idle, and the end of
 * the input ends the program. Resolves when it is over; the terminal is as it was before.
 */
export async function runConsole(board: Board, watch: Watch, input: Input): Promise<void> {
  if (input.isTTY) return runTerminal(board, input);
  for await (const piece of piecesOf(input)) {
    await watch.idle();
    if (piece.length === 1 && piece[0] === ctrlD && !isInChat(board)) break;
    board.console.write(piece.toString("latin1"));
  }
  await watch.idle();
}

/** Shows the board's console output from now on; the function that is returned writes what is left. */
export function showConsole(board: Board, output: Output, isPlain: boolean): () => void {
  if (!isPlain) {
    const stop = board.console.onData((bytes) => void output.write(Buffer.from(bytes, "latin1")));
    return () => {
      stop();
      output.write("\r\n");
    };
  }
  const plain = createPlainOutput((text) => void output.write(text));
  const stop = board.console.onData((bytes) => plain.feed(bytes));
  return () => {
    stop();
    plain.end();
  };
}

function runTerminal(board: Board, input: Input): Promise<void> {
  return new Promise((resolve) => {
    const onData = (data: Buffer): void => {
      let from = 0;
      // Byte by byte where it matters: a Ctrl-D may be the second one of the same piece.
      for (let at = data.indexOf(ctrlD); at >= 0; at = data.indexOf(ctrlD, from)) {
        if (at > from) board.console.write(data.toString("latin1", from, at));
        if (!isInChat(board)) return end();
        board.console.write("\x04");
        from = at + 1;
      }
      if (from < data.length) board.console.write(data.toString("latin1", from));
    };
    const end = (): void => {
      input.off("data", onData);
      input.off("end", end);
      input.setRawMode?.(false);
      input.pause();
      resolve();
    };
    input.setRawMode?.(true);
    input.on("data", onData);
    input.on("end", end);
    input.resume();
  });
}

/** The lines of a stream, each ending in CR as the Enter key sends it, and every Ctrl-D on its own. */
async function* piecesOf(input: Input): AsyncGenerator<Buffer> {
  let rest = Buffer.alloc(0);
  for await (const chunk of input as AsyncIterable<Buffer | string>) {
    rest = Buffer.concat([rest, Buffer.from(chunk as Buffer)]);
    for (;;) {
      const at = rest.findIndex((byte) => byte === 0x0a || byte === ctrlD);
      if (at < 0) break;
      const line = rest.subarray(0, at);
      const isLine = rest[at] === 0x0a;
      rest = rest.subarray(at + 1);
      if (isLine) yield enter(line);
      else {
        if (line.length > 0) yield line;
        yield Buffer.of(ctrlD);
      }
    }
  }
  if (rest.length > 0) yield enter(rest);
}

function enter(line: Buffer): Buffer {
  const end = line.at(-1) === 0x0d ? line.length - 1 : line.length;
  return Buffer.concat([line.subarray(0, end), Buffer.of(0x0d)]);
}

/** The answer to one question, or why there is none. */
export type Outcome = { answer: string } | { failure: string };

/** Asks the agent on the board one question, as `ask("…")` typed at the interpreter's prompt. */
export function askOnce(board: Board, watch: Watch, text: string): Promise<Outcome> {
  return new Promise((resolve) => {
    let answer = "";
    let printed = "";
    const stop = board.console.onData((bytes) => (printed += bytes));
    const end = (outcome: Outcome): void => {
      stop();
      resolve(outcome);
    };
    watch.onEvent((event) => {
      // Only the last turn's text is the answer: before a tool call or another attempt it was none.
      if (event.type === "iterationStart" || event.type === "toolRequest" || event.type === "retry") answer = "";
      if (event.type === "textDelta") answer += event.text;
      if (event.type !== "final" || event.agent) return;
      if (event.isError || event.message !== undefined) end({ failure: event.message ?? event.stopReason });
      else end({ answer: answer === "" ? event.text : answer });
    });
    // \x10: no echo and no prompt for this line.
    board.console.write(`\x10ask(${boardLiteral(text)})\n`);
    board.clock.setTimeout(() => {
      if (!watch.isBusy()) end({ failure: `the board did not start a run:\n${fromBytes(printed).trim()}` });
    }, settleMs);
  });
}
