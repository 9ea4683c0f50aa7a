import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { AgentEvent, RunResult, Session } from "../../firmware/types";
import { decodeStrings, toBytes } from "../drivers/bytes";
import { bootFirmware, isUtf8, type SeenRequest } from "./board";
import { inPieces } from "./pieces";
import { checkMessages } from "./messages";

/** Lets every promise that can be settled do so. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

type Call = [id: string | undefined, name: string, args: string];
/** What the model, or the world, does at one request. */
type Step =
  | { calls: Call[]; text?: string; stop?: string }
  | { text: string; stop?: string }
  | { status: number }
  | { cut: string }
  | { abort: "before" | "within" };

const OUTPUTS: Record<string, () => unknown> = {
  fine: () => "fine",
  bad: () => {
    throw new Error("broken");
  },
  binary: () => Array.from({ length: 2000 }, (_, i) => String.fromCharCode((i * 37) & 255)).join(""),
  high: () => "\xff".repeat(2000),
  big: () => "x".repeat(100_000),
  quotes: () => '"'.repeat(3000),
  control: () => "\x01".repeat(3000),
  slow: () => Promise.resolve("later"),
  hanging: () => new Promise(() => {}),
};

function createAgent(settings: Record<string, unknown>) {
  const firmware = bootFirmware();
  expect(
    firmware.openSettings().apply({ baseUrl: "http://model/v1", model: "m", retries: 0, ...settings }, true),
  ).toEqual([]);
  const events: AgentEvent[] = [];
  const session: Session = {
    tools: { count: 0 },
    history: firmware.createHistory(firmware.setting("historyBytes")),
    lastCallId: 0,
    emit: (event) => events.push(structuredClone(event)),
  };
  for (const [name, execute] of Object.entries(OUTPUTS)) {
    expect(firmware.editRegistry(session.tools).append({ name, description: `Gives ${name}`, execute })).toBe("");
  }
  const provider = firmware.createOpenai(false);

  /** The body of a request, which must be what its head says. */
  function bodyOf(request: SeenRequest): any {
    request.receive();
    expect(String(request.body.length)).toBe(request.options.headers["Content-Length"]);
    expect(isUtf8(request.body)).toBe(true);
    return JSON.parse(Buffer.from(request.body, "latin1").toString("utf8"));
  }

  function answer(request: SeenRequest, step: Step): void {
    if ("status" in step) {
      request.head(step.status, {});
      request.data('{"error":{"message":"refused"}}');
      return request.end();
    }
    const chunk = (delta: unknown, finish_reason: string | null = null) =>
      `data: ${toBytes(JSON.stringify({ choices: [{ delta, finish_reason }] }))}\n\n`;
    let stream = "";
    if ("text" in step && step.text) stream += chunk({ content: step.text });
    if ("cut" in step) stream += chunk({ content: step.cut });
    if ("calls" in step) {
      step.calls.forEach(
        ([id, name, args], index) =>
          (stream += chunk({ tool_calls: [{ index, id, function: { name, arguments: args } }] })),
      );
    }
    if (!("cut" in step)) stream += chunk({}, "stop" in step ? step.stop : "stop");
    request.head(200, {});
    for (const piece of inPieces(stream, 536)) request.data(piece);
    request.end();
  }

  /** Asks, plays the steps, and gives what the run came to and the requests' bodies. */
  async function ask(
    prompt: string,
    steps: Step[],
  ): Promise<{ result: RunResult; events: AgentEvent[]; bodies: any[] }> {
    const json = provider.compose(firmware.USER, toBytes(prompt));
    const bodies: any[] = [];
    let result: RunResult | undefined;
    const first = events.length;
    const at = firmware.requests.length;
    const asked = JSON.parse(Buffer.from(json, "latin1").toString("utf8"));
    firmware.run(session, toBytes(prompt), undefined, (one) => (result = one));
    for (let turns = 0, idle = 0; !result;) {
      await settle();
      const request = firmware.requests[at + turns];
      if (request && !result) {
        const step = steps[turns] ?? { text: "that is all" };
        idle = 0;
        turns++;
        if ("abort" in step && step.abort === "before") {
          session.abort!("stopped");
          continue;
        }
        const body = bodyOf(request);
        bodies.push(body);
        expect(body.messages[0].role).toBe("system");
        checkMessages(body.messages.slice(1), { trim: firmware.setting("messageTrim") });
        // The prompt of a run that failed is a part of the next one.
        const newest = body.messages.findLast((message: any) => message.role === "user").content;
        expect(newest === asked.content || newest.endsWith(`\n\n${asked.content}`)).toBe(true);
        if ("abort" in step) {
          request.head(200, {});
          request.data('data: {"choices":[{"delta":{"content":"ha');
          session.abort!("stopped");
          request.data('lf"}}]}\n\n');
          request.end();
        } else answer(request, step);
      } else if (firmware.clock.pending()) firmware.clock.advance(firmware.clock.nextDue()! - firmware.clock.now());
      if (++idle > 2000) throw new Error("the run does not end");
    }
    await settle();
    // What is left of the run must find nothing to do any more.
    firmware.clock.advance(60_000);
    await settle();
    expect(firmware.clock.pending()).toBe(0);
    expect(session.abort).toBeUndefined();
    const own = events.slice(first);
    expect(own.filter((event) => event.type === "final")).toHaveLength(1);
    expect(own.at(-1)!.type).toBe("final");
    for (const request of firmware.requests) expect(request.closed).toBe(true);
    return { result: decodeStrings(result), events: decodeStrings(own), bodies };
  }

  return { firmware, session, ask };
}

const settings = fc.record({
  historyBytes: fc.integer({ min: 1024, max: 8192 }),
  messageTrim: fc.integer({ min: 2, max: 64 }),
  maxToolIterations: fc.integer({ min: 1, max: 25 }),
});
const call: fc.Arbitrary<Call> = fc.tuple(
  fc.option(fc.string({ maxLength: 20 }), { nil: undefined }),
  fc.constantFrom(...Object.keys(OUTPUTS), "missing", "größe", "a b"),
  fc.constantFrom(
    "{}",
    "",
    '{"a":1}',
    '{"a":"\\u4f60"}',
    '{"a":',
    "[]",
    `{"a":"${"x".repeat(400)}"}`,
    `{"a":"${"y".repeat(2000)}"}`,
    '{"a":1} {"a":2}',
  ),
);
const words = fc.oneof(
  fc.string({ unit: "binary", minLength: 1, maxLength: 100 }),
  fc.constantFrom("x".repeat(3000), '"\\'.repeat(500), "温".repeat(900)),
);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      calls: fc.array(call, { minLength: 1, maxLength: 8 }),
      text: fc.constantFrom("", "I look."),
      stop: fc.constantFrom("tool_calls", "stop", "length"),
    }),
  },
  { weight: 1, arbitrary: fc.record({ text: words, stop: fc.constantFrom("stop", "length") }) },
  { weight: 1, arbitrary: fc.record({ status: fc.constantFrom(400, 401, 500) }) },
  { weight: 1, arbitrary: fc.record({ cut: words }) },
  { weight: 1, arbitrary: fc.record({ abort: fc.constantFrom("before" as const, "within" as const) }) },
);

describe("run", () => {
  it("sends only what a server takes, and ends, whatever model and tools do", async () => {
    await fc.assert(
      fc.asyncProperty(
        settings,
        fc.array(
          fc.tuple(fc.string({ unit: "binary", minLength: 1, maxLength: 150 }), fc.array(step, { maxLength: 5 })),
          { minLength: 1, maxLength: 4 },
        ),
        async (limits, prompts) => {
          const agent = createAgent(limits);
          for (const [prompt, turns] of prompts) {
            // The session refuses a prompt of more than half the history.
            if (toBytes(JSON.stringify(prompt)).length + 40 > limits.historyBytes / 2) continue;
            const { result, events } = await agent.ask(prompt, turns);
            // A tool that is started ends before anything else of a tool happens, unless the run was aborted within it.
            const steps = events.filter((event) => event.type === "toolStart" || event.type === "toolEnd");
            for (const [i, event] of steps.entries())
              if (event.type === "toolStart" && i + 1 < steps.length)
                expect(steps[i + 1]).toMatchObject({ type: "toolEnd", callId: event.callId });
            if (!result.message) expect(["done", "maxIterations"]).toContain(result.stopReason);
          }
          // The next prompt works, whatever came before.
          const { result } = await agent.ask("and now?", [{ text: "fine" }]);
          expect(result).toEqual({ text: "fine", stopReason: "done" });
        },
      ),
      { numRuns: 50 },
    );
  });

  it("answers every call in order, and runs none that has a problem", async () => {
    const agent = createAgent({});
    const { events, bodies } = await agent.ask("go", [
      {
        calls: [
          ["a", "fine", "{}"],
          [undefined, "bad", ""],
          ["c", "missing", "{}"],
          ["d", "fine", '{"x":'],
          ["e", "slow", "{}"],
        ],
        stop: "tool_calls",
      },
    ]);
    const results = bodies[1].messages.slice(3);
    expect(results.map((message: any) => message.tool_call_id)).toEqual(["a", "call_1", "c", "d", "e"]);
    expect(results[0].content).toBe("fine");
    expect(results[1].content).toBe("Error: broken");
    expect(results[2].content).toContain("Error: there is no tool called missing");
    expect(results[3].content).toContain("Error: not run");
    expect(results[4].content).toBe("later");
    expect(events.filter((event) => event.type === "toolStart").map((event) => event.callId)).not.toContain("d");
    // Broken arguments never go back on the wire.
    expect(bodies[1].messages[2].tool_calls.map((one: any) => one.function.arguments)).toEqual([
      "{}",
      "{}",
      "{}",
      "{}",
      "{}",
    ]);
  });

  it("gives calls without a name an answer, and sends no empty name", async () => {
    const agent = createAgent({});
    const { result, bodies } = await agent.ask("go", [
      {
        calls: [
          ["a", "", '{"a":1}'],
          ["b", "fine", "{}"],
        ],
      },
    ]);
    expect(result.stopReason).toBe("done");
    for (const message of bodies[1].messages)
      for (const one of message.tool_calls ?? []) expect(one.function.name).not.toBe("");
  });

  it("says that a call was cut by the output limit", async () => {
    const agent = createAgent({});
    const { bodies, events } = await agent.ask("go", [{ calls: [["a", "fine", '{"x":1']], stop: "length" }]);
    expect(bodies[1].messages.at(-1).content).toContain("maxTokens");
    expect(events.filter((event) => event.type === "toolStart")).toEqual([]);
  });

  it("makes the last call without tools", async () => {
    const agent = createAgent({ maxToolIterations: 2 });
    const again: Step = { calls: [[undefined, "fine", "{}"]] };
    const { result, bodies } = await agent.ask("go", [again, again, { text: "so far" }]);
    expect(bodies.map((body) => !!body.tools)).toEqual([true, true, false]);
    expect(result).toEqual({ text: "so far", stopReason: "maxIterations" });
  });

  it("fits any tool's output beside the longest prompt", async () => {
    for (const historyBytes of [1024, 2048, 4096, 8192]) {
      for (const name of ["binary", "high", "big", "quotes", "control"]) {
        const agent = createAgent({ historyBytes });
        const longest = "p".repeat(historyBytes / 2 - 40);
        const { result } = await agent.ask(longest, [{ calls: [["a", name, "{}"]] }, { calls: [["b", name, "{}"]] }]);
        expect.soft(result, `${name} in ${historyBytes}`).toEqual({ text: "that is all", stopReason: "done" });
      }
    }
  });

  it("ends a hanging tool, and an abort meanwhile ends all", async () => {
    const agent = createAgent({ toolTimeoutMs: 500 });
    const { bodies } = await agent.ask("go", [{ calls: [["a", "hanging", "{}"]] }]);
    expect(bodies[1].messages.at(-1).content).toContain("toolTimeoutMs");
  });

  it("keeps the question of a failed run and nothing else of it", async () => {
    const agent = createAgent({});
    await agent.ask("first", [{ calls: [["a", "fine", "{}"]] }, { status: 400 }]);
    const { bodies } = await agent.ask("second", [{ text: "fine" }]);
    expect(bodies[0].messages.slice(1)).toEqual([
      { role: "user", content: "first\n\nsecond" },
    ]);
  });
});
