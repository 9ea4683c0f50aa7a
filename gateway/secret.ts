/** Keeps the upstream key and the boards' tokens out of what leaves the gateway. */

/** What every board token begins with, so that one is recognised wherever it turns up. */
export const TOKEN_PREFIX = "eagw_";

const MASK = "***";

/** Characters of a key that are enough to call a text a part of it. A shorter key cannot be told from ordinary text. */
const PART_LENGTH = 8;

const boardToken = new RegExp(`${TOKEN_PREFIX}[A-Za-z0-9_-]+`, "g");

/** Keys as providers print them in errors: `sk-…` in any form, and any word with a row of stars in it. */
const withoutPrinted = (text: string): string =>
  text
    .replace(/\bsk-[^\s,"'<>\\]+/g, MASK)
    // Word by word: one expression for a word with stars would look at each of its letters as a beginning.
    .replace(/[A-Za-z0-9_*-]+/g, (word) => (word.includes("***") ? MASK : word));

export interface Redactor {
  /**
   * For words of others, as in an error message: takes out the key, any part of it of 8 characters or more, keys that a
   * provider has masked, and board tokens.
   */
  words(text: string): string;
  /** For a line of the log: takes out the key and board tokens. */
  line(text: string): string;
  /**
   * For a body that passes through in pieces (one character for each byte), however it is cut: takes out the key and
   * nothing else, since a body may well be about keys. A piece that ends like the key begins waits for the next.
   */
  stream(): { feed(piece: string): string; end(): string };
}

/** `key` as it may stand in a body: as it is, with the slashes that JSON may escape, in a URL, and in Base64. */
function formsOf(key: string): string[] {
  const all = [key, key.replaceAll("/", "\\/"), encodeURIComponent(key), Buffer.from(key, "latin1").toString("base64")];
  return [...new Set(all)];
}

/** Nothing is taken out for a key of fewer than 8 characters (`none`, `ollama`): it is a word like any other. */
export function createRedactor(key: string): Redactor {
  const forms = key.length >= PART_LENGTH ? formsOf(key) : [];
  const parts = new Set<string>();
  for (let at = 0; key.length >= PART_LENGTH && at + PART_LENGTH <= key.length; at++) {
    parts.add(key.slice(at, at + PART_LENGTH));
  }
  const withoutForms = (text: string): string => forms.reduce((rest, form) => rest.replaceAll(form, MASK), text);

  function withoutParts(text: string): string {
    let out = "";
    let from = 0;
    for (let at = 0; at + PART_LENGTH <= text.length; at++) {
      if (!parts.has(text.slice(at, at + PART_LENGTH))) continue;
      let end = at + PART_LENGTH;
      while (parts.has(text.slice(end - PART_LENGTH + 1, end + 1))) end++;
      out += text.slice(from, at) + MASK;
      from = end;
      at = end - 1;
    }
    return out + text.slice(from);
  }

  /** How much of the end of `text` may be the beginning of the key. */
  function beginning(text: string): number {
    let most = 0;
    for (const form of forms) {
      let size = Math.min(form.length - 1, text.length);
      while (size > most && !text.endsWith(form.slice(0, size))) size--;
      most = Math.max(most, size);
    }
    return most;
  }

  return {
    line: (text) => withoutForms(text).replace(boardToken, MASK),
    words: (text) => withoutPrinted(withoutParts(withoutForms(text))).replace(boardToken, MASK),
    stream() {
      let held = "";
      return {
        feed(piece) {
          if (forms.length === 0) return piece;
          const text = withoutForms(held + piece);
          const size = beginning(text);
          held = text.slice(text.length - size);
          return text.slice(0, text.length - size);
        },
        end() {
          const rest = held;
          held = "";
          return rest;
        },
      };
    },
  };
}
