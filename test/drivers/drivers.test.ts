import { afterEach, describe, expect, test } from "vitest";
import { scriptedModel, text, toolCall } from "../fixtures/scripted-model";
import { espruinoDriver } from "./espruino";
import { simDriver } from "./sim";
import type { Driver, StartOptions, TestBoard } from "./types";

const binary = process.env.ESPRUINO_BIN;

// The least that talks like the agent: it shows that a driver carries bytes, events and time both ways.
const standIn = `
global.ask = function(text) {
  var settings = JSON.parse(require("Storage").read("agent.json"));
  var address = settings.baseUrl.substr("http://".length);
  var slash = address.indexOf("/");
  var host = address.substr(0, slash).split(":");
  var body = '{"model":"m","stream":true,"messages":[{"role":"user","content":"' + text + '"}]}';
  var answer = "";
  require("http").request({
    host: host[0], port: host[1] || 80, path: address.substr(slash) + "/chat/completions", method: "POST",
    headers: {"Content-Type": "application/json", "Content-Length": body.length}
  }, function(res) {
    res.on("data", function(data) { answer += data; });
    res.on("close", function() {
      E.emit("agent", {type: "textDelta", text: text});
      E.emit("agent", {type: "final", text: answer, stopReason: "done"});
    });
  }).end(body);
};
Object.defineProperty(global, "main_loop_entry", {get: function() {
  var device = global[E.getConsole()];
  function onData(data) {
    if (data !== "\\x04") return device.write("[" + data + "]");
    device.removeAllListeners("data");
    E.setConsole(device, {force: true});
  }
  E.setConsole(null, {force: true});
  device.on("data", onData);
  device.write("you> ");
}});
print("boot " + process.memory().total);
`;

const drivers: [string, Driver | undefined][] = [
  ["sim", simDriver()],
  ["espruino", binary ? espruinoDriver(binary) : undefined],
];

describe.each(drivers)("the %s driver", (_name, driver) => {
  let started: TestBoard | undefined;

  async function start(options: Omit<StartOptions, "bundle">): Promise<TestBoard> {
    started = await driver!.start({ bundle: Buffer.from(standIn), ...options });
    return started;
  }

  afterEach(async () => {
    const board = started;
    started = undefined;
    await board?.stop();
  });

  test.skipIf(!driver)("boots from flash, runs lines, reads files", async () => {
    const files = { "note.txt": 'Grüße \\ "x"\n' };
    const board = await start({ model: scriptedModel([]), files, settings: { maxTokens: 5 } });
    expect(board.output()).toMatch(/boot \d+\n/);
    expect(await board.runLine("1+1")).toBe("=2");
    expect(await board.runLine("missing.thing")).toContain('Uncaught ReferenceError: "missing" is not defined');
    expect(await board.file("note.txt")).toBe(files["note.txt"]);
    expect(await board.file("none")).toBeUndefined();
    expect(JSON.parse((await board.file("agent.json"))!)).toMatchObject({ baseUrl: board.baseUrl, maxTokens: 5 });
  });

  test.skipIf(!driver)("ask gives the events of the run, decoded from UTF-8", async () => {
    const model = scriptedModel([[text("Hé", " 🙂"), toolCall("add", { a: 1 })]]);
    const board = await start({ model });
    const events = await board.ask("green");
    expect(events.map((event) => event.type)).toEqual(["textDelta", "final"]);
    expect(events[0]).toMatchObject({ text: "green" });
    expect((events[1] as { text: string }).text).toContain('"content":" 🙂"');
    expect(model.requests[0]!.json.messages[0]!.content).toBe("green");
    model.expectAllUsed();
    expect((await board.memory()).usage).toBeGreaterThan(0);
  });

  test.skipIf(!driver)("time passes while somebody waits, and with advance", async () => {
    const board = await start({ model: scriptedModel([]) });
    board.type('setTimeout(function(){print("tick")},300)\n');
    await board.expectOutput("tick");
    await board.runLine("n=0;setInterval(function(){n++},50);");
    await board.advance(1000);
    expect(await board.runLine("n>10")).toBe("=true");
  });

  test.skipIf(!driver)("Ctrl-D reaches a program that has taken the console", async () => {
    const board = await start({ model: scriptedModel([]) });
    await board.enterChat();
    board.type("x");
    await board.expectOutput("[x]");
    board.type("\x04");
    await board.expectOutput("<- null");
    expect(await board.runLine("2+2")).toBe("=4");
  });

  test.skipIf(!driver)("a wait in vain tells what was printed last", async () => {
    const board = await start({ model: scriptedModel([]) });
    await board.runLine('print("last words")');
    const waiting = board.expectOutput("never", { giveUpMs: 50 });
    await expect(waiting).rejects.toThrow(/gave up waiting for never.*last words/s);
  });

  test.skipIf(driver?.name !== "espruino")("an interpreter that ends on its own is reported", async () => {
    const board = await start({ model: scriptedModel([]) });
    board.type('print("last words");quit()\n');
    await expect(board.expectOutput("never")).rejects.toThrow(/ended \(.*last words/s);
    started = undefined;
    await expect(board.stop()).rejects.toThrow("ended on its own");
  });
});
