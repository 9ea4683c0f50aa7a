import fc from "fast-check";
import { http, HttpResponse } from "msw";
import { afterEach, describe, expect, it } from "vitest";
import { createPicker, escapeQuery } from "../../firmware/fetch";
import { fromBytes, toBytes } from "../drivers/bytes";
import { networkBoard, SLOW } from "../tools/network-board";
import { cutAt, inPieces } from "./pieces";

/** What was taken of a text that comes in pieces, and what was said of its end: 0 more, 1 over, 2 no JSON. */
function pick(pieces: string[], keys: string, maxString = 1000, most = Infinity): { taken: [string, unknown][]; state: number } {
  const taken: [string, unknown][] = [];
  const feed = createPicker(keys, maxString, (key, value) => {
    taken.push([key, typeof value === "string" ? fromBytes(value) : value]);
    return taken.length >= most;
  });
  let state = 0;
  for (const piece of pieces) state = state || feed(piece);
  return { taken, state };
}

const picked = (value: unknown, keys: string, maxString?: number): [string, unknown][] =>
  pick([toBytes(JSON.stringify(value))], keys, maxString).taken;

const places = fc.array(fc.nat(), { maxLength: 12 });
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

/** What is to be taken, by the plain way, of objects and arrays of them. */
function walk(value: any, key: string, keys: string[], inArray: boolean): [string, unknown][] {
  if (value === null) return [];
  if (Array.isArray(value)) return value.flatMap((one) => walk(one, key, keys, true));
  if (typeof value !== "object") return [[key, value]];
  const wanted = Object.entries(value).filter(([name]) => keys.includes(name));
  return [...wanted.flatMap(([name, one]) => walk(one, name, keys, false)), ...(inArray ? [["", undefined] as [string, unknown]] : [])];
}

const ascii = (text: string): string =>
  text.replace(/[^\0-\x7f]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

describe("what is picked from JSON", () => {
  it("is the wanted fields, within wanted ones, in their order", () => {
    const reply = { query: "q", results: [{ title: "T", raw: { title: "no" }, score: 0.5 }, { title: null, ok: true }], n: [1] };
    expect(picked(reply, "results,title,score,ok")).toEqual([
      ["title", "T"], ["score", 0.5], ["", undefined], ["ok", true], ["", undefined], ["", undefined],
    ]);
    expect(picked({ a: { b: 1 } }, "b")).toEqual([["", undefined]]);
    // The end of an object that is named is no end of a result.
    expect(picked([{ x: { y: -1.5e3 }, z: 2 }], "x,y,z")).toEqual([["y", -1500], ["z", 2], ["", undefined]]);
    expect(picked({ tags: ["a", "b"] }, "tags")).toEqual([["tags", "a"], ["tags", "b"], ["", undefined]]);
  });

  it("is the same as of the whole text, in whatever pieces and form it comes", () => {
    const form = fc.constantFrom<(value: any) => string>(
      (value) => toBytes(JSON.stringify(value)),
      (value) => toBytes(JSON.stringify(value, undefined, 2)),
      (value) => ascii(JSON.stringify(value, undefined, 1)),
    );
    fc.assert(
      fc.property(json, form, places, (value, write, cuts) => {
        const whole = write(value);
        const once = pick([whole], "a,results");
        expect(pick(cutAt(whole, cuts), "a,results")).toEqual(once);
        expect(once.state).toBe(1);
      }),
    );
  });

  it("is what a parser would find", () => {
    const flat = fc.dictionary(fc.constantFrom(...names), fc.oneof(fc.string({ unit: "binary" }), fc.integer(), fc.boolean(), fc.constant(null)));
    const tree = fc.dictionary(fc.constantFrom(...names), fc.oneof(flat, fc.array(flat, { maxLength: 4 }), fc.string()));
    fc.assert(
      fc.property(tree, fc.boolean(), places, (value, escaped, cuts) => {
        const whole = escaped ? ascii(JSON.stringify(value)) : toBytes(JSON.stringify(value));
        expect(pick(cutAt(whole, cuts), "a,results").taken).toEqual(walk(value, "", ["a", "results"], true));
      }),
    );
  });

  it("stays UTF-8 however short a text is to be", () => {
    const text = fc.string({ unit: fc.constantFrom("\\", '"', "a", "u", "é", "€", "😀", "\n", "\0") });
    fc.assert(
      fc.property(text, fc.boolean(), places, fc.integer({ min: 4, max: 30 }), (value, escaped, cuts, max) => {
        const whole = escaped ? ascii(JSON.stringify({ a: value })) : toBytes(JSON.stringify({ a: value }));
        const [[, got]] = pick(cutAt(whole, cuts), "a", max).taken as [[string, string]];
        if (whole.length - 8 <= max) expect(got).toBe(value);
        else {
          expect(got.endsWith("...")).toBe(true);
          expect(value.startsWith(got.slice(0, -3))).toBe(true);
          expect(got).not.toMatch(/[\ud800-\udbff](?![\udc00-\udfff])/);
        }
      }),
    );
  });

  it("is a text's beginning, marked, where the text is too long", () => {
    const cut = (json: string, max: number): unknown => pick([json], "a", max).taken[0]![1];
    expect(cut('{"a":"0123456789"}', 4)).toBe("0123...");
    expect(cut('{"a":"0123"}', 4)).toBe("0123");
    expect(cut('{"a":"ab\\ncd"}', 3)).toBe("ab...");
    expect(cut('{"a":"ab\\\\cd"}', 4)).toBe("ab\\...");
    expect(cut('{"a":"ab\\u00e9cd"}', 5)).toBe("ab...");
    expect(cut('{"a":"ab\\u00e9cd"}', 8)).toBe("abé...");
    expect(cut('{"a":"ab\\ud83d\\ude00cd"}', 9)).toBe("ab...");
    expect(cut('{"a":"ab\\ud83d\\ude00cd"}', 14)).toBe("ab😀...");
  });

  it("is handed on before a long text is over, and ends where enough was taken", () => {
    const long = `{"results":["${"x".repeat(10_000)}","y"]}`;
    const parts = inPieces(long, 500);
    expect(pick(parts.slice(0, 1), "results", 100)).toEqual({ taken: [["results", `${"x".repeat(100)}...`]], state: 0 });
    expect(pick(parts, "results", 100).taken.map(([, value]) => value)).toEqual([`${"x".repeat(100)}...`, "y", undefined]);
    expect(pick(parts.slice(0, 1), "results", 100, 1).state).toBe(1);
  });

  it.each(["<html>{}</html>", '"text"', "null", "12", "\xef\xbb\xbf{}", "}", "]", "data: {}", ","])("is nothing in %j", (text) => {
    expect(pick([text], "a")).toEqual({ taken: [], state: 2 });
  });

  it("leaves out what is nested too deeply, and bears brackets that do not match", () => {
    const deep = `{"a":${"[".repeat(5000)}1${"]".repeat(5000)},"b":2}`;
    expect(pick(inPieces(deep, 7), "a,b").taken).toEqual([["b", 2], ["", undefined]]);
    for (const odd of ['{"a":[1}', '{"a"}', "{]", '{"a":"x"', '{"a":{"b":[', '{,,"a":1,,}', '{"a":1 "b":2}', "{}}}}", '{"a":nothing}'])
      expect(() => pick([odd], "a,b"), odd).not.toThrow();
  });

  it("lets a text that was cut off be told from one that is over", () => {
    expect(pick([' {"a":1} '], "a").state).toBe(1);
    for (const cut of ["", " ", "{", '{"a"', '{"a":"x', '{"a":"x\\', '{"a":1', '{"a":[1,2]']) expect(pick([cut], "a").state).toBe(0);
  });
});

describe("text in a URL", () => {
  it("is its UTF-8 in percent codes", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const escaped = escapeQuery(toBytes(text));
        expect(decodeURIComponent(escaped)).toBe(text);
        expect(escaped).toMatch(/^[A-Za-z0-9_.~%-]*$/);
      }),
    );
  });
});

describe("a request", () => {
  let board: ReturnType<typeof networkBoard>;
  afterEach(() => board?.close());
  const at = "http://service.test/x";

  const fetch = (options: object, maxBytes = 1000, stepMs?: number): Promise<any> =>
    board.settle(`fetchText(${JSON.stringify({ url: `${at}?key=1`, ...options })},${maxBytes})`, stepMs);

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
    // What was received is handed on a moment later, if it still matters.
    board.clock.advance(10);
    expect(board.pending()).toBe(before);
  });

  it("keeps a part of a long answer, and closes the connection then", async () => {
    let sent = 0;
    const piece = new TextEncoder().encode("x".repeat(500));
    const stream = new ReadableStream({
      async pull(controller) {
        await new Promise((resolve) => setImmediate(resolve));
        controller.enqueue(piece);
        if (++sent === 200) controller.close();
      },
    });
    board = networkBoard([http.get(at, () => new HttpResponse(stream, { headers: { "transfer-encoding": "chunked" } }))], {});
    const got = await fetch({}, 1500);
    expect(got).toMatchObject({ cut: true, body: "x".repeat(1500) });
    expect(sent).toBeLessThan(100);
  });

  it("ends after its time, without the query in the words", async () => {
    board = networkBoard([http.get(at, () => new Promise<never>(() => {}))], {});
    await expect(fetch({ timeoutMs: 5000 }, 1000, SLOW)).rejects.toThrow(`${at} did not answer within 5000 ms`);
    expect(board.clock.now()).toBeLessThan(7000);
  });

  it("ends where nobody answers", async () => {
    board = networkBoard([http.get(at, () => HttpResponse.error())], {});
    await expect(fetch({})).rejects.toThrow(`no answer from ${at} (`);
  });

  it("ends with the run that it is for", async () => {
    board = networkBoard([http.get(at, () => new Promise<never>(() => {}))], {});
    board.board.evaluate("session.abort=function(){};setTimeout(function(){delete session.abort},3000)");
    const asked = board.settle(`fetchText({url:"${at}",session:session},1000)`, SLOW);
    await expect(asked).rejects.toThrow("stopped");
    expect(board.clock.now()).toBeLessThan(5000);
  });
});
