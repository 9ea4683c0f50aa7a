import { describe, expect } from "vitest";
import { text, toolCall } from "../fixtures/scripted-model";
import { type Call, runAll, script } from "./calls";
import { scenario } from "./scenario";

describe("the tools of the board", () => {
  const numbers: Call[] = [
    ["add", { a: 0.1, b: 0.2 }, false, /\b0\.3\b/],
    ["add", { a: "40", b: 2 }, false, /\b42\b/],
    ["mul", { a: -3, b: 2.5 }, false, /-7\.5\b/],
    ["compare", { a: 2, b: 10 }, false, /2 is less than 10/],
    ["mod", { a: 17, b: 5 }, false, /\b2\b/],
    ["word_count", { text: " one\ntwo  three " }, false, /3 words/],
    ["get_function_list", {}, false, /gpio_write/],
    ["get_agent_public_info", {}, false, /espruino-agent \d/],
  ];
  const many = { maxToolIterations: 20 };
  scenario("numbers, words and who am I", { turns: script(numbers), settings: many }, async ({ board }) => {
    await runAll(board, numbers);
  });

  const rows = Array.from({ length: 40 }, (_, i) => `row ${i + 1}`).join("\n");
  const files: Call[] = [
    ["edit_file", { path: "notes.txt", text: "milk – 1 €" }, false, /notes\.txt created/],
    ["edit_file", { path: "notes.txt", text: "again" }, true, /exists already/],
    ["edit_file", { path: "notes.txt", text: "bread", mode: "append" }, false, /changed/],
    ["edit_file", { path: "notes.txt", text: "oat milk", mode: "replace", old_text: "milk" }, false, /changed/],
    ["read_file", { path: "notes.txt" }, false, /oat milk – 1 €\nbread/],
    ["read_file", { path: "long.txt", start_row: 39, rows: 5 }, false, /rows 39-40 of 40:\nrow 39\nrow 40$/],
    ["read_file", { path: "none.txt" }, true, /none\.txt.*tree/],
    ["read_file", { path: "agent.json" }, true, /./],
    ["edit_file", { path: "agent", text: "x", mode: "overwrite" }, true, /./],
    ["tree", { pattern: "*.txt" }, false, /2 files.*\nlong\.txt \d+\nnotes\.txt \d+$/s],
  ];
  const withFiles = {
    turns: script(files),
    files: { "long.txt": rows },
    settings: { ...many, historyBytes: 8192 },
    byteStrings: true,
  };
  scenario("files are made, changed, read, listed; the agent's own are not touched", withFiles, async ({ board }) => {
    await runAll(board, files);
    expect(await board.file("notes.txt")).toBe("oat milk – 1 €\nbread");
    expect(JSON.parse((await board.file("agent.json"))!)).toMatchObject({ model: "scripted" });
  });

  const pins: Call[] = [
    ["gpio_write", { pin: 4, value: 1 }, false, /Pin 4 is now on/],
    ["gpio_write", { pin: "5", value: "0" }, false, /Pin 5 is now off/],
    ["gpio_write", { pin: 2, value: 2 }, true, /value.*1 or less/],
    ["gpio_write", { pin: "D2", value: 1 }, true, /pin.*whole number/],
    ["pwm_write", { pin: 18, duty_percent: 50 }, false, /50 percent/],
    ["pwm_write", { pin: 18, duty_percent: 101 }, true, /duty_percent.*100 or less/],
    ["gpio_read", { pin: 7 }, true, /flash/],
    ["adc_read", { pin: 4 }, true, /ADC2/],
  ];
  scenario("pins", { turns: script(pins), settings: many }, async ({ board }) => {
    await runAll(board, pins);
    if (board.hasHardware) expect(await board.runLine("[digitalRead(4),digitalRead(5)].join()")).toBe('="1,0"');
    else expect(await board.runLine("[D4.getMode(),D5.getMode()].join()")).toBe('="output,output"');
  });

  scenario("an analog input and the Wi-Fi are read, or it is said that there are none", {
    turns: [toolCall("adc_read", { pin: 34 }), toolCall("wifi_status", {}), text("done")],
    allow: /Analog is not supported/,
  }, async ({ board }) => {
    await runAll(board, [
      ["adc_read", {}, false, /Pin 34 reads \d/],
      ["wifi_status", {}, !board.hasHardware, board.hasHardware ? /Wi-Fi is (not )?connected/ : /no Wi-Fi module/],
    ]);
  });
});
