/** The estimate against what the interpreter measured; the tolerance is what an estimate is allowed. */
import { describe, expect, it } from "vitest";
import { createBoard } from "../../host-sim/board";
import { createManualClock } from "../../host-sim/clock";

const makeBoard = () => createBoard({ clock: createManualClock() });
const sizeOf = (code: string): number => makeBoard().evaluate(`E.getSizeOf(${code})`) as number;

describe("E.getSizeOf", () => {
  it.each([
    ["{}", 1],
    ["{a:1,b:2,c:3,d:4}", 5],
    ["{a:'x',b:'x',c:'x',d:'x'}", 9],
    ["'x'.repeat(1000)", 101],
    ["new Uint8Array(1024)", 77],
    ["[1,2,3,4,5,6,7,8,9,10]", 11],
    ["Promise.resolve(1)", 11],
    ["new Uint8Array(4)", 3],
    ["{a:true,b:null}", 5],
    ["{a:8191,b:8192}", 4],
    ["[true,null,undefined,1,'a',1.5]", 10],
    ["{abcdefghijklmno:1}", 4],
    ["function(a,b){return a+b}", 5],
    ["function(abc,abcd){}", 4],
    ["function name(){print(1)}", 5],
    ["()=>this.x", 4],
    ["function(){return 'x'.repeat(100)+'y'+1+2+3+4}", 5],
    ["function(a){return a}.bind(5)", 5],
    ["{get a(){return 1},set a(v){}}", 10],
    ["class{constructor(a){this.a=a} get q(){return 1} m(){return 2}}", 19],
    ["(function(){var a=1,longer='text';return function(){return a}})()", 9],
    ["(function(param,p){return function(){return param}})(1,'abc')", 9],
    ["/abc/g", 17],
    ["new Error('x')", 24],
  ])("%s is about %i variables", (code, measured) => {
    expect(Math.abs(sizeOf(code) - measured)).toBeLessThanOrEqual(Math.max(1, measured * 0.05));
  });
});

describe("process.memory", () => {
  const usage = (board: ReturnType<typeof makeBoard>) => board.evaluate("process.memory().usage") as number;

  it("starts at what an empty interpreter uses", () => {
    const start = usage(makeBoard());
    expect(start).toBeGreaterThanOrEqual(45);
    expect(start).toBeLessThanOrEqual(60);
  });

  it("sees what closures keep", () => {
    const board = makeBoard();
    const before = usage(board);
    board.evaluate("var f=(function(){var buffer=new Uint8Array(4096);return function(){return buffer}})()");
    const used = usage(board) - before;
    expect(used).toBeGreaterThan(300);
    expect(used).toBeLessThan(330);
    board.evaluate("f=undefined");
    expect(usage(board) - before).toBeLessThanOrEqual(3);
  });

  it("charges live functions and leaves their bodies in flash", () => {
    const body = `function(){return "${"x".repeat(500)}"}`;
    const board = makeBoard();
    board.storage.api.write("m", `exports.f=${body};exports.g=${body}`);
    const before = usage(board);
    board.evaluate("require('m')");
    expect(usage(board) - before).toBeLessThan(25);
    const typed = makeBoard();
    const start = usage(typed);
    typed.evaluate(`var f=${body}`);
    expect(Math.abs(usage(typed) - start - 42)).toBeLessThanOrEqual(2);
  });

  it("counts what was read from flash, and functions that were made of it, as places there", () => {
    const board = makeBoard();
    board.storage.api.write("m", `return "${"x".repeat(3000)}"`);
    const before = usage(board);
    board.evaluate('var all=require("Storage").read("m"),part=all.substr(100,2000),f=Function("a",all)');
    expect(usage(board) - before).toBeLessThanOrEqual(12);
    expect(board.evaluate("f().length")).toBe(3000);
  });

  it("counts timers, listeners and constants", () => {
    const board = makeBoard();
    const before = usage(board);
    board.evaluate("const big='x'.repeat(300)");
    const withConstant = usage(board);
    expect(withConstant - before).toBeGreaterThan(28);
    board.evaluate("setTimeout(function(){},1000,'y'.repeat(300))");
    expect(usage(board) - withConstant).toBeGreaterThan(30);
  });

  it("comes back after the same thing was done again and again", () => {
    const board = makeBoard();
    board.evaluate("function once(){var o={list:[1,2,3],text:'x'.repeat(100)};return o.list.map(x=>x+1).length}once()");
    const before = usage(board);
    board.evaluate("for(var i=0;i<50;i++)once()");
    expect(usage(board) - before).toBeLessThanOrEqual(2);
  });
});
