/** A board's byte string as text. What is not UTF-8, or is text already, stays as it is. */
export function fromBytes(value: string): string {
  for (let i = 0; i < value.length; i++) if (value.charCodeAt(i) > 0xff) return value;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(value, "latin1"));
  } catch {
    return value;
  }
}

/** Text as a board's byte string: one character for each UTF-8 byte. */
export function toBytes(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}

/** `fromBytes` for every string inside a JSON value. */
export function decodeStrings<T>(value: T): T {
  if (typeof value === "string") return fromBytes(value) as T;
  if (Array.isArray(value)) return value.map(decodeStrings) as T;
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, decodeStrings(inner)])) as T;
}
