import { Todo } from "./types";

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
  /** What came and is not read yet: whoever has more appends it, and asks for what it comes to. */
  rest: string;
  /**
   * The next event that is whole: its data, or "" where it is left out because it or a line of it is too long. Undefined
   * where more bytes are to come first; where the stream is over, two line ends make what is there whole, after `learn("")`.
   */
  next(): string | undefined;
  /**
   * The strings of the next events that are recognised, joined; "" where the next event is not whole yet, or none of those.
   * Undefined where none can be.
   */
  alike?(): string;
  /** After `alike`: what is to be called next. */
  todo: Todo;
  /**
   * Right after `next`: `text` is the one string of that event that later ones may differ in. Returns the event's data with
   * an @ behind it: only if that is read as the event was, with this other string, are later events to be recognised.
   * Otherwise, and to read all of them by their lines, it is called with "". Returns "" where it is not worth it.
   */
  learn(text: string): string;
}

/** Events that are looked at for what later ones may have in common with them, without one that had. */
const MAX_LESSONS = 4;
/** A field of random text that some servers end their events with, so that their length tells nothing. */
const RANDOM_FIELD = ',"obfuscation":"';

// An event is left out where it or a line of it has more than `maxLineBytes`.
//
// Three functions, however long they are: each one costs 10 variables while a reply comes. The interpreter looks names up in
// the order in which they were declared: what `alike` needs stands first.
export function createSseParser(maxLineBytes: number): SseParser {
  /** Where the event or line begins that is to be read next. */
  let at = 0;
  /** What begins an event that is recognised, what follows its string, and what follows the random field, if it has one. */
  let head = "";
  let headSize = 0;
  let tail = "";
  let tailSize = 0;
  let tail2 = "";
  /** Up to there events are read one by one. */
  let slow = 0;
  /** It is to be looked whether an event may begin here that is recognised. */
  let isHard = true;
  let data: string | undefined;
  /** `scanned` bytes of the line that is to be read next hold no end of it. */
  let scanned = 0;
  /** Where the event that is read began; -1 where that is gone. */
  let begin = 0;
  /** Inside a line that is too long: its rest is thrown away. */
  let skipLine = false;
  /** Inside an event that is left out. */
  let skipEvent = false;
  /** A CR was seen: from then on all line ends are made LF. 2 where what came last ended in one. */
  let crs = 0;
  /** Bytes that came before, whose line ends are made. */
  let plain = 0;
  let started = false;
  let lessons = 0;

  function alike(): string {
    const rest = parser.rest;
    const size = rest.length;
    let text: string | undefined = "";
    let next = at;
    let to = 0;
    parser.todo = Todo.Next;
    if (isHard) {
      if (crs || data !== undefined || skipEvent || skipLine) return "";
      isHard = false;
    }
    if (size > maxLineBytes || at < slow) return "";
    if (tail2)
      while (rest.startsWith(head, next)) {
        to = rest.indexOf(tail, next + headSize);
        const end = rest.indexOf('"', to + tailSize);
        if (to < 0 || !rest.startsWith(tail2, end)) break;
        text += rest.substring(next + headSize, to);
        next = end + tail2.length;
      }
    else
      while (rest.startsWith(head, next) && (to = rest.indexOf(tail, next + headSize)) >= 0 && to + tailSize <= size) {
        text += rest.substring(next + headSize, to);
        next = to + tailSize;
      }
    // What the text of a JSON string is not by itself.
    if (/[\x00-\x1f"\\\xed]/.test(text)) {
      slow = next;
      // An escape that was cut in two is none, and half of a character joins others in a way of its own: these events are
      // read one by one. Not in one expression: a "|" takes the board twenty times as long.
      if (text.indexOf("\\u") >= 0 || /[\x00-\x1f]/.test(text) || /\xed[\xa0-\xbf]/.test(text)) return "";
      if (/[\\"]/.test(text)) {
        if (rest.substring(at, next).indexOf("\\" + tail) >= 0) return "";
        try {
          const list = JSON.parse('["' + text + '"]');
          text = list.length === 1 ? list[0] : undefined;
        } catch (e) {
          text = undefined;
        }
        if (text === undefined) return "";
      }
    }
    if (next > at) scanned = lessons = 0;
    at = next;
    to = size - at;
    // What begins an event that is recognised is left until the rest of it comes.
    if (to < headSize ? head.startsWith(rest.substr(at)) : rest.startsWith(head, at) && (to === headSize || rest.indexOf("\n", at + headSize) < 0)) {
      parser.todo = Todo.Wait;
      parser.rest = rest.substr(at);
      begin -= at;
      at = slow = 0;
    }
    return text!;
  }

  const parser: SseParser = {
    rest: "",
    todo: Todo.Next,
    next: function () {
      isHard = true;
      if (!data && !skipEvent) begin = at;
      for (;;) {
        let rest = parser.rest;
        // Line ends of the kind CR LF and CR as LF in what is not read yet, also where the two came in different pieces.
        if (crs && plain < rest.length) {
          let piece = rest.substr(plain);
          if (crs === 2 && piece.charAt(0) === "\n") piece = piece.substr(1);
          crs = piece.endsWith("\r") ? 2 : 1;
          parser.rest = rest = rest.substr(0, plain) + piece.split("\r\n").join("\n").split("\r").join("\n");
          plain = rest.length;
        }
        const from = at + scanned;
        scanned = 0;
        // The board's indexOf may look before `from` where that is the end.
        const end = from < rest.length ? rest.indexOf("\n", from) : -1;
        let line = end < 0 ? "" : rest.substring(at, end);
        if (!crs && (end < 0 ? from < rest.length && rest.indexOf("\r", from) >= 0 : line.indexOf("\r") >= 0)) {
          crs = 1;
          plain = at;
          begin = -1;
          continue;
        }
        let tooLong = !skipLine && (end < 0 ? rest.length - at : line.length) > maxLineBytes;
        if (end >= 0 && !skipLine && !tooLong) {
          if (!started && line.startsWith("\xef\xbb\xbf")) line = line.substr(3);
          if (!line) {
            const whole = data;
            data = undefined;
            skipEvent = false;
            at = end + 1;
            started = true;
            if (whole) return whole;
            begin = at;
            continue;
          }
          if (!skipEvent && (line === "data" || line.startsWith("data:"))) {
            line = line.substr(line.charAt(5) === " " ? 6 : 5);
            data = data === undefined ? line : data + "\n" + line;
            tooLong = data.length > maxLineBytes;
          }
        }
        const isLost = tooLong && !skipEvent;
        if (tooLong) {
          skipEvent = true;
          data = undefined;
        }
        if (end >= 0 || tooLong) started = true;
        skipLine = end < 0 && (skipLine || tooLong);
        at = end < 0 ? (skipLine ? rest.length : at) : end + 1;
        if (end < 0) scanned = rest.length - at;
        if (isLost) return "";
        if (end < 0) break;
      }
      if (at) {
        parser.rest = parser.rest.substr(at);
        plain = parser.rest.length;
        begin -= at;
        slow -= at;
        at = 0;
      }
      return undefined;
    },
    learn: function (text) {
      parser.alike = undefined;
      parser.todo = Todo.Next;
      isHard = true;
      const whole = begin < 0 || crs || !text ? "" : parser.rest.substring(begin, at);
      const first = whole.indexOf("{");
      const place = whole.indexOf(':"' + text + '"', first);
      if (first < 0 || place < 0 || ++lessons > MAX_LESSONS) return "";
      tail = whole.substr(place + 2 + text.length);
      const random = tail.indexOf(RANDOM_FIELD);
      tail2 = "";
      // The board's indexOf finds a part of the needle at the end, too.
      if (random >= 0 && tail.startsWith(RANDOM_FIELD, random)) {
        const end = random + RANDOM_FIELD.length;
        tail2 = tail.substr(tail.indexOf('"', end));
        tail = tail.substr(0, end);
      }
      head = whole.substr(0, place + 2);
      headSize = head.length;
      parser.alike = alike;
      tailSize = tail.length;
      const line = whole.indexOf("\n", place);
      return whole.substring(first, place + 2) + text + "@" + whole.substring(place + 2 + text.length, line);
    },
  };
  return parser;
}
