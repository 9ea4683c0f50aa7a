import type { Tool } from "../firmware/types";

const getAgentPublicInfo: Tool = {
  name: "get_agent_public_info",
  description:
    "Tell about this agent. Use it when asked who or what you are, your version, the board you run on, or how much " +
    "memory is free. Returns name, version, board and free memory.",
  parameters: { type: "object", properties: {} },
  repeatable: true,
  execute() {
    const memory = process.memory();
    // The version is that of package.json; a test holds the two together.
    const name = "espruino-agent 0.1.0 on " + process.env.BOARD + ", Espruino " + process.env.VERSION;
    return name + ", " + memory.free + " of " + memory.total + " variables free";
  },
};

export default getAgentPublicInfo;
