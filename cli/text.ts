/**
 * The edge between the board, where text is a byte string (one character per UTF-8 byte), and the host, where it is
 * Unicode.
 */

/** Unicode text as the board holds it. */
export function toBytes(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}

/** A board's byte string as Unicode text. Bytes that are no UTF-8 become U+FFFD. */
export function fromBytes(bytes: string): string {
  return Buffer.from(bytes, "latin1").toString("utf8");
}

/** A copy of a value of the board as plain data of the host, byte strings decoded, keys too. */
export function decodeValue(value: unknown): unknown {
  if (typeof value === "string") return fromBytes(value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return Array.from(value, decodeValue);
  return Object.fromEntries(Object.entries(value).map(([key, field]) => [fromBytes(key), decodeValue(field)]));
}

/** The same the other way. */
export function encodeValue(value: unknown): unknown {
  if (typeof value === "string") return toBytes(value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(encodeValue);
  return Object.fromEntries(Object.entries(value).map(([key, field]) => [toBytes(key), encodeValue(field)]));
}

/** Source text of a string literal for the board: ASCII only, every other byte as `\xNN`. */
export function boardLiteral(text: string): string {
  const escaped = toBytes(text).replace(/[^ -~]|["\\]/g, (char) => {
    return `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`;
  });
  return `"${escaped}"`;
}

/**
 * Turns what a terminal would show into lines for a file or a pipe: what the board overwrites or erases is gone, colours
 * and cursor movements are left out. A line is written when it is over; `end` writes the last one.
 */
export function createPlainOutput(write: (text: string) => void): { feed(bytes: string): void; end(): void } {
  let line = "";
  let column = 0;
  let escape = "";

  function put(char: string): void {
    if (escape !== "") {
      escape += char;
      const isOver = escape.length === 2 ? char !== "[" : char >= "@" && char <= "~";
      if (!isOver) return;
      if (escape === "\x1b[J" || escape === "\x1b[K") line = line.slice(0, column);
      if (escape === "\x1b[D") column = Math.max(0, column - 1);
      if (escape === "\x1b[C") column = Math.min(line.length, column + 1);
      escape = "";
    } else if (char === "\x1b") {
      escape = char;
    } else if (char === "\n") {
      write(`${fromBytes(line).trimEnd()}\n`);
      line = "";
      column = 0;
    } else if (char === "\r") {
      column = 0;
    } else if (char === "\b") {
      column = Math.max(0, column - 1);
    } else if (char >= " " || char === "\t") {
      line = line.slice(0, column) + char + line.slice(column + 1);
      column += 1;
    }
  }

  return {
    feed(bytes) {
      for (const char of bytes) put(char);
    },
    end() {
      if (line !== "") put("\n");
    },
  };
}
