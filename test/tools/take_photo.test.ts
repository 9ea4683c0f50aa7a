import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Camera, createCamera } from "../../host-sim/camera";
import { createSdCard, type SdCard } from "../../host-sim/sd";
import { createStorage } from "../../host-sim/storage";
import { networkBoard, SLOW } from "./network-board";

const picture = (size: number, seed = 7): Buffer =>
  Buffer.from(Array.from({ length: size }, (_, i) => [0xff, 0xd8, 0xff][i] ?? (i * seed + (i >> 8)) % 256));

let dir: string;
let board: ReturnType<typeof networkBoard> | undefined;
let camera: Camera;
let card: SdCard | undefined;
beforeEach(() => void (dir = mkdtempSync(path.join(tmpdir(), "photo-"))));
afterEach(() => {
  board?.close();
  board = undefined;
  card = undefined;
  rmSync(dir, { recursive: true });
});

interface Start {
  pictures?: Buffer[];
  settings?: Record<string, unknown>;
  hasCard?: boolean;
  capacity?: number;
  cameraBaud?: number;
  files?: Record<string, Uint8Array>;
}
function start({ pictures = [picture(3000)], settings = {}, hasCard, capacity, cameraBaud, files }: Start = {}) {
  if (hasCard) card = createSdCard(dir);
  board = networkBoard([], { cameraPort: "Serial2", cameraPins: "16,17", ...settings }, files, (clock) => {
    camera = createCamera({ clock, pictures, baud: cameraBaud });
    return { serial: { Serial2: camera }, sd: card, storage: createStorage({ capacity }) };
  });
  return board;
}
const read = (name: string): Buffer | undefined => {
  const bytes = board!.board.storage.api.read(name);
  return bytes === undefined ? undefined : Buffer.from(bytes, "latin1");
};
/** Of a photo, the text among its parts is the content. */
async function photo(args: object = {}, stepMs = 5): Promise<any> {
  const result = (await board!.call("take_photo", args, stepMs)) as any;
  return result.parts ? { ...result, content: result.parts[0].content } : result;
}
/** What a run that failed must leave: no file, no listener, no timer. */
async function expectNothingLeft(): Promise<void> {
  expect(board!.board.storage.api.list().filter((name) => name.endsWith(".jpg"))).toEqual([]);
  expect(board!.board.evaluate('Serial2["#ondata"]===undefined||Serial2["#ondata"].length===0||!Serial2["#ondata"]')).toBe(true);
  board!.clock.advance(5000);
  expect(board!.pending()).toBe(0);
}

describe("take_photo", () => {
  it("is there only with a cameraPort", () => {
    expect(start().tools()).toContain("take_photo");
    board!.close();
    expect(start({ settings: { cameraPort: "" } }).tools()).not.toContain("take_photo");
  });

  it("saves a picture of any size as it is", async () => {
    const sizes = [128, 511, 512, 513, 1024, 3000, 20_001];
    start({ pictures: sizes.map((size) => picture(size)) });
    for (const [i, size] of sizes.entries()) {
      const result = await photo();
      expect(result.parts).toEqual([
        { type: "text", content: `photo${i + 1}.jpg, ${size} bytes` },
        { type: "image", content: `photo${i + 1}.jpg` },
      ]);
      expect(read(`photo${i + 1}.jpg`)!.equals(picture(size))).toBe(true);
    }
    board!.clock.advance(5000);
    expect(board!.pending()).toBe(0);
  });

  it("takes one after the other, under the next free name, or where it is told", async () => {
    const pictures = [picture(600, 3), picture(700, 5), picture(800, 11)];
    start({ pictures });
    await photo();
    await photo();
    expect((await photo({ path: "door.jpg" })).content).toBe("door.jpg, 800 bytes");
    expect(read("photo1.jpg")!.equals(pictures[0]!)).toBe(true);
    expect(read("photo2.jpg")!.equals(pictures[1]!)).toBe(true);
    expect(read("door.jpg")!.equals(pictures[2]!)).toBe(true);
    expect((await photo({ path: "door.jpg" })).content).toContain("door.jpg exists already");
  });

  it("saves to the SD card where there is one", async () => {
    start({ hasCard: true });
    expect((await photo()).content).toBe("sd:photo1.jpg, 3000 bytes");
    expect(readFileSync(path.join(dir, "photo1.jpg")).equals(picture(3000))).toBe(true);
    expect((await photo({ path: "here.jpg" })).content).toBe("here.jpg, 3000 bytes");
    expect(read("here.jpg")).toHaveLength(3000);
  });

  it("reads a piece once more where a byte was lost, and goes on through what is no answer", async () => {
    start();
    camera.faults.lossyPieces = 2;
    camera.faults.garbage = "\x00v\x76noise\x76\x00";
    expect(await photo({}, SLOW)).toMatchObject({ isError: false, content: "photo1.jpg, 3000 bytes" });
    expect(read("photo1.jpg")!.equals(picture(3000))).toBe(true);
  });

  it("wakes a camera that has not started yet with a reset", async () => {
    start();
    camera.faults.cutAfter = 0;
    board!.clock.setTimeout(() => delete camera.faults.cutAfter, 1200);
    expect(await photo({}, SLOW)).toMatchObject({ isError: false });
    expect(camera.commands.slice(0, 4)).toEqual([0x36, 0x26, 0x36, 0x36]);
  });

  it("leaves nothing of a photo that failed, and takes the next one", async () => {
    const cases: [string, Camera["faults"], RegExp][] = [
      ["silent", { isSilent: true }, /The camera does not answer\..*cameraPins.*cameraBaud \(38400\)/],
      ["breaks off at once", { cutAfter: 0 }, /does not answer/],
      ["breaks off in the length", { cutAfter: 16 }, /Bytes got lost/],
      ["breaks off in a piece", { cutAfter: 1300 }, /The camera does not answer\.$/],
      ["refuses", { status: 4 }, /refused \(status 4\)/],
      ["loses bytes again and again", { lossyPieces: 99 }, /Bytes got lost.*lower cameraBaud/],
      ["a length of 0", { claimedLength: 0 }, /its picture has 0 bytes, which cannot be/],
      ["a length of 3 GB", { claimedLength: 3_000_000_000 }, /has 3000000000 bytes, which cannot be/],
      ["more than there is", { claimedLength: 100_000, cutAfter: 5000 }, /does not answer/],
    ];
    start();
    for (const [name, faults, problem] of cases) {
      Object.assign(camera.faults, faults);
      const result = await photo({}, SLOW);
      expect(result, name).toMatchObject({ isError: true, content: expect.stringMatching(/^No photo was taken\. /) });
      expect(result.content, name).toMatch(problem);
      await expectNothingLeft();
      for (const fault of Object.keys(faults)) delete camera.faults[fault as keyof Camera["faults"]];
      expect(await photo({}, SLOW), name).toMatchObject({ isError: false });
      board!.board.storage.api.erase("photo1.jpg");
    }
  });

  it("a stream of noise is no picture and fills no memory", async () => {
    start();
    camera.faults.isSilent = true;
    let most = 0;
    const look = (): void => {
      most = Math.max(most, board!.board.state().memory.usage);
      board!.clock.setTimeout(look, 200);
    };
    look();
    await photo({}, SLOW);
    const silent = most;
    const noise = (): void => {
      board!.board.evaluate(`Serial2.inject("${"noise v".repeat(30)}")`);
      board!.clock.setTimeout(noise, 50);
    };
    noise();
    expect((await photo({}, SLOW)).content).toMatch(/does not answer|Bytes got lost/);
    expect(most - silent).toBeLessThan(60);
  });

  it("what is no JPEG is not kept", async () => {
    start({ pictures: [Buffer.alloc(3000, 65)] });
    expect((await photo()).content).toContain("What the camera sent is no JPEG");
    await expectNothingLeft();
  });

  it.each([
    [{ settings: { cameraPort: "Serial9" } }, /no such serial port/],
    [{ settings: { cameraPort: "E" } }, /no such serial port/],
    [{ settings: { cameraPort: "Serial1" } }, /which is the console/],
    [{ settings: { cameraPins: "16" } }, /cameraPins must be two pins/],
    [{ settings: { cameraPins: "a,b" } }, /cameraPins must be two numbers/],
    [{ settings: { cameraPins: "6,17" } }, /Pin 6 is wired to the flash/],
    [{ settings: { cameraPins: "16,35" } }, /Pin 35 is input-only/],
    [{ cameraBaud: 115200 }, /does not answer.*cameraBaud \(38400\)/],
  ] as [Start, RegExp][])("names the setting: %j", async (options, problem) => {
    start(options);
    expect((await photo({}, SLOW)).content).toMatch(problem);
    await expectNothingLeft();
  });

  it("a path that is no JPEG, or no file, is refused before a photo is taken", async () => {
    start();
    expect((await photo({ path: "a.png" })).content).toContain("end in .jpg");
    expect(camera.commands).toEqual([]);
    expect((await photo({ path: ".a.jpg" })).content).toContain("system file");
  });

  it("a Storage that is full says so", async () => {
    start({ pictures: [picture(20_000)] });
    board!.board.evaluate('require("Storage").write("fill","x",0,require("Storage").getFree()-5000)');
    expect((await photo()).content).toMatch(/No photo was taken\. The Storage is full: \d+ bytes free, 20040 needed/);
    await expectNothingLeft();
  });

  it("a card that is full, or pulled out, keeps nothing", async () => {
    start({ pictures: [picture(20_000)], hasCard: true });
    card!.freeBytes = 6000;
    expect((await photo()).content).toMatch(/SD card failed.*is it full/);
    expect(existsSync(path.join(dir, "photo1.jpg"))).toBe(false);
    card!.freeBytes = 1e6;
    board!.clock.setTimeout(() => card!.pull(), 2000);
    expect((await photo()).content).toMatch(/SD card failed.*taken out/);
  });

  it("ends where the run is stopped", async () => {
    start({ pictures: [picture(20_000)] });
    board!.board.evaluate("session.abort=function(){}");
    board!.clock.setTimeout(() => board!.board.evaluate("delete session.abort;0"), 1500);
    expect((await photo()).content).toContain("It was stopped.");
    await expectNothingLeft();
  });

  it("takes the pictures of a folder, in order of their names, over and over", async () => {
    writeFileSync(path.join(dir, "b.jpg"), picture(300, 3));
    writeFileSync(path.join(dir, "a.JPEG"), picture(200, 5));
    writeFileSync(path.join(dir, "c.txt"), "x");
    board = networkBoard([], { cameraPort: "Serial3" }, {}, (clock) => ({
      serial: { Serial3: createCamera({ clock, pictures: dir }) },
    }));
    const sizes = [];
    for (let i = 0; i < 3; i++) sizes.push((await photo()).content);
    expect(sizes).toEqual(["photo1.jpg, 200 bytes", "photo2.jpg, 300 bytes", "photo3.jpg, 200 bytes"]);
    expect(() => createCamera({ clock: board!.clock, pictures: path.join(dir, "none") })).toThrow(/none cannot be used as a camera/);
  });
});
