import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BUDGETS, openBudgetBook, type Admission, type Refusal } from "../../gateway/budget";
import { retryAfterSeconds } from "../../gateway/fault";
import { createRedactor } from "../../gateway/secret";
import { createTokenStore, type TokenStore } from "../../gateway/tokens";
import { readUpstreamUrl, upstreamHeaders } from "../../gateway/upstream";
import { createMeter } from "../../gateway/usage";
import { createManualClock } from "../../host-sim/clock";
import { cutAt } from "../firmware/pieces";
import { until } from "./harness";

let folder: string;
beforeEach(() => void (folder = mkdtempSync(path.join(tmpdir(), "gateway-"))));
afterEach(() => rmSync(folder, { recursive: true }));

describe("tokens", () => {
  it("are kept as hashes, for the owner only", async () => {
    const store = createTokenStore(folder);
    const token = await store.add("kitchen");
    expect(token).toMatch(/^eagw_[A-Za-z0-9_-]{32}$/);
    const [file] = readdirSync(path.join(folder, "tokens"));
    const at = path.join(folder, "tokens", file!);
    expect(file! + readFileSync(at, "utf8")).not.toContain(token.slice(5));
    expect(statSync(at).mode & 0o077).toBe(0);
    expect(statSync(path.join(folder, "tokens")).mode & 0o077).toBe(0);
    expect(await store.find(token)).toMatchObject({ name: "kitchen" });
    expect(await store.find(`${token}x`)).toBeUndefined();
    expect(await store.find("../../etc/passwd")).toBeUndefined();
  });

  it("of many boards added at once are all there", async () => {
    const stores = Array.from({ length: 4 }, () => createTokenStore(folder));
    const names = Array.from({ length: 40 }, (_, i) => `board-${i}`);
    const tokens = await Promise.all(names.map((name, i) => stores[i % 4]!.add(name)));
    expect((await stores[0]!.list()).map(({ name }) => name)).toEqual([...names].sort());
    expect(new Set(tokens).size).toBe(40);
    expect(readdirSync(path.join(folder, "tokens")).filter((name) => name.endsWith(".tmp"))).toEqual([]);
  });

  it("have a name of their own until they are revoked, and are told apart afterwards", async () => {
    const store = createTokenStore(folder);
    const old = await store.add("desk", { tokensPerDay: 5 });
    await expect(store.add("desk")).rejects.toThrow(/desk has a token already/);
    await store.revoke("desk");
    await expect(store.revoke("desk")).rejects.toThrow(/no token to revoke; no board has one/);
    const fresh = await store.add("desk");
    expect(await store.find(old)).toMatchObject({ revokedAt: expect.any(String), budgets: { tokensPerDay: 5 } });
    expect(await store.find(fresh)).not.toHaveProperty("revokedAt");
    await expect(store.revoke("shed")).rejects.toThrow(/these have: desk/);
    for (const name of ["", "a b", "../x", "-x", "x".repeat(65), "ü"]) {
      await expect(store.add(name)).rejects.toThrow(/no name for a board/);
    }
  });

  it.each<[string, (store: TokenStore, token: string) => Promise<unknown>]>([
    ["are looked through", (store) => store.list()],
    ["are asked for", (store, token) => store.find(token)],
    ["of that name are made", (store) => store.add("desk")],
  ])("whose file is damaged are put aside where tokens %s, and the others count", async (_name, use) => {
    const problems: string[] = [];
    const store = createTokenStore(folder, (problem) => problems.push(problem));
    const token = await store.add("desk");
    const [file] = readdirSync(path.join(folder, "tokens"));
    const other = await store.add("lab");
    writeFileSync(path.join(folder, "tokens", file!), "{half");
    await use(store, token);
    expect(problems).toEqual([expect.stringMatching(/ is damaged .* it is now .*\.bad, .*needs a new token: .* token add/)]);
    expect(problems[0]).toContain(`${file}.bad`);
    expect(readFileSync(path.join(folder, "tokens", `${file}.bad`), "utf8")).toBe("{half");
    expect(await store.find(token)).toBeUndefined();
    expect(await store.find(other)).toMatchObject({ name: "lab" });
    expect(problems).toHaveLength(1);
  });

  it("whose file cannot be read are told, and stay", async () => {
    const problems: string[] = [];
    const store = createTokenStore(folder, (problem) => problems.push(problem));
    await store.add("desk");
    mkdirSync(path.join(folder, "tokens", `${"0".repeat(64)}.json`));
    expect(await store.list()).toMatchObject([{ name: "desk" }]);
    expect(problems).toEqual([expect.stringMatching(/0\.json cannot be read \(EISDIR.*its board is not let in/)]);
  });
});

describe("budgets", () => {
  const isRefusal = (got: Admission | Refusal): got is Refusal => "budget" in got;
  async function open(clock = createManualClock(1e12)) {
    const problems: string[] = [];
    const book = await openBudgetBook({ stateFolder: folder, clock, onProblem: (problem) => problems.push(problem) });
    const ask = (budgets = {}, tokens = 1, board = "desk"): Admission | Refusal =>
      book.admit(board, { ...BUDGETS, ...budgets }, tokens);
    const use = (tokens: number, isEstimated = false): void => {
      const got = ask();
      if (isRefusal(got)) throw new Error(got.budget);
      got.settle(tokens, isEstimated);
      got.settle(tokens, isEstimated);
    };
    return { clock, book, problems, ask, use };
  }

  it("of requests and tokens, per hour and per day, each board's own", async () => {
    const { clock, ask, use } = await open();
    use(100);
    clock.advance(1_800_000);
    expect(ask({ requestsPerHour: 1 })).toEqual({
      budget: "requestsPerHour",
      limit: 1,
      used: 1,
      isEstimated: false,
      retryAfter: 1800,
    });
    expect(ask({ tokensPerHour: 100 })).toMatchObject({ budget: "tokensPerHour", used: 100, retryAfter: 1800 });
    expect(ask({ tokensPerDay: 99 })).toMatchObject({ budget: "tokensPerDay", used: 100, retryAfter: 84_600 });
    expect(isRefusal(ask({ requestsPerHour: 1 }, 1, "shed"))).toBe(false);
    expect(isRefusal(ask({ requestsPerHour: 0, requestsPerDay: 0, tokensPerHour: 0, tokensPerDay: 0 }))).toBe(false);
    clock.advance(1_800_000);
    expect(isRefusal(ask({ requestsPerHour: 1, tokensPerHour: 100 }))).toBe(false);
    expect(ask({ requestsPerDay: 3 })).toMatchObject({ budget: "requestsPerDay", used: 3 });
  });

  it("count an estimate as one, and say so", async () => {
    const { ask, use } = await open();
    use(100, true);
    expect(ask({ tokensPerHour: 50 })).toMatchObject({ isEstimated: true });
  });

  it("are held by requests under way", async () => {
    const { ask } = await open();
    const budgets = { tokensPerHour: 1000 };
    const first = ask(budgets, 900) as Admission;
    expect(isRefusal(ask(budgets, 900))).toBe(false);
    expect(ask(budgets, 900)).toMatchObject({ budget: "tokensPerHour", used: 1800, isEstimated: true, retryAfter: 5 });
    first.settle(10, false);
    expect(isRefusal(ask(budgets, 900))).toBe(false);
  });

  it("do not stand against what takes no tokens", async () => {
    const { ask, use } = await open();
    use(100);
    expect(isRefusal(ask({ tokensPerHour: 100 }, 0))).toBe(false);
    expect(ask({ requestsPerHour: 2, tokensPerHour: 100 }, 0)).toMatchObject({ budget: "requestsPerHour" });
  });

  it("are kept", async () => {
    const one = await open();
    one.use(100);
    await one.book.close();
    one.use(7);
    const two = await open(createManualClock(1e12 + 6_000));
    expect(two.ask({ tokensPerHour: 100 })).toMatchObject({ used: 100 });
    await two.book.close();
    expect(readdirSync(folder)).toEqual(["usage.json"]);
  });

  it("are kept at once, and every second: what is under way counts where the gateway is killed", async () => {
    const file = path.join(folder, "usage.json");
    const saved = (): any => (existsSync(file) ? JSON.parse(readFileSync(file, "utf8")).desk : undefined);
    const one = await open();
    const first = one.ask({}, 900) as Admission;
    await until(() => saved() !== undefined);
    expect(saved().hour).toEqual({ start: 1e12, requests: 1, tokens: 900, isEstimated: true });
    // Nobody closes it.
    const killed = await open();
    expect(killed.ask({ tokensPerDay: 900 }, 1)).toMatchObject({ used: 900, isEstimated: true });
    first.settle(30, false);
    one.clock.advance(999);
    expect(saved().hour.tokens).toBe(900);
    one.clock.advance(1);
    await until(() => saved().hour.tokens === 30);
    expect(saved().hour).toEqual({ start: 1e12, requests: 1, tokens: 30, isEstimated: false });
  });

  it("survive a clock that is wrong by years", async () => {
    const late = await open(createManualClock(2e12));
    late.use(100);
    await late.book.close();
    // Set back: the window is not from the future for ever.
    const back = await open(createManualClock(1e12));
    expect(isRefusal(back.ask({ tokensPerHour: 100 }))).toBe(false);
    back.use(100);
    expect(back.ask({ tokensPerHour: 100 })).toMatchObject({ retryAfter: 3600 });
    await back.book.close();
    const far = await open(createManualClock(3e12));
    expect(isRefusal(far.ask({ tokensPerHour: 100 }))).toBe(false);
  });

  it.each(["{half", '{"desk":{}}', "[1]", '{"desk":{"hour":{"start":0,"requests":-1,"tokens":0},"day":{}}}'])(
    "begin anew where the file is damaged, which is put aside: %s",
    async (text) => {
      writeFileSync(path.join(folder, "usage.json"), text);
      const { problems, ask } = await open();
      expect(problems).toEqual([expect.stringMatching(/usage\.json is damaged \(.*\): it is now .*\.bad, and all budgets begin anew$/)]);
      expect(readFileSync(path.join(folder, "usage.json.bad"), "utf8")).toBe(text);
      expect(isRefusal(ask())).toBe(false);
    },
  );

  it("forget boards that have not asked for a day", async () => {
    const { clock, book, ask } = await open();
    for (let i = 0; i < 50; i++) (ask({}, 1, `board-${i}`) as Admission).settle(1, false);
    clock.advance(86_400_000);
    (ask() as Admission).settle(1, false);
    await book.close();
    expect(Object.keys(JSON.parse(readFileSync(path.join(folder, "usage.json"), "utf8")))).toEqual(["desk"]);
  });
});

describe("the upstream's address", () => {
  it.each([
    ["https://api.openai.com", "https://api.openai.com/v1"],
    ["https://api.openai.com/v1/", "https://api.openai.com/v1"],
    ["https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1"],
    ["HTTPS://API.Example:8443/x", "https://api.example:8443/x"],
    ["http://127.0.0.1:11434/v1", "http://127.0.0.1:11434/v1"],
    ["http://localhost:1234", "http://localhost:1234/v1"],
    ["http://192.168.1.20:8080/v1", "http://192.168.1.20:8080/v1"],
    ["http://172.31.0.1/v1", "http://172.31.0.1/v1"],
    ["http://[::1]:8080/v1", "http://[::1]:8080/v1"],
    ["http://[fd00::1]/v1", "http://[fd00::1]/v1"],
    ["http://ollama:11434/v1", "http://ollama:11434/v1"],
    ["http://pc.local/v1", "http://pc.local/v1"],
  ])("%s", (text, url) => expect(readUpstreamUrl(text)).toBe(url));

  it.each([
    ["", /must be a URL/],
    ["api.openai.com/v1", /must be a URL/],
    ["ftp://x/v1", /must be a URL/],
    ["http://api.openai.com/v1", /not in a local network.*https/],
    ["http://8.8.8.8/v1", /not in a local network/],
    ["http://172.32.0.1/v1", /not in a local network/],
    ["http://[2001:db8::1]/v1", /not in a local network/],
    ["http://127.0.0.1.nip.io/v1", /not in a local network/],
    ["https://user:secret@api.example/v1", /no user or password/],
    ["https://api.example/v1?key=secret", /no \? or #/],
    ["https://api.openai.com/v1/chat/completions", /must end before/],
  ])("not %s", (text, message) => {
    expect(() => readUpstreamUrl(text)).toThrow(message);
    expect(() => readUpstreamUrl(text)).not.toThrow(/secret/);
  });

  it("the key goes the way of the API, or the way that was chosen", () => {
    expect(upstreamHeaders("openai", "k", "auto", { "x-api-key": "board" })).toEqual({
      "user-agent": expect.any(String),
      authorization: "Bearer k",
    });
    expect(upstreamHeaders("anthropic", "k", "auto", { authorization: "board", "anthropic-beta": "b" })).toEqual({
      "user-agent": expect.any(String),
      "anthropic-version": "2023-06-01",
      "anthropic-beta": "b",
      "x-api-key": "k",
    });
    expect(upstreamHeaders("anthropic", "k", "bearer", {})).toMatchObject({ authorization: "Bearer k" });
    expect(Object.keys(upstreamHeaders("openai", "", "auto", {}))).toEqual(["user-agent"]);
  });
});

describe("secrets", () => {
  const key = "sk-pr/oj-Qz7vKp2XwR9tLm4N";

  it("are taken out of a body however it is cut, and nothing else is", () => {
    const forms = [key, key.replace("/", "\\/"), encodeURIComponent(key), Buffer.from(key).toString("base64")];
    const part = fc.oneof(fc.constantFrom(...forms, key.slice(0, 10), key.slice(3), "sk-", "***"), fc.string());
    fc.assert(
      fc.property(fc.array(part, { maxLength: 6 }), fc.array(fc.nat(1000), { maxLength: 20 }), (parts, places) => {
        const text = parts.join("");
        const secrets = createRedactor(key).stream();
        const out =
          cutAt(text, places)
            .map((piece) => secrets.feed(piece))
            .join("") + secrets.end();
        expect(out).toBe(forms.reduce((rest, form) => rest.replaceAll(form, "***"), text));
      }),
      { numRuns: 300 },
    );
  });

  it("are taken out of words, and parts of them too", () => {
    const { words } = createRedactor(key);
    for (const said of [
      key,
      key.slice(0, 9),
      key.slice(-8),
      `sk-pr${"*".repeat(20)}Lm4N`,
      "sk-another-key-123",
      "eagw_abc-DEF_123",
    ]) {
      expect(words(`the key ${said}. is bad`)).toMatch(/^the key \*\*\*\.? is bad$/);
    }
    expect(words("the upstream is down")).toBe("the upstream is down");
    expect(words("a_b-12***34, *** and **")).toBe("***, *** and **");
    // An error may quote a picture: each letter is looked at once.
    const picture = "iVBOR".repeat(200_000);
    expect(words(`${picture} ${key}`)).toBe(`${picture} ***`);
  });

  it("a key of few letters is a word like any other", () => {
    const { words, stream } = createRedactor("ollama");
    expect(words("ollama is busy")).toBe("ollama is busy");
    expect(stream().feed("ollama")).toBe("ollama");
  });
});

describe("usage", () => {
  it("is what the provider says", () => {
    const openai = createMeter("openai", 400);
    openai.read({ choices: [{ delta: { content: "hello" } }] });
    openai.read({ choices: [], x_groq: { usage: { prompt_tokens: 5, completion_tokens: 2 } } });
    expect(openai.total()).toEqual({ tokens: 7, isEstimated: false });
    const anthropic = createMeter("anthropic", 400);
    anthropic.read({
      type: "message_start",
      message: {
        usage: { input_tokens: 5, cache_read_input_tokens: 100, cache_creation_input_tokens: null, output_tokens: 1 },
      },
    });
    expect(anthropic.total()).toEqual({ tokens: 105, isEstimated: true });
    anthropic.read({ type: "message_delta", delta: {}, usage: { output_tokens: 9 } });
    expect(anthropic.total()).toEqual({ tokens: 114, isEstimated: false });
  });

  it("is estimated where it says nothing, or nonsense", () => {
    for (const usage of [
      undefined,
      null,
      "many",
      { prompt_tokens: -5, completion_tokens: 1e99 },
      { prompt_tokens: NaN },
    ]) {
      const meter = createMeter("openai", 400);
      meter.read({
        choices: [
          { delta: { content: "12345678", tool_calls: [null, { function: { name: "abcd", arguments: "1234" } }] } },
          null,
        ],
        usage,
      });
      expect(meter.total()).toEqual({ tokens: 100 + 4, isEstimated: true });
    }
    const meter = createMeter("anthropic", 4);
    for (const odd of [null, 7, [], { content: [null, { text: 5 }] }, { delta: null }, { message: 5 }]) meter.read(odd);
    expect(meter.total()).toEqual({ tokens: 1, isEstimated: true });
  });
});

it("Retry-After in seconds, whatever clocks say", () => {
  const headers = (value: string, date?: string): Headers =>
    new Headers({ "retry-after": value, ...(date && { date }) });
  expect(retryAfterSeconds(new Headers(), 0)).toBeUndefined();
  expect(retryAfterSeconds(headers("120"), 0)).toBe(120);
  expect(retryAfterSeconds(headers("Thu, 01 Jan 1970 00:00:10 GMT"), 4_000)).toBe(6);
  expect(retryAfterSeconds(headers("Thu, 01 Jan 2026 00:00:10 GMT", "Thu, 01 Jan 2026 00:00:00 GMT"), 0)).toBe(10);
  for (const odd of ["-5", "soon", "1e9", "999999", "Thu, 01 Jan 1970 00:00:10 GMT"]) {
    expect(retryAfterSeconds(headers(odd), 1e12)).toBeUndefined();
  }
});
