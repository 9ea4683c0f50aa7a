import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import { plugInBoard } from "./board";

let board: ReturnType<typeof plugInBoard>;
beforeEach(() => {
  board = plugInBoard();
});

const edit = (args: object) => board.run("edit_file", args);

describe("names", () => {
  it.each(["agent.json", "/agent.json", "./agent.json", "x:agent.json", ".bootcde", "./.bootcde", ".wificfg"])(
    "%s is neither read nor written",
    (path) => {
      const name = path.replace(/^\.?\//, "").replace("x:", "");
      board.storage.write(name, "secret");
      const problems = [
        board.fail("read_file", { path }),
        board.fail("edit_file", { path, text: "x", mode: "overwrite" }),
      ];
      expect(problems.join()).not.toContain("secret");
      expect(board.storage.read(name)).toBe("secret");
    },
  );

  it("the agent's program may be read, not written", () => {
    board.storage.write("agent", "code");
    expect(board.fail("edit_file", { path: "/agent", text: "x", mode: "append" })).toContain("the agent's own program");
    expect(board.run("read_file", { path: "agent" })).toContain("code");
  });

  it.each(["", "/", "a\nb", "a\0", "x".repeat(29), "c:a"])("%j is no file name", (path) => {
    expect(board.fail("read_file", { path })).toContain("1 to 28 bytes");
    expect(board.fail("edit_file", { path, text: "x" })).toContain("1 to 28 bytes");
    expect(board.storage.list()).toEqual([]);
  });

  it("/notes.txt, ./notes.txt and notes.txt are one file", () => {
    edit({ path: "/notes.txt", text: "hello" });
    expect(board.storage.list()).toEqual(["notes.txt"]);
    expect(board.run("read_file", { path: "./notes.txt" })).toContain("hello");
  });
});

describe("read_file", () => {
  it("shows rows, how many there are and how to read on", () => {
    board.storage.write("a.txt", "one\ntwo\n\nfour\n");
    expect(board.run("read_file", { path: "a.txt" })).toBe("a.txt, rows 1-4 of 4:\none\ntwo\n\nfour");
    expect(board.run("read_file", { path: "a.txt", start_row: 2, rows: 2 })).toBe(
      "a.txt, rows 2-3 of 4, read on with start_row 4:\ntwo\n",
    );
    expect(board.fail("read_file", { path: "a.txt", start_row: 5 })).toBe("a.txt has only 4 rows.");
    expect(board.fail("read_file", { path: "b.txt" })).toContain("There is no file b.txt");
  });

  it("cuts a row that is too long on a character, and says so", () => {
    board.storage.write("a.txt", "\xe2\x82\xac".repeat(500));
    const [head, row] = board.run("read_file", { path: "a.txt" }).split(":\n");
    expect(head).toBe(`a.txt, rows 1-1 of 1, row 1 cut at ${row!.length} of 1500 bytes`);
    expect(row!.length % 3).toBe(0);
  });

  it("reads any text completely, row by row, within the limit of a result", () => {
    const row = fc.string({ maxLength: 300 }).map((text) => text.replace(/[^ -~]/g, "."));
    const text = fc.array(row).map((rows) => rows.join("\n"));
    fc.assert(
      fc.property(text.filter(Boolean), fc.integer({ min: 1, max: 30 }), (text, rows) => {
        board.storage.write("t", text);
        const seen: string[] = [];
        for (let start = 1; ; ) {
          const result = board.run("read_file", { path: "t", start_row: start, rows });
          expect(result.length).toBeLessThanOrEqual(1024);
          const end = result.indexOf(":\n");
          seen.push(result.slice(end + 2));
          const next = /start_row (\d+)$/.exec(result.slice(0, end));
          if (!next) break;
          start = Number(next[1]);
        }
        expect(seen.join("\n")).toBe(text.replace(/\n$/, ""));
      }),
    );
  });
});

describe("edit_file", () => {
  it("creates, and does not overwrite without being told", () => {
    expect(edit({ path: "a.txt", text: "hello" })).toBe("a.txt created, now 5 bytes");
    expect(board.fail("edit_file", { path: "a.txt", text: "new" })).toContain("a.txt exists already (5 bytes)");
    expect(board.storage.read("a.txt")).toBe("hello");
    expect(edit({ path: "a.txt", text: "new", mode: "overwrite" })).toBe("a.txt changed, now 3 bytes");
    expect(board.storage.read("a.txt")).toBe("new");
    expect(edit({ path: "b.txt", text: "x", mode: "overwrite" })).toBe("b.txt created, now 1 bytes");
  });

  it("appends as a new line", () => {
    edit({ path: "a.txt", text: "one", mode: "append" });
    edit({ path: "a.txt", text: "two", mode: "append" });
    edit({ path: "a.txt", text: "\nthree\n", mode: "append" });
    edit({ path: "a.txt", text: "four", mode: "append" });
    expect(board.storage.read("a.txt")).toBe("one\ntwo\nthree\nfour");
  });

  it("replaces a piece that is there once", () => {
    board.storage.write("a.txt", "led on, fan on");
    expect(edit({ path: "a.txt", text: "off", old_text: "on, fan on" })).toBe("a.txt changed, now 7 bytes");
    expect(board.storage.read("a.txt")).toBe("led off");
    edit({ path: "a.txt", text: "", old_text: " off", mode: "replace" });
    expect(board.storage.read("a.txt")).toBe("led");
  });

  it.each([
    [{ text: "x", old_text: "nope" }, "old_text is not in a.txt"],
    [{ text: "x", old_text: "on" }, "more than once"],
    [{ text: "x", old_text: "aa" }, "more than once"],
    [{ text: "x", mode: "replace" }, "needs old_text"],
    [{ text: "x", mode: "append", old_text: "led" }, "goes with mode replace only"],
    [{ text: "", mode: "overwrite" }, "cannot be empty"],
    [{ text: "", old_text: "on on aaa" }, "cannot be empty"],
  ])("changes nothing where the call is wrong: %j", (args, problem) => {
    board.storage.write("a.txt", "on on aaa");
    expect(board.fail("edit_file", { path: "a.txt", ...args })).toContain(problem);
    expect(board.storage.read("a.txt")).toBe("on on aaa");
  });

  it("replaces only in a file that exists", () => {
    expect(board.fail("edit_file", { path: "b.txt", text: "x", old_text: "y" })).toContain("There is no file b.txt");
  });

  it("keeps the old file where the Storage is full, and never compacts under the running program", () => {
    board = plugInBoard({ storageBytes: 4096 });
    board.storage.write("a.txt", "keep me");
    board.storage.write("trash", "x".repeat(1000));
    board.storage.erase("trash");
    board.storage.write("fill", "x", 0, board.storage.getFree() - 500);
    const before = board.storage.getStats();
    for (const args of [{ mode: "overwrite" }, { mode: "append" }, { old_text: "keep" }]) {
      const problem = board.fail("edit_file", { path: "a.txt", text: "y".repeat(600), ...args });
      expect(problem).toContain(`The Storage is full: ${before.freeBytes} bytes free`);
      expect(problem).toContain("Nothing was changed");
    }
    expect(board.storage.read("a.txt")).toBe("keep me");
    expect(board.storage.getStats()).toEqual(before);
    edit({ path: "a.txt", text: "fits", mode: "overwrite" });
    expect(board.storage.read("a.txt")).toBe("fits");
  });

  it("fills the Storage to its last bytes without losing a file", () => {
    const size = fc.integer({ min: 1, max: 1500 });
    const mode = fc.constantFrom("overwrite", "append");
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom("a", "b"), size, mode)), (edits) => {
        board = plugInBoard({ storageBytes: 8192 });
        const files: Record<string, string> = {};
        for (const [path, size, mode] of edits) {
          const text = "z".repeat(size);
          const output = board.call("edit_file", { path, text, mode });
          const old = files[path];
          if (typeof output === "string") files[path] = mode === "append" && old ? `${old}\n${text}` : text;
          for (const name in files) expect(board.storage.read(name)).toBe(files[name]);
        }
      }),
    );
  });
});

describe("tree", () => {
  it("lists names, sizes and what is free", () => {
    board.storage.write("notes.txt", "hello");
    board.storage.write("agent.json", "{}");
    expect(board.run("tree", {})).toBe(`2 files, ${board.storage.getFree()} bytes free\nagent.json 2\nnotes.txt 5`);
  });

  it("takes a pattern", () => {
    for (const name of ["a.txt", "b.csv", "log-1.txt"]) board.storage.write(name, "x");
    const names = (pattern: string) =>
      board.run("tree", { pattern }).split("\n").slice(1).map((line) => line.split(" ")[0]);
    expect(names("*.txt")).toEqual(["a.txt", "log-1.txt"]);
    expect(names("log*txt")).toEqual(["log-1.txt"]);
    expect(names("csv")).toEqual(["b.csv"]);
    expect(names("zz")).toEqual([]);
    expect(names("*")).toHaveLength(3);
  });

  it("says what it cannot measure", () => {
    board.storage.open("log", "a").write("1,2\n");
    expect(board.run("tree", {})).toContain("1 file, ");
    expect(board.run("tree", {})).toContain("\nlog (StorageFile: read_file cannot read it)");
  });

  it("works on an empty board", () => {
    expect(board.run("tree", {})).toBe(`0 files, ${board.storage.getFree()} bytes free`);
  });
});
