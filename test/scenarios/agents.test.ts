import { describe, expect } from "vitest";
import type { AgentEvent } from "../../firmware/types";
import { hang, reply, text, toolCall } from "../fixtures/scripted-model";
import { noteMemory, scenario } from "./scenario";

const deep = { mode: "deep" };
const ofType = <T extends AgentEvent["type"]>(events: AgentEvent[], type: T) =>
  events.filter((event): event is Extract<AgentEvent, { type: T }> => event.type === type);
const results = (events: AgentEvent[]) =>
  ofType(events, "toolEnd").map((event) => [event.agent ?? "", event.name, event.isError, event.content]);
const names = (request: { json: { tools?: any[] } }) => (request.json.tools ?? []).map((tool) => tool.function.name).sort();

describe("sub-agents", () => {
  const lamp = {
    settings: deep,
    turns: [
      toolCall("board_agent", { task: "turn pin 4 on" }),
      toolCall("gpio_write", { pin: 4, value: 1 }),
      text("pin 4 is on"),
      text("The lamp is on."),
    ],
  };
  scenario("do what the main agent delegates, with tools and a history of their own", lamp, async ({ board, model }) => {
    const events = await board.ask("turn on the lamp");
    expect(events.at(-1)).toMatchObject({ type: "final", text: "The lamp is on.", stopReason: "done" });
    const [main, first, second, back] = model.requests;
    expect(names(main!)).toContain("board_agent");
    for (const doing of ["gpio_write", "edit_file", "run_js", "pwm_write"]) expect(names(main!)).not.toContain(doing);
    expect(names(first!)).toEqual(["adc_read", "gpio_read", "gpio_write", "pwm_write"]);
    expect(first!.json.messages[0]!.content).toMatch(/^You set and read pins of the board \w+/);
    expect(first!.json.messages[0]!.content).not.toMatch(/[{}]/);
    expect(first!.json.messages.slice(1)).toEqual([{ role: "user", content: "turn pin 4 on" }]);
    expect(second!.json.messages).toHaveLength(4);
    // Only its last word comes back.
    expect(back!.json.messages.slice(-2)).toMatchObject([
      { role: "assistant", tool_calls: [{ function: { name: "board_agent" } }] },
      { role: "tool", content: "pin 4 is on" },
    ]);
    expect(events.filter((event) => event.agent).every((event) => event.agent === "board_agent")).toBe(true);
    expect(ofType(events, "final").map((event) => event.agent)).toEqual(["board_agent", undefined]);
    await board.expectOutput("[board_agent/gpio_write: ");
    expect(board.output()).toContain("[board_agent: pin 4 is on]");
  });

  const again = {
    settings: deep,
    turns: Array.from({ length: 4 }, (_, i) => [
      toolCall("board_agent", { task: `read pin ${i}` }),
      toolCall("gpio_read", { pin: 4 }),
      text("low"),
      text("It is low."),
    ]).flat(),
  };
  scenario("leave nothing behind", again, async ({ board }) => {
    await board.ask("read");
    await board.ask("read");
    const before = await board.memory();
    await board.ask("read");
    await board.ask("read");
    const after = await board.memory();
    noteMemory(board, "after prompts with a sub-agent", after);
    // The history of the main agent grows by two exchanges: small numbers, one variable each.
    if (board.memoryKind === "esp32") expect(after.usage - before.usage).toBeLessThanOrEqual(16);
    expect(await board.timers()).toBe(0);
  });

  const down = {
    settings: { ...deep, retries: 0 },
    turns: [toolCall("board_agent", { task: "go" }), reply(500, "the model is down"), text("It did not work.")],
  };
  scenario("whose model is down fail as any tool, and the main agent goes on", down, async ({ board, model }) => {
    const events = await board.ask("go");
    expect(results(events)).toEqual([["", "board_agent", true, expect.stringMatching(/board_agent failed: .*500/)]]);
    expect(events.at(-1)).toMatchObject({ text: "It did not work.", stopReason: "done" });
    expect(model.requests).toHaveLength(3);
  });

  const own = {
    settings: { ...deep, agentModels: "board_agent=tiny,code_agent=coder" },
    turns: [toolCall("code_agent", { task: "go" }), text("did it"), toolCall("board_agent", { task: "go" }), text("did it"), text("fine")],
  };
  scenario("have models and limits of their own", own, async ({ board, model }) => {
    await board.ask("go");
    const { model: main } = model.requests[0]!.json;
    expect(model.requests.map(({ json }) => json.model)).toEqual([main, "coder", main, "tiny", main]);
    expect(model.requests.map(({ json }) => json.temperature)).toEqual([undefined, 0.8, undefined, undefined, undefined]);
    // Without allowJs there is nothing to run code with.
    expect(names(model.requests[1]!)).toEqual(["edit_file", "read_file", "tree"]);
  });

  const stopped = { settings: deep, turns: [toolCall("board_agent", { task: "go" }), hang(), text("fine")] };
  scenario("stop with the run that they work for", stopped, async ({ board, model }) => {
    const run = board.ask("go");
    while (model.requests.length < 2) await board.advance(20);
    await board.advance(50);
    await board.runLine("abort");
    const events = await run;
    expect(ofType(events, "final").map((event) => [event.agent, event.stopReason])).toEqual([
      ["board_agent", "aborted"],
      [undefined, "aborted"],
    ]);
    expect((await board.ask("hello")).at(-1)).toMatchObject({ text: "fine" });
    expect(await board.timers()).toBe(0);
  });

  const budget = {
    settings: { ...deep, maxModelCalls: 3 },
    turns: [toolCall("board_agent", { task: "go" }), toolCall("gpio_read", { pin: 4 }), toolCall("gpio_read", { pin: 5 }), text("fine")],
  };
  scenario("share the model calls of a prompt", budget, async ({ board, model }) => {
    const events = await board.ask("go");
    expect(model.requests).toHaveLength(3);
    expect(events.at(-1)).toMatchObject({ isError: true, message: expect.stringContaining("maxModelCalls") });
    expect((await board.ask("hello")).at(-1)).toMatchObject({ text: "fine" });
  });

  const little = {
    settings: deep,
    turns: [toolCall("board_agent", { task: "go" }), text("I cannot.")],
  };
  scenario("are refused where there is no memory for them", little, async ({ board }) => {
    await board.runLine("init_tools()");
    await board.runLine('var filler=[];while(process.memory().free>1600)filler.push(new Uint8Array(800));"ok"');
    const events = await board.ask("go");
    expect(results(events)).toEqual([["", "board_agent", true, expect.stringMatching(/not enough memory for board_agent/)]]);
    expect(events.at(-1)).toMatchObject({ text: "I cannot." });
  });
});

describe("a plan", () => {
  const steps = (...list: unknown[]) => toolCall("create_plan", { steps: list });
  const good = {
    settings: deep,
    turns: [
      steps({ task: "turn pin 4 on", agent: "board_agent" }, "write a file with notes"),
      toolCall("gpio_write", { pin: 4, value: 1 }),
      text("pin 4 is on"),
      toolCall("edit_file", { path: "notes.txt", text: "on" }),
      text("wrote notes.txt"),
      toolCall("submit_result", { is_success: true, result: "All done.", files: ["notes.txt"] }),
    ],
  };
  scenario("is done step by step by the agents that fit, and ends with its result", good, async ({ board, model }) => {
    const events = await board.ask("lamp and notes");
    const states = ofType(events, "plan").map((event) => event.steps.map((step) => `${step.agent}: ${step.state}`));
    expect(states).toEqual([
      ["board_agent: doing", "code_agent: todo"],
      ["board_agent: done", "code_agent: todo"],
      ["board_agent: done", "code_agent: doing"],
      ["board_agent: done", "code_agent: done"],
    ]);
    expect(model.requests[3]!.json.messages[1]!.content).toMatch(/^write a file with notes\nDone before:\n1\. done: pin 4 is on/);
    expect(events.at(-1)).toMatchObject({
      type: "final",
      text: "All done.\nFiles: notes.txt",
      stopReason: "done",
      data: { is_success: true, result: "All done.", files: ["notes.txt"] },
    });
    await board.expectOutput("All done.");
    expect(board.output()).toMatch(/\[>\] turn pin 4 on \(board_agent\)\r?\n\[ \] write a file with notes \(code_agent\)/);
    expect(board.output()).toContain("[x] write a file with notes (code_agent)");
  });

  const replanned = {
    settings: { ...deep, retries: 0 },
    turns: [
      steps({ task: "one", agent: "board_agent" }, { task: "two", agent: "board_agent" }),
      reply(400, "no"),
      steps({ task: "one again", agent: "board_agent" }),
      reply(400, "no"),
      steps({ task: "one more time", agent: "board_agent" }),
      reply(400, "no"),
      steps({ task: "for ever", agent: "board_agent" }),
      toolCall("submit_result", { is_success: false, result: "It cannot be done." }),
    ],
  };
  scenario("that fails may be made anew, not for ever", replanned, async ({ board }) => {
    const events = await board.ask("go");
    const said = results(events).map(([, , , content]) => String(content));
    expect(said[1] ?? said[0]).toBeDefined();
    const plans = results(events).filter(([agent, name]) => !agent && name === "create_plan");
    expect(plans.map(([, , isError]) => isError)).toEqual([true, true, true, true]);
    expect(plans[0]![3]).toMatch(/Step 1 of 2 failed, those after it were not done/);
    expect(plans[3]![3]).toMatch(/planned 3 times already/);
    expect(events.at(-1)).toMatchObject({ text: "It cannot be done.", data: { is_success: false } });
  });

  const bad = {
    settings: deep,
    turns: [
      steps(),
      toolCall("create_plan", { steps: Array.from({ length: 200 }, (_, i) => `s${i}`) }),
      steps({ task: "x", agent: "nobody" }),
      steps({ agent: "board_agent" }),
      text("I give up."),
    ],
  };
  scenario("with no steps, too many, an unknown agent or no task is refused in words", bad, async ({ board }) => {
    const events = await board.ask("go");
    expect(results(events).map(([, , isError, content]) => [isError, content])).toEqual([
      [true, expect.stringMatching(/at least one step/)],
      [true, expect.stringMatching(/at most 12 steps, not 200|arguments/)],
      [true, expect.stringMatching(/step 1: there is no agent nobody/)],
      [true, expect.stringMatching(/step 1 has no task/)],
    ]);
  });
});

describe("ask_user", () => {
  const asking = {
    turns: [
      [toolCall("ask_user", { question: "Which lamp?" }), toolCall("gpio_write", { pin: 4, value: 1 })],
      toolCall("gpio_write", { pin: 5, value: 1 }),
      text("Pin 5 is on."),
    ],
  };
  scenario("ends the run with its question, and the next line is the answer", asking, async ({ board, model }) => {
    const first = await board.ask("turn on the lamp");
    expect(first.at(-1)).toMatchObject({ type: "final", text: "Which lamp?", stopReason: "awaitUser" });
    expect(ofType(first, "toolStart").map((event) => event.name)).toEqual(["ask_user"]);
    await board.expectOutput("Which lamp?");
    expect((await board.ask("the one on pin 5")).at(-1)).toMatchObject({ text: "Pin 5 is on.", stopReason: "done" });
    expect(model.requests[1]!.json.messages.slice(1)).toMatchObject([
      { role: "user", content: "turn on the lamp" },
      { role: "assistant", tool_calls: [{}, {}] },
      { role: "tool", content: "Which lamp?" },
      { role: "tool", content: expect.stringContaining("not run") },
      { role: "assistant", content: "Which lamp?" },
      { role: "user", content: "the one on pin 5" },
    ]);
  });
});

describe("tools that ask the person", () => {
  const asked = {
    settings: { confirmTools: "gpio_write" },
    turns: [toolCall("gpio_write", { pin: 4, value: 1 }), text("one"), toolCall("gpio_write", { pin: 4, value: 0 }), text("two")],
  };
  scenario("are run after a yes, and not after anything else", asked, async ({ board }) => {
    for (const [answer, isError] of [["yes", false], ["maybe", true]] as const) {
      const run = board.ask("lamp");
      await board.expectOutput(`? yes or no]`);
      board.type(`${answer}\r`);
      expect(results(await run)).toMatchObject([["", "gpio_write", isError, expect.any(String)]]);
      await board.runLine("1+1");
    }
    expect(board.output()).toContain('[allow gpio_write {"pin":4,"value":1}? yes or no]');
  });
});

describe("observers", () => {
  const watched = { turns: [[text("let me "), toolCall("add", { a: 1, b: 2 })], text("3")] };
  scenario("are told in order; one that throws changes nothing", watched, async ({ board }) => {
    await board.runLine(
      "seen=[];add_observer({onAssistantToolRequest:function(i,c,calls){seen.push([i,c,calls.length])}," +
        "onToolStart:function(n,id,a){seen.push(n)},onToolFinish:function(n,id,r){seen.push(r.content)}," +
        "onFinalAssistant:function(t,s){seen.push(t+s)}})",
    );
    await board.runLine('add_observer({onToolStart:function(){throw new Error("boom")}})');
    expect((await board.ask("add")).at(-1)).toMatchObject({ text: "3", stopReason: "done" });
    await board.expectOutput("[observer onToolStart failed: boom]");
    await board.runLine("print(seen.join())");
    expect(board.output()).toMatch(/^1,let me ,1,add,3,3done\r?$/m);
  });
});
