import { describe, expect } from "vitest";
import { budgets } from "../../bench/budgets";
import type { TestBoard } from "../drivers/types";
import { text, toolCall, type Turn } from "../fixtures/scripted-model";
import { noteMemory, scenario } from "./scenario";

// One id for every call: the history's bytes then repeat exactly, and so must the memory.
const conversation: Turn[] = [
  [toolCall("gpio_write", { pin: 2, value: 1 }, { id: "call_a" }), toolCall("add", { a: 19, b: 23 }, { id: "call_b" })],
  text("The LED is on ", "and the sum is 42."),
];

const repeat = (times: number): Turn[] => Array.from({ length: times }, () => conversation).flat();

async function usageAfter(board: TestBoard, times: number): Promise<number[]> {
  const usages: number[] = [];
  for (let i = 0; i < times; i++) {
    const events = await board.ask("turn on the LED and add 19 and 23");
    expect(events.at(-1)).toMatchObject({ stopReason: "done" });
    usages.push((await board.memory()).usage);
  }
  return usages;
}

describe("memory", () => {
  const quiet = { observe: false, turns: [text("the answer")] };
  scenario("at rest with every tool and the history", quiet, async ({ board }) => {
    noteMemory(board, "after boot", await board.memory());
    await board.runLine("init_tools");
    noteMemory(board, "after init_tools", await board.memory());
    await board.runLine('ask("hello")');
    await board.expectOutput("the answer");
    await board.advance(500);
    const idle = await board.memory();
    noteMemory(board, "after the first prompt", idle);
    const { limit, unit, why } = budgets.idle;
    const told = `at rest: ${idle.usage} ${unit}, the budget is ${limit} (${why}); see bench/budgets.ts`;
    if (board.memoryKind === "esp32") expect(idle.usage, told).toBeLessThanOrEqual(limit);
  });

  const hundred = { turns: repeat(110), timeoutMs: 300_000 };
  scenario("is flat over 100 conversations with two tools", hundred, async ({ board }) => {
    // The first ten fill the history.
    const before = Math.max(...(await usageAfter(board, 10)).slice(4));
    const after = await usageAfter(board, 100);
    console.log(`two-tool conversation: ${before} variables after 10, ${after.at(-1)} after 110`);
    if (board.memoryKind !== "other") expect(Math.max(...after)).toBeLessThanOrEqual(before);
  });

  const small = {
    variables: 2500,
    turns: [...repeat(12), toolCall("read_file", { path: "big.txt" }), text("long")],
    files: { "big.txt": "a line of the file\n".repeat(100) },
    timeoutMs: 120_000,
  };
  scenario("on a board of 2,500 variables everything still works", small, async ({ board }) => {
    await board.runLine("init_tools");
    await usageAfter(board, 10);
    await board.enterChat();
    for (let i = 0; i < 2; i++) {
      board.type("again\r");
      await board.expectOutput("the sum is 42.");
      await board.expectOutput("you> ");
    }
    board.type("\x04");
    await board.expectOutput(/\n>+$/);
    expect((await board.ask("what is in big.txt?")).at(-1)).toMatchObject({ text: "long" });
    noteMemory(board, "on the small board", await board.memory());
  });
});
