import { describe, expect } from "vitest";
import type { AgentEvent } from "../../firmware/types";
import { text, toolCall } from "../fixtures/scripted-model";
import { scenario } from "./scenario";

const results = (events: AgentEvent[]) =>
  events.flatMap((event) => (event.type === "toolEnd" ? [[event.isError, event.content]] : []));
const started = (events: AgentEvent[]) => events.filter((event) => event.type === "toolStart").length;

describe("loops that go nowhere", () => {
  const again = { turns: [toolCall("add", { a: 1, b: 2 }), toolCall("add", { b: 2, a: 1 }), toolCall("add", { a: 1, b: 2 }), text("3")] };
  scenario("the same call again is answered from memory; two such turns lead to the last call", again, async ({ board, model }) => {
    // Arguments in another order are another call: the third one repeats the first.
    const events = await board.ask("add");
    expect(results(events)).toEqual([
      [false, "3"],
      [false, "3"],
      [false, "already done in this run, not repeated: 3"],
    ]);
    expect(started(events)).toBe(2);
    expect(model.requests[3]!.json.tools).toBeDefined();
  });

  const stuck = { turns: [toolCall("add", { a: 1, b: 2 }), toolCall("add", { a: 1, b: 2 }), toolCall("add", { a: 1, b: 2 }), text("it is 3")] };
  scenario("two turns that run nothing new: the last call goes without tools", stuck, async ({ board, model }) => {
    const events = await board.ask("add");
    expect(started(events)).toBe(1);
    expect(events.at(-1)).toMatchObject({ stopReason: "maxIterations", text: "it is 3" });
    expect(model.requests.map(({ json }) => json.tools !== undefined)).toEqual([true, true, true, false]);
  });

  const sensor = { turns: [toolCall("tree", {}), toolCall("tree", {}), toolCall("tree", {}), text("there")] };
  scenario("a tool whose outcome may change is run each time", sensor, async ({ board }) => {
    const events = await board.ask("look");
    expect(started(events)).toBe(3);
    expect(events.at(-1)).toMatchObject({ stopReason: "done", text: "there" });
  });

  const failing = { turns: [toolCall("flaky", {}), toolCall("flaky", {}), toolCall("flaky", {}), text("no")] };
  scenario("what failed is tried once more, not twice", failing, async ({ board }) => {
    await board.runLine('add_tool({name:"flaky",description:"Fails.",execute:function(){throw new Error("busy")}})');
    const events = await board.ask("go");
    expect(results(events)).toEqual([
      [true, "busy"],
      [true, "busy"],
      [true, "already done in this run, not repeated: it failed: busy"],
    ]);
    expect(started(events)).toBe(2);
  });

  const after = { turns: [toolCall("add", { a: 1, b: 2 }), text("3"), toolCall("add", { a: 1, b: 2 }), text("3 again")] };
  scenario("the next prompt may ask for the same again", after, async ({ board }) => {
    await board.ask("add");
    expect(results(await board.ask("add again"))).toEqual([[false, "3"]]);
  });
});
