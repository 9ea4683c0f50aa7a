import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { createStorage } from "../../host-sim/storage";

// What the calls give was printed by the interpreter (its flash there: 64 pages, so `small` has the same).
const small = (print?: (text: string) => void) => createStorage({ capacity: 64 * 4096, print }).api;
const LONG = "abcdefghijklmnopqrstuvwxyz0123456789";

describe("read and write", () => {
  it("keeps bytes and gives parts of them", () => {
    const s = small();
    expect(s.write("a", "hello")).toBe(true);
    expect([s.read("a"), s.read("a", 2), s.read("a", 1, 2), s.read("a", -3, 2), s.read("a", 99)]).toEqual([
      "hello",
      "llo",
      "el",
      "he",
      "",
    ]);
    expect(s.read("none")).toBeUndefined();
    s.write("bytes", "\0\x7f\x80\xff");
    expect(s.read("bytes")).toBe("\0\x7f\x80\xff");
    expect(new Uint8Array(s.readArrayBuffer("bytes") as ArrayBuffer)).toEqual(Uint8Array.of(0, 127, 128, 255));
  });

  it("takes numbers, arrays and buffers as bytes, objects as JSON", () => {
    const s = small();
    const stored = (data: unknown) => (s.write("x", data), s.read("x"));
    expect(stored(5)).toBe("\x05");
    expect(stored(true)).toBe("\x01");
    expect(stored([1, 2, 300])).toBe("\x01\x02,");
    expect(stored(["ab", "c"])).toBe("abc");
    expect(stored(new Uint16Array([258, 1]))).toBe("\x02\x01");
    expect(stored(new Uint16Array([258, 1]).buffer)).toBe("\x02\x01\x01\0");
    const object = { a: 1, b: "x\xe9\n", c: undefined, d() {}, e: [1, undefined], f: null, g: true, h: 1.5, "i j": 2 };
    expect(stored(object)).toBe('{"a":1,"b":"x\\u00E9\\n","e":[1,null],"f":null,"g":true,"h":1.5,"i j":2}');
  });

  it("refuses in the interpreter's words", () => {
    const s = small();
    expect(() => s.write("e", "")).toThrow("Can't create zero length file");
    expect(() => s.write("e", undefined)).toThrow("Can't get pointer to data to write");
    expect(() => s.write("e", null)).toThrow("Expecting Number or iterable, got null");
    expect(() => s.write("e", () => {})).toThrow("Can't create zero length file");
    expect(() => s.write("new", "x", 5)).toThrow("Unable to find or create file");
    expect(s.write("new", "x", -1)).toBe(false);
    expect(() => s.write("new", "xyz", 0, 2)).toThrow("Too much data for file size");
    expect(s.read("new")).toBe("\xff\xff");
  });

  it("fills a file part by part, each byte once", () => {
    const s = small();
    s.write("w", "Hello", 0, 14);
    expect(s.read("w")).toBe("Hello\xff\xff\xff\xff\xff\xff\xff\xff\xff");
    s.write("w", " ", 5);
    s.write("w", "World!!!", 6);
    expect(s.read("w")).toBe("Hello World!!!");
    expect(() => s.write("w", "x", 6)).toThrow("File already written with different data");
    expect(() => s.write("w", "abc", 13)).toThrow("Too much data for file size");
    s.write("w", " ", 0);
    expect(s.read("w")).toBe(" ");
  });

  it("cuts names at 28 bytes, turns other values into names, ignores a drive", () => {
    const s = small();
    s.write(LONG, "L1");
    expect(s.list()).toEqual(["abcdefghijklmnopqrstuvwxyz01"]);
    expect(s.read(LONG)).toBe("L1");
    expect(s.read(`${LONG.slice(0, 28)}XX`)).toBe("L1");
    s.write(12, "n");
    expect(s.read("12")).toBe("n");
    s.write("C:drv", "d");
    expect([s.read("drv"), s.read("D:drv")]).toEqual(["d", "d"]);
  });

  it("a file without a name is trash at once, and finds an erased one", () => {
    const s = small();
    s.write("a", "hello");
    s.erase("a");
    s.erase("not there");
    expect(s.read("a")).toBeUndefined();
    expect(s.read("")).toBe("hello");
    expect(s.list()).toEqual([]);
  });
});

describe("JSON files", () => {
  it("writes the short form", () => {
    const s = small();
    const written = (data: unknown) => (s.writeJSON("j", data), s.read("j"));
    const data = {
      a: 1, b: "x\xe9\n\x001\x07'\"\\", c: undefined, d() {}, e: [1, undefined, 2], "i j": 2, class: 3, "1": 4, "0x": 5,
      _k: 6, $m: 7, n: NaN, t: "\x7f\x80\xff\x1f", "a-b": 1, "": 2,
    };
    expect(written(data)).toBe(
      '{1:4,a:1,b:"x\\xE9\\n\\x001\\7\'\\"\\\\",e:[1,null,2],"i j":2,class:3,"0x":5,_k:6,"$m":7,n:null,' +
        't:"\\x7F\\x80\\xFF\\x1F","a-b":1,"":2}',
    );
    expect(s.readJSON("j")).toMatchObject({ b: data.b, t: data.t, class: 3, "": 2, n: null });
    expect(["str", undefined, 5, null, [1, [2]], new Uint8Array([1, 2]), () => {}].map(written)).toEqual([
      '"str"', "null", "5", "null", "[1,[2]]", "[1,2]", "undefined",
    ]);
  });

  it.each([
    ["{a:0x10,'b':'q\\x41\\u0042\\n',c:[1,2,],}", { a: 16, b: "qAB\n", c: [1, 2] }],
    ["{d:.5,e:-3,f:`t`}", { d: 0.5, e: -3, f: "t" }],
    ["5 junk", 5],
    ["{1:2,true:3}", { 1: 2, true: 3 }],
    ["//c\n{a:1/*x*/}", { a: 1 }],
  ])("reads %s", (text, value) => {
    const s = small();
    s.write("j", text);
    expect(s.readJSON("j")).toEqual(value);
  });

  it.each([
    ["{a:", "Expecting valid value, got EOF"],
    [" \n", "Expecting valid value, got EOF"],
    ["hello", "Expecting valid value, got ID"],
    ["{a:1,f:tru}", "Expecting valid value, got ID"],
    ["undefined", "Expecting valid value, got undefined"],
    ["[1,2", "Got EOF expected ','"],
    ['{"a":1', "Got EOF expected ','"],
  ])("says what is wrong with %s", (text, message) => {
    const s = small();
    s.write("j", text);
    expect(() => s.readJSON("j")).toThrow(expect.objectContaining({ message, type: "SyntaxError" }));
    expect(s.readJSON("j", true)).toBeUndefined();
    expect(s.readJSON("none")).toBeUndefined();
  });

  it("reads back whatever it wrote", () => {
    const bytes = fc.string({ unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)) });
    const key = bytes.filter((text) => !["__proto__", "constructor", "toJSON"].includes(text));
    const value = fc.letrec((tie) => ({
      any: fc.oneof(bytes, fc.integer(), fc.boolean(), fc.constant(null), tie("array"), tie("object")),
      array: fc.array(tie("any"), { maxLength: 4 }),
      object: fc.dictionary(key, tie("any"), { maxKeys: 4, noNullPrototype: true }),
    })).any;
    fc.assert(
      fc.property(value, (data) => {
        const s = small();
        s.writeJSON("j", data);
        expect(s.readJSON("j")).toEqual(data);
      }),
    );
  });
});

describe("space", () => {
  it("counts a header of 32 bytes and padding to 4", () => {
    const s = small();
    const empty = { totalBytes: 262144, freeBytes: 262144, fileBytes: 0, fileCount: 0, trashBytes: 0, trashCount: 0 };
    expect(s.getStats()).toEqual(empty);
    s.write("a", "hello");
    expect(s.getStats()).toEqual({ ...empty, freeBytes: 262104, fileBytes: 40, fileCount: 1 });
    s.write("a", "hello");
    expect(s.getStats().trashCount).toBe(0);
    s.write("a", "other");
    const replaced = { freeBytes: 262064, fileBytes: 40, fileCount: 1, trashBytes: 40, trashCount: 1 };
    expect(s.getStats()).toEqual({ ...empty, ...replaced });
    expect(s.getFree()).toBe(262064);
    s.compact();
    expect(s.getFree()).toBe(262104);
    s.eraseAll();
    expect(s.getStats()).toEqual(empty);
  });

  it("is an ESP32's unless told otherwise", () => {
    expect(createStorage().api.getFree()).toBe(917504);
    expect(() => createStorage({ capacity: 1000 })).toThrow("Storage capacity 1000 is not a multiple of 4096");
  });

  it("compacts when it has to, and says so", () => {
    const printed: string[] = [];
    const s = small((text) => printed.push(text));
    s.write("keep", "k".repeat(4000));
    for (let i = 0; i < 32; i++) s.write(`f${i}`, "x".repeat(8000));
    expect(() => s.write("f32", "x".repeat(8000))).toThrow("Unable to find or create file");
    expect(printed).toEqual([]);
    s.erase("f1");
    expect(s.write("new", "y".repeat(7000))).toBe(true);
    expect(printed.join("")).toMatch(/^Compacting\.\.\. (\x08[/\\|-])+\n$/);
    expect(s.read("f30")).toBe("x".repeat(8000));
    expect(s.read("keep")).toBe("k".repeat(4000));
    expect(s.getStats().trashCount).toBe(0);
  });

  it("loses the old version when the new one does not fit, as the board does", () => {
    const s = createStorage({ capacity: 4096 }).api;
    s.write("other", "o".repeat(1000));
    s.write("a", "old");
    expect(() => s.write("a", "n".repeat(4000))).toThrow("Unable to find or create file");
    expect(s.read("a")).toBeUndefined();
    expect(s.read("other")).toBe("o".repeat(1000));
  });

  it("gives a hash that changes with names and places", () => {
    const s = createStorage().api;
    expect(s.hash()).toBe(-1412571974);
    s.write("a", "hello");
    const first = s.hash();
    s.write("b.js", "x");
    expect(s.hash(/^a$/)).toBe(first);
    expect(s.hash()).not.toBe(first);
  });
});

describe("StorageFile", () => {
  it("grows, and is read by length and by line", () => {
    const s = small();
    const file = s.open("log", "w");
    file.write("one\n");
    file.write("two\nthree");
    expect(file.getLength()).toBe(13);
    expect({ ...file }).toEqual({ name: "log", chunk: 1, offset: 13, mode: 119 });
    expect(s.list(/log/)).toEqual(["log\x01"]);
    expect([s.list(/log/, { sf: true }), s.list(/log/, { sf: false })]).toEqual([["log"], []]);
    const reader = s.open("log", "r");
    expect([reader.readLine(), reader.read(2), reader.readLine(), reader.readLine(), reader.readLine()]).toEqual([
      "one\n", "tw", "o\n", "three", undefined,
    ]);
    const more = s.open("log", "a");
    more.write("!");
    more.write(5);
    expect(s.open("log", "r").read(100)).toBe("one\ntwo\nthree!5");
    expect(s.read("log")).toBeUndefined();
  });

  it("takes as many chunks as it needs", () => {
    const s = small();
    const file = s.open("big", "w");
    const line = "0123456789".repeat(41);
    for (let i = 0; i < 25; i++) file.write(line);
    expect([file.getLength(), file.chunk]).toEqual([10250, 3]);
    expect(s.open("big", "r").read(20000)).toBe(line.repeat(25));
    const again = s.open("big", "a");
    again.write("end");
    expect(again.getLength()).toBe(10253);
    again.erase();
    expect(s.list(/big/)).toEqual([]);
    expect(() => again.write("x")).toThrow("Can't write in this mode");
  });

  it("refuses in the interpreter's words", () => {
    const s = small();
    expect(() => s.open("x", "z" as any)).toThrow('Invalid mode "z"');
    expect(() => s.open("x", "r").write("q")).toThrow("Can't write in this mode");
    expect(() => s.open("x", "a").read(1)).toThrow("Can't read in this mode");
    expect([s.open("x", "r").read(5), s.open("x", "r").getLength()]).toEqual([undefined, 0]);
    expect(() => s.open("x", "w").write("x".repeat(5000))).toThrow("Too much data for file size");
    expect(() => s.open("x", "r").pipe({})).toThrow("StorageFile.pipe is not modelled");
    const file = s.open(LONG, "w");
    file.write("x");
    expect([file.name, s.list(/abc/)]).toEqual(["abcdefghijklmnopqrstuvwxyz01", ["abcdefghijklmnopqrstuvwxyz0\x01"]]);
  });
});

describe("in a folder", () => {
  const folders: string[] = [];
  const newFolder = () => {
    folders.push(fs.mkdtempSync(path.join(os.tmpdir(), "storage-")));
    return folders[folders.length - 1];
  };
  afterEach(() => {
    for (const folder of folders.splice(0)) fs.rmSync(folder, { recursive: true, force: true });
  });

  it("survives a restart, names and bytes alike", () => {
    const dir = path.join(newFolder(), "flash");
    const s = createStorage({ dir }).api;
    s.write(".bootcde", "print(1)");
    s.write("..", "dots");
    s.write("a/b %\xc3\xa9", "\0\xff\x80");
    s.write("part", "abc", 0, 10);
    s.write("gone", "x");
    s.erase("gone");
    const log = s.open("log", "w");
    log.write("x".repeat(4000));
    log.write("y".repeat(100));
    expect(fs.readdirSync(dir).sort()).toEqual([
      "%2E%2E", ".bootcde", "a%2Fb%20%25%C3%A9", "log%01+sf", "log%02+sf", "part",
    ]);
    const again = createStorage({ dir });
    const t = again.api;
    expect(t.read(".bootcde")).toBe("print(1)");
    expect(t.read("..")).toBe("dots");
    expect(t.read("a/b %\xc3\xa9")).toBe("\0\xff\x80");
    t.write("part", "d", 3);
    expect(t.read("part")).toBe("abcd\xff\xff\xff\xff\xff\xff");
    t.open("log", "a").write("z");
    expect(t.open("log", "r").read(9999)).toBe(`${"x".repeat(4000)}${"y".repeat(100)}z`);
    expect(again.state().files).toEqual({ ".bootcde": 8, "..": 4, "a/b %\xc3\xa9": 3, part: 10, log: 4101 });
    t.eraseAll();
    expect(fs.readdirSync(dir)).toEqual([]);
  });

  it("takes files that somebody put there, and removes what a crash left", () => {
    const dir = newFolder();
    fs.writeFileSync(path.join(dir, "agent.json"), '{"model":"m"}');
    fs.writeFileSync(path.join(dir, "%temp-agent.json"), '{"mod');
    const s = createStorage({ dir }).api;
    expect(s.readJSON("agent.json")).toEqual({ model: "m" });
    expect(fs.readdirSync(dir)).toEqual(["agent.json"]);
    if (process.platform === "win32") return;
    const mode = (name = "") => fs.statSync(path.join(dir, name)).mode & 0o777;
    expect(mode("agent.json")).toBe(0o600);
    // What was there with more rights does not hand them on.
    fs.chmodSync(path.join(dir, "agent.json"), 0o644);
    fs.writeFileSync(path.join(dir, "%temp-agent.json"), "");
    s.write("agent.json", '{"apiKey":"sk"}');
    s.open("log", "w").write("x");
    expect([mode("agent.json"), mode("log%01+sf")]).toEqual([0o600, 0o600]);
  });

  it("makes the folders above it, and says so where there can be none", () => {
    const dir = path.join(newFolder(), "a", "b", "flash");
    createStorage({ dir }).api.write("x", "1");
    expect(fs.readdirSync(dir)).toEqual(["x"]);
    if (process.platform !== "win32") expect(fs.statSync(dir).mode & 0o777).toBe(0o700);
    const below = path.join(dir, "x", "y", "z");
    expect(() => createStorage({ dir: below })).toThrow(`Storage folder ${below} cannot be written: `);
    // With mkdir's `recursive` this never returned.
    if (process.platform === "linux") expect(() => createStorage({ dir: "/proc/nope/a" })).toThrow("/proc/nope/a");
  });

  it("says which folder or file is the trouble", () => {
    const dir = newFolder();
    const file = path.join(dir, "file");
    fs.writeFileSync(file, "x");
    expect(() => createStorage({ dir: file })).toThrow(`Storage folder ${file} cannot be written: `);
    fs.writeFileSync(path.join(dir, "my file"), "x");
    expect(() => createStorage({ dir })).toThrow('rename "my file" to "my%20file" or remove it');
    fs.rmSync(path.join(dir, "my file"));
    fs.writeFileSync(path.join(dir, LONG), "x");
    expect(() => createStorage({ dir })).toThrow(`the name of "${LONG}" is longer than 28 bytes`);
    fs.rmSync(path.join(dir, LONG));
    fs.writeFileSync(path.join(dir, "big"), "x".repeat(5000));
    expect(() => createStorage({ dir, capacity: 4096 })).toThrow("the board's flash has 4096");
  });

  it("holds the same bytes as memory after any sequence of writes", () => {
    const name = fc.constantFrom("a", "b.js", ".c", "C:a");
    const bytes = fc.string({
      unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)),
      minLength: 1,
      maxLength: 900,
    });
    const step = fc.oneof(
      fc.record({ kind: fc.constant("write" as const), name, bytes }),
      fc.record({ kind: fc.constant("append" as const), name, bytes }),
      fc.record({ kind: fc.constant("erase" as const), name, bytes }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const dir = newFolder();
        const s = createStorage({ dir, capacity: 8 * 4096 }).api;
        for (const { kind, name, bytes } of steps) {
          if (kind === "write") s.write(name, bytes);
          else if (kind === "append") s.open(`${name}.log`, "a").write(bytes.replace(/\xff/g, "."));
          else s.erase(name);
        }
        const again = createStorage({ dir, capacity: 8 * 4096 }).api;
        expect(again.list().sort()).toEqual(s.list().sort());
        for (const file of s.list(undefined, { sf: false })) expect(again.read(file)).toBe(s.read(file));
        for (const file of s.list(undefined, { sf: true })) {
          expect(again.open(file, "r").read(99999)).toBe(s.open(file, "r").read(99999));
        }
      }),
      { numRuns: 30 },
    );
  });
});
