import { loadTool, toolNames } from "tools:all";
import { picksMain } from "./agents";
import { setting } from "./config";
import { createGraphs } from "./graph";
import { createGraphChecker, type GraphChecker, type TakenGraph } from "./graph-check";
import { loadSaved, savedTools, schemaText } from "./saved-tools";
import { wireText } from "./text";
import type { LoadedTool, Registry, ToolNode } from "./types";

/** Milliseconds for a tool that has an agent work for it, where it does not say: some dozen model calls. */
const AGENT_MS = 900000;

/**
 * The registry: a singly linked list. A node of a tool from `tools/` holds its number only, one of a saved tool or a
 * graph the name of its file; the tool itself is made from flash when it is used and forgotten afterwards, result and
 * all.
 */

// The node of that name, or undefined. With `any`, also one of a tool of `tools/` that this agent was not given, and that is
// there with these settings.
export function find(registry: Registry, name: string, any?: boolean): ToolNode | undefined {
  let node = registry.first;
  while (node && node.name !== name) node = node.next;
  const at = node || !any ? -1 : toolNames().split(",").indexOf(name);
  return at >= 0 && picksMain(loadTool(at), true) ? { name: name, tool: at } : node;
}

// The tool of a node. One of `tools/` or the Storage is made anew from flash, and costs RAM as long as somebody holds
// it.
export function load(node: ToolNode): LoadedTool {
  const tool = node.tool;
  if (typeof tool === "number") {
    const own = loadTool(tool);
    if (own.tier === "agent" && !own.timeoutMs) own.timeoutMs = AGENT_MS;
    return own;
  }
  if (typeof tool !== "string") return tool;
  return tool.startsWith("tool.") ? loadSaved(tool) : createGraphs().load(node);
}

/** What registers tools. It exists while it does. */
export interface RegistryEditor {
  /**
   * Registers the tools of `tools/`, the saved ones, and the graphs of the Storage's folder `workflow_set/`, that `picks`
   * takes, and drops those that it does not; what was registered at run time stays. Doing it again changes nothing. What
   * is wrong with a graph or a saved tool is printed, unless `quiet`.
   */
  init(picks: (tool: LoadedTool) => boolean, quiet?: boolean): void;
  /**
   * Puts a tool at the end of the list: its number, the name of its file, or itself. False, and no change, where one of
   * that name is registered, or a saved tool would have the name of one of `tools/`.
   */
  link(name: string, tool: ToolNode["tool"]): boolean;
  /** Drops the tool of that name, if there is one. */
  unlink(name: string): void;
  /** Registers a tool at run time. Returns what is wrong with it, "" if it was taken. */
  append(tool: any): string;
  /** Checks and registers a graph: the name of its file in the Storage, or itself. Returns what is wrong with it. */
  appendGraph(given: any): string;
}

export function editRegistry(registry: Registry): RegistryEditor {
  function link(name: string, tool: ToolNode["tool"]): boolean {
    if (find(registry, name) || (typeof tool === "string" && toolNames().split(",").indexOf(name) >= 0)) return false;
    const node: ToolNode = { name: name, tool: tool };
    if (registry.last) registry.last.next = node;
    else registry.first = node;
    registry.last = node;
    registry.count++;
    return true;
  }

  function inUse(name: string): string {
    return "a tool called " + name + " is registered already: choose another name";
  }

  // What checks a graph: its tools may be any that are there.
  function checker(): GraphChecker {
    return createGraphChecker(function (name) {
      const node = find(registry, name, true);
      return node && load(node);
    });
  }

  // Registers a graph that was checked, or takes its file as it is now. Returns what is wrong with it.
  function keep(graph: TakenGraph): string {
    const old = find(registry, graph.name);
    if (graph.problem || !graph.name) return graph.problem;
    if (old ? old.tool !== graph.source : !link(graph.name, graph.source)) return inUse(graph.name);
    (old || registry.last!).seal = graph.seal;
    return "";
  }

  const editor: RegistryEditor = {
    init: function (picks, quiet) {
      let node = registry.first;
      registry.count = 0;
      delete registry.first;
      delete registry.last;
      const names = toolNames().split(",");
      // This is the deepest path of all, from the console to a tool that is made: no callback, no call within another.
      for (let i = 0; i < names.length && names[0]; i++) {
        const tool = loadTool(i);
        if (tool && picks(tool)) link(names[i], i);
      }
      savedTools().link(editor, picks, quiet);
      for (; node; node = node.next) {
        const tool = node.tool;
        // A graph from elsewhere than the folder.
        const isOther = typeof tool === "string" && !tool.startsWith("tool.") && !tool.startsWith("workflow_set/");
        if ((isOther || typeof tool === "object") && link(node.name, tool) && isOther) registry.last!.seal = node.seal;
      }
      // Those that failed once more while others do not: a graph may be a tool of another one.
      const files = require("Storage").list(/^workflow_set\//, { sf: false });
      const problems: Record<string, string> = {};
      let tries = files.length;
      while (tries) {
        const file = files.shift()!;
        const graph = checker().take(file, picks);
        const problem = keep(graph);
        tries = problem ? tries - 1 : files.length;
        if (problem) files.push(file);
        if (problem) problems[file] = problem;
      }
      if (quiet) return;
      for (const file of files) print(file + ": " + problems[file]);
      for (const pair of setting("agentModels").split(",")) {
        const words = pair.split("=");
        if (pair && (!words[1] || names.indexOf(words[0]) < 0)) print("agentModels: no agent=model: " + pair);
      }
    },
    appendGraph: function (given) {
      return keep(checker().take(given));
    },
    link: link,
    unlink: function (name) {
      let before: ToolNode | undefined;
      let node = registry.first;
      while (node && node.name !== name) {
        before = node;
        node = node.next;
      }
      if (!node) return;
      if (before) before.next = node.next;
      else registry.first = node.next;
      if (!node.next) registry.last = before;
      registry.count--;
    },
    append: function (tool) {
      if (!tool || typeof tool.name !== "string" || !/^[a-zA-Z0-9_\-]+$/.test(tool.name) || tool.name.length > 63)
        return "a tool needs a name of letters, digits, _ and -, at most 63 characters";
      if (typeof tool.description !== "string" || !tool.description) return tool.name + " needs a description: when to use it";
      if (typeof tool.execute !== "function") return tool.name + " needs a function execute(args)";
      const parameters = tool.parameters || { type: "object", properties: {} };
      if (parameters.type !== "object" || !parameters.properties)
        return tool.name + ': parameters must look like {type:"object",properties:{...}}';
      const loaded: LoadedTool = {
        name: tool.name,
        description: wireText(tool.description),
        parameters: schemaText(parameters),
        repeatable: tool.repeatable,
        execute: tool.execute,
      };
      return link(tool.name, loaded) ? "" : inUse(tool.name);
    },
  };
  return editor;
}
