import { checkFile, writeFile } from "../firmware/files";
import type { Tool } from "../firmware/types";

const editFile: Tool = {
  name: "edit_file",
  description:
    "Write, create or change a text file of the board. Mode create (default) makes a new file, overwrite writes it " +
    "anew, append adds text as a new line at the end, replace puts text in place of old_text. Returns the new size.",
  parameters: {
    type: "object",
    properties: {
      path: { type: "string", description: "File name, such as notes.txt" },
      text: { type: "string", description: "The text to be written" },
      mode: { type: "string", enum: ["create", "overwrite", "append", "replace"], description: "Default create" },
      old_text: { type: "string", description: "Only with mode replace: the piece of the file to be replaced" },
    },
    required: ["path", "text"],
  },
  tier: "do",
  execute(args) {
    const file = checkFile(args.path, true);
    const name = file.name;
    const oldText = args.old_text;
    const mode = args.mode || (oldText ? "replace" : "create");
    const old = file.problem ? "" : require("Storage").read(name);
    let text = args.text;
    let head = "";
    let tail = "";
    let problem = file.problem;
    if (problem) {
      // told below
    } else if (mode === "replace") {
      // The board's indexOf also finds the part of what it looks for that a text ends with: compare.
      const is = function (i: number): boolean {
        return i >= 0 && old!.substr(i, oldText.length) === oldText;
      };
      const at = old === undefined || !oldText ? -1 : old.indexOf(oldText);
      if (old === undefined) problem = "There is no file " + name + ". Call tree to see the names.";
      else if (!oldText) problem = "Mode replace needs old_text, the piece of " + name + " to be replaced.";
      else if (!is(at)) problem = "old_text is not in " + name + ". Read the file and give the piece exactly.";
      else if (is(old.indexOf(oldText, at + 1)))
        problem = "old_text is in " + name + " more than once. Give a longer piece that is there once only.";
      else {
        head = old.substr(0, at);
        tail = old.substr(at + oldText.length);
      }
    } else if (oldText) problem = "old_text goes with mode replace only.";
    else if (old !== undefined && mode === "create")
      problem = name + " exists already (" + old.length + " bytes). Use mode overwrite, append or replace.";
    else if (old && mode === "append") {
      head = old;
      if (old.charAt(old.length - 1) !== "\n" && text.charAt(0) !== "\n") text = "\n" + text;
    }
    if (!problem) problem = writeFile(name, [head, text, tail]);
    if (problem) return { isError: true, content: problem };
    const size = head.length + text.length + tail.length;
    return name + (old === undefined ? " created" : " changed") + ", now " + size + " bytes";
  },
};

export default editFile;
