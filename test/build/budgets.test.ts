import { describe, expect, it } from "vitest";
import { roomBytes, roomLimit } from "../../bench/budgets";
import { growthOf, measureSize, whatGrew } from "../../bench/size";
import { SIZE_BUDGET } from "../../esbuild.config.mjs";

describe("bytes of the bundle", async () => {
  const { bytes, rooms } = await measureSize();

  it("are within the budget, all together", async () => {
    const told = `the bundle has ${bytes} bytes, the budget is ${SIZE_BUDGET} (SIZE_BUDGET); ${await whatGrew()}`;
    expect(bytes, told).toBeLessThanOrEqual(SIZE_BUDGET);
  });

  it("are within the budget, room by room", () => {
    const over = growthOf(rooms)
      .filter(({ room, bytes }) => bytes > roomLimit(room))
      .map(({ room, bytes }) => `${room} has ${bytes} bytes, its budget is ${roomLimit(room)}`);
    expect(over, "make it smaller, or write the new size with its reason into bench/budgets.ts").toEqual([]);
  });

  it("have no budget for a room that is gone", () => {
    const names = rooms.map(({ room }) => room);
    expect(Object.keys(roomBytes).filter((room) => !names.includes(room))).toEqual([]);
  });
});
