import { createServer, type AddressInfo } from "node:net";
import { describe, expect } from "vitest";
import { serve } from "../drivers/serve";
import type { TestBoard } from "../drivers/types";
import {
  duckDuckGo,
  tavilyError,
  tavilyExtract,
  tavilySearch,
  weaviateFound,
  webResults,
} from "../fixtures/services";
import { text, toolCall, type Turn } from "../fixtures/scripted-model";
import { scenario, type ScenarioContext, type ScenarioOptions } from "./scenario";

const searchKey = "tvly-scenario-0123456789";

/** A scenario with services on this computer; `settings` are set with their address. Secrets go into `options.settings`. */
function withServices(
  name: string,
  handle: (request: Request) => Promise<Response>,
  settings: (url: string) => Record<string, unknown>,
  options: ScenarioOptions,
  body: (context: ScenarioContext) => Promise<void>,
): void {
  scenario(name, options, async (context) => {
    const problems: string[] = [];
    const server = await serve(handle, (problem) => problems.push(problem));
    try {
      await context.board.runLine(`set_config(${JSON.stringify(settings(server.url))})`);
      await body(context);
      expect(problems).toEqual([]);
      for (const name of ["searchKey", "messageToken"])
        if (options.settings?.[name]) expect(context.board.output()).not.toContain(options.settings[name]);
    } finally {
      await server.close();
    }
  });
}

async function results(board: TestBoard, prompt = "go"): Promise<[boolean, string][]> {
  const events = await board.ask(prompt, { giveUpMs: 60_000 });
  expect(events.at(-1), board.output().slice(-2000)).toMatchObject({ type: "final", text: "done" });
  return events.filter((event) => event.type === "toolEnd").map((event) => [event.isError, event.content]);
}

const calls = (...args: [name: string, args: object][]): Turn[] => [...args.map(([name, one]) => toolCall(name, one)), text("done")];

describe("web_search", () => {
  const asked: { path: string; key: string | null; body: any }[] = [];
  const tavily = async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url);
    asked.push({ path: pathname, key: request.headers.get("authorization"), body: await request.json() });
    // 10 kB of what nobody asked for.
    if (pathname === "/search") return Response.json(tavilySearch(webResults, "It is 251 m deep.", 10_000));
    return Response.json(tavilyExtract("https://a.example/", "The lake has a depth – greatest – of 251 m. ".repeat(300)));
  };
  const turns = calls(
    ["web_search", { query: 'how deep is "lake constance"' }],
    ["web_search", { query: "depth", url: "https://a.example/" }],
  );
  withServices("asks Tavily, and reads a page with it; long answers cost no memory for good", tavily,
    (url) => ({ searchUrl: url }),
    {
      turns: Array.from({ length: 4 }, () => turns).flat(),
      byteStrings: true,
      settings: { historyBytes: 8192, searchKey },
      timeoutMs: 120_000,
    },
    async ({ board, model }) => {
      const usages: number[] = [];
      for (let i = 0; i < 4; i++) {
        const [search, page] = await results(board);
        expect(search![0], search![1]).toBe(false);
        expect(search![1]).toMatch(/^It is 251 m deep\.\n\nLake Constance - Wikipedia\nhttps:\/\/en\.wikipedia\.org\/wiki\/Lake_Constance\nLake/);
        expect(search![1]).toContain("https://de.example/bodensee\nGrößte Tiefe");
        expect(page![0]).toBe(false);
        expect(page![1]).toMatch(/^The lake has a depth – greatest – of 251 m\. The/);
        for (const [, content] of [search!, page!]) expect(Buffer.byteLength(content)).toBeLessThanOrEqual(1024);
        usages.push((await board.memory()).usage);
      }
      expect(asked.slice(0, 2)).toEqual([
        {
          path: "/search",
          key: `Bearer ${searchKey}`,
          body: { query: 'how deep is "lake constance"', max_results: 3, search_depth: "basic", include_answer: true },
        },
        { path: "/extract", key: `Bearer ${searchKey}`, body: { urls: ["https://a.example/"], query: "depth", chunks_per_source: 2 } },
      ]);
      expect(JSON.stringify(model.requests.map(({ json }) => json))).not.toContain(searchKey);
      console.log(`web_search: ${usages.join(", ")} variables after each prompt`);
      // The history fills, and the times of ten calls are remembered, so that there are no more in a minute.
      if (board.memoryKind !== "other") expect(usages.at(-1)).toBeLessThanOrEqual(usages[2]! + 15);
    });

  const duck = async (request: Request): Promise<Response> => {
    expect(new URL(request.url).search).toBe("?q=tomato%20%C3%A9&format=json&no_html=1&skip_disambig=1");
    return Response.json(duckDuckGo, { headers: { "content-type": "application/x-javascript" } });
  };
  withServices("asks DuckDuckGo without a key", duck, (url) => ({ searchUrl: `${url}/` }),
    { turns: calls(["web_search", { query: "tomato é" }], ["web_search", { query: "x", url: "http://a/" }]), byteStrings: true },
    async ({ board }) => {
      const [found, page] = await results(board);
      expect(found![0]).toBe(false);
      expect(found![1]).toMatch(/^Tomato\nhttps:\/\/en\.wikipedia\.org\/wiki\/Tomato\nThe tomato is the edible berry/);
      expect(found![1]).toContain('https://duckduckgo.com/Barbados\nBarbados is a kind of tomato – "red" & round.');
      expect(Buffer.byteLength(found![1])).toBeLessThanOrEqual(1024);
      expect(page).toEqual([true, expect.stringContaining("takes Tavily")]);
    });

  const answers = [
    () => Response.json(tavilyError("Unauthorized: missing or invalid API key."), { status: 401 }),
    () => new Response("<html><body>Log in</body></html>", { headers: { "content-type": "text/html" } }),
    () => new Response("<html>502</html>", { status: 502 }),
    () => Response.json(tavilySearch([])),
  ];
  withServices("says what is wrong with the service, and the board works on", async () => answers.shift()!(),
    (url) => ({ searchUrl: url }),
    { settings: { searchKey }, turns: calls(...["a", "b", "c", "d"].map((query) => ["web_search", { query }] as [string, object])) },
    async ({ board }) => {
      expect(await results(board)).toEqual([
        [true, "The search service answered 401: Unauthorized: missing or invalid API key. (check searchKey)"],
        [true, "The search service sent something that is no JSON: check searchUrl"],
        [true, "The search service answered 502 (it has a problem of its own, try later)"],
        [false, "Nothing was found for d. Try other words."],
      ]);
    });

  const gone = { turns: calls(["web_search", { query: "a" }]), allow: /ERROR: Connect failed/ };
  scenario("says that nobody is there, and is not there itself without searchUrl", gone, async ({ board, model }) => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    await new Promise((resolve) => server.close(resolve));
    expect(await board.runLine("list_tools")).not.toContain("web_search");
    await board.runLine(`set_config({searchUrl:"${url}"})`);
    const [[isError, content]] = (await results(board)) as [[boolean, string]];
    expect(isError).toBe(true);
    expect(content).toContain(`The search service: no answer from ${url}/ (`);
    expect(content).toContain(`check searchUrl (${url})`);
    const names = model.requests[0]!.json.tools!.map((tool) => tool.function.name);
    expect(names).toContain("web_search");
    expect(names).not.toContain("search_similar_images");
    expect(names).not.toContain("get_recent_user_messages");
  });
});

describe("search_similar_images", () => {
  const image = Buffer.from(Array.from({ length: 10_001 }, (_, i) => (i < 3 ? [0xff, 0xd8, 0xff][i]! : (i * 31) % 251)));
  const queries: string[] = [];
  const weaviate = async (request: Request): Promise<Response> => {
    expect(new URL(request.url).pathname).toBe("/v1/graphql");
    queries.push(((await request.json()) as { query: string }).query);
    return Response.json(
      weaviateFound("Photo", [
        { _additional: { distance: 0.1234567 }, name: "Cat", width: 640 },
        { _additional: { distance: 0.3 }, name: null, width: null },
      ]),
    );
  };
  withServices("asks Weaviate for what is like an image of the board, or fits a text", weaviate,
    (url) => ({ weaviateUrl: url, weaviateClass: "Photo", weaviateFields: "name,width" }),
    {
      turns: calls(
        ["search_similar_images", { image: "cat.jpg" }],
        ["search_similar_images", { text: 'a "black" cat\né', limit: 2 }],
        ["search_similar_images", { image: "notes.txt" }],
      ),
      files: { "cat.jpg": image, "notes.txt": "no image" },
      byteStrings: true,
    },
    async ({ board }) => {
      const found = "name: Cat, width: 640, distance 0.123\n(no name,width), distance 0.300";
      expect(await results(board)).toEqual([
        [false, found],
        [false, found],
        [true, expect.stringContaining("notes.txt is no image")],
      ]);
      expect(queries).toEqual([
        `{Get{Photo(limit:3,nearImage:{image:"${image.toString("base64")}"}){name width _additional{distance}}}}`,
        '{Get{Photo(limit:2,nearText:{concepts:["a \\"black\\" cat\\né"]}){name width _additional{distance}}}}',
      ]);
    });
});

describe("services that answer in other types than they should", () => {
  const odd = async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url);
    if (pathname === "/extract") return Response.json({ results: [{ raw_content: 5 }] });
    if (pathname === "/search") return Response.json({ answer: { a: 1 }, results: [{ title: 1, url: [2], content: null }, "x", 7] });
    if (pathname === "/") return Response.json({ messages: [{ time: 1e300, user: ["ann"], text: 6 }, { time: { a: 1 }, text: null }] });
    return Response.json({ data: { Get: { Image: [{ _additional: { distance: "near" }, title: null }] } }, errors: null });
  };
  const own = {
    settings: { searchKey },
    turns: calls(
      ["web_search", { query: "q", url: "http://a.example/" }],
      ["web_search", { query: "q" }],
      ["search_similar_images", { text: "cat" }],
      ["get_recent_user_messages", {}],
    ),
  };
  withServices("give results", odd, (url) => ({ searchUrl: url, weaviateUrl: url, messageUrl: url }), own, async ({ board }) => {
    expect(await results(board)).toEqual([
      [false, "5"],
      [false, "1\n2\n\n7"],
      [false, "distance: near"],
      [false, "ann: 6"],
    ]);
    expect(await board.timers()).toBe(0);
  });
});

describe("the message log", () => {
  const logged = {
    settings: { messageLog: 4096 },
    turns: [text("It is on."), text("Ünused."), ...calls(["get_recent_user_messages", { limit: 4 }], ["get_recent_group_messages", { group: "g" }])],
    byteStrings: true,
  };
  scenario("keeps what was said at the console, and the model can look it up", logged, async ({ board }) => {
    await board.ask("turn on the lamp");
    await board.runLine("clear_history");
    await board.ask("and\nthe fän?");
    const [user, group] = await results(board, "what did I say?");
    expect(user![0]).toBe(false);
    expect(user![1].replace(/^[-\d]+ [:\d]+ /gm, "")).toBe(
      "console: turn on the lamp\nagent: It is on.\nconsole: and the fän?\nagent: Ünused.",
    );
    expect(group).toEqual([false, "There are no messages of the group g."]);
    const file = (await board.file("messages.0"))!;
    expect(file.length).toBe(2048);
    expect(await board.runLine('require("Storage").list(/^messages/).join()')).toBe('="messages.0"');
  });

  scenario("is not kept unless it is set", { turns: [text("hello")] }, async ({ board }) => {
    await board.ask("hi");
    expect(await board.runLine('require("Storage").list(/^messages/).length')).toBe("=0");
  });

  const service = async (request: Request): Promise<Response> => {
    const { searchParams } = new URL(request.url);
    expect(request.headers.get("authorization")).toBe("Bearer token-0123456789");
    const messages = [
      { id: 1, time: 1790000000, user: "ann", text: "hello" },
      { id: 2, time: "yesterday", user: "bob", text: `for ${searchParams.get("group") ?? searchParams.get("user")}` },
    ];
    return Response.json({ total: 2, messages });
  };
  withServices("may be a service in the network", service,
    (url) => ({ messageUrl: `${url}/messages?board=1` }),
    { settings: { messageToken: "token-0123456789" }, turns: calls(["get_recent_group_messages", { group: "the family" }], ["get_recent_user_messages", { user: "ann" }]) },
    async ({ board }) => {
      expect(await results(board)).toEqual([
        [false, "2026-09-21 14:13 ann: hello\nyesterday bob: for the family"],
        [false, "2026-09-21 14:13 ann: hello\nyesterday bob: for ann"],
      ]);
      expect(await board.runLine("show_llm_config")).toContain("messageToken: set");
    });
});
