import { mkdtemp, rm } from "node:fs/promises";
import http from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { onTestFinished } from "vitest";
import { createGateway, type Gateway, type GatewayOptions } from "../../gateway/server";
import { createTokenStore, type TokenStore } from "../../gateway/tokens";
import { serve } from "../drivers/serve";
import { scriptedModel, type ScriptedModel, type Turn } from "../fixtures/scripted-model";

/** The upstream key of every test; it is looked for wherever a gateway writes. */
export const UPSTREAM_KEY = "sk-Qz7vKp2XwR9tLm4NcB8yHd3JfG6sTa1E";

export interface TestGateway {
  gateway: Gateway;
  port: number;
  /** `http://127.0.0.1:<port>`. */
  url: string;
  stateFolder: string;
  tokens: TokenStore;
  /** The token of the board `desk`. */
  token: string;
  /** Lines of the log, and the same as JSON. */
  lines: string[];
  logged(): any[];
  ask(request?: AskOptions): Promise<Reply>;
}

export interface AskOptions {
  path?: string;
  method?: string;
  headers?: Record<string, string>;
  /** Sent as JSON unless it is text or bytes. */
  body?: unknown;
  /** Default: the board's. "" sends none. */
  token?: string;
  /** Aborts the request. */
  signal?: AbortSignal;
  /** Gets the body as it comes. */
  onData?(text: string): void;
}

export interface Reply {
  status: number;
  headers: http.IncomingHttpHeaders;
  body: string;
  json: any;
  /** False where the connection ended before the body did. */
  isComplete: boolean;
}

export const chat = (more: object = {}): object => ({
  model: "scripted",
  stream: true,
  messages: [{ role: "user", content: "hello" }],
  ...more,
});

export const messages = (more: object = {}): object => ({ ...chat(), max_tokens: 100, ...more });

/** An upstream that does what the script says, and its base URL. */
export async function startModel(
  turns: Parameters<typeof scriptedModel>[0] | Turn[],
): Promise<ScriptedModel & { url: string }> {
  const model = scriptedModel(turns);
  const server = await serve(
    (request) => model.handle(request),
    (problem) => model.reportProblem(problem),
  );
  onTestFinished(async () => {
    model.release();
    await server.close();
  });
  return Object.assign(model, { url: `${server.url}/v1` });
}

/** An upstream that is a plain HTTP server. */
export async function startUpstream(handler: http.RequestListener): Promise<string> {
  const server = http.createServer(handler);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as { port: number }).port}/v1`;
}

/** A base URL at which nobody listens. */
export async function closedPort(): Promise<string> {
  const server = http.createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return `http://127.0.0.1:${port}/v1`;
}

/** A gateway on a free port with a state folder of its own, gone when the test is over. */
export async function startGateway(options: Partial<GatewayOptions> & { upstream: string }): Promise<TestGateway> {
  const stateFolder = options.stateFolder ?? (await mkdtemp(path.join(tmpdir(), "gateway-")));
  const lines: string[] = [];
  const tokens = createTokenStore(stateFolder);
  const token = (await tokens.list()).length === 0 ? await tokens.add("desk") : "";
  const gateway = await createGateway({
    key: UPSTREAM_KEY,
    stateFolder,
    log: (line) => void lines.push(line),
    ...options,
    limits: { graceMs: 0, ...options.limits },
  });
  const port = await gateway.listen("127.0.0.1", 0);
  onTestFinished(async () => {
    await gateway.close();
    if (options.stateFolder === undefined) await rm(stateFolder, { recursive: true, force: true });
  });
  return {
    gateway,
    port,
    url: `http://127.0.0.1:${port}`,
    stateFolder,
    tokens,
    token,
    lines,
    logged: () => lines.map((line) => JSON.parse(line)),
    ask: (request) => askGateway(port, { token, ...request }),
  };
}

/** One request as a board makes it: HTTP/1.1, a connection of its own, nothing unpacked. */
export function askGateway(port: number, options: AskOptions): Promise<Reply> {
  const { path: to = "/v1/chat/completions", body = chat(), method = "POST", token = "", headers = {} } = options;
  const bytes = typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const request = http.request({
      port,
      host: "127.0.0.1",
      path: to,
      method,
      agent: false,
      signal: options.signal,
      headers: {
        connection: "close",
        ...(token !== "" && { authorization: `Bearer ${token}` }),
        ...(method === "POST" && { "content-type": "application/json", "content-length": Buffer.byteLength(bytes) }),
        ...headers,
      },
    });
    request.on("error", reject);
    request.on("response", (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (piece: string) => {
        text += piece;
        options.onData?.(text);
      });
      response.on("error", () => {});
      response.on("close", () => {
        let json: unknown;
        try {
          json = JSON.parse(text);
        } catch {
          // A stream.
        }
        const { statusCode, headers, complete } = response;
        resolve({ status: statusCode!, headers, body: text, json, isComplete: complete });
      });
    });
    request.end(method === "POST" ? bytes : undefined);
  });
}

/** Looks again until it is true: for what happens on the other side of a socket. */
export async function until(condition: () => boolean, what = String(condition)): Promise<void> {
  for (let turns = 0; !condition(); turns++) {
    if (turns > 2_000) throw new Error(`never came: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
