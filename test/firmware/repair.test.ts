import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { repair } from "../../firmware/repair";
import { fromBytes, toBytes } from "../drivers/bytes";

/** What a text is repaired to; undefined where it is refused. Characters stand for their UTF-8 bytes. */
const cases: [string, string | undefined][] = [
  // What is JSON already.
  ["{}", "{}"],
  [' { "a" : [ 1 , { "b" : null } ] , "c" : "x" } ', '{"a":[1,{"b":null}],"c":"x"}'],
  [
    '{"a":-0,"b":1E+5,"c":12345678901234567890,"d":1e999,"e":0.10}',
    '{"a":-0,"b":1e+5,"c":12345678901234567890,"d":1e999,"e":0.10}',
  ],
  ['{"a":1,"a":2,"__proto__":3}', '{"a":1,"a":2,"__proto__":3}'],
  [
    '{"t":"\\u4f60 \\ud83d\\ude00 é\\n\\"\\\\\\/ // no /* # {x} \'y\' “z”"}',
    '{"t":"\\u4f60 \\ud83d\\ude00 é\\n\\"\\\\\\/ // no /* # {x} \'y\' “z”"}',
  ],
  // Around the object.
  ['```json\n{"a": 1}\n```', '{"a":1}'],
  ['```\n{"a": "```"}\n```\n', '{"a":"```"}'],
  ['<|FunctionCallBegin|>{"a": 1}<|FunctionCallEnd|>', '{"a":1}'],
  ['<|tool_call|>\n{"a": 1}<|im_end|>', '{"a":1}'],
  ['<tool_call>{"a": 1}</tool_call>', '{"a":1}'],
  ['<｜tool▁sep｜>add\n```json\n{"a": 1}\n```<｜tool▁call▁end｜>', '{"a":1}'],
  ['[TOOL_CALLS]{"a": 1}', '{"a":1}'],
  ['functions.add:0<|tool_call_argument_begin|>{"a": 1}', '{"a":1}'],
  ['<think>{"a": 2}, or "a": 3?</think>\n{"a": 1}', '{"a":1}'],
  ['<thinking>a</thinking><think>{</think>{"t": "<think>x</think>"}<think>"done"</think>', '{"t":"<think>x</think>"}'],
  ["<think>{\"a\": 2} it's not over", undefined],
  ["<think>{\"a\": 2} it's not over<", undefined],
  ["<think>{\"a\": 2} it's not over</think", undefined],
  ['{"a": 1}\n<', '{"a":1}'],
  ['{"a": 2}</think>{"a": 1}', undefined],
  ['Sure! Arguments: {"a": 1} Hope that helps, friend.', '{"a":1}'],
  ['add({"a": 1});', '{"a":1}'],
  ['{"a": 1} // that is "all"\n', '{"a":1}'],
  ['{"a": 1}{"b": 2}', undefined],
  ['{"a": 1}\n{"a": 1}', undefined],
  ['{"a": 1}, "b": 2}', undefined],
  ['{"a": 1}, b', undefined],
  ['{"a": 1} b: 2', undefined],
  ['{"a": 1}}', undefined],
  ['[{"a": 1}]', undefined],
  ['[1, {"a": 1}', undefined],
  ['"a": 1, "b": {"c": 2}', undefined],
  ["a: 1, b: {c: 2}", undefined],
  ["", undefined],
  ["no arguments", undefined],
  ["null", undefined],
  // Quotes and escapes.
  ["{'a': 'x', 'b': ['y', \"z\"]}", '{"a":"x","b":["y","z"]}'],
  ["{'a': 'say \"hi\"', \"b\": \"it's\", 'c': 'it\\'s \\\"'}", '{"a":"say \\"hi\\"","b":"it\'s","c":"it\'s \\""}'],
  ["{“a”: “x”, ‘b’: ‘y’, ”c”: ”z”, ’d’: ’w’}", '{"a":"x","b":"y","c":"z","d":"w"}'],
  ['{“a”: “say "hi"”}', '{"a":"say \\"hi\\""}'],
  ["{'a': 'it's'}", undefined],
  ["{'a': ‘it’s’}", undefined],
  ['{"a": "say "hi""}', undefined],
  ['{"a": “x"}', undefined],
  ['{"a": «x»}', undefined],
  ['{"a": "one\ntwo\r\n\tthree\u0000\u0001"}', '{"a":"one\\ntwo\\r\\n\\tthree\\u0000\\u0001"}'],
  ['{"a": "\\\'é\\\'\n"}', '{"a":"\'é\'\\n"}'],
  ['{"re": "\\d+"}', undefined],
  ['{"a": "\\u12"}', undefined],
  ['{"a": "\\x41"}', undefined],
  // Keys, commas and colons.
  ["{a: 1, b_2: 2, $c: 3, content-type: 'x', true: 4}", '{"a":1,"b_2":2,"$c":3,"content-type":"x","true":4}'],
  ["{1: 2}", undefined],
  ["{a.b: 2}", undefined],
  ['{"a": [1, 2,], "b": {"c": 3,},}', '{"a":[1,2],"b":{"c":3}}'],
  ["{,}", undefined],
  ['{"a": 1,, "b": 2}', undefined],
  ['{"a": [1,,2]}', undefined],
  ['{"a": [,1]}', undefined],
  ['{"a": 1 "b": "x" "c": [1]\n"d": {}\'e\': 2 “f”: 3}', '{"a":1,"b":"x","c":[1],"d":{},"e":2,"f":3}'],
  ['{"a": "x""b": 1}', undefined],
  ['{"a": "x" "b"}', undefined],
  ["{a: 1 b: 2}", undefined],
  ['{"a": [1 2]}', undefined],
  ['{"a": ["x" "y"]}', undefined],
  ['{"a" 1}', undefined],
  ['{"a" b: 1}', undefined],
  ['{"a" "b": 1}', undefined],
  ['{"a" {"b": 1}}', undefined],
  ['{"a":: 1}', undefined],
  ['{"a": }', undefined],
  ['{"a"}', undefined],
  ['{"a": 1]', undefined],
  ['{"a": [1}', undefined],
  // Constants and numbers.
  ["{a: True, b: False, c: None, d: NULL, e: [true, null]}", '{"a":true,"b":false,"c":null,"d":null,"e":[true,null]}'],
  ["{a: +1, b: .5, c: -.5, d: 0x1F, e: 0XFFFFFFFF}", '{"a":1,"b":0.5,"c":-0.5,"d":31,"e":4294967295}'],
  ...["NaN", "Infinity", "-Infinity", "undefined", "D2", "tru", "nulll", "-", "+", ".", "007", "1_000", "1.", "1.e5"],
  ...["1e", "1e+", "e5", "1.2.3", "1-2", "--1", "+-1", "0x", "0xg1", "-0x1F", "0x123456789", "0b11"],
  ...["12px", "1/2", "...", "(1, 2)"],
  ...["u'x'", "'x' + 'y'", "<value>", "x.y()", "é", "#", "\\\"x\\\"", "9".repeat(61)],
].map((one) => (typeof one === "string" ? [`{"a": ${one}}`, undefined] : (one as [string, string | undefined])));

cases.push(
  // Comments.
  ['{// one "\n"a": 1, /* two } */ "b": 2 # three, it\'s\n}', '{"a":1,"b":2}'],
  ['{"a": "x" // never ends }', '{"a":"x"}'],
  ['{"a": 1 // never ends }', undefined],
  ['{"a": "x" /* never ends }', '{"a":"x"}'],
  ['{"a": "x" /* never ends *', '{"a":"x"}'],
  ['{"a": "x" /', undefined],
  ['{"a": "x", // "b": 1}', undefined],
  // Escaped as a whole.
  ['{\\"a\\": \\"x\\", \\"b\\": [1]}', '{"a":"x","b":[1]}'],
  ['"{\\"a\\": 1}"', '{"a":1}'],
  ["'{\"a\": 1}'", '{"a":1}'],
  [
    '{\\n\\t\\"a\\": \\"one\\ntwo\\\\nthree \\\\\\"q\\\\\\" \\\\\\\\ \\u00e9 \\\\u20ac\\"\\n}',
    '{"a":"one\\ntwo\\nthree \\"q\\" \\\\ \\u00e9 \\u20ac"}',
  ],
  ['```json\n{\\"a\\": \\"x\\"\n```', '{"a":"x"}'],
  ['{\\"a\\": "x\\"y"}', undefined],
  ['{\\"a": 1}', undefined],
  ['{"a": \\"x\\"}', undefined],
  ['{\\"a\\": \\"x', undefined],
  ['{\\"a\\": \\"x\\', undefined],
  ['{\\"a\\": \\"x\\\\', undefined],
  ['{\\"a\\": \\"x\\\\\\"', undefined],
  ['{\\"a\u0001\\": 1}', undefined],
  // The end is missing.
  ['{"a": {"b": 1}', '{"a":{"b":1}}'],
  ['{"a": "x"', '{"a":"x"}'],
  ["{'a': {b: [{c: “x”}]", '{"a":{"b":[{"c":"x"}]}}'],
  ['{"a": "x"\n```', '{"a":"x"}'],
  ['<tool_call>{"a": {"b": "x"</tool_call>', '{"a":{"b":"x"}}'],
  ['{"a": "x" <|im_end|> "b": 1}', undefined],
  ...[
    ...["{", '{"', '{"a', '{"a"', '{"value":', '{"value": 12', '{"value": 12 ', '{"value": 12\n```', '{"value": tru'],
    ...['{"value": true', '{"value": "ab', '{"value": "ab\\', '{"value": "ab\\"', '{"value": "ab\\u00', "{'a': 'it"],
    ...['{"a":1,', '{"a":1,"b', '{"a":1,"b"', '{"pin":"D2","value":', '{"a":12,"b":', '{"a":"x",', '{"a":{"b":1},'],
    ...['{"a":{', '{"a":[', '{"a":["x"', '{"a":["x","y"', '{"a":[{"b":1}', '{"a":“x'],
  ].map((cut): [string, undefined] => [cut, undefined]),
);

const repaired = (text: string): string | undefined => {
  const json = repair(toBytes(text));
  return json === undefined ? undefined : fromBytes(json);
};

/** Like JSON, down to `-0`, the order of keys and a key `__proto__`. */
const same = (a: unknown, b: unknown): boolean => JSON.stringify([a]) === JSON.stringify([b]);

/** Whether `part` is `whole` except for members that its objects lack. */
function isPartOf(part: any, whole: any): boolean {
  if (typeof part !== "object" || part === null || Array.isArray(part)) return same(part, whole);
  if (typeof whole !== "object" || whole === null || Array.isArray(whole)) return false;
  return Object.keys(part).every((key) => Object.hasOwn(whole, key) && isPartOf(part[key], whole[key]));
}

const text = fc.oneof(
  fc.string({ unit: "binary", maxLength: 12 }),
  fc.string({ unit: fc.constantFrom(..."\"'\\“”’\n\t\x01{},:#a€", "//"), maxLength: 8 }),
  fc.constantFrom("12", "true", "</think>", "<|im_end|>", "```", "pin"),
);
const scalar = fc.oneof(
  text,
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((one) => (one === 0 ? 0 : one)),
  fc.boolean(),
  fc.constant(null),
);
const { object } = fc.letrec<{ value: unknown; object: Record<string, unknown> }>((tie) => ({
  value: fc.oneof({ depthSize: "small" }, scalar, fc.array(tie("value"), { maxLength: 4 }), tie("object")),
  object: fc.dictionary(fc.oneof(text, fc.stringMatching(/^[a-z_]{1,6}$/)), tie("value"), { maxKeys: 5 }),
}));

/** Chooses among `n` by numbers that fast-check made and can shrink. */
type Pick = (n: number) => number;
const choices = fc.array(fc.nat({ max: 1000 }), { minLength: 1, maxLength: 60 }).map((tape): Pick => {
  let i = 0;
  return (n) => tape[i++ % tape.length]! % n;
});

/** `value` written with every kind of damage that loses nothing. */
function damaged(value: unknown, pick: Pick): string {
  const spaces = ["", "", " ", "\n", "\r\n\t", "// it's {x\n", '/* "a": [1, */', '# } no "\n'];
  const space = (): string => spaces[pick(spaces.length)]!;
  const escaped = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;

  function quoted(one: string): string {
    const [before, after] = [['"', '"'], ["'", "'"], ["“", "”"], ["‘", "’"]][pick(4)]!;
    let body = "";
    for (const character of one) {
      if (character === "\\") body += "\\\\";
      else if (/[\ud800-\udfff]/u.test(character)) body += escaped(character);
      else if (character === after) body += /["']/.test(character) ? `\\${character}` : escaped(character);
      else if (/["']/.test(character)) body += pick(2) ? `\\${character}` : character;
      else if (character === "\n") body += pick(2) ? "\\n" : character;
      else body += pick(6) ? character : character.replace(/[^]/g, escaped);
    }
    return before + body + after;
  }

  function write(one: unknown): string {
    if (typeof one === "string") return quoted(one);
    if (typeof one === "number") {
      const json = JSON.stringify(one);
      const short = pick(2) ? json.replace(/^(-?)0\./, "$1.") : json;
      return one > 0 && !pick(4) ? `+${short}` : short;
    }
    if (typeof one !== "object" || one === null) {
      const json = String(one);
      return [json, json === "null" ? "None" : json[0]!.toUpperCase() + json.slice(1)][pick(2)]!;
    }
    const items = Array.isArray(one)
      ? one.map(write)
      : Object.entries(one).map(([key, inner]) => {
          const name = /^[A-Za-z_$][\w$-]*$/.test(key) && pick(2) ? key : quoted(key);
          return `${name}${space()}:${space()}${write(inner)}`;
        });
    let body = items[0] ?? "";
    for (const item of items.slice(1)) {
      const canLack = !Array.isArray(one) && /^["'“‘]/.test(item);
      body += canLack && !pick(3) ? ` ${space()}${item}` : `${space()},${space()}${item}`;
    }
    if (items.length && !pick(3)) body += `${space()},`;
    const [before, after] = Array.isArray(one) ? "[]" : "{}";
    return before + space() + body + space() + after;
  }

  const json = write(value);
  return [
    json,
    `\`\`\`json\n${json}\n\`\`\``,
    `<|FunctionCallBegin|>${json}<|FunctionCallEnd|>`,
    `<think>{"a": 1} "or</think>\n${json}\n</tool_call>`,
    `Here you go: ${json}\nThat's all, friend.`,
  ][pick(5)]!;
}

describe("repair", () => {
  it.each(cases)("%j", (input, expected) => {
    expect(repaired(input)).toBe(expected);
    if (expected !== undefined) expect(() => JSON.parse(expected)).not.toThrow();
  });

  it("keeps deep nesting up to its limit, and refuses more", () => {
    const nested = (levels: number): string => '{"a":'.repeat(levels - 1) + "{}" + "}".repeat(levels - 1);
    expect(repair(nested(32))).toBe(nested(32));
    expect(repair(nested(33))).toBeUndefined();
    expect(repair('{"a":'.repeat(100_000))).toBeUndefined();
  });

  it("gives valid JSON back equal, however it is laid out", () => {
    fc.assert(
      fc.property(object, fc.nat({ max: 4 }), (value, indent) => {
        const json = JSON.stringify(value, null, indent);
        expect(repaired(json)).toBe(repaired(JSON.stringify(value)));
        expect(same(JSON.parse(repaired(json)!), JSON.parse(json))).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  it("gives exactly the values of a whole object, whatever the damage", () => {
    fc.assert(
      fc.property(object, choices, (value, pick) => {
        const json = damaged(value, pick);
        const result = repaired(json);
        expect(result, json).toBeDefined();
        expect(same(JSON.parse(result!), JSON.parse(JSON.stringify(value))), json).toBe(true);
      }),
      { numRuns: 1500 },
    );
  });

  it("reads an object that was escaped as a whole", () => {
    fc.assert(
      fc.property(object, fc.constantFrom(undefined, 2, "\t"), fc.boolean(), (value, indent, quotes) => {
        const inner = JSON.stringify(value, null, indent);
        const json = JSON.stringify(inner);
        expect(same(JSON.parse(repaired(quotes ? json : json.slice(1, -1))!), JSON.parse(inner))).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  it("never shortens a value that was cut: only members after the last complete one are missing", () => {
    fc.assert(
      fc.property(object, fc.nat({ max: 4 }), (value, indent) => {
        const json = JSON.stringify(value, null, indent);
        for (let end = 0; end < json.length; end++) {
          const result = repaired(json.slice(0, end));
          if (result === undefined) continue;
          expect(json.slice(0, end)).toMatch(/["\]}]\s*$/);
          expect(isPartOf(JSON.parse(result), JSON.parse(json)), json.slice(0, end)).toBe(true);
        }
      }),
      { numRuns: 150 },
    );
  });

  it("never shortens a cut value of a damaged or escaped object either", () => {
    fc.assert(
      fc.property(object, choices, fc.boolean(), (value, pick, whole) => {
        const json = whole ? JSON.stringify(JSON.stringify(value)).slice(1, -1) : damaged(value, pick);
        const original = JSON.parse(JSON.stringify(value));
        for (let end = 0; end < json.length; end++) {
          const result = repaired(json.slice(0, end));
          if (result !== undefined) expect(isPartOf(JSON.parse(result), original), json.slice(0, end)).toBe(true);
        }
      }),
      { numRuns: 150 },
    );
  });

  it("gives strict JSON of an object or nothing, for any input", () => {
    const token = fc.oneof(
      fc.constantFrom("{", "}", "[", "]", ",", ":", '"', "'", "\\", "\\u00e9", " ", "\n", "/*", "*/", "//", "#", "```"),
      fc.constantFrom("a", "1", "0x1", "-", "+", ".", "e", "true", "None", "“", "”", "’", "\x00", "é"),
      fc.constantFrom("<|x|>", "<think>", "</think>"),
      fc.constantFrom('"a":', "{'b': ", '"x"', "1.5", "},", "],"),
    );
    fc.assert(
      fc.property(fc.array(token, { maxLength: 30 }), fc.boolean(), (tokens, brace) => {
        const result = repaired((brace ? "{" : "") + tokens.join(""));
        if (result !== undefined) expect(JSON.parse(result)?.constructor).toBe(Object);
      }),
      { numRuns: 5000 },
    );
  });

  it("takes any bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (array) => {
        const bytes = String.fromCharCode(...array);
        const json = `{a: "${bytes.replace(/["\\]/g, "_")}",}`;
        expect(JSON.parse(repair(json)!)).toEqual({ a: bytes.replace(/["\\]/g, "_") });
        repair(bytes);
      }),
    );
  });
});
