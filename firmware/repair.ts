/** What was read last. After START, COMMA and VALUE the object or array may end. */
const START = 0;
const COMMA = 1;
const VALUE = 2;
const KEY = 3;
const COLON = 4;

/** Objects and arrays within each other: more are refused. */
const MAX_DEPTH = 32;
/** Bytes of a key without quotes or of a number: longer ones are refused, and the board's isNaN throws from 64 on. */
const MAX_WORD = 60;
/** Bytes of a string that are looked at at once, and that are gathered before they go to the end of the output. */
const PIECE_BYTES = 100;

// Arguments of a tool call that JSON.parse does not take, as strict JSON text of one object; undefined where that would
// take a guess. Texts are bytes of UTF-8; \uXXXX escapes, numbers and doubled keys stay as they are written.
//
// | repaired                                                    | refused
// |-------------------------------------------------------------|----------------------------------------------------
// | fences, model markers, think tags and plain text around     | a second object, anything around that looks like JSON
// | '…', “…” and ‘…’ as quotes, raw control characters, \'      | such a quote inside the string, other unknown escapes
// | unquoted keys                                               | unquoted text as a value
// | // … and /* … */ and # … comments, a comma at the end       | two commas, or none in an array or before a bare key
// | a missing comma before a quoted key                         | a missing colon, value or opening brace
// | True, None, +1, .5, 0x1F                                    | NaN, Infinity, 007, 1_000
// | {\"a\": 1} as a whole, also in quotes of its own            | the same for some of the quotes only
// | missing } after a closing quote or bracket                  | any other end inside the object: a value may be cut
//
// An array that does not end is a cut value too. One pass without recursion; all state exists only while it runs.
export function repair(text: string): string | undefined {
  let at = 0;
  let out = "";
  /** Goes to `out` when it is long enough, since appending walks to the end of what is there. */
  let piece = "";
  /** The next backslash, if it is at `at` or beyond. */
  let slash = -1;

  function emit(part: string): void {
    piece += part;
    if (piece.length < PIECE_BYTES) return;
    out += piece;
    piece = "";
  }

  // Where `what` is next, or the end. The board's indexOf takes a text that ends in the start of `what` for a match,
  // even if that is before `at`.
  function find(what: string): number {
    const found = text.indexOf(what, at);
    return found < at || text.substr(found, what.length) !== what ? text.length : found;
  }

  // Goes on to the next object, or to the end. False where what is passed over could be part of the arguments: a lone
  // colon is not, as in `Arguments: {`.
  function skipAround(colons: number): boolean {
    let brace = -1;
    for (;;) {
      if (brace < at) brace = find("{");
      const to = Math.min(brace, find("<think"));
      const part = text.substring(at, to);
      if (/["}]|^[ \n\r\t]*,/.test(part) || part.split(":").length > colons + 1) return false;
      if (part.split("[").length !== part.split("]").length) return false;
      at = to;
      if (to === brace) return true;
      at = find("</think");
      if (at === text.length) return false;
    }
  }

  function skipSpace(): void {
    for (;;) {
      const c = text.charAt(at);
      const mark = c === "/" ? text.substr(at, 2) : c;
      if (mark === "/*") at = Math.min(find("*/") + 2, text.length);
      else if (mark === "//" || mark === "#") at = find("\n");
      else if (c && " \n\r\t".indexOf(c) >= 0) at++;
      else return;
    }
  }

  function escape(character: string): string {
    const json = JSON.stringify(character);
    return json.substr(1, json.length - 2);
  }

  // Takes a string up to `quote`. False where it does not end, or has an escape that could mean anything.
  function takeString(quote: string): boolean {
    let end = -1;
    emit('"');
    at += quote.length;
    for (;;) {
      if (end < at) end = find(quote);
      if (end === text.length) return false;
      if (slash < at) slash = find("\\");
      const to = Math.min(end, slash, at + PIECE_BYTES);
      emit(text.substring(at, to).replace(/[\x00-\x1f"]/g, escape));
      at = to;
      if (to === end) {
        emit('"');
        at += quote.length;
        return true;
      }
      if (to === slash) {
        const c = text.charAt(at + 1);
        if (c === "u" ? !/^[0-9a-fA-F]+$/.test(text.substr(at + 2, 4)) : "'\"\\/bfnrt".indexOf(c) < 0) return false;
        emit(c === "'" ? c : "\\" + c);
        at += 2;
      }
    }
  }

  // A constant or a number as JSON writes it, "" where it is none.
  function toScalar(word: string): string {
    if (word === "none") return "null";
    if (/^true$|^false$|^null$/.test(word)) return word;
    if (/^0x[0-9a-f]+$/.test(word) && word.length <= 10) return String(parseInt(word));
    const number = word.replace(/^[+-]/, "").replace(/^[.]/, "0.");
    const isNumber = /^[0-9][0-9.e+-]*$/.test(number) && /[0-9]$/.test(number) && !/[.]e|^0[0-9]/.test(number);
    return isNumber && !isNaN(number as any) ? (word.charAt(0) === "-" ? "-" : "") + number : "";
  }

  const wrapping = text.charAt(0);
  if ((wrapping === '"' || wrapping === "'") && text.charAt(1) === "{" && text.endsWith("}" + wrapping))
    text = text.substr(1, text.length - 2);
  if (!skipAround(1) || at === text.length) return undefined;
  at++;
  skipSpace();
  if (text.charAt(at) === "\\") {
    // All of it is written as inside a string. By regular expressions: the board's split finds overlapping separators,
    // its replaceAll finds half of a text at the end.
    if (text.indexOf("\x01") >= 0) return undefined;
    text = text.substr(at).replace(/\\\\/g, "\x01");
    if (text.split('"').length !== text.split('\\"').length) return undefined;
    text = text.replace(/\\"/g, '"').replace(/\\n/g, "\n").replace(/\\t/g, "\t").replace(/\x01/g, "\\");
    at = 0;
  }

  /** The brackets that are open. */
  let open = "{";
  let last = START;
  /** The last value ended in a quote or bracket, so that it is not the start of a longer one. */
  let complete = false;
  emit(open);
  while (open) {
    skipSpace();
    const c = text.charAt(at);
    const inObject = open.endsWith("{");
    if (!c || c === "<" || c === "`") {
      if (last !== VALUE || !complete || open.indexOf("[") >= 0) return undefined;
      emit("}".repeat(open.length));
      open = "";
    } else if (c === ",") {
      if (last !== VALUE) return undefined;
      last = COMMA;
      at++;
    } else if (c === ":") {
      if (last !== KEY) return undefined;
      last = COLON;
      emit(c);
      at++;
    } else if (c === "}" || c === "]") {
      if (last > VALUE || inObject !== (c === "}")) return undefined;
      open = open.substr(0, open.length - 1);
      last = VALUE;
      complete = true;
      emit(c);
      at++;
    } else {
      const isKey = inObject && last !== COLON;
      // E2 80 9C, 9D and 98, 99 are the curly quotes.
      const curly = text.substr(at, 2) === "\xe2\x80" ? text.charCodeAt(at + 2) : 0;
      let quote = c === '"' || c === "'" ? c : "";
      if ((curly & 0xfa) === 0x98) quote = String.fromCharCode(0xe2, 0x80, curly | 1);
      if (last === KEY) return undefined;
      if (last === VALUE && (!isKey || !quote || "\"'\x99\x9d".indexOf(text.charAt(at - 1)) >= 0)) return undefined;
      if (last === COMMA || last === VALUE) emit(",");
      if (!isKey && (c === "{" || c === "[")) {
        if (open.length >= MAX_DEPTH) return undefined;
        open += c;
        last = START;
        emit(c);
        at++;
      } else {
        last = isKey ? KEY : VALUE;
        complete = !!quote;
        if (quote) {
          if (!takeString(quote)) return undefined;
        } else {
          const found = /^[A-Za-z0-9_$+.-]+/.exec(text.substr(at, MAX_WORD));
          const word = found ? found[0] : "";
          const json = !isKey ? toScalar(word.toLowerCase()) : /^[A-Za-z_$][^+.]*$/.test(word) ? '"' + word + '"' : "";
          if (!json) return undefined;
          emit(json);
          at += word.length;
        }
      }
    }
  }
  skipSpace();
  return skipAround(0) && at === text.length ? out + piece : undefined;
}
