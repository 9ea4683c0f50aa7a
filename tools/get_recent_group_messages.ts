import { messageLog } from "../firmware/message-log";
import type { Tool } from "../firmware/types";

const getRecentGroupMessages: Tool = {
  name: "get_recent_group_messages",
  description:
    "Look up what was said lately in a group chat, by whom. Use it to follow a talk among several people. Returns the " +
    "newest messages with their times.",
  parameters: {
    type: "object",
    properties: {
      group: { type: "string", description: "The group's name" },
      limit: { type: "integer", minimum: 1, maximum: 20, description: "Number of messages, default 6" },
    },
    required: ["group"],
  },
  needs: "messages",
  execute(args, context) {
    if (!args.group) return { isError: true, content: "The group has no name: give one." };
    return messageLog().recent({ group: args.group, limit: args.limit || 6 }, context.session);
  },
};

export default getRecentGroupMessages;
