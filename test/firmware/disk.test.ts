import { createHash, randomBytes } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Board, createBoard } from "../../host-sim/board";
import { createManualClock } from "../../host-sim/clock";
import { createSdCard, type SdCard } from "../../host-sim/sd";
import { createStorage } from "../../host-sim/storage";
import { boardScript } from "../fixtures/board-script";

/** The room, and a count of the files of the card that are open. */
const contents = `
  import { openSource } from "./firmware/disk";
  import { freePath, openSink } from "./firmware/sink";
  global.freePath = freePath;
  global.openSink = openSink;
  global.openSource = openSource;
  global.opened = 0;
  const open = E.openFile;
  E.openFile = function (path, mode) {
    const file = open(path, mode);
    const close = file.close;
    opened++;
    file.close = function () { opened--; close.call(file); };
    return file;
  };
`;
const script = await boardScript(contents);

let dir: string;
let card: SdCard | undefined;
let board: Board;
const at = (name: string): string => path.join(dir, name);

function start(capacity?: number, files: Record<string, string> = {}): void {
  board?.stop();
  board = createBoard({ clock: createManualClock(), sd: card, storage: createStorage({ capacity }) });
  for (const [name, content] of Object.entries({ ...files, agent: script })) board.storage.api.write(name, content);
  board.boot();
  board.evaluate('require("agent")');
}
beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), "disk-"));
  card = createSdCard(dir);
  start();
});
afterEach(() => {
  expect(run("opened")).toBe(0);
  board.stop();
  rmSync(dir, { recursive: true });
});

const run = (code: string): any => board.evaluate(code);
/** What `openSource` or `openSink` says instead of opening. */
const refused = (call: string): string => {
  const text = run(call);
  expect(typeof text, call).toBe("string");
  return text;
};
describe("openSource", () => {
  it("reads a file of 300 kB of the card in pieces, byte for byte, and anywhere", () => {
    const content = randomBytes(300_000);
    mkdirSync(at("photos"));
    writeFileSync(at("photos/big.jpg"), content);
    run('s=openSource("sd:/photos/big.jpg")');
    expect(run("s.name+' '+s.size+' '+opened")).toBe("big.jpg 300000 1");
    const hash = createHash("sha256");
    for (let from = 0; from < 300_000; from += 384) hash.update(run(`s.read(${from},384)`), "latin1");
    expect(hash.digest("hex")).toBe(createHash("sha256").update(content).digest("hex"));
    expect(run("s.read(299990,384)")).toBe(content.toString("latin1", 299_990));
    expect(run("s.read(10,3)")).toBe(content.toString("latin1", 10, 13));
    expect(run("s.read(300000,10)+s.read(5,0)+s.read(5,-1)")).toBe("");
    expect(run("s.close();s.close();s.read(0,10)")).toBe("");
  });

  it("reads a file of the Storage in pieces", () => {
    start(undefined, { "dir/a.txt": "0123456789" });
    run('s=openSource("./dir/a.txt")');
    expect(run("[s.name,s.size,s.read(0,3),s.read(8,5),s.read(10,5),s.read(3,0)].join()")).toBe("a.txt,10,012,89,,");
    expect(run("s.close();1")).toBe(1);
  });

  it.each([
    ["nope.txt", /There is no file nope\.txt\. Call tree/],
    ["agent.json", /agent\.json holds/],
    [".bootcde", /system file/],
    ["", /1 to 28 bytes/],
    ["sd:", /name a file of it/],
    ["sd:/", /name a file of it/],
    ["sd:nope.jpg", /There is no sd:nope\.jpg on the SD card\. Call tree with sd:/],
    ["sd:no/nope.jpg", /There is no sd:no\/nope\.jpg on the SD card/],
    ["sd:folder", /sd:folder is a folder/],
    ["sd:empty.jpg", /sd:empty\.jpg is empty/],
    ["sd:../secret", /starts at its root/],
    ["sd:a/../../secret", /starts at its root/],
    ["sd:a\\b", /holds none of/],
    ["sd:a:b", /holds none of/],
    ["sd:a\nb", /holds none of/],
    ['sd:a"b', /holds none of/],
    [`sd:${"x".repeat(64)}`, /at most 63 bytes/],
  ])("%j is refused in words", (name, problem) => {
    mkdirSync(at("folder"));
    writeFileSync(at("empty.jpg"), "");
    expect(refused(`openSource(${JSON.stringify(name)})`)).toMatch(problem);
  });

  it("reads less where the file has become shorter or the card is gone, and throws nothing", () => {
    writeFileSync(at("a.jpg"), "0123456789");
    run('s=openSource("sd:a.jpg")');
    card!.pull();
    expect(run("s.read(0,5)+s.read(5,5)")).toBe("");
    expect(run("s.close();1")).toBe(1);
    start(undefined, { "a.txt": "0123456789" });
    run('s=openSource("a.txt");require("Storage").erase("a.txt");require("Storage").write("a.txt","012")');
    expect(run("s.read(0,5)+'|'+s.read(5,5)")).toBe("012|");
  });

  it("says what is wrong with the card", () => {
    card!.pull();
    expect(refused('openSource("sd:a.jpg")')).toMatch(/There is no SD card that can be read .*NOT_READY.*E\.connectSDCard\(SPI1,D5\)/);
    card!.insert();
    writeFileSync(at("a.jpg"), "x");
    expect(typeof run('openSource("sd:a.jpg")')).toBe("object");
    card!.pull();
    expect(refused('openSource("sd:a.jpg")')).toMatch(/The SD card failed at sd:a\.jpg .*DISK_ERR.*taken out/);
    card = undefined;
    start();
    expect(refused('openSource("sd:a.jpg")')).toMatch(/E\.connectSDCard first.*SPI1\.setup/);
    run('E.openFile=undefined;Modules.addCached("fs","exports={statSync:function(){return {size:1}}}")');
    expect(refused('openSource("sd:a.jpg")')).toMatch(/firmware has no file system for SD cards/);
  });
});

describe("openSink", () => {
  it("writes a file of the card whose size is not known", () => {
    run('k=openSink("sd:a.bin",-1)');
    expect(run('[k.write("\\xff\\x00ab"),k.write(""),k.write("cd"),k.close()].join()')).toBe(",,,");
    expect([...readFileSync(at("a.bin"))]).toEqual([255, 0, 97, 98, 99, 100]);
    expect(run('k.write("x")+k.close()')).toContain("is closed");
    expect(readFileSync(at("a.bin"))).toHaveLength(6);
  });

  it("writes a file of the Storage of exactly its size", () => {
    run('k=openSink("a.bin",6)');
    expect(run('[k.write("abc"),k.write(""),k.write("def"),k.close()].join()')).toBe(",,,");
    expect(run('require("Storage").read("a.bin")')).toBe("abcdef");
    expect(run('k.write("x")+k.close()')).toContain("is closed");
  });

  it.each(["a.bin", "sd:a.bin"])("leaves nothing of %s where too little or too much comes, or it is dropped", (name) => {
    const isThere = (): boolean => existsSync(at("a.bin")) || run('require("Storage").read("a.bin")') !== undefined;
    run(`k=openSink("${name}",6);k.write("abc")`);
    expect(run("k.close()")).toBe(`Only 3 of 6 bytes of ${name} came.`);
    expect(isThere()).toBe(false);
    run(`k=openSink("${name}",6);k.write("abc")`);
    expect(run('k.write("defg")')).toBe(`More than the 6 bytes that were announced for ${name} came.`);
    run("k.drop();k.drop()");
    expect(isThere()).toBe(false);
    run(`k=openSink("${name}",6)`);
    expect(run("k.close()")).toMatch(/Only 0 of 6 bytes|Nothing came/);
    expect(isThere()).toBe(false);
    run(`k=openSink("${name}",6);k.drop()`);
    expect(isThere()).toBe(false);
  });

  it.each([
    ["a.txt", 5, /a\.txt exists already: choose another name/],
    ["sd:a.txt", 5, /sd:a\.txt exists already: choose another name/],
    ["sd:A.TXT", 5, /exists already/],
    ["sd:folder", 5, /exists already/],
    ["b.txt", -1, /The Storage needs to know the size beforehand: write to the SD card, sd:b\.txt/],
    ["b.txt", 0, /cannot be empty/],
    ["sd:b.txt", 0, /cannot be empty/],
    ["b.txt", 10_000_000, /The Storage is full: \d+ bytes free, 10000040 needed/],
    ["agent.json", 5, /agent\.json holds/],
    ["agent", 5, /agent's own program/],
    ["sd:no/b.txt", 5, /There is no such folder for sd:no\/b\.txt/],
    ["sd:../b.txt", 5, /starts at its root/],
    ["sd:", 5, /name a file of it/],
  ])("refuses %s of %i bytes", (name, size, problem) => {
    start(undefined, { "a.txt": "old" });
    writeFileSync(at("a.txt"), "old");
    mkdirSync(at("folder"));
    expect(refused(`openSink(${JSON.stringify(name)},${size})`)).toMatch(problem);
    expect(run('require("Storage").read("a.txt")') + readFileSync(at("a.txt"), "utf8")).toBe("oldold");
  });

  it("looks at the Storage's room once more before it writes", () => {
    const free = run('k=openSink("a.bin",3000);require("Storage").getFree()');
    run(`require("Storage").write("fill","x",0,${free - 2000})`);
    expect(run('k.write("x".repeat(500))')).toMatch(/The Storage is full/);
    run("k.drop()");
    expect(run('require("Storage").read("a.bin")')).toBeUndefined();
  });

  it("a full card: what was written can be taken away", () => {
    card!.freeBytes = 1000;
    run('k=openSink("sd:a.bin",5000)');
    expect(run('k.write("x".repeat(500))')).toBe("");
    expect(run('k.write("x".repeat(600))')).toMatch(/The SD card failed at sd:a\.bin .*is it full/);
    run("k.drop()");
    expect(existsSync(at("a.bin"))).toBe(false);
  });

  it("a card that is pulled out is told with the next piece, or at the end", () => {
    run('k=openSink("sd:a.bin",6);k.write("abc")');
    card!.pull();
    expect(run('k.write("def")')).toMatch(/The SD card failed at sd:a\.bin .*taken out/);
    expect(run("k.drop();1")).toBe(1);
    card!.insert();
    run('E.unmountSD();k=openSink("sd:b.bin",3);k.write("abc")');
    card!.pull();
    expect(run("k.close()")).toMatch(/did not keep sd:b\.bin/);
  });
});

it("freePath finds the next name on the card, or in the Storage where there is none", () => {
  expect(run('freePath("photo",".jpg")')).toBe("sd:photo1.jpg");
  writeFileSync(at("photo1.jpg"), "x");
  expect(run('freePath("photo",".jpg")')).toBe("sd:photo2.jpg");
  card = undefined;
  start(undefined, { "photo1.jpg": "x", "photo2.jpg": "y" });
  expect(run('freePath("photo",".jpg")')).toBe("photo3.jpg");
});
