import { describe, expect } from "vitest";
import type { AgentEvent } from "../../firmware/types";
import type { TestBoard } from "../drivers/types";
import { text, toolCall } from "../fixtures/scripted-model";
import { scenario } from "./scenario";

type ToolEnd = Extract<AgentEvent, { type: "toolEnd" }>;

const toolEnds = (events: AgentEvent[]): ToolEnd[] => events.filter((event) => event.type === "toolEnd");

// A tool registered at the console: `body` is the body of execute(args).
async function addTool(board: TestBoard, name: string, body: string, parameters = "{}"): Promise<string> {
  const schema = `{type:"object",properties:${parameters}}`;
  return board.runLine(
    `add_tool({name:"${name}",description:"For the test ${name}.",parameters:${schema},execute:function(a){${body}}})`,
  );
}

/** One run: the model calls `name` with `args`, then says "ok". */
const callOnce = (name: string, args: unknown, settings: Record<string, unknown> = {}) => ({
  settings,
  turns: [toolCall(name, args), text("ok")],
});

async function resultOf(board: TestBoard): Promise<ToolEnd> {
  const events = await board.ask("go");
  expect(events.at(-1)).toEqual({ type: "final", text: "ok", stopReason: "done" });
  const ends = toolEnds(events);
  expect(ends).toHaveLength(1);
  return ends[0]!;
}

describe("calls the model gets wrong", () => {
  scenario("an unknown tool", callOnce("fly", { to: "moon" }), async ({ board, model }) => {
    const end = await resultOf(board);
    expect(end).toMatchObject({ name: "fly", isError: true });
    expect(end.content).toMatch(/fly.*gpio_write/s);
    expect(model.requests[1]!.json.messages.at(-1)!.content).toContain("fly");
  });

  const badArguments: [string, string, unknown, RegExp][] = [
    ["a required argument is missing", "gpio_write", { pin: 2 }, /value/],
    ["an argument of another type", "add", { a: "two", b: 1 }, /"a".*number/],
    ["arguments that are cut off", "add", '{"a":1,', /JSON/],
    ["arguments that are no object", "add", "[1,2]", /JSON object/],
    ["a flash pin", "gpio_write", { pin: 6, value: 1 }, /flash/],
    ["an input-only pin", "gpio_write", { pin: 34, value: 1 }, /input/],
    ["division by zero", "mod", { a: 1, b: 0 }, /zero/],
  ];
  for (const [name, tool, args, says] of badArguments) {
    scenario(name, callOnce(tool, args), async ({ board }) => {
      const end = await resultOf(board);
      expect(end.isError).toBe(true);
      expect(end.content).toMatch(says);
    });
  }

  scenario("enum, minimum, integer and numeric text", {
    turns: [
      toolCall("dial", { level: 11 }),
      toolCall("dial", { level: 1.5 }),
      toolCall("dial", { level: 3, mode: "loud" }),
      toolCall("dial", { level: "4", mode: "slow" }),
      text("ok"),
    ],
  }, async ({ board, model }) => {
    const level = '{type:"integer",minimum:1,maximum:10}';
    const schema = `{level:${level},mode:{type:"string",enum:["slow","fast"]},x:{type:"double"}}`;
    await addTool(board, "dial", 'return typeof a.level+" "+a.level', schema);
    const ends = toolEnds(await board.ask("turn the dial"));
    expect(ends.map((end) => [end.isError, end.content])).toEqual([
      [true, expect.stringMatching(/level.*10/)],
      [true, expect.stringMatching(/level.*(whole number|integer)/)],
      [true, expect.stringMatching(/mode.*slow.*fast/)],
      [false, "number 4"],
    ]);
    const dial = model.requests[0]!.json.tools!.find((tool) => tool.function.name === "dial");
    expect(dial?.function.parameters).toMatchObject({ properties: { x: { type: "number" } } });
  });

  const long = callOnce("word_count", { text: "word ".repeat(300) }, { maxToolArgLen: 256 });
  scenario("arguments past MAX_TOOL_ARG_LEN", long, async ({ board }) => {
    const events = await board.ask("count the words");
    expect(events.some((event) => event.type === "toolStart")).toBe(false);
    expect(events.find((event) => event.type === "error")).toMatchObject({ message: expect.stringContaining("256") });
    expect(toolEnds(events)).toMatchObject([
      { name: "word_count", isError: true, content: expect.stringMatching(/MAX_TOOL_ARG_LEN.*256/) },
    ]);
  });

  scenario("a broken call among good ones: the good ones run", {
    turns: [
      [toolCall("add", { a: 1, b: 1 }), toolCall("add", '{"a":'), toolCall("mul", { a: 2, b: 3 })],
      text("ok"),
    ],
  }, async ({ board }) => {
    expect(toolEnds(await board.ask("go")).map((end) => [end.callId, end.isError])).toEqual([
      ["call_1", false], ["call_2", true], ["call_3", false],
    ]);
  });
});

describe("tools that misbehave", () => {
  scenario("throws", callOnce("boom", {}), async ({ board }) => {
    await addTool(board, "boom", 'throw new Error("no fuel")');
    expect(await resultOf(board)).toMatchObject({ isError: true, content: expect.stringContaining("no fuel") });
  });

  scenario("rejects", callOnce("boom", {}), async ({ board }) => {
    await addTool(board, "boom", 'return Promise.reject("no wind")');
    expect(await resultOf(board)).toMatchObject({ isError: true, content: expect.stringContaining("no wind") });
  });

  scenario("returns a promise", callOnce("later", {}), async ({ board }) => {
    await addTool(board, "later", 'return new Promise(function(r){setTimeout(function(){r("at last")},50)})');
    expect(await resultOf(board)).toMatchObject({ isError: false, content: "at last" });
  });

  scenario("never settles", callOnce("wait", {}, { toolTimeoutMs: 300 }), async ({ board }) => {
    // The interpreter makes no promise of an executor that keeps neither of its functions.
    await addTool(board, "wait", "return new Promise(function(r){R=r})");
    expect(await resultOf(board)).toMatchObject({ isError: true, content: expect.stringMatching(/300 ms/) });
  });

  scenario("settles after its time is over", callOnce("late", {}, { toolTimeoutMs: 100 }), async ({ board }) => {
    await addTool(board, "late", 'return new Promise(function(r){setTimeout(function(){r("too late")},200)})');
    expect(await resultOf(board)).toMatchObject({ isError: true });
    await board.advance(400);
    expect(await board.runLine("1+1")).toBe("=2");
  });

  const values: [string, string, RegExp][] = [
    ["undefined", "", /./],
    ["a number", "return 42", /^42$/],
    ["false", "return false", /^false$/],
    ["an object", "return {x:1}", /"x": ?1/],
    ["a circular object", "var o={x:1};o.o=o;return o", /./],
    ["a ToolResult that says it failed", 'return {isError:true,content:"jammed"}', /^jammed$/],
  ];
  for (const [name, body, content] of values) {
    scenario(`returns ${name}`, callOnce("odd", {}), async ({ board }) => {
      await addTool(board, "odd", body);
      const end = await resultOf(board);
      expect(end.content).toMatch(content);
      if (name.startsWith("a ToolResult")) expect(end.isError).toBe(true);
    });
  }

  // Only flash can hold as much: 100 kB are 10,000 variables.
  scenario("returns 100 kB", callOnce("big", {}, { toolResultBytes: 512 }), async ({ board, model }) => {
    await board.runLine('S=require("Storage");for(i=0;i<100;i++)S.write("big","x".repeat(1024),i*1024,102400);');
    await addTool(board, "big", 'return require("Storage").read("big")');
    const end = await resultOf(board);
    expect(end.content.length).toBeLessThanOrEqual(512);
    expect(end.content).toMatch(/^x+\n?.*102400/s);
    expect(model.requests[1]!.body.length).toBeLessThan(model.requests[0]!.body.length + 1500);
  });

  scenario("a name that is taken, a name that is no name, no description, no execute", {}, async ({ board }) => {
    await addTool(board, "mine", "return 1");
    const list = await board.runLine("list_tools");
    expect(await addTool(board, "mine", "return 2")).toMatch(/mine.*already/);
    expect(await addTool(board, "two words", "return 2")).toMatch(/name/);
    expect(await board.runLine('add_tool({name:"bare",execute:function(){}})')).toMatch(/bare.*description/);
    expect(await board.runLine('add_tool({name:"idle",description:"d"})')).toMatch(/idle.*execute/);
    expect(await board.runLine("add_tool()")).toMatch(/name/);
    expect(await board.runLine("list_tools")).toBe(list);
  });
});
