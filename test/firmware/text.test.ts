import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fromBytes, toBytes } from "../drivers/bytes";
import { bootFirmware, isUtf8 } from "./board";

const { cutUtf8, decodeEscapes, fromJson, limitText, toJson, wireText } = bootFirmware();

/** Text without lone halves of surrogate pairs: what UTF-8 can hold. */
const wellFormed = fc.string({ unit: "binary" });
const bytes = fc.string({ unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)) });
/** Bytes that are nearly UTF-8: text with single bytes changed, lost or put in. */
const nearlyUtf8 = fc
  .array(
    fc.oneof(
      fc.string({ unit: "binary", maxLength: 3 }).map(toBytes),
      fc.constantFrom(
        "\xc3",
        "\xe2\x82",
        "\xf0\x9f\x98",
        "\xed\xa0\x80",
        "\x80",
        "\xc0\xaf",
        "\xff",
        "\xf4\x90\x80\x80",
      ),
    ),
  )
  .map((parts) => parts.join(""));
const anyBytes = fc.oneof(bytes, nearlyUtf8);

describe("cutUtf8", () => {
  it("cuts before a character that does not fit whole", () => {
    const euro = toBytes("a€b");
    expect([0, 1, 2, 3, 4, 5, 6].map((max) => cutUtf8(euro, max))).toEqual([
      "",
      "a",
      "a",
      "a",
      "a\xe2\x82\xac",
      euro,
      euro,
    ]);
    expect(cutUtf8(toBytes("😀"), 3)).toBe("");
    expect(cutUtf8("abc", -5)).toBe("");
  });

  it("gives the longest start that fits and breaks no character", () => {
    fc.assert(
      fc.property(wellFormed, fc.nat(80), (text, max) => {
        const whole = toBytes(text);
        const cut = cutUtf8(whole, max);
        expect(whole.startsWith(cut)).toBe(true);
        expect(cut.length).toBeLessThanOrEqual(max);
        expect(isUtf8(cut)).toBe(true);
        if (cut !== whole) expect(cut.length).toBeGreaterThan(max - 4);
      }),
    );
  });

  it("never gives more than was asked for, of any bytes", () => {
    fc.assert(
      fc.property(anyBytes, fc.integer({ min: -3, max: 80 }), (text, max) => {
        expect(cutUtf8(text, max).length).toBeLessThanOrEqual(Math.max(0, max));
      }),
    );
  });
});

describe("limitText", () => {
  it("says how much was kept", () => {
    expect(limitText("x".repeat(100), 100)).toBe("x".repeat(100));
    expect(limitText("x".repeat(101), 100)).toBe(`${"x".repeat(64)}\n[cut: 64 of 101 bytes]`);
    expect(limitText(toBytes("€".repeat(40)), 100)).toBe(toBytes(`${"€".repeat(21)}\n[cut: 63 of 120 bytes]`));
  });

  it("stays within the limit, marker and all, and valid", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "binary", minLength: 20, maxLength: 300 }),
        fc.integer({ min: 32, max: 400 }),
        (text, max) => {
          const limited = limitText(toBytes(text), max);
          expect(limited.length).toBeLessThanOrEqual(max);
          expect(isUtf8(limited)).toBe(true);
        },
      ),
    );
  });
});

describe("decodeEscapes", () => {
  /** A JSON string literal in which any character may be written as an escape. */
  const literal = fc
    .array(
      fc.oneof(
        fc.tuple(wellFormed, fc.boolean()),
        fc.tuple(
          fc.constantFrom("\\", "\\u00e9", "\\\\u20ac", '"', "\\ud83d", "😀", "€", "é", "\u007f", "\u0080"),
          fc.boolean(),
        ),
      ),
    )
    .map((parts) => ({
      value: parts.map(([text]) => text).join(""),
      json: `"${parts
        .map(([text, escaped]) =>
          escaped
            ? text.replace(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
            : JSON.stringify(text).slice(1, -1),
        )
        .join("")}"`,
    }));

  it("turns escapes into UTF-8 bytes and leaves the rest alone", () => {
    expect(decodeEscapes('"\\u20ac"')).toBe('"\xe2\x82\xac"');
    expect(decodeEscapes('"\\ud83d\\ude00"')).toBe(toBytes('"😀"'));
    expect(decodeEscapes('"\\u00E9\\u00e9"')).toBe(toBytes('"éé"'));
    expect(decodeEscapes('"\\u0022\\n\\u000a"')).toBe('"\\u0022\\n\\u000a"');
    // An escaped backslash before a u is no escape; a third one is.
    expect(decodeEscapes('"\\\\u20ac"')).toBe('"\\\\u20ac"');
    expect(decodeEscapes('"\\\\\\u20ac"')).toBe('"\\\\\xe2\x82\xac"');
    // Half of a pair at the edge of its string stays three bytes: the other half may come in the next piece of the
    // reply. Anywhere else it becomes U+FFFD.
    expect(decodeEscapes('"\\ud83d"')).toBe('"\xed\xa0\xbd"');
    expect(decodeEscapes('"\\ud83d\\u0041"')).toBe('"\xef\xbf\xbd\\u0041"');
    expect(decodeEscapes('"\\ud83d\\ud83d\\ude00"')).toBe('"\xef\xbf\xbd\xf0\x9f\x98\x80"');
  });

  it("reads every string as JSON.parse of a whole engine does", () => {
    fc.assert(
      fc.property(literal, ({ json, value }) => {
        // What the two sides are compared with is itself checked.
        expect(JSON.parse(json)).toBe(value);
        expect(fromJson(toBytes(json))).toBe(toBytes(value));
      }),
      { numRuns: 500 },
    );
  });

  it("never makes valid JSON of what is none", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom("\\", "u", "0", "0e9", "20ac", "d83d", '"', "z", "\\u")), (parts) => {
        const json = `"${parts.join("")}"`;
        let decoded = true;
        try {
          JSON.parse(decodeEscapes(json));
        } catch {
          decoded = false;
        }
        if (decoded) expect(() => JSON.parse(json)).not.toThrow();
      }),
      { numRuns: 1000 },
    );
    for (const json of ['{"a":"\\u20a"x"}', '"\\u20"', '"\\u', "\\u"]) {
      expect(() => JSON.parse(decodeEscapes(json)), json).toThrow();
    }
  });
});

describe("wireText", () => {
  const valid = (text: string) => fromJson(wireText(text));

  it("puts U+FFFD in the place of each bad byte", () => {
    const bad = "\xef\xbf\xbd";
    expect(wireText("caf\xe9")).toBe(`"caf${bad}"`);
    expect(valid("\xe2\x82")).toBe(bad + bad);
    expect(valid("\xc0\xafx")).toBe(`${bad}${bad}x`);
    expect(valid("\xed\xa0\xbd")).toBe(bad + bad + bad);
    expect(valid("\xf4\x90\x80\x80")).toBe(bad.repeat(4));
    expect(valid("\xe2\x82\xe2\x82\xac")).toBe(`${bad}${bad}\xe2\x82\xac`);
    expect(wireText("")).toBe('""');
  });

  it("changes nothing that is valid", () => {
    fc.assert(
      fc.property(wellFormed, (text) => {
        expect(valid(toBytes(text))).toBe(toBytes(text));
        expect(JSON.parse(fromBytes(wireText(toBytes(text))))).toBe(text);
      }),
    );
  });

  it("gives valid UTF-8 for any bytes, and loses no good character", () => {
    fc.assert(
      fc.property(
        fc.array(anyBytes).map((parts) => parts.join("")),
        (text) => {
          expect(isUtf8(wireText(text))).toBe(true);
          // The reference replaces whole runs, so only the number of marks may differ.
          const reference = new TextDecoder("utf-8", { ignoreBOM: true }).decode(Buffer.from(text, "latin1"));
          expect(fromBytes(valid(text)).replace(/\ufffd+/g, "\ufffd")).toBe(reference.replace(/\ufffd+/g, "\ufffd"));
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe("JSON of byte strings", () => {
  it("writes bytes raw", () => {
    expect(toJson(toBytes('é"\n€'))).toBe(toBytes('"é\\"\\n€"'));
    expect(toJson({ a: [1 / 0, NaN, null, true, toBytes("😀")] })).toBe(toBytes('{"a":[null,null,null,true,"😀"]}'));
    // A backslash and u00e9 as text are that, not an é.
    expect(toJson("\\u00e9")).toBe('"\\\\u00e9"');
  });

  it("gives what anybody else reads as the same value, and reads it back", () => {
    fc.assert(
      fc.property(wellFormed, (text) => {
        const json = toJson(toBytes(text));
        expect(JSON.parse(fromBytes(json))).toBe(text);
        expect(fromJson(json)).toBe(toBytes(text));
      }),
      { numRuns: 300 },
    );
  });

  it("loses no byte of any string", () => {
    // The board's own parser ends at a NUL byte, but a NUL is written as an escape.
    fc.assert(
      fc.property(anyBytes, (text) => {
        expect(fromJson(toJson(text))).toBe(text);
      }),
    );
  });

  it("does so for whole values", () => {
    const value = fc
      .jsonValue({ maxDepth: 3 })
      .map((one) => JSON.parse(JSON.stringify(one).replaceAll("__proto__", "proto").replaceAll("constructor", "c")));
    const encode = (one: any): any =>
      typeof one === "string"
        ? toBytes(one)
        : Array.isArray(one)
          ? one.map(encode)
          : one && typeof one === "object"
            ? Object.fromEntries(Object.entries(one).map(([key, inner]) => [toBytes(key), encode(inner)]))
            : Object.is(one, -0)
              ? 0
              : one;
    fc.assert(
      fc.property(value, (one) => {
        expect(fromJson(toJson(encode(one)))).toEqual(encode(one));
      }),
    );
  });
});
