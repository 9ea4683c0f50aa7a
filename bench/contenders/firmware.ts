import { readFileSync } from "node:fs";
import http from "node:http";
import { crc32 } from "node:zlib";
import type * as Agents from "../../firmware/agents";
import type * as Config from "../../firmware/config";
import type * as Session from "../../firmware/session";
import type * as Types from "../../firmware/types";
import { baseUrl, measure, PROMPT } from "./run.mjs";

/** The firmware's own code in Node, without the board around it: what it costs by itself. Built by `bench/host.ts`. */
const script = readFileSync(process.env.BENCH_FIRMWARE!, "utf8");

/** On the board `set` takes a string and copies its bytes. */
class BoardBytes extends Uint8Array {
  override set(source: any, offset?: number): void {
    super.set(typeof source === "string" ? Buffer.from(source, "latin1") : source, offset);
  }
}

/** The part of the board's http that `firmware/transport.ts` uses, on Node's. */
function request(options: any, onResponse: (response: any) => void): any {
  const listeners: Record<string, (value?: any) => void> = {};
  const { host, port, path, method, headers } = options;
  const real = http.request({ host, port, path, method, headers, agent: false }, (response) => {
    response.setEncoding("latin1");
    onResponse({
      statusCode: String(response.statusCode),
      headers: response.headers,
      on: (event: string, listener: (value?: any) => void) => response.on(event, listener),
    });
  });
  real.on("error", (error) => listeners.error?.(error));
  return {
    on: (event: string, listener: () => void) => (listeners[event] = listener),
    emit: (event: string) => setImmediate(() => listeners[event]?.()),
    removeAllListeners: (event: string) => delete listeners[event],
    write: (piece: string) => real.write(piece, "latin1", () => listeners.drain?.()),
    end: () => real.end(),
    set clsNow(_: boolean) {
      real.destroy();
    },
  };
}

const module = { exports: {} as typeof Agents & typeof Config & typeof Session };
const nothing = (): undefined => undefined;
const globals = {
  module,
  Uint8Array: BoardBytes,
  E: {
    CRC32: (text: string) => crc32(Buffer.from(text, "latin1")),
    toString: (bytes: Uint8Array) => Buffer.from(bytes).toString("latin1"),
    emit: nothing,
  },
  process: {
    memory: () => ({ free: 3000, usage: 1000, total: 4000, blocksize: 14 }),
    env: { BOARD: "ESP32", VERSION: "2v29" },
  },
  require: (name: string) => (name === "http" ? { request } : { read: nothing, list: () => [], write: () => true }),
  url: {
    parse(text: string) {
      const { protocol, hostname, port, pathname } = new URL(text);
      return { protocol, host: hostname, port, path: pathname };
    },
  },
  getTime: () => performance.now() / 1000,
  pinMode: nothing,
  digitalWrite: nothing,
  digitalRead: () => 1,
  getPinMode: () => "output",
};
new Function(...Object.keys(globals), script)(...Object.values(globals));
const { ask, clear, openSettings, wrapMain } = module.exports;
const problems = openSettings().apply({ baseUrl, model: "scripted", apiKey: "none" }, true);
if (problems.length) throw new Error(problems.join("; "));
const session: Types.Session = { tools: { count: 0 }, lastCallId: 0, wrap: wrapMain, emit: nothing };

await measure(async () => {
  clear(session, false);
  const { text, message } = await new Promise<Types.RunResult>((resolve) => ask(session, PROMPT, undefined, resolve));
  if (message) throw new Error(message);
  return text;
});
