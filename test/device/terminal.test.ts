/** `console` at a terminal: bytes both ways, and the terminal as it was afterwards. */
import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import type { Input } from "../../cli/console";
import { runProgram } from "../../cli/main";
import { createStorage } from "../../host-sim/storage";
import { simOnPort } from "./boards";
import { run } from "./program";

function openTerminal(port: string) {
  const stdin = new PassThrough() as PassThrough & Input & { rawModes: boolean[] };
  stdin.rawModes = [];
  stdin.isTTY = true;
  stdin.setRawMode = (isRaw) => void stdin.rawModes.push(isRaw);
  const stopped = new AbortController();
  let out = "";
  let err = "";
  let check = (): void => {};
  const exit = runProgram(["console", "--port", port], {
    env: {},
    stdin,
    stdout: {
      isTTY: true,
      write(data) {
        out += typeof data === "string" ? data : Buffer.from(data).toString("utf8");
        check();
      },
    },
    stderr: {
      isTTY: true,
      write(data) {
        err += String(data);
        check();
      },
    },
    signal: stopped.signal,
  });
  return {
    exit,
    stopped,
    stdin,
    type: (bytes: string | Buffer) => void stdin.write(bytes),
    out: () => out,
    err: () => err,
    until: (isThere: () => boolean) =>
      new Promise<void>((resolve) => {
        check = () => isThere() && resolve();
        check();
      }),
  };
}

describe("console at a terminal", () => {
  it("passes keys as UTF-8 and shows what comes as UTF-8, in whatever pieces; Ctrl-] leaves", async () => {
    const board = await simOnPort().start();
    try {
      const terminal = openTerminal(board.port);
      await terminal.until(() => terminal.err().includes("Ctrl-] leaves"));
      expect(terminal.stdin.rawModes).toEqual([true]);
      // A character in two pieces, as a slow keyboard or network has it.
      const line = Buffer.from('print("Grüße 🙂".length,"日本")\r', "utf8");
      for (const byte of line) terminal.type(Buffer.of(byte));
      await terminal.until(() => terminal.out().includes("12 日本\r\n"));
      expect(terminal.out()).toContain("Grüße 🙂");
      expect(terminal.out()).not.toContain("\ufffd");
      terminal.type("while(1);\r");
      await terminal.until(() => terminal.out().includes("while(1);\r\n"));
      terminal.type("\x03");
      await terminal.until(() => /(Interrupted|interrupted)/.test(terminal.out()));
      terminal.type("6*7\r\x1dnot for the board");
      expect(await terminal.exit).toBe(0);
      expect(terminal.stdin.rawModes).toEqual([true, false]);
    } finally {
      await board.stop();
    }
  });

  it("says so when the board goes away, and joins it again when it is back", async () => {
    const board = await simOnPort().start();
    try {
      const terminal = openTerminal(board.port);
      await terminal.until(() => terminal.err().includes("Ctrl-] leaves"));
      await board.powerCycle();
      await terminal.until(() => terminal.err().includes("connected again"));
      expect(terminal.err()).toMatch(
        /\[tcp:\S+: (the other side closed the connection|the connection broke: .*)\. Waiting for it; Ctrl-\] leaves\]/,
      );
      terminal.type("6*7\r");
      await terminal.until(() => terminal.out().includes("=42\r\n"));
      await board.stop();
      await terminal.until(() => terminal.err().split("Waiting for it").length === 3);
      terminal.type("\x1d");
      expect(await terminal.exit).toBe(0);
      expect(terminal.stdin.rawModes).toEqual([true, false]);
    } finally {
      await board.stop();
    }
  });

  it("gives the terminal back when a signal ends it", async () => {
    const board = await simOnPort().start();
    try {
      const terminal = openTerminal(board.port);
      await terminal.until(() => terminal.err().includes("Ctrl-] leaves"));
      terminal.stopped.abort(143);
      expect(await terminal.exit).toBe(143);
      expect(terminal.stdin.rawModes).toEqual([true, false]);
    } finally {
      await board.stop();
    }
  });

  it("does not touch the terminal where the port cannot be opened", async () => {
    const terminal = openTerminal("tcp://127.0.0.1:1");
    expect(await terminal.exit).toBe(1);
    expect(terminal.stdin.rawModes).toEqual([]);
    expect(terminal.err()).toMatch(/nobody listens there/);
  });
});

it("what was typed at a board that prints all the time is told, and what stops it", async () => {
  const storage = createStorage();
  storage.api.write(".bootcde", 'setInterval(function(){print("tick")},20)');
  const board = await simOnPort({ storage }).start();
  try {
    const { code, out, err } = await run(["console", "--port", board.port, "--send", "1+1", "--timeout", "1"]);
    expect(out).toContain("=2");
    expect(code).toBe(1);
    expect(err).toBe(
      "the prompt did not come back within 1 s: the text was typed, and the board goes on printing. " +
        `Ctrl-C in espruino-agent console --port ${board.port} stops it, or else reset() there\n`,
    );
  } finally {
    await board.stop();
  }
});
