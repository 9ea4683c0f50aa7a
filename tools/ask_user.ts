import type { Tool } from "../firmware/types";

const askUser: Tool = {
  name: "ask_user",
  description:
    "Ask the person a question that you cannot go on without, when no tool can answer it. It ends your turn; their next " +
    "message is the answer.",
  parameters: {
    type: "object",
    properties: { question: { type: "string", description: "One short question" } },
    required: ["question"],
  },
  execute(args) {
    if (!args.question.trim()) return { isError: true, content: "The question is empty." };
    return { isError: false, content: args.question, ends: "awaitUser" };
  },
};

export default askUser;
