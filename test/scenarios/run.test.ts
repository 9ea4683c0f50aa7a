import { describe, expect } from "vitest";
import { hang, held, reasoning, text, toolCall } from "../fixtures/scripted-model";
import { scenario } from "./scenario";

const finals = { type: "final", stopReason: "done" };

describe("tool calls", () => {
  const twoOfOneTurn = {
    turns: [
      [toolCall("gpio_write", { pin: 2, value: 1 }), toolCall("mul", { a: 21, b: 2 })],
      text("The LED is on and ", "the product is 42."),
    ],
  };
  scenario("two tools of one turn run in order, and the pin really changes", twoOfOneTurn, async ({ board, model }) => {
    const events = await board.ask("turn on D2 and multiply 21 by 2");
    expect(events.filter((event) => event.type === "toolRequest")).toMatchObject([
      { calls: [{ name: "gpio_write" }, { name: "mul" }] },
    ]);
    const tools = events.filter((event) => event.type === "toolStart" || event.type === "toolEnd");
    expect(tools).toMatchObject([
      { type: "toolStart", name: "gpio_write", callId: "call_1" },
      { type: "toolEnd", name: "gpio_write", callId: "call_1", isError: false },
      { type: "toolStart", name: "mul", callId: "call_2" },
      { type: "toolEnd", name: "mul", callId: "call_2", isError: false, content: expect.stringContaining("42") },
    ]);
    expect(JSON.parse((tools[0] as { arguments: string }).arguments)).toEqual({ pin: 2, value: 1 });
    expect(events.at(-1)).toEqual({ ...finals, text: "The LED is on and the product is 42." });
    expect(model.requests[1]!.json.messages.slice(1).map((message) => message.role)).toEqual([
      "user", "assistant", "tool", "tool",
    ]);
    if (board.hasHardware) expect(await board.runLine("digitalRead(D2)")).toBe("=1");
    else expect(await board.runLine("D2.getMode()")).toBe('="output"');
  });

  const twoTurns = {
    turns: [
      [reasoning("I need ", "the sum first."), toolCall("add", { a: 2, b: 3 })],
      [text("Now the product."), toolCall("mul", { a: 5, b: "4" })],
      text("It is 20."),
    ],
  };
  scenario("two tools of two turns, with reasoning and text before the calls", twoTurns, async ({ board, model }) => {
    const events = await board.ask("(2 + 3) * 4?");
    expect(events.filter((event) => event.type === "iterationStart")).toHaveLength(3);
    const reasoned = events.filter((event) => event.type === "reasoningDelta").map((event) => event.text);
    expect(reasoned.join("")).toBe("I need the sum first.");
    const ends = events.filter((event) => event.type === "toolEnd");
    expect(ends.map((event) => [event.name, event.isError])).toEqual([["add", false], ["mul", false]]);
    expect(ends[0]!.content).toContain("5");
    expect(ends[1]!.content).toContain("20");
    expect(events.at(-1)).toEqual({ ...finals, text: "It is 20." });
    expect(JSON.stringify(model.requests[2]!.json.messages)).not.toContain("the sum first");
    // Reasoning is no answer, and arguments are not shown while they stream in.
    const shown = events.filter((event) => event.type === "textDelta").map((event) => event.text).join("");
    expect(shown).toBe("Now the product.It is 20.");
  });

  const capped = {
    settings: { maxToolIterations: 2 },
    turns: [toolCall("add", { a: 1, b: 1 }), toolCall("add", { a: 2, b: 2 }), text("I stop here.")],
  };
  scenario("at the cap one last call goes without tools", capped, async ({ board, model }) => {
    const events = await board.ask("add for ever");
    expect(events.at(-1)).toEqual({ type: "final", text: "I stop here.", stopReason: "maxIterations" });
    expect(model.requests.map((request) => request.json.tools !== undefined)).toEqual([true, true, false]);
  });

  scenario("every tool of the board is sent, well-formed", { turns: [text("hi")] }, async ({ board, model }) => {
    await board.ask("hello");
    const names = model.requests[0]!.json.tools!.map((tool) => tool.function.name);
    expect(names).toEqual(expect.arrayContaining(["add", "gpio_write", "read_file", "get_function_list"]));
    expect(model.requests[0]!.headers.authorization).toMatch(/^Bearer /);
  });
});

describe("while a run is under way", () => {
  let open: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => (open = resolve));
  const turns = [held(() => gate, text("the first answer"))];
  scenario("a second prompt gets a busy reply and changes nothing", { turns }, async ({ board }) => {
    board.type('ask("first")\n');
    await board.expectEvent((event) => event.type === "iterationStart");
    board.type('ask("second")\n');
    const busy = await board.expectEvent((event) => event.type === "final");
    expect(busy).toMatchObject({ isError: true, message: expect.stringContaining("busy") });
    await board.expectOutput("busy");
    open();
    const final = await board.expectEvent((event) => event.type === "final");
    expect(final).toEqual({ ...finals, text: "the first answer" });
  });

  scenario("abort at the console stops it", { turns: [hang(), text("hello again")] }, async ({ board, model }) => {
    expect(await board.runLine("abort")).toContain("nothing to stop");
    board.type('ask("first")\n');
    await board.waitUntil(() => model.requests.length === 1);
    expect(await board.runLine("status")).toContain("busy");
    await board.runLine("abort");
    const final = await board.expectEvent((event) => event.type === "final");
    expect(final).toMatchObject({ stopReason: "aborted", isError: true });
    expect(await board.runLine("status")).toContain("idle");
    expect((await board.ask("second")).at(-1)).toEqual({ ...finals, text: "hello again" });
  });

  const mute = { turns: [hang(), hang(), text("hello")] };
  scenario("clear_history and cleanup_agent stop it", mute, async ({ board, model }) => {
    for (const word of ["clear_history", "cleanup_agent"]) {
      board.type('ask("never mind")\n');
      const count = model.requests.length + 1;
      await board.waitUntil(() => model.requests.length === count);
      await board.runLine(word);
      expect(await board.expectEvent((event) => event.type === "final")).toMatchObject({ stopReason: "aborted" });
    }
    expect((await board.ask("second")).at(-1)).toEqual({ ...finals, text: "hello" });
    expect(model.requests.at(-1)!.json.messages.slice(1)).toEqual([{ role: "user", content: "second" }]);
  });
});
