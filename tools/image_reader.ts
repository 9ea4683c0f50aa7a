import { setting } from "../firmware/config";
import { openSource } from "../firmware/disk";
import { createParts } from "../firmware/parts";
import { runAgent } from "../firmware/subagent";
import type { Tool } from "../firmware/types";

const imageReader: Tool = {
  name: "image_reader",
  description:
    "Ask a vision model about an image file of the board. Use it to see what is in a picture. Returns the answer as text.",
  parameters: {
    type: "object",
    properties: {
      query: { type: "string", description: "The question, in a full sentence" },
      image_path: { type: "string", description: "File name; sd: before a path of the SD card" },
    },
    required: ["query", "image_path"],
  },
  needs: "multimodal",
  timeoutMs: 300000,
  execute(args, context) {
    const source = openSource(args.image_path);
    if (typeof source === "string") return { isError: true, content: source };
    source.close();
    const parts = createParts(1);
    parts.append("image", args.image_path);
    const settings: Record<string, any> = { maxToolIterations: 1, historyBytes: 2048 };
    if (setting("imageModel")) settings.model = setting("imageModel");
    return runAgent(
      {
        instruction:
          "You see one image and answer one question about it, in a few sentences of plain text. Say what is to be seen and " +
          "nothing else; if there is no image, say so.",
        tools: "",
        settings: settings,
      },
      { query: args.query },
      context,
      parts.parts
    );
  },
};

export default imageReader;
