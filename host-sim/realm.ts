/**
 * A JavaScript realm that behaves like Espruino's: a fresh `vm` context whose library is `library.js` and whose source
 * goes through `transform`. It knows nothing of the board's devices (see `globals.ts`).
 *
 * All text is byte strings: one character per byte, 0x00–0xFF.
 */
import { readFileSync } from "node:fs";
import vm from "node:vm";
import { textToFloat } from "./parser";
import { type FunctionInfo, mayKeepArguments, type Place, type Transformed, transform } from "./transform";

/** Something the board's program cannot catch: it ends what was running, and the console says so. */
export class Interrupt extends Error {
  constructor(readonly kind: "stack" | "memory" | "steps") {
    super(kind === "stack" ? "Too much recursion - the stack is about to overflow" : "Execution Interrupted");
  }
}

/** Values of a function call that closures of it can still see. The estimate of memory reads it. */
export interface ScopeRecord {
  parent?: ScopeRecord;
  /** Names of the variables, comma-separated; a module has two more of which no value can be read. */
  names: string;
  /** How many of them `read` knows. */
  count: number;
  /** Value of the i-th variable; throws for a `let` that has not been reached. */
  read(index: number): unknown;
}

/** What `library.js` hands out. */
export interface Library {
  helpers: Record<string, unknown>;
  str(value: unknown): string;
  format(value: unknown, flags: FormatFlags): string;
  caught(error: unknown): unknown;
  makeError(type: string, message: string): unknown;
  isRealmError(value: unknown): boolean;
  emit(target: object, name: string, list: unknown[]): void;
  listeners(target: object, name: string): ((...list: any[]) => unknown)[];
  functionInfo(fn: object): FunctionInfo | undefined;
  functionScope(fn: object): ScopeRecord | undefined;
  promiseState(value: object): { then: any[]; catch: any[]; value: unknown } | undefined;
  /** Whether the function is that of a class. */
  isClass(fn: object): boolean;
  /** What `bind` has put into a function. */
  boundTo(fn: object): { self: unknown; given: unknown[] } | undefined;
  /** What the property begins with in which an object keeps the listeners of an event. */
  readonly eventPrefix: string;
  /** Whether listeners run at the moment, and whether one has stopped those after it. */
  readonly propagation: { isRunning: boolean; isStopped: boolean };
  /** The function that has taken the place of another, if one has. */
  current(fn: Function): Function;
  /** Makes an object one of those built in, which the interpreter takes for functions. */
  builtIn<T extends object>(object: T): T;
  functionText(info: FunctionInfo): string;
  /** Throws a SyntaxError of the realm. `isLenient`: names and numbers may be keys, as in files. */
  parseJson(text: unknown, isLenient: boolean): unknown;
  /** Conversions of the interpreter. */
  toNumber(value: unknown): number;
  toInteger(value: unknown): number;
  isIterable(value: unknown): boolean;
  /** Calls `visit` with the items of a list, text or object with numbered fields, until it returns true. */
  eachItem(list: unknown, visit: (item: unknown, index: number) => unknown): void;
  typeName(value: unknown): string;
  method(object: object, name: string, value: unknown): void;
  define(object: object, name: string, descriptor: PropertyDescriptor): void;
  nativeDescriptor(object: object, name: string): PropertyDescriptor | undefined;
  ownNames(object: object): string[];
  newObject(prototype?: object): any;
  newArray(items: ArrayLike<unknown>): any[];
  wrap<T extends (...list: any[]) => unknown>(fn: T): T;
  arrayBuffer(bytes: string): ArrayBuffer;
  uint8Array(bytes: string): Uint8Array;
  isBuffer(value: unknown): boolean;
  /** Nothing of the program runs: its stack is empty, and it has not looped yet. */
  resetStack(): void;
  /** So many bytes of the stack are in use until the next event. */
  useStack(bytes: number): void;
  stackPeak(): number;
}

/** How a value is written out: the interpreter's JSONFlags. */
export interface FormatFlags {
  json?: boolean;
  some?: boolean;
  all?: boolean;
  pretty?: boolean;
  limit?: boolean;
  names?: boolean;
  dropQuotes?: boolean;
  /** Escapes of JavaScript, which JSON has not: the form of files. */
  shortEscapes?: boolean;
}

export interface RealmOptions {
  /** Called with an error nothing caught, or an `Interrupt`. `text` is what the console should show of it. */
  onUncaught(error: unknown, text: string): void;
  isPin?(value: unknown): boolean;
  /** All memory the program may have: one text or typed array larger than it ends what runs. Default: no limit. */
  memoryBytes?: number;
  /** The interpreter's stack. Default 25,000 bytes, as on an ESP32; a C3 has 15,000. */
  stackBytes?: number;
  /**
   * Turns of loops one event or console line may take before it is ended as Ctrl-C ends it on a board, unless
   * `mayRunOn` gives true: then it is asked again after as many. Default: 10 million, which would take a board more
   * than ten minutes.
   */
  maxSteps?: number;
  mayRunOn?(): boolean;
  /** Whether a text that is evaluated lies in flash: what is made of it needs no copy in memory. */
  isStored?(code: string): boolean;
  /** Name of a built-in device object, as the console prints it. */
  deviceName?(value: unknown): string | undefined;
  /** Called when board code emits, besides its own listeners. */
  onEmit?(target: object, name: string, list: unknown[]): void;
  /** Called whenever everything has run and the event queue is empty. */
  onIdle?(): void;
}

export interface Realm {
  /** The realm's global object. */
  readonly global: any;
  readonly library: Library;
  /**
   * Runs source text and gives the value of its last statement. Throws what the program threw (an error object of the
   * realm, any value, or an `Interrupt`).
   */
  evaluate(code: string, name?: string): unknown;
  /** Runs a module's code and gives what it exports. */
  runModule(code: string, name: string): unknown;
  /** Runs host code that calls into the program; what it throws is reported, never thrown; then the queue runs. */
  enter(fn: () => void): void;
  /** Whether a value is one of the board's pins. */
  isPin(value: unknown): boolean;
  /** True while code of the program is on the stack. */
  isRunning(): boolean;
  /** Puts a call at the end of the event queue: it runs when nothing else does. */
  queue(fn: () => void): void;
  /** Console text of an uncaught error: `Uncaught …` and the stack. */
  errorText(error: unknown): string;
  report(error: unknown): void;
  /** Reports what getters threw while a value was written out: writing it out goes on all the same. */
  reportRaised(): void;
  /** Ends what runs, as running out of memory does: no board code can catch it. */
  interrupt(kind: Interrupt["kind"]): never;
  /** Name of the source a function was written in: `REPL`, a file, `module`. */
  functionOrigin(info: FunctionInfo): string | undefined;
}

const LIBRARY_FILE = new URL("./library.js", import.meta.url);
let libraryScript: vm.Script | undefined;

/** Texts of `eval` that are kept in their rewritten form. */
const MAX_EVALUATED = 500;
/** A queue that feeds itself (a promise chain without end) must let the host breathe now and then. */
const MAX_EVENTS_PER_TURN = 20_000;

const DEFAULT_STACK_BYTES = 25_000;
const DEFAULT_STEPS = 10_000_000;

/** What the console shows of a line with an error in it, of what comes before the error, and of a function's name. */
const MAX_LINE = 60;
const MAX_BEFORE = 30;
const MAX_NAME = 63;

interface Source {
  code: string;
  /** What a stack trace calls the outermost frame: `REPL`, a file name, or nothing. */
  name: string;
  result: Transformed;
}

const isHostError = (value: unknown): value is Error => value instanceof Error;

export const createRealm = (options: RealmOptions): Realm => {
  const context = vm.createContext({}, { codeGeneration: { strings: true, wasm: false } });
  const global: any = vm.runInContext("globalThis", context);
  const sources = new Map<number, Source>();
  const origins = new WeakMap<FunctionInfo, string>();
  const tables: Record<number, FunctionInfo[]> = {};
  const queue: (() => void)[] = [];
  const raised: unknown[] = [];
  let nextId = 1;
  let depth = 0;

  const compile = (
    code: string,
    name: string,
    scope: "program" | "module" | "local",
    outerScope?: string,
    origin = name,
  ): { id: number; result: Transformed } => {
    const id = nextId++;
    const result = transform(code, { scope, id, outerScope, wantsValue: scope !== "module" });
    sources.set(id, { code, name, result });
    for (const info of result.functions) origins.set(info, origin);
    return { id, result };
  };

  /** A frame of V8's stack: a place in a source, or nothing where built-in code runs. */
  interface NativeFrame {
    source: Source;
    place: Place;
  }
  /** V8's frames, innermost first. What calls on behalf of a call (`new`, `super`) is none. */
  const nativeFrames = (native: string | undefined): (NativeFrame | undefined)[] => {
    const frames: (NativeFrame | undefined)[] = [];
    for (const line of String(native).split("\n")) {
      if (!/^ {4}at /.test(line) || /\bdirect[A-Z]\w* /.test(line)) continue;
      const [, id, row, column] = /\besp-(\d+):(\d+):(\d+)/.exec(line) ?? [];
      const source = sources.get(Number(id));
      const place = source?.result.locate(Number(row), Number(column));
      frames.push(source && place && { source, place });
    }
    // Those that made the error are no caller of anything.
    const first = frames.findIndex((item) => item !== undefined);
    return first < 0 ? [] : frames.slice(first);
  };
  /** The closing bracket is read by whoever makes the function. */
  const codeEnd = (info: FunctionInfo): number => info.end - (info.hasBrackets ? 1 : 0);
  const functionAt = (source: Source, offset: number): FunctionInfo | undefined => {
    let inner: FunctionInfo | undefined;
    for (const info of source.result.functions)
      if (info.start <= offset && offset < codeEnd(info) && (!inner || info.start >= inner.start)) inner = info;
    return inner;
  };

  /** V8's stack in the interpreter's layout; `at` is where the error is reported, if that is known. */
  const stack = (native: string | undefined, at?: number): string => {
    const frames = nativeFrames(native);
    const [message = ""] = String(native).split("\n", 1);
    const lookup = /^ReferenceError: (?:Cannot access ')?([A-Za-z_$][\w$]*)/.exec(message);
    const isMissing = /is not a function/.test(message);
    const isRead = /^TypeError: Cannot (read|set) properties/.test(message);
    let out = "";
    for (let i = 0; i < frames.length; i++) {
      const current = frames[i];
      if (!current) continue;
      const { source, place } = current;
      const call = source.result.callAt(place);
      let offset = place.offset;
      if (i === 0 && at !== undefined) offset = at;
      else if (i === 0 && lookup && !place.isExact) offset = source.result.nameAt(offset, lookup[1]!);
      else if (i === 0 && isMissing && call) offset = call.callee;
      else if (call && !(i === 0 && isRead)) offset = call.end;
      else if (!place.isExact)
        offset = source.result.readAt(offset) ?? source.result.storeAt(offset) ?? offset;
      const template = source.result.templateAt(place.offset);
      if (template) {
        // A source of its own, without the one around it.
        const code = source.code.slice(template.start, template.end);
        return out + textFrame(code, Math.max(0, offset - template.start));
      }
      const inner = functionAt(source, place.offset);
      const isWhole = !inner;
      const caller = frames[i + 1];
      const callerSite = caller?.source.result.callAt(caller.place);
      const name = isWhole
        ? source.name
        : callerSite
          ? (callerSite.name ?? `function ${library.functionText(inner)}`.slice(0, MAX_NAME))
          : "";
      out += frame(source.code, offset, name, inner);
    }
    return out;
  };

  /** One frame: `offset` is in `inner`, or in the whole of `code`. */
  const frame = (code: string, offset: number, name: string, inner?: FunctionInfo): string => {
    const start = inner ? inner.bodyStart : 0;
    const end = inner ? start + inner.body.length : code.length;
    const lineStart = Math.max(start, code.lastIndexOf("\n", offset - 1) + 1);
    const line = code.slice(start, offset).split("\n").length;
    const column = Math.max(0, offset - lineStart) + 1;
    const lineEnd = code.indexOf("\n", offset);
    let text = code.slice(lineStart, lineEnd < 0 ? end : Math.min(lineEnd, end));
    let caret = column;
    let isCut = false;
    if (text.length > MAX_LINE && offset - lineStart > MAX_BEFORE) {
      const skip = offset - lineStart - MAX_BEFORE;
      text = text.slice(skip);
      caret = column - skip + 3;
      isCut = true;
    }
    if (text.length >= MAX_LINE) text = `${text.slice(0, MAX_LINE)}...`;
    const where = name ? `${name} (:${line}:${column})` : `:${line}:${column}`;
    return `    at ${where}\n${isCut ? "..." : ""}${text}\n${" ".repeat(caret - 1)}^\n`;
  };
  /** A frame inside a text that is no running program: JSON, or what stands in a template literal. */
  const textFrame = (code: string, offset: number): string => frame(code, offset, "");

  const isPin = (value: unknown): boolean => options.isPin?.(value) ?? false;
  /** What `eval` was given lately, rewritten: an agent makes the same parts of its file all the time. */
  const evaluated = new Map<string, string>();
  /** The same for `Function`. */
  const constructed = new Map<string, Loaded>();
  const host = {
    stack,
    frame: textFrame,
    textToFloat,
    mayKeepArguments,
    tables,
    memoryBytes: options.memoryBytes ?? Number.POSITIVE_INFINITY,
    stackBytes: options.stackBytes ?? DEFAULT_STACK_BYTES,
    isHostError,
    isInterrupt: (value: unknown) => value instanceof Interrupt,
    isStackOverflow: (value: Error) => value instanceof RangeError && /call stack/.test(value.message),
    /** Writing a value out goes on where something in it cannot be: the error is reported afterwards. */
    raise: (error: unknown) => void raised.push(error),
    isAtProgramLevel(native: string | undefined): boolean {
      const first = nativeFrames(native).find((item) => item !== undefined);
      return !!first && !functionAt(first.source, first.place.offset);
    },
    maxSteps: options.maxSteps ?? DEFAULT_STEPS,
    mayRunOn: () => options.mayRunOn?.() ?? false,
    interrupt: (kind: Interrupt["kind"]) => new Interrupt(kind),
    isPin,
    deviceName: (value: unknown) => options.deviceName?.(value),
    onEmit: (target: object, name: string, list: unknown[]) => options.onEmit?.(target, name, list),
    globalNames: (): string[] =>
      library.ownNames(global).filter((name) => library.nativeDescriptor(global, name)!.enumerable),
    /**
     * The interpreter looks at the value of one global after the other, which runs getters, until it finds the class.
     * Built-in names come to its list when they are first used; here they all stand after the program's own.
     */
    globalNameOf(constructor: unknown): string | undefined {
      const isOwn = (name: string) => library.nativeDescriptor(global, name)!.enumerable === true;
      const read = (name: string): unknown => {
        try {
          return global[name];
        } catch (error) {
          raised.push(error);
          return undefined;
        }
      };
      const names = library.ownNames(global);
      const found = names.filter(isOwn).find((name) => read(name) === constructor);
      if (found !== undefined) return found;
      const isBuiltIn = (name: string) => library.nativeDescriptor(global, name)!.value === constructor;
      return names.filter((name) => !isOwn(name)).find(isBuiltIn);
    },
    queue: (fn: () => void) => realm.queue(fn),
    report: (error: unknown) => realm.report(error),
    evaluate: (code: string, name = "") => realm.evaluate(code, name),
    /** A function without a scope, as `Function` makes it. */
    makeFunction(params: string, body: string): unknown {
      const code = `(function(${params}){${body}\n})`;
      let made = constructed.get(code);
      if (!made) {
        if (constructed.size >= MAX_EVALUATED) constructed.clear();
        made = load(code, "", "program", options.isStored?.(body) ? "flash" : "");
        constructed.set(code, made);
      }
      return made.fn.call(global, library.helpers, made.result.functions, undefined);
    },
    evalSource(code: string, scope: string, isLocal: boolean): string {
      const key = `${scope} ${isLocal} ${code}`;
      const known = evaluated.get(key);
      if (known !== undefined) return known;
      const { id, result } = compile(
        code,
        "eval",
        isLocal ? "local" : "program",
        scope,
        options.isStored?.(code) ? "flash" : "eval",
      );
      tables[id] = result.functions;
      // With its own name in V8's stacks, so that an error in it has a place of its own.
      const call = isLocal ? result.code : `${result.code}.call(globalThis,ε,ε.t[${id}],σ0)`;
      const text = `${call}\n//# sourceURL=esp-${id}`;
      if (evaluated.size >= MAX_EVALUATED) evaluated.clear();
      evaluated.set(key, text);
      return text;
    },
  };

  libraryScript ??= new vm.Script(readFileSync(LIBRARY_FILE, "utf8"), { filename: "library.js" });
  const library: Library = libraryScript.runInContext(context)(host);

  interface Loaded {
    id: number;
    fn: Function;
    result: Transformed;
  }
  const load = (code: string, name: string, scope: "program" | "module", origin?: string): Loaded => {
    const { id, result } = compile(code, name, scope, undefined, origin);
    const fn = new vm.Script(result.code, { filename: `esp-${id}` }).runInContext(context) as Function;
    return { id, fn, result };
  };

  const drain = (): void => {
    if (depth > 0) return;
    depth++;
    try {
      for (let count = 0; queue.length && count < MAX_EVENTS_PER_TURN; count++) {
        const event = queue.shift()!;
        try {
          library.resetStack();
          event();
        } catch (error) {
          realm.report(error);
        }
        realm.reportRaised();
      }
    } finally {
      depth--;
    }
    if (queue.length) setImmediate(drain);
    else options.onIdle?.();
  };

  const realm: Realm = {
    global,
    library,
    isPin,
    evaluate(code, name = "REPL") {
      const { id, fn, result } = load(code, name, "program");
      try {
        return fn.call(global, library.helpers, result.functions, undefined);
      } catch (error) {
        throw library.caught(error);
      } finally {
        // No stack can name it any more; a session types many lines.
        if (result.functions.length === 0) sources.delete(id);
      }
    },
    isRunning: () => depth > 0,
    runModule(code, name) {
      // Both `exports = …` and `module.exports = …` count.
      const { fn, result } = load(code, name, "module");
      const exports = library.newObject();
      const module = library.newObject();
      module.exports = exports;
      try {
        const last = fn.call(exports, library.helpers, result.functions, undefined, exports, module) as unknown;
        return module.exports === exports ? last : module.exports;
      } catch (error) {
        throw library.caught(error);
      }
    },
    enter(fn) {
      if (depth === 0) library.resetStack();
      depth++;
      try {
        fn();
      } catch (error) {
        realm.report(error);
      } finally {
        depth--;
      }
      drain();
    },
    queue(fn) {
      queue.push(fn);
      // From outside (a packet, a pin's level): never inside the caller.
      if (depth === 0 && queue.length === 1) queueMicrotask(drain);
    },
    errorText(error) {
      if (error instanceof Interrupt) {
        const reason = error.kind === "stack" ? `Uncaught Error: ${error.message}\n` : "";
        const tail = error.kind === "memory" ? "New interpreter error: LOW_MEMORY,MEMORY\n" : "";
        return `${reason}Execution Interrupted\n${tail}`;
      }
      const hasStack =
        typeof error === "object" && error !== null && typeof (error as { stack?: unknown }).stack === "string";
      return `Uncaught ${library.str(error)}\n${hasStack ? (error as { stack: string }).stack : ""}`;
    },
    report(error) {
      const value = ((): unknown => {
        try {
          return library.caught(error);
        } catch (interrupt) {
          return interrupt;
        }
      })();
      let text: string;
      try {
        text = realm.errorText(value);
      } catch {
        text = "Uncaught error that cannot be shown\n";
      }
      options.onUncaught(value, text);
    },
    reportRaised() {
      for (const error of raised.splice(0)) realm.report(error);
    },
    interrupt(kind) {
      throw new Interrupt(kind);
    },
    functionOrigin: (info) => origins.get(info),
  };

  library.method(global, "global", global);
  return realm;
};
