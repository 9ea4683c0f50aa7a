/**
 * Puts the simulated board's console where other programs reach a board's: on a TCP port, or on a pseudo-terminal that
 * looks like a serial port. Bytes pass as they are, both ways.
 *
 * It is one wire, however many hold its end: everyone sees all output, and what they type goes to the board as it
 * comes. Nothing is remembered for those who come later, and nothing is forgotten when one leaves: a line typed half
 * waits for its other half, a packet sent half is given up after `PACKET_TIMEOUT_MS`.
 *
 * The wire runs in a thread of its own, so that output leaves and Ctrl-C breaks while board code runs.
 */
import { Worker } from "node:worker_threads";
import type { Board } from "./board";

/** Bytes from clients that wait for the board; beyond it the clients wait, as the network makes them. */
const INPUT_BYTES = 64 * 1024;
/** Bytes that wait for one client before the board waits for it. */
const OUTPUT_BYTES = 64 * 1024;
/** Bytes on their way to the thread before the board waits. */
const TRANSIT_BYTES = 256 * 1024;
/** So long the board waits for a TCP client, in ms; one that has not read what waits for it then is disconnected. */
const STALL_MS = 3000;
/** The board waits so long for whoever may read the pseudo-terminal, in ms; then output is lost until one does. */
const UNREAD_MS = 250;
/** Output is sent on in pieces of this size where the board does not pause. */
const PIECE_BYTES = 4096;
/** Longer than the thread ever takes, in ms. It is gone when it has done nothing for so long. */
const THREAD_MS = 2 * STALL_MS;
const CTRL_C = 3;

export interface PeerOptions {
  /** Told what no client can be told: that one was disconnected because it does not read, that output was lost. */
  onNotice?(text: string): void;
}

export interface TcpOptions extends PeerOptions {
  /** Default 0: any free port. */
  port?: number;
  /** Default 127.0.0.1. Whoever reaches the port can run code on the board, and with it reach the board's network. */
  host?: string;
}

export interface TcpPeer {
  readonly host: string;
  readonly port: number;
  /** Disconnects everyone. The board goes on. */
  close(): Promise<void>;
}

export interface PtyPeer {
  /** What other programs open, such as `/dev/pts/3`. */
  readonly path: string;
  /** Takes the pseudo-terminal away. The board goes on. */
  close(): Promise<void>;
}

/**
 * Offers the board's console on a TCP port, to programs that take `tcp://127.0.0.1:PORT` for a serial port.
 *
 * Rejects with the system's `code` where the port cannot be had (`EADDRINUSE`, `EACCES`, `EADDRNOTAVAIL`).
 */
export async function serveTcp(board: Pick<Board, "console">, options: TcpOptions = {}): Promise<TcpPeer> {
  const { port = 0, host = "127.0.0.1", onNotice } = options;
  const where = { kind: "tcp", port, host } as const;
  const { ready, close } = await startWire<{ port: number; host: string }>(board, where, onNotice);
  return { ...ready, close };
}

/**
 * Offers the board's console as a pseudo-terminal, to programs that want the path of a serial port. It is a plain wire
 * already when they open it: no echo, no line editing, no signals. What is printed while nobody has it open is lost,
 * but for the first few kB, which wait for the next one.
 *
 * Rejects on Windows, and where `@lydell/node-pty` or `serialport` is not installed.
 */
export async function servePty(board: Pick<Board, "console">, options: PeerOptions = {}): Promise<PtyPeer> {
  if (process.platform === "win32") throw new Error("Windows has no pseudo-terminals with a path: use a TCP port");
  const { ready, close } = await startWire<{ path: string }>(board, { kind: "pty" }, options.onNotice);
  return { ...ready, close };
}

interface Message<Ready> {
  ready?: Ready;
  input?: Uint8Array;
  notice?: string;
  error?: { message: string; code?: string };
}

/** What a person can do about a port that cannot be had. */
function explain(
  { message, code }: { message: string; code?: string },
  { kind, host, port }: { kind: string; host?: string; port?: number },
): Error {
  const hints: Record<string, string> = {
    EADDRINUSE: `port ${port} of ${host} is taken by another program: choose another one, or 0 for any free port`,
    EACCES: `port ${port} is reserved: choose one above 1023`,
    EADDRNOTAVAIL: `${host} is no address of this computer`,
    ERR_MODULE_NOT_FOUND: "a pseudo-terminal needs the packages @lydell/node-pty and serialport: npm install",
  };
  const hint = code === undefined ? undefined : hints[code];
  const what = kind === "pty" ? "pseudo-terminal" : "TCP port";
  return Object.assign(new Error(hint ?? `no ${what}: ${message}`), { code });
}

async function startWire<Ready>(
  { console }: Pick<Board, "console">,
  where: { kind: "tcp" | "pty"; port?: number; host?: string },
  onNotice: ((text: string) => void) | undefined,
): Promise<{ ready: Ready; close(): Promise<void> }> {
  const shared = new SharedArrayBuffer(8);
  const counters = new Int32Array(shared);
  const limits = { inputBytes: INPUT_BYTES, outputBytes: OUTPUT_BYTES, stallMs: STALL_MS, unreadMs: UNREAD_MS };
  const worker = new Worker(new URL("./wire.js", import.meta.url), {
    workerData: { ...where, shared, limits },
    execArgv: [],
  });
  const gone = new Promise<void>((resolve) => worker.once("exit", () => resolve()));

  let isOpen = true;
  let output = "";
  let isFlushPlanned = false;
  let sent = 0;
  let breaksHandled = 0;

  const flush = (): void => {
    isFlushPlanned = false;
    if (output === "" || !isOpen) return;
    // Where board code prints without end, it waits for its wire. The counters run over at 32 bits, both alike.
    for (;;) {
      const taken = Atomics.load(counters, 1);
      if (((sent - taken) | 0) <= TRANSIT_BYTES) break;
      if (Atomics.wait(counters, 1, taken, THREAD_MS) === "timed-out") {
        isOpen = false;
        return;
      }
    }
    const bytes = Buffer.from(output, "latin1");
    output = "";
    sent = (sent + bytes.length) | 0;
    worker.postMessage({ output: bytes });
  };
  const stopListening = console.onData((bytes) => {
    output += bytes;
    if (output.length >= PIECE_BYTES) return flush();
    if (isFlushPlanned) return;
    isFlushPlanned = true;
    queueMicrotask(flush);
  });
  const removeWire = console.addWire({
    waitingBreaks() {
      flush();
      return (Atomics.load(counters, 0) - breaksHandled) | 0;
    },
  });

  async function close(): Promise<void> {
    stopListening();
    removeWire();
    flush();
    isOpen = false;
    // Its exit is wanted now.
    worker.postMessage({ close: true });
    await gone;
  }

  const ready = await new Promise<Ready>((resolve, reject) => {
    worker.on("message", (message: Message<Ready>) => {
      if (message.ready) resolve(message.ready);
      if (message.error) {
        isOpen = false;
        reject(explain(message.error, where));
      }
      if (message.notice !== undefined) onNotice?.(message.notice);
      if (message.input) {
        const bytes = Buffer.from(message.input);
        for (const byte of bytes) if (byte === CTRL_C) breaksHandled = (breaksHandled + 1) | 0;
        console.write(bytes.toString("latin1"));
        worker.postMessage({ handled: bytes.length });
      }
    });
    const fail = (error: Error): void => {
      reject(error);
      if (isOpen) onNotice?.(error.message);
      isOpen = false;
    };
    worker.on("error", (error) => fail(error));
    worker.once("exit", () => fail(new Error("the thread of the serial wire ended: nobody can reach the board there")));
  }).catch((error: unknown) => {
    isOpen = false;
    stopListening();
    removeWire();
    throw error;
  });
  return { ready, close };
}
