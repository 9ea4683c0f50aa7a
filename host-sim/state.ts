/**
 * The state of the interpreter as a whole: what `dump()` prints of it, and what `save()` keeps in flash.
 *
 * A board saves an image of its memory. Here it is JSON: every value that the program's globals, listeners, timers and
 * watches reach, with what refers to what. What cannot be made anew from its text is refused, by name: functions that
 * use variables of a function around them, and promises. A constant comes back as a variable.
 */
import type { PinState } from "./pin";
import type { Realm } from "./realm";

export interface WaitingTimer {
  id: number;
  callback: unknown;
  list: unknown[];
  /** Milliseconds between two calls, for an interval. */
  interval?: number;
  /** Milliseconds until the next call. */
  left: number;
}

export interface WaitingWatch {
  callback: unknown;
  pin: number;
  settings: unknown;
}

/** What there is besides the program's own values. */
export interface StateSource {
  realm: Realm;
  /** Which pin an object stands for. */
  pinNumber(value: unknown): number | undefined;
  pins: Record<string, PinState>;
  timers: WaitingTimer[];
  watches: WaitingWatch[];
  /** Built-in modules that have been loaded, by name. */
  modules: Record<string, unknown>;
  isEchoOn: boolean;
  /** The boot code in flash, where there is any. */
  bootCode: string | undefined;
}

const isObject = (value: unknown): value is object =>
  (typeof value === "object" && value !== null) || typeof value === "function";

/** Names of the program's own globals: built-in ones are not enumerable. */
const globalsOf = ({ library, global }: Realm): string[] =>
  library.ownNames(global).filter((name) => library.nativeDescriptor(global, name)!.enumerable);

/** Built-in objects by what a program writes for them: globals, what hangs on those, modules. */
const builtInsOf = ({ realm, modules }: StateSource): Map<object, string> => {
  const { library, global } = realm;
  const found = new Map<object, string>();
  const add = (value: unknown, path: string): boolean => {
    if (!isObject(value) || found.has(value)) return false;
    found.set(value, path);
    return true;
  };
  const visit = (object: object, path: string, depth: number): void => {
    for (const name of library.ownNames(object)) {
      const descriptor = library.nativeDescriptor(object, name)!;
      if (descriptor.enumerable || !("value" in descriptor)) continue;
      if (name === "constructor" || !/^[A-Za-z_$][\w$]*$/.test(name)) continue;
      const own = path === "" ? name : `${path}.${name}`;
      if (add(descriptor.value, own) && depth > 0) visit(descriptor.value as object, own, depth - 1);
    }
  };
  add(global, "global");
  visit(global as object, "", 2);
  for (const [name, module] of Object.entries(modules)) {
    const path = `require(${JSON.stringify(name)})`;
    if (add(module, path)) visit(module as object, path, 0);
  }
  return found;
};

/** The source text that would bring about the state, as far as the interpreter shows it. */
export const dumpState = (source: StateSource): string => {
  const { realm, pins, timers, watches, isEchoOn, bootCode } = source;
  const { library, global } = realm;
  const names = globalsOf(realm);
  const builtIns = builtInsOf(source);
  const valueOf = (name: string): unknown => (global as Record<string, unknown>)[name];
  const nameOf = (value: unknown): string | undefined =>
    isObject(value) ? names.find((name) => valueOf(name) === value) : undefined;
  const json = (value: unknown): string => library.format(value, { some: true, pretty: true });
  /** The first global that holds an object stands for it everywhere else. */
  const nameOrJson = (value: unknown, own?: string): string => {
    const name = nameOf(value);
    return name === undefined || name === own ? json(value) : name;
  };
  let out = "";
  const listeners = (object: object, path: string): void => {
    for (const key of library.ownNames(object)) {
      if (!key.startsWith(library.eventPrefix)) continue;
      const event = key.slice(library.eventPrefix.length);
      for (const listener of library.listeners(object, event))
        out += `${path}.on(${json(event)}, ${nameOrJson(listener)});\n`;
    }
  };
  const fields = (object: object, path: string): void => {
    for (const name of library.ownNames(object)) {
      const descriptor = library.nativeDescriptor(object, name)!;
      if (descriptor.enumerable && "value" in descriptor && !name.startsWith(library.eventPrefix))
        out += `${path}.${name} = ${nameOrJson(descriptor.value)};\n`;
    }
    listeners(object, path);
  };

  for (const name of names) {
    const value = valueOf(name);
    if (typeof value === "function") {
      if (!library.functionInfo(value)) continue;
      out += `function ${name}${library.format(value, {}).replace(/^function /, "")}\n`;
      fields(value, name);
      const prototype = library.nativeDescriptor(value, "prototype")?.value as object | undefined;
      for (const method of prototype ? library.ownNames(prototype) : []) {
        if (method === "constructor") continue;
        out += `${name}.prototype.${method} = ${nameOrJson((prototype as any)[method])};\n`;
      }
      continue;
    }
    const isInstance = isObject(value) && !Array.isArray(value) && !library.isBuffer(value);
    const prototype = isInstance ? Object.getPrototypeOf(value) : undefined;
    if (prototype && prototype !== global.Object.prototype && source.pinNumber(value) === undefined) {
      const path = nameOf(prototype.constructor) ?? builtIns.get(prototype.constructor) ?? "Object";
      out += `var ${name} = Object.create(${path}.prototype);\n`;
      fields(value as object, name);
      continue;
    }
    out += `var ${name} = ${nameOrJson(value, name)};\n`;
    if (isObject(value)) listeners(value, name);
  }
  for (const [object, path] of builtIns) listeners(object, path);
  for (const { id, callback, interval, left } of timers) {
    const start = interval === undefined ? "setTimeout" : "setInterval";
    out += `${start}(${nameOrJson(callback)}, ${interval ?? left}); // ${id}\n`;
  }
  for (const { callback, pin, settings } of watches) {
    const { repeat, edge, debounce } = Object(settings) as { repeat?: unknown; edge?: unknown; debounce?: number };
    const isRepeated = settings === true || Boolean(repeat);
    const isRising = edge === 1 || edge === "rising";
    const direction = isRising ? "rising" : edge === -1 || edge === "falling" ? "falling" : "both";
    const wait = debounce ? `, debounce : ${debounce}` : "";
    out += `setWatch(${nameOrJson(callback)}, D${pin}, { repeat:${isRepeated}, edge:'${direction}'${wait} });\n`;
  }
  if (!isEchoOn) out += "echo(0);";
  out += hardware(pins);
  return bootCode === undefined ? out : `${out}// Code saved with E.setBootCode\n${bootCode}`;
};

/** Modes and levels of the pins that something has set. */
const hardware = (pins: Record<string, PinState>): string => {
  let out = "";
  for (const [pin, { mode, value, pwm }] of Object.entries(pins)) {
    if (mode === "undefined" || mode === "input" || pwm) continue;
    out += mode === "output" ? `digitalWrite(${pin}, ${value});\n` : `pinMode(${pin}, ${JSON.stringify(mode)});\n`;
  }
  return out;
};

/** A value in the image: as it is, what JSON has no word for, or the place of an object. */
type Ref = null | boolean | number | string | { word: string } | { at: number };
type Field = [name: string, ref: Ref] | [name: string, getter: Ref, setter: Ref];

type Entry =
  | { kind: "builtIn"; path: string }
  | { kind: "function"; text: string; fields: Field[] }
  /** The `prototype` of a function of the program. */
  | { kind: "prototype"; of: Ref; parent: Ref; fields: Field[] }
  | { kind: "array"; fields: Field[]; length: number }
  | { kind: "buffer"; bytes: string }
  | { kind: "view"; type: string; buffer: Ref; offset: number; length: number }
  | { kind: "date"; ms: number }
  | { kind: "object"; parent: Ref; fields: Field[] };

interface Image {
  entries: Entry[];
  globals: Field[];
  /** Listeners on built-in objects. */
  listeners: [target: Ref, fields: Field[]][];
  timers: { callback: Ref; list: Ref[]; interval?: number; left: number }[];
  watches: { callback: Ref; pin: number; settings: Ref }[];
  setup: string;
}

/** The image that `save()` writes. Throws, naming what it is, where something cannot be kept. */
export const saveState = (source: StateSource): string => {
  const { realm, pins, timers, watches, isEchoOn } = source;
  const { library, global } = realm;
  const builtIns = builtInsOf(source);
  const entries: Entry[] = [];
  const places = new Map<object, number>();

  const refuse = (path: string, why: string): never => {
    throw new Error(`the simulated board cannot save ${path}: ${why}`);
  };
  const refer = (value: unknown, path: string): Ref => {
    if (value === null || typeof value === "boolean" || typeof value === "string") return value;
    if (typeof value === "number") return Number.isFinite(value) ? value : { word: String(value) };
    if (!isObject(value)) return { word: "undefined" };
    const known = places.get(value);
    if (known !== undefined) return { at: known };
    const at = entries.length;
    places.set(value, at);
    entries.push({ kind: "builtIn", path: "" });
    entries[at] = describe(value, path);
    return { at };
  };
  /** A constant is a getter that is not the program's. */
  const fieldOf = (object: object, name: string, path: string): Field => {
    const { value, get, set } = library.nativeDescriptor(object, name)!;
    if (!get && !set) return [name, refer(value, path)];
    if (get && !library.functionInfo(get)) return [name, refer(get.call(object), path)];
    return [name, refer(get, path), refer(set, path)];
  };
  const fieldsOf = (object: object, path: string, isWanted: (name: string) => boolean): Field[] =>
    library
      .ownNames(object)
      .filter(isWanted)
      .map((name) => fieldOf(object, name, `${path}.${name}`));
  const enumerable = (object: object, path: string): Field[] =>
    fieldsOf(object, path, (name) => library.nativeDescriptor(object, name)!.enumerable === true);
  const parentOf = (object: object, path: string): Ref => refer(Object.getPrototypeOf(object), `${path}.__proto__`);

  const describe = (value: object, path: string): Entry => {
    const builtIn = builtIns.get(value);
    if (builtIn !== undefined) return { kind: "builtIn", path: builtIn };
    if (source.pinNumber(value) !== undefined) return { kind: "builtIn", path: `D${source.pinNumber(value)}` };
    if (typeof value === "function") {
      if (!library.functionInfo(value)) return refuse(path, "it is a built-in function without a name");
      for (let scope = library.functionScope(value); scope; scope = scope.parent)
        if (scope.count > 0) return refuse(path, "it uses variables of the function it was made in");
      const prototype = library.nativeDescriptor(value, "prototype")?.value as object | undefined;
      const fields = enumerable(value, path);
      if (prototype && library.ownNames(prototype).length > 1) refer(prototype, `${path}.prototype`);
      return { kind: "function", text: library.format(value, {}), fields };
    }
    if (library.promiseState(value)) return refuse(path, "it is a promise");
    if (Array.isArray(value)) return { kind: "array", fields: enumerable(value, path), length: value.length };
    if (library.isBuffer(value)) return describeBuffer(value as ArrayBuffer | ArrayBufferView, path);
    const { constructor } = value as { constructor?: unknown };
    const isPrototype = typeof constructor === "function" && library.functionInfo(constructor) !== undefined;
    if (isPrototype && library.nativeDescriptor(constructor, "prototype")?.value === value) {
      const of = refer(constructor, `${path}.constructor`);
      const fields = fieldsOf(value, path, (name) => name !== "constructor");
      return { kind: "prototype", of, parent: parentOf(value, path), fields };
    }
    if (value instanceof global.Date) return { kind: "date", ms: (value as Date).getTime() };
    return { kind: "object", parent: parentOf(value, path), fields: enumerable(value, path) };
  };
  const describeBuffer = (value: ArrayBuffer | ArrayBufferView, path: string): Entry => {
    if (!("buffer" in value)) return { kind: "buffer", bytes: Buffer.from(value).toString("latin1") };
    const length = "length" in value ? (value.length as number) : value.byteLength;
    const buffer = refer(value.buffer, `${path}.buffer`);
    return { kind: "view", type: library.typeName(value), buffer, offset: value.byteOffset, length };
  };

  const image: Image = {
    entries,
    globals: globalsOf(realm).map((name) => fieldOf(global as object, name, name)),
    listeners: [],
    timers: timers.map(({ id, callback, list, interval, left }) => ({
      callback: refer(callback, `the timer ${id}`),
      list: list.map((item) => refer(item, `an argument of the timer ${id}`)),
      interval,
      left,
    })),
    watches: watches.map(({ callback, pin, settings }) => ({
      callback: refer(callback, `the watch of D${pin}`),
      pin,
      settings: refer(settings, `the watch of D${pin}`),
    })),
    setup: `${isEchoOn ? "" : "echo(0);"}${hardware(pins)}`,
  };
  for (const [object, path] of builtIns) {
    const fields = fieldsOf(object, path, (name) => name.startsWith(library.eventPrefix));
    if (fields.length > 0) image.listeners.push([refer(object, path), fields]);
  }
  return JSON.stringify(image);
};

/** Brings an image into a realm that has just been made. Throws where it is no image of this version. */
export const loadState = (text: string, realm: Realm): void => {
  const { library, global } = realm;
  const image = JSON.parse(text) as Image;
  const objects: any[] = [];
  const value = (ref: Ref): unknown => {
    if (typeof ref !== "object" || ref === null) return ref;
    return "at" in ref ? objects[ref.at] : { undefined, NaN: Number.NaN, Infinity, "-Infinity": -Infinity }[ref.word];
  };
  const make = (entry: Entry): unknown => {
    if (entry.kind === "builtIn") return realm.evaluate(entry.path, "REPL");
    if (entry.kind === "function") return realm.evaluate(`(${entry.text})`, "REPL");
    if (entry.kind === "array") return library.newArray({ length: entry.length });
    if (entry.kind === "buffer") return library.arrayBuffer(entry.bytes);
    if (entry.kind === "date") return new global.Date(entry.ms);
    return entry.kind === "object" ? library.newObject() : undefined;
  };
  const fill = (object: object, fields: Field[], isEnumerable = true): void => {
    for (const [name, first, second] of fields) {
      const shape =
        second === undefined ? { value: value(first), writable: true } : { get: value(first), set: value(second) };
      library.define(object, name, { ...shape, enumerable: isEnumerable, configurable: true } as PropertyDescriptor);
    }
  };

  objects.push(...image.entries.map(make));
  image.entries.forEach((entry, at) => {
    if (entry.kind === "prototype") objects[at] = (value(entry.of) as { prototype: object }).prototype;
  });
  image.entries.forEach((entry, at) => {
    if (entry.kind === "view") objects[at] = new global[entry.type](value(entry.buffer), entry.offset, entry.length);
  });
  image.entries.forEach((entry, at) => {
    if (entry.kind === "object" || entry.kind === "prototype")
      Object.setPrototypeOf(objects[at], value(entry.parent) as object);
    if ("fields" in entry) fill(objects[at], entry.fields, entry.kind !== "prototype");
  });
  fill(global as object, image.globals);
  for (const [target, fields] of image.listeners) fill(value(target) as object, fields, false);
  for (const { callback, list, interval, left } of image.timers) {
    const start = interval === undefined ? global.setTimeout : global.setInterval;
    start(value(callback), interval ?? left, ...list.map(value));
  }
  for (const { callback, pin, settings } of image.watches)
    global.setWatch(value(callback), realm.evaluate(`D${pin}`, "REPL"), value(settings));
  if (image.setup !== "") realm.evaluate(image.setup, "initcode");
};
