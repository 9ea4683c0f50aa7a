/** JSON as the board has it: strings are bytes, and the parser takes more than JSON. */
export const boardJson = { parse, stringify };

// Bytes of 0x7f and more are written as escapes, each on its own, which is mojibake to everybody else. A cycle is
// written as ` ... ` and never throws.
function stringify(value: any): string | undefined {
  const cycle = "\x00cycle";
  const parents: object[] = [];
  function mark(this: object, _: string, inner: any): any {
    while (parents.length && parents.at(-1) !== this) parents.pop();
    if (typeof inner !== "object" || inner === null) return inner;
    if (parents.includes(inner)) return cycle;
    parents.push(inner);
    return inner;
  }
  return JSON.stringify(value, mark)
    ?.replaceAll('"\\u0000cycle"', " ... ")
    .replace(/[\x7f-\uffff]/g, (character) => {
      const code = character.charCodeAt(0);
      if (code > 0xff) throw new Error(`U+${code.toString(16)} reached JSON.stringify: no byte of a board's string`);
      return `\\u${code.toString(16).toUpperCase().padStart(4, "0")}`;
    });
}

const SPACE = /(?:[ \t\r\n\v\f]|\/\/[^\n]*|\/\*[^]*?\*\/)*/y;
const KINDS = [
  /(true|false|null)(?![\w$])/,
  /([A-Za-z_$][\w$]*)/,
  /(0[xX][\da-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)/,
  /("(?:[^"\\\n]|\\[^])*"|'(?:[^'\\\n]|\\[^])*')/,
  /(["'][^]*)/,
  /([^])/,
];
const TOKEN = new RegExp(KINDS.map((kind) => kind.source).join("|"), "y");
const ESCAPE = /\\(?:u([\da-fA-F]{0,4})|x([\da-fA-F]{0,2})|([^]))/g;
const LETTERS: Record<string, string> = { n: "\n", b: "\b", f: "\f", r: "\r", t: "\t", v: "\v" };

function unquote(text: string): string {
  return text.slice(1, -1).replace(ESCAPE, (_, unicode?: string, hex?: string, other?: string) => {
    if (other !== undefined) return LETTERS[other] ?? other;
    if ((unicode ?? hex)!.length < (unicode === undefined ? 2 : 4)) throw new Error("Invalid escape sequence");
    // Only the low byte is kept.
    return String.fromCharCode(parseInt((unicode ?? hex)!, 16) & 0xff);
  });
}

// Ignores what follows the value, takes trailing commas, single quotes and hex, gives undefined for a lone `-`, drops
// the keys `__proto__` and `constructor`, and lets the first of two same keys win.
function parse(source: any): any {
  const text = String(source);
  let at = 0;
  /** A single character, or what kind of token it is. */
  let kind = "";
  let token = "";

  function next(): void {
    SPACE.lastIndex = at;
    SPACE.exec(text);
    at = TOKEN.lastIndex = SPACE.lastIndex;
    const found = text.charAt(at) === "\0" ? null : TOKEN.exec(text);
    if (!found) {
      kind = "EOF";
      return;
    }
    at = TOKEN.lastIndex;
    const [, word, id, number, string, unfinished, other] = found;
    token = found[0];
    if (word) kind = "word";
    else if (id) kind = "ID";
    else if (number) kind = "number";
    else if (string) kind = "string";
    else if (unfinished) kind = "UNFINISHED STRING";
    else kind = other!;
  }

  const is = (wanted: string): boolean => kind === wanted;

  function match(wanted: string): void {
    if (!is(wanted)) throw new Error(`Got ${kind} expected ${wanted}`);
    next();
  }

  function value(): any {
    const first = kind;
    if (first === "word" || first === "number" || first === "string") {
      const one = first === "string" ? unquote(token) : first === "word" ? JSON.parse(token) : Number(token);
      next();
      return one;
    }
    if (first === "-") {
      next();
      return is("number") ? 0 - value() : undefined;
    }
    if (first === "[") {
      const list: any[] = [];
      next();
      while (!is("]")) {
        const one = value();
        if (one === undefined) return undefined;
        if (!is("]")) match(",");
        list.push(one);
      }
      next();
      return list;
    }
    if (first === "{") {
      const object: Record<string, any> = {};
      next();
      while (is("string")) {
        const name = unquote(token);
        next();
        match(":");
        const one = value();
        if (one === undefined) return undefined;
        if (!is("}")) match(",");
        if (name !== "__proto__" && name !== "constructor" && !Object.hasOwn(object, name)) object[name] = one;
      }
      match("}");
      return object;
    }
    throw new Error(`Expecting valid value, got ${first}`);
  }

  next();
  return value();
}
