import { beforeEach, describe, expect, it } from "vitest";
import { toBytes } from "../drivers/bytes";
import { bootGraphs } from "./graph-run";

let board: ReturnType<typeof bootGraphs>;

beforeEach(() => {
  board = bootGraphs();
  const number = { type: "number" };
  board.addTool("add", { a: number, b: number }, ({ a, b }) => String(a + b));
  board.addTool("say", { text: { type: "string" } }, ({ text }) => `said ${text}`);
  board.addTool(
    "pin",
    { pin: { type: "integer" }, on: { type: "boolean" } },
    ({ pin, on }) => `Pin ${pin} is ${on ? "on" : "off"}`,
    ["pin"],
  );
  board.addTool("weather", { city: { type: "string" } }, ({ city }) =>
    JSON.stringify({ city, main: { temp: 21.5 }, days: [{ name: "Mon" }, { name: "Tue", rain: null }] }),
  );
  board.addTool("fail", {}, () => ({ isError: true, content: "no sensor" }));
});

const head = { name: "graph", description: "For the test." };
const text = (from: string) => ({ text: { type: "string", from } });

/** Registers a graph and calls it. */
async function run(graph: object, args: object = {}) {
  expect(board.add({ ...head, ...graph })).toBe("");
  return board.call("graph", args);
}

/** Runs a graph that has one output, `x`, of one node `x`. */
const runNode = (x: object, type = "string", more: object = {}) =>
  run({ nodes: { x, ...more }, outputs: { x: { type, from: "{x}" } } });

describe("nodes", () => {
  it("calls tools with values, references and templates", async () => {
    const graph = {
      inputs: { who: { type: "string" }, n: { type: "integer" } },
      nodes: {
        greeting: { tool: "say", in: { text: "Hello {who}, {sum}!" } },
        sum: { tool: "add", in: { a: "{n}", b: 0.5 }, type: "number" },
      },
      outputs: text("{greeting}"),
    };
    expect(await run(graph, { who: toBytes("Zoë {n}"), n: 2 })).toEqual({
      isError: false,
      content: toBytes("said Hello Zoë {n}, 2.5!"),
    });
    expect(board.calls).toEqual([
      ["add", { a: 2, b: 0.5 }],
      ["say", { text: toBytes("Hello Zoë {n}, 2.5!") }],
    ]);
  });

  it("gives constants as they are, nothing filled in", async () => {
    const value = { a: ["{x}", 1, null], b: true };
    expect(await runNode({ value }, "object")).toEqual({ isError: false, content: JSON.stringify(value) });
  });

  it("gives text of every value, and leaves braces that are no reference", async () => {
    const values = {
      i: { value: 3 },
      f: { value: 0.1 },
      b: { value: false },
      l: { value: [1, "a"] },
      o: { value: {} },
      s: { value: "x" },
    };
    expect(await runNode({ text: "{i}{f}{b}{l}{o}{s} {} { i} {i {{s}} }" }, "string", values)).toMatchObject({
      content: '30.1false[1,"a"]{}x {} { i} {i {x} }',
    });
  });

  it.each([
    [{ path: "main.temp", type: "number" }, "21.5"],
    [{ path: "main.temp" }, "21.5"],
    [{ path: "main", type: "object" }, '{"temp":21.5}'],
    [{ path: "main" }, '{"temp":21.5}'],
    [{ path: "days[1].name" }, "Tue"],
    [{ path: "days.0.name" }, "Mon"],
    [{ path: "days", type: "array" }, '[{"name":"Mon"},{"name":"Tue","rain":null}]'],
    [{ behind: '"name":"', path: "x" }, /there is nothing at x/],
    [{ path: "main.rain" }, /node "x": there is nothing at main.rain of \{"city"/],
    [{ path: "days[2].name" }, /nothing at days\[2\].name/],
    [{ path: "days[1].rain" }, /nothing/],
    [{ path: "toString" }, /nothing/],
    [{ path: "city.length" }, /nothing/],
    [{ path: "city", type: "number" }, /its type is to be number, and it is/],
    [{ path: "main.temp", type: "integer" }, /its type is to be integer/],
  ])("picks along a path: %j", async (fields, expected) => {
    const weather = { tool: "weather", in: { city: "Bern" } };
    const result = await runNode({ pick: "{weather}", ...fields }, (fields as any).type, { weather });
    expect(result).toEqual({
      isError: typeof expected !== "string",
      content: typeof expected === "string" ? expected : expect.stringMatching(expected),
    });
  });

  it.each([
    [{ behind: "reads " }, "0.512 (about 1.69 V)"],
    [{ behind: "reads ", type: "number" }, "0.512"],
    [{ behind: "about", type: "number" }, "1.69"],
    [{ behind: "Pin", type: "integer" }, "34"],
    [{ behind: "next " }, "line"],
    [{ behind: "missing" }, /node "x": "missing" is not in Pin 34/],
    [{ behind: "reads ", type: "boolean" }, /its type is to be boolean/],
    [{ behind: "V)", type: "number" }, /its type is to be number/],
    [{ behind: "reads ", type: "integer" }, /its type is to be integer/],
  ])("picks behind a text: %j", async (fields, expected) => {
    const reading = { value: "Pin 34 reads 0.512 (about 1.69 V)\nnext line" };
    const result = await runNode({ pick: "{reading}", ...fields }, (fields as any).type, { reading });
    expect(result?.content).toEqual(typeof expected === "string" ? expected : expect.stringMatching(expected));
  });

  it.each([
    ["number", " 42 ", "42"],
    ["number", "-1.5e2", "-150"],
    ["integer", "7.0", "7"],
    ["boolean", "true", "true"],
    ["array", "[1]", "[1]"],
    ["object", '{"a":1}', '{"a":1}'],
    ["number", "42 apples", undefined],
    ["number", "", undefined],
    ["number", "1,2", undefined],
    ["integer", "1.5", undefined],
    ["boolean", "yes", undefined],
    ["array", "{}", undefined],
    ["object", "[]", undefined],
    ["object", "null", undefined],
  ])("reads the text of a tool as %s: %j", async (type, given, expected) => {
    board.addTool("echo", { text: { type: "string" } }, (args) => args.text || " ");
    const result = await runNode({ tool: "echo", in: { text: given }, type }, type);
    if (expected !== undefined) expect(result).toEqual({ isError: false, content: expected });
    else
      expect(result).toEqual({ isError: true, content: expect.stringMatching(`node "x": its type is to be ${type}`) });
  });

  it.each([
    [{ if: "{n}", below: 6 }, true],
    [{ if: "{n}", below: 5 }, false],
    [{ if: "{n}", above: 4.5 }, true],
    [{ if: "{n}", above: 5 }, false],
    [{ if: "{n}", equals: 5 }, true],
    [{ if: "{n}", equals: "{n}" }, true],
    [{ if: "{s}", equals: "five" }, true],
    [{ if: "{s}", equals: "fi" }, false],
    [{ if: "{s}", contains: "iv" }, true],
    [{ if: "{s}", contains: "even" }, false],
    [{ if: "{b}" }, true],
    [{ if: "{b}", equals: false }, false],
    [{ if: "is {s}", contains: "is {s}" }, true],
  ])("decides %j", async (condition, holds) => {
    const values = { n: { value: 5 }, s: { value: "five" }, b: { value: true } };
    const used = { text: "{n}{s}{b}" };
    const result = await runNode({ ...condition, then: "yes {used}", else: "no {used}" }, "string", {
      ...values,
      used,
    });
    expect(result?.content).toBe(`${holds ? "yes" : "no"} 5fivetrue`);
  });

  it("runs only what the branch needs that is taken, once, and shares what both need", async () => {
    const graph = {
      inputs: { on: { type: "boolean" } },
      nodes: {
        left: { tool: "say", in: { text: "left {shared}" } },
        answer: { if: "{on}", then: "{left} {left}", else: "{right}" },
        right: { tool: "say", in: { text: "right {only} {shared}" } },
        only: { tool: "add", in: { a: 1, b: 1 } },
        shared: { tool: "add", in: { a: 2, b: 2 } },
      },
      outputs: text("{answer}"),
    };
    expect((await run(graph, { on: true }))?.content).toBe("said left 4 said left 4");
    expect(board.calls.map(([name]) => name)).toEqual(["add", "say"]);
    board.calls.length = 0;
    expect((await board.call("graph", { on: false }))?.content).toBe("said right 2 4");
    expect(board.calls.map(([name]) => name)).toEqual(["add", "add", "say"]);
  });

  it("keeps the order that `after` asks for", async () => {
    const graph = {
      nodes: {
        read: { tool: "say", in: { text: "read" }, after: "{on} {twice}" },
        on: { tool: "pin", in: { pin: 2, on: true } },
        twice: { tool: "pin", in: { pin: 2 }, after: "{on}" },
      },
      outputs: text("{read}"),
    };
    expect((await run(graph))?.content).toBe("said read");
    expect(board.calls).toEqual([
      ["pin", { pin: 2, on: true }],
      ["pin", { pin: 2 }],
      ["say", { text: "read" }],
    ]);
  });
});

describe("inputs and outputs", () => {
  it("are the tool's parameters and result", async () => {
    const inputs = {
      a: { type: "number", description: toBytes("in °C"), minimum: 0 },
      b: { type: "integer", default: 4 },
      c: { type: "string", enum: ["x", "y"], default: "x" },
    };
    const nodes = { sum: { tool: "add", in: { a: "{a}", b: "{b}" }, type: "number" } };
    const outputs = {
      sum: { type: "number", from: "{sum}" },
      c: { type: "string", from: "{c}" },
      t: { type: "string", from: "t{a}" },
    };
    const description = toBytes('Says "ü"');
    expect(board.add({ ...head, description, inputs, nodes, outputs, repeatable: true })).toBe("");
    const tool = board.load(board.find(board.registry, "graph")!);
    expect(JSON.parse(tool.description)).toBe(toBytes('Says "ü"'));
    expect(JSON.parse(tool.parameters)).toEqual({ type: "object", properties: inputs, required: ["a"] });
    expect(tool.repeatable).toBe(true);
    expect(await board.call("graph", { a: 1.5, b: null })).toEqual({
      isError: false,
      content: '{"sum":5.5,"c":"x","t":"t1.5"}',
    });
    expect(await board.call("graph", { a: "2", b: 0, c: "y" })).toMatchObject({
      content: '{"sum":2,"c":"y","t":"t2"}',
    });
    expect(await board.call("graph", {})).toEqual({ isError: true, content: 'graph: the argument "a" is missing' });
    expect(await board.call("graph", { a: -1 })).toMatchObject({ isError: true, content: /"a" must be 0 or more/ });
    expect(await board.call("graph", { a: 1, c: "z" })).toMatchObject({
      isError: true,
      content: expect.stringContaining("one of"),
    });
  });

  it("take names that every object has", async () => {
    const graph = {
      inputs: { toString: { type: "string" } },
      nodes: {
        hasOwnProperty: { text: "{toString}{valueOf}{isPrototypeOf}" },
        isPrototypeOf: { value: 2 },
        valueOf: { value: 1 },
      },
      outputs: text("{hasOwnProperty}"),
    };
    expect((await run(graph, { toString: "a" }))?.content).toBe("a12");
    expect(board.add({ ...head, name: "other", nodes: { a: { text: "{toString}" } }, outputs: text("{a}") })).toMatch(
      /no node toString/,
    );
  });
});

describe("what is wrong is refused, with node and port", () => {
  const good = {
    inputs: { n: { type: "integer" } },
    nodes: { sum: { tool: "add", in: { a: "{n}", b: 1 }, type: "number" }, words: { text: "{sum}" } },
    outputs: text("{words}"),
  };

  it("has nothing to say about a good one", () => expect(board.add({ ...head, ...good })).toBe(""));

  /** `good` with some of its nodes put differently. */
  const nodes = (changed: object) => ({ ...good, nodes: { ...good.nodes, ...changed } });
  const sum = (given: object, more: object = {}) =>
    nodes({ sum: { tool: "add", in: { a: "{n}", b: 1, ...given }, type: "number", ...more } });
  const input = (more: object) => ({ ...good, inputs: { n: { type: "integer", ...more } } });
  const use = (x: object, type = "string") => ({
    ...good,
    nodes: { ...good.nodes, x },
    outputs: { ...good.outputs, x: { type, from: "{x}" } },
  });

  it.each<[string, object, RegExp]>([
    ["no name", { ...good, name: undefined }, /^name: must be 1 to 63 letters/],
    ["a name with a space", { ...good, name: "two words" }, /^name: /],
    ["no description", { ...good, description: " " }, /^description: must say/],
    ["a long description", { ...good, description: "x".repeat(401) }, /^description: .*1 to 400 bytes, not 401/],
    ["an unknown field", { ...good, node: {} }, /^node: is unknown here; there are .*nodes/],
    ["repeatable that is no boolean", { ...good, repeatable: "yes" }, /^repeatable: must be true or false/],
    ["no nodes", { ...good, nodes: undefined }, /nodes: must be an object/],
    ["nodes that are none", { ...good, nodes: {} }, /nodes: are none/],
    ["no outputs", { ...good, outputs: undefined }, /^outputs: must be an object; node/],
    ["outputs that are none", { ...good, outputs: {} }, /^outputs: are none/],
    ["inputs that are a list", { ...good, inputs: ["n"] }, /^inputs: must be an object/],
    ["an input without a type", { ...good, inputs: { n: {} } }, /^input "n": type is missing/],
    [
      "an input of no type",
      { ...good, inputs: { n: { type: "int" } } },
      /^input "n": type must be one of string, number/,
    ],
    [
      "an input with a wrong name",
      { ...good, inputs: { ...good.inputs, "a-b": { type: "string" } } },
      /input "a-b": is no name/,
    ],
    [
      "a default of another type",
      { ...good, inputs: { n: { type: "integer", default: 1.5 } } },
      /^input "n": default must be of type integer/,
    ],
    [
      "an enum that is no list",
      { ...good, inputs: { n: { type: "integer", enum: 5 } } },
      /^input "n": enum must be of type array/,
    ],
    [
      "a minimum that is text",
      { ...good, inputs: { n: { type: "integer", minimum: "0" } } },
      /^input "n": minimum must be of type number/,
    ],
    ["a default that is too large", input({ default: 7, maximum: 5 }), /^input "n": 7 must be 5 or less/],
    ["a default that is none of the choices", input({ default: 3, enum: [1, 2] }), /^input "n": 3 must be one of \[1,2\]/],
    ["a choice of another type", input({ enum: [1, "two"] }), /^input "n": "two" must be of type integer/],
    ["a choice that is too small", input({ enum: [1, 9], minimum: 5 }), /^input "n": 1 must be 5 or more/],
    ["limits with nothing between", input({ minimum: 5, maximum: 1 }), /^input "n": 5 must be 1 or less/],
    ["a constant that its tool refuses", nodes({ set: { tool: "gpio_write", in: { pin: 4, value: 7 } } }), /^node "set", port "value": must be 1 or less/],
    [
      "an input that nothing uses",
      { ...good, inputs: { ...good.inputs, m: { type: "string" } } },
      /^input "m": is used by no node/,
    ],
    ["a reference to nothing", sum({ b: "{m}" }), /^node "sum", port "b": there is no input and no node m/],
    [
      "a reference to nothing in a template",
      nodes({ words: { text: "{sum} {m}" } }),
      /^node "words", port "text": there is no .* m$/,
    ],
    [
      "an output from nothing",
      { ...good, outputs: { ...good.outputs, x: { type: "string", from: "{m}" } } },
      /^output "x": there is no input and no node m/,
    ],
    [
      "an output without a source",
      { ...good, outputs: { text: { type: "string" } } },
      /output "text": is not connected/,
    ],
    [
      "an output of another type",
      { ...good, outputs: { text: { type: "number", from: "{words}" } } },
      /^output "text": wants number, "words" gives string/,
    ],
    [
      "a tool that is not there",
      nodes({ sum: { tool: "sub", in: { a: "{n}" } } }),
      /^node "sum", port "tool": there is no tool called sub/,
    ],
    [
      "a tool that is the graph itself",
      nodes({ sum: { tool: "graph", in: { a: "{n}" } } }),
      /node "sum", port "tool": is this graph itself/,
    ],
    ["a tool that is no name", nodes({ sum: { tool: 5, in: { a: "{n}" } } }), /^node "sum", port "tool": must be text/],
    [
      "a port that is missing",
      nodes({ sum: { tool: "add", in: { a: "{n}" } } }),
      /^node "sum", port "b": is not connected, add needs it/,
    ],
    ["a port that the tool has not", sum({ c: 1 }), /^node "sum", port "c": is no input of add; there are a, b/],
    ["ports that are no object", nodes({ sum: { tool: "add", in: [1] } }), /node "sum", port "in": must be an object/],
    [
      "a port with two producers",
      sum({ b: ["{n}", 1] }),
      /node "sum", port "b": wants number, not array: a port has one producer/,
    ],
    [
      "a node called as an input",
      nodes({ n: { value: 1 } }),
      /^node "n": is an input, too: {n} would have two producers/,
    ],
    ["text for a number", sum({ b: "one" }), /^node "sum", port "b": wants number, not string/],
    ["a template for a number", sum({ b: "{n}0" }), /^node "sum", port "b": wants number, not string/],
    [
      "a tool's text for a number",
      { ...sum({ b: "{say}" }), nodes: { ...sum({ b: "{say}" }).nodes, say: { tool: "say", in: { text: "a" } } } },
      /^node "sum", port "b": wants number, "say" gives string \(give that node "type": "number"\)/,
    ],
    [
      "a number for text",
      use({ tool: "say", in: { text: "{n}" } }),
      /^node "x", port "text": wants string, "n" gives integer \(make text of it: {"text": "{n}"}\)/,
    ],
    [
      "a number for a whole one",
      use({ tool: "pin", in: { pin: "{sum}" } }),
      /^node "x", port "pin": wants integer, "sum" gives number/,
    ],
    [
      "references within a list in a port",
      use({ pick: ["{n}"], path: "[0]" }),
      /^node "x", port "pick": nothing is filled in within lists/,
    ],
    ["a node of no kind", use({ texts: "a" }), /^node "x": must be an object with one of tool, value, text, pick, if/],
    ["a node that is no object", use(5 as unknown as object), /node "x": must be an object/],
    [
      "a node of two kinds",
      use({ value: 1, text: "a" }, "integer"),
      /^node "x", port "text": is unknown here; there are value/,
    ],
    [
      "a misspelt port",
      use({ if: true, then: "a", els: "b" }),
      /^node "x", port "els": is unknown here.*; node "x", port "else": is not connected/,
    ],
    ["a node with a wrong name", nodes({ "a b": { text: "" } }), /node "a b": is no name/],
    [
      "a node called inputs",
      nodes({ inputs: { text: "a" }, words: { text: "{inputs}" } }),
      /^node "inputs": is no name|^input "": is no name/,
    ],
    ["a type that is none", sum({}, { type: "float" }), /^node "sum", port "type": must be one of string/],
    ["a text that is none", use({ text: 5 }), /^node "x", port "text": must be text/],
    ["an empty path", use({ pick: "a", path: "" }), /^node "x", port "path": must be text/],
    [
      "a path into a number",
      use({ pick: "{n}", path: "a" }),
      /^node "x", port "pick": wants text, a list or an object, not integer/,
    ],
    [
      "two comparisons",
      use({ if: "{n}", above: 1, below: 2, then: "a", else: "b" }),
      /^node "x", port "above": does not go together with below/,
    ],
    [
      "a condition that is none",
      use({ if: "{n}", then: "a", else: "b" }),
      /^node "x", port "if": wants boolean, "n" gives integer/,
    ],
    [
      "a comparison of text with a number",
      use({ if: "{n}", equals: "a", then: "a", else: "b" }),
      /^node "x", port "equals": compares integer with string/,
    ],
    [
      "text that is below",
      use({ if: "a", below: 5, then: "a", else: "b" }),
      /^node "x", port "if": wants number, not string/,
    ],
    [
      "a number that contains",
      use({ if: "{n}", contains: "1", then: "a", else: "b" }),
      /^node "x", port "if": wants string, "n" gives integer/,
    ],
    [
      "branches of another type",
      use({ if: true, then: "a", else: 5 }),
      /^node "x", port "else": wants string, not integer/,
    ],
    [
      "an `after` without braces",
      use({ tool: "say", in: { text: "a" }, after: "sum" }),
      /^node "x", port "after": must refer to a node/,
    ],
    ["a node that refers to itself", use({ text: "{x}" }), /^node "x", port "text": closes a cycle: x -> x$/],
    [
      "a cycle of three",
      {
        ...use({ text: "{y}" }),
        nodes: { ...good.nodes, x: { text: "{y}" }, y: { text: "{z}" }, z: { if: true, then: "a", else: "{x}" } },
      },
      /^node "z", port "else": closes a cycle: x -> y -> z -> x$/,
    ],
    [
      "a cycle through a tool's port",
      nodes({
        sum: { tool: "add", in: { a: "{n}", b: "{back}" }, type: "number" },
        back: { pick: "{words}", type: "number" },
      }),
      /port "pick": closes a cycle: words -> sum -> back -> words$/,
    ],
    [
      "a cycle that no output needs",
      nodes({ p: { text: "{q}" }, q: { text: "{p}" } }),
      /node "q", port "text": closes a cycle: p -> q -> p/,
    ],
    [
      "a node that no output needs",
      nodes({ x: { tool: "say", in: { text: "a" } } }),
      /^node "x": no output needs it: it would never run/,
    ],
  ])("%s", (_, graph, problem) => {
    const before = board.registry.count;
    expect(board.add({ ...head, ...graph })).toMatch(problem);
    expect(board.registry.count).toBe(before);
  });

  it("tells five problems, and how many more there are", () => {
    const x = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`x${i}`, { text: "{nix}" }]));
    const told = board.add({
      ...head,
      nodes: x,
      outputs: text(
        Object.keys(x)
          .map((name) => `{${name}}`)
          .join(""),
      ),
    });
    expect(told.split("; ")).toHaveLength(6);
    expect(told).toMatch(/; and 4 more$/);
  });

  it.each([undefined, null, 5, "", "  ", [], true])("%j is no graph", (given) => {
    expect(board.add(given)).toMatch(/^add_graph\("workflow_set\/name"\) registers a graph from a file/);
  });

  it.each(["{", '{"name":"a"', '{"name":"a"} {}', "{]}"])("JSON that is none: %s", (json) => {
    expect(board.add(json)).toMatch(/not one whole JSON object/);
  });

  it("a name that is taken", () => {
    expect(board.add({ ...head, ...good, name: "say" })).toMatch(/a tool called say is registered already/);
  });
});

describe("size", () => {
  const chain = (length: number) => ({
    ...head,
    nodes: Object.fromEntries(
      Array.from({ length }, (_, i) => [`n${i}`, { text: i + 1 < length ? `{n${i + 1}}` : "end" }]),
    ),
    outputs: text("{n0}"),
  });

  it("runs as many nodes as are allowed, however deep", async () => {
    expect(board.add(chain(32))).toBe("");
    expect(await board.call("graph")).toEqual({ isError: false, content: "end" });
  });

  it("refuses more", () => {
    expect(board.add(chain(33))).toBe("nodes: are more than 32 (graphNodes)");
    board.openSettings().apply({ graphNodes: 33 }, true);
    expect(board.add(chain(33))).toBe("");
  });

  it("refuses 10,000 nodes unread", () => {
    const text = JSON.stringify(chain(10_000));
    board.files.big = text;
    expect(board.add("big")).toBe(`the graph has ${text.length} bytes, at most 2048 (graphBytes)`);
    expect(board.add(text)).toBe(`the graph has ${text.length} bytes, at most 2048 (graphBytes)`);
    expect(board.add(chain(10_000))).toMatch(/^add_graph.* at most 2048 bytes$/);
  });

  it("goes through ports that many share without running anything twice", async () => {
    // Each doubles: walked as a tree it would be a million nodes.
    const nodes = Object.fromEntries(
      Array.from({ length: 20 }, (_, i) => [
        `n${i}`,
        i < 19 ? { tool: "add", in: { a: `{n${i + 1}}`, b: `{n${i + 1}}` }, type: "number" } : { value: 1 },
      ]),
    );
    board.openSettings().apply({ graphBytes: 8192 }, true);
    expect(board.add({ ...head, nodes, outputs: { x: { type: "number", from: "{n0}" } } })).toBe("");
    expect((await board.call("graph"))?.content).toBe(String(2 ** 19));
    expect(board.calls).toHaveLength(19);
  });
});

describe("files", () => {
  const file = (name: string, tool: string, more: object = {}) =>
    JSON.stringify({
      name,
      description: "d",
      nodes: { a: { tool, in: { text: "x" } } },
      outputs: text("{a}"),
      ...more,
    });

  it("at rest are a name", () => {
    board.files["x"] = file("shout", "say");
    expect(board.add("x")).toBe("");
    expect(board.find(board.registry, "shout")).toEqual({
      name: "shout",
      tool: "x",
      seal: expect.stringMatching(/^\d+ \d+ 0 false 0$/),
    });
    expect(board.add("nope")).toBe("there is no file nope in the Storage");
  });

  it("of the folder are all registered, whichever needs which; what is wrong is told by file", async () => {
    const inner = JSON.stringify({
      ...head,
      name: "inner",
      nodes: { a: { value: 7 } },
      outputs: { x: { type: "integer", from: "{a}" } },
    });
    const outer = JSON.stringify({
      ...head,
      name: "outer",
      nodes: { a: { tool: "inner", type: "integer" } },
      outputs: { x: { type: "integer", from: "{a}" } },
    });
    const outest = outer.replace('"inner"', '"outer"').replace('"name":"outer"', '"name":"outest"');
    Object.assign(board.files, {
      "workflow_set/1": outest.replace('"tool":"inner"', '"tool":"outer"'),
      "workflow_set/2": outer,
      "workflow_set/3": inner,
      "workflow_set/4": "[]",
      "workflow_set/5": file("round", "trip"),
      "workflow_set/6": file("trip", "round"),
      other: file("other", "say"),
    });
    const init = (picks: (tool: { name: string }) => boolean = () => true) => {
      board.printed.length = 0;
      board.editRegistry(board.registry).init(picks);
      return board.printed;
    };
    const told = [
      "workflow_set/4: that is not one whole JSON object: look at its quotes, commas and brackets",
      expect.stringMatching(/^workflow_set\/5: .*no tool called trip/),
      expect.stringMatching(/^workflow_set\/6: .*no tool called round/),
    ];
    expect(init()).toEqual(told);
    expect(await board.call("outest")).toEqual({ isError: false, content: "7" });
    expect(board.find(board.registry, "other")).toBeUndefined();

    // Once more, as after a setting was changed: what was given at the console stays, of the folder what is picked.
    expect(board.add("other")).toBe("");
    const { count } = board.registry;
    expect(init()).toEqual(told);
    expect(board.registry.count).toBe(count);
    expect(init(({ name }) => !["inner", "outest"].includes(name))).toContainEqual(
      expect.stringMatching(/2: .*no tool called inner/),
    );
    expect(["inner", "outer", "outest", "other"].map((name) => board.find(board.registry, name)?.tool)).toEqual([
      undefined,
      undefined,
      undefined,
      "other",
    ]);
    expect(await board.call("other")).toEqual({ isError: false, content: "said x" });
  });

  it.each<[string, string | undefined]>([
    ["is gone", undefined],
    ["is no JSON any more", "{"],
    ["has become too large", `{"a":"${"x".repeat(3000)}"}`],
    ["has inputs of another kind", file("shout", "say", { inputs: { a: null } })],
    ["does something else", file("shout", "say", { nodes: { a: { value: "b" } } })],
  ])("one that %s is not used until it was checked, and nothing else fails", async (_, content) => {
    board.files.x = file("shout", "say");
    expect(board.add("x")).toBe("");
    if (content === undefined) delete board.files.x;
    else board.files.x = content;
    const tool = board.load(board.find(board.registry, "shout")!);
    expect(tool).toMatchObject({ name: "shout", description: '"Not to be used: its file was changed."' });
    expect(JSON.parse(tool.parameters)).toEqual({ type: "object", properties: {}, required: [] });
    expect(await board.call("shout")).toEqual({
      isError: true,
      content: 'x is not as it was checked: add_graph("x") at the console checks it anew',
    });
    expect(await board.call("say", { text: "a" })).toEqual({ isError: false, content: "said a" });
  });

  it("may be changed, and taken anew", async () => {
    board.files.x = file("shout", "say");
    board.add("x");
    board.files.x = file("shout", "say", { nodes: { a: { value: "new" } } });
    const { count } = board.registry;
    expect(board.add("x")).toBe("");
    expect((await board.call("shout"))?.content).toBe("new");
    expect(board.registry.count).toBe(count);
  });

  it.each([
    [
      "far down",
      {
        name: "g",
        nodes: { x: { text: "{a}" } },
        outputs: text("{x}"),
        inputs: { a: { type: "string", default: "inputs" } },
        description: "the inputs",
      },
    ],
    [
      "like names",
      {
        name: "g",
        description: "inputs",
        inputs: { description: { type: "string", default: '"inputs":{}' } },
        nodes: { x: { text: "{description}" } },
        outputs: text("{x}"),
      },
    ],
    [
      "after others of their names",
      {
        nodes: {
          x: { pick: "{v}", path: "inputs.description" },
          v: { value: { inputs: { description: "no" }, description: "no" } },
        },
        outputs: text("{x}"),
        description: 'say \\"description\\": "x"',
        inputs: {},
        name: "g",
      },
    ],
  ])("have description and inputs wherever they stand: %s", (_, graph) => {
    for (const json of [
      JSON.stringify(graph),
      JSON.stringify(graph, null, 2),
      JSON.stringify(graph).replaceAll(":", " : "),
    ]) {
      const own = bootGraphs();
      own.files.x = json;
      expect(own.add("x")).toBe("");
      const tool = own.load(own.find(own.registry, "g")!);
      expect(JSON.parse(tool.description)).toBe(JSON.parse(json).description);
      expect(JSON.parse(tool.parameters).properties).toEqual(JSON.parse(json).inputs);
    }
  });

  it("with names in escapes are refused", () => {
    const json = file("shout", "say");
    expect(board.add(json.replace('"description"', '"descr\\u0069ption"'))).toBe(
      'write "description" and "inputs" without escapes',
    );
  });

  it("of saved tools are none", () => {
    board.files["tool.x"] = file("shout", "say");
    expect(board.add("tool.x")).toBe("tool.x is a saved tool, no graph");
  });

  it("that are no UTF-8 put nothing into a request that is none", () => {
    board.files.x = file("shout", "say", {
      description: "f\xfcr",
      inputs: { u: { type: "string", description: "\xfc" } },
      outputs: text("{a}{u}"),
    });
    expect(board.add("x")).toBe("");
    const tool = board.load(board.find(board.registry, "shout")!);
    expect(tool.description + tool.parameters).not.toContain("\xfc");
    expect(Buffer.from(tool.description, "latin1").toString("utf8")).toBe('"f\ufffdr"');
    JSON.parse(tool.parameters);
  });

  it("that have become tools of one another end with an error, and nothing is left of it", async () => {
    board.files.x = file("ping", "say");
    board.files.y = file("pong", "say", { nodes: { a: { tool: "ping" } } });
    expect(board.add("x") + board.add("y")).toBe("");
    board.files.x = file("ping", "say", { nodes: { b: { tool: "pong" } }, outputs: text("{b}") });
    expect(board.add("x")).toBe("");
    expect(await board.call("ping")).toEqual({
      isError: true,
      content: 'node "b": pong: node "a": ping: node "b": pong: more than 3 graphs would run within one another',
    });
    board.files.x = file("ping", "say");
    expect(board.add("x")).toBe("");
    for (let i = 0; i < 5; i++) expect(await board.call("pong")).toEqual({ isError: false, content: "said x" });
  });

  it("that are their own tool are refused", () => {
    board.files.x = file("round", "say");
    board.add("x");
    board.files.x = file("round", "round");
    expect(board.add("x")).toMatch(/^node "a", port "tool": is this graph itself/);
  });
});

describe("failures", () => {
  const after = (tool: object) => ({
    nodes: { bad: tool, next: { tool: "say", in: { text: "{bad}" } } },
    outputs: text("{next}"),
  });

  it.each<[string, () => unknown, RegExp]>([
    ["an error result", () => ({ isError: true, content: "jammed" }), /^node "bad": odd: jammed$/],
    [
      "a throw",
      () => {
        throw new Error("no fuel");
      },
      /^node "bad": odd: no fuel$/,
    ],
    ["a rejection", () => Promise.reject(new Error("no wind")), /^node "bad": odd: no wind$/],
  ])("of a tool end the graph and name the node: %s", async (_, execute, content) => {
    board.addTool("odd", {}, execute);
    expect(await run(after({ tool: "odd" }))).toEqual({ isError: true, content: expect.stringMatching(content) });
    expect(board.calls.map(([name]) => name)).toEqual(["odd"]);
  });

  it("of arguments that only show in the run", async () => {
    board.addTool("narrow", { n: { type: "integer", maximum: 5 } }, () => "ok");
    const graph = {
      inputs: { n: { type: "integer" } },
      nodes: { bad: { tool: "narrow", in: { n: "{n}" } } },
      outputs: text("{bad}"),
    };
    expect(await run(graph, { n: 6 })).toMatchObject({
      isError: true,
      content: expect.stringMatching(/^node "bad": narrow: .*5 or less/),
    });
  });

  it("of a text that doubles and doubles", async () => {
    const doubling = Object.fromEntries(
      Array.from({ length: 20 }, (_, i) => [`n${i}`, { text: i ? `{n${i - 1}}{n${i - 1}}` : "doubled" }]),
    );
    const result = await run({ nodes: doubling, outputs: text("{n19}") });
    expect(result).toEqual({
      isError: true,
      content: 'node "n10": a text has more than 4096 bytes, four times toolResultBytes',
    });
  });

  it("before any tool was called", async () => {
    expect(await runNode({ pick: "a", path: "b" })).toMatchObject({
      isError: true,
      content: expect.stringMatching(/^node "x": /),
    });
  });

  it("a tool that never settles, and nothing runs after its time", async () => {
    board.addTool("hang", {}, () => new Promise(() => {}));
    board.openSettings().apply({ toolTimeoutMs: 100 }, true);
    expect(await run(after({ tool: "hang" }))).toMatchObject({
      isError: true,
      content: expect.stringMatching(/100 ms/),
    });
    board.clock.advance(5000);
    await board.settle(Promise.resolve());
    expect(board.calls.map(([name]) => name)).toEqual(["hang"]);
    expect(await board.call("say", { text: "a" })).toMatchObject({ isError: false });
  });

  it("as long as the graph says for itself", async () => {
    board.addTool(
      "slow",
      {},
      () =>
        new Promise((resolve) => {
          board.clock.setTimeout(() => resolve("1"), 150);
        }),
    );
    const nodes = { a: { tool: "slow" }, b: { tool: "slow", after: "{a}" } };
    board.openSettings().apply({ toolTimeoutMs: 200 }, true);
    expect(board.add({ ...head, nodes, outputs: text("{b}"), timeoutMs: "500" })).toMatch(
      /^timeoutMs: must be a whole number from 100 to 900000/,
    );
    expect(await run({ nodes, outputs: text("{b}"), timeoutMs: 500 })).toEqual({ isError: false, content: "1" });
    expect(board.add({ ...head, name: "short", nodes, outputs: text("{b}") })).toBe("");
    expect(await board.call("short")).toMatchObject({ isError: true, content: expect.stringContaining("200 ms") });
  });

  it("of a tool that ends the run: the run ends", async () => {
    board.addTool("ask", {}, () => ({ isError: false, content: "which?", ends: "awaitUser" }));
    expect(await run(after({ tool: "ask" }))).toEqual({ isError: false, content: "which?", ends: "awaitUser" });
    expect(board.calls.map(([name]) => name)).toEqual(["ask"]);
  });

  it("tools that take too long together", async () => {
    board.addTool(
      "slow",
      {},
      () =>
        new Promise((resolve) => {
          board.clock.setTimeout(() => resolve("1"), 60);
        }),
    );
    board.openSettings().apply({ toolTimeoutMs: 100 }, true);
    const nodes = { a: { tool: "slow" }, b: { tool: "slow", after: "{a}" }, c: { tool: "slow", after: "{b}" } };
    expect(await run({ nodes, outputs: text("{c}") })).toMatchObject({
      isError: true,
      content: expect.stringContaining("100 ms"),
    });
    for (let i = 0; i < 500; i++) await board.settle(Promise.resolve());
    expect(board.calls).toHaveLength(2);
    // Neither was left that would count against the next.
    for (let i = 0; i < 5; i++)
      expect(await board.call("graph")).toMatchObject({ isError: true, content: expect.stringContaining("100 ms") });
  });
});
