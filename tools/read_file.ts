import { setting } from "../firmware/config";
import { checkFile } from "../firmware/files";
import { cutUtf8 } from "../firmware/text";
import type { Tool } from "../firmware/types";

const readFile: Tool = {
  name: "read_file",
  description:
    "Read a text file of the board. Use it to show, print or look into a file; tree lists the names. Returns the " +
    "rows asked for, how many rows there are and how to read on.",
  parameters: {
    type: "object",
    properties: {
      path: { type: "string", description: "File name, such as notes.txt" },
      start_row: { type: "integer", minimum: 1, description: "First row, default 1" },
      rows: { type: "integer", minimum: 1, description: "Number of rows, default 20" },
    },
    required: ["path"],
  },
  repeatable: true,
  tier: "look",
  execute(args) {
    const file = checkFile(args.path, false);
    if (file.problem) return { isError: true, content: file.problem };
    const text = require("Storage").read(file.name);
    if (text === undefined)
      return { isError: true, content: "There is no text file " + file.name + ". Call tree to see the names." };
    const first = args.start_row || 1;
    // What the result may hold, less the line above the rows.
    const room = Math.max(setting("toolResultBytes") - 128, 32);
    let total = 0;
    let last = 0;
    let begin = 0;
    let end = 0;
    for (let at = 0; at < text.length; ) {
      const next = text.indexOf("\n", at) + 1 || text.length + 1;
      total++;
      if (total === first) begin = at;
      // The first row always counts, the next ones as long as they fit.
      if (total === first || (last === total - 1 && total < first + (args.rows || 20) && next - begin <= room)) {
        last = total;
        end = next - 1;
      }
      at = next;
    }
    if (total < first) return { isError: true, content: file.name + " has only " + total + " rows." };
    const content = cutUtf8(text.substring(begin, end), room);
    const size = end - begin;
    let head = file.name + ", rows " + first + "-" + last + " of " + total;
    if (content.length < size) head += ", row " + last + " cut at " + content.length + " of " + size + " bytes";
    if (last < total) head += ", read on with start_row " + (last + 1);
    return head + ":\n" + content;
  },
};

export default readFile;
