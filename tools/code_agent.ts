import { runAgent } from "../firmware/subagent";
import type { Tool } from "../firmware/types";

const codeAgent: Tool = {
  name: "code_agent",
  description:
    "An agent that writes and changes files on the board, and writes and runs JavaScript there. Give it one task with all " +
    "that it must know: it does not see this conversation. Returns what it did.",
  parameters: {
    type: "object",
    properties: { task: { type: "string", description: "The task, in full sentences" } },
    required: ["task"],
  },
  tier: "agent",
  timeoutMs: 1800000,
  execute(args, context) {
    return runAgent(
      {
        instruction:
          "You write JavaScript for Espruino on the board {board}, and the files in {folder}. It is {time}. {memory} of memory " +
          "are free: keep code small. No modules, no async, no destructuring, no spread. Look before you change, change little, " +
          "and check what you did. When the task is done, say in one or two sentences what you did and which files changed. " +
          "What the person wants in the end: {question}",
        tools: "run_js,save_tool,remove_tool,edit_file,read_file,tree",
        settings: { temperature: 0.8, maxToolIterations: 20 },
      },
      args,
      context
    );
  },
};

export default codeAgent;
