import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { measureStreams, streamTable } from "../../gateway/measure";
import { createSlimmer, LINE_BYTES, readSlimHeader, slimReply, type Dialect } from "../../gateway/slim/slim";
import { createEventReader } from "../../gateway/sse";
import { fromBytes, toBytes } from "../drivers/bytes";
import { providerCases, casePieces, recordedStreams } from "../fixtures/shared";
import { cutAt } from "../firmware/pieces";
import { MOST_LINE_BYTES, readAsBoard, type BoardReply } from "./board-reader";

const noSecrets = (text: string): string => text;

/** A stream slimmed, as bytes; `flushes` say after which of its pieces what waits is sent. */
function slim(dialect: Dialect, pieces: string[], flushes: boolean[] = [], lineBytes = LINE_BYTES): string {
  const slimmer = createSlimmer(dialect, { lineBytes, withUsage: false, words: noSecrets });
  const events = createEventReader(1e6);
  let out = "";
  pieces.forEach((piece, i) => {
    for (const data of events.feed(Buffer.from(piece, "latin1"))) out += slimmer.take(data);
    if (flushes[i % flushes.length]) out += slimmer.flush();
  });
  for (const data of events.end()) out += slimmer.take(data);
  return toBytes(out + slimmer.end());
}

const dataLine = (value: unknown): string => `data: ${typeof value === "string" ? value : JSON.stringify(value)}\n\n`;
const chunk = (delta: object, finish: string | null = null): object => ({
  id: "chatcmpl-1",
  object: "chat.completion.chunk",
  created: 1,
  model: "m",
  system_fingerprint: "fp",
  choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
});
const openai = (...values: unknown[]): string => toBytes(values.map(dataLine).join(""));
const anthropic = (...values: any[]): string =>
  toBytes(values.map((value) => `event: ${value.type}\n${dataLine(value)}`).join(""));

/** The data of each event. */
const dataOf = (stream: string): string[] => createEventReader(1e6).feed(Buffer.from(stream, "latin1"));

describe("OpenAI streams", () => {
  it("keep what the board reads, in as few bytes as that takes", () => {
    const stream = openai(
      chunk({ role: "assistant", content: "", refusal: null }),
      chunk({ content: "Grü" }),
      chunk({ content: "ße" }),
      chunk({}, "stop"),
      { ...chunk({}), choices: [], usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 } },
      "[DONE]",
    );
    expect(fromBytes(slim("openai", [stream]))).toBe(
      'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n' +
        'data: {"choices":[{"index":0,"delta":{"content":"Grüße"}}]}\n\n' +
        'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n' +
        "data: [DONE]\n\n",
    );
  });

  it("have raw UTF-8 in place of escapes, also where a pair comes in two deltas", () => {
    const text =
      'data: {"choices":[{"delta":{"content":"\\u00fc \\ud83d"}}]}\n\ndata: {"choices":[{"delta":{"content":"\\ude00"}}]}\n\n';
    for (const flushes of [[false], [true]]) {
      const out = fromBytes(slim("openai", cutAt(text, [text.indexOf("\n\n") + 2]), flushes));
      expect(out).toContain("ü ");
      expect(out).toContain("😀");
      expect(out).not.toContain("\\u");
    }
  });

  it("keep half of a pair as an escape where the other half never comes", () => {
    const out = slim("openai", [openai(chunk({ content: "a\ud83d" }), chunk({}, "stop"))], [true]);
    expect(readAsBoard("openai", [out]).text).toBe("a\ufffd");
  });

  it("keep reasoning in its field, the ids of calls, and what must go back with a call", () => {
    const extra_content = { google: { thought_signature: "c2ln" } };
    const stream = openai(
      chunk({ reasoning_content: "hm" }),
      chunk({ reasoning_content: "m" }),
      chunk({ reasoning: "other" }),
      chunk({
        tool_calls: [{ index: 0, id: "a", type: "function", function: { name: "f", arguments: "" }, extra_content }],
      }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: '{"a"' } }] }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: ":1}" } }] }),
      chunk({ tool_calls: [{ index: 1, id: "b", function: { name: "g", arguments: { deep: [1] } } }] }),
      chunk({}, "tool_calls"),
    );
    const deltas = dataOf(slim("openai", [stream])).map((data) => JSON.parse(data).choices[0].delta);
    expect(deltas).toEqual([
      { role: "assistant" },
      { reasoning_content: "hmm" },
      { reasoning: "other" },
      { tool_calls: [{ index: 0, id: "a", type: "function", extra_content, function: { name: "f", arguments: "" } }] },
      { tool_calls: [{ index: 0, function: { arguments: '{"a":1}' } }] },
      { tool_calls: [{ index: 1, id: "b", function: { name: "g", arguments: '{"deep":[1]}' } }] },
      {},
    ]);
  });

  it("have the usage only for a client that asked for it", () => {
    const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3, cost: { usd: 1 } };
    const slimmer = createSlimmer("openai", { lineBytes: LINE_BYTES, withUsage: true, words: noSecrets });
    const out = slimmer.take(JSON.stringify({ ...chunk({ content: "a" }), usage })) + slimmer.take("[DONE]");
    expect(dataOf(toBytes(out)).at(-2)).toBe(
      '{"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}',
    );
  });

  it("hand on what is broken as it came, for the board to judge", () => {
    const out = dataOf(slim("openai", [openai(chunk({ content: "a" }), "{'single':1,}", "keep-alive", "{broken")]));
    expect(out.slice(-2)).toEqual(["{'single':1,}", "{broken"]);
  });

  it("keep an error's message and status, without secrets and cut to what a board shows", () => {
    const words = (text: string): string => text.replaceAll("SECRET", "***");
    const slimmer = createSlimmer("openai", { lineBytes: LINE_BYTES, withUsage: false, words });
    const error = { message: `bad key SECRET ${"x".repeat(5000)}`, code: 502, metadata: { raw: "SECRET" } };
    const [data] = dataOf(slimmer.take(JSON.stringify({ error, choices: [] })));
    expect(JSON.parse(data!).error).toEqual({ message: expect.stringMatching(/^bad key \*\*\* x+$/), code: 502 });
    expect(data!.length).toBeLessThan(700);
  });
});

describe("Anthropic streams", () => {
  const start = {
    type: "message_start",
    message: {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "m",
      content: [],
      stop_reason: null,
      container: {},
      usage: { input_tokens: 9, output_tokens: 1, service_tier: "standard" },
    },
  };
  const delta = (index: number, delta: object): object => ({ type: "content_block_delta", index, delta });

  it("keep the order and the names of events that clients rely on", () => {
    const stream = anthropic(
      start,
      { type: "content_block_start", index: 0, content_block: { type: "thinking", thinking: "", signature: "" } },
      delta(0, { type: "thinking_delta", thinking: "let " }),
      { type: "ping" },
      delta(0, { type: "thinking_delta", thinking: "me see" }),
      delta(0, { type: "signature_delta", signature: "c2ln" }),
      { type: "content_block_stop", index: 0 },
      { type: "content_block_start", index: 1, content_block: { type: "text", text: "", citations: null } },
      delta(1, { type: "text_delta", text: "Hal" }),
      delta(1, { type: "citations_delta", citation: { url: "x" } }),
      delta(1, { type: "text_delta", text: "lo" }),
      { type: "content_block_stop", index: 1 },
      { type: "content_block_start", index: 2, content_block: { type: "tool_use", id: "t", name: "f", input: {} } },
      delta(2, { type: "input_json_delta", partial_json: "" }),
      delta(2, { type: "input_json_delta", partial_json: '{"a":' }),
      delta(2, { type: "input_json_delta", partial_json: "1}" }),
      { type: "content_block_stop", index: 2 },
      {
        type: "message_delta",
        delta: { stop_reason: "tool_use", stop_sequence: null },
        usage: { output_tokens: 5, x: {} },
      },
      { type: "message_stop", "amazon-bedrock-invocationMetrics": {} },
    );
    const out = slim("anthropic", [stream]);
    expect(out.match(/^event: .*$/gm)).toEqual(dataOf(out).map((data) => `event: ${JSON.parse(data).type}`));
    expect(dataOf(out).map((data) => JSON.parse(data))).toEqual([
      {
        type: "message_start",
        message: {
          id: "msg_1",
          type: "message",
          role: "assistant",
          model: "m",
          content: [],
          stop_reason: null,
          stop_sequence: null,
          usage: { input_tokens: 9, output_tokens: 1 },
        },
      },
      { type: "content_block_start", index: 0, content_block: { type: "thinking", thinking: "", signature: "" } },
      delta(0, { type: "thinking_delta", thinking: "let me see" }),
      delta(0, { type: "signature_delta", signature: "c2ln" }),
      { type: "content_block_stop", index: 0 },
      { type: "content_block_start", index: 1, content_block: { type: "text", text: "" } },
      delta(1, { type: "text_delta", text: "Hallo" }),
      { type: "content_block_stop", index: 1 },
      { type: "content_block_start", index: 2, content_block: { type: "tool_use", id: "t", name: "f", input: {} } },
      delta(2, { type: "input_json_delta", partial_json: '{"a":1}' }),
      { type: "content_block_stop", index: 2 },
      { type: "message_delta", delta: { stop_reason: "tool_use", stop_sequence: null }, usage: { output_tokens: 5 } },
      { type: "message_stop" },
    ]);
  });

  it("leave out what a server's own tool found", () => {
    const found = {
      type: "web_search_tool_result",
      tool_use_id: "s",
      content: [{ encrypted_content: "x".repeat(9000) }],
    };
    const out = slim("anthropic", [anthropic(start, { type: "content_block_start", index: 0, content_block: found })]);
    expect(JSON.parse(dataOf(out)[1]!).content_block).toEqual({ type: "web_search_tool_result", tool_use_id: "s" });
  });

  it("keep an error", () => {
    const error = { type: "overloaded_error", message: "Overloaded", details: null };
    const out = slim("anthropic", [anthropic({ type: "error", error, request_id: "r" })]);
    expect(out).toBe(
      'event: error\ndata: {"type":"error","error":{"message":"Overloaded","type":"overloaded_error"}}\n\n',
    );
  });
});

it("no line is longer than asked for, however long a delta is, and nothing of it is lost", () => {
  const long = 'é"\\\n😀'.repeat(2000);
  for (const lineBytes of [256, LINE_BYTES]) {
    const call = { index: 0, id: "call_1", type: "function", function: { name: "weather", arguments: long } };
    const stream = openai(chunk({ reasoning: long }), chunk({ content: long }), chunk({ tool_calls: [call] }));
    const out = slim("openai", [stream], [false], lineBytes);
    for (const line of out.split("\n")) expect(line.length).toBeLessThanOrEqual(lineBytes);
    const deltas = dataOf(out).map((data) => JSON.parse(data).choices[0].delta);
    expect(deltas.map((delta) => delta.content ?? "").join("")).toBe(long);
    expect(deltas.map((delta) => delta.reasoning ?? "").join("")).toBe(long);
    expect(deltas.map((delta) => delta.tool_calls?.[0].function.arguments ?? "").join("")).toBe(long);
    expect(deltas.filter((delta) => delta.tool_calls?.[0].id)).toHaveLength(1);

    const block = anthropic({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: long } });
    for (const line of slim("anthropic", [block], [false], lineBytes).split("\n"))
      expect(line.length).toBeLessThanOrEqual(lineBytes);
  }
});

it("the header asks for a slim stream, or for one with shorter lines", () => {
  expect(readSlimHeader("1")).toBe(LINE_BYTES);
  expect(readSlimHeader("3072")).toBe(LINE_BYTES);
  expect(readSlimHeader("512")).toBe(512);
  for (const value of [undefined, "", "0", "no", "-1", "1e3", ["1"]]) expect(readSlimHeader(value)).toBeUndefined();
});

it("a reply that is no stream keeps what is read", () => {
  const message = {
    role: "assistant",
    content: [
      { type: "text", text: "a" },
      { type: "text", text: "b" },
    ],
    annotations: [],
    tool_calls: [{ id: "1" }],
  };
  expect(
    slimReply(
      "openai",
      {
        id: "1",
        object: "chat.completion",
        created: 1,
        model: "m",
        service_tier: "x",
        choices: [{ index: 0, message, finish_reason: "stop", logprobs: null }],
        usage: { total_tokens: 3, details: {} },
      },
      noSecrets,
    ),
  ).toEqual({
    id: "1",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [
      { index: 0, message: { role: "assistant", content: "ab", tool_calls: [{ id: "1" }] }, finish_reason: "stop" },
    ],
    usage: { total_tokens: 3 },
  });
  expect(
    slimReply(
      "anthropic",
      {
        id: "1",
        type: "message",
        role: "assistant",
        model: "m",
        content: [
          { type: "text", text: "a", citations: [] },
          { type: "tool_use", id: "t", name: "f", input: { a: 1 } },
        ],
        stop_reason: "tool_use",
        usage: { input_tokens: 1, output_tokens: 2 },
        container: null,
      },
      noSecrets,
    ),
  ).toEqual({
    id: "1",
    type: "message",
    role: "assistant",
    model: "m",
    content: [
      { type: "text", text: "a" },
      { type: "tool_use", id: "t", name: "f", input: { a: 1 } },
    ],
    stop_reason: "tool_use",
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 2 },
  });
  expect(slimReply("openai", { object: "list" }, noSecrets)).toEqual({ object: "list" });
});

/** What the board makes of a stream is what it makes of the slim one, however either is cut. */
function checkSame(dialect: Dialect, stream: string, places: number[], flushes: boolean[]): BoardReply {
  const whole = readAsBoard(dialect, [stream], MOST_LINE_BYTES);
  const small = slim(dialect, cutAt(stream, places), flushes);
  expect(readAsBoard(dialect, cutAt(small, places))).toEqual(whole);
  expect(small.length).toBeLessThanOrEqual(stream.length + 400);
  return whole;
}

const cuts = fc.array(fc.nat(100_000), { maxLength: 30 });
const flushing = fc.array(fc.boolean(), { minLength: 1, maxLength: 8 });

describe("the board reads the same", () => {
  const piece = fc.oneof(
    fc.string({ unit: "grapheme", maxLength: 12 }),
    fc.constantFrom(
      "",
      " ",
      "<think>",
      "</think>",
      "<tool_call>",
      "```json",
      "\ud83d",
      "\ude00",
      "\u2028",
      "{",
      "}",
      "\\",
    ),
  );
  const index = fc.option(fc.nat(2), { nil: undefined });
  const id = fc.option(fc.constantFrom("call_a", "call_b", "", null), { nil: undefined });
  const args = fc.option(
    fc.oneof(
      piece,
      fc.constantFrom('{"a":1}', "{}", '{"city":"', 'Zürich"}'),
      fc.constant({ a: [1, "é"] }),
      fc.constant(null),
    ),
    { nil: undefined },
  );
  const call = fc.record(
    {
      index,
      id,
      type: fc.constantFrom("function", undefined),
      function: fc.record({ name: fc.constantFrom("weather", "f", "", null, undefined), arguments: args }),
      extra_content: fc.constantFrom(undefined, undefined, { google: { thought_signature: "c2ln" } }),
    },
    { requiredKeys: ["function"] },
  );
  const delta = fc.oneof(
    { weight: 4, arbitrary: fc.record({ content: piece }) },
    fc.record({ reasoning_content: piece }),
    fc.record({ reasoning: piece, reasoning_details: fc.constant([{}]) }),
    fc.record({ content: fc.constant([{ type: "text", text: "a" }, { type: "text", text: "ü" }, null, {}]) }),
    fc.record({ reasoning_content: piece, content: piece, tool_calls: fc.array(call, { maxLength: 2 }) }),
    { weight: 3, arbitrary: fc.record({ tool_calls: fc.array(fc.option(call), { minLength: 1, maxLength: 3 }) }) },
  );
  const event = fc.oneof(
    { weight: 12, arbitrary: delta.map((one) => JSON.stringify(chunk(one))) },
    // Escaped as Python's json does it.
    {
      weight: 6,
      arbitrary: delta.map((one) =>
        JSON.stringify(chunk(one)).replace(
          /[\x80-\uffff]/g,
          (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`,
        ),
      ),
    },
    fc.constantFrom(
      "keep-alive",
      "{broken",
      "{'a':1}",
      "[DONE]",
      '{"choices":[]}',
      '{"choices":[null]}',
      '{"choices":[],"usage":{"total_tokens":1}}',
      JSON.stringify(chunk({}, "stop")),
      JSON.stringify(chunk({}, "length")),
      JSON.stringify(chunk({ content: "end" }, "tool_calls")),
      '{"choices":[{"index":1,"message":{"content":"whole","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]}}]}',
      '{"error":{"message":"went wrong","code":502}}',
      '{"error":"text"}',
    ),
  );

  it("of any OpenAI stream", () => {
    fc.assert(
      fc.property(
        fc.array(event, { maxLength: 25 }),
        fc.boolean(),
        fc.constantFrom("\n", "\r\n", "\r"),
        cuts,
        flushing,
        (events, isDone, end, places, flushes) => {
          // Of a reply that is cut, the board looks at no calls.
          const all = isDone ? [...events, "[DONE]"] : events;
          const stream = all.map((data) => `: comment${end}data: ${toBytes(data)}${end}${end}`).join("");
          checkSame("openai", stream, places, flushes);
        },
      ),
      { numRuns: 400 },
    );
  });

  const blockIndex = fc.nat(2);
  const block = fc.oneof(
    fc.record({ type: fc.constant("text"), text: piece }),
    fc.record({ type: fc.constant("thinking"), thinking: piece, signature: fc.constantFrom("", "c2ln") }),
    fc.record({ type: fc.constant("redacted_thinking"), data: fc.constantFrom("eA==", "eHg=") }),
    fc.record({
      type: fc.constant("tool_use"),
      id: fc.constantFrom("t1", "t2"),
      name: fc.constantFrom("weather", "f"),
      input: fc.constantFrom({}, { a: "é" }),
    }),
    fc.record({
      type: fc.constant("server_tool_use"),
      id: fc.constant("s"),
      name: fc.constant("search"),
      input: fc.constant({}),
    }),
  );
  const blockDelta = fc.oneof(
    fc.record({ type: fc.constant("text_delta"), text: piece }),
    fc.record({ type: fc.constant("thinking_delta"), thinking: piece }),
    fc.record({ type: fc.constant("input_json_delta"), partial_json: fc.constantFrom("", '{"a"', ':"é"}', "{}") }),
    fc.record({ type: fc.constant("signature_delta"), signature: fc.constantFrom("c2ln", "bmF0") }),
    fc.record({ type: fc.constant("citations_delta"), citation: fc.constant({ cited_text: "x" }) }),
  );
  const anthropicEvent = fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({ type: fc.constant("content_block_start"), index: blockIndex, content_block: block }),
    },
    {
      weight: 8,
      arbitrary: fc.record({ type: fc.constant("content_block_delta"), index: blockIndex, delta: blockDelta }),
    },
    fc.record({ type: fc.constant("content_block_stop"), index: blockIndex }),
    fc.constantFrom<object>(
      { type: "ping" },
      { type: "message_start", message: { id: "m", content: [], usage: { input_tokens: 1 } } },
      { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 2 } },
      { type: "message_delta", delta: { stop_reason: "max_tokens" } },
      { type: "message_stop" },
      { type: "error", error: { type: "overloaded_error", message: "busy" } },
      {
        content: [
          { type: "text", text: "whole" },
          { type: "tool_use", id: "t", name: "f", input: {} },
        ],
      },
      { type: "unheard_of", delta: { text: "odd" } },
    ),
  );

  it("of any Anthropic stream", () => {
    fc.assert(
      fc.property(
        fc.array(anthropicEvent, { maxLength: 25 }),
        fc.boolean(),
        cuts,
        flushing,
        (events, isDone, places, flushes) => {
          const all = isDone ? [...events, { type: "message_stop" }] : events;
          checkSame("anthropic", anthropic(...all), places, flushes);
        },
      ),
      { numRuns: 400 },
    );
  });

  const streams = Object.entries(recordedStreams());
  it.skipIf(streams.length === 0).each(streams)("of the recorded %s", (_file, want) => {
    const dialect = want.dialect as Dialect;
    const lines = want.payloads.map((data) =>
      dialect === "openai" ? dataLine(data) : `event: ${JSON.parse(data).type}\n${dataLine(data)}`,
    );
    const stream = toBytes([...lines, ...(dialect === "openai" ? [dataLine("[DONE]")] : [])].join(""));
    fc.assert(
      fc.property(cuts, flushing, (places, flushes) => {
        const reply = checkSame(dialect, stream, places, flushes);
        expect(reply.text).toBe(want.text);
        expect(reply.calls.map(({ name }) => name)).toEqual(want.toolCalls.map(({ name }) => name));
      }),
      { numRuns: 8 },
    );
    expect(slim(dialect, [stream]).length).toBeLessThan(stream.length);
  });

  const cases = providerCases().filter((one) => one.status === 200);
  it.skipIf(cases.length === 0).each(cases.map((one) => [one.name, one] as const))("of the case %s", (_name, one) => {
    const stream = Buffer.concat(casePieces(one)).toString("latin1");
    // Not a stream, or not UTF-8, which the gateway does not hand on as it is.
    if (/^\s*[{<]/.test(stream) || !Buffer.from(fromBytes(stream)).equals(Buffer.from(stream, "latin1"))) return;
    const dialect = one.dialect as Dialect;
    const whole = readAsBoard(dialect, [stream]);
    for (const flushes of [[false], [true]]) {
      const small = readAsBoard(dialect, [slim(dialect, cutAt(stream, [7, 99, 536]), flushes)]);
      // A line that was too long for the board is not any more.
      if (whole.warnings.length === 0) expect(small).toEqual(whole);
    }
  });
});

it.skipIf(Object.keys(recordedStreams()).length === 0)("the recorded streams take a fraction of their bytes", () => {
  const rows = measureStreams(fileURLToPath(new URL("../../../shared/streams/", import.meta.url)));
  expect(rows).toHaveLength(Object.keys(recordedStreams()).length);
  for (const { plainBytes, slowBytes, fastBytes } of rows) {
    expect(slowBytes).toBeLessThan(plainBytes);
    expect(fastBytes).toBeLessThanOrEqual(slowBytes);
  }
  expect(streamTable(rows).split("\n")).toHaveLength(rows.length + 3);
  expect(measureStreams("no/such/folder")).toEqual([]);
});
