import { type ChildProcess, fork } from "node:child_process";
import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { createServer, request as httpRequest } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { SLIM_HEADER } from "../gateway/slim/slim";
import { createTokenStore } from "../gateway/tokens";
import { streams } from "./exchange";
import { installPackages } from "./host";
import { type Figure, type Section, tell } from "./report";
import { slimBytes } from "./slim";
import { MERGE_MS } from "../gateway/slim/slim";

const HERE = fileURLToPath(new URL("contenders/", import.meta.url));

/** Boards that ask at once. */
const BOARDS = 200;
/** Boards that are connected and say nothing. */
const IDLE_BOARDS = 1000;
/** What the model says to each board: events, and milliseconds between them. */
const EVENTS = 60;
const EVENT_MS = 30;
/** Milliseconds over which the boards come: they do not all press a button at once. */
const SPREAD_MS = 1500;

interface Way {
  name: string;
  url: string;
  headers: Record<string, string>;
  child?: ChildProcess;
}

interface Load {
  /** Streams that came whole. */
  held: number;
  /** Milliseconds from an event's sending to its arrival, sorted. */
  delays: number[];
  bytes: number;
}

/** The model: each event says when it was sent. */
async function pacedModel(): Promise<{ url: string; close(): void }> {
  const server = createServer((message, response) => {
    message.resume();
    message.on("end", () => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      let left = EVENTS;
      const timer = setInterval(() => {
        const content = left ? `@${performance.now().toFixed(2)};` : "";
        const choices = [{ index: 0, delta: { content }, logprobs: null, finish_reason: left ? null : "stop" }];
        const about = {
          id: "chatcmpl-0123456789abcdef",
          object: "chat.completion.chunk",
          created: 1764661832,
          model: "m",
        };
        response.write(`data: ${JSON.stringify({ ...about, choices, usage: null })}\n\n`);
        if (left--) return;
        clearInterval(timer);
        response.end("data: [DONE]\n\n");
      }, EVENT_MS);
      response.once("close", () => clearInterval(timer));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", 4096, resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** One board's request. Resolves to whether its stream came whole. */
function askOnce(way: Way, load: Load): Promise<boolean> {
  const body = JSON.stringify({ model: "m", stream: true, messages: [{ role: "user", content: "hello" }] });
  const headers = { ...way.headers, "content-type": "application/json", "content-length": String(body.length) };
  return new Promise((resolve) => {
    const sent = httpRequest(`${way.url}/chat/completions`, { method: "POST", headers, agent: false }, (response) => {
      let isWhole = false;
      response.on("data", (piece: Buffer) => {
        const now = performance.now();
        load.bytes += piece.length;
        const text = piece.toString();
        for (const match of text.matchAll(/@([\d.]+);/g)) load.delays.push(now - Number(match[1]));
        if (text.includes("[DONE]")) isWhole = true;
      });
      response.on("close", () => resolve(isWhole && response.statusCode === 200));
    });
    sent.on("error", () => resolve(false));
    sent.end(body);
  });
}

async function loadOf(way: Way): Promise<Load> {
  const load: Load = { held: 0, delays: [], bytes: 0 };
  const boards = Array.from({ length: BOARDS }, async (_, i) => {
    await new Promise((resolve) => setTimeout(resolve, (i * SPREAD_MS) / BOARDS));
    if (await askOnce(way, load)) load.held++;
  });
  await Promise.all(boards);
  load.delays.sort((a, b) => a - b);
  return load;
}

async function startChild(file: string, list: string[]): Promise<{ child: ChildProcess; port: number }> {
  const child = fork(file, list, {
    execArgv: ["--expose-gc", "--import", "tsx"],
    cwd: fileURLToPath(new URL("../", import.meta.url)),
  });
  const { port } = await nextMessage<{ port: number }>(child);
  return { child, port };
}

function nextMessage<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    child.once("message", (message) => resolve(message as T));
    child.once("exit", (code) => reject(new Error(`it ended with ${code}`)));
  });
}

function stateOf(child: ChildProcess): Promise<{ heapMb: number; cpuMs: number }> {
  const state = nextMessage<{ heapMb: number; cpuMs: number }>(child);
  child.send("state");
  return state;
}

/** What one connected board that says nothing takes, in kB of the process's heap. */
async function idleCost(child: ChildProcess, port: number): Promise<number> {
  const before = (await stateOf(child)).heapMb;
  const sockets = await Promise.all(
    Array.from(
      { length: IDLE_BOARDS },
      () =>
        new Promise<Socket>((resolve, reject) => {
          const socket = connect(port, "127.0.0.1", () => resolve(socket));
          socket.once("error", reject);
        }),
    ),
  );
  await new Promise((resolve) => setTimeout(resolve, 500));
  const after = (await stateOf(child)).heapMb;
  for (const socket of sockets) socket.destroy();
  return ((after - before) * 1024) / IDLE_BOARDS;
}

const at = (sorted: number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!;

/** The gateway under load, against no proxy at all and a plain one. */
export async function gatewaySections(): Promise<Section[]> {
  const model = await pacedModel();
  const folder = await mkdtemp(join(tmpdir(), "bench-gateway-"));
  const children: ChildProcess[] = [];
  try {
    const token = await createTokenStore(folder).add("bench");
    const ways: Way[] = [{ name: "no proxy", url: model.url, headers: {} }];
    const gateway = await startChild(join(HERE, "gateway.ts"), [model.url, folder]);
    children.push(gateway.child);
    const url = `http://127.0.0.1:${gateway.port}/v1`;
    const authorization = `Bearer ${token}`;
    ways.push({ name: "gateway", url, headers: { authorization }, child: gateway.child });
    ways.push({
      name: "gateway, slim stream",
      url,
      headers: { authorization, [SLIM_HEADER]: "1" },
      child: gateway.child,
    });
    let proxyPort: number | undefined;
    try {
      const cache = await installPackages();
      await copyFile(join(HERE, "proxy.mjs"), join(cache, "proxy.mjs"));
      const proxy = await startChild(join(cache, "proxy.mjs"), [model.url]);
      children.push(proxy.child);
      proxyPort = proxy.port;
      ways.splice(1, 0, {
        name: "http-proxy",
        url: `http://127.0.0.1:${proxy.port}/v1`,
        headers: {},
        child: proxy.child,
      });
    } catch (error) {
      tell(`  no plain proxy to compare with: ${(error as Error).message.split("\n")[0]}`);
    }
    const held: Figure[] = [];
    const delays: Figure[] = [];
    const work: Figure[] = [];
    let direct: Load | undefined;
    for (const way of ways) {
      tell(`  ${way.name}, ${BOARDS} boards`);
      const before = way.child && (await stateOf(way.child)).cpuMs;
      const load = await loadOf(way);
      const after = way.child && (await stateOf(way.child)).cpuMs;
      direct ??= load;
      held.push({ name: way.name, value: load.held, unit: `of ${BOARDS} boards at once` });
      for (const share of [0.5, 0.99]) {
        const value = at(load.delays, share) - (load === direct ? 0 : at(direct.delays, share));
        const name = `${way.name}, p${share * 100}`;
        const note =
          load === direct
            ? "in all: what is taken off the others"
            : way.name.endsWith("slim stream")
              ? `text waits up to ${MERGE_MS} ms for more`
              : "";
        delays.push({ name, value, unit: "ms", note });
      }
      const saved = `${(100 * (1 - load.bytes / direct.bytes)).toFixed(0)} % fewer bytes`;
      if (after !== undefined) {
        work.push({
          name: way.name,
          value: (after - before!) / BOARDS,
          unit: "ms CPU/stream",
          note: load.bytes < direct.bytes * 0.95 ? saved : "",
        });
      }
    }
    work.push({ name: "gateway, idle board", value: await idleCost(gateway.child, gateway.port), unit: "kB" });
    if (proxyPort)
      work.push({ name: "http-proxy, idle board", value: await idleCost(children[1]!, proxyPort), unit: "kB" });
    const sizes = streams().map((stream) => ({
      name: stream.name,
      whole: stream.bytes.length,
      slim: slimBytes(stream).length,
    }));
    const sum = (field: "whole" | "slim"): number => sizes.reduce((total, size) => total + size[field], 0);
    const saved = [{ name: "all streams", whole: sum("whole"), slim: sum("slim") }, ...sizes].map(
      ({ name, whole, slim }): Figure => ({
        name,
        value: 100 * (1 - slim / whole),
        unit: "% fewer bytes",
        note: `${slim} of ${whole}`,
      }),
    );
    return [
      { title: `Gateway: boards held, ${EVENTS} events of ${EVENT_MS} ms each`, figures: held },
      { title: "… latency added to an event", figures: delays },
      { title: "… work and memory", figures: work },
      ...(sizes.length
        ? [{ title: "… bytes saved by the slim stream, recorded streams at 50 tokens a second", figures: saved }]
        : []),
    ];
  } finally {
    for (const child of children) child.disconnect();
    model.close();
    await rm(folder, { recursive: true, force: true });
  }
}
