import type { Tool } from "../firmware/types";

const submitResult: Tool = {
  name: "submit_result",
  description:
    "End the work on a plan with its result: whether it was reached, what came of it in words for the person, and the " +
    "files that were made or changed.",
  parameters: {
    type: "object",
    properties: {
      is_success: { type: "boolean" },
      result: { type: "string", description: "What the person gets as the answer" },
      files: { type: "array", items: { type: "string" }, description: "Names of files, if any" },
    },
    required: ["is_success", "result"],
  },
  tier: "agent",
  execute(args) {
    const files = args.files || [];
    for (const file of files)
      if (require("Storage").read(file, 0, 1) === undefined) return { isError: true, content: "there is no file " + file + ": name those that are there" };
    return {
      isError: false,
      content: args.result + (files.length ? "\nFiles: " + files.join(", ") : ""),
      ends: "done",
      data: { is_success: args.is_success, result: args.result, files: files },
    };
  },
};

export default submitResult;
