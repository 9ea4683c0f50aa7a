import { setting } from "./config";
import { askService, escapeQuery } from "./fetch";
import { cutUtf8, readWhole, wireText } from "./text";
import type { Session, ToolOutput } from "./types";

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
/** After this, in the year 5138, no clock ever is: it is milliseconds, or no time. */
const CLOCK_END = 1e11;

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
   * What is wrong with that is an error result.
   */
  recent(wanted: Wanted, session: Session): ToolOutput | Promise<ToolOutput>;
}

export function messageLog(): MessageLog {
  const storage = require("Storage");

  // The two files, the newer first. `text` is "" where there is no such file; what is no log has turn 0.
  function files(): { name: string; text: string; turn: number }[] {
    const both = [0, 1].map(function (i) {
      const text = storage.read(FILES + i) || "";
      return { name: FILES + i, text: text, turn: parseInt(text.substr(0, 15)) || 0 };
    });
    return both[1].turn > both[0].turn ? both.reverse() : both;
  }

  // One message as a line for a model.
  function lineOf(time: any, user: any, text: any): string {
    if (typeof time === "number") {
      // Services count milliseconds, too; beyond what a clock tells, it is none.
      if (time > CLOCK_END) time /= 1000;
      time = time > CLOCK_SET && time < CLOCK_END ? new Date(time * 1000).toISOString().substr(0, 16).replace("T", " ") : "";
    }
    return (time ? time + " " : "") + (user || "somebody") + ": " + String(text).split("\n").join(" ");
  }

  function none(wanted: Wanted): string {
    return "There are no messages of " + (wanted.group ? "the group " + wanted.group : wanted.user) + ".";
  }

  // Whatever the service is behind this address: GET …?user=…&limit=… or ?group=…&limit=… gives {"messages":[{"time":
  // seconds or text,"user":…,"text":…}]}, the newest last, or that list alone.
  function ask(wanted: Wanted, session: Session): Promise<ToolOutput> {
    const parts = setting("messageUrl").split("?");
    // An address without a path.
    if (parts[0].split("/").length < 4) parts[0] += "/";
    const headers: Record<string, string> = { Accept: "application/json" };
    if (setting("messageToken")) headers.Authorization = "Bearer " + setting("messageToken");
    const most = setting("toolResultBytes");
    let lines = "";
    let time: any;
    let user: any;
    let text: any;
    return askService({
      url:
        parts.join("?") + (parts.length > 1 ? "&" : "?") +
        (wanted.group ? "group=" + escapeQuery(wanted.group) : "user=" + escapeQuery(wanted.user || "")) + "&limit=" + wanted.limit,
      headers: headers,
      timeoutMs: 9000,
      session: session,
      what: "The message service",
      urlSetting: "messageUrl",
      keySetting: "messageToken",
      keys: "messages,time,user,text",
      maxString: MESSAGE_BYTES,
      take: function (key, value) {
        if (key === "time") time = value;
        else if (key === "user") user = value;
        else if (key === "text") text = value;
        else if (text !== undefined) {
          lines += (lines && "\n") + lineOf(time, user, text);
          time = user = text = undefined;
          // The newest come last.
          while (lines.length > most && lines.indexOf("\n") > 0) lines = lines.substr(lines.indexOf("\n") + 1);
        }
      },
      end: function () {
        return lines || none(wanted);
      },
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
      if (!added) return "";
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
      const most = setting("toolResultBytes");
      let left = wanted.limit;
      let lines = "";
      for (const file of files()) {
        const text = file.text;
        let end = text.indexOf("\xff");
        if (end < 0) end = text.length;
        while (left > 0) {
          const at = end > 0 ? text.lastIndexOf("\n", end - 1) : -1;
          if (at < 0) break;
          const one = readWhole(text.substring(at + 1, end));
          end = at;
          if (!(one instanceof Array) || one.length !== 5 || (wanted.group ? one[2] !== wanted.group : one[1] !== wanted.user)) continue;
          const line = lineOf(one[0], one[3] ? "agent" : one[1], one[4]);
          const fits = !lines || lines.length + line.length < most;
          left = fits ? left - 1 : 0;
          if (fits) lines = line + (lines && "\n") + lines;
        }
      }
      return lines || none(wanted);
    },
  };
}
