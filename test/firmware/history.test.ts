import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { History } from "../../firmware/types";
import { toBytes } from "../drivers/bytes";
import { bootFirmware, isUtf8 } from "./board";
import { checkMessages } from "./messages";

const {
  ANSWER,
  CALLS,
  createHistory,
  createOpenai,
  ECHO_CALLS,
  HAS_MEDIA,
  cutUtf8,
  editHistory,
  limitText,
  readHistory,
  RESULT,
  toJson,
  USER,
  wireText,
} = bootFirmware();
const provider = createOpenai(true);

/** What the history holds, as a server would read it. */
function messagesOf(history: History): any[] {
  const text = readHistory(history, 0, history.used);
  expect(history.used).toBeLessThanOrEqual(history.bytes.length);
  expect(history.sizes.reduce((sum, size) => sum + (size >> 4), 0)).toBe(history.used);
  expect(isUtf8(text)).toBe(true);
  const messages = JSON.parse(`[${Buffer.from(text.slice(1), "latin1").toString("utf8")}]`);
  expect(messages).toHaveLength(history.sizes.length);
  return messages;
}

const text = fc.oneof(
  { weight: 4, arbitrary: fc.string({ unit: "binary", maxLength: 60 }).map(toBytes) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      '{"role":"tool","content":"x"}',
      ',"content":"',
      '"},{',
      "\\",
      '"',
      "\xff\xfe",
      "\xe2\x82",
      "\u0001\u0000\n",
      "]",
    ),
  },
  {
    weight: 1,
    arbitrary: fc
      .tuple(fc.constantFrom("x", '"', "\\", "\xe6\xb8\xa9", "\xff", "\u0001"), fc.nat(1500))
      .map(([unit, n]) => unit.repeat(n)),
  },
);
const call = fc.record({
  id: fc.oneof(
    fc.constant(""),
    text.map((id) => id.slice(0, 40)),
  ),
  name: fc.constantFrom("add", "gpio_write"),
  value: text,
  result: text,
  isError: fc.boolean(),
});
const turn = fc.record({ text, echo: fc.oneof(fc.constant(""), text), calls: fc.array(call, { minLength: 1, maxLength: 8 }) });
const exchange = fc.record({
  prompt: text,
  turns: fc.array(turn, { maxLength: 6 }),
  /** Where it ends: with an answer, or failed after so many results of its last turn. */
  end: fc.oneof(text, fc.nat(8)),
});
const settings = fc.record({ bytes: fc.integer({ min: 1024, max: 8192 }), trim: fc.integer({ min: 2, max: 64 }) });

/** Reasoning is kept in the newest exchange only, whole for the newest calls or for none. */
function checkEcho(messages: any[], newest?: string): void {
  const asked = messages.findLastIndex((message) => message.role === "user");
  messages.forEach((message, i) => {
    if (message.role !== "assistant" || !message.tool_calls) return expect(message.reasoning_content).toBeUndefined();
    if (i < asked) expect(message.reasoning_content).toBe("");
    else expect(message.reasoning_content).toBeTypeOf("string");
  });
  if (newest !== undefined && messages.at(-1).reasoning_content) {
    expect(messages.at(-1).reasoning_content).toBe(JSON.parse(Buffer.from(wireText(newest), "latin1").toString("utf8")));
  }
}

describe("history", () => {
  it("is what a server takes, after every step of any conversation", () => {
    let kept = 0;
    let refused = 0;
    fc.assert(
      fc.property(settings, fc.array(exchange, { maxLength: 6 }), ({ bytes, trim }, exchanges) => {
        const history = createHistory(bytes);
        // As the loop has it: made anew for each step, over the same plain data.
        const edit = () => editHistory(history, trim, provider);
        const share = bytes >> 2;
        let ids = 0;

        for (const { prompt, turns, end } of exchanges) {
          const question = provider.compose(USER, prompt);
          if (question.length > bytes >> 1) continue;
          const before = messagesOf(history);
          expect(edit().append(question, USER)).toBe(true);
          const asked = JSON.parse(Buffer.from(question, "latin1").toString("utf8"));
          // Older exchanges go whole, and only as far as they must.
          const after = messagesOf(history);
          expect(after.at(-1)).toEqual(asked);
          expect(before.slice(before.length - after.length + 1)).toEqual(after.slice(0, -1));

          let running = true;
          for (const [number, { text: said, echo, calls }] of turns.entries()) {
            const made = calls.map(({ id, name, value }) => ({
              id: id || `call_${++ids}`,
              name,
              arguments: toJson({ value: cutUtf8(value, Math.floor(share / 10)) }),
            }));
            const kind = echo ? ECHO_CALLS : CALLS;
            const thought = cutUtf8(echo, share);
            const fits = edit().append(provider.compose(kind, cutUtf8(said, share >> 2), made, false, thought), kind);
            checkMessages(messagesOf(history), { trim, asked });
            checkEcho(messagesOf(history), thought);
            if (!fits) refused++;
            running = fits;
            const last = number === turns.length - 1;
            for (let i = 0; running && i < made.length; i++) {
              if (last && typeof end === "number" && i >= end) {
                running = false;
                break;
              }
              let content = calls[i]!.result;
              while (content.length > 64 && toJson(content).length > share)
                content = limitText(content, content.length >> 1);
              const json = provider.compose(RESULT, content, [made[i]!], calls[i]!.isError);
              if (!edit().append(json, RESULT)) {
                running = false;
                refused++;
                break;
              }
              kept++;
              const now = messagesOf(history);
              checkMessages(now, { trim, asked });
              // The newest result is whole, and the turn it belongs to is there.
              expect(now.at(-1)).toEqual(JSON.parse(Buffer.from(json, "latin1").toString("utf8")));
              expect(now.at(-2 - i)!.tool_calls).toHaveLength(made.length);
            }
            if (!running) break;
          }
          if (running && typeof end === "string") {
            let said = limitText(end, share);
            while (said.length > 64 && toJson(said).length > share) said = limitText(said, said.length >> 1);
            const answer = provider.compose(ANSWER, said);
            if (edit().append(answer, ANSWER)) {
              expect(messagesOf(history).at(-1)).toEqual(JSON.parse(Buffer.from(answer, "latin1").toString("utf8")));
              checkEcho([...messagesOf(history), { role: "user" }]);
            }
          } else {
            edit().rollback(true);
            // The question stays, so that "continue" has something to go on.
            expect(messagesOf(history).at(-1)).toEqual(asked);
          }
          checkMessages(messagesOf(history), { trim, asked });
        }
      }),
      { numRuns: 400 },
    );
    expect(kept).toBeGreaterThan(refused);
  });

  it("drops whole exchanges, oldest first", () => {
    const history = createHistory(1024);
    const append = (json: string, kind: number) => editHistory(history, 5, provider).append(json, kind);
    const add = { id: "1", name: "add", arguments: "{}" };
    append(provider.compose(USER, "one"), USER);
    append(provider.compose(CALLS, "", [add]), CALLS);
    append(provider.compose(RESULT, "2", [add]), RESULT);
    append(provider.compose(ANSWER, "two"), ANSWER);
    append(provider.compose(USER, "three"), USER);
    expect(messagesOf(history).map((message) => message.role)).toEqual([
      "user",
      "assistant",
      "tool",
      "assistant",
      "user",
    ]);
    append(provider.compose(ANSWER, "four"), ANSWER);
    expect(messagesOf(history).map((message) => message.content)).toEqual(["three", "four"]);
  });

  it("shortens the oldest results of a long run, then drops its oldest turns, and keeps its question", () => {
    const history = createHistory(2048);
    const append = (json: string, kind: number) => editHistory(history, 64, provider).append(json, kind);
    append(provider.compose(USER, "question"), USER);
    for (let i = 0; i < 20; i++) {
      const one = { id: `c${i}`, name: "read_file", arguments: '{"path":"a"}' };
      expect(append(provider.compose(CALLS, "", [one]), CALLS)).toBe(true);
      expect(append(provider.compose(RESULT, `${i} ${"x".repeat(480)}`, [one]), RESULT)).toBe(true);
      const messages = messagesOf(history);
      expect(messages[0]).toEqual({ role: "user", content: "question" });
      expect(messages.at(-1).content).toMatch(new RegExp(`^${i} x{480}$`));
      checkMessages(messages, { trim: 64, asked: messages[0] });
    }
    expect(messagesOf(history).filter((message) => /shortened/.test(message.content)).length).toBeGreaterThan(2);
  });

  it("refuses a message that is larger than everything, and changes nothing", () => {
    const history = createHistory(1024);
    const edit = editHistory(history, 24, provider);
    edit.append(provider.compose(USER, "hello"), USER);
    edit.append(provider.compose(ANSWER, "hi"), ANSWER);
    const before = messagesOf(history);
    expect(edit.append(provider.compose(USER, "x".repeat(1024)), USER)).toBe(false);
    expect(messagesOf(history)).toEqual(before);
    const fill = provider.compose(USER, "x".repeat(1023 - provider.compose(USER, "").length));
    expect(edit.append(fill, USER)).toBe(true);
    expect(history.used).toBe(1024);
  });

  it("rolls nothing back where there is nothing", () => {
    const history = createHistory(1024);
    editHistory(history, 24, provider).rollback(true);
    expect(history).toMatchObject({ used: 0, sizes: [] });
  });

  it("keeps the files of a turn with its results, and those of a prompt with the prompt", () => {
    const letters: Record<number, string> = { [USER]: "u", [ANSWER]: "a", [CALLS]: "c", [RESULT]: "r", [RESULT + 1]: "r" };
    letters[USER + HAS_MEDIA] = "U";
    letters[RESULT + HAS_MEDIA] = "M";
    const media = '{"type":"text","text":"cat.jpg"},\x01image/jpeg|5||cat.jpg\x02';
    const step = fc.record({ turns: fc.array(fc.record({ results: fc.integer({ min: 1, max: 4 }), media: fc.boolean() }), { maxLength: 5 }), media: fc.boolean(), size: fc.nat(300) });
    fc.assert(
      fc.property(settings, fc.array(step, { maxLength: 8 }), ({ bytes, trim }, steps) => {
        const history: History = createHistory(bytes);
        const add = (kind: number, ...rest: any[]): boolean =>
          editHistory(history, trim, provider).append(provider.compose(kind, ...(rest as [string])), kind);
        for (const { turns, media: shows, size } of steps) {
          const prompt = "x".repeat(size % 200);
          expect(shows ? add(USER + HAS_MEDIA, prompt, undefined, false, media) : add(USER, prompt)).toBe(true);
          for (const turn of turns) {
            const calls = Array.from({ length: turn.results }, (_, i) => ({ id: `c${i}`, name: "add", arguments: "{}" }));
            if (!add(CALLS, "", calls)) break;
            if (!calls.every((call) => add(RESULT, "y".repeat(size), [call]))) break;
            if (turn.media && !add(RESULT + HAS_MEDIA, "", undefined, false, media)) break;
            const kinds = history.sizes.map((one) => letters[one & 15]).join("");
            expect(kinds).toMatch(/^([uU](cr+M?)*a?)*$/);
            if (/[UM]/.test(kinds)) expect(history.media).toBe(true);
          }
          add(ANSWER, "z");
        }
      }),
    );
  });
});
