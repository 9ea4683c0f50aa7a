import { describe, expect } from "vitest";
import type { AgentEvent } from "../../firmware/types";
import { defaultSettings, type TestBoard } from "../drivers/types";
import { text, toolCall, type Turn } from "../fixtures/scripted-model";
import { scenario } from "./scenario";

const allowJs = { allowJs: true, maxToolIterations: 25, historyBytes: 8192 };

/** The model runs each code in turn, then says "ok". */
const runs = (codes: string[], settings: Record<string, unknown> = {}) => ({
  settings: { ...allowJs, ...settings },
  turns: [...codes.map((code): Turn => toolCall("run_js", { code })), text("ok")],
});

type Result = { isError: boolean; content: string };

async function results(board: TestBoard): Promise<Result[]> {
  const events = await board.ask("go");
  expect(events.at(-1)).toMatchObject({ type: "final", text: "ok", stopReason: "done" });
  return events.flatMap((event: AgentEvent) =>
    event.type === "toolEnd" ? [{ isError: event.isError, content: event.content }] : [],
  );
}

const says = (isError: boolean) => (content: string | RegExp) => ({
  isError,
  content: typeof content === "string" ? content : expect.stringMatching(content),
});
const ok = says(false);
const fails = says(true);

/** Interpreters print it when what runs is ended by force. */
const INTERRUPTED =
  /Execution Interrupted|LOW_MEMORY|OUT OF MEMORY|Too much recursion|Uncaught Error: Execution|MEMORY/;

describe("run_js", () => {
  scenario("is not there until allowJs is set", { turns: [text("ok")] }, async ({ board, model }) => {
    await board.ask("go");
    const names = model.requests[0]!.json.tools!.map((tool) => tool.function.name);
    for (const name of ["run_js", "save_tool", "remove_tool"]) expect(names).not.toContain(name);
  });

  const values = [
    "var a = 20;\na + 1",
    'print("hi", 1, {a: [1, 2]});\nconsole.log("there");',
    'print("x");\nreturn 3 * 2',
    "new Promise(function (r) { setTimeout(function () { r(7) }, 30) })",
    "if (1) {}",
    "function f(n) { var s = 0; for (var i = 1; i <= n; i++) s += i; return s }\nf(100)",
    '({isError: true, content: "jammed"})',
    "var o = {}; o.o = o; o",
  ];
  scenario("gives what it prints, its value, or both", runs(values), async ({ board }) => {
    expect(await results(board)).toEqual([
      ok("21"),
      ok('hi 1 {"a":[1,2]}\nthere'),
      ok("x\nresult: 6"),
      ok("7"),
      ok("done (no output)"),
      ok("5050"),
      fails("error: jammed"),
      ok(/o/),
    ]);
  });

  const failures = [
    "var a = 1;\nnosuch.foo();",
    "function f() {\n  nosuch.foo();\n}\nf()",
    'print("before"); throw "plain"',
    'return Promise.reject(new Error("no wind"))',
    "new Promise(function (r) { R = r })",
  ];
  scenario("gives its error and where it was", runs(failures, { toolTimeoutMs: 1000 }), async ({ board }) => {
    expect(await results(board)).toEqual([
      fails('error: "nosuch" is not defined (line 2: nosuch.foo();)'),
      fails('error: "nosuch" is not defined (at nosuch.foo();)'),
      fails("before\nerror: plain"),
      fails(/no wind/),
      fails("error: its promise was not settled within 1000 ms (toolTimeoutMs)"),
    ]);
  });

  const unparsed = [
    'digitalWrite(D2, 1);\nif (1) {\n  print("a";\n}',
    "var a = [1, 2;",
    "var {a} = b;",
    "async function f() {}",
    'print("never closed)',
    "for (var i = 0; i < 3; i++ {}",
    "f(...a)",
  ];
  scenario("runs nothing of code that does not parse", runs(unparsed), async ({ board }) => {
    expect(await results(board)).toEqual([
      fails(/^not run: it does not parse: .*\(line [34]\)$/),
      fails(/^not run: it does not parse: .*\]/),
      fails("not run: Espruino has no destructuring (line 1)"),
      fails("not run: Espruino has no async (line 1)"),
      fails('not run: a " is not closed (line 1)'),
      fails(/^not run: it does not parse/),
      fails(/^not run: it does not parse/),
    ]);
  });
});

describe("run_js with loops", () => {
  const endless = [
    "while (true);",
    "for (;;) {}",
    "for (var i = 0; ; i++) print",
    "do { var x = 1 } while (1)",
    'var s = "while (1) {"; /* for (;;) */ while (s) { s = s + ""; }',
    "while (1) try { while (1); } catch (e) {}",
    "[1, 2].map(function (x) { while (x) x++; })",
  ];
  scenario("ends those without an end", runs(endless, { toolTimeoutMs: 150 }), async ({ board }) => {
    const stopped = fails(/^error: stopped: it ran for 150 ms without a pause\. Is a loop endless\?/);
    expect(await results(board)).toEqual(endless.map(() => stopped));
  });

  const growing = [
    'var a = []; while (1) a.push("0123456789012345678901234567890123456789");',
    'var s = "x"; for (;;) s += s;',
    "function f() { return f() + 1 } f()",
    "new Uint8Array(1000000).length",
    "1 + 1",
  ];
  scenario(
    "and those that use up the memory or the stack; the agent lives on",
    {
      ...runs(growing, { toolTimeoutMs: 1000 }),
      allow: INTERRUPTED,
    },
    async ({ board }) => {
      const ends = await results(board);
      // The estimate does not see variables of calls in progress.
      const isJudged = board.memoryKind === "esp32";
      expect(ends[0]).toEqual(fails(isJudged ? /stopped: it used up the memory/ : /stopped/));
      for (const end of ends.slice(1, 3))
        expect(end).toEqual(fails(/interrupted: out of memory or stack|stopped: it used up the memory/));
      expect(ends[4]).toEqual(ok("2"));
    },
  );

  const right = [
    "var n = 0; for (var k in {a: 1, b: 2}) n++; for (var x of [1, 2, 3]) n += x; n",
    "var n = 0; for (var x of [1, 2, 3]) { n += x } do n--; while (n > 2); n",
    "var n = 0; if (n) while (n) n--; else n = 5; n",
    "var n = 0; for (var i = 0, j = 9; i < j; i++, j--) { if (i == 2) continue; n += j } n",
    "var r = /[a/]+/; 1",
    'var t = `a${[1,2].map(function (x) { for (;;) { return x * 2 } }).join("+")}b`; t',
    "class A { constructor(x) { this.x = x } twice() { var n = 0; while (n < this.x * 2) n++; return n } }\nnew A(4).twice()",
    "var a = {for: 1, while: 2, save: 3}; a.for + a.while + a.save",
    "var n = 10, g = 2; n / g / 1",
    "switch (2) { case 1: { return 1 } case 2: for (;;) break; return 4 }",
  ];
  scenario("and leaves the others as they are", runs(right), async ({ board }) => {
    expect(await results(board)).toEqual([
      ok("8"),
      ok("2"),
      ok("5"),
      ok("28"),
      fails(/not run/),
      ok("a2+4b"),
      ok("8"),
      ok("6"),
      ok("5"),
      ok("4"),
    ]);
  });
});

describe("run_js and what is not its business", () => {
  const key = [
    'require("Storage").read("agent.json")',
    'require("Storage").readJSON("x:agent.json")',
    'require("Storage").write("agent", "x")',
    'require("Storage").erase(".bootcde")',
    'require("Storage").write("tool.x", "x")',
    'require("Storage").eraseAll()',
    'require("agent.json")',
    'require("Flash").read(4096, 0)',
    'require("Storage").list().join()',
  ];
  scenario("the agent's files", { ...runs(key), files: { "notes.txt": "mine" } }, async ({ board }) => {
    const ends = await results(board);
    for (const end of ends.slice(0, -1)) expect(end.isError).toBe(true);
    expect(ends.at(-1)).toEqual(ok("agent,notes.txt"));
    expect(await board.file("agent.json")).toContain("allowJs");
    expect(JSON.stringify(ends)).not.toContain(defaultSettings.apiKey);
  });

  const words = [
    "reset()",
    "global.x = 1",
    "load()",
    'set_config({baseUrl: "http://other"})',
    'eval("1")',
    "E.reboot()",
    "E.setFlags({a: 1})",
    '(function () {}).constructor("1")',
  ];
  scenario("words that reach the agent or the interpreter", runs(words), async ({ board }) => {
    expect(await results(board)).toEqual(
      words.map(() =>
        fails(/^not run: code must not use \w+, which reaches the agent or the interpreter itself \(line 1\)$/),
      ),
    );
  });

  const timers = [
    'var n = 0; setInterval(function () { print("tick"); n++ }, 20); setTimeout(function () {}, 10000); 1',
    "clearTimeout(); clearInterval(); 2",
    "setInterval(function () {}, 1000); throw 1",
    'setTimeout("print(1)", 1)',
    "setInterval(function () { while (1); }, 10); 3",
  ];
  scenario(
    "the agent's timers; its own go on, and are named",
    {
      ...runs(timers, { toolTimeoutMs: 2000 }),
      allow: /stopped: it ran for 1000 ms|Uncaught undefined/,
    },
    async ({ board }) => {
      const before = await board.timers();
      const ends = await results(board);
      expect(ends).toEqual([
        ok(/^1\ngoing on: timer \d+, timer \d+$/),
        ok("2"),
        fails("error: 1"),
        fails(/give a function/),
        ok(/^3\ngoing on: timer \d+$/),
      ]);
      await board.expectOutput("code stopped: it ran for 1000 ms");
      await board.advance(500);
      expect(await board.timers()).toBe(before);
    },
  );
});

describe("run_js and what is not its own", () => {
  const changes = [
    "E = 1",
    "Promise = 1",
    "JSON += 1",
    "JSON++",
    "--Math",
    "print = function () {}",
    "for (JSON of [1]) {}",
    "for (E in {a: 1}) {}",
    "for (E = 0; E < 1; E++) {}",
    "Object.prototype.x = 1",
    "Array.prototype.push = function () {}",
    "JSON.parse = function () {}",
    'Array.prototype["push"] = 1',
    "delete Array.prototype.map",
    "D4 = 1",
    "getTime = 1",
  ];
  scenario("it cannot change", runs(changes), async ({ board }) => {
    expect(await results(board)).toEqual(
      changes.map(() => fails(/^not run: code must not change \w+, which is not its own: declare it with var \(line 1\)$/)),
    );
    expect(await board.runLine("E.clip(JSON.parse('[5]').map(function(x){return x})[0],0,9)")).toContain("=5");
  });

  const words = [
    'ask("x")',
    "status",
    "setTimeout(abort, 1)",
    "add_graph({})",
    "clear_history()",
    "[1].forEach(function () { reset() })",
    'new Function("reset()")()',
    "changeInterval(1, 1000)",
    'E.removeAllListeners("agent")',
    'process.on("uncaughtException", function () {})',
    "Serial1.setup(9600)",
    "ESP32.reboot()",
    "var $n = 0",
    "function f($n) {}",
    "$a()",
    "$Z = 1",
  ];
  scenario("it cannot use", runs(words), async ({ board }) => {
    expect(await results(board)).toEqual(
      words.map(() =>
        fails(/^not run: code must not use [\w$]+, which reaches the agent or the interpreter itself \(line 1\)$/),
      ),
    );
  });

  const own = [
    "var status = 2, ask = 3; status++; status + ask",
    "function f(reset, save) { save = reset + 1; return save }\nf(3)",
    "var g = (abort) => { abort += 1; return abort }; g(1) + [1].map((status) => status)[0]",
    "var E = {a: 1}; E.a = 5; E.b = [1]; E.b[0] = 2; E.a + E.b[0]",
    "seen = 1; seen",
    "seen++; seen += 2; seen",
    "function P(x) { this.x = x; this.status = 'new' } P.prototype.get = function () { return this.x }; new P(8).get()",
    "class A { constructor() { this.n = 0 } inc() { this.n++; return this.n } }\nnew A().inc()",
    "var a = [1, 2]; a[0] = a[1] == 2 ? 7 : 1; a[0] <<= 1; a[0] >= 14 && a[0] !== 3 ? a[0] : 0",
    "try { nosuch() } catch (e) { e.own = 4; return e.own }",
    "var o = {status: 1, reset: 2}; o.reset = 3; o.status + o.reset",
  ];
  scenario("what it has made itself it may", runs(own), async ({ board }) => {
    expect((await results(board)).map(({ content }) => content)).toEqual([
      "6",
      "4",
      "3",
      "7",
      "1",
      "4",
      "8",
      "1",
      "14",
      "4",
      "4",
    ]);
  });

  const globals = ["this.reset()", "function f() { this.E = 1 }\nf()", "[1].map(function () { return this === E })[0]"];
  scenario("this is not the global object", runs(globals), async ({ board }) => {
    expect(await results(board)).toEqual([fails(/error: /), fails(/error: /), ok("false")]);
    expect(await board.runLine("typeof E.on")).toContain("function");
  });

  const chains = [
    "function f() { return Promise.resolve().then(f) }\nf()",
    "var f = () => Promise.resolve().then(f);\nf(); 1",
    "function f() { return Promise.reject(1).catch(f) }\nf()",
    "Promise.resolve(1).then(function (x) { return x + 1 }).then(function (x) { throw x }).catch(function (x) { return x * 2 })",
  ];
  scenario(
    "promises without an end are stopped",
    { ...runs(chains, { toolTimeoutMs: 500 }), allow: /stopped: |Uncaught|Unhandled/ },
    async ({ board }) => {
      const stopped = fails(/stopped: |not settled within 500 ms/);
      expect(await results(board)).toEqual([stopped, ok("1"), stopped, ok("4")]);
    },
  );

  const tries = [
    "function f() { f() } f()",
    "function f() { try { f() } catch (e) { f() } } f()",
    "function h(n) { if (n) { h(n-1); h(n-1); h(n-1); h(n-1); h(n-1); h(n-1); h(n-1); h(n-1) } } h(7)",
  ];
  scenario(
    "and recursion",
    { ...runs([...tries, "1 + 1"], { toolTimeoutMs: 500 }), allow: INTERRUPTED },
    async ({ board }) => {
      const failed = fails(/interrupted: out of memory or stack|stopped: it (ran for|used up)/);
      expect(await results(board)).toEqual([...tries.map(() => failed), ok("2")]);
    },
  );
});

describe("memory", () => {
  const code =
    'var a = []; for (var i = 0; i < 20; i++) a.push(i); print(a.join()); require("Storage").write("n.txt", "x" + a.length)';
  const one: Turn[] = [toolCall("run_js", { code }, { id: "call_a" }), text("ok")];
  const many = { settings: { allowJs: true }, turns: Array.from({ length: 14 }, () => one).flat() };
  scenario("is what it was after each run", many, async ({ board }) => {
    const usages: number[] = [];
    for (let i = 0; i < 14; i++) {
      await board.ask("count to 20");
      usages.push((await board.memory()).usage);
    }
    console.log(`run_js: ${usages[7]} variables after 8 runs, ${usages.at(-1)} after 14`);
    if (board.memoryKind !== "other")
      expect(Math.max(...usages.slice(8))).toBeLessThanOrEqual(Math.max(...usages.slice(5, 8)));
  });
});

describe("memory after recursion", () => {
  const one: Turn[] = [toolCall("run_js", { code: "function f() { f() } f()" }, { id: "call_a" }), text("ok")];
  const many = {
    settings: { allowJs: true },
    turns: Array.from({ length: 20 }, () => one).flat(),
    allow: new RegExp(`${INTERRUPTED.source}|Uncaught undefined`),
    timeoutMs: 120_000,
  };
  // The interpreter never gives up a function that was used more than 15 times at once: README says what that costs.
  scenario("without an end: what it leaves behind", many, async ({ board }) => {
    const usages: number[] = [];
    for (let i = 0; i < 20; i++) {
      await board.ask("recurse");
      usages.push((await board.memory()).usage);
    }
    console.log(`run_js that recurses: ${usages.join(" ")} variables`);
    // The history has filled by then.
    const grown = usages.at(-1)! - usages[8]!;
    if (board.memoryKind === "esp32") expect(grown / 11).toBeLessThan(60);
    if (board.memoryKind === "estimate") expect(grown).toBe(0);
  });
});

describe("a small board", () => {
  const code =
    'var s = 0; for (var i = 0; i < 50; i++) s += i; require("Storage").write("n.txt", "sum " + s); print(require("Storage").list().length); s';
  const tool = {
    name: "sum",
    description: "Sums up to n.",
    code: "var s = 0; for (var i = 1; i <= args.n; i++) s += i; return s",
  };
  const turns: Turn[] = [
    toolCall("run_js", { code }),
    toolCall("save_tool", tool),
    toolCall("sum", { n: 10 }),
    text("ok"),
  ];
  scenario(
    "of 2,500 variables does it, too",
    { settings: { allowJs: true }, variables: 2500, turns },
    async ({ board }) => {
      expect(await results(board)).toEqual([
        ok(/^2\nresult: 1225\nchanged files: n\.txt$/),
        ok(/^sum is saved/),
        ok("55"),
      ]);
    },
  );
});
