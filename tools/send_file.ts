import { openSource } from "../firmware/disk";
import { mediaType } from "../firmware/media-type";
import { upload } from "../firmware/upload";
import type { Tool, ToolOutput } from "../firmware/types";

const sendFile: Tool = {
  name: "send_file",
  description:
    "Show a file of the board to the person: a link to it is printed at the console. Use it for pictures and recordings, or " +
    "what is too long to print.",
  parameters: {
    type: "object",
    properties: { path: { type: "string", description: "File name; sd: before a path of the SD card" } },
    required: ["path"],
  },
  repeatable: true,
  needs: "uploadUrl",
  timeoutMs: 300000,
  execute(args, context) {
    const session = context.session;
    const source = openSource(args.path);
    if (typeof source === "string") return { isError: true, content: source };
    const size = source.size;
    const type = mediaType(source.name, source.read(0, 12)) || "application/octet-stream";
    source.close();
    return new Promise<ToolOutput>(function (resolve) {
      upload(session, args.path, type, function (problem, where) {
        const link = where.substr(1);
        if (!problem && where.charAt(0) === "i")
          problem = "the file server gives no link, only the id " + link + ": the person can have it there (downloadUrl)";
        if (problem) return resolve({ isError: true, content: args.path + " was not shown: " + problem });
        session.emit({ type: "file", path: args.path, size: size, url: link });
        resolve(args.path + " is shown to the person, at " + link);
      });
    });
  },
};

export default sendFile;
