/** What `doctor` finds wrong, and the fix that it names. */
import { afterEach, describe, expect, it } from "vitest";
import type { BoardOptions } from "../../host-sim/board";
import { explainRequest } from "../../cli/doctor";
import { createStorage } from "../../host-sim/storage";
import { serve } from "../drivers/serve";
import { type PortBoard, simOnPort } from "./boards";
import { agentCode, run } from "./program";

let board: PortBoard | undefined;
afterEach(async () => {
  await board?.stop();
  board = undefined;
});

interface Check {
  name: string;
  status: string;
  text: string;
  fix?: string;
}

async function examine(
  files: Record<string, string>,
  options: BoardOptions = {},
): Promise<{ code: number; checks: Check[] }> {
  const storage = createStorage();
  for (const [name, text] of Object.entries(files))
    storage.api.write(name, Buffer.from(text, "utf8").toString("latin1"));
  board = await simOnPort({ ...options, storage }).start();
  const { code, out, err } = await run(["doctor", "--port", board.port, "--json"]);
  expect(err).toBe("");
  const { ok, checks } = JSON.parse(out) as { ok: boolean; checks: Check[] };
  expect(ok).toBe(code === 0);
  expect(out).not.toContain("sk-hidden");
  return { code, checks };
}

const agent = agentCode("new");
const boot = 'require("agent")';

describe("doctor", () => {
  it.each<[string, Record<string, string>, BoardOptions, Partial<Check>]>([
    ["no agent", {}, {}, { name: "agent", status: "wrong", text: "not on the board", fix: "Run espruino-agent flash" }],
    [
      "another build",
      { agent: agentCode("old") },
      {},
      { name: "agent", status: "wrong", text: expect.stringContaining("another build") },
    ],
    ["the same build", { agent }, {}, { name: "agent", status: "ok" }],
    [
      "an upload that was cut",
      { agent, "agent.new": "x" },
      {},
      {
        name: "agent",
        status: "wrong",
        text: expect.stringContaining("an upload was cut"),
        fix: "Run espruino-agent flash again",
      },
    ],
    ["an agent that is not started", { agent, ".bootcde": "1" }, {}, { name: "boot", status: "unknown" }],
    [
      "a .bootrst in the way",
      { agent, ".bootcde": boot, ".bootrst": "1" },
      {},
      { name: "boot", status: "wrong", fix: 'require("Storage").erase(".bootrst")' },
    ],
    [
      "code of one's own at power-up",
      { agent, ".bootcde": `${boot};\nvar mine=1;` },
      {},
      { name: "boot code", status: "unknown", text: ".bootcde has 13 bytes of code of your own" },
    ],
    ["no settings", { agent }, {}, { name: "settings", status: "wrong", fix: expect.stringContaining("set_config") }],
    [
      "settings that are no JSON",
      { "agent.json": "{" },
      {},
      { name: "settings", status: "wrong", fix: expect.stringContaining("--replace-config") },
    ],
    [
      "a wrong setting",
      { "agent.json": '{"baseUrl":"http://h/v1","retries":99,"apiKey":"sk-hidden"}' },
      { wifi: { connected: false } },
      { name: "settings", status: "wrong", text: expect.stringContaining("retries must be") },
    ],
    [
      "https on the board",
      { "agent.json": '{"baseUrl":"https://h/v1"}' },
      { wifi: { connected: false } },
      { name: "tls", status: "unknown", text: expect.stringMatching(/40 to 60 kB .* checks no certificate: use plain http/) },
    ],
    [
      "a board without Wi-Fi credentials",
      { "agent.json": '{"baseUrl":"http://h/v1"}' },
      { wifi: { connected: false } },
      { name: "wifi", status: "wrong", fix: "Run espruino-agent flash --wifi SSID" },
    ],
    [
      "a clock that is wrong by years",
      {},
      {},
      {
        name: "clock",
        status: "unknown",
        text: expect.stringMatching(/^1970-.*: not set, or lost its power$/),
        fix: expect.stringContaining("setTime("),
      },
    ],
    [
      "a clock that is years ahead",
      {},
      { timeAtBootMs: Date.UTC(2105, 5) },
      { name: "clock", status: "unknown", text: expect.stringMatching(/^2105-06-01 .*: wrong$/) },
    ],
    [
      "a clock with no date",
      {},
      { timeAtBootMs: 1e17 },
      { name: "clock", status: "unknown", text: "no date that there is: wrong" },
    ],
    ["too few variables", {}, { variables: 2000 }, { name: "variables", status: "wrong" }],
    [
      "a host that is not found",
      { "agent.json": '{"baseUrl":"http://no-such-host.invalid/v1"}' },
      {},
      { name: "model", status: "wrong", text: "the board does not find no-such-host.invalid" },
    ],
  ])("%s", async (_, files, options, check) => {
    const { checks } = await examine(files, options);
    expect(checks).toContainEqual(expect.objectContaining(check));
  });

  it.each<[number, unknown, RegExp, RegExp]>([
    [401, { error: { message: "revoked token" } }, /answers 401: revoked token/, /revoked\. .*gateway token add NAME/],
    [404, { error: { message: "no model qwen3" } }, /answers 404: no model qwen3/, /not take the model qwen3\. set/],
    [404, "nothing here", /answers 404: nothing here$/, /nothing at \/v1\/messages: baseUrl has to be/],
    [400, { error: { message: "max_tokens: too small" } }, /answers 400/, /^Does the server take the model qwen3\?/],
    [429, { error: { message: "budget used up" } }, /answers 429: budget used up/, /budget/],
    [502, { error: { message: "upstream answered 401" } }, /answers 502: upstream answered 401/, /log of the gateway/],
    [502, { error: { message: "gateway: h refused its key" } }, /: gateway: h refused its key$/, /^The board is right/],
    [
      401,
      { error: { message: `gateway: get "one" with set_config({apiKey:"..."}) ${"y".repeat(250)}.`, code: "no_token" } },
      /: gateway: get "one" with set_config\(\{apiKey:"\.\.\."\}\) y{250}\.$/,
      /token add/,
    ],
    [400, { error: { message: `"${"z".repeat(2000)}` } }, /answers 400: "z{319}\.\.\.$/, /take the model qwen3/],
    [418, "<html>tea</html>", /answers 418: <html>tea<\/html>$/, /Is there a model server/],
  ])("a server that answers %i", async (status, body, text, fix) => {
    const json = JSON.stringify(body);
    const seen: (string | null)[] = [];
    const server = await serve(
      async (request) => {
        seen.push(request.headers.get("x-api-key"));
        return new Response(json, { status, headers: { "content-length": String(json.length) } });
      },
      (problem) => expect.fail(problem),
    );
    try {
      const settings = { baseUrl: `${server.url}/v1`, provider: "anthropic", model: "qwen3", apiKey: "sk-hidden" };
      const { code, checks } = await examine({ agent, ".bootcde": boot, "agent.json": JSON.stringify(settings) });
      const model = checks.find(({ name }) => name === "model")!;
      expect(code).toBe(1);
      expect(model.text).toMatch(text);
      expect(model.fix).toMatch(fix);
      expect(seen).toEqual(["sk-hidden"]);
    } finally {
      await server.close();
    }
  });

  it("a baseUrl without /v1, and no model", async () => {
    const answer = JSON.stringify({ error: { message: "not found" } });
    const server = await serve(
      async () => new Response(answer, { status: 404, headers: { "content-length": String(answer.length) } }),
      (problem) => expect.fail(problem),
    );
    try {
      const model = async (settings: object) => {
        const { checks } = await examine({ "agent.json": JSON.stringify(settings) });
        await board!.stop();
        expect(checks.find(({ name }) => name === "keys")!.fix).toContain("gateway token add NAME");
        return checks.find(({ name }) => name === "model")!.fix;
      };
      expect(await model({ baseUrl: server.url, model: "qwen3" })).toBe(
        `baseUrl has to end in /v1 for most servers: set_config({baseUrl:"${server.url}/v1"}) at the board's console`,
      );
      expect(await model({ baseUrl: `${server.url}/v1` })).toMatch(/^No model is set, and the server wants one/);
    } finally {
      await server.close();
    }
  });

  it("a gateway that has a list of models, and no model is set", async () => {
    const said = { error: { message: 'gateway: the request names no model: set_config({model:"small"})' } };
    const answer = JSON.stringify(said);
    const server = await serve(
      async () => new Response(answer, { status: 400, headers: { "content-length": String(answer.length) } }),
      (problem) => expect.fail(problem),
    );
    try {
      const { code, checks } = await examine({ "agent.json": JSON.stringify({ baseUrl: `${server.url}/v1` }) });
      expect(code).toBe(1);
      expect(checks.find(({ name }) => name === "settings")).toMatchObject({ status: "unknown" });
      expect(checks.find(({ name }) => name === "model")).toMatchObject({
        status: "wrong",
        fix: 'No model is set, and the server wants one: set_config({model:"small"}) at the board\'s console',
      });
    } finally {
      await server.close();
    }
  });

  it.each([
    ["https://h/v1", "Not enough memory to allocate SSL socket", /^https takes 40 to 60 kB/],
    ["https://h/v1", "mbedtls_ssl_handshake returned -0x7f00", /^https takes 40 to 60 kB/],
    ["https://h/v1", "whatever", /^https takes 40 to 60 kB/],
    ["http://h/v1", "whatever", /^Is that an HTTP server\?$/],
  ])("a request to %s that fails with %s", (baseUrl, error, fix) => {
    expect(explainRequest(error, new URL(baseUrl))).toMatchObject({ 
      text: expect.stringContaining(error),
      fix: expect.stringMatching(fix),
    });
  });

  it("no code of one's own where there is none but the agent's line", async () => {
    const { checks } = await examine({ agent, ".bootcde": `${boot};\n` });
    expect(checks.map(({ name }) => name)).not.toContain("boot code");
  });

  it("names the ports where none is chosen", async () => {
    const { code, out } = await run(["doctor"]);
    expect(out).toMatch(/^✓ node +v\d+/);
    expect(out).toMatch(/^[✓✗] port /m);
    expect([0, 1]).toContain(code);
  });
});
