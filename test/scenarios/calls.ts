import { expect } from "vitest";
import type { TestBoard } from "../drivers/types";
import { text, toolCall, type Turn } from "../fixtures/scripted-model";

/** `name`, arguments, whether it fails, what the result must say. */
export type Call = [name: string, args: unknown, isError: boolean, says: RegExp];

/** Turns of a model that makes these calls, one a turn, and is done. */
export const script = (calls: Call[]): Turn[] => [...calls.map(([name, args]) => toolCall(name, args)), text("done")];

/** Runs such a script, and looks at what each came to. */
export async function runAll(board: TestBoard, calls: Call[]): Promise<void> {
  const ends = (await board.ask("go")).filter((event) => event.type === "toolEnd");
  expect(ends.map(({ name, isError, content }) => [name, isError, content])).toEqual(
    calls.map(([name, , isError, says]) => [name, isError, expect.stringMatching(says)]),
  );
}
