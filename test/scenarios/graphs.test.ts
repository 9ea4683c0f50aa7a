import { describe, expect } from "vitest";
import type { AgentEvent } from "../../firmware/types";
import type { TestBoard } from "../drivers/types";
import { text, toolCall, type Turn } from "../fixtures/scripted-model";
import { driver, noteMemory, scenario } from "./scenario";

type ToolEnd = Extract<AgentEvent, { type: "toolEnd" }>;

const ends = (events: AgentEvent[]): ToolEnd[] => events.filter((event) => event.type === "toolEnd");

const area = {
  name: "area",
  description: "Area of a rectangle. Use it for rooms. Returns a sentence.",
  inputs: {
    width: { type: "number", description: "Metres" },
    length: { type: "number", description: "Metres" },
    large: { type: "number", description: "Large from here on", default: 100 },
  },
  nodes: {
    answer: { if: "{area}", below: "{large}", then: "{small} {edge} m around.", else: "Too large: {area} m²." },
    small: { text: "{area} m²," },
    edge: { tool: "mul", in: { a: "{both}", b: 2 } },
    both: { tool: "add", in: { a: "{width}", b: "{length}" }, type: "number" },
    area: { tool: "mul", in: { a: "{width}", b: "{length}" }, type: "number" },
  },
  outputs: { text: { type: "string", from: "{answer}" } },
};

/** A tool of constants that gives all of them. */
function constants(count: number) {
  const names = Array.from({ length: count }, (_, i) => `n${i}`);
  const nodes = Object.fromEntries(names.map((name) => [name, { value: 1 }]));
  const from = names.map((name) => `{${name}}`).join("");
  return { name: "constants", description: "Ones.", nodes, outputs: { all: { type: "string", from } } };
}

/** A tool that takes what another one left: its nodes are `count` additions, one after the other. */
function additions(count: number) {
  const nodes: Record<string, object> = {};
  for (let i = 0; i < count; i++)
    nodes[`n${i}`] = { tool: "add", in: { a: i ? `{n${i - 1}}` : 0, b: 1 }, type: "number" };
  const outputs = { sum: { type: "number", from: `{n${count - 1}}` } };
  return { name: "additions", description: "Adds.", nodes, outputs };
}

const files = (graphs: Record<string, object | string>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(graphs).map(([name, graph]) => [name, typeof graph === "string" ? graph : JSON.stringify(graph)]),
  );

const add = (board: TestBoard, graph: object): Promise<string> => board.runLine(`add_graph(${JSON.stringify(graph)})`);

describe("a tool made of a graph", () => {
  const once = {
    files: files({ "workflow_set/area": area }),
    turns: [toolCall("area", { width: 3, length: "4" }), toolCall("area", { width: 20, length: 5 }), text("ok")],
    byteStrings: true,
  };
  scenario("from the folder is offered to the model, and runs", once, async ({ board, model }) => {
    expect(await board.runLine("init_tools")).toMatch(/\d+ tools ready/);
    const events = await board.ask("how large is my room?");
    expect(ends(events).map((end) => [end.isError, end.content])).toEqual([
      [false, "12 m², 14 m around."],
      [false, "Too large: 100 m²."],
    ]);
    expect(model.requests[0]!.json.tools!.at(-1)!.function).toEqual({
      name: "area",
      description: area.description,
      parameters: { type: "object", properties: area.inputs, required: ["width", "length"] },
    });
    expect(await board.runLine("list_tools")).toContain(`area: ${area.description}`);
  });

  const twice = {
    files: files({ room: { ...area, name: "room" } }),
    turns: [toolCall("room", { width: 1, length: 1 }), toolCall("flat", {}), text("ok")],
    byteStrings: true,
  };
  scenario("from a file and at the console, one a tool of the other", twice, async ({ board }) => {
    const sum = {
      a: { tool: "room", in: { width: 1, length: 2 } },
      b: { tool: "room", in: { width: 10, length: 20 } },
    };
    const flat = {
      name: "flat",
      description: "Two rooms.",
      nodes: sum,
      outputs: { first: { type: "string", from: "{a}" }, second: { type: "string", from: "{b}" } },
    };
    expect(await add(board, flat)).toContain('node "a", port "tool": there is no tool called room');
    expect(await board.runLine('add_graph("room")')).toContain("the graph is registered");
    expect(await add(board, flat)).toContain("the graph is registered");
    expect(ends(await board.ask("go")).map((end) => end.content)).toEqual([
      "1 m², 4 m around.",
      '{"first":"2 m², 6 m around.","second":"Too large: 200 m²."}',
    ]);
  });

  const taken = { files: files({ "area.json": area }) };
  scenario("is taken away by remove_tool, as any tool of the console's", taken, async ({ board }) => {
    expect(await board.runLine('add_graph("area.json")')).toContain("the graph is registered");
    expect(await add(board, constants(3))).toContain("the graph is registered");
    await board.runLine('add_tool({name:"own",description:"Own.",execute:function(){}})');
    expect(await board.runLine('remove_tool("area")')).toContain("area is removed, its file area.json stays");
    expect(await board.runLine('remove_tool("constants")')).toMatch(/constants is removed\r?\n/);
    expect(await board.runLine('remove_tool("own")')).toMatch(/own is removed\r?\n/);
    expect(await board.runLine("list_tools")).not.toMatch(/^(area|constants|own):/m);
    expect(await board.runLine('remove_tool("add")')).toContain("no saved tool is called add");
  });

  const failing = {
    files: files({
      "workflow_set/mod": {
        name: "rest",
        description: "Remainder.",
        inputs: { by: { type: "number" } },
        nodes: { left: { tool: "mod", in: { a: 10, b: "{by}" } }, words: { text: "rest {left}" } },
        outputs: { text: { type: "string", from: "{words}" } },
      },
    }),
    turns: [toolCall("rest", { by: 0 }), toolCall("rest", { by: 4 }), text("ok")],
  };
  scenario("names the node that failed, and the run goes on", failing, async ({ board }) => {
    const events = await board.ask("go");
    expect(ends(events).map((end) => [end.isError, end.content])).toEqual([
      [true, 'node "left": mod: Division by zero: b must not be 0.'],
      [false, "rest 2"],
    ]);
    expect(events.at(-1)).toMatchObject({ text: "ok", stopReason: "done" });
  });

  const changed = {
    files: files({ "workflow_set/a": additions(2) }),
    turns: [
      text("one"),
      toolCall("additions", {}),
      text("two"),
      toolCall("additions", {}),
      text("three"),
      toolCall("additions", {}),
      text("four"),
    ],
  };
  scenario("whose file is changed or goes is not run until it was checked", changed, async ({ board, model }) => {
    const described = () => model.requests.map((request) => request.json.tools!.at(-1)!.function.description);
    await board.ask("one");
    const other = JSON.stringify({ ...additions(3), description: "Adds more and says so." });
    await board.runLine(`require("Storage").write("workflow_set/a",${JSON.stringify(other)})`);
    expect(ends(await board.ask("two"))).toMatchObject([
      { isError: true, content: expect.stringContaining('add_graph("workflow_set/a")') },
    ]);
    expect(await board.runLine('add_graph("workflow_set/a")')).toContain("the graph is registered");
    expect(ends(await board.ask("three"))).toMatchObject([{ isError: false, content: "3" }]);
    await board.runLine('require("Storage").erase("workflow_set/a")');
    expect(ends(await board.ask("four"))).toMatchObject([
      { isError: true, content: expect.stringContaining("not as it was checked") },
    ]);
    const gone = "Not to be used: its file was changed.";
    expect(described()).toEqual(["Adds.", gone, gone, "Adds more and says so.", "Adds more and says so.", gone, gone]);
  });
});

describe("graphs that are refused", () => {
  const good = additions(2);
  const node = (n1: object) => ({ ...good, nodes: { ...good.nodes, n1 } });
  const cases: [string, object, string][] = [
    [
      "a cycle",
      { ...good, nodes: { ...good.nodes, n0: { tool: "add", in: { a: "{n1}", b: 1 }, type: "number" } } },
      'node "n0", port "a": closes a cycle: n1 -> n0 -> n1',
    ],
    [
      "a port that is not connected",
      node({ tool: "add", in: { a: "{n0}" }, type: "number" }),
      'node "n1", port "b": is not connected',
    ],
    [
      "a port that is not there",
      node({ tool: "add", in: { a: "{n0}", b: 1, c: 1 }, type: "number" }),
      'node "n1", port "c": is no input of add',
    ],
    [
      "two producers",
      node({ tool: "add", in: { a: ["{n0}", 1], b: 1 }, type: "number" }),
      'node "n1", port "a": wants number, not array: a port has one producer',
    ],
    [
      "another type",
      node({ tool: "add", in: { a: "{n0}", b: "one" }, type: "number" }),
      'node "n1", port "b": wants number, not string',
    ],
    [
      "a tool that is not there",
      node({ tool: "subtract", in: { a: "{n0}" }, type: "number" }),
      'node "n1", port "tool": there is no tool called subtract',
    ],
    ["too many nodes", constants(33), "nodes: are more than 32 (graphNodes)"],
  ];
  // In files: they are longer than a line at the console may be.
  const bad = files(Object.fromEntries(cases.map(([, graph], i) => [`g${i}`, graph])));
  scenario("say why, with node and port", { files: bad }, async ({ board }) => {
    const before = await board.runLine("init_tools");
    for (const [i, [what, , words]] of cases.entries()) {
      expect(await board.runLine(`add_graph("g${i}")`), what).toContain(words);
    }
    expect(await board.runLine('add_graph("nothing")')).toContain("there is no file nothing in the Storage");
    expect(await board.runLine("add_graph()")).toContain('add_graph("workflow_set/name")');
    expect(await board.runLine('add_graph("{")')).toContain("not one whole JSON object");
    expect(await board.runLine("init_tools")).toBe(before);
  });

  const twoOfOne = JSON.stringify(good).replace('"b":1}', '"b":1,"b":"{n0}"}');
  // The simulated board's parser drops one of the two. The check on the host looks at the text.
  if (driver.name !== "sim") {
    scenario("a port that stands there twice", { files: { twice: twoOfOne } }, async ({ board }) => {
      expect(await board.runLine('add_graph("twice")')).toContain(
        'node "n0", port "b": is there twice: a port has one producer',
      );
    });
  }

  scenario("10,000 nodes, in a file and in memory", {}, async ({ board }) => {
    // Only flash can hold as much.
    const nodes = '"n":{},';
    const bytes = 10_000 * nodes.length + 1;
    await board.runLine(`S=require("Storage");S.write("big","{",0,${bytes})`);
    await board.runLine(`for(i=0;i<100;i++)S.write("big",'${nodes}'.repeat(100),i*${100 * nodes.length}+1);`);
    expect(await board.runLine('add_graph("big")')).toContain(`has ${bytes} bytes, at most 2048 (graphBytes)`);
    await board.runLine("n={};for(i=0;i<500;i++)n['n'+i]={value:1};");
    expect(await board.runLine('add_graph({name:"n",description:"d",nodes:n})')).toMatch(/at most 2048/);
    await board.runLine("n=undefined");
  });

  const folder = {
    files: files({ "workflow_set/1": constants(40), "workflow_set/2": "{]}", "workflow_set/3": additions(2) }),
    turns: [toolCall("additions", {}), text("ok")],
  };
  scenario("in the folder, and the others work", folder, async ({ board }) => {
    const events = await board.ask("go");
    expect(ends(events)).toMatchObject([{ isError: false, content: "2" }]);
    expect(board.output()).toMatch(/workflow_set\/1: nodes: are more than 32/);
    expect(board.output()).toMatch(/workflow_set\/2: that is not one whole JSON object/);
  });
});

describe("memory", () => {
  const run: Turn[] = [
    toolCall("area", { width: 3, length: 4 }, { id: "call_a" }),
    toolCall("additions", {}, { id: "call_b" }),
    text("ok"),
  ];
  const repeat = (times: number): Turn[] => Array.from({ length: times }, () => run).flat();
  const graphs = files({ "workflow_set/area": area, "workflow_set/add": additions(20) });

  scenario(
    "is back after each run",
    { files: graphs, turns: repeat(30), timeoutMs: 200_000, byteStrings: true },
    async ({ board }) => {
      await board.runLine("init_tools");
      noteMemory(board, "with two graphs at rest", await board.memory());
      const usages: number[] = [];
      for (let i = 0; i < 30; i++) {
        expect(ends(await board.ask("go")).map((end) => end.content)).toEqual(["12 m², 14 m around.", "20"]);
        usages.push((await board.memory()).usage);
      }
      // The first ones fill the history.
      console.log(`with graphs: ${usages[9]} variables after 10 conversations, ${usages[29]} after 30`);
      if (board.memoryKind !== "other")
        expect(Math.max(...usages.slice(10))).toBeLessThanOrEqual(Math.max(...usages.slice(5, 10)));
    },
  );

  const short = { variables: 2500, files: graphs, turns: repeat(3), byteStrings: true };
  scenario("that is short ends a graph with words, and nothing else", short, async ({ board }) => {
    for (let i = 0; i < 3; i++) {
      const events = await board.ask("go");
      for (const end of ends(events)) expect(end.content).toMatch(/^(12 m², 14 m around\.|20)$|not enough memory/);
      expect(events.at(-1)).toMatchObject({ text: "ok", stopReason: "done" });
      noteMemory(
        board,
        ends(events)
          .map((end) => end.content)
          .join("; "),
        await board.memory(),
      );
    }
  });
});
