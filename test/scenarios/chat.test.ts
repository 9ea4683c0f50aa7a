import { describe, expect } from "vitest";
import { hang, held, streamEvents, text, toolCall } from "../fixtures/scripted-model";
import { noteMemory, scenario } from "./scenario";

describe("chat mode", () => {
  const conversation = {
    turns: [[toolCall("gpio_write", { pin: 4, value: 1 })], text("It is on."), text("You are ", "welcome.")],
  };
  scenario("lines are prompts, tool calls are one line each, Ctrl-D leaves", conversation, async ({ board, model }) => {
    await board.enterChat();
    board.type("turn on pin 4\r");
    const first = await board.expectOutput("you> ");
    expect(first).toContain("It is on.");
    expect(first.split("\n").filter((line) => line.includes("gpio_write"))).toHaveLength(1);
    board.type("thanks\r");
    expect(await board.expectOutput("you> ")).toContain("You are welcome.");
    board.type("\x04");
    await board.expectOutput(/\n>+$/);
    expect(await board.runLine("3+4")).toBe("=7");
    expect(model.requests.at(-1)!.json.messages.at(-1)).toEqual({ role: "user", content: "thanks" });
  });

  scenario("exit leaves, too: some terminals keep Ctrl-D", {}, async ({ board }) => {
    await board.enterChat();
    board.type("exit\r");
    await board.expectOutput(/\n>+$/);
    expect(await board.runLine("3+4")).toBe("=7");
  });

  scenario("what is typed behind the end of the chat in one go is the interpreter's", {}, async ({ board }) => {
    await board.enterChat();
    board.type("exit\rprint(6*7)\r");
    await board.expectOutput(/\n42\r?\n=undefined/);
    expect(await board.runLine("3+4")).toBe("=7");
  });

  const typing = { turns: [text("hello")] };
  scenario("a typing error is taken back, an empty line asks nothing", typing, async ({ board, model }) => {
    await board.enterChat();
    board.type("\r");
    await board.expectOutput("you> ");
    board.type("  \r");
    await board.expectOutput("you> ");
    board.type("hé\x7fallx\x7fo\r");
    await board.expectOutput("you> ");
    board.type("\x04");
    await board.expectOutput(/\n>+$/);
    expect(model.requests[0]!.json.messages.at(-1)!.content).toBe("hallo");
  });

  const silent = { turns: [hang(streamEvents([text("half an ans")], () => "").slice(0, 2)), text("fine now")] };
  scenario("Ctrl-C stops an answer, and the next prompt works", silent, async ({ board }) => {
    await board.enterChat();
    board.type("tell me a story\r");
    await board.expectOutput("half an ans");
    board.type("\x03");
    const final = await board.expectEvent((event) => event.type === "final");
    expect(final).toMatchObject({ stopReason: "aborted", isError: true });
    await board.expectOutput("you> ");
    board.type("are you there?\r");
    expect(await board.expectOutput("you> ")).toContain("fine now");
    board.type("\x04");
    await board.expectOutput(/\n>+$/);
  });

  let open: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => (open = resolve));
  const slow = { turns: [held(() => gate, text("done at last"))] };
  scenario("a line typed while busy gets a busy reply", slow, async ({ board }) => {
    await board.enterChat();
    board.type("first\r");
    await board.expectEvent((event) => event.type === "iterationStart");
    board.type("second\r");
    await board.expectOutput("busy");
    open();
    await board.expectOutput("done at last");
    await board.expectOutput("you> ");
    board.type("\x04");
    await board.expectOutput(/\n>+$/);
  });

  const mute = { turns: [hang(), text("hello again")] };
  scenario("leaving while the model is silent stops the run", mute, async ({ board, model }) => {
    await board.enterChat();
    board.type("hello?\r");
    await board.waitUntil(() => model.requests.length === 1);
    board.type("\x04");
    expect(await board.expectEvent((event) => event.type === "final")).toMatchObject({ stopReason: "aborted" });
    await board.expectOutput(/\n>+$/);
    expect((await board.ask("hello")).at(-1)).toMatchObject({ type: "final", text: "hello again", stopReason: "done" });
  });

  scenario("entering and leaving 50 times leaves memory where it was", { timeoutMs: 180_000 }, async ({ board }) => {
    const visit = async (): Promise<void> => {
      await board.enterChat();
      board.type("\x04");
      await board.expectOutput(/\n>+$/);
    };
    await visit();
    const before = await board.memory();
    for (let i = 0; i < 50; i++) await visit();
    const after = await board.memory();
    noteMemory(board, "before 50 visits of the chat", before);
    noteMemory(board, "after 50 visits of the chat", after);
    if (board.memoryKind !== "other") expect(after.usage).toBeLessThanOrEqual(before.usage);
  });

  scenario("chat, cleanup and chat again 50 times, the same", { timeoutMs: 180_000 }, async ({ board }) => {
    const visit = async (): Promise<void> => {
      await board.enterChat();
      board.type("\x04");
      await board.expectOutput(/\n>+$/);
      expect(await board.runLine("cleanup_agent")).toContain("[mem] cleanup done");
    };
    await visit();
    const before = await board.memory();
    for (let i = 0; i < 50; i++) await visit();
    const after = await board.memory();
    if (board.memoryKind !== "other") expect(after.usage).toBeLessThanOrEqual(before.usage);
  });
});
