/** `espruino-agent graph check`: the board's own check of graph files (`firmware/graph-check.ts`), before an upload. */
import { closeSync, openSync, readSync } from "node:fs";
import { Validator, type Schema } from "@cfworker/json-schema";
import { parseExpressionAt, type Expression, type Literal, type Node, type Property } from "acorn";
import * as esbuild from "esbuild";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { formatProblem } from "../esbuild.check.mjs";
import { toolsPlugin } from "../esbuild.tools.mjs";
import { setting } from "../firmware/config";
import { createGraphs } from "../firmware/graph";
import { createGraphChecker } from "../firmware/graph-check";
import graphSchema from "../firmware/graph.schema.json" with { type: "json" };
import { fromJson } from "../firmware/text";
import type { LoadedTool } from "../firmware/types";
import type { Command } from "./command";
import { UsageError } from "./settings";
import { fromBytes, toBytes } from "./text";

/** One thing that is wrong with a graph file. `node` and `port` as in `GraphReport`; line and column count from 1. */
export interface GraphProblem {
  node: string;
  port: string;
  problem: string;
  line: number;
  column: number;
}

/** What the check of one file came to. `name` is the graph's tool name, "" where it has none. */
export interface CheckedGraph {
  file: string;
  name: string;
  problems: GraphProblem[];
}

export const graphCommand: Command = {
  name: "graph",
  usage: "check FILE... [options]",
  summary: "Checks tools made of graphs, as the board does when it registers them",
  examples: [
    "espruino-agent graph check night_light.json",
    "espruino-agent graph check workflow_set/*.json --tools run_js,web_search --json",
  ],
  options: [
    ["--tools <names>", "Further tools of the board, comma separated; what they take is not checked"],
    ["--json", "Print what was found as JSON"],
  ],
  notes: "Exit codes: 0 all files are good, 1 something is wrong with one, 2 bad usage or a file that cannot be read.",
  async run(positional, options, { stdout, stderr }) {
    const [action, ...files] = positional;
    if (action !== "check") throw new UsageError("graph has one action: graph check FILE");
    if (files.length === 0) throw new UsageError("graph check needs a file: graph check night_light.json");
    const texts = files.map((file) => [file, readGraph(file)] as const);
    const tools = new Map(namesOf(options.tools).map((name) => [name, ""]));
    const collected = await collectTools();
    for (const problem of collected.problems) stderr.write(`${problem}\n`);
    if (collected.problems.length > 0) return 1;
    for (const [name, parameters] of collected.tools) tools.set(name, parameters);

    const checked = checkGraphs(texts, tools);
    const hasFailed = checked.some(({ problems }) => problems.length > 0);
    if (options.json === true) stdout.write(`${JSON.stringify(checked, null, 2)}\n`);
    else for (const graph of checked) stdout.write(describe(graph));
    return hasFailed ? 1 : 0;
  },
};

function describe({ file, name, problems }: CheckedGraph): string {
  if (problems.length === 0) return `${file}: ${name} is good\n`;
  const { tell } = createGraphChecker(() => undefined);
  return problems
    .map(({ node, port, problem, line, column }) => `${file}:${line}:${column} ${tell(node, port, problem)}\n`)
    .join("");
}

function namesOf(list: string | boolean | undefined): string[] {
  if (list === undefined) return [];
  const names = String(list)
    .split(",")
    .map((name) => name.trim());
  const wrong = names.find((name) => !/^[a-zA-Z0-9_-]{1,63}$/.test(name));
  if (wrong !== undefined) throw new UsageError(`--tools: ${JSON.stringify(wrong)} is no tool's name: --tools a,b`);
  return names;
}

/** No more of a file than tells that it is too large. */
function readGraph(file: string): Buffer {
  const bytes = Buffer.alloc(setting("graphBytes") + 1);
  try {
    const descriptor = openSync(file, "r");
    try {
      let length = 0;
      for (let got = -1; got !== 0; length += got) {
        got = readSync(descriptor, bytes, length, bytes.length - length, null);
      }
      return bytes.subarray(0, length);
    } finally {
      closeSync(descriptor);
    }
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${(error as Error).message}`);
  }
}

/** The parameters of the tools that the build collects, as JSON text of bytes; or what is wrong with their files. */
async function collectTools(): Promise<{ tools: Map<string, string>; problems: string[] }> {
  const root = fileURLToPath(new URL("../", import.meta.url));
  let code: string;
  try {
    const result = await esbuild.build({
      absWorkingDir: root,
      stdin: { contents: 'export * from "tools:all";', resolveDir: root },
      bundle: true,
      write: false,
      format: "cjs",
      platform: "neutral",
      logLevel: "silent",
      // The board's modules: no tool is run here.
      define: { require: "boardRequire" },
      plugins: [toolsPlugin({ toolsDir: path.join(root, "tools") })],
    });
    code = result.outputFiles[0]!.text;
  } catch (error) {
    const { errors } = error as esbuild.BuildFailure;
    if (errors === undefined) throw error;
    return {
      tools: new Map(),
      problems: errors.map(({ text, location, detail }) => {
        const { file = "tools", line = 1, column = 0 } = location ?? {};
        return formatProblem({ message: text, hint: detail?.hint ?? "", file, line, column: column + 1 });
      }),
    };
  }
  const module = { exports: {} as { toolNames(): string; loadTool(index: number): LoadedTool } };
  new Function("module", code)(module);
  const { toolNames, loadTool } = module.exports;
  return {
    tools: new Map(
      toolNames()
        .split(",")
        .map((name, i) => [name, loadTool(i).parameters]),
    ),
    problems: [],
  };
}

/**
 * Checks graph files together: as on the board, one may be a tool of another, and names must be free.
 * @param tools parameters by name, as JSON text of bytes; "" where they are not known
 */
export function checkGraphs(
  files: (readonly [file: string, bytes: Buffer])[],
  tools: Map<string, string>,
): CheckedGraph[] {
  const known = new Map(tools);
  const checked = new Map<string, CheckedGraph>();
  // Again, while that makes known what another one needs.
  for (let left = files, before = 0; left.length !== before;) {
    before = left.length;
    left = left.filter(([file, bytes]) => {
      const graph = checkGraph(file, bytes, known);
      checked.set(file, graph);
      if (graph.problems.length > 0) return true;
      known.set(graph.name, createGraphs().parametersOf(fromJson(bytes.toString("latin1")).inputs));
      return false;
    });
  }
  return [...checked.values()];
}

function checkGraph(file: string, bytes: Buffer, tools: Map<string, string>): CheckedGraph {
  const result: CheckedGraph = { file, name: "", problems: [] };
  const add = (node: string, port: string, problem: string, position: Position = { line: 1, column: 1 }): void => {
    result.problems.push({ node, port, problem, ...position });
  };
  const most: number = setting("graphBytes");
  if (bytes.length > most) {
    add("", "", `the file has more than ${most} bytes (graphBytes)`);
    return result;
  }
  const text = bytes.toString("utf8");
  if (!Buffer.from(text).equals(bytes)) {
    add("", "", "the file is not UTF-8: save it as UTF-8");
    return result;
  }
  if (text.startsWith("\ufeff")) {
    add("", "", "the file starts with a byte order mark: save it without");
    return result;
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const { message } = error as Error;
    const at = /position (\d+)/.exec(message)?.[1];
    add("", "", `the file is no JSON: ${message}`, positionAt(text, at === undefined ? text.length : Number(at)));
    return result;
  }
  let tree: Expression;
  try {
    tree = parseExpressionAt(text, 0, { ecmaVersion: "latest", locations: true });
  } catch {
    // It is JSON: there was no room on the stack.
    add("", "", "its lists and objects are nested too deeply");
    return result;
  }
  const report = (node: string, port: string, problem: string): void =>
    add(fromBytes(node), fromBytes(port), fromBytes(problem), placeOf(tree, fromBytes(node), fromBytes(port)));

  for (const twice of findTwins(tree)) add(...twice);
  const graph = fromJson(toBytes(text));
  if (typeof graph !== "object" || graph === null || Array.isArray(graph)) {
    add("", "", "a graph is a JSON object");
    return result;
  }
  createGraphChecker((name) => tools.get(name)).check(graph, report);
  if (typeof graph.name === "string") result.name = fromBytes(graph.name);
  if (tools.has(result.name)) report("", "name", `a tool called ${result.name} is there already: choose another name`);
  result.problems.sort((a, b) => a.line - b.line || a.column - b.column);
  // The schema says in the editor what the check says here: only where they differ there is more to tell.
  if (result.problems.length === 0) {
    const { errors } = new Validator(graphSchema as Schema, "2020-12", false).validate(value);
    const depth = Math.max(0, ...errors.map((error) => error.instanceLocation.split("/").length));
    for (const { instanceLocation, error } of errors) {
      const steps = instanceLocation.split("/").slice(1);
      const words = `not as the schema has it: ${error}`;
      if (steps.length + 1 === depth) add("", steps.join("/"), words, find(tree, steps).position);
    }
  }
  return result;
}

// ---- places in the file

interface Position {
  line: number;
  column: number;
}

function positionAt(text: string, offset: number): Position {
  const lines = text.slice(0, offset).split("\n");
  return { line: lines.length, column: lines.at(-1)!.length + 1 };
}

const positionOf = (node: Node): Position => ({ line: node.loc!.start.line, column: node.loc!.start.column + 1 });

const propertiesOf = (value: Expression): [name: string, property: Property][] =>
  value.type !== "ObjectExpression"
    ? []
    : (value.properties as Property[]).map((property) => [String((property.key as Literal).value), property]);

/** The place of what a path of names leads to, as far as there is such a thing; `steps` is how far that is. */
function find(tree: Expression, names: string[]): { steps: number; position: Position } {
  let value = tree;
  let position = positionOf(tree);
  let steps = 0;
  for (const name of names) {
    // Of two, parsers take the last.
    const property = propertiesOf(value).findLast(([other]) => other === name)?.[1];
    if (property === undefined) break;
    position = positionOf(property);
    value = property.value;
    steps += 1;
  }
  return { steps, position };
}

function placeOf(tree: Expression, node: string, port: string): Position {
  if (node === "") return find(tree, [port]).position;
  if (node === "inputs" || node === "outputs") return find(tree, [node, port]).position;
  const inner = find(tree, ["nodes", node, "in", port]);
  return inner.steps === 4 ? inner.position : find(tree, ["nodes", node, port]).position;
}

/** Names that stand twice in one object: Node's parser drops one of them, the board's keeps both. */
function findTwins(tree: Expression): [node: string, port: string, problem: string, position: Position][] {
  const found: [string, string, string, Position][] = [];
  const visit = (value: Expression | null, place: string[]): void => {
    if (value?.type === "ArrayExpression") for (const item of value.elements) visit(item as Expression, place);
    if (value?.type !== "ObjectExpression") return;
    const seen = new Set<string>();
    for (const [name, property] of propertiesOf(value)) {
      if (seen.has(name)) {
        const [room = "", node = "", field = ""] = place;
        const words = "is there twice: a port has one producer";
        const position = positionOf(property);
        if (room === "") found.push(["", name, words, position]);
        else if (room === "nodes" && node === "") found.push([name, "", words, position]);
        else if (room === "nodes") found.push([node, field === "" || field === "in" ? name : field, words, position]);
        else if (node === "") found.push([room, name, words, position]);
        else found.push([room, node, `${name} ${words}`, position]);
      }
      seen.add(name);
      visit(property.value, [...place, name]);
    }
  };
  visit(tree, []);
  return found;
}
