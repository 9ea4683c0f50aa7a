/**
 * A simulated board, a wire to it and a power supply, all of them in the test's hands. Time is the test's own: `vi`'s
 * fake timers and the board's clock move together.
 */
import { vi } from "vitest";
import type { Progress } from "../../cli/progress";
import { type Wire, WireError } from "../../cli/wire";
import { type Board, type BoardOptions, createBoard } from "../../host-sim/board";
import { createManualClock } from "../../host-sim/clock";
import { createStorage, type Storage } from "../../host-sim/storage";

export interface WireFaults {
  /** The wire breaks when so many bytes have gone to the board. */
  cutAfter?: number;
  /** Changes what goes to the board; `at` is the place of the first byte in everything that went there. */
  toBoard?(bytes: string, at: number): string;
  /** Changes what comes from the board. */
  toHost?(bytes: string): string;
  /** Called when the wire breaks. */
  onCut?(): void;
}

/** A wire to whatever takes and gives bytes, with faults. Bytes arrive one by one, as on a serial line. */
export function createFaultyWire(
  console: { write(bytes: string): void; onData(listener: (bytes: string) => void): () => void },
  faults: WireFaults = {},
): Wire & { cut(): void; written(): string } {
  const listeners = new Set<(bytes: string) => void>();
  const endListeners: ((error: WireError) => void)[] = [];
  let written = "";
  let isCut = false;
  console.onData((bytes) => {
    const seen = faults.toHost ? faults.toHost(bytes) : bytes;
    if (!isCut && seen !== "") for (const listener of [...listeners]) listener(seen);
  });
  function cut(): void {
    if (isCut) return;
    isCut = true;
    faults.onCut?.();
    for (const listener of endListeners.splice(0)) listener(new WireError("test: the board was unplugged"));
  }
  return {
    port: "test",
    async write(bytes) {
      if (isCut) return;
      const room = (faults.cutAfter ?? Infinity) - written.length;
      const sent = bytes.slice(0, Math.max(0, room));
      const at = written.length;
      written += sent;
      console.write(faults.toBoard ? faults.toBoard(sent, at) : sent);
      if (sent.length < bytes.length) cut();
    },
    onData(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    onEnd(listener) {
      if (isCut) listener(new WireError("test: the board was unplugged"));
      else endListeners.push(listener);
    },
    close: async () => void (isCut = true),
    cut,
    written: () => written,
  };
}

/** A Storage that loses its power after so many steps of writing: between two of them, or within one. */
export function createFragileStorage(
  storage: Storage,
  steps: number,
  onDeath: () => void,
): Storage & { steps(): number } {
  let done = 0;
  const step = (): void => {
    if (done >= steps) throw new Error("test: no power");
    done += 1;
    if (done < steps) return;
    onDeath();
    throw new Error("test: no power");
  };
  const { api } = storage;
  return {
    ...storage,
    steps: () => done,
    api: {
      ...api,
      erase(name) {
        api.erase(name);
        step();
      },
      compact() {
        api.compact();
        step();
      },
      write(name, data, offset = 0, size = 0) {
        if (typeof data !== "string") return api.write(name, data, offset, size);
        const total = size || data.length;
        const old = api.read(name);
        if (offset === 0 && old === data && total === data.length) return true;
        const half = data.length >> 1;
        if (offset === 0 && old !== undefined) {
          api.erase(name);
          step();
        }
        if (half > 0) {
          api.write(name, data.slice(0, half), offset, total);
          step();
        }
        const isWritten = api.write(name, data.slice(half), offset + half, total);
        step();
        return isWritten;
      },
    },
  };
}

export const quiet: Progress = { say: () => {}, begin: () => {}, advance: () => {}, end: () => {} };

/** Progress whose lines are kept. */
export function listen(): Progress & { lines: string[] } {
  const lines: string[] = [];
  return { ...quiet, lines, say: (line) => void lines.push(line) };
}

export interface Bench {
  readonly storage: Storage;
  /** Powers a board up. What ran before is gone, as is its wire. */
  power(options?: { storage?: Storage; wifi?: BoardOptions["wifi"] }): Board;
  /** What the board of the moment has printed since its power-up. */
  printed(): string;
  wire(faults?: WireFaults): ReturnType<typeof createFaultyWire>;
  /** Lets time pass until `work` is over. */
  run<T>(work: Promise<T>): Promise<T>;
  stop(): void;
}

/** Needs `vi.useFakeTimers()`. */
export function createBench(options: BoardOptions = {}): Bench {
  const clock = createManualClock();
  const storage = options.storage ?? createStorage();
  let board: Board | undefined;
  let printed = "";
  return {
    storage,
    power(own = {}) {
      board?.stop();
      printed = "";
      board = createBoard({ ...options, clock, storage: own.storage ?? storage, wifi: own.wifi ?? options.wifi });
      board.console.onData((bytes) => (printed += bytes));
      board.boot();
      return board;
    },
    printed: () => printed,
    wire: (faults) => createFaultyWire(board!.console, faults),
    async run(work) {
      let isOver = false;
      const end = (): void => void (isOver = true);
      work.then(end, end);
      for (;;) {
        await vi.advanceTimersByTimeAsync(10);
        if (isOver) return work;
        clock.advance(10);
      }
    },
    stop: () => board?.stop(),
  };
}
