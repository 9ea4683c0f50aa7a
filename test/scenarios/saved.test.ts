import { describe, expect } from "vitest";
import { text } from "../fixtures/scripted-model";
import { scenario } from "./scenario";

describe("a saved conversation", () => {
  const turns = [text("I will."), text("7")];
  scenario("comes back after it was forgotten", { turns }, async ({ board, model }) => {
    expect(await board.runLine("session_save()")).toContain("no conversation to save");
    expect(await board.runLine("session_load()")).toContain("no saved conversation");
    await board.ask("remember 7");
    expect(await board.runLine("session_save()")).toContain("2 messages saved");
    await board.runLine("clear_history()");
    expect(await board.runLine("session_load()")).toContain("2 messages loaded");
    await board.ask("what was it?");
    expect(model.requests[1]!.json.messages.slice(1)).toEqual([
      { role: "user", content: "remember 7" },
      { role: "assistant", content: "I will." },
      { role: "user", content: "what was it?" },
    ]);
  });

  // What a cut write, another program or a stray key may leave behind.
  const damaged = {
    "no line end": "hello",
    "sizes that do not fit": '{"provider":"openai","lengths":[80],"crc":1}\nabc',
    "a wrong checksum": '{"provider":"openai","lengths":[48],"crc":1}\nabc',
    "sizes that are no list": '{"provider":"openai","lengths":5,"crc":1}\nabc',
  };
  for (const [what, file] of Object.entries(damaged)) {
    const options = { files: { session: file }, turns: [text("hello")] };
    scenario(`with ${what} is set aside and changes nothing`, options, async ({ board }) => {
      expect(await board.runLine("session_load()")).toContain("set aside as session.bad");
      expect(await board.file("session.bad")).toBe(file);
      expect(await board.file("session")).toBeUndefined();
      expect((await board.ask("hello")).at(-1)).toMatchObject({ text: "hello", stopReason: "done" });
    });
  }

  const other = { files: { session: '{"provider":"anthropic","lengths":[48],"crc":891568578}\nabc' }, turns: [text("hello")] };
  scenario("of another provider is left alone", other, async ({ board }) => {
    expect(await board.runLine("session_load()")).toContain("provider anthropic");
    expect(await board.file("session")).toBe(other.files.session);
    await board.ask("hello");
  });
});
