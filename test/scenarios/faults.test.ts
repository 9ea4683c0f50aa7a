import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { AgentEvent } from "../../firmware/types";
import type { TestBoard } from "../drivers/types";
import {
  hang,
  held,
  raw,
  type RecordedRequest,
  reset,
  type ScriptedModel,
  type ScriptedPiece,
  type ScriptedReply,
  streamEvents,
  text,
  toolCall,
  type Turn,
} from "../fixtures/scripted-model";
import { driver, scenario, withBoard } from "./scenario";

type Final = Extract<AgentEvent, { type: "final" }>;

const ofType = <T extends AgentEvent["type"]>(events: AgentEvent[], type: T): Extract<AgentEvent, { type: T }>[] =>
  events.filter((event): event is Extract<AgentEvent, { type: T }> => event.type === type);

const shown = (events: AgentEvent[]): string => ofType(events, "textDelta").map((delta) => delta.text).join("");

// One run of two tools: what the model sends for the prompt, and for the results.
const toolTurn = streamEvents(
  [toolCall("gpio_write", { pin: 2, value: 1 }, { id: "call_a" }), toolCall("add", { a: 19, b: 23 }, { id: "call_b" })],
  () => "",
);
const answerTurn = streamEvents([text("The LED is on ", "and ", "the sum is 42.")], () => "");
const ANSWER = "The LED is on and the sum is 42.";
const PROMPT = "turn on the LED and add 19 and 23";
const NEXT = "what else is there?";
const stages = [toolTurn, answerTurn].map((events) => ({
  bytes: Buffer.from(events.join("")),
  /** Bytes after which the reply is whole: its last event but [DONE] says why it ended. */
  whole: Buffer.byteLength(events.slice(0, -1).join("")) - 1,
}));

/** What happens to the connection, or on the board while bytes come. */
const kinds = ["close", "reset", "cutChunk", "hang", "abort", "ctrlC", "wifi"] as const;

interface Fault {
  kind: (typeof kinds)[number];
  stage: 0 | 1;
  /** Bytes of the stage's stream that come before it; -1: before the headers. */
  at: number;
  /** It happens to every attempt, not only to the first. */
  lasting: boolean;
}

const fault: fc.Arbitrary<Fault> = fc
  .record({ kind: fc.constantFrom(...kinds), stage: fc.constantFrom(0, 1), lasting: fc.boolean() })
  .chain((one) => fc.nat(stages[one.stage]!.bytes.length + 1).map((place) => ({ ...one, at: place - 1 }) as Fault))
  .filter((one) => one.kind !== "wifi" || driver.name === "sim");

/** A server that meets every prompt with the two-tool run, one fault in it, and `NEXT` with a short answer. */
interface FaultyServer {
  turns: (request: RecordedRequest) => Turn;
  /** The fault of the run that follows, if any, and the board that it happens on. */
  next(fault?: Fault, board?: TestBoard): void;
}

function faultyServer(): FaultyServer {
  let current: Fault | undefined;
  let board: TestBoard | undefined;
  let struck = false;

  function strike(one: Fault): Turn {
    const { bytes } = stages[one.stage]!;
    const [before, after] = [bytes.subarray(0, Math.max(one.at, 0)), bytes.subarray(Math.max(one.at, 0))];
    if (one.kind === "hang") return one.at < 0 ? hang() : hang([before]);
    if (one.kind === "reset") return one.at < 0 ? reset() : reset([before]);
    if (one.kind === "cutChunk") return one.at < 0 ? reset() : raw([before], "cutChunk");
    if (one.kind === "close") return one.at < 0 ? reset() : raw([before]);
    const act = async (): Promise<void> => {
      if (one.kind === "abort") board!.type("abort()\n");
      else if (one.kind === "ctrlC") board!.type("\x03");
      else board!.type('require("Wifi").disconnect()\n');
      // An interpreter reads what was typed a little later: let it happen here, or further on.
      if (driver.name === "espruino" && one.at % 2) await board!.advance(100);
    };
    if (one.at < 0) return held(act, raw([bytes]));
    // The rest comes however the board likes it: late bytes.
    return raw([before, act, after] as ScriptedPiece[]);
  }

  return {
    turns({ json }) {
      const last = json.messages.at(-1)!;
      if (last.role === "user" && last.content!.endsWith(NEXT)) return text("fine");
      const stage = last.role === "tool" ? 1 : 0;
      if (!current || current.stage !== stage || (struck && !current.lasting)) return raw([stages[stage]!.bytes]);
      struck = true;
      return strike(current);
    },
    next(fault, on) {
      current = fault;
      board = on;
      struck = false;
    },
  };
}

/** What a run with a fault came to has to make sense for the person, and the tools have to be run whole or not at all. */
function checkRun(one: Fault, events: AgentEvent[]): void {
  const finals = ofType(events, "final");
  expect(finals).toHaveLength(1);
  expect(events.at(-1)).toBe(finals[0]);
  const final = finals[0]!;
  const answer = shown(events);
  expect(ANSWER.startsWith(answer), `"${answer}" was shown`).toBe(true);
  if (final.isError) {
    expect(final.message).toMatch(/\w{3}/);
    expect(["transportError", "aborted"]).toContain(final.stopReason);
    expect(ANSWER.startsWith(final.text)).toBe(true);
  } else {
    expect(final).toEqual({ type: "final", stopReason: "done", text: ANSWER });
    expect(answer).toBe(ANSWER);
  }
  const started = ofType(events, "toolStart");
  const whole = [
    ["gpio_write", { pin: 2, value: 1 }],
    ["add", { a: 19, b: 23 }],
  ];
  expect(started.map((call) => [call.name, JSON.parse(call.arguments)])).toEqual(whole.slice(0, started.length));
  const cut = ["close", "reset", "cutChunk", "hang"].includes(one.kind);
  const isWhole = one.at >= stages[one.stage]!.whole;
  if (cut && one.lasting && one.stage === 0 && !isWhole) expect(started).toEqual([]);
  if (cut && one.stage === 1) expect(started).toHaveLength(2);
  if (cut && one.lasting && !isWhole) expect(final).toMatchObject({ isError: true, stopReason: "transportError" });
  // What cannot be seen by the person is asked for again, except after a long silence.
  if ((one.kind === "close" || one.kind === "reset") && !one.lasting && (one.stage === 0 || one.at < 0)) {
    expect(final.isError).toBeUndefined();
  }
}

/** Reads what a chat shows: the events are the same. */
async function runOf(board: TestBoard, inChat: boolean, prompt: string): Promise<AgentEvent[]> {
  const from = board.events().length;
  if (inChat) {
    board.type(`${prompt}\r`);
    await board.expectEvent((event) => event.type === "final", { giveUpMs: 30_000 });
    return board.events().slice(from);
  }
  return board.ask(prompt, { giveUpMs: 30_000 });
}

/** The run with the fault, and whether the board is as good as new after it. */
async function strikeAt(
  one: Fault,
  { board, model, server }: { board: TestBoard; model: ScriptedModel; server: FaultyServer },
): Promise<void> {
  const inChat = one.kind === "ctrlC";
  const isStopped = inChat || one.kind === "abort";
  if (inChat) await board.enterChat();
  server.next(one, board);
  const events = await runOf(board, inChat, PROMPT);
  server.next();
  checkRun(one, events);
  if (one.kind === "wifi") {
    await board.runLine('require("Wifi").connect("espruino-sim",{},function(){})');
    await board.advance(5000);
    expect(await board.runLine('require("Wifi").getStatus().station')).toContain('"connected"');
  }
  const next = await runOf(board, inChat, NEXT);
  // Nothing of the run before, whenever it came.
  expect(next).toEqual([
    { type: "iterationStart", iteration: 1 },
    { type: "textDelta", text: "fine" },
    { type: "final", stopReason: "done", text: "fine" },
  ]);
  const final = events.at(-1) as Final;
  const roles = model.requests.at(-1)!.json.messages.map((message) => message.role).slice(1);
  if (final.isError) expect(roles).toEqual(["user"]);
  else expect(roles).toEqual(["user", "assistant", "tool", "tool", "assistant", "user"]);
  if (inChat) {
    board.type("\x04");
    await board.expectOutput(/\n>+$/);
  }
  if (seesSockets) await board.waitUntil(() => model.openAnswers() === 0);
  if (isStopped) forgetCutRequests(model);
  expect(await board.runLine("status")).toContain("idle");
  await board.runLine("clear_history");
}


/** A real server sees whether the board has closed a connection; msw does not. */
const seesSockets = driver.name === "espruino";

/** What stays on an interpreter of the built-in functions that are used for the first time when something fails. */
const FIRST_USE_VARIABLES = 60;

/** What a server sees of a request that the board has given up in the middle: that is no fault of the board's. */
function forgetCutRequests({ problems }: ScriptedModel): void {
  const isCut = /^server: (aborted|the request is malformed: (Parse Error at ""|write EPIPE|read ECONNRESET).*)$/;
  problems.splice(0, problems.length, ...problems.filter((problem) => !isCut.test(problem)));
}

const quick = { retries: 1, retryBudgetMs: 3000, idleTimeoutMs: driver.name === "sim" ? 700 : 1500 };
const trouble = { allow: /ERROR: Connect failed|Uncaught InternalError: Unable to/ };

describe("a fault at any point of a run of two tools", () => {
  test.skipIf(driver.name !== "sim")(
    "ends it with an answer or a clear error, and the next prompt works",
    { timeout: 240_000 },
    async () => {
      await fc.assert(
        fc.asyncProperty(fault, async (one) => {
          const server = faultyServer();
          await withBoard({ ...trouble, settings: quick, turns: server.turns }, async ({ board, model }) => {
            const timers = await board.timers();
            await strikeAt(one, { board, model, server });
            expect(await board.timers()).toBe(timers);
          });
        }),
        { numRuns: 150 },
      );
    },
  );

  const server = faultyServer();
  const times = driver.name === "sim" ? 120 : 4;
  const soak = { ...trouble, settings: quick, turns: server.turns, timeoutMs: 240_000 };
  scenario("again and again on one board: memory and timers are where they were", soak, async ({ board, model }) => {
    const usage = async (): Promise<number> => (await board.memory()).usage;
    async function strike(one: Fault): Promise<void> {
      try {
        await strikeAt(one, { board, model, server });
      } catch (error) {
        (error as Error).message += `\nat ${JSON.stringify(one)}`;
        throw error;
      }
    }
    // One that comes after the end of the stream: the run ends well.
    await strike({ kind: "close", stage: 1, at: 5000, lasting: false });
    const atRest = await usage();
    const timers = await board.timers();
    const tour: Fault[] = kinds
      .filter((kind) => kind !== "wifi" || board.hasHardware)
      .flatMap((kind) => [
        { kind, stage: 0, at: -1, lasting: false },
        { kind, stage: 0, at: 124, lasting: false },
        { kind, stage: 1, at: 200, lasting: true },
      ]);
    for (const one of tour) await strike(one);
    const before = await usage();
    for (const one of [...tour, ...fc.sample(fault, times)]) {
      await strike(one);
      expect(await board.timers()).toBe(timers);
      if (board.memoryKind === "other") continue;
      expect(await usage(), `after ${JSON.stringify(one)}`).toBeLessThanOrEqual(before);
    }
    console.log(`faults: ${atRest} variables after a run, ${before} after one of each, ${await usage()} at the end`);
    if (board.memoryKind !== "other") expect(before).toBeLessThanOrEqual(atRest + FIRST_USE_VARIABLES);
  });

  // On the board itself, between any two things that happen there: also while a tool runs.
  const eventCount = 9;
  for (const [what, code] of [
    ["abort()", "abort()"],
    ["a second prompt", 'ask("me too")'],
    ["clear_history", "clear_history()"],
    ["cleanup_agent", "cleanup_agent()"],
  ] as const) {
    const options = { settings: quick, turns: server.turns, timeoutMs: 240_000 };
    scenario(`${what} at any event`, options, async ({ board, model }) => {
      await board.runLine("var left=-1");
      await board.runLine(`E.on("agent",function(e){if(!left--)${code}})`);
      const step = driver.name === "sim" ? 1 : 3;
      for (let at = 0; at < eventCount; at += step) {
        const from = board.events().length;
        const requestsFrom = model.requests.length;
        await board.runLine(`left=${at}`);
        await board.ask(PROMPT);
        const since = (): AgentEvent[] => board.events().slice(from);
        if (what === "a second prompt") {
          // It is told that the board is busy, unless it comes right after the end: then it is a run of its own.
          await board.waitUntil(() => ofType(since(), "final").length === 2);
          const [one, other] = ofType(since(), "final");
          const isLast = one!.stopReason === "done";
          expect(isLast ? one : other).toEqual({ type: "final", stopReason: "done", text: ANSWER });
          if (!isLast) expect(one).toMatchObject({ isError: true, message: expect.stringContaining("busy") });
          expect(model.requests.slice(requestsFrom)).toHaveLength(isLast ? 4 : 2);
        } else {
          expect(ofType(since(), "final")).toMatchObject([{ stopReason: expect.stringMatching(/^(done|aborted)$/) }]);
          expect(ANSWER.startsWith(shown(since())), `"${shown(since())}" was shown`).toBe(true);
          const started = ofType(since(), "toolStart").map((call) => call.name);
          expect(["gpio_write", "add"].slice(0, started.length)).toEqual(started);
        }
        await board.runLine("left=-1");
        if (seesSockets) await board.waitUntil(() => model.openAnswers() === 0);
        forgetCutRequests(model);
        const next = await board.ask(NEXT);
        expect(next.slice(1)).toEqual([
          { type: "textDelta", text: "fine" },
          { type: "final", stopReason: "done", text: "fine" },
        ]);
        await board.runLine("clear_history");
      }
    });
  }
});

const chunk = (delta: unknown, finish: string | null = null): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
const end = `${chunk({}, "stop")}data: [DONE]\n\n`;
const calling = (name: string, args: string): ScriptedReply =>
  raw([
    chunk({ tool_calls: [{ index: 0, id: "call_x", function: { name, arguments: args } }] }),
    `${chunk({}, "tool_calls")}data: [DONE]\n\n`,
  ]);
const filled = (byte: string, length: number): ScriptedPiece[] => {
  const piece = Buffer.alloc(64 * 1024, byte);
  return Array.from({ length: Math.ceil(length / piece.length) }, (_, i) => piece.subarray(0, length - i * piece.length));
};

/** An interpreter on a slow computer takes minutes for what the simulator takes in seconds. */
const size = (sim: number, interpreter: number): number => (driver.name === "sim" ? sim : interpreter);

interface BadInput {
  turn: Turn;
  /** What must come of it, beyond the board living on. */
  check?(events: AgentEvent[], requests: RecordedRequest[]): void;
  settings?: Record<string, unknown>;
}

const says = (expected: string | RegExp) => (events: AgentEvent[]) => {
  expect(events.at(-1)).toMatchObject({ type: "final", stopReason: "done" });
  expect(shown(events)).toMatch(expected);
};
const fails = (message: RegExp) => (events: AgentEvent[]) =>
  expect(events.at(-1)).toMatchObject({ isError: true, message: expect.stringMatching(message) });
/** The call was answered with an error, and the tool was not run. */
const refused = (content: RegExp) => (events: AgentEvent[]) => {
  expect(ofType(events, "toolEnd")).toMatchObject([{ isError: true, content: expect.stringMatching(content) }]);
};
const gave = (content: RegExp) => (events: AgentEvent[]) => {
  expect(ofType(events, "toolEnd")).toMatchObject([{ isError: false, content: expect.stringMatching(content) }]);
};
const warned = (message: RegExp) => (events: AgentEvent[]) =>
  expect(ofType(events, "error")).toMatchObject([{ message: expect.stringMatching(message) }]);
const all =
  (...checks: ((events: AgentEvent[], requests: RecordedRequest[]) => void)[]) =>
  (events: AgentEvent[], requests: RecordedRequest[]) =>
    checks.forEach((check) => check(events, requests));

const deep = (levels: number): string => `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`;
const deepList = (levels: number): string => `${"[".repeat(levels)}${"]".repeat(levels)}`;
const gzipped = gzipSync(Buffer.from(chunk({ content: "zipped" }) + end));
const zipReply = (bytes: Uint8Array): ScriptedReply => ({
  ...raw([bytes]),
  headers: { "content-type": "text/event-stream", "content-encoding": "gzip", "transfer-encoding": "chunked" },
});

const badInputs: Record<string, BadInput> = {
  "a reply packed with gzip, though it was not asked for": { turn: zipReply(gzipped), check: fails(/./) },
  "a packed reply that is cut": { turn: zipReply(gzipped.subarray(0, 30)), check: fails(/./) },
  "a line of megabytes": {
    turn: raw([chunk({ content: "a" }), "data: ", ...filled("x", size(10e6, 1e6)), "\n\n", chunk({ content: "b" }), end]),
    check: all(says(/^ab$/), warned(/sseLineBytes/)),
  },
  "a line of megabytes that never ends": {
    turn: raw([chunk({ content: "a" }), "data: ", ...filled("x", size(10e6, 3e5))]),
    check: fails(/cut off/),
  },
  "megabytes that are no stream": {
    turn: { ...raw(filled("z", size(10e6, 3e5))), headers: { "content-type": "text/plain", "transfer-encoding": "chunked" } },
    check: fails(/./),
  },
  "a JSON reply of megabytes": {
    turn: raw(['{"choices":[{"message":{"content":"', ...filled("z", size(10e6, 3e5)), '"}}]}']),
    check: fails(/sseLineBytes/),
  },
  "a failure of megabytes": {
    turn: { ...raw(filled("z", size(10e6, 3e5))), status: 400 },
    check: all(fails(/400/), (events) => expect((events.at(-1) as Final).message!.length).toBeLessThan(600)),
  },
  "a hundred thousand empty lines": {
    turn: raw([...filled("\n", size(1e6, 1e5)), chunk({ content: "after" }), end]),
    check: says(/^after$/),
  },
  "a hundred thousand comments": {
    turn: raw([...Array.from({ length: size(100, 10) }, () => ": ping\n\n".repeat(1000)), chunk({ content: "after" }), end]),
    check: says(/^after$/),
  },
  "NUL bytes between the events": {
    turn: raw(["\0\0", chunk({ content: "a" }), "\0\n\0\n\n", chunk({ content: "b" }), end]),
    check: says(/b$/),
  },
  "NUL bytes in a text": {
    turn: raw([chunk({ content: "a\0b" }), end]),
    check: says(/^a\0?b$/),
  },
  "NUL bytes in the bytes of an event": {
    turn: raw([chunk({ content: "a" }), 'data: {"choices":[{"index":0,"delta":{"content":"x\0y"}}]}\n\n', end]),
  },
  "bytes that are no UTF-8": {
    turn: raw([
      'data: {"choices":[{"index":0,"delta":{"content":"a',
      Buffer.from([0xff, 0xfe, 0xc3, 0x28, 0xe2, 0x82, 0xf0, 0x9f, 0xed, 0xa0, 0x80]),
      'b"}}]}\n\n',
      end,
    ]),
    check: (events) => expect(events.at(-1)).toMatchObject({ stopReason: "done" }),
  },
  "bytes that are no UTF-8 in arguments": {
    turn: raw([
      'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_x","function":{"name":"word_count",' +
        '"arguments":"{\\"text\\":\\"a ',
      Buffer.from([0xff, 0xc3, 0xe2, 0x82]),
      ' b\\"}"}}]}}]}\n\n',
      `${chunk({}, "tool_calls")}data: [DONE]\n\n`,
    ]),
    check: gave(/3 words/),
  },
  "bytes that are no UTF-8 in the name and id of a call": {
    turn: raw([
      'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call',
      Buffer.from([0xff, 0xc3]),
      '","function":{"name":"ad',
      Buffer.from([0xff]),
      'd","arguments":"{}"}}]}}]}\n\n',
      `${chunk({}, "tool_calls")}data: [DONE]\n\n`,
    ]),
    check: refused(/./),
  },
  "arguments nested 200 deep": { turn: calling("add", `{"a":1,"b":2,"c":${deep(200)}}`) },
  // Short enough for maxToolArgLen, too deep for an interpreter's JSON.stringify, which then writes " ... ".
  "arguments nested 120 deep": { turn: calling("add", `{"a":1,"b":2,"c":${deep(120)}}`) },
  "arguments nested 30 deep": { turn: calling("add", `{"a":1,"b":2,"c":${deep(30)}}`) },
  "arguments nested 200 deep and nothing else": { turn: calling("add", deep(200)), check: refused(/./) },
  "arguments of 200 lists in each other": { turn: calling("add", `{"a":1,"b":${deepList(200)}}`), check: refused(/./) },
  "arguments nested 200 deep and cut": { turn: calling("add", deep(200).slice(0, -7)), check: refused(/./) },
  "arguments nested 200 deep as an object": {
    turn: raw([
      'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_x","function":{"name":"add",' +
        `"arguments":${deep(200)}}}]}}]}\n\n`,
      `${chunk({}, "tool_calls")}data: [DONE]\n\n`,
    ]),
  },
  "a call as text nested 200 deep": {
    turn: raw([chunk({ content: `<tool_call>{"name":"add","arguments":${deep(200)}}</tool_call>` }), end]),
  },
  "an event nested 200 deep": {
    turn: raw([chunk({ content: "a" }), `data: {"choices":[{"delta":{"x":${deep(200)}}}]}\n\n`, chunk({ content: "b" }), end]),
    check: says(/^ab$/),
  },
  "an event of 1,000 open brackets": {
    turn: raw([chunk({ content: "a" }), `data: {"x":${"[".repeat(1000)}\n\n`, chunk({ content: "b" }), end]),
    check: says(/^ab$/),
  },
  "a failure nested 200 deep": {
    turn: { ...raw([`{"error":${deep(200)}}`]), status: 400 },
    check: fails(/400/),
  },
  "doubled keys in arguments": { turn: calling("add", '{"a":1,"b":2,"a":5}'), check: gave(/\b[37]\b/) },
  "doubled keys in an event": {
    turn: raw(['data: {"choices":[],"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n', chunk({ content: "b" }), end]),
    check: says(/b$/),
  },
  "a number beyond all numbers in arguments": { turn: calling("add", '{"a":1e999,"b":1}'), check: refused(/"a"/) },
  "such a number in an event": {
    turn: raw(['data: {"created":1e999,"choices":[{"index":-1e999,"delta":{"content":"a"}}]}\n\n', end]),
    check: says(/^a$/),
  },
  "__proto__ and constructor as names of arguments": {
    turn: calling("add", '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"a":1,"b":2}'),
    check: gave(/\b3\b/),
  },
  "__proto__ as the only argument": { turn: calling("add", '{"__proto__":{"a":1,"b":2}}'), check: refused(/missing/) },
  "tools called __proto__, constructor and toString": {
    turn: raw([
      chunk({
        tool_calls: ["__proto__", "constructor", "toString"].map((name, index) => ({
          index,
          id: `call_${index}`,
          function: { name, arguments: "{}" },
        })),
      }),
      `${chunk({}, "tool_calls")}data: [DONE]\n\n`,
    ]),
    check: (events) => expect(ofType(events, "toolEnd").map((one) => one.isError)).toEqual([true, true, true]),
  },
  "fields of the wrong types": {
    turn: raw([
      ...[
        '{"choices":5}',
        '{"choices":[null]}',
        '{"choices":["x"]}',
        '{"choices":[{"delta":"x"}]}',
        '{"choices":[{"delta":{"content":7,"tool_calls":"x"}}]}',
        '{"choices":[{"delta":{"content":{"a":1},"tool_calls":[null,1,"x",[],{}]}}]}',
        '{"choices":[{"delta":{"tool_calls":[{"index":"0","id":7,"function":{"name":[],"arguments":true}}]}}]}',
        '{"choices":[{"delta":{"reasoning_content":{"a":1}},"finish_reason":7}]}',
        '{"error":null,"choices":[]}',
        "[]",
        "null",
        "7",
        '"text"',
      ].map((payload) => `data: ${payload}\n\n`),
      chunk({ content: "still here" }),
      end,
    ]),
    check: says(/^still here$/),
  },
};

describe("input that no server should send", () => {
  for (const [name, { turn, check, settings }] of Object.entries(badInputs)) {
    let first = true;
    let next: Turn = text("fine");
    const options = {
      settings: { retries: 0, idleTimeoutMs: 5000, ...settings },
      turns: () => (first ? ((first = false), turn) : next),
      timeoutMs: 120_000,
    };
    scenario(name, options, async ({ board, model }) => {
      await board.runLine("init_tools");
      const events = await board.ask("hello", { giveUpMs: 90_000 });
      check?.(events, model.requests);
      expect(ofType(events, "final")).toHaveLength(1);
      expect(model.requests[0]!.headers["accept-encoding"]).toBe("identity");
      next = text("also fine");
      const after = await board.ask("and now?");
      expect(after.at(-1)).toEqual({ type: "final", stopReason: "done", text: "also fine" });
      expect(await board.runLine("({}).polluted")).toBe("=undefined");
      if (seesSockets) await board.waitUntil(() => model.openAnswers() === 0);
    });
  }

  const proto = {
    turns: [calling("odd", '{"__proto__":"x","a":1}'), text("done"), text("fine")],
  };
  scenario("a tool with a parameter called __proto__", proto, async ({ board }) => {
    await board.runLine(
      'add_tool({name:"odd",description:"Odd",parameters:{type:"object",properties:{"__proto__":{type:"string"},' +
        'a:{type:"number"}}},execute:function(args){return "a is "+args.a}})',
    );
    const events = await board.ask("hello");
    expect(events.at(-1)).toMatchObject({ stopReason: "done", text: "done" });
    expect((await board.ask("and now?")).at(-1)).toMatchObject({ text: "fine" });
    expect(await board.runLine("({}).polluted")).toBe("=undefined");
  });

  scenario("two runs at once", { turns: [text("the first"), text("fine")] }, async ({ board, model }) => {
    board.type('ask("one");ask("two");ask("three")\n');
    const finals: AgentEvent[] = [];
    for (let i = 0; i < 3; i++) finals.push(await board.expectEvent((event) => event.type === "final"));
    const busy = { isError: true, message: expect.stringContaining("busy") };
    expect(finals).toMatchObject([busy, busy, { stopReason: "done", text: "the first" }]);
    expect((await board.ask("four")).at(-1)).toMatchObject({ text: "fine" });
    expect(model.requests[1]!.json.messages.slice(1)).toEqual([
      { role: "user", content: "one" },
      { role: "assistant", content: "the first" },
      { role: "user", content: "four" },
    ]);
  });
});
