import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Board, createBoard } from "../../host-sim/board";
import { createCamera, type Camera } from "../../host-sim/camera";
import { createManualClock, type ManualClock } from "../../host-sim/clock";
import type { SerialDevice } from "../../host-sim/serial";

let clock: ManualClock;
let board: Board;
let sent: string[];
let speed: number;
let send: (bytes: string) => void;
const device: SerialDevice = {
  connect(baud, deliver) {
    speed = baud;
    send = deliver;
  },
  receive: (bytes) => void sent.push(bytes),
};
function start(serial: Record<string, SerialDevice>): void {
  board = createBoard({ clock, serial });
  board.boot();
}
beforeEach(() => {
  clock = createManualClock();
  sent = [];
  speed = 0;
});
afterEach(() => board.stop());
const run = (code: string): any => board.evaluate(code);
const settle = (ms: number): Promise<void> => {
  clock.advance(ms);
  return new Promise((resolve) => setImmediate(resolve));
};

describe("a serial port that is not the console", () => {
  it("carries bytes both ways once it is set up", async () => {
    start({ Serial2: device });
    run('Serial2.write("lost")');
    expect(sent).toEqual([]);
    expect(run("Serial2.isConnected()")).toBe(false);
    run('Serial2.setup(9600,{rx:D16,tx:D17});Serial2.write("a\\n",[1,255],3);Serial2.print("b\\n");Serial2.println("c")');
    expect(speed).toBe(9600);
    expect(run("Serial2.isConnected()")).toBe(true);
    expect(sent).toEqual(["a\n\x01\xff\x03", "b\r\n", "c\r\n"]);
    run('got="";Serial2.on("data",function(d){got+=d})');
    send("hello");
    await settle(1000);
    expect(run("got")).toBe("hello");
    expect(run("Serial2.available()")).toBe(0);
  });

  it("takes the time that bytes take on the line", async () => {
    start({ Serial3: device });
    run('n=0;Serial3.setup(9600);Serial3.on("data",function(d){n+=d.length})');
    send("x".repeat(960));
    await settle(501);
    expect(run("n")).toBe(480);
    await settle(501);
    expect(run("n")).toBe(960);
    expect(clock.pending()).toBe(0);
  });

  it("keeps 512 bytes for read while nobody listens", async () => {
    start({ Serial2: device });
    run("Serial2.setup()");
    expect(speed).toBe(9600);
    send(`${"x".repeat(600)}`);
    await settle(1000);
    expect(run("Serial2.available()")).toBe(512);
    expect(run("Serial2.read(10).length+Serial2.read().length")).toBe(512);
    expect(run("Serial2.read()")).toBe("");
  });

  it("loses what is on the line when it is set up anew, let go of, or the board restarts", async () => {
    start({ Serial2: device });
    run('got="";Serial2.setup(9600);Serial2.on("data",function(d){got+=d})');
    send("old");
    run("Serial2.setup(19200)");
    await settle(100);
    send("new");
    await settle(100);
    expect(run("got")).toBe("new");
    run("Serial2.unsetup()");
    send("never");
    run("Serial2.write('never')");
    await settle(100);
    expect(run("got")).toBe("new");
    expect(sent).toEqual([]);
    run("Serial2.setup(19200);reset()");
    await settle(1);
    send("never");
    await settle(100);
    expect(clock.pending()).toBe(0);
  });

  it("has nothing at it by default, and what is injected arrives", async () => {
    start({});
    run('got="";Serial2.setup(9600);Serial2.write("x");Serial2.on("data",function(d){got+=d});Serial2.inject("hi")');
    await settle(1);
    expect(run("got")).toBe("hi");
    expect(String(run('print(Serial2);"" + typeof Serial3'))).toBe("object");
    expect(() => run("Serial2.pipe()")).toThrow("Serial2.pipe is not modelled");
  });
});

describe("the camera", () => {
  const picture = Uint8Array.from({ length: 100 }, (_, i) => i);
  let camera: Camera;
  const ask = async (command: string): Promise<string> => {
    run(`got="";Serial2.write("${command}")`);
    await settle(2000);
    return Buffer.from(run("got"), "latin1").toString("hex");
  };
  beforeEach(() => {
    camera = createCamera({ clock, pictures: [picture] });
    start({ Serial2: camera });
    run('got="";Serial2.setup(38400);Serial2.on("data",function(d){got+=d})');
  });

  it("answers as the chip does", async () => {
    expect(await ask("V\\0\\x11\\0")).toBe(`760011000b${Buffer.from("VC0703 1.00").toString("hex")}`);
    expect(await ask("V\\0\\x34\\1\\0")).toBe("760034000400000000");
    expect(await ask("V\\0\\x36\\1\\0")).toBe("7600360000");
    expect(await ask("V\\0\\x34\\1\\0")).toBe("76003400" + "0400000064");
    const head = "7600320000";
    const piece = Buffer.from(picture).subarray(8, 16).toString("hex");
    expect(await ask("V\\0\\x32\\x0c\\0\\x0a\\0\\0\\0\\x08\\0\\0\\0\\x08\\0\\x0a")).toBe(head + piece + head);
    expect(await ask("V\\0\\x36\\1\\3")).toBe("7600360000");
    expect(await ask("V\\0\\x26\\0")).toMatch(/^7600260000.*0d0a$/);
  });

  it("refuses what it cannot do, and waits for the rest of a command", async () => {
    expect(await ask("V\\0\\x77\\0")).toBe("7600770100");
    expect(await ask("V\\0\\x36\\2\\0\\0")).toBe("7600360200");
    expect(await ask("V\\0\\x32\\x0c\\0\\x0a\\0\\0\\0\\x03\\0\\0\\0\\x08\\0\\x0a")).toBe("7600320300");
    expect(await ask("noise V\\0")).toBe("");
    expect(await ask("\\x11\\0")).toMatch(/^7600110/);
    expect(camera.commands.at(-1)).toBe(0x11);
  });
});
