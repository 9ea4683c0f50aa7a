import { openSource } from "../firmware/disk";
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
    const files: any[] = args.files || [];
    let problem = args.result.trim() ? "" : "The result is empty.";
    for (const file of files) {
      const source = typeof file === "string" ? openSource(file) : "files are names.";
      if (typeof source === "string") problem = source;
      else source.close();
    }
    if (problem) return { isError: true, content: problem };
    return {
      isError: false,
      content: args.result + (files.length ? "\nFiles: " + files.join(", ") : ""),
      ends: "done",
      data: { is_success: args.is_success, result: args.result, files: files },
    };
  },
};

export default submitResult;
