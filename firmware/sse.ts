/**
 * Server-sent events, fed in pieces of any size: the same events however the bytes are cut. Follows the WHATWG HTML
 * standard's "event stream" parsing (line ends LF, CR LF and CR, comments, several data lines, one BOM), of which only
 * `data` matters here. Built-ins touch the bytes; no loop runs per character.
 */
export interface SseParser {
  /**
   * Takes the next bytes of the stream and returns the data of each event that ended in them; "" stands for one that is
   * left out, because it or a line of it is too long.
   */
  feed(piece: string): string[];
  /** The stream is over: a last line or event without its line end is read as well. */
  end(): string[];
}

// A line or an event of more than `maxLineBytes` is left out, and reading goes on after it. Events are returned, not
// called back with: the stack is short.
export function createSseParser(maxLineBytes: number): SseParser {
  let line = "";
  let data: string | undefined;
  /** Inside a line that is too long: its rest is thrown away. */
  let skipLine = false;
  /** Inside an event that is left out. */
  let skipEvent = false;
  /** The last piece ended in CR, so that an LF at the start of the next belongs to it. */
  let afterCr = false;
  let started = false;

  const parser: SseParser = {
    feed: function (piece) {
      const events: string[] = [];
      if (!piece) return events;
      if (afterCr && piece.charAt(0) === "\n") piece = piece.substr(1);
      afterCr = false;
      if (piece.indexOf("\r") >= 0) {
        afterCr = piece.endsWith("\r");
        piece = piece.split("\r\n").join("\n").split("\r").join("\n");
      }
      let from = 0;
      for (;;) {
        const at = piece.indexOf("\n", from);
        if (!skipLine) line += at < 0 ? piece.substr(from) : piece.substring(from, at);
        let tooLong = line.length > maxLineBytes;
        if (at >= 0 && !tooLong && !skipLine) {
          if (!started && line.startsWith("\xef\xbb\xbf")) line = line.substr(3);
          if (!line) {
            if (data) events.push(data);
            data = undefined;
            skipEvent = false;
          } else if ((line === "data" || line.startsWith("data:")) && !skipEvent) {
            line = line.substr(line.charAt(5) === " " ? 6 : 5);
            data = data === undefined ? line : data + "\n" + line;
            tooLong = data.length > maxLineBytes;
          }
        }
        if (tooLong) {
          if (!skipEvent) events.push("");
          skipEvent = true;
          data = undefined;
        }
        if (tooLong || at >= 0) {
          line = "";
          started = true;
        }
        skipLine = at < 0 && (skipLine || tooLong);
        if (at < 0) return events;
        from = at + 1;
      }
    },
    end: function () {
      return parser.feed("\n\n");
    },
  };
  return parser;
}
