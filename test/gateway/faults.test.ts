import { once } from "node:events";
import https from "node:https";
import { connect } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import type { GatewayOptions } from "../../gateway/server";
import { createManualClock } from "../../host-sim/clock";
import { toBytes } from "../drivers/bytes";
import { hang, raw, reply, reset, text, type Turn } from "../fixtures/scripted-model";
import { readAsBoard } from "./board-reader";
import { selfSignedCertificate } from "./certificate";
import { askGateway, chat, messages, type AskOptions, startGateway, startModel, startUpstream, until } from "./harness";

const slim = { "x-agent-slim": "1" };
const said = (content: string): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`;

/** A request to each API, and an event of its answer. */
const dialects = {
  openai: { path: "/v1/chat/completions", body: chat(), event: said },
  anthropic: {
    path: "/v1/messages",
    body: messages(),
    event: (text: string) =>
      `data: ${JSON.stringify({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } })}\n\n`,
  },
};

describe("in the middle of a stream", () => {
  it.each([
    ["openai", "whole", {}],
    ["openai", "slim", slim],
    ["anthropic", "whole", {}],
    ["anthropic", "slim", slim],
  ] as const)("an upstream that dies is a cut for the board: %s, %s", async (dialect, _name, headers) => {
    const { path, body: asked, event } = dialects[dialect];
    const model = await startModel([reset([event("one "), event("two")])]);
    const gateway = await startGateway({ upstream: model.url });
    const { status, body, isComplete } = await gateway.ask({ path, body: asked, headers });
    expect({ status, isComplete }).toEqual({ status: 200, isComplete: false });
    expect(readAsBoard(dialect, [toBytes(body)])).toMatchObject({ text: "one two", stop: "" });
    expect(body).not.toMatch(/DONE|finish_reason|message_stop|error/);
    await until(() => gateway.logged().some((line) => line.outcome === "upstream_cut" && line.isEstimated === true));
  });

  it("an end without an end stays one: nothing is made up", async () => {
    const model = await startModel([raw([said("half")]), raw([said("half")])]);
    const gateway = await startGateway({ upstream: model.url });
    for (const headers of [{}, slim]) {
      const { body, isComplete } = await gateway.ask({ headers });
      expect(isComplete).toBe(true);
      expect(readAsBoard("openai", [toBytes(body)])).toMatchObject({ text: "half", stop: "" });
      expect(body).not.toContain("DONE");
    }
  });

  it.each(["openai", "anthropic"] as const)("silence is told in the stream: %s", async (dialect) => {
    const { path, body, event: said } = dialects[dialect];
    const event = said("half");
    const model = await startModel([hang([event]), hang([event])]);
    const clock = createManualClock(1e12);
    const gateway = await startGateway({ upstream: model.url, clock });
    const ask = async (headers: Record<string, string>): Promise<{ body: string; isComplete: boolean }> => {
      let got = "";
      const answer = gateway.ask({ path, body, headers, onData: (all) => (got = all) });
      await until(() => {
        clock.advance(100);
        return got.includes("half");
      });
      clock.advance(120_000);
      return answer;
    };
    const small = await ask(slim);
    expect(readAsBoard(dialect, [toBytes(small.body)])).toMatchObject({
      text: "half",
      stop: "",
      failure: {
        message: expect.stringMatching(/504: gateway: 127.0.0.1:\d+ has sent nothing for 120 s \(--silence\)/),
      },
    });
    // Into a stream that passes as it is, nothing can be put.
    const whole = await ask({});
    expect(whole).toMatchObject({ body: event, isComplete: false });
    await until(() => model.openAnswers() === 0);
  });
});

it("an event that is too long is no reason to fill the memory", async () => {
  const long = said("x".repeat(10_000));
  const model = await startModel([
    raw([said("half"), long.slice(0, 6_000), long.slice(6_000)]),
    raw([said("half"), long]),
  ]);
  const gateway = await startGateway({ upstream: model.url, limits: { eventLength: 5_000 } });
  const small = readAsBoard("openai", [toBytes((await gateway.ask({ headers: slim })).body)]);
  expect(small).toMatchObject({
    text: "half",
    failure: { message: expect.stringContaining("an event of more than 5000 characters") },
  });
  // What passes as it is passes whole, and what it costs is estimated.
  expect((await gateway.ask()).body).toBe(said("half") + long);
});

it("a fault of the gateway's own is told as one, and logged", async () => {
  const gateway = await startGateway({
    upstream: "http://127.0.0.1:1/v1",
    fetch: () => Promise.reject(new Error("a slip")),
  });
  expect(await gateway.ask()).toMatchObject({ status: 500, json: { error: { code: "internal" } } });
  await until(() =>
    gateway.logged().some((line) => line.level === 50 && line.err.message === "a slip" && line.err.stack),
  );
});

describe("before it answers", () => {
  it.each([
    ["silence", "silenceMs", /has sent nothing for 5 s/],
    ["a limit of the whole", "totalMs", /was not over in 5 s/],
  ])("%s", async (_name, limit, message) => {
    const model = await startModel([{ kind: "hangBeforeHeaders" }]);
    const clock = createManualClock(1e12);
    const gateway = await startGateway({ upstream: model.url, clock, limits: { [limit]: 5_000 } });
    const answer = gateway.ask();
    await until(() => model.requests.length === 1);
    clock.advance(5_000);
    expect(await answer).toMatchObject({ status: 504, json: { error: { message: expect.stringMatching(message) } } });
  });
});

describe("a board that goes away", () => {
  it.each([
    ["in the middle of a stream", said("half")],
    ["before the answer", ""],
  ])("%s: the upstream is asked no longer", async (_name, event) => {
    let isAsked = false;
    let isClosed = false;
    const upstream = await startUpstream((_request, response) => {
      isAsked = true;
      response.once("close", () => (isClosed = true));
      if (event === "") return;
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(event);
    });
    const gateway = await startGateway({ upstream });
    const gone = new AbortController();
    const answer = gateway.ask({ signal: gone.signal, onData: () => gone.abort() }).catch(() => "gone");
    await until(() => isAsked);
    if (event === "") gone.abort();
    await answer;
    await until(() => isClosed);
    await until(() => gateway.logged().some((line) => line.outcome === "board_gone"));
  });
});

describe("a board that takes nothing", () => {
  it.each([
    ["whole", ""],
    ["slim", "x-agent-slim: 1\r\n"],
  ])("stops the upstream instead of filling the memory: %s", async (_name, header) => {
    // More than any buffer of the operating system's holds; less than what is served without backpressure.
    const offered = 200 * 1024 * 1024;
    const event = Buffer.from(said("x".repeat(8 * 1024)));
    let pulled = 0;
    let cancelled = false;
    const endless = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          pulled += event.length;
          if (pulled > offered) controller.close();
          else controller.enqueue(event);
        },
        cancel: () => void (cancelled = true),
      },
      { highWaterMark: 0 },
    );
    const clock = createManualClock(1e12);
    const gateway = await startGateway({
      upstream: "http://127.0.0.1:1/v1",
      clock,
      fetch: async () => new Response(endless, { headers: { "content-type": "text/event-stream" } }),
    });
    const body = JSON.stringify(chat());
    const socket = connect(gateway.port, "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    // Never read: what the gateway sends stays in the buffers.
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${gateway.token}\r\n${header}` +
        `Content-Length: ${body.length}\r\n\r\n${body}`,
    );
    // In the end it is given up.
    await until(() => {
      clock.advance(2_000);
      return cancelled;
    });
    expect(pulled).toBeGreaterThan(0);
    expect(pulled).toBeLessThan(32 * 1024 * 1024);
    await until(() => gateway.logged().some((line) => line.outcome === "board_stalled"));
  });

  it("is told nothing twice by an upstream that sends all in one piece", async () => {
    const model = await startModel([raw([said("x".repeat(100_000)) + "data: [DONE]\n\n"])]);
    const gateway = await startGateway({ upstream: model.url });
    const { body } = await gateway.ask({ headers: slim });
    expect(readAsBoard("openai", [toBytes(body)])).toMatchObject({
      text: "x".repeat(100_000),
      stop: "done",
      warnings: [],
    });
  });
});

describe("a fault on /v1/messages has Anthropic's form", () => {
  type Given = { turn?: Turn; options?: Partial<GatewayOptions>; ask?: AskOptions };
  const failing = (code: string): Given => ({
    options: { fetch: () => Promise.reject(Object.assign(new Error(code), { code })) },
  });
  it.each<[string, Given, number, string, RegExp]>([
    ["no token", { ask: { token: "" } }, 401, "authentication_error", /sent no token/],
    ["another token", { ask: { token: "eagw_x" } }, 401, "authentication_error", /token is unknown/],
    ["no JSON", { ask: { body: "{" } }, 400, "invalid_request_error", /is no JSON/],
    ["another model", { options: { models: ["m"] } }, 400, "invalid_request_error", /scripted is not allowed/],
    ["too long", { options: { limits: { bodyBytes: 20 } } }, 413, "request_too_large", /lower historyBytes, or raise/],
    ["no such method", { ask: { method: "GET" } }, 405, "invalid_request_error", /GET is no way/],
    ["no such place", { ask: { path: "/v1/messages/batches" } }, 404, "not_found_error", /nothing is here/],
    ["baseUrl without /v1", { ask: { path: "/messages" } }, 404, "not_found_error", /must end in \/v1/],
    ["a budget", { turn: raw([said("x")]), options: { budgets: { tokensPerDay: 1 } } }, 429, "rate_limit_error", /tokens per day/],
    ["the key", { turn: reply(401, { error: { type: "authentication_error" } }) }, 502, "api_error", /own key \(401\)/],
    ["a page", { turn: reply(404, "<html>") }, 502, "api_error", /404 with an HTML page/],
    ["a page of a proxy", { turn: reply(503, "<html>") }, 503, "api_error", /has a problem/],
    ["a redirect", { turn: reply(302, "") }, 502, "api_error", /elsewhere \(302\)/],
    ["an empty answer", { turn: reply(200, "") }, 502, "api_error", /empty answer/],
    ["half an answer", { turn: reply(200, "{") }, 502, "api_error", /neither JSON nor a stream/],
    ["no host", failing("ENOTFOUND"), 502, "api_error", /no host is called/],
    ["no connection", failing("ECONNREFUSED"), 502, "api_error", /refused the connection/],
    ["no trust", failing("CERT_UNTRUSTED"), 502, "api_error", /is not trusted/],
    ["no answer in time", failing("UND_ERR_HEADERS_TIMEOUT"), 504, "timeout_error", /nothing for too long/],
    ["a defect", { options: { fetch: () => Promise.reject(new Error("a slip")) } }, 500, "api_error", /failed itself/],
    ["words of the upstream", { turn: reply(529, "busy") }, 529, "overloaded_error", /^busy$/],
    [
      "an error of the upstream",
      { turn: reply(400, { type: "error", error: { type: "invalid_request_error", message: "max_tokens" } }) },
      400,
      "invalid_request_error",
      /^max_tokens$/,
    ],
  ])("%s", async (_name, { turn, options = {}, ask = {} }, status, type, message) => {
    const model = await startModel(turn === undefined ? [] : [turn, turn]);
    const gateway = await startGateway({ upstream: model.url, ...options });
    // It has to be used up.
    if (options.budgets) await gateway.ask({ path: "/v1/messages", body: messages() });
    for (const headers of [{}, slim]) {
      const answer = await gateway.ask({ path: "/v1/messages", body: messages(), headers, ...ask });
      expect(answer.json).toEqual({ type: "error", error: { type, message: expect.stringMatching(message) } });
      expect(answer.status).toBe(status);
    }
  });

  it("within a stream too", async () => {
    const model = await startModel([
      raw(['data: {"type":"error","error":{"type":"permission_error","message":"no"}}\n\n']),
    ]);
    const gateway = await startGateway({ upstream: model.url });
    const { body } = await gateway.ask({ path: "/v1/messages", body: messages(), headers: slim });
    expect(body).toMatch(/^event: error\ndata: {"type":"error","error":{"type":"invalid_request_error","message":"gateway: /);
    await until(() => gateway.logged().some((line) => line.outcome === "upstream_refused_key"));
    expect(gateway.logged().at(-1)).toMatchObject({ status: 200, sentBytes: Buffer.byteLength(body) });
  });
});

it("a certificate that nobody vouches for is refused, and the key is not sent", async () => {
  let requests = 0;
  const server = https.createServer(selfSignedCertificate(), (_request, response) => {
    requests++;
    response.end("{}");
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as { port: number };
  const gateway = await startGateway({ upstream: `https://127.0.0.1:${port}/v1` });
  const { status, json } = await gateway.ask();
  expect(status).toBe(502);
  expect(json.error.message).toMatch(/certificate of 127\.0\.0\.1:\d+ is not trusted \(DEPTH_ZERO_SELF_SIGNED_CERT\)/);
  expect(requests).toBe(0);
});

it("200 boards at once, with an upstream that fails one time in two", async () => {
  const boards = 200;
  const rounds = 3;
  const turns: Turn[] = [
    [text("fine")],
    reply(503, { error: { message: "busy" } }, { "retry-after": "1" }),
    [text("fine ", "too")],
    reset([said("half")]),
    reset(),
    reply(429, { error: { message: "slow down" } }),
    [text("also fine")],
    reply(200, "<html>oops</html>"),
  ];
  let asked = 0;
  const model = await startModel(() => turns[asked++ % turns.length]!);
  const gateway = await startGateway({ upstream: model.url });
  const tokens = await Promise.all(Array.from({ length: boards }, (_, i) => gateway.tokens.add(`board-${i}`)));
  const counts: Record<string, number> = {};
  const count = (what: string): void => void (counts[what] = (counts[what] ?? 0) + 1);
  await Promise.all(
    tokens.map(async (token, i) => {
      for (let round = 0; round < rounds; round++) {
        const { status, body, isComplete } = await askGateway(gateway.port, {
          token,
          headers: (i + round) % 2 ? slim : {},
        });
        const { stop, text } = readAsBoard("openai", [toBytes(body)]);
        if (status !== 200) count(String(status));
        else if (!isComplete) count(`cut after ${text}`);
        else count(stop === "stop" && text.endsWith(text.includes("too") ? "too" : "fine") ? "good" : `odd: ${body}`);
      }
    }),
  );
  const each = (boards * rounds) / turns.length;
  // A page and a reset before the headers are the gateway's 502.
  expect(counts).toEqual({ good: 3 * each, "503": each, "429": each, "502": 2 * each, "cut after half": each });
  await until(() => gateway.logged().filter((line) => line.board).length === boards * rounds);
  const metrics = await gateway.gateway.app.inject("/metrics");
  expect(metrics.body).toContain("agent_gateway_streams 0");
  await until(() => model.openAnswers() === 0);
});
