import fc from "fast-check";
import { http, HttpResponse } from "msw";
import { afterEach, describe, expect, it } from "vitest";
import { createFetcher } from "../../firmware/fetch";
import { fromBytes, toBytes } from "../drivers/bytes";
import { networkBoard, SLOW } from "../tools/network-board";
import { isUtf8 } from "./board";

const { picker, escape } = createFetcher();

/** What is kept of a text that comes in pieces, and whether more was wanted at its end. */
function pick(pieces: string[], keys: string, maxString = 1000, maxBytes = 100_000): { text: string; more: boolean } {
  const kept = picker(keys, maxString, maxBytes);
  let more = true;
  for (const piece of pieces) more = more && kept.feed(piece);
  return { text: kept.end(), more };
}

const picked = (value: unknown, keys: string, maxString?: number, maxBytes?: number): unknown =>
  JSON.parse(pick([toBytes(JSON.stringify(value))], keys, maxString, maxBytes).text);

/** Any cut of a text into pieces. */
function pieces(text: string, sizes: number[]): string[] {
  const parts: string[] = [];
  for (let at = 0, i = 0; at < text.length; at += sizes[i++ % sizes.length]!)
    parts.push(text.slice(at, at + sizes[i % sizes.length]!));
  return parts;
}

const sizes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 });
const names = ["a", "b", "results", "x"];
const json = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    fc.string({ unit: fc.constantFrom("\\", '"', "{", "}", "[", ",", ":", "n", "u", "é", "😀", "\n", "\0") }),
    fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e6, max: 1e6 }).map((n) => n || 0),
    fc.constantFrom(true, false, null),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...names), tie("value"), { maxKeys: 4 }),
  ),
})).value.filter((value) => typeof value === "object" && value !== null);

/** What is to be kept, by the plain way. */
function prune(value: any, keys: string[]): any {
  if (Array.isArray(value)) return value.map((one) => prune(one, keys));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).filter(([key]) => keys.includes(key)).map(([key, one]) => [key, prune(one, keys)]),
  );
}

const ascii = (text: string): string =>
  text.replace(/[^\0-\x7f]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

describe("what is picked from JSON", () => {
  it("is the wanted fields, within wanted ones", () => {
    const reply = { query: "q", results: [{ title: "T", raw: { title: "no" }, score: 0.5 }, { title: null }], n: [1] };
    expect(picked(reply, "results,title,score")).toEqual({ results: [{ title: "T", score: 0.5 }, { title: null }] });
    expect(picked([{ a: 1, b: 2 }, "s", 3], "a")).toEqual([{ a: 1 }, "s", 3]);
    expect(picked({ a: { b: 1 } }, "b")).toEqual({});
  });

  it("is the same as of the whole text, in whatever pieces and form it comes", () => {
    const form = fc.constantFrom<(value: any) => string>(
      (value) => toBytes(JSON.stringify(value)),
      (value) => toBytes(JSON.stringify(value, undefined, 2)),
      (value) => ascii(JSON.stringify(value, undefined, 1)),
    );
    fc.assert(
      fc.property(json, form, sizes, (value, write, cuts) => {
        const { text, more } = pick(pieces(write(value), cuts), "a,results");
        expect(more).toBe(false);
        expect(JSON.parse(fromBytes(text))).toEqual(prune(value, ["a", "results"]));
      }),
    );
  });

  it("stays JSON and UTF-8, and within its size, however short it is to be", () => {
    const limits = fc.tuple(fc.integer({ min: 4, max: 30 }), fc.integer({ min: 10, max: 200 }));
    fc.assert(
      fc.property(json, fc.boolean(), sizes, limits, (value, escaped, cuts, [maxString, maxBytes]) => {
        const whole = escaped ? ascii(JSON.stringify(value)) : toBytes(JSON.stringify(value));
        const { text } = pick(pieces(whole, cuts), "a,b,results", maxString, maxBytes);
        expect(isUtf8(text)).toBe(true);
        expect(text.length).toBeLessThan(maxBytes + maxString + 40);
        expect(pick([whole], "a,b,results", maxString, maxBytes).text).toBe(text);
        const strings = (one: any): string[] =>
          typeof one === "string" ? [one] : one && typeof one === "object" ? Object.values(one).flatMap(strings) : [];
        for (const one of strings(JSON.parse(text))) expect(one.isWellFormed()).toBe(true);
      }),
    );
  });

  it("is a text's beginning, marked, where the text is too long", () => {
    expect(picked({ a: "0123456789" }, "a", 4)).toEqual({ a: "0123..." });
    expect(picked({ a: "0123" }, "a", 4)).toEqual({ a: "0123" });
    expect(picked({ a: "ab\ncd" }, "a", 3)).toEqual({ a: "ab..." });
    expect(picked({ a: "ab\\\\cd" }, "a", 4)).toEqual({ a: "ab\\..." });
    expect(JSON.parse(pick(['{"a":"ab\\u00e9cd"}'], "a", 5).text)).toEqual({ a: "ab..." });
    expect(JSON.parse(pick(['{"a":"ab\\u00e9cd"}'], "a", 8).text)).toEqual({ a: "abé..." });
    expect(JSON.parse(pick(['{"a":"ab\\ud83d\\ude00cd"}'], "a", 9).text)).toEqual({ a: "ab..." });
    expect(JSON.parse(pick(['{"a":"ab\\ud83d\\ude00cd"}'], "a", 14).text)).toEqual({ a: "ab😀..." });
  });

  it("ends where enough was kept, and the rest is not asked for", () => {
    const long = JSON.stringify({ results: Array.from({ length: 1000 }, (_, i) => ({ title: `title ${i}` })) });
    const kept = picker("results,title", 100, 200);
    const parts = pieces(long, [536]);
    const used = parts.findIndex((part) => !kept.feed(part));
    expect(used).toBe(0);
    expect(kept.feed("more")).toBe(false);
    expect(JSON.parse(kept.end()).results.length).toBeGreaterThan(5);
    expect(kept.end().length).toBeLessThan(250);
  });

  it.each(["", " ", "<html>{}</html>", '"text"', "null", "12", "\xef\xbb\xbf{}", "}", "data: {}"])(
    "is nothing in %j",
    (text) => {
      expect(pick([text], "a").text).toBe("");
    },
  );

  it("leaves out what is nested too deeply, and bears brackets that do not match", () => {
    const deep = `{"a":${"[".repeat(5000)}1${"]".repeat(5000)},"b":2}`;
    expect(pick(pieces(deep, [7]), "a,b").text).toMatch(/^\{"a":\[{7}\]{7},"b":2\}$/);
    for (const odd of ['{"a":[1}', '{"a"}', "{]", '{"a":"x"', '{"a":{"b":[', '{,,"a":1,,}', '{"a":1 "b":2}']) {
      const { text } = pick([odd], "a,b");
      expect(() => JSON.parse(text), odd).not.toThrow();
    }
  });

  it("lets a text that was cut off be told from one that is over", () => {
    expect(pick(['{"a":1}'], "a").more).toBe(false);
    for (const cut of ["{", '{"a"', '{"a":"x', '{"a":"x\\', '{"a":1', '{"a":[1,2]']) expect(pick([cut], "a").more).toBe(true);
  });
});

describe("text in a URL", () => {
  it("is its UTF-8 in percent codes", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const escaped = escape(toBytes(text));
        expect(decodeURIComponent(escaped)).toBe(text);
        expect(escaped).toMatch(/^[A-Za-z0-9_.~%-]*$/);
      }),
    );
  });
});

describe("a request", () => {
  let board: ReturnType<typeof networkBoard>;
  afterEach(() => board.close());
  const at = "http://service.test/x";

  const fetch = (options: object, stepMs?: number): Promise<any> =>
    board.settle(`createFetcher().text(${JSON.stringify({ url: `${at}?key=1`, ...options })})`, stepMs);

  it("is GET without a body and POST with one; the answer comes whatever its status", async () => {
    board = networkBoard(
      [
        http.all(at, async ({ request }) => {
          const { method } = request;
          const head = `${method} ${request.headers.get("content-length")} ${request.headers.get("x-own")} `;
          return new HttpResponse(head + (await request.text()), { status: 404, headers: { "X-Kind": "none" } });
        }),
      ],
      {},
    );
    const before = board.pending();
    const got = await fetch({ headers: { "X-Own": "me" } });
    expect(got).toMatchObject({ status: 404, body: "GET null me ", cut: false, headers: { "x-kind": "none" } });
    expect((await fetch({ body: "hellö" })).body).toBe("POST 6 null hellö");
    expect((await fetch({ body: "x", method: "PUT" })).body).toBe("PUT 1 null x");
    expect(board.pending()).toBe(before);
  });

  it("keeps a part of a long answer, and closes the connection then", async () => {
    let cancelled = false;
    const piece = new TextEncoder().encode("x".repeat(500));
    const stream = new ReadableStream({
      pull: (controller) => controller.enqueue(piece),
      cancel: () => void (cancelled = true),
    });
    board = networkBoard([http.get(at, () => new HttpResponse(stream, { headers: { "transfer-encoding": "chunked" } }))], {});
    const got = await fetch({ maxBytes: 1500 });
    expect(got).toMatchObject({ cut: true, body: "x".repeat(1500) });
    await new Promise((resolve) => setImmediate(resolve));
    expect(cancelled).toBe(true);
  });

  it("ends after its time, without the query in the words", async () => {
    board = networkBoard([http.get(at, () => new Promise<never>(() => {}))], {});
    await expect(fetch({ timeoutMs: 5000 }, SLOW)).rejects.toThrow(`${at} did not answer within 5000 ms`);
    expect(board.clock.now()).toBeLessThan(7000);
  });

  it("ends where nobody answers", async () => {
    board = networkBoard([http.get(at, () => HttpResponse.error())], {});
    await expect(fetch({})).rejects.toThrow(`no answer from ${at} (`);
  });

  it("ends with the run that it is for", async () => {
    board = networkBoard([http.get(at, () => new Promise<never>(() => {}))], {});
    board.board.evaluate("session.abort=function(){};setTimeout(function(){delete session.abort},3000)");
    const asked = board.settle(`createFetcher().text({url:"${at}",session:session})`, SLOW);
    await expect(asked).rejects.toThrow("stopped");
    expect(board.clock.now()).toBeLessThan(5000);
  });
});
