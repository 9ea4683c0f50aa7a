import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { AgentEvent, Session } from "../../firmware/types";
import { decodeStrings, fromBytes, toBytes } from "../drivers/bytes";
import { bootFirmware, isUtf8, type SeenRequest } from "./board";
import { cutAt, inPieces } from "./pieces";

const firmware = bootFirmware();
const { createAnthropic, createHistory, createReply, createSseParser, editHistory, flush, fromJson, readHistory } = firmware;
const { ANSWER, CALLS, ECHO_CALLS, RESULT, SHORT_CALLS, SHORT_RESULT, USER } = firmware;

/** Events as the server writes them, with their names. */
const stream = (...events: any[]) =>
  events.map((event) => `event: ${event.type}\ndata: ${toBytes(JSON.stringify(event))}\n\n`).join("");
const start = {
  type: "message_start",
  message: { id: "msg_1", type: "message", role: "assistant", content: [], model: "m", stop_reason: null, usage: {} },
};
const block = (index: unknown, content_block: unknown) => ({ type: "content_block_start", index, content_block });
const delta = (index: unknown, type: string, fields: object) => ({
  type: "content_block_delta",
  index,
  delta: { type, ...fields },
});
const text = (index: number, text: unknown) => delta(index, "text_delta", { text });
const input = (index: unknown, partial_json: unknown) => delta(index, "input_json_delta", { partial_json });
const toolUse = (id: string, name: string, input: unknown = {}) => ({ type: "tool_use", id, name, input });
const close = (index: number) => ({ type: "content_block_stop", index });
const finish = (stop_reason: unknown) => [
  { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 9 } },
  { type: "message_stop" },
];
const ping = { type: "ping" };

/** What a stream comes to, as the loop would see it. */
function readPieces(pieces: string[]) {
  const events: AgentEvent[] = [];
  const reply = createReply(
    (event) => events.push(event),
    undefined,
    4096,
    1024,
    400,
    48,
  );
  const provider = createAnthropic();
  const sse = createSseParser(3072);
  const take = () => {
    while (sse.next()) {
      const data = sse.data.trim();
      if (data.startsWith("{")) {
        reply.body = fromJson(data);
        provider.read(reply);
      }
      flush(reply);
    }
  };
  for (const piece of pieces) {
    sse.rest += piece;
    take();
  }
  sse.rest += "\n\n";
  take();
  flush(reply, true);
  let reasoning = "";
  let shown = "";
  for (const event of events) {
    if (event.type === "reasoningDelta") reasoning += event.text;
    if (event.type === "textDelta") shown += event.text;
  }
  const { stop, failure, calls } = reply;
  return {
    text: fromBytes(shown),
    reasoning: fromBytes(reasoning),
    calls: decodeStrings(calls),
    echo: fromBytes(reply.echo),
    stop,
    failure,
    events,
  };
}

/** The same, which must not depend on how the bytes are cut. */
function read(...events: any[]) {
  const bytes = stream(...events);
  const outcome = readPieces([bytes]);
  expect(readPieces(inPieces(bytes, 1))).toEqual(outcome);
  return outcome;
}

/** A reply that is no stream. */
function readWhole(body: unknown) {
  const reply = createReply(
    () => {},
    undefined,
    4096,
    1024,
    400,
    48,
  );
  reply.body = fromJson(toBytes(JSON.stringify(body)));
  createAnthropic().read(reply);
  flush(reply, true);
  return reply;
}

/** The published rules for a request, without relying on the server to join messages of one role. */
function checkRequest(body: any): void {
  expect(Object.keys(body)).toEqual(expect.arrayContaining(["model", "max_tokens", "messages", "stream"]));
  expect(body.max_tokens).toBeGreaterThan(0);
  expect(body.stream).toBe(true);
  if ("system" in body) expect(body.system).toMatch(/\S/);
  for (const tool of body.tools ?? []) {
    expect(Object.keys(tool)).toEqual(["name", "description", "input_schema"]);
    expect(tool.name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
    expect(tool.input_schema.type).toBe("object");
  }
  checkMessages(body.messages);
  expect(body.messages.at(-1).role).toBe("user");
}

function checkMessages(messages: any[]): void {
  expect(messages[0].role).toBe("user");
  const ids = new Set<string>();
  let open: string[] = [];
  for (const message of messages) {
    expect(Object.keys(message)).toEqual(["role", "content"]);
    const blocks: any[] =
      typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content;
    expect(blocks.length).toBeGreaterThan(0);
    if (open.length) expect(message.role).toBe("user");
    // Results stand first, all of them, and only after their calls.
    const results = blocks.filter((one) => one.type === "tool_result");
    expect(results.map((one) => one.tool_use_id)).toEqual(open);
    expect(blocks.slice(0, open.length)).toEqual(results);
    open = [];
    for (const one of blocks) {
      if (one.type === "text") expect(one.text).toMatch(/\S/);
      else if (one.type === "tool_result") {
        expect(typeof one.content).toBe("string");
        expect([undefined, true]).toContain(one.is_error);
      } else {
        expect(message.role).toBe("assistant");
        expect(Object.keys(one)).toEqual(["type", "id", "name", "input"]);
        expect(one.type).toBe("tool_use");
        expect(one.id).toMatch(/^[a-zA-Z0-9_-]+$/);
        expect(ids.has(one.id)).toBe(false);
        expect(one.name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
        expect(Object.prototype.toString.call(one.input)).toBe("[object Object]");
        ids.add(one.id);
        open.push(one.id);
      }
    }
  }
  expect(open).toEqual([]);
}

interface RecordedStream {
  dialect: string;
  text: string;
  reasoning: string;
  toolCalls: { id: string; name: string; arguments: string }[];
}

/** Recorded streams are kept beside the repository. Without them there is nothing to replay. */
const shared = fileURLToPath(new URL("../../../shared/streams/", import.meta.url));
const expectedFile = path.join(shared, "expected.json");
const recorded = Object.entries<RecordedStream>(
  fs.existsSync(expectedFile) ? JSON.parse(fs.readFileSync(expectedFile, "utf8")) : {},
).filter(([, one]) => one.dialect === "anthropic");

describe.skipIf(!recorded.length)("recorded streams", () => {
  it.each(recorded)("%s", (file, want) => {
    const events = fs
      .readFileSync(path.join(shared, file), "utf8")
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line));
    const bytes = stream(...events);
    const first = readPieces([bytes]);
    expect(first).toMatchObject({ text: want.text, reasoning: want.reasoning, stop: "stop", failure: undefined });
    expect(first.calls.map((call) => ({ ...call, arguments: JSON.parse(call.arguments || "{}"), index: 0 }))).toEqual(
      want.toolCalls.map((call) => ({ ...call, arguments: JSON.parse(call.arguments), index: 0 })),
    );
    expect(readPieces(inPieces(bytes, 536))).toEqual(first);
    expect(readPieces(inPieces(bytes, 1))).toEqual(first);
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length), { maxLength: 40 }), (places) => {
        expect(readPieces(cutAt(bytes, places))).toEqual(first);
      }),
    );
  });
});

describe("reading a stream", () => {
  it("joins the text of all blocks, and the halves of a character", () => {
    const half = (one: string) => `data: ${JSON.stringify(text(1, "?")).replace("?", one)}\n\n`;
    const bytes =
      stream(start, block(0, { type: "text", text: "a" }), text(0, "é "), close(0), ping) +
      stream(block(1, { type: "text", text: "" })) +
      half("\\ud83d") +
      half("\\ude00") +
      stream(close(1), ...finish("end_turn"));
    const whole = readPieces([bytes]);
    expect(whole).toMatchObject({ text: "aé 😀", calls: [], stop: "stop" });
    expect(readPieces(inPieces(bytes, 1))).toEqual(whole);
  });

  it("puts calls together by the index of their block", () => {
    const outcome = read(
      start,
      block(0, { type: "text", text: "" }),
      text(0, "both"),
      close(0),
      block(1, toolUse("toolu_1", "add")),
      ping,
      input(1, ""),
      input(1, '{"a":'),
      input(1, "1}"),
      close(1),
      block(2, toolUse("toolu_2", "info")),
      close(2),
      ...finish("tool_use"),
    );
    expect(outcome.calls).toEqual([
      { id: "toolu_1", name: "add", arguments: '{"a":1}', index: 1 },
      { id: "toolu_2", name: "info", arguments: "", index: 2 },
    ]);
    expect(outcome).toMatchObject({ text: "both", stop: "stop" });
  });

  it("takes calls that overlap, calls that all have the same index, and calls without one", () => {
    const a = { id: "a", name: "add", arguments: '{"a":1}' };
    const b = { id: "b", name: "mul", arguments: '{"b":2}' };
    for (const [first, second] of [
      [0, 1],
      [1, 0],
    ]) {
      const crossed = read(
        block(first, toolUse("a", "add")),
        block(second, toolUse("b", "mul")),
        input(second, '{"b":'),
        input(first, '{"a":'),
        input(second, "2}"),
        input(first, "1}"),
        ...finish("tool_use"),
      );
      expect(crossed.calls).toMatchObject([a, b]);
    }
    for (const index of [0, undefined]) {
      const same: object[] = [block(index, toolUse("a", "add")), input(index, '{"a":1}')];
      same.push(block(index, toolUse("b", "mul")), input(index, '{"b":2}'));
      expect(read(...same, ...finish("tool_use")).calls).toMatchObject([a, b]);
    }
  });

  it("takes arguments that a gateway gives at the start of a call", () => {
    const { calls } = read(block(0, toolUse("a", "add", { a: 1, s: "é" })), close(0), ...finish("tool_use"));
    expect(calls).toMatchObject([{ arguments: '{"a":1,"s":"é"}' }]);
    for (const none of [{}, null, undefined, ""]) {
      const later = read(block(0, toolUse("a", "add", none)), input(0, '{"a":1}'), ...finish("tool_use"));
      expect(later.calls).toMatchObject([{ arguments: '{"a":1}' }]);
    }
  });

  it("shows thinking apart, and nothing of its signature", () => {
    const outcome = read(
      start,
      block(0, { type: "thinking", thinking: "", signature: "" }),
      delta(0, "thinking_delta", { thinking: "hm " }),
      delta(0, "thinking_delta", { thinking: "é" }),
      delta(0, "signature_delta", { signature: "EqQBCgIYAhIM" }),
      close(0),
      block(1, { type: "redacted_thinking", data: "EmwKAhgB" }),
      close(1),
      block(2, { type: "text", text: "" }),
      text(2, "yes"),
      close(2),
      ...finish("end_turn"),
    );
    expect(outcome).toMatchObject({ text: "yes", reasoning: "hm é", calls: [], stop: "stop" });
    expect(JSON.parse(`[${outcome.echo}]`)).toEqual([
      { type: "thinking", thinking: "hm é", signature: "EqQBCgIYAhIM" },
      { type: "redacted_thinking", data: "EmwKAhgB" },
    ]);
  });

  it("carries thinking back whole or not at all, and only for the calls it led to", () => {
    const thought = (size: number) => [
      block(0, { type: "thinking", thinking: "", signature: "" }),
      delta(0, "thinking_delta", { thinking: "x".repeat(size) }),
      delta(0, "signature_delta", { signature: "sig" }),
      close(0),
    ];
    const frame = '{"type":"thinking","thinking":"","signature":"sig"}'.length;
    expect(read(...thought(400 - frame), ...finish("end_turn")).echo).toHaveLength(400);
    expect(read(...thought(401 - frame), ...finish("end_turn")).echo).toBe("");
    // What follows a part that was left out is left out, too.
    expect(read(...thought(500), ...thought(1), ...finish("end_turn")).echo).toBe("");

    const provider = createAnthropic();
    const calls = [{ id: "a", name: "add", arguments: "{}" }];
    const echo = '{"type":"thinking","thinking":"{\\"type\\":\\"text\\",\\"","signature":"sig"}';
    for (const said of ["", "so"]) {
      const blocks = [...(said ? [{ type: "text", text: said }] : []), toolUse("a", "add")];
      const whole = provider.compose(ECHO_CALLS, said, calls, false, echo);
      expect(JSON.parse(whole)).toEqual({ role: "assistant", content: [JSON.parse(echo), ...blocks] });
      expect(JSON.parse(provider.compose(SHORT_CALLS, whole))).toEqual({ role: "assistant", content: blocks });
      // A block that was never closed.
      const open = provider.compose(ECHO_CALLS, said, calls, false, '{"type":"thinking","thinking":"x');
      expect(JSON.parse(open)).toEqual({ role: "assistant", content: blocks });
    }
  });

  it("carries the thinking of a whole reply", () => {
    const content = [{ type: "thinking", thinking: "é", signature: "sig" }, toolUse("a", "add")];
    const reply = readWhole({ type: "message", role: "assistant", content, stop_reason: "tool_use" });
    expect(JSON.parse(fromBytes(reply.echo))).toEqual(content[0]);
    expect(reply.calls).toMatchObject([{ id: "a", name: "add" }]);
  });

  it("leaves the calls of the server's own tools to the server", () => {
    const outcome = read(
      block(0, { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: {} }),
      input(0, '{"query":"x"}'),
      close(0),
      block(1, { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] }),
      block(2, toolUse("a", "add")),
      input(2, "{}"),
      ...finish("tool_use"),
    );
    expect(outcome.calls).toEqual([{ id: "a", name: "add", arguments: "{}", index: 2 }]);
  });

  it("says why the reply ended", () => {
    const stops = { end_turn: "stop", stop_sequence: "stop", tool_use: "stop", pause_turn: "stop", refusal: "stop" };
    const cuts = { max_tokens: "length", model_context_window_exceeded: "length" };
    for (const [reason, stop] of Object.entries({ ...stops, ...cuts, something_new: "stop" }))
      expect.soft(read(...finish(reason)).stop, reason).toBe(stop);
    expect(read(start, text(0, "a"), ...finish(null)).stop).toBe("done");
    // Without an end the reply was cut off.
    expect(read(start, text(0, "a"), { type: "message_delta", delta: {} }).stop).toBe("");
    expect(read(start, text(0, "a"), finish("max_tokens")[0]).stop).toBe("length");
  });

  it("gives an error the status it would have had", () => {
    const statuses = {
      invalid_request_error: 400,
      authentication_error: 401,
      billing_error: 402,
      permission_error: 403,
      not_found_error: 404,
      request_too_large: 413,
      rate_limit_error: 429,
      api_error: 500,
      timeout_error: 504,
      overloaded_error: 529,
      something_new: 0,
      constructor: 0,
    };
    for (const [type, status] of Object.entries(statuses)) {
      const outcome = read(start, { type: "error", error: { type, message: "Überlastet" } });
      expect.soft(outcome.failure, type).toEqual({ status, message: toBytes("Überlastet") });
      expect.soft(outcome.stop).toBe("");
    }
    for (const error of ["busy", { code: "busy" }, ["busy"]])
      expect(read({ type: "error", error }).failure).toMatchObject({
        status: 0,
        message: expect.stringContaining("busy"),
      });
  });

  it("reads past what has the wrong shape", () => {
    const odd: any[] = [
      { type: "content_block_start" },
      block(0, null),
      block("x", 5),
      block(0, []),
      block(0, { type: "text", text: 5 }),
      block(0, { type: "thinking", thinking: {} }),
      block(null, { type: "tool_use" }),
      delta(0, "text_delta", {}),
      delta(0, "text_delta", { text: null }),
      delta(0, "citations_delta", { citation: { cited_text: "c" } }),
      input(7, '{"a":1}'),
      { type: "content_block_delta", index: 0, delta: "x" },
      { type: "message_delta" },
      { type: "message_delta", delta: { stop_reason: 5 } },
      { type: "message_delta", delta: { stop_reason: {} } },
      { type: "something_new", data: {} },
      {},
    ];
    expect(read(...odd, start, text(0, "a"), ...odd, ...finish("end_turn"))).toMatchObject({
      text: "a",
      calls: [],
      stop: "stop",
      failure: undefined,
    });
    const noise = ["keep-alive", "[]", "5", "[DONE]", '"x"'].map((one) => `data: ${one}\n\n`).join("");
    const spaced = `data:   ${JSON.stringify(text(0, "b"))} \n\n`;
    const outcome = readPieces([noise + spaced + noise + stream(...finish("end_turn"))]);
    expect(outcome).toMatchObject({ text: "b", stop: "stop" });
    expect(() => readPieces(['data: {"type":\n\n'])).toThrow();
  });
});

describe("a reply that is no stream", () => {
  const message = (content: any[], stop_reason: unknown) => ({
    type: "message",
    role: "assistant",
    content,
    stop_reason,
  });

  it("is read block by block", () => {
    const reply = readWhole(
      message(
        [
          { type: "thinking", thinking: "hm", signature: "EqQB" },
          { type: "text", text: "é" },
          toolUse("", "add", { a: 1 }),
          toolUse("", "info", {}),
          { type: "text", text: "!" },
        ],
        "tool_use",
      ),
    );
    expect(reply).toMatchObject({ text: toBytes("é!"), stop: "stop" });
    expect(reply.calls).toMatchObject([
      { name: "add", arguments: '{"a":1}' },
      { name: "info", arguments: "" },
    ]);
  });

  it("has ended, whatever it says", () => {
    expect(readWhole(message([{ type: "text", text: "a" }], null)).stop).toBe("stop");
    expect(readWhole(message([{ type: "text", text: "a" }], "max_tokens")).stop).toBe("length");
    expect(readWhole(message([], "end_turn"))).toMatchObject({ text: "", stop: "stop" });
    expect(readWhole({ type: "error", error: { type: "not_found_error", message: "model: m" } }).failure).toEqual({
      status: 404,
      message: "model: m",
    });
  });
});

/** What a server reads: bytes that are no UTF-8 were replaced. */
const cleanText = (value: string): string =>
  JSON.parse(Buffer.from(firmware.wireText(value), "latin1").toString("utf8"));

/** Texts that are hard to write as JSON, or look like what stands around them. */
const bytes = fc.oneof(
  fc.string({ unit: "binary", maxLength: 60 }).map(toBytes),
  fc.constantFrom('{"type":"tool_result"', ',"content":"', '"}]},{', "]}", "\\", '"', "\xff\xfe", "\u0001\n"),
  fc.constantFrom("", " \n"),
  fc.tuple(fc.constantFrom("x", '"', "\xe6\xb8\xa9"), fc.nat(900)).map(([unit, n]) => unit.repeat(n)),
);

describe("messages", () => {
  const call = fc.record({
    id: fc.constantFrom("", "toolu_01-a", "call:1", "é/x"),
    value: bytes,
    result: bytes,
    isError: fc.boolean(),
  });
  const exchange = fc.record({
    prompt: bytes.filter((prompt) => prompt.trim() !== ""),
    turns: fc.array(
      fc.record({ text: bytes, calls: fc.array(call, { minLength: 1, maxLength: 8 }) }),
      { maxLength: 6 },
    ),
    answer: bytes,
    /** The run fails after so many results of its last turn. */
    fails: fc.option(fc.nat(8)),
    /** Whether its prompt stays then. */
    stays: fc.boolean(),
  });

  it("are what the server takes, whatever is dropped, shortened and rolled back", () => {
    let shortened = 0;
    fc.assert(
      fc.property(
        fc.array(exchange, { minLength: 1, maxLength: 6 }),
        fc.integer({ min: 1024, max: 8192 }),
        fc.integer({ min: 2, max: 64 }),
        (exchanges, size, trim) => {
          const history = createHistory(size);
          const provider = createAnthropic();
          const wanted: Record<string, any> = {};
          let lastId = 0;
          const editor = editHistory(history, trim, provider);
          const add = (kind: number, ...rest: [string, any[]?, boolean?]) =>
            editor.append(provider.compose(kind, ...rest), kind);
          const check = () => {
            const json = readHistory(history, 0, history.used);
            expect(isUtf8(json)).toBe(true);
            const messages = JSON.parse(`[${Buffer.from(json.slice(1), "latin1").toString("utf8")}]`);
            if (messages.length) checkMessages(messages);
            for (const one of messages.flatMap((message: any) => message.content)) {
              if (one.type !== "tool_result") continue;
              if (one.content === "(shortened to save memory)") shortened++;
              else expect(one).toEqual(wanted[one.tool_use_id]);
            }
          };
          for (const { prompt, turns, answer, fails, stays } of exchanges) {
            if (!add(USER, prompt)) continue;
            let failed = fails !== null;
            check();
            run: for (const [i, turn] of turns.entries()) {
              const calls = turn.calls.map(({ id, value }, k) => ({
                id: `${id}_${++lastId}`,
                name: "add",
                first: k === 0,
                last: k === turn.calls.length - 1,
                arguments: firmware.toJson({ v: value.slice(0, size >> 6) }),
              }));
              if (!add(CALLS, turn.text.slice(0, size >> 5), calls)) {
                failed = true;
                break;
              }
              for (const [k, { result, isError }] of turn.calls.entries()) {
                const last = i === turns.length - 1 && k === fails;
                const given = result.slice(0, size >> 4);
                const id = calls[k]!.id.replace(/[^a-zA-Z0-9_-]/g, "_");
                wanted[id] = { type: "tool_result", tool_use_id: id, content: cleanText(given) };
                if (isError) wanted[id].is_error = true;
                if (last || !add(RESULT, given, [calls[k]], isError)) {
                  failed = true;
                  break run;
                }
              }
              check();
            }
            if (!failed) failed = answer.trim() !== "" && !add(ANSWER, answer.slice(0, size >> 2));
            if (failed) editor.rollback(stays);
            check();
          }
        },
      ),
      { numRuns: 300 },
    );
    expect(shortened).toBeGreaterThan(0);
  });

  it("have the results of a turn in one message, in order, and nothing else in it", () => {
    const provider = createAnthropic();
    const calls = ["a", "b.c", "d"].map((id) => ({ id, name: "add", arguments: '{"n":1}', first: id === "a", last: id === "d" }));
    const parts = [
      provider.compose(USER, "go"),
      provider.compose(CALLS, " \n", calls),
      provider.compose(RESULT, "one", [calls[0]!]),
      provider.compose(RESULT, "two", [calls[1]!], true),
      provider.compose(RESULT, "three", [calls[2]!]),
      provider.compose(ANSWER, "done"),
    ];
    const results = [
      { type: "tool_result", tool_use_id: "a", content: "one" },
      { type: "tool_result", tool_use_id: "b_c", is_error: true, content: "two" },
      { type: "tool_result", tool_use_id: "d", content: "three" },
    ];
    const messages = [
      { role: "user", content: "go" },
      { role: "assistant", content: ["a", "b_c", "d"].map((id) => toolUse(id, "add", { n: 1 })) },
      { role: "user", content: results },
      { role: "assistant", content: "done" },
    ];
    expect(JSON.parse(`[${parts}]`)).toEqual(messages);
    for (const at of [2, 3, 4]) {
      parts[at] = provider.compose(SHORT_RESULT, parts[at]!);
      results[at - 2]!.content = "(shortened to save memory)";
      expect(JSON.parse(`[${parts}]`)).toEqual(messages);
    }
  });
});

describe("a request", () => {
  const options = {
    apiKey: "sk-ant",
    model: "claude",
    systemPrompt: "be kind",
    maxTokens: 0,
    tokensField: "max_tokens",
    temperature: -1,
    topP: -1,
  };

  it("has the headers and fields of this API", () => {
    const provider = createAnthropic();
    const parameters = '{"type":"object","properties":{}}';
    const tool = { name: "add", description: '"Adds"', parameters, execute: () => "" };
    const frame = provider.frame({ ...options, withTools: true });
    expect(frame).toMatchObject({
      path: "/messages",
      headers: { "x-api-key": "sk-ant", "anthropic-version": "2023-06-01" },
    });
    const both = [...provider.tool(tool, true), ...provider.tool(tool, false)].join("");
    expect(JSON.parse(frame.head + frame.between + both + frame.tail)).toEqual({
      model: "claude",
      stream: true,
      max_tokens: 4096,
      system: "be kind",
      messages: [],
      tools: [0, 1].map(() => ({ name: "add", description: "Adds", input_schema: JSON.parse(parameters) })),
    });
    const bare = provider.frame({ ...options, apiKey: "", systemPrompt: "", maxTokens: 7, withTools: false });
    expect(bare.headers).toEqual({ "anthropic-version": "2023-06-01" });
    expect(JSON.parse(bare.head + bare.between + bare.tail)).toEqual({
      model: "claude",
      stream: true,
      max_tokens: 7,
      messages: [],
    });
  });

  it("carries a whole conversation through the loop", async () => {
    const board = bootFirmware();
    const settings = { provider: "anthropic", baseUrl: "http://model/v1/", model: "claude", apiKey: "sk-ant", messageTrim: 6 };
    expect(board.openSettings().apply(settings, true)).toEqual([]);
    const tools = { count: 0 };
    for (const name of ["look", "fail"]) {
      board.editRegistry(tools).append({
        name,
        description: `${name} at it`,
        repeatable: true,
        execute: () => ({ isError: name === "fail", content: toBytes(`${name}: é`) }),
      });
    }
    const events: AgentEvent[] = [];
    const session: Session = {
      tools,
      history: board.createHistory(2048),
      lastCallId: 0,
      emit: (event) => events.push(event),
    };
    const calls = (...names: string[]) =>
      stream(
        start,
        ...names.flatMap((name, i) => {
          const id = `toolu_${board.requests.length}_${i}`;
          return [block(i, toolUse(id, name)), input(i, ""), close(i)];
        }),
        ...finish("tool_use"),
      );
    const answer = stream(start, text(0, "fine"), ...finish("end_turn"));
    const overloaded = stream(start, { type: "error", error: { type: "overloaded_error", message: "Overloaded" } });
    const script = ["turn", "overloaded", "many", "answer"];

    const bodies: any[] = [];
    const serve = (request: SeenRequest, what: string) => {
      expect(request.options.path).toBe("/v1/messages");
      request.receive();
      expect(request.options.headers["Content-Length"]).toBe(String(request.body.length));
      const body = JSON.parse(fromBytes(request.body));
      checkRequest(body);
      bodies.push(body);
      request.head(200, { "Content-Type": "text/event-stream" });
      if (what === "turn") request.data(calls("look", "fail"));
      else if (what === "many") request.data(calls("look", "look", "fail", "nothing"));
      else request.data(what === "answer" ? answer : overloaded);
      request.end();
    };
    for (let prompt = 0; prompt < 5; prompt++) {
      let served = board.requests.length;
      const first = served;
      let result: any;
      board.run(session, `prompt ${prompt}`, undefined, (one) => (result = one));
      for (let steps = 0; !result && steps < 500; steps++) {
        if (board.requests.length > served) serve(board.requests[served++]!, script[served - first - 1]!);
        else if (board.clock.pending()) board.clock.advance(board.clock.nextDue()! - board.clock.now());
        // A tool's promise settles between the timers.
        await Promise.resolve();
        await Promise.resolve();
        await Promise.resolve();
      }
      expect(result).toMatchObject({ text: "fine", stopReason: "done" });
    }
    expect(bodies).toHaveLength(20);
    expect(bodies[3].messages.at(-1).content).toMatchObject([
      { content: "look: é" },
      { content: "look: é" },
      { content: "fail: é", is_error: true },
      { is_error: true },
    ]);
    expect(events.filter((event) => event.type === "retry")).toHaveLength(5);
  });
});
