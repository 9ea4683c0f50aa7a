import { originalPositionFor, TraceMap } from "@jridgewell/trace-mapping";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import vm from "node:vm";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { formatProblem } from "../../esbuild.check.mjs";
import { buildBundle } from "../../esbuild.config.mjs";
import { encodeSource, generateTools, toolPlace, wireSchema } from "../../esbuild.tools.mjs";

let folder: string;
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "build-"));
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

const write = (files: Record<string, string>) => {
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    fs.writeFileSync(path.join(folder, name), text);
  }
};

/** Builds the files given, with `main.ts` as the entry and `tools/` as the tools. */
const build = (files: Record<string, string>, options = {}) => {
  write({ "tools/.keep": "", ...files });
  return buildBundle({
    entry: path.join(folder, "main.ts"),
    toolsDir: path.join(folder, "tools"),
    outfile: path.join(folder, "dist/agent.js"),
    ...options,
  });
};

/** A tool file's text. */
const tool = (name: string, parts: Record<string, string> = {}) => {
  const all: Record<string, string> = {
    name: JSON.stringify(name),
    description: '"Does it."',
    parameters: '{ type: "object", properties: {} }',
    execute: '() => "done"',
    ...parts,
  };
  const body = Object.entries(all).filter(([, value]) => value).map(([key, value]) => `  ${key}: ${value},`);
  return `export default {\n${body.join("\n")}\n};\n`;
};

const LOAD = 'import { loadTool, toolNames } from "tools:all";\nglobal.result = { loadTool, names: toolNames() };\n';

/** Runs a bundle out of a Storage that holds it, whose other files may be given. */
const run = (code: string, files: Record<string, string> = { agent: code }): any => {
  const global: any = { files };
  const storage = {
    list: () => Object.keys(files),
    read: (name: string, at = 0, length = Infinity) => files[name]?.slice(at, at + length),
  };
  const require = () => storage;
  vm.runInNewContext(code, { global, require, print: (text: string) => (global.printed = text) });
  return global;
};

const lines = (problems: any[]) => problems.map((p) => formatProblem(p).replace(/^.*\/(?=[^/]*:\d)/, ""));

describe("bundle", () => {
  it("is one ASCII script with the board's own require", async () => {
    const { code, problems } = await build({ "main.ts": 'print(require("Storage").list());' });
    expect(problems).toEqual([]);
    expect(code).toBe('print(require("Storage").list());');
    expect(fs.readFileSync(path.join(folder, "dist/agent.js"), "utf8")).toBe(code);
  });

  it("writes text beyond ASCII as its UTF-8 bytes, and bytes as they are", async () => {
    const main = 'print("é… \\u20ac \\u{1F600} \\ud83d\\ude00 " + `ü${"ß"}` + "\\xFF\\x80");';
    const { code, problems } = await build({ "main.ts": main });
    expect(problems).toEqual([]);
    expect(/^[\x00-\x7f]*$/.test(code)).toBe(true);
    const bytes = Buffer.from(run(code).printed, "latin1");
    expect(bytes.subarray(0, -2).toString("utf8")).toBe("é… € 😀 😀 üß");
    expect([...bytes.subarray(-2)]).toEqual([0xff, 0x80]);
  });

  it("refuses names and regular expressions beyond ASCII", async () => {
    const { problems } = await build({ "main.ts": "const é = 1;\nprint(é, /[é]/.test('x'));\nglobal.ü = 1;" });
    expect(lines(problems).join("\n")).toMatch(/main\.ts:2:\d+ regular expression/);
    expect(problems.length).toBeGreaterThan(1);
  });

  it("fails with the TypeScript line on syntax esbuild will not lower", async () => {
    const main = "print(1);\nexport function f(a = 1) {\n  return a;\n}\nf();";
    const { problems, code } = await build({ "main.ts": main });
    expect(code).toBe("");
    expect(lines(problems)[0]).toMatch(/^main\.ts:2:19 default parameters are not parsed — set the default/);
  });

  it("fails with the TypeScript line on what only the finished bundle shows", async () => {
    const { problems } = await build({
      "main.ts": 'import { twice } from "./room";\nprint(twice(2));\n',
      "room.ts": "export function twice(n: number): number {\n  return Math.trunc(n) * 2;\n}\n",
    });
    expect(lines(problems)).toEqual([
      "room.ts:2:10 the board has no `Math.trunc` — use Math.floor for positive numbers, or | 0",
    ]);
    expect(fs.existsSync(path.join(folder, "dist"))).toBe(false);
  });

  it("names a variable as the source does", async () => {
    const main = "print(start());\nconst ready = 1;\nfunction start() {\n  return ready;\n}\n";
    const { problems } = await build({ "main.ts": main });
    expect(lines(problems).join("\n")).toContain("`ready` is used before it is defined");
  });

  it("fails over the size budget and says what is largest", async () => {
    const { problems, sizes } = await build({ "main.ts": 'print("0123456789");' }, { budget: 10 });
    expect(problems[0].message).toMatch(/of 10$/);
    expect(problems[0].hint).toMatch(/raise SIZE_BUDGET in esbuild\.config\.mjs; largest: .*main\.ts 20$/);
    expect(sizes.reduce((sum, s) => sum + s.bytes, 0)).toBe('print("0123456789");'.length);
  });

  it("writes nothing with write: false", async () => {
    await build({ "main.ts": "print(1);" }, { write: false });
    expect(fs.existsSync(path.join(folder, "dist"))).toBe(false);
  });

  it("has no source map comment, and a map that leads to the line", async () => {
    const { code, map } = await build({ "main.ts": '// é\nprint("é");\n\nprint("here");' });
    expect(code).not.toContain("sourceMappingURL");
    const at = originalPositionFor(new TraceMap(map), { line: 1, column: code.indexOf('print("here")') });
    expect(at).toMatchObject({ source: expect.stringMatching(/main\.ts$/), line: 4, column: 0 });
  });
});

describe("tools", () => {
  it("collects every file, in order of file name, with JSON texts", async () => {
    const { code, problems } = await build({
      "main.ts": LOAD,
      "tools/b.ts": tool("second", {
        description: '"Grüße, " + "and \\"more\\"."',
        parameters:
          '{ type: "object", properties: { a: { type: "double" }, type: { type: "array" } }, required: ["a"] }',
      }),
      "tools/a.ts": tool("first", { repeatable: "true" }),
      "tools/note.d.ts": "export {};",
    });
    expect(problems).toEqual([]);
    const { loadTool, names } = run(code).result;
    expect(names).toBe("first,second");
    expect(loadTool(0)).toMatchObject({ name: "first", description: '"Does it."', repeatable: true });
    const second = loadTool(1);
    expect(JSON.parse(Buffer.from(second.description, "latin1").toString("utf8"))).toBe('Grüße, and "more".');
    expect(JSON.parse(second.parameters)).toEqual({
      type: "object",
      properties: { a: { type: "number" }, type: { type: "array" } },
      required: ["a"],
    });
    expect(second.execute()).toBe("done");
  });

  it("runs a file's own code anew at each load", async () => {
    const { code } = await build({
      "main.ts": LOAD,
      "tools/count.ts": `let count = 0;\n${tool("count", { execute: "() => String(++count)" })}`,
    });
    const { loadTool } = run(code).result;
    const one = loadTool(0);
    expect([one.execute(), one.execute(), loadTool(0).execute()]).toEqual(["1", "2", "1"]);
  });

  it("takes a const, satisfies, types and exports of a file", async () => {
    const { code, problems } = await build({
      "main.ts": LOAD,
      "tools/a.ts": `interface T { name: string }\nexport const LIMIT: number = 3;\nconst t: T & any = ${tool("a", {
        execute: "() => String(LIMIT)",
      }).slice("export default ".length)}export default t;\n`,
      "tools/b.ts": tool("b").replace("};", "} satisfies object;"),
    });
    expect(problems).toEqual([]);
    const { loadTool } = run(code).result;
    expect([loadTool(0).execute(), loadTool(1).execute()]).toEqual(["3", "done"]);
  });

  it("imports once what tools share, and tells apart what has one name twice", async () => {
    const { code, problems } = await build({
      "main.ts": LOAD,
      "room/x.ts": 'export const word = "x"; export const other = "o";',
      "room/y.ts": 'export const word = "y";',
      "tools/a.ts": `import { word } from "../room/x";\n${tool("a", { execute: "() => word" })}`,
      "tools/b.ts": `import { word } from "../room/y";\n${tool("b", { execute: "() => ({ word }).word + word" })}`,
      "tools/c.ts":
        'import { word, other as index } from "../room/x";\n' + tool("c", { execute: "() => word + index" }),
      // What is called so elsewhere is a name of this file's own.
      "tools/d.ts":
        'import { word as w } from "../room/x";\n' + tool("d", { execute: "(word) => w + word" }),
    });
    expect(problems).toEqual([]);
    const { loadTool } = run(code).result;
    expect([0, 1, 2, 3].map((i) => loadTool(i).execute(1))).toEqual(["x", "yy", "xo", "x1"]);
  });

  it("leads back to the tool's line, also where the check refuses it", async () => {
    const { problems } = await build({
      "main.ts": LOAD,
      "tools/a.ts": tool("a"),
      "tools/b.ts": `// ü\n${tool("b", { description: '"ü"', execute: "(args: any) => args.text.trimStart()" })}`,
    });
    expect(lines(problems)).toEqual(["b.ts:6:37 the board has no method `trimStart` — use trim, or a loop"]);
  });

  it.each([
    ["no default export", "export const a = 1;\n", /^t\.ts:1:1 a tool file needs/],
    ["no object literal", "export default 1;\n", /^t\.ts:1:1 the default export must be an object/],
    ["no name", tool("t", { name: "" }), /^t\.ts:1:16 the tool has no name/],
    ["an empty name", tool("t", { name: '""' }), /^t\.ts:2:3 the tool has no name/],
    ["a bad name", tool("t", { name: '"a b"' }), /^t\.ts:2:3 the name "a b" must be/],
    ["a long name", tool("a".repeat(64)), /^t\.ts:2:3 the name/],
    ["no description", tool("t", { description: "" }), /^t\.ts:1:16 t has no description/],
    ["an empty description", tool("t", { description: '" "' }), /^t\.ts:3:3 t has no description/],
    ["a long description", tool("t", { description: '"é".repeat(201)' }), /^t\.ts:3:3 .* 402 bytes: at most 400/],
    ["no parameters", tool("t", { parameters: "" }), /^t\.ts:1:16 the parameters of t must be/],
    ["no execute", tool("t", { execute: "" }), /^t\.ts:1:16 t has no function execute/],
    [
      "a parameter of unknown type",
      tool("t", { parameters: '{ type: "object", properties: { a: { type: "float" } } }' }),
      /^t\.ts:4:3 parameter a of t has the type "float": use one of string, number/,
    ],
    [
      "required without property",
      tool("t", { parameters: '{ type: "object", properties: {}, required: ["a"] }' }),
      /^t\.ts:4:3 t requires a, which is none of its properties/,
    ],
    [
      "a file that cannot be run",
      `throw new Error("boom");\n${tool("t")}`,
      /^t\.ts:1:7 the file cannot be run at build time: boom — its own statements/,
    ],
    [
      "a file that cannot be read",
      "export default {",
      /^t\.ts:1:17 syntax error: '}' expected — close the `{` of 1:16$/,
    ],
  ])("refuses %s", async (_what, text, expected) => {
    const { problems } = await build({ "main.ts": LOAD, "tools/t.ts": text });
    expect(lines(problems)[0]).toMatch(expected);
  });

  it("refuses two tools of one name, and names both files", async () => {
    const { problems } = await build({ "main.ts": LOAD, "tools/a.ts": tool("same"), "tools/b.ts": tool("same") });
    expect(lines(problems)[0]).toMatch(/^b\.ts:2:3 two tools are called "same": a\.ts has it too/);
  });

  /** A tool whose execute has `body` from line 6, column 5 on. */
  const toolWith = (body: string, head = "execute(args: any)") =>
    tool("t").replace('execute: () => "done",', `${head} {\n    ${body}\n    return "";\n  },`);

  it.each([
    ["object spread", "const o = { b: 1, ...args };", "6:23 spread in an object is not parsed — use Object.assign("],
    ["call spread", "print(Math.max(...[1, 2]));", "6:20 spread in a call is not parsed — use f.apply("],
    ["spread in new", "print(new Date(...[1]));", "6:20 spread in a call is not parsed — use f.apply("],
    ["array spread", "print([0, ...[1]]);", "6:15 spread in an array is not parsed — use a.concat("],
    ["object destructuring", "const { a, ...b } = args;", "6:11 destructuring is not parsed — read each property"],
    ["array destructuring", "const [a, [b]] = args;", "6:11 destructuring is not parsed — read each element"],
    ["destructuring in for", "for (const [k, v] of [[1, 2]]) print(k, v);", "6:16 destructuring is not parsed — read"],
    ["assignment to a pattern", "let a; ({ a } = args);", "6:13 destructuring is not parsed — assign each property"],
    ["swapping", "let a, b; [a, b] = [b, a];", "6:15 destructuring is not parsed — assign each element"],
    ["rest parameters", "print((...r: any[]) => r);", "6:12 rest parameters are not parsed — take an array"],
    ["default parameters", "print((a = 1) => a);", "6:12 default parameters are not parsed — set the default in"],
    ["async", "print(async () => { await 1; });", "6:11 async functions are not parsed — return a promise"],
    ["generators", "print(function* () { yield 1; });", "6:11 generators are not parsed — return an array"],
    ["#private", "class A { #x = 1; y() { return this.#x; } }", "6:15 #private names are not parsed — use a name"],
    ["static blocks", "class A { static { print(1); } }", "6:15 static blocks are not parsed — assign after"],
    ["accessor", "class A { accessor x = 1; }", "6:15 `accessor` fields are not parsed — write get and set"],
    ["decorators", "@print class A {}", "6:5 decorators are not parsed — call the function"],
    ["using", "using a = args;", "6:5 `using` is not parsed — use const"],
    ["BigInt", "print(1n);", "6:11 BigInt is not parsed — use a number"],
    ["import()", 'print(import("./x"));', "6:11 `import()` is not parsed — use require"],
    ["namespaces", "}, x() {} }; namespace N { export const a = 1; } const o = { y() {", "6:18 a namespace cannot"],
    ["a module of Node", 'require("vm");', "6:5 the board has no module `vm` — it has ESP32, Flash,"],
    ["node: modules", 'require("node:http");', '6:5 the board has no module `node:http` — use require("http")'],
  ])("refuses %s at its own line", async (_what, body, expected) => {
    const { problems } = await build({
      "main.ts": LOAD,
      "tools/a.ts": tool("a", { description: '"ä"' }),
      "tools/t.ts": toolWith(body),
    });
    expect(lines(problems)).toEqual([expect.stringContaining(`t.ts:${expected}`)]);
    expect(lines(problems)[0]).not.toContain("The plugin");
  });

  it("refuses an async execute", async () => {
    const head = "async execute(args: any)";
    const { problems } = await build({ "main.ts": LOAD, "tools/t.ts": toolWith("await args;", head) });
    expect(lines(problems)).toEqual([
      "t.ts:5:3 async functions are not parsed — return a promise and use then",
    ]);
  });

  it("refuses imports of modules that are no files", async () => {
    const { problems } = await build({
      "main.ts": LOAD,
      "tools/t.ts": `import fs from "node:fs";\nimport os from "os";\nimport s from "Storage";\n${tool("t")}`,
    });
    expect(lines(problems)).toEqual([
      expect.stringContaining('t.ts:1:1 the board has no module `node:fs` — use require("Storage")'),
      expect.stringContaining("t.ts:2:1 the board has no module `os` — it has ESP32, Flash,"),
      't.ts:3:1 `Storage` is a module of the board, not a file of the bundle — use require("Storage")',
    ]);
  });

  it("leaves alone what the board has, types, and syntax that is lowered to what it has", async () => {
    const { problems } = await build({
      "main.ts": LOAD,
      "tools/t.ts": [
        "type F = (...all: any[]) => void;",
        "interface I extends Date { f({ a }: any, ...b: any[]): void }",
        toolWith(
          'let f: F | undefined = require("Storage").read; f ??= require("my_file"); f?.(args?.x, 2 ** args.y, [[1]]);',
        ),
      ].join("\n"),
      "tools/u.ts": tool("u", {
        description: '["Does", ..."it"].join("")',
        parameters: '{ ...{ type: "object" }, properties: {} }',
      }),
    });
    expect(problems).toEqual([]);
  });

  it("reports every tool file's problems at once", async () => {
    const { problems } = await build({
      "main.ts": LOAD,
      "tools/a.ts": toolWith("print({ ...args }, [...args]);"),
      "tools/b.ts": "export default {\n  a: {\n    b: 1,\n};\n",
      "tools/c.ts": "export const x = 1;",
    });
    expect(lines(problems)).toEqual([
      expect.stringMatching(/^a\.ts:6:13 spread in an object/),
      expect.stringMatching(/^a\.ts:6:25 spread in an array/),
      "b.ts:4:2 syntax error: ',' expected — close the `{` of 1:16",
      expect.stringMatching(/^c\.ts:1:1 a tool file needs `export default/),
    ]);
  });

  it.each([
    ["const a = `x", "1:13 syntax error: Unterminated template literal"],
    [`${tool("t")}\nfunction f( {\n`, "9:1 syntax error: "],
    [tool("t").replace('"t",', '"t"'), "3:3 syntax error: ',' expected"],
    [
      `const a = 1;\nconst a = 2;\n${tool("t")}`,
      '2:7 The symbol "a" has already been declared — The symbol "a" was originally declared here: line 1',
    ],
    [
      `import x from "chalk-not-there";\n${tool("t", { execute: "() => x" })}`,
      '1:15 Could not resolve "chalk-not-there" — import files as ./',
    ],
    [
      `import x from "./nothing";\n${tool("t", { execute: "() => x" })}`,
      '1:15 Could not resolve "./nothing" — there is no such file',
    ],
  ])("reports the error of %j at its own line", async (text, expected) => {
    const { problems } = await build({ "main.ts": LOAD, "tools/t.ts": text });
    expect(lines(problems)[0]).toContain(`t.ts:${expected}`);
  });

  it("says which line cannot be run at build time", async () => {
    const text = `// one\nconst list = require("Storage").list();\n${tool("t", { execute: "() => list" })}`;
    const { problems } = await build({ "main.ts": LOAD, "tools/t.ts": text });
    expect(lines(problems)).toEqual([
      expect.stringMatching(/^t\.ts:2:14 the file cannot be run .*: require\("Storage"\) works .* only — its own/),
    ]);
  });

  it.each([
    ["zz.js", "zz.ts"],
    ["zz.mts", "zz.ts"],
    ["sub/zz.ts", "zz.ts"],
  ])("refuses tools/%s, which would be ignored", async (name, instead) => {
    const { problems } = await build({ "main.ts": LOAD, [`tools/${name}`]: tool("zz"), "tools/a.ts": tool("a") });
    const message = "this file would be ignored: tools are the files tools/NAME.ts";
    expect(problems.map((p) => formatProblem(p).replace(/^.*\/(?=tools\/.*:\d+:\d)/, ""))).toEqual([
      expect.stringContaining(`${name}:1:1 ${message} — make it tools/${instead}, or import it in a tool`),
    ]);
  });

  it("takes code in a subfolder that a tool imports, and files that are no code", async () => {
    const { code, problems } = await build({
      "main.ts": LOAD,
      "tools/README.md": "tools",
      "tools/a.test.ts": "",
      "tools/lib/types.ts": "export interface T { a: 1 }",
      "tools/lib/x.ts": 'export const x = "x";',
      "tools/lib/y.js": 'export const y = "y";',
      "tools/a.ts": [
        'import type { T } from "./lib/types";\nimport { x } from "./lib/x";\nimport { y } from "./lib/y.js";',
        tool("a", { execute: "(_: T) => x + y" }),
      ].join("\n"),
    });
    expect(problems).toEqual([]);
    expect(run(code).result.loadTool(0).execute()).toBe("xy");
  });

  it("works without any tool", async () => {
    const { code, problems } = await build({ "main.ts": LOAD });
    expect(problems).toEqual([]);
    expect(run(code).result.names).toBe("");
  });
});

describe("slices", () => {
  const files = {
    "main.ts": LOAD,
    "tools/a.ts": tool("a", { description: '"Süß, \\x03 and\\n\\"more\\""', execute: "() => `a\n\x03${1}`" }),
    "tools/b.ts": `const first = [1];\nfunction twice(n: number): number {\n  return n * 2;\n}\n${tool("b", {
      execute: "(n: any) => twice(n) + first[0]",
    })}`,
  };

  it("are lines of their own behind the code, which is printable ASCII", async () => {
    const { code, problems } = await build(files);
    expect(problems).toEqual([]);
    expect(code).toMatch(/^[\x20-\x7e\n]*$/);
    const [program, ...rest] = code.split("\n");
    expect(program).not.toMatch(/eval|\$value|Does it|twice/);
    expect(code).toContain("eval(");
    expect(code).not.toMatch(/\$eval|\$value/);
    expect(rest.every((line) => line.startsWith("//"))).toBe(true);
    const { loadTool } = run(code).result;
    expect(loadTool(0).execute()).toBe("a\n\x03" + "1");
    expect(JSON.parse(loadTool(0).description)).toBe('Süß, \x03 and\n"more"');
    expect([loadTool(1).execute(3), loadTool(1).description]).toEqual([7, '"Does it."']);
  });

  it("are found under any name of the file, and not where it is another one", async () => {
    const { code } = await build(files);
    const other = (await build({ ...files, "tools/b.ts": tool("b") })).code;
    expect(run(code, { "agent.json": "{}", ".bootcde": code }).result.loadTool(1).execute(3)).toBe(7);
    expect(run(code, { agent: other, "agent.new": code }).result.loadTool(1).execute(3)).toBe(7);
    expect(run(code, { agent: `${code}\n` }).result.loadTool(1).execute(3)).toBe(7);
    for (const text of [other, `\n${code}`, code.slice(0, -1), ""])
      expect(() => run(code, { agent: text }), text.slice(0, 20)).toThrow(/^put dist\/agent.js into the Storage as agent/);
  });

  it("have a mark that is another one for every bundle", async () => {
    const mark = (await build(files)).code.slice(-8);
    expect(mark).toMatch(/^[0-9a-f]{8}$/);
    expect((await build(files)).code.slice(-8)).toBe(mark);
    expect((await build({ ...files, "tools/b.ts": tool("c") })).code.slice(-8)).not.toBe(mark);
  });

  it("lead back to their own lines in the source map", async () => {
    const { code, map } = await build(files);
    const trace = new TraceMap(map);
    const lines = code.split("\n");
    const line = lines.findIndex((text) => text.includes("*2"));
    const at = originalPositionFor(trace, { line: line + 1, column: lines[line].indexOf("*2") - 1 });
    expect(at).toMatchObject({ source: expect.stringMatching(/tools\/b\.ts$/), line: 3 });
    const last = originalPositionFor(trace, { line: 1, column: code.indexOf("global.result") });
    expect(last).toMatchObject({ source: expect.stringMatching(/main\.ts$/), line: 2, column: 0 });
  });

  it("that are too long for their table are refused", async () => {
    const long = `() => "${"x".repeat(9000)}"`;
    const { problems } = await build({ "main.ts": LOAD, "tools/a.ts": tool("a"), "tools/t.ts": tool("t", { execute: long }) });
    expect(lines(problems)).toEqual([expect.stringMatching(/^t\.ts:1:1 the tool's code has \d+ bytes: at most 8191/)]);
  });
});

it("toolPlace leads from the generated module to the tool's own file", async () => {
  const toolsDir = path.join(folder, "tools");
  write({ "tools/a.ts": tool("a"), "tools/b.ts": `\n${tool("b")}` });
  const generated = (await generateTools(toolsDir)).code.split("\n");
  const line = generated.findLastIndex((text) => text.includes("execute:"));
  const column = generated[line].indexOf("execute:");
  const place = { file: "tools/(all tools)", line: line + 1, column };
  expect(await toolPlace(place, toolsDir, folder)).toEqual({ file: "tools/b.ts", line: 6, column: 2 });
  expect(await toolPlace({ ...place, file: "firmware/x.ts" }, toolsDir, folder)).toMatchObject({ line: line + 1 });
});

it("wireSchema turns double into number at every depth, and keeps a parameter called type", () => {
  const schema = (type: string) => ({
    type: "object",
    properties: { type: { type }, list: { type: "array", items: { type } } },
  });
  expect(wireSchema(schema("double"))).toEqual(schema("number"));
});

it("encodeSource leaves comments, names and escapes of bytes alone", () => {
  expect(encodeSource("a.ts", "// é\nf('\\x80\\n');")).toMatchObject({ map: null });
  expect(encodeSource("a.ts", "f('é\\n\\\\u00e9');").code).toBe("f('\\xC3\\xA9\\n\\\\u00e9');");
});

it("the script fails with exit code 1 and readable lines, and prints sizes", () => {
  for (const name of ["config", "check", "slices", "tools"].map((part) => `esbuild.${part}.mjs`)) {
    fs.copyFileSync(name, path.join(folder, name));
  }
  fs.symlinkSync(path.resolve("node_modules"), path.join(folder, "node_modules"));
  const script = () => spawnSync(process.execPath, ["esbuild.config.mjs"], { cwd: folder, encoding: "utf8" });
  write({ "tools/a.ts": tool("a"), "firmware/room/x.ts": "export const x = 1;" });
  write({ "firmware/main.ts": 'import { x } from "./room/x";\nprint(x);\nprint([1].flat());\n' });
  const failed = script();
  expect(failed.status).toBe(1);
  expect(failed.stderr).toContain("firmware/main.ts:3:11 the board has no method `flat` — use concat or a loop");
  write({ "firmware/main.ts": 'import { x } from "./room/x";\nprint(x);\n' });
  write({ "tools/a.ts": tool("a", { execute: "(args: any) => ({ ...args })" }) });
  write({ "firmware/main.ts": 'import { toolNames } from "tools:all";\nprint(toolNames());\n' });
  expect(script().stderr).toBe(
    "tools/a.ts:5:30 spread in an object is not parsed — use Object.assign({}, a, { b: 1 })\nbuild failed: 1 problem\n",
  );
  write({ "firmware/main.ts": 'import { x } from "./room/x";\nprint(x);\n' });
  const passed = script();
  expect(passed.status).toBe(0);
  expect(passed.stdout).toMatch(/\d+ {2}firmware\/main\.ts\n[^]*\d+ {2}dist\/agent\.js, of \d+ bytes\n$/);
});
