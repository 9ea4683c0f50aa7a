import { describe, expect, it } from "vitest";
import { createBoard } from "../../host-sim/board";
import { createManualClock } from "../../host-sim/clock";
import { ACK, FILE_TIMEOUT_MS, NAK, packet, PACKET_TIMEOUT_MS, PacketType } from "../../host-sim/packets";

const { event, data, fileReceive, fileSend } = PacketType;
const evaluate = (code: string): string => packet(PacketType.eval, code);

const connect = () => {
  const clock = createManualClock();
  const board = createBoard({ clock });
  let output = "";
  board.console.onData((bytes) => (output += bytes));
  board.boot();
  return {
    clock,
    board,
    /** What comes back for these bytes. */
    type(bytes: string): string {
      output = "";
      board.console.write(bytes);
      return output;
    },
    take(): string {
      const text = output;
      output = "";
      return text;
    },
  };
};

describe("a packet", () => {
  it("has its type in the top 3 bits and its length in the others", () => {
    expect(evaluate("1+1")).toBe("\x10\x01\x20\x031+1");
    expect(packet(data, "x".repeat(0x1fff)).slice(0, 4)).toBe("\x10\x01\x9f\xff");
    expect(() => packet(data, "x".repeat(0x2000))).toThrow("8191");
  });

  it("is the same packet however it is cut", () => {
    for (let cut = 1; cut < evaluate("1+1").length; cut++) {
      const { type } = connect();
      expect(type(evaluate("1+1").slice(0, cut))).toBe("");
      expect(type(evaluate("1+1").slice(cut))).toBe(`${ACK}\x10\x01\x00\x012`);
    }
  });

  it("leaves the line alone that is being typed", () => {
    const { type } = connect();
    type("40+");
    type(evaluate("1"));
    expect(type("2\n")).toBe("2\r\n=42\r\n>");
  });

  it("may hold any byte", () => {
    const { type, board } = connect();
    const all = Array.from({ length: 256 }, (_, i) => String.fromCharCode(i)).join("");
    expect(type(packet(fileSend, "{fn:'all',s:256}"))).toBe(ACK);
    expect(type(packet(data, all))).toBe(ACK);
    expect(board.storage.api.read("all")).toBe(all);
    type("12\x03");
    expect(type("5\n")).toBe("5\r\n=5\r\n>");
  });

  it("that stays incomplete is given up after 5 s, and what follows is typed", () => {
    const { type, clock, take } = connect();
    type("\x10\x01\x20\x0512");
    clock.advance(PACKET_TIMEOUT_MS - 1);
    expect(take()).toBe("");
    clock.advance(1);
    expect(take()).toBe(NAK);
    expect(type("7\n")).toBe("7\r\n=7\r\n>");
  });

  it("is forgotten at a restart", () => {
    const { type, clock, take } = connect();
    type("\x10setTimeout(reset,10)\n");
    type("\x10\x01\x20\x0512");
    clock.advance(20);
    expect(take()).toContain("espruino.com");
    expect(type("7\n")).toBe("7\r\n=7\r\n>");
    take();
    clock.advance(PACKET_TIMEOUT_MS);
    expect(take()).toBe("");
  });

  it("of no known type is refused", () => {
    const { type } = connect();
    for (const kind of [0, 6, 7]) expect(type(packet(kind, "x"))).toBe(NAK);
  });
});

describe("EVAL", () => {
  it("gives the value of the first expression", () => {
    const { type } = connect();
    expect(type(evaluate("a=5;b=6"))).toBe(`${ACK}\x10\x01\x00\x015`);
    expect(type("b\n")).toContain('"b" is not defined');
  });

  it("refuses what throws, and the error is printed", () => {
    const { type } = connect();
    expect(type(evaluate("null.x"))).toMatch(/^\r\x1b\[J\x15Uncaught Error: .*\r\n[^]*>$/);
    expect(type(evaluate("(function(){throw 5})()"))).toBe(`${NAK}\r\x1b[JUncaught 5\r\n>`);
    expect(type(evaluate("1+"))).toContain(NAK);
  });

  it("does not count the CR that goes before every line feed of an answer", () => {
    const { type } = connect();
    type('\x10require("Storage").write("n","a\\nb")\n');
    expect(type(packet(fileReceive, "{fn:'n'}"))).toBe(`${ACK}\x10\x01\x80\x03a\r\nb\x10\x01\x80\x00`);
  });
});

describe("EVENT", () => {
  it("calls who listens, at once", () => {
    const { type } = connect();
    expect(type(packet(event, "{a:1}"))).toBe(NAK);
    type("\x10E.on('packet',function(d){got=d.a})\n");
    expect(type(packet(event, "{a:{b:[1,'x']}}"))).toBe(ACK);
    expect(type("got.b.join()\n")).toContain('="1,x"');
  });

  it("takes objects only", () => {
    const { type } = connect();
    type("\x10E.on('packet',function(d){})\n");
    for (const text of ["[1]", "5", "'x'"]) expect(type(packet(event, text))).toBe(NAK);
    for (const text of ["", "{a", "{a:b}", "{a}", "{[a]:1}", "{get a(){}}", "{a:1+1}"])
      expect(type(packet(event, text))).toContain(NAK);
  });
});

describe("files", () => {
  it("come in pieces, each acknowledged, and progress is told", () => {
    const { type, board } = connect();
    type("\x10E.on('packetUpload',function(d){seen=[d.fn,d.l,d.o,d.s].join()})\n");
    expect(type(packet(fileSend, "{fn:'t',s:11}"))).toBe(ACK);
    expect(type(packet(data, "hello"))).toBe(ACK);
    expect(type("seen\n")).toContain('="t,5,5,11"');
    expect(type(packet(data, " world"))).toBe(ACK);
    expect(board.storage.api.read("t")).toBe("hello world");
    expect(type(packet(data, "x"))).toBe(NAK);
  });

  it("are given up 10 s after their last packet", () => {
    const { type, clock } = connect();
    type(packet(fileSend, "{fn:'t',s:11}"));
    clock.advance(FILE_TIMEOUT_MS - 1);
    expect(type(packet(data, "hello"))).toBe(ACK);
    clock.advance(FILE_TIMEOUT_MS - 1);
    expect(type(packet(data, " wor"))).toBe(ACK);
    clock.advance(FILE_TIMEOUT_MS);
    expect(type(packet(data, "ld"))).toBe(NAK);
  });

  it("are given up where another begins", () => {
    const { type, board } = connect();
    type(packet(fileSend, "{fn:'a',s:10}"));
    type(packet(data, "hello"));
    type(packet(fileSend, "{fn:'b',s:5}"));
    type(packet(data, "there"));
    expect(board.storage.api.read("a")).toBe(`hello${"\xff".repeat(5)}`);
    expect(board.storage.api.read("b")).toBe("there");
  });

  it("need a name and a size", () => {
    const { type } = connect();
    for (const text of ["{fn:'t'}", "{s:5}", "{fn:5,s:5}", "{fn:'t',s:0}", "{fn:'t',s:'x'}", "[]", "x"])
      expect(type(packet(fileSend, text))).toContain(NAK);
    expect(type(packet(data, "hello"))).toBe(NAK);
  });

  it("do not fit: acknowledged all the same, as the interpreter does, and the error is printed", () => {
    const { type, board } = connect();
    type(packet(fileSend, "{fn:'t',s:5}"));
    expect(type(packet(data, "toolong"))).toBe(`\r\x1b[J${ACK}Uncaught Error: Too much data for file size\r\n>`);
    type(packet(fileSend, "{fn:'huge',s:99999999}"));
    expect(type(packet(data, "x"))).toContain("Unable to find or create file");
    expect(board.storage.api.read("huge")).toBeUndefined();
  });

  it("may be compressed, each packet on its own", () => {
    const { type, board } = connect();
    type(packet(fileSend, "{fn:'z',s:46,c:1}"));
    // heatshrink of the text below, window 8, lookahead 6
    const compressed = "\xb0\xd8\xac`#\xa9\x16[e\xb2\xde";
    expect(type(packet(data, compressed))).toBe(ACK);
    expect(type(packet(data, compressed))).toBe(ACK);
    expect(board.storage.api.read("z")).toBe("abcabcabcabcabcabcHello".repeat(2));
  });

  it("do not go to an SD card that is not there", () => {
    expect(connect().type(packet(fileSend, "{fn:'t',s:5,fs:1}"))).toContain(`${NAK}Uncaught Error: SD card`);
  });

  it("are fetched in pieces of 1024 bytes, and an empty one ends them", () => {
    const { type, board } = connect();
    board.storage.api.write("long", "x".repeat(2500));
    const piece = (length: number): string => packet(data, "x".repeat(length));
    expect(type(packet(fileReceive, "{fn:'long'}"))).toBe(ACK + piece(1024) + piece(1024) + piece(452) + piece(0));
    expect(type(packet(fileReceive, "{fn:'none'}"))).toBe(NAK);
    expect(type(packet(fileReceive, "{}"))).toBe(NAK);
  });
});
