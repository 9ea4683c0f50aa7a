import { fileURLToPath } from "node:url";
import { crc32 } from "node:zlib";
import { build } from "esbuild";
import { toolsPlugin } from "../../esbuild.tools.mjs";
import type * as Agents from "../../firmware/agents";
import type * as Anthropic from "../../firmware/provider/anthropic";
import type * as Caller from "../../firmware/caller";
import type * as Config from "../../firmware/config";
import type * as Graph from "../../firmware/graph";
import type * as History from "../../firmware/history";
import type * as Loop from "../../firmware/loop";
import type * as Openai from "../../firmware/provider/openai";
import type * as Registry from "../../firmware/registry";
import type * as Reply from "../../firmware/reply";
import type * as Request from "../../firmware/request";
import type * as Sse from "../../firmware/sse";
import type * as Text from "../../firmware/text";
import type * as Wrap from "../../firmware/wrap";
import type { Session, ToolResult } from "../../firmware/types";
import { createManualClock } from "../../host-sim/clock";
import { boardJson } from "./board-json";

const root = fileURLToPath(new URL("../../", import.meta.url));

type Firmware = typeof Agents &
  typeof Anthropic &
  typeof Caller &
  typeof Config &
  typeof Graph &
  typeof History &
  typeof Loop &
  typeof Openai &
  typeof Registry &
  typeof Reply &
  typeof Request &
  typeof Sse &
  typeof Text &
  typeof Wrap;

// One script with free globals, built as the bundle is: the board's JSON, typed arrays and timers are handed in, and
// those of Node, which the test runner itself needs, stay what they are.
const names = "agents caller config graph history loop provider/anthropic provider/openai registry reply request sse text wrap".split(" ");
const script = (
  await build({
    stdin: { contents: names.map((name) => `export * from "./firmware/${name}";`).join("\n"), resolveDir: root },
    bundle: true,
    write: false,
    format: "cjs",
    platform: "neutral",
    external: ["Storage", "http", "fs"],
    plugins: [toolsPlugin({ toolsDir: `${root}tools` })],
  })
).outputFiles[0]!.text;

/** On the board `set` takes a string and copies its bytes. */
class BoardBytes extends Uint8Array {
  override set(source: any, offset?: number): void {
    super.set(typeof source === "string" ? Buffer.from(source, "latin1") : source, offset);
  }
}

/** One HTTP request of the firmware, answered by the test. */
export interface SeenRequest {
  options: any;
  /** What the firmware sent so far. */
  body: string;
  /** Lets the firmware send the whole body: the socket drains. */
  receive(): void;
  /** The connection is closed, by the board or by the test. */
  closed: boolean;
  head(status: number, headers?: Record<string, string>): void;
  data(piece: string): void;
  /** The connection ends. As on the board, a reset after the headers looks the same. */
  end(): void;
  /** Sending fails. */
  fail(message: string): void;
}

/** The firmware's rooms on a board of its own: nothing is shared with another one. */
export function bootFirmware() {
  const clock = createManualClock();
  const files: Record<string, string> = {};
  const requests: SeenRequest[] = [];
  const printed: string[] = [];
  let freeBytes = 100_000;

  const storage = {
    read: (name: string) => files[name],
    list: (pattern: RegExp) => Object.keys(files).filter((name) => pattern.test(name)),
    getFree: () => freeBytes,
    write(name: string, piece: string, at = 0, size = 0) {
      files[name] = (at ? files[name]!.slice(0, at) : "") + piece;
      return files[name]!.length <= (size || Infinity);
    },
  };
  const http = {
    request(options: any, onResponse: (response: any) => void) {
      // The board calls a listener with the object as `this`; no event is one of both.
      const listeners: Record<string, (value?: any) => void> = {};
      function on(this: any, event: string, listener: (value?: any) => void): void {
        listeners[event] = listener.bind(this);
      }
      let sent = false;
      let ended = false;
      const request = {
        on,
        write(piece: string) {
          seen.body += piece;
          return false;
        },
        end() {
          sent = true;
        },
        emit(event: string, value?: any) {
          clock.setTimeout(() => listeners[event]?.(value), 0);
        },
        removeAllListeners(event: string) {
          delete listeners[event];
        },
        clsNow: false,
      };
      const seen: SeenRequest = {
        options,
        body: "",
        receive() {
          clock.advance(1);
          for (let pieces = 0; !sent && !seen.closed; pieces++) {
            if (pieces > 1000) throw new Error("the request does not end");
            listeners.drain!();
          }
        },
        get closed() {
          return ended || request.clsNow;
        },
        head: (status, headers = {}) => onResponse.call(request, { statusCode: String(status), headers, on }),
        // The transport hands on what came a moment later.
        data(piece) {
          listeners.data?.(piece);
          clock.advance(1);
        },
        end() {
          ended = true;
          listeners.close?.();
        },
        fail(message) {
          ended = true;
          listeners.error?.({ message });
        },
      };
      requests.push(seen);
      return request;
    },
  };
  // The board has one kind of id for both.
  function setInterval(fn: (...args: any[]) => void, ms: number, ...args: any[]): { id: number } {
    const timer = { id: 0 };
    const again = () => {
      timer.id = clock.setTimeout(again, ms);
      fn(...args);
    };
    timer.id = clock.setTimeout(again, ms);
    return timer;
  }

  const module = { exports: {} as Firmware };
  const globals = {
    module,
    JSON: boardJson,
    // Jitter of nothing: waits are the same in each run.
    Math: Object.assign(Object.create(Math), { random: () => 0.5 }),
    Uint8Array: BoardBytes,
    E: {
      // Some four bytes of JSON are a variable.
      getSizeOf: (value: unknown) => JSON.stringify(value).length >> 2,
      CRC32: (text: string) => crc32(Buffer.from(text, "latin1")),
      toString: (bytes: Uint8Array) => Buffer.from(bytes).toString("latin1"),
    },
    process: { memory: () => ({ free: 3000, usage: 1000, total: 4000, blocksize: 14 }) },
    require(name: string) {
      if (name === "Storage") return storage;
      if (name === "http") return http;
      throw new Error(`Module "${name}" not found`);
    },
    url: {
      parse(text: string) {
        const url = new URL(text);
        return { protocol: url.protocol, host: url.hostname, port: url.port, path: url.pathname };
      },
    },
    print: (line: string) => void printed.push(line),
    getTime: () => clock.now() / 1000,
    setTimeout: (fn: (...args: any[]) => void, ms: number, ...args: any[]) => clock.setTimeout(() => fn(...args), ms),
    clearTimeout: clock.clearTimeout,
    setInterval,
    clearInterval: (timer: { id: number }) => clock.clearTimeout(timer.id),
  };
  new Function(...Object.keys(globals), script)(...Object.values(globals));
  return {
    ...module.exports,
    clock,
    /** An empty history of that many bytes. */
    createHistory: (bytes: number) => ({ bytes: new BoardBytes(bytes), used: 0, sizes: [] as number[], provider: "openai" }),
    /** Files of the board's Storage, bytes as characters. */
    files,
    /** What was printed, a line each. */
    printed,
    requests,
    setFree(bytes: number) {
      freeBytes = bytes;
    },
  };
}

/** Whether a byte string is UTF-8. */
export function isUtf8(bytes: string): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(bytes, "latin1"));
    return true;
  } catch {
    return false;
  }
}

/** Calls a tool; `args` as text goes as it is. */
export function callTool(
  firmware: ReturnType<typeof bootFirmware>,
  session: Session,
  name: string,
  args: unknown,
): Promise<ToolResult> {
  return new Promise((resolve) => {
    const text = typeof args === "string" ? args : JSON.stringify(args);
    firmware.createCaller(session).call({ id: "x", name, arguments: text }, resolve);
    // It begins from the idle loop.
    firmware.clock.advance(1);
  });
}
