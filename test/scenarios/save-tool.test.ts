import { describe, expect } from "vitest";
import type { AgentEvent } from "../../firmware/types";
import type { TestBoard } from "../drivers/types";
import { text, toolCall, type Turn } from "../fixtures/scripted-model";
import { scenario } from "./scenario";

const settings = { allowJs: true, maxToolIterations: 25, historyBytes: 8192 };

const double = {
  name: "double",
  description: "Doubles x.",
  parameters: { type: "object", properties: { x: { type: "double" } }, required: ["x"] },
  code: "return args.x * 2",
};

type Result = { isError: boolean; content: string };

const resultsOf = (events: AgentEvent[]): Result[] =>
  events.flatMap((event) => (event.type === "toolEnd" ? [{ isError: event.isError, content: event.content }] : []));

async function results(board: TestBoard, prompt = "go"): Promise<Result[]> {
  const events = await board.ask(prompt);
  expect(events.at(-1)).toMatchObject({ type: "final", text: "ok", stopReason: "done" });
  return resultsOf(events);
}

const ok = (content: string | RegExp) => ({
  isError: false,
  content: typeof content === "string" ? content : expect.stringMatching(content),
});
const fails = (content: RegExp) => ({ isError: true, content: expect.stringMatching(content) });

/** What the journal holds: entries of code that began, a line end where it came back, and room. */
const journal = (entries: string): Uint8Array => Buffer.from(entries.padEnd(1024, "\xff"), "latin1");

/** The board starts anew; whoever listened for events does no more. */
async function restart(board: TestBoard): Promise<void> {
  board.type("load()\n");
  await board.expectOutput("load()");
  await board.expectOutput("agent_commands");
  await board.expectOutput(/\n>+$/);
}

describe("save_tool", () => {
  const turns = [
    toolCall("save_tool", double),
    toolCall("double", { x: 21 }),
    toolCall("remove_tool", { name: "double" }),
    toolCall("double", { x: 1 }),
    text("ok"),
  ];
  scenario(
    "makes a tool that is there at once, and remove_tool takes it away",
    { settings, turns },
    async ({ board, model }) => {
      expect(await results(board)).toEqual([
        ok(/^double is saved, \d+ bytes/),
        ok("42"),
        ok("double is removed"),
        fails(/there is no tool called double/),
      ]);
      const names = model.requests.map(({ json }) => json.tools!.filter((tool) => tool.function.name === "double"));
      expect(names.map((list) => list.length)).toEqual([0, 1, 1, 0, 0]);
      expect(names[1]![0]!.function).toMatchObject({
        description: "Doubles x.",
        parameters: { properties: { x: { type: "number" } } },
      });
      expect(await board.file("tool.double")).toBeUndefined();
    },
  );

  const bad: [unknown, RegExp][] = [
    [{ ...double, name: "two words" }, /name of letters/],
    [{ ...double, name: "a_name_that_is_far_too_long" }, /at most 23 characters/],
    [{ ...double, name: "run_js" }, /there is a tool called run_js/],
    [{ ...double, description: " " }, /needs a description/],
    [{ ...double, description: "d".repeat(301) }, /at most 300 bytes/],
    [{ ...double, parameters: { type: "string" } }, /parameters must look like/],
    [{ ...double, parameters: { type: "object", properties: { x: { type: "float" } } } }, /x needs a type/],
    [{ ...double, parameters: { type: "object", properties: {}, required: ["y"] } }, /^parameters needs .* required names that are properties/],
    // Servers refuse these, and with them every request.
    [{ ...double, parameters: { type: "object", properties: [] } }, /parameters must look like/],
    [{ ...double, parameters: { type: "object", properties: { "x y": { type: "string" } } } }, /x y needs a type: .* names like a tool's/],
    [{ ...double, parameters: { type: "object", properties: { x: { type: "string", enum: [] } } } }, /x needs a type: .* a list as enum/],
    [{ ...double, parameters: { type: "object", properties: { x: null } } }, /x needs a type/],
    [{ ...double, parameters: { type: "object", properties: { x: { type: "object", properties: 3 } } } }, /x needs a type/],
    [{ ...double, parameters: { type: "object", properties: { x: { type: "array", items: 5 } } } }, /x needs a type/],
    [{ ...double, parameters: { type: "object", properties: { x: { type: "string", description: 5 } } } }, /x needs a type/],
    [{ ...double, parameters: { type: "object", properties: { x: { type: "string" } }, required: ["x", "x"] } }, /parameters needs/],
    [{ ...double, parameters: { type: "object", properties: { x: { type: "string" } }, required: ["toString"] } }, /parameters needs/],
    [{ ...double, code: "return (" }, /^not saved: it does not parse/],
    [{ ...double, code: "if (1) { return args.x * }" }, /^not saved: it does not parse/],
    [{ ...double, code: "reset()" }, /^not saved: code must not use reset/],
    [{ ...double, code: " " }, /needs code/],
  ];
  const badTurns: Turn[] = [...bad.map(([tool]): Turn => toolCall("save_tool", tool)), text("ok")];
  scenario(
    "refuses what is wrong, and stores nothing",
    { settings: { ...settings, maxToolIterations: 25 }, turns: badTurns },
    async ({ board }) => {
      expect(await results(board)).toEqual(bad.map(([, words]) => fails(words)));
      expect(await board.runLine('print(require("Storage").list(/^tool/).length)')).toContain("0");
    },
  );

  const lists = {
    settings,
    turns: [toolCall("save_tool", { ...double, name: "sum", parameters: { type: "object", properties: { all: { type: "array" } } } }), text("ok")],
  };
  scenario("says what is in a list, where the model does not", lists, async ({ board, model }) => {
    await results(board);
    const sum = model.requests[1]!.json.tools!.find((tool) => tool.function.name === "sum");
    expect(sum!.function.parameters).toEqual({ type: "object", properties: { all: { type: "array", items: {} } } });
  });

  const twice = [
    toolCall("save_tool", double),
    toolCall("save_tool", { ...double, code: "return 0" }),
    toolCall("double", { x: 2 }),
    text("ok"),
  ];
  scenario(
    "an existing name is refused, and the tool stays as it is",
    { settings, turns: twice },
    async ({ board }) => {
      expect((await results(board)).slice(1)).toEqual([
        fails(/there is a tool called double: choose another name, or remove it first/),
        ok("4"),
      ]);
    },
  );

  const guarded: Turn[] = [
    toolCall("save_tool", { name: "spin", description: "Spins.", code: "while (1);" }),
    toolCall("spin", {}),
    toolCall("save_tool", {
      name: "thief",
      description: "Steals.",
      code: 'print("hm"); return require("Storage").read("agent.json")',
    }),
    toolCall("thief", {}),
    toolCall("save_tool", {
      name: "later",
      description: "Waits.",
      code: "return new Promise(function (r) { setTimeout(function () { r('at last') }, 20) })",
    }),
    toolCall("later", {}),
    toolCall("save_tool", {
      name: "whole",
      description: "A function.",
      code: "function (args) { return Object.keys(args).join() }",
    }),
    toolCall("whole", {}),
    text("ok"),
  ];
  scenario(
    "runs with the guards of run_js",
    { settings: { ...settings, toolTimeoutMs: 300 }, turns: guarded },
    async ({ board }) => {
      const ends = await results(board);
      expect([ends[1], ends[3], ends[5], ends[7]]).toEqual([
        fails(/stopped: it ran for 300 ms/),
        fails(/^hm\nerror: agent.json holds/),
        ok("at last"),
        ok("done (no output)"),
      ]);
    },
  );
});

describe("saved tools at the console", () => {
  const source =
    '{name:"half",description:"Halves x.",parameters:{type:"object",properties:{x:{type:"number"}}},code:function(args){return args.x/2}}';
  scenario(
    "are saved, listed with their origin, run and removed",
    { settings, turns: [toolCall("half", { x: 5 }), text("ok")] },
    async ({ board }) => {
      expect(await board.runLine(`save_tool(${source})`)).toMatch(/half is saved/);
      expect(await board.runLine("list_tools")).toContain("half: Halves x. (saved at the console)");
      expect(await results(board)).toEqual([ok("2.5")]);
      expect(await board.runLine(`save_tool(${source})`)).toMatch(/there is a tool called half/);
      expect(await board.runLine('remove_tool("none")')).toContain("no saved tool is called none. Saved: half");
      expect(await board.runLine('remove_tool("half")')).toContain("half is removed");
      expect(await board.runLine("list_tools")).not.toContain("half");
      expect(await board.runLine("save_tool()")).toContain("save_tool({name:");
    },
  );

  scenario("wait for allowJs", { turns: [text("ok")] }, async ({ board, model }) => {
    expect(await board.runLine(`save_tool(${source})`)).toMatch(/half is saved.*allowJs/);
    expect(await board.runLine(`save_tool(${source})`)).toMatch(/there is a tool called half/);
    expect(await board.runLine("list_tools")).not.toContain("half");
    await board.runLine("set_config({allowJs:true})");
    expect(await board.runLine("list_tools")).toContain("half: Halves x.");
    await board.ask("go");
    expect(model.requests[0]!.json.tools!.map((tool) => tool.function.name)).toContain("half");
  });
});

describe("after a restart", () => {
  const source =
    '{name:"half",description:"Halves x.",parameters:{type:"object",properties:{x:{type:"number"}}},code:"return args.x/2"}';
  scenario(
    "a saved tool is there again, and one that did not come back is set aside",
    { settings },
    async ({ board }) => {
      await board.runLine(`save_tool(${source})`);
      await restart(board);
      await board.runLine("init_tools");
      expect(await board.runLine("list_tools")).toContain("half: Halves x. (saved at the console)");
      await board.runLine('require("Storage").write(".agentrun","tool.half",0,1024)');
      await restart(board);
      expect(board.output()).toContain("the board was started anew while the saved tool half ran: it is set aside");
      await board.runLine("init_tools");
      expect(await board.runLine("list_tools")).not.toContain("half");
      expect(await board.runLine(`save_tool("other")`)).toContain("no tool called other was set aside");
      expect(await board.runLine(`save_tool("half")`)).toContain("half is back");
      expect(await board.runLine("list_tools")).toContain("half: Halves x.");
      expect(await board.file("tool!half")).toBeUndefined();
    },
  );

  const told = {
    settings,
    files: { ".agentrun": journal("run_js 1\nrun_js while (1);") },
    turns: [text("ok"), text("ok")],
  };
  scenario(
    "code that did not come back is told, to the person and once to the model",
    told,
    async ({ board, model }) => {
      expect(board.output()).toContain("the board was started anew while this ran: run_js while (1);");
      await board.ask("hello");
      await board.ask("again");
      const prompts = model.requests.map(({ json }) => json.messages.at(-1)!.content);
      expect(prompts).toEqual(["[the board was started anew while this ran: run_js while (1);]\nhello", "again"]);
    },
  );

  const damaged = { settings, files: { "tool.bad": '123 by the model\n"B."\n{}\nreset()' } };
  scenario("a damaged file is told, and not registered", damaged, async ({ board }) => {
    expect(await board.runLine("init_tools")).toContain('the saved tool bad is damaged: remove_tool("bad")');
    expect(await board.runLine("list_tools")).not.toContain("bad");
    expect(await board.runLine('remove_tool("bad")')).toContain("bad is removed");
  });

  const noted: Turn[] = [
    toolCall("run_js", { code: "1 + 1" }),
    toolCall("save_tool", double),
    toolCall("double", { x: 1 }),
    toolCall("double", { x: 2 }),
    toolCall("run_js", { code: 'print("a\\nb")' }),
    text("ok"),
  ];
  scenario(
    "the flash knows of each run_js, and of the first run of a saved tool",
    { settings, turns: noted },
    async ({ board }) => {
      await results(board);
      const file = await board.runLine('print(JSON.stringify(require("Storage").read(".agentrun",0,64)))');
      expect(file).toContain('"run_js 1 + 1\\ntool.double\\nrun_js print(\\"a\\\\nb\\")\\n');
    },
  );
});

describe("memory", () => {
  const one: Turn[] = [toolCall("double", { x: 4 }, { id: "call_a" }), text("8")];
  const turns = Array.from({ length: 12 }, () => one).flat();
  scenario(
    "is what it was after each run, and after the tool is removed",
    { settings: { allowJs: true }, turns },
    async ({ board }) => {
      const source = JSON.stringify(double).replaceAll('"', '\\"');
      await board.runLine("init_tools");
      const without = (await board.memory()).usage;
      await board.runLine(`save_tool(JSON.parse("${source}"))`);
      const at = (await board.memory()).usage;
      await board.runLine('remove_tool("double")');
      const after = (await board.memory()).usage;
      await board.runLine(`save_tool(JSON.parse("${source}"))`);
      const usages: number[] = [];
      for (let i = 0; i < 12; i++) {
        await board.ask("double 4");
        usages.push((await board.memory()).usage);
      }
      console.log(
        `saved tool: ${without} variables without, ${at} with it, ${after} removed; ${usages[7]} after 8 runs, ${usages.at(-1)} after 12`,
      );
      if (board.memoryKind === "other") return;
      expect(at - without).toBeLessThanOrEqual(16);
      expect(Math.max(...usages.slice(8))).toBeLessThanOrEqual(Math.max(...usages.slice(5, 8)));
    },
  );
});
