/** OpenAI's and Anthropic's own clients against the gateway: slim streams are streams to them, and faults are faults. */
import path from "node:path";
import { pathToFileURL } from "node:url";
import { beforeAll, describe, expect, it } from "vitest";
import { raw, reply, reset, text, toolCall, type Turn } from "../fixtures/scripted-model";
import { startGateway, startModel, type TestGateway } from "../gateway/harness";
import { installClient } from "./install";

let OpenAI: any;
let Anthropic: any;
beforeAll(async () => {
  const load = async (folder: string): Promise<any> =>
    (await import(/* @vite-ignore */ pathToFileURL(path.join(folder, "index.mjs")).href)).default;
  OpenAI = await load(await installClient("openai"));
  Anthropic = await load(await installClient("@anthropic-ai/sdk"));
});

const slim = { "x-agent-slim": "1" };

async function start(turns: Turn[], isSlim = true): Promise<{ gateway: TestGateway; openai: any; anthropic: any; asked(): number }> {
  const model = await startModel(turns);
  const gateway = await startGateway({ upstream: model.url });
  const options = { apiKey: gateway.token, maxRetries: 2, defaultHeaders: isSlim ? slim : {} };
  return {
    gateway,
    openai: new OpenAI({ ...options, baseURL: `${gateway.url}/v1` }),
    anthropic: new Anthropic({ ...options, baseURL: gateway.url }),
    asked: () => model.requests.length,
  };
}

const request = { model: "scripted", messages: [{ role: "user", content: "hello" }] };
const ask = {
  openai: async ({ openai }: { openai: any }): Promise<string> => {
    let text = "";
    for await (const chunk of await openai.chat.completions.create({ ...request, stream: true }))
      text += chunk.choices[0]?.delta?.content ?? "";
    return text;
  },
  anthropic: async ({ anthropic }: { anthropic: any }): Promise<string> => {
    const message = await anthropic.messages.stream({ ...request, max_tokens: 100 }).finalMessage();
    return message.content.map((block: any) => block.text ?? JSON.stringify(block.input)).join("");
  },
};
type Api = keyof typeof ask;

/** A message of Anthropic's API as a stream: text, and a call. */
const messageEvents = [
  { type: "message_start", message: { id: "m", type: "message", role: "assistant", content: [], usage: { input_tokens: 2 } } },
  { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
  { type: "ping" },
  { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Grü" } },
  { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "ße" } },
  { type: "content_block_stop", index: 0 },
  { type: "content_block_start", index: 1, content_block: { type: "tool_use", id: "t", name: "add", input: {} } },
  { type: "content_block_delta", index: 1, delta: { type: "input_json_delta", partial_json: '{"a":' } },
  { type: "content_block_delta", index: 1, delta: { type: "input_json_delta", partial_json: "1}" } },
  { type: "content_block_stop", index: 1 },
  { type: "message_delta", delta: { stop_reason: "tool_use", stop_sequence: null }, usage: { output_tokens: 7 } },
  { type: "message_stop" },
].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);

describe.each([
  ["whole", false],
  ["slim", true],
])("a %s stream", (_name, isSlim) => {
  it("is one to OpenAI's client, with its call and its usage", async () => {
    const { openai } = await start([[text("Grü", "ße"), toolCall("add", { a: 1 })]], isSlim);
    const runner = openai.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
    const { choices, usage } = await runner.finalChatCompletion();
    expect(choices[0].message.content).toBe("Grüße");
    expect(choices[0].message.tool_calls).toMatchObject([{ function: { name: "add", arguments: '{"a":1}' } }]);
    expect(choices[0].finish_reason).toBe("tool_calls");
    expect(usage).toMatchObject({ prompt_tokens: 100, completion_tokens: 10 });
  });

  it("is one to Anthropic's client, with its call and its usage", async () => {
    const { anthropic } = await start([raw(messageEvents)], isSlim);
    const message = await anthropic.messages.stream({ ...request, max_tokens: 100 }).finalMessage();
    expect(message).toMatchObject({
      content: [
        { type: "text", text: "Grüße" },
        { type: "tool_use", name: "add", input: { a: 1 } },
      ],
      stop_reason: "tool_use",
      usage: { output_tokens: 7 },
    });
  });
});

describe.each<[Api]>([["openai"], ["anthropic"]])("%s's client", (api) => {
  it.each<[string, Turn, RegExp]>([
    ["the gateway's key", reply(401, { error: { message: "bad" } }), /502 .*GATEWAY_UPSTREAM_KEY/],
    ["a page", reply(200, "<html>"), /502 .*with an HTML page/],
    ["a quota", reply(429, { error: { message: "used up", code: "insufficient_quota" } }), /429 .*used up/],
  ])("does not ask again what that does not cure: %s", async (_name, turn, message) => {
    const started = await start([turn]);
    await expect(ask[api](started)).rejects.toThrow(message);
    expect(started.asked()).toBe(1);
  });

  it("asks again where that may help", async () => {
    const answer = api === "openai" ? [text("at last")] : raw(messageEvents);
    const busy = reply(503, { error: { message: "busy" } }, { "retry-after": "0" });
    const started = await start([busy, answer]);
    expect(await ask[api](started)).toMatch(/^(at last|Grüße)/);
    expect(started.asked()).toBe(2);
  });

  it("is told of a fault in a stream, and of a cut", async () => {
    const refused = { type: "error", error: { type: "authentication_error", code: 401, message: "no key" } };
    const told = await start([raw([`data: ${JSON.stringify(refused)}\n\n`])]);
    await expect(ask[api](told)).rejects.toThrow(/GATEWAY_UPSTREAM_KEY/);
    const cut = await start([reset(messageEvents.slice(0, 4))]);
    await expect(ask[api](cut)).rejects.toThrow(/terminated|closed|reset|aborted/i);
  });
});
