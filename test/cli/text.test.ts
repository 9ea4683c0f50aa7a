import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { boardLiteral, createPlainOutput, decodeValue, encodeValue, fromBytes, toBytes } from "../../cli/text";

describe("bytes and text", () => {
  it("any text comes back from the board's bytes", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (text) => {
        expect(fromBytes(toBytes(text))).toBe(text);
        expect(toBytes(text)).toMatch(/^[\0-\xff]*$/);
      }),
    );
  });

  it("a literal is ASCII and holds the text's bytes", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (text) => {
        const literal = boardLiteral(text);
        expect(literal).toMatch(/^[ -~]*$/);
        expect(fromBytes(new Function(`return ${literal}`)() as string)).toBe(text);
      }),
    );
    expect(boardLiteral('a"b\\ü\n')).toBe('"a\\x22b\\x5c\\xc3\\xbc\\x0a"');
  });

  it("decodes and encodes nested values", () => {
    const value = { schlüssel: ["ü", 1, null, { text: "€" }], ok: true };
    expect(decodeValue(encodeValue(value))).toEqual(value);
  });
});

describe("plain output", () => {
  const plain = (...pieces: string[]): string => {
    let out = "";
    const output = createPlainOutput((text) => (out += text));
    for (const piece of pieces) output.feed(piece);
    output.end();
    return out;
  };

  it.each([
    ["line ends", ["a\r\nb\r\n"], "a\nb\n"],
    ["a last line without end", ["a\r\nyou> "], "a\nyou>\n"],
    ["an erased prompt", [">\r\x1b[Jdone\r\n>"], "done\n>\n"],
    ["an overwritten prompt", [">", "\r", "hi\r\n"], "hi\n"],
    ["backspace", ["abx\b \bc\r\n"], "abc\n"],
    ["colours and cursor keys", ["\x1b[31mred\x1b[0m\x1b[D\x1b[Cx\r\n"], "redx\n"],
    ["a sequence in pieces", ["a\x1b", "[3", "1mb\r\n"], "ab\n"],
    ["UTF-8 in pieces", ["\xc3", "\xbc\r\n"], "ü\n"],
  ])("%s", (_, pieces, expected) => {
    expect(plain(...pieces)).toBe(expected);
  });
});
