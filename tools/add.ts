import { formatNumber } from "../firmware/numbers";
import type { Tool } from "../firmware/types";

const add: Tool = {
  name: "add",
  description:
    "Add two numbers: a plus b. Use it for any sum instead of calculating yourself; to subtract, make b negative. " +
    "Returns the sum.",
  parameters: {
    type: "object",
    properties: {
      a: { type: "double", description: "First number" },
      b: { type: "double", description: "Second number" },
    },
    required: ["a", "b"],
  },
  execute(args) {
    return formatNumber(args.a + args.b) || { isError: true, content: "The sum is too large to be calculated." };
  },
};

export default add;
