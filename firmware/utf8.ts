/**
 * What text beyond ASCII needs before it goes onto the wire. A loop over characters takes the board a million
 * instructions for each of them, a regular expression two thousand: so whole texts are tested, one rule after the other,
 * and only a text that breaks one is looked through. No expression has a "|", which is twenty times as slow.
 */

/** Bytes of JSON text that are decoded at once. */
const RUN_BYTES = 288;

// Whether bytes that are not all ASCII are UTF-8 as RFC 3629 has it: no overlong forms, surrogates or code points beyond
// U+10FFFF, nothing cut.
export function isUtf8(text: string): boolean {
  const end = text.length;
  if ((text.charCodeAt(0) & 0xc0) === 0x80 || text.charCodeAt(end - 1) >= 0xc0) return false;
  if ((end > 1 && text.charCodeAt(end - 2) >= 0xe0) || (end > 2 && text.charCodeAt(end - 3) >= 0xf0)) return false;
  // Too few bytes after a first one, or too many.
  if (/[\xc0-\xff][^\x80-\xbf]/.test(text) || /[\xe0-\xff][\x80-\xbf][^\x80-\xbf]/.test(text)) return false;
  if (/[\x00-\x7f][\x80-\xbf]/.test(text) || /[\xc0-\xdf][\x80-\xbf][\x80-\xbf]/.test(text)) return false;
  if (/[\xe0-\xef][\x80-\xbf][\x80-\xbf][\x80-\xbf]/.test(text)) return false;
  // Of these few texts have one.
  if (!/[\xc0\xc1\xe0\xed\xf0-\xff]/.test(text)) return true;
  if (/[\xc0\xc1\xf5-\xff]/.test(text) || /\xe0[\x80-\x9f]/.test(text) || /\xed[\xa0-\xbf]/.test(text)) return false;
  if (!/[\xf0-\xff]/.test(text)) return true;
  if (/\xf0[\x80-\x8f]/.test(text) || /\xf4[\x90-\xbf]/.test(text)) return false;
  return !(
    /[\xf0-\xff][\x80-\xbf][\x80-\xbf][^\x80-\xbf]/.test(text) ||
    /[\xf0-\xff][\x80-\xbf][\x80-\xbf][\x80-\xbf][\x80-\xbf]/.test(text)
  );
}

// The same text where it is UTF-8; otherwise every byte that is no part of it becomes U+FFFD.
export function repairUtf8(text: string): string {
  if (isUtf8(text)) return text;
  let out = "";
  let from = 0;
  let i = 0;
  while (i < text.length) {
    const c = text.charCodeAt(i);
    let size = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    const second = text.charCodeAt(i + 1);
    if ((c === 0xe0 && second < 0xa0) || (c === 0xed && second > 0x9f)) size = 0;
    if ((c === 0xf0 && second < 0x90) || (c === 0xf4 && second > 0x8f)) size = 0;
    for (let k = 1; k < size; k++) if ((text.charCodeAt(i + k) & 0xc0) !== 0x80) size = 0;
    if (!size) {
      out += text.substring(from, i) + "\xef\xbf\xbd";
      size = 1;
      from = i + 1;
    }
    i += size;
  }
  return out + text.substr(from);
}

// A string of any bytes as JSON, as JSON.stringify writes it, but with bytes of 0x80 and more as they are.
export function quoteBytes(text: string): string {
  return (
    '"' +
    text.replace(/[\x00-\x1f\x7f"\\]/g, function (c) {
      c = JSON.stringify(c);
      return c.substr(1, c.length - 2);
    }) +
    '"'
  );
}

// What the board's JSON.stringify gave, with the bytes of 0x80 and more that it wrote as \u00XX as they are. JSON.parse
// decodes many at once: as long as nothing stands between them but hex digits and the letter u, which it leaves alone.
export function rawBytes(json: string): string {
  let out = "";
  let from = 0;
  let at = json.indexOf("\\u");
  while (at >= 0) {
    let slash = at;
    while (slash > 0 && json.charAt(slash - 1) === "\\") slash--;
    let next = at + 2;
    if (((at - slash) & 1) === 0) {
      let run = json.substr(at, RUN_BYTES);
      const stop = /[^\\u0-9a-fA-F]/.exec(run);
      run = run.substr(0, stop ? stop.index : run.lastIndexOf("\\"));
      // Another escape among them, or nothing but digits after the first.
      if (run.length < 6 || /\\[^u]/.test(run) || /\\u00[0-7]/.test(run)) run = json.substr(at, 6);
      if (run.endsWith("\\")) run = run.substr(0, run.length - 1);
      next = at + run.length;
      if (!/\\u00[0-7]/.test(run)) {
        out += json.substring(from, at) + JSON.parse('"' + run + '"');
        from = next;
      }
    }
    at = next < json.length ? json.indexOf("\\u", next) : -1;
  }
  return out + json.substr(from);
}
