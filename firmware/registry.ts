import { loadTool, toolNames } from "tools:all";
import { loadSaved, savedTools } from "./saved-tools";
import { toJson } from "./text";
import type { LoadedTool, Registry, ToolNode } from "./types";

/**
 * The registry: a singly linked list. A node of a tool from `tools/` holds its number only, one of a saved tool the
 * name of its file; the tool itself is made from flash when it is used and forgotten afterwards, result and all.
 */

// The node of that name, or undefined.
export function find(registry: Registry, name: string): ToolNode | undefined {
  let node = registry.first;
  while (node && node.name !== name) node = node.next;
  return node;
}

// The tool of a node. One of `tools/` or the Storage is made anew from flash, and costs RAM as long as somebody holds
// it.
export function load(node: ToolNode): LoadedTool {
  const tool = node.tool;
  if (typeof tool === "number") return loadTool(tool);
  return typeof tool === "string" ? loadSaved(tool) : tool;
}

/** What registers tools. It exists while it does. */
export interface RegistryEditor {
  /**
   * Registers the tools of `tools/` and the saved ones that `picks` takes, and drops those that it does not; tools that
   * were registered at run time stay. Doing it again changes nothing.
   */
  init(picks: (tool: LoadedTool) => boolean): void;
  /**
   * Puts a tool at the end of the list: its number, the name of its file, or itself. False, and no change, where one of
   * that name is registered, or a saved tool would have the name of one of `tools/`.
   */
  link(name: string, tool: ToolNode["tool"]): boolean;
  /** Drops the tool of that name, if there is one. */
  unlink(name: string): void;
  /** Registers a tool at run time. Returns what is wrong with it, "" if it was taken. */
  append(tool: any): string;
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

  const editor: RegistryEditor = {
    init: function (picks) {
      let node = registry.first;
      registry.count = 0;
      delete registry.first;
      delete registry.last;
      toolNames()
        .split(",")
        .forEach(function (name, i) {
          if (name && picks(loadTool(i))) link(name, i);
        });
      savedTools().link(editor, picks);
      for (; node; node = node.next) if (typeof node.tool === "object") link(node.name, node.tool);
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
        description: toJson(tool.description),
        parameters: toJson(parameters).split('"type":"double"').join('"type":"number"'),
        repeatable: tool.repeatable,
        execute: tool.execute,
      };
      return link(tool.name, loaded) ? "" : "a tool called " + tool.name + " is registered already: choose another name";
    },
  };
  return editor;
}
