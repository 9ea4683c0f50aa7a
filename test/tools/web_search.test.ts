import { delay, http, HttpResponse } from "msw";
import { afterEach, describe, expect, it } from "vitest";
import {
  duckDuckGo,
  duckDuckGoEmpty,
  tavilyError,
  tavilyExtract,
  tavilyExtractFailed,
  tavilySearch,
  webResults,
} from "../fixtures/services";
import { networkBoard, SLOW } from "./network-board";

const searchKey = "tvly-secret-0123456789";
const URL_ = "http://gateway.test/tavily";
const settings = { searchUrl: `${URL_}/`, searchKey };

let board: ReturnType<typeof networkBoard> | undefined;
afterEach(() => {
  board?.close();
  board = undefined;
});

type Resolver = Parameters<typeof http.post>[1];

/** What the tool gives where the search service answers with `resolver`. */
async function search(resolver: Resolver, args: object = { query: "lake" }, own: object = settings, stepMs?: number): Promise<any> {
  board = networkBoard([http.all("http://gateway.test/*", resolver)], { ...own });
  const before = board.pending();
  const result = await board.call("web_search", args, stepMs);
  expect(board.unhandled).toEqual([]);
  expect(board.output() + result.content).not.toContain(searchKey);
  board.clock.advance(10);
  expect(board.pending()).toBe(before);
  return result;
}

describe("web_search with Tavily", () => {
  it("sends what Tavily takes, and gives an answer and a few results", async () => {
    let seen: Request | undefined;
    let body: any;
    const result = await search(async ({ request }) => {
      seen = request;
      body = await request.clone().json();
      return HttpResponse.json(tavilySearch(webResults, "It is 251 m deep."));
    }, { query: '  "deep"\n€ 😀 ' });
    expect(seen!.method).toBe("POST");
    expect(seen!.url).toBe(`${URL_}/search`);
    expect(seen!.headers.get("authorization")).toBe(`Bearer ${searchKey}`);
    expect(seen!.headers.get("content-type")).toBe("application/json");
    expect(body).toEqual({ query: '"deep"\n€ 😀', max_results: 3, search_depth: "basic", include_answer: true });
    expect(result.isError).toBe(false);
    const [answer, first, second, third] = result.content.split("\n\n").map((part: string) => part.split("\n"));
    expect(answer).toEqual(["It is 251 m deep."]);
    expect(first.slice(0, 2)).toEqual([webResults[0]!.title, webResults[0]!.url]);
    expect(first[2]).toMatch(/^Lake Constance \(German: Bodensee\) .*\.\.\.$/);
    expect(second[0]).toBe(webResults[1]!.title.slice(0, 80));
    expect(third).toEqual([webResults[2]!.title, webResults[2]!.url, webResults[2]!.content]);
    expect(Buffer.byteLength(result.content)).toBeLessThanOrEqual(1024);
  });

  it("keeps within toolResultBytes, whatever that is", async () => {
    for (const toolResultBytes of [64, 300, 4096]) {
      const many = Array.from({ length: 20 }, () => webResults).flat();
      const result = await search(() => HttpResponse.json(tavilySearch(many, "An answer.")), undefined, { ...settings, toolResultBytes });
      expect(result.isError).toBe(false);
      expect(Buffer.byteLength(result.content)).toBeLessThanOrEqual(toolResultBytes);
      expect(result.content).toContain("An answer.");
      board!.close();
    }
  });

  it("reads JSON in every form: escapes, spaces, missing and odd fields", async () => {
    const ascii = JSON.stringify(tavilySearch([webResults[2]!], "Größe €"), undefined, 2).replace(
      /[^\0-\x7f]/g,
      (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`,
    );
    const result = await search(() => new HttpResponse(ascii, { headers: { "content-type": "application/json" } }));
    expect(result.content).toMatch(/^Größe €\n\nBodensee\nhttps:\/\/de\.example\/bodensee\nGrößte Tiefe: 251,14 m\./);
    board!.close();
    const odd = { answer: null, results: [{ title: "only a title" }, { url: "http://only.an/address" }, { content: "text" }, {}, null, []] };
    expect((await search(() => HttpResponse.json(odd))).content).toBe("only a title\n\nhttp://only.an/address\n\ntext");
  });

  it("says that nothing was found", async () => {
    const none = { isError: false, content: "Nothing was found for lake. Try other words." };
    expect(await search(() => HttpResponse.json(tavilySearch([])))).toEqual(none);
    board!.close();
    expect(await search(() => HttpResponse.json({}))).toEqual(none);
  });

  it("reads a page, and cuts it", async () => {
    let body: any;
    const text = `# A page\n\nwith "quotes", Ünicode and\ttabs. ${"more € ".repeat(2000)}`;
    const result = await search(async ({ request }) => {
      expect(request.url).toBe(`${URL_}/extract`);
      body = await request.json();
      return HttpResponse.json(tavilyExtract("https://a.example/x?y=z", text));
    }, { query: "what", url: " https://a.example/x?y=z " });
    expect(body).toEqual({ urls: ["https://a.example/x?y=z"], query: "what", chunks_per_source: 2 });
    expect(result.content).toMatch(/^# A page\n\nwith "quotes", Ünicode and\ttabs\. more €/);
    expect(Buffer.byteLength(result.content)).toBeLessThanOrEqual(1024);
  });

  it("says why a page cannot be read", async () => {
    const page = { query: "q", url: "https://a.example" };
    const failed = await search(() => HttpResponse.json(tavilyExtractFailed(page.url, "Failed to fetch url")), page);
    expect(failed).toEqual({ isError: true, content: "The page could not be read: Failed to fetch url" });
    board!.close();
    const empty = await search(() => HttpResponse.json(tavilyExtract(page.url, "")), page);
    expect(empty).toEqual({ isError: true, content: "The page could not be read: there is no text on it" });
  });

  it.each([
    [{ query: " " }, "The query is empty"],
    [{ query: "q", url: "file:///etc" }, "url must start with http"],
    [{}, '"query" is missing'],
    [{ query: 5 }, '"query" must be of type string'],
  ])("refuses %j without asking", async (args, says) => {
    const result = await search(() => expect.unreachable(), args);
    expect(result).toEqual({ isError: true, content: expect.stringContaining(says) });
  });
});

describe("web_search with DuckDuckGo", () => {
  const own = { searchUrl: "http://gateway.test" };

  it("is asked without a key, and where it is chosen; a key is not sent to it", async () => {
    for (const some of [own, { ...own, searchKey, searchProvider: "duckduckgo" }]) {
      const result = await search(({ request }) => {
        expect(request.method).toBe("GET");
        expect(request.url).toBe("http://gateway.test/?q=tomato%20%26%20%E2%82%AC&format=json&no_html=1&skip_disambig=1");
        expect(request.headers.get("authorization")).toBe(null);
        return HttpResponse.json(duckDuckGo, { headers: { "content-type": "application/x-javascript" } });
      }, { query: "tomato & €" }, some);
      expect(result.isError).toBe(false);
      expect(result.content).toMatch(/^Tomato\nhttps:\/\/en\.wikipedia\.org\/wiki\/Tomato\nThe tomato is the edible berry of the plant .{200,} peoples of Mexico\.\n\n/);
      expect(result.content).toContain('\n\nhttps://duckduckgo.com/Barbados\nBarbados is a kind of tomato – "red" & round.');
      expect(result.content).toContain("\n\nhttps://duckduckgo.com/Topic_0\nTopic_0 says");
      expect(Buffer.byteLength(result.content)).toBeLessThanOrEqual(1024);
      board!.close();
    }
  });

  it("says what it is good for where it knows nothing", async () => {
    const result = await search(() => HttpResponse.json(duckDuckGoEmpty), { query: "how to cook" }, own);
    expect(result).toEqual({ isError: false, content: expect.stringMatching(/^Nothing was found for how to cook\. DuckDuckGo only knows names/) });
  });

  it("may be switched over to Tavily's API without a key, where a gateway has it", async () => {
    const result = await search(({ request }) => {
      expect(request.headers.get("authorization")).toBe(null);
      return HttpResponse.json(tavilySearch([], "Yes."));
    }, undefined, { ...own, searchProvider: "tavily" });
    expect(result.content).toBe("Yes.");
  });
});

describe("web_search where the service is not as it should be", () => {
  const html = "<!DOCTYPE html><html><body><h1>Log in</h1><script>{}</script></body></html>";
  const page = (status: number): HttpResponse<string> => new HttpResponse(html, { status, headers: { "content-type": "text/html" } });

  it.each<[string, () => Response, string]>([
    ["a wrong key", () => HttpResponse.json(tavilyError("Unauthorized: missing or invalid API key."), { status: 401 }),
      "The search service answered 401: Unauthorized: missing or invalid API key. (check searchKey)"],
    ["the key itself", () => HttpResponse.json(tavilyError(`No such key: ${searchKey}`), { status: 403 }),
      "The search service answered 403: No such key: *** (check searchKey)"],
    ["a used up plan", () => HttpResponse.json(tavilyError("This request exceeds your plan's set usage limit."), { status: 432 }),
      "The search service answered 432: This request exceeds your plan's set usage limit. (it is asked too often, or the quota is used up)"],
    ["a bad request", () => HttpResponse.json({ detail: [{ type: "x", loc: ["body", "query"], msg: "Field required" }] }, { status: 422 }),
      "The search service answered 422: Field required"],
    ["a page with 404", () => page(404), "The search service answered 404 (check searchUrl)"],
    ["a page with 502", () => page(502), "The search service answered 502 (it has a problem of its own, try later)"],
    ["a page with 200", () => page(200), "The search service sent something that is no JSON: check searchUrl"],
    ["elsewhere", () => new HttpResponse(null, { status: 301, headers: { location: "https://x.test" } }),
      "The search service answered 301 (it sends us elsewhere: check searchUrl. What is on the internet wants https: put a gateway in between)"],
    ["plain text with 500", () => new HttpResponse("boom", { status: 500 }),
      "The search service answered 500 (it has a problem of its own, try later)"],
    ["nothing", () => new HttpResponse("", { status: 200 }), "The search service was cut off in its answer: try again"],
  ])("answers with %s", async (_what, answer, content) => {
    expect(await search(answer)).toEqual({ isError: true, content });
  });

  it("is not there", async () => {
    const result = await search(() => HttpResponse.error());
    expect(result.isError).toBe(true);
    expect(result.content).toMatch(
      /^The search service: no answer from http:\/\/gateway\.test\/tavily\/search \(.+\)\. Tell the person to check searchUrl \(http:\/\/gateway\.test\/tavily\/\) and that it runs$/,
    );
  });

  it("does not answer in time", async () => {
    const result = await search(() => delay("infinite") as never, undefined, undefined, SLOW);
    expect(result).toEqual({ isError: true, content: expect.stringMatching(/did not answer within 30000 ms.*check searchUrl/) });
  });

  it("stops in the middle, or the connection breaks", async () => {
    const start = new TextEncoder().encode('{"answer":"half an ans');
    for (const broken of [true, false]) {
      const stream = new ReadableStream({
        async start(controller) {
          controller.enqueue(start);
          // By then the board has sent and received what there is.
          for (let turn = 0; turn < 100; turn++) await new Promise((resolve) => setImmediate(resolve));
          if (broken) controller.error(new Error("reset"));
          else controller.close();
        },
      });
      const result = await search(async ({ request }) => {
        await request.text();
        return new HttpResponse(stream, { headers: { "transfer-encoding": "chunked" } });
      });
      expect(result).toEqual({ isError: true, content: "The search service was cut off in its answer: try again" });
      board!.close();
    }
  });

  it("talks without end: the connection is closed once there is enough", async () => {
    let sent = 0;
    const stream = new ReadableStream({
      async pull(controller) {
        await new Promise((resolve) => setImmediate(resolve));
        const item = JSON.stringify({ title: `T${sent}`, url: "http://a", content: "c".repeat(300) });
        controller.enqueue(new TextEncoder().encode(sent ? `,${item}` : `{"results":[${item}`));
        if (++sent === 500) controller.close();
      },
    });
    const result = await search(() => new HttpResponse(stream, { headers: { "transfer-encoding": "chunked" } }));
    expect(result.isError).toBe(false);
    expect(result.content).toContain("T0\nhttp://a\nccc");
    expect(sent).toBeLessThan(200);
  });
});

describe("the tools of services", () => {
  const names = ["web_search", "search_similar_images", "get_recent_user_messages", "get_recent_group_messages"];

  it.each([
    [{}, []],
    [{ searchUrl: "http://h" }, ["web_search"]],
    [{ searchKey }, []],
    [{ weaviateUrl: "http://h" }, ["search_similar_images"]],
    [{ messageLog: 4096 }, ["get_recent_user_messages", "get_recent_group_messages"]],
    [{ messageUrl: "http://h/m" }, ["get_recent_user_messages", "get_recent_group_messages"]],
  ])("with %j are %j", (own, expected) => {
    board = networkBoard([], own);
    expect(board.tools().filter((name) => names.includes(name)).sort()).toEqual([...expected].sort());
    expect(board.output()).not.toContain("agent.json");
  });
});
