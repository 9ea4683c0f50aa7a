import { setting } from "./config";
import { createGraphs } from "./graph";
import { rangeOf } from "./numbers";
import { fromJson, toJson } from "./text";
import type { LoadedTool } from "./types";

/** Bytes of a description, as for every other tool: each request carries it. */
const MAX_DESCRIPTION = 400;
/** Problems told at the console; the check on the host tells all. */
const MAX_TOLD = 5;

/**
 * Told once a problem. `node` is a node's name, `"inputs"` or `"outputs"` with the name of the input or output as
 * `port`, or `""` with a field of the graph as `port`. `port` is a port or another field; `""` where it is about the
 * node itself.
 */
export type GraphReport = (node: string, port: string, problem: string) => void;

/** A graph that somebody wants to register. */
export interface TakenGraph {
  name: string;
  /** Its JSON text, or the name of its file in the Storage. */
  source: string;
  /** What `load` needs to know of the text that was checked, see `ToolNode`. */
  seal: string;
  /** What is wrong with it, `""` if nothing is. */
  problem: string;
}

/** What checks graphs before they are registered, on the board and on the host. It exists while it does. */
export interface GraphChecker {
  /**
   * Tells everything that is wrong with a graph, given as its JSON was parsed. Returns the first problems as one text,
   * "" where there are none. A text in place of a graph is returned: it says why there is none. Linear in the graph's
   * size. Never throws.
   */
  check(graph: any, report?: GraphReport): string;
  /** A problem as a line for a person. */
  tell(node: string, port: string, problem: string): string;
  /**
   * Checks what a person gave: a graph as an object or JSON text, or the name of a file in the Storage. One that
   * `picks` does not take is not checked: its name is "".
   */
  take(given: any, picks?: (tool: LoadedTool) => boolean): TakenGraph;
}

/**
 * `toolOf` gives a tool, or the JSON Schema of its parameters as text, `""` where that is not known; undefined where there is
 * no such tool.
 */
export function createGraphChecker(toolOf: (tool: string) => LoadedTool | string | undefined): GraphChecker {
  const g = createGraphs();
  const isObject = g.isObject;
  const agrees = g.agrees;
  const refsIn = g.refsIn;

  // Few calls within one another: the callers are deep in the stack already.
  function check(graph: any, report?: GraphReport): string {
    const TYPES = ["string", "number", "integer", "boolean", "array", "object"];
    const ONE = ": a port has one producer";
    const NAMING = "is no name: a letter, then letters, digits and _, at most 32; not constructor, inputs, outputs";
    let told = "";
    let count = 0;
    function wrong(node: string, port: string, problem: string): void {
      if (report) report(node, port, problem);
      if (count++ < MAX_TOLD) told += (told && "; ") + tell(node, port, problem);
    }

    // The names in an object, each once; a problem where it is none, or has one that is not `allowed` (if that is
    // given). The board's parser keeps both of two that are the same.
    function namesIn(object: any, node: string, port: string, allowed?: string): string[] {
      const names: string[] = [];
      const fields = allowed && allowed.split(", ");
      const inner = node === "inputs" || node === "outputs";
      if (!isObject(object)) wrong(node, port, "must be an object" + (allowed ? " with " + allowed : ""));
      if (!isObject(object)) return names;
      for (const name in object) {
        let words = "";
        if (names.indexOf(name) >= 0) words = "is there twice" + ONE;
        else names.push(name);
        if (!fields && port !== "in" && !g.isName(name)) words = NAMING;
        if (fields && fields.indexOf(name) < 0) words = "is unknown here; there are " + allowed;
        if (fields && name === "type" && TYPES.indexOf(object.type) < 0) words = "must be one of " + TYPES.join(", ");
        if (words && inner) wrong(node, port, name + " " + words);
        if (words && !inner) wrong(node || (port === "nodes" ? name : port), port === "nodes" ? "" : name, words);
      }
      if (inner && object.type === undefined) wrong(node, port, "type is missing");
      return names;
    }

    // The type that is declared; text where none is, "" where it is wrong.
    function declaredType(object: any): string {
      if (!isObject(object)) return "";
      return object.type === undefined ? "string" : TYPES.indexOf(object.type) < 0 ? "" : object.type;
    }

    if (!isObject(graph)) return graph;
    if (typeof graph.name !== "string" || !/^[a-zA-Z0-9_\-]+$/.test(graph.name) || graph.name.length > 63)
      wrong("", "name", "must be 1 to 63 letters, digits, _ and -");
    const size = typeof graph.description === "string" ? graph.description.trim().length : 0;
    if (!size || size > MAX_DESCRIPTION)
      wrong("", "description", "must say when to use the tool, in 1 to " + MAX_DESCRIPTION + " bytes, not " + size);
    const ms = graph.timeoutMs;
    if (ms !== undefined && !(g.typeOf(ms) === "integer" && ms >= 100 && ms <= 900000))
      wrong("", "timeoutMs", "must be a whole number from 100 to 900000");
    if (graph.repeatable !== undefined && typeof graph.repeatable !== "boolean")
      wrong("", "repeatable", "must be true or false");
    const inputs = graph.inputs === undefined ? [] : namesIn(graph.inputs, "", "inputs");
    // What each input and node gives, "" where that is not known; and whether something refers to it.
    const types: string[] = [];
    const used: boolean[] = [];
    for (const name of inputs) {
      const input = graph.inputs[name];
      const before = count;
      types.push(declaredType(input));
      for (const field of namesIn(input, "inputs", name, "type, description, enum, minimum, maximum, default")) {
        let type = field === "enum" ? "array" : field.startsWith("m") ? "number" : "string";
        if (field === "default") type = declaredType(input);
        if (type && !agrees(g.typeOf(input[field]), type)) wrong("inputs", name, field + " must be of type " + type);
      }
      // A value that nobody could give.
      const own = declaredType(input);
      for (const one of count > before ? [] : (input.enum || [input.minimum]).concat([input.default])) {
        const must = one === undefined ? "" : agrees(g.typeOf(one), own) ? rangeOf(input, one) : "of type " + own;
        if (must) wrong("inputs", name, toJson(one) + " must be " + must);
      }
    }

    namesIn(graph, "", "", "$schema, name, description, inputs, nodes, outputs, repeatable, timeoutMs");
    const most = setting("graphNodes");
    let nodeCount = 0;
    if (isObject(graph.nodes)) for (const _ in graph.nodes) if (++nodeCount > most) break;
    if (nodeCount > most) {
      wrong("", "nodes", "are more than " + most + " (graphNodes)");
      return told;
    }
    const nodes = namesIn(graph.nodes, "", "nodes");
    const names = inputs.concat(nodes);
    for (const name of nodes) {
      const spec = graph.nodes[name];
      types.push(isObject(spec) && spec.value !== undefined ? g.typeOf(spec.value) : declaredType(spec));
      if (inputs.indexOf(name) >= 0) wrong(name, "", "is an input, too: {" + name + "} would have two producers");
    }

    // The type of what a port gets, "" where that is not known.
    function typeIn(port: any): string {
      const ref = refsIn(port, true)[0];
      return ref ? types[names.indexOf(ref)] || "" : g.typeOf(port);
    }

    // The fields that a kind of node has, first the one that it is known by; "" for what is no node.
    function fieldsOf(spec: any): string {
      if (!isObject(spec)) return "";
      if (spec.tool !== undefined) return "tool, in, after, type";
      if (spec.value !== undefined) return "value";
      if (spec.text !== undefined) return "text";
      if (spec.pick !== undefined) return "pick, path, behind, type";
      return spec.if === undefined ? "" : "if, equals, below, above, contains, then, else, type";
    }

    // Name, value and wanted type of every port of a node.
    let ports: { name: string; value: any; wanted: string }[] = [];
    function connect(name: string, value: any, wanted: string): void {
      ports.push({ name: name, value: value, wanted: wanted });
    }

    // The nodes, and the outputs as one more.
    const outputs = namesIn(graph.outputs, "", "outputs");
    if (isObject(graph.nodes) && !nodes.length) wrong("", "nodes", "are none");
    if (isObject(graph.outputs) && !outputs.length) wrong("", "outputs", "are none");
    for (const node of nodes.concat(["outputs"])) {
      const spec = node === "outputs" ? graph.outputs : graph.nodes[node];
      const fields = node === "outputs" ? "" : fieldsOf(spec);
      const kind = fields.split(",")[0];
      ports = [];
      if (kind) namesIn(spec, node, "", fields);
      if (!kind && node !== "outputs") wrong(node, "", "must be an object with one of tool, value, text, pick, if");
      for (const field of kind ? ["tool", "text", "path", "behind", "contains", "after"] : []) {
        const value = spec[field];
        if (value !== undefined && (typeof value !== "string" || !value)) wrong(node, field, "must be text");
      }
      for (const name of node === "outputs" ? outputs : []) {
        namesIn(spec[name], node, name, "type, from, description");
        connect(name, isObject(spec[name]) ? spec[name].from : "", declaredType(spec[name]));
      }
      if (kind === "text" || kind === "pick") connect(kind, spec[kind], "");
      if (kind === "pick" && spec.path && /^integer$|^number$|^boolean$/.test(typeIn(spec.pick)))
        wrong(node, "pick", "wants text, a list or an object, not " + typeIn(spec.pick));
      if (kind === "tool") {
        const tool = toolOf(spec.tool);
        const schema = tool && typeof tool === "object" ? tool.parameters : tool;
        if (schema === undefined) wrong(node, "tool", "there is no tool called " + spec.tool);
        if (spec.tool === graph.name) wrong(node, "tool", "is this graph itself");
        const parameters: any = schema ? fromJson(schema) : {};
        const properties = parameters.properties || {};
        const given = spec.in === undefined ? [] : namesIn(spec.in, node, "in");
        for (const name of parameters.required || [])
          if (given.indexOf(name) < 0) wrong(node, name, "is not connected, " + spec.tool + " needs it");
        for (const name of given) {
          const rule = {}.hasOwnProperty.call(properties, name) ? properties[name] : {};
          const others = Object.keys(properties).join(", ") || "none";
          if (schema && !rule.type) wrong(node, name, "is no input of " + spec.tool + "; there are " + others);
          connect(name, spec.in[name], rule.type || "");
          const must = refsIn(spec.in[name]).length ? "" : rangeOf(rule, spec.in[name]);
          if (must) wrong(node, name, "must be " + must);
        }
        if (spec.after !== undefined) connect("after", spec.after, "");
        if (spec.after !== undefined && !refsIn(spec.after).length)
          wrong(node, "after", 'must refer to a node: "{name}"');
      }
      if (kind === "if") {
        let comparison = "";
        for (const one of ["equals", "below", "above", "contains"])
          if (spec[one] !== undefined) {
            if (comparison) wrong(node, one, "does not go together with " + comparison);
            comparison = one;
          }
        let wanted = comparison ? "number" : "boolean";
        if (comparison === "contains") wanted = "string";
        if (comparison === "equals") wanted = "";
        connect("if", spec.if, wanted);
        if (comparison) connect(comparison, spec[comparison], wanted);
        const left = typeIn(spec.if);
        const right = typeIn(spec[comparison]);
        if (comparison === "equals" && left && right && !agrees(left, right) && !agrees(right, left))
          wrong(node, comparison, "compares " + left + " with " + right);
        connect("then", spec.then, declaredType(spec));
        connect("else", spec.else, declaredType(spec));
      }

      for (const port of ports) {
        const type = typeIn(port.value);
        const ref = refsIn(port.value, true)[0];
        if (port.value === undefined) wrong(node, port.name, "is not connected");
        for (const name of refsIn(port.value))
          if (names.indexOf(name) < 0) wrong(node, port.name, "there is no input and no node " + name);
          else used[names.indexOf(name)] = true;
        if (typeof port.value === "object" && refsIn(toJson(port.value)).length)
          wrong(node, port.name, "nothing is filled in within lists and objects");
        if (port.value === undefined || !type || !port.wanted || agrees(type, port.wanted)) continue;
        const from = (nodes.indexOf(ref) >= 0 && graph.nodes[ref]) || {};
        let words = "wants " + port.wanted + (ref ? ', "' + ref + '" gives ' : ", not ") + type;
        if (ref && port.wanted === "string") words += ' (make text of it: {"text": "{' + ref + '}"})';
        if (from.tool || from.pick) words += ' (give that node "type": "' + port.wanted + '")';
        if (!ref && type === "array") words += ONE;
        wrong(node, port.name, words);
      }
    }
    for (const name of inputs)
      if (!used[names.indexOf(name)]) wrong("inputs", name, "is used by no node and no output");

    // Depth first from the outputs, then from each node that is left. 1: on the path, 2: walked.
    const stack: number[] = [];
    const marks: number[] = [];
    const path: number[] = [];
    for (const port of ports)
      for (const ref of refsIn(port.value)) if (nodes.indexOf(ref) >= 0) stack.push(nodes.indexOf(ref));
    function pathTo(node: number): string {
      let names = "";
      for (let i = path.indexOf(node); i < path.length; i++) names += nodes[path[i]] + " -> ";
      return names;
    }
    function portOf(spec: any, ref: string): string {
      for (const name in spec) if (refsIn(spec[name]).indexOf(ref) >= 0) return name;
      if (isObject(spec.in)) for (const name in spec.in) if (refsIn(spec.in[name]).indexOf(ref) >= 0) return name;
      return "";
    }
    let from = 0;
    while (stack.length || from < nodes.length) {
      if (!stack.length) {
        if (!marks[from]) {
          wrong(nodes[from], "", "no output needs it: it would never run");
          stack.push(from);
        }
        from++;
        continue;
      }
      const at = stack[stack.length - 1];
      if (marks[at]) {
        if (marks[at] === 1) path.pop();
        marks[at] = 2;
        stack.pop();
        continue;
      }
      marks[at] = 1;
      path.push(at);
      const spec = graph.nodes[nodes[at]];
      const refs = isObject(spec) ? g.refsOf(spec) : [];
      for (const ref of refs) {
        const next = nodes.indexOf(ref);
        if (next >= 0 && !marks[next]) stack.push(next);
        if (marks[next] === 1) wrong(nodes[at], portOf(spec, ref), "closes a cycle: " + pathTo(next) + ref);
      }
    }
    return count > MAX_TOLD ? told + "; and " + (count - MAX_TOLD) + " more" : told;
  }

  function tell(node: string, port: string, problem: string): string {
    if (node === "inputs" || node === "outputs") return node.substr(0, node.length - 1) + ' "' + port + '": ' + problem;
    if (node) return 'node "' + node + '"' + (port && ', port "' + port + '"') + ": " + problem;
    return port + (port && ": ") + problem;
  }

  // Where in the text the value of a name stands, or one that is the same; 0 if it does not.
  function placeOf(text: string, name: string, value: any): number {
    const wanted = toJson(value);
    const parts = text.split('"' + name + '"');
    let at = 0;
    for (let i = 1; i < parts.length; i++) {
      at += parts[i - 1].length + name.length + 2;
      if (parts[i].trim().charAt(0) !== ":") continue;
      const start = text.indexOf(":", at) + 1;
      try {
        if (toJson(fromJson(text.substr(start))) === wanted) return start;
      } catch (e) {
        // It was a part of a text.
      }
    }
    return 0;
  }

  // "" where description or inputs are not to be found.
  function sealOf(graph: any, text: string): string {
    const description = placeOf(text, "description", graph.description);
    const inputs = graph.inputs ? placeOf(text, "inputs", graph.inputs) : 0;
    if (!description || (graph.inputs && !inputs)) return "";
    // Where the graph does not say, it has the time that its tools have, those that say so.
    let ms = graph.timeoutMs || 0;
    for (const name in ms ? {} : graph.nodes) {
      const tool: any = toolOf(graph.nodes[name].tool);
      ms += (tool && tool.timeoutMs) || 0;
    }
    return [E.CRC32(text), description, inputs, !!graph.repeatable, ms].join(" ");
  }

  return {
    check: check,
    tell: tell,
    take: function (given, picks) {
      // Its JSON must fit into memory beside it, and once more as it is parsed.
      const size = isObject(given) ? E.getSizeOf(given) : 0;
      const fits = size <= setting("graphBytes") >> 1 && size * 4 < process.memory().free;
      if (size) given = fits ? toJson(given) : undefined;
      const source = typeof given === "string" ? given.trim() : "";
      const text = g.textOf(source);
      const graph = g.parse(source, text);
      const taken: TakenGraph = { name: graph.name, source: source, seal: "", problem: "" };
      if (!source)
        taken.problem =
          'add_graph("workflow_set/name") registers a graph from a file of the Storage, add_graph({name: ...}) ' +
          "one of at most " + setting("graphBytes") + " bytes";
      else if (picks && isObject(graph) && !picks({ name: graph.name } as LoadedTool)) taken.name = "";
      else taken.problem = check(graph);
      if (!taken.problem && taken.name) taken.seal = sealOf(graph, text!);
      if (!taken.problem && taken.name && !taken.seal)
        taken.problem = 'write "description" and "inputs" without escapes';
      return taken;
    },
  };
}
