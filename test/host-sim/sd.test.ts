import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createBoard, type Board } from "../../host-sim/board";
import { createManualClock } from "../../host-sim/clock";
import { createSdCard, type SdCard } from "../../host-sim/sd";

let dir: string;
let card: SdCard;
let board: Board;
let printed: string;
const at = (name: string): string => path.join(dir, "card", name);

function start(options: { hasCard?: boolean; variables?: number } = {}): void {
  board = createBoard({
    clock: createManualClock(),
    variables: options.variables,
    sd: options.hasCard === false ? undefined : card,
  });
  printed = "";
  board.console.onData((text) => (printed += text));
  board.boot();
  board.evaluate('fs=require("fs")');
}

beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), "card-"));
  mkdirSync(at("dir"), { recursive: true });
  writeFileSync(at("hello.txt"), "hello world");
  writeFileSync(at("empty.txt"), "");
  writeFileSync(at("dir/a.txt"), "abc");
  card = createSdCard(path.join(dir, "card"));
  start();
});
afterEach(() => {
  board.stop();
  rmSync(dir, { recursive: true });
});

/** The value of an expression as text, or what it throws. */
function type(line: string): string {
  try {
    return String(board.evaluate(`var r=${line};(r===undefined)?"undefined":JSON.stringify(r)`));
  } catch (error) {
    return (error as Error).message.replace("Uncaught ", "");
  }
}

describe("as the interpreter's Linux build has it", () => {
  const file = 'var f=E.openFile("hello.txt","r");';
  it.each([
    ['fs.readdirSync("dir").filter(function(n){return n[0]!="."})', '["a.txt"]'],
    ['fs.statSync("hello.txt").size', "11"],
    ['fs.statSync("hello.txt").dir', "false"],
    ['fs.statSync("hello.txt").mtime instanceof Date', "true"],
    ['fs.statSync("dir").dir', "true"],
    ['fs.statSync("nope")', "undefined"],
    ['fs.statSync("")', "undefined"],
    ["E.openFile()", "Error: Path is undefined"],
    ['E.openFile("hello.txt","q")', "undefined"],
    [`eval('${file}f.read(5)+"|"+f.read(100)+"|"+f.read(5)')`, '"hello| world|undefined"'],
    [`eval('${file}f.seek(6);f.read(3)')`, '"wor"'],
    [`eval('${file}f.seek(1000);f.read(3)')`, "undefined"],
    [`eval('${file}f.skip(2);f.skip(2);f.read(3)')`, '"o w"'],
    [`eval('${file}[f.read(0),f.read(),f.write("x")].join()')`, '",,0"'],
    [`eval('${file}f.close();[f.read(3),f.close(),f.write("x")].join()')`, '",,0"'],
    ['fs.readFileSync("hello.txt")', '"hello world"'],
    ['fs.readFileSync("empty.txt")', "undefined"],
    ['fs.readFile===fs.readFileSync', "true"],
    ['E.openFile("empty.txt").read(5)', "undefined"],
    ["typeof File", '"function"'],
    [`eval('${file}f instanceof File&&f.constructor===File')`, "true"],
    ["E.unmountSD()", "undefined"],
    [`eval('${file}E.unmountSD();f.read(2)')`, "undefined"],
    ["fs.getFree", "undefined"],
    ["Object.keys(fs)", "[]"],
    ['E.openFile(new Array(300).join("x"))', "Error: File path too long"],
    ['fs.statSync(new Array(300).join("x"))', "Error: File path too long"],
  ])("%s gives %s", (line, value) => {
    expect(type(line)).toBe(value);
  });

  it("writes bytes, lists and buffers, and says how many", () => {
    type('(g=E.openFile("new.bin","w"),0)');
    expect(type('[g.write("\\xff\\x00abc"),g.write([1,2,3]),g.write(new Uint8Array([7,8])),g.write(""),g.write(),g.write(5),g.read(2)].join()')).toBe(
      '"5,3,2,0,0,0,"',
    );
    type("g.close()");
    expect([...readFileSync(at("new.bin"))]).toEqual([255, 0, 97, 98, 99, 1, 2, 3, 7, 8]);
  });

  it("writes, appends and deletes whole files", () => {
    expect(type('fs.writeFileSync("w.txt","abc")')).toBe("true");
    expect(type('fs.writeFileSync("w.txt","")')).toBe("false");
    expect(type('fs.appendFileSync("w.txt","def")')).toBe("true");
    expect(type('fs.readFile("w.txt")')).toBe('"def"');
    expect(type('fs.unlinkSync("w.txt")')).toBe("true");
    expect(existsSync(at("w.txt"))).toBe(false);
    expect(type('fs.mkdirSync("dd")')).toBe("true");
    expect(type('fs.unlinkSync("dd")')).toBe("true");
  });

  it("opens a file to be changed in place", () => {
    expect(type("eval('var h=E.openFile(\"hello.txt\",\"r+\");h.seek(6);h.write(\"W\");h.seek(0);h.read(20)')")).toBe('"hello World"');
    expect(type("eval('h.close();h=E.openFile(\"hello.txt\",\"a\");h.write(\"!\");h.close();fs.readFile(\"hello.txt\")')")).toBe('"hello World!"');
  });

  it("warns of places before the beginning", () => {
    board.evaluate('f=E.openFile("hello.txt");f.seek(-1);f.skip(-1)');
    expect(printed).toContain("WARNING: Position to seek to must be >=0");
    expect(printed).toContain("WARNING: Bytes to skip must be >=0");
  });
});

describe("as FAT has it", () => {
  it.each([
    ["fs.readdirSync()", '["dir","empty.txt","hello.txt"]'],
    ['fs.readdirSync("nodir")', "Error: Unable to list files : NO_PATH"],
    ['fs.readdirSync("hello.txt")', "Error: Unable to list files : NO_PATH"],
    ['E.openFile("nope","r")', "Error: Could not open file : NO_FILE"],
    ['E.openFile("nodir/x","w")', "Error: Could not open file : NO_PATH"],
    ['E.openFile("hello.txt/x","w")', "Error: Could not open file : NO_PATH"],
    ['E.openFile("dir","r")', "Error: Could not open file : NO_FILE"],
    ['E.openFile("dir","w")', "Error: Could not open file : DENIED"],
    ['E.openFile("a?b","w")', "Error: Could not open file : INVALID_NAME"],
    ['E.openFile("x:a","r")', "Error: Could not open file : INVALID_DRIVE"],
    ['E.openFile("","r")', "Error: Could not open file : INVALID_NAME"],
    ['fs.unlinkSync("nope")', "Error: Unable to delete file : NO_FILE"],
    ['fs.unlinkSync("dir")', "Error: Unable to delete file : DENIED"],
    ['fs.mkdirSync("dir")', "Error: Unable to create the directory : EXIST"],
    ['fs.readFileSync("HELLO.TXT")', '"hello world"'],
    ['fs.readFileSync("0:/dir/../Hello.txt")', '"hello world"'],
    ['fs.readFileSync("\\\\dir\\\\a.txt")', '"abc"'],
    ['fs.statSync("dir").size', "0"],
  ])("%s gives %s", (line, value) => {
    expect(type(line)).toBe(value);
  });

  it("has no way out of the card", () => {
    writeFileSync(path.join(dir, "secret.txt"), "secret");
    mkdirSync(path.join(dir, "outside"));
    symlinkSync(path.join(dir, "secret.txt"), at("link.txt"));
    symlinkSync(path.join(dir, "outside"), at("out"));
    symlinkSync(path.join(dir, "new.txt"), at("dangling.txt"));
    symlinkSync("hello.txt", at("inside.txt"));
    for (const name of ["../secret.txt", "/../secret.txt", "dir/../../secret.txt"])
      expect(type(`fs.readFileSync("${name}")`)).toBe("Error: Could not open file : NO_FILE");
    expect(type('fs.readFileSync("link.txt")')).toBe("Error: Could not open file : DENIED");
    expect(type('fs.writeFileSync("link.txt","x")')).toBe("Error: Could not open file : DENIED");
    expect(type('fs.writeFileSync("out/x.txt","x")')).toBe("Error: Could not open file : DENIED");
    expect(type('fs.writeFileSync("dangling.txt","x")')).toContain("Could not open file");
    expect(type('fs.unlinkSync("link.txt")')).toBe("Error: Unable to delete file : DENIED");
    expect(type("fs.readdirSync()")).toBe('["dir","empty.txt","hello.txt","inside.txt"]');
    expect(type('fs.readFileSync("inside.txt")')).toBe('"hello world"');
    expect(readFileSync(path.join(dir, "secret.txt"), "utf8")).toBe("secret");
    expect(existsSync(path.join(dir, "new.txt"))).toBe(false);
  });
});

describe("the slot", () => {
  it("without a card asks for E.connectSDCard, and then for the card", () => {
    start({ hasCard: false });
    const missing = "Error: SD card must be setup with E.connectSDCard first";
    expect(type("fs.readdirSync()")).toBe(missing);
    expect(type('fs.statSync("a")')).toBe(missing);
    expect(type('E.openFile("a")')).toBe(missing);
    expect(type("E.connectSDCard()")).toBe("Error: First argument is a undefined, not an SPI object");
    expect(type("E.connectSDCard(SPI1)")).toBe("Error: Second argument is not a valid pin");
    board.evaluate("SPI1.setup({mosi:D23,miso:D19,sck:D18});E.connectSDCard(SPI1,D5)");
    expect(type("fs.readdirSync()")).toBe("Error: Unable to mount media : NOT_READY");
  });

  it("a card that is pulled out fails under what is open, until it is in again and mounted anew", () => {
    board.evaluate('f=E.openFile("hello.txt");f.read(2);w=E.openFile("w.txt","w");w.write("ab")');
    card.pull();
    expect(type("f.read(2)")).toBe("Error: Unable to read file : DISK_ERR");
    expect(type('w.write("cd")')).toBe("Error: Unable to write file : DISK_ERR");
    expect(type('E.openFile("hello.txt")')).toBe("Error: Could not open file : DISK_ERR");
    expect(type('fs.statSync("hello.txt")')).toBe("undefined");
    expect(type("fs.readdirSync()")).toBe("Error: Unable to list files : DISK_ERR");
    expect(type("f.close()")).toBe("undefined");
    card.insert();
    expect(type("w.read(2)")).toBe("undefined");
    expect(type("fs.readdirSync()")).toBe("Error: Unable to list files : DISK_ERR");
    expect(type("E.unmountSD()")).toBe("undefined");
    expect(type('fs.readFileSync("hello.txt")')).toBe('"hello world"');
    expect(readFileSync(at("w.txt"), "utf8")).toBe("ab");
  });

  it("a full card takes what fits, then fails", () => {
    card.freeBytes = 40;
    board.evaluate('w=E.openFile("w.txt","w")');
    expect(type('w.write("x".repeat(30))')).toBe("30");
    expect(type('w.write("y".repeat(30))')).toBe("Error: Unable to write file : DISK_ERR");
    expect(readFileSync(at("w.txt"), "utf8")).toHaveLength(40);
    board.evaluate('w.close();fs.unlinkSync("w.txt")');
    expect(type('fs.writeFileSync("v.txt","z".repeat(40))')).toBe("true");
  });

  it("a file that does not fit into memory ends what reads it whole, and can be read in pieces", () => {
    writeFileSync(at("big.bin"), Buffer.alloc(300_000, 7));
    board.evaluate('function all(){var f=E.openFile("big.bin"),n=0,p;while(p=f.read(384))n+=p.length;f.close();return n}');
    expect(type("all()")).toBe("300000");
    printed = "";
    board.console.write('\x10fs.readFileSync("big.bin")\n');
    expect(printed).toContain("Execution Interrupted");
  });

  it("a reset closes what is open", () => {
    board.evaluate('f=E.openFile("hello.txt")');
    board.evaluate("reset()");
    expect(type('require("fs").readFileSync("hello.txt")')).toBe('"hello world"');
  });
});

it("a folder that is none is no card", () => {
  expect(() => createSdCard(path.join(dir, "none"))).toThrow(/none cannot be used as an SD card/);
  expect(() => createSdCard(at("hello.txt"))).toThrow(/hello.txt cannot be used as an SD card: it is no folder/);
});
