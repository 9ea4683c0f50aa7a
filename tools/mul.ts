import { formatNumber } from "../firmware/numbers";
import type { Tool } from "../firmware/types";

const mul: Tool = {
  name: "mul",
  description:
    "Multiply two numbers: a times b. Use it for any product instead of calculating yourself. Returns the product.",
  parameters: {
    type: "object",
    properties: {
      a: { type: "double", description: "First number" },
      b: { type: "double", description: "Second number" },
    },
    required: ["a", "b"],
  },
  execute(args) {
    return formatNumber(args.a * args.b) || { isError: true, content: "The product is too large to be calculated." };
  },
};

export default mul;
