/**
 * The offline model as a server: POST /v1/chat/completions and GET /v1/models of the OpenAI API. `modelResponse` is the
 * whole of it; the Node server and mock handlers are two ways to reach it.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { answer } from "./answer";
import { encodeCompletion, encodeStream } from "./encode";
import { loadMedia } from "./media";
import { readChatRequest, RequestError } from "./protocol";
import { modelName } from "./sentence";

export interface ModelServerOptions {
  /** 0, the default, takes any free port. */
  port?: number;
  /** Default 127.0.0.1: only this machine. */
  host?: string;
  /** Called with one line a request; never with its content. */
  log?: (line: string) => void;
}

export interface ModelServer {
  /** Base URL up to and including `/v1`, without a slash at the end. */
  url: string;
  port: number;
  /** Resolves when the port is free again. Open connections are cut. */
  close(): Promise<void>;
}

/** Largest request body in bytes; far above what a board can send. */
const maxBodyBytes = 8 * 1024 * 1024;

/**
 * Answers one HTTP request. Never rejects: what is wrong with the request becomes a status and OpenAI's error object.
 */
export async function modelResponse(request: Request): Promise<Response> {
  try {
    return await route(request);
  } catch (error) {
    if (error instanceof RequestError) return errorResponse(error);
    const message = `The stand-in failed on this request: ${error instanceof Error ? error.message : String(error)}`;
    return errorResponse(new RequestError(500, message));
  }
}

function errorResponse(error: RequestError): Response {
  const type = error.status >= 500 ? "server_error" : "invalid_request_error";
  const body = { error: { message: error.message, type, param: error.param, code: error.code } };
  return Response.json(body, { status: error.status });
}

async function route(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  const model = { id: modelName, object: "model", created: 0, owned_by: "espruino-agent" };
  if (pathname === "/v1/models") {
    allow(request, "GET", pathname);
    return Response.json({ object: "list", data: [model] });
  }
  if (pathname === `/v1/models/${modelName}`) {
    allow(request, "GET", pathname);
    return Response.json(model);
  }
  if (pathname !== "/v1/chat/completions") {
    throw new RequestError(404, `Invalid URL (${request.method} ${pathname})`, null, "unknown_url");
  }
  allow(request, "POST", pathname);
  const chat = readChatRequest(await readJson(request));
  await loadMedia(chat.messages.flatMap((message) => (message.role === "user" ? message.media : [])));
  const reply = answer(chat);
  if (!chat.stream) return Response.json(encodeCompletion(reply, chat));
  const events = encodeStream(reply, chat);
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const { done, value } = events.next();
      if (done === true) controller.close();
      else controller.enqueue(encoder.encode(value));
    },
  });
  return new Response(body, {
    headers: { "Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache" },
  });
}

function allow(request: Request, method: string, pathname: string): void {
  if (request.method === method) return;
  const message = `Not allowed to ${request.method} on ${pathname}.`;
  throw new RequestError(405, message, null, "method_not_supported");
}

/** Bytes that are no UTF-8 are refused rather than replaced: a board that sends them garbles its user's text. */
async function readJson(request: Request): Promise<unknown> {
  const bytes = await request.arrayBuffer();
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new RequestError(400, "We could not parse the JSON body of your request: it is not valid UTF-8.");
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new RequestError(400, `We could not parse the JSON body of your request: ${reason}`);
  }
}

/** Starts the server. Rejects where the port cannot be had. */
export async function createModelServer(options: ModelServerOptions = {}): Promise<ModelServer> {
  const { port = 0, host = "127.0.0.1", log } = options;
  const server = createServer((incoming, outgoing) => {
    serve(incoming, outgoing, log).catch((error: unknown) => {
      log?.(`${incoming.method} ${incoming.url} broke off: ${String(error)}`);
      outgoing.destroy();
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  const address = server.address() as AddressInfo;
  const name = address.family === "IPv6" ? `[${address.address}]` : address.address;
  return {
    url: `http://${name}:${address.port}/v1`,
    port: address.port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function serve(incoming: IncomingMessage, outgoing: ServerResponse, log?: (line: string) => void): Promise<void> {
  const response = await respond(incoming);
  log?.(`${incoming.method} ${incoming.url} ${response.status}`);
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  if (response.body === null) return void outgoing.end();
  for await (const chunk of response.body) {
    if (outgoing.destroyed) return;
    if (!outgoing.write(chunk)) {
      await new Promise<void>((resolve) => {
        outgoing.once("drain", resolve);
        outgoing.once("close", resolve);
      });
    }
  }
  outgoing.end();
}

async function respond(incoming: IncomingMessage): Promise<Response> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBodyBytes) {
      return errorResponse(new RequestError(413, `The request body is larger than ${maxBodyBytes} bytes.`));
    }
    chunks.push(chunk);
  }
  const hasBody = incoming.method !== "GET" && incoming.method !== "HEAD";
  let url: URL;
  try {
    url = new URL(incoming.url ?? "/", "http://localhost");
  } catch {
    return errorResponse(new RequestError(404, `Invalid URL (${incoming.method} ${incoming.url})`));
  }
  return modelResponse(new Request(url, { method: incoming.method, ...(hasBody && { body: Buffer.concat(chunks) }) }));
}
