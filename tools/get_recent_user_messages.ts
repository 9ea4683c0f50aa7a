import { messageLog } from "../firmware/message-log";
import type { Tool } from "../firmware/types";

const getRecentUserMessages: Tool = {
  name: "get_recent_user_messages",
  description:
    "Look up what a user said lately and what you answered, also in earlier conversations. Use it when asked what was said " +
    "before. Returns the newest messages with their times.",
  parameters: {
    type: "object",
    properties: {
      user: { type: "string", description: "Default console, the person at the console" },
      limit: { type: "integer", minimum: 1, maximum: 20, description: "Number of messages, default 6" },
    },
  },
  needs: "messages",
  execute(args, context) {
    return messageLog().recent({ user: args.user || "console", limit: args.limit || 6 }, context.session);
  },
};

export default getRecentUserMessages;
