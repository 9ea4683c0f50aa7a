import { setting } from "../firmware/config";
import { openSource } from "../firmware/disk";
import { mediaType } from "../firmware/media-type";
import { createParts } from "../firmware/parts";
import { cutUtf8 } from "../firmware/text";
import type { Tool } from "../firmware/types";

/** Bytes of the file that are in memory at a time. */
const PIECE_BYTES = 512;

const readFile: Tool = {
  name: "read_file",
  description:
    "Read a text file of the board. Use it to show, print or look into a file; tree lists the names. Returns the " +
    "rows asked for, how many rows there are and how to read on.",
  parameters: {
    type: "object",
    properties: {
      path: { type: "string", description: "File name, such as notes.txt, or sd:notes.txt on the SD card" },
      start_row: { type: "integer", minimum: 1, description: "First row, default 1" },
      rows: { type: "integer", minimum: 1, description: "Number of rows, default 20" },
    },
    required: ["path"],
  },
  repeatable: true,
  execute(args) {
    const source = openSource(args.path);
    if (typeof source === "string") return { isError: true, content: source };
    // A picture is shown.
    const type = mediaType(source.name, source.read(0, 12));
    if (type) {
      source.close();
      if (!setting("multimodal")) return { isError: true, content: args.path + " is " + type + ", no text: show it with set_config({multimodal:true})" };
      const parts = createParts(2);
      parts.append("text", args.path + ", " + type + ", " + source.size + " bytes");
      parts.append("image", args.path);
      return parts;
    }
    const first = args.start_row || 1;
    // What the result may hold, less the line above the rows.
    const room = Math.max(setting("toolResultBytes") - 128, 32);
    let total = 0;
    let last = 0;
    let begin = 0;
    let end = 0;
    let row = 0;
    let at = 0;
    while (at < source.size) {
      const piece = source.read(at, PIECE_BYTES);
      if (!piece) break;
      for (let i = 0; i < piece.length; ) {
        const found = piece.indexOf("\n", i);
        i = found < 0 ? piece.length : found + 1;
        if (found < 0 && at + i < source.size) continue;
        // Also the last row ends before a line break, whether there is one or not.
        const next = at + i + (found < 0 ? 1 : 0);
        total++;
        if (total === first) begin = row;
        // The first row always counts, the next ones as long as they fit.
        if (total === first || (last === total - 1 && total < first + (args.rows || 20) && next - begin <= room)) {
          last = total;
          end = next - 1;
        }
        row = next;
      }
      at += piece.length;
    }
    const content = cutUtf8(source.read(begin, Math.min(end - begin, room + 4)), room);
    source.close();
    if (at < source.size) return { isError: true, content: args.path + " can be read no more: it was changed, or the SD card taken out." };
    if (total < first) return { isError: true, content: source.name + " has only " + total + " rows." };
    const size = end - begin;
    let head = source.name + ", rows " + first + "-" + last + " of " + total;
    if (content.length < size) head += ", row " + last + " cut at " + content.length + " of " + size + " bytes";
    if (last < total) head += ", read on with start_row " + (last + 1);
    return head + ":\n" + content;
  },
};

export default readFile;
