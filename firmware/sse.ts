import { wireText } from "./text";
import { Gives } from "./types";

/**
 * Server-sent events, in pieces of any size: the same events however the bytes are cut. Follows the WHATWG HTML standard's
 * "event stream" parsing (line ends LF, CR LF and CR, comments, several data lines, one BOM), of which only `data` matters
 * here. Built-ins touch the bytes; no loop runs per character. Events are asked for one by one: the stack is short, and a
 * list of them would be in memory twice.
 *
 * The events of a reply mostly differ in one string, the piece of text that each carries. Such events are recognised by
 * what stands before and behind that string, without a look at their lines, and their texts are joined: that is nine
 * tenths of the work saved.
 */
export interface SseParser {
  /** What came and is not read yet, from `at` on: whoever has more appends it, and calls `alike` and `next` in turn. */
  rest: string;
  at: number;
  /** The strings of the events that `alike` has recognised, joined, for the caller to take; "" for none. */
  text: string;
  /** What `learn` was told of those events. */
  kind: Gives;
  index?: any;
  /** Data of the event that `next` gave; "" where it is left out, because it or a line of it is too long. */
  data: string;
  /** 1: it is short, and there is no escape in it. */
  plain: number;
  /** What stood before it, where it is a usual one. */
  name: string;
  /** An event is left out where it or a line of it has more bytes. */
  most: number;
  /** What begins an event that is recognised, what follows its string, and what follows the random field, if it has one. */
  head: string;
  tail: string;
  last: string;
  /** Checksum of what the event that was learnt from has in the place of the string; undefined as soon as the place is sure. */
  sample?: number;
  /** Up to there in `rest` events are read one by one. */
  slow: number;
  /** Lines of the event at `at` are read already, or there is a CR. */
  rough?: boolean;
  /** Up to there in `rest` is no line end. */
  scanned: number;
  lessons: number;
  /** Data of the event whose first lines are read. */
  lines?: string;
  /** Inside a line that is too long: its rest is thrown away. */
  skipLine?: boolean;
  /** Inside an event that is left out. */
  skipEvent?: boolean;
  /** A CR was seen: from then on all line ends are made LF. 2 where what came last ended in one. */
  crs: number;
  /** Bytes of `rest` that came before, whose line ends are made. */
  made: number;
  /** The first line is over. */
  begun?: boolean;
  /**
   * Takes the events that are recognised; to be called where `head` stands at `at`, and not while `sample` is set. True where
   * nothing else is to be read before more has come.
   */
  alike(): boolean;
  /** Takes the next event: false where none is whole. At the end of the stream two line ends make what is there whole. */
  next(): boolean;
}

/** Events that are looked at for what later ones may have in common with them, without one that had. */
const MAX_LESSONS = 6;
/** A field of random text that some servers end their events with, so that their length tells nothing. */
const RANDOM_FIELD = ',"obfuscation":"';
/** Longer data may be nested too deeply. */
const PLAIN_BYTES = 512;
/** Of an event's data. */
const LARGE_BYTES = 200;

// Plain data, and functions without a scope of their own: they cost half of what closures do. Fields are looked up in order.
export function createSseParser(most: number): SseParser {
  // The same empty text for all: each one that is written costs a variable.
  const none = String();
  return {
    rest: none,
    at: 0,
    text: none,
    slow: 0,
    sample: 0,
    most: most,
    head: none,
    tail: none,
    last: none,
    kind: Gives.Nothing,
    scanned: 0,
    data: none,
    plain: 0,
    name: none,
    lessons: 0,
    crs: 0,
    made: 0,
    alike: alike,
    next: next,
  };
}

// The interpreter reads all of a function whenever it runs: what is done for every piece of a stream stands apart.
function alike(this: SseParser): boolean {
  const sse = this;
  const rest = sse.rest;
  const head = sse.head;
  const size = head.length;
  let at = sse.at;
  if (sse.rough || at < sse.slow || rest.length - at > sse.most) return false;
  const tail = sse.tail;
  const last = sse.last;
  let text: string | undefined = "";
  let end = 0;
  if (last)
    do {
      end = rest.indexOf(tail, at + size);
      const next = rest.indexOf('"', end + tail.length);
      if (end < 0 || !rest.startsWith(last, next)) break;
      text += rest.substring(at + size, end);
      at = next + last.length;
    } while (rest.startsWith(head, at));
  // The board's indexOf finds a part of the needle at the end, too.
  else
    while ((end = rest.indexOf(tail, at + size)) >= 0 && end + tail.length <= rest.length) {
      text += rest.substring(at + size, end);
      at = end + tail.length;
      if (!rest.startsWith(head, at)) break;
    }
  // What the text of a JSON string is not by itself.
  if (/[\x00-\x1f"\\\xed]/.test(text)) text = unquoted(text, sse, at);
  if (text === undefined) {
    sse.slow = at;
    return false;
  }
  sse.text = text;
  if (at > sse.at) sse.lessons = 0;
  sse.at = at;
  // What begins an event that is recognised is left until the rest of it comes.
  const left = rest.substr(at);
  if (left.length < size ? !head.startsWith(left) : !left.startsWith(head) || (left.length > size && left.indexOf("\n", size) >= 0)) return false;
  sse.rest = left;
  sse.at = sse.slow = 0;
  return true;
}

// The text of the strings up to `end`, joined; undefined where they are to be read one by one: an escape that was cut in two is
// none, and half of a character joins others in a way of its own. Not in one expression: a "|" takes the board twenty times
// as long.
function unquoted(text: string, sse: SseParser, end: number): string | undefined {
  if (text.indexOf("\\u") >= 0) return undefined;
  if (/[\x00-\x1f\xed]/.test(text) && (/[\x00-\x1f]/.test(text) || /\xed[\xa0-\xbf]/.test(text))) return undefined;
  const escaped = sse.rest.indexOf("\\" + sse.tail, sse.at);
  if (escaped >= 0 && escaped < end) return undefined;
  try {
    const list = JSON.parse('["' + text + '"]');
    return list.length === 1 ? list[0] : undefined;
  } catch (e) {
    return undefined;
  }
}

// The usual event is one line of data, and at the most one of its name before that.
function next(this: SseParser): boolean {
  const sse = this;
  if (sse.rough) return readLines(sse);
  const rest = sse.rest;
  const at = sse.at;
  const size = rest.length;
  const from = rest.indexOf("data: ", at) + 6;
  // The board's indexOf finds a part of the needle at the end, too, and may look before where it begins if that is the end.
  const end = from < size ? rest.indexOf("\n\n", from) : -1;
  if (end > from && end + 2 <= size && end - at <= sse.most && (from === at + 6 || /^event: [^\r\n]*\n$/.test(rest.substring(at, from - 6)))) {
    const data = rest.substring(from, end);
    sse.plain = data.length > PLAIN_BYTES || /[\r\n\\]/.test(data) ? 0 : 1;
    if (sse.plain || (data.indexOf("\n") < 0 && data.indexOf("\r") < 0)) {
      sse.data = data;
      sse.name = rest.substring(at, from);
      sse.at = end + 2;
      sse.begun = true;
      // What is large is not in memory twice.
      if (data.length > LARGE_BYTES) {
        sse.rest = rest.substr(end + 2);
        sse.slow -= end + 2;
        sse.at = 0;
      }
      return true;
    }
  }
  if (end >= 0 || size - at > sse.most || (size > at && rest.indexOf("\r", at) >= 0)) return readLines(sse);
  // Left until the rest of it comes.
  if (at) sse.rest = rest.substr(at);
  sse.at = sse.slow = 0;
  return false;
}

// Any event, line by line.
function readLines(sse: SseParser): boolean {
  const at = sse.at;
  sse.rest = sse.rest.substr(at);
  sse.made -= at;
  sse.slow -= at;
  if (!sse.rough) sse.scanned = 0;
  sse.at = sse.plain = 0;
  sse.name = "";
  for (;;) {
    let rest = sse.rest;
    // Line ends of the kind CR LF and CR as LF in what is not read yet, also where the two came in different pieces.
    if (sse.crs && sse.made < rest.length) {
      let piece = rest.substr(sse.made);
      if (sse.crs === 2 && piece.charAt(0) === "\n") piece = piece.substr(1);
      sse.crs = piece.endsWith("\r") ? 2 : 1;
      sse.rest = rest = rest.substr(0, sse.made) + piece.split("\r\n").join("\n").split("\r").join("\n");
      sse.made = rest.length;
    }
    const scanned = sse.scanned;
    const end = scanned < rest.length ? rest.indexOf("\n", scanned) : -1;
    let line = end < 0 ? "" : rest.substr(0, end);
    if (!sse.crs && (end < 0 ? scanned < rest.length && rest.indexOf("\r", scanned) >= 0 : line.indexOf("\r") >= 0)) {
      sse.crs = 1;
      sse.made = sse.scanned = 0;
      sse.rough = true;
      continue;
    }
    let tooLong = !sse.skipLine && (end < 0 ? rest.length : end) > sse.most;
    let whole: string | undefined;
    if (end >= 0) sse.rough = true;
    if (end >= 0 && !sse.skipLine && !tooLong) {
      if (!sse.begun && line.startsWith("\xef\xbb\xbf")) line = line.substr(3);
      if (!line) {
        whole = sse.lines;
        sse.lines = undefined;
        sse.skipEvent = false;
        sse.rough = !!sse.crs;
      } else if (!sse.skipEvent && (line === "data" || line.startsWith("data:"))) {
        line = line.substr(line.charAt(5) === " " ? 6 : 5);
        sse.lines = line = sse.lines === undefined ? line : sse.lines + "\n" + line;
        tooLong = line.length > sse.most;
      }
    }
    const isLost = tooLong && !sse.skipEvent;
    if (tooLong) {
      sse.skipEvent = true;
      sse.rough = true;
      sse.lines = undefined;
    }
    if (end >= 0 || tooLong) sse.begun = true;
    sse.skipLine = end < 0 && (sse.skipLine || tooLong);
    const size = end < 0 ? (sse.skipLine ? rest.length : 0) : end + 1;
    if (size) sse.rest = rest.substr(size);
    sse.made -= size;
    sse.slow -= size;
    sse.scanned = end < 0 ? rest.length - size : 0;
    sse.data = whole || "";
    if (whole || isLost) return true;
    if (end < 0) return false;
  }
}

// Right after `next`: `text`, of a kind, is what came of the event, and nothing else. Later ones may differ in it only.
export function learn(sse: SseParser, text: string, kind: Gives, index: any): void {
  if (!sse.name || ++sse.lessons > MAX_LESSONS) return;
  const event = sse.name + sse.data + "\n\n";
  const json = wireText(text);
  const place = event.indexOf(":" + json, sse.name.length) + 2;
  // Written in another way.
  if (place < 2) return;
  const head = event.substr(0, place);
  let tail = event.substr(place + json.length - 2);
  let last = "";
  const random = tail.indexOf(RANDOM_FIELD);
  // The board's indexOf finds a part of the needle at the end, too.
  if (random >= 0 && tail.startsWith(RANDOM_FIELD, random)) {
    last = tail.substr(tail.indexOf('"', random + RANDOM_FIELD.length));
    tail = tail.substr(0, random + RANDOM_FIELD.length);
  }
  const sum = E.CRC32(text);
  // Two events that differ in one string only, and gave that string: whatever stands there is what comes of such an event.
  if (head === sse.head && tail === sse.tail && last === sse.last && kind === sse.kind && index === sse.index) {
    if (sum !== sse.sample) sse.sample = undefined;
    return;
  }
  sse.head = head;
  sse.tail = tail;
  sse.last = last;
  sse.sample = sum;
  sse.kind = kind;
  sse.index = index;
}
