/**
 * A JavaScript realm that behaves like Espruino's: a fresh `vm` context whose library is `library.js` and whose source
 * goes through `transform`. It knows nothing of the board's devices (see `globals.ts`).
 *
 * All text is byte strings: one character per byte, 0x00–0xFF.
 */
import { readFileSync } from "node:fs";
import vm from "node:vm";
import {
  EspruinoSyntaxError,
  type FunctionInfo,
  mayKeepArguments,
  textToFloat,
  type Transformed,
  transform,
} from "./transform";

/** Something the board's program cannot catch: it ends what was running, and the console says so. */
export class Interrupt extends Error {
  constructor(readonly kind: "stack" | "memory" | "steps") {
    super(kind === "stack" ? "Too much recursion - the stack is about to overflow" : "Execution Interrupted");
  }
}

/** Values of a function call that closures of it can still see. The estimate of memory reads it. */
export interface ScopeRecord {
  parent?: ScopeRecord;
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
  listenerTable(value: object): Map<string, object[]> | undefined;
  typeName(value: unknown): string;
  method(object: object, name: string, value: unknown): void;
  define(object: object, name: string, descriptor: PropertyDescriptor): void;
  nativeDescriptor(object: object, name: string): PropertyDescriptor | undefined;
  ownNames(object: object): string[];
  newObject(): any;
  newArray(items: ArrayLike<unknown>): any[];
  wrap<T extends (...list: any[]) => unknown>(fn: T): T;
  arrayBuffer(bytes: string): ArrayBuffer;
  uint8Array(bytes: string): Uint8Array;
  isBuffer(value: unknown): boolean;
  NativeDate: DateConstructor;
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
   * Turns of loops one event or console line may take before it is ended as Ctrl-C ends it on a board. Default: 10
   * million, which would take a board more than ten minutes.
   */
  maxSteps?: number;
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

/** A queue that feeds itself (a promise chain without end) must let the host breathe now and then. */
const MAX_EVENTS_PER_TURN = 20_000;

const DEFAULT_STACK_BYTES = 25_000;
const DEFAULT_STEPS = 10_000_000;

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
    scope: "program" | "local",
    outerScope?: string,
  ): { id: number; result: Transformed } => {
    const id = nextId++;
    const result = transform(code, { scope, id, outerScope, wantsValue: scope === "program" });
    sources.set(id, { code, name, result });
    for (const info of result.functions) origins.set(info, name);
    return { id, result };
  };

  /** V8's stack in the interpreter's layout, positions mapped back to the text the board has. */
  const stack = (native: string | undefined): string => {
    let out = "";
    const isRead = /^TypeError/.test(String(native));
    const isLookup = /^ReferenceError/.test(String(native));
    for (const [, id, line, column] of String(native).matchAll(/esp-(\d+):(\d+):(\d+)/g)) {
      const source = sources.get(Number(id));
      let offset = source?.result.originalOffset(Number(line), Number(column));
      if (!source || offset === undefined) continue;
      // The interpreter names the token it had just read: a dot, or the bracket that ends a call.
      if (out === "" && isRead) offset -= source.code[offset - 1] === "." ? 1 : 0;
      else if (out !== "" || !isLookup) offset = source.result.callEnd(offset) ?? offset;
      out += frame(source, offset);
    }
    return out;
  };

  const frame = (source: Source, offset: number): string => {
    const functions = source.result.functions;
    let inner: FunctionInfo | undefined;
    for (const info of functions)
      if (info.start <= offset && offset < info.end && (!inner || info.start >= inner.start)) inner = info;
    let start = 0;
    if (inner) {
      start = inner.isExpression ? inner.end - inner.body.length : inner.end - 1 - inner.body.length;
      while (/\s/.test(source.code[start] ?? "") && start < offset) start++;
      // Of a function that only returns something, the board keeps what it returns.
      const keyword = inner.isExpression ? null : /^return\s+/.exec(source.code.slice(start, offset));
      if (keyword) start += keyword[0].length;
    }
    const lineStart = Math.max(start, source.code.lastIndexOf("\n", offset - 1) + 1);
    const line = source.code.slice(start, offset).split("\n").length;
    const column = offset - lineStart + 1;
    const end = inner ? inner.end - (inner.isExpression ? 0 : 1) : source.code.length;
    const lineEnd = source.code.indexOf("\n", offset);
    let text = source.code.slice(lineStart, lineEnd < 0 ? end : Math.min(lineEnd, end));
    if (inner) text = text.trimEnd();
    let caret = column;
    if (text.length > 60 && offset - lineStart > 30) {
      const skip = offset - lineStart - 30;
      text = `...${text.slice(skip)}`;
      caret = column - skip + 3;
    }
    if (text.length > 60) text = `${text.slice(0, 60)}...`;
    const name = inner ? inner.name : source.name;
    const where = name ? `${name} (:${line}:${column})` : `:${line}:${column}`;
    return `    at ${where}\n${text}\n${" ".repeat(caret - 1)}^\n`;
  };
  /** A frame inside a text that is no running program: JSON, or what could not be parsed. */
  const textFrame = (code: string, offset: number, name = ""): string =>
    frame(
      { code, name, result: { code, functions: [], originalOffset: () => undefined, callEnd: () => undefined } },
      offset,
    );

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
    maxSteps: options.maxSteps ?? DEFAULT_STEPS,
    interrupt: (kind: Interrupt["kind"]) => new Interrupt(kind),
    isPin: (value: unknown) => options.isPin?.(value) ?? false,
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
    evaluate: (code: string) => realm.evaluate(code, ""),
    evalSource(code: string, scope: string, isLocal: boolean): string {
      const { id, result } = syntaxChecked(code, "", () => compile(code, "", isLocal ? "local" : "program", scope));
      tables[id] = result.functions;
      return isLocal ? result.code : `${result.code}.call(globalThis,ε,ε.t[${id}],σ0)\n//# sourceURL=esp-${id}`;
    },
  };

  libraryScript ??= new vm.Script(readFileSync(LIBRARY_FILE, "utf8"), { filename: "library.js" });
  const library: Library = libraryScript.runInContext(context)(host);

  const syntaxChecked = <T>(code: string, name: string, fn: () => T): T => {
    try {
      return fn();
    } catch (error) {
      if (error instanceof EspruinoSyntaxError || error instanceof SyntaxError) {
        const failure = library.makeError("SyntaxError", error.message) as { stack: string };
        const position = error instanceof EspruinoSyntaxError ? error.position : 0;
        failure.stack = textFrame(code, position, name) + failure.stack;
        throw failure;
      }
      throw error;
    }
  };

  const load = (code: string, name: string): { id: number; fn: Function; result: Transformed } =>
    syntaxChecked(code, name, () => {
      const { id, result } = compile(code, name, "program");
      const fn = new vm.Script(result.code, { filename: `esp-${id}` }).runInContext(context) as Function;
      return { id, fn, result };
    });

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
    evaluate(code, name = "REPL") {
      const { id, fn, result } = load(code, name);
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
      // The line end closes a comment on the last line. Both `exports = …` and `module.exports = …` count.
      const run = realm.evaluate(`(function(exports,module){${code}\n;return exports})`, name) as Function;
      const exports = library.newObject();
      const module = library.newObject();
      module.exports = exports;
      const result = run.call(exports, exports, module) as unknown;
      return module.exports === exports ? result : module.exports;
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
