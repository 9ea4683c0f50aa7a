import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, constants, openSync, readSync, writeSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { type Board, type BoardOptions, createBoard } from "../../host-sim/board";
import { packet, PacketType } from "../../host-sim/packets";
import { servePty, serveTcp } from "../../host-sim/peer";

/** Real ms before a wait is given up. It ends a failing test, it is no assertion. */
const GIVE_UP_MS = 10_000;
const LOOK_MS = 10;

const cleanUp: (() => unknown)[] = [];
afterEach(async () => {
  for (const fn of cleanUp.splice(0).reverse()) await fn();
});

function powered(options: BoardOptions = {}): Board {
  const board = createBoard(options);
  board.boot();
  cleanUp.push(() => board.stop());
  return board;
}

async function served(): Promise<{ board: Board; port: number; notices: string[] }> {
  const board = powered();
  const notices: string[] = [];
  const peer = await serveTcp(board, { onNotice: (text) => notices.push(text) });
  cleanUp.push(() => peer.close());
  return { board, port: peer.port, notices };
}

async function until(condition: () => boolean, what: () => string): Promise<void> {
  for (let waited = 0; !condition(); waited += LOOK_MS) {
    if (waited > GIVE_UP_MS) throw new Error(what());
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

interface Client {
  socket: Socket;
  isClosed(): boolean;
  send(bytes: string): void;
  /** Waits for `text`, gives everything up to its end and takes it away. */
  expect(text: string): Promise<string>;
  received(): string;
}

async function client(port: number): Promise<Client> {
  const socket = connect(port, "127.0.0.1");
  let got = "";
  let isClosed = false;
  socket.on("data", (bytes) => (got += bytes.toString("latin1")));
  socket.on("error", () => undefined);
  socket.on("close", () => (isClosed = true));
  await new Promise((resolve) => socket.once("connect", resolve));
  cleanUp.push(() => socket.destroy());
  return {
    socket,
    isClosed: () => isClosed,
    send: (bytes) => void socket.write(Buffer.from(bytes, "latin1")),
    async expect(text) {
      await until(
        () => got.includes(text),
        () => `no ${JSON.stringify(text)} in ${JSON.stringify(got.slice(-500))}`,
      );
      const end = got.indexOf(text) + text.length;
      const found = got.slice(0, end);
      got = got.slice(end);
      return found;
    },
    received: () => got,
  };
}

/** A client in a process of its own, which goes on while this one runs board code. Steps wait for a text, then send. */
async function separateClient(port: number, steps: [wait: string, send: string][]): Promise<string> {
  const code = `
    const socket = require("node:net").connect(${port}, "127.0.0.1");
    const steps = ${JSON.stringify(steps)};
    let got = "", all = "";
    const look = () => {
      while (steps.length && got.includes(steps[0][0])) {
        got = "";
        const [, send] = steps.shift();
        if (send === "") socket.end(); else socket.write(send, "latin1");
      }
    };
    socket.on("data", (bytes) => { got += bytes; all += bytes; look(); });
    socket.on("close", () => process.stdout.write(all));
    socket.on("connect", look);
  `;
  const child: ChildProcess = spawn(process.execPath, ["-e", code], { stdio: ["ignore", "pipe", "inherit"] });
  cleanUp.push(() => child.kill("SIGKILL"));
  let printed = "";
  child.stdout!.on("data", (bytes: Buffer) => (printed += bytes.toString("latin1")));
  await new Promise((resolve) => child.once("close", resolve));
  return printed;
}

describe("a board on a TCP port", () => {
  it("is the console, byte for byte", async () => {
    const { port } = await served();
    const { send, expect: wait } = await client(port);
    send("1+1\n");
    expect(await wait(">")).toBe("1+1\r\n=2\r\n>");
    send('"\xe9\x80\xff".charCodeAt(1)\n');
    expect(await wait("\n>")).toBe('"\xe9\x80\xff".charCodeAt(1)\r\n=128\r\n>');
    send("\x10Serial1.write(new Uint8Array([0,10,13,255]))\n");
    expect(await wait("\xff")).toBe("\0\n\r\xff");
  });

  it("takes one client after another, and what one leaves half the next finishes", async () => {
    const { port } = await served();
    const first = await client(port);
    first.send("40+");
    await first.expect("40+");
    first.socket.destroy();
    const second = await client(port);
    second.send("2\n");
    expect(await second.expect(">")).toBe("2\r\n=42\r\n>");
  });

  it("survives a client that leaves in the middle of a packet", async () => {
    const { port, board } = await served();
    const first = await client(port);
    first.send(packet(PacketType.fileSend, "{fn:'t',s:10}"));
    await first.expect("\x06");
    first.send(packet(PacketType.data, "0123456789").slice(0, 8));
    first.socket.end();
    await until(first.isClosed, () => "still open");
    const second = await client(port);
    second.send("456789");
    await second.expect("\x06");
    expect(board.storage.api.read("t")).toBe("0123456789");
  });

  it("is one wire for two", async () => {
    const { port } = await served();
    const first = await client(port);
    const second = await client(port);
    first.send("6*7\n");
    expect(await first.expect("\n>")).toBe("6*7\r\n=42\r\n>");
    expect(await second.expect("\n>")).toBe("6*7\r\n=42\r\n>");
    second.send("print('both')\n");
    await first.expect("both\r\n");
  });

  it("shows what a timer prints, with nobody typing", async () => {
    const { port } = await served();
    const { send, expect: wait } = await client(port);
    send("\x10setTimeout(function(){print('tick')},30)\n");
    await wait("tick\r\n>");
  });

  it("lets Ctrl-C break a loop that runs, while its output goes on", async () => {
    const { port } = await served();
    const printed = await separateClient(port, [
      ["", "n=0;print('begin');while(1)n++;\n"],
      ["begin\r\n", "\x03"],
      ["Execution Interrupted\r\n>", "print('still',n>0);setInterval(function(){print('again');while(1);},5)\n"],
      ["again\r\n", "\x03"],
      ["New interpreter error: CALLBACK\r\n>", "1+1\n"],
      ["=2", ""],
    ]);
    expect(printed).toContain("still true");
    expect(printed).toContain("ERROR: Ctrl-C while processing interval - removing it.\r\nExecution Interrupted during");
  });

  it("lets a Ctrl-C that has broken a loop leave the line alone that was typed after it", async () => {
    const { port } = await served();
    const printed = await separateClient(port, [
      ["", "print('begin');while(1);\n"],
      ["begin\r\n", "40+\x032\n"],
      ["=42", ""],
    ]);
    expect(printed).toContain("Execution Interrupted\r\n");
  });

  it("lets a loop run on until Ctrl-C comes, however many turns it takes, and says that it does", async () => {
    const seen: boolean[] = [];
    const board = powered({ maxSteps: 1000, onLongRun: (isRunning) => void seen.push(isRunning) });
    const peer = await serveTcp(board);
    cleanUp.push(() => peer.close());
    const printed = await separateClient(peer.port, [
      ["", "for(n=0;n<50000;n++);print('over',n);while(1);\n"],
      ["over 50000\r\n", "\x03"],
      ["Execution Interrupted\r\n>", "1+1\n"],
      ["=2", ""],
    ]);
    expect(printed).not.toContain("simulator");
    expect(seen).toEqual([true, false]);
  });

  it("ends such a loop, and says why, where nobody is there to press Ctrl-C", () => {
    const board = powered({ maxSteps: 1000 });
    let printed = "";
    board.console.onData((bytes) => (printed += bytes));
    board.console.write("while(1);\n");
    expect(printed).toMatch(/\[simulator: ended after many turns[^\]]*\]\r\nExecution Interrupted\r\n>/);
  });

  it("disconnects a client that does not read, and goes on", async () => {
    const { board, port, notices } = await served();
    const stalled = await client(port);
    stalled.socket.pause();
    // The system's own buffers take some MB.
    board.evaluate("for(i=0;i<5000;i++)print('0123456789'.repeat(400))");
    await until(() => notices.length > 0, () => "nobody was disconnected");
    expect(notices).toEqual(["a client that does not read was disconnected"]);
    const { send, expect: wait } = await client(port);
    send("1+1\n");
    await wait("=2");
    stalled.socket.resume();
    await until(stalled.isClosed, () => "still connected");
  });

  it("waits for a client that reads, and loses nothing", async () => {
    const { port } = await served();
    const printed = await separateClient(port, [
      ["", "for(i=0;i<1500;i++)print('0123456789'.repeat(400));print('end')\n"],
      ["end\r\n=", ""],
    ]);
    expect(printed.split("0123456789".repeat(400)).length - 1).toBe(1500);
  });

  it("takes a large paste without losing any of it", async () => {
    const { port, board } = await served();
    const { send, expect: wait } = await client(port);
    send("\x10echo(0)\n");
    for (let i = 0; i < 200; i++) send(`a${i}=${JSON.stringify("x".repeat(900))};\n`);
    send("print('en'+'d')\n");
    await wait("end");
    for (let i = 0; i < 200; i++) expect(board.evaluate(`a${i}.length`)).toBe(900);
  });

  it("says what to do about a port that cannot be had", async () => {
    const { port } = await served();
    await expect(serveTcp(powered(), { port })).rejects.toMatchObject({
      code: "EADDRINUSE",
      message: `port ${port} of 127.0.0.1 is taken by another program: choose another one, or 0 for any free port`,
    });
    await expect(serveTcp(powered(), { host: "203.0.113.1" })).rejects.toMatchObject({ code: "EADDRNOTAVAIL" });
  });

  it("closes: clients are disconnected, the port is free, the board goes on", async () => {
    const board = powered();
    const peer = await serveTcp(board);
    const { isClosed } = await client(peer.port);
    await peer.close();
    await until(isClosed, () => "still connected");
    const again = createServer();
    await new Promise<void>((resolve, reject) => again.once("error", reject).listen(peer.port, "127.0.0.1", resolve));
    again.close();
    expect(board.evaluate("1+1")).toBe(2);
  });
});

describe.skipIf(process.platform === "win32")("a board on a pseudo-terminal", () => {
  it("is a plain wire for whoever opens it", async () => {
    const board = powered();
    const peer = await servePty(board);
    cleanUp.push(() => peer.close());
    const fd = openSync(peer.path, constants.O_RDWR | constants.O_NOCTTY | constants.O_NONBLOCK);
    const buffer = Buffer.alloc(4096);
    let got = "";
    const read = (): void => {
      try {
        got += buffer.toString("latin1", 0, readSync(fd, buffer));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
      }
    };
    const wait = (text: string): Promise<void> =>
      until(
        () => (read(), got.includes(text)),
        () => `no ${JSON.stringify(text)} in ${JSON.stringify(got)}`,
      );
    writeSync(fd, "1+1\n");
    await wait("\n>");
    expect(got).toBe("1+1\r\n=2\r\n>");
    // Bytes that a terminal would keep for itself or change.
    const all = Array.from({ length: 256 }, (_, i) => String.fromCharCode(i)).join("");
    for (const one of [packet(PacketType.fileSend, "{fn:'all',s:256}"), packet(PacketType.data, all)]) {
      got = "";
      writeSync(fd, Buffer.from(one, "latin1"));
      await wait("\x06");
    }
    expect(board.storage.api.read("all")).toBe(all);
    closeSync(fd);
  });

  it("never blocks the board where nobody reads", async () => {
    const board = powered();
    const notices: string[] = [];
    const peer = await servePty(board, { onNotice: (text) => notices.push(text) });
    board.evaluate("for(i=0;i<5000;i++)print('0123456789012345678901234567890123456789')");
    await until(() => notices.length > 0, () => "nothing was lost");
    expect(notices).toEqual([`nobody reads ${peer.path}: output is lost`]);
    await peer.close();
    expect(() => openSync(peer.path, constants.O_RDWR | constants.O_NOCTTY)).toThrow();
  });
});
