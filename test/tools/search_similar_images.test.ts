import { http, HttpResponse } from "msw";
import { afterEach, describe, expect, it } from "vitest";
import { weaviateError, weaviateFound } from "../fixtures/services";
import { networkBoard, SLOW } from "./network-board";

const settings = { weaviateUrl: "http://gateway.test:8080/", weaviateKey: "weaviate-secret-1", weaviateClass: "Photo" };

let board: ReturnType<typeof networkBoard> | undefined;
afterEach(() => {
  board?.close();
  board = undefined;
});

/** The query that was sent, and what the tool gave. */
async function search(
  args: object,
  answer: () => Response = () => HttpResponse.json(weaviateFound("Photo", [])),
  own: object = settings,
  files: Record<string, string | Uint8Array> = {},
  stepMs?: number,
): Promise<{ query?: string; result: any }> {
  let query: string | undefined;
  const handler = http.post("http://gateway.test:8080/v1/graphql", async ({ request }) => {
    const length = Number(request.headers.get("content-length"));
    const body = await request.text();
    expect(Buffer.byteLength(body)).toBe(length);
    expect(request.headers.get("authorization")).toBe("Bearer weaviate-secret-1");
    query = JSON.parse(body).query;
    return answer();
  });
  board = networkBoard([handler], { ...own }, files);
  const result = await board.call("search_similar_images", args, stepMs);
  expect(board.unhandled).toEqual([]);
  return { query, result };
}

const jpeg = (size: number): Buffer => Buffer.from(Array.from({ length: size }, (_, i) => [0xff, 0xd8, 0xff][i] ?? (i * 37) % 256));

describe("search_similar_images", () => {
  it("asks for what fits a text", async () => {
    const { query, result } = await search({ text: 'a "cat"\n– ünder } a tree', limit: 5 }, () =>
      HttpResponse.json(
        weaviateFound("Photo", [
          { _additional: { distance: 0.12345 }, title: "Cat\nunder a tree", url: "http://a/1.jpg" },
          { _additional: { distance: 1 }, title: "Größe", url: null },
          { _additional: { distance: 0.5 }, title: null, url: null },
        ]),
      ),
    );
    expect(query).toBe(
      '{Get{Photo(limit:5,nearText:{concepts:["a \\"cat\\"\\n– ünder } a tree"]}){title url _additional{distance}}}}',
    );
    expect(result).toEqual({
      isError: false,
      content: "title: Cat under a tree, url: http://a/1.jpg, distance 0.123\ntitle: Größe, distance 1.000\n(no title,url), distance 0.500",
    });
  });

  it.each([3, 4, 5, 383, 384, 385, 768, 1000, 20_000])("sends an image of %i bytes as base64, piece by piece", async (size) => {
    const { query, result } = await search({ image: "./cat.jpg" }, undefined, settings, { "cat.jpg": jpeg(size) });
    expect(query).toBe(`{Get{Photo(limit:3,nearImage:{image:"${jpeg(size).toString("base64")}"}){title url _additional{distance}}}}`);
    expect(result).toEqual({ isError: false, content: "No image was found." });
  });

  it("has a collection and properties of the person's choice, of any simple type", async () => {
    const own = { ...settings, weaviateClass: "Bild", weaviateFields: "name,width,tags,ok" };
    const found = { _additional: { distance: 0.25 }, name: "x", ok: true, tags: ["a", "b"], width: 640, extra: "no" };
    const { query, result } = await search({ text: "x" }, () => HttpResponse.json(weaviateFound("Bild", [found])), own);
    expect(query).toContain("{Get{Bild(");
    expect(query).toContain("{name width tags ok _additional{distance}}");
    expect(result.content).toBe("name: x, ok: true, tags: a, tags: b, width: 640, distance 0.250");
  });

  it("gives no more than fits into a result", async () => {
    const image = { _additional: { distance: 0.1 }, title: "t".repeat(500), url: "u".repeat(500) };
    const { result } = await search({ text: "x", limit: 10 }, () => HttpResponse.json(weaviateFound("Photo", Array(10).fill(image))));
    expect(result.isError).toBe(false);
    expect(result.content.length).toBeLessThanOrEqual(1024);
    expect(result.content.split("\n")).toHaveLength(3);
  });

  const unknown = 'Cannot query field "Photo" on type "GetObjectsObj".';
  it.each<[string, () => Response, string]>([
    ["an error within 200", () => HttpResponse.json(weaviateError(unknown)),
      `The image database refused the search: ${unknown} (see weaviateClass Photo, weaviateFields title,url)`],
    ["an error without data", () => HttpResponse.json({ errors: [{ locations: [], message: unknown, path: null }] }),
      `The image database refused the search: ${unknown} (see weaviateClass Photo, weaviateFields title,url)`],
    ["401", () => HttpResponse.json({ code: 401, message: "anonymous access not enabled" }, { status: 401 }),
      "The image database answered 401: anonymous access not enabled (check weaviateKey)"],
    ["422", () => HttpResponse.json({ error: [{ message: "no graphql provider present" }] }, { status: 422 }),
      "The image database answered 422: no graphql provider present"],
    ["a page", () => new HttpResponse("<html></html>"), "The image database sent something that is no JSON: check weaviateUrl"],
    ["half an answer", () => new HttpResponse('{"data":{"Get":{"Photo":[{"title":"x"'), "The image database was cut off in its answer: try again"],
  ])("says what is wrong with %s", async (_what, answer, content) => {
    expect((await search({ text: "x" }, answer)).result).toEqual({ isError: true, content });
  });

  it("does not wait for ever", async () => {
    const { result } = await search({ text: "x" }, () => new Promise<never>(() => {}) as never, settings, {}, SLOW);
    expect(result).toEqual({ isError: true, content: expect.stringContaining("did not answer within 80000 ms") });
  });

  it.each([
    [{}, "Give either text or image"],
    [{ text: "x", image: "cat.jpg" }, "Give either text or image"],
    [{ image: "none.jpg" }, "There is no file none.jpg"],
    [{ image: "agent.json" }, "agent.json holds the agent's settings"],
    [{ image: ".varimg" }, "system file"],
    [{ image: "notes.txt" }, "notes.txt is no image"],
    [{ text: "x", limit: 11 }, '"limit" must be 10 or less'],
  ])("refuses %j without asking", async (args, says) => {
    const { query, result } = await search(args, undefined, settings, { "notes.txt": "BIG notes", ".varimg": "x" });
    expect(query).toBeUndefined();
    expect(result).toEqual({ isError: true, content: expect.stringContaining(says) });
  });
});
