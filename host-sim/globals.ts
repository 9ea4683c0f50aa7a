/**
 * What Espruino's ESP32 build puts into the global scope besides the language: console, timers, pins, modules, `E`,
 * `process`, `Date` on the board's clock. Whatever of that build is not modelled is there as a name and throws, naming
 * itself, when it is used.
 */
import { type Bridge, createBridge } from "./bridge";
import type { Clock } from "./clock";
import { createCrypto } from "./crypto";
import { installDate } from "./date";
import { installComputing } from "./e";
import { createHeatshrink } from "./heatshrink";
import { installGraphics } from "./graphics";
import type { Http } from "./http";
import { toJs } from "./packets";
import type { PinBank, WatchEvent } from "./pin";
import { createPipe } from "./pipe";
import type { Realm } from "./realm";
import { installSd, type Sd, type SdCard } from "./sd";
import { installSerialPort, type SerialPorts } from "./serial";
import type { StateSource, WaitingWatch } from "./state";
import type { Storage, StorageFile as StorageFileHandle } from "./storage";
import { installTimers, type Timers } from "./time";
import type { Wifi } from "./wifi";

/** The console as board code sees it; made in repl.ts. */
export interface ConsoleDevice {
  /** Text of `print`: goes to the console device, nowhere while there is none. */
  print(text: string): void;
  /** Bytes written to `Serial1`, whoever has the console. */
  write(bytes: string): void;
  /** Bytes that come in as if they had been sent to `Serial1`. Called by board code; they are read when that is over. */
  inject(bytes: string): void;
  /** Name of the device that is the console: `"Serial1"` or null. */
  device(): string | null;
  setDevice(name: string | null): void;
  /** `echo(false)`: what is typed is not shown, nor values and prompts. */
  setEcho(isOn: boolean): void;
}

/** How the interpreter starts anew. */
export type Restart = "reset" | "load" | "reboot" | "save";

export interface GlobalsOptions {
  realm: Realm;
  clock: Clock;
  console: ConsoleDevice;
  storage: Storage;
  pins: PinBank;
  wifi: Wifi;
  http: Http;
  pinObjects: PinObjects;
  /** What is in the slot for SD cards. */
  sdCard?: SdCard;
  /** What is at the pins of `Serial2` and `Serial3`. */
  serialPorts: SerialPorts;
  /** `process.memory()`. */
  memory(collect: boolean): Record<string, number>;
  /** `E.getSizeOf`: variables. */
  sizeOf(value: unknown): number;
  /** `reset()`, `load()`, `load(file)` and `save()`, at the next idle moment. `E.reboot()` does not return. */
  restart(kind: Restart, file?: string): void;
  /** `dump()`. */
  dump(): string;
  /** An interval was removed because its code was interrupted. */
  intervalRemoved(): void;
  /** Unix time in ms at power-up. A real board starts at 0 until something sets its clock. */
  timeAtBootMs: number;
}

export interface Globals {
  /** Stops every timer. */
  stop(): void;
  /** Objects the board itself holds: callbacks of timers and loaded modules, for the estimate of memory. */
  roots(): unknown[];
  /** Bytes that came in while `Serial1` is not the console. */
  serialData(bytes: string): void;
  /** What the interpreter holds besides the global scope, for `dump` and `save`. */
  waiting(): Pick<StateSource, "timers" | "watches" | "modules">;
}

/** Which pin an object stands for. Shared with realm.ts, which has to know pins from objects. */
export interface PinObjects {
  number(value: unknown): number | undefined;
  add(value: object, number: number): void;
}

export const createPinObjects = (): PinObjects => {
  const numbers = new WeakMap<object, number>();
  return {
    number: (value) => (typeof value === "object" && value !== null ? numbers.get(value) : undefined),
    add: (value, number) => void numbers.set(value, number),
  };
};

export const VERSION = "2v29";
const PIN_COUNT = 40;
/** Sizes of the buffers of an ESP32 for what comes in and goes out, and the heap it has left once it has started. */
const RX_EVENTS = 4096;
const TX_BYTES = 128;
const FREE_HEAP = 110_000;
const MODULES = "timer,Flash,Storage,heatshrink,fs,net,dgram,tls,http,NetworkJS,Wifi,TelnetServer,crypto,neopixel";
const MODELLED_MODULES = ["Storage", "Wifi", "http", "net", "tls", "dgram", "crypto", "heatshrink", "fs"];

/** Globals of the ESP32 build that are not modelled. */
const UNMODELLED = (
  "I2C I2C1 I2C2 OneWire Serial Terminal Telnet LoopbackA LoopbackB NRF " +
  "Bluetooth BluetoothDevice Waveform Unistroke Touchscreen neopixel ESP32 fs edit setBusyIndicator " +
  "setSleepIndicator setDeepSleep setSleep compiledC peek8 poke8 peek16 poke16 peek32 poke32 shiftOut getSerial " +
  "Uint24Array httpSrv httpSRq httpSRs httpCRq httpCRs Socket Server AES crypto tensorflow"
).split(" ");

const UNMODELLED_E = (
  "getTemperature getAnalogVRef getVDDH nativeCall FFT " +
  "memoryArea setClock getClock dumpLockedVars dumpFreeList dumpFragmentation " +
  "dumpVariables defrag getAddressOf dumpStr srand setPassword lockConsole " +
  "memoryMap asm getBattery setRTCPrescaler getRTCPrescaler getPowerUsage touch"
).split(" ");

const isList = (value: unknown): value is unknown[] => Array.isArray(value);

const installPrinting = (bridge: Bridge, device: ConsoleDevice): void => {
  const { library, global, native, functions } = bridge;
  const { newObject, method } = library;
  const show = (value: unknown): string =>
    typeof value === "string" ? value : library.format(value, { some: true, pretty: true, names: true });
  const print = native((...list: unknown[]) => device.print(`${list.map(show).join(" ")}\n`));
  method(global, "print", print);
  const consoleObject = library.builtIn(newObject());
  for (const name of ["log", "debug", "info", "warn", "error"]) method(consoleObject, name, print);
  functions(consoleObject, { trace: (...list) => void print(...list) });
  method(global, "console", consoleObject);
  functions(global, {
    trace: (value?: unknown) => device.print(value === undefined ? "" : `${show(value)}\n`),
    echo: (isOn: unknown) => device.setEcho(Boolean(isOn)),
  });
};

/** Returns what tells the watches that are set. */
const installPins = (bridge: Bridge, options: GlobalsOptions, timers: Timers): (() => WaitingWatch[]) => {
  const watches = new Map<number, WaitingWatch>();
  const { library, global, native, functions, fail, notModelled, toRealm } = bridge;
  const { newObject, method } = library;
  const { pins, pinObjects } = options;
  const Pin: any = native((value: unknown) => (isPinLike(value) ? pinObject(pinNumber(value)) : undefined));
  const pinList: object[] = [];
  const pinObject = (number: number): object => pinList[number] ?? fail("Error", "Invalid pin");
  /** What digitalWrite and the others take for a pin: a Pin, its name or its number. */
  const pinNumber = (value: unknown): number => {
    const known = pinObjects.number(value);
    if (known !== undefined) return known;
    const match = typeof value === "string" ? /^D?(\d+)$/.exec(value) : undefined;
    const number = match ? Number(match[1]) : value;
    return typeof number === "number" && Number.isInteger(number) && number >= 0 && number < PIN_COUNT
      ? number
      : fail("Error", "Invalid pin");
  };
  const isPinLike = (value: unknown): boolean => {
    try {
      return pinNumber(value) >= 0;
    } catch {
      return false;
    }
  };
  /** Any object can stand for a pin that has the methods for it. */
  const hasMethod = (pin: any, name: string): boolean =>
    typeof pin === "object" && pin !== null && pinObjects.number(pin) === undefined && typeof pin[name] === "function";
  const self = (value: unknown): number => pinObjects.number(value) ?? fail("TypeError", "Pin expected");
  functions(Pin.prototype, {
    toString(this: object) {
      const number = pinObjects.number(this);
      return number === undefined ? "[object Object]" : `D${number}`;
    },
    valueOf(this: object) {
      return pinObjects.number(this) ?? this;
    },
    read(this: object) {
      return pins.read(self(this)) === 1;
    },
    write(this: object, value: unknown) {
      pins.write(self(this), value);
    },
    set(this: object) {
      pins.write(self(this), 1);
    },
    reset(this: object) {
      pins.write(self(this), 0);
    },
    toggle(this: object) {
      return pins.toggle(self(this));
    },
    mode(this: object, mode?: any) {
      pins.mode(self(this), mode);
    },
    getMode(this: object) {
      return pins.getMode(self(this));
    },
    pulse(this: object, value: unknown, time: any) {
      pins.pulse(self(this), value, time);
    },
    analog(this: object) {
      return pins.analogRead(self(this));
    },
    pwm(this: object, value: number, settings?: any) {
      pins.analogWrite(self(this), value, settings);
    },
    getInfo(this: object) {
      return toRealm(pins.getInfo(self(this)));
    },
    writeAtTime: () => notModelled("Pin.writeAtTime"),
  });
  method(global, "Pin", Pin);
  for (let number = 0; number < PIN_COUNT; number++) {
    const pin = Object.create(Pin.prototype) as object;
    pinObjects.add(pin, number);
    pinList.push(pin);
    method(global, `D${number}`, pin);
  }
  method(global, "BTN1", pinList[0]);
  functions(global, {
    digitalWrite(pin: any, value: any) {
      if (hasMethod(pin, "write")) return void pin.write(value);
      if (!isList(pin)) return pins.write(pinNumber(pin), value);
      // The last pin of the list gets the lowest bit.
      for (let i = 0; i < pin.length; i++) pins.write(pinNumber(pin[i]), (Number(value) >> (pin.length - 1 - i)) & 1);
    },
    digitalRead(pin: any) {
      if (hasMethod(pin, "read")) return library.toInteger(pin.read());
      if (!isList(pin)) return pins.read(pinNumber(pin));
      return pin.reduce((bits: number, item) => bits * 2 + pins.read(pinNumber(item)), 0);
    },
    digitalPulse: (pin: unknown, value: unknown, time: any) => pins.pulse(pinNumber(pin), value, time),
    pinMode: (pin: unknown, mode?: any, automatic?: boolean) => pins.mode(pinNumber(pin), mode, automatic),
    getPinMode: (pin: unknown) => pins.getMode(pinNumber(pin)),
    analogWrite: (pin: unknown, value: number, settings?: any) => pins.analogWrite(pinNumber(pin), value, settings),
    analogRead: (pin: unknown) => pins.analogRead(pinNumber(pin)),
    setWatch(callback: unknown, pin: unknown, settings?: any) {
      if (typeof callback !== "function" && typeof callback !== "string")
        return fail("Error", "Function or String not supplied!");
      const listener = (event: WatchEvent) => {
        if (settings !== true && !settings?.repeat) watches.delete(id!);
        timers.call(callback, [toRealmEvent(event)]);
      };
      const id = pins.setWatch(listener, pinNumber(pin), settings);
      if (id !== undefined) watches.set(id, { callback, pin: pinNumber(pin), settings });
      return id;
    },
    clearWatch(...list: unknown[]) {
      if (list.length === 0) watches.clear();
      else watches.delete(list[0] as number);
      if (list.length === 0) return pins.clearAllWatches();
      if (list[0] === undefined) return fail("Error", "clearWatch(undefined) not allowed. Use clearWatch() instead");
      return pins.clearWatch(list[0] as number);
    },
  });
  const toRealmEvent = (event: WatchEvent): unknown => {
    const copy = newObject();
    copy.state = event.state;
    copy.lastTime = event.lastTime;
    copy.time = event.time;
    copy.pin = typeof event.pin === "number" ? pinList[event.pin] : event.pin;
    return copy;
  };
  return () => [...watches.values()];
};

/** The console's device. Returns what takes the bytes that come in while it is not the console. */
const installSerial = (bridge: Bridge, device: ConsoleDevice): ((data: string) => void) => {
  const { library, global, functions, notModelled, bytes } = bridge;
  const { newObject, method, str } = library;
  const Serial1 = newObject();
  let received = "";
  functions(Serial1, {
    write: (...list: unknown[]) => device.write(list.map(bytes).join("")),
    print: (value: unknown) => device.write(str(value)),
    println: (value: unknown) => device.write(`${str(value)}\r\n`),
    setConsole: () => device.setDevice("Serial1"),
    available: () => received.length,
    read(count?: number) {
      const piece = count === undefined ? received : received.slice(0, count);
      received = received.slice(piece.length);
      return piece;
    },
    flush: () => undefined,
    setup: () => notModelled("Serial1.setup"),
    unsetup: () => notModelled("Serial1.unsetup"),
    inject: (...list: unknown[]) => device.inject(list.map(bytes).join("")),
    find: () => notModelled("Serial1.find"),
    pipe: () => notModelled("Serial1.pipe"),
  });
  method(global, "Serial1", Serial1);
  return (data) => {
    if (library.listeners(Serial1, "data").length) library.emit(Serial1, "data", [data]);
    else received += data;
  };
};

/**
 * The chip's watchdog. By default the interpreter kicks it whenever it idles: as no time passes on the board's clock while
 * code runs, only a program that has taken over kicking can miss it. Returns what takes its power away.
 */
const installWatchdog = (bridge: Bridge, options: GlobalsOptions): (() => void) => {
  let timer: number | undefined;
  let timeoutMs = 0;
  const stop = (): void => {
    if (timer !== undefined) options.clock.clearTimeout(timer);
    timer = undefined;
  };
  const kick = (): void => {
    stop();
    const bite = () => options.realm.queue(() => options.restart("reboot"));
    if (timeoutMs) timer = options.clock.setTimeout(bite, timeoutMs);
  };
  bridge.functions(bridge.global.E, {
    enableWatchdog(seconds: any, isAuto?: unknown) {
      const isManual = isAuto !== undefined && !isAuto;
      timeoutMs = isManual ? Math.round(seconds >= 0 ? Number(seconds) : 1) * 1000 : 0;
      kick();
    },
    kickWatchdog: kick,
  });
  return stop;
};

const installE = (bridge: Bridge, options: GlobalsOptions): void => {
  const { library, global, native, functions, fail, notModelled } = bridge;
  const { newObject, method } = library;
  const { Serial1 } = global;
  const device = options.console;
  const E = library.builtIn(newObject());
  const flags = newObject();
  /** Variables of a value; down to a depth those of each of its fields, which take one for their name. */
  const sizes = (value: any, depth: number): unknown => {
    if (depth <= 0 || (typeof value !== "object" && typeof value !== "function") || value === null)
      return options.sizeOf(value);
    const list = Object.keys(value).map((name) => {
      const item = newObject();
      item.name = name;
      // A small number is kept beside its name, all else is a variable of its own.
      const isBeside = typeof value[name] === "number" || typeof value[name] === "boolean" || value[name] === null;
      item.size = isBeside ? 1 : 1 + options.sizeOf(value[name]);
      if (depth > 1 && typeof value[name] === "object" && value[name] !== null) item.more = sizes(value[name], depth - 1);
      return item;
    });
    return library.newArray(list);
  };
  functions(E, {
    getConsole: () => device.device(),
    setConsole(target: unknown, settings?: { force?: boolean }) {
      if (target !== null && target !== undefined && target !== Serial1)
        return fail("Error", "E.setConsole: only Serial1 and null are modelled by the simulated board");
      if (!settings?.force && (target === null || target === undefined)) return device.setDevice("Serial1");
      device.setDevice(target === Serial1 ? "Serial1" : null);
    },
    getSizeOf(value: unknown, depth?: unknown) {
      return sizes(value, library.toInteger(depth));
    },
    reboot: () => options.restart("reboot"),
    setBootCode(code?: unknown, runsAfterReset?: unknown) {
      const { api } = options.storage;
      for (const name of [".bootcde", ".bootrst"]) api.erase(name);
      if (typeof code === "string" && code !== "") api.write(runsAfterReset ? ".bootrst" : ".bootcde", code);
    },
    toJS: (value: unknown) => toJs(library, value, (item) => options.pinObjects.number(item) !== undefined),
    getFlags: () => flags,
    setFlags: (values: object) => void Object.assign(flags, values),
    getErrorFlags: () => library.newArray([]),
  });
  for (const name of ["deepSleep", "unsafeFlash", "unsyncFiles", "pretokenise", "onErrorSave", "onErrorFlash"])
    flags[name] = 0;
  for (const name of UNMODELLED_E)
    method(
      E,
      name,
      native(() => notModelled(`E.${name}`)),
    );
  method(global, "E", E);
};

const installProcess = (bridge: Bridge, options: GlobalsOptions): void => {
  const { library, global, native, functions } = bridge;
  const { newObject, method } = library;
  const process = library.builtIn(newObject());
  functions(process, {
    memory(collect?: unknown) {
      const isCollected = collect === undefined || !!collect;
      const copy = newObject();
      for (const [name, value] of Object.entries(options.memory(isCollected)))
        if (isCollected || !name.startsWith("gc")) copy[name] = value;
      copy.rx = Object.assign(newObject(), { used: 0, total: RX_EVENTS });
      copy.tx = Object.assign(newObject(), { used: 0, total: TX_BYTES, free_heap: FREE_HEAP, largest_block: FREE_HEAP });
      return copy;
    },
  });
  const environment = () => {
    const env = newObject();
    env.VERSION = VERSION;
    env.GIT_COMMIT = "simulated";
    env.BOARD = "ESP32";
    env.RAM = 524288;
    env.FLASH = 0;
    env.STORAGE = options.storage.state().totalBytes;
    env.SERIAL = "240ac400-0001";
    env.CONSOLE = options.console.device();
    env.MODULES = MODULES;
    env.EXPTR = 0;
    return env;
  };
  library.define(process, "env", { get: native(environment), enumerable: false, configurable: true });
  library.define(process, "version", { get: native(() => VERSION), enumerable: false, configurable: true });
  method(global, "process", process);
};

const installUrl = (bridge: Bridge): void => {
  const { library, global, functions } = bridge;
  const { newObject, method } = library;
  const url = library.builtIn(newObject());
  functions(url, {
    parse(value: unknown, parseQuery?: unknown) {
      if (typeof value !== "string") return undefined;
      const text = value;
      const result = newObject();
      const [, protocol, rest = ""] = /^(?:([^/]*:)\/\/)?([\s\S]*)$/.exec(text)!;
      if (protocol) result.protocol = protocol;
      const slash = rest.indexOf("/");
      const address = slash < 0 ? rest : rest.slice(0, slash);
      const path = slash < 0 ? "/" : rest.slice(slash);
      const port = protocol ? /:(\d+)$/.exec(address) : null;
      const question = path.indexOf("?");
      const query = question < 0 ? null : path.slice(question + 1);
      result.method = "GET";
      result.host = port ? address.slice(0, port.index) : address;
      result.path = path;
      result.pathname = question < 0 ? path : path.slice(0, question);
      result.search = question < 0 ? null : path.slice(question);
      result.port = port ? Number(port[1]) : null;
      result.query = query;
      if (parseQuery && query !== null) {
        result.query = newObject();
        for (const pair of query.split("&")) {
          const equals = pair.indexOf("=");
          const decode = (part: string) => global.decodeURIComponent(part.replace(/\+/g, " "));
          result.query[decode(equals < 0 ? pair : pair.slice(0, equals))] =
            equals < 0 ? "" : decode(pair.slice(equals + 1));
        }
      }
      return result;
    },
  });
  method(global, "url", url);
};

/** `require`, `Modules`, `reset` and `load`. Returns the object that holds the loaded modules. */
const installModules = (bridge: Bridge, options: GlobalsOptions, sd: Sd): object => {
  const { realm, library, global, native, functions, fail, notModelled, toRealm, mount, bytes } = bridge;
  const { newObject, method, str } = library;
  const builtIn: Record<string, object> = {};
  const storageApi = options.storage.api as any;
  const Storage = library.builtIn(newObject());
  mount(storageApi, Storage);
  const storageData = (data: unknown): unknown => {
    if (typeof data === "string" || typeof data === "function" || data === undefined) return data;
    if (typeof data !== "object" || data === null || isList(data) || library.isBuffer(data)) return bytes(data);
    return library.format(data, { json: true });
  };
  functions(Storage, {
    write: (name: unknown, data: unknown, offset?: number, size?: number) =>
      storageApi.write(name, storageData(data), offset, size),
    writeJSON: (name: unknown, data: unknown) =>
      storageApi.write(name, library.format(data, { json: true, dropQuotes: true, shortEscapes: true })),
    readJSON(name: unknown, isForgiving?: unknown) {
      const text: string | undefined = storageApi.read(name);
      if (text === undefined) return undefined;
      try {
        return library.parseJson(text, true);
      } catch (error) {
        if (isForgiving) return undefined;
        throw error;
      }
    },
    open(name: unknown, mode: unknown) {
      const file = storageApi.open(name, mode);
      const target = newObject(StorageFile.prototype);
      openFiles.set(target, file);
      return showFields(target, file);
    },
    list(pattern?: any, filter?: any) {
      return toRealm(storageApi.list(hostPattern(pattern), filter));
    },
    hash: (pattern?: any) => storageApi.hash(hostPattern(pattern)),
  });
  const openFiles = new WeakMap<object, StorageFileHandle>();
  const StorageFile: any = native(() => fail("Error", "StorageFile: use require(\"Storage\").open"));
  const showFields = (target: any, file: StorageFileHandle): object => {
    for (const field of ["name", "chunk", "offset", "mode"] as const) target[field] = file[field];
    return target;
  };
  const fileMethod = (call: (file: StorageFileHandle, ...list: unknown[]) => unknown) =>
    function (this: any, ...list: unknown[]) {
      const file = openFiles.get(this) ?? fail("Error", "Not a StorageFile");
      try {
        return call(file, ...list);
      } finally {
        showFields(this, file);
      }
    };
  functions(StorageFile.prototype, {
    read: fileMethod((file, length) => file.read(length as number)),
    readLine: fileMethod((file) => file.readLine()),
    getLength: fileMethod((file) => file.getLength()),
    write: fileMethod((file, data) => file.write(typeof data === "string" ? data : str(data))),
    erase: fileMethod((file) => file.erase()),
    pipe: () => notModelled("StorageFile.pipe"),
  });
  method(StorageFile.prototype, "constructor", StorageFile);
  method(global, "StorageFile", StorageFile);
  /** Storage matches names with `name.match(pattern)`: lets the realm's own expressions do it. */
  const hostPattern = (pattern: any): any =>
    pattern === undefined
      ? undefined
      : {
          [Symbol.match]: (name: string) =>
            typeof pattern === "string" ? (name.includes(pattern) ? [] : null) : (pattern.exec(name) ?? null),
        };
  builtIn.Storage = Storage;
  builtIn.Wifi = mount(options.wifi.api, library.builtIn(newObject()));
  builtIn.fs = sd.fs;
  builtIn.crypto = createCrypto(bridge);
  builtIn.heatshrink = createHeatshrink(bridge);
  builtIn.net = mount(options.http.net, library.builtIn(newObject()));
  builtIn.tls = mount(options.http.tls, library.builtIn(newObject()));
  builtIn.dgram = mount(options.http.dgram, library.builtIn(newObject()));
  builtIn.http = mount(options.http.api, library.builtIn(newObject()));

  const modules = newObject();
  functions(global, {
    require(name: unknown) {
      if (typeof name !== "string")
        return fail("TypeError", `Expecting module name as a string, got ${library.typeName(name)}`);
      if (Object.hasOwn(modules, name)) return modules[name];
      if (Object.hasOwn(builtIn, name)) return (modules[name] = builtIn[name]);
      if (MODULES.split(",").includes(name) && !MODELLED_MODULES.includes(name))
        return notModelled(`require("${name}")`);
      const code = options.storage.api.read(name);
      if (code === undefined) return fail("Error", `Module "${name}" not found`);
      return (modules[name] = realm.runModule(code, "module"));
    },
    reset(isFlashCleared?: unknown) {
      if (isFlashCleared) {
        options.console.print("Erasing saved code.");
        for (const name of [".varimg", ".bootcde", ".bootrst"]) options.storage.api.erase(name);
        options.console.print("\nDone!\n");
      }
      options.restart("reset");
    },
    load: (file?: unknown) => options.restart("load", file === undefined ? undefined : str(file)),
    save() {
      if (options.storage.api.read(".bootcde") !== undefined)
        return fail("Error", "Cannot save: .bootcde file already exists. Please remove it first.");
      return options.restart("save");
    },
    dump: () => options.console.print(options.dump()),
  });
  const Modules = library.builtIn(newObject());
  functions(Modules, {
    getCached: () => library.newArray(Object.keys(modules)),
    removeCached(name: unknown) {
      if (!Object.hasOwn(modules, str(name))) return fail("Error", `Module "${str(name)}" not found`);
      delete modules[str(name)];
    },
    removeAllCached() {
      for (const name of Object.keys(modules)) delete modules[name];
    },
    addCached(name: unknown, code: unknown) {
      const body = typeof code === "function" ? library.functionInfo(code)?.body : str(code);
      modules[str(name)] = realm.runModule(body ?? "", "module");
    },
  });
  method(global, "Modules", Modules);
  return modules;
};

/** Set up, and handed on to `E.connectSDCard`: nothing else can be done with them. */
const installSpi = ({ library, global, native, functions, notModelled }: Bridge): void => {
  const SPI = native(() => notModelled("new SPI"));
  const shared = library.newObject();
  functions(shared, { setup: () => undefined });
  for (const missing of ["send", "write", "send4bit", "send8bit"])
    functions(shared, { [missing]: () => notModelled(`SPI.${missing}`) });
  Object.defineProperty(SPI, "prototype", { value: shared });
  library.method(global, "SPI", SPI);
  for (const name of ["SPI1", "SPI2"]) library.method(global, name, Object.setPrototypeOf(library.newObject(), shared));
};

const installUnmodelled = (bridge: Bridge): void => {
  const { library, global, native, notModelled } = bridge;
  for (const name of UNMODELLED) {
    if (name in global) continue;
    // A function, as far as `typeof` can see; whatever else is done with it says what it is.
    const missing = native(() => notModelled(name));
    const stand = new Proxy(missing, { get: () => notModelled(name), set: () => notModelled(name) });
    library.method(global, name, stand);
  }
  for (const [name, value] of Object.entries({ HIGH: 1, LOW: 0 })) library.method(global, name, value);
};

/** Puts everything into the realm's global object. */
export const installGlobals = (options: GlobalsOptions): Globals => {
  const bridge = createBridge(options.realm);
  installPrinting(bridge, options.console);
  const timers = installTimers(bridge, options.clock, options.intervalRemoved);
  const watches = installPins(bridge, options, timers);
  const serialData = installSerial(bridge, options.console);
  installE(bridge, options);
  installComputing(bridge);
  installDate(bridge, options.clock, options.timeAtBootMs);
  const stopWatchdog = installWatchdog(bridge, options);
  installProcess(bridge, options);
  installUrl(bridge);
  const pipe = createPipe(bridge, options.clock);
  bridge.functions(bridge.global.E, { pipe });
  const sd = installSd(bridge, {
    card: options.sdCard,
    isPin: (value) => options.pinObjects.number(value) !== undefined,
    freeVariables: () => options.memory(false).free!,
    print: (line) => options.console.print(`${line}\n`),
    pipe,
  });
  const modules = installModules(bridge, options, sd);
  installSpi(bridge);
  installGraphics(bridge, (line) => options.console.print(`${line}\n`));
  const serials = ["Serial2", "Serial3"].map((name) => installSerialPort(bridge, name, options.serialPorts));
  installUnmodelled(bridge);
  const stop = (): void => {
    timers.stop();
    stopWatchdog();
    sd.unmount();
    for (const stopSerial of serials) stopSerial();
  };
  return {
    stop,
    roots: () => [...timers.roots(), modules],
    serialData,
    waiting: () => ({ timers: timers.waiting(), watches: watches(), modules: modules as Record<string, unknown> }),
  };
};
