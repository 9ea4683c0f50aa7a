import { setting } from "./config";
import { formatNumber } from "./numbers";
import { fromJson, limitText, readWhole, toJson, wireText } from "./text";
import type { LoadedTool, ToolContext, ToolNode, ToolOutput } from "./types";

/**
 * Tools made of graphs: nodes with named ports (tools, constants, texts, picks, conditionals) become one tool. The file
 * format is plain JSON, described in graph.schema.json; graph-check.ts checks it.
 *
 * In a port, a text that is nothing but `{name}` is the value of that input or node, any other text is a template. So
 * every port has one producer, and nothing says in which order nodes run: a node runs once, when an output needs it,
 * after what it needs itself. What only the other branch of a conditional needs is never run.
 *
 * At rest a graph is the registry's node with the name of its file, or with its JSON text where it was given at the
 * console.
 */

/** How many graphs may run at once, one as a tool of another: two files can be changed to be tools of each other. */
const MAX_RUNNING = 3;
/** Variables that the check and a run take beside their graph. */
const RUN_VARIABLES = 800;
/** Variables that a call of a tool takes, with its processors and a result of 800 bytes. */
const CALL_VARIABLES = 1000;
/** Bytes of its arguments for which a call takes a variable more: they are copied five times. */
const ARGUMENT_BYTES = 2;

let running = 0;
/** When all of those have to be over, in seconds: what the board broke off still counts. */
let runningUntil = 0;

/** What reads graphs and makes tools of them. It exists while it does. */
export interface Graphs {
  isObject(value: any): boolean;
  /** As JSON Schema calls it; `integer` for whole numbers, `null`. */
  typeOf(value: any): string;
  /** Whether a value of one type may go where the other is wanted. */
  agrees(type: string, wanted: string): boolean;
  isName(text: string): boolean;
  /** What a port refers to, each once. With `whole`, only where it is one reference and nothing else. */
  refsIn(port: any, whole?: boolean): string[];
  /** What a node refers to. Of a conditional that is to be decided, what it needs for that. */
  refsOf(spec: any, deciding?: boolean): string[];
  /** The text of a source: itself, or that of the file it names. */
  textOf(source: string): string | undefined;
  /** The graph in the text of a source: an object, or in words why there is none. */
  parse(source: string, text: string | undefined): any;
  /** JSON Schema of the parameters of a tool that has a graph's `inputs`, as JSON text. */
  parametersOf(inputs: any): string;
  /**
   * The tool of a node of the registry. It takes no more memory than its description and inputs do, because requests
   * are written with it; the whole graph is read when it is called. Where its file is not as it was checked, the tool
   * is there and says so.
   */
  load(node: ToolNode): LoadedTool;
}

export function createGraphs(): Graphs {
  function isObject(value: any): boolean {
    return !!value && typeof value === "object" && !(value instanceof Array);
  }

  function typeOf(value: any): string {
    if (value instanceof Array) return "array";
    if (typeof value === "number" && value === Math.floor(value)) return "integer";
    return value === null ? "null" : typeof value;
  }

  function agrees(type: string, wanted: string): boolean {
    return type === wanted || (type === "integer" && wanted === "number");
  }

  // JSON parsers drop "__proto__" and "constructor"; the other two are places of problems.
  function isName(text: string): boolean {
    const isOther = text === "constructor" || text === "inputs" || text === "outputs";
    return !isOther && text.length <= 32 && /^[a-zA-Z][a-zA-Z0-9_]*$/.test(text);
  }

  function refsIn(port: any, whole?: boolean): string[] {
    const refs: string[] = [];
    if (typeof port !== "string") return refs;
    const parts = port.split("{");
    for (let i = 1; i < parts.length; i++) {
      const end = parts[i].indexOf("}");
      const name = end > 0 ? parts[i].substr(0, end) : "";
      if (isName(name) && refs.indexOf(name) < 0) refs.push(name);
    }
    return whole && port !== "{" + refs[0] + "}" ? [] : refs;
  }

  function refsOf(spec: any, deciding?: boolean): string[] {
    let refs: string[] = [];
    let ports = ["text", "pick", "after", "if", "equals", "below", "above", "contains", "then", "else"];
    if (deciding) ports = ports.slice(0, 8);
    for (const port of ports) {
      const more = refsIn(spec[port]);
      refs = refs.concat(more);
    }
    if (isObject(spec.in))
      for (const port in spec.in) {
        const more = refsIn(spec.in[port]);
        refs = refs.concat(more);
      }
    return refs;
  }

  function textOf(source: string): string | undefined {
    return source.charAt(0) === "{" ? source : require("Storage").read(source);
  }

  function parse(source: string, text: string | undefined): any {
    const most = setting("graphBytes");
    if (source.startsWith("tool.")) return source + " is a saved tool, no graph";
    if (text === undefined) return "there is no file " + source + " in the Storage";
    if (text.length > most) return "the graph has " + text.length + " bytes, at most " + most + " (graphBytes)";
    // Out of memory cannot be caught: the text is copied, and parsed takes a variable for every four bytes.
    const free = process.memory().free;
    const needed = RUN_VARIABLES + Math.ceil(text.length / 3);
    if (free < needed) return "not enough memory for the graph: " + free + " variables are free, " + needed + " needed";
    const graph = readWhole(text);
    return isObject(graph) ? graph : "that is not one whole JSON object: look at its quotes, commas and brackets";
  }

  // Runs a graph that was checked, one node at a time. Each part of it is freed as soon as it is done, so nothing may
  // hold the whole of it.
  function run(graph: any, limit: number, args: any, call: ToolContext["call"], done: (output: ToolOutput) => void): void {
    const end = getTime() + limit / 1000;
    /** Names of the nodes; what is to be run still; and what came of the rest, as long as somebody needs it. */
    const names: string[] = [];
    const specs: any[] = [];
    const values: any[] = [];
    /** How many references to each node are still to be read. */
    const uses: number[] = [];
    /** Nodes to run, the next one last. */
    let stack: number[] = [];
    const outputs = graph.outputs;

    // The nodes among what is referred to that are still to be run, the last one first.
    function waiting(refs: string[]): number[] {
      const list: number[] = [];
      for (let i = refs.length - 1; i >= 0; i--) {
        const at = names.indexOf(refs[i]);
        if (at >= 0 && specs[at]) list.push(at);
      }
      return list;
    }

    // References were read, or never will be: what nobody needs any more is freed or, with what it needs, never run.
    function release(refs: string[]): void {
      while (refs.length) {
        const at = names.indexOf(refs.pop()!);
        if (at < 0 || --uses[at] > 0) continue;
        if (specs[at]) refs = refs.concat(refsOf(specs[at]));
        specs[at] = values[at] = undefined;
      }
    }

    // What a port gets; with `isText`, as text. The references in it are read.
    function read(port: any, isText?: boolean): any {
      // What is in a value, as text.
      function toText(value: any): string {
        if (typeof value === "number") return formatNumber(value) || String(value);
        return typeof value === "object" ? toJson(value) : String(value);
      }
      function valueOf(name: string): any {
        const at = names.indexOf(name);
        return at < 0 ? args[name] : values[at];
      }
      const refs = refsIn(port);
      const most = 4 * setting("toolResultBytes");
      let value = port;
      if (refs.length && refsIn(port, true).length) value = valueOf(refs[0]);
      else if (refs.length) {
        const parts = port.split("{");
        value = parts[0];
        for (let i = 1; i < parts.length; i++) {
          const name = parts[i].substr(0, Math.max(parts[i].indexOf("}"), 0));
          value += isName(name) ? toText(valueOf(name)) + parts[i].substr(name.length + 1) : "{" + parts[i];
          if (value.length > most)
            throw new Error("a text has more than " + most + " bytes, four times toolResultBytes");
        }
      }
      release(refs);
      return isText ? toText(value) : value;
    }

    // What a node's tool gave, or what is picked from: behind a text, then along a path, as the type that the node
    // gives. Throws where that is not there.
    function convert(value: any, spec: any): any {
      const type = spec.type || "string";
      const shown = limitText(typeof value === "string" ? value : toJson(value), 80);
      if (spec.behind) {
        const parts = (typeof value === "string" ? value : toJson(value)).split(spec.behind);
        if (parts.length < 2) throw new Error('"' + spec.behind + '" is not in ' + shown);
        parts.shift();
        value = parts.join(spec.behind);
        if (!spec.path) value = value.split("\n")[0].trim();
        if (!spec.path && agrees(type, "number") && !isNaN(parseFloat(value))) value = parseFloat(value);
      }
      if (spec.path) {
        if (typeof value === "string") value = readWhole(value);
        for (const key of spec.path.split("[").join(".").split("]").join("").split("."))
          if (value instanceof Array) value = value[parseInt(key, 10)];
          else if (key) value = isObject(value) && {}.hasOwnProperty.call(value, key) ? value[key] : undefined;
        if (value === undefined || value === null) throw new Error("there is nothing at " + spec.path + " of " + shown);
      }
      if (type === "string") return typeof value === "string" ? value : toJson(value);
      if (typeof value === "string") {
        const list = readWhole("[" + value + "]");
        value = list && list.length === 1 ? list[0] : undefined;
      }
      if (agrees(typeOf(value), type)) return value;
      throw new Error("its type is to be " + type + ", and it is " + shown);
    }

    function finish(output: ToolOutput): void {
      if (running) running--;
      done(output);
    }

    // Goes on from the idle loop: whoever calls is deep in the stack. `node` is whose fault it is where that fails.
    function later(next: () => void): void {
      setTimeout(function () {
        try {
          next();
        } catch (e) {
          finish({ isError: true, content: 'node "' + names[stack[stack.length - 1]] + '": ' + (e as Error).message });
        }
      }, 1);
    }

    // Runs nodes up to the next call of a tool, or to the end.
    function step(): void {
      if (getTime() > end) throw new Error("not run: all nodes together have " + limit + " ms");
      while (stack.length) {
        const at = stack[stack.length - 1];
        const spec = specs[at];
        const before = spec ? waiting(refsOf(spec, spec.if !== undefined)) : [];
        if (!spec) stack.pop();
        else if (before.length) stack = stack.concat(before);
        else if (spec.if !== undefined) {
          let holds = read(spec.if);
          if (spec.equals !== undefined) holds = holds === read(spec.equals);
          else if (spec.below !== undefined) holds = holds < read(spec.below);
          else if (spec.above !== undefined) holds = holds > read(spec.above);
          // Not indexOf, which also finds the part of what it looks for that a text ends with.
          else if (spec.contains !== undefined) {
            const part = read(spec.contains);
            holds = !part || holds.split(part).length > 1;
          }
          release(refsIn(holds ? spec.else : spec.then));
          specs[at] = { then: holds ? spec.then : spec.else };
        } else {
          specs[at] = undefined;
          if (spec.tool !== undefined) {
            const given: any = {};
            for (const port in spec.in) given[port] = read(spec.in[port]);
            release(refsIn(spec.after));
            const json = toJson(given);
            const free = process.memory().free;
            if (free < CALL_VARIABLES + json.length / ARGUMENT_BYTES)
              throw new Error("not enough memory to call " + spec.tool + ": " + free + " variables are free");
            return call({ id: "", name: spec.tool, arguments: json }, function (result) {
              later(function () {
                if (result.ends) return finish(result);
                if (result.isError) throw new Error(spec.tool + ": " + result.content);
                values[at] = convert(result.content, spec);
                step();
              });
            });
          }
          if (spec.value !== undefined) values[at] = spec.value;
          else if (spec.text !== undefined) values[at] = read(spec.text, true);
          else if (spec.pick !== undefined) values[at] = convert(read(spec.pick), spec);
          else values[at] = read(spec.then);
        }
      }
      const result: any = {};
      let last = "";
      let count = 0;
      for (const name in outputs) {
        count++;
        last = name;
      }
      if (count === 1) return finish({ isError: false, content: read(outputs[last].from, true) });
      for (const name in outputs) result[name] = read(outputs[name].from);
      finish({ isError: false, content: toJson(result) });
    }

    for (const name in graph.nodes) {
      names.push(name);
      specs.push(graph.nodes[name]);
      uses.push(0);
    }
    for (const name in graph.inputs)
      if (!{}.hasOwnProperty.call(args, name)) args[name] = graph.inputs[name].default;
    let readers = specs.slice();
    for (const name in outputs) {
      readers.push({ text: outputs[name].from });
      stack = waiting(refsIn(outputs[name].from)).concat(stack);
    }
    for (const reader of readers)
      for (const ref of refsOf(reader)) if (names.indexOf(ref) >= 0) uses[names.indexOf(ref)]++;
    readers = graph = undefined as any;
    later(step);
  }

  function parametersOf(inputs: any): string {
    const schema: any = { type: "object", properties: inputs || {}, required: [] };
    for (const name in schema.properties) if (schema.properties[name].default === undefined) schema.required.push(name);
    // Not a byte that is no UTF-8 may get into a request.
    return fromJson(wireText(toJson(schema)));
  }

  return {
    isObject: isObject,
    typeOf: typeOf,
    agrees: agrees,
    isName: isName,
    refsIn: refsIn,
    refsOf: refsOf,
    textOf: textOf,
    parse: parse,
    parametersOf: parametersOf,
    load: function (node) {
      const source = node.tool as string;
      const text = textOf(source) || "";
      const seal = (node.seal || "").split(" ");
      const isSame = seal[0] === String(E.CRC32(text));
      // The board's parser ends where the value does.
      function valueAt(place: string, other: any): any {
        return isSame && Number(place) ? fromJson(text.substr(Number(place))) : other;
      }
      return {
        name: node.name,
        description: wireText(valueAt(seal[1], "Not to be used: its file was changed.")),
        parameters: parametersOf(valueAt(seal[2], {})),
        repeatable: seal[3] === "true",
        timeoutMs: Number(seal[4]) || undefined,
        execute: function (args, context) {
          const start = getTime();
          const limit = Number(seal[4]) || setting("toolTimeoutMs");
          let graph = parse(source, text);
          if (!isSame)
            graph = source + ' is not as it was checked: add_graph("' + source + '") at the console checks it anew';
          if (start > runningUntil) running = 0;
          if (running >= MAX_RUNNING) graph = "more than " + MAX_RUNNING + " graphs would run within one another";
          if (!isObject(graph)) return { isError: true, content: graph };
          running++;
          runningUntil = Math.max(runningUntil, start + limit / 1000);
          return new Promise(function (resolve) {
            run(graph, limit, args, context.call, resolve);
          });
        },
      };
    },
  };
}
