import { setting } from "./config";
import { readWhole, limitText, toJson } from "./text";
import { repair } from "./repair";
import type { After, Before, LoadedTool, ToolContext, ToolResult, Wrap, WrappedCall } from "./types";

// `tool` with processors around it: those of `wrap` stand outside of those it has already. The tool itself is unchanged.
export function wrapTool(tool: LoadedTool, wrap: Wrap): LoadedTool {
  return {
    name: tool.name,
    description: tool.description,
    parameters: tool.parameters,
    repeatable: tool.repeatable,
    timeoutMs: tool.timeoutMs,
    before: (wrap.before || []).concat(tool.before || []),
    after: (tool.after || []).concat(wrap.after || []),
    execute: tool.execute,
  };
}

// Whatever a tool gave, as a result. An object that is no ToolResult is written as JSON.
export function toResult(output: any): ToolResult {
  const result: ToolResult = { isError: false, content: "" };
  if (output && typeof output === "object" && typeof output.content === "string") {
    result.isError = !!output.isError;
    if (output.ends) {
      result.ends = output.ends;
      result.data = output.data;
    }
    if (output.parts instanceof Array) result.parts = output.parts;
    output = output.content;
  } else if (output && output.parts instanceof Array) {
    result.parts = output.parts;
    output = "";
  }
  if (output === undefined || output === null || output === "") output = "done (no output)";
  else if (typeof output === "object") output = toJson(output);
  result.content = String(output);
  return result;
}

// The processors that come with the agent. Each is made where it is named, and exists while a call is run.

// Reads arguments that are no JSON object as they came; what would take a guess stays unread. Stands first.
export function repairJson(call: WrappedCall): void {
  if (!call.args) call.args = readWhole(repair(call.arguments) || "");
}

// Takes the keys and tokens of the settings out of a result.
export function redactSecrets(output: any): ToolResult {
  const result = toResult(output);
  for (const name of setting("secrets").split(",")) {
    const secret = setting(name);
    // A shorter one stands in any text. Looked for first: to split a large text that has none takes its memory twice more.
    if (secret.length > 3 && result.content.length >= secret.length && result.content.indexOf(secret) >= 0)
      result.content = result.content.split(secret).join("***");
  }
  return result;
}

// Cuts a result to `bytes`, with a marker that says how much was kept, and `how` to read the rest.
export function limitResult(bytes: number, how?: string): After {
  return function (output) {
    const result = toResult(output);
    result.content = limitText(result.content, bytes, how);
    return result;
  };
}

// What code that ran gave, `{stdout, stderr, value, changed, left}` of sandbox.ts, as short text.
export function formatRun(output: any): any {
  if (!output || typeof output !== "object" || typeof output.content === "string") return output;
  let text = output.stdout || "";
  if (output.value !== undefined) text += (text && "\nresult: ") + output.value;
  if (output.stderr) text += (text && "\n") + "error: " + output.stderr;
  if (output.changed && output.changed.length) text += (text && "\n") + "changed files: " + output.changed.join(", ");
  if (output.left) text += (text && "\n") + "going on: " + output.left;
  return { isError: !!output.stderr, content: text || "done (no output)" };
}

// Of a change of a file, `{path, size}`: that it was done, and nothing of the file.
export function shortEdit(output: any): any {
  return output && output.path ? "success: " + output.path + ", " + output.size + " bytes" : output;
}

// Asks the person at the console whether the call may be made; no answer, and no console, is a no.
export function confirmOnSerial(call: WrappedCall, context: ToolContext): ToolResult | undefined | Promise<ToolResult | undefined> {
  if (!call.args) return undefined;
  const no = { isError: true, content: call.name + " was not run: the person did not allow it. Do not ask again in this run." };
  const confirm = context.session.confirm;
  if (!confirm) return no;
  return confirm(call.name + " " + limitText(toJson(call.args), 300)).then(function (yes) {
    return yes ? undefined : no;
  });
}

// Refuses more than `count` calls within `seconds`.
export function rateLimit(count: number, seconds: number): Before {
  return function (call, context) {
    if (!call.args) return undefined;
    const now = getTime();
    // Of all agents and graphs together.
    let root = context.session;
    while (root.parent) root = root.parent;
    const all = root.times || {};
    root.times = all;
    const times: number[] = (all[call.name] || []).filter(function (time) {
      // A clock that was set jumps.
      return time <= now && now - time < seconds;
    });
    all[call.name] = times;
    if (times.length >= count) {
      const wait = Math.ceil(seconds - (now - times[0]));
      return { isError: true, content: call.name + " may be called " + count + " times in " + seconds + " s: again in " + wait + " s" };
    }
    times.push(now);
    return undefined;
  };
}
