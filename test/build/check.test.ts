import fs from "node:fs";
import { describe, expect, it } from "vitest";
import { checkSource } from "../../esbuild.check.mjs";

const messages = (code: string) => checkSource(code, { globals: ["p"] }).map((problem) => problem.message);

/** Rule: a part of its message, code that it refuses, and code close by that it must leave alone. */
const RULES: [message: string, refused: string, allowed: string][] = [
  ["spread", "p([0, ...[1]])", "p([0].concat([1]))"],
  ["spread", "p(Math.max(...[1, 2]))", "p(Math.max.apply(null, [1, 2]))"],
  ["spread", "p({ ...{ a: 1 } })", "p(Object.assign({}, { a: 1 }))"],
  ["rest parameters", "p((...r) => r)", "p(function () { return arguments.length })"],
  ["default values", "p((a = 1) => a)", "p((a) => (a === undefined ? 1 : a))"],
  ["destructuring", "const { a } = { a: 1 }; p(a)", "const a = { a: 1 }.a; p(a)"],
  ["destructuring", "for (const [k] of [[1]]) p(k)", "for (const k of [[1]]) p(k[0])"],
  ["computed keys", "var k = 1; p({ [k]: 1 })", "var k = 1, o = {}; o[k] = 1; p(o)"],
  ["`?.`", "var a = {}; p(a?.b)", "var a = {}; p(a == null ? void 0 : a.b)"],
  ["`**`", "p(2 ** 3)", "p(Math.pow(2, 3))"],
  ["`**=`", "var a = 2; a **= 3", "var a = 2; a *= 3"],
  ["`??=`", "var a; a ??= 1", "var a; a = a ?? 1"],
  ["`||=`", "var a; a ||= 1", "var a; a |= 1"],
  ["`&&=`", "var a; a &&= 1", "var a; a &= 1"],
  ["async", "p(async () => 1)", "p(() => Promise.resolve(1))"],
  ["`await`", "p(async () => { await 1 })", "p(() => Promise.resolve(1).then(p))"],
  ["`for await`", "p(async () => { for await (const x of []) p(x) })", "for (const x of []) p(x)"],
  ["generators", "function* g() {} p(g)", "function g() {} p(g)"],
  ["`yield`", "function* g() { yield 1 } p(g)", "function g() { return 1 } p(g)"],
  ["labels", "a: for (;;) break a", "for (;;) break"],
  ["#private", "class A { #x = 1 } p(A)", "class A { x() { return 1 } } p(A)"],
  ["tagged templates", "p(p`a`)", "p(`a`)"],
  ["BigInt", "p(1n)", "p(1)"],
  ["`new.target`", "function F() { p(new.target) } F()", "function F() { p(this) } F()"],
  ["`import()`", "p(import('x'))", "p(require('x'))"],
  ["static blocks", "class A { static { p(1) } } p(A)", "class A { static m() {} } p(A)"],
  ["`with`", "with ({}) p(1)", "p({})"],
  ["`\\u{…}`", "p('\\u{61}')", "p('\\x61')"],
  ["cut to one byte", "p('\\u20ac')", "p('\\u0041\\xE2\\x82\\xAC')"],
  ["cut to one byte", "p(`\\u20ac`)", "p(`\\\\u20ac`)"],
  ["cut there", "p('a\\\nb')", "p('a\\nb')"],
  [
    "`case` after `default`",
    "switch (1) { default: p(1); case 2: p(2) }",
    "switch (1) { case 2: p(2); default: p(1) }",
  ],
  ["a `case` has no scope", "switch (1) { case 1: const a = 1; p(a) }", "switch (1) { case 1: { const a = 1; p(a) } }"],
  ["`do` and its statement", "var i = 1; do if (i) p(i); while (i--)", "var i = 1; do p(i); while (i--)"],
  ["`do` and its statement", "do; while (0)", "var i; do while (i) i--; while (i)"],
  ["`do` and its statement", "do try { p(1) } catch (e) {} while (0)", "do { try { p(1) } catch (e) {} } while (0)"],
  ["`do` and its statement", "do p(1)\nwhile (0)", "do if (p) p(1); else p(2); while (0)"],
  ["array holes", "p(() => [1, , 2])", "p(() => [1, undefined, 2])"],
  ["read as a division", "if (1) /a/.test('a')", "var r = /a/; if (1) r.test('a')"],
  ["read as a division", "p(1 | /a/.test('a'))", "p(1 || /a/.test('a'))"],
  ["read as a regular expression", "var i = 1; p(i++ / 2)", "var i = 1; p(i / 2)"],
  [
    "read as a regular expression",
    "var o = { default: 1 }; p(o.default / 2)",
    "var o = { d: 1 }; p(o.d / 2, o['x'] / 2)",
  ],
  ["read as a regular expression", "p(function () { return this / 2 })", "p((1 + 2) / 2, [1][0] / 2, 'a' / 2)"],
  ["read as a regular expression", "var a; p(a = {} / 2)", "p(`${1}` / 2)"],
  ["a brace inside a text", "p(`${'}'}`)", "p(`${[1].map((x) => { return x })}`)"],
  ["a brace inside a text", "p(`${'{'}`)", "p(`{${'a'}}`)"],
  ["`${` written as text", "p(`\\${1} ${2}`)", "p(`$ {1} ${2}`)"],
  ["a class field", "class A { a = 1 } p(A)", "class A { constructor() { this.a = 1 } } p(A)"],
  ["`this` in a static field", "class A { static b = this.a } p(A)", "class A { static b = 1 } p(A)"],
  ["cannot name a class member", "class A { delete() {} } p(A)", "p({ delete() {} })"],
  ["cannot name a class member", "class A { 'a-b'() {} } p(A)", "class A { ab() {} get() {} set() {} } p(A)"],
  ["cannot name a class member", "p({ get default() { return 1 } })", "p({ default: 1, get d() { return 1 } })"],
  ["`undefined` is a reserved word", "p({ undefined })", "p({ undefined: undefined })"],
  [
    "`extends` takes a plain name",
    "var o = { A: class {} }; p(class extends o.A {})",
    "class A {} p(class extends A {})",
  ],
  ["cannot be extended", "class E2 extends Error {} p(E2)", "class A {} class B extends A {} p(B)"],
  [
    "calls itself for ever",
    "class A { m() {} } class B extends A { m() { super.m() } } class C extends B {} p(C)",
    "class A { m() {} } class B extends A { m() { super.m() } } p(B)",
  ],
  [
    "calls itself for ever",
    "class A { m() {} } class B extends A { m() { super.m() } } class C extends B {} p(C)",
    "class A {} class B extends A { constructor() { super() } } class C extends B { constructor() { super() } } p(C)",
  ],
  ["`super` works straight", "class A {} class B extends A { m() { return () => super.x } } p(B)", "class A {} p(A)"],
  ["`super` works straight", "p({ m() { return super.m() } })", "p({ m() { return this.n() } })"],
  [
    "is not inherited",
    "class A { static s() {} } class B extends A {} p(B.s())",
    "class A { static s() {} } class B extends A { static s() {} } p(B.s(), A.s())",
  ],
  ["functions have no `name`", "function f() {} p(f.name)", "var f = { name: 1 }; p(f.name)"],
  ["functions have no `name`", "p({}.constructor.name)", "p({}.constructor)"],
  ["errors have no `name`", "var e = new Error('x'); p(e.name)", "var e = new Error('x'); p(e.type)"],
  ["`arguments` is undefined", "p(() => arguments)", "p(function () { return arguments })"],
  ["`Array.prototype` are undefined", "p(Array.prototype.slice.call([1]))", "p([].slice.call([1]))"],
  ["`String.prototype` are undefined", "p(String.prototype.trim)", "String.prototype.foo = function () {}; p(1)"],
  ["is cut", `var ${"a".repeat(64)} = 1`, `var ${"a".repeat(63)} = 1`],
  ["is not ASCII", "var é = 1; p(é)", "p('\\xC3\\xA9')"],
  ["-0 is 0", "p(-0)", "p(0 - 1)"],
  ["more than 63 bits", "p(9223372036854775808)", "p(1e20, 4294967296, 0.5)"],
  ["is a word of the language", "var of = 1; p(of)", "var often = 1; p(often)"],
  ["the length of an array", "var a = [1]; a.length = 0", "var a = [1]; a.splice(0, 1)"],
  ["runs no getter", "var o = {}; o.x", "var o = {}, x = o.x; p(x)"],
  // order
  ["used before it is defined", "p(f()); function f() {}", "function f() {} p(f())"],
  [
    "used before it is defined",
    "function a() { return b(); function b() {} } p(a)",
    "function a() { return b() } function b() {} p(a())",
  ],
  [
    "used before it is defined",
    "function a() { return b() } p(a()); function b() {}",
    "var a = () => b(), b = () => 1; p(a())",
  ],
  ["used before it is defined", "[1].map(() => f()); function f() {}", "setTimeout(() => f(), 1); function f() {}"],
  [
    "used before it is defined",
    "function g() { x = 5; var x; return x } p(g())",
    "function g() { var x; x = 5; return x } p(g())",
  ],
  ["used before it is defined", "class B extends A {} class A {} p(B)", "class A {} class B extends A {} p(B)"],
  [
    "used before it is defined",
    "class A { constructor() { f() } } new A(); function f() {}",
    "class A { m() { f() } } new A(); function f() {}",
  ],
  ["used before it is defined", "const a = b + 1; const b = 1; p(a)", "const b = 1; const a = b + 1; p(typeof a)"],
  [
    "does not see",
    "function f() { if (1) { function g() { return x } let x = 1; p(g()) } } f()",
    "function f() { if (1) { let x = 1; function g() { return x } p(g()) } } f()",
  ],
  [
    "one variable for all rounds",
    "for (let i = 0; i < 2; i++) setTimeout(() => p(i), 1)",
    "for (let i = 0; i < 2; i++) { const k = i; setTimeout(() => p(k), 1) }",
  ],
  [
    "one variable for all rounds",
    "for (const x of [1]) setTimeout(() => p(x), 1)",
    "for (const x of [1]) p([1].filter((y) => y === x), (() => x)())",
  ],
  // library
  ["has no `Map`", "p(new Map())", "p(typeof Map)"],
  ["has no `Symbol`", "p(Symbol.iterator)", "var Symbol = {}; p(Symbol.iterator)"],
  ["has no `fetch`", "fetch('x')", "p(typeof fetch !== 'undefined' && fetch('x'))"],
  ["has no `queueMicrotask`", "queueMicrotask(p)", "Promise.resolve().then(p)"],
  ["has no `Buffer`", "p(Buffer)", "p(E, process, global, D2, Pin, setWatch, print, getTime, url, exports, module)"],
  ["has no `Promise.race`", "p(Promise.race([]))", "p(Promise.all([]), Promise.reject(1))"],
  ["has no `Object.freeze`", "p(Object.freeze({}))", "p(Object.keys({}), Object.assign({}, {}))"],
  ["has no `Array.from`", "p(Array.from([]))", "p(Array.isArray([]))"],
  ["has no `Number.isInteger`", "p(Number.isInteger(1))", "p(Number(1), Number.MAX_VALUE)"],
  ["has no `Math.trunc`", "p(Math.trunc(1))", "p(Math.floor(1), Math.randInt(2))"],
  ["no method `at`", "p([1].at(-1))", "var o = { at() {} }; p(o.at(1))"],
  ["no method `finally`", "Promise.resolve().finally(p)", "Promise.resolve().then(p, p)"],
  ["no method `flat`", "p([[1]].flat())", "p([].concat([1]))"],
  ["no method `trimStart`", "p(' a'.trimStart())", "p(' a'.trim())"],
  ["no method `localeCompare`", "p('a'.localeCompare('b'))", "p('a' < 'b')"],
  ["no method `lastIndexOf`", "p([1].lastIndexOf(1))", "p('a'.lastIndexOf('a'))"],
  ["no method `entries`", "p([1].entries())", "p(Object.entries({}))"],
  ["reviver", "p(JSON.parse('1', (k, v) => v))", "p(JSON.parse('1'))"],
  ["replacer", "p(JSON.stringify({}, (k, v) => v))", "p(JSON.stringify({}, null, 2))"],
  ["limit", "p('a,b'.split(',', 1))", "p('a,b'.split(','))"],
  ["takes its message only", "p(new Error('a', { cause: 1 }))", "p(new Error('a'))"],
  ["no module `util`", "require('util')", "require('Storage'); require('fs'); require('timer'); require('mine')"],
  ["no module `https`", "require('https')", "require('http'); require('tls'); require('crypto')"],
  // regular expressions
  ["no `?`", "p(/a?/)", "p(/a*/)"],
  ["no `?`", "p('a'.split(/\\r?\\n/))", "p('a'.split(/\\r\\n/))"],
  ["no `?`", "p(/a+?/)", "p(/a\\?/)"],
  ["no `{n}`", "p(/a{2}/)", "p(/a\\{2}/, /{/)"],
  ["no `(?…)`", "p(/(?:a)/)", "p(/(a)/)"],
  ["no `(?…)`", "p(/a(?=b)/)", "p(/a(b)/)"],
  ["no `\\b`", "p(/\\ba/)", "p(/\\s\\S\\d\\D\\w\\W\\n\\t\\x41\\./)"],
  ["no backreferences", "p(/(a)\\1/)", "p(/(a)\\0/)"],
  ["no `\\u`", "p(/\\u0041/)", "p(/\\x41/)"],
  ["outside groups only", "p(/(a|b)/)", "p(/a|b/)"],
  ["a group cannot repeat", "p(/(a)+/)", "p(/(a+)/)"],
  ["the flag m", "p(/a/m)", "p(/a/gi)"],
  ["the flag s", "p(new RegExp('a', 's'))", "p(new RegExp('a+', 'g'))"],
  ["a `/` inside a class", "p(/[/]/)", "p(/[\\/]/, new RegExp('[/]'))"],
  ["no empty class", "p(/[^]/)", "p(/[\\s\\S]/)"],
  ["more than 9 groups", `p(/${"(a)".repeat(10)}/)`, `p(/${"(a)".repeat(9)}/)`],
];

describe("rules", () => {
  it.each(RULES)("%s: %s", (message, refused, allowed) => {
    expect(messages(refused).join("\n")).toContain(message);
    expect(messages(allowed)).toEqual([]);
  });

  it("says where, what and what instead", () => {
    const hint = expect.stringContaining("concat");
    expect(checkSource("p(1);\n  x = [...[1]]", { globals: ["p"], file: "dist/a.js" })).toEqual([
      { message: "spread is not parsed", hint, file: "dist/a.js", line: 2, column: 8 },
    ]);
  });

  it("reports what is not JavaScript at all as one problem", () => {
    expect(checkSource("var = 1")).toHaveLength(1);
  });
});

const PROBES = "../shared/espruino/probes.json";

/** The interpreter and Node agree on these, and they are refused all the same. */
const STRICTER: Record<string, string> = {
  let_tdz: "the use before the definition is the point of the probe",
  class_field_in_derived: "works as long as no instance writes to the field",
  re_y: "the flag is ignored and the text happens to match",
  re_alt_nested: "the group is cut at the | and the text happens to match",
  arr_holes: "works in code that runs, not in code that is skipped over",
  ident_65: "the name is cut the same way at both places",
  optional_catch_nested_fn: "the name that does not exist is the point of the probe",
};

describe.skipIf(!fs.existsSync(PROBES))("recorded probes", () => {
  interface Probe {
    code: string;
    espruino: string[];
    node: string[];
    errors?: string[];
  }
  const probes = Object.entries(fs.existsSync(PROBES) ? JSON.parse(fs.readFileSync(PROBES, "utf8")) : {}) as [
    string,
    Probe,
  ][];
  const agrees = (probe: Probe) => JSON.stringify(probe.espruino) === JSON.stringify(probe.node);

  it("refuses every probe that is a syntax error for the interpreter and none for Node", () => {
    const failing = probes.filter(([, p]) => p.errors?.some((e) => e.includes("SyntaxError")) && !agrees(p));
    expect(failing.length).toBeGreaterThan(40);
    expect(failing.filter(([, p]) => messages(p.code).length === 0).map(([name]) => name)).toEqual([]);
  });

  it("refuses every probe that fails on a name that is missing or not hoisted", () => {
    const failing = probes.filter(([, p]) => p.errors?.some((e) => /is not defined|not found!/.test(e)) && !agrees(p));
    expect(failing.filter(([, p]) => messages(p.code).length === 0).map(([name]) => name)).toEqual([]);
  });

  it("leaves alone what runs alike on both, but for a list with reasons", () => {
    const refused = probes.filter(([, p]) => agrees(p) && messages(p.code).length > 0).map(([name]) => name);
    expect(refused.sort()).toEqual(Object.keys(STRICTER).sort());
  });
});
