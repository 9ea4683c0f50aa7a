import { describe, expect, test } from "vitest";
import { type Budget, budgets } from "../../bench/budgets";
import { growth, isLikeBoard, twoTools } from "../../bench/memory";
import { findPeak } from "../../bench/peak";
import { whatGrew } from "../../bench/size";
import { hasValgrind } from "../../bench/valgrind";
import { countStreams, ratioOf } from "../../bench/work";
import { scriptedModel, type Turn } from "../fixtures/scripted-model";
import type { Memory, TestBoard } from "../drivers/types";
import { driver, noteMemory } from "./scenario";

/** The streams that the work is judged with: thinking, an answer and tool calls of one provider, short enough for valgrind. */
const STREAM = "deepseek";

const PROMPTS = driver.name === "sim" ? 20 : 60;

interface Rest {
  boot: Memory;
  kind: TestBoard["memoryKind"];
  growth: number;
}

async function atRest(): Promise<Rest> {
  const queue: Turn[] = [];
  const board = await driver.start({ model: scriptedModel(() => queue.shift()!), observe: false });
  try {
    const boot = await board.memory();
    noteMemory(board, "after boot", boot);
    return { boot, kind: board.memoryKind, growth: await growth(board, queue, PROMPTS) };
  } finally {
    await board.stop();
  }
}

/** Fails with the figure, the budget, the reason for it, and the rooms of the bundle that grew. */
async function judge(what: string, value: number, budget: Budget): Promise<void> {
  const { limit, unit, why } = budget;
  if (value <= limit) return;
  const figure = Math.round(100 * value) / 100;
  const told = `${what}: ${figure} ${unit}, the budget is ${limit} (${why}, bench/budgets.ts); ${await whatGrew()}`;
  expect(value, told).toBeLessThanOrEqual(limit);
}

describe("budgets", () => {
  test(`memory after boot, and no growth over ${PROMPTS} prompts`, { timeout: 240_000 }, async () => {
    const rest = await atRest();
    // An estimate is no size, but what grows in it grows on a board, too.
    if (rest.kind === "esp32") await judge("after boot", rest.boot.usage, budgets.boot);
    if (rest.kind !== "other") await judge("growth", rest.growth, budgets.growth);
  });

  const isReal = driver.name === "espruino";
  test.skipIf(!isReal)("memory at the peak of a two-tool turn", { timeout: 300_000 }, async ({ skip }) => {
    if (!(await isLikeBoard(driver))) skip("this interpreter's memory is not like a board's");
    const { idle, needed } = await findPeak(driver, twoTools);
    console.log(`peak of a two-tool turn: ${needed} variables above ${idle}`);
    await judge("peak of a two-tool turn", needed, budgets.peak);
  });

  const counts = isReal && hasValgrind();
  test.skipIf(!counts)("work for a stream against its floor", { timeout: 600_000 }, async ({ skip }) => {
    const works = await countStreams(process.env.ESPRUINO_BIN!, STREAM);
    if (!works.length) skip("the recorded streams are not beside the repository");
    const ratio = ratioOf(works);
    console.log(`work for ${STREAM}: ${ratio.toFixed(2)} × its floor`);
    await judge(`work for ${STREAM}`, ratio, budgets.ratio);
  });
});
