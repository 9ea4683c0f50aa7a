import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { buildBundle } from "../../esbuild.config.mjs";
import { boardLiteral } from "../../cli/text";
import { serve, type LocalServer } from "../drivers/serve";
import { portDrivers, type PortBoard } from "./boards";
import { agentCode, allOutput, run } from "./program";

/** Real minutes: an interpreter on a busy machine types a bundle of 100 kB. */
const longMs = 240_000;

let dir: string;
beforeEach(async () => void (dir = await mkdtemp(path.join(tmpdir(), "flash-"))));
afterEach(() => rm(dir, { recursive: true }));

const secrets = ["sk-hidden-key", "tok-hidden", "sk-hidden-search"];

describe.each(portDrivers())("flash, console and doctor on $name", (driver) => {
  let board: PortBoard;
  let server: LocalServer;
  const requests: { path: string; authorization: string | null; body: unknown }[] = [];
  beforeAll(async () => {
    board = await driver.start();
    server = await serve(
      async (request) => {
        const authorization = request.headers.get("authorization");
        requests.push({ path: new URL(request.url).pathname, authorization, body: await request.json() });
        const answer = { choices: [{ message: { role: "assistant", content: "o" }, finish_reason: "length" }] };
        const isRefused = authorization !== "Bearer tok-hidden";
        const error = { error: { message: `wrong token ${authorization}` } };
        return Response.json(isRefused ? error : answer, {
          status: isRefused ? 401 : 200,
          headers: { "content-length": String(JSON.stringify(isRefused ? error : answer).length) },
        });
      },
      (problem) => expect.fail(problem),
    );
  });
  afterAll(async () => {
    await board.stop();
    await server.close();
  });

  const send = (text: string, expected: string, timeout = 20) =>
    run(["console", "--port", board.port, "--send", text, "--expect", expected, "--timeout", String(timeout)]);

  async function files(): Promise<string> {
    const { out } = await send('JSON.stringify(require("Storage").list())', '="[');
    return /^="(\[.*\])"$/m.exec(out)![1]!.replace(/\\"/g, '"');
  }

  it("flash installs, an update replaces, the same again does nothing", { timeout: longMs }, async () => {
    if (driver.isOwn) await send('require("Storage").eraseAll()', "=");
    const first = await run(["flash", "--port", board.port], { bundle: agentCode("old") });
    expect(first).toMatchObject({ code: 0, err: "" });
    expect(first.out).toMatch(/^board: \S+ with Espruino \d+v\d+/m);
    expect(first.out).toMatch(/^agent: \d+ bytes written, CRC read back, tried$/m);
    expect(first.out).toMatch(/^boot: \.bootcde starts the agent/m);

    const update = await run(["flash", "--port", board.port, "--json"], { bundle: agentCode("new", 5000) });
    expect(update).toMatchObject({ code: 0, err: "" });
    const json = JSON.parse(update.out);
    expect(json).toMatchObject({
      ok: true,
      agent: { bytes: agentCode("new", 5000).length, isChanged: true, method: "packets" },
      isStarted: true,
    });
    expect((await send("agentName", '="new"')).code).toBe(0);

    const again = await run(["flash", "--port", board.port], { bundle: agentCode("new", 5000) });
    expect(again.code).toBe(0);
    expect(again.out).toMatch(/the same \d+ bytes are on the board already/);
    if (!driver.isOwn) return;
    expect((JSON.parse(await files()) as string[]).sort()).toEqual([".bootcde", "agent"]);
    await board.powerCycle();
    expect((await send('require("agent"),7', "=7")).code).toBe(0);
  });

  it("--no-boot takes out what flash has put before a .bootcde of one's own", { timeout: longMs }, async () => {
    if (!driver.isOwn) return;
    const own = 'var mine=1; // "Grüße" */';
    await send(`require("Storage").write(".bootcde",${JSON.stringify(own)})`, "=true");
    const put = await run(["flash", "--port", board.port]);
    expect(put).toMatchObject({ code: 0 });
    expect(put.out).toMatch(/was put before the code that was there/);
    const read = 'print("["+require("Storage").read(".bootcde")+"]")';
    expect((await send(read, "]")).out).toContain(`[require("agent");\n${own}]`);
    expect((await send("mine", "=1")).code).toBe(0);
    const out = await run(["flash", "--port", board.port, "--no-boot"]);
    expect(out).toMatchObject({ code: 0 });
    expect((await send(read, "]")).out).toContain(`[${own}]`);
    await send('require("Storage").erase(".bootcde")', "=");
  });

  it("settings are laid over the board's own, and no secret is shown", { timeout: longMs }, async () => {
    if (!driver.isOwn) return;
    await send('require("Storage").erase("agent.json")', "=");
    const file = path.join(dir, "agent.json");
    const settings = {
      model: "qwen3",
      systemPrompt: 'Größe 🙂 "x"',
      apiKey: secrets[0],
      searchKey: secrets[2],
      retries: 1,
    };
    await writeFile(file, JSON.stringify(settings));
    expect(await run(["flash", "--port", board.port, "--config", file])).toMatchObject({ code: 0, err: "" });
    const url = server.url;
    const wrong = await run(["doctor", "--port", board.port]);
    expect(wrong.code).toBe(1);
    expect(wrong.out).toMatch(/^✗ settings +no server is set$/m);

    const flashed = await run(["flash", "--port", board.port, "--gateway", url], {
      env: { AGENT_TOKEN: "tok-hidden" },
    });
    expect(flashed).toMatchObject({ code: 0, err: "" });
    const prompt = boardLiteral("Größe 🙂");
    const check =
      '(function(s,t){s=require("Storage");t=s.readJSON("agent.json");' +
      `print(t.model,t.retries,t.baseUrl,s.read("agent.json").indexOf(${prompt})>0)})()`;
    const { out } = await send(check, "true");
    expect(out).toMatch(new RegExp(`qwen3 1 ${url}/v1 true`));

    const well = await run(["doctor", "--port", board.port, "--json"]);
    expect(well.err).toBe("");
    const { ok, checks } = JSON.parse(well.out) as {
      ok: boolean;
      checks: { name: string; status: string; text: string }[];
    };
    expect(checks.filter(({ status }) => status === "wrong")).toEqual([]);
    expect({ ok, code: well.code }).toEqual({ ok: true, code: 0 });
    expect(checks.map(({ name }) => name)).toEqual(
      expect.arrayContaining([
        "node",
        "port",
        "board",
        "firmware",
        "variables",
        "agent",
        "boot",
        "settings",
        "keys",
        "wifi",
        "model",
      ]),
    );
    expect(checks.find(({ name }) => name === "keys")!.text).toMatch(/searchKey/);
    expect(requests.at(-1)).toEqual({
      path: "/v1/chat/completions",
      authorization: "Bearer tok-hidden",
      body: { model: "qwen3", max_tokens: 1, messages: [{ role: "user", content: "ok" }] },
    });

    await run(["flash", "--port", board.port, "--gateway", url, "--token", "sk-hidden-key"]);
    const refused = await run(["doctor", "--port", board.port]);
    expect(refused.code).toBe(1);
    expect(refused.out).toMatch(/^✗ model +http:\S+ answers 401: wrong token Bearer \*\*\*$/m);
    expect(refused.out).toContain("wrong or revoked");
  });

  it("the gateway is down", { timeout: longMs }, async () => {
    if (!driver.isOwn) return;
    const gone = await serve(
      async () => Response.error(),
      () => {},
    );
    await gone.close();
    await run(["flash", "--port", board.port, "--gateway", gone.url]);
    const { code, out } = await run(["doctor", "--port", board.port]);
    expect(code).toBe(1);
    expect(out).toMatch(/^✗ model +nobody listens at 127\.0\.0\.1:\d+ for the board$/m);
  });

  it("a signal stops it", { timeout: longMs }, async () => {
    const signal = AbortSignal.abort(130);
    const stopped = await run(["flash", "--port", board.port], { signal });
    expect(stopped).toMatchObject({ code: 130, err: "stopped: run espruino-agent flash again\n" });
    const replacing = await run(["flash", "--port", board.port, "--replace"], { signal });
    expect(replacing).toMatchObject({ code: 130, err: "stopped: run espruino-agent flash again, with --replace\n" });
    expect((await run(["doctor", "--port", board.port], { signal })).code).toBe(130);
    expect((await run(["console", "--port", board.port, "--send", "1"], { signal })).code).toBe(130);
  });

  it("a board without Wi-Fi is told so before anything is changed", { timeout: longMs }, async () => {
    if (driver.hasWifi) return;
    const { code, err } = await run(["flash", "--port", board.port, "--wifi", "Home"], {
      env: { AGENT_WIFI_PASSWORD: "sk-hidden-key" },
    });
    expect(code).toBe(1);
    expect(err).toMatch(/^--wifi: this firmware \(\S+\) has no Wi-Fi module; nothing was changed$/m);
  });

  it("console sends, expects and reads UTF-8", { timeout: longMs }, async () => {
    expect(await send("6*7", "=42")).toMatchObject({ code: 0, err: "" });
    expect((await send('print("Grüße 🙂","é")', "Grüße 🙂 é")).code).toBe(0);
    // What is typed is no answer.
    const missing = await send('print("a"+"b") // ab', "ab // never", 1);
    expect(missing.code).toBe(1);
    expect(missing.err).toBe('"ab // never" was not printed within 1 s\n');
    const later = await send('setTimeout(function(){print("la"+"ter")},300)', "later");
    expect(later).toMatchObject({ code: 0, err: "" });
    const piped = await run(["console", "--port", board.port], { stdin: "function f() {\n  return 5;\n}\nf()+1\n" });
    expect(piped).toMatchObject({ code: 0, err: "" });
    expect(piped.out).toContain("=6");
  });

  it("console leaves a loop that runs, and a line that was begun", { timeout: longMs }, async () => {
    const loop = await run(["console", "--port", board.port, "--send", "while(true);", "--timeout", "1"]);
    // This simulated board is in the process of its client, and has to end the loop.
    if (driver.name !== "sim")
      expect(loop).toMatchObject({ code: 1, err: "the prompt did not come back within 1 s\n" });
    expect((await send("6*7", "=42")).code).toBe(0);
    await run(["console", "--port", board.port, "--send", "print(1", "--expect", "never", "--timeout", "0.5"]);
    expect((await send("6*7", "=42")).code).toBe(0);
  });

  it("flash tells where the person's own code behind the agent's line hangs, and so does doctor", {
    timeout: longMs,
  }, async () => {
    // A loop on the simulated board would stop the clock of its client, too.
    if (!driver.isOwn || driver.name === "sim") return;
    await send('require("Storage").write(".bootcde","if(global.agentName)while(true)print(\\"x\\")")', "=true");
    const { code, out, err } = await run(["flash", "--port", board.port]);
    expect(code).toBe(1);
    expect(out).not.toContain("The agent runs");
    expect(err).toMatch(/^everything is on the board, but the board does not answer after .* loaded; it prints "x"/);
    expect(err).toMatch(/\.bootcde has \d+ bytes of code of your own/);
    await board.powerCycle();
    const doctor = await run(["doctor", "--port", board.port]);
    expect(doctor.out).toMatch(/^✗ boot code +\.bootcde has \d+ bytes of code of your own; the board gave no prompt/m);
    await send('require("Storage").erase(".bootcde")', "=");
  });

  it("console says where the input is not complete, and takes it back", { timeout: longMs }, async () => {
    const open = await run(["console", "--port", board.port, "--send", "function f(){", "--timeout", "10"]);
    expect(open).toMatchObject({ code: 1, err: expect.stringMatching(/^the input is not complete: [^\n]+\n$/) });
    const again = await run(["console", "--port", board.port, "--send", "40+2"]);
    expect(again).toMatchObject({ code: 0, err: "", out: expect.stringContaining("=42") });
    const piped = await run(["console", "--port", board.port], { stdin: "if (1) {\n  print(6*7)\n" });
    expect(piped).toMatchObject({ code: 1, err: expect.stringContaining("not complete") });
  });

  it("a board without echo is no slower, and it is told", { timeout: longMs }, async () => {
    if (!driver.isOwn) return;
    expect(await run(["console", "--port", board.port, "--send", "echo(0)"])).toMatchObject({ code: 0, err: "" });
    const told = "the board's echo is off: it shows neither its prompt nor results; echo(1) turns it on\n";
    const one = await run(["console", "--port", board.port, "--send", "print(6*7)", "--expect", "42"]);
    expect(one).toMatchObject({ code: 0, err: told, out: "42\n" });
    const two = await run(["console", "--port", board.port, "--send", "print('Grü'+'ße')"]);
    expect(two).toMatchObject({ code: 0, err: told, out: "Grüße\n" });
    expect((await run(["console", "--port", board.port, "--send", "echo(1)"])).code).toBe(0);
    expect(await run(["console", "--port", board.port, "--send", "40+2"])).toMatchObject({ code: 0, err: "" });
  });

  it("the bundle of this repository: flash, then the agent answers at the console", { timeout: longMs }, async () => {
    const { code: bundle, problems } = await buildBundle({ write: false });
    expect(problems).toEqual([]);
    // On Espruino's Linux build there is no room for an agent and this bundle.
    const args = ["--replace", "--gateway", server.url, "--token", "tok-hidden"];
    const flashed = await run(["flash", "--port", board.port, ...args], { bundle });
    expect(flashed).toMatchObject({ code: 0, err: "" });
    expect((await send("status", "idle; model")).code).toBe(0);
    // In the chat, so that it has to be left.
    expect((await send("main_loop_entry", "you> ")).code).toBe(0);
    const doctor = await run(["doctor", "--port", board.port, "--json"], { bundle });
    const { checks } = JSON.parse(doctor.out);
    expect(checks).toContainEqual(
      expect.objectContaining({ name: "board", text: expect.stringContaining("left the agent's chat") }),
    );
    expect(checks).toContainEqual(expect.objectContaining({ name: "agent", status: "ok" }));
  });

  it("no secret was printed by any of them", () => {
    for (const text of allOutput) for (const secret of secrets) expect(text).not.toContain(secret);
    expect(allOutput.length).toBeGreaterThan(10);
  });
});

it.skipIf(!existsSync("/dev/null"))("a port that is none", async () => {
  const { code, err } = await run(["flash", "--port", "/dev/null"]);
  expect(code).toBe(1);
  expect(err.trim().split("\n")).toHaveLength(1);
});
