import { setting } from "./config";
import { openSource, type Source } from "./disk";
import { HAS_MEDIA, readHistory, RESULT, SHORT_RESULT, USER } from "./history";
import { fromJson, wireText } from "./text";
import type { History } from "./types";

/** Bytes of the history in one piece; of a file, a multiple of three: base64 makes four of three. */
const PIECE_BYTES = 512;
const FILE_BYTES = 384;
/** Of a reference, at the most. */
const REFERENCE_BYTES = 700;

/** What is told of a file that is not as it was: see `broken` of failure.ts. */
const CHANGED = "a file was changed, or the SD card is gone: ";

/** The messages of a request that hold files: see media.ts for what stands in the history. */
export interface MediaBody {
  /** Bytes of all messages, files included. */
  length: number;
  /** A file server's id is among them. */
  hasId: boolean;
  /** The next piece, undefined after the last. Throws where a file is not as it was when the length was counted. */
  next(): string | undefined;
  /** Lets go of the file that is open. */
  close(): void;
}

/** What a reference is on the wire: `before`, the file as base64 if there is one, `after`. */
interface Place {
  before: string;
  /** Open: whoever asked for the place closes it. */
  file?: Source;
  after: string;
  hasId: boolean;
}

// The messages of the history from byte `sent` on, as they are sent. `mediaKept` says of which messages files go along: those
// that the model has not answered yet always do.
export function openMediaBody(h: History, sent: number): MediaBody {
  const kept = setting("mediaKept");
  /** Where references begin, whether each is sent as what it is, and how many bytes it was counted with. */
  const marks: number[] = [];
  const asFile: boolean[] = [];
  const counted: number[] = [];
  let newest = 0;
  let answered = -1;
  let file: Source | undefined;
  /** Bytes of the file that were sent, and what follows them. */
  let at = 0;
  let after = "";

  // https://platform.openai.com/docs/api-reference/chat/create, content parts: image_url, input_audio, file. audio_url and
  // video_url are vLLM's: https://docs.vllm.ai/en/latest/features/multimodal_inputs.html. Anthropic: image and document blocks,
  // https://platform.claude.com/docs/en/build-with-claude/vision, …/pdf-support, …/files.
  function placeOf(reference: string, shown: boolean): Place {
    const parts = reference.split("|");
    const type = parts[0];
    const where = parts[2];
    const path: string = fromJson('"' + parts.slice(3).join("|") + '"');
    const kind = type.split("/")[0];
    const name = wireText(path.substr(path.lastIndexOf("/") + 1));
    const place: Place = { before: "", after: "", hasId: where.charAt(0) === "i" };
    const link = where.substr(1);
    let note = "was shown earlier";
    if (shown && !where) {
      const source = openSource(path);
      if (typeof source === "string") note = "cannot be shown any more: " + source;
      else if (source.size === Number(parts[1])) place.file = source;
      else {
        source.close();
        note = "was changed since: read it again to see what is there now";
      }
    }
    if (!shown || (!where && !place.file)) {
      place.before = '{"type":"text","text":' + wireText("[" + path + " " + note + "]") + "}";
      place.hasId = false;
      return place;
    }
    const data = where ? link : "data:" + type + ";base64,";
    if (setting("provider") === "anthropic") {
      place.before = '{"type":"' + (kind === "image" ? "image" : "document") + '","source":{"type":"' +
        (place.hasId ? 'file","file_id":"' + link : where ? 'url","url":"' + link : 'base64","media_type":"' + type + '","data":"');
      place.after = '"}}';
    } else if (place.hasId || kind === "application") {
      place.before = '{"type":"file","file":{' + (place.hasId ? '"file_id":"' + link : '"filename":' + name + ',"file_data":"' + data);
      place.after = '"}}';
    } else if (kind === "audio" && !where && !setting("mediaUrlParts")) {
      place.before = '{"type":"input_audio","input_audio":{"data":"';
      place.after = '","format":"' + (type === "audio/wav" ? "wav" : "mp3") + '"}}';
    } else {
      place.before = '{"type":"' + kind + '_url","' + kind + '_url":{"url":"' + data;
      place.after = '"}}';
    }
    if (place.file) return place;
    place.before += place.after;
    place.after = "";
    return place;
  }

  function sizeOf(place: Place): number {
    return place.before.length + place.after.length + (place.file ? Math.ceil(place.file.size / 3) * 4 : 0);
  }

  function referenceAt(from: number): string {
    const text = readHistory(h, from, Math.min(REFERENCE_BYTES, h.used - from));
    return text.substring(1, text.indexOf("\x02"));
  }

  h.sizes.forEach(function (one, i) {
    const kind = one & 7;
    if (kind === USER) newest = i;
    else if (kind !== RESULT && kind !== SHORT_RESULT) answered = i;
  });
  const media: MediaBody = {
    length: h.used - sent,
    hasId: false,
    next: function () {
      if (file) {
        const wanted = Math.min(FILE_BYTES, file.size - at);
        const piece = file.read(at, wanted);
        if (piece.length < wanted) throw new Error(CHANGED + file.name);
        at += wanted;
        if (at >= file.size) media.close();
        return btoa(piece);
      }
      if (after) {
        const piece = after;
        after = "";
        return piece;
      }
      if (sent >= h.used) return undefined;
      if (sent !== marks[0]) {
        const from = sent;
        sent = Math.min(from + PIECE_BYTES, marks.length ? marks[0] : h.used);
        return readHistory(h, from, sent - from);
      }
      const reference = referenceAt(marks.shift()!);
      sent += reference.length + 2;
      const place = placeOf(reference, asFile.shift()!);
      after = place.after;
      file = place.file;
      at = 0;
      if (sizeOf(place) !== counted.shift()) throw new Error(CHANGED + reference.split("|")[3]);
      return place.before;
    },
    close: function () {
      if (file) file.close();
      file = undefined;
    },
  };
  let from = 0;
  h.sizes.forEach(function (one, i) {
    const size = one >> 4;
    const text = one & HAS_MEDIA ? readHistory(h, from, size) : "";
    for (let mark = text.indexOf("\x01"); mark >= 0; ) {
      const end = text.indexOf("\x02", mark);
      const shown = kept === "always" || i > answered || (kept === "run" && i >= newest);
      const place = placeOf(text.substring(mark + 1, end), shown);
      marks.push(from + mark);
      asFile.push(shown);
      media.hasId = media.hasId || place.hasId;
      counted.push(sizeOf(place));
      media.length += sizeOf(place) - (end + 1 - mark);
      if (place.file) place.file.close();
      mark = end + 1 < size ? text.indexOf("\x01", end + 1) : -1;
    }
    from += size;
  });
  return media;
}
