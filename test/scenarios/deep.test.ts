import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { buildBundle } from "../../esbuild.config.mjs";
import type { AgentEvent } from "../../firmware/types";
import type { TestBoard } from "../drivers/types";
import { hang, held, type RecordedRequest, text, toolCall, type Turn } from "../fixtures/scripted-model";
import { type Call, runAll, script } from "./calls";
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

/** An agent of a newcomer's, as one file of `tools/`. */
const agentFile = (name: string, tools: string, settings: object) => `
import { runAgent } from "../firmware/subagent";
import type { Tool } from "../firmware/types";
const agent: Tool = {
  name: "${name}",
  description: "An agent called ${name}.",
  parameters: { type: "object", properties: { task: { type: "string" } }, required: ["task"] },
  tier: "agent",
  execute(args, context) {
    return runAgent({ instruction: "You are ${name}.", tools: "${tools}", settings: ${JSON.stringify(settings)} }, args, context);
  },
};
export default agent;
`;

describe("agents and tools in files, with mode deep", () => {
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
    await writeFile(path.join(made.folder, "odd_agent.ts"), agentFile("odd_agent", "gpio_read, gpio_wirte", { temperature: 9, maxTokenz: 5 }));
    await writeFile(path.join(made.folder, "outer_agent.ts"), agentFile("outer_agent", "large_agent,board_agent,gpio_read", {}));
    await writeFile(path.join(made.folder, "large_agent.ts"), agentFile("large_agent", "outer_agent", { historyBytes: 16384 }));
    made.graph = blocks.find((block) => block.includes('"name": "night_light"'))!;
    const { code, problems } = await buildBundle({ budget: Infinity, toolsDir: path.relative(root, made.folder), write: false });
    expect(problems).toEqual([]);
    made.bundle = Buffer.from(code);
  }, 60_000);
  afterAll(() => rm(made.folder, { recursive: true, force: true }));

  const used = {
    settings: deep,
    // The Linux build has no analog inputs.
    allow: /Analog is not supported/,
    timeoutMs: 120_000,
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
  scenario("are those that README describes: the person's agent has them", used, async ({ board, model }) => {
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

  const bundled = (turns: Turn[], more: object = {}) => ({
    settings: { ...deep, ...more },
    get bundle() {
      return made.bundle;
    },
    turns,
  });
  const odd = bundled(
    [toolCall("odd_agent", { task: "a" }), text("did a"), text("ok"), toolCall("odd_agent", { task: "b" }), text("did b"), text("ok")],
    { agentModels: "code_agnt=qwen3,board_agent" },
  );
  scenario("whose settings or tools are wrong say so once, and do without", odd, async ({ board, model }) => {
    expect(await board.runLine("init_tools")).toMatch(/agentModels: no agent=model: code_agnt=qwen3\r?\nagentModels: no agent=model: board_agent/);
    await board.ask("a");
    await board.ask("b");
    expect(names(model.requests[1])).toEqual(["gpio_read"]);
    expect([model.requests[1]!.json.temperature, model.requests[1]!.json.max_tokens]).toEqual([undefined, 2048]);
    const warnings = board.events().flatMap((event) => (event.type === "error" ? [event.message] : []));
    expect(warnings).toEqual([
      "odd_agent: temperature must be a number from -1 to 2; no setting is called maxTokenz; no tool gpio_wirte",
    ]);
  });

  const within = bundled([
    toolCall("outer_agent", { task: "a" }),
    toolCall("large_agent", { task: "b" }),
    toolCall("gpio_read", { pin: 4 }),
    text("done alone"),
    text("ok"),
    text("fine"),
  ]);
  scenario("are refused where memory is short within another one, which goes on, and all is freed", within, async ({ board, model }) => {
    await board.runLine("init_tools");
    // As much as an ESP32 has.
    await board.runLine('var filler=[];while(process.memory().free>2900)filler.push(new Uint8Array(800));"ok"');
    const results = ends(await board.ask("go"));
    expect(results).toEqual([
      ["outer_agent", "large_agent", true, expect.stringMatching(/^not enough memory for large_agent: \d+ variables are free, \d+ needed/)],
      ["outer_agent", "gpio_read", false, expect.stringMatching(/Pin 4/)],
      ["", "outer_agent", false, "done alone"],
    ]);
    expect(system(model.requests[4])).toBe(system(model.requests[0]));
    expect((await board.ask("hello")).at(-1)).toMatchObject({ text: "fine" });
    expect(await board.timers()).toBe(0);
  });
});

describe("what is stopped or late, with mode deep", () => {
  const plan = {
    settings: deep,
    turns: [toolCall("create_plan", { steps: [{ task: "a", agent: "board_agent" }, "b"] }), hang(), text("fine")],
  };
  scenario("a plan shows nothing more, whatever is asked next", plan, async ({ board, model }) => {
    const run = board.ask("go");
    while (model.requests.length < 2) await board.advance(20);
    await board.advance(50);
    board.type('abort(),ask("hello")\n');
    await run;
    await board.expectEvent((event) => event.type === "final" && !event.agent);
    const all = board.events();
    const at = all.findIndex((event) => event.type === "final" && !event.agent);
    expect(all.slice(at).map((event) => event.type)).toEqual(["final", "iterationStart", "textDelta", "final"]);
    expect(all.at(-1)).toMatchObject({ text: "fine", stopReason: "done" });
    expect(board.output()).not.toContain("[!]");
    expect(await board.timers()).toBe(0);
  });

  const asked = {
    settings: { ...deep, confirmTools: "gpio_write" },
    turns: [
      toolCall("board_agent", { task: "on" }),
      toolCall("gpio_write", { pin: 4, value: 1 }),
      text("not allowed"),
      text("It is off."),
      toolCall("board_agent", { task: "on" }),
      toolCall("gpio_write", { pin: 4, value: 1 }),
      text("on"),
      text("It is on."),
    ],
    // The late answer is for the interpreter.
    allow: /"yes" is not defined/,
    timeoutMs: 120_000,
  };
  scenario("an answer after its time is none, and the next question is asked anew", asked, async ({ board }) => {
    const late = board.ask("lamp", { giveUpMs: 60_000 });
    await board.expectOutput("? yes or no]");
    await board.advance(31_000);
    expect(ends(await late).slice(0, 1)).toEqual([["board_agent", "gpio_write", true, expect.stringMatching(/the person did not allow it/)]]);
    expect(board.output()).toContain("[no answer within 30 s: no]");
    await board.runLine("yes");
    const next = board.ask("lamp");
    await board.expectOutput("? yes or no]");
    board.type("yes\r");
    expect(ends(await next).slice(0, 1)).toEqual([["board_agent", "gpio_write", false, expect.stringMatching(/is now on/)]]);
    expect(await board.timers()).toBe(0);
  });
});

describe("what models and people get wrong, with mode deep", () => {
  const calls: Call[] = [
    ["ask_user", { question: " " }, true, /question is empty/],
    ["create_plan", { steps: [{ task: "x", agent: "submit_result" }] }, true, /step 1: there is no agent submit_result/],
    ["create_plan", { steps: [null] }, true, /step 1 has no task/],
    ["submit_result", { is_success: true, result: " " }, true, /result is empty/],
    ["submit_result", { is_success: true, result: "x", files: [5] }, true, /files are names/],
    ["submit_result", { is_success: true, result: "x", files: ["agent.json"] }, true, /holds the agent's settings/],
    ["submit_result", { is_success: true, result: "x", files: ["none.txt"] }, true, /There is no file none\.txt/],
  ];
  scenario("is told in words", { settings: deep, turns: script(calls) }, ({ board }) => runAll(board, calls));

  const named = {
    settings: deep,
    files: { "notes.txt": "x" },
    turns: [toolCall("submit_result", { is_success: true, result: "Done.", files: ["/notes.txt"] })],
  };
  scenario("a file of a result may be a path that starts with a slash", named, async ({ board }) => {
    expect((await board.ask("go")).at(-1)).toMatchObject({ stopReason: "done", data: { is_success: true, result: "Done." } });
  });

  const gone = { turns: [toolCall("twice", { x: 2 }), text("4"), toolCall("twice", { x: 2 }), text("gone"), text("fine")] };
  scenario("a graph one of whose tools was removed says which", gone, async ({ board }) => {
    await board.runLine(
      'add_tool({name:"double",description:"D.",parameters:{type:"object",properties:{x:{type:"number"}}},execute:function(a){return a.x*2}})',
    );
    const nodes = { a: { tool: "double", in: { x: "{x}" } } };
    const inputs = { x: { type: "number" } };
    await load(board, { name: "twice", description: "Twice x.", inputs, nodes, outputs: { t: { type: "string", from: "{a}" } } });
    expect(ends(await board.ask("go"))).toEqual([["", "twice", false, "4"]]);
    await board.runLine('remove_tool("double")');
    expect(ends(await board.ask("go"))).toEqual([["", "twice", true, expect.stringMatching(/^node "a": double: there is no tool called double/)]]);
    expect((await board.ask("hello")).at(-1)).toMatchObject({ text: "fine" });
  });

  const watched = { turns: [[toolCall("add", { a: 1, b: 2 }), toolCall("add", { a: 3, b: 4 })], text("ok")] };
  scenario("observers change nothing, for each other neither; a getter that throws is reported", watched, async ({ board }) => {
    await board.runLine(
      'seen=[];add_observer({onAssistantToolRequest:function(i,c,calls){calls.splice(0,1);calls[0].arguments="{}"}});' +
        "add_observer({onAssistantToolRequest:function(i,c,calls){seen=calls.map(function(c){return c.arguments})}});" +
        'add_observer({get onToolStart(){throw new Error("boom")}})',
    );
    expect(ends(await board.ask("go")).map((end) => end[3])).toEqual(["3", "7"]);
    await board.advance(50);
    expect(board.output()).toContain("[observer onToolStart failed: boom]");
    expect(await board.runLine("print(seen.join(';'))")).toContain('{"a":1,"b":2};{"a":3,"b":4}');
  });
});

describe("what comes too late, twice or empty", () => {
  const gate = { for: (): Promise<unknown> => Promise.resolve() };
  const pin = { name: "g", description: "Graph.", nodes: { a: { tool: "gpio_write", in: { pin: 4, value: 1 } } } };
  const lateYes = {
    settings: { confirmTools: "gpio_write", toolTimeoutMs: 3000 },
    turns: [toolCall("g", {}), held(() => gate.for(), text("one")), text("fine")],
    // By then the line is the interpreter's.
    allow: /"yes" is not defined/,
    timeoutMs: 100_000,
  };
  scenario("a yes after the time of the call runs nothing, and the console is given back", lateYes, async ({ board, model }) => {
    await load(board, { ...pin, outputs: { o: { type: "string", from: "{a}" } } });
    let go = (): void => {};
    gate.for = () => new Promise<void>((resolve) => (go = resolve));
    const run = board.ask("go");
    await board.expectOutput("? yes or no]");
    while (model.requests.length < 2) await board.advance(500);
    board.type("yes\r");
    await board.advance(500);
    go();
    expect(ends(await run)).toEqual([["", "g", true, expect.stringMatching(/^g gave no result within 3000 ms/)]]);
    if (board.hasHardware) expect(await board.runLine("digitalRead(D4)")).toContain("=0");
    expect(await board.runLine("1+1")).toContain("=2");
    expect((await board.ask("hello")).at(-1)).toMatchObject({ text: "fine" });
  });

  const one = toolCall("add", { a: 1, b: 2 }, { id: "call_1" });
  const two = toolCall("add", { a: 3, b: 4 }, { id: "" });
  scenario("a call without an id gets none that another has", { turns: [[one, two], text("ok")] }, async ({ board, model }) => {
    await board.ask("go");
    const calls = model.requests[1]!.json.messages.flatMap((message) => (message.tool_calls ?? []).map(({ id }) => id));
    expect(calls).toHaveLength(2);
    expect(new Set(calls).size).toBe(2);
  });

  const busy = { settings: { allowJs: true }, turns: [held(() => gate.for(), text("one")), text("two")] };
  scenario("settings are not changed under a run", busy, async ({ board, model }) => {
    let go = (): void => {};
    gate.for = () => new Promise<void>((resolve) => (go = resolve));
    const run = board.ask("go");
    while (model.requests.length < 1) await board.advance(20);
    board.type("set_config({allowJs:false})\n");
    await board.expectOutput("busy: nothing was changed");
    go();
    await run;
    await board.runLine("set_config({allowJs:false})");
    await board.ask("again");
    expect(names(model.requests[1])).not.toContain("run_js");
  });

  const empty = { settings: deep, turns: [toolCall("board_agent", { task: " " }), text("ok")] };
  scenario("an empty task is refused before a model is asked", empty, async ({ board, model }) => {
    expect(ends(await board.ask("go"))).toEqual([["", "board_agent", true, expect.stringMatching(/^the task is empty/)]]);
    expect(model.requests).toHaveLength(2);
  });
});
