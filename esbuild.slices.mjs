/**
 * Slices: parts of the bundle that the board reads from its flash as text, when it is loaded or whenever they are used.
 *
 * Every function of the program is one. esbuild sees one program, so that names, mangling, the source map and the bundle
 * check are those of one; `cutSlices` then takes the functions' bodies out of the finished text and puts each on a line of
 * its own at the file's end, as a comment: loading the file costs next to nothing there. What names a function becomes
 *
 * - a global variable, `$a`, that is made once, when the file is loaded; or
 * - for the files named as rooms, the function itself, made anew wherever it is named: it costs nothing at rest, and is gone
 *   when nobody holds it any more.
 *
 * Both are made as `$f("parameter", $A.substr(at, length))`, where `$f` is `Function` (`$g` and `$h` with one or two first
 * parameters that most have), and `$A` a part of the file: on the
 * board such strings are places in its flash, and cost one variable each. A function that is made so has no scope. One
 * that stands in another keeps the scopes that it was made in, and costs 4 variables more if these are two, as they were
 * with a module around all: an array of them, in every function. That is why the program's variables are globals. They
 * begin with $, and have names that nothing else in the program has; constants stand where they are used.
 *
 * Tools are slices in their own way, since they are found by number: `$eval(text, first, function(){…}, …)` becomes
 * `eval(text)`. The statements of each function become a slice, with numbers from `first` on, and `return $value(x, …)` at
 * the end of it is what it gives. The other arguments are names of the function around it: mentioned, so that esbuild
 * gives no variable of the slice the same name. Where they are stands in a table.
 *
 * The file ends with a mark that is another one for every bundle: the bundle finds its file by it. A file of that name that
 * is written later changes nothing: the old one stays in the flash until the Storage is compacted.
 */
import { decodedMappings, encodedMap, TraceMap } from "@jridgewell/trace-mapping";
import * as acorn from "acorn";
import { analyze } from "eslint-scope";
import { crc32 } from "node:zlib";

/** Characters of the mark. */
const MARK_LENGTH = 8;
/** One entry of the table: where a tool's slice begins, times 8192, and how long it is. */
const ENTRY = { shift: 13, width: 10 };

/** Of each tool the table has its code, its description and its parameters. */
const SLICES_OF_TOOL = 3;

/** Bytes that the code of a tool may have. */
export const MAX_TOOL_CODE = (1 << ENTRY.shift) - 1;

/**
 * Bytes of a part of the file: the board's strings in flash may not be able to tell more. Parts overlap, so that every slice
 * is in one of them as a whole; what is read of tools is in the last one.
 */
const PART = { bytes: 65_000, step: 56_000 };
const PARTS = ["$A", "$B", "$C", "$D"];
const LAST_PART = "$Z";

/** How often places are looked for anew, since each depends on the digits of all others. */
const MAX_TURNS = 50;

/** Numbers of slices: functions, the tools' code, their texts (two each). */
const FIRST = { function: 0, tool: 1000, text: 5000 };
/** Names that only exist until the slices are cut, and those of what reads them. */
export const SLICE_NAMES = ["$eval", "$value", "$read", "$table", "$f", "$g", "$h", "$own", LAST_PART];
/** What esbuild calls the first parameters of nearly every function, and what makes functions that begin with so many of them. */
const USUAL_PARAMETERS = ["e", "t"];
const MAKERS = ["$f", "$g", "$h"];
/** Names of globals that are not the program's. */
const TAKEN_NAMES = [...SLICE_NAMES, ...PARTS, "$n"];
/** What `$value` mentions besides the value. */
export const READER_NAMES = "$at, $length";

/** Stands for the text of a slice until its place is known. */
const sliceText = (/** @type {number} */ number) => `$read(${number})`;
const SLICE_TEXTS = /\$read\((\d+)\)/g;
/** Stands for where the table of tools begins in the last part. */
const TABLE = "$table";

const NO_FILE = `put dist/agent.js into the Storage as agent, whole and unchanged, and then require("agent")`;

/**
 * Where parts of a file of so many bytes begin, the last one at last.
 * @returns {{ name: string, at: number }[]}
 */
function partsOf(size) {
  const last = Math.max(0, size - PART.bytes);
  const parts = PARTS.slice(0, Math.ceil(last / PART.step)).map((name, i) => ({ name, at: i * PART.step }));
  if (last > parts.length * PART.step) throw new Error("the bundle has more parts than names for them");
  return [...parts, { name: LAST_PART, at: last }];
}

/** What the bundle begins with: it finds its own file, whatever it is called, by the mark at its end, and its parts. */
const prelude = (/** @type {{ name: string, at: number }[]} */ parts, /** @type {number} */ size, mark = "".padEnd(MARK_LENGTH)) =>
  `$own="agent";if(require("Storage").read($own,${size - MARK_LENGTH},${MARK_LENGTH})!=="${mark}")$own=require("Storage").list().find(function(n){return require("Storage").read(n,${size - MARK_LENGTH},${MARK_LENGTH})==="${mark}"});` +
  `if(!$own)throw Error(${JSON.stringify(NO_FILE)});` +
  `${parts.map(({ name, at }) => `${name}=require("Storage").read($own,${at},${PART.bytes});`).join("")}$f=Function;${USUAL_PARAMETERS.map((_, i) => `${MAKERS[i + 1]}=$f.bind(0,${USUAL_PARAMETERS.slice(0, i + 1).map((one) => `"${one}"`)});`).join("")}`;

/** TypeScript text: the slice whose entry in the table stands so many entries behind `$at`. `more` is evaluated last. */
const readEntry = (/** @type {number} */ place, more = "") =>
  `($length = +${LAST_PART}.substr($at${place ? ` + ${place * ENTRY.width}` : ""}, ${ENTRY.width}), (${LAST_PART} as any).substr($length >> ${ENTRY.shift}, $length & ${MAX_TOOL_CODE}${more}))`;

/**
 * TypeScript text: the function that makes a tool from its slices, up to their functions, which each begin with a comma, and
 * what follows those. What is made there keeps the variables that are here: numbers below 2,048 are kept in their names.
 */
export const TOOL_READER = {
  head: `export function loadTool($at: any, $length?: any): any {
$at = ${TABLE} + $at * ${SLICES_OF_TOOL * ENTRY.width};
return (Object as any).assign($eval(${readEntry(0)}, ${FIRST.tool}\n`,
  tail: `), { description: ${readEntry(1)}, parameters: ${readEntry(2, ", $at = $length = 0")} });\n}`,
};

/**
 * The finished bundle: printable ASCII and line feeds, the slices cut out.
 * @param {string} code what esbuild gave
 * @param {string} map its source map, as JSON
 * @param {{ files: string[], texts: string[], isRoom?: (source: string) => boolean }} content the tools' files, the texts that
 *   are slices (ASCII), and whether the functions of a source, as the map names it, are made where they are used
 * @returns {{ code: string, map: string, tooLong: { tool: number, length: number }[] }} `tooLong`: whose code is longer than
 *   `MAX_TOOL_CODE`
 */
export function cutSlices(code, map, { files, texts, isRoom = () => false }) {
  const plain = printable(code);
  const plainMap = movedMap(map, code, plain);
  const cut = takeOut(plain.text, files.length, texts, roomPlaces(plain.text, plainMap, isRoom));
  return { code: cut.text, map: movedMap(plainMap, plain.text, cut), tooLong: cut.tooLong };
}

/** Whether what stands at a place of the text came from a room. @returns {(at: number) => boolean} */
function roomPlaces(text, map, isRoom) {
  const trace = new TraceMap(map);
  const starts = lineStarts(text);
  return (at) => {
    const line = starts.findLastIndex((start) => start <= at);
    const column = at - starts[line];
    // What the build has written has no place of its own, and what stands before it is another file's.
    const own = decodedMappings(trace)[line].find((segment) => segment[0] === column);
    return !!own && own.length > 1 && isRoom(trace.sources[own[1]]);
  };
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

/** `visit` gets every node, a node before those in it; where it returns true, these are left out. */
function walk(node, visit) {
  if (!node || typeof node !== "object") return;
  if (Array.isArray(node)) return void node.forEach((one) => walk(one, visit));
  if (typeof node.type === "string" && visit(node) === true) return;
  for (const key in node) if (key !== "type") walk(node[key], visit);
}

/** All calls of `name`, outermost first. */
function callsOf(program, name) {
  const found = [];
  walk(program, (node) => void (node.type === "CallExpression" && node.callee.name === name && found.push(node)));
  return found;
}

/**
 * What stands in the place of parts of a program.
 * @typedef {{ start: number, end: number, by: (string | [number, number])[] }} Edit
 */

/**
 * A part of the program with its edits, as pieces.
 * @param {Edit[]} edits in order, the longer first where two begin at one place: those within another one are left out
 */
function edited(edits, start, end) {
  const pieces = [];
  for (const edit of edits) {
    if (edit.start < start || edit.end > end) continue;
    pieces.push([start, edit.start], ...edit.by);
    start = edit.end;
  }
  return [...pieces, [start, end]];
}

const isFunction = ({ type }) => type === "FunctionDeclaration" || type === "FunctionExpression";

/** Names that are free, shortest first. */
function* freeNames(taken) {
  const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (const first of ["", ...letters]) for (const second of letters) if (!taken.has(`$${first}${second}`)) yield `$${first}${second}`;
}

/** The value that a variable always has, as text, if that may stand where its name stands: a number, a text, a pattern. */
function constantOf(variable, code) {
  const [{ node }] = variable.defs;
  const writes = variable.references.filter((reference) => reference.isWrite());
  if (node.type !== "VariableDeclarator" || !node.init || variable.defs.length > 1 || writes.length > 1) return undefined;
  const { init } = node;
  const text = code.slice(init.start, init.end);
  if (init.type === "Literal") return text;
  return init.type === "UnaryExpression" && init.argument.type === "Literal" ? `(${text})` : undefined;
}

/** @returns {Made & { tooLong: { tool: number, length: number }[] }} */
function takeOut(code, tools, texts, isRoomAt) {
  const program = acorn.parse(code, { ecmaVersion: "latest", sourceType: "script", ranges: true });
  const manager = analyze(program, { ecmaVersion: 2022, nodejsScope: true, ignoreEval: true });
  const [scope] = manager.globalScope.childScopes;
  const taken = new Set(TAKEN_NAMES);
  // Where names stand that need more than another text in their place.
  const shorthands = new Set();
  const objects = new Set();
  walk(program, (node) => {
    if (node.type === "Identifier") taken.add(node.name);
    if (node.type === "Property" && node.shorthand) shorthands.add(node.value.start);
    if (node.type === "MemberExpression") objects.add(node.object.start);
  });
  const names = freeNames(taken);

  /** @type {Edit[]} */
  const edits = [];
  /** Bodies that become slices, by number: statements of the program, its edits made. @type {Map<number, [number, number]>} */
  const bodies = new Map();
  let number = FIRST.function;
  const made = (node) => {
    const own = manager.acquire(node);
    const outer = own.through.find(({ resolved }) => resolved && resolved.scope !== scope);
    if (outer) throw new Error(`a function of the program uses ${outer.identifier.name}, which is neither global nor its own`);
    bodies.set(number, [node.body.start + 1, node.body.end - 1]);
    const names = node.params.map(({ name }) => name);
    const others = USUAL_PARAMETERS.findIndex((name, i) => names[i] !== name);
    const usual = others < 0 ? USUAL_PARAMETERS.length : others;
    const maker = MAKERS[usual];
    const parameters = names.slice(usual).map((name) => `"${name}",`).join("");
    return `${maker}(${parameters}${sliceText(number++)})`;
  };
  const replace = (variable, by) => {
    for (const { identifier } of variable.references) {
      const { start, end, name } = identifier;
      const text = objects.has(start) && /^\d/.test(by) ? `(${by})` : by;
      edits.push({ start, end, by: [shorthands.has(start) ? `${name}:${text}` : text] });
    }
  };

  /** What the program does when it is loaded, but for functions and constants. @type {Map<any, string>} by declaration */
  const globals = new Map();
  const variables = scope.variables.filter(({ defs }) => defs.length).sort((a, b) => b.references.length - a.references.length);
  for (const variable of variables) {
    const [{ node, type }] = variable.defs;
    const constant = constantOf(variable, code);
    if (type === "FunctionName" && isRoomAt(node.start)) replace(variable, made(node));
    else if (constant !== undefined) replace(variable, constant);
    else {
      const { value: name } = names.next();
      if (type !== "FunctionName" && !program.body.some(({ declarations }) => declarations?.includes(node)))
        throw new Error(`${variable.name}, a variable of the program, is declared within a statement`);
      replace(variable, name);
      globals.set(node, name);
    }
  }
  // Functions that stand in the program's own statements.
  for (const statement of program.body)
    if (statement.type !== "FunctionDeclaration")
      walk(statement, (node) => {
        if (!isFunction(node)) return false;
        edits.push({ start: node.start, end: node.end, by: [made(node)] });
        return true;
      });
  // Tools.
  /** @type {Map<number, any>} */
  const toolBodies = new Map();
  for (const { callee, arguments: [, first, ...parts], end } of callsOf(program, "$eval")) {
    edits.push({ start: callee.start, end: callee.end, by: ["eval"] }, { start: code.lastIndexOf(",", first.start), end: end - 1, by: [] });
    parts.forEach((part, i) => toolBodies.set(first.value + i, part.body));
  }
  for (const { start, end, arguments: [number] } of callsOf(program, "$read")) edits.push({ start, end, by: [sliceText(number.value)] });
  const table = manager.globalScope.through.find(({ identifier }) => identifier.name === TABLE);
  if (table) edits.push({ start: table.identifier.start, end: table.identifier.end, by: [TABLE] });
  edits.sort((a, b) => a.start - b.start || b.end - a.end);
  const piecesOf = (start, end) => edited(edits, start, end);

  /** @type {(string | [number, number])[]} */
  const main = [];
  for (const statement of program.body) {
    if (statement.type === "FunctionDeclaration") {
      const name = globals.get(statement);
      if (name) main.push(`${name}=${made(statement)};`);
    } else if (statement.type === "VariableDeclaration") {
      for (const declarator of statement.declarations) {
        const name = globals.get(declarator);
        if (!name) continue;
        main.push(`${name}=`, ...(declarator.init ? piecesOf(declarator.init.start, declarator.init.end) : ["void 0"]), ";");
      }
    } else main.push(...piecesOf(statement.start, statement.end));
  }

  /** @type {Map<number, (string | [number, number])[]>} */
  const slices = new Map();
  for (const [number, [start, end]] of bodies) slices.set(number, piecesOf(start, end));
  for (const [number, body] of toolBodies) slices.set(number, statements(body, piecesOf));
  if (table) texts.forEach((text, i) => slices.set(FIRST.text + i, [text]));
  if (!slices.size) return { ...make(code, main), tooLong: [] };

  /** Where slices begin, and how long they are, by number. @type {Map<number, { at: number, length: number }>} */
  let places = new Map([...slices.keys()].map((number) => [number, { at: 0, length: 0 }]));
  let size = 0;
  let tableAt = 0;
  const sizeOf = (pieces) => pieces.reduce((sum, piece) => sum + (typeof piece === "string" ? piece.length : piece[1] - piece[0]), 0);

  // A place is as long as its digits: it depends on all others.
  for (let turns = 0; turns < MAX_TURNS; turns++) {
    const parts = partsOf(size);
    const { at: last } = parts.at(-1);
    const placed = (piece) =>
      typeof piece !== "string" ? piece : piece.replace(TABLE, String(tableAt - last)).replace(SLICE_TEXTS, (_, number) => {
        const { at, length } = places.get(Number(number));
        const part = parts.findLast((one) => one.at <= at && at + length <= one.at + PART.bytes) ?? parts[0];
        return `${part.name}.substr(${at - part.at},${length})`;
      });
    const program = main.map(placed);
    const next = new Map();
    const pieces = [];
    let at = prelude(parts, size).length + sizeOf(program);
    for (const [number, slice] of slices) {
      const text = slice.map(placed);
      const length = sizeOf(text);
      next.set(number, { at: at + 3, length });
      pieces.push("\n//", ...text);
      at += 3 + length;
    }
    const numbers = Array.from({ length: tools }, (_, i) => [FIRST.tool + i, FIRST.text + 2 * i, FIRST.text + 2 * i + 1]).flat();
    const before = JSON.stringify([size, tableAt, ...places]);
    if (table) {
      pieces.push(`\n//${numbers.map((number) => entry(places.get(number), last)).join("")}`);
      tableAt = at + 3;
      at += 3 + numbers.length * ENTRY.width;
    }
    pieces.push("\n//");
    size = at + 3 + MARK_LENGTH;
    places = next;
    if (before !== JSON.stringify([size, tableAt, ...places])) continue;
    const mark = crc32(make(code, [prelude(parts, size), ...program, ...pieces]).text).toString(16).padStart(MARK_LENGTH, "0");
    const { text, runs } = make(code, [prelude(parts, size, mark), ...program, ...pieces, mark]);
    const tooLong = Array.from({ length: tools }, (_, tool) => ({ tool, length: places.get(FIRST.tool + tool)?.length ?? 0 }));
    return { text, runs, tooLong: tooLong.filter(({ length }) => length > MAX_TOOL_CODE) };
  }
  throw new Error("the places of the slices do not settle");
}

/** A place in the last part of the file. */
function entry({ at, length }, last) {
  if (at && at < last) throw new Error("the bundle's tools are too large for a part of the file");
  return `0x${((at - last) * (1 << ENTRY.shift) | length).toString(16).padStart(ENTRY.width - 2, "0")}`;
}

/**
 * What is evaluated: the statements of a function's body, and what it returns as the last of them. An object would be a
 * block where a statement begins; behind a comma it takes a third less of the interpreter's stack than in brackets.
 */
function statements(body, piecesOf) {
  const last = body.body.at(-1);
  const [value] = callsOf(last.argument, "$value");
  const result = value.arguments[0];
  return [
    ...piecesOf(body.start + 1, last.start),
    "0,",
    ...piecesOf(last.argument.start, value.start),
    ...piecesOf(result.start, result.end),
    ...piecesOf(value.end, last.argument.end),
  ];
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
