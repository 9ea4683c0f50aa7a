import { setting } from "../firmware/config";
import { load } from "../firmware/registry";
import { fromJson } from "../firmware/text";
import type { Tool } from "../firmware/types";

const getFunctionList: Tool = {
  name: "get_function_list",
  description:
    "List the tools of this agent. Use it when asked what you can do, or which functions or tools there are. Returns " +
    "every tool's name and what it is for.",
  parameters: { type: "object", properties: {} },
  execute(_args, context) {
    let names = "";
    let lines = "";
    for (let node = context.session.tools.first; node; node = node.next) {
      names += (names && ", ") + node.name;
      lines += (lines && "\n") + node.name + ": " + fromJson(load(node).description).split(". ")[0];
    }
    // Where not all of it fits into a result, names of all say more than sentences of some.
    return lines.length > setting("toolResultBytes") ? names : lines;
  },
};

export default getFunctionList;
