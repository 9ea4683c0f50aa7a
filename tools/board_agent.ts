import { runAgent } from "../firmware/subagent";
import type { Tool } from "../firmware/types";

const boardAgent: Tool = {
  name: "board_agent",
  description:
    "An agent that sets and reads the pins of the board: lamps, relays, motors, sensors. Give it one task with pin numbers " +
    "where they are known: it does not see this conversation. Returns what it did and what the pins say.",
  parameters: {
    type: "object",
    properties: { task: { type: "string", description: "The task, in full sentences" } },
    required: ["task"],
  },
  tier: "agent",
  execute(args, context) {
    return runAgent(
      {
        instruction:
          "You set and read pins of the board {board} with your tools. It is {time}. Do what the task says and nothing else. If a " +
          "tool returns an error, correct the call or say what is wrong. Then say in one sentence what you did.",
        tools: "gpio_read,gpio_write,pwm_write,adc_read",
      },
      args,
      context
    );
  },
};

export default boardAgent;
