import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createBoard } from "../../host-sim/board";
import { createManualClock } from "../../host-sim/clock";
import { createSdCard } from "../../host-sim/sd";
import { handshakeError, isRefused } from "../../host-sim/sockets";

let card: string;
beforeEach(() => {
  card = mkdtempSync(path.join(tmpdir(), "card-"));
});
afterEach(() => rmSync(card, { recursive: true, force: true }));

const start = () => {
  const clock = createManualClock();
  const board = createBoard({ clock, sd: createSdCard(card) });
  let shown = "";
  board.console.onData((bytes) => {
    shown += bytes;
  });
  board.boot();
  shown = "";
  return { board, clock, shown: () => shown };
};

describe("pipes", () => {
  it("copy a file of the SD card", () => {
    writeFileSync(path.join(card, "from.txt"), "0123456789".repeat(30));
    const { board } = start();
    board.evaluate(
      'var done;E.openFile("from.txt","r").pipe(E.openFile("to.txt","w"),{chunkSize:7,complete:function(p){done=p.chunkSize}})',
    );
    expect(board.evaluate("done")).toBe(7);
    expect(readFileSync(path.join(card, "to.txt"), "latin1")).toBe("0123456789".repeat(30));
    board.stop();
  });

  it("end where what is written throws, and say so", () => {
    const { board, shown } = start();
    board.evaluate('E.pipe("abc",{write:function(){throw new Error("full")}})');
    expect(shown()).toContain("Uncaught Error: full");
    expect(board.evaluate("1+1")).toBe(2);
    board.stop();
  });
});

describe("bytes that a program injects into the console", () => {
  it("are typed when it is over", () => {
    const { board, shown } = start();
    board.evaluate('Serial1.inject("print(6*7)\\n");print("first")');
    expect(shown()).toMatch(/first[^]*42/);
    board.stop();
  });

  it("may be a file for the SD card, as a packet", () => {
    const { board, clock } = start();
    const about = "{fn:'a.txt',fs:true,s:5}";
    const length = (text: string): string => `String.fromCharCode(${text.length})`;
    board.evaluate(`Serial1.inject("\\x10\\x01\\x60"+${length(about)}+"${about}\\x10\\x01\\x80"+${length("12345")}+"12345")`);
    clock.advance(10);
    expect(readFileSync(path.join(card, "a.txt"), "latin1")).toBe("12345");
    board.stop();
  });
});

describe("connections that cannot be", () => {
  it("are refused at once where nobody listens on this computer", async () => {
    const server = net.createServer();
    const port = await new Promise<number>((resolve) => {
      server.listen(0, "127.0.0.1", () => resolve((server.address() as net.AddressInfo).port));
    });
    expect(isRefused("127.0.0.1", port)).toBe(false);
    expect(isRefused("192.0.2.1", port)).toBe(false);
    await new Promise((resolve) => server.close(resolve));
    if (process.platform === "linux") expect(isRefused("localhost", 1)).toBe(true);
  });

  it("leave an exception where the other end does not speak TLS", () => {
    const error = (code: string, message: string) => Object.assign(new Error(message), { code });
    const handshake = "mbedtls_ssl_handshake returned ";
    expect(handshakeError(error("EPROTO", "wrong version number"))?.message).toBe(`${handshake}-0x7200`);
    expect(handshakeError(error("ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION", "tlsv1 alert"))?.message).toBe(
      `${handshake}-0x7780`,
    );
    expect(
      handshakeError(error("ECONNRESET", "Client network socket disconnected before secure TLS connection was established"))
        ?.message,
    ).toBe(`${handshake}-0x1`);
    expect(handshakeError(error("ECONNREFUSED", "connect"))).toBeUndefined();
  });
});
