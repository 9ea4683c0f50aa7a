import { expect, test } from "vitest";
import { measureSize } from "../../bench/size";

test("every byte of the bundle belongs to one room", async () => {
  const { bytes, rooms } = await measureSize();
  expect(rooms.reduce((sum, room) => sum + room.bytes, 0)).toBe(bytes);
  const names = rooms.map(({ room }) => room);
  expect(names).toContain("tools/");
  expect(names).toContain("firmware/loop.ts");
  expect(new Set(names).size).toBe(names.length);
});
