import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { expect } from "vitest";
import type { AgentEvent } from "../../firmware/types";
import { serve } from "../drivers/serve";
import type { TestBoard } from "../drivers/types";
import { raw, type Turn } from "../fixtures/scripted-model";
import { scenario, type ScenarioContext, type ScenarioOptions } from "./scenario";

/** What a data URL or bare base64 holds. */
export const decoded = (data: string): Buffer => Buffer.from(data.slice(data.indexOf(",") + 1), "base64");

/** `ask({text, files})`, and the events of that run. */
export async function show(board: TestBoard, prompt: string, files: string[]): Promise<AgentEvent[]> {
  const before = board.events().length;
  board.type(`ask(${JSON.stringify({ text: prompt, files })})\n`);
  await board.waitUntil(() => board.events().slice(before).some((event) => event.type === "final" && !event.agent), { giveUpMs: 60_000 });
  return board.events().slice(before);
}

export interface Upload {
  name: string;
  type: string;
  bytes: Buffer;
  authorization: string | null;
  /** The form as it came. */
  contentType: string;
  body: Buffer;
}

/** A file server of the test's own; `answer` is asked after each upload that came whole. */
export function withFileServer(
  name: string,
  answer: (upload: Upload, number: number) => Response,
  settings: Record<string, unknown> | ((url: string) => Record<string, unknown>),
  options: ScenarioOptions,
  body: (context: ScenarioContext & { uploads: Upload[]; url: string }) => Promise<void>,
): void {
  scenario(name, options, async (context) => {
    const problems: string[] = [];
    const uploads: Upload[] = [];
    const server = await serve(
      async (request) => {
        const contentType = request.headers.get("content-type")!;
        const body = Buffer.from(await request.arrayBuffer());
        const form = await new Response(body, { headers: { "content-type": contentType } }).formData();
        const file = form.get("file") as File;
        const bytes = Buffer.from(await file.arrayBuffer());
        const authorization = request.headers.get("authorization");
        uploads.push({ name: file.name, type: file.type, bytes, authorization, contentType, body });
        return answer(uploads.at(-1)!, uploads.length);
      },
      (problem) => problems.push(problem),
    );
    try {
      const given = typeof settings === "function" ? settings(server.url) : settings;
      await context.board.runLine(`set_config(${JSON.stringify({ uploadUrl: `${server.url}/upload`, ...given })})`);
      await body({ ...context, uploads, url: server.url });
      // Of a connection that the test itself has cut.
      expect(problems.filter((problem) => !isCut(problem))).toEqual([]);
      if (options.settings?.fileToken) expect(context.board.output()).not.toContain(options.settings.fileToken);
    } finally {
      await server.close();
    }
  });
}

/** Whether a problem of a server's is only that a request was cut short, in its body or its head. */
export const isCut = (problem: string): boolean => /^server: (aborted|the request is malformed: Parse Error at "")$/.test(problem);

/** A proxy that resets the next connection once `bytes` have passed one way. */
export interface Cutter {
  url: string;
  cut(way: "up" | "down", bytes: number): void;
  /** Whether it has. */
  isDone(): boolean;
  close(): Promise<void>;
}

/** Passes connections on to `port`, all but the one that is to be cut. */
export async function startCutter(port: number): Promise<Cutter> {
  let armed: { way: "up" | "down"; bytes: number } | undefined;
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(port, "127.0.0.1");
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => undefined).on("close", () => sockets.delete(socket));
    }
    const passed = { up: 0, down: 0 };
    const pass = (way: "up" | "down", to: Socket) => (piece: Buffer): void => {
      passed[way] += piece.length;
      if (armed?.way !== way || passed[way] <= armed.bytes) return void to.write(piece);
      to.write(piece.subarray(0, Math.max(0, piece.length - (passed[way] - armed.bytes))));
      armed = undefined;
      client.resetAndDestroy();
      upstream.destroy();
    };
    client.on("data", pass("up", upstream)).on("end", () => upstream.end());
    upstream.on("data", pass("down", client)).on("end", () => client.end());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut(way, bytes) {
      armed = { way, bytes };
    },
    isDone: () => armed === undefined,
    close() {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

/**
 * Passes connections on to `port`. Once `bytes` have come from the client, `then` is called; without it the first connection is
 * reset.
 */
export async function cutOnce(port: number, bytes: number, then?: () => void): Promise<{ url: string; close(): Promise<void> }> {
  let number = 0;
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const isCut = ++number === 1;
    const upstream = connect(port, "127.0.0.1");
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => undefined).on("close", () => sockets.delete(socket));
    }
    let came = 0;
    if (isCut && !bytes && !then) client.resetAndDestroy();
    client.on("data", (piece) => {
      came += piece.length;
      if (then && came >= bytes) {
        then();
        then = () => undefined;
      }
      if (isCut && !then && came >= bytes) {
        client.resetAndDestroy();
        upstream.resetAndDestroy();
      } else upstream.write(piece);
    });
    upstream.pipe(client);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

export const stored = (id: string) => () => Response.json({ code: 0, message: "ok", data: { file_id: id, file_size: 1 } });
export const parts = (request: { json: { messages: { content?: any }[] } }, at: number): any => request.json.messages.at(at)!.content;

/** One turn of Anthropic's dialect: calls of tools, or an answer. */
export function claude(...blocks: (string | { name: string; input: object })[]): Turn {
  const events = blocks.flatMap((block, index) => {
    const isText = typeof block === "string";
    const content_block = isText ? { type: "text", text: "" } : { type: "tool_use", id: `toolu_${index}`, name: block.name, input: {} };
    const delta = isText ? { type: "text_delta", text: block } : { type: "input_json_delta", partial_json: JSON.stringify(block.input) };
    return [{ type: "content_block_start", index, content_block }, { type: "content_block_delta", index, delta }, { type: "content_block_stop", index }];
  });
  const stop_reason = typeof blocks[0] === "string" ? "end_turn" : "tool_use";
  const all = [...events, { type: "message_delta", delta: { stop_reason } }, { type: "message_stop" }];
  return raw(all.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`));
}
