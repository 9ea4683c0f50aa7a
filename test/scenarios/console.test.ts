import { describe, expect } from "vitest";
import { text } from "../fixtures/scripted-model";
import { scenario } from "./scenario";

describe("words at the console", () => {
  scenario("init_tools works as a bare word and as a call, and twice changes nothing", {}, async ({ board }) => {
    expect(await board.runLine("init_tools")).toMatch(/\d+ tools/);
    const list = await board.runLine("list_tools");
    const names =
      "add mul compare mod word_count gpio_write gpio_read pwm_write adc_read read_file edit_file tree wifi_status " +
      "get_agent_public_info get_function_list";
    for (const name of names.split(" ")) expect(list).toMatch(new RegExp(`\\b${name}\\b`));
    expect(await board.runLine("init_tools()")).toMatch(/\d+ tools/);
    await board.runLine("init_tools");
    expect(await board.runLine("list_tools")).toBe(list);
    expect((await board.runLine("list_tools()")).match(/\bgpio_write:/g)).toHaveLength(1);
  });

  scenario("printing an object runs no word", {}, async ({ board }) => {
    await board.runLine("init_tools");
    expect(await board.runLine("new Date(0)")).not.toMatch(/cleanup|tools ready|chat/);
    expect(await board.runLine("Promise.resolve(1)")).not.toMatch(/cleanup|tools ready|chat/);
    expect(await board.runLine("list_tools")).toContain("gpio_write");
    // The settings are among the globals: withBoard looks for the key in what was printed.
    for (const code of ["global", "[global]", "({a:global})"]) {
      expect(await board.runLine(code)).not.toMatch(/cleanup|tools ready|chat|apiKey/);
    }
  });

  scenario("cleanup_agent prints the memory before and after, and init works again", {}, async ({ board }) => {
    await board.runLine("init_tools");
    const list = await board.runLine("list_tools");
    const cleanup = await board.runLine("cleanup_agent");
    expect(cleanup).toContain("[mem] cleanup done");
    expect(cleanup.match(/\d+/g)?.length).toBeGreaterThanOrEqual(2);
    expect(await board.runLine("list_tools")).not.toContain("gpio_write");
    await board.runLine("init_tools");
    expect(await board.runLine("list_tools")).toBe(list);
  });

  const twoAnswers = { turns: [text("first answer"), text("second answer")] };
  scenario("ask and agent_send_message print the answer", twoAnswers, async ({ board, model }) => {
    const events = await board.ask("hello");
    expect(events.at(-1)).toEqual({ type: "final", text: "first answer", stopReason: "done" });
    await board.expectOutput("first answer");
    board.type('agent_send_message("and again")\n');
    await board.expectOutput("second answer");
    expect(model.requests[1]!.json.messages.slice(1)).toEqual([
      { role: "user", content: "hello" },
      { role: "assistant", content: "first answer" },
      { role: "user", content: "and again" },
    ]);
  });

  const two = { turns: [text("one"), text("two")] };
  scenario("clear_history forgets the conversation", two, async ({ board, model }) => {
    await board.ask("remember the number 7");
    await board.runLine("clear_history");
    await board.ask("which number?");
    expect(JSON.stringify(model.requests[1]!.json.messages)).not.toContain("number 7");
  });

  scenario("status and show_llm_config tell the model, and never the key", {}, async ({ board }) => {
    const config = await board.runLine("show_llm_config");
    expect(config).toContain("scripted");
    expect(config).toContain(board.baseUrl);
    expect(config).toMatch(/apiKey\W+set\b/i);
    expect(await board.runLine("status()")).toMatch(/\d/);
    await board.runLine('set_config({apiKey:""})');
    expect(await board.runLine("show_llm_config")).toMatch(/apiKey\W+not set\b/i);
  });

  scenario("an empty prompt gets a clear line", {}, async ({ board }) => {
    const events = await board.ask("   ");
    expect(events).toMatchObject([{ type: "final", isError: true, message: expect.stringContaining("empty") }]);
    await board.expectOutput("empty");
  });
});

describe("settings", () => {
  scenario("set_config is saved in agent.json and takes effect", { turns: [text("hi")] }, async ({ board, model }) => {
    await board.runLine('set_config({model:"other",maxTokens:77})');
    const saved = JSON.parse((await board.file("agent.json"))!);
    expect(saved).toMatchObject({ baseUrl: board.baseUrl, model: "other", maxTokens: 77 });
    await board.ask("hello");
    expect(model.requests[0]!.json).toMatchObject({ model: "other", max_tokens: 77 });
  });

  scenario("unknown and out-of-range settings are refused by name, and nothing changes", {}, async ({ board }) => {
    const before = await board.file("agent.json");
    expect(await board.runLine("set_config({toolTimeoutMs:1})")).toMatch(/toolTimeoutMs.*100/);
    expect(await board.runLine("set_config({maxToolIterations:26})")).toMatch(/maxToolIterations.*25/);
    expect(await board.runLine("set_config({wifiPower:3})")).toContain("wifiPower");
    expect(await board.runLine('set_config({model:"new",retries:"many"})')).toContain("retries");
    expect(await board.runLine("set_config(5)")).not.toContain("Uncaught");
    expect(await board.file("agent.json")).toBe(before);
    expect(await board.runLine("show_llm_config")).toContain("scripted");
  });

  const broken = { files: { "agent.json": '{"model":"x",' }, turns: [text("works again")] };
  scenario("agent.json that is not JSON: the board boots, says so and can be repaired", broken, async ({ board }) => {
    expect(board.output()).toContain("agent.json");
    expect(await board.file("agent.json")).toBe('{"model":"x",');
    const [refused] = await board.ask("hello");
    expect(refused).toMatchObject({ type: "final", isError: true, message: expect.stringContaining("set_config") });
    await board.runLine(`set_config({baseUrl:"${board.baseUrl}",model:"scripted"})`);
    const events = await board.ask("hello");
    expect(events.at(-1)).toMatchObject({ text: "works again" });
  });

  const outOfRange = { settings: { retries: 99, nonsense: 1 }, turns: [text("fine")] };
  scenario("agent.json with bad settings: named at boot, the others are used", outOfRange, async ({ board, model }) => {
    expect(board.output()).toMatch(/retries/);
    expect(board.output()).toMatch(/nonsense/);
    await board.ask("hello");
    expect(model.requests[0]!.json.model).toBe("scripted");
  });

  scenario("a full Storage is told, and the old settings are still there", {}, async ({ board }) => {
    const before = await board.file("agent.json");
    await board.runLine('S=require("Storage");S.write("fill","x",0,S.getFree()-300)');
    const printed = await board.runLine(`set_config({systemPrompt:"${"be brief ".repeat(60)}"})`);
    expect(printed).toMatch(/Storage is full.*\d+ bytes free/);
    expect(await board.file("agent.json")).toBe(before);
    await board.runLine('S.erase("fill");delete S');
    expect(await board.runLine("1+1")).toBe("=2");
  });
});
