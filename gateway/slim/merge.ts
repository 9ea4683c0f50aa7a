/** Events on their way to a board: deltas that go on in the next one wait and grow into one event. */

/** Text of a delta that may go on in the next. */
export interface Growing {
  /** Deltas with the same key belong together; without one, nothing joins this. */
  key?: string;
  text: string;
  /** The event for a piece of the text. */
  make(text: string): object;
  /** The event for the first piece, where that says more. */
  makeFirst?(text: string): object;
}

/** Where a dialect writes what is left of the events that it reads. */
export interface Merger {
  /** An event; what waits goes out before it. */
  event(value: object): void;
  /** Text of a delta, which may wait. Empty text means nothing. */
  grow(growing: Growing): void;
  /** Data of an event as it came; what waits goes out before it. */
  raw(data: string): void;
  /** Sends what waits. Without `all`, half of a surrogate pair is kept: its other half is in the next delta. */
  flush(all: boolean): void;
  /** Something waits that `flush(false)` would send. */
  isWaiting(): boolean;
  /** What was sent since the last call, as text of an event stream. */
  taken(): string;
}

/**
 * Half of a surrogate pair whose other half is not beside it is no character: U+FFFD, as a board has it. At the ends of
 * the text the other half may be in the delta before or after.
 */
function mend(text: string): string {
  return text.replace(/\p{Surrogate}/gu, (half, at: number) => {
    const isLow = half >= "\udc00";
    return at === (isLow ? 0 : text.length - 1) ? half : "\ufffd";
  });
}

const endsInHalf = (text: string): boolean => /[\ud800-\udbff]$/.test(text);

/**
 * @param lineBytes the longest line; one whose text cannot be cut (an id, a signature) may be longer
 * @param lineBefore the line before the data of an event, with its line end; "" for none
 */
export function createMerger(lineBytes: number, lineBefore: (value: any) => string): Merger {
  let growing: Growing | undefined;
  let sent = "";

  const lineOf = (value: object): string => `data: ${JSON.stringify(value)}`;
  const send = (value: object): void => void (sent += `${lineBefore(value)}${lineOf(value)}\n\n`);

  /** How much of `text`, in whole characters, fits a line: one character at least. */
  function fitting(text: string, make: (text: string) => object): number {
    let room = lineBytes - Buffer.byteLength(lineOf(make("")));
    let end = 0;
    for (const char of text) {
      room -= Buffer.byteLength(JSON.stringify(char)) - '""'.length;
      if (room < 0 && end > 0) break;
      end += char.length;
    }
    return end;
  }

  /** Sends the lines that are full, and with `all` also the one that is not. */
  function sendGrowing(all: boolean): void {
    if (growing !== undefined) growing.text = mend(growing.text);
    while (growing !== undefined) {
      const { text, make, makeFirst = make }: Growing = growing;
      // A long text is not turned into a line anew for each line that it fills.
      const isShort = text.length <= lineBytes && Buffer.byteLength(lineOf(makeFirst(text))) <= lineBytes;
      if (isShort && !all) return;
      const size = isShort ? text.length : fitting(text, makeFirst);
      send(makeFirst(text.slice(0, size)));
      growing = size < text.length ? { key: growing.key, text: text.slice(size), make } : undefined;
    }
  }

  return {
    event(value) {
      sendGrowing(true);
      send(value);
    },
    grow(more) {
      if (more.text === "") return;
      if (growing?.key !== undefined && growing.key === more.key) growing.text += more.text;
      else {
        sendGrowing(true);
        growing = { ...more };
      }
      sendGrowing(false);
    },
    raw(data) {
      sendGrowing(true);
      const lines = data.split("\n").map((line) => `data: ${line}\n`);
      sent += `${lines.join("")}\n`;
    },
    flush(all) {
      if (growing === undefined || all || !endsInHalf(growing.text)) return sendGrowing(true);
      const { key, text, make } = growing;
      if (text.length === 1) return;
      growing.text = text.slice(0, -1);
      sendGrowing(true);
      growing = { key, text: text.slice(-1), make };
    },
    isWaiting: () => growing !== undefined && !(growing.text.length === 1 && endsInHalf(growing.text)),
    taken() {
      const text = sent;
      sent = "";
      return text;
    },
  };
}
