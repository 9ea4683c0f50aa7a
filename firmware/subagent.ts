import { picksMain } from "./agents";
import { toolNames } from "tools:all";
import { layOver, openSettings, setting } from "./config";
import { run } from "./loop";
import { type Part } from "./parts";
import { editRegistry, find } from "./registry";
import { toJson } from "./text";
import type { Session, Subagent, ToolContext, ToolResult } from "./types";

/** Agents within each other, the one that the person talks to not counted. */
const MAX_DEPTH = 2;
/** Variables that a sub-agent needs besides its history: its tools, its loop, and one request. */
const AGENT_VARIABLES = 1500;
/** Bytes of its history, where it does not say. It is a run long. */
const HISTORY_BYTES = 2048;

// Has an agent of its own do what `args` say, and gives only its final answer: what a tool's `execute` returns. The agent's
// tools, history and settings exist while it runs; its events carry the tool's name. It is refused where it would call
// itself, where agents are too deep in each other, and where there is no memory for it. What is wrong with its tools or
// settings is told to the person at its first run, and left out.
// It sees the files among `parts`, if there are any.
export function runAgent(agent: Subagent, args: any, context: ToolContext, parts?: Part[]): Promise<ToolResult> | ToolResult {
  const parent = context.session;
  const name = context.node.name;
  let depth = 1;
  for (let one: Session | undefined = parent; one && one.parent; one = one.parent) {
    depth++;
    if (one.name === name) return { isError: true, content: name + " is at work already: it cannot call itself. Do it another way" };
  }
  if (context.running !== parent.abort) return { isError: true, content: "stopped" };
  if (depth > MAX_DEPTH) return { isError: true, content: "agents may be " + MAX_DEPTH + " deep in each other: do it yourself" };

  let task = "";
  const names = Object.keys(args);
  for (const key of names) {
    const text = typeof args[key] === "string" ? args[key] : toJson(args[key]);
    task += (task && "\n") + (names.length > 1 ? key + ": " : "") + text;
  }
  if (!task.trim()) return { isError: true, content: "the task is empty: say what " + name + " is to do" };

  const settings: Record<string, any> = { systemPrompt: agent.instruction, historyBytes: HISTORY_BYTES };
  const tools = agent.tools.split(" ").join("").split(",");
  let wrong = "";
  for (const key in agent.settings) {
    const problem = openSettings().problemOf(key, agent.settings[key]);
    if (problem) wrong += "; " + problem;
    else settings[key] = agent.settings[key];
  }
  // agentModels: "code_agent=qwen3-coder,search_agent=qwen3"
  for (const pair of setting("agentModels").split(",")) if (pair.startsWith(name + "=")) settings.model = pair.substr(name.length + 1);
  const memory = process.memory();
  const needed = AGENT_VARIABLES + Math.ceil(settings.historyBytes / (memory.blocksize - 4));
  if (memory.free < needed)
    return {
      isError: true,
      content: "not enough memory for " + name + ": " + memory.free + " variables are free, " + needed + " needed. Do it yourself, step by step",
    };

  const before = layOver(settings);
  const sub: Session = {
    name: name,
    parent: parent,
    prompt: parent.prompt,
    tools: { count: 0 },
    history: { bytes: new Uint8Array(settings.historyBytes), used: 0, sizes: [], provider: setting("provider") },
    lastCallId: 0,
    calls: parent.calls,
    confirm: parent.confirm,
    wrap: agent.wrap || parent.wrap,
    // At its end, settings and model calls are given back before anybody hears of it: whoever waits for the promise goes on
    // later, and by then the agent above may have asked, or another prompt.
    emit: function (event) {
      if (!event.agent) {
        event.agent = name;
        if (event.type === "final") {
          layOver(before, settings);
          delete parent.child;
          parent.calls = sub.calls;
        }
      }
      parent.emit(event);
    },
  };
  editRegistry(sub.tools).init(function (tool) {
    return tools.indexOf(tool.name) >= 0 && picksMain(tool, true);
  }, true);
  for (const one of tools)
    if (one && !find(sub.tools, one) && toolNames().split(",").indexOf(one) < 0) wrong += "; no tool " + one;
  if (wrong && !context.node.ran) parent.emit({ type: "error", message: name + ":" + wrong.substr(1) });
  context.node.ran = true;
  parent.child = sub;
  return new Promise(function (resolve) {
    run(sub, task, parts, function (result) {
      if (result.message) return resolve({ isError: true, content: name + " failed: " + result.message + (result.text && ". So far: " + result.text) });
      // A question of the agent's is for the person.
      resolve(
        result.stopReason === "awaitUser"
          ? { isError: false, content: result.text, ends: "awaitUser" }
          : { isError: false, content: result.text }
      );
    });
  });
}
