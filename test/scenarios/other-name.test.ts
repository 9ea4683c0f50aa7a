import { readFileSync } from "node:fs";
import { describe, expect } from "vitest";
import { text } from "../fixtures/scripted-model";
import { scenario } from "./scenario";

const bundle = readFileSync(new URL("../../dist/agent.js", import.meta.url));

// The bundle reads parts of itself out of its file: whoever stored it may have called that something else.
describe("a bundle", () => {
  const other = { bundle: Buffer.from('require("mine")'), files: { mine: bundle }, turns: [text("hello")], timeoutMs: 120_000 };
  scenario("runs under any name", other, async ({ board }) => {
    expect(await board.runLine("init_tools")).toMatch(/\d+ tools ready/);
    expect((await board.ask("hi")).at(-1)).toMatchObject({ text: "hello", stopReason: "done" });
  });

  const cut = { bundle: bundle.subarray(0, -20), observe: false, allow: /Uncaught Error: put dist\/agent\.js/, timeoutMs: 120_000 };
  scenario("says what to do where its file is not whole", cut, async ({ board }) => {
    expect(board.output()).toContain('put dist/agent.js into the Storage as agent, whole and unchanged, and then require("agent")');
  });
});
