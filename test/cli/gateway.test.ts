import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { PassThrough } from "node:stream";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readArguments } from "../../cli/arguments";
import type { Input } from "../../cli/console";
import { gatewayCommand, lanAddresses } from "../../cli/gateway";
import { UsageError } from "../../cli/settings";

const KEY = "sk-Qz7vKp2XwR9tLm4NcB8yHd3J";

let folder: string;
beforeEach(() => void (folder = mkdtempSync(path.join(tmpdir(), "gateway-cli-"))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function launch(args: string[], { env = {}, isTTY = false }: { env?: Record<string, string>; isTTY?: boolean } = {}) {
  let out = "";
  let err = "";
  let check = (): void => {};
  const stop = new AbortController();
  const write = (add: (text: string) => void) => (data: string | Uint8Array) => {
    add(String(data));
    check();
  };
  const io = {
    env: { HOME: folder, ...env },
    stdin: new PassThrough() as unknown as Input,
    stdout: { isTTY, write: write((text) => (out += text)) },
    stderr: { write: write((text) => (err += text)) },
    signal: stop.signal,
  };
  const run = async (): Promise<number> => {
    try {
      const { positional, options } = readArguments(gatewayCommand, args);
      return await gatewayCommand.run(positional, options, io);
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      err += `${error.message}\n`;
      return 2;
    }
  };
  return {
    exit: run(),
    stop: (reason: number) => stop.abort(reason),
    out: () => out,
    err: () => err,
    until: (text: string) =>
      new Promise<void>((resolve) => {
        check = () => (out + err).includes(text) && resolve();
        check();
      }),
  };
}

async function run(
  args: string[],
  options?: Parameters<typeof launch>[1],
): Promise<{ code: number; out: string; err: string }> {
  const started = launch(args, options);
  const code = await started.exit;
  return { code, out: started.out(), err: started.err() };
}

const state = (): string[] => ["--state", path.join(folder, "state")];
const local = ["--upstream", "http://127.0.0.1:11434/v1", "--listen", "127.0.0.1:0"];
const withKey = { env: { GATEWAY_UPSTREAM_KEY: KEY } };

describe("bad usage exits with 2 and one line that says what to change", () => {
  it.each<[string[], RegExp, Record<string, string>?]>([
    [[], /--upstream is missing/],
    [["--upstream", "openai"], /--upstream: .*must be a URL/],
    [["--upstream", "http://api.openai.com/v1"], /not in a local network/],
    [["--upstream", "https://me:pass@api.openai.com/v1"], /GATEWAY_UPSTREAM_KEY/],
    [["--upstream", "https://api.openai.com/v1"], /GATEWAY_UPSTREAM_KEY is not set.*--no-key/],
    [["--upstream", "https://api.openai.com/v1"], /space, a line break/, { GATEWAY_UPSTREAM_KEY: "sk-line\nbreak" }],
    [["--upstream", "https://api.openai.com/v1", "--no-key"], /leave out one/, { GATEWAY_UPSTREAM_KEY: KEY }],
    [
      ["--upstream", "https://api.openai.com/v1"],
      /NODE_TLS_REJECT_UNAUTHORIZED=0/,
      { GATEWAY_UPSTREAM_KEY: KEY, NODE_TLS_REJECT_UNAUTHORIZED: "0" },
    ],
    [[...local, "--auth", "basic"], /--auth must be/],
    [[...local, "--models", " , "], /--models names no model/],
    [[...local.slice(0, 2), "--listen", "8089x"], /--listen must be/],
    [[...local.slice(0, 2), "--listen", "0.0.0.0:70000"], /--listen must be/],
    [[...local, "--tokens-per-day", "-1"], /--tokens-per-day must be a whole number/],
    [[...local, "--silence", "301"], /--silence must be a whole number from 1 to 300/],
    [[...local, "--nope"], /nope/],
    [["start"], /unexpected "start"/],
    [["token"], /usage: .*token add NAME/],
    [["token", "add"], /usage: /],
    [["token", "list", "x"], /usage: /],
    [["token", "add", "a", "b"], /usage: /],
    [["token", "add", "../x"], /"\.\.\/x" is no name for a board/],
    [["token", "add", "my desk"], /no name for a board/],
  ])("%j", async (args, message, env = {}) => {
    const { code, out, err } = await run(args, { env });
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toMatch(message);
    expect(err.trimEnd().split("\n")).toHaveLength(1);
    expect(err).not.toMatch(/pass@|sk-line|Qz7v/);
  });
});

describe("what cannot be had exits with 1", () => {
  it("a port that is in use, and an address of another machine", async () => {
    const server = http.createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    const busy = await run([...local.slice(0, 2), "--listen", `127.0.0.1:${port}`, ...state()]);
    server.close();
    expect(busy).toMatchObject({
      code: 1,
      err: `127.0.0.1:${port} is in use: stop what listens there, or choose another port with --listen\n`,
    });
    const other = await run([...local.slice(0, 2), "--listen", "192.0.2.77:8089", ...state()]);
    expect(other).toMatchObject({ code: 1, err: expect.stringMatching(/192\.0\.2\.77 is no address of this machine/) });
  });

  it("a state folder that is none", async () => {
    writeFileSync(path.join(folder, "file"), "");
    for (const args of [local, ["token", "list"], ["token", "add", "x"]]) {
      const { code, err } = await run([...args, "--state", path.join(folder, "file")]);
      expect({ code, err }).toEqual({
        code: 1,
        err: expect.stringMatching(/(--state: the|the state) folder .*file cannot be used \(ENOTDIR.*\): choose another/),
      });
    }
  });

  it("a token that is not there, or there already", async () => {
    expect(await run(["token", "revoke", "x", ...state()])).toMatchObject({
      code: 1,
      err: expect.stringContaining("no board has one"),
    });
    await run(["token", "add", "desk", ...state()]);
    expect(await run(["token", "add", "desk", ...state()])).toMatchObject({
      code: 1,
      err: expect.stringContaining("has a token already"),
    });
  });
});

it("a damaged token stops neither the gateway nor the commands: it is put aside with a warning", async () => {
  await run(["token", "add", "desk", ...state()]);
  const tokens = path.join(folder, "state", "tokens");
  const damage = (): void => writeFileSync(path.join(tokens, `${"a".repeat(64)}.json`), "{x");
  damage();
  const started = launch([...local, ...state()]);
  await started.until("tokens: 1 (desk)");
  started.stop(130);
  expect(await started.exit).toBe(0);
  const warning = /^warning: .*a\.json is damaged .* it is now .*a\.json\.bad, and its board needs a new token: .*add NAME$/m;
  expect(started.err()).toMatch(warning);
  damage();
  const list = await run(["token", "list", ...state()]);
  expect(list).toMatchObject({ code: 0, out: expect.stringMatching(/^desk /), err: expect.stringMatching(warning) });
});

it("a second gateway on one state folder does not start, and says who has it", async () => {
  const { code } = await run(["token", "add", "desk", ...state()]);
  expect(code).toBe(0);
  writeFileSync(path.join(folder, "state", "gateway.pid"), String(process.ppid));
  const second = await run([...local, ...state()]);
  expect(second).toEqual({
    code: 1,
    out: "",
    err: expect.stringMatching(/^--state: .*state is used by another gateway, process \d+: stop that, or choose another/),
  });
  expect(second.err).toContain(`process ${process.ppid}`);
  // Tokens are for the gateway that runs.
  expect((await run(["token", "add", "lab", ...state()])).code).toBe(0);
});

describe("tokens", () => {
  it("are shown once, with what to type at the board", async () => {
    const { code, out } = await run([
      "token",
      "add",
      "kitchen",
      "--listen",
      "192.168.7.7:9000",
      "--models",
      "m,n",
      ...state(),
    ]);
    expect(code).toBe(0);
    const token = /^ {2}(eagw_[\w-]{32})$/m.exec(out)![1]!;
    expect(out).toContain(`set_config({baseUrl:"http://192.168.7.7:9000/v1",apiKey:"${token}",model:"m"})`);
    const list = await run(["token", "list", ...state()]);
    expect(list.out).toMatch(/^kitchen {2}made \d{4}-\d\d-\d\d \d\d:\d\d\n$/);
    expect(list.out).not.toContain(token);
  });

  it("can be had by a script, with budgets of their own", async () => {
    const added = JSON.parse(
      (await run(["token", "add", "lab", "--requests-per-hour", "5", "--json", ...state()])).out,
    );
    expect(added).toEqual({
      name: "lab",
      token: expect.stringMatching(/^eagw_/),
      baseUrl: expect.stringMatching(/^http:\/\/[\d.]+:8089\/v1$/),
    });
    expect((await run(["token", "revoke", "lab", ...state()])).out).toContain("revoked");
    const listed = JSON.parse((await run(["token", "list", "--json", ...state()])).out);
    expect(listed).toEqual([
      { name: "lab", createdAt: expect.any(String), revokedAt: expect.any(String), budgets: { requestsPerHour: 5 } },
    ]);
    expect((await run(["token", "list", ...state()])).out).toMatch(/lab .*revoked .*requests-per-hour 5/);
  });

  it("are kept in the home of the person without --state", async () => {
    await run(["token", "add", "desk"]);
    expect(existsSync(path.join(folder, ".local/state/espruino-agent/gateway/tokens"))).toBe(true);
    await run(["token", "add", "desk"], { env: { XDG_STATE_HOME: path.join(folder, "xdg") } });
    expect(existsSync(path.join(folder, "xdg/espruino-agent/gateway/tokens"))).toBe(true);
  });
});

describe("the gateway", () => {
  it("serves until it is told to stop, and shows no key and no token", async () => {
    const upstream = http.createServer((request, response) => {
      expect(request.headers.authorization).toBe(`Bearer ${KEY}`);
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ choices: [{ message: { content: "hi" }, finish_reason: "stop" }] }));
    });
    await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(upstream.address() as { port: number }).port}`;
    for (const isTTY of [false, true]) {
      const started = launch(["--upstream", url, "--listen", "127.0.0.1:0", "--models", "m", ...state()], {
        ...withKey,
        isTTY,
      });
      await started.until("upstream:");
      expect(started.err()).toContain(isTTY ? "tokens: 1 (desk)" : "no board has a token yet");
      const baseUrl = /boards: (http:\S+)/.exec(started.err())![1]!;
      const name = isTTY ? "lab" : "desk";
      // The address is that of the gateway that runs.
      const { out } = await run(["token", "add", name, ...state()]);
      expect(out).toContain(`set_config({baseUrl:"${baseUrl}",`);
      expect(out).toContain('model:"m"');
      const token = /eagw_[\w-]+/.exec(out)![0];
      const response = await fetch(`${baseUrl}/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}` },
        body: JSON.stringify({ model: "m", messages: [] }),
      });
      expect(await response.json()).toMatchObject({ choices: [{ message: { content: "hi" } }] });
      // A name of a model goes to no terminal as more than a name.
      const refused = {
        method: "POST",
        headers: { authorization: `Bearer ${token}` },
        body: '{"model":"\\u001b[2Jx"}',
      };
      expect((await fetch(`${baseUrl}/chat/completions`, refused)).status).toBe(400);
      await started.until("model_not_allowed");
      await started.until("done");
      expect(started.out()).not.toContain("\x1b");
      started.stop(130);
      expect(await started.exit).toBe(0);
      expect(started.err()).toContain("stopping");
      if (isTTY) expect(started.out()).toMatch(/^\d\d:\d\d:\d\d lab m 200 done, about \d+ tokens, \d+\.\d s$/m);
      else
        expect(
          started
            .out()
            .trim()
            .split("\n")
            .map((line) => JSON.parse(line))
            .find((line) => line.board),
        ).toMatchObject({ board: "desk", outcome: "done" });
      expect(started.out() + started.err()).not.toContain(KEY);
      expect(started.out() + started.err()).not.toContain(token);
    }
    upstream.close();
    const usage = JSON.parse(readFileSync(path.join(folder, "state", "usage.json"), "utf8"));
    expect(usage).toMatchObject({ desk: { day: { requests: 1 } }, lab: { day: { requests: 1 } } });
  });

  it("says that it sends no key where none is set, unless it was told so", async () => {
    const line = "GATEWAY_UPSTREAM_KEY is not set: no key is sent to the upstream\n";
    for (const [more, options, isSaid] of [
      [[], {}, true],
      [["--no-key"], {}, false],
      [[], withKey, false],
    ] as const) {
      const started = launch([...local, ...more, ...state()], options);
      await started.until("no board has a token yet");
      expect(started.err().includes(line)).toBe(isSaid);
      started.stop(130);
      expect(await started.exit).toBe(0);
    }
  });

  it("tells a board of an Anthropic upstream its dialect, and ends where nobody takes its log", async () => {
    const started = launch(["--upstream", "https://api.anthropic.com", "--listen", "127.0.0.1:0", ...state()], withKey);
    await started.until("https://api.anthropic.com/v1");
    expect((await run(["token", "add", "desk", ...state()])).out).toContain('provider:"anthropic"');
    started.stop(141);
    expect(await started.exit).toBe(141);
  });
});

it("boards find it at an address of the home network first", () => {
  const address = (address: string, family = "IPv4", internal = false) => ({ address, family, internal }) as never;
  const interfaces = {
    lo: [address("127.0.0.1", "IPv4", true)],
    docker0: [address("172.17.0.1")],
    eth0: [address("fe80::1", "IPv6"), address("10.1.2.3")],
    wlan0: [address("192.168.1.10")],
  };
  expect(lanAddresses("0.0.0.0", interfaces)).toEqual(["192.168.1.10", "10.1.2.3", "172.17.0.1"]);
  expect(lanAddresses("0.0.0.0", {})).toEqual(["127.0.0.1"]);
  expect(lanAddresses("10.0.0.5")).toEqual(["10.0.0.5"]);
  expect(lanAddresses("fd00::5")).toEqual(["[fd00::5]"]);
});
