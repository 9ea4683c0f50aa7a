import type { Tool } from "../firmware/types";

const tree: Tool = {
  name: "tree",
  description:
    "List the files on the board. Use it to see which files there are, how large they are and how much storage is " +
    "free. Returns one file a line with its size in bytes.",
  parameters: {
    type: "object",
    properties: { pattern: { type: "string", description: "Only names that contain this, * for anything: *.txt" } },
  },
  repeatable: true,
  tier: "look",
  execute(args) {
    const storage = require("Storage");
    const parts = (args.pattern || "").split("*");
    let count = 0;
    let lines = "";
    for (const name of storage.list().sort()) {
      let at = 0;
      for (const part of parts) {
        if (!part || at < 0) continue;
        // The board's indexOf also finds the part of what it looks for that a name ends with, also before `at`: compare.
        const found = name.indexOf(part, at);
        at = found >= at && name.substr(found, part.length) === part ? found + part.length : -1;
      }
      if (at < 0) continue;
      count++;
      // Storage.open keeps a file in numbered pieces; the first one's name is listed and ends in \x01.
      const isPiece = name.charCodeAt(name.length - 1) === 1;
      lines += isPiece
        ? "\n" + name.substr(0, name.length - 1) + " (StorageFile: read_file cannot read it)"
        : "\n" + name + " " + storage.read(name)!.length;
    }
    return count + (count === 1 ? " file, " : " files, ") + storage.getFree() + " bytes free" + lines;
  },
};

export default tree;
