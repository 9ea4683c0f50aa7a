/**
 * The gateway: boards ask it over plain HTTP in the local network, and it asks a provider over TLS with a key that no
 * board has. `createGateway` is all of it; the command `espruino-agent gateway` reads its options and prints.
 */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import Fastify, { LogController, type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { BUDGETS, openBudgetBook, type Admission, type Budgets, type Refusal } from "./budget";
import { systemClock, within, type Clock } from "./clock";
import { Fault, faultBody, RETRY_HEADER } from "./fault";
import { addFileRoutes, deviceFault, isDevicePath } from "./files/routes";
import { openFileStore } from "./files/store";
import { createForwarder, type Account, type Job } from "./forward";
import { FILE_LIMITS, LIMITS, type FileLimits, type Limits } from "./limits";
import { createMetrics } from "./metrics";
import { createRedactor } from "./secret";
import { readSlimHeader, SLIM_HEADER, type Dialect } from "./slim/slim";
import { lockFolder, makeFolder, removeHalfWritten } from "./state";
import { createTokenStore, TOKEN_COMMAND, type TokenEntry } from "./tokens";
import type { Auth } from "./upstream";
import { estimateTokens, MOST_TOKENS } from "./usage";
import { followVisit, type Visit } from "./visit";

export interface GatewayOptions {
  /** The upstream's base URL, as `readUpstreamUrl` gives it. */
  upstream: string;
  /** The upstream's key; "" where it needs none. It is sent upstream and goes nowhere else. */
  key: string;
  /** Where tokens and usage are kept. */
  stateFolder: string;
  /** How the key is sent. Default `auto`. */
  auth?: Auth;
  /** The models that boards may ask for. Default, and if empty: any. */
  models?: string[];
  /** What a board may use whose token says nothing else. */
  budgets?: Partial<Budgets>;
  limits?: Partial<Limits>;
  /** Where files are kept that boards send. Default: none are taken. */
  files?: FileOptions;
  /** Gets the log, a line of JSON at a time. */
  log?: (line: string) => void;
  /** Adds the process's own metrics. */
  withProcessMetrics?: boolean;
  clock?: Clock;
  fetch?: typeof fetch;
}

export interface FileOptions {
  /** A folder of their own. */
  folder: string;
  /** What links to them begin with, without a slash at its end. Default: the address that the board has used. */
  publicUrl?: string;
  limits?: Partial<FileLimits>;
}

export interface Gateway {
  /** The server, for requests without a socket (`inject`). */
  app: FastifyInstance;
  /** Opens the port; 0 takes a free one. Resolves to the one it got, rejects where it cannot be had. */
  listen(host: string, port: number): Promise<number>;
  /** Takes no more requests, gives those under way `graceMs`, and keeps the usage. */
  close(): Promise<void>;
}

/** What is known of a request to the API, for its answer and the log. */
interface Ask extends Visit {
  dialect: Dialect;
  account: Account;
  model?: string;
  isStream: boolean;
}

/** What the log tells of requests to the API alone. */
type Asked = Partial<Pick<Ask, "dialect" | "model" | "isStream">>;

declare module "fastify" {
  interface FastifyRequest {
    /** Undefined for what is no request to the API. */
    ask?: Ask;
  }
}

/** Milliseconds that a client gets to send what is not read any more. */
const DISCARD_MS = 5_000;
/** Bytes of it; more is cut off. */
const DISCARD_BYTES = 8 * 1024 * 1024;

/** Milliseconds for the head of a request, from the connection on. A board sends it in one piece. */
const HEADERS_MS = 15_000;
/** How often it is looked whether a request is late, in milliseconds. */
const CHECKING_MS = 5_000;

/** Milliseconds that boards get to take what was said when the gateway stops. */
const LAST_WORDS_MS = 1_000;

const ROUTES = ["/v1/chat/completions", "/v1/messages"];

/** Whose API a request is for: where its address does not tell, its headers do. */
function dialectOf({ headers, raw }: FastifyRequest): Dialect {
  const [, name] = /^\/(?:v1\/)?(messages|chat)\b/.exec(raw.url ?? "") ?? [];
  if (name !== undefined) return name === "messages" ? "anthropic" : "openai";
  return headers["anthropic-version"] === undefined ? "openai" : "anthropic";
}

/** @throws {FolderError} where one of the two folders cannot be used, or another gateway uses it */
export async function createGateway(options: GatewayOptions): Promise<Gateway> {
  const { upstream, key, auth = "auto", models = [], stateFolder, clock = systemClock, log } = options;
  const limits = { ...LIMITS, ...options.limits };
  const budgets = { ...BUDGETS, ...options.budgets };
  const redactor = createRedactor(key);
  const fileLimits = { ...FILE_LIMITS, ...options.files?.limits };
  let isStopping = false;

  const app = Fastify({
    logger: log && {
      // `logAsk` picks what is logged of a request. This is the second net: no line leaves with a secret in it.
      stream: { write: (line: string) => log(redactor.line(line)) },
      redact: ["*.headers", "*.body", "*.key", "*.token", "*.apiKey", "*.authorization"],
      serializers: {
        req: ({ method, routeOptions }: FastifyRequest) => ({ method, url: routeOptions.url }),
        err: ({ name, message, stack = "" }: Error) => ({ type: name, message, stack }),
      },
    },
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: limits.bodyBytes,
    requestTimeout: options.files === undefined ? limits.requestMs : Math.max(limits.requestMs, fileLimits.uploadMs),
    // A socket on which nothing moves, neither way, is one that nobody waits for.
    connectionTimeout: limits.silenceMs + limits.stallMs,
    keepAliveTimeout: 5_000,
    http: {
      headersTimeout: Math.min(HEADERS_MS, limits.requestMs),
      connectionsCheckingInterval: Math.min(CHECKING_MS, limits.requestMs),
    },
    forceCloseConnections: "idle",
    exposeHeadRoutes: false,
    // An id may be as long as a header: what is wrong with it is said by the route.
    routerOptions: { maxParamLength: 16_384 },
    clientErrorHandler: answerBrokenRequest,
    frameworkErrors: (_error, request, reply) =>
      void answerFault(new Fault(400, "gateway: the address has a % that is no escape", "bad_request"), request, reply),
  }) as unknown as FastifyInstance;

  const onProblem = (problem: string): void => app.log.warn(problem);
  await makeFolder(stateFolder);
  const unlock = await lockFolder(stateFolder, "--state");
  await removeHalfWritten(stateFolder);
  const files = options.files && { folder: options.files.folder, ...fileLimits, clock, onProblem };
  const store =
    files &&
    (await openFileStore(files).catch(async (error) => {
      await unlock();
      throw error;
    }));
  const metrics = createMetrics(options.withProcessMetrics === true, () => store?.usage() ?? { files: 0, bytes: 0 });
  const tokens = createTokenStore(stateFolder, onProblem);
  const book = await openBudgetBook({ stateFolder, clock, onProblem });
  const forwarder = createForwarder({
    upstream,
    key,
    auth,
    limits,
    clock,
    redactor,
    fetch: options.fetch ?? ((...list) => fetch(...list)),
    onDefect,
  });

  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
  app.setErrorHandler((error: Error, request, reply) => answerFault(faultOf(error), request, reply));
  app.setNotFoundHandler((request, reply) => answerFault(notFound(request, store !== undefined), request, reply));

  app.get("/healthz", (_request, reply) => {
    reply.code(isStopping ? 503 : 200).send({ status: isStopping ? "stopping" : "ok" });
  });
  app.get("/metrics", async (_request, reply) => {
    reply.type(metrics.registry.contentType).send(await metrics.registry.metrics());
  });

  for (const path of ROUTES) {
    app.post(path, { onRequest: letIn, handler: answerChat });
  }
  app.get("/v1/models", { onRequest: letIn, handler: answerModels });

  if (store !== undefined) {
    await app.register((scope) =>
      addFileRoutes(scope, {
        store,
        limits: fileLimits,
        stallMs: limits.stallMs,
        publicUrl: options.files!.publicUrl,
        clock,
        metrics,
        findToken: (headers) => findToken(headers, "fileToken"),
        admit: (token) => admit(token, 0).settle(0, false),
        follow: (request, reply) => followVisit(request, reply, clock, (visit) => logVisit(visit, request, reply)),
      }),
    );
  }

  /** Before the body is read: whose request it is. */
  async function letIn(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const account = { receivedBytes: 0, sentBytes: 0, tokens: 0, isEstimated: false, outcome: "" };
    const ask: Ask = Object.assign(
      followVisit(request, reply, clock, () => logVisit(ask, request, reply)),
      { dialect: dialectOf(request), account, isStream: false },
    );
    request.ask = ask;
    ask.token = await findToken(request.headers);
  }

  /** @param setting the board's setting that should have held it */
  async function findToken(headers: FastifyRequest["headers"], setting = "apiKey"): Promise<TokenEntry> {
    const { authorization, "x-api-key": apiKey } = headers;
    const given = authorization === undefined ? apiKey : (/^Bearer +(.*)$/i.exec(authorization)?.[1] ?? "");
    const how = `get one with "${TOKEN_COMMAND}" where the gateway runs, then set_config({${setting}:"..."})`;
    if (typeof given !== "string" || given.trim() === "")
      throw new Fault(401, `gateway: the board sent no token: ${how}`, "token_missing");
    const entry = await tokens.find(given.trim());
    if (entry === undefined)
      throw new Fault(401, `gateway: the board's token is unknown here: ${how}`, "token_unknown");
    if (entry.revokedAt !== undefined)
      throw new Fault(
        401,
        `gateway: the token of ${entry.name} was revoked on ${entry.revokedAt.slice(0, 10)}: ${how}`,
        "token_revoked",
      );
    return entry;
  }

  /** The body as JSON, and what it asks for. @throws {Fault} */
  function readBody(body: unknown): Record<string, unknown> {
    const bad = (problem: string): Fault => new Fault(400, `gateway: the request's body ${problem}`, "bad_request");
    if (!Buffer.isBuffer(body) || body.length === 0) throw bad("is empty");
    let value: unknown;
    try {
      value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
    } catch (error) {
      throw bad(error instanceof SyntaxError ? "is no JSON" : "is not UTF-8");
    }
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw bad("is no JSON object");
    return value as Record<string, unknown>;
  }

  function checkModel(model: unknown): void {
    if (models.length === 0 || (typeof model === "string" && models.includes(model))) return;
    // The board shows 300 bytes.
    const names = models.length > 8 ? `${models.slice(0, 8).join(", ")} and others` : models.join(", ");
    const text =
      typeof model === "string" && model.trim() !== ""
        ? `the model ${redactor.words(model.slice(0, 60))} is not allowed (--models): set_config({model:"..."}) to one of`
        : `the request names no model: set_config({model:${JSON.stringify(models[0])}}) at the board sets one of`;
    throw new Fault(400, `gateway: ${text} ${names}`, "model_not_allowed");
  }

  /** Counts a request, and reserves tokens for it. @throws {Fault} 429 */
  function admit({ name, budgets: own }: TokenEntry, tokens: number): Admission {
    const admission = book.admit(name, { ...budgets, ...own }, tokens);
    if ("budget" in admission) throw budgetFault(name, admission);
    metrics.boardRequests.inc({ board: name });
    return admission;
  }

  async function answerChat(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const ask = request.ask!;
    const { dialect, account } = ask;
    const name = ask.token!.name;
    const body = readBody(request.body);
    if (typeof body.model === "string") ask.model = body.model.slice(0, 100);
    checkModel(body.model);
    const bodyBytes = (request.body as Buffer).length;

    const mostReply = Number([body.max_completion_tokens, body.max_tokens].find((value) => typeof value === "number"));
    const replyTokens = mostReply > 0 ? Math.min(mostReply, MOST_TOKENS) : 0;
    const admission = admit(ask.token!, estimateTokens(bodyBytes) + replyTokens);
    const job: Job = {
      dialect,
      path: dialect === "openai" ? "/chat/completions" : "/messages",
      body,
      bodyBytes,
      headers: request.headers,
      lineBytes: readSlimHeader(request.headers[SLIM_HEADER]),
    };
    try {
      await sendJob(job, ask, reply);
    } finally {
      admission.settle(account.tokens, account.isEstimated);
      if (account.tokens > 0)
        metrics.boardTokens.inc({ board: name, kind: account.isEstimated ? "estimated" : "told" }, account.tokens);
    }
  }

  async function answerModels(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { dialect } = request.ask!;
    const isSlim = readSlimHeader(request.headers[SLIM_HEADER]) !== undefined;
    const job = {
      dialect,
      path: "/models",
      body: undefined,
      bodyBytes: 0,
      headers: request.headers,
      lineBytes: undefined,
    };
    await sendJob(job, request.ask!, reply, (text) => {
      const list = JSON.parse(text);
      if (!Array.isArray(list?.data))
        throw new Fault(502, "gateway: the upstream's list of models has a form of its own", "upstream_odd", {
          isFinal: true,
        });
      const data = list.data.filter((one: any) => one && (models.length === 0 || models.includes(one.id)));
      return JSON.stringify(
        isSlim ? { object: "list", data: data.map(({ id }: any) => ({ id, object: "model" })) } : { ...list, data },
      );
    });
  }

  /** `change` may alter a good answer that is no stream. */
  async function sendJob(
    job: Job,
    ask: Ask,
    reply: FastifyReply,
    change = (body: string): string => body,
  ): Promise<void> {
    const { account } = ask;
    ask.isUnderWay = true;
    try {
      const answer = await forwarder.forward(job, reply.raw, account, () => {
        ask.isStream = true;
        metrics.streams.inc();
        reply.hijack();
      });
      if (answer === undefined) return;
      const body = answer.status === 200 ? change(answer.body) : answer.body;
      sendJson(reply.code(answer.status).headers(answer.headers), body, ask);
    } catch (error) {
      if (error instanceof Fault) Object.assign(account, { outcome: error.code, problem: error.message });
      throw error;
    } finally {
      metrics.receivedBytes.inc(account.receivedBytes);
      if (ask.isStream) {
        metrics.streams.dec();
        metrics.sentBytes.inc({ stream: job.lineBytes === undefined ? "whole" : "slim" }, account.sentBytes);
      }
      metrics.outcomes.inc({ outcome: account.outcome || "failed" });
      ask.isUnderWay = false;
      ask.log();
    }
  }

  /** @param ask undefined for what is no request to the API: the log has no bytes for it */
  function sendJson(reply: FastifyReply, body: string, ask: Ask | undefined): void {
    if (ask !== undefined) ask.account.sentBytes = Buffer.byteLength(body);
    reply.type("application/json; charset=utf-8").send(body);
  }

  function onDefect(err: unknown): void {
    app.log.error({ err }, "the gateway itself failed");
  }

  function faultOf(error: Error & { code?: string; statusCode?: number }): Fault {
    if (error instanceof Fault) return error;
    if (error.code === "FST_ERR_CTP_BODY_TOO_LARGE")
      return new Fault(
        413,
        `gateway: the request is larger than ${limits.bodyBytes} bytes: lower historyBytes, or raise --max-body here`,
        "body_too_large",
      );
    if (error.code === "FST_ERR_CTP_INVALID_MEDIA_TYPE")
      return new Fault(
        415,
        "gateway: the Content-Type says nothing: a file is sent as multipart/form-data, all else as application/json",
        "bad_request",
      );
    if (error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500)
      return new Fault(error.statusCode, `gateway: ${error.message}`, "bad_request");
    onDefect(error);
    const cause = error.code === undefined ? "its log says why" : error.code;
    return new Fault(500, `gateway: it could not do this (${cause}); the board's settings are right`, "internal");
  }

  async function answerFault(fault: Fault, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { status, more } = fault;
    if (request.visit && request.visit.account.outcome === "") {
      Object.assign(request.visit.account, { outcome: fault.code, problem: fault.message });
      metrics.refusals.inc({ reason: fault.code });
    }
    // A socket that is closed with unread bytes is reset, and the board would never see the answer.
    await discard(request.raw);
    if (reply.raw.destroyed) return void reply.hijack();
    if (more.retryAfter !== undefined) reply.header("retry-after", more.retryAfter);
    if (more.isFinal === true) reply.header(RETRY_HEADER, "false");
    if (more.upstreamStatus !== undefined) reply.header("x-upstream-status", more.upstreamStatus);
    const isDevice = isDevicePath(request.raw.url ?? "");
    const body = JSON.stringify(isDevice ? deviceFault(fault) : faultBody(dialectOf(request), fault));
    sendJson(reply.code(status), body, request.ask);
  }

  function discard(raw: IncomingMessage): Promise<void> {
    if (raw.readableEnded || raw.destroyed || raw.complete) return Promise.resolve();
    let size = 0;
    const over = new Promise<void>((resolve) => {
      for (const event of ["end", "close", "error"]) raw.once(event, () => resolve());
      raw.on("data", (piece: Buffer) => {
        size += piece.length;
        if (size > DISCARD_BYTES) resolve();
      });
    });
    raw.resume();
    return within(clock, DISCARD_MS, over, () => new Error("too slow")).catch(() => undefined);
  }

  /** One line for each request: no header, no body, no address that a client made up. */
  function logVisit(visit: Visit & Asked, request: FastifyRequest, reply: FastifyReply): void {
    const { account, dialect, token, model, ip, startedAt, isStream } = visit;
    const status = reply.raw.headersSent ? reply.raw.statusCode : 0;
    // Whoever got no answer, and is told nowhere to have failed, has left before anything was done.
    if (status === 0) account.outcome ||= "board_gone";
    const isGood = account.outcome === "done";
    metrics.requests.inc({ route: String(request.routeOptions.url), status });
    app.log[isGood ? "info" : "warn"](
      {
        route: request.routeOptions.url,
        method: request.method,
        dialect,
        board: token?.name,
        from: ip,
        model,
        status,
        ...account,
        isStream,
        ms: Math.round(clock.now() - startedAt),
      },
      isGood ? "request" : `request: ${account.outcome || "not answered"}`,
    );
  }

  return {
    app,
    async listen(host, port) {
      await app.listen({ host, port, listenTextResolver: (address) => `listening at ${address}` });
      return (app.server.address() as { port: number }).port;
    },
    async close() {
      isStopping = true;
      let timer = clock.setTimeout(() => {
        forwarder.stop();
        // What was said so far goes out, unless nobody takes it.
        timer = clock.setTimeout(() => app.server.closeAllConnections(), LAST_WORDS_MS);
      }, limits.graceMs);
      await app.close();
      clock.clearTimeout(timer);
      await store?.close();
      await book.close();
      await unlock();
    },
  };
}

function budgetFault(board: string, { budget, limit, used, isEstimated, retryAfter }: Refusal): Fault {
  const [what, span] = budget.toLowerCase().split("per") as [string, string];
  const about = isEstimated ? " (partly estimated)" : "";
  const wait = retryAfter < 120 ? `${retryAfter} s` : `${Math.ceil(retryAfter / 60)} min`;
  return new Fault(
    429,
    `gateway: ${board} has used ${used}${about} of its ${limit} ${what} per ${span}; ask again in ${wait}, or raise ` +
      `--${what}-per-${span} at the gateway`,
    `${what}_per_${span}`,
    { retryAfter },
  );
}

function notFound({ method, raw }: FastifyRequest, hasFiles: boolean): Fault {
  const url = raw.url ?? "";
  const isShort = /^\/(chat\/completions|messages|models)\/?(\?|$)/.test(url);
  const isFile = isDevicePath(url) || /^\/v1\/files([/?]|$)/.test(url);
  if (isFile && !hasFiles)
    return new Fault(404, "gateway: it takes no files: start it with --files and a folder for them", "no_files");
  if (isFile || ROUTES.includes(url.split("?")[0]!))
    return new Fault(405, `gateway: ${method} is no way to ask for this`, "not_found");
  return new Fault(
    404,
    isShort
      ? "gateway: nothing is here: baseUrl must end in /v1, as in http://192.168.1.10:8089/v1"
      : "gateway: nothing is here: it has /v1/chat/completions, /v1/messages, /v1/models, /healthz and /metrics",
    "not_found",
  );
}

/** A request that is no HTTP, or does not come in time: Node has no request object for it. */
function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) return void socket.destroy();
  const [status, text] =
    error.code === "ERR_HTTP_REQUEST_TIMEOUT"
      ? ["408 Request Timeout", "gateway: the request did not arrive in time"]
      : error.code === "HPE_HEADER_OVERFLOW"
        ? ["431 Request Header Fields Too Large", "gateway: the headers are too large: is apiKey really a token?"]
        : ["400 Bad Request", "gateway: this is no HTTP request"];
  const fault = new Fault(Number(status.slice(0, 3)), text, "bad_request");
  const body = JSON.stringify(faultBody("openai", fault));
  const head = `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}`;
  socket.write(`${head}\r\nConnection: close\r\n\r\n${body}`);
  socket.destroySoon();
}
