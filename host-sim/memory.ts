/** An estimate of how many of the interpreter's variables a program holds. */
import type { Realm, ScopeRecord } from "./realm";

/** What one walk found, in variables. */
export interface MemoryOptions {
  realm: Realm;
  /** Values the board holds besides the global scope: timers' callbacks, loaded modules. */
  roots(): unknown[];
  /** Whether code of that origin lies in flash, so that function bodies cost nothing. */
  isInFlash(origin: string | undefined): boolean;
  /** Whether a text is a part of a file in flash: what was read there is a place in it, and so is a part of that. */
  isStored(text: string): boolean;
}

export interface MemoryEstimate {
  /** Variables reachable from the globals and the given roots. */
  usage(): number;
  /** Variables one value reaches, the value itself included. */
  sizeOf(value: unknown): number;
}

/** Variables in use right after start-up on an ESP32-like interpreter. */
const BOOT_USAGE = 50;
/** Characters in a string's first variable and in each further one. */
const FIRST_CHARACTERS = 9;
const MORE_CHARACTERS = 10;
/** Names up to this length fit the variable that holds the value's place in its object. */
const NAME_CHARACTERS = 4;
const BYTES_PER_VARIABLE = 14;
/** A text that is shorter is not looked for in flash. */
const STORED_CHARACTERS = 100;
/** Whole numbers that fit the variable of their name. */
const SMALL_INTEGER = 2 ** 13;

const stringVariables = (length: number): number =>
  length <= FIRST_CHARACTERS ? 1 : 1 + Math.ceil((length - FIRST_CHARACTERS) / MORE_CHARACTERS);
/** Text that is kept in one piece where that is shorter: code, and what buffers hold. */
const flatVariables = (bytes: number): number =>
  Math.min(stringVariables(bytes), 1 + Math.ceil(bytes / BYTES_PER_VARIABLE));
const nameVariables = (key: string): number =>
  1 + Math.max(0, Math.ceil((key.length - NAME_CHARACTERS) / MORE_CHARACTERS));
/** A hidden name of four characters. */
const HIDDEN_NAME = 1;

/**
 * Estimates memory use by walking what the global object, timers, modules and live functions reach, at the costs
 * measured on the interpreter: an object or array 1, a small integer inside the variable of its key, strings 9
 * characters in the first variable and 10 in each further one, a function 1 and its parameters, code and scope, of
 * which the code costs 1 where it is in flash, typed arrays 2 and one variable per 14 bytes. Variables of functions are
 * seen through the closures that can still reach them.
 *
 * It is an estimate; with the agent's bundle it came within 5 % of the interpreter. Not seen: variables of blocks
 * inside functions (`let` in a loop or an `if`), arguments and temporaries of calls in progress, buffers of the network
 * stack, garbage, fragmentation, listeners that only host objects (a request, the Wi-Fi module) hold, and sharing of
 * string data. Figures that decide something come from the real interpreter.
 */
export const createMemoryEstimate = (options: MemoryOptions): MemoryEstimate => {
  const { realm } = options;
  const { library } = realm;
  const objectPrototype: object = realm.global.Object.prototype;

  const walk = (roots: unknown[], isGlobalWalk: boolean): number => {
    const seen = new Set<object>();
    const pending: object[] = [];
    let total = 0;

    /** Cost of a value that has a name or an index; the smallest live inside the variable of their name. */
    const hold = (value: unknown, isElement = false): void => {
      if (typeof value === "string")
        total += value.length >= STORED_CHARACTERS && options.isStored(value) ? 1 : stringVariables(value.length);
      else if (typeof value === "number")
        total += Number.isInteger(value) && -SMALL_INTEGER <= value && value < SMALL_INTEGER ? 0 : 1;
      else if (typeof value === "boolean") total += isElement ? 0 : 1;
      else if (value === null) total += 1;
      else if ((typeof value === "object" || typeof value === "function") && !seen.has(value)) {
        seen.add(value);
        pending.push(value);
      }
    };
    const property = (key: string, value: unknown): void => {
      total += nameVariables(key);
      hold(value);
    };
    const scope = (record: ScopeRecord | undefined): void => {
      if (!record || seen.has(record)) return;
      seen.add(record);
      total += 1;
      record.names.split(",").forEach((key, index) => {
        let value: unknown;
        try {
          value = index < record.count ? record.read(index) : undefined;
        } catch {
          return;
        }
        property(key, value);
      });
      if (record.parent) total += HIDDEN_NAME;
      scope(record.parent);
    };
    const properties = (value: object, isArray: boolean): void => {
      for (const key of library.ownNames(value)) {
        const descriptor = library.nativeDescriptor(value, key)!;
        if (!descriptor.enumerable) continue;
        const isElement = isArray && /^\d+$/.test(key);
        total += isElement ? 1 : nameVariables(key);
        // A getter of the global object that is not the program's own stands for a constant.
        if (value === realm.global && descriptor.get && !library.functionInfo(descriptor.get)) {
          hold(descriptor.get.call(value));
        } else if (descriptor.get || descriptor.set) {
          total += 1;
          if (descriptor.get) property("get", descriptor.get);
          if (descriptor.set) property("set", descriptor.set);
        } else hold(descriptor.value, isElement);
      }
    };
    const visitFunction = (fn: object): void => {
      total += 1;
      const info = library.functionInfo(fn);
      if (!info) return;
      const bound = library.boundTo(fn);
      info.params.forEach((param, index) => property(` ${param}`, bound?.given[index]));
      if (bound) {
        total += HIDDEN_NAME;
        hold(bound.self);
      }
      if (info.body !== "") {
        total += HIDDEN_NAME + (options.isInFlash(realm.functionOrigin(info)) ? 1 : flatVariables(info.body.length));
        const enclosing = library.functionScope(fn);
        if (enclosing) {
          total += HIDDEN_NAME;
          scope(enclosing);
        }
      }
      if (info.keepsThis) total += HIDDEN_NAME;
      if (info.keepsName) {
        total += HIDDEN_NAME;
        hold(info.name);
      }
      properties(fn, false);
      const prototype = library.nativeDescriptor(fn, "prototype")?.value as object | undefined;
      if (prototype && (library.isClass(fn) || library.ownNames(prototype).length > 1)) hold(prototype);
    };
    /** The prototype's name in its function is counted here: that exists from when it is first used. */
    const parent = (value: object): void => {
      const prototype = Object.getPrototypeOf(value) as object | null;
      if (prototype && prototype !== objectPrototype) property("__proto__", prototype);
      const constructor = library.nativeDescriptor(value, "constructor");
      if (constructor?.enumerable !== false || typeof constructor.value !== "function") return;
      total += nameVariables("prototype");
      // Built-in classes are named in the global object from when they are first used.
      if (isGlobalWalk && !library.functionInfo(constructor.value)) total += nameVariables(constructor.value.name);
      property("constructor", constructor.value);
    };
    const visit = (value: object): void => {
      if (typeof value === "function") return visitFunction(value);
      if (library.isBuffer(value)) {
        const view = value as { buffer?: ArrayBuffer; byteLength: number };
        total += 1;
        if (view.buffer) hold(view.buffer);
        else total += flatVariables(view.byteLength);
        return;
      }
      total += 1;
      if (realm.isPin(value)) return;
      const isArray = Array.isArray(value);
      if (!isArray) parent(value);
      const promise = library.promiseState(value);
      if (promise) {
        total += nameVariables("state");
        if (promise.value !== undefined) {
          total += HIDDEN_NAME;
          hold(promise.value);
        }
        for (const reactions of [promise.then, promise.catch]) {
          if (reactions.length) total += HIDDEN_NAME + 1;
          for (const reaction of reactions) {
            total += 2;
            property("cb", reaction.callback);
            total += nameVariables("next");
            if (!seen.has(reaction.next)) {
              seen.add(reaction.next);
              total += 1;
              property("prom", reaction.next.promise);
            }
          }
        }
      } else properties(value, isArray);
    };

    if (isGlobalWalk) {
      seen.add(realm.global);
      properties(realm.global, false);
      // Devices are built in: only what the program hung on them counts.
      for (const key of ["E", "process", "Serial1", "Serial2", "Serial3"]) {
        const device = realm.global[key];
        for (const own of library.ownNames(device)) if (own.startsWith(library.eventPrefix)) hold(device[own]);
      }
    }
    for (const root of roots) hold(root);
    for (let value = pending.pop(); value; value = pending.pop()) visit(value);
    return total;
  };

  return {
    usage: () => BOOT_USAGE + walk(options.roots(), true),
    sizeOf: (value) => Math.max(value === undefined ? 0 : 1, walk([value], false)),
  };
};
