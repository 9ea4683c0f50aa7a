import fc from "fast-check";
import { http, HttpResponse } from "msw";
import { afterEach, describe, expect, it } from "vitest";
import { networkBoard } from "./network-board";

let board: ReturnType<typeof networkBoard> | undefined;
afterEach(() => {
  board?.close();
  board = undefined;
});

const at = "http://gateway.test";

/** JSON of any shape, in which the fields that a tool looks for are frequent and hold anything. */
function replyOf(keys: string[]): fc.Arbitrary<unknown> {
  const { tree } = fc.letrec((tie) => ({
    leaf: fc.oneof(
      fc.string({ maxLength: 20 }),
      fc.double(),
      fc.constantFrom(1e300, -1, 0, 1700000000, 1700000000000, null, true, false, "", "9".repeat(400)),
    ),
    tree: fc.oneof(
      { maxDepth: 5, withCrossShrink: true },
      tie("leaf"),
      fc.array(tie("tree"), { maxLength: 4 }),
      fc.dictionary(fc.oneof({ weight: 5, arbitrary: fc.constantFrom(...keys) }, { weight: 1, arbitrary: fc.string({ maxLength: 8 }) }), tie("tree"), { maxKeys: 5 }),
    ),
  }));
  return tree;
}

const tavily = ["answer", "results", "title", "url", "content"];
const services: [what: string, tool: string, args: object, settings: Record<string, unknown>, keys: string[]][] = [
  ["Tavily", "web_search", { query: "q" }, { searchUrl: at, searchKey: "tvly-0123456789" }, tavily],
  ["a page of Tavily's", "web_search", { query: "q", url: "http://a/" }, { searchUrl: at, searchKey: "tvly-0123456789" }, ["results", "raw_content", "failed_results", "error"]],
  ["DuckDuckGo", "web_search", { query: "q" }, { searchUrl: at }, ["Heading", "AbstractText", "AbstractURL", "Answer", "RelatedTopics", "Topics", "FirstURL", "Text"]],
  ["Weaviate", "search_similar_images", { text: "cat" }, { weaviateUrl: at }, ["data", "Get", "_additional", "distance", "errors", "message", "Image", "title", "url"]],
  ["the message service", "get_recent_user_messages", {}, { messageUrl: at }, ["messages", "time", "user", "text"]],
];

describe("whatever JSON a service answers with", () => {
  it.each(services)("%s: %s gives a result", async (_what, tool, args, settings, keys) => {
    let body: unknown;
    let status = 200;
    board = networkBoard([http.all(`${at}/*`, () => HttpResponse.json(body as any, { status }))], settings);
    await fc.assert(
      fc.asyncProperty(replyOf(keys), fc.constantFrom(200, 200, 200, 200, 422), async (json, code) => {
        body = json;
        status = code;
        // No more than ten searches in a minute.
        board!.clock.advance(10_000);
        const result = await board!.call(tool, args);
        expect(result).toMatchObject({ isError: expect.any(Boolean), content: expect.stringMatching(/./) });
        expect(result.content).not.toMatch(/gave no result|cannot be read/);
      }),
      { numRuns: 150 },
    );
    expect(board.unhandled).toEqual([]);
    expect(board.output()).not.toContain("Uncaught");
  }, 120_000);

  it.each<[string, unknown, unknown, object]>([
    ["a page that is a number", 1, { results: [{ raw_content: 5 }] }, { isError: false, content: "5" }],
    ["an error that is an object", 1, { failed_results: [{ error: { a: 1 } }] }, { isError: true, content: expect.stringContaining("there is no text on it") }],
    ["a distance that is text", 3, { data: { Get: { Image: [{ _additional: { distance: "abc" }, title: "t" }] } } }, { isError: false, content: "distance: abc, title: t" }],
    ["a time in milliseconds", 4, { messages: [{ time: 1796034000000, user: "u", text: 7 }] }, { isError: false, content: "2026-11-30 10:20 u: 7" }],
    ["a time that is none", 4, { messages: [{ time: 1e300, user: ["x"], text: "t" }] }, { isError: false, content: "x: t" }],
  ])("%s", async (_what, which, json, expected) => {
    const [, tool, args, settings] = services[which as number]!;
    board = networkBoard([http.all(`${at}/*`, () => HttpResponse.json(json as any))], settings);
    expect(await board.call(tool, args)).toEqual(expected);
  });

  it("an address without a path gets one", async () => {
    const seen: string[] = [];
    for (const messageUrl of [at, `${at}?board=7`, `${at}/m?board=7`]) {
      board = networkBoard([http.all(`${at}/*`, ({ request }) => (seen.push(request.url), HttpResponse.json([])))], { messageUrl });
      await board.call("get_recent_user_messages", {});
      board.close();
    }
    expect(seen).toEqual([`${at}/?user=console&limit=6`, `${at}/?board=7&user=console&limit=6`, `${at}/m?board=7&user=console&limit=6`]);
  });
});
