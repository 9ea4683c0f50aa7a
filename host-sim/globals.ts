/**
 * What Espruino's ESP32 build puts into the global scope besides the language: console, timers, pins, modules, `E`,
 * `process`, `Date` on the board's clock. Whatever of that build is not modelled is there as a name and throws, naming
 * itself, when it is used.
 */
import { randomInt } from "node:crypto";
import { type Bridge, createBridge } from "./bridge";
import type { Clock } from "./clock";
import type { Http } from "./http";
import type { PinBank, WatchEvent } from "./pin";
import type { Realm } from "./realm";
import type { Storage } from "./storage";
import { installDate, installTimers, type Timers } from "./time";
import type { Wifi } from "./wifi";

/** The console as board code sees it; made in repl.ts. */
export interface ConsoleDevice {
  /** Text of `print`: goes to the console device, nowhere while there is none. */
  print(text: string): void;
  /** Bytes written to `Serial1`, whoever has the console. */
  write(bytes: string): void;
  /** Name of the device that is the console: `"Serial1"` or null. */
  device(): string | null;
  setDevice(name: string | null): void;
  /** `echo(false)`: what is typed is not shown, nor values and prompts. */
  setEcho(isOn: boolean): void;
}

export interface GlobalsOptions {
  realm: Realm;
  clock: Clock;
  console: ConsoleDevice;
  storage: Storage;
  pins: PinBank;
  wifi: Wifi;
  http: Http;
  pinObjects: PinObjects;
  /** `process.memory()`. */
  memory(collect: boolean): Record<string, number>;
  /** `E.getSizeOf`: variables. */
  sizeOf(value: unknown): number;
  /** `reset()`, `load()` and `E.reboot()`, at the next idle moment. */
  restart(kind: "reset" | "load" | "reboot"): void;
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
const MODULES = "Flash,Storage,heatshrink,net,dgram,tls,http,NetworkJS,Wifi,TelnetServer,ESP32,crypto,neopixel";
const MODELLED_MODULES = ["Storage", "Wifi", "http"];

/** Globals of the ESP32 build that are not modelled. */
const UNMODELLED = (
  "I2C I2C1 I2C2 SPI SPI1 SPI2 OneWire Serial Serial2 Serial3 Terminal Telnet LoopbackA LoopbackB Graphics NRF " +
  "Bluetooth BluetoothDevice Waveform Unistroke Touchscreen neopixel ESP32 fs dump edit setBusyIndicator " +
  "setSleepIndicator setDeepSleep setSleep compiledC peek8 poke8 peek16 poke16 peek32 poke32 shiftOut getSerial " +
  "StorageFile File Uint24Array httpSrv httpSRq httpSRs httpCRq httpCRs Socket Server AES crypto tensorflow save"
).split(" ");

const UNMODELLED_E = (
  "getTemperature getAnalogVRef getVDDH nativeCall sum variance convolve FFT enableWatchdog kickWatchdog pipe " +
  "toJS memoryArea setBootCode setClock getClock reverseByte dumpLockedVars dumpFreeList dumpFragmentation " +
  "dumpVariables defrag getAddressOf mapInPlace dumpStr srand HSBtoRGB setPassword lockConsole setTimeZone setDST " +
  "memoryMap asm getBattery setRTCPrescaler getRTCPrescaler getPowerUsage decodeUTF8 stopEventPropagation " +
  "connectSDCard unmountSD openFile touch"
).split(" ");

const crc32 = (bytes: string): number => {
  let crc = 0xffffffff;
  for (let i = 0; i < bytes.length; i++) {
    crc ^= bytes.charCodeAt(i) & 0xff;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
};
const isList = (value: unknown): value is unknown[] => Array.isArray(value);

const installPrinting = (bridge: Bridge, device: ConsoleDevice): void => {
  const { library, global, native, functions } = bridge;
  const { newObject, method } = library;
  const show = (value: unknown): string =>
    typeof value === "string" ? value : library.format(value, { some: true, pretty: true, names: true });
  const print = native((...list: unknown[]) => device.print(`${list.map(show).join(" ")}\n`));
  method(global, "print", print);
  const consoleObject = newObject();
  for (const name of ["log", "debug", "info", "warn", "error"]) method(consoleObject, name, print);
  functions(consoleObject, { trace: (...list) => void print(...list) });
  method(global, "console", consoleObject);
  functions(global, {
    trace: (value?: unknown) => device.print(value === undefined ? "" : `${show(value)}\n`),
    echo: (isOn: unknown) => device.setEcho(Boolean(isOn)),
  });
};

const installPins = (bridge: Bridge, options: GlobalsOptions, timers: Timers): void => {
  const { library, global, native, functions, fail, notModelled, toRealm } = bridge;
  const { newObject, method } = library;
  const { pins, pinObjects } = options;
  const Pin: any = native((value: unknown) => pinObject(pinNumber(value)));
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
  const self = (value: unknown): number => pinObjects.number(value) ?? fail("TypeError", "Pin expected");
  functions(Pin.prototype, {
    toString(this: object) {
      return `D${self(this)}`;
    },
    valueOf(this: object) {
      return self(this);
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
    digitalWrite(pin: unknown, value: any) {
      if (!isList(pin)) return pins.write(pinNumber(pin), value);
      // The last pin of the list gets the lowest bit.
      for (let i = 0; i < pin.length; i++) pins.write(pinNumber(pin[i]), (Number(value) >> (pin.length - 1 - i)) & 1);
    },
    digitalRead(pin: unknown) {
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
      const listener = (event: WatchEvent) => timers.call(callback, [toRealmEvent(event)]);
      return pins.setWatch(listener, pinNumber(pin), settings);
    },
    clearWatch(...list: unknown[]) {
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
    inject: () => notModelled("Serial1.inject"),
    find: () => notModelled("Serial1.find"),
    pipe: () => notModelled("Serial1.pipe"),
  });
  method(global, "Serial1", Serial1);
  return (data) => {
    if (library.listeners(Serial1, "data").length) library.emit(Serial1, "data", [data]);
    else received += data;
  };
};

const installE = (bridge: Bridge, options: GlobalsOptions): void => {
  const { library, global, native, functions, fail, notModelled, bytes } = bridge;
  const { newObject, method, str } = library;
  const { Serial1 } = global;
  const device = options.console;
  const E = newObject();
  const flags = newObject();
  functions(E, {
    getConsole: () => device.device(),
    setConsole(target: unknown, settings?: { force?: boolean }) {
      if (target !== null && target !== undefined && target !== Serial1)
        return fail("Error", "E.setConsole: only Serial1 and null are modelled by the simulated board");
      if (!settings?.force && (target === null || target === undefined)) return device.setDevice("Serial1");
      device.setDevice(target === Serial1 ? "Serial1" : null);
    },
    toString: (...list: unknown[]) => list.map(bytes).join(""),
    toFlatString: (...list: unknown[]) => list.map(bytes).join(""),
    toArrayBuffer: (value: unknown) => library.arrayBuffer(bytes(value)),
    toUint8Array: (...list: unknown[]) => library.uint8Array(list.map(bytes).join("")),
    asUTF8: (value: unknown) => str(value),
    fromUTF8: (value: unknown) => str(value),
    isUTF8: () => false,
    getSizeOf: (value: unknown, depth?: number) =>
      depth === undefined || depth === 0 ? options.sizeOf(value) : notModelled("E.getSizeOf with a depth"),
    clip: (value: number, min: number, max: number) => Math.min(Math.max(value, min), max),
    reboot: () => options.restart("reboot"),
    getFlags: () => flags,
    setFlags: (values: object) => void Object.assign(flags, values),
    getErrorFlags: () => library.newArray([]),
    CRC32: (value: unknown) => crc32(bytes(value)),
    hwRand: () => randomInt(0, 2 ** 32) - 2 ** 31,
    lookupNoCase(haystack: Record<string, unknown>, needle: unknown, returnKey?: boolean) {
      const wanted = str(needle).toLowerCase();
      const key = Object.keys(haystack).find((name) => name.toLowerCase() === wanted);
      return key === undefined ? undefined : returnKey ? key : haystack[key];
    },
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
  const process = newObject();
  functions(process, {
    memory(collect?: unknown) {
      const copy = newObject();
      for (const [name, value] of Object.entries(options.memory(collect !== false))) copy[name] = value;
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
  const { newObject, method, str } = library;
  const url = newObject();
  functions(url, {
    parse(value: unknown, parseQuery?: unknown) {
      const text = str(value);
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
const installModules = (bridge: Bridge, options: GlobalsOptions): object => {
  const { realm, library, global, functions, fail, notModelled, toRealm, mount } = bridge;
  const { newObject, method, str } = library;
  const builtIn: Record<string, object> = {};
  const storageApi = options.storage.api as any;
  const Storage = newObject();
  mount(storageApi, Storage);
  const storageText = (data: unknown): unknown => {
    if (typeof data !== "object" || data === null || isList(data) || library.isBuffer(data)) return data;
    return library.format(data, { json: true });
  };
  functions(Storage, {
    write: (name: unknown, data: unknown, offset?: number, size?: number) =>
      storageApi.write(name, storageText(data), offset, size),
    writeJSON: (name: unknown, data: unknown) => storageApi.write(name, library.format(data, { json: true })),
    list(pattern?: any, filter?: any) {
      return toRealm(storageApi.list(hostPattern(pattern), filter));
    },
    hash: (pattern?: any) => storageApi.hash(hostPattern(pattern)),
  });
  /** Storage matches names with `name.match(pattern)`: lets the realm's own expressions do it. */
  const hostPattern = (pattern: any): any =>
    pattern === undefined
      ? undefined
      : {
          [Symbol.match]: (name: string) =>
            typeof pattern === "string" ? (name.includes(pattern) ? [] : null) : (pattern.exec(name) ?? null),
        };
  builtIn.Storage = Storage;
  builtIn.Wifi = mount(options.wifi.api, newObject());
  builtIn.http = mount(options.http.api, newObject());

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
    reset: () => options.restart("reset"),
    load(file?: unknown) {
      if (file !== undefined) return notModelled("load(file)");
      return options.restart("load");
    },
  });
  const Modules = newObject();
  functions(Modules, {
    getCached: () => library.newArray(Object.keys(modules)),
    removeCached(name: unknown) {
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

const installUnmodelled = (bridge: Bridge): void => {
  const { library, global, native, notModelled } = bridge;
  for (const name of UNMODELLED) {
    if (name in global) continue;
    library.define(global, name, {
      get: native(() => notModelled(name)),
      set: replaceable(name),
      enumerable: false,
      configurable: true,
    });
  }
  /** A program may define a global of its own by such a name. */
  function replaceable(name: string): (value: unknown) => void {
    return native((value: unknown) =>
      library.define(global, name, { value, writable: true, enumerable: true, configurable: true }),
    );
  }
  for (const [name, value] of Object.entries({ HIGH: 1, LOW: 0 })) library.method(global, name, value);
};

/** Puts everything into the realm's global object. */
export const installGlobals = (options: GlobalsOptions): Globals => {
  const bridge = createBridge(options.realm);
  installPrinting(bridge, options.console);
  installDate(bridge, options.clock, options.timeAtBootMs);
  const timers = installTimers(bridge, options.clock);
  installPins(bridge, options, timers);
  const serialData = installSerial(bridge, options.console);
  installE(bridge, options);
  installProcess(bridge, options);
  installUrl(bridge);
  const modules = installModules(bridge, options);
  installUnmodelled(bridge);
  return { stop: timers.stop, roots: () => [...timers.roots(), modules], serialData };
};
