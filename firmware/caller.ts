import { setting } from "./config";
import { rangeOf } from "./numbers";
import { find, load } from "./registry";
import { fromJson, limitText, readWhole, toJson } from "./text";
import type { LoadedTool, Session, ToolCall, ToolContext, ToolNode, ToolParameters, ToolResult, WrappedCall } from "./types";
import { toResult } from "./wrap";

/** Milliseconds for what stands around a tool: a person may be asked there. */
const PROCESSOR_MS = 60000;

/** What runs tool calls. It exists while one is run. */
export interface Caller {
  /**
   * Reads the arguments of a call: JSON text of an object, "" for none. Throws, with words for the model, where they
   * are anything else; with `repair`, only where the tool's first processor cannot read them either. A call that is wrapped
   * once more in its own arguments is unwrapped.
   */
  readArguments(call: ToolCall, repair: boolean): any;
  /**
   * Runs one call through the tool's processors, from the idle loop, and hands its result to `done`, once. Never throws: an
   * unknown tool, arguments that are not right, a throw and a tool that does not settle within its time are error results
   * that the model can act on.
   */
  call(call: ToolCall, done: (result: ToolResult) => void): void;
}

export function createCaller(session: Session): Caller {
  // The tool with what stands around it.
  function wrapped(node: ToolNode): LoadedTool {
    return session.wrap ? session.wrap(load(node)) : load(node);
  }

  function contextOf(node: ToolNode, outer?: ToolContext): ToolContext {
    const context: ToolContext = {
      session: session,
      node: node,
      running: session.abort,
      call: function (inner, done) {
        if (context.running !== session.abort) done({ isError: true, content: "stopped" });
        else call(inner, done, context);
      },
    };
    if (outer) outer.inner = context;
    return context;
  }

  function readArguments(call: ToolCall, repair: boolean): any {
    let args: any = call.arguments.trim() ? readWhole(call.arguments) : {};
    if (!args && repair) {
      const node = find(session.tools, call.name);
      const before = node && wrapped(node).before;
      const own: WrappedCall = { id: call.id, name: call.name, arguments: call.arguments };
      if (before && before[0]) before[0](own, contextOf(node!));
      args = own.args;
    }
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
      if (number && typeof value === "string" && isNumeric(value.trim()) && !isNaN(parseFloat(value)))
        args[name] = value = parseFloat(value);
      // The board keeps 5.0 apart from 5, and knows no pin 5.0.
      if (number && value === (value | 0)) args[name] = value | 0;
      const is = value instanceof Array ? "array" : typeof value;
      let want = "";
      if (type === "integer" && !(is === "number" && value === Math.floor(value))) want = "a whole number";
      else if (number ? is !== "number" || !isFinite(value) : type && is !== type) want = "of type " + type;
      else want = rangeOf(rule, value);
      if (want) return 'the argument "' + name + '" must be ' + want + ", not " + limitText(toJson(value), 80);
    }
    return "";
  }

  // With `outer`, of the tool that calls this one.
  function call(call: ToolCall, done: (result: ToolResult) => void, outer?: ToolContext): void {
    let timer: any;
    let output: any;
    const node = find(session.tools, call.name, !!outer);
    if (!node) {
      let names = "";
      for (let other = session.tools.first; other; other = other.next) names += (names ? ", " : "") + other.name;
      return done({ isError: true, content: "there is no tool called " + call.name + ". Tools: " + names });
    }
    const tool = wrapped(node);
    const context = contextOf(node, outer);
    const before = tool.before || [];
    const after = tool.after || [];
    const own: WrappedCall = { id: call.id, name: call.name, arguments: call.arguments };

    // Armed before what it watches is called: where that uses up the memory, the board stops it, and nothing that stands
    // below the call is reached. What the tool has begun goes no further then: an agent at work is stopped, and gives back
    // its settings, before the result is told.
    function watch(ms: number): void {
      if (timer) clearTimeout(timer);
      timer = setTimeout(function () {
        const words = call.name + " gave no result within " + ms + " ms" + (tool.timeoutMs ? "" : " (toolTimeoutMs)") + ", or ran out of memory";
        timer = undefined;
        if (context.running === session.abort && session.child && session.child.abort) session.child.abort(words);
        for (let one: ToolContext | undefined = context; one; one = one.inner) one.running = null;
        done({ isError: true, content: words });
      }, ms);
    }

    // What step `at` gave that failed.
    function failed(at: number, problem: any): ToolResult {
      const what = at < before.length ? " was not run: " : " ran, but its result could not be processed: ";
      return { isError: true, content: (at === before.length ? "" : call.name + what) + String((problem && problem.message) || problem) };
    }

    // Goes on with what step `at` gave: processors, the tool, processors; -1 before the first one. One after the other, in a
    // loop, and in few functions: the stack is short, and a tool may have others called.
    function go(at: number, value: any): void {
      for (;;) {
        if (at >= before.length) output = value;
        else if (value) {
          output = value;
          at = before.length;
        }
        if (++at > before.length + after.length) break;
        try {
          if (at === 0) own.args = readArguments(call, false);
          if (at < before.length) value = before[at](own, context);
          else if (at > before.length) value = after[at - before.length - 1](output, own, context);
          else {
            if (context.running !== session.abort) throw new Error("stopped");
            const problem = problemOf(fromJson(tool.parameters), own.args);
            if (problem) throw new Error(call.name + ": " + problem);
            watch(tool.timeoutMs || setting("toolTimeoutMs"));
            value = tool.execute(own.args, context);
          }
        } catch (e) {
          value = failed(at, e);
        }
        if (!(value instanceof Promise)) continue;
        value.then(
          function (given: any) {
            if (timer) go(at, given);
          },
          function (e: any) {
            if (timer) go(at, failed(at, e));
          }
        );
        return;
      }
      clearTimeout(timer);
      timer = undefined;
      let result;
      // To look at what a tool gave may throw, too: it can have getters.
      try {
        result = toResult(output);
        result.content = limitText(result.content, setting("toolResultBytes"));
      } catch (e) {
        result = { isError: true, content: call.name + " gave a result that cannot be read" };
      }
      done(result);
    }

    watch(PROCESSOR_MS);
    setTimeout(go, 1, -1);
  }

  return { readArguments: readArguments, call: call };
}

// Whether a text is a number. The board's regular expressions have no groups and no "?".
function isNumeric(text: string): boolean {
  return /^[-+]*[0-9]+$|^[-+]*[0-9]*[.][0-9]+$|^[-+]*[0-9.]+[eE][-+]*[0-9]+$/.test(text);
}
