import { runAgent } from "../firmware/subagent";
import type { Tool } from "../firmware/types";

const searchAgent: Tool = {
  name: "search_agent",
  description:
    "An agent that looks things up on the web. Give it one question with all that it must know: it does not see this " +
    "conversation. Returns what it found, with addresses.",
  parameters: {
    type: "object",
    properties: { task: { type: "string", description: "The question, in a full sentence" } },
    required: ["task"],
  },
  tier: "agent",
  needs: "searchUrl",
  execute(args, context) {
    return runAgent(
      {
        instruction:
          "You answer one question with web_search. It is {time}. Search with few words, read what came, search again in other " +
          "words if it does not answer. Say what you found in a few sentences, with the addresses it is from, and say so if you " +
          "did not find it. Never answer from memory.",
        tools: "web_search",
        settings: { maxToolIterations: 10 },
      },
      args,
      context
    );
  },
};

export default searchAgent;
