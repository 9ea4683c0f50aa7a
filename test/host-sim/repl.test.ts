import { describe, expect, it } from "vitest";
import { createBoard } from "../../host-sim/board";
import { createManualClock } from "../../host-sim/clock";
import { openBrackets } from "../../host-sim/repl";

const connect = () => {
  const clock = createManualClock();
  const board = createBoard({ clock });
  let output = "";
  board.console.onData((bytes) => {
    output += bytes;
  });
  board.boot();
  output = "";
  return {
    clock,
    board,
    /** What the console shows for these bytes. */
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

describe("line editor", () => {
  it("shows banner and prompt at power-up", () => {
    const board = createBoard({ clock: createManualClock() });
    let output = "";
    board.console.onData((bytes) => {
      output += bytes;
    });
    board.boot();
    expect(output).toContain("espruino.com");
    expect(output.endsWith("http://espruino.com/Donate\r\n\r\n>")).toBe(true);
  });

  it("echoes, prints the value and prompts again", () => {
    expect(connect().type("1+1\n")).toBe("1+1\r\n=2\r\n>");
  });

  it("takes CR LF as one line end", () => {
    expect(connect().type("1+1\r\n")).toBe("1+1\r\n=2\r\n>");
  });

  it("goes on while brackets are open", () => {
    const { type } = connect();
    expect(type("function f(a){\n")).toBe("function f(a){\r\n:");
    expect(type("return a+1}\n")).toBe("return a+1}\r\n=function (a) { ... }\r\n>");
    expect(type("f(2)\n")).toBe("f(2)\r\n=3\r\n>");
  });

  it("erases with backspace and delete", () => {
    expect(connect().type("12\x7f\b3\n")).toBe("12\b \b\b \b3\r\n=3\r\n>");
  });

  it("clears the line on Ctrl-C", () => {
    const { type } = connect();
    expect(type("ab\x03")).toBe("ab\x1b[D\x1b[D\r\x1b[J>");
    expect(type("1\n")).toBe("1\r\n=1\r\n>");
  });

  it("clears on Ctrl-C what was typed before it, however the bytes are cut", () => {
    expect(connect().type("ab\x0340+2\n")).toContain("=42\r\n");
    const { type } = connect();
    for (const byte of "ab\x0340+") type(byte);
    expect(type("2\n")).toContain("=42\r\n");
  });

  it("takes CR and LF for two line ends where they come apart", () => {
    const { type } = connect();
    expect(type("1\r")).toBe("1\r\n=1\r\n>");
    expect(type("\n")).toBe("\r\n>");
  });

  it("leaves a continued line on Ctrl-C", () => {
    const { type } = connect();
    type("f(\n");
    type("\x03");
    expect(type("2\n")).toBe("2\r\n=2\r\n>");
  });

  it("answers the enquiry on an empty line", () => {
    expect(connect().type("\x05")).toBe("Espruino 2v29 ESP32\r\n");
  });

  it("does not echo a line that begins with DLE, nor print its value", () => {
    const { type } = connect();
    expect(type("\x10print(1);5\n")).toBe("1\r\n>");
    expect(type("3\n")).toBe("3\r\n=3\r\n>");
  });

  it("brings back earlier lines", () => {
    const { type } = connect();
    type("1+1\n");
    type("2+2\n");
    expect(type("\x1b[A\x1b[A\n")).toContain("1+1\r\n=2\r\n>");
  });

  it("edits inside the line", () => {
    const { type } = connect();
    type("13\x1b[D2");
    type("\x1b[C");
    expect(type("\n")).toContain("=123\r\n>");
  });

  it("puts the line away for what is printed meanwhile, and shows it again", () => {
    const { type, clock, take } = connect();
    type("\x10setTimeout(function(){print('tick')},5)\n");
    type("xy");
    clock.advance(10);
    expect(take()).toBe("xy\x1b[D\x1b[D\r\x1b[Jtick\r\n>xy");
  });
});

describe("openBrackets", () => {
  it.each([
    ["f(", 1],
    ["f({[", 3],
    ["')'", 0],
    ['"(', 0],
    ["`(", 1000],
    ["/* (", 1000],
    ["// (", 0],
    ["a)", -1],
    ["/[(]/.test(x)", 0],
    ["a/(b", 1],
    ['"\\""+(', 1],
  ])("%s: %i", (line, depth) => {
    expect(openBrackets(line)).toBe(depth);
  });
});

describe("values", () => {
  it.each([
    ["({b:1,c:'x',d:[1,2,{e:1}]})", '{ b: 1, \r\n  c: "x", \r\n  d: [ 1, 2, \r\n    { e: 1 }\r\n   ]\r\n }'],
    ["[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", "[ 1, 2, 3, 4, 5,  ... 12, 13, 14, 15, 16 ]"],
    ["'x'.repeat(70)", `"${"x".repeat(27)}" ... "${"x".repeat(27)}"`],
    ["new Uint8Array(5)", "new Uint8Array(5)"],
    ["new Uint8Array([1,2])", "new Uint8Array([1, 2])"],
    ["new Error('x')", "Error: Error: x"],
    ["Promise.resolve(1)", "Promise: { state: 0 }"],
    ["function f(a){}", "function (a) {}"],
    ["print", "function () { [native code] }"],
    ["D2", "D2"],
    ["Serial1", "Serial1"],
    ["({})", "{  }"],
    ["undefined", "undefined"],
  ])("%s", (code, wanted) => {
    expect(connect().type(`${code}\n`)).toBe(`${code}\r\n=${wanted}\r\n>`);
  });

  it("prints objects with print as the board does", () => {
    expect(connect().type("\x10print({a:1.5,b:[1,'x']},'s',null,1/3)\n")).toBe(
      '{ "a": 1.5, \r\n  "b": [ 1, \r\n    "x"\r\n   ]\r\n } s null 0.33333333333\r\n>',
    );
  });
});

describe("errors", () => {
  it("prints Uncaught, the source and a caret", () => {
    expect(connect().type("null.x\n")).toBe(
      "null.x\r\nUncaught Error: Can't read property 'x' of null\r\n    at REPL (:1:5)\r\nnull.x\r\n    ^\r\n>",
    );
  });

  it("prints thrown values", () => {
    expect(connect().type("throw 5\n")).toBe("throw 5\r\nUncaught 5\r\n>");
  });

  it("prints errors of timers between prompts", () => {
    const { type, clock, take } = connect();
    type("\x10setTimeout(function(){zz()},5)\n");
    clock.advance(10);
    expect(take()).toBe('\r\x1b[JUncaught ReferenceError: "zz" is not defined\r\n    at :1:1\r\nzz()\r\n^\r\n>');
  });

  it("hands uncaught errors to the program when it asked for them", () => {
    const { type, clock, take } = connect();
    type("\x10process.on('uncaughtException',function(e){print('mine',e.message)})\n");
    type("\x10setTimeout(function(){throw new Error('q')},5)\n");
    take();
    clock.advance(10);
    expect(take()).toBe("\r\x1b[Jmine q\r\n>");
  });
});

describe("console device", () => {
  const chat = "E.setConsole(null,{force:true});Serial1.on('data',function(d){Serial1.write(JSON.stringify(d))})\n";

  it("hands what is typed to Serial1 in pieces while there is no console", () => {
    const { type } = connect();
    expect(type(chat)).toBe(`${chat.trimEnd()}\r\n-> null\r\n`);
    expect(type("hello\n")).toBe('"h""ello\\n"');
    expect(type("x")).toBe('"x"');
    expect(type("\x03\x04")).toBe('"\\u0003""\\u0004"');
  });

  it("prints nothing and shows no errors until the console is back", () => {
    const { type, clock, take } = connect();
    type("\x10setTimeout(function(){print('lost');Serial1.write('raw\\n')},5);setTimeout(function(){zz()},6)\n");
    type(
      "\x10setTimeout(function(){E.setConsole(Serial1,{force:true});print('back')},9);E.setConsole(null,{force:true})\n",
    );
    take();
    clock.advance(20);
    expect(take()).toBe("raw\n<- null\r\nback\r\n>");
    expect(type("E.getConsole()\n")).toBe('E.getConsole()\r\n="Serial1"\r\n>');
  });

  it("gives the rest of a line typed at once to the program", () => {
    const { type } = connect();
    expect(type(`${chat}hi`)).toContain('-> null\r\n"h""i"');
  });
});

describe("bare words", () => {
  it("runs a getter, and what it returned where it is called", () => {
    const { type } = connect();
    type("\x10Object.defineProperty(global,'init',{get:function(){print('run');return function(){return 6}}})\n");
    expect(type("init\n")).toBe("init\r\nrun\r\n=function () { ... }\r\n>");
    expect(type("init()\n")).toBe("init()\r\nrun\r\n=6\r\n>");
  });
});

describe("uploads", () => {
  it("writes a file line by line as the command line tool does", () => {
    const { type, board } = connect();
    expect(type("\n").endsWith(">")).toBe(true);
    expect(type('\x10print("<","<<",JSON.stringify(process.env.BOARD),">>",">")\n')).toContain('< << "ESP32" >> >\r\n');
    type('\x10require("Storage").write("app","print(",0,9)\n');
    type('\x10require("Storage").write("app","42)",6)\n');
    expect(board.storage.api.read("app")).toBe("print(42)");
  });
});

describe("printing an object of a class", () => {
  const GETTERS =
    'Object.defineProperty(global,"aaa",{get:function(){print("aaa runs")}});class K{}\n' +
    'Object.defineProperty(global,"bbb",{get:function(){print("bbb runs");return function(){}}});0\n';

  it("evaluates every global up to the class", () => {
    const { type } = connect();
    type(GETTERS);
    expect(type("\x10print(new K())\n")).toContain("aaa runs\r\nK: {  }");
    expect(type("new K()\n")).toContain("=aaa runs\r\nK: {  }");
    expect(type("1\n[1]\n({a:1})\n")).not.toContain("runs");
  });

  it("evaluates all of them for a class that is built in or has no name", () => {
    const { type } = connect();
    type(GETTERS);
    expect(type("new Date(0)\n")).toContain("=aaa runs\r\nbbb runs\r\nDate: Thu Jan 1 1970");
    expect(type("Promise.resolve(1)\n")).toContain("=aaa runs\r\nbbb runs\r\nPromise: { state: 0 }");
    expect(type("new (function(){class M{};return M}())()\n")).toContain("=aaa runs\r\nbbb runs\r\n{  }");
  });

  it("goes on where a getter throws, and reports it afterwards", () => {
    const { type } = connect();
    type('Object.defineProperty(global,"ccc",{get:function(){throw new Error("no")}});class K{}\n');
    expect(type("new K()\n")).toMatch(/=K: \{ {2}\}\r\nUncaught Error: no\r\n/);
  });

  it("gives the value before an empty statement", () => {
    const { type } = connect();
    expect(type("5;;\n")).toContain("=5\r\n");
    expect(type("function f(){};\n")).toContain("=function () {}");
  });
});

describe("Ctrl-C while board code runs", () => {
  it("ends a loop where it has come in behind the line", () => {
    const { type } = connect();
    expect(type("n=0;while(1)n++;\n40+\x032\n")).toMatch(/Execution Interrupted\r\n[^]*=42\r\n>$/);
    expect(type("n<1e6\n")).toContain("=true");
  });

  it("ends a loop where a wire has it, and does not clear the line when it is written", () => {
    const { board, type } = connect();
    let waiting = 0;
    const remove = board.console.addWire({ waitingBreaks: () => waiting });
    waiting = 1;
    expect(type("n=0;while(1)n++;\n")).toContain("Execution Interrupted\r\n");
    waiting = 0;
    type("40+");
    type("\x03");
    expect(type("2\n")).toContain("=42\r\n");
    type("40+");
    type("\x03");
    expect(type("2\n")).toContain("=2\r\n");
    remove();
  });

  it("removes an interval whose code it ends", () => {
    const { board, type, clock, take } = connect();
    let waiting = 0;
    board.console.addWire({ waitingBreaks: () => waiting });
    type("\x10n=0;setInterval(function(){n++;while(1);},10)\n");
    waiting = 1;
    clock.advance(10);
    expect(take()).toContain(
      "ERROR: Ctrl-C while processing interval - removing it.\r\nExecution Interrupted during event processing.\r\n" +
        "New interpreter error: CALLBACK\r\n",
    );
    clock.advance(100);
    expect(type("n\n")).toContain("=1\r\n");
  });

  it("is the program's own where the console is", () => {
    const { type } = connect();
    type("\x10function answer(d){for(i=0;i<5000;i++);Serial1.write(''+(d=='\\x03'))}\n");
    type("E.setConsole(null,{force:true});Serial1.on('data',answer)\n");
    expect(type("\x03")).toBe("true");
  });
});

describe("completion", () => {
  it("shows what a name could be, as far as it is clear", () => {
    const { type } = connect();
    type("\x10abc={foo:1,foobar:2,fool:3,n:null,get bad(){throw 5}}\n");
    expect(type("ab\t.f\t")).toBe("abc.f\r\n\r\nfoo                 foobar\r\nfool\r\n\r\n>abc.foo");
    expect(type("b\t\n")).toContain("=2\r\n");
    expect(type("abc.n.\t\x03")).toContain("toString");
    expect(type("abc.bad.x\t")).toContain("Uncaught 5");
    type("\x03");
    expect(type("nothing.like.this\t\n")).toContain("nothing.like.this\r\nUncaught");
  });
});

describe("history", () => {
  it("has each line once, the last one last, and no long ones", () => {
    const { type } = connect();
    type("1\n");
    type("2\n");
    type("1\n");
    type(`'${"x".repeat(600)}'\n`);
    expect(type("\x1b[A")).toBe("\x1b[J1");
    expect(type("\x1b[A")).toBe("\x1b[D\x1b[J2");
    expect(type("\x1b[A")).toBe("");
    expect(type("\x1b[B\x1b[B")).toBe("\x1b[D\x1b[J1\x1b[D\x1b[J");
  });
});

describe("a loop without end", () => {
  it("is broken and the console is usable again", () => {
    const { type } = connect();
    expect(type("while(1);\n1+1\n")).toMatch(/Execution Interrupted\r\n[^]*=2\r\n>$/);
  });
});
