/**
 * Slices: parts of the bundle that the board makes anew from its flash whenever they are used, by `eval` of a piece of
 * the file. A function that held them all would be read over, from its beginning to its end, each time one of them is
 * wanted.
 *
 * esbuild sees the parts as functions within the function that evaluates them, so that names, mangling, the source map
 * and the bundle check are those of one program. `cutSlices` then takes them out of the finished text and puts each on a
 * line of its own at the file's end, as a comment: loading the file costs next to nothing there. A generated source has
 *
 * - `$eval(text, first, function(){…}, …)`: becomes `eval(text)`. The statements of each function become a slice, with
 *   numbers from `first` on.
 * - `return $value(x, …)` at the end of such a function: what the slice gives. The other arguments are names of the function
 *   around it: mentioned, so that esbuild gives no variable of the slice the same name.
 * - `sliceAt(number)`: two arguments, where that slice begins in the file and how long it is.
 *
 * The file ends with a mark that is another one for every bundle. The bundle finds its file by it, and looks for it before
 * a slice is read: nothing is evaluated out of a file that was changed meanwhile.
 */
import { decodedMappings, encodedMap, TraceMap } from "@jridgewell/trace-mapping";
import * as acorn from "acorn";
import { crc32 } from "node:zlib";

/** Stands for the mark, with as many characters. */
const MARK = "M4RKM4RK";
/** Stand for where the table of tools and the last mark begin. */
const TABLE_AT = "799991";
const END_AT = "799981";
/** One entry of the table: where a tool's slice begins, times 8192, and how long it is. */
const ENTRY = { shift: 13, width: 10 };

/** Bytes that the code of a tool may have. */
export const MAX_TOOL_CODE = (1 << ENTRY.shift) - 1;

/** Numbers of slices: rooms, the tools' code, their texts (two each). */
export const FIRST = { room: 0, tool: 1000, text: 5000 };
/** Names that only exist until the slices are cut. */
export const SLICE_NAMES = ["$eval", "$value"];
/** What `$value` mentions besides the value. */
export const READER_NAMES = "$at, $length";

/** Arguments that stand for a slice's place, as wide as the numbers in the place of them. */
export function sliceAt(/** @type {number} */ number) {
  const digits = String(number).padStart(4, "0");
  return `7${digits}1, 7${digits}1`;
}

const CHANGED = `the agent's file was changed: start anew with reset()`;
const NO_FILE = `put dist/agent.js into the Storage as agent, whole and unchanged, and then require("agent")`;

/** TypeScript text: finds the bundle's own file, whatever it is called, when the bundle is loaded. */
export const OWN_FILE = `
export let ownFile: any = "agent";
if (require("Storage").read(ownFile, ${END_AT}, ${MARK.length}) !== ${JSON.stringify(MARK)}) {
  ownFile = require("Storage").list().find(function (name) {
    return require("Storage").read(name, ${END_AT}, ${MARK.length}) === ${JSON.stringify(MARK)};
  });
  if (!ownFile) throw new Error(${JSON.stringify(NO_FILE)});
}
`;

/**
 * TypeScript text: begins the call that evaluates the slice at `$at` of `$length` bytes, in the file as it was loaded. What
 * is made there keeps the variables that are here: numbers below 2,048 are kept in their names.
 */
const READ = `if (require("Storage").read(ownFile, ${END_AT}, ${MARK.length}) !== ${JSON.stringify(MARK)}) throw new Error(${JSON.stringify(CHANGED)});
return $eval((require("Storage").read as any)(ownFile, $at, $length, $at = $length = 0)`;

/** TypeScript text before the slices' functions, which each begin with a comma; `);\n}` follows them. */
export const ROOM_READER = `export function askRoom($at: number, $length: number): any {\n${READ}, ${FIRST.room}\n`;
export const TOOL_READER = `export function loadTool($at: any, $length?: any): any {
$at = +require("Storage").read(ownFile, ${TABLE_AT} + $at * ${ENTRY.width}, ${ENTRY.width})!;
$length = $at & ${MAX_TOOL_CODE};
$at = $at >> ${ENTRY.shift};
${READ}, ${FIRST.tool}\n`;

/**
 * The finished bundle: printable ASCII and line feeds, the slices cut out.
 * @param {string} code what esbuild gave
 * @param {string} map its source map, as JSON
 * @param {{ files: string[], texts: string[] }} content the tools' files, and the texts that are slices (ASCII)
 * @returns {{ code: string, map: string, tooLong: { tool: number, length: number }[] }} `tooLong`: whose code is longer than
 *   `MAX_TOOL_CODE`
 */
export function cutSlices(code, map, { files, texts }) {
  const plain = printable(code);
  const cut = takeOut(plain.text, files.length, texts);
  return { code: cut.text, map: movedMap(movedMap(map, code, plain), plain.text, cut), tooLong: cut.tooLong };
}

/**
 * A text that was made of another one. `runs`: what was taken over, in order: `length` characters from `from` on stand at
 * `at`.
 * @typedef {{ text: string, runs: { from: number, at: number, length: number }[] }} Made
 */

/** Puts a text together: of pieces of `source`, `[from, to]`, and of new text. @returns {Made} */
function make(source, pieces) {
  let text = "";
  const runs = [];
  for (const piece of pieces) {
    if (typeof piece === "string") text += piece;
    else {
      runs.push({ from: piece[0], at: text.length, length: piece[1] - piece[0] });
      text += source.slice(piece[0], piece[1]);
    }
  }
  return { text, runs };
}

/**
 * The same program without control characters other than the line feeds between tokens: an editor, a terminal and a
 * serial wire let it through. In literals, where esbuild puts them, an escape is as good. Some of those characters mean
 * something on the way: 3 interrupts, 17 and 19 are flow control, 4 ends Espruino's Linux build; and a line feed runs what
 * was typed, where the head of a packet is lost.
 * @returns {Made}
 */
export function printable(code) {
  const pieces = [];
  let from = 0;
  const replace = (at, by) => {
    pieces.push([from, at], by);
    from = at + 1;
  };
  const templates = tokensOf(code).filter(({ type }) => type === acorn.tokTypes.template);
  for (const { index, 0: char } of code.matchAll(/[\x00-\x1f\x7f]/g)) {
    if (char !== "\n") replace(index, `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`);
    else if (templates.some(({ start, end }) => start <= index && index < end)) replace(index, "\\n");
  }
  pieces.push([from, code.length]);
  return make(code, pieces);
}

/** None where the program does not parse; the board says so, then. */
function tokensOf(code) {
  try {
    return [...acorn.tokenizer(code, { ecmaVersion: "latest" })];
  } catch {
    return [];
  }
}

/** All calls of `name`, outermost first. */
function callsOf(program, name) {
  const found = [];
  const visit = (node) => {
    if (!node || typeof node !== "object") return;
    if (Array.isArray(node)) return void node.forEach(visit);
    if (node.type === "CallExpression" && node.callee.name === name) found.push(node);
    for (const key in node) if (key !== "type") visit(node[key]);
  };
  visit(program);
  return found;
}

/** @returns {Made & { tooLong: { tool: number, length: number }[] }} */
function takeOut(code, tools, texts) {
  const calls = callsOf(acorn.parse(code, { ecmaVersion: "latest", sourceType: "script" }), "$eval");
  if (!calls.length) return { ...make(code, [[0, code.length]]), tooLong: [] };
  const main = [];
  /** @type {Map<number, (string | [number, number])[]>} */
  const slices = new Map();
  let from = 0;
  for (const { callee, arguments: [text, first, ...parts], end } of calls) {
    main.push([from, callee.start], "eval", [callee.end, text.end]);
    from = end - 1;
    parts.forEach((part, i) => slices.set(first.value + i, statements(part.body)));
  }
  main.push([from, code.length]);
  const hasTools = code.includes(TABLE_AT);
  if (hasTools) texts.forEach((text, i) => slices.set(FIRST.text + i, [text]));

  const pieces = [...main];
  const places = new Map();
  let at = make(code, pieces).text.length;
  for (const [number, slice] of slices) {
    const { length } = make(code, slice).text;
    places.set(number, { at: at + 3, length });
    pieces.push("\n//", ...slice);
    at += 3 + length;
  }
  const table = at + 3;
  if (hasTools) {
    const entries = Array.from({ length: tools }, (_, i) => entry(places.get(FIRST.tool + i)));
    pieces.push(`\n//${entries.join("")}`);
    at += 3 + entries.length * ENTRY.width;
  }
  pieces.push(`\n//${MARK}`);
  const made = make(code, pieces);
  const number = (value) => String(value).padStart(6);
  const text = made.text
    .replace(/\b7(\d{4})1,7\1(?=1\b)1/g, (_, digits) => {
      const { at, length } = places.get(Number(digits));
      return `${number(at)},${number(length)}`;
    })
    .replaceAll(new RegExp(`\\b${TABLE_AT}\\b`, "g"), number(table))
    .replaceAll(new RegExp(`\\b${END_AT}\\b`, "g"), number(at + 3));
  const mark = crc32(text).toString(16).padStart(8, "0");
  const lengths = Array.from({ length: hasTools ? tools : 0 }, (_, tool) => ({ tool, length: places.get(FIRST.tool + tool).length }));
  return { text: text.replaceAll(MARK, mark), runs: made.runs, tooLong: lengths.filter(({ length }) => length > MAX_TOOL_CODE) };
}

function entry({ at, length }) {
  if (at >> (31 - ENTRY.shift)) throw new Error("the bundle is too large for the table of its tools");
  return `0x${((at << ENTRY.shift) | length).toString(16).padStart(ENTRY.width - 2, "0")}`;
}

/**
 * What is evaluated: the statements of a function's body, and what it returns as the last of them. An object would be a
 * block where a statement begins; behind a comma it takes a third less of the interpreter's stack than in brackets.
 *
 * Where the object is all that names a function, the function stands in it without a name: as a declaration it would live
 * as long as anything that it makes, since all of that is made within the scope of the slice.
 */
function statements(body) {
  const last = body.body.at(-1);
  const [value] = callsOf(last.argument, "$value");
  const result = value.arguments[0];
  const declared = new Map(body.body.filter(({ type }) => type === "FunctionDeclaration").map((node) => [node.id.name, node]));
  const names = namesIn(body);
  /** @type {Map<any, [number, number][]>} by the identifier that it stands in the place of */
  const moved = new Map();
  for (const { value: name, shorthand } of result.properties ?? []) {
    const node = declared.get(name.name);
    if (node && !shorthand && names.get(name.name) === 2) moved.set(name, [[node.start, node.start + "function".length], [node.id.end, node.end]]);
  }
  const pieces = [];
  let from = body.start + 1;
  const goOn = (to, next, ...instead) => {
    pieces.push([from, to], ...instead);
    from = next;
  };
  const places = [...moved.keys()].map(({ name }) => declared.get(name)).sort((a, b) => a.start - b.start);
  for (const node of places) goOn(node.start, node.end);
  goOn(last.start, last.argument.start, "0,");
  goOn(value.start, result.start);
  for (const [name, texts] of moved) goOn(name.start, name.end, ...texts);
  goOn(result.end, result.end);
  return pieces;
}

/**
 * How often each name stands in a part of a program, but for names of properties. esbuild gives no variable the name of one
 * that is around it, so that of a function in a slice is counted right.
 * @returns {Map<string, number>}
 */
function namesIn(part) {
  const counts = new Map();
  const visit = (node) => {
    if (!node || typeof node !== "object") return;
    if (Array.isArray(node)) return void node.forEach(visit);
    if (node.type === "Identifier") counts.set(node.name, (counts.get(node.name) ?? 0) + 1);
    const isName = node.type === "MemberExpression" ? "property" : "key";
    for (const key in node) if (key !== "type" && (key !== isName || node.computed)) visit(node[key]);
  };
  visit(part);
  return counts;
}

/** The source map of a text that was made of the text that it belongs to. @param {Made} made */
function movedMap(map, source, made) {
  const trace = new TraceMap(map);
  const starts = lineStarts(source);
  /** Segments by their place in the source, in order. */
  const segments = decodedMappings(trace).flatMap((line, i) => line.map((segment) => ({ at: starts[i] + segment[0], segment })));
  const lines = lineStarts(made.text);
  /** @type {any[][]} */
  const mappings = lines.map(() => []);
  let line = 0;
  for (const run of made.runs) {
    let next = lowerBound(segments, run.from + 1);
    // The one that the run's first character belongs to.
    const first = next > 0 && source.lastIndexOf("\n", run.from - 1) < segments[next - 1].at ? [{ ...segments[next - 1], at: run.from }] : [];
    const inside = [];
    for (; next < segments.length && segments[next].at < run.from + run.length; next++) inside.push(segments[next]);
    for (const { at, segment } of [...first, ...inside]) {
      const moved = run.at + at - run.from;
      while (line + 1 < lines.length && lines[line + 1] <= moved) line++;
      mappings[line].push([moved - lines[line], ...segment.slice(1)]);
    }
  }
  return JSON.stringify(encodedMap(new TraceMap({ ...JSON.parse(map), mappings })));
}

function lineStarts(text) {
  const starts = [0];
  for (const { index } of text.matchAll(/\n/g)) starts.push(index + 1);
  return starts;
}

/** Index of the first segment at or after a place. */
function lowerBound(segments, at) {
  let low = 0;
  let high = segments.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (segments[middle].at < at) low = middle + 1;
    else high = middle;
  }
  return low;
}
