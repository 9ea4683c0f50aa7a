import { describe, expect, it } from "vitest";
import { createBoard } from "../../host-sim/board";
import { createManualClock } from "../../host-sim/clock";
import { createStorage, type Storage } from "../../host-sim/storage";

const connect = (storage: Storage = createStorage()) => {
  const clock = createManualClock();
  const board = createBoard({ clock, storage });
  let output = "";
  board.console.onData((bytes) => (output += bytes));
  board.boot();
  return {
    clock,
    board,
    storage,
    start: output,
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

describe("save", () => {
  it("brings everything back after a power cycle, with what refers to what", () => {
    const first = connect();
    first.type("\x10a={list:[1,,'\\xff\\n'],n:NaN,i:-Infinity,u:undefined};b=a;a.self=a\n");
    first.type("\x10a.bytes=new Uint8Array([1,2,3])\n");
    first.type("\x10a.view=new Uint8Array(a.bytes.buffer,1,2);d=new Date(5);p=print;s=require('Storage');pin=D4\n");
    first.type("\x10function f(x){return x+a.list[0]};f.prop=f;class K{constructor(){this.k=1} m(){return this.k}}\n");
    first.type("\x10k=new K();k.k=2;Object.defineProperty(global,'g',{get:function(){return 7}})\n");
    expect(first.type("save()\n")).toContain("Compressed 56000 bytes to");
    const { type, start } = connect(first.storage);
    expect(start).toMatch(/^Loading \d+ bytes from flash\.\.\.\r\n\r\n>$/);
    const shown = type("[b===a,a.self===a,a.n,a.i,'u' in a,a.list.length]\n");
    expect(shown).toContain("true, true, NaN, -Infinity, true, 3");
    expect(type("a.list[2]\n")).toContain('="\\xFF\\n"');
    expect(type("a.bytes[1]=9;a.view[0]\n")).toContain("=9\r\n");
    expect(type("[d.getTime(),p===print,s===require('Storage'),pin===D4,f(1),f.prop===f]\n")).toContain(
      "5, true, true, true, 2, true",
    );
    expect(type("[k.m(),k instanceof K,g]\n")).toContain("2, true, 7");
  });

  it("keeps listeners, timers, watches and what the pins do", async () => {
    const first = connect();
    first.type("\x10E.on('x',function(v){print('heard',v)});setInterval(function(v){print('tick',v)},1000,'a')\n");
    first.type("\x10setTimeout(function(){print('once')},5000);D5.write(1);pinMode(D4,'input_pullup')\n");
    first.type("\x10setWatch(function(e){print('edge',e.state)},D4,{edge:'falling',repeat:true})\n");
    first.clock.advance(4500);
    first.type("save()\n");
    const { type, clock, take, board } = connect(first.storage);
    expect(type("\x10E.emit('x',3)\n")).toContain("heard 3");
    clock.advance(600);
    expect(take()).toContain("once");
    clock.advance(400);
    expect(take()).toContain("tick a");
    board.pins.setInput(4, 1);
    board.pins.setInput(4, 0);
    await new Promise((resolve) => setImmediate(resolve));
    expect(take()).toContain("edge false");
    expect(board.state().pins.D5).toMatchObject({ mode: "output", value: 1 });
  });

  it("refuses what it cannot keep, by name, and keeps what was saved before", () => {
    const first = connect();
    first.type("\x10n=1\n");
    first.type("save()\n");
    first.type("\x10n=2;counter={f:(function(){var z=3;return function(){return z++}})()}\n");
    expect(first.type("save()\n")).toContain(
      "ERROR: the simulated board cannot save counter.f: it uses variables of the function it was made in. " +
        "Nothing was saved; what was saved before is still there.\r\n",
    );
    first.type("\x10delete counter;waits=Promise.resolve(1)\n");
    expect(first.type("save()\n")).toContain("cannot save waits: it is a promise");
    expect(connect(first.storage).type("n\n")).toContain("=1\r\n");
  });

  it("refuses while there is boot code", () => {
    const { type, storage } = connect();
    storage.api.write(".bootcde", "1");
    expect(type("save()\n")).toContain("Cannot save: .bootcde file already exists. Please remove it first.");
  });

  it("leaves an image alone that it cannot read", () => {
    const storage = createStorage();
    storage.api.write(".varimg", "not an image");
    const { start, type } = connect(storage);
    expect(start).toContain("Not loading saved code from different Espruino firmware.");
    expect(type("1\n")).toContain("=1");
  });
});

describe("dump", () => {
  it("prints the program as source text", () => {
    const { type } = connect();
    type("\x10q={a:1};function f(x){return q.a};f.p=1;class K{m(){}};k=new K();k.z=2;both=q;E.on('x',f)\n");
    type("\x10setInterval(f,5000);setWatch(f,D4,{edge:'rising',debounce:10});D5.write(1);const c=7\n");
    expect(type("\x10dump()\n").replace(/\r/g, "")).toBe(
      'var q = { "a": 1 };\nfunction f(x) {return q.a}\nf.p = 1;\nfunction K() {}\nK.prototype.m = function () {};\n' +
        "var k = Object.create(K.prototype);\nk.z = 2;\nvar both = q;\nvar c = 7;\nE.on(\"x\", f);\n" +
        "setInterval(f, 5000); // 1\nsetWatch(f, D4, { repeat:false, edge:'rising', debounce : 10 });\n" +
        "digitalWrite(D5, 1);\n>",
    );
  });
});

describe("restarts", () => {
  it("tell who listens for it", () => {
    const { type } = connect();
    type("\x10E.on('kill',function(){print('bye');zz()})\n");
    expect(type("reset()\n")).toMatch(/=undefined\r\nbye\r\nUncaught ReferenceError[^]*espruino\.com/);
    type("\x10E.on('kill',function(){print('bye')})\n");
    expect(type("E.reboot()\n")).toContain("bye\r\n");
  });

  it("load(file) resets and runs the file, with its name", () => {
    const { type, storage } = connect();
    storage.api.write("x.js", "print(__FILE__);c=5");
    expect(type("gone=1;load('x.js')\n")).toMatch(/espruino\.com[^]*Donate\r\n\r\nx\.js\r\n>$/);
    expect(type("c+typeof gone\n")).toContain('="5undefined"');
  });

  it("E.reboot() ends what runs at once", () => {
    const { type, clock, take } = connect();
    expect(type("try{E.reboot();print('after')}catch(e){print('caught')}\n")).toMatch(/\}\r\n\x1b\[\?7l\r\n ___[^]*>$/);
    type("\x10setTimeout(function(){E.reboot();print('after')},10)\n");
    clock.advance(20);
    expect(take()).not.toContain("after");
  });

  it("a program that restarts the board as it starts leaves the host alive, and can be got rid of", async () => {
    const storage = createStorage();
    storage.api.write(".bootcde", "n=(global.n||0)+1;E.reboot()");
    const { take } = connect(storage);
    await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
    expect(take()).not.toContain("Execution Interrupted");
    storage.api.erase(".bootcde");
    await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
    expect(take()).toContain("espruino.com");
  });

  it("reset() does not give the console back, a power cycle does", () => {
    const { type, clock, take, storage } = connect();
    type("E.setConsole(null,{force:true});setTimeout(reset,10)\n");
    take();
    clock.advance(20);
    expect(take()).toBe("");
    expect(type("1\n")).toBe("");
    expect(connect(storage).type("1\n")).toContain("=1");
  });

  it("load() keeps echo off, reset() turns it on", () => {
    const { type } = connect();
    type("\x10echo(0)\n");
    type("load()\n");
    expect(type("1\n")).toBe("");
    expect(type("reset()\n")).toContain("espruino.com");
    expect(type("1\n")).toContain("=1");
  });

  it("reset(true) removes saved code", () => {
    const { type, storage } = connect();
    storage.api.write(".bootcde", "1");
    storage.api.write("data", "1");
    expect(type("reset(true)\n")).toContain("Erasing saved code.\r\nDone!\r\n");
    expect(storage.api.list()).toEqual(["data"]);
  });
});
