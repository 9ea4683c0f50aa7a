import { cardProblem, checkCardPath, isOnCard } from "../firmware/card";
import type { Tool } from "../firmware/types";

const tree: Tool = {
  name: "tree",
  description:
    "List the files on the board. Use it to see which files there are, how large they are and how much storage is " +
    "free. Returns one file a line with its size in bytes. With sd: it lists the SD card.",
  parameters: {
    type: "object",
    properties: { pattern: { type: "string", description: "Only names that contain this, * for anything: *.txt, sd:photos/*.jpg" } },
  },
  repeatable: true,
  execute(args) {
    const storage = require("Storage");
    const pattern: string = args.pattern || "";
    // Of a path of the card, the pattern is what stands behind its last /.
    const folder = isOnCard(pattern) ? pattern.substr(0, Math.max(pattern.lastIndexOf("/"), 2) + 1) : "";
    const card = checkCardPath(folder);
    const parts = pattern.substr(folder.length).split("*");
    let names: string[];
    let count = 0;
    let lines = "";
    if (card.problem) return { isError: true, content: card.problem };
    try {
      names = folder ? require("fs").readdirSync(card.name.replace(/\/+$/, "")) : storage.list();
      // So says the Linux build where there is no such folder.
      if (!names) throw "NO_PATH";
    } catch (e) {
      return { isError: true, content: cardProblem(folder, e) };
    }
    for (const name of names.sort()) {
      let at = 0;
      for (const part of parts) {
        if (!part || at < 0) continue;
        // The board's indexOf also finds the part of what it looks for that a name ends with, also before `at`: compare.
        const found = name.indexOf(part, at);
        at = found >= at && name.substr(found, part.length) === part ? found + part.length : -1;
      }
      // The Linux build lists a folder itself and the one above, too.
      if (at < 0 || (folder && name.replace(/\.+$/, "") === "")) continue;
      count++;
      const info = folder && require("fs").statSync(card.name + name);
      // Storage.open keeps a file in numbered pieces; the first one's name is listed and ends in \x01.
      const isPiece = name.charCodeAt(name.length - 1) === 1;
      if (isPiece) lines += "\n" + name.substr(0, name.length - 1) + " (StorageFile: read_file cannot read it)";
      else if (folder) lines += "\n" + folder + name + (!info ? "" : info.dir ? "/" : " " + info.size);
      else lines += "\n" + name + " " + storage.read(name)!.length;
    }
    return count + (count === 1 ? " file" : " files") + (folder ? " on the SD card in " + folder : ", " + storage.getFree() + " bytes free") + lines;
  },
};

export default tree;
