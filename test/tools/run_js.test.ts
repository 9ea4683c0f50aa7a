import { afterEach, describe, expect, it } from "vitest";
import { plugInSandbox, type SandboxBoard } from "../firmware/sandbox-board";

let board: SandboxBoard | undefined;

afterEach(() => {
  board?.stop();
  board = undefined;
});

describe("run_js", () => {
  it.each([
    ["pinMode(D2, 'output'); D2.getMode()", false, "output"],
    ["print('a'); 2", false, "a\nresult: 2"],
    [
      "require('Storage').write('n', 'x'); setInterval(function () {}, 1000); return 1",
      false,
      /^1\nchanged files: n\ngoing on: timer \d+$/,
    ],
    ["print('so far'); nosuch", true, "so far\nerror: \"nosuch\" is not defined (line 1: print('so far'); nosuch)"],
    ["reset()", true, "not run: code must not use reset, which reaches the agent or the interpreter itself (line 1)"],
    ["f(", true, /^not run: it does not parse/],
    ["", false, "done (no output)"],
  ])("%s", async (code, isError, content) => {
    board = await plugInSandbox();
    expect(await board.call("run_js", { code })).toEqual({
      isError,
      content: typeof content === "string" ? content : expect.stringMatching(content),
    });
  });

  it("needs allowJs, and its code", async () => {
    board = await plugInSandbox({ settings: { allowJs: false } });
    expect(board.tools()).not.toContain("run_js");
    board.stop();
    board = await plugInSandbox();
    expect(board.tools()).toContain("run_js");
    expect(await board.call("run_js", {})).toMatchObject({
      isError: true,
      content: expect.stringContaining('"code" is missing'),
    });
  });

  it("gives no more than a result may hold, and says how to get the rest", async () => {
    board = await plugInSandbox({ settings: { toolResultBytes: 200 } });
    const { content } = await board.call("run_js", {
      code: "for (var i = 0; i < 100; i++) print('line ' + i); 'v'.repeat(300)",
    });
    expect(content.length).toBeLessThanOrEqual(200);
    expect(content).toMatch(/print less, or write it to a file\]$/);
  });

  it("hides the key, even where code has it", async () => {
    board = await plugInSandbox();
    expect((await board.call("run_js", { code: "'the key is sk-sandbox' + '-0123456789'" })).content).toBe(
      "the key is ***",
    );
  });

  it("does not come to an end by itself: it is stopped", async () => {
    board = await plugInSandbox({ settings: { toolTimeoutMs: 200 } });
    expect(await board.call("run_js", { code: "print(1);\nwhile (true);" })).toEqual({
      isError: true,
      content: "1\nerror: stopped: it ran for 200 ms without a pause. Is a loop endless? (line 2: while (true);)",
    });
  });
});
