import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import { toBytes } from "../drivers/bytes";
import type { Registry } from "../../firmware/types";
import { bootFirmware, callTool } from "./board";

let firmware: ReturnType<typeof bootFirmware>;
let tools: { count: number };
let seen: any[];

beforeEach(() => {
  firmware = bootFirmware();
  tools = { count: 0 };
  seen = [];
});

/** Registers a tool that notes what it was called with. */
function register(
  name: string,
  properties: object,
  required: string[] = [],
  execute: (args: any, context: any) => any = () => "done",
): void {
  const problem = firmware.editRegistry(tools).append({
    name,
    description: `Does ${name}`,
    parameters: { type: "object", properties, required },
    execute(args: any, context: any) {
      seen.push(args);
      return execute(args, context);
    },
  });
  expect(problem).toBe("");
}

const call = (name: string, args: unknown) =>
  callTool(firmware, { tools } as any, name, args);

/** Lets everything happen that does not wait for time. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

/** Calls a tool that gives `output`. */
function give(output: () => any) {
  register("tool", {}, [], output);
  return call("tool", {});
}

describe("arguments against the schema", () => {
  const properties = {
    text: { type: "string" },
    number: { type: "number", minimum: -1.5, maximum: 10 },
    ratio: { type: "double" },
    whole: { type: "integer", minimum: 0, maximum: 39 },
    flag: { type: "boolean" },
    list: { type: "array" },
    map: { type: "object" },
    mode: { type: "string", enum: ["on", "off", toBytes("grün")] },
    level: { type: "integer", enum: [1, 2, 4] },
  };

  it("takes what fits, as it came", async () => {
    register("tool", properties);
    const good = {
      text: "",
      number: -1.5,
      ratio: 0.1,
      whole: 39,
      flag: false,
      list: [],
      map: { a: 1 },
      mode: "off",
      level: 4,
      extra: [1],
    };
    expect(await call("tool", good)).toEqual({ isError: false, content: "done" });
    expect(seen).toEqual([good]);
  });

  it("makes numbers of numeric text, for numbers only", async () => {
    register("tool", properties);
    await call("tool", { number: " 3.5 ", ratio: "-2e3", whole: "12", level: "2", text: "7" });
    expect(seen).toEqual([{ number: 3.5, ratio: -2000, whole: 12, level: 2, text: "7" }]);
  });

  it("treats null as not given", async () => {
    register("tool", properties, ["text"]);
    await call("tool", { text: "a", number: null, mode: null });
    expect(seen).toEqual([{ text: "a" }]);
    expect(await call("tool", { text: null })).toEqual({
      isError: true,
      content: 'tool: the argument "text" is missing',
    });
  });

  it.each([
    ["text", 5, "of type string"],
    ["text", ["a"], "of type string"],
    ["number", "abc", "of type number"],
    ["number", "", "of type number"],
    ["number", "  ", "of type number"],
    ["number", "1 2", "of type number"],
    ["number", true, "of type number"],
    ["number", [1], "of type number"],
    ["number", "Infinity", "of type number"],
    ["number", -1.6, "-1.5 or more"],
    ["number", 10.01, "10 or less"],
    ["number", "11", "10 or less"],
    ["ratio", "x", "of type number"],
    ["ratio", {}, "of type number"],
    ["whole", 1.5, "a whole number"],
    ["whole", "1.5", "a whole number"],
    ["whole", -1, "0 or more"],
    ["whole", 40, "39 or less"],
    ["flag", "true", "of type boolean"],
    ["flag", 1, "of type boolean"],
    ["list", "a", "of type array"],
    ["list", {}, "of type array"],
    ["map", [], "of type object"],
    ["map", "{}", "of type object"],
    ["mode", "On", 'one of ["on","off","gr\xc3\xbcn"]'],
    ["level", 3, "one of [1,2,4]"],
  ])("refuses %s %j: must be %s", async (name, value, words) => {
    register("tool", properties);
    const result = await call("tool", { [name]: value });
    expect(result.isError).toBe(true);
    expect(result.content).toContain(`tool: the argument "${name}" must be ${words}, not `);
    expect(seen).toEqual([]);
  });

  it("refuses 1e999, whatever the parser makes of it", async () => {
    register("tool", properties);
    expect((await call("tool", '{"number":1e999}')).isError).toBe(true);
    expect((await call("tool", '{"whole":1e999}')).isError).toBe(true);
    expect(seen).toEqual([]);
  });

  it("names what is missing", async () => {
    register("tool", properties, ["text", "whole"]);
    expect(await call("tool", { text: "a" })).toEqual({
      isError: true,
      content: 'tool: the argument "whole" is missing',
    });
    expect(await call("tool", "")).toEqual({ isError: true, content: 'tool: the argument "text" is missing' });
  });

  it("keeps a long value out of the message", async () => {
    register("tool", properties);
    const result = await call("tool", { whole: "x".repeat(1000) });
    expect(result.content.length).toBeLessThan(200);
    expect(result.content).toContain("[cut: ");
  });

  it("sends no double to a model, and leaves the word alone elsewhere", () => {
    register(
      "tool",
      {
        double: { type: "double", description: 'a "double" value' },
        size: { type: "string", enum: ["single", "double"] },
      },
      ["double"],
    );
    const { parameters } = firmware.load(firmware.find(tools, "tool")!);
    expect(JSON.parse(parameters)).toEqual({
      type: "object",
      properties: {
        double: { type: "number", description: 'a "double" value' },
        size: { type: "string", enum: ["single", "double"] },
      },
      required: ["double"],
    });
  });

  it("gives a parameter called like the alias by its own name", async () => {
    register("tool", { double: { type: "number" } }, ["double"]);
    expect(await call("tool", { double: 2 })).toEqual({ isError: false, content: "done" });
  });

  it("never runs a tool with an argument of another type than its schema's", () => {
    const types = ["string", "number", "integer", "boolean", "array", "object"] as const;
    register("any", Object.fromEntries(types.map((type) => [type, { type }])));
    return fc.assert(
      fc.asyncProperty(
        fc.record(Object.fromEntries(types.map((type) => [type, fc.jsonValue({ maxDepth: 1 })])), { requiredKeys: [] }),
        async (args) => {
          seen = [];
          const result = await call("any", toBytes(JSON.stringify(args)));
          expect(result.isError).toBe(seen.length === 0);
          for (const type of types) {
            const value = seen[0]?.[type];
            if (value === undefined) continue;
            if (type === "integer") expect(Number.isInteger(value)).toBe(true);
            else if (type === "array") expect(Array.isArray(value)).toBe(true);
            else expect(typeof value).toBe(type);
          }
        },
      ),
    );
  });
});

describe("arguments as text", () => {
  it("is a complete JSON object, or nothing", async () => {
    register("tool", {});
    for (const none of ["", " ", "{}", "\n{ }\n"]) expect((await call("tool", none)).isError, none).toBe(false);
    expect(seen).toEqual([{}, {}, {}, {}]);
  });

  it.each([
    '{"a":1',
    '{"a":1}}',
    '{"a":1} x',
    '{"a":1} {"b":2}',
    '{"a":1}, {"b":2}',
    '{"a":1},',
    '{"a":1}]',
    '{"a":1}] x',
    '{"a":12',
    "{",
    "}",
    "[]",
    "[{}]",
    "1",
    '"{}"',
    "null",
    "true",
    "undefined",
    "{a:1}",
    '{"a":}',
    '{"a":-}',
    '{"a"',
    "<tool>",
    '{"a":"x}',
    "{}[]{}",
    "\0{}",
    '{"a":1}\0}',
  ])("refuses %j and does not run the tool", async (text) => {
    register("tool", {});
    const result = await call("tool", text);
    expect(result.isError).toBe(true);
    expect(result.content).toContain("JSON");
    expect(seen).toEqual([]);
  });

  it("unwraps a call that is wrapped in its own arguments", async () => {
    register("tool", {});
    await call("tool", { name: "tool", arguments: { a: 1 } });
    await call("tool", { parameters: { a: 2 }, name: "tool" });
    expect(seen).toEqual([{ a: 1 }, { a: 2 }]);
  });

  it("leaves alone what only looks like it", async () => {
    register("tool", {});
    const other = [
      { name: "other", arguments: { a: 1 } },
      { name: "tool" },
      { name: "tool", arguments: { a: 1 }, more: 1 },
      { name: "tool", arguments: [1] },
      { name: "tool", arguments: 5 },
      { arguments: { a: 1 } },
    ];
    for (const args of other) await call("tool", args);
    expect(seen).toEqual(other);
  });

  it("reads escapes as UTF-8 bytes", async () => {
    register("tool", {});
    await call("tool", '{"a":"\\u4f60 \\ud83d\\ude00 caf\\u00e9 \\\\u00e9 \\u0022"}');
    expect(seen).toEqual([{ a: toBytes('你 😀 café \\u00e9 "') }]);
  });

  it("takes no property from __proto__", async () => {
    register("tool", { isAdmin: { type: "boolean" } }, ["isAdmin"]);
    expect((await call("tool", '{"__proto__":{"isAdmin":true}}')).isError).toBe(true);
    expect(({} as any).isAdmin).toBeUndefined();
  });
});

describe("what a tool gives", () => {
  it("names the tools there are where there is none of that name", async () => {
    register("add", {});
    register("mul", {});
    for (const name of ["sub", "", "Add", "__proto__", "toString"]) {
      expect(await call(name, "{}")).toEqual({
        isError: true,
        content: `there is no tool called ${name}. Tools: add, mul`,
      });
    }
  });

  it.each([
    ["text", () => "text", false, "text"],
    ["nothing", () => undefined, false, "done (no output)"],
    ["null", () => null, false, "done (no output)"],
    ["empty text", () => "", false, "done (no output)"],
    ["zero", () => 0, false, "0"],
    ["false", () => false, false, "false"],
    ["a number", () => 1.5, false, "1.5"],
    ["a list", () => [1, "a\xc3\xa4"], false, '[1,"a\xc3\xa4"]'],
    ["an object", () => ({ a: { b: 1 } }), false, '{"a":{"b":1}}'],
    ["a result", () => ({ isError: false, content: "fine" }), false, "fine"],
    ["an error result", () => ({ isError: true, content: "pin 9 is flash" }), true, "pin 9 is flash"],
    ["a result without isError", () => ({ content: "fine" }), false, "fine"],
    ["content that is no text", () => ({ content: 5 }), false, '{"content":5}'],
    ["a promise", () => Promise.resolve("later"), false, "later"],
    ["a promise of nothing", () => Promise.resolve(), false, "done (no output)"],
    ["a promise of an error result", () => Promise.resolve({ isError: true, content: "no" }), true, "no"],
    [
      "a throw",
      () => {
        throw new Error("broken");
      },
      true,
      "broken",
    ],
    [
      "a throw of text",
      () => {
        throw "broken";
      },
      true,
      "broken",
    ],
    [
      "a throw of nothing",
      () => {
        throw undefined;
      },
      true,
      "undefined",
    ],
    ["a rejection", () => Promise.reject(new Error("broken")), true, "broken"],
    ["a rejection of nothing", () => Promise.reject(), true, "undefined"],
  ] as [string, () => any, boolean, string][])("%s", async (_, output, isError, content) => {
    expect(await give(output)).toEqual({ isError, content });
    expect(firmware.clock.pending()).toBe(0);
  });

  it("a circular object is written as the board writes one", async () => {
    const object: any = { a: 1 };
    object.self = object;
    expect(await give(() => object)).toEqual({ isError: false, content: '{"a":1,"self": ... }' });
  });

  const hostile = () => ({
    get content() {
      throw new Error("got you");
    },
  });

  it.each([
    ["an object that throws when it is read", hostile],
    ["a promise of one", () => Promise.resolve(hostile())],
  ])("%s is an error result", async (_, output) => {
    let result: any;
    give(output).then(
      (one) => (result = one),
      (error) => (result = `rejected: ${error.message}`),
    );
    await settle();
    expect(result).toMatchObject({ isError: true });
    expect(firmware.clock.pending()).toBe(0);
  });

  it("cuts 100 kB to toolResultBytes, on a character", async () => {
    const result = await give(() => toBytes("€".repeat(33_000)));
    expect(result.content.length).toBeLessThanOrEqual(1024);
    expect(result.content).toMatch(/^(?:\xe2\x82\xac)+\n\[cut: \d+ of 99000 bytes\]$/);
    firmware.openSettings().apply({ toolResultBytes: 64 }, true);
    for (const output of [
      () => "x".repeat(1e5),
      () => ({ isError: true, content: "x".repeat(1e5) }),
      () => ({ list: "x".repeat(1e5) }),
      () => {
        throw new Error("x".repeat(1e5));
      },
      () => Promise.resolve("x".repeat(1e5)),
    ]) {
      tools = { count: 0 };
      expect((await give(output)).content.length).toBeLessThanOrEqual(64);
    }
  });

  it("ends a tool that never settles after toolTimeoutMs, and takes nothing from it later", async () => {
    let resolve!: (value: string) => void;
    let result: any;
    void give(() => new Promise((done) => (resolve = done))).then((one) => (result = one));
    firmware.clock.advance(9_999);
    await settle();
    expect(result).toBeUndefined();
    firmware.clock.advance(1);
    await settle();
    expect(result).toEqual({ isError: true, content: "tool gave no result within 10000 ms (toolTimeoutMs), or ran out of memory" });
    resolve("late");
    await settle();
    expect(result.isError).toBe(true);
    expect(firmware.clock.pending()).toBe(0);
  });

  it("takes a late rejection in silence", async () => {
    let reject!: (error: Error) => void;
    let result: any;
    void give(() => new Promise((__, fail) => (reject = fail))).then((one) => (result = one));
    firmware.clock.advance(10_000);
    reject(new Error("late"));
    await settle();
    expect(result.content).toContain("toolTimeoutMs");
  });

  it("leaves no timer behind once a promise settled", async () => {
    let result: any;
    void give(() => new Promise((done) => firmware.clock.setTimeout(() => done("slow"), 5000))).then(
      (one) => (result = one),
    );
    firmware.clock.advance(5000);
    await settle();
    expect(result).toEqual({ isError: false, content: "slow" });
    expect(firmware.clock.pending()).toBe(0);
  });

  it("shows a tool the others by name and description", async () => {
    register("add", {});
    const list: string[] = [];
    register("list", {}, [], (__, context) => {
      for (let node = context.session.tools.first; node; node = node.next)
        list.push(`${node.name}: ${JSON.parse(firmware.load(node).description)}`);
    });
    await call("list", {});
    expect(list).toEqual(["add: Does add", "list: Does list"]);
  });
});

describe("registering tools", () => {
  const tool = { name: "t", description: "d", execute: () => "" };

  it("refuses bad and double ones by name, and changes nothing", () => {
    for (const bad of [
      null,
      undefined,
      5,
      {},
      { ...tool, name: "" },
      { ...tool, name: "a b" },
      { ...tool, name: "ä" },
      { ...tool, name: "x".repeat(64) },
      { ...tool, name: 5 },
      { ...tool, description: "" },
      { ...tool, description: 5 },
      { ...tool, execute: "no" },
      { ...tool, parameters: {} },
      { ...tool, parameters: { type: "object" } },
      { ...tool, parameters: { type: "string", properties: {} } },
    ]) {
      expect(firmware.editRegistry(tools).append(bad)).not.toBe("");
    }
    expect(tools.count).toBe(0);
    expect(firmware.editRegistry(tools).append({ ...tool, name: `${"x".repeat(60)}-_9` })).toBe("");
    expect(firmware.editRegistry(tools).append(tool)).toBe("");
    expect(firmware.editRegistry(tools).append(tool)).toContain("t is registered already");
    expect(tools.count).toBe(2);
  });

  it("registers the folder's tools once", () => {
    firmware.editRegistry(tools).init(() => true);
    const { count } = tools;
    expect(count).toBeGreaterThan(10);
    firmware.editRegistry(tools).init(() => true);
    expect(tools.count).toBe(count);
    for (let node = (tools as Registry).first; node; node = node.next) {
      const one = firmware.load(node);
      expect(JSON.parse(one.description)).toBeTypeOf("string");
      expect(JSON.parse(one.parameters).type).toBe("object");
      expect(one.parameters).not.toContain('"type":"double"');
    }
  });
});
