import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createSdCard, type SdCard } from "../../host-sim/sd";
import { networkBoard } from "./network-board";

let dir: string;
let card: SdCard;
let board: ReturnType<typeof networkBoard>;
beforeAll(() => {
  dir = mkdtempSync(path.join(tmpdir(), "card-"));
  mkdirSync(path.join(dir, "photos/old"), { recursive: true });
  writeFileSync(path.join(dir, "photos/a.jpg"), Buffer.alloc(300));
  writeFileSync(path.join(dir, "photos/b.png"), Buffer.alloc(20));
  writeFileSync(path.join(dir, "notes.txt"), "one\ntwo – zwei\n\nfour\n");
  writeFileSync(path.join(dir, "log.txt"), Array.from({ length: 2000 }, (_, i) => `row ${i + 1}, ${"x".repeat(i % 37)}\n`).join(""));
  writeFileSync(path.join(dir, "long.txt"), "€".repeat(4000));
  card = createSdCard(dir);
  board = networkBoard([], {}, {}, () => ({ sd: card }));
});
afterAll(() => {
  board.close();
  rmSync(dir, { recursive: true });
});

describe("read_file", () => {
  it("reads rows of a file of the card", async () => {
    expect(await board.call("read_file", { path: "sd:notes.txt" })).toEqual({
      isError: false,
      content: "notes.txt, rows 1-4 of 4:\none\ntwo – zwei\n\nfour",
    });
    const { content } = await board.call("read_file", { path: "sd:/log.txt", start_row: 1500, rows: 2 });
    expect(content).toBe(
      `log.txt, rows 1500-1501 of 2000, read on with start_row 1502:\nrow 1500, ${"x".repeat(1499 % 37)}\nrow 1501, ${"x".repeat(1500 % 37)}`,
    );
    expect((await board.call("read_file", { path: "sd:log.txt", start_row: 2001 })).content).toBe("log.txt has only 2000 rows.");
  });

  it("cuts a row on a character", async () => {
    const { content } = await board.call("read_file", { path: "sd:long.txt" });
    expect(content).toMatch(/^long\.txt, rows 1-1 of 1, row 1 cut at 894 of 12000 bytes:\n€{298}$/);
  });

  it("says what is wrong", async () => {
    for (const [name, problem] of [
      ["sd:nope.txt", /There is no sd:nope\.txt on the SD card/],
      ["sd:photos", /sd:photos is a folder. Call tree with sd:photos\//],
      ["sd:../x", /starts at its root/],
    ] as const)
      expect(await board.call("read_file", { path: name })).toMatchObject({ isError: true, content: expect.stringMatching(problem) });
  });
});

describe("tree", () => {
  it.each([
    ["sd:", "4 files on the SD card in sd:\nsd:log.txt 56858\nsd:long.txt 12000\nsd:notes.txt 23\nsd:photos/"],
    ["SD:/", "4 files on the SD card in SD:/\nSD:/log.txt 56858\nSD:/long.txt 12000\nSD:/notes.txt 23\nSD:/photos/"],
    ["sd:*.txt", "3 files on the SD card in sd:\nsd:log.txt 56858\nsd:long.txt 12000\nsd:notes.txt 23"],
    ["sd:photos/", "3 files on the SD card in sd:photos/\nsd:photos/a.jpg 300\nsd:photos/b.png 20\nsd:photos/old/"],
    ["sd:photos/*.jpg", "1 file on the SD card in sd:photos/\nsd:photos/a.jpg 300"],
    ["sd:photos/old/", "0 files on the SD card in sd:photos/old/"],
  ])("%s", async (pattern, content) => {
    expect(await board.call("tree", { pattern })).toEqual({ isError: false, content });
  });

  it("says what is wrong", async () => {
    for (const [pattern, problem] of [
      ["sd:nope/", /There is no sd:nope\/ on the SD card/],
      ["sd:../", /starts at its root/],
    ] as const)
      expect(await board.call("tree", { pattern })).toMatchObject({ isError: true, content: expect.stringMatching(problem) });
    card.pull();
    expect(await board.call("tree", { pattern: "sd:" })).toMatchObject({ isError: true, content: expect.stringMatching(/SD card failed at sd: .*taken out/) });
    expect(await board.call("read_file", { path: "sd:notes.txt" })).toMatchObject({ isError: true, content: expect.stringMatching(/taken out/) });
    card.insert();
    board.board.evaluate("E.unmountSD()");
  });
});
