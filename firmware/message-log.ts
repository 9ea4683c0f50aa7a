import { setting } from "./config";
import { createFetcher } from "./fetch";
import { cutUtf8, readWhole, wireText } from "./text";
import type { Session } from "./types";

/**
 * What people and the agent said to each other, over all conversations: two Storage files that take turns, each half of
 * `messageLog` bytes. Flash is written as it was made for: each byte of a file once, behind those before it, so that a
 * message costs one small write and no file is written anew. A full half is left alone until the other is full, too, and is
 * then given up: between a half and all of `messageLog` is there to be read.
 *
 * A file is the number of its turn, then a line of JSON for each message: `[seconds, user, group, 1 if the agent said it,
 * text]`. A line that power failed in is no JSON, and is passed over. The files outlive the bundle.
 */
const FILES = "messages.";
/** Bytes of one message that are kept. */
const MESSAGE_BYTES = 300;
/** Less than this is taken as this: a half must have room for a prompt and its answer. */
const LEAST_BYTES = 2048;
/** Bytes of a user's or a group's name that are kept. */
const NAME_BYTES = 32;
/** Before this, in seconds, a board's clock was never set. */
const CLOCK_SET = 1600000000;

/** Whose messages are wanted: those of a user with the answers, or all of a group. */
export interface Wanted {
  user?: string;
  group?: string;
  /** Messages at the most, the newest. */
  limit: number;
}

/** The log. It exists while it is written or read. */
export interface MessageLog {
  /**
   * Adds a prompt and its answer, "" for none, of now; `group` is "" for a talk between two. Returns what is wrong, "" if
   * nothing is. To be called with `messageLog` set only.
   */
  append(user: string, group: string, prompt: string, answer: string): string;
  /**
   * The newest messages, oldest of them first, as lines for a model; from the service at `messageUrl`, where that is set.
   * Rejects in words for the model.
   */
  recent(wanted: Wanted, session: Session): string | Promise<string>;
}

export function messageLog(): MessageLog {
  const storage = require("Storage");

  // The two files, the newer first. `text` is "" where there is no such file; what is no log has turn 0.
  function files(): { name: string; text: string; turn: number }[] {
    const both = [0, 1].map(function (i) {
      const text = storage.read(FILES + i) || "";
      return { name: FILES + i, text: text, turn: parseInt(text.substr(0, 9)) || 0 };
    });
    return both[1].turn > both[0].turn ? both.reverse() : both;
  }

  // Lines for a model of messages, the newest first; as many as fit into a result.
  function lines(wanted: Wanted, messages: any[]): string {
    const most = setting("toolResultBytes");
    let text = "";
    for (const one of messages) {
      let time = one.time;
      if (typeof time === "number") time = time > CLOCK_SET ? new Date(time * 1000).toISOString().substr(0, 16).replace("T", " ") : "";
      const line = (time ? time + " " : "") + (one.user || "somebody") + ": " + String(one.text).split("\n").join(" ");
      if (text.length + line.length >= most) break;
      text = line + (text && "\n") + text;
    }
    return text || "There are no messages of " + (wanted.group ? "the group " + wanted.group : wanted.user) + ".";
  }

  // Whatever the service is behind this address: GET …?user=…&limit=… or ?group=…&limit=… gives {"messages":[{"time":
  // seconds or text,"user":…,"text":…}]}, the newest last, or that list alone.
  function ask(wanted: Wanted, session: Session): Promise<string> {
    const fetcher = createFetcher();
    const url = setting("messageUrl");
    const headers: Record<string, string> = { Accept: "application/json" };
    if (setting("messageToken")) headers.Authorization = "Bearer " + setting("messageToken");
    return fetcher
      .json({
        url:
          url + (url.split("?").length > 1 ? "&" : "?") +
          (wanted.group ? "group=" + fetcher.escape(wanted.group) : "user=" + fetcher.escape(wanted.user || "")) + "&limit=" + wanted.limit,
        headers: headers,
        session: session,
        what: "the message service",
        urlSetting: "messageUrl",
        keySetting: "messageToken",
        keys: "messages,time,user,text",
        maxString: MESSAGE_BYTES,
        maxBytes: 3072,
        timeoutMs: 9000,
      })
      .then(function (json) {
        const messages = json instanceof Array ? json : json.messages;
        if (!(messages instanceof Array)) throw new Error("the message service sent no messages: check messageUrl");
        return lines(wanted, messages.reverse());
      });
  }

  return {
    append: function (user, group, prompt, answer) {
      const size = Math.max(LEAST_BYTES, setting("messageLog")) >> 1;
      const now = Math.floor(getTime());
      const newest = files()[0];
      let added = "";
      [prompt, answer].forEach(function (text, isAnswer) {
        const head = "\n[" + now + "," + wireText(cutUtf8(user, NAME_BYTES)) + "," + wireText(cutUtf8(group, NAME_BYTES)) + "," + isAnswer + ",";
        let json = wireText(cutUtf8(text, MESSAGE_BYTES));
        // Text that is all escapes grows when it is written.
        for (let most = MESSAGE_BYTES; json.length > size >> 2; most >>= 1) json = wireText(cutUtf8(text, most));
        if (text) added += head + json + "]";
      });
      // What was never written reads as bytes that no UTF-8 has.
      const end = newest.turn && newest.text.length === size ? newest.text.indexOf("\xff") : -1;
      const fits = end > 0 && end + added.length <= size;
      // Making room would move files, this running program among them: see files.ts.
      if (!fits && size + 40 > storage.getFree())
        return 'the message log is full, and so is the Storage: set_config({messageLog:0}), or at the console reset(), require("Storage").compact(), load()';
      try {
        if (fits) storage.write(newest.name, added, end);
        else storage.write(FILES + (newest.name === FILES + 0 && newest.turn ? 1 : 0), newest.turn + 1 + added, 0, size);
      } catch (e) {
        return "the message log could not be written: " + (e as Error).message;
      }
      return "";
    },
    recent: function (wanted, session) {
      if (setting("messageUrl")) return ask(wanted, session);
      const found: any[] = [];
      for (const file of files()) {
        const text = file.text;
        let end = text.indexOf("\xff");
        if (end < 0) end = text.length;
        while (end > 0 && found.length < wanted.limit) {
          const at = text.lastIndexOf("\n", end - 1);
          if (at < 0) break;
          const line = readWhole(text.substring(at + 1, end));
          end = at;
          if (!(line instanceof Array) || line.length !== 5 || (wanted.group ? line[2] !== wanted.group : line[1] !== wanted.user)) continue;
          found.push({ time: line[0], user: line[3] ? "agent" : line[1], text: line[4] });
        }
      }
      return lines(wanted, found);
    },
  };
}
