import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import http from "node:http";
import { connect } from "node:net";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { readAsBoard } from "./board-reader";
import { toBytes } from "../drivers/bytes";
import { raw, reply, reset, text, toolCall } from "../fixtures/scripted-model";
import { chat, closedPort, messages, startGateway, startModel, startUpstream, until, UPSTREAM_KEY } from "./harness";

const slim = { "x-agent-slim": "1" };

describe("what a board asks for goes upstream, and the reply comes back", () => {
  it("chat completions as a stream, byte for byte", async () => {
    const model = await startModel([[text("Hel", "lo"), toolCall("weather", { city: "Zürich" })]]);
    const gateway = await startGateway({ upstream: model.url });
    const { status, headers, body, isComplete } = await gateway.ask();
    expect({ status, isComplete }).toEqual({ status: 200, isComplete: true });
    // A board loses what comes without one of the two.
    expect(headers["transfer-encoding"] ?? headers["content-length"]).toBeDefined();
    expect(headers).toMatchObject({ "content-type": "text/event-stream; charset=utf-8", connection: "close" });
    expect(headers["content-encoding"]).toBeUndefined();
    expect(readAsBoard("openai", [toBytes(body)])).toMatchObject({
      text: "Hello",
      calls: [{ name: "weather", arguments: { city: "Zürich" } }],
      stop: "stop",
    });
    expect(body).toContain('"object":"chat.completion.chunk"');
    const [request] = model.requests;
    expect(request!.headers).toMatchObject({
      authorization: `Bearer ${UPSTREAM_KEY}`,
      "accept-encoding": expect.any(String),
    });
    expect(JSON.stringify(request)).not.toContain(gateway.token);
    expect(request!.json).toEqual(chat());
    model.expectAllUsed();
  });

  it("a slim stream where the board asks for it, with the usage asked for upstream", async () => {
    const model = await startModel([[text("Hel", "lo")]]);
    const gateway = await startGateway({ upstream: model.url });
    const { body } = await gateway.ask({ headers: slim });
    expect(readAsBoard("openai", [toBytes(body)])).toMatchObject({ text: "Hello", stop: "stop" });
    expect(body.match(/chatcmpl-scripted/g)).toHaveLength(1);
    expect(body).not.toContain("usage");
    expect(model.requests[0]!.json.stream_options).toEqual({ include_usage: true });
    await until(() => gateway.logged().some((line) => line.tokens === 110 && line.isEstimated === false));
  });

  it("messages, with the board's token as x-api-key and the key upstream as x-api-key", async () => {
    const events = [
      { type: "message_start", message: { id: "m", usage: { input_tokens: 20, output_tokens: 1 } } },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Grüezi" } },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 7 } },
      { type: "message_stop" },
    ].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    const model = await startModel([raw(events), raw(events)]);
    const gateway = await startGateway({ upstream: model.url });
    for (const headers of [{}, slim]) {
      const { status, body } = await gateway.ask({
        path: "/v1/messages",
        body: messages(),
        token: "",
        headers: { "x-api-key": gateway.token, "anthropic-version": "2023-06-01", ...headers },
      });
      expect(status).toBe(200);
      expect(readAsBoard("anthropic", [toBytes(body)])).toMatchObject({ text: "Grüezi", stop: "stop" });
    }
    expect(model.problems).toEqual([]);
    expect(model.requests[0]!.headers["x-api-key"]).toBe(UPSTREAM_KEY);
    await until(() => gateway.logged().filter((line) => line.tokens === 27 && !line.isEstimated).length === 2);
  });

  it("a reply that is no stream, with its length", async () => {
    const choices = [{ index: 0, message: { role: "assistant", content: "ü" }, finish_reason: "stop", logprobs: null }];
    const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };
    const model = await startModel([reply(200, { id: "x", choices, usage }), reply(200, { id: "x", choices, usage })]);
    const gateway = await startGateway({ upstream: model.url });
    const whole = await gateway.ask();
    expect(whole.json).toEqual({ id: "x", choices, usage });
    expect(whole.headers["content-length"]).toBe(String(Buffer.byteLength(whole.body)));
    const small = await gateway.ask({ headers: slim });
    expect(small.json.choices[0]).toEqual({
      index: 0,
      message: { role: "assistant", content: "ü" },
      finish_reason: "stop",
    });
    await until(() => gateway.logged().filter((line) => line.tokens === 7).length === 2);
  });

  it("what comes packed is unpacked", async () => {
    const events = `data: {"choices":[{"delta":{"content":"packed"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n`;
    const upstream = await startUpstream((request, response) => {
      expect(request.headers["accept-encoding"]).toContain("gzip");
      response.writeHead(200, { "content-type": "text/event-stream", "content-encoding": "gzip" });
      const packed = gzipSync(events);
      response.write(packed.subarray(0, 20));
      setImmediate(() => response.end(packed.subarray(20)));
    });
    const gateway = await startGateway({ upstream });
    const { body, headers } = await gateway.ask();
    expect(body).toBe(events);
    expect(headers["content-encoding"]).toBeUndefined();
  });

  it("a stream whatever its type says, and one that says nothing", async () => {
    const events = 'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n';
    for (const type of ["text/plain", "application/json", undefined]) {
      const upstream = await startUpstream((_request, response) => {
        if (type) response.setHeader("content-type", type);
        response.end(`\n${events}`);
      });
      const gateway = await startGateway({ upstream });
      expect((await gateway.ask()).body).toContain(events);
    }
  });

  it("an upstream that knows no stream_options is asked without, from then on", async () => {
    const refusal = reply(400, { error: { message: "Unrecognized request argument supplied: stream_options" } });
    const model = await startModel([refusal, text("one"), text("two")]);
    const gateway = await startGateway({ upstream: model.url });
    for (const said of ["one", "two"]) expect((await gateway.ask({ headers: slim })).body).toContain(said);
    expect(model.requests.map(({ json }) => json.stream_options !== undefined)).toEqual([true, false, false]);
    await until(() => gateway.logged().filter((line) => line.isEstimated === true && line.tokens > 0).length === 2);
  });

  it("a comment now and then while the upstream is alive and says nothing", async () => {
    let now = 0;
    const upstream = await startUpstream((_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      for (let i = 0; i < 3; i++) setTimeout(() => response.write(": waiting\n\n"), 20 * i);
      setTimeout(() => response.end("data: [DONE]\n\n"), 80);
    });
    const clock = { now: () => (now += 6_000), setTimeout, clearTimeout };
    const gateway = await startGateway({ upstream, clock });
    expect((await gateway.ask({ headers: slim })).body).toBe(":\n\n:\n\n:\n\ndata: [DONE]\n\n");
  });
});

describe("tokens", () => {
  it("let in, or tell what to do", async () => {
    const model = await startModel(() => text("hi"));
    const gateway = await startGateway({ upstream: model.url });
    const missing = await gateway.ask({ token: "" });
    expect(missing).toMatchObject({
      status: 401,
      json: { error: { type: "authentication_error", code: "token_missing" } },
    });
    expect(missing.json.error.message).toMatch(/no token.*token add NAME.*set_config/);
    const unknown = await gateway.ask({ token: "eagw_wrong", path: "/v1/messages", body: messages() });
    expect(unknown.json).toEqual({
      type: "error",
      error: { type: "authentication_error", message: expect.stringContaining("unknown") },
    });

    // A running gateway sees what is done to the folder.
    const token = await gateway.tokens.add("kitchen");
    expect((await gateway.ask({ token })).status).toBe(200);
    await gateway.tokens.revoke("kitchen");
    const revoked = await gateway.ask({ token });
    expect(revoked.status).toBe(401);
    expect(revoked.json.error.message).toMatch(/the token of kitchen was revoked on \d{4}-/);
    expect(model.requests).toHaveLength(1);
    expect((await gateway.ask({ token: "", headers: { authorization: "Basic eDp5" } })).status).toBe(401);
  });

  it("are let in before the body is read, and the answer is not lost with what is still coming", async () => {
    const gateway = await startGateway({ upstream: "http://127.0.0.1:9/v1" });
    for (const token of ["eagw_wrong", gateway.token]) {
      const { status, json } = await gateway.ask({ token, body: "x".repeat(3_000_000) });
      expect({ status, code: json.error.code }).toEqual(
        token === gateway.token ? { status: 413, code: "body_too_large" } : { status: 401, code: "token_unknown" },
      );
    }
  });
});

describe("requests that go nowhere", () => {
  it.each<[string, unknown, RegExp]>([
    ["no body", "", /empty/],
    ["no JSON", "{nope", /no JSON/],
    ["a list", "[]", /no JSON object/],
    ["bytes that are no UTF-8", Buffer.from([0x7b, 0xff, 0x7d]), /not UTF-8/],
    ["a model that is not allowed", chat({ model: "gpt-9" }), /gpt-9 is not allowed.*one of small, tiny/],
    ["no model", { messages: [] }, /names no model.*one of small, tiny/],
    ["a model that is no text", chat({ model: ["small"] }), /names no model/],
    ["an empty model", chat({ model: "" }), /: the request names no model: set_config\(\{model:"small"\}\) at the board/],
    // The first of two counts for some servers, the last for others: only one goes upstream.
    ["a second model", '{"model":"small","model":"gpt-9"}', /gpt-9/],
  ])("%s", async (_name, body, message) => {
    const gateway = await startGateway({ upstream: "http://127.0.0.1:9/v1", models: ["small", "tiny"] });
    const { status, json } = await gateway.ask({ body });
    expect(status).toBe(400);
    expect(json.error.message).toMatch(message);
  });

  it.each([
    ["/chat/completions", "POST", 404, /baseUrl must end in \/v1/],
    ["/v1/embeddings", "POST", 404, /nothing is here/],
    ["/v1/chat/completions", "GET", 405, /GET/],
    ["/", "GET", 404, /nothing is here/],
  ])("%s by %s", async (to, method, status, message) => {
    const gateway = await startGateway({ upstream: "http://127.0.0.1:9/v1" });
    const answer = await gateway.ask({ path: to, method });
    expect(answer.status).toBe(status);
    expect(answer.json.error.message).toMatch(message);
  });

  it("what is no HTTP", async () => {
    const gateway = await startGateway({ upstream: "http://127.0.0.1:9/v1" });
    const answer = await new Promise<string>((resolve) => {
      let got = "";
      const socket = connect(gateway.port, "127.0.0.1", () => socket.write("hello\r\n\r\n"));
      socket.on("data", (piece) => (got += String(piece)));
      socket.on("close", () => resolve(got));
    });
    expect(answer).toMatch(/^HTTP\/1\.1 400 .*no HTTP request/s);
  });
});

it("models are those that are allowed", async () => {
  const data = ["a", "b", "c"].map((id) => ({ id, object: "model", created: 1, owned_by: "x" }));
  const upstream = await startUpstream((request, response) => {
    expect(request.url).toBe("/v1/models");
    response.setHeader("content-type", "application/json").end(JSON.stringify({ object: "list", data }));
  });
  const gateway = await startGateway({ upstream, models: ["c", "a"] });
  const request = { path: "/v1/models", method: "GET" };
  expect((await gateway.ask(request)).json).toEqual({ object: "list", data: [data[0], data[2]] });
  expect((await gateway.ask({ ...request, headers: slim })).json).toEqual({
    object: "list",
    data: [
      { id: "a", object: "model" },
      { id: "c", object: "model" },
    ],
  });
  expect((await gateway.ask({ ...request, token: "" })).status).toBe(401);
});

it("budgets: a clear 429 with Retry-After, kept over a restart, and a board's own", async () => {
  const model = await startModel(() => text("hi"));
  let now = 1_700_000_000_000;
  const clock = { now: () => now, setTimeout, clearTimeout };
  const first = await startGateway({ upstream: model.url, budgets: { requestsPerHour: 2 }, clock });
  const more = await first.tokens.add("lab", { requestsPerHour: 3 });
  for (let i = 0; i < 2; i++) expect((await first.ask()).status).toBe(200);
  now += 600_000;
  const refused = await first.ask();
  expect(refused).toMatchObject({ status: 429, headers: { "retry-after": "3000" } });
  expect(refused.json.error).toMatchObject({ type: "rate_limit_error", code: "requests_per_hour" });
  expect(refused.json.error.message).toMatch(
    /desk has used 2 of its 2 requests per hour; ask again in 50 min, or raise --requests-per-hour/,
  );
  for (const status of [200, 200, 200, 429]) expect((await first.ask({ token: more })).status).toBe(status);
  await first.gateway.close();

  const { stateFolder } = first;
  // Another was killed while it wrote.
  writeFileSync(path.join(stateFolder, "usage.json.0f.tmp"), "{");
  const second = await startGateway({ upstream: model.url, budgets: { requestsPerHour: 2 }, clock, stateFolder });
  expect((await second.ask({ token: first.token })).status).toBe(429);
  expect(readdirSync(stateFolder).sort()).toEqual(["gateway.pid", "tokens", "usage.json"]);
  now += 3_000_000;
  expect((await second.ask({ token: first.token })).status).toBe(200);
});

describe("what the upstream refuses", () => {
  const final = { "x-should-retry": "false" };
  const cases: [string, ReturnType<typeof reply>, number, RegExp, Record<string, string>?][] = [
    [
      "400",
      reply(400, { error: { message: "bad tools", type: "invalid_request_error", param: "tools" } }),
      400,
      /^bad tools$/,
    ],
    [
      "401 is not the board's token",
      reply(401, { error: { message: `Incorrect API key provided: ${UPSTREAM_KEY}.` } }),
      502,
      /gateway's own key \(401\): check GATEWAY_UPSTREAM_KEY.*apiKey is right/,
      { "x-upstream-status": "401", ...final },
    ],
    ["403", reply(403, { error: { message: "Country not supported" } }), 502, /403.*Country not supported/, final],
    [
      "400 that is about the key",
      reply(400, [{ error: { message: "API key not valid.", details: [{ reason: "API_KEY_INVALID" }] } }]),
      502,
      /gateway's own key \(400\).*It says: /,
      final,
    ],
    ["402", reply(402, { error: { message: "no credit" } }), 402, /no credit/],
    [
      "404 of a model",
      reply(404, { error: { message: "The model x does not exist", code: "model_not_found" } }),
      404,
      /^The model x does not exist$/,
    ],
    [
      "404 as a page",
      reply(404, "<!DOCTYPE html><h1>Not found</h1>", { "content-type": "text/html" }),
      502,
      /404 with an HTML page.*--upstream/,
      final,
    ],
    [
      "200 as a page",
      reply(200, "<html>Sign in</html>", { "content-type": "text/html" }),
      502,
      /200 with an HTML page.*--upstream/,
      final,
    ],
    [
      "429 with seconds",
      reply(429, { error: { message: "slow down" } }, { "retry-after": "17" }),
      429,
      /slow down/,
      { "retry-after": "17" },
    ],
    [
      "429 with a date, by the upstream's own clock",
      reply(
        429,
        { error: { message: "slow down" } },
        { date: "Tue, 01 Jan 2030 00:00:00 GMT", "retry-after": "Tue, 01 Jan 2030 00:01:30 GMT" },
      ),
      429,
      /slow down/,
      { "retry-after": "90" },
    ],
    ["503 in words", reply(503, "upstream connect error"), 503, /upstream connect error/],
    ["503 as a page", reply(503, "<html>nginx</html>"), 503, /503, with an HTML page/],
    ["500 without a word", reply(500, ""), 500, /answered 500 without a word/],
    [
      "529",
      reply(529, { type: "error", error: { type: "overloaded_error", message: "Overloaded" } }),
      529,
      /Overloaded/,
    ],
    [
      "a redirect, which the key does not follow",
      reply(307, "", { location: "http://127.0.0.1:9/" }),
      502,
      /elsewhere \(307\)/,
      final,
    ],
    ["an empty answer", reply(200, ""), 502, /empty answer/],
    [
      "401 within a good answer",
      reply(200, { error: { message: `Incorrect API key: ${UPSTREAM_KEY}`, code: "invalid_api_key" } }),
      502,
      /gateway's own key \(401\).*It says: Incorrect API key/,
      final,
    ],
    [
      "a quota that is used up, which no waiting cures",
      reply(429, { error: { message: "You exceeded your current quota", code: "insufficient_quota" } }),
      429,
      /^You exceeded your current quota$/,
      final,
    ],
    [
      "what it says of asking again",
      reply(503, { error: { message: "closed" } }, { "x-should-retry": "false" }),
      503,
      /^closed$/,
      final,
    ],
    [
      "what it says of asking again, the other way",
      reply(409, { error: { message: "locked" } }, { "x-should-retry": "true" }),
      409,
      /^locked$/,
      { "x-should-retry": "true" },
    ],
    ["half a JSON", reply(200, '{"choices":['), 502, /neither JSON nor a stream/],
  ];
  it.each(cases)("%s", async (_name, turn, status, message, headers = {}) => {
    const model = await startModel([turn, turn]);
    const gateway = await startGateway({ upstream: model.url });
    for (const more of [{}, slim]) {
      const answer = await gateway.ask({ headers: more });
      expect(answer.status).toBe(status);
      expect(answer.json.error.message).toMatch(message);
      // The board shows 300 bytes of it.
      expect(Buffer.byteLength(answer.json.error.message)).toBeLessThanOrEqual(300);
      expect(answer.headers).toMatchObject(headers);
      expect(answer.headers["x-should-retry"]).toBe(headers["x-should-retry"]);
      expect(answer.body).not.toContain("Qz7v");
    }
    model.expectAllUsed();
    // Nothing was said, so no tokens were used.
    await until(() => gateway.logged().filter((line) => line.board === "desk").length === 2);
    expect(gateway.logged().map((line) => line.tokens ?? 0)).toEqual(gateway.logged().map(() => 0));
  });

  it("a whole error body stays whole but for secrets, and Anthropic's has its own form", async () => {
    const error = { message: "m", type: "t", param: null, code: "c", inner: { detail: [`key ${UPSTREAM_KEY} here`] } };
    const model = await startModel([reply(400, { error }), reply(503, "busy")]);
    const gateway = await startGateway({ upstream: model.url });
    expect((await gateway.ask()).json).toEqual({ error: { ...error, inner: { detail: ["key *** here"] } } });
    const anthropic = await gateway.ask({ path: "/v1/messages", body: messages() });
    expect(anthropic.json).toEqual({ type: "error", error: { type: "api_error", message: "busy" } });
  });
});

describe("an upstream that cannot be reached", () => {
  const withCode = (code: string): Error =>
    new TypeError("fetch failed", { cause: Object.assign(new Error(code), { code }) });
  it.each<[string, number, RegExp, "final"?]>([
    ["ENOTFOUND", 502, /no host is called api\.example: check --upstream.*board's settings are right/, "final"],
    ["EAI_AGAIN", 502, /cannot look up api\.example.*name server/],
    ["ECONNREFUSED", 502, /api\.example refused the connection/],
    ["EHOSTUNREACH", 502, /cannot be reached/],
    ["ECONNRESET", 502, /closed the connection/],
    ["UND_ERR_CONNECT_TIMEOUT", 504, /did not accept a connection in time/],
    ["UND_ERR_HEADERS_TIMEOUT", 504, /nothing for too long/],
    ["CERT_HAS_EXPIRED", 502, /not valid on the gateway's date, 2001-09-09: set the gateway's clock/, "final"],
    ["CERT_NOT_YET_VALID", 502, /2001-09-09/, "final"],
    ["SELF_SIGNED_CERT_IN_CHAIN", 502, /not trusted \(SELF_SIGNED_CERT_IN_CHAIN\).*NODE_EXTRA_CA_CERTS/, "final"],
    ["UNABLE_TO_VERIFY_LEAF_SIGNATURE", 502, /not trusted/, "final"],
    ["ERR_TLS_CERT_ALTNAME_INVALID", 502, /for another name/, "final"],
    ["ERR_SSL_WRONG_VERSION_NUMBER", 502, /no TLS with/, "final"],
    ["ESOMETHING", 502, /\(ESOMETHING\)/],
  ])("%s", async (code, status, message, kind) => {
    const gateway = await startGateway({
      upstream: "https://api.example/v1",
      clock: { now: () => 1e12, setTimeout, clearTimeout },
      fetch: async () => Promise.reject(withCode(code)),
    });
    const answer = await gateway.ask();
    expect(answer.status).toBe(status);
    expect(answer.headers["x-should-retry"]).toBe(kind === "final" ? "false" : undefined);
    expect(answer.json.error.message).toMatch(message);
    expect(Buffer.byteLength(answer.json.error.message)).toBeLessThanOrEqual(300);
    expect(answer.json.error.message).toMatch(/^gateway: /);
  });

  it("really: refused, and reset before it answers", async () => {
    const refused = await startGateway({ upstream: await closedPort() });
    expect((await refused.ask()).json.error.message).toMatch(/127\.0\.0\.1:\d+ refused the connection/);
    const forbidden = await startGateway({ upstream: "http://127.0.0.1:9/v1" });
    expect((await forbidden.ask()).json.error.message).toMatch(/does not talk to the port of 127\.0\.0\.1:9/);
    const model = await startModel([reset()]);
    const gateway = await startGateway({ upstream: model.url });
    expect(await gateway.ask()).toMatchObject({
      status: 502,
      json: { error: { message: expect.stringContaining("closed the connection") } },
    });
  });
});

it("no key, no token: not in a log, a metric, an answer or a file", async () => {
  const echo = `data: {"choices":[{"delta":{"content":"your key is ${UPSTREAM_KEY}"}}]}\n\n`;
  const cutKey = Buffer.from(echo);
  const model = await startModel([
    raw([cutKey.subarray(0, 60), cutKey.subarray(60), "data: [DONE]\n\n"]),
    raw([cutKey.subarray(0, 60), cutKey.subarray(60), "data: [DONE]\n\n"]),
    raw([`data: {"error":{"message":"bad key ${UPSTREAM_KEY.slice(0, 14)}"}}\n\n`]),
    reply(200, { choices: [{ message: { content: UPSTREAM_KEY } }] }),
    reply(400, `plain ${UPSTREAM_KEY}`),
    reply(400, {
      error: {
        message: `Incorrect API key provided: sk-Qz7vK${"*".repeat(12)}Ta1E. ${encodeURIComponent(UPSTREAM_KEY)}`,
      },
    }),
    reply(429, { error: `key ${Buffer.from(UPSTREAM_KEY).toString("base64")}` }, { "retry-after": UPSTREAM_KEY }),
    reply(500, "<html>" + UPSTREAM_KEY),
    reset([`data: ${UPSTREAM_KEY}`]),
  ]);
  const gateway = await startGateway({ upstream: model.url });
  let seen = "";
  for (const headers of [{}, slim, slim, {}, {}, slim, {}, {}, {}]) {
    const answer = await gateway.ask({ headers, body: chat({ user: gateway.token }) });
    seen += JSON.stringify(answer.headers) + answer.body;
  }
  seen += (await gateway.ask({ path: `/v1/models?key=${gateway.token}`, method: "GET" })).body;
  seen += (await gateway.ask({ path: `/${gateway.token}`, method: "GET" })).body;
  seen += (await gateway.ask({ body: chat({ model: gateway.token }), token: `${gateway.token}x` })).body;
  seen += (await gateway.ask({ body: chat({ model: gateway.token }), headers: { "x-agent-slim": gateway.token } }))
    .body;
  seen += (await gateway.ask({ path: "/metrics", method: "GET" })).body;
  await until(() => gateway.lines.filter((line) => line.includes('"board":"desk"')).length >= 10);
  await gateway.gateway.close();
  seen += gateway.lines.join("");
  const list = readdirSync(gateway.stateFolder, { recursive: true, withFileTypes: true });
  for (const file of list.filter((one) => one.isFile())) {
    seen += file.name + readFileSync(path.join(file.parentPath, file.name), "utf8");
  }
  expect(seen.length).toBeGreaterThan(5000);
  for (let at = 0; at + 8 <= UPSTREAM_KEY.length; at++) expect(seen).not.toContain(UPSTREAM_KEY.slice(at, at + 8));
  expect(seen).not.toContain(Buffer.from(UPSTREAM_KEY).toString("base64"));
  expect(seen).not.toContain(gateway.token.slice("eagw_".length));
  expect(seen).toContain("your key is ***");
});

it("health, metrics and the log tell what a person who runs it has to know", async () => {
  const model = await startModel([text("hi"), reply(503, "busy")]);
  const gateway = await startGateway({ upstream: model.url });
  const good = await gateway.ask({ headers: slim });
  const failed = await gateway.ask();
  const refused = await gateway.ask({ token: "" });
  expect((await gateway.ask({ path: "/healthz", method: "GET", token: "" })).json).toEqual({ status: "ok" });
  const metrics = (await gateway.ask({ path: "/metrics", method: "GET", token: "" })).body;
  for (const line of [
    'agent_gateway_requests_total{route="/v1/chat/completions",status="200"} 1',
    'agent_gateway_requests_total{route="/v1/chat/completions",status="503"} 1',
    'agent_gateway_requests_total{route="/v1/chat/completions",status="401"} 1',
    'agent_gateway_refusals_total{reason="token_missing"} 1',
    'agent_gateway_upstream_outcomes_total{outcome="done"} 1',
    'agent_gateway_upstream_outcomes_total{outcome="upstream_failed"} 1',
    'agent_gateway_board_requests_total{board="desk"} 2',
    'agent_gateway_board_tokens_total{board="desk",kind="told"} 110',
    "agent_gateway_streams 0",
  ]) {
    expect(metrics).toContain(line);
  }
  await until(() => gateway.logged().filter((line) => line.route).length === 3);
  expect(gateway.logged().find((line) => line.status === 200)).toMatchObject({
    level: 30,
    route: "/v1/chat/completions",
    board: "desk",
    model: "scripted",
    upstreamStatus: 200,
    outcome: "done",
    tokens: 110,
    isStream: true,
    sentBytes: Buffer.byteLength(good.body),
  });
  expect(gateway.logged().find((line) => line.status === 503)).toMatchObject({
    level: 40,
    outcome: "upstream_failed",
    sentBytes: Buffer.byteLength(failed.body),
  });
  expect(gateway.logged().find((line) => line.status === 401)).toMatchObject({
    level: 40,
    outcome: "token_missing",
    sentBytes: Buffer.byteLength(refused.body),
  });
  // That of streams counts streams.
  expect(metrics).toContain(`agent_gateway_stream_sent_bytes_total{stream="slim"} ${Buffer.byteLength(good.body)}`);
  expect(metrics).not.toContain('{stream="whole"}');
});

it("stops: no new requests, those under way are told", async () => {
  const upstream = await startUpstream((_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write('data: {"choices":[{"delta":{"content":"half"}}]}\n\n');
  });
  const gateway = await startGateway({ upstream });
  let got = "";
  const answer = gateway.ask({ headers: slim, onData: (body) => (got = body) });
  await until(() => got.includes("half"));
  await gateway.gateway.close();
  expect(readAsBoard("openai", [toBytes((await answer).body)])).toMatchObject({
    text: "half",
    stop: "",
    failure: { message: expect.stringContaining("503: gateway: it is being stopped") },
  });
  await expect(gateway.ask()).rejects.toThrow(/ECONNREFUSED/);
});

it("connections on which nothing is asked are closed", async () => {
  const gateway = await startGateway({ upstream: "http://127.0.0.1:1/v1", limits: { requestMs: 100 } });
  const socket = connect(gateway.port, "127.0.0.1").resume();
  await once(socket, "close");
  const agent = new http.Agent({ keepAlive: true });
  const response = await new Promise<http.IncomingMessage>((resolve) =>
    http.get(`${gateway.url}/healthz`, { agent }, resolve),
  );
  expect(response.headers["keep-alive"]).toBe("timeout=5");
  response.resume();
  agent.destroy();
});
