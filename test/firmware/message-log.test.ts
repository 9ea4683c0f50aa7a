import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { fromBytes, toBytes } from "../drivers/bytes";
import { networkBoard } from "../tools/network-board";

let board: ReturnType<typeof networkBoard>;
afterEach(() => board?.close());

const start = (messageLog: number, more: object = {}): void => {
  board = networkBoard([], { messageLog, toolResultBytes: 4096, ...more });
};

const literal = (text: string): string => toBytes(JSON.stringify(text));

function append(prompt: string, answer: string, user = "console", group = ""): string {
  return String(board.board.evaluate(`messageLog().append(${[user, group, prompt, answer].map(literal).join()})`));
}

/** The texts that are found, oldest first. */
function recent(limit: number, user = "console"): string[] {
  const lines = fromBytes(String(board.board.evaluate(`messageLog().recent({user:${literal(user)},limit:${limit}},session)`)));
  if (lines.startsWith("There are no messages")) return [];
  return lines.split("\n").map((line) => line.replace(/^[-\d]+ [:\d]+ \w+: /, ""));
}

const storage = () => board.board.storage.api;
const names = (): string[] => storage().list(/^messages/).sort();

describe("the message log", () => {
  it("has the last messages, over all turns of its two files, and never more bytes than it may", () => {
    start(4096);
    const all: string[] = [];
    for (let i = 0; i < 150; i++) {
      expect(append(`prompt ${i}`, i % 3 ? `answer ${i}` : "")).toBe("");
      all.push(`prompt ${i}`, ...(i % 3 ? [`answer ${i}`] : []));
      const found = recent(500);
      expect(all.slice(-found.length)).toEqual(found);
      // A half is full before the other is given up.
      if (i > 60) expect(found.length).toBeGreaterThan(30);
      expect(names().length).toBeLessThanOrEqual(2);
      for (const name of names()) expect(storage().read(name)!.length).toBe(2048);
    }
    expect(recent(3)).toEqual(all.slice(-3));
  });

  it("writes each byte of the flash once: no file is written anew until it is full", () => {
    start(16_384);
    append("first", "");
    const { fileBytes, trashBytes } = storage().getStats();
    let messages = 0;
    while (names().length === 1) {
      expect(storage().getStats()).toMatchObject({ fileBytes, trashBytes });
      append(`a message of some length, number ${messages++}`, "and an answer");
    }
    expect(messages).toBeGreaterThan(50);
    expect(storage().getStats().trashBytes).toBe(trashBytes);
  });

  it("keeps any text and any name, as far as there is room", () => {
    const text = fc.string({ unit: "binary", maxLength: 400 });
    const name = fc.string({ unit: "binary", minLength: 1, maxLength: 40 });
    start(2048);
    fc.assert(
      fc.property(text, text, name, (prompt, answer, user) => {
        expect(append(prompt, answer, user)).toBe("");
        for (const file of names()) {
          const bytes = storage().read(file)!;
          expect(bytes.length).toBe(1024);
          // What is written is UTF-8, and the rest was never written.
          const end = bytes.indexOf("\xff");
          const written = Buffer.from(end < 0 ? bytes : bytes.slice(0, end), "latin1");
          expect(() => new TextDecoder("utf-8", { fatal: true }).decode(written)).not.toThrow();
          if (end >= 0) expect(bytes.slice(end)).toMatch(/^\xff+$/);
        }
      }),
      { numRuns: 60 },
    );
    append("the last – prompt €", "the last answer 😀");
    expect(recent(2)).toEqual(["the last – prompt €", "the last answer 😀"]);
  });

  it("cuts a long message on a character", () => {
    start(4096);
    append("€".repeat(200), "\0".repeat(500));
    expect(recent(2)[0]).toBe("€".repeat(100));
    expect(recent(2)[1]).toMatch(/^\0+$/);
  });

  it("passes over a line that power failed in, and over files that are no log", () => {
    start(4096);
    append("one", "1");
    const end = storage().read("messages.0")!.indexOf("\xff");
    storage().write("messages.0", '\n[1790000000,"console","",0,"half', end);
    append("two", "2");
    expect(recent(10)).toEqual(["one", "1", "two", "2"]);
    // Power failed as a file was made: nothing of it, or half of its number.
    for (const left of ["", "\n"]) {
      storage().erase("messages.1");
      if (left) storage().write("messages.1", left, 0, 2048);
      append(`three${left.length}`, "3");
    }
    expect(recent(4)).toEqual(["three0", "3", "three1", "3"]);
    for (const junk of ["", "junk", "\x00\x01", "{}", "x".repeat(2048), "999999999999\nnot JSON\n[1,2]\n[1,\"console\",\"\",0,\"x\"]"]) {
      storage().eraseAll();
      if (junk) storage().write("messages.0", junk);
      expect(append("again", "")).toBe("");
      expect(recent(1)).toEqual(["again"]);
    }
  });

  it("goes on where its size was changed", () => {
    start(4096);
    append("old", "");
    board.board.evaluate('session.tools={count:0};require("Storage").write("agent.json","{\\"messageLog\\":8192}");start()');
    append("new", "");
    expect(recent(5)).toEqual(["old", "new"]);
    expect(names().map((name) => storage().read(name)!.length).sort()).toEqual([2048, 4096]);
  });

  it("says so where the Storage is full, loses nothing and makes no room under the running program", () => {
    start(4096);
    append("kept", "");
    storage().write("trash", "x".repeat(3000));
    storage().erase("trash");
    storage().write("fill", "x", 0, storage().getFree() - 32 - 1500);
    const before = storage().getStats();
    let problem = "";
    for (let i = 0; i < 100 && !problem; i++) problem = append(`prompt ${i}`, "answer");
    expect(problem).toContain("the Storage: set_config({messageLog:0})");
    expect(storage().getStats()).toEqual(before);
    expect(recent(500)[0]).toBe("kept");
  });
});
