import { editRegistry } from "../firmware/registry";
import { savedTools } from "../firmware/saved-tools";
import type { Tool } from "../firmware/types";

const saveTool: Tool = {
  name: "save_tool",
  description:
    "Save JavaScript as a new tool of yours, there from now on and after restarts. Use it for what you will need " +
    "again; try the code with run_js first. remove_tool removes it.",
  parameters: {
    type: "object",
    properties: {
      name: { type: "string", description: "Letters, digits, _ and -, at most 23" },
      description: { type: "string", description: "When to use it, what goes in, what comes out" },
      parameters: { type: "object", description: 'JSON Schema: {"type":"object","properties":{...},"required":[...]}' },
      code: { type: "string", description: "Body of a function with args: return args.x*2" },
    },
    required: ["name", "description", "code"],
  },
  needs: "allowJs",
  tier: "do",
  execute(args, context) {
    return savedTools().save(args, "by the model", context.session, editRegistry);
  },
};

export default saveTool;
