import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { http, HttpResponse } from "msw";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createSdCard, type SdCard } from "../../host-sim/sd";
import { networkBoard, SLOW } from "./network-board";

const url = "http://pictures.test/cat.png?token=secret-1";
const png = (size: number): Uint8Array =>
  Uint8Array.from({ length: size }, (_, i) => [0x89, 0x50, 0x4e, 0x47][i] ?? (i * 31 + (i >> 8)) % 256);

let dir: string;
let card: SdCard;
let board: ReturnType<typeof networkBoard>;
let answer: () => Response | Promise<Response>;
beforeAll(() => {
  dir = mkdtempSync(path.join(tmpdir(), "media-"));
  card = createSdCard(dir);
  const handler = http.get("http://pictures.test/cat.png", () => answer());
  board = networkBoard([handler], { multimodal: true, mediaBytes: 100_000 }, {}, () => ({ sd: card }));
});
afterAll(() => {
  board.close();
  rmSync(dir, { recursive: true });
});
const storage = () => board.board.storage.api;
const cardFile = (name: string): string => path.join(dir, name);
beforeEach(() => {
  storage().erase("cat.png");
  rmSync(cardFile("cat.png"), { force: true });
});

const save = (args: object, stepMs?: number): Promise<any> => board.call("save_media", args, stepMs);
const body = (bytes: Uint8Array, headers: Record<string, string> = {}, status = 200): Response =>
  new Response(Buffer.from(bytes), {
    status,
    headers: { "Content-Type": "image/png", "Content-Length": String(bytes.length), ...headers },
  });
/** Without a Content-Length; `cut` breaks the connection off behind it. */
const chunked = (bytes: Uint8Array, headers: Record<string, string>): Response =>
  new HttpResponse(
    new ReadableStream({
      start(controller) {
        for (let at = 0; at < bytes.length; at += 700) controller.enqueue(bytes.slice(at, at + 700));
        controller.close();
      },
    }),
    { headers: { "Content-Type": "image/png", ...headers } },
  );

describe("save_media", () => {
  it("is there only where files are shown to the model", () => {
    expect(board.tools()).toContain("save_media");
  });

  it.each([4, 511, 536, 537, 5000, 100_000])("saves %i bytes as they are, to the Storage and to the card", async (size) => {
    answer = () => body(png(size));
    expect(await save({ url, path: "cat.png" })).toEqual({ isError: false, content: `cat.png, ${size} bytes, image/png` });
    expect(Buffer.from(storage().read("cat.png")!, "latin1").equals(Buffer.from(png(size)))).toBe(true);
    expect(await save({ url, path: "sd:cat.png" })).toMatchObject({ isError: false });
    expect(readFileSync(cardFile("cat.png")).equals(Buffer.from(png(size)))).toBe(true);
  });

  it("saves to the card what comes without a length, and says that nobody knows whether it was all", async () => {
    answer = () => chunked(png(5000), { "Transfer-Encoding": "chunked" });
    expect((await save({ url, path: "sd:cat.png" })).content).toBe(
      "sd:cat.png, 5000 bytes, image/png. The server did not say how many there are: it may be cut off.",
    );
    expect(readFileSync(cardFile("cat.png"))).toHaveLength(5000);
    expect((await save({ url, path: "cat.png" })).content).toContain("The Storage needs to know the size beforehand");
  });

  const html = new TextEncoder().encode("<!DOCTYPE html><p>Not here</p>");
  it.each<[string, () => Response | Promise<Response>, RegExp]>([
    ["404", () => body(html, { "Content-Type": "text/html" }, 404), /pictures\.test\/cat\.png answered 404: the link may be wrong/],
    ["403 with a picture", () => body(png(500), {}, 403), /answered 403/],
    ["a redirect", () => body(png(1), { Location: "http://other.test/" }, 302), /sends us elsewhere \(302\)/],
    ["HTML", () => body(html, { "Content-Type": "text/html; charset=utf-8" }), /gave text\/html, which is no picture/],
    ["HTML that calls itself a picture", () => body(html), /gave a text, not image\/png/],
    ["JSON that calls itself bytes", () => body(new TextEncoder().encode('{"error":"no"}'), { "Content-Type": "application/octet-stream" }), /gave a text, not application\/octet-stream/],
    ["too long, and says so", () => body(png(100_001)), /has 100001 bytes, more than mediaBytes allows \(100000\)/],
    ["too long, without saying so", () => chunked(png(101_000), { "Transfer-Encoding": "chunked" }), /is longer than mediaBytes allows|size beforehand/],
    ["empty", () => body(new Uint8Array()), /is empty/],
    ["no length at all", () => chunked(png(300), {}), /does not say how long it is|size beforehand/],
    ["nobody there", () => HttpResponse.error(), /no answer from http:\/\/pictures\.test\/cat\.png/],
    ["cut off", () => body(png(3000), { "Content-Length": "5000" }), /Only 3000 of 5000 bytes|no answer|cut/],
  ])("%s: nothing is saved", async (_name, make, problem) => {
    answer = make;
    for (const name of ["cat.png", "sd:cat.png"]) {
      const result = await save({ url, path: name }, SLOW);
      expect(result).toMatchObject({ isError: true, content: expect.stringMatching(/^Nothing was saved: /) });
      expect(result.content).toMatch(problem);
      expect(result.content).not.toContain("secret-1");
      expect(storage().read("cat.png")).toBeUndefined();
      expect(existsSync(cardFile("cat.png"))).toBe(false);
    }
    board.clock.advance(1000);
    expect(board.pending()).toBe(0);
  });

  it.each([
    [{ url: "ftp://a/b", path: "a.png" }, /url must start with http/],
    [{ url: "http://a b/", path: "a.png" }, /hold no spaces/],
    [{ url, path: "agent.json" }, /agent\.json holds/],
    [{ url, path: "sd:../a.png" }, /starts at its root/],
    [{ url }, /path/],
  ])("%j is refused", async (args, problem) => {
    answer = () => body(png(500));
    const result = await save(args);
    expect(result).toMatchObject({ isError: true, content: expect.stringMatching(problem) });
  });

  it("never over a file that is there", async () => {
    answer = () => body(png(500));
    storage().write("cat.png", "old");
    expect((await save({ url, path: "cat.png" })).content).toContain("cat.png exists already");
    expect(storage().read("cat.png")).toBe("old");
  });

  it("a full Storage and a full card say so, and keep nothing", async () => {
    answer = () => body(png(90_000));
    const free = storage().getFree();
    board.board.evaluate(`require("Storage").write("fill","x",0,${free - 20_000})`);
    expect((await save({ url, path: "cat.png" })).content).toContain("The Storage is full");
    expect(storage().read("cat.png")).toBeUndefined();
    card.freeBytes = 50_000;
    expect((await save({ url, path: "sd:cat.png" })).content).toMatch(/SD card failed.*is it full/);
    expect(existsSync(cardFile("cat.png"))).toBe(false);
    card.freeBytes = Number.POSITIVE_INFINITY;
  });
});
