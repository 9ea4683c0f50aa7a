import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { buildBundle } from "../../esbuild.config.mjs";
import type { AgentEvent } from "../../firmware/types";
import type { TestBoard } from "../drivers/types";
import { hang, held, type RecordedRequest, text, toolCall } from "../fixtures/scripted-model";
import { scenario } from "./scenario";

const deep = { mode: "deep" };
const ends = (events: AgentEvent[]) =>
  events.flatMap((event) => (event.type === "toolEnd" ? [[event.agent ?? "", event.name, event.isError, event.content]] : []));
const finals = (events: AgentEvent[]) =>
  events.flatMap((event) => (event.type === "final" ? [[event.agent ?? "", event.stopReason]] : []));
const names = (request: RecordedRequest | undefined) => (request!.json.tools ?? []).map((tool) => tool.function.name);
const system = (request: RecordedRequest | undefined) => String(request!.json.messages[0]!.content);
const load = (board: TestBoard, graph: object) => board.runLine(`add_graph(${JSON.stringify(graph)})`);

/** A graph whose one node has a sub-agent work for it. */
const byAgent = (more: object = {}) => ({
  name: "lamp",
  description: "Switches the lamp.",
  nodes: { a: { tool: "board_agent", in: { task: "pin 4 on" } } },
  outputs: { text: { type: "string", from: "{a}" } },
  ...more,
});

async function restart(board: TestBoard): Promise<void> {
  board.type("load()\n");
  await board.expectOutput("load()");
  await board.expectOutput("agent_commands");
  await board.expectOutput(/\n>+$/);
}

describe("time", () => {
  const late = {
    settings: { ...deep, agentModels: "board_agent=tiny" },
    turns: [toolCall("lamp", {}), hang(), text("It took too long."), text("fine")],
  };
  scenario("that is up ends the sub-agent, and the main agent goes on with its own settings", late, async ({ board, model }) => {
    await load(board, byAgent({ timeoutMs: 500 }));
    const events = await board.ask("go");
    expect(ends(events)).toEqual([["", "lamp", true, expect.stringMatching(/^lamp gave no result within 500 ms/)]]);
    expect(finals(events)).toEqual([["board_agent", "aborted"], ["", "done"]]);
    const [main, sub, again] = model.requests;
    expect(sub!.json.model).toBe("tiny");
    expect([again!.json.model, system(again)]).toEqual([main!.json.model, system(main)]);
    const before = board.events().length;
    // Nothing of it is left that would go on.
    await board.advance(1000);
    expect(board.events().length).toBe(before);
    expect(await board.timers()).toBe(0);
    expect((await board.ask("hello")).at(-1)).toMatchObject({ text: "fine" });
    expect(system(model.requests[3])).toBe(system(main));
  });

  const wait = { for: (): Promise<unknown> => Promise.resolve() };
  const slow = {
    settings: { ...deep, toolTimeoutMs: 300 },
    turns: [
      toolCall("lamp", {}),
      held(() => wait.for(), toolCall("gpio_write", { pin: 4, value: 1 })),
      text("pin 4 is on"),
      text("It is on."),
    ],
  };
  scenario("of a sub-agent, and of a graph with one in it, is not that of a tool", slow, async ({ board }) => {
    wait.for = () => board.advance(700);
    await load(board, byAgent());
    const events = await board.ask("go");
    expect(ends(events).at(-1)).toEqual(["", "lamp", false, "pin 4 is on"]);
    expect(events.at(-1)).toMatchObject({ text: "It is on." });
  });

  const plain = { turns: [toolCall("steps", {}), text("fine")] };
  scenario("of a stopped run is over for the nodes of its graphs, too", plain, async ({ board }) => {
    const tool = (name: string, body: string) =>
      board.runLine(`add_tool({name:"${name}",description:"For ${name}.",execute:function(){${body}}})`);
    await board.runLine("done=0");
    await tool("wait", "return new Promise(function(r){go=r})");
    await tool("count", "done++;return 'x'");
    const nodes = { a: { tool: "wait" }, b: { tool: "count", after: "{a}" } };
    await load(board, { name: "steps", description: "Two steps.", nodes, outputs: { t: { type: "string", from: "{b}" } } });
    const run = board.ask("go");
    while (!board.events().some((event) => event.type === "toolStart")) await board.advance(20);
    await board.advance(50);
    await board.runLine("abort");
    await run;
    await board.runLine("go('late')");
    await board.advance(100);
    expect(await board.runLine("print(done)")).toMatch(/^0/);
    expect((await board.ask("hello")).at(-1)).toMatchObject({ text: "fine" });
  });
});

describe("tools that a sub-agent saves", () => {
  const double = {
    name: "double",
    description: "Doubles x.",
    parameters: { type: "object", properties: { x: { type: "number" } }, required: ["x"] },
    code: "return args.x * 2",
  };
  const taken = { ...double, name: "lamp" };
  const saved = {
    settings: { ...deep, allowJs: true },
    turns: [
      toolCall("code_agent", { task: "make a tool that doubles" }),
      toolCall("save_tool", taken),
      toolCall("save_tool", double),
      toolCall("double", { x: 2 }),
      text("saved"),
      toolCall("double", { x: 4 }),
      text("8"),
      toolCall("double", { x: 5 }),
      text("It is ten."),
      toolCall("code_agent", { task: "remove it" }),
      toolCall("remove_tool", { name: "double" }),
      text("removed"),
      toolCall("double", { x: 6 }),
      text("It is gone."),
    ],
  };
  scenario("are the person's agent's, at once and after a restart, until it removes them", saved, async ({ board, model }) => {
    await load(board, byAgent());
    expect(ends(await board.ask("make"))).toEqual([
      ["code_agent", "save_tool", true, expect.stringMatching(/there is a tool called lamp/)],
      ["code_agent", "save_tool", false, expect.stringMatching(/^double is saved/)],
      ["code_agent", "double", false, "4"],
      ["", "code_agent", false, "saved"],
      ["", "double", false, "8"],
    ]);
    expect(names(model.requests[0])).not.toContain("double");
    expect(names(model.requests[5])).toContain("double");
    await restart(board);
    await board.runLine('var seen=[];E.on("agent",function(e){if(e.type=="toolEnd"||e.type=="final")seen.push((e.agent||"")+e.name+":"+(e.content||e.text))})');
    const ask = async (prompt: string, answer: string) => {
      await board.runLine(`ask(${JSON.stringify(prompt)})`);
      await board.expectOutput(answer);
      await board.advance(100);
      return board.runLine("print(seen.splice(0,99).join(';'))");
    };
    expect(await ask("double 5", "It is ten.")).toContain("double:10");
    expect(await ask("remove it", "It is gone.")).toContain("double:there is no tool called double");
    expect(await board.runLine("list_tools")).not.toContain("double");
  });
});

describe("what README describes, with mode deep", () => {
  const root = fileURLToPath(new URL("../../", import.meta.url));
  const made = { folder: "", bundle: Buffer.alloc(0), graph: "" };
  beforeAll(async () => {
    // Beside `tools/`, so that README's imports lead where they should.
    made.folder = await mkdtemp(path.join(root, ".tools-"));
    await cp(path.join(root, "tools"), made.folder, { recursive: true });
    const readme = await readFile(path.join(root, "README.md"), "utf8");
    const blocks = [...readme.matchAll(/```(ts|json)\n([^]*?)```/g)].map((match) => match[2]!);
    for (const name of ["roll_dice", "garden_agent"])
      await writeFile(path.join(made.folder, `${name}.ts`), blocks.find((block) => block.includes(`name: "${name}"`))!);
    made.graph = blocks.find((block) => block.includes('"name": "night_light"'))!;
    const { code, problems } = await buildBundle({ toolsDir: path.relative(root, made.folder), write: false });
    expect(problems).toEqual([]);
    made.bundle = Buffer.from(code);
  }, 60_000);
  afterAll(() => rm(made.folder, { recursive: true, force: true }));

  const used = {
    settings: deep,
    // The Linux build has no analog inputs.
    allow: /Analog is not supported/,
    get bundle() {
      return made.bundle;
    },
    get files() {
      return { "workflow_set/night_light": made.graph, "workflow_set/bad": "{nope" };
    },
    turns: [
      [toolCall("roll_dice", { sides: 20 }), toolCall("night_light", { lamp: 4 })],
      [toolCall("garden_agent", { task: "water" }), toolCall("board_agent", { task: "look" })],
      toolCall("gpio_write", { pin: 5, value: 1 }),
      text("watered"),
      toolCall("gpio_read", { pin: 5 }),
      text("pin 5 is on"),
      text("ok"),
    ],
  };
  scenario("is there for the person's agent", used, async ({ board, model }) => {
    await board.runLine("init_tools");
    const results = ends(await board.ask("go"));
    expect(results[0]).toEqual(["", "roll_dice", false, expect.stringMatching(/^([1-9]|1\d|20)$/)]);
    expect(results[1]).toEqual(["", "night_light", false, expect.stringMatching(/^It is light enough|^Pin 4 is now on/)]);
    expect(results.slice(2).map(([agent, name, isError, content]) => [agent, name, isError, ...(agent ? [] : [content])])).toEqual([
      ["garden_agent", "gpio_write", false],
      ["", "garden_agent", false, "watered"],
      ["board_agent", "gpio_read", false],
      ["", "board_agent", false, "pin 5 is on"],
    ]);
    expect(names(model.requests[2]).sort()).toEqual(["gpio_read", "gpio_write"]);
    for (const doing of ["gpio_write", "edit_file"]) expect(names(model.requests[0])).not.toContain(doing);
    // What is wrong with a graph is told by init_tools, not by each sub-agent.
    expect(board.output().match(/workflow_set\/bad: /g)).toHaveLength(1);
  });
});
