/**
 * A simulated ESP32 with Espruino on it: realm, console, pins, flash, Wi-Fi and HTTP put together. Everything that can
 * differ between two boards is an option; time passes only as the given clock says.
 */
import { type Clock, realClock } from "./clock";
import { createPinObjects, type Globals, installGlobals, VERSION } from "./globals";
import { createHttp, type Http } from "./http";
import { createMemoryEstimate, type MemoryEstimate } from "./memory";
import { createPins, type PinBank, type PinState } from "./pin";
import { createRealm, Interrupt, type Realm } from "./realm";
import { callHost, type Console, createRepl } from "./repl";
import { createStorage, type Storage } from "./storage";
import { createWifi, type Wifi, type WifiOptions, type WifiState } from "./wifi";

export interface BoardOptions {
  /** Default: the computer's own. */
  clock?: Clock;
  /** Default: flash in memory. */
  storage?: Storage;
  /** Size of the interpreter's variable table. Default 4000, what an ESP32 without PSRAM has. */
  variables?: number;
  /** Stack of the interpreter in bytes. Default 25,000, as an ESP32 has it; an ESP32-C3 has 15,000. */
  stackBytes?: number;
  wifi?: Omit<WifiOptions, "storage" | "deliver">;
  /** Unix time in ms at power-up. Default 0: a board has no battery behind its clock. */
  timeAtBootMs?: number;
}

/** Plain JSON. `files`: bytes per file. `memory` is an estimate, in variables. */
export interface BoardState {
  pins: Record<string, PinState>;
  files: Record<string, number>;
  wifi: WifiState;
  memory: { usage: number; free: number; total: number };
}

export interface Board {
  readonly console: Console;
  readonly pins: PinBank;
  readonly storage: Storage;
  readonly wifi: Wifi;
  readonly clock: Clock;
  /** Power-up: banner, `.bootcde` of Storage (an error in it is printed), prompt. */
  boot(): void;
  /**
   * Runs source text (a byte string) as if it stood at the REPL, and gives its value as the realm has it. Throws a Node
   * `Error` with the interpreter's text where the program throws.
   */
  evaluate(code: string): unknown;
  /** Calls `listener` for what board code emits with `E.emit(name, …)`; values arrive as the realm has them. */
  onEvent(name: string, listener: (...list: any[]) => void): void;
  state(): BoardState;
  /** The most stack anything has used since the last reset, in bytes of the interpreter's: an estimate. */
  stackPeak(): number;
  /** Power off: timers, connections and watches end. */
  stop(): void;
}

/** Bytes per variable, as `process.memory().blocksize` gives it. */
const BLOCK_BYTES = 14;
const BOOT_FILES = [".boot0", ".boot1", ".boot2", ".boot3", ".bootcde"];

/** Puts a board together. Nothing runs until `boot`. */
export const createBoard = (options: BoardOptions = {}): Board => {
  const clock = options.clock ?? realClock();
  const total = options.variables ?? 4000;
  const listeners = new Map<string, ((...list: any[]) => void)[]>();
  const pinObjects = createPinObjects();
  let realm: Realm;
  let globals: Globals;
  let memory: MemoryEstimate;
  let http: Http;
  let pendingRestart: "reset" | "load" | "reboot" | undefined;
  let isStopped = false;

  const repl = createRepl({
    realm: () => realm,
    version: VERSION,
    board: "ESP32",
    onSerialData: (bytes) => realm.queue(() => globals.serialData(bytes)),
  });
  const printLine = (line: string) => repl.device.print(`${line}\n`);
  const storage = options.storage ?? createStorage({ print: (text) => repl.device.print(text) });
  const deliver = (fn: () => void) => realm.queue(fn);
  const wifi = createWifi(clock, { ...options.wifi, storage: storage.api, deliver });
  const pins = createPins(clock, { print: printLine, deliver });

  /** A new interpreter on the same hardware. */
  const start = (): void => {
    globals?.stop();
    http?.closeAll();
    pins.reset();
    realm = createRealm({
      onUncaught(error, text) {
        const handlers = realm.library.listeners(realm.global.process, "uncaughtException");
        if (handlers.length && !(error instanceof Error)) {
          for (const handler of handlers) realm.enter(() => void handler.call(realm.global.process, error));
        } else repl.printError(text);
      },
      isPin: (value) => pinObjects.number(value) !== undefined,
      deviceName: (value) => (value === realm.global.Serial1 ? "Serial1" : undefined),
      onEmit(target, name, list) {
        if (target === realm.global.E)
          for (const listener of listeners.get(name) ?? []) callHost(() => listener(...list));
      },
      onIdle: idle,
      stackBytes: options.stackBytes,
      memoryBytes: total * BLOCK_BYTES,
    });
    const own = realm;
    http = createHttp({
      clock,
      deliver: (fn) => own.queue(fn),
      online: () => wifi.isOnline(),
      print: printLine,
      outOfMemory: () => own.interrupt("memory"),
      callData(fn, stackBytes, onInterrupt) {
        try {
          own.library.useStack(stackBytes);
          fn();
        } catch (error) {
          if (error instanceof Interrupt) onInterrupt();
          throw error;
        }
      },
    });
    globals = installGlobals({
      realm,
      clock,
      console: repl.device,
      storage,
      pins,
      wifi,
      http,
      pinObjects,
      memory: readMemory,
      sizeOf: (value) => memory.sizeOf(value),
      restart(kind) {
        pendingRestart = kind;
      },
      timeAtBootMs: options.timeAtBootMs ?? 0,
    });
    memory = createMemoryEstimate({
      realm,
      roots: globals.roots,
      isInFlash: (origin) => origin !== undefined && origin !== "REPL" && origin !== "",
    });
  };

  const readMemory = (): Record<string, number> => {
    const usage = memory.usage();
    return { free: total - usage, usage, total, history: 0, gc: 0, gctime: 0, blocksize: BLOCK_BYTES };
  };

  const idle = (): void => {
    if (isStopped) return;
    if (pendingRestart) {
      const kind = pendingRestart;
      pendingRestart = undefined;
      repl.clear();
      start();
      repl.banner();
      if (kind !== "reset") runBootCode();
    }
    repl.idle();
  };

  const runBootCode = (): void => {
    for (const file of BOOT_FILES) {
      const code = storage.api.read(file);
      if (code) realm.enter(() => void realm.evaluate(code, file));
    }
  };

  start();
  return {
    console: repl.console,
    pins,
    storage,
    wifi,
    clock,
    boot() {
      repl.banner();
      runBootCode();
      realm.enter(() => {});
    },
    evaluate(code) {
      let result: unknown;
      let failure: Error | undefined;
      realm.enter(() => {
        try {
          result = realm.evaluate(code, "REPL");
        } catch (error) {
          failure = new Error(realm.errorText(error).trimEnd().split("\n")[0]);
        }
      });
      if (failure) throw failure;
      return result;
    },
    onEvent(name, listener) {
      listeners.set(name, [...(listeners.get(name) ?? []), listener]);
    },
    state() {
      const usage = memory.usage();
      return {
        pins: pins.state(),
        files: storage.state().files,
        wifi: wifi.state(),
        memory: { usage, free: total - usage, total },
      };
    },
    stackPeak: () => realm.library.stackPeak(),
    stop() {
      isStopped = true;
      globals.stop();
      http.closeAll();
      pins.reset();
    },
  };
};
