import { describe, expect } from "vitest";
import { raw, reasoning, streamEvents, text, toolCall, type Turn } from "../fixtures/scripted-model";
import { scenario } from "./scenario";

const add = (a: number): ReturnType<typeof toolCall> => toolCall("add", { a, b: 1 });
/** `reasoning_content` of every assistant message with calls, request by request. */
const echoes = (requests: { json: { messages: any[] } }[]) =>
  requests.map(({ json }) => json.messages.filter((one) => one.tool_calls).map((one) => one.reasoning_content));

/** One turn of a model that thinks before it calls `add`, or before it says `answer`. */
function claude(thinking: string, answer?: string): Turn {
  const id = `toolu_${thinking.length}`;
  const last: any = answer ? { type: "text", text: "" } : { type: "tool_use", id, name: "add", input: {} };
  const delta: any = answer
    ? { type: "text_delta", text: answer }
    : { type: "input_json_delta", partial_json: `{"a":${thinking.length},"b":1}` };
  const events = [
    { type: "message_start", message: { id: "msg_1", type: "message", role: "assistant", content: [] } },
    { type: "content_block_start", index: 0, content_block: { type: "thinking", thinking: "", signature: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking } },
    { type: "content_block_delta", index: 0, delta: { type: "signature_delta", signature: `sig-${thinking}` } },
    { type: "content_block_stop", index: 0 },
    { type: "content_block_start", index: 1, content_block: last },
    { type: "content_block_delta", index: 1, delta },
    { type: "content_block_stop", index: 1 },
    { type: "message_delta", delta: { stop_reason: answer ? "end_turn" : "tool_use" } },
    { type: "message_stop" },
  ];
  return raw(events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`));
}
const blocks = (request: { json: { messages: any[] } }) =>
  request.json.messages.filter((one) => one.role === "assistant").map((one) => one.content);
const thought = (thinking: string) => ({ type: "thinking", thinking, signature: `sig-${thinking}` });

describe("reasoning", () => {
  const twice = [[reasoning("first ", "I add"), add(1)], [reasoning("then again"), add(2)], text("3"), text("bye")];

  const echoing = { settings: { echoReasoning: true }, turns: twice };
  scenario("goes back with the calls it led to, until the run is over", echoing, async ({ board, model }) => {
    await board.ask("add");
    await board.ask("thanks");
    expect(echoes(model.requests)).toEqual([[], ["first I add"], ["first I add", "then again"], ["", ""]]);
  });

  scenario("stays here where it is not asked for", { turns: twice }, async ({ board, model }) => {
    await board.ask("add");
    await board.ask("thanks");
    expect(echoes(model.requests).flat().every((one) => one === undefined)).toBe(true);
  });

  const limited = {
    byteStrings: true,
    settings: { echoReasoning: true, reasoningBytes: 12 },
    turns: [[reasoning("0123456789 ", "äöü"), add(1)], [add(2)], text("3")],
  };
  scenario("goes back up to its limit, and as empty where there was none", limited, async ({ board, model }) => {
    await board.ask("add");
    expect(echoes(model.requests)).toEqual([[], ["0123456789 "], ["0123456789 ", ""]]);
  });

  const shown = { settings: { showReasoning: true }, turns: [[reasoning("hm\n", "so"), text("it is 3")]] };
  scenario("is shown where the person wants it, apart from the answer", shown, async ({ board }) => {
    const events = await board.ask("add");
    await board.expectOutput("it is 3");
    expect(board.output()).toMatch(/\[thinking\]\r?\nhm\r?\nso\r?\n\[answer\]\r?\nit is 3/);
    expect(events.at(-1)).toMatchObject({ text: "it is 3" });
  });

  const hidden = { turns: [[reasoning("secret thoughts"), text("it is 3")]] };
  scenario("is not shown otherwise", hidden, async ({ board }) => {
    await board.ask("add");
    await board.expectOutput("it is 3");
    expect(board.output()).not.toMatch(/secret|thinking/);
  });

  const events = streamEvents([add(1)], () => "call_1");
  const signed = events.map((event) =>
    event.replace('"id":"call_1"', '"extra_content":{"google":{"thought_signature":"c2ln/é=="}},"id":"call_1"'),
  );
  const signature = { byteStrings: true, turns: [raw(signed), text("2"), text("bye")] };
  scenario("leaves its signature on the call, for good", signature, async ({ board, model }) => {
    await board.ask("add");
    await board.ask("thanks");
    for (const request of model.requests.slice(1)) {
      const calls = request.json.messages.flatMap((one: any) => one.tool_calls ?? []);
      expect(calls).toMatchObject([{ id: "call_1", extra_content: { google: { thought_signature: "c2ln/é==" } } }]);
    }
  });

  const anthropic = {
    settings: { provider: "anthropic" },
    turns: [claude("a"), claude("bb"), claude("", "done"), claude("", "bye")],
  };
  scenario("of Anthropic's goes back whole with its signature, until the run is over", anthropic, async ({ board, model }) => {
    await board.ask("add");
    await board.ask("thanks");
    const [, second, third, fourth] = model.requests.map(blocks);
    const use = (n: number) => expect.objectContaining({ type: "tool_use", id: `toolu_${n}` });
    expect(second).toEqual([[thought("a"), use(1)]]);
    expect(third).toEqual([
      [thought("a"), use(1)],
      [thought("bb"), use(2)],
    ]);
    expect(fourth).toEqual([[use(1)], [use(2)], "done"]);
  });

  const trimmed = {
    settings: { provider: "anthropic", messageTrim: 6 },
    turns: [claude("", "hello"), claude("a"), claude("bb"), claude("ccc"), claude("", "done")],
  };
  scenario("of Anthropic's goes where the history before it is trimmed", trimmed, async ({ board, model }) => {
    await board.ask("hello");
    await board.ask("add");
    const [, , third, fourth, fifth] = model.requests.map(blocks);
    expect(third).toEqual(["hello", [thought("a"), expect.anything()]]);
    // The seventh message drops the first two, and no signature holds any more.
    expect(fourth!.flat().filter((one: any) => one.type === "thinking")).toEqual([]);
    expect(fifth!.flat().filter((one: any) => one.type === "thinking").length).toBeLessThanOrEqual(1);
  });
});
