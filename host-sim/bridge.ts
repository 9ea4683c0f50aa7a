/** How Node's side and the realm's hand each other functions, objects and errors. */
import type { Library, Realm } from "./realm";

export interface Bridge {
  readonly realm: Realm;
  readonly library: Library;
  readonly global: any;
  /** A realm function around a host function; host errors thrown inside become realm errors. */
  native<T extends (...list: any[]) => unknown>(fn: T): T;
  /** Defines realm functions on an object, hidden from `for in` as built-in ones are. */
  functions(target: object, all: Record<string, (...list: any[]) => unknown>): void;
  fail(type: string, message: string): never;
  notModelled(name: string): never;
  /** Host value → realm value: plain data is copied, objects with methods are mounted. */
  toRealm(value: unknown): any;
  /** Makes `target` stand for a host object: methods forward, plain fields are copied, accessors forward. */
  mount(source: object, target: any): any;
  /**
   * The bytes of what `write` and `E.toString` take: text, a byte, lists and buffers of them, `{data, count}`,
   * `{callback}`. Throws a TypeError of the realm for anything else.
   */
  bytes(value: unknown): string;
}

/** One bridge per realm. */
export const createBridge = (realm: Realm): Bridge => {
  const { library, global } = realm;
  const { newObject, method, makeError } = library;

  const native = <T extends (...list: any[]) => unknown>(fn: T): T => library.wrap(fn);
  const functions = (target: object, all: Record<string, (...list: any[]) => unknown>): void => {
    for (const [name, fn] of Object.entries(all)) method(target, name, native(fn));
  };
  const fail = (type: string, message: string): never => {
    throw makeError(type, message);
  };
  const notModelled = (name: string): never => fail("Error", `${name} is not modelled by the simulated board`);

  const mounted = new WeakMap<object, object>();
  const hostFunctions = new WeakMap<object, (...list: unknown[]) => unknown>();

  const isPlain = (value: object): boolean => {
    const prototype = Object.getPrototypeOf(value);
    return prototype === Object.prototype || prototype === null;
  };
  const toRealm = (value: any): any => {
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value) && value instanceof Array) return library.newArray(value.map(toRealm));
    if (value instanceof ArrayBuffer) return library.arrayBuffer(Buffer.from(value).toString("latin1"));
    if (value instanceof Uint8Array) return library.uint8Array(Buffer.from(value).toString("latin1"));
    if (!isPlain(value)) return value;
    const hasMethods = Object.getOwnPropertyNames(value).some((name) => {
      const descriptor = Object.getOwnPropertyDescriptor(value, name)!;
      return descriptor.get !== undefined || typeof descriptor.value === "function";
    });
    if (hasMethods) return mount(value, newObject());
    const copy = newObject();
    for (const [name, item] of Object.entries(value)) copy[name] = toRealm(item);
    return copy;
  };
  /** Realm callback → host callback. The same function always gives the same one, for `removeListener`. */
  const toHost = (value: unknown): unknown => {
    if (typeof value !== "function") return value;
    let fn = hostFunctions.get(value);
    if (!fn) {
      fn = function (this: unknown, ...list: unknown[]) {
        return Reflect.apply(value, toRealm(this), list.map(toRealm));
      };
      hostFunctions.set(value, fn);
    }
    return fn;
  };
  const mount = (source: any, target: any): any => {
    const known = mounted.get(source);
    if (known) return known;
    mounted.set(source, target);
    for (const name of Object.getOwnPropertyNames(source)) {
      const descriptor = Object.getOwnPropertyDescriptor(source, name)!;
      if (descriptor.get || descriptor.set) {
        library.define(target, name, {
          get: native(() => toRealm(source[name])),
          set: native((value: unknown) => void (source[name] = value)),
          enumerable: false,
          configurable: true,
        });
      } else if (typeof descriptor.value === "function") {
        method(
          target,
          name,
          native((...list: unknown[]) => toRealm(source[name](...list.map(toHost)))),
        );
      } else target[name] = toRealm(descriptor.value);
    }
    return target;
  };

  const bytes = (value: unknown): string => {
    if (typeof value === "string") return value;
    if (value === null || value === undefined)
      return fail("TypeError", `Expecting Number or iterable, got ${library.typeName(value)}`);
    if (typeof value === "number" || typeof value === "boolean") return String.fromCharCode(library.toInteger(value) & 0xff);
    if (Array.isArray(value) || library.isBuffer(value)) {
      let text = "";
      library.eachItem(value, (item) => void (text += bytes(item)));
      return text;
    }
    const { callback, count, data } = value as { callback?: unknown; count?: unknown; data?: unknown };
    if (typeof callback === "function") {
      const result: unknown = callback();
      return result === undefined ? "" : bytes(result);
    }
    if (typeof count !== "number" || data === undefined)
      return fail(
        "TypeError",
        "If specifying an object, it must be of the form {data : ..., count : N} or {callback : fn} - got " +
          library.format(value, { some: true, pretty: true }),
      );
    return bytes(data).repeat(Math.max(0, library.toInteger(count)));
  };

  return { realm, library, global, native, functions, fail, notModelled, toRealm, mount, bytes };
};
