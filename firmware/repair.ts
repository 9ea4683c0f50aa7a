import { toJson } from "./text";

/** What was read last. Up to VALUE, the object or array may end there. */
const START = 0;
const COMMA = 1;
const VALUE = 2;
const KEY = 3;
const COLON = 4;

/** Objects and arrays within each other; more are refused. */
const MAX_DEPTH = 32;
/** Bytes: appending walks to the end of what is there, so it is done to short texts first. */
const PIECE_BYTES = 100;

// Arguments of a tool call that JSON.parse does not take, as strict JSON text of one object; undefined where that would
// take a guess. Text is bytes of UTF-8; \uXXXX escapes, numbers and doubled keys stay as they are written.
//
// | repaired                                                    | refused
// |-------------------------------------------------------------|--------------------------------------------------
// | fences, markers, think tags and plain text around           | a second object, anything around that looks like JSON
// | '…', “…” and ‘…’ as quotes, raw control characters, \'      | quotes inside quotes, other unknown escapes
// | unquoted keys                                               | unquoted text as a value
// | // … and /* … */ and # … comments, a comma at the end       | two commas, none before an unquoted key or in an array
// | a missing comma before a quoted key                         | a missing colon, value or opening brace
// | True, None, +1, .5, 0x1F                                    | NaN, Infinity, 007, 1_000
// | {\"a\": 1} as a whole, also in quotes of its own            | the same for some of the quotes only
// | missing } after a closing quote or bracket                  | an end anywhere else, or in an array: it may be cut
//
// One pass, without recursion, and what it needs exists while it runs only.
export function repairJson(text: string): string | undefined {
  const hex = /^[0-9a-fA-F]+$/;
  const digits = /^[0-9]+$/;
  const identifier = /^[A-Za-z_$][A-Za-z0-9_$-]*$/;
  const special = /[\x00-\x1f"]/;
  const wordCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$+-.";
  let at = 0;
  /** The next backslash, once `at` was looked at. */
  let slash = -1;
  let out = "";
  let piece = "";

  function emit(part: string): void {
    piece += part;
    if (piece.length < PIECE_BYTES) return;
    out += piece;
    piece = "";
  }

  function find(what: string): number {
    const found = text.indexOf(what, at);
    return found < 0 ? text.length : found;
  }

  // Goes on to the next object, or to the end. False where what is passed over could be part of the arguments: a lone
  // colon is not, as in `Arguments: {`.
  function skipAround(colons: number): boolean {
    let brace = -1;
    for (;;) {
      if (brace < at) brace = find("{");
      const to = Math.min(brace, find("<think"));
      const part = text.substring(at, to);
      if (part.indexOf('"') >= 0 || part.indexOf("}") >= 0 || part.trim().charAt(0) === ",") return false;
      if (part.split("[").length !== part.split("]").length || part.split(":").length > colons + 1) return false;
      at = to;
      if (to === brace) return true;
      at = find("</think");
      if (at === text.length) return false;
      at = find(">") + 1;
    }
  }

  function skipSpace(): void {
    for (;;) {
      const c = text.charAt(at);
      const two = c === "/" ? text.substr(at, 2) : c;
      if (two === "/*") {
        at = find("*/") + 2;
      } else if (two === "//" || two === "#") {
        at = find("\n");
      } else if (c && " \n\r\t".indexOf(c) >= 0) {
        at++;
      } else return;
    }
  }

  function replace(what: string, by: string): void {
    text = text.split(what).join(by);
  }

  // The text is what stands between the quotes of a string: makes it what that string says. False where it has quotes
  // without a backslash.
  function unescape(): boolean {
    if (text.indexOf("\x01") >= 0) return false;
    replace("\\\\", "\x01");
    if (text.split('"').length !== text.split('\\"').length) return false;
    replace('\\"', '"');
    replace("\\n", "\n");
    replace("\\r", "\r");
    replace("\\t", "\t");
    replace("\x01", "\\");
    return true;
  }

  // What ends the string that begins here, "" if none does. E2 80 9C to 9D and 98 to 99 are the curly quotes.
  function closingQuote(): string {
    const c = text.charAt(at);
    if (c === '"' || c === "'") return c;
    const kind = text.substr(at, 2) === "\xe2\x80" ? text.charCodeAt(at + 2) : 0;
    if (kind === 0x9c || kind === 0x9d) return "\xe2\x80\x9d";
    return kind === 0x98 || kind === 0x99 ? "\xe2\x80\x99" : "";
  }

  // False where the string does not end, or has an escape that could mean anything.
  function takeString(quote: string): boolean {
    let end = -1;
    emit('"');
    at += quote.length;
    for (;;) {
      if (end < at) end = text.indexOf(quote, at);
      if (end < 0) return false;
      if (slash < at) slash = find("\\");
      const to = Math.min(end, slash, at + PIECE_BYTES);
      let part = text.substring(at, to);
      if (special.test(part)) {
        part = toJson(part);
        part = part.substr(1, part.length - 2);
      }
      emit(part);
      at = to;
      if (to === end) break;
      if (to === slash) {
        const c = text.charAt(at + 1);
        if (c === "u" ? !hex.test(text.substr(at + 2, 4)) : "'\"\\/bfnrt".indexOf(c) < 0) return false;
        emit(c === "'" ? c : "\\" + c);
        at += 2;
      }
    }
    emit('"');
    at += quote.length;
    return true;
  }

  function takeWord(): string {
    const from = at;
    for (let c = text.charAt(at); c && wordCharacters.indexOf(c) >= 0; c = text.charAt(at)) at++;
    return text.substring(from, at);
  }

  // A constant or number as JSON writes it, "" where it is none.
  function toScalar(word: string): string {
    word = word.toLowerCase();
    if (word === "true" || word === "false" || word === "null") return word;
    if (word === "none") return "null";
    if (word.startsWith("0x") && word.length < 10 && hex.test(word.substr(2))) return String(parseInt(word.substr(2), 16));
    const minus = word.charAt(0) === "-" ? "-" : "";
    if (minus || word.charAt(0) === "+") word = word.substr(1);
    if (word.charAt(0) === ".") word = "0" + word;
    const halves = word.split("e");
    const parts = halves[0].split(".");
    if (halves.length > 2 || parts.length > 2 || (parts[0].length > 1 && parts[0].charAt(0) === "0")) return "";
    if (halves.length > 1) parts.push(halves[1].substr("+-".indexOf(halves[1].charAt(0)) < 0 ? 0 : 1));
    for (const part of parts) if (!digits.test(part)) return "";
    return minus + word;
  }

  /** The brackets that are open. */
  let open = "";
  let last = COLON;
  /** The last value ended in a quote or bracket, so that it cannot be the start of a longer one. */
  let complete = false;

  // Reads one token; false where it cannot stand there.
  function step(): boolean {
    skipSpace();
    const c = text.charAt(at);
    const inObject = open.endsWith("{");
    if (!c || c === "<" || c === "`") {
      if (last !== VALUE || !complete || open.indexOf("[") >= 0) return false;
      for (; open; open = open.substr(1)) emit("}");
      return true;
    }
    if (c === "," || c === ":") {
      if (last !== (c === "," ? VALUE : KEY)) return false;
      last = c === "," ? COMMA : COLON;
      if (last === COLON) emit(c);
      at++;
      return true;
    }
    if (c === "}" || c === "]") {
      if (last > VALUE || inObject !== (c === "}")) return false;
      emit(c);
      open = open.substr(0, open.length - 1);
      last = VALUE;
      complete = true;
      at++;
      return true;
    }
    const isKey = inObject && last !== COLON;
    const quote = closingQuote();
    if (last === KEY) return false;
    if (last === VALUE && (!isKey || !quote || "\"'\x99\x9d".indexOf(text.charAt(at - 1)) >= 0)) return false;
    if (last === COMMA || last === VALUE) emit(",");
    if (!isKey && (c === "{" || c === "[")) {
      if (open.length >= MAX_DEPTH) return false;
      open += c;
      emit(c);
      last = START;
      at++;
      return true;
    }
    last = isKey ? KEY : VALUE;
    complete = quote !== "";
    if (quote) return takeString(quote);
    const word = takeWord();
    const json = isKey ? (identifier.test(word) ? '"' + word + '"' : "") : toScalar(word);
    emit(json);
    return json !== "";
  }

  const wrap = text.charAt(0);
  if ((wrap === '"' || wrap === "'") && text.charAt(1) === "{" && text.endsWith("}" + wrap))
    text = text.substr(1, text.length - 2);
  if (!skipAround(1) || at === text.length) return undefined;
  const begin = at++;
  skipSpace();
  if (text.charAt(at) === "\\") {
    text = text.substr(begin);
    at = 0;
    if (!unescape()) return undefined;
  } else at = begin;
  do {
    if (!step()) return undefined;
  } while (open);
  skipSpace();
  return skipAround(0) && at === text.length ? out + piece : undefined;
}
