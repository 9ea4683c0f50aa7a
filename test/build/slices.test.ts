import { originalPositionFor, TraceMap } from "@jridgewell/trace-mapping";
import MagicString, { Bundle } from "magic-string";
import vm from "node:vm";
import { describe, expect, it } from "vitest";
import { cutSlices } from "../../esbuild.slices.mjs";

/** Cuts a program of two sources, of which the first one's functions are made where they are used. */
const cut = (room: string, main: string) => {
  const bundle = new Bundle({ separator: "\n" });
  bundle.addSource({ filename: "room.js", content: new MagicString(room) });
  bundle.addSource({ filename: "main.js", content: new MagicString(main) });
  const map = bundle.generateMap({ hires: true, includeContent: true }).toString();
  return cutSlices(bundle.toString(), map, { files: [], texts: [], isRoom: (source: string) => source.endsWith("room.js") });
};

/** Runs a bundle out of a Storage; what it prints, and its own globals. */
const run = (code: string, files: Record<string, string> = { agent: code }) => {
  const printed: unknown[] = [];
  const storage = {
    list: () => Object.keys(files),
    read: (name: string, at = 0, length = Infinity) => files[name]?.slice(at, at + length),
  };
  const context = vm.createContext({ require: () => storage, print: (value: unknown) => void printed.push(value) });
  vm.runInContext(code, context);
  const globals = Object.keys(context).filter((name) => /^\$[a-z]/.test(name) && !["$own", "$f", "$g", "$h"].includes(name));
  return { printed, globals, evaluate: (text: string) => vm.runInContext(text, context) };
};

describe("functions of the program", () => {
  it("are globals, or made where they are used", () => {
    const { code } = cut("function twice(n) { return n * 2; }", "function add(a, b) { return twice(a) + b; }\nprint(add(3, 4));");
    const { printed, globals, evaluate } = run(code);
    expect(printed).toEqual([10]);
    expect(globals).toEqual(["$a"]);
    expect(evaluate("String($a)")).toContain("return $f(\"n\",");
    expect(code.split("\n").slice(1).every((line) => line.startsWith("//"))).toBe(true);
  });

  it("call each other and themselves, are values, and see the program's variables", () => {
    const room = "let count = 0;\nfunction fac(n) { count++; return n < 2 ? 1 : n * fac(n - 1); }\nfunction square(n) { return n * n; }";
    const main = [
      "const list = [1, 2, 3];",
      "function sum() { let all = 0; for (const one of list.map(square)) all += one; return all; }",
      "var own = { square, sum, inner: function (a) { return a + count; } };",
      "print(fac(5)); print(count); print(own.square(3)); print(own.sum()); print(own.inner(1));",
      "if (count > 4) { let count = 7; print(count); }",
    ].join("\n");
    expect(run(cut(room, main).code).printed).toEqual([120, 5, 9, 14, 6, 7]);
  });

  it("have names that are no variable's of theirs", () => {
    const main = "function f(x) { let $a = x, f = 2; return $a + f + g(1); }\nfunction g($b) { const h = { f: $b, g }; return h.f + typeof h.g; }\nprint(f(1));";
    expect(run(cut("", main).code).printed).toEqual(["31function"]);
  });

  it("hold constants, and no variable for them", () => {
    const main = [
      'const most = 3; const least = -2; const word = "a \\"b\\""; const rule = /[a-c]+/; let changed = 1;',
      "function all() { changed++; return [most - least, { most }, word, rule.test(word), changed, most.toFixed(1)]; }",
      "print(JSON.stringify(all()));",
    ].join("\n");
    const { printed, globals } = run(cut("", main).code);
    expect(printed).toEqual([JSON.stringify([5, { most: 3 }, 'a "b"', true, 2, "3.0"])]);
    expect(globals).toHaveLength(2);
  });

  it("that use what is neither theirs nor global are refused", () => {
    expect(() => cut("", "if (true) { let inner = 1; print(function () { return inner; }); }")).toThrow("a function of the program uses inner");
    expect(() => cut("", "for (var i = 0; i < 2; i++) print(i);\nfunction last() { return i; }\nprint(last());")).toThrow("i, a variable of the program");
  });

  it("are found in a file of any length, whatever it is called, and however it is written over", () => {
    const room = Array.from({ length: 300 }, (_, i) => `function f${i}() { return "${String(i).padStart(600, "x")}"; }`).join("\n");
    const main = `${Array.from({ length: 300 }, (_, i) => `function g${i}() { return f${i}(); }`).join("\n")}\nvar list = [${Array.from({ length: 300 }, (_, i) => `g${i}`)}];\nfunction at(i) { return list[i](); }`;
    const { code } = cut(room, main);
    expect(code.length).toBeGreaterThan(200_000);
    const files: Record<string, string> = { agent: "other", mine: code };
    const { evaluate } = run(code, files);
    files.mine = "";
    const name = /(\$\w+)=\$f\("i",/.exec(code)![1]!;
    for (let i = 0; i < 300; i++) expect(evaluate(`${name}(${i})`)).toBe(String(i).padStart(600, "x"));
    expect(() => run(code, { agent: code.slice(1) })).toThrow(/^put dist\/agent.js into the Storage as agent/);
  });

  it("lead back to their own lines", () => {
    const { code, map } = cut("\nfunction there() { return 1; }", "\n\nfunction here(a) { return a + there(); }\nprint(here(2));");
    const lines = code.split("\n");
    const trace = new TraceMap(map);
    const find = (text: string) => {
      const line = lines.findIndex((one) => one.includes(text));
      return originalPositionFor(trace, { line: line + 1, column: lines[line]!.indexOf(text) });
    };
    expect(find("return 1")).toMatchObject({ source: "room.js", line: 2 });
    expect(find("return a")).toMatchObject({ source: "main.js", line: 3 });
    expect(find("print(")).toMatchObject({ source: "main.js", line: 4 });
  });
});
