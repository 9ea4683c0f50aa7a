import { editRegistry } from "../firmware/registry";
import { savedTools } from "../firmware/saved-tools";
import type { Tool } from "../firmware/types";

const removeTool: Tool = {
  name: "remove_tool",
  description: "Remove a tool that was saved with save_tool. Use it when such a tool is wrong or of no use any more.",
  parameters: {
    type: "object",
    properties: { name: { type: "string", description: "The tool's name" } },
    required: ["name"],
  },
  needs: "allowJs",
  tier: "do",
  execute(args, context) {
    return savedTools().remove(args.name, context.session, editRegistry);
  },
};

export default removeTool;
