import { describe, expect, it, onTestFinished } from "vitest";
import type { GatewayOptions } from "../../gateway/server";
import { simDriver } from "../drivers/sim";
import type { TestBoard } from "../drivers/types";
import { raw, reply, reset, scriptedModel, text, toolCall, type Turn } from "../fixtures/scripted-model";
import { startGateway, startModel, startUpstream, UPSTREAM_KEY, type TestGateway } from "./harness";

/** The firmware on a simulated board that asks the gateway. */
async function startBoard(gateway: TestGateway, settings: Record<string, unknown> = {}): Promise<TestBoard> {
  const board = await simDriver().start({
    model: scriptedModel([]),
    settings: { baseUrl: `${gateway.url}/v1`, apiKey: gateway.token, model: "scripted", retries: 0, ...settings },
  });
  onTestFinished(() => board.stop());
  return board;
}

async function askThrough(
  turns: Turn[],
  options: Partial<GatewayOptions> = {},
  settings: Record<string, unknown> = {},
) {
  const model = await startModel(turns);
  const gateway = await startGateway({ upstream: model.url, ...options });
  const board = await startBoard(gateway, settings);
  const final = (await board.ask("go")).at(-1);
  const seen = board.output() + JSON.stringify(board.events()) + gateway.lines.join("");
  expect(seen).not.toContain(UPSTREAM_KEY.slice(3, 12));
  expect(seen).not.toContain(gateway.token);
  return { model, gateway, board, final };
}

describe("a board behind the gateway", () => {
  it("runs its tools and answers", async () => {
    const { model, final, gateway } = await askThrough([toolCall("mul", { a: 21, b: 2 }), [text("Grüße: ", "42")]]);
    expect(final).toMatchObject({ type: "final", stopReason: "done", text: "Grüße: 42" });
    model.expectAllUsed();
    expect(model.requests.map(({ headers }) => headers.authorization)).toEqual([
      `Bearer ${UPSTREAM_KEY}`,
      `Bearer ${UPSTREAM_KEY}`,
    ]);
    expect(gateway.logged().filter((line) => line.outcome === "done")).toHaveLength(2);
  });

  it.each<[string, Turn[], Partial<GatewayOptions>, Record<string, unknown>, RegExp]>([
    [
      "the gateway's key",
      [reply(401, { error: { message: `Incorrect API key provided: ${UPSTREAM_KEY}` } })],
      {},
      {},
      /502: gateway: .*GATEWAY_UPSTREAM_KEY.*apiKey is right\. It says: [^()]*$/,
    ],
    [
      "the gateway's key, in a stream",
      [raw(['data: {"error":{"message":"No auth credentials found","code":401}}\n\n'])],
      {},
      {},
      /400: gateway: .*GATEWAY_UPSTREAM_KEY.*apiKey is right\. It says: No auth[^()]*$/,
    ],
    [
      "the gateway's key, in a stream of messages",
      [raw(['data: {"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}\n\n'])],
      {},
      { provider: "anthropic" },
      /400: gateway: .*GATEWAY_UPSTREAM_KEY.*apiKey is right\. It says: invalid[^()]*$/,
    ],
    [
      "the board's token",
      [],
      {},
      { apiKey: "eagw_another" },
      /401: gateway: the board's token is unknown.*set_config\({apiKey:"\.\.\."}\)$/,
    ],
    ["the board's model", [], { models: ["other"] }, {}, /400: gateway: .*scripted.*to one of other$/],
    [
      "the gateway's upstream",
      [reply(404, "<html>")],
      {},
      {},
      /502: gateway: .*check --upstream, is the path right\? The board's settings are right$/,
    ],
    [
      "the name of the gateway's upstream",
      [],
      { fetch: () => Promise.reject(Object.assign(new Error("x"), { code: "ENOTFOUND" })) },
      {},
      /502: gateway: no host is called .*The board's settings are right$/,
    ],
  ])("tells the person at once that it is %s", async (_name, turns, options, settings, message) => {
    const { final, board, model } = await askThrough(turns, options, { retries: 3, ...settings });
    expect(board.events().filter((event) => event.type === "retry")).toEqual([]);
    model.expectAllUsed();
    expect(final).toMatchObject({ stopReason: "transportError", message: expect.stringMatching(message) });
  });

  it("tells how long a budget is used up", async () => {
    const { board, final } = await askThrough([[text("one")]], { budgets: { requestsPerHour: 1 } });
    expect(final).toMatchObject({ stopReason: "done" });
    expect((await board.ask("again")).at(-1)).toMatchObject({
      message: expect.stringMatching(/429: gateway: desk has used 1 of its 1 requests per hour; ask again in 60 min/),
    });
  });

  it("sees a cut as a cut", async () => {
    const { final } = await askThrough([reset(['data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n'])]);
    expect(final).toMatchObject({ stopReason: "transportError", message: expect.stringContaining("cut off") });
  });

  it("sees a gateway that is killed as a cut", async () => {
    const upstream = await startUpstream((_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write('data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n');
    });
    const gateway = await startGateway({ upstream });
    // The board's clock runs ahead of the gateway's.
    const board = await startBoard(gateway, { idleTimeoutMs: 600_000, requestTimeoutMs: 900_000 });
    board.type('ask("go")\n');
    await board.expectEvent((event) => event.type === "textDelta");
    gateway.gateway.app.server.closeAllConnections();
    expect(await board.expectEvent((event) => event.type === "final")).toMatchObject({
      message: expect.stringContaining("cut off"),
    });
  });
});
