import { describe, expect, test } from "vitest";
import type { AgentEvent } from "../../firmware/types";
import { toBytes } from "../drivers/bytes";
import type { TestBoard } from "../drivers/types";
import { type RecordedRequest, text, type Turn } from "../fixtures/scripted-model";
import { casePieces, caseReply, type ProviderCase, providerCases, resplit } from "../fixtures/shared";
import { driver, scenario } from "./scenario";

/** What one prompt came to, at every place where a person or a server can see it. */
interface Run {
  events: AgentEvent[];
  /** What the model was asked. */
  requests: RecordedRequest[];
  /** What the console printed. */
  printed: string;
}

const PROMPT = "the first prompt";
const NEXT_PROMPT = "and the next one";

const ofType = <T extends AgentEvent["type"]>(events: AgentEvent[], type: T): Extract<AgentEvent, { type: T }>[] =>
  events.filter((event): event is Extract<AgentEvent, { type: T }> => event.type === type);

async function ask(board: TestBoard, requests: RecordedRequest[], prompt: string): Promise<Run> {
  const printedFrom = board.output().length;
  const requestsFrom = requests.length;
  const events = await board.ask(prompt, { giveUpMs: 60_000 });
  await board.runLine("1");
  return { events, requests: requests.slice(requestsFrom), printed: board.output().slice(printedFrom) };
}

/** What does not depend on the bytes: how long a retry waits is chance, made-up ids count on. */
function comparable(events: AgentEvent[], one: ProviderCase): unknown {
  const given = JSON.stringify(one.body);
  const ids: string[] = [];
  return JSON.parse(JSON.stringify(events), (key, value) => {
    if (key === "waitMs") return "some time";
    if ((key !== "id" && key !== "callId") || given.includes(JSON.stringify(value).slice(1, -1))) return value;
    if (!ids.includes(value)) ids.push(value);
    return `made up ${ids.indexOf(value)}`;
  });
}

function checkText({ events, printed }: Run, want: ProviderCase["expect"]): void {
  const first = events.slice(0, events.findIndex((event) => event.type === "iterationStart" && event.iteration === 2));
  const answer = want.toolCalls?.length ? first : events;
  const shown = ofType(answer, "textDelta").map((delta) => delta.text).join("");
  const final = ofType(events, "final")[0]!;
  if (want.text !== undefined) {
    expect(shown).toBe(want.text);
    expect(final.text).toBe(want.text);
    expect(printed).toContain(want.text);
  }
  for (const place of [shown, final.text, printed]) if (want.textContains) expect(place).toContain(want.textContains);
  if (want.textStartsWith) expect(shown.startsWith(want.textStartsWith)).toBe(true);
  if (want.textEndsWith) expect(shown.endsWith(want.textEndsWith)).toBe(true);
  if (want.reasoning !== undefined) {
    expect(ofType(events, "reasoningDelta").map((delta) => delta.text).join("")).toBe(want.reasoning);
    expect(printed).not.toContain(want.reasoning);
  }
}

function checkCalls({ events, requests, printed }: Run, want: ProviderCase["expect"]): void {
  const asked = ofType(events, "toolRequest").flatMap((event) => event.calls);
  const started = ofType(events, "toolStart");
  const ended = ofType(events, "toolEnd");
  for (const name of want.notRun ?? []) {
    expect([...asked, ...started].map((call) => call.name)).not.toContain(name);
  }
  if (want.toolCalls) {
    const calls = want.toolCalls.map((call) => ({ id: expect.stringMatching(/./), ...call }));
    expect(asked.map((call) => ({ ...call, arguments: JSON.parse(call.arguments) }))).toEqual(calls);
    expect(started.map((call) => call.name)).toEqual(calls.map((call) => call.name));
    for (const call of started) expect(printed).toContain(`[${call.name}: `);
  }
  if (want.toolCalls?.length) {
    // The model gets its calls back, valid whatever it wrote, and the result of each in order.
    const [assistant, ...results] = requests[1]!.json.messages.slice(2);
    expect(assistant!.tool_calls!.map((call) => [call.id, call.function.name])).toEqual(
      asked.map((call) => [call.id, call.name]),
    );
    expect(assistant!.tool_calls!.map((call) => JSON.parse(call.function.arguments))).toEqual(
      want.toolCalls.map((call) => call.arguments),
    );
    expect(results).toEqual(
      ended.map((end) => ({ role: "tool", tool_call_id: end.callId, content: end.content })),
    );
    expect(ended.map((end) => end.isError)).toEqual(want.toolCalls.map(() => false));
    // Arguments are never shown, and a call written as text is no text.
    expect(printed).not.toMatch(/\{"|tool_call/);
  }
  if (want.toolResultIsError || (want.stop === "length" && want.notRun)) {
    expect(ended.map((end) => end.isError)).toEqual([true]);
    const result = requests[1]!.json.messages.at(-1)!;
    expect(result).toMatchObject({ role: "tool", content: expect.stringMatching(/^Error: /) });
    expect(result.content).toContain(ended[0]!.content);
    if (want.stop === "length") expect(result.content).toContain("cut off");
    if (want.toolResultContains) expect(result.content).toContain(want.toolResultContains);
  }
}

function checkEnd({ events, requests, printed }: Run, want: ProviderCase["expect"]): void {
  const [final, ...more] = ofType(events, "final");
  expect(more).toEqual([]);
  const retries = ofType(events, "retry");
  if (want.isError) {
    expect(final).toMatchObject({ isError: true, stopReason: "transportError", message: expect.stringMatching(/./) });
    for (const word of want.errorContains ?? []) {
      expect(final!.message!.toLowerCase()).toContain(word);
      expect(printed.toLowerCase()).toContain(word);
    }
    expect(printed).toContain(`[error: ${final!.message}`);
  } else {
    expect(final).toEqual({ type: "final", stopReason: "done", text: expect.any(String) });
    expect(printed).not.toContain("[error");
  }
  if (want.stop === "stop") expect(requests).toHaveLength(1);
  if (want.stop === "toolCalls") expect(requests).toHaveLength(2);
  if (want.stop === "cut") expect(final!.message).toContain("cut off");
  if (want.retried !== undefined) expect(retries.length > 0, "retried").toBe(want.retried);
  if (want.retried === false) expect(requests).toHaveLength(1);
  if (want.retried) expect(printed).toContain("[trying again in ");
  for (const { waitMs } of retries) {
    if (want.waitAtLeastMs) expect(waitMs).toBeGreaterThanOrEqual(want.waitAtLeastMs);
    if (want.waitAtMostMs) expect(waitMs).toBeLessThanOrEqual(want.waitAtMostMs);
  }
  const warnings = ofType(events, "error");
  if (want.warning) expect(warnings).not.toEqual([]);
  for (const { message } of warnings) expect(printed).toContain(`[warning: ${message}]`);
  // The key is not even there in part, as some servers repeat it.
  expect(printed).not.toContain("sk-abc");
}

/** What the prompt after it finds: the answer or, after a failure, the prompt only. */
function checkNext({ events, requests }: Run, before: Run, want: ProviderCase["expect"]): void {
  expect(events.slice(1)).toEqual([
    { type: "textDelta", text: "fine" },
    { type: "final", stopReason: "done", text: "fine" },
  ]);
  expect(requests).toHaveLength(1);
  const messages = requests[0]!.json.messages.slice(1);
  if (want.isError) {
    expect(messages).toEqual([{ role: "user", content: `${PROMPT}\n\n${NEXT_PROMPT}` }]);
  } else {
    expect(messages[0]).toEqual({ role: "user", content: PROMPT });
    const { text } = before.events.at(-1) as Extract<AgentEvent, { type: "final" }>;
    expect(messages.slice(-2)).toEqual([
      { role: "assistant", content: text },
      { role: "user", content: NEXT_PROMPT },
    ]);
  }
}

const cases = providerCases();

/** Longer than what an interpreter takes in single bytes in a time that a suite has. */
const MANY_BYTES = 15_000;

describe.skipIf(!cases.length)("provider cases", () => {
  test("all of them are of a dialect that is checked here", () => {
    expect([...new Set(cases.map((one) => one.dialect))]).toEqual(["openai"]);
  });

  for (const one of cases) {
    const own = casePieces(one);
    const bytes = Buffer.concat(own).length;
    const ways = [own];
    if (driver.name === "sim") ways.push(resplit(own, 536));
    if (driver.name === "sim" || bytes < MANY_BYTES) ways.push(resplit(own, 1));
    let answers: Turn[] = [];
    const { isError } = one.expect;
    const options = {
      // The server's words of a bad key begin as this one does.
      settings: { retries: 1, idleTimeoutMs: 1000, apiKey: "sk-abc0123456789" },
      byteStrings: toBytes(JSON.stringify(one.expect)) !== JSON.stringify(one.expect),
      timeoutMs: 120_000,
      turns: () => answers.shift() ?? text("fine"),
    };
    scenario(`${one.name}: ${one.why}`, options, async ({ board, model }) => {
      await board.runLine("init_tools");
      let first: unknown;
      for (const pieces of ways) {
        const answer = caseReply(one, pieces);
        answers = isError ? [answer, answer] : [answer];
        const run = await ask(board, model.requests, PROMPT);
        answers = [];
        checkText(run, one.expect);
        checkCalls(run, one.expect);
        checkEnd(run, one.expect);
        first ??= comparable(run.events, one);
        expect(comparable(run.events, one)).toEqual(first);
        checkNext(await ask(board, model.requests, NEXT_PROMPT), run, one.expect);
        await board.runLine("clear_history");
      }
    });
  }
});
