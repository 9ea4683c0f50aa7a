import { setting } from "../firmware/config";
import { openSink, type Sink } from "../firmware/sink";
import { send } from "../firmware/fetch";
import type { Tool, ToolOutput } from "../firmware/types";

/** Milliseconds: 1 MB at 10 kB a second. */
const LIMIT_MS = 110000;

const saveMedia: Tool = {
  name: "save_media",
  description:
    "Save a picture, recording or video from a URL as a file of the board. Use it to keep what a model or a web page gave " +
    "as a link. Returns the file's name, size and type.",
  parameters: {
    type: "object",
    properties: {
      url: { type: "string", description: "Where it is, http:// or https://" },
      path: { type: "string", description: "New file, such as cat.png, or sd:cat.png on the SD card" },
    },
    required: ["url", "path"],
  },
  needs: "multimodal",
  timeoutMs: LIMIT_MS + 5000,
  execute(args, context) {
    const url: string = args.url.trim();
    const path: string = args.path;
    const most = setting("mediaBytes");
    let type = "";
    let problem = "";
    let sink: Sink | undefined;
    /** Bytes that will come, -1 where the server does not say, and that were written. */
    let size = -1;
    let at = 0;

    if (!/^https*:\/\/[^\x00-\x20\x7f]+$/.test(url)) return { isError: true, content: "url must start with http:// or https:// and hold no spaces." };

    const from = url.split("?")[0] + " ";

    return new Promise<ToolOutput>(function (resolve) {
      send(
        { url: url, headers: { Accept: "image/*,audio/*,video/*" }, timeoutMs: LIMIT_MS, session: context.session },
        function (status, headers) {
          const length = parseInt(E.lookupNoCase(headers, "content-length") as string);
          let said = "";
          type = String(E.lookupNoCase(headers, "content-type") || "").split(";")[0].trim().toLowerCase();
          if (length >= 0) size = length;
          if (status > 299 && status < 400) said = "sends us elsewhere (" + status + "): ask for the address that it leads to.";
          else if (status < 200 || status > 299) said = "answered " + status + ": the link may be wrong, or no longer valid.";
          else if (type && !/^image\/|^audio\/|^video\/|^application\/octet-stream$|^application\/pdf$/.test(type)) said = "gave " + type + ", which is no picture, recording or video.";
          else if (size > most) said = "has " + size + " bytes, more than mediaBytes allows (" + most + ").";
          else if (!size) said = "is empty.";
          // Without either, the board takes its first bytes for all.
          else if (size < 0 && E.lookupNoCase(headers, "transfer-encoding") === undefined) said = "does not say how long it is: it cannot be saved.";
          if (said) problem = from + said;
        },
        function (piece) {
          if (!problem && !sink) {
            // A page that says what went wrong, whatever it calls itself.
            if (/^[<{]/.test(piece.substr(0, 64).trim()) && !type.startsWith("image/svg")) problem = from + "gave a text, not " + (type || "a file") + ".";
            const opened = problem ? "" : openSink(path, size);
            if (typeof opened === "string") problem = problem || opened;
            else sink = opened;
          }
          if (problem) return true;
          if (at + piece.length > most) problem = from + "is longer than mediaBytes allows (" + most + ").";
          else problem = sink!.write(piece);
          at += piece.length;
          return !!problem;
        },
        function (failure) {
          problem = problem || failure || (sink ? "" : from + "gave nothing.");
          if (!problem) problem = sink!.close();
          else if (sink) sink.drop();
          if (problem) resolve({ isError: true, content: "Nothing was saved: " + problem });
          else resolve(path + ", " + at + " bytes" + (type && ", " + type) + (size < 0 ? ". The server did not say how many there are: it may be cut off." : ""));
        }
      );
    });
  },
};

export default saveMedia;
