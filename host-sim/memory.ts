/** An estimate of how many of the interpreter's variables a program holds. */
import type { Realm, ScopeRecord } from "./realm";

/** What one walk found, in variables. */
export interface MemoryOptions {
  realm: Realm;
  /** Values the board holds besides the global scope: timers' callbacks, loaded modules. */
  roots(): unknown[];
  /** Whether code of that origin lies in flash, so that function bodies cost nothing. */
  isInFlash(origin: string | undefined): boolean;
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
const FUNCTION_VARIABLES = 6;
const PROMISE_VARIABLES = 8;

const stringVariables = (length: number): number =>
  length <= FIRST_CHARACTERS ? 1 : 1 + Math.ceil((length - FIRST_CHARACTERS) / MORE_CHARACTERS);

/**
 * Estimates memory use by walking what the global object, timers, modules and live functions reach, at the costs
 * measured on the interpreter: an object or array 1, a small integer inside the variable of its key, strings 9
 * characters in the first variable and 10 in each further one, a function about 6 and its body on top where it is not
 * in flash, a promise 8, typed arrays one variable per 14 bytes and 3 more. Variables of functions are seen through the
 * closures that can still reach them.
 *
 * It is an estimate; with the agent's bundle it came within 5 % of the interpreter. Not seen: variables of blocks
 * inside functions (`let` in a loop or an `if`), arguments and temporaries of calls in progress, buffers of the network
 * stack, garbage, fragmentation, listeners that only host objects (a request, the Wi-Fi module) hold, and sharing of
 * string data. Figures that decide something come from the real interpreter.
 */
export const createMemoryEstimate = (options: MemoryOptions): MemoryEstimate => {
  const { realm } = options;
  const { library } = realm;

  const walk = (roots: unknown[], isGlobalWalk: boolean): number => {
    const seen = new Set<object>();
    const pending: object[] = [];
    let total = 0;

    /** Cost of a value that has a name or an index; small values live inside the variable of their name. */
    const hold = (value: unknown): void => {
      if (typeof value === "string") total += stringVariables(value.length);
      else if (typeof value === "number") total += Number.isInteger(value) && Math.abs(value) < 2 ** 31 ? 0 : 1;
      else if ((typeof value === "object" || typeof value === "function") && value !== null && !seen.has(value)) {
        seen.add(value);
        pending.push(value);
      }
    };
    const name = (key: string): void => {
      total += 1 + Math.max(0, Math.ceil((key.length - NAME_CHARACTERS) / MORE_CHARACTERS));
    };
    const scope = (record: ScopeRecord | undefined): void => {
      if (!record || seen.has(record)) return;
      seen.add(record);
      total += 1;
      for (let i = 0; i < record.count; i++) {
        let value: unknown;
        try {
          value = record.read(i);
        } catch {
          continue;
        }
        total += 1;
        hold(value);
      }
      scope(record.parent);
    };
    const properties = (value: object, isArray: boolean): void => {
      for (const key of library.ownNames(value)) {
        const descriptor = library.nativeDescriptor(value, key)!;
        if (!descriptor.enumerable) continue;
        if (isArray && /^\d+$/.test(key)) total += 1;
        else name(key);
        if (descriptor.get || descriptor.set) {
          total += 1;
          hold(descriptor.get);
          hold(descriptor.set);
        } else hold(descriptor.value);
      }
    };
    const visit = (value: object): void => {
      if (typeof value === "function") {
        const info = library.functionInfo(value);
        if (!info) {
          total += 1;
          return;
        }
        total += FUNCTION_VARIABLES;
        if (!options.isInFlash(realm.functionOrigin(info))) total += stringVariables(info.body.length) - 1;
        scope(library.functionScope(value));
        properties(value, false);
        const prototype = library.nativeDescriptor(value, "prototype")?.value as object | undefined;
        if (prototype && library.ownNames(prototype).length > 1) {
          for (const key of library.ownNames(prototype)) {
            if (key === "constructor") continue;
            name(key);
            const descriptor = library.nativeDescriptor(prototype, key)!;
            hold(descriptor.value);
            hold(descriptor.get);
            hold(descriptor.set);
          }
        }
        return;
      }
      const promise = library.promiseState(value);
      if (promise) {
        total += PROMISE_VARIABLES;
        hold(promise.value);
        for (const reaction of [...promise.then, ...promise.catch]) {
          hold(reaction.callback);
          hold(reaction.next.promise);
        }
        return;
      }
      if (library.isBuffer(value)) {
        const view = value as { buffer?: ArrayBuffer; byteLength: number };
        if (view.buffer) {
          total += 1;
          hold(view.buffer);
        } else total += 2 + Math.ceil(view.byteLength / BYTES_PER_VARIABLE);
        return;
      }
      total += 1;
      properties(value, Array.isArray(value));
      const table = library.listenerTable(value);
      if (table)
        for (const [event, list] of table) {
          if (!list.length) continue;
          name(event);
          for (const listener of list) hold(listener);
        }
    };

    if (isGlobalWalk) {
      seen.add(realm.global);
      for (const key of library.ownNames(realm.global)) {
        const descriptor = library.nativeDescriptor(realm.global, key)!;
        if (!descriptor.enumerable) continue;
        name(key);
        hold(descriptor.value);
        // A getter that is not the program's own stands for a constant.
        if (descriptor.get && !library.functionInfo(descriptor.get)) hold(descriptor.get.call(realm.global));
        else {
          hold(descriptor.get);
          hold(descriptor.set);
        }
      }
      // Devices are built in: only what the program hung on them counts.
      for (const key of ["E", "process", "Serial1"]) {
        const table = library.listenerTable(realm.global[key]);
        if (table) for (const list of table.values()) for (const listener of list) hold(listener);
      }
    }
    for (const root of roots) hold(root);
    for (let value = pending.pop(); value; value = pending.pop()) visit(value);
    return total;
  };

  return {
    usage: () => BOOT_USAGE + walk(options.roots(), true),
    sizeOf: (value) => Math.max(1, walk([value], false)),
  };
};
