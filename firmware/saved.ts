import { setting } from "./config";
import { writeFile } from "./files";
import { HAS_MEDIA, readHistory } from "./history";
import { open } from "./session";
import { fromJson, toJson } from "./text";
import type { Session } from "./types";

/**
 * Storage file that keeps a conversation: a line of JSON, then the messages as the history has them. The names in it
 * must be none of those that the build shortens: the file outlives the bundle.
 */
const FILE = "session";
/** Where a file goes that cannot be read. */
const DAMAGED_FILE = "session.bad";

/** Keeps a conversation across restarts. Both return what came of it, for the person. */
export interface SavedSession {
  save(): string;
  /** Replaces the conversation by the saved one. A damaged file is set aside, and the conversation stays as it is. */
  load(): string;
}

export function savedSession(session: Session): SavedSession {
  return {
    save: function () {
      const h = session.history;
      if (session.abort) return "busy: save when the answer is there";
      if (!h || !h.used) return "there is no conversation to save";
      const text = readHistory(h, 0, h.used);
      const head = toJson({ provider: h.provider, lengths: h.sizes, crc: E.CRC32(text) }) + "\n";
      return writeFile(FILE, [head, text]) || h.sizes.length + " messages saved";
    },
    load: function () {
      if (session.abort) return "busy: load when the answer is there";
      const file = require("Storage").read(FILE);
      if (file === undefined) return "there is no saved conversation: session_save makes one";
      const at = file.indexOf("\n");
      const text = file.substr(at + 1);
      let sizes: any;
      let media = false;
      let provider;
      try {
        const head = fromJson(file.substr(0, at));
        let used = 0;
        for (const size of head.lengths) {
          used += size >> 4;
          media = media || !!(size & HAS_MEDIA);
        }
        if (used === text.length && E.CRC32(text) === head.crc) sizes = head.lengths;
        provider = head.provider;
      } catch (e) {
        sizes = undefined;
      }
      if (!sizes) {
        const problem = writeFile(DAMAGED_FILE, [file]);
        if (problem) return "the saved conversation is damaged, and could not be set aside: " + problem;
        require("Storage").erase(FILE);
        return "the saved conversation is damaged: it is set aside as " + DAMAGED_FILE + ", nothing else changed";
      }
      if (provider !== setting("provider"))
        return "the saved conversation is one with provider " + provider + ': set_config({provider:"' + provider + '"}) first';
      open(session);
      const h = session.history!;
      if (text.length > h.bytes.length)
        return "the saved conversation has " + text.length + " bytes, more than historyBytes: raise it, then clear_history";
      h.bytes.set(text, 0);
      h.used = text.length;
      h.sizes = sizes;
      h.media = media;
      return sizes.length + " messages loaded";
    },
  };
}
