/**
 * What the build does to sources before esbuild sees them, as an esbuild plugin and as a Vite plugin (so that tests run
 * what the board runs):
 *
 * - The module `tools:all` is made of every file of `tools/`: one function with one branch a tool, which holds the
 *   file's code as it is. A tool at rest costs no live function; it is made anew from flash at each load. For the board the
 *   branches are slices of the bundle (esbuild.slices.mjs), and so are the texts that every request carries.
 * - String literals become byte strings: a character beyond ASCII becomes its UTF-8 bytes as `\xNN`, because strings
 *   hold bytes on the board. A byte that was written as `\xNN` stays that byte.
 *
 * TypeScript itself is only used to find places in the text; its syntax is taken off by esbuild.
 */
import { originalPositionFor, TraceMap } from "@jridgewell/trace-mapping";
import * as esbuild from "esbuild";
import MagicString, { Bundle } from "magic-string";
import fs from "node:fs";
import path from "node:path";
import ts from "typescript";
import { checkTypeScript, formatProblem, syntaxError } from "./esbuild.check.mjs";
import { READER_NAMES, TOOL_READER } from "./esbuild.slices.mjs";

/** What both provider dialects accept as a tool's name. */
const TOOL_NAME = /^[a-zA-Z0-9_-]{1,63}$/;
/** Types a parameter may have. `double` is sent as `number`. */
const PARAMETER_TYPES = ["string", "number", "double", "integer", "boolean", "array", "object"];
/** Every request carries every description: more than this of one tool is paid for in each turn. Bytes. */
const MAX_DESCRIPTION = 400;

/** What is wrong with source files, each at its own line. */
class SourceError extends Error {
  /** @param {import("./esbuild.check.mjs").Problem[]} problems */
  constructor(problems) {
    super(problems.map(formatProblem).join("\n"));
    this.problems = problems;
  }
}

/** A path as it is printed: relative to the folder the build works in. */
const shownPath = (root, file) => path.relative(root, file).split(path.sep).join("/");

const utf8Escapes = (/** @type {string} */ text) =>
  Array.from(Buffer.from(text, "utf8"), (byte) => `\\x${byte.toString(16).toUpperCase().padStart(2, "0")}`).join("");

/** A JavaScript string literal of ASCII characters that holds the UTF-8 bytes of `text`. */
const byteLiteral = (/** @type {string} */ text) => JSON.stringify(text).replace(/[^\x20-\x7e]+/gu, utf8Escapes);

/**
 * Turns the characters beyond ASCII of all string literals into UTF-8 bytes, written raw or as `\u`.
 * @param {MagicString} magic of the text that `sourceFile` was made of
 * @param {ts.SourceFile} sourceFile
 * @param {ts.Node} [root] the part of it
 */
function encodeLiterals(magic, sourceFile, root = sourceFile) {
  const visit = (node) => {
    if (ts.isStringLiteralLike(node) || ts.isTemplateHead(node) || ts.isTemplateMiddleOrTemplateTail(node)) {
      const start = node.getStart(sourceFile);
      const raw = sourceFile.text.slice(start, node.end);
      // Runs of characters and escapes together, so that the two halves of a surrogate pair meet.
      for (const match of raw.matchAll(/(?:[^\x00-\x7f]|\\u\{[0-9a-f]+\}|\\u[0-9a-f]{4})+|\\[^]/giu)) {
        if (/^\\[^u]/.test(match[0])) continue;
        const text = match[0].replace(/\\u\{?([0-9a-f]+)\}?/gi, (_, hex) => String.fromCodePoint(parseInt(hex, 16)));
        const bytes = text.replace(/[^\x00-\x7f]+/g, utf8Escapes).replace(/[\x00-\x1f\\"'`$\x7f]/g, utf8Escapes0);
        magic.overwrite(start + match.index, start + match.index + match[0].length, bytes);
      }
      return;
    }
    ts.forEachChild(node, visit);
  };
  visit(root);
}

/** For what an escape stood for that must not stand bare; backslashes of escapes just made are left alone. */
const utf8Escapes0 = (character, index, text) =>
  character === "\\" && /^\\x[0-9A-F]{2}/.test(text.slice(index)) ? character : utf8Escapes(character);

const needsEncoding = (/** @type {string} */ text) => /[^\x00-\x7f]|\\u/.test(text);

/**
 * The text of a board source file with its literals as bytes.
 * @param {string} file
 * @param {string} text
 * @returns {{ code: string, map: import("magic-string").SourceMap | null }} `map` is null where nothing changed
 */
export function encodeSource(file, text) {
  if (!needsEncoding(text)) return { code: text, map: null };
  const magic = new MagicString(text, { filename: path.basename(file) });
  encodeLiterals(magic, ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true));
  if (!magic.hasChanged()) return { code: text, map: null };
  const map = magic.generateMap({ source: path.basename(file), includeContent: true, hires: true });
  return { code: magic.toString(), map };
}

// ---- tools

const isToolFile = (/** @type {string} */ name) => name.endsWith(".ts") && !/\.(d|test)\.ts$/.test(name);

const unwrap = (node) => {
  while (node && (ts.isSatisfiesExpression(node) || ts.isAsExpression(node) || ts.isParenthesizedExpression(node))) {
    node = node.expression;
  }
  return node;
};

/** Reads one tool file: the places in its text that the build changes. */
function parseTool(file, root) {
  const text = fs.readFileSync(file, "utf8");
  const sourceFile = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const shown = shownPath(root, file);
  const fail = (node, message, hint = "") => {
    const at = node ? sourceFile.getLineAndCharacterOfPosition(node.getStart()) : { line: 0, character: 0 };
    throw new SourceError([{ message, hint, file: shown, line: at.line + 1, column: at.character + 1 }]);
  };
  const unreadable = syntaxError(sourceFile, shown);
  if (unreadable) throw new SourceError([unreadable]);
  const imports = sourceFile.statements.filter(ts.isImportDeclaration);
  const exported = sourceFile.statements.find((s) => ts.isExportAssignment(s) && !s.isExportEquals);
  if (!exported) fail(undefined, "a tool file needs `export default { name, description, parameters, execute }`");
  let object = unwrap(exported.expression);
  if (ts.isIdentifier(object)) {
    const name = object.text;
    for (const statement of sourceFile.statements) {
      if (!ts.isVariableStatement(statement)) continue;
      const found = statement.declarationList.declarations.find((d) => d.name.text === name);
      if (found) object = unwrap(found.initializer);
    }
  }
  if (!object || !ts.isObjectLiteralExpression(object)) {
    fail(exported, "the default export must be an object literal, or a const that is one");
  }
  const property = (name) => object.properties.find((p) => p.name && (p.name.text ?? "") === name);
  // Run at build time only: there may stand whatever Node runs.
  const values = [property("description"), property("parameters")].filter((p) => p && ts.isPropertyAssignment(p));
  const problems = checkTypeScript(sourceFile, shown, values);
  if (problems.length) throw new SourceError(problems);
  return { file, text, sourceFile, imports, exported, object, property, fail };
}

/** A tool may import what itself reads all tools. While its values are read, there are none. */
const noTools = {
  name: "no tools",
  setup(build) {
    build.onResolve({ filter: /^tools:all$/ }, ({ path }) => ({ path, namespace: "no-tools" }));
    build.onLoad({ filter: /.*/, namespace: "no-tools" }, () => ({
      contents: 'export const toolNames = () => ""; export const loadTool = () => undefined;',
    }));
  },
};

/**
 * Runs every tool file in Node, in a module of its own, to get the values of its default export.
 * @returns {Promise<{ values: any[], inputs: string[] }>} `inputs`: every file that was read, absolute
 */
async function evaluateTools(files, root) {
  const result = await esbuild.build({
    absWorkingDir: root,
    entryPoints: files,
    bundle: true,
    write: false,
    outdir: "out",
    format: "esm",
    platform: "neutral",
    define: { require: "$require" },
    plugins: [noTools],
    banner: { js: "const $require = (name) => { throw new Error(`require(\"${name}\") works on the board only`); };" },
    metafile: true,
    sourcemap: "external",
    logLevel: "silent",
  });
  const values = [];
  for (let i = 0; i < files.length; i++) {
    const base = path.basename(files[i], ".ts");
    const output = (ext) => result.outputFiles.find((o) => path.basename(o.path) === `${base}${ext}`);
    try {
      const url = `data:text/javascript;base64,${Buffer.from(output(".js").contents).toString("base64")}`;
      values.push((await import(url)).default);
    } catch (error) {
      const map = new TraceMap(output(".js.map").text);
      // The innermost frame that is in a source.
      const origin = [...String(error?.stack).matchAll(/base64,[\w+/=]*:(\d+):(\d+)/g)]
        .map(([, line, column]) => originalPositionFor(map, { line: Number(line), column: Number(column) - 1 }))
        .find(({ source }) => source);
      const source = origin ? path.resolve(path.dirname(output(".js.map").path), origin.source) : files[i];
      const message = `the file cannot be run at build time: ${error?.message ?? error}`;
      const hint = "its own statements run once, for its values: move what needs the board into execute";
      const { line, column } = origin ?? { line: 1, column: 0 };
      throw new SourceError([{ message, hint, file: shownPath(root, source), line, column: column + 1 }]);
    }
  }
  return { values, inputs: Object.keys(result.metafile.inputs).filter((input) => !input.startsWith("no-tools:")).map((input) => path.resolve(root, input)) };
}

/**
 * Refuses code in the folder that is no tool and that no tool imports: without that it would be missing in silence.
 * @param {string[]} used files that are tools or were imported by one, absolute
 */
function refuseIgnored(toolsDir, root, tools, used) {
  const known = new Set(used);
  // An import of types only leaves no trace in the build.
  for (const tool of tools) {
    for (const { moduleSpecifier } of tool.imports) {
      const file = path.resolve(toolsDir, moduleSpecifier.text);
      known.add(file).add(`${file}.ts`).add(path.join(file, "index.ts"));
    }
  }
  const folder = path.basename(toolsDir);
  const problems = [];
  for (const name of fs.readdirSync(toolsDir, { recursive: true }).map(String).sort()) {
    const file = path.join(toolsDir, name);
    const isCode = /\.[cm]?[jt]sx?$/.test(name) && !/\.(d|test)\.[cm]?ts$/.test(name);
    const isHidden = /(^|[\\/])(node_modules|\.)/.test(name);
    if (!isCode || isHidden || known.has(file) || fs.statSync(file).isDirectory()) continue;
    const target = `${folder}/${path.basename(name).replace(/\.[^.]*$/, "")}.ts`;
    const hint = `make it ${target}, or import it in a tool`;
    const message = `this file would be ignored: tools are the files ${folder}/NAME.ts`;
    problems.push({ message, hint, file: shownPath(root, file), line: 1, column: 1 });
  }
  if (problems.length) throw new SourceError(problems);
}

/** Refuses what a model or the board could not work with. */
function validateTool(tool, value) {
  const { fail, property, object } = tool;
  const at = (name) => property(name) ?? object;
  if (!value || typeof value !== "object") fail(object, "the default export must be an object");
  if (typeof value.name !== "string" || !value.name) fail(at("name"), "the tool has no name");
  if (!TOOL_NAME.test(value.name)) {
    fail(at("name"), `the name "${value.name}" must be 1 to 63 letters, digits, _ or -`);
  }
  if (typeof value.description !== "string" || !value.description.trim()) {
    fail(at("description"), `${value.name} has no description: say when to use it, what goes in, what comes out`);
  }
  const bytes = Buffer.byteLength(value.description);
  if (bytes > MAX_DESCRIPTION) {
    fail(at("description"), `the description of ${value.name} has ${bytes} bytes: at most ${MAX_DESCRIPTION}`);
  }
  if (typeof value.execute !== "function") fail(at("execute"), `${value.name} has no function execute(args, context)`);
  const parameters = value.parameters;
  if (parameters?.type !== "object" || !parameters.properties || typeof parameters.properties !== "object") {
    fail(at("parameters"), `the parameters of ${value.name} must be { type: "object", properties: { … } }`);
  }
  for (const [name, schema] of Object.entries(parameters.properties)) {
    if (!PARAMETER_TYPES.includes(schema?.type)) {
      const type = JSON.stringify(schema?.type);
      const types = PARAMETER_TYPES.join(", ");
      fail(at("parameters"), `parameter ${name} of ${value.name} has the type ${type}: use one of ${types}`);
    }
  }
  for (const name of parameters.required ?? []) {
    if (!Object.hasOwn(parameters.properties, name)) {
      fail(at("parameters"), `${value.name} requires ${name}, which is none of its properties`);
    }
  }
}

/** The schema as it is sent: `double` is `number`, at every depth. */
export function wireSchema(/** @type {any} */ schema) {
  if (Array.isArray(schema)) return schema.map(wireSchema);
  if (!schema || typeof schema !== "object") return schema;
  const copy = {};
  for (const [key, value] of Object.entries(schema)) {
    copy[key] = key === "type" && value === "double" ? "number" : wireSchema(value);
  }
  // A parameter that is itself called "type" has a schema there, not a word.
  return copy;
}

/**
 * Makes the module `tools:all` of a folder. Throws an error with the message `file:line:column what — what instead` (a
 * line each) for what is wrong with the files.
 * @param {string} toolsDir
 * @param {string} [root] what paths in messages are relative to
 * @param {boolean} [isSliced] for `cutSlices`
 * @returns {Promise<{ code: string, map: import("magic-string").SourceMap, files: string[], texts: string[] }>} TypeScript
 *   text, and its map to the tools' files; `texts`: those of the slices
 */
export async function generateTools(toolsDir, root = process.cwd(), isSliced = false) {
  const files = fs
    .readdirSync(toolsDir)
    .filter(isToolFile)
    .sort()
    .map((name) => path.join(toolsDir, name));
  const problems = [];
  const tools = [];
  for (const file of files) {
    try {
      tools.push(parseTool(file, root));
    } catch (error) {
      if (!(error instanceof SourceError)) throw error;
      problems.push(...error.problems);
    }
  }
  if (problems.length) throw new SourceError(problems);
  const { values, inputs } = await evaluateTools(files, root);
  refuseIgnored(toolsDir, root, tools, [...files, ...inputs]);
  const seen = new Map();
  tools.forEach((tool, i) => {
    validateTool(tool, values[i]);
    const first = seen.get(values[i].name);
    if (first) {
      tool.fail(tool.property("name"), `two tools are called "${values[i].name}": ${path.basename(first)} has it too`);
    }
    seen.set(values[i].name, tool.file);
  });

  /** Hoisted imports: local name → what it is, so that a second file's other meaning gets another name. */
  const locals = new Map(["toolNames", "loadTool", "index"].map((name) => [name, "own"]));
  const heads = [];
  const texts = [];
  const bundle = new Bundle({ separator: "\n" });
  tools.forEach((tool, i) => {
    const magic = new MagicString(tool.text, { filename: path.basename(tool.file) });
    hoistImports(tool, i, magic, locals, heads);
    replaceValues(tool, values[i], magic, isSliced ? texts : undefined);
    if (needsEncoding(tool.text)) encodeRest(tool, magic);
    stripExports(tool, magic, isSliced);
    const isLast = i === tools.length - 1;
    if (isSliced) {
      magic.prepend(`${i === 0 ? TOOL_READER.head : ""}, function () {\n`);
      magic.append(isLast ? `\n}${TOOL_READER.tail}` : "\n}");
    } else {
      magic.prepend(`${i === 0 ? `export function loadTool(index: number): any {\n` : ""}if (index === ${i}) {\n`);
      magic.append(isLast ? "\n}\n}" : "\n}");
    }
    bundle.addSource({ filename: path.basename(tool.file), content: magic });
  });
  const names = values.map((v) => v.name).join(",");
  bundle.prepend(`${heads.join("\n")}\nexport function toolNames(): string {\nreturn ${JSON.stringify(names)};\n}\n`);
  if (!tools.length) bundle.append("export function loadTool(): any {}\n");
  const map = bundle.generateMap({ includeContent: true, hires: true });
  return { code: bundle.toString(), map, files, texts };
}

/** Takes the imports out of the file and into `heads`, once each; a clash renames the identifier in the file. */
function hoistImports(tool, number, magic, locals, heads) {
  const renames = new Map();
  // Never the name that another file has for the same thing: here that may be something else.
  const claim = (local, meaning) => {
    if (locals.get(local) === meaning) return { name: local, known: true };
    let name = local;
    for (let n = number; locals.has(name); n++) name = `${local}_${n}`;
    locals.set(name, meaning);
    return { name, known: false };
  };
  for (const declaration of tool.imports) {
    magic.remove(declaration.getFullStart(), declaration.end);
    const from = declaration.moduleSpecifier.text;
    const clause = declaration.importClause;
    if (!clause) {
      const head = `import ${JSON.stringify(from)};`;
      if (!heads.includes(head)) heads.push(head);
      continue;
    }
    if (clause.isTypeOnly) continue;
    const specifiers = [];
    if (clause.name) specifiers.push(["default", clause.name.text]);
    if (clause.namedBindings && ts.isNamespaceImport(clause.namedBindings)) {
      specifiers.push(["*", clause.namedBindings.name.text]);
    } else if (clause.namedBindings) {
      for (const e of clause.namedBindings.elements) {
        if (!e.isTypeOnly) specifiers.push([(e.propertyName ?? e.name).text, e.name.text]);
      }
    }
    for (const [imported, local] of specifiers) {
      const { name, known } = claim(local, `${imported} ${from}`);
      if (name !== local) renames.set(local, name);
      if (known) continue;
      const what = imported === "*" ? `* as ${name}` : `{ ${imported} as ${name} }`;
      heads.push(`import ${what} from ${JSON.stringify(from)};`);
    }
  }
  if (!renames.size) return;
  const visit = (node) => {
    if (ts.isImportDeclaration(node)) return;
    if (ts.isIdentifier(node) && renames.has(node.text)) {
      const { parent } = node;
      const isKey =
        (ts.isPropertyAccessExpression(parent) && parent.name === node) ||
        ((ts.isPropertyAssignment(parent) || ts.isMethodDeclaration(parent)) && parent.name === node);
      const name = renames.get(node.text);
      if (ts.isShorthandPropertyAssignment(parent)) magic.appendLeft(node.end, `: ${name}`);
      else if (!isKey) magic.overwrite(node.getStart(), node.end, name);
    }
    ts.forEachChild(node, visit);
  };
  visit(tool.sourceFile);
}

/** JSON text of ASCII characters. */
const asciiJson = (/** @type {any} */ value) =>
  JSON.stringify(value).replace(/[\x7f-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);

/**
 * Puts JSON text in the place of `description` and `parameters`.
 * @param {string[]} [slices] takes the texts, where `loadTool` reads them from the bundle's file
 */
function replaceValues(tool, value, magic, slices) {
  const values = { description: value.description, parameters: wireSchema(value.parameters) };
  for (const [name, one] of Object.entries(values)) {
    const property = tool.property(name);
    const text = byteLiteral(JSON.stringify(one));
    if (!property || !(ts.isPropertyAssignment(property) || ts.isShorthandPropertyAssignment(property)))
      tool.fail(property ?? tool.object, `write ${name} as a property of the object literal`);
    else if (slices) {
      slices.push(asciiJson(one));
      const comma = /^\s*,/.exec(tool.text.slice(property.end));
      magic.remove(property.getStart(), property.end + (comma ? comma[0].length : 0));
    } else if (ts.isPropertyAssignment(property)) {
      const { initializer } = property;
      magic.overwrite(initializer.getStart(), initializer.end, text);
    } else magic.appendLeft(property.end, `: ${text}`);
  }
}

/** Literals of the file outside the values that were replaced. */
function encodeRest(tool, magic) {
  const replaced = ["description", "parameters"].map((name) => tool.property(name));
  const visit = (node) => {
    if (ts.isImportDeclaration(node) || replaced.includes(node)) return;
    if (ts.isStringLiteralLike(node) || ts.isTemplateExpression(node)) encodeLiterals(magic, tool.sourceFile, node);
    else ts.forEachChild(node, visit);
  };
  visit(tool.sourceFile);
}

/** `export default X` becomes `return X`, or what a slice ends with, at the end; other `export` words go. */
function stripExports(tool, magic, isSliced) {
  const { exported, sourceFile } = tool;
  for (const statement of sourceFile.statements) {
    if (ts.isExportDeclaration(statement)) magic.remove(statement.getStart(), statement.end);
    const modifiers = ts.canHaveModifiers(statement) ? ts.getModifiers(statement) : undefined;
    const word = modifiers?.find((m) => m.kind === ts.SyntaxKind.ExportKeyword);
    if (word) magic.remove(word.getStart(), word.end);
  }
  magic.overwrite(exported.getStart(), exported.expression.getStart(), isSliced ? "return $value(" : "return ");
  if (isSliced) magic.appendLeft(exported.expression.end, `, ${READER_NAMES})`);
  // Statements after it would never run.
  if (sourceFile.statements.at(-1) !== exported) magic.move(exported.getStart(), exported.end, sourceFile.text.length);
}

// ---- plugins

const dataUrl = (map) => `\n//# sourceMappingURL=${map.toUrl()}`;
const isBoardSource = (file) =>
  /(^|[\\/])(firmware|tools)[\\/].*\.ts$/.test(file) && !/[\\/]test[\\/]|\.d\.ts$/.test(file);

/** The name of the generated module: a path that could stand in the folder, so that its imports are relative to it. */
const GENERATED = "(all tools)";

/**
 * The place in a tool's own file of a place in the generated module, which esbuild's messages name.
 * @template {{ file: string, line: number, column: number }} Place
 * @param {Place} place `line` counts from 1, `column` from 0
 * @param {string} toolsDir
 * @param {string} root what `file` is relative to
 * @param {boolean} [isSliced] as the generated module was
 * @returns {Promise<Place>} `place` itself where it is in another file, or leads to no tool
 */
export async function toolPlace(place, toolsDir, root, isSliced = false) {
  if (path.resolve(root, place.file) !== path.join(toolsDir, GENERATED)) return place;
  const { map } = await generateTools(toolsDir, root, isSliced);
  const { source, line, column } = originalPositionFor(new TraceMap(/** @type {any} */ (map)), place);
  return source ? { ...place, file: shownPath(root, path.join(toolsDir, source)), line, column } : place;
}

/**
 * For esbuild. An error of a source carries its `hint` as `detail`.
 * @param {{ toolsDir: string, slices?: { files: string[], texts: string[] } }} options `slices`: makes the tools
 *   slices, and takes what `cutSlices` must know of them
 * @returns {esbuild.Plugin}
 */
export function toolsPlugin({ toolsDir, slices }) {
  return {
    name: "tools",
    setup(build) {
      const root = build.initialOptions.absWorkingDir ?? process.cwd();
      const messages = (/** @type {import("./esbuild.check.mjs").Problem[]} */ problems) =>
        problems.map(({ message, hint, file, line, column }) => ({
          text: message,
          detail: { hint },
          location: { file, line, column: column - 1 },
        }));
      build.onResolve({ filter: /^tools:all$/ }, () => ({ path: path.join(toolsDir, GENERATED) }));
      build.onLoad({ filter: /\(all tools\)$/ }, async () => {
        try {
          const { code, map, files, texts } = await generateTools(toolsDir, root, !!slices);
          if (slices) Object.assign(slices, { files, texts });
          return { contents: code + dataUrl(map), loader: "ts", resolveDir: toolsDir, watchFiles: files };
        } catch (error) {
          if (error.errors) return { errors: error.errors };
          if (!(error instanceof SourceError)) throw error;
          return { errors: messages(error.problems) };
        }
      });
      build.onLoad({ filter: /\.[cm]?[jt]s$/ }, async ({ path: file }) => {
        if (file.includes("node_modules")) return undefined;
        const text = await fs.promises.readFile(file, "utf8");
        const sourceFile = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
        const problems = checkTypeScript(sourceFile, shownPath(root, file));
        if (problems.length) return { errors: messages(problems) };
        const { code, map } = encodeSource(file, text);
        return { contents: map ? code + dataUrl(map) : code, loader: file.endsWith("ts") ? "ts" : "js" };
      });
    },
  };
}

/**
 * For Vite and Vitest: board sources import `tools:all`, and their literals hold bytes, as on the board.
 * @param {{ toolsDir: string }} options
 * @returns {import("vite").Plugin}
 */
export function toolsVitePlugin({ toolsDir }) {
  const generated = path.join(toolsDir, "(all tools).ts");
  return {
    name: "tools",
    enforce: "pre",
    resolveId(id) {
      return id === "tools:all" ? generated : undefined;
    },
    async load(id) {
      if (id !== generated) return undefined;
      const { code, map, files } = await generateTools(toolsDir);
      for (const file of files) this.addWatchFile?.(file);
      return { code, map };
    },
    transform(code, id) {
      const file = id.split("?")[0];
      if (!isBoardSource(file) || file === generated) return undefined;
      const encoded = encodeSource(file, code);
      return encoded.map ? encoded : undefined;
    },
  };
}
