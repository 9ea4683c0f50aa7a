import fc from "fast-check";
import { describe, expect } from "vitest";
import type { AgentEvent } from "../../firmware/types";
import { toBytes } from "../drivers/bytes";
import type { TestBoard } from "../drivers/types";
import { raw, type RecordedRequest, type Turn } from "../fixtures/scripted-model";
import { recordedStreams, type RecordedStream, resplit } from "../fixtures/shared";
import { driver, noteMemory, scenario } from "./scenario";

type Dialect = "openai" | "anthropic";
type Stream = RecordedStream & { payloads: string[] };

const streams = recordedStreams();
const longest = "openai.openai-text.chunks.txt";

/** Pieces of the random cuts: an interpreter's board reads these few bytes at a time. */
const MAX_CUTS = 60;

/** The stream as its provider frames it, one piece for each event. */
function framed(dialect: string, payloads: string[]): Uint8Array[] {
  const events = payloads.map((payload) =>
    dialect === "anthropic" ? `event: ${JSON.parse(payload).type}\ndata: ${payload}\n\n` : `data: ${payload}\n\n`,
  );
  if (dialect === "openai") events.push("data: [DONE]\n\n");
  return events.map((event) => Buffer.from(event));
}

/** A short answer. */
const fine: Record<Dialect, Turn> = {
  openai: raw(framed("openai", ['{"choices":[{"index":0,"delta":{"content":"fine"},"finish_reason":"stop"}]}'])),
  anthropic: raw(
    framed("anthropic", [
      '{"type":"message_start","message":{"role":"assistant","content":[]}}',
      '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
      '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"fine"}}',
      '{"type":"content_block_stop","index":0}',
      '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}',
      '{"type":"message_stop"}',
    ]),
  ),
};

/** Tools that the recorded calls ask for, as somebody would register them at the console. */
async function addTools(board: TestBoard): Promise<void> {
  await board.runLine("init_tools");
  for (const name of ["weather", "json", "updateIssueList"]) {
    const code = `{name:"${name}",description:"Gives ${name}",execute:function(a){return "${name} got "+JSON.stringify(a)}}`;
    expect(await board.runLine(`add_tool(${code})`)).toContain(`registered ${name}`);
  }
}

/** Calls and results of the second request, whichever dialect it is of. */
function callsAndResults(dialect: string, { json }: RecordedRequest): { calls: unknown[]; results: unknown[] } {
  const messages = json.messages as any[];
  if (dialect === "openai") {
    return {
      calls: messages.flatMap(({ tool_calls = [] }) =>
        tool_calls.map((call: any) => [call.id, call.function.name, JSON.parse(call.function.arguments)]),
      ),
      results: messages
        .filter(({ role }) => role === "tool")
        .map(({ tool_call_id, content }) => [tool_call_id, content]),
    };
  }
  const blocks = messages.flatMap(({ content }) => (Array.isArray(content) ? content : []));
  return {
    calls: blocks.filter(({ type }) => type === "tool_use").map(({ id, name, input }) => [id, name, input]),
    results: blocks
      .filter(({ type }) => type === "tool_result")
      .map(({ tool_use_id, content }) => [tool_use_id, content]),
  };
}

function deltas(events: AgentEvent[], type: "textDelta" | "reasoningDelta"): string {
  return events.flatMap((event) => (event.type === type ? [event.text] : [])).join("");
}

function check(want: Stream, events: AgentEvent[], requests: RecordedRequest[], printed: string): void {
  const called = want.toolCalls.length > 0;
  expect(events.at(-1)).toMatchObject({ type: "final", stopReason: "done" });
  expect(deltas(events, "textDelta")).toBe(want.text + (called ? "fine" : ""));
  expect(deltas(events, "reasoningDelta")).toBe(want.reasoning);
  expect(events.filter((event) => event.type === "error" || event.type === "retry")).toEqual([]);
  expect(events.at(-1)).toMatchObject({ type: "final", stopReason: "done" });
  expect(requests).toHaveLength(called ? 2 : 1);
  // Reasoning is not shown, and all of the answer is.
  // Outside chat mode long lines are broken at spaces.
  expect(printed.replace(/\s+/g, " ")).toContain(want.text.replace(/\s+/g, " "));
  if (want.reasoning) expect(printed).not.toContain(want.reasoning.slice(0, 20));
  if (!called) return;
  const calls = want.toolCalls.map((call) => [call.id, call.name, JSON.parse(call.arguments)]);
  const results = calls.map(([id, name, args]) => [id, `${name} got ${JSON.stringify(args)}`]);
  expect(callsAndResults(want.dialect, requests[1]!)).toEqual({ calls, results });
}

describe.skipIf(!Object.keys(streams).length)("recorded streams", () => {
  for (const [name, stream] of Object.entries(streams)) {
    const dialect = stream.dialect as Dialect;
    const own = framed(dialect, stream.payloads);
    const bytes = Buffer.concat(own);
    let next: Turn[] = [];
    const options = {
      // On a board that takes a byte a millisecond or two, single bytes take minutes.
      settings: { provider: dialect, requestTimeoutMs: 900_000 },
      byteStrings: toBytes(stream.text) !== stream.text,
      timeoutMs: 240_000,
      turns: () => next.shift() ?? fine[dialect],
    };
    scenario(`${name}: the same however it is cut`, options, async ({ board, model }) => {
      await addTools(board);
      let first: AgentEvent[] | undefined;
      async function run(pieces: Uint8Array[]): Promise<void> {
        const printedFrom = board.output().length;
        const requestsFrom = model.requests.length;
        next = [raw(pieces)];
        const events = await board.ask("go", { giveUpMs: 120_000 });
        await board.runLine("1");
        check(stream, events, model.requests.slice(requestsFrom), board.output().slice(printedFrom));
        first ??= events;
        expect(events).toEqual(first);
        // The next prompt finds what was said in the history.
        const after = await board.ask("and now?");
        expect(after.at(-1)).toEqual({ type: "final", stopReason: "done", text: "fine" });
        const roles = model.requests.at(-1)!.json.messages.map(({ role }) => role);
        expect(roles.slice(-2)).toEqual(["assistant", "user"]);
        await board.runLine("clear_history");
      }
      await run(own);
      await run(resplit(own, 536));
      if (driver.name === "sim" || bytes.length < 3000) await run(resplit(own, 1));
      const cuts = fc.uniqueArray(fc.nat(bytes.length - 1), { maxLength: MAX_CUTS });
      await fc.assert(
        fc.asyncProperty(cuts, async (places) => {
          const sorted = [0, ...places.sort((a, b) => a - b), bytes.length];
          await run(sorted.slice(1).map((to, i) => bytes.subarray(sorted[i], to)));
        }),
        { numRuns: driver.name === "sim" ? 5 : 1, endOnFailure: true },
      );
    });
  }

  const long = streams[longest];
  const settings = { historyBytes: 4096 };
  const turns = (request: RecordedRequest): Turn =>
    JSON.stringify(request.json.messages).includes("long") ? raw(framed("openai", long!.payloads)) : fine.openai;
  const flat = { settings, turns, byteStrings: true, timeoutMs: 240_000 };
  scenario("98 kB stream through with flat memory, the history's share of it is kept", flat, async ({ board }) => {
    // What a run takes while it streams, early, in the middle and late: more of the answer is no more memory.
    await board.runLine("var seen=0,sizes=[]");
    await board.runLine(
      'E.on("agent",function(e){if(e.type=="textDelta"&&(seen+=e.text.length)>[100,900,1600,1e9][sizes.length])sizes.push(process.memory().usage)})',
    );
    const usages: number[] = [];
    for (let i = 0; i < 3; i++) {
      await board.runLine("seen=0,sizes=[]");
      const events = await board.ask("something long", { giveUpMs: 120_000 });
      expect(deltas(events, "textDelta")).toBe(long!.text);
      const final = events.at(-1) as Extract<AgentEvent, { type: "final" }>;
      expect(final).toMatchObject({ stopReason: "done" });
      expect(Buffer.byteLength(final.text)).toBeLessThanOrEqual(settings.historyBytes / 4);
      expect(long!.text.startsWith(final.text.split("\n[cut")[0]!)).toBe(true);
      const sizes = JSON.parse((await board.runLine("sizes.join()")).replace(/^="(.*)"$/, "[$1]")) as number[];
      await board.runLine("clear_history");
      await board.runLine("sizes=[]");
      expect((await board.ask("hello")).at(-1)).toMatchObject({ text: "fine" });
      await board.runLine("clear_history");
      usages.push((await board.memory()).usage);
      noteMemory(board, `98 kB: ${sizes.join(", ")} variables while they stream; after it`, await board.memory());
      if (board.memoryKind === "other") continue;
      const [early, middle, late] = sizes as [number, number, number];
      // The share of the history that is kept is all that grows, and only until it is full.
      expect(middle - early).toBeLessThanOrEqual(settings.historyBytes / 4 / 10 + 60);
      expect(late - middle).toBeLessThanOrEqual(60);
    }
    if (board.memoryKind !== "other") expect(Math.max(...usages)).toBe(usages[0]);
  });
});
