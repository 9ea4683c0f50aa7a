import { setting } from "./config";
import { find, load } from "./registry";
import { repairJson } from "./repair";
import { fromJson, limitText, readWhole, toJson } from "./text";
import type { Registry, ToolCall, ToolParameters, ToolResult } from "./types";

/** What runs tool calls. It exists while one is run. */
export interface Caller {
  /**
   * Reads the arguments of a call: JSON text of an object, "" for none. Throws, with words for the model, where they
   * are anything else; with `repair`, only where they cannot be repaired. A call that is wrapped once more in its own
   * arguments is unwrapped.
   */
  readArguments(call: ToolCall, repair: boolean): any;
  /**
   * Runs one call. Never rejects: an unknown tool, arguments that are not right, a throw and a tool that does not
   * settle within `toolTimeoutMs` are error results that the model can act on.
   */
  call(call: ToolCall): Promise<ToolResult>;
}

export function createCaller(registry: Registry): Caller {
  function readArguments(call: ToolCall, repair: boolean): any {
    let args: any = call.arguments.trim() ? readWhole(call.arguments) : {};
    if (!args && repair) args = readWhole(repairJson(call.arguments) || "");
    if (!args || args instanceof Array) throw new Error("the arguments are not a complete JSON object. Call again with valid JSON");
    let inner = args.arguments || args.parameters;
    if (typeof inner === "string") inner = readWhole(inner);
    if (args.name === call.name && Object.keys(args).length === 2 && inner && typeof inner === "object" && !(inner instanceof Array))
      args = inner;
    // Beyond this the board's numbers are not exact, and whole ones beyond 64 bits wrap around.
    for (const name in args)
      if (typeof args[name] === "number" && !(Math.abs(args[name]) <= 9007199254740992))
        throw new Error('the number for "' + name + '" is too large');
    return args;
  }

  /** A number as text. The board's regular expressions have no groups and no "?". */
  const NUMERIC = /^[-+]*[0-9]+$|^[-+]*[0-9]*[.][0-9]+$|^[-+]*[0-9.]+[eE][-+]*[0-9]+$/;

  // What is wrong with the arguments, in words a model can act on; "" if nothing is. Numeric text given for a number
  // becomes a number in `args`.
  function problemOf(schema: ToolParameters, args: any): string {
    for (const name of schema.required || [])
      if (args[name] === undefined || args[name] === null) return 'the argument "' + name + '" is missing';
    for (const name in schema.properties) {
      const rule: any = schema.properties[name];
      const type = rule.type;
      const number = type === "number" || type === "integer";
      let value = args[name];
      if (value === null) delete args[name];
      if (value === undefined || value === null) continue;
      // Not Number(), which takes 010 for 8 on the board.
      if (number && typeof value === "string" && NUMERIC.test(value.trim()) && !isNaN(parseFloat(value)))
        args[name] = value = parseFloat(value);
      // The board keeps 5.0 apart from 5, and knows no pin 5.0.
      if (number && value === (value | 0)) args[name] = value | 0;
      const is = value instanceof Array ? "array" : typeof value;
      let want = "";
      if (type === "integer" && !(is === "number" && value === Math.floor(value))) want = "a whole number";
      else if (number ? is !== "number" || !isFinite(value) : type && is !== type) want = "of type " + type;
      else if (rule.enum && rule.enum.indexOf(value) < 0) want = "one of " + toJson(rule.enum);
      // Not without a limit: the board takes "notes" for less than undefined.
      else if (number && rule.minimum !== undefined && value < rule.minimum) want = rule.minimum + " or more";
      else if (number && rule.maximum !== undefined && value > rule.maximum) want = rule.maximum + " or less";
      if (want) return 'the argument "' + name + '" must be ' + want + ", not " + limitText(toJson(value), 80);
    }
    return "";
  }

  // Whatever a tool gave, as a result. An object that is no ToolResult is written as JSON.
  function toResult(output: any): ToolResult {
    let isError = false;
    if (output && typeof output === "object" && typeof output.content === "string") {
      isError = !!output.isError;
      output = output.content;
    }
    if (output === undefined || output === null || output === "") output = "done (no output)";
    else if (typeof output === "object") output = toJson(output);
    return { isError: isError, content: limitText(String(output), setting("toolResultBytes")) };
  }

  // Gives the tool's output, or a promise of it. Throws what is wrong with the call.
  function execute(call: ToolCall): any {
    const node = find(registry, call.name);
    if (!node) {
      let names = "";
      for (let other = registry.first; other; other = other.next) names += (names ? ", " : "") + other.name;
      throw new Error("there is no tool called " + call.name + ". Tools: " + names);
    }
    const tool = load(node);
    const args = readArguments(call, false);
    const problem = problemOf(fromJson(tool.parameters), args);
    if (problem) throw new Error(call.name + ": " + problem);
    return tool.execute(args, {
      eachTool: function (visit) {
        for (let one = registry.first; one; one = one.next) visit(one.name, fromJson(load(one).description));
      },
    });
  }

  return {
    readArguments: readArguments,
    call: function (call) {
      return new Promise(function (resolve) {
        let timer: any;
        function fail(problem: any): void {
          settle({ isError: true, content: String((problem && problem.message) || problem) });
        }
        // To look at what a tool gave may throw, too: it can have getters.
        function settle(output: any): void {
          if (timer) clearTimeout(timer);
          timer = undefined;
          let result;
          try {
            result = toResult(output);
          } catch (e) {
            result = toResult({ isError: true, content: call.name + " gave a result that cannot be read" });
          }
          resolve(result);
        }
        // Before the tool runs: where it uses up the memory, the board stops it and nothing below is reached.
        timer = setTimeout(function () {
          timer = undefined;
          fail(call.name + " gave no result within " + setting("toolTimeoutMs") + " ms (toolTimeoutMs), or ran out of memory");
        }, setting("toolTimeoutMs"));
        let output;
        try {
          output = execute(call);
        } catch (e) {
          return fail(e);
        }
        if (output instanceof Promise) output.then(settle, fail);
        else settle(output);
      });
    },
  };
}
