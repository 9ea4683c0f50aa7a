/**
 * Board code's world: the language library and globals of Espruino on an ESP32. With `lib: ["es5"]` and nothing else,
 * what the board lacks (`Map`, `Promise.race`, `fetch`, `Buffer`, `Array.from`) does not type-check. What `lib.es5`
 * declares and the board lacks (`Object.freeze`, `localeCompare`) is refused by the bundle check instead, because an
 * interface's member cannot be taken away.
 */

/**
 * `for…of` over arrays, typed arrays and strings: the checker looks for `[Symbol.iterator]`. The board has no `Symbol`;
 * only this key's name is declared, and the bundle check refuses any use of it.
 */
interface SymbolConstructor {
  readonly iterator: unique symbol;
}
declare var Symbol: SymbolConstructor;
interface IteratorYieldResult<T> {
  done?: false;
  value: T;
}
interface IteratorReturnResult<T> {
  done: true;
  value: T;
}
type IteratorResult<T, TReturn = any> = IteratorYieldResult<T> | IteratorReturnResult<TReturn>;
interface Iterator<T, TReturn = any, TNext = any> {
  next(value?: TNext): IteratorResult<T, TReturn>;
}
interface Iterable<T, TReturn = any, TNext = any> {
  [Symbol.iterator](): Iterator<T, TReturn, TNext>;
}
interface IterableIterator<T, TReturn = any, TNext = any> extends Iterator<T, TReturn, TNext> {
  [Symbol.iterator](): IterableIterator<T, TReturn, TNext>;
}
interface Array<T> {
  [Symbol.iterator](): IterableIterator<T>;
}
interface ReadonlyArray<T> {
  [Symbol.iterator](): IterableIterator<T>;
}
interface String {
  [Symbol.iterator](): IterableIterator<string>;
}
interface IArguments {
  [Symbol.iterator](): IterableIterator<any>;
}
interface Uint8Array {
  [Symbol.iterator](): IterableIterator<number>;
  /** Copies bytes of a string natively. */
  set(text: string, offset?: number): void;
}

// ---- the language library beyond ES5, as far as the interpreter has it

interface Array<T> {
  find(predicate: (value: T, index: number, array: T[]) => unknown): T | undefined;
  findIndex(predicate: (value: T, index: number, array: T[]) => unknown): number;
  fill(value: T, start?: number, end?: number): this;
  includes(value: T, fromIndex?: number): boolean;
}

interface String {
  startsWith(text: string, position?: number): boolean;
  endsWith(text: string, length?: number): boolean;
  includes(text: string, fromIndex?: number): boolean;
  padStart(length: number, fill?: string): string;
  padEnd(length: number, fill?: string): string;
  repeat(count: number): string;
  replaceAll(search: string | RegExp, replacement: string | ((match: string, ...args: any[]) => string)): string;
}

interface ObjectConstructor {
  assign<T extends object, S>(target: T, source: S): T & S;
  assign(target: object, ...sources: any[]): any;
  entries<T>(object: { [key: string]: T }): [string, T][];
  entries(object: object): [string, any][];
  values<T>(object: { [key: string]: T }): T[];
  values(object: object): any[];
  fromEntries<T>(entries: [string, T][]): { [key: string]: T };
  setPrototypeOf(object: any, prototype: object | null): any;
}

interface Math {
  /** -1, 0 or 1. */
  sign(value: number): number;
  /** Into `0 … max`, exclusive. Espruino's own. */
  wrap(value: number, max: number): number;
  /** `0 … range - 1`, or any 32-bit integer without `range`. Espruino's own. */
  randInt(range?: number): number;
}

/** `then`, `catch`, and below `all`, `resolve`, `reject`: there is no `finally`, `race`, `any`, `allSettled`. */
interface PromiseConstructor {
  new <T>(
    executor: (resolve: (value: T | PromiseLike<T>) => void, reject: (reason?: unknown) => void) => void,
  ): Promise<T>;
  readonly prototype: Promise<any>;
  all<T>(values: (T | PromiseLike<T>)[]): Promise<T[]>;
  resolve(): Promise<void>;
  resolve<T>(value: T | PromiseLike<T>): Promise<T>;
  reject<T = never>(reason?: unknown): Promise<T>;
}
declare var Promise: PromiseConstructor;

/** `type` is the class name (`"Error"`, `"TypeError"`); `e.name` is undefined, and a TypeError is no Error. */
interface Error {
  type?: string;
}
/** Thrown by Espruino's own libraries, such as `http`. */
interface InternalError extends Error {}
declare var InternalError: { new (message?: string): InternalError; (message?: string): InternalError };

interface Function {
  /** Replaces the function's code, and keeps what refers to it. Espruino's own. */
  replaceWith(replacement: Function): void;
}

// ---- globals

declare var global: any;
declare var process: Espruino.Process;
declare var E: Espruino.E;
declare var Modules: Espruino.Modules;
declare var Pin: Espruino.PinConstructor;
declare var url: Espruino.Url;
declare var console: { log(...values: any[]): void };
declare var Serial1: Espruino.Serial;
declare var Serial2: Espruino.Serial;
declare var Serial3: Espruino.Serial;
declare var Telnet: Espruino.Serial;
/** The console device of the Linux build; `undefined` name on an ESP32: ask `typeof USB` first. */
declare var USB: Espruino.Serial;
declare var LED1: Espruino.Pin;
declare var BTN1: Espruino.Pin;
declare const D0: Espruino.Pin, D1: Espruino.Pin, D2: Espruino.Pin, D3: Espruino.Pin;
declare const D4: Espruino.Pin, D5: Espruino.Pin, D6: Espruino.Pin, D7: Espruino.Pin;
declare const D8: Espruino.Pin, D9: Espruino.Pin, D10: Espruino.Pin, D11: Espruino.Pin;
declare const D12: Espruino.Pin, D13: Espruino.Pin, D14: Espruino.Pin, D15: Espruino.Pin;
declare const D16: Espruino.Pin, D17: Espruino.Pin, D18: Espruino.Pin, D19: Espruino.Pin;
declare const D20: Espruino.Pin, D21: Espruino.Pin, D22: Espruino.Pin, D23: Espruino.Pin;
declare const D25: Espruino.Pin, D26: Espruino.Pin, D27: Espruino.Pin, D32: Espruino.Pin;
declare const D33: Espruino.Pin, D34: Espruino.Pin, D35: Espruino.Pin, D36: Espruino.Pin;
declare const D37: Espruino.Pin, D38: Espruino.Pin, D39: Espruino.Pin;
declare const HIGH: 1;
declare const LOW: 0;
declare const __FILE__: string | undefined;

/** Modules that are built in, and files of the board's Storage. Throws where there is no such module. */
declare function require(name: "http"): Espruino.Http;
declare function require(name: "net" | "tls"): Espruino.Net;
declare function require(name: "Storage"): Espruino.Storage;
declare function require(name: "Wifi"): Espruino.Wifi;
declare function require(name: "ESP32"): Espruino.Esp32;
declare function require(name: string): any;

declare function print(...values: any[]): void;
/** Timer ids are numbers from 1. `ms` ≥ 1 on the board. Strings of code are not declared on purpose. */
declare function setTimeout(callback: (...args: any[]) => void, ms?: number, ...args: any[]): number;
declare function setInterval(callback: (...args: any[]) => void, ms: number, ...args: any[]): number;
declare function changeInterval(id: number, ms: number): void;
/** `clearTimeout(undefined)` throws; without an argument it clears **all** timers. */
declare function clearTimeout(id?: number): void;
declare function clearInterval(id?: number): void;
declare function setWatch(
  callback: (event: Espruino.WatchEvent) => void,
  pin: Espruino.Pin,
  options?: boolean | Espruino.WatchOptions,
): number;
declare function clearWatch(id?: number): void;

/** Seconds since 1970 (or since start), with fractions. */
declare function getTime(): number;
declare function setTime(seconds: number): void;
declare function getSerial(): string;

declare function pinMode(pin: Espruino.Pin, mode?: Espruino.PinMode, automatic?: boolean): void;
declare function getPinMode(pin: Espruino.Pin): Espruino.PinMode;
declare function digitalWrite(pin: Espruino.Pin | Espruino.Pin[], value: number | boolean): void;
declare function digitalRead(pin: Espruino.Pin | Espruino.Pin[]): number;
declare function digitalPulse(pin: Espruino.Pin, value: boolean | number, ms: number | number[]): void;
/** 0–1. */
declare function analogRead(pin: Espruino.Pin): number;
/** `value` 0–1. */
declare function analogWrite(pin: Espruino.Pin, value: number, options?: Espruino.AnalogWriteOptions): void;

declare function atob(base64: string): string;
declare function btoa(bytes: string): string;
declare function load(file?: string): void;
declare function save(): void;
declare function reset(clearFlash?: boolean): void;
declare function dump(): void;
declare function echo(on: boolean): void;
declare function trace(root?: unknown): void;
