/**
 * The bundle check: reads a finished bundle as Espruino would and refuses what the interpreter does not parse, what it
 * parses and misreads, and what its library lacks. It looks at the syntax tree only, so it sees what is statically
 * visible; values (a long `apply`, a text handed to `JSON.parse`) are the tests' business. Every rule was run on the
 * interpreter; the reason stands in the rule's hint.
 *
 * Before it, the source check (`checkTypeScript`) refuses the syntax that esbuild would refuse under another name, or
 * would lower with helpers that the board does not run: only the source still shows what was written, and where.
 */
import { originalPositionFor, TraceMap } from "@jridgewell/trace-mapping";
import * as acorn from "acorn";
import { builtinModules } from "node:module";
import path from "node:path";
import ts from "typescript";

/**
 * One refusal. `line` and `column` count from 1 and belong to `file`: the TypeScript file where a source map leads
 * there, else the bundle. `message` says what is wrong, `hint` what to write instead ("" where the message says it).
 * @typedef {{ message: string, hint: string, file: string, line: number, column: number }} Problem
 */

/** `firmware/x.ts:12:5 what — what to write instead`. @param {Problem} problem */
export function formatProblem(problem) {
  const hint = problem.hint ? ` — ${problem.hint}` : "";
  return `${problem.file}:${problem.line}:${problem.column} ${problem.message}${hint}`;
}

const words = (/** @type {string} */ text) => new Set(text.trim().split(/\s+/));

/** Names the interpreter knows without declaration on an ESP32, and inside a module loaded by `require`. */
const GLOBALS = words(`
  AES Array ArrayBuffer Boolean DataView Date E Error File Float32Array Float64Array Function Graphics HIGH I2C I2C1
  I2C2 Infinity Int16Array Int32Array Int8Array InternalError JSON LOW LoopbackA LoopbackB Math Modules NaN Number
  Object OneWire Pin Promise ReferenceError RegExp SPI SPI1 SPI2 Serial Serial1 Serial2 Serial3 String SyntaxError
  Telnet TypeError USB Uint16Array Uint24Array Uint32Array Uint8Array Uint8ClampedArray Waveform __FILE__ analogRead
  analogWrite arguments atob btoa changeInterval clearInterval clearTimeout clearWatch console decodeURIComponent
  digitalPulse digitalRead digitalWrite dump echo edit encodeURIComponent eval exports getPinMode getSerial getTime
  global globalThis isFinite isNaN load module parseFloat parseInt peek16 peek32 peek8 pinMode poke16 poke32 poke8
  print process require reset save setBusyIndicator setInterval setSleepIndicator setTime setTimeout setWatch
  shiftOut trace undefined url LED1 BTN1`);
for (let pin = 0; pin < 40; pin++) GLOBALS.add(`D${pin}`);

/** All there is on the built-in objects: anything else read from them is undefined, and a call of it throws. */
const STATICS = {
  Array: words("isArray prototype"),
  ArrayBuffer: words("prototype"),
  Date: words("now parse prototype"),
  Error: words("prototype"),
  JSON: words("parse stringify"),
  Math: words(`E LN10 LN2 LOG10E LOG2E PI SQRT1_2 SQRT2 abs acos asin atan atan2 ceil clip cos exp floor log max min pow
    randInt random round sign sin sqrt tan wrap`),
  Number: words("MAX_VALUE MIN_VALUE NEGATIVE_INFINITY NaN POSITIVE_INFINITY prototype"),
  Object: words(`assign create defineProperties defineProperty entries fromEntries getOwnPropertyDescriptor
    getOwnPropertyDescriptors getOwnPropertyNames getPrototypeOf keys prototype setPrototypeOf values`),
  Promise: words("all prototype reject resolve"),
  String: words("fromCharCode prototype"),
  console: words("debug error info log trace warn"),
  process: words("env memory version on addListener prependListener removeListener removeAllListeners emit"),
};

/** Built-in functions without the name of an own property anywhere: their missing statics have a usual replacement. */
const STATIC_HINTS = {
  "Array.from": "use a loop, or map over an array",
  "Array.of": "write the array literal",
  "Object.freeze": "leave it out: nothing on the board enforces it",
  "Object.hasOwn": "use object.hasOwnProperty(name)",
  "Object.is": "use === (NaN: isNaN)",
  "Math.trunc": "use Math.floor for positive numbers, or | 0",
  "Math.log2": "use Math.log(x) / Math.LN2",
  "Math.log10": "use Math.log(x) / Math.LN10",
  "Math.hypot": "use Math.sqrt(a * a + b * b)",
  "Number.isInteger": "use typeof x === \"number\" && x === Math.floor(x)",
  "Number.isFinite": "use typeof x === \"number\" && isFinite(x)",
  "Number.isNaN": "use isNaN(x)",
  "Number.parseFloat": "use parseFloat(x)",
  "Number.parseInt": "use parseInt(x)",
  "Promise.race": "resolve one promise from several places",
  "Promise.any": "resolve one promise from several places",
  "Promise.allSettled": "give each promise a catch and use Promise.all",
  "String.raw": "write the escapes",
  "String.fromCodePoint": "use String.fromCharCode on each byte",
};

/** Methods that no built-in type of the board has. Names the bundle itself gives to a property are left alone. */
const MISSING_METHODS = words(`
  at codePointAt normalize localeCompare matchAll search trimStart trimEnd trimLeft trimRight toLocaleLowerCase
  toLocaleUpperCase toLocaleString toLocaleDateString toLocaleTimeString toDateString toTimeString toGMTString
  setUTCDate setUTCFullYear setUTCHours setUTCMilliseconds setUTCMinutes setUTCMonth setUTCSeconds isWellFormed
  toWellFormed flat flatMap findLast findLastIndex copyWithin reduceRight toReversed toSorted toSpliced with finally
  toPrecision toExponential isPrototypeOf propertyIsEnumerable getBigInt64 setBigInt64`);

const METHOD_HINTS = {
  at: "use x[x.length - 1]",
  codePointAt: "use charCodeAt on each byte",
  finally: "give then and catch the same function",
  flat: "use concat or a loop",
  flatMap: "use reduce with concat, or a loop",
  findLast: "use a loop from the end",
  localeCompare: "use < and >",
  matchAll: "use exec in a loop with the flag g",
  reduceRight: "use a loop from the end",
  search: "use match(…).index or indexOf",
  toPrecision: "use toFixed",
  trimStart: "use trim, or a loop",
  trimEnd: "use trim, or a loop",
};

/** Modules built into Espruino on an ESP32. Any other name is a file of the Storage, which a person may have. */
const MODULES = words(`
  ESP32 Flash NetworkJS Storage TelnetServer Wifi crypto dgram fs heatshrink http neopixel net timer tls`);

const MODULE_HINTS = {
  buffer: "use a string of bytes, or Uint8Array",
  fs: "use require(\"Storage\") for files in flash, require(\"fs\") for those of an SD card",
  https: "use require(\"http\"), with an https: address",
  process: "use the global process",
  timers: "use setTimeout and setInterval",
  url: "use the global url.parse",
};

/**
 * What is wrong with a module's name: Node has it built in and the board has not.
 * @param {string} name as in `require(name)`
 * @returns {{ message: string, hint: string } | undefined}
 */
function missingModule(name) {
  const plain = name.replace(/^node:/, "");
  if (MODULES.has(name) || (plain === name && !builtinModules.includes(name))) return undefined;
  return { message: `the board has no module \`${name}\``, hint: moduleHint(plain) };
}

const moduleHint = (/** @type {string} */ name) =>
  MODULE_HINTS[name] ?? (MODULES.has(name) ? `use require("${name}")` : `it has ${[...MODULES].join(", ")}`);

/** Reserved words of Espruino's lexer that are ordinary names elsewhere. */
const RESERVED_NAMES = words("of static let");
/** Words that Espruino's lexer reads as a token of their own, so that they cannot name a class member or a getter. */
const RESERVED_WORDS = words(`
  if else do while for break continue function return var let const this throw try catch finally true false null
  undefined new in instanceof switch case default delete typeof void debugger class extends super static of`);

/** These call their callback before they return, as `new Promise` does. */
const IMMEDIATE_METHODS = words(`map forEach filter find findIndex some every reduce sort replace replaceAll`);

/** Longest name the lexer keeps, in characters. */
const MAX_NAME = 63;
/** Groups of a regular expression that the matcher keeps. */
const MAX_GROUPS = 9;

/**
 * Checks one script.
 * @param {string} code
 * @param {{ map?: string | object, file?: string, globals?: string[] }} [options] `map`: the script's source map;
 *   `file`: its path, which the map's sources are relative to; `globals`: further names that exist
 * @returns {Problem[]} in order of their place in the script
 */
export function checkSource(code, options = {}) {
  const file = options.file ?? "bundle.js";
  const tokens = /** @type {acorn.Token[]} */ ([]);
  let program;
  try {
    program = acorn.parse(code, { ecmaVersion: "latest", sourceType: "script", locations: true, onToken: tokens });
  } catch (error) {
    const loc = error.loc ?? { line: 1, column: 0 };
    return [{ message: error.message, hint: "not JavaScript", file, line: loc.line, column: loc.column + 1 }];
  }
  /** @type {{ pos: number, loc: acorn.Position, name?: string, message: string, hint: string }[]} */
  const found = [];
  const report = (node, message, hint) => {
    found.push({ pos: node.start, loc: node.loc.start, name: node.name, message, hint });
  };

  checkTokens(tokens, report);
  const tree = readTree(program);
  const known = new Set([...GLOBALS, ...(options.globals ?? []), ...tree.ownGlobals]);
  for (const { node, ancestors } of tree.nodes) checkNode(node, ancestors, tree, code, report);
  for (const reference of tree.references) checkReference(reference, tree, known, report);
  checkOrder(tree, report);

  const trace = options.map ? new TraceMap(/** @type {any} */ (options.map)) : undefined;
  found.sort((a, b) => a.pos - b.pos);
  return found.map(({ loc, name, message, hint }) => {
    const origin = trace && originalPositionFor(trace, { line: loc.line, column: loc.column });
    // A minified name means nothing to the reader: the map often knows the one it had.
    if (origin?.name && name) message = message.split(`\`${name}\``).join(`\`${origin.name}\``);
    if (!origin?.source) return { message, hint, file, line: loc.line, column: loc.column + 1 };
    const source = path.posix.join(path.posix.dirname(file), origin.source);
    return { message, hint, file: source, line: origin.line, column: origin.column + 1 };
  });
}

// ---- the sources, before esbuild

/** What a node of a source is refused for: message and hint. @returns {[string, string] | undefined} */
function refusedSyntax(node) {
  const { parent } = node;
  switch (node.kind) {
    case ts.SyntaxKind.SpreadAssignment:
      if (isAssigned(parent)) return undefined;
      return ["spread in an object is not parsed", "use Object.assign({}, a, { b: 1 })"];
    case ts.SyntaxKind.SpreadElement:
      if (isAssigned(parent)) return undefined;
      if (ts.isArrayLiteralExpression(parent)) return ["spread in an array is not parsed", "use a.concat(b)"];
      return ["spread in a call is not parsed", "use f.apply(null, list), or name each argument"];
    case ts.SyntaxKind.Parameter:
      if (node.dotDotDotToken) return ["rest parameters are not parsed", "take an array, or use arguments"];
      if (node.initializer) {
        return ["default parameters are not parsed", "set the default in the body: if (a === undefined) a = 1"];
      }
      return undefined;
    case ts.SyntaxKind.ObjectBindingPattern:
      return ["destructuring is not parsed", "read each property: const a = x.a"];
    case ts.SyntaxKind.ArrayBindingPattern:
      return ["destructuring is not parsed", "read each element: const a = x[0]"];
    case ts.SyntaxKind.ObjectLiteralExpression:
      return isAssigned(node) ? ["destructuring is not parsed", "assign each property: a = x.a"] : undefined;
    case ts.SyntaxKind.ArrayLiteralExpression:
      return isAssigned(node) ? ["destructuring is not parsed", "assign each element: a = x[0]"] : undefined;
    case ts.SyntaxKind.AwaitExpression:
      return ["`await` is not parsed", "use then"];
    case ts.SyntaxKind.ForOfStatement:
      return node.awaitModifier ? ["`for await` is not parsed", "use then"] : undefined;
    case ts.SyntaxKind.PrivateIdentifier:
      return parent.name === node && ts.isClassElement(parent)
        ? ["#private names are not parsed", "use a name without #, or a closure"]
        : undefined;
    case ts.SyntaxKind.ClassStaticBlockDeclaration:
      return ["static blocks are not parsed", "assign after the class"];
    case ts.SyntaxKind.AccessorKeyword:
      return ["`accessor` fields are not parsed", "write get and set"];
    case ts.SyntaxKind.Decorator:
      return ["decorators are not parsed", "call the function on the class"];
    case ts.SyntaxKind.VariableDeclarationList:
      return (node.flags & ts.NodeFlags.Using) === ts.NodeFlags.Using ||
        (node.flags & ts.NodeFlags.AwaitUsing) === ts.NodeFlags.AwaitUsing
        ? ["`using` is not parsed", "use const, and close it in finally"]
        : undefined;
    case ts.SyntaxKind.BigIntLiteral:
      return ["BigInt is not parsed", "use a number"];
    case ts.SyntaxKind.MetaProperty:
      return ["`new.target` and `import.meta` are not parsed", "leave it out"];
    case ts.SyntaxKind.CallExpression: {
      if (node.expression.kind === ts.SyntaxKind.ImportKeyword) return ["`import()` is not parsed", "use require"];
      const isRequire = ts.isIdentifier(node.expression) && node.expression.text === "require";
      const missing = isRequire && node.arguments[0] && ts.isStringLiteralLike(node.arguments[0])
        ? missingModule(node.arguments[0].text)
        : undefined;
      return missing && [missing.message, missing.hint];
    }
    case ts.SyntaxKind.ImportDeclaration: {
      const name = node.moduleSpecifier.text;
      if (MODULES.has(name)) {
        return [`\`${name}\` is a module of the board, not a file of the bundle`, moduleHint(name)];
      }
      const missing = missingModule(name);
      return missing && [missing.message, missing.hint];
    }
    case ts.SyntaxKind.ImportEqualsDeclaration:
      return ["`import x = …` is not parsed", "use const x = require(…)"];
    case ts.SyntaxKind.ModuleDeclaration:
      return node.modifiers?.some((m) => m.kind === ts.SyntaxKind.DeclareKeyword)
        ? undefined
        : ["a namespace cannot stand in a tool", "use an object, or a file of its own"];
    default:
      return undefined;
  }
}

/** Is this literal the pattern of a destructuring assignment, or a part of one? */
function isAssigned(node) {
  const { parent } = node;
  if (!ts.isObjectLiteralExpression(node) && !ts.isArrayLiteralExpression(node)) return false;
  if (ts.isBinaryExpression(parent)) {
    return parent.left === node && parent.operatorToken.kind === ts.SyntaxKind.EqualsToken;
  }
  if (ts.isForOfStatement(parent) || ts.isForInStatement(parent)) return parent.initializer === node;
  if (ts.isPropertyAssignment(parent) || ts.isSpreadElement(parent)) return isAssigned(parent.parent);
  return ts.isArrayLiteralExpression(parent) && isAssigned(parent);
}

/** What esbuild takes off unread: not overloads and `declare function`, whose parameters it refuses as the others'. */
const isErased = (node) =>
  (ts.isTypeNode(node) && !ts.isExpressionWithTypeArguments(node)) ||
  ts.isInterfaceDeclaration(node) ||
  ts.isTypeAliasDeclaration(node) ||
  (ts.isImportDeclaration(node) && node.importClause?.isTypeOnly);

/**
 * Checks one source before esbuild sees it. It is silent on what only the finished bundle shows, and on syntax that
 * esbuild lowers to what the board has (`?.`, `**`, enums, types).
 * @param {ts.SourceFile} sourceFile with parents
 * @param {string} file its path as it is printed
 * @param {(ts.Node | undefined)[]} [replaced] nodes whose text does not get into the bundle
 * @returns {Problem[]} in order of their place; a construct is reported once, without what stands inside its pattern
 */
export function checkTypeScript(sourceFile, file, replaced = []) {
  const problems = [];
  const report = (node, [message, hint]) => {
    const { line, character } = sourceFile.getLineAndCharacterOfPosition(node.getStart(sourceFile));
    problems.push({ message, hint, file, line: line + 1, column: character + 1 });
  };
  /** `suspends`: inside a function already refused for being async or a generator. */
  const visit = (node, suspends) => {
    if (isErased(node) || replaced.includes(node)) return;
    if (ts.isFunctionLike(node)) {
      const isAsync = node.modifiers?.some((m) => m.kind === ts.SyntaxKind.AsyncKeyword);
      if (isAsync) report(node, ["async functions are not parsed", "return a promise and use then"]);
      else if (node.asteriskToken) report(node, ["generators are not parsed", "return an array, or use a callback"]);
      suspends = isAsync || !!node.asteriskToken;
    }
    const awaits = ts.isAwaitExpression(node) || (ts.isForOfStatement(node) && node.awaitModifier);
    const refused = awaits && suspends ? undefined : refusedSyntax(node);
    if (refused) report(node, refused);
    if (refused && (ts.isObjectBindingPattern(node) || ts.isArrayBindingPattern(node) || isAssigned(node))) return;
    ts.forEachChild(node, (child) => visit(child, suspends));
  };
  visit(sourceFile, false);
  return problems;
}

/**
 * The first syntax error of a source: what follows it is mostly its consequence.
 * @param {ts.SourceFile} sourceFile
 * @param {string} file its path as it is printed
 * @returns {Problem | undefined}
 */
export function syntaxError(sourceFile, file) {
  const { diagnostics } = ts.transpileModule(sourceFile.text, {
    fileName: sourceFile.fileName,
    reportDiagnostics: true,
    compilerOptions: { target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext },
  });
  const errors = diagnostics.filter((d) => d.file);
  if (!errors.length) return undefined;
  const at = sourceFile.getLineAndCharacterOfPosition(errors[0].start);
  const message = `syntax error: ${ts.flattenDiagnosticMessageText(errors[0].messageText, " ").replace(/\.$/, "")}`;
  // The parser notices a missing bracket where the text ends; it remembers where the bracket was opened.
  const opened = errors.flatMap((e) => e.relatedInformation ?? []).find((info) => info.file);
  const place = opened && sourceFile.getLineAndCharacterOfPosition(opened.start);
  const bracket = place && sourceFile.text[opened.start];
  const hint = place ? `close the \`${bracket}\` of ${place.line + 1}:${place.character + 1}` : "";
  return { message, hint, file, line: at.line + 1, column: at.character + 1 };
}

// ---- the tree: scopes, references and calls

/**
 * Reads the tree once. A scope has `names` (name → variable); a variable has `pos`, where Espruino comes to know it,
 * and `owner`, the function that runs its declaration.
 */
function readTree(program) {
  const tree = {
    /** @type {{ node: any, ancestors: any[] }[]} */ nodes: [],
    /** @type {any[]} */ references: [],
    /** @type {any[]} */ calls: [],
    /** Assigned or asked for by `typeof` somewhere in the script. @type {Set<string>} */ ownGlobals: new Set(),
    /** @type {Set<string>} */ ownProperties: new Set(),
    /** @type {Set<any>} */ extendedClasses: new Set(),
    /** Function nodes that run at once where they stand. @type {Set<any>} */ immediate: new Set(),
    /** @type {Map<any, any>} */ scopeOf: new Map(),
    program,
  };
  const newScope = (node, parent, kind, owner) => {
    const scope = { node, parent, kind, owner, names: new Map() };
    tree.scopeOf.set(node, scope);
    return scope;
  };
  const functionScope = (scope) => {
    while (scope.kind !== "function") scope = scope.parent;
    return scope;
  };
  const declare = (scope, id, kind, value) => {
    const old = scope.names.get(id.name);
    if (old && old.pos <= id.start) return;
    scope.names.set(id.name, { name: id.name, kind, pos: id.start, id, scope, owner: scope.owner, value, writes: 0 });
  };
  const declarePattern = (scope, pattern, kind, value) => {
    if (pattern.type === "Identifier") declare(scope, pattern, kind, value);
    else if (pattern.type === "ObjectPattern") {
      for (const p of pattern.properties) declarePattern(scope, p.value ?? p.argument, kind);
    } else if (pattern.type === "ArrayPattern") {
      for (const p of pattern.elements) if (p) declarePattern(scope, p, kind);
    } else if (pattern.type === "AssignmentPattern") declarePattern(scope, pattern.left, kind);
    else if (pattern.type === "RestElement") declarePattern(scope, pattern.argument, kind);
  };

  /** First walk: declarations, so that references can be resolved wherever they stand. */
  const declareAll = (node, scope, parent) => {
    switch (node.type) {
      case "Program":
        scope = newScope(node, null, "function", node);
        break;
      case "FunctionDeclaration":
        // In a block too: Espruino puts it into the function's scope.
        declare(functionScope(scope), node.id, "function", node);
      // falls through
      case "FunctionExpression":
      case "ArrowFunctionExpression":
        scope = newScope(node, scope, "function", node);
        if (node.type === "FunctionExpression" && node.id) declare(scope, node.id, "self", node);
        for (const param of node.params) declarePattern(scope, param, "param");
        break;
      case "ClassDeclaration":
        declare(scope, node.id, "class", node);
        break;
      case "BlockStatement":
        if (!isFunction(parent)) scope = newScope(node, scope, "block", scope.owner);
        break;
      case "ForStatement":
      case "ForInStatement":
      case "ForOfStatement":
      case "SwitchStatement":
        scope = newScope(node, scope, node.type === "SwitchStatement" ? "switch" : "for", scope.owner);
        break;
      case "CatchClause":
        scope = newScope(node, scope, "catch", scope.owner);
        if (node.param) declarePattern(scope, node.param, "catch");
        break;
      case "VariableDeclaration":
        for (const d of node.declarations) {
          declarePattern(node.kind === "var" ? functionScope(scope) : scope, d.id, node.kind, d.init);
        }
        break;
    }
    for (const child of children(node)) declareAll(child, scope, node);
  };
  declareAll(program, null, null);

  /** Second walk: references and calls. */
  const visit = (node, scope, ancestors) => {
    scope = tree.scopeOf.get(node) ?? scope;
    const parent = ancestors[ancestors.length - 1];
    tree.nodes.push({ node, ancestors: ancestors.slice() });
    if (node.type === "Identifier" && isReference(node, parent)) {
      const variable = resolve(scope, node.name);
      const reference = { node, parent, scope, owner: scope.owner, variable, ancestors: ancestors.slice() };
      tree.references.push(reference);
      const assigned = parent.type === "AssignmentExpression" && parent.left === node;
      const write = assigned || parent.type === "UpdateExpression";
      if (write && variable) variable.writes++;
      const asked = parent.type === "UnaryExpression" && parent.operator === "typeof";
      if (!variable && (asked || (write && parent.operator === "="))) tree.ownGlobals.add(node.name);
    }
    if (node.type === "CallExpression" || node.type === "NewExpression") {
      tree.calls.push({ node, scope, owner: scope.owner });
      if (isFunction(node.callee)) tree.immediate.add(node.callee);
      const method = node.callee.type === "MemberExpression" && !node.callee.computed ? node.callee.property.name : "";
      const runsCallback =
        (node.type === "CallExpression" && IMMEDIATE_METHODS.has(method)) ||
        (node.type === "NewExpression" && node.callee.name === "Promise");
      if (runsCallback) for (const a of node.arguments) if (isFunction(a)) tree.immediate.add(a);
    }
    if (node.type === "Property" && !node.computed && parent.type === "ObjectExpression") {
      tree.ownProperties.add(String(node.key.name ?? node.key.value));
    }
    if ((node.type === "MethodDefinition" || node.type === "PropertyDefinition") && !node.computed) {
      tree.ownProperties.add(String(node.key.name ?? node.key.value));
    }
    if (node.type === "AssignmentExpression" && node.left.type === "MemberExpression" && !node.left.computed) {
      if (node.left.property.name !== "length") tree.ownProperties.add(node.left.property.name);
    }
    if (isClass(node) && node.superClass?.type === "Identifier") {
      const base = classOf(resolve(scope, node.superClass.name));
      if (base) tree.extendedClasses.add(base);
    }
    ancestors.push(node);
    for (const child of children(node)) visit(child, scope, ancestors);
    ancestors.pop();
  };
  visit(program, null, []);
  return tree;
}

function* children(node) {
  for (const key in node) {
    if (key === "loc" || key === "type") continue;
    const value = node[key];
    if (Array.isArray(value)) {
      for (const item of value) if (item && typeof item.type === "string") yield item;
    } else if (value && typeof value.type === "string") yield value;
  }
}

const isFunction = (node) => !!node && /^(FunctionDeclaration|(Arrow)?FunctionExpression)$/.test(node.type);
const isClass = (node) => node?.type === "ClassDeclaration" || node?.type === "ClassExpression";

function isReference(node, parent) {
  switch (parent.type) {
    case "MemberExpression":
      return parent.object === node || parent.computed;
    case "Property":
    case "PropertyDefinition":
    case "MethodDefinition":
      return parent.value === node || parent.computed;
    case "VariableDeclarator":
      return parent.init === node;
    case "FunctionDeclaration":
    case "FunctionExpression":
    case "ArrowFunctionExpression":
      return parent.body === node;
    case "ClassDeclaration":
    case "ClassExpression":
      return parent.superClass === node;
    case "CatchClause":
    case "LabeledStatement":
    case "BreakStatement":
    case "ContinueStatement":
    case "MetaProperty":
      return false;
    default:
      return true;
  }
}

function resolve(scope, name) {
  for (; scope; scope = scope.parent) {
    const variable = scope.names.get(name);
    if (variable) return variable;
  }
  return undefined;
}

const classOf = (variable) => (isClass(variable?.value) ? variable.value : undefined);

// ---- tokens: where the lexer takes a slash for something else

function checkTokens(tokens, report) {
  const tt = acorn.tokTypes;
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i];
    const before = tokens[i - 1];
    if (token.type === tt.regexp && before) {
      const operator = before.type === tt.bitwiseOR || before.type === tt.bitwiseXOR || before.value === "~";
      if (before.type === tt.parenR || operator) {
        report(token, "a regular expression straight after `)` is read as a division", "put it in a variable first");
      }
    }
    const divides = token.type === tt.slash || (token.type === tt.assign && token.value === "/=");
    if (divides && before) {
      const keyword = before.type.keyword || (before.type === tt.name && RESERVED_WORDS.has(before.value));
      const value = /^(true|false|null|undefined)$/.test(before.value);
      if (before.type === tt.incDec || before.type === tt.braceR || (keyword && !value)) {
        report(
          token,
          `a division straight after \`${before.value ?? before.type.label}\` is read as a regular expression`,
          "put the left side in a variable or in parentheses",
        );
      }
    }
    if (token.type === tt.name && token.value.length > MAX_NAME) {
      report(token, `a name of ${token.value.length} characters is cut`, `use at most ${MAX_NAME}`);
    }
    if (token.type === tt.name && /[^\x00-\x7f]/.test(token.value)) {
      report(token, `the name ${token.value} is not ASCII`, "use the letters A to Z, digits, _ and $");
    }
  }
}

// ---- single nodes

/** Node types that are refused wherever they stand. */
const REFUSED = {
  SpreadElement: ["spread is not parsed", "use concat, apply or Object.assign"],
  RestElement: ["rest parameters are not parsed", "use arguments in a function"],
  AssignmentPattern: ["default values are not parsed", "set the default in the body"],
  ObjectPattern: ["destructuring is not parsed", "read each property"],
  ArrayPattern: ["destructuring is not parsed", "read each element"],
  ChainExpression: ["`?.` is not parsed", "ask for the value first"],
  TaggedTemplateExpression: ["tagged templates are not parsed", "call the function"],
  LabeledStatement: ["labels are not parsed", "put the inner loop in a function"],
  WithStatement: ["`with` is not parsed", "name the object"],
  StaticBlock: ["static blocks are not parsed", "assign after the class"],
  PrivateIdentifier: ["#private names are not parsed", "use a closure"],
  AwaitExpression: ["`await` is not parsed", "use then"],
  YieldExpression: ["`yield` is not parsed", "use a callback"],
  MetaProperty: ["`new.target` and `import.meta` are not parsed", "leave it out"],
  ImportExpression: ["`import()` is not parsed", "use require"],
};

function checkNode(node, ancestors, tree, code, report) {
  const parent = ancestors[ancestors.length - 1];
  if (REFUSED[node.type]) report(node, REFUSED[node.type][0], REFUSED[node.type][1]);
  if (isFunction(node)) {
    if (node.async) report(node, "async functions are not parsed", "return a promise and use then");
    if (node.generator) report(node, "generators are not parsed", "use a callback");
  }
  switch (node.type) {
    case "ForOfStatement":
      if (node.await) report(node, "`for await` is not parsed", "use then");
      break;
    case "BinaryExpression":
      if (node.operator === "**") report(node, "`**` is not parsed", "use Math.pow");
      break;
    case "AssignmentExpression":
      if (node.operator === "**=") report(node, "`**=` is not parsed", "use Math.pow");
      if (/^(\?\?|&&|\|\|)=$/.test(node.operator)) {
        report(node, `\`${node.operator}\` is not parsed`, `write x = x ${node.operator.slice(0, -1)} y`);
      }
      checkLength(node, tree, report);
      break;
    case "UnaryExpression":
      if (node.operator === "-" && node.argument.value === 0) report(node, "-0 is 0 on the board", "write 0");
      break;
    case "ArrayExpression":
      if (node.elements.includes(null)) {
        report(node, "array holes are not parsed in code that is skipped over", "write undefined");
      }
      break;
    case "Literal":
      checkLiteral(node, code, report);
      break;
    case "TemplateLiteral":
      checkTemplate(node, code, report);
      break;
    case "Property":
      if (parent.type === "ObjectExpression") checkKey(node, node.kind !== "init", report);
      break;
    case "MethodDefinition":
      checkKey(node, true, report);
      break;
    case "PropertyDefinition":
      checkKey(node, true, report);
      if (!node.static) report(node, "a class field is shared by all instances", "assign it in the constructor");
      else if (node.value && /\bthis\b/.test(code.slice(node.value.start, node.value.end))) {
        report(node, "`this` in a static field is not the class", "name the class, after it");
      }
      break;
    case "DoWhileStatement":
      if (!endsBeforeSemicolon(node.body, code, true)) {
        report(
          node,
          "`do` and its statement without braces must end in a semicolon of their own before `while`",
          "esbuild drops the braces around one statement: use while, or for (;;) with break",
        );
      }
      break;
    case "SwitchStatement":
      checkSwitch(node, report);
      break;
    case "ClassDeclaration":
    case "ClassExpression":
      checkExtends(node, ancestors, tree, report);
      break;
    case "Super":
      checkSuper(node, ancestors, tree, report);
      break;
    case "CallExpression":
    case "NewExpression":
      checkCall(node, ancestors, tree, report);
      break;
    case "MemberExpression":
      checkMember(node, ancestors, tree, report);
      break;
    case "ExpressionStatement":
      if (node.expression.type === "MemberExpression") {
        report(node, "a property that is read and not used runs no getter", "assign it to a variable");
      }
      break;
  }
}

/**
 * Whether a statement as the body of `do` leaves the semicolon that must stand before `while`: `if`, an empty statement
 * and a body in braces have none to leave.
 */
function endsBeforeSemicolon(body, code, isOutermost) {
  switch (body.type) {
    case "BlockStatement":
      return isOutermost;
    case "IfStatement":
      if (!body.alternate) return false;
      return body.alternate.type === "EmptyStatement" || endsBeforeSemicolon(body.alternate, code, false);
    case "ForStatement":
    case "ForInStatement":
    case "ForOfStatement":
    case "WhileStatement":
      return endsBeforeSemicolon(body.body, code, false);
    case "EmptyStatement":
    case "TryStatement":
    case "SwitchStatement":
      return false;
    default:
      return code[body.end - 1] === ";";
  }
}

function checkLength(node, tree, report) {
  const target = node.left;
  if (target.type !== "MemberExpression" || target.computed || target.property.name !== "length") return;
  if (!tree.ownProperties.has("length")) {
    report(target, "the length of an array cannot be set", "use splice, or a new array");
  }
}

function checkLiteral(node, code, report) {
  if (node.bigint) return report(node, "BigInt is not parsed", "use a number");
  if (node.regex) return checkRegex(node, node.regex.pattern, node.regex.flags, report, true);
  if (typeof node.value === "string") return checkEscapes(node, code.slice(node.start, node.end), report);
  if (typeof node.value === "number" && node.value >= 2 ** 63 && /^[\d_]+$|^0[xob]/i.test(node.raw)) {
    report(node, "an integer of more than 63 bits wraps", "write it with an exponent, as 1e20");
  }
}

/** Escapes of a string or of a template's text, as they stand in the source. */
function checkEscapes(node, raw, report) {
  for (const [, escape] of raw.matchAll(/\\(u\{[^}]*\}|u[0-9a-fA-F]{4}|[^])/g)) {
    const hint = "write the character, or its UTF-8 bytes as \\xNN";
    if (escape.startsWith("u{")) report(node, "`\\u{…}` is not parsed", hint);
    else if (escape.length === 5 && parseInt(escape.slice(1), 16) > 0xff) {
      report(node, `\`\\${escape}\` is cut to one byte`, hint);
    } else if (escape === "\n") {
      report(node, "a string that goes on in the next line is cut there", "use + or a template");
    }
  }
}

/** The lexer counts braces inside `${…}` without looking at strings, and a `${` of the text is run like the others. */
function checkTemplate(node, code, report) {
  for (const quasi of node.quasis) {
    checkEscapes(quasi, code.slice(quasi.start, quasi.end), report);
    if (quasi.value.cooked?.includes("${")) {
      report(quasi, "`${` written as text in a template is run as an expression", "use \"$\" + \"{\"");
    }
  }
  const walk = (inner) => {
    const text =
      inner.type === "Literal" && (typeof inner.value === "string" || inner.regex) ? inner.raw
      : inner.type === "TemplateElement" ? inner.value.raw
      : "";
    if (/[{}]/.test(text)) {
      report(inner, "a brace inside a text inside `${…}` ends the expression", "put the text in a variable");
    }
    for (const child of children(inner)) walk(child);
  };
  for (const expression of node.expressions) walk(expression);
}

function checkKey(node, strict, report) {
  if (node.computed) return report(node, "computed keys are not parsed", "assign object[key] afterwards");
  if (node.shorthand && node.key.name === "undefined") {
    return report(node, "`undefined` is a reserved word", "write undefined: undefined");
  }
  if (!strict) return;
  const name = node.key.name ?? node.key.value;
  if (node.key.type === "Literal" || RESERVED_WORDS.has(name)) {
    report(node, `\`${name}\` cannot name a class member, getter or setter`, "use a name that is no reserved word");
  }
}

function checkSwitch(node, report) {
  const index = node.cases.findIndex((c) => !c.test);
  if (index >= 0 && index < node.cases.length - 1) {
    report(node.cases[index], "a `case` after `default` is not parsed", "put `default` last");
  }
  for (const c of node.cases) {
    for (const statement of c.consequent) {
      if (statement.type === "VariableDeclaration" && statement.kind === "const") {
        report(statement, "a `case` has no scope: its `const` is assigned twice", "put the case's body in { }");
      }
    }
  }
}

const scopeAt = (ancestors, tree) => {
  for (let i = ancestors.length - 1; i >= 0; i--) {
    const scope = tree.scopeOf.get(ancestors[i]);
    if (scope) return scope;
  }
  return undefined;
};

function checkExtends(node, ancestors, tree, report) {
  if (!node.superClass) return;
  if (node.superClass.type !== "Identifier") {
    return report(node.superClass, "`extends` takes a plain name only", "put the class in a variable first");
  }
  if (!resolve(scopeAt(ancestors, tree), node.superClass.name)) {
    const hint = /Error$/.test(node.superClass.name)
      ? "make new Error(message) and add fields"
      : "keep the built-in object in a field";
    report(node.superClass, `\`extends ${node.superClass.name}\`: a built-in class cannot be extended`, hint);
  }
}

function checkSuper(node, ancestors, tree, report) {
  let i = ancestors.length - 1;
  while (!isFunction(ancestors[i]) && ancestors[i].type !== "PropertyDefinition") i--;
  const owner = ancestors[i - 1];
  if (ancestors[i].type === "ArrowFunctionExpression" || owner.type !== "MethodDefinition") {
    return report(node, "`super` works straight in a class's method only", "keep the value in a variable before");
  }
  const parent = ancestors[ancestors.length - 1];
  const enclosing = ancestors[i - 3];
  if (parent.type === "MemberExpression" && tree.extendedClasses.has(enclosing)) {
    report(node, "`super` in a class that is extended calls itself for ever", "keep inheritance to one level");
  }
}

/** Is this the built-in of that name, and not one of the script's own variables? */
function builtIn(node, ancestors, tree) {
  if (node.type !== "Identifier" || resolve(scopeAt(ancestors, tree), node.name)) return undefined;
  return node.name;
}

function checkCall(node, ancestors, tree, report) {
  const callee = node.callee;
  const name = builtIn(callee, ancestors, tree);
  const first = node.arguments[0];
  if (name === "require" && first?.type === "Literal") {
    const missing = missingModule(String(first.value));
    if (missing) report(node, missing.message, missing.hint);
  }
  if (name === "RegExp" && first?.type === "Literal" && typeof first.value === "string") {
    const flags = node.arguments[1]?.value;
    checkRegex(first, first.value, typeof flags === "string" ? flags : "", report, false);
  }
  if (name && /Error$/.test(name) && node.arguments.length > 1) {
    report(node, "an error takes its message only", "set error.cause afterwards");
  }
  if (callee.type !== "MemberExpression" || callee.computed) return;
  const method = callee.property.name;
  const object = builtIn(callee.object, ancestors, tree);
  if (object === "JSON" && method === "parse" && node.arguments.length > 1) {
    report(node, "JSON.parse ignores its reviver", "walk the result");
  }
  if (object === "JSON" && method === "stringify" && node.arguments.length > 1) {
    const replacer = node.arguments[1];
    if (replacer.type === "ArrowFunctionExpression" || replacer.type === "FunctionExpression" || isArray(replacer)) {
      report(node, "JSON.stringify ignores its replacer", "build the object you want");
    }
  }
  if (object && STATICS[object]) return;
  if (tree.ownProperties.has(method)) return;
  if (method === "split" && node.arguments.length > 1) {
    report(node, "split ignores its limit", "use slice on the result");
  }
  const iterates = /^(keys|values|entries)$/.test(method) && node.arguments.length === 0;
  const arrayOnly = method === "lastIndexOf" && isArray(callee.object);
  if (MISSING_METHODS.has(method) || iterates || arrayOnly) {
    report(callee.property, `the board has no method \`${method}\``, METHOD_HINTS[method] ?? "use a loop");
  }
}

const isArray = (node) => node?.type === "ArrayExpression";

function checkMember(node, ancestors, tree, report) {
  const parent = ancestors[ancestors.length - 1];
  if (node.computed) return;
  const property = node.property.name;
  const asked = parent.type === "UnaryExpression" && parent.operator === "typeof";
  const assigned = parent.type === "AssignmentExpression" && parent.left === node;
  const name = builtIn(node.object, ancestors, tree);
  const defined = asked || assigned || tree.ownProperties.has(property);
  if (name && STATICS[name] && !STATICS[name].has(property) && !defined) {
    const full = `${name}.${property}`;
    report(node, `the board has no \`${full}\``, STATIC_HINTS[full] ?? "write it out");
  }
  // Object.prototype is the one whose functions can be read from it.
  if (name && name !== "Object" && STATICS[name] && property === "prototype" && parent.type === "MemberExpression") {
    const target = ancestors[ancestors.length - 2];
    const extending = target.type === "AssignmentExpression" && target.left === parent;
    if (parent.object === node && !extending) {
      report(node, `the functions of \`${name}.prototype\` are undefined`, "take them from an instance, as [].slice");
    }
  }
  const variable = node.object.type === "Identifier" && resolve(scopeAt(ancestors, tree), node.object.name);
  const value = variable && variable.writes === 0 ? variable.value : undefined;
  if (isClass(value) && inheritsStatic(value, property, scopeAt(ancestors, tree)) && !assigned) {
    report(node, `the static \`${property}\` is not inherited`, "name the class that has it");
  }
  if (property !== "name" || assigned) return;
  const constructor = node.object.type === "MemberExpression" && node.object.property.name === "constructor";
  if (isFunction(value) || isClass(value) || constructor) {
    report(node, "functions have no `name`", "keep the name in a property");
  } else if (value?.type === "NewExpression" && /Error$/.test(value.callee.name)) {
    report(node, "errors have no `name`", "use error.type");
  }
}

/** Does a class have that static member from a class it extends, and not itself? */
function inheritsStatic(node, name, scope) {
  const has = (c) => c.body.body.some((m) => m.static && m.key?.name === name);
  if (has(node)) return false;
  for (let base = node; base?.superClass?.type === "Identifier"; ) {
    base = classOf(resolve(scope, base.superClass.name));
    if (base && has(base)) return true;
  }
  return false;
}

/**
 * The matcher knows characters, classes, `.`, `*`, `+`, groups that capture, `|` outside groups, `^`, `$`.
 * `literal`: a `/` inside a class ends a literal, not a pattern given as text.
 */
function checkRegex(node, pattern, flags, report, literal) {
  const refuse = (what, hint) => report(node, `regular expression /${pattern}/: ${what}`, hint);
  const bad = flags.replace(/[gi]/g, "");
  if (bad) refuse(`the flag ${bad} is not known`, "g and i are");
  if (/[^\x00-\x7f]/.test(pattern)) refuse("characters beyond ASCII are several bytes", "compare strings");
  let depth = 0;
  let groups = 0;
  let inClass = false;
  for (let i = 0; i < pattern.length; i++) {
    const c = pattern[i];
    if (c === "\\") {
      const escape = pattern[++i];
      if (/[1-9]/.test(escape)) refuse("no backreferences", "compare the captured texts");
      else if (/[bB]/.test(escape)) refuse("no `\\b`", "match the neighbour characters");
      else if (escape === "u") refuse("no `\\u`", "use \\xNN");
      else if (/[a-zA-Z]/.test(escape) && !/[dDwWsSnrtfvx]/.test(escape)) refuse(`no \`\\${escape}\``, "write a class");
    } else if (inClass) {
      if (c === "]") inClass = false;
      else if (c === "/" && literal) refuse("a `/` inside a class ends it", "write \\/");
    } else if (c === "[") {
      inClass = true;
      if (/^\[\^?\]/.test(pattern.slice(i))) refuse("no empty class", "use . for any character");
    } else if (c === "(") {
      if (pattern[i + 1] === "?") {
        refuse("no `(?…)` groups", "use a group that captures, or test twice");
        i++;
      } else groups++;
      depth++;
    } else if (c === ")") {
      depth--;
      if (/[*+?{]/.test(pattern[i + 1] ?? "")) {
        refuse("a group cannot repeat", "repeat a class or a character");
        i++;
      }
    } else if (c === "|") {
      if (depth > 0) refuse("`|` works outside groups only", "write out the alternatives, or test twice");
    } else if (c === "?") refuse("no `?`, and no lazy repeats", "use *, or test twice");
    else if (c === "{" && /^\{\d+(,\d*)?\}/.test(pattern.slice(i))) refuse("no `{n}`", "write it out");
  }
  if (groups > MAX_GROUPS) refuse(`more than ${MAX_GROUPS} groups`, "split the expression");
}

// ---- names

function checkReference(reference, tree, known, report) {
  const { node, variable, ancestors } = reference;
  if (RESERVED_NAMES.has(node.name)) {
    return report(node, `\`${node.name}\` is a word of the language here`, "use another name");
  }
  if (variable) return checkLoopClosure(reference, report) || checkBlockClosure(reference, report);
  if (node.name === "arguments") {
    const owner = ancestors.findLast(isFunction);
    if (owner?.type === "ArrowFunctionExpression") {
      report(node, "`arguments` is undefined in an arrow function", "use a function, or name the parameters");
    }
    return undefined;
  }
  if (!known.has(node.name)) {
    const hints = {
      Map: "use an object, and delete",
      Set: "use an object with true as values",
      Symbol: "use a string key",
      queueMicrotask: "use Promise.resolve().then",
      fetch: "use require(\"http\")",
      Buffer: "use a string of bytes, or Uint8Array",
      URL: "use url.parse",
      RangeError: "use Error",
    };
    report(node, `the board has no \`${node.name}\``, hints[node.name] ?? "define it, or do without");
  }
  return undefined;
}

/** `for (let …)` has one variable for all rounds, so a function that outlives its round sees the last value. */
function checkLoopClosure({ node, variable, ancestors }, report) {
  const loop = variable.scope.node;
  if (variable.scope.kind !== "for" || !/^(let|const)$/.test(variable.kind)) return false;
  if (loop.type === "ForStatement" && variable.writes === 0) return false;
  const inside = ancestors.slice(ancestors.indexOf(loop) + 1);
  const closure = inside.find((n, i) => isFunction(n) && !runsAtOnce(n, inside[i - 1] ?? loop));
  if (!closure) return false;
  report(
    node,
    `\`${node.name}\` is one variable for all rounds of the loop: a function made here sees its last value`,
    "copy it to a const in the loop's body",
  );
  return true;
}

const runsAtOnce = (fn, parent) => {
  if (parent.type === "CallExpression" && parent.callee === fn) return true;
  if (parent.type === "NewExpression") return parent.callee.name === "Promise";
  if (parent.type !== "CallExpression" || parent.callee.type !== "MemberExpression") return false;
  return IMMEDIATE_METHODS.has(parent.callee.property.name);
};

/** A block gets its scope at its first `let` or `const`: a function made before that does not see the scope. */
function checkBlockClosure({ node, variable, ancestors }, report) {
  const block = variable.scope.node;
  if (variable.scope.kind !== "block" || !/^(let|const)$/.test(variable.kind)) return false;
  const first = Math.min(
    ...[...variable.scope.names.values()].filter((v) => /^(let|const)$/.test(v.kind)).map((v) => v.pos),
  );
  const inside = ancestors.slice(ancestors.indexOf(block) + 1);
  if (!inside.some((n) => isFunction(n) && n.start < first)) return false;
  report(
    node,
    `a function made before the first let or const of its block does not see \`${node.name}\``,
    "declare the variable first",
  );
  return true;
}

// ---- order: nothing is hoisted

/**
 * Refuses what is used before the statement that defines it has run: in the same function, and in a function that is
 * called (by name, as it stands, or as a callback of an array method) while the definition is still to come.
 */
function checkOrder(tree, report) {
  const reported = new Set();
  const hoisted = (v) => v && /^(var|let|const|function|class)$/.test(v.kind);
  const complain = (node, what) => {
    if (reported.has(node)) return;
    reported.add(node);
    report(node, `\`${node.name}\` is used before it is defined${what}`, "define it first: nothing is hoisted");
  };

  /** Function → its references to outer variables, and its calls of functions that are known. */
  const outer = new Map();
  const called = new Map();
  const add = (map, key, value) => (map.get(key) ?? map.set(key, []).get(key)).push(value);
  for (const reference of tree.references) {
    const { node, parent, owner, variable } = reference;
    if (!hoisted(variable)) continue;
    if (parent.type === "UnaryExpression" && parent.operator === "typeof") continue;
    if (variable.owner !== owner) add(outer, owner, reference);
    else if (node.start < variable.pos) complain(node, "");
  }
  for (const call of tree.calls) {
    const targets = [call.node.callee, ...call.node.arguments.filter((a) => tree.immediate.has(a))];
    for (const target of targets) {
      const variable = target.type === "Identifier" ? resolve(call.scope, target.name) : undefined;
      const value = isFunction(target) ? target : variable?.writes === 0 ? variable.value : undefined;
      const fn = isClass(value) ? value.body.body.find((m) => m.kind === "constructor")?.value : value;
      if (isFunction(fn)) add(called, call.owner, { fn, pos: call.node.start, line: call.node.loc.start.line });
    }
  }

  /** Outer references of a function and of all it calls. */
  const needs = (fn, seen) => {
    if (seen.has(fn)) return [];
    seen.add(fn);
    const all = [...(outer.get(fn) ?? [])];
    for (const call of called.get(fn) ?? []) {
      for (const reference of needs(call.fn, seen)) if (reference.variable.owner !== fn) all.push(reference);
    }
    return all;
  };
  for (const [owner, calls] of called) {
    for (const call of calls) {
      for (const { node, variable } of needs(call.fn, new Set())) {
        // An expression that runs where it stands ends before anything after it: compare with where the call begins.
        if (variable.owner === owner && variable.pos > call.pos && !within(variable, call.fn)) {
          complain(node, ": the function is called earlier");
        }
      }
    }
  }
}

const within = (variable, fn) => variable.pos >= fn.start && variable.pos < fn.end && variable.owner === fn;
