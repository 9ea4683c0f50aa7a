/**
 * Server-sent events, fed in pieces of any size: the same events however the bytes are cut. Follows the WHATWG HTML
 * standard's "event stream" parsing (line ends LF, CR LF and CR, comments, several data lines, one BOM), of which only
 * `data` matters here. Built-ins touch the bytes; no loop runs per character. Events are asked for one by one: the stack
 * is short, and a list of them would be in memory twice.
 *
 * The events of a reply mostly differ in one string, the piece of text that each carries. Such events are recognised by
 * what stands before and behind that string, without a look at their lines: that is four fifths of the work saved.
 */
export interface SseParser {
  /** Takes the next bytes of the stream. */
  push(piece: string): void;
  /** The stream is over: a last line or event without its line end counts as well. */
  end(): void;
  /**
   * The next event that is whole: its data, "" where it is left out because it or a line of it is too long, or, with
   * `isText`, the string of one that was recognised. Undefined where more bytes are to come first.
   */
  next(): string | undefined;
  isText: boolean;
  /**
   * Right after `next`: `text` is the one string of that event that later ones may differ in. Returns the event's data with
   * an @ behind it: only if that is read as the event was, with this other string, may `head` stay as it is set now.
   * Returns "" where later events are not worth recognising.
   */
  learn(text: string): string;
  /** What events that are recognised begin with; "" to read all of them by their lines. */
  head: string;
}

/** Events that are looked at for what later ones may have in common with them, without one that had. */
const MAX_LESSONS = 4;
/** A field of random text that some servers end their events with, so that their length tells nothing. */
const RANDOM_FIELD = ',"obfuscation":"';

// An event is left out where it or a line of it has more than `maxLineBytes`.
export function createSseParser(maxLineBytes: number): SseParser {
  /** What came and is not read yet; `scanned` of it hold no end of the line that begins it. */
  let rest = "";
  let scanned = 0;
  /** Where the event that is read began in it; -1 where that is gone. */
  let begin = 0;
  /** Where the line begins that is to be read next. */
  let at = 0;
  let data: string | undefined;
  /** Inside a line that is too long: its rest is thrown away. */
  let skipLine = false;
  /** Inside an event that is left out. */
  let skipEvent = false;
  /** A CR was seen: from then on all line ends are made LF. 2 where the last piece ended in one. */
  let crs = 0;
  let started = false;
  /** What follows the string of an event that is recognised; what follows the random field, if there is one. */
  let tail = "";
  let tail2 = "";
  let lessons = 0;

  // Line ends of the kind CR LF and CR as LF, also where the two are in different pieces.
  function plainEnds(piece: string): string {
    if (!piece) return piece;
    if (crs === 2 && piece.charAt(0) === "\n") piece = piece.substr(1);
    crs = piece.endsWith("\r") ? 2 : 1;
    return piece.split("\r\n").join("\n").split("\r").join("\n");
  }

  // Where `char` stands from `from` on, or -1. The board's indexOf may look before `from` where that is the end.
  function find(char: string, from: number): number {
    return from < rest.length ? rest.indexOf(char, from) : -1;
  }

  // Reads the line at `at`. Gives the event that it ends, true for another line, undefined where its end is not there yet.
  function readLine(): string | true | undefined {
    const end = find("\n", at + scanned);
    let line = end < 0 ? "" : rest.substring(at, end);
    if (!crs && (end < 0 ? find("\r", at + scanned) >= 0 : line.indexOf("\r") >= 0)) {
      rest = plainEnds(rest.substr(at));
      begin = -1;
      at = scanned = 0;
      return true;
    }
    scanned = 0;
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
        return true;
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
    return isLost ? "" : end >= 0 || undefined;
  }

  const parser: SseParser = {
    head: "",
    isText: false,
    push: function (piece) {
      rest += crs ? plainEnds(piece) : piece;
    },
    next: function () {
      parser.isText = false;
      if (!data && !skipEvent) begin = at;
      for (;;) {
        const head = parser.head;
        if (head && data === undefined && !skipEvent && !skipLine && rest.startsWith(head, at)) {
          const from = at + head.length;
          const to = find('"', from);
          let next = to < 0 ? -1 : rest.startsWith(tail, to) ? to + tail.length : 0;
          if (next > 0 && tail2) {
            const end = find('"', next);
            next = end < 0 ? -1 : rest.startsWith(tail2, end) ? end + tail2.length : 0;
          }
          // The rest of it may still be to come.
          if (!next && rest.length - from < maxLineBytes && rest.length < to + tail.length && tail.startsWith(rest.substr(to))) next = -1;
          if (next < 0 && rest.length - at <= maxLineBytes) break;
          const text = rest.substring(from, to);
          if (next > 0 && next - at <= maxLineBytes && text.indexOf("\\") < 0 && text.indexOf("\n") < 0) {
            at = begin = next;
            lessons = scanned = 0;
            parser.isText = true;
            return text;
          }
        }
        const event = readLine();
        if (event === undefined) break;
        if (event !== true) return event;
      }
      if (at) {
        rest = rest.substr(at);
        begin -= at;
        at = 0;
      }
      return undefined;
    },
    end: function () {
      parser.head = "";
      parser.push("\n\n");
    },
    learn: function (text) {
      parser.head = "";
      const whole = begin < 0 ? "" : rest.substring(begin, at);
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
      parser.head = whole.substr(0, place + 2);
      const line = whole.indexOf("\n", place);
      return whole.substring(first, place + 2) + text + "@" + whole.substring(place + 2 + text.length, line);
    },
  };
  return parser;
}
