import { quoteBytes, rawBytes, repairUtf8 } from "./utf8";

/**
 * Bytes and UTF-8. A string on the board is bytes, one character each; these functions keep it valid UTF-8 where it is
 * cut, decoded or written as JSON.
 */

// Cuts `text` to at most `max` bytes, never inside a UTF-8 character.
export function cutUtf8(text: string, max: number): string {
  if (text.length <= max) return text;
  let end = max > 0 ? max : 0;
  while (end > 0 && (text.charCodeAt(end) & 0xc0) === 0x80) end--;
  return text.substr(0, end);
}

// Cuts `text` to at most `max` bytes in all, with a marker that says how much was kept, and `how` to get the rest. The
// marker is ASCII.
export function limitText(text: string, max: number, how?: string): string {
  if (text.length <= max) return text;
  how = how ? "; " + how : "";
  const kept = cutUtf8(text, max - 36 - how.length);
  return kept + "\n[cut: " + kept.length + " of " + text.length + " bytes" + how + "]";
}

// An instruction with what is so now in the place of {time}, {board}, {folder}, {memory} and {question}.
export function fillTemplate(text: string, question: string): string {
  // The board's split gives nothing for a text that is shorter than what it is split at.
  if (text.length < 10 || text.indexOf("{") < 0) return text;
  return text
    .split("{time}").join(new Date().toString())
    .split("{board}").join(process.env.BOARD)
    .split("{folder}").join("the board's Storage, which is flat: file names of at most 28 characters, no folders")
    .split("{memory}").join(process.memory().free + " variables")
    .split("{question}").join(question);
}

// Turns the \uXXXX escapes of a JSON text into what they stand for, before anything parses it: the board's JSON.parse
// keeps only their low byte. Escapes below 0x80 are left to JSON.parse (they may be a quote).
//
// The board's indexOf also finds a part of what it looks for at the end of a text, and never looks beyond that: hence
// no search from the end on.
//
// Half of a surrogate pair becomes U+FFFD, except at the edge of its string: the other half may be in the next piece,
// reply.ts joins them.
export function decodeEscapes(json: string): string {
  let at = json.indexOf("\\u");
  if (at < 0) return json;
  let out = "";
  let from = 0;

  // What the four hex digits at `start` stand for; 0 if they are not four hex digits.
  function codeAt(start: number): number {
    const digits = json.substr(start, 4);
    return (digits.length === 4 && Number("0x" + digits)) || 0;
  }

  // One code point of 0x80 or more as UTF-8 bytes; half of a surrogate pair comes out as three bytes, too.
  function encode(code: number): string {
    if (code < 0x800) return String.fromCharCode(0xc0 | (code >> 6), 0x80 | (code & 63));
    const end = String.fromCharCode(0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
    if (code < 0x10000) return String.fromCharCode(0xe0 | (code >> 12)) + end;
    return String.fromCharCode(0xf0 | (code >> 18), 0x80 | ((code >> 12) & 63)) + end;
  }

  while (at >= 0) {
    let slash = at;
    while (slash > 0 && json.charAt(slash - 1) === "\\") slash--;
    let next = at + 2;
    let code = ((at - slash) & 1) === 0 ? codeAt(next) : 0;
    if (code >= 0x80) {
      next += 4;
      if ((code & 0xf800) === 0xd800) {
        const low = code < 0xdc00 && json.substr(next, 2) === "\\u" ? codeAt(next + 2) : 0;
        if ((low & 0xfc00) === 0xdc00) {
          code = 0x10000 + ((code & 0x3ff) << 10) + (low & 0x3ff);
          next += 6;
        } else if (code < 0xdc00 ? json.charAt(next) !== '"' : json.charAt(at - 1) !== '"' || json.charAt(at - 2) === "\\") code = 0xfffd;
      }
      out += json.substring(from, at) + encode(code);
      from = next;
    }
    at = next < json.length ? json.indexOf("\\u", next) : -1;
  }
  return out + json.substr(from);
}

// A value as JSON for the wire. Bytes of 0x80 and more stay raw: the board's own JSON.stringify would make mojibake of
// them. Infinity and NaN become null.
export function toJson(value: any): string {
  if (typeof value === "string") return /[\x80-\xff]/.test(value) ? quoteBytes(value) : JSON.stringify(value);
  const json = JSON.stringify(value);
  return json.indexOf("\\u") < 0 ? json : rawBytes(json);
}

/** Nested as deep as that, nothing is meant; the board's JSON.parse uses up its stack, which nothing can catch. */
const TOO_DEEP = 256;

// Parses JSON text of bytes. Throws what JSON.parse throws.
export function fromJson(text: string): any {
  // Only in a text that is long enough, and has a few in a row: it takes a million instructions.
  if (text.length > 2 * TOO_DEEP && text.indexOf("[[[[[[[[") >= 0 && text.indexOf("".padEnd(TOO_DEEP, "[")) >= 0) throw new Error("nested too deeply");
  return JSON.parse(decodeEscapes(text));
}

// One object or array that a JSON text is; undefined if the text is anything else, cut off, or followed by anything.
// Inside brackets, because the board's JSON.parse ignores what follows a value.
export function readWhole(text: string): any {
  text = text.trim();
  const first = text.charAt(0);
  if ((first !== "{" || !text.endsWith("}")) && (first !== "[" || !text.endsWith("]"))) return undefined;
  try {
    const list = fromJson("[" + text + "]");
    return list.length === 1 ? list[0] : undefined;
  } catch (e) {
    return undefined;
  }
}

/** Bytes of a text that are looked at as one: those without any beyond ASCII take a tenth of the others' work. */
const QUOTED_BYTES = 96;

// A text as a JSON string for the wire. Every byte that is no part of valid UTF-8 becomes U+FFFD: one bad byte in the
// history would make a server refuse every request that follows.
//
// What JSON.stringify gives tells whether there is one beyond ASCII, in less time than a look at the text.
export function wireText(text: string): string {
  let out = '"';
  for (let at = 0; at < text.length; ) {
    let piece = text.substr(at, QUOTED_BYTES + 1);
    piece = cutUtf8(piece, QUOTED_BYTES) || piece.substr(0, QUOTED_BYTES);
    at += piece.length;
    let json = JSON.stringify(piece);
    if (json.length > piece.length + 2 && json.indexOf("\\u") >= 0) json = quoteBytes(repairUtf8(piece));
    out += json.substring(1, json.length - 1);
  }
  return out + '"';
}
