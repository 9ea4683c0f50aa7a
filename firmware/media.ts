import { setting } from "./config";
import { openSource } from "./disk";
import { mediaType } from "./media-type";
import { type Part } from "./parts";
import { cutUtf8, fromJson, limitText, toJson, wireText } from "./text";
import type { Session } from "./types";
import { upload } from "./upload";

/**
 * Files in messages. The history never holds a file, only a reference between the bytes 01 and 02, which stand nowhere in
 * JSON: type, size, where it is ("" on the board, `u` and a URL, `i` and an id of the file server), and path, with |
 * between. A request has the file itself, or its URL, in the reference's place: media-body.ts.
 */

// Makes parts ready for a message: uploads files where they are to be uploaded, one after the other, and hands `done` the
// text, and the rest as JSON parts with references, comma separated, "" for none. A file that cannot be shown to the model is
// left out: the text says which and why, and so does an event. `from` is who gave the parts. Of a run that was stopped
// nothing more is sent, and `done` is not called.
export function prepareParts(session: Session, parts: Part[], from: string, done: (text: string, media: string) => void): void {
  /** Bytes of the history that the references may fill, and the text. */
  const most = session.history!.bytes.length >> 2;
  const running = session.abort;
  let text = "";
  let media = "";
  let at = 0;

  function say(line: string): void {
    text += (text && "\n") + line;
  }

  function later(): void {
    setTimeout(next, 1);
  }

  function skip(path: string, why: string): void {
    if (session.abort !== running) return;
    path = cutUtf8(path, 66);
    say("[" + path + " cannot be shown: " + why + "]");
    session.emit({ type: "error", message: path + " was not shown to the model: " + why });
    later();
  }

  function take(path: string, type: string, size: number, where: string): void {
    const label = '{"type":"text","text":' + wireText(path + (from && " (" + from + ")")) + "},";
    const reference = "\x01" + [type, size, where, wireText(path).slice(1, -1)].join("|") + "\x02";
    if (media.length + label.length + reference.length + 1 > most) return skip(path, "too much for one message. Show it alone, or raise historyBytes");
    media += (media && ",") + label + reference;
    later();
  }

  function next(): void {
    if (session.abort !== running) return;
    if (at >= parts.length) return done(limitText(text, most), media);
    const part: any = parts[at++] || {};
    const path: string = part.content;
    if (typeof path !== "string") return skip("part " + at, "its content is no text");
    if (part.type === "text") {
      say(path);
      return later();
    }
    if (!setting("multimodal")) return skip(path, "the setting multimodal is off");
    const source = openSource(path);
    if (typeof source === "string") return skip(path, source);
    const size = source.size;
    const type = mediaType(source.name, source.read(0, 12));
    source.close();
    const kind = type.split("/")[0];
    const isOpenai = setting("provider") !== "anthropic";
    const urls = setting("mediaUrlParts");
    const byUrl = setting("uploadUrl");
    // What the dialect takes in one way only, or not at all.
    let onlyInline = false;
    if (!type) return skip(path, "its type is unknown. Give it an ending such as .jpg, .png, .wav, .mp3, .mp4 or .pdf, or have read_file read it");
    if (kind === "video" && !(isOpenai && urls)) return skip(path, "this server takes no video (mediaUrlParts)");
    if (!isOpenai && (kind === "audio" || type === "image/bmp")) return skip(path, "this server takes no " + type);
    if (kind === "audio" && !urls) {
      if (type !== "audio/wav" && type !== "audio/mpeg") return skip(path, "this server takes .wav and .mp3 only (mediaUrlParts)");
      onlyInline = true;
    }
    // This dialect has no URL for a document, but an id of its own file server.
    if (kind === "application" && isOpenai && !byUrl.endsWith("/files")) onlyInline = true;
    if (onlyInline || !byUrl || setting("mediaInline")) {
      const limit = setting("inlineBytes");
      if (size <= limit) return take(path, type, size, "");
      if (onlyInline || !byUrl)
        return skip(path, "it has " + size + " bytes, and " + limit + " may go within a request (inlineBytes)" + (byUrl ? "" : ". A file server takes more (uploadUrl)"));
    }
    upload(session, path, type, function (problem, where) {
      if (problem) skip(path, limitText(problem, 300));
      else take(path, type, size, where);
    });
  }

  // From the idle loop: callers are deep in the stack.
  later();
}

// A prompt with the one of a failed run before it, if there is one (`before`, JSON) and both fit into `most` bytes: many
// models' templates refuse two messages of the user's in a row.
export function joinPrompts(before: string, text: string, media: string, most: number): { text: string; media: string } {
  if (!before) return { text: text, media: media };
  const content = fromJson(before.replace(/[\x01\x02]/g, '"')).content;
  let earlier = content;
  let files = "";
  // The text, then a label and a reference in turn.
  if (typeof content !== "string") {
    earlier = content[0].text;
    for (let i = 1; i + 1 < content.length; i += 2)
      files += (files && ",") + toJson(content[i]) + ",\x01" + wireText(content[i + 1]).slice(1, -1) + "\x02";
  }
  if (earlier.length + text.length + files.length + media.length >= most) return { text: text, media: media };
  return { text: earlier + "\n\n" + text, media: files + (files && media && ",") + media };
}
