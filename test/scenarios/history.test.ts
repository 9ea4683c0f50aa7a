import { describe, expect } from "vitest";
import { raw, reply, text, toolCall } from "../fixtures/scripted-model";
import { scenario } from "./scenario";

describe("the history", () => {
  const prompts = Array.from({ length: 32 }, (_, i) => `prompt number ${i}: ${"please ".repeat(i % 7)}`);
  const turns = prompts.flatMap((_, i) => [
    i % 3 === 0
      ? [toolCall("add", { a: i, b: 1 }), toolCall("mul", { a: i, b: 2 })]
      : [text("Let me see. "), toolCall("word_count", { text: "a b ".repeat(i % 9) || "a" })],
    ...(i % 5 === 0 ? [toolCall("compare", { a: i, b: 3 })] : []),
    i % 4 === 0 ? text(`answer ${i} `, "and a few words more ".repeat(i % 6)) : text(`answer ${i}`),
  ]);
  for (const [name, settings] of [
    ["1 kB", { historyBytes: 1024 }],
    ["6 messages", { messageTrim: 6 }],
  ] as const) {
    const options = { settings, turns, timeoutMs: 120_000 };
    scenario(`of ${name} is trimmed by whole exchanges over 32 prompts`, options, async ({ board, model }) => {
      for (const prompt of prompts) {
        expect((await board.ask(prompt)).at(-1)).toMatchObject({ type: "final", stopReason: "done" });
        const messages = model.requests.at(-1)!.json.messages;
        expect(messages.some((message) => message.role === "user" && message.content === prompt.trim())).toBe(true);
      }
      const last = model.requests.at(-1)!.json.messages;
      expect(JSON.stringify(last)).not.toContain("prompt number 0");
    });
  }

  const small = { settings: { historyBytes: 1024 }, turns: [text("yes"), text("still here")] };
  scenario("refuses a prompt larger than itself and keeps what it had", small, async ({ board, model }) => {
    await board.ask("remember 7");
    const [refused] = await board.ask("x".repeat(1500));
    const message = expect.stringMatching(/prompt.*historyBytes/);
    expect(refused).toMatchObject({ type: "final", isError: true, message });
    await board.ask("what was it?");
    expect(model.requests[1]!.json.messages[1]).toEqual({ role: "user", content: "remember 7" });
  });

  const failing = {
    settings: { retries: 0 },
    turns: [toolCall("add", { a: 1, b: 1 }), reply(400, { error: { message: "no" } }), text("fine")],
  };
  scenario("keeps the prompt of a failed run, no half turn, no failure text", failing, async ({ board, model }) => {
    await board.ask("first");
    await board.ask("second");
    expect(model.requests[2]!.json.messages.slice(1)).toEqual([
      { role: "user", content: "first\n\nsecond" },
    ]);
  });

  const euro = "Schalte das Licht ein – für 5 €, 日本語 🙂";
  const escaped = '{"choices":[{"index":0,"delta":{"content":"\\u00dcber 5 \\u20ac \\ud83d\\ude42"}}]}';
  const stop = '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}';
  const utf8 = {
    byteStrings: true,
    turns: [
      raw([`data: ${escaped}\n\n`, `data: ${stop}\n\n`, "data: [DONE]\n\n"]),
      text("Ça", " marche 🙂"),
      [toolCall("word_count", { text: "größer – 日本語" })],
      text("2"),
    ],
  };
  scenario("carries UTF-8 in prompts, answers, arguments and results both ways", utf8, async ({ board, model }) => {
    expect((await board.ask(euro)).at(-1)).toMatchObject({ text: "Über 5 € 🙂" });
    expect((await board.ask("ça va?")).at(-1)).toMatchObject({ text: "Ça marche 🙂" });
    await board.ask("count");
    const messages = model.requests.at(-1)!.json.messages;
    expect(messages.map((message) => message.content).slice(1, 5)).toEqual([
      euro, "Über 5 € 🙂", "ça va?", "Ça marche 🙂",
    ]);
    expect(JSON.parse(messages.at(-2)!.tool_calls![0]!.function.arguments)).toEqual({ text: "größer – 日本語" });
    await board.expectOutput("Ça marche 🙂");
  });
});
