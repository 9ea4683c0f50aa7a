import { formatNumber } from "../firmware/numbers";
import type { Tool } from "../firmware/types";

const mod: Tool = {
  name: "mod",
  description:
    "Remainder of a divided by b (a modulo b). Use it for what is left over, and to see whether a number is even, " +
    "odd or divisible (remainder 0). Fractions are allowed. Returns the remainder, with the sign of a.",
  parameters: {
    type: "object",
    properties: {
      a: { type: "double", description: "Number to be divided" },
      b: { type: "double", description: "Divisor, not 0" },
    },
    required: ["a", "b"],
  },
  execute(args) {
    if (args.b === 0) return { isError: true, content: "Division by zero: b must not be 0." };
    let rest = args.a % args.b;
    // In binary 0.3 is not quite three times 0.1: what is left is then almost 0 or almost b, and nothing is meant.
    const error = Math.abs(args.a) * 4e-16;
    if (rest !== Math.floor(rest) && (Math.abs(rest) < error || Math.abs(args.b) - Math.abs(rest) < error)) rest = 0;
    return formatNumber(rest) || { isError: true, content: "The numbers are too large to be divided." };
  },
};

export default mod;
