import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { held, raw, scriptedModel, text, type Turn } from "../test/fixtures/scripted-model";
import { budgets } from "./budgets";
import { ask, conversation, type Dialect, fine, PIECE_BYTES, PROMPT, type Stream, streams } from "./exchange";
import { resplit } from "../test/fixtures/shared";
import { type Figure, type Section, tell } from "./report";
import { slimBytes } from "./slim";
import { type CountedBoard, countedBoard } from "./valgrind";

/** Real milliseconds for something under valgrind. */
const PATIENCE_MS = 300_000;

/**
 * The least that has to be done with a stream on this interpreter: lines cut out of pieces as they come, and JSON.parse
 * of each. `nothing` takes the same pieces off the same socket and leaves them: what it costs is HTTP.
 */
const FLOOR = `
exports.nothing=function(){};
exports.parse=function(piece){
  var from=0,at;
  while((at=piece.indexOf("\\n",from))>=0){
    line+=piece.substring(from,at);
    if(line.startsWith("data: {"))JSON.parse(line.substr(6));
    line="";
    from=at+1;
  }
  line+=piece.substr(from);
};
var line="";
exports.get=function(name,address){
  var take=exports[name];
  line="";
  require("http").get(url.parse(address),function(response){
    response.on("data",take);
    response.on("close",function(){print("[end floor]")});
  });
};`;

/** What one stream takes, in instructions. */
export interface StreamWork {
  stream: Stream;
  /** From the socket's bytes to AgentEvents and what the console shows of them. */
  path: number;
  /** Line split and JSON.parse. */
  floor: number;
  /** Receiving the bytes and leaving them. */
  http: number;
  /** The whole path where the gateway has made the stream small. */
  slim: number;
}

/** Serves one stream in pieces of a socket's read, each in a chunk of its own. */
async function pieceServer(bytes: () => Uint8Array): Promise<{ url: string; close(): void }> {
  const server: Server = createServer((_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const all = bytes();
    for (let at = 0; at < all.length; at += PIECE_BYTES) response.write(all.subarray(at, at + PIECE_BYTES));
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, close: () => server.close() };
}

/** Counts one dialect's streams on one board. */
async function countDialect(binary: string, dialect: Dialect, list: Stream[]): Promise<StreamWork[]> {
  let queue: Turn[] = [];
  const model = scriptedModel(() => queue.shift() ?? fine[dialect]);
  let current: Uint8Array = new Uint8Array(0);
  const server = await pieceServer(() => current);
  const counted = await countedBoard(binary, {
    model,
    settings: { provider: dialect, requestTimeoutMs: 900_000, idleTimeoutMs: 600_000, toolTimeoutMs: 300_000 },
    files: { floor: FLOOR },
  });
  const { board } = counted;
  const run = async (turn: Turn): Promise<number> => {
    const { total } = await counted.count(async () => {
      queue = [turn];
      const reason = await ask(board, "go", PATIENCE_MS);
      if (reason !== "done") throw new Error(`a run ended with ${reason}:\n${board.output().slice(-500)}`);
    });
    await board.runLine("clear_history", { giveUpMs: PATIENCE_MS });
    return total;
  };
  const get = async (name: string): Promise<number> => {
    const { total } = await counted.count(async () => {
      board.type(`require("floor").get("${name}","${server.url}")\n`);
      await board.expectOutput("[end floor]", { giveUpMs: PATIENCE_MS });
    });
    return total;
  };
  try {
    await board.runLine("init_tools", { giveUpMs: PATIENCE_MS });
    // What is used for the first time is looked up for the first time.
    await run(list[0]!.short);
    await get("nothing");
    /** What a run costs that only says something: the same for every stream of text. */
    let plain: number | undefined;
    const works: StreamWork[] = [];
    for (const stream of list) {
      tell(`  ${stream.name}, ${stream.bytes.length} bytes`);
      current = stream.bytes;
      const http = await get("nothing");
      const floor = (await get("parse")) - http;
      const rest = stream.toolCalls.length ? await run(stream.short) : (plain ??= await run(stream.short));
      const path = (await run(stream.turn)) - rest;
      const slim = (await run(raw(resplit([slimBytes(stream)], PIECE_BYTES)))) - rest;
      works.push({ stream, path, floor, http, slim });
    }
    return works;
  } finally {
    server.close();
    await counted.stop();
  }
}

/** Counts every recorded stream, or those whose name has `only` in it. None are there without the recordings. */
export async function countStreams(binary: string, only = ""): Promise<StreamWork[]> {
  const works: StreamWork[] = [];
  for (const dialect of ["openai", "anthropic"] as const) {
    const list = streams().filter((stream) => stream.dialect === dialect && stream.name.includes(only));
    if (list.length) works.push(...(await countDialect(binary, dialect, list)));
  }
  return works;
}

const kB = (stream: Stream): number => stream.bytes.length / 1024;
const mega = (value: number): number => value / 1e6;
const sum = (values: number[]): number => values.reduce((a, b) => a + b, 0);

/** The whole path of all streams together against their floor. */
export function ratioOf(works: StreamWork[]): number {
  return sum(works.map(({ path }) => path)) / sum(works.map(({ floor }) => floor));
}

export function streamSections(works: StreamWork[]): Section[] {
  if (!works.length) {
    const note = "the recorded streams are not beside the repository";
    return [{ title: "Work per kB of stream", figures: [{ name: "whole path / floor", unit: "×", note }] }];
  }
  const each = works.map(({ stream, path, floor }): Figure => {
    const perKb = (value: number): string => mega(value / kB(stream)).toFixed(1);
    const note = `${perKb(path)} of ${perKb(floor)} M instructions per kB`;
    return { name: stream.name, value: path / floor, unit: "× floor", note };
  });
  const slim = sum(works.map((work) => work.slim));
  const tokens = sum(works.map(({ stream }) => stream.tokens));
  const bytes = sum(works.map(({ stream }) => stream.bytes.length)) / 1024;
  return [
    {
      title: "Work per kB of stream (socket bytes to AgentEvents, recorded streams in 536-byte pieces)",
      figures: [
        { name: "whole path / floor, all streams", value: ratioOf(works), unit: "×", goal: budgets.ratio.goal },
        {
          name: "… with HTTP counted on both sides",
          value: sum(works.map(({ path }) => path)) / sum(works.map(({ floor, http }) => floor + http)),
          unit: "×",
        },
        { name: "whole path", value: mega(sum(works.map(({ path }) => path)) / bytes), unit: "M instructions/kB" },
        { name: "floor", value: mega(sum(works.map(({ floor }) => floor)) / bytes), unit: "M instructions/kB" },
        { name: "HTTP alone", value: mega(sum(works.map(({ http }) => http)) / bytes), unit: "M instructions/kB" },
        {
          name: "slim stream / floor of the whole, per token shown",
          value: slim / sum(works.map(({ floor }) => floor)),
          unit: "×",
          goal: budgets.slimRatio.goal,
          note: `${mega(slim / tokens).toFixed(2)} M instructions per token`,
        },
      ],
    },
    { title: "… each stream", figures: each },
  ];
}

/** Fills the history with whole exchanges until another would not fit. */
async function fillHistory(counted: CountedBoard, queue: Turn[]): Promise<number> {
  const { board } = counted;
  let used = 0;
  for (;;) {
    queue.push(text("x".repeat(400)));
    await ask(board, "y".repeat(400), PATIENCE_MS);
    const now = Number(/(\d+) of \d+ bytes/.exec(await board.runLine("status", { giveUpMs: PATIENCE_MS }))![1]);
    if (now <= used) return now;
    used = now;
  }
}

/** What it takes to send a request, to boot, and to run one tool turn. */
export async function countRequest(binary: string): Promise<Section> {
  const queue: Turn[] = [];
  const model = scriptedModel(() => queue.shift()!);
  const counted = await countedBoard(binary, {
    model,
    settings: { requestTimeoutMs: 900_000, idleTimeoutMs: 600_000, toolTimeoutMs: 300_000 },
  });
  const { board } = counted;
  const figures: Figure[] = [];

  /** From the typed line to the request's last byte. */
  async function send(): Promise<{ total: number; bytes: number }> {
    let go = (): void => undefined;
    const answered = new Promise<void>((resolve) => (go = resolve));
    const arrived = new Promise<number>((resolve) => {
      queue.push(
        held((request) => {
          resolve(request.body.length);
          return answered;
        }, text("ok")),
      );
    });
    let bytes = 0;
    const { total } = await counted.count(async () => {
      board.type('ask("y").then(function(r){print("[end "+r.stopReason+"]")})\n');
      bytes = await arrived;
    });
    go();
    await board.expectOutput(/\[end \w+\]/, { giveUpMs: PATIENCE_MS });
    return { total, bytes };
  }

  try {
    const tools = Number(/(\d+) tools ready/.exec(await board.runLine("init_tools", { giveUpMs: PATIENCE_MS }))![1]);
    queue.push(text("warm"));
    await ask(board, "warm", PATIENCE_MS);
    await send();
    await board.runLine("clear_history", { giveUpMs: PATIENCE_MS });
    const empty = await send();
    const used = await fillHistory(counted, queue);
    const full = await send();
    figures.push(
      {
        name: `request with ${tools} tools and ${used} bytes of history`,
        value: mega(full.total),
        unit: "M instructions",
      },
      { name: "… with an empty history", value: mega(empty.total), unit: "M instructions" },
      {
        name: "… per kB of history",
        value: mega((full.total - empty.total) / ((full.bytes - empty.bytes) / 1024)),
        unit: "M instructions",
      },
      { name: "body on the wire", value: full.bytes, unit: "bytes" },
    );
    await board.runLine("clear_history", { giveUpMs: PATIENCE_MS });
    const turn = async (): Promise<number> => {
      const { total } = await counted.count(async () => {
        queue.push(...conversation);
        await ask(board, PROMPT, PATIENCE_MS);
      });
      return total;
    };
    await turn();
    figures.push({ name: "whole run with two tools", value: mega(await turn()), unit: "M instructions" });
    return { title: "Work per request", figures };
  } finally {
    await counted.stop();
  }
}

/** Instructions from power-up to the prompt, those of a board without an agent taken off. */
export async function countBoot(binary: string): Promise<Figure[]> {
  const model = scriptedModel([]);
  const boot = async (bundle?: Uint8Array): Promise<number> => {
    const counted = await countedBoard(binary, { model, bundle });
    try {
      const profile = await counted.sofar();
      // The boot code runs in there; what comes after it is the wait for the prompt.
      return profile.inclusive("jsiInit") ?? profile.total;
    } finally {
      await counted.stop();
    }
  };
  const bare = await boot(Buffer.from("0"));
  const whole = await boot();
  return [
    { name: "power-up to prompt", value: mega(whole), unit: "M instructions" },
    { name: "… of that, the agent", value: mega(whole - bare), unit: "M instructions" },
  ];
}
