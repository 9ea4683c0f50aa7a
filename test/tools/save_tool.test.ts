import { afterEach, describe, expect, it } from "vitest";
import { plugInSandbox, type SandboxBoard } from "../firmware/sandbox-board";

let board: SandboxBoard | undefined;

afterEach(() => {
  board?.stop();
  board = undefined;
});

const greet = {
  name: "greet",
  description: "Greets.",
  parameters: { type: "object", properties: { who: { type: "string" } } },
  code: "return 'hi ' + args.who",
};

describe("save_tool and remove_tool", () => {
  it("make a tool of the model's, and take it away", async () => {
    board = await plugInSandbox();
    expect(await board.call("save_tool", greet)).toMatchObject({ isError: false });
    expect(board.tools().at(-1)).toBe("greet: by the model");
    expect(await board.call("greet", { who: "Ann" })).toEqual({ isError: false, content: "hi Ann" });
    expect(await board.call("save_tool", greet)).toMatchObject({
      isError: true,
      content: expect.stringContaining("there is a tool called greet"),
    });
    expect(await board.call("remove_tool", { name: "greet" })).toEqual({ isError: false, content: "greet is removed" });
    expect(await board.call("remove_tool", { name: "greet" })).toEqual({
      isError: true,
      content: "no saved tool is called greet. Saved: none",
    });
    expect(board.tools()).not.toContain("greet: by the model");
  });

  it("edit_file cannot do the same", async () => {
    board = await plugInSandbox();
    expect(await board.call("edit_file", { path: "tool.greet", text: "x" })).toMatchObject({
      isError: true,
      content: expect.stringContaining("saved tool"),
    });
  });

  it("need allowJs", async () => {
    board = await plugInSandbox({ settings: { allowJs: false } });
    expect(board.tools().filter((name) => /save_tool|remove_tool/.test(name))).toEqual([]);
  });
});
