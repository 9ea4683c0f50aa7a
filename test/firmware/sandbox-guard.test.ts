import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { guardCode } from "../../firmware/guard";

/** Runs guarded code as sandbox.ts does; `looks` counts the guard's looks, and the guard gives up after `most`. */
function run(code: string, most = 1000): { value: unknown; looks: number } {
  const guarded = guardCode(code);
  if (guarded.problem) throw new Error(guarded.problem);
  let looks = 0;
  const look = (): boolean => {
    if (++looks > most) throw new Error("stopped");
    return true;
  };
  const value = new Function("$", "$n", "$0", "$code", "return eval($code)")(look, 0, globalThis, guarded.code);
  return { value, looks };
}

describe("the guard in loops", () => {
  const guarded: [string, string][] = [
    ["while (a) b();", "while (++$n%17||$(),a) b();"],
    ["do b(); while (a)", "do b(); while (++$n%17||$(),a)"],
    ["for (;;) {}", "for (;;++$n%17||$()) {}"],
    ["for (var i = 0; i < 3; i++) f(i)", "for (var i = 0; i < 3;++$n%17||$(), i++) f(i)"],
    ["for (var x of y) { f(x) }", "for (var x of y) {++$n%17||$(); f(x) }"],
    ["for (x in y) f(x)", "for (x in y) ++$n%17||$(),f(x)"],
    ["for (x in y) for (z of x) f(z)", "for (x in y) for (z of x) ++$n%17||$(),f(z)"],
    ["while (a) while (b) c", "while (++$n%17||$(),a) while (++$n%19||$(),b) c"],
    [
      "`${f(function () { while (a) b })}`",
      "`${f(function () {++$n%17||$(); while (++$n%19||$(),a) b })}`",
    ],
    [
      "f(function () { return 1 }); x => { return 2 }; ({m() { return 3 }})",
      "f(function () {++$n%17||$(); return 1 }); x => {++$n%19||$(); return 2 }; ({m() {++$n%13||$(); return 3 }})",
    ],
    ["class A { get p() { return 2 } }", "class A { get p() {++$n%17||$(); return 2 } }"],
    ["a.then(b)\n  . catch(c)", 'a[($(1),"then")](b)\n  [($(1),"catch")](c)'],
    ["o = {this: this.x, then: o.this}", "o = {this: (this==$0?0:this).x, then: o.this}"],
    ["return 1", "function $run(){return 1\n}$run()"],
  ];
  it.each(guarded)("%s", (code, expected) => expect(guardCode(code)).toEqual({ code: expected, problem: "" }));

  it.each([
    "for (x in y);",
    "o.while(a); o = {for: 1, while: 2}",
    "/* while (1) */ // for (;;)\na",
    "'while (1)' + \"for (;;)\" + `do ${a} while (b)`",
    "a = /while (.)[(]/g; b / c / d; e++ / 2",
    "try { a } catch (e) { b }",
  ])("nothing in %s", (code) => expect(guardCode(code)).toEqual({ code, problem: "" }));

  it("stops any nest of loops, whatever is caught in it", () => {
    const loops = ["while (1) {", "for (;;) {", "do {"];
    fc.assert(
      fc.property(fc.array(fc.nat(2), { minLength: 1, maxLength: 4 }), (nest) => {
        let code = "";
        for (const i of nest) code += `${loops[i]} try { `;
        code += "x++;";
        for (const i of [...nest].reverse()) code += ` } catch (e) {} }${i === 2 ? " while (1);" : ""}`;
        expect(() => run(`var x = 0; ${code}`, 100)).toThrow("stopped");
      }),
    );
  });

  it("leaves what programs do as it is", () => {
    const statement = fc.letrec<{ one: string; block: string }>((tie) => ({
      block: fc.array(tie("one"), { maxLength: 3 }).map((list) => `{ ${list.join(" ")} }`),
      one: fc.oneof(
        { maxDepth: 3 },
        fc.constantFrom(
          "n++;",
          "t += 'while (';",
          't += "}";',
          "t += `a${n}b`;",
          "n = n / 2 / 1 | 0;",
          "if (/[(]for/.test(t)) n += 3;",
          "// for (;;)\n",
          "/* while (1) { */",
          "o.for = o.while = n;",
          "n += [1, 2].map(function (x) { for (var i = 0; i < x; i++) if (i) return i; return x }).length;",
          ";",
        ),
        fc.tuple(fc.nat(3), tie("block")).map(([k, b]) => `for (var a = 0; a < ${k}; a++) ${b}`),
        fc.tuple(fc.nat(3), tie("block")).map(([k, b]) => `k = ${k}; while (k-- > 0) ${b}`),
        tie("block").map((b) => `k = 2; do ${b} while (k-- > 0)\n`),
        tie("block").map((b) => `for (var v of [1, 2]) ${b}`),
        fc.constantFrom(
          "for (var p in {a: 1, b: 2}) t += p;",
          "for (var q of t) n++;",
          "for (;;) break;",
          "for (var r of [1]) if (r) n++; else n--;",
        ),
        tie("block").map((b) => `if (n % 2) ${b} else n += 2;`),
      ),
    })).block;
    fc.assert(
      fc.property(statement, (block) => {
        const code = `var n = 0, t = "", o = {}, k = 0, a, b, v; ${block} n + t`;
        const plain = new Function(`var steps = 0; return eval(${JSON.stringify(code)})`);
        // A loop over k, or over a, within another one over it may have no end.
        const count = (what: RegExp) => block.match(what)?.length ?? 0;
        if (count(/k = \d/g) > 1 || count(/a < /g) > 1) return;
        expect(run(code, 1e6).value).toBe(plain());
      }),
    );
  });
});

describe("what is refused", () => {
  beforeAll(() => {
    for (const name of ["set_config", "status"])
      Object.defineProperty(globalThis, name, { get: () => 0, configurable: true });
  });
  afterAll(() => {
    for (const name of ["set_config", "status"]) delete (globalThis as Record<string, unknown>)[name];
  });

  it.each([
    ["var a = 1;\nreset()", "code must not use reset, which reaches the agent or the interpreter itself (line 2)"],
    ["E.setFlags({})", /must not use setFlags/],
    ["f.constructor('x')", /must not use constructor/],
    ["x = global", /must not use global/],
    ["`${eval('1')}`", /must not use eval/],
    ["set_config({})", /must not use set_config/],
    ["status", /must not use status/],
    ["f(status)", /must not use status/],
    ["if (status) { a }", /must not use status/],
    ["function f(status) { a }\nstatus", /must not use status.*line 2/],
    ["function f() { var status }\nstatus()", /must not use status.*line 2/],
    ["f(reset())\n{}", /must not use reset/],
    ["E.on('agent', f)", /must not use on,/],
    ["E.removeAllListeners()", /must not use removeAllListeners/],
    ["var $n = 0", /must not use \$n/],
    ["$a = 1", /must not use \$a,/],
    ["let $element = 1", /must not use \$element/],
    ["function f(a, $) {}", /must not use \$,/],
    ["await f()", "Espruino has no await (line 1)"],
    ["let [a] = b", /no destructuring/],
    ["\n'abc", "a ' is not closed (line 2)"],
    ["`abc${d", /is missing/],
    ["/* never closed", /does not parse/],
    ["a(]", "it does not parse: Got ] expected ) (line 1)"],
    ["a}", "it does not parse: a } too many (line 1)"],
    ["f(", /\) is missing/],
    ["if (a) { b( }", /does not parse/],
    ["a b", /does not parse/],
    ["function f() { a +* b }", /does not parse/],
  ])("%s", (code, problem) => {
    const found = guardCode(code).problem;
    if (typeof problem === "string") expect(found).toBe(problem);
    else expect(found).toMatch(problem);
  });

  it.each([
    "D2.reset()",
    "({save: 1, load: 2}).save",
    "var status = 1; status",
    "var a = [1, {b: 2}], status = 3; status",
    "function f(a, status) { status = a }",
    "f((status, load) => status + load)",
    "f(status => status)",
    "let status = 1; function f() { status++ }",
    "Serial2.on('data', f)",
    "class E { m() { this.x = 1 } }",
    "o.load",
    "'reset()'",
    "// eval",
    "var loader = 1",
    "class A { constructor(x) { this.x = x } }",
  ])("but not %s", (code) => expect(guardCode(code).problem).toBe(""));

  const changes = (code: string) => /^code must not change (\w+), /.exec(guardCode(code).problem)?.[1] ?? "";

  it.each([
    ["JSON = 1", "JSON"],
    ["JSON += 1", "JSON"],
    ["JSON >>>= 1", "JSON"],
    ["JSON /= 1", "JSON"],
    ["JSON++", "JSON"],
    ["a = --JSON", "JSON"],
    ["if (a) ++JSON", "JSON"],
    ["delete JSON", "JSON"],
    ["for (JSON in a) b", "JSON"],
    ["for (JSON.x of a) b", "JSON"],
    ["for (JSON = 1;;) b", "JSON"],
    ["JSON.parse = f", "JSON"],
    ["JSON /* x */ . parse\n=\nf", "JSON"],
    ["JSON['parse'] = f", "JSON"],
    ["Array.prototype[a[0]].b -= f", "Array"],
    ["a = JSON.parse = f", "JSON"],
    ["f(function () { JSON = 1 })", "JSON"],
    ["x => JSON = x", "JSON"],
    ["`${JSON = 1}`", "JSON"],
    ["function f() { var JSON } JSON = 1", "JSON"],
    ["function f(JSON) { JSON = 2 } JSON = 1", "JSON"],
    ["var a = JSON = 1", "JSON"],
    ["JSON == 1, JSON === 1, JSON != 1, JSON <= 1, JSON >= 1, JSON << 1, JSON > 1", ""],
    ["JSON => JSON", ""],
    ["a = JSON.parse(b)\n++c", ""],
    ["JSON.parse(a).b = 1", ""],
    ["var JSON = 1; JSON++; JSON.x = 1", ""],
    ["var a, JSON = 1; JSON = 2", ""],
    ["function f(JSON) { JSON = 1 }", ""],
    ["var JSON; function f() { JSON = 1 }", ""],
    ["class JSON {}; JSON.x = 1", ""],
    ["for (var JSON of a) JSON++", ""],
    ["b[JSON] = 1; b.JSON = 1; c = {JSON: 1}", ""],
    ["'JSON = 1'; /JSON = 1/; // JSON = 1", ""],
  ])("%s changes %s", (code, name) => expect(changes(code)).toBe(name));

  it("a global that code has made is its own from then on", () => {
    const board = globalThis as Record<string, unknown>;
    expect(changes("madeByCode = 1")).toBe("");
    board.madeByCode = 1;
    expect(changes("madeByCode.x++")).toBe("");
    board.madeByPerson = 1;
    expect(changes("madeByPerson = 1")).toBe("madeByPerson");
    delete board.madeByCode;
    delete board.madeByPerson;
  });

  it("no text makes it throw, or run for ever", () => {
    const piece = fc.constantFrom(
      "for",
      "while",
      "(",
      ")",
      "{",
      "}",
      "[",
      "]",
      "`",
      "${",
      "'",
      '"',
      "/",
      "*",
      ";",
      "\\",
      "\n",
      "a",
      "of",
      "do",
      "=>",
      "return",
      ".",
      " ",
      "\xe9",
    );
    fc.assert(fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => void guardCode(pieces.join(""))));
    fc.assert(fc.property(fc.string(), (text) => void guardCode(text)));
  });
});
