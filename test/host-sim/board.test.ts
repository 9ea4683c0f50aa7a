import http from "node:http";
import net, { type AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { type Board, type BoardOptions, createBoard } from "../../host-sim/board";
import { createManualClock, realClock } from "../../host-sim/clock";

const boards: Board[] = [];
const makeBoard = (options: BoardOptions = {}) => {
  const clock = createManualClock();
  const board = createBoard({ clock, ...options });
  boards.push(board);
  let output = "";
  board.console.onData((bytes) => {
    output += bytes;
  });
  return {
    board,
    clock,
    take(): string {
      const text = output
        .replace(/\r\n/g, "\n")
        .replace(/[^\n]*\r\x1b\[J/g, "")
        .replace(/>$/, "");
      output = "";
      return text;
    },
  };
};

afterEach(() => {
  for (const board of boards.splice(0)) board.stop();
});

describe("power-up", () => {
  it("runs .bootcde, which loads a module of Storage once", () => {
    const { board, take } = makeBoard();
    board.storage.api.write(".bootcde", 'require("agent");print(require("agent")===require("agent"))');
    board.storage.api.write("agent", 'print("loaded",typeof exports,typeof module);exports.a=5');
    board.boot();
    expect(take()).toContain("loaded object object\ntrue\n");
    expect(board.evaluate('require("agent").a')).toBe(5);
  });

  it("prints an error in .bootcde and still prompts", () => {
    const { board, take } = makeBoard();
    board.storage.api.write(".bootcde", "nofn()");
    board.boot();
    expect(take()).toContain('Uncaught ReferenceError: "nofn" is not defined');
    board.console.write("1+1\n");
    expect(take()).toContain("=2\n");
  });

  it("keeps files over a restart of the interpreter, and nothing else", () => {
    const { board, take } = makeBoard();
    board.storage.api.write(".bootcde", "print('booted')");
    board.boot();
    board.evaluate("var x=1;setInterval(function(){},10)");
    board.console.write("reset()\n");
    expect(take()).toContain("espruino.com");
    expect(() => board.evaluate("x")).toThrow('"x" is not defined');
    board.console.write("load()\n");
    expect(take()).toContain("booted\n");
  });
});

describe("evaluate", () => {
  it("throws the interpreter's text", () => {
    const { board } = makeBoard();
    expect(() => board.evaluate("null.x")).toThrow("Uncaught Error: Can't read property 'x' of null");
    expect(() => board.evaluate("throw 'text'")).toThrow("Uncaught text");
  });

  it("never lets an error of the program out of a callback", () => {
    const { board, clock, take } = makeBoard();
    board.evaluate(
      "setTimeout(function(){throw new Error('t')},1);Promise.reject(1);E.on('x',function(){zz()});E.emit('x')",
    );
    expect(() => clock.advance(5)).not.toThrow();
    const text = take();
    expect(text).toContain("Uncaught Error: t");
    expect(text).toContain("Unhandled promise rejection: 1");
    expect(text).toContain('"zz" is not defined');
  });
});

describe("timers", () => {
  it("fires no sooner than after 0.1 ms, with its arguments", () => {
    const { board, clock, take } = makeBoard();
    board.evaluate("setTimeout(print,0,'a');setTimeout('print(\"text\")')");
    clock.advance(0.05);
    expect(take()).toBe("");
    clock.advance(0.5);
    expect(take()).toBe("a\ntext\n");
  });

  it("repeats, changes and clears intervals", () => {
    const { board, clock } = makeBoard();
    board.evaluate("var n=0,i=setInterval(function(){n++},10)");
    clock.advance(35);
    expect(board.evaluate("n")).toBe(3);
    board.evaluate("changeInterval(i,100)");
    clock.advance(100);
    expect(board.evaluate("n")).toBe(4);
    board.evaluate("clearInterval(i)");
    clock.advance(1000);
    expect(board.evaluate("n")).toBe(4);
    expect(clock.pending()).toBe(0);
    expect(() => board.evaluate("clearTimeout(undefined)")).toThrow("clearTimeout(undefined) not allowed");
  });

  it("has the time of its clock", () => {
    const { board, clock } = makeBoard({ timeAtBootMs: Date.UTC(2026, 0, 2, 3, 4, 5) });
    expect(board.evaluate("new Date().toISOString()")).toBe("2026-01-02T03:04:05.000Z");
    expect(board.evaluate("new Date().getHours()")).toBe(3);
    clock.advance(1500);
    expect(board.evaluate("new Date().toString()")).toBe("Fri Jan 2 2026 03:04:06 GMT+0000");
    expect(board.evaluate("getTime()-Date.now()/1000")).toBeCloseTo(0, 2);
  });
});

describe("pins", () => {
  it("drives pins by object, number and name", () => {
    const { board } = makeBoard();
    board.evaluate(
      "digitalWrite(D2,1);digitalWrite(4,1);digitalWrite('D5',1);D18.write(1);digitalWrite([D19,D21],0b01)",
    );
    const { pins } = board.state();
    expect(
      Object.entries(pins)
        .filter(([, pin]) => pin.value === 1 && pin.mode === "output")
        .map(([name]) => name),
    ).toEqual(["D2", "D4", "D5", "D18", "D21"]);
    expect(() => board.evaluate("digitalWrite(77,1)")).toThrow("Invalid pin");
  });

  it("reads what the outside applies and calls watches", async () => {
    const { board, take } = makeBoard();
    board.evaluate(
      "pinMode(D4,'input');setWatch(function(e){print(e.state,e.pin,typeof e.time)},D4,{repeat:true,edge:'both'})",
    );
    board.pins.setInput(4, 0);
    await Promise.resolve();
    expect(take()).toContain("false D4 number");
    expect(board.evaluate("digitalRead(D4)")).toBe(0);
    board.pins.setAnalog(34, 0.5);
    expect(board.evaluate("analogRead(D34)")).toBeCloseTo(0.5, 2);
  });

  it("prints pins by name and counts them as numbers", () => {
    const { board } = makeBoard();
    expect(board.evaluate("''+D2+typeof D2+(D2+1)+JSON.stringify([D2])")).toBe('D2number3["D2"]');
  });
});

describe("modules", () => {
  it("gives board code the board's flash", () => {
    const { board } = makeBoard();
    board.evaluate("var s=require('Storage');s.write('a.json',{x:1.5,y:[1/3]});s.write('b.txt','\xc3\xa9')");
    expect(board.storage.api.read("a.json")).toBe('{"x":1.5,"y":[0.33333333333]}');
    expect(board.evaluate("s.readJSON('a.json').x+s.read('b.txt').length")).toBe(3.5);
    expect(board.evaluate("s.list(/json$/).join()+s.list().length")).toBe("a.json2");
    expect(board.evaluate("s.read('nofile')")).toBeUndefined();
    expect(board.state().files).toMatchObject({ "b.txt": 2 });
  });

  it("turns errors of devices into errors of the program", () => {
    const { board } = makeBoard();
    expect(board.evaluate("var r;try{require('Storage').write('x',undefined)}catch(e){r=e.type}typeof r")).toBe(
      "string",
    );
  });

  it("names what it does not have", () => {
    const { board } = makeBoard();
    for (const code of [
      "SPI1.send(1)",
      "NRF.setAdvertising({})",
      "Graphics.createArrayBuffer(1,1,1).wrapString('x',1)",
      "E.setClock(1)",
    ])
      expect(() => board.evaluate(code), code).toThrow("is not modelled by the simulated board");
    expect(() => board.evaluate("require('nope')")).toThrow('Module "nope" not found');
  });

  it("exports what a module assigns to exports or module.exports", () => {
    const { board } = makeBoard();
    board.storage.api.write("a", "exports = 5");
    board.storage.api.write("b", "module.exports = 6 // last line");
    board.storage.api.write("c", "var hidden = 1; this.c = hidden + 6");
    expect(board.evaluate("require('a')+','+require('b')+','+require('c').c+typeof hidden")).toBe("5,6,7undefined");
  });

  it("takes URLs apart", () => {
    const { board } = makeBoard();
    expect(board.evaluate("JSON.stringify(url.parse('http://1.2.3.4:8080/v1/chat?a=b&c=d%20e',true))")).toBe(
      '{"protocol":"http:","method":"GET","host":"1.2.3.4","path":"/v1/chat?a=b&c=d%20e","pathname":"/v1/chat",' +
        '"search":"?a=b&c=d%20e","port":8080,"query":{"a":"b","c":"d e"}}',
    );
    expect(board.evaluate("var u=url.parse('host:80/x');u.host+u.port+('protocol' in u)")).toBe("host:80nullfalse");
  });

  it("reads modules anew after Modules.removeCached", () => {
    const { board } = makeBoard();
    board.storage.api.write("m", "exports.v=1");
    expect(board.evaluate("require('m').v")).toBe(1);
    board.storage.api.write("m", "exports.v=2");
    expect(board.evaluate("require('m').v+','+(Modules.removeCached('m'),require('m').v)")).toBe("1,2");
    expect(() => board.evaluate("Modules.removeCached('none')")).toThrow('Module "none" not found');
    board.evaluate("Modules.removeAllCached()");
    expect(board.evaluate("Modules.getCached().length")).toBe(0);
  });
});

describe("events", () => {
  it("tells the host what board code emits", () => {
    const { board } = makeBoard();
    const seen: unknown[] = [];
    board.onEvent("agent", (value: { type: string }) => seen.push(value.type));
    board.evaluate("E.emit('agent',{type:'final'});E.emit('other',1)");
    expect(seen).toEqual(["final"]);
  });
});

describe("E and process", () => {
  it("converts between text and bytes", () => {
    const { board } = makeBoard();
    expect(board.evaluate("E.toString(new Uint8Array([104,105]))+E.toString([33],'x',65)")).toBe("hi!xA");
    expect(board.evaluate("E.toUint8Array('ab',99).join()+E.toArrayBuffer('abc').byteLength")).toBe("97,98,993");
    expect(board.evaluate("E.CRC32('hello')")).toBe(0x3610a686);
    expect(
      board.evaluate("var a=new Uint8Array([0,1,2,3]);E.toString(new Uint8Array(a.buffer,1,2)).charCodeAt(1)"),
    ).toBe(2);
  });

  it("reports itself as an ESP32", () => {
    const { board } = makeBoard({ variables: 2500 });
    expect(board.evaluate("process.env.BOARD+process.env.CONSOLE+process.memory().total")).toBe("ESP32Serial12500");
  });
});

describe("http", () => {
  it("talks to a server as the board does", async () => {
    const server = http.createServer((request, response) => {
      let length = 0;
      request.on("data", (piece) => {
        length += piece.length;
      });
      request.on("end", () => {
        response.writeHead(200, { "Content-Type": "text/plain" });
        response.write(`${length};`);
        response.end("x".repeat(1000));
      });
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    const { board, take } = makeBoard({ clock: realClock() });
    const ended = new Promise<void>((done) => board.onEvent("done", () => done()));
    board.evaluate(`var sizes=[],q=require("http").request({host:"127.0.0.1",port:${(server.address() as AddressInfo).port},path:"/",method:"POST",
      headers:{"Content-Length":3}},function(r){print(typeof r.statusCode,r.headers["Content-Type"]);
      r.on("data",function(d){sizes.push(d.length)});r.on("close",function(){E.emit("done");nofn()})});q.end("abc")`);
    await ended;
    await new Promise((done) => setImmediate(done));
    server.close();
    expect(board.evaluate("sizes.reduce((a,b)=>a+b)")).toBe(1002);
    expect(board.evaluate("Math.max.apply(null,sizes)<=536")).toBe(true);
    const text = take();
    expect(text).toContain("string text/plain");
    expect(text).toContain('Uncaught ReferenceError: "nofn" is not defined');
  });
});

describe("chunks of one read", () => {
  it("leave a deep handler less and less of the stack", async () => {
    const server = net.createServer((socket) =>
      socket.once("data", () =>
        socket.end(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${"1\r\nx\r\n".repeat(60)}0\r\n\r\n`),
      ),
    );
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    const { board, take } = makeBoard({ clock: realClock() });
    board.evaluate("var count=0;function f(n){return n?1+f(n-1):0}");
    const ask = (depth: number) => {
      const ended = new Promise<void>((done) => {
        board.onEvent("done", () => done());
      });
      board.evaluate(`count=0;require("http").get("http://127.0.0.1:${(server.address() as AddressInfo).port}/",
        function(r){r.on("data",function(){count++;f(${depth})});r.on("close",function(){E.emit("done")})})`);
      return ended;
    };
    await ask(10);
    expect(board.evaluate("count")).toBe(60);
    expect(take()).not.toContain("Too much recursion");
    await ask(20);
    server.close();
    // The interpreter came as far as the 42nd.
    expect(board.evaluate("count")).toBeGreaterThan(30);
    expect(board.evaluate("count")).toBeLessThan(50);
    expect(take()).toMatch(/^ERROR: Error processing .* handler - removing it\.\n.*event processing\.\nUncaught Error: Too much recursion/m);
  });
});

describe("limits", () => {
  it("ends a program whose text outgrows the board, and no catch stops that", () => {
    const { board, take } = makeBoard({ variables: 2500 });
    board.evaluate("setTimeout(function(){var s='x';try{while(true)s+=s}catch(e){print('caught')}},1)");
    (board.clock as ReturnType<typeof createManualClock>).advance(5);
    const text = take();
    expect(text).toContain("Execution Interrupted during event processing.\nNew interpreter error: LOW_MEMORY,MEMORY\n");
    expect(text).not.toContain("caught");
    board.console.write("1+1\n");
    expect(take()).toContain("=2\n");
  });

  it("has the stack of an ESP32 and says how much of it was used", () => {
    const { board } = makeBoard();
    board.evaluate("function f(n){if(n)f(n-1)} f(10)");
    expect(board.stackPeak()).toBeGreaterThan(6000);
    expect(board.stackPeak()).toBeLessThan(12000);
    expect(() => board.evaluate("f(60)")).toThrow("Too much recursion");
  });
});

describe("host listeners", () => {
  it("may type from inside what they hear", () => {
    const { board, take } = makeBoard();
    board.boot();
    take();
    let answered = false;
    board.console.onData((bytes) => {
      if (!answered && bytes.includes("name?")) {
        answered = true;
        board.console.write("'Ada'\n");
      }
    });
    board.console.write("print('name?');print('after')\n");
    expect(take()).toContain("name?\nafter\n=undefined\n");
    expect(answered).toBe(true);
  });
});
