/**
 * A simulated ESP32 with Espruino on it: realm, console, pins, flash, Wi-Fi and HTTP put together. Everything that can
 * differ between two boards is an option; time passes only as the given clock says.
 */
import { type Clock, realClock } from "./clock";
import { createPinObjects, type Globals, installGlobals, type Restart, VERSION } from "./globals";
import { createHttp, type Http } from "./http";
import { createMemoryEstimate, type MemoryEstimate } from "./memory";
import { createPins, type PinBank, type PinState } from "./pin";
import { createRealm, Interrupt, type Realm } from "./realm";
import { callHost, type Console, createRepl } from "./repl";
import type { SdCard } from "./sd";
import type { SerialDevice } from "./serial";
import { isRefused } from "./sockets";
import { dumpState, loadState, saveState, type StateSource } from "./state";
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
  /** An SD card, in a slot that is wired on the board. Default: no card, and nothing that it could be in. */
  sd?: SdCard;
  /** What is wired to `Serial2` and `Serial3`. */
  serial?: Record<string, SerialDevice>;
  /** Turns of loops without a pause after which a program counts as one that does not end. Default 10 million. */
  maxSteps?: number;
  /**
   * Told that board code has taken so many turns, and goes on until a Ctrl-C comes from a wire: as long as it runs, no
   * timer and no signal of this process is handled. Told `false` when it has ended.
   */
  onLongRun?(isRunning: boolean): void;
  /** Ends such a program all the same: for a board in the process of who would have to press Ctrl-C. */
  endsLongRuns?: boolean;
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
  /** Power-up: the boot files of Storage (an error in one is printed), the banner where there are none, the prompt. */
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
/** Runs at power-up only. */
const FIRST_BOOT_CODE = ".bootPowerOn";
const EARLY_CODE = [".boot0", ".boot1", ".boot2", ".boot3"];
const BOOT_CODE = ".bootcde";
/** Takes the place of the boot code, and runs after a reset, too. */
const RESET_CODE = ".bootrst";
/** What `save()` has written. */
const IMAGE = ".varimg";
/** Often enough for a person who presses Ctrl-C, and not to be felt in a loop. */
const TURNS_BETWEEN_LOOKS = 1024;

const fileVariable = (value: string): PropertyDescriptor => ({
  value,
  writable: true,
  enumerable: true,
  configurable: true,
});

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
  let pendingRestart: { kind: Restart; file?: string } | undefined;
  let isStopped = false;
  let hasLostInterval = false;
  let isLongRun = false;

  const repl = createRepl({
    realm: () => realm,
    clock,
    storage: () => storage.api,
    isPin: (value) => pinObjects.number(value) !== undefined,
    version: VERSION,
    board: "ESP32",
    onSerialData: (bytes) => realm.queue(() => globals.serialData(bytes)),
  });
  const printLine = (line: string) => repl.device.print(`${line}\n`);
  const storage = options.storage ?? createStorage({ print: (text) => repl.device.print(text) });
  const deliver = (fn: () => void) => realm.queue(fn);
  /** Whether a text is a part of a file in flash. */
  const isStored = (text: string) => storage.api.list().some((name) => storage.api.read(name)?.includes(text));
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
        if (error instanceof Interrupt) {
          // Of what ran when the chip was restarted nothing is heard any more.
          if (!isRebooting()) repl.printError(interruptText(text));
        } else if (handlers.length && !(error instanceof Error)) {
          for (const handler of handlers) realm.enter(() => void handler.call(realm.global.process, error));
        } else repl.printError(text);
      },
      isPin: (value) => pinObjects.number(value) !== undefined,
      isStored,
      deviceName: (value) => ["Serial1", "Serial2", "Serial3"].find((name) => value === realm.global[name]),
      onEmit(target, name, list) {
        if (target === realm.global.E)
          for (const listener of listeners.get(name) ?? []) callHost(() => listener(...list));
      },
      onIdle: idle,
      stackBytes: options.stackBytes,
      maxSteps: options.maxSteps,
      mayRunOn,
      memoryBytes: total * BLOCK_BYTES,
    });
    const own = realm;
    breakOnRequest(own);
    http = createHttp({
      clock,
      deliver: (fn) => own.queue(fn),
      online: () => wifi.isOnline(),
      print: printLine,
      refuses: isRefused,
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
      sdCard: options.sd,
      serialPorts: { clock, devices: options.serial ?? {} },
      memory: readMemory,
      sizeOf: (value) => memory.sizeOf(value),
      restart(kind, file) {
        pendingRestart = { kind, file };
        if (kind === "reboot") own.interrupt("steps");
      },
      dump: () => dumpState(stateSource()),
      intervalRemoved() {
        hasLostInterval = true;
      },
      timeAtBootMs: options.timeAtBootMs ?? 0,
    });
    memory = createMemoryEstimate({
      realm,
      roots: globals.roots,
      isStored,
      isInFlash: (origin) => origin !== undefined && origin !== "REPL" && origin !== "" && origin !== "eval",
    });
  };

  const readMemory = (): Record<string, number> => {
    const usage = memory.usage();
    return { free: total - usage, usage, total, history: 0, gc: 0, gctime: 0, blocksize: BLOCK_BYTES };
  };

  /** Lets Ctrl-C end what runs, at the turns of its loops. */
  const breakOnRequest = (own: Realm): void => {
    const { helpers } = own.library;
    const step = helpers.step as () => void;
    let turns = 0;
    helpers.step = () => {
      step();
      if (++turns % TURNS_BETWEEN_LOOKS === 0 && repl.takeBreak()) own.interrupt("steps");
    };
  };

  /** A program that does not end runs on where somebody can break it, as on a board. */
  const mayRunOn = (): boolean => {
    if (options.endsLongRuns === true || !repl.hasWire()) {
      repl.device.print("[simulator: ended after many turns of a loop, as nobody could press Ctrl-C]\n");
      return false;
    }
    if (!isLongRun) options.onLongRun?.(true);
    isLongRun = true;
    return true;
  };

  /** What the console says where an interrupt ended the code of an event; an interval that was ended is gone. */
  const interruptText = (text: string): string => {
    const isInterval = hasLostInterval;
    hasLostInterval = false;
    if (repl.isInLine()) return text;
    const rest = text.replace("Execution Interrupted\n", "");
    return (
      (isInterval ? "ERROR: Ctrl-C while processing interval - removing it.\n" : "") +
      `Execution Interrupted during event processing.\n${rest}` +
      (isInterval ? "New interpreter error: CALLBACK\n" : "")
    );
  };

  let isRestarting = false;
  const idle = (): void => {
    if (isLongRun) {
      isLongRun = false;
      options.onLongRun?.(false);
    }
    // Within a restart the call that makes it goes on below.
    if (isStopped || isRestarting) return;
    if (pendingRestart) {
      const { kind, file } = pendingRestart;
      pendingRestart = undefined;
      isRestarting = true;
      restart(kind, file);
      isRestarting = false;
      // A program that restarts the board as it starts must let the host breathe.
      if (pendingRestart) return void setImmediate(idle);
    }
    repl.idle();
  };

  const stateSource = (): StateSource => {
    const waiting = globals.waiting();
    const isBuiltIn = ([name]: [string, unknown]): boolean => storage.api.read(name) === undefined;
    return {
      ...waiting,
      modules: Object.fromEntries(Object.entries(waiting.modules).filter(isBuiltIn)),
      realm,
      pinNumber: (value) => pinObjects.number(value),
      pins: pins.state(),
      isEchoOn: repl.isEchoOn(),
      bootCode: storage.api.read(RESET_CODE) ?? storage.api.read(BOOT_CODE),
    };
  };

  /** Without taking the line being typed off the screen. */
  const printAsIs = (line: string): void => {
    if (repl.device.device() !== null) repl.device.write(`${line.replace(/\n/g, "\r\n")}\r\n`);
  };

  /** What `save()` does, in the interpreter's words; the interpreter then goes on as if it had been loaded. */
  const save = (): void => {
    printAsIs("Compacting Flash...");
    let image: string | undefined;
    try {
      image = saveState(stateSource());
    } catch (error) {
      printAsIs(`ERROR: ${(error as Error).message}. Nothing was saved; what was saved before is still there.`);
    }
    if (image !== undefined) {
      storage.api.erase(IMAGE);
      storage.api.compact(true);
      printAsIs("Calculating Size...");
      try {
        storage.api.write(IMAGE, image);
        printAsIs(`Writing..\nCompressed ${total * BLOCK_BYTES} bytes to ${image.length}`);
      } catch {
        printAsIs("Not enough free space to save. Try require('Storage').eraseAll()");
      }
    }
    realm.enter(() => runBootCode(false));
  };

  const loadImage = (): void => {
    const image = storage.api.read(IMAGE);
    if (image === undefined) return;
    printAsIs(`Loading ${image.length} bytes from flash...`);
    try {
      loadState(image, realm);
    } catch {
      printAsIs("Not loading saved code from different Espruino firmware.");
    }
  };

  const restart = (kind: Restart, file?: string): void => {
    realm.enter(() => tell("kill"));
    if (kind === "save") return save();
    const isLoad = kind === "load" && file === undefined;
    repl.clear(kind === "reboot" ? "power" : isLoad ? "load" : "reset");
    start();
    if (kind === "reboot") return powerUp();
    realm.enter(() => {
      if (file !== undefined) realm.library.define(realm.global, "__FILE__", fileVariable(file));
      if (isLoad) loadImage();
      runBootCode(!isLoad);
      if (!isLoad) repl.started(true);
      const code = file === undefined ? undefined : storage.api.read(file);
      if (code !== undefined) runFile(code, file!);
    });
  };

  const powerUp = (): void =>
    realm.enter(() => {
      loadImage();
      const hasCode = [BOOT_CODE, RESET_CODE, IMAGE].some((name) => storage.api.read(name) !== undefined);
      const first = storage.api.read(FIRST_BOOT_CODE);
      if (first !== undefined) runFile(first, FIRST_BOOT_CODE);
      runBootCode(false);
      if (!isRebooting()) repl.started(!hasCode);
    });

  const isRebooting = (): boolean => pendingRestart?.kind === "reboot";
  /** Runs board code that is no event's. Nothing does any more once it has restarted the chip. */
  const runCode = (fn: () => void): void =>
    repl.runLine(() => {
      if (isRebooting()) return;
      try {
        realm.library.resetStack();
        fn();
      } catch (error) {
        realm.report(error);
      }
    });
  const runFile = (code: string, name: string): void => runCode(() => void realm.evaluate(code, name));
  /** Calls who listens on `E`, at once. */
  const tell = (event: string): void => {
    const { library, global } = realm;
    for (const listener of library.listeners(global.E, event)) runCode(() => void listener.call(global.E));
  };

  /** After a reset only code that asked for it runs; then whoever waits for the start is told. */
  const runBootCode = (isReset: boolean): void => {
    for (const name of EARLY_CODE) {
      const code = storage.api.read(name);
      if (code !== undefined) runFile(code, name);
    }
    const code = storage.api.read(RESET_CODE) ?? (isReset ? undefined : storage.api.read(BOOT_CODE));
    if (code !== undefined) runFile(code, "boot code");
    tell("init");
    const onInit = Object.getOwnPropertyDescriptor(realm.global, "onInit")?.value as unknown;
    if (typeof onInit !== "function") return;
    if (repl.isEchoOn()) repl.device.print("Running onInit()...\n");
    runCode(() => void Reflect.apply(onInit, realm.global, []));
  };

  start();
  return {
    console: repl.console,
    pins,
    storage,
    wifi,
    clock,
    boot: powerUp,
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
      // A packet or a file under way has its time limit.
      repl.clear("power");
      globals.stop();
      http.closeAll();
      pins.reset();
    },
  };
};
