import { afterEach, describe, expect, it } from "vitest";
import { plugInSandbox, type SandboxBoard, type SandboxBoardOptions } from "./sandbox-board";

let board: SandboxBoard | undefined;

afterEach(() => {
  board?.stop();
  board = undefined;
});

async function start(options?: SandboxBoardOptions): Promise<SandboxBoard> {
  return (board = await plugInSandbox(options));
}

const nothing = { stdout: "", stderr: "", changed: [] };

describe("what code came to", () => {
  it.each([
    ["1 + 1", { ...nothing, value: "2" }],
    ["return 'text'", { ...nothing, value: "text" }],
    ["({a: [1, 'x']})", { ...nothing, value: '{"a":[1,"x"]}' }],
    ["null", { ...nothing, value: "null" }],
    ["print('a', 1); print(); console.log({b: 2})", { ...nothing, stdout: 'a 1\n\n{"b":2}' }],
    ["throw new Error('jam')", { ...nothing, stderr: "jam (line 1: throw new Error('jam'))" }],
    ["throw {message: 'own'}", { ...nothing, stderr: '{"message":"own"}' }],
    ["Promise.resolve(3)", { ...nothing, value: "3" }],
    ["return {isError: false, content: 'fine'}", { ...nothing, value: "fine" }],
    ["return {isError: true, content: 'no paper'}", { ...nothing, stderr: "no paper" }],
    ["'caf\xe9'", { ...nothing, value: "caf\xe9" }],
  ])("%s", async (code, expected) => {
    await start();
    expect(await board!.run(code)).toEqual(expected);
  });

  it("gets its arguments", async () => {
    await start();
    expect(await board!.run("return args.a + args.b", { a: 1, b: 2 })).toEqual({ ...nothing, value: "3" });
  });

  it("is cut, with a marker", async () => {
    await start({ settings: { toolResultBytes: 100 } });
    const ran = await board!.run("for (var i = 0; i < 30; i++) print('line ' + i); 'v'.repeat(200)");
    expect(ran.stdout).toMatch(/^line 0\nline 1\n[^]*\n\[cut: 100 of 230 bytes\]$/);
    expect(ran.value).toMatch(/^v+\n\[cut: \d+ of 200 bytes\]$/);
    expect(ran.value!.length).toBeLessThanOrEqual(100);
  });

  it("comes when a promise settles, up to toolTimeoutMs", async () => {
    await start({ settings: { toolTimeoutMs: 500 } });
    const wait = (ms: number) => `new Promise(function (r) { setTimeout(function () { print("late"); r(5) }, ${ms}) })`;
    expect(await board!.run(wait(400))).toEqual({ ...nothing, stdout: "late", value: "5" });
    expect(await board!.run(wait(600))).toEqual({
      ...nothing,
      stderr: "its promise was not settled within 500 ms (toolTimeoutMs)",
    });
    // Its timer went with it.
    board!.clock.advance(1000);
    expect(board!.printed()).not.toContain("late");
    expect(await board!.run("1")).toEqual({ ...nothing, value: "1" });
  });

  it("tells of what nobody can catch", async () => {
    await start();
    expect((await board!.run("function f() { return f() + 1 } print('in'); f()")).stderr).toMatch(
      /^interrupted: out of memory or stack/,
    );
    expect(await board!.run("2")).toEqual({ ...nothing, value: "2" });
  });
});

describe("promises of code", () => {
  it("do not go on without an end when it is over", async () => {
    await start();
    expect(await board!.run("calls = 0; function f() { calls++; Promise.resolve().then(f) } f(); 1")).toEqual({
      ...nothing,
      value: "1",
    });
    board!.clock.advance(100);
    const calls = board!.value("calls");
    board!.clock.advance(100);
    expect(board!.value("calls")).toBe(calls);
    expect(board!.printed()).toContain("code stopped: it is over, and its promises go on.");
  });

  it("go on while timers of it do", async () => {
    await start();
    await board!.run("ticks = 0; setInterval(function () { Promise.resolve().then(function () { ticks++ }) }, 10); 1");
    board!.clock.advance(105);
    expect(board!.value("ticks")).toBe(10);
  });

  it("and errors in them are told without the guards", async () => {
    await start();
    expect((await board!.run("1;\nnosuch().then(function () {})")).stderr).toMatch(/"nosuch" is not defined \(line 2: nosuch/);
  });
});

describe("the Storage that code sees", () => {
  it("tells which files were changed", async () => {
    await start({ files: { old: "x", gone: "y" } });
    const ran = await board!.run(`
      var s = require("Storage");
      s.write("a", "1"); s.write("a", "22"); s.writeJSON("b", {x: [1]}); s.write("c", [65, 66]);
      s.erase("gone"); s.erase("never"); s.write("tmp", "1"); s.erase("tmp");
      s.read("old") + s.read("a") + s.readJSON("b").x[0] + s.read("c") + s.read("a", 1, 1)`);
    expect(ran).toEqual({ ...nothing, value: "x221AB2", changed: ["a", "b", "c", "gone (erased)", "tmp (erased)"] });
    expect(board!.storage.read("b")).toBe('{"x":[1]}');
  });

  it("has files that grow", async () => {
    await start();
    const ran = await board!.run(
      'var f = require("Storage").open("log", "a"); f.write("one\\n"); f.write("two\\n"); require("Storage").open("log", "r").readLine()',
    );
    expect(ran).toEqual({ ...nothing, value: "one\n", changed: ["log"] });
  });

  it.each([
    ['read("agent.json")', /settings and API key/],
    ['read("./agent.json")', /settings and API key/],
    ['readJSON("agent.json")', /settings and API key/],
    ['read(".bootcde")', /system file/],
    ['write("agent", "x")', /agent's own program/],
    ['erase("agent")', /agent's own program/],
    ['erase(".agentrun")', /system file/],
    ['write("tool.x", "x")', /saved tool/],
    ['open("agent.json", "r")', /settings and API key/],
    ['write("x:y", "x")', /file name/],
  ])("%s is refused", async (call, words) => {
    await start({ files: { "tool.x": "1" } });
    const before = board!.storage.list().map((name) => [name, board!.storage.read(name)]);
    const ran = await board!.run(`require("Storage").${call}`);
    expect(ran).toMatchObject({ stderr: expect.stringMatching(words), changed: [] });
    expect(board!.storage.list().map((name) => [name, board!.storage.read(name)])).toEqual(before);
  });

  it("lists what tools may use", async () => {
    await start({ files: { notes: "x" } });
    expect((await board!.run('require("Storage").list().sort().join()')).value).toBe("agent,notes");
    expect((await board!.run('require("Storage").list(/^n/).join()')).value).toBe("notes");
  });

  it("moves no file to make room", async () => {
    await start({ storageBytes: 48 * 4096 });
    const ran = await board!.run('var s = require("Storage"); s.write("big", "x", 0, 200000)');
    expect(ran).toMatchObject({ stderr: expect.stringMatching(/the Storage is full: \d+ bytes free/), changed: [] });
  });

  it("Wi-Fi is there without what takes the agent off the network, or tells passwords", async () => {
    await start();
    const ran = await board!.run(
      'var w = require("Wifi"); [typeof w.getStatus(), w.disconnect, w.connect, w.startAP, w.getDetails].join()',
    );
    expect(ran).toEqual({ ...nothing, value: "object,,,," });
  });

  it.each(["Flash", "TelnetServer", "agent", "agent.json", ".bootcde"])("the module %s is refused, others are not", async (name) => {
    await start({ files: { mine: "exports.x = 5" } });
    expect((await board!.run(`require("${name}")`)).stderr).toContain(`must not use the module ${name}`);
    expect(await board!.run('require("mine").x')).toEqual({ ...nothing, value: "5" });
  });
});

describe("timers and watches of code", () => {
  it("go on, are named, and can be ended", async () => {
    await start();
    const ran = await board!.run(
      "setInterval(function () { print('tick') }, 100); setTimeout(function (a) { print(a) }, 150, 'once'); setWatch(function () {}, D0, {repeat: true}); 1",
    );
    expect(ran.left).toMatch(/^timer \d+, timer \d+, watch \d+$/);
    board!.clock.advance(220);
    expect(board!.printed().match(/tick|once/g)).toEqual(["tick", "once", "tick"]);
    const id = /timer (\d+)/.exec(ran.left!)![1];
    expect(await board!.run(`clearInterval(${id}); 2`)).toEqual({ ...nothing, value: "2" });
    board!.clock.advance(500);
    expect(board!.printed().match(/tick/g)).toHaveLength(2);
    await board!.run("clearWatch()");
    expect(board!.value("E.clip(1,0,2)")).toBe(1);
  });

  it("those of the agent and the person are out of reach", async () => {
    await start();
    board!.value("(setInterval(function(){print('mine')},100),1)");
    const pending = board!.clock.pending();
    await board!.run("clearInterval(); clearTimeout(); clearInterval(1); clearTimeout(1); 1");
    expect(board!.clock.pending()).toBe(pending);
    board!.clock.advance(150);
    expect(board!.printed()).toContain("mine");
  });

  it("end where the code fails", async () => {
    await start();
    const pending = board!.clock.pending();
    expect((await board!.run("setInterval(function () {}, 10); nosuch()")).left).toBeUndefined();
    expect(board!.clock.pending()).toBe(pending);
  });

  it("end where one of them does not", async () => {
    await start();
    const pending = board!.clock.pending();
    await board!.run("setInterval(function () {}, 20); setTimeout(function () { for (;;); }, 50); 1");
    board!.clock.advance(100);
    expect(board!.printed()).toContain(
      "code stopped: it ran for 1000 ms without a pause. Is a loop endless? All timers of code are stopped.",
    );
    expect(board!.clock.pending()).toBe(pending);
  });

  it("cost nothing once they are over", async () => {
    await start();
    await board!.run("1");
    const usage = (): number => board!.value("process.memory().usage") as number;
    const before = usage();
    await board!.run("setTimeout(function () {}, 1000); 1");
    expect(usage()).toBeGreaterThan(before);
    board!.clock.advance(1100);
    await board!.run("1");
    expect(usage()).toBe(before);
  });
});

describe("the journal", () => {
  it("knows what has not come back", async () => {
    await start();
    board!.value('journal().begin("run_js first\\nline " + "x".repeat(100))');
    expect(board!.value("journal().open()")).toBe(`run_js first line ${"x".repeat(30)}`);
    board!.value("(journal().close(),1)");
    expect(board!.value("journal().open()")).toBe("");
  });

  it("writes each byte once, and takes a new file when the old one is full", async () => {
    await start();
    for (let i = 0; i < 60; i++) {
      await board!.run("1", undefined, `run_js number ${i} ${"y".repeat(20)}`);
      expect(board!.value("journal().open()")).toBe("");
    }
    const text = board!.storage.read(".agentrun")!;
    expect(text).toHaveLength(1024);
    expect(text.split("\n").at(-2)).toMatch(/^run_js number 59 y+$/);
    expect(board!.storage.getStats().fileCount).toBe(4);
  });

  it("does without where the Storage is full", async () => {
    await start({ storageBytes: 48 * 4096 });
    const free = board!.storage.getFree();
    board!.storage.write("fill", "x".repeat(free - 600));
    expect(await board!.run("1", undefined, "run_js 1")).toEqual({ ...nothing, value: "1" });
    expect(board!.storage.read(".agentrun")).toBeUndefined();
  });

  it("the watchdog is on from the first code on, unless watchdogMs is 0", async () => {
    await start();
    board!.value("(E.enableWatchdog=function(s,a){W=[s,a]},W=0,1)");
    expect(board!.value("W")).toBe(0);
    await board!.run("1");
    expect(board!.value("W")).toEqual([120, true]);
    board!.stop();
    await start({ settings: { watchdogMs: 0 } });
    board!.value("(E.enableWatchdog=function(s,a){W=[s,a]},W=0,1)");
    await board!.run("1");
    expect(board!.value("W")).toBe(0);
  });

  it("the board's watchdog restarts what does not kick it in time", async () => {
    await start();
    // What a program has set is gone after a restart.
    const isSame = async (): Promise<boolean> => {
      await new Promise((resolve) => setImmediate(resolve));
      return board!.value("typeof mark") === "number";
    };
    board!.value("(mark=1,E.enableWatchdog(120,true),1)");
    board!.clock.advance(600_000);
    expect(await isSame()).toBe(true);
    board!.value("(E.enableWatchdog(5,false),1)");
    board!.clock.advance(4000);
    board!.value("(E.kickWatchdog(),1)");
    board!.clock.advance(4000);
    expect(await isSame()).toBe(true);
    board!.clock.advance(2000);
    expect(await isSame()).toBe(false);
    board!.value("mark=2");
    board!.clock.advance(60_000);
    expect(await isSame()).toBe(true);
  });
});
