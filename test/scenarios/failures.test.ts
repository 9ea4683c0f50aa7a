import { createServer, type AddressInfo } from "node:net";
import { describe, expect } from "vitest";
import { hang, raw, reply, reset, streamEvents, text, toolCall } from "../fixtures/scripted-model";
import { defaultSettings } from "../drivers/types";
import { scenario } from "./scenario";

// A port of this computer that nobody listens on.
async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

const events = (parts: Parameters<typeof streamEvents>[0]): string[] => streamEvents(parts, () => "call_x");

const failed = (says: RegExp): object => ({
  type: "final",
  stopReason: "transportError",
  isError: true,
  message: expect.stringMatching(says),
});

describe("a server that does not answer as it should", () => {
  const refused = { settings: { retries: 1 }, turns: [text("back again")], allow: /ERROR: Connect failed/ };
  scenario("is not there: one retry, a clear line, and the board works on", refused, async ({ board }) => {
    await board.runLine(`set_config({baseUrl:"http://127.0.0.1:${await closedPort()}/v1"})`);
    const run = await board.ask("hello");
    expect(run.filter((event) => event.type === "retry")).toMatchObject([{ attempt: 1, waitMs: expect.any(Number) }]);
    expect(run.at(-1)).toMatchObject(failed(/no answer.*baseUrl/));
    await board.expectOutput("baseUrl");
    await board.runLine(`set_config({baseUrl:"${board.baseUrl}"})`);
    expect((await board.ask("hello")).at(-1)).toMatchObject({ text: "back again" });
  });

  const tls = { settings: { retries: 0 }, allow: /ERROR: Connect failed|mbedtls|ERROR: / };
  scenario("is asked by https: one warning since power-up, of what that is worth", tls, async ({ board }) => {
    await board.runLine(`set_config({baseUrl:"https://127.0.0.1:${await closedPort()}/v1"})`);
    const warnings = async (): Promise<string[]> =>
      (await board.ask("hello")).flatMap((event) => (event.type === "error" ? [event.message] : []));
    expect(await warnings()).toEqual([expect.stringMatching(/^https on this board checks no certificate/)]);
    expect(await warnings()).toEqual([]);
  });

  const page = "<!DOCTYPE html><html><body><h1>Log in to the Wi-Fi</h1></body></html>";
  scenario("answers with a page and 200", {
    turns: [reply(200, page, { "content-type": "text/html" })],
  }, async ({ board }) => {
    expect((await board.ask("hello")).at(-1)).toMatchObject(failed(/HTML.*baseUrl/));
    expect(board.output()).not.toContain("Log in");
  });

  scenario("answers with a page and 404", {
    turns: [reply(404, page, { "content-type": "text/html" })],
  }, async ({ board }) => {
    expect((await board.ask("hello")).at(-1)).toMatchObject(failed(/404.*baseUrl/));
  });

  scenario("refuses the key, and says which: the key is in no output", {
    turns: [reply(401, { error: { message: `Incorrect API key provided: ${defaultSettings.apiKey}` } })],
  }, async ({ board }) => {
    expect((await board.ask("hello")).at(-1)).toMatchObject(failed(/401.*apiKey/));
    await board.runLine("show_llm_config");
    await board.runLine("status()");
  });

  scenario("is overloaded once: Retry-After is kept to", {
    turns: [reply(429, { error: { message: "slow down" } }, { "Retry-After": "1" }), text("here I am")],
  }, async ({ board }) => {
    const run = await board.ask("hello");
    const retry = run.find((event) => event.type === "retry");
    expect(retry).toMatchObject({ attempt: 1, reason: expect.stringContaining("429") });
    expect(retry!.waitMs).toBeGreaterThanOrEqual(1000);
    expect(run.at(-1)).toMatchObject({ text: "here I am", stopReason: "done" });
  });

  const date = "Wed, 21 Oct 2015 07:28:00 GMT";
  const until = (time: string): Record<string, string> => ({ "Retry-After": time, Date: date });
  scenario("names a time to ask again at: it counts from the server's own clock", {
    turns: [reply(503, "later", until("Wed, 21 Oct 2015 07:28:02 GMT")), text("here I am")],
  }, async ({ board }) => {
    const run = await board.ask("hello");
    const retry = run.find((event) => event.type === "retry");
    expect(retry!.waitMs).toBe(2000);
    expect(run.at(-1)).toMatchObject({ text: "here I am", stopReason: "done" });
  });

  scenario("names a time that is too long to wait for", {
    turns: [reply(429, "later", until("Wed, 21 Oct 2015 08:28:00 GMT"))],
  }, async ({ board }) => {
    const run = await board.ask("hello");
    expect(run.filter((event) => event.type === "retry")).toEqual([]);
    expect(run.at(-1)).toMatchObject(failed(/asks to wait 3600 s/));
  });

  scenario("names a time that has passed, or none at all: the normal wait", {
    turns: [reply(503, "a", until("Wed, 21 Oct 2015 07:27:00 GMT")), reply(503, "b", until("soon")), text("here I am")],
  }, async ({ board }) => {
    const run = await board.ask("hello");
    const waits = run.flatMap((event) => (event.type === "retry" ? [event.waitMs] : []));
    // 1 s and 2 s, a quarter more or less.
    expect(waits.map((wait) => Math.abs(Math.log2(wait / 1000)) < 2)).toEqual([true, true]);
    expect(run.at(-1)).toMatchObject({ text: "here I am" });
  });

  scenario("is broken for good: the last attempt's reason", {
    settings: { retries: 1 },
    turns: [reply(500, "oh no"), reply(503, { error: "model is loading" })],
  }, async ({ board }) => {
    expect((await board.ask("hello")).at(-1)).toMatchObject(failed(/503.*model is loading/));
  });

  // The gateway's own words, which name its setting.
  const said = "gateway: api.example.com refused the gateway's own key (401): check GATEWAY_UPSTREAM_KEY. The board's apiKey is right";
  scenario("says that asking again is no use: it is not asked again, and nothing is added to its words", {
    settings: { retries: 3 },
    turns: [reply(502, { error: { message: said } }, { "X-Should-Retry": "false" }), text("it was set right")],
  }, async ({ board, model }) => {
    const run = await board.ask("hello");
    expect(run.map((event) => event.type)).toEqual(["iterationStart", "final"]);
    expect(run.at(-1)).toMatchObject(failed(/502: gateway: [^()]*\(401\): [^()]* The board's apiKey is right$/));
    expect(model.requests).toHaveLength(1);
    expect((await board.ask("hello")).at(-1)).toMatchObject({ text: "it was set right" });
  });

  scenario("resets before the headers, then answers", { turns: [reset(), text("second try")] }, async ({ board }) => {
    const run = await board.ask("hello");
    expect(run.some((event) => event.type === "retry")).toBe(true);
    expect(run.at(-1)).toMatchObject({ text: "second try" });
  });

  scenario("resets in the middle of a tool call: the call is not run, the attempt repeated", {
    turns: [reset(events([toolCall("gpio_write", { pin: 5, value: 1 })]).slice(0, 3)), text("nothing done")],
  }, async ({ board }) => {
    const run = await board.ask("turn on pin 5");
    expect(run.some((event) => event.type === "toolStart")).toBe(false);
    expect(run.at(-1)).toMatchObject({ text: "nothing done" });
  });

  scenario("resets after text was shown: no repetition, and \"continue\" has the prompt", {
    turns: [reset(events([text("The answer ", "is 4")]).slice(0, 2)), text("is 42.")],
  }, async ({ board, model }) => {
    expect((await board.ask("what is the answer?")).at(-1)).toMatchObject(failed(/cut off|connection/));
    await board.ask("continue");
    expect(model.requests[1]!.json.messages.slice(1)).toEqual([
      { role: "user", content: "what is the answer?\n\ncontinue" },
    ]);
  });

  scenario("falls silent: idleTimeoutMs ends it", {
    settings: { idleTimeoutMs: 1000 },
    turns: [hang(events([text("Well")]).slice(0, 2)), text("hello")],
  }, async ({ board }) => {
    expect((await board.ask("hello")).at(-1)).toMatchObject(failed(/idleTimeoutMs/));
    expect((await board.ask("hello?")).at(-1)).toMatchObject({ text: "hello" });
  });

  scenario("reports an error inside the stream", {
    turns: [raw([`data: ${JSON.stringify({ error: { message: "context too long", code: 400 } })}\n\n`])],
  }, async ({ board }) => {
    expect((await board.ask("hello")).at(-1)).toMatchObject(failed(/context too long/));
  });

  scenario("sends a line longer than sseLineBytes: it is left out with a warning", {
    settings: { sseLineBytes: 512 },
    turns: [raw(events([text("short ", "long ".repeat(200), "end")]))],
  }, async ({ board }) => {
    const run = await board.ask("hello");
    const warning = run.find((event) => event.type === "error");
    expect(warning).toMatchObject({ message: expect.stringContaining("sseLineBytes") });
    expect(run.at(-1)).toMatchObject({ text: "short end" });
  });

  const whole = { message: { role: "assistant", content: "all at once" }, finish_reason: "stop" };
  scenario("answers whole instead of streaming", {
    turns: [reply(200, { choices: [whole] })],
  }, async ({ board }) => {
    expect((await board.ask("hello")).at(-1)).toMatchObject({ text: "all at once", stopReason: "done" });
  });

  // CR LF line ends, a comment in between, and no piece that ends where something else does. The interpreter's stack
  // gets deeper with each chunk that comes in one read of its socket: forty here.
  const lines = [": ping\n\n", ...events([text("Grüße"), toolCall("add", { a: 1, b: 2 })])].join("");
  const bytes = Buffer.from(lines.replaceAll("\n", "\r\n"));
  const pieces = Array.from({ length: Math.ceil(bytes.length / 7) }, (_, i) => bytes.subarray(7 * i, 7 * i + 7));
  scenario("sends pieces that split lines and characters", { turns: [raw(pieces), text("3")] }, async ({ board }) => {
    const run = await board.ask("add");
    expect(run.filter((event) => event.type === "textDelta").map((event) => event.text).join("")).toBe("Grüße3");
    const end = run.find((event) => event.type === "toolEnd");
    expect(end).toMatchObject({ name: "add", content: expect.stringContaining("3") });
  });
});
