import { formatNumber } from "../firmware/numbers";
import type { Tool } from "../firmware/types";

const compare: Tool = {
  name: "compare",
  description:
    "Compare two numbers. Use it to find which is greater (bigger, larger) or less (smaller), or whether both are " +
    "equal. Returns a sentence.",
  parameters: {
    type: "object",
    properties: {
      a: { type: "double", description: "First number" },
      b: { type: "double", description: "Second number" },
    },
    required: ["a", "b"],
  },
  execute(args) {
    const a = formatNumber(args.a);
    const b = formatNumber(args.b);
    if (!a || !b) return { isError: true, content: "A number is too large to be compared." };
    // Numbers that differ beyond the printed digits would read as "1 is greater than 1".
    if (a === b) return a + " is equal to " + b;
    return a + (args.a > args.b ? " is greater than " : " is less than ") + b;
  },
};

export default compare;
