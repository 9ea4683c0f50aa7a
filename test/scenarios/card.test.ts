import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { describe, expect } from "vitest";
import { serve } from "../drivers/serve";
import type { TestBoard } from "../drivers/types";
import { text, toolCall, type Turn } from "../fixtures/scripted-model";
import { type Call, runAll, script } from "./calls";
import { jpeg, sha256 } from "../fixtures/picture";
import { noteMemory, scenario } from "./scenario";


const onCard = (board: TestBoard, name: string): Buffer | undefined => {
  const file = join(board.cardFolder, name);
  return existsSync(file) ? readFileSync(file) : undefined;
};

/** Of a file of the Storage: it may be longer than a line that shows it could be. */
async function checksum(board: TestBoard, name: string): Promise<number> {
  return Number((await board.runLine(`E.CRC32(require("Storage").read("${name}"))`)).replace("=", ""));
}

describe("the SD card", () => {
  const log = Array.from({ length: 3000 }, (_, i) => `row ${i + 1}\n`).join("");
  const files: Call[] = [
    ["read_file", { path: "sd:notes.txt" }, false, /^notes\.txt, rows 1-2 of 2:\nmilk\nbread$/],
    ["read_file", { path: "sd:log.txt", start_row: 2999 }, false, /rows 2999-3000 of 3000:\nrow 2999\nrow 3000$/],
    ["read_file", { path: "sd:none.txt" }, true, /There is no sd:none\.txt on the SD card/],
    ["read_file", { path: "sd:../../etc/passwd" }, true, /starts at its root/],
    ["read_file", { path: "sd:/etc/passwd" }, true, /There is no sd:\/etc\/passwd on the SD card/],
    ["tree", { pattern: "sd:*.txt" }, false, /^2 files on the SD card in sd:\nsd:log\.txt 25893\nsd:notes\.txt 11$/],
    ["tree", { pattern: "sd:none/" }, true, /There is no sd:none\/ on the SD card/],
  ];
  const options = {
    turns: script(files),
    card: { "notes.txt": "milk\nbread\n", "log.txt": log },
    settings: { maxToolIterations: 20, historyBytes: 8192 },
  };
  scenario("is read and listed", options, async ({ board }) => {
    await runAll(board, files);
  });
});

describe("save_media", () => {
  const picture = jpeg(40_000);
  const page = new TextEncoder().encode("<html>Not here</html>");
  const settings = { multimodal: true, maxToolIterations: 20 };
  // Where the pictures are is known once the server runs: the model is a function.
  const paths: [path: string, file: string, isError: boolean, says: RegExp][] = [
    ["/cat.jpg", "sd:cat.jpg", false, /^sd:cat\.jpg, 40000 bytes, image\/jpeg$/],
    ["/cat.jpg", "cat.jpg", false, /^cat\.jpg, 40000 bytes, image\/jpeg$/],
    ["/cat.jpg?again", "cat.jpg", true, /cat\.jpg exists already/],
    ["/page.jpg", "sd:page.jpg", true, /gave a text, not image\/jpeg/],
    ["/missing.jpg", "sd:missing.jpg", true, /answered 404/],
    ["/cut.jpg", "cut.jpg", true, /Only \d+ of 50000 bytes|no answer/],
    ["/cut.jpg", "sd:cut.jpg", true, /Only \d+ of 50000 bytes|no answer/],
  ];
  let url = "";
  const turns = (request: { json: { messages: { role: string }[] } }): Turn => {
    const done = request.json.messages.filter((message) => message.role === "tool").length;
    const next = paths[done];
    return next ? toolCall("save_media", { url: url + next[0], path: next[1] }) : text("done");
  };
  scenario("streams to the card and the Storage, and keeps nothing of what failed", { turns, settings, timeoutMs: 120_000 }, async ({ board }) => {
    const server = await serve(
      async (request) => {
        const { pathname } = new URL(request.url);
        const headers = { "Content-Type": "image/jpeg", "Content-Length": String(picture.length) };
        if (pathname === "/page.jpg") return new Response(page, { headers: { ...headers, "Content-Length": String(page.length) } });
        if (pathname === "/missing.jpg") return new Response("no", { status: 404, headers: { "Content-Length": "2" } });
        if (pathname !== "/cut.jpg") return new Response(picture, { headers });
        let isSent = false;
        const body = new ReadableStream({
          pull(controller) {
            if (isSent) controller.error(new Error("cut"));
            else controller.enqueue(picture.subarray(0, 3000));
            isSent = true;
          },
        });
        return new Response(body, { headers: { ...headers, "Content-Length": "50000" } });
      },
      () => undefined,
    );
    try {
      url = server.url;
      const ends = (await board.ask("go", { giveUpMs: 90_000 })).filter((event) => event.type === "toolEnd");
      expect(ends.map(({ isError, content }) => [isError, content])).toEqual(
        paths.map(([, , isError, says]) => [isError, expect.stringMatching(says)]),
      );
      expect(sha256(onCard(board, "cat.jpg")!)).toBe(sha256(picture));
      expect(await checksum(board, "cat.jpg")).toBe(crc32(picture));
      for (const name of ["page.jpg", "missing.jpg", "cut.jpg"]) {
        expect(onCard(board, name), name).toBeUndefined();
        expect(await board.file(name), name).toBeUndefined();
      }
    } finally {
      await server.close();
    }
  });
});

/** A camera as a program of the board's own: it takes what is on the card for the picture. `lost` pieces lack a byte. */
const fakeCamera = `
exports.lost = 0;
exports.setup = function () {};
exports.on = function (event, f) { exports.heard = f; };
exports.removeListener = function () { exports.heard = undefined; };
exports.say = function (text) {
  for (let at = 0; at < text.length; at += 100)
    setTimeout(function (piece) { if (exports.heard) exports.heard(piece); }, 1 + at / 100, text.substr(at, 100));
};
exports.number = function (text, at) {
  return ((text.charCodeAt(at) * 256 + text.charCodeAt(at + 1)) * 256 + text.charCodeAt(at + 2)) * 256 + text.charCodeAt(at + 3);
};
exports.write = function (command) {
  const code = command.charCodeAt(2);
  const head = "\\x76\\x00" + command.charAt(2) + "\\x00";
  const size = require("fs").statSync("source.jpg").size;
  if (code === 0x34) return exports.say(head + "\\x04" + String.fromCharCode(0, size >> 16, (size >> 8) & 255, size & 255));
  if (code !== 0x32) return exports.say(head + "\\x00");
  const length = exports.number(command, 10);
  const file = E.openFile("source.jpg", "r");
  file.seek(exports.number(command, 6));
  let data = (file.read(length) || "").padEnd(length, "\\x00");
  file.close();
  if (exports.lost-- > 0) data = data.substr(1);
  exports.say(head + "\\x00" + data + head + "\\x00");
};`;

describe("take_photo", () => {
  const picture = jpeg(30_001);
  const settings = { cameraPort: "CAM", multimodal: true };
  const options = {
    turns: [toolCall("take_photo", {}), text("A door."), toolCall("take_photo", { path: "door.jpg" }), text("A door again.")],
    card: { "source.jpg": picture },
    files: { fakecam: fakeCamera },
    settings,
    variables: 2500,
    timeoutMs: 180_000,
  };
  scenario("streams a picture to the card and to the Storage, and shows it to the model", options, async ({ board, model }) => {
    await board.runLine('CAM=require("fakecam");0');
    const before = await board.memory();
    const events = await board.ask("take a photo", { giveUpMs: 90_000 });
    expect(events.find((event) => event.type === "toolEnd")).toMatchObject({
      isError: false,
      content: expect.stringContaining("sd:photo1.jpg, 30001 bytes"),
    });
    expect(sha256(onCard(board, "photo1.jpg")!)).toBe(sha256(picture));
    const image = JSON.stringify(model.requests[1]!.json.messages).match(/data:image\/jpeg;base64,([A-Za-z0-9+/=]+)/)!;
    expect(sha256(Buffer.from(image[1]!, "base64"))).toBe(sha256(picture));
    await board.runLine("CAM.lost=2;0");
    const again = await board.ask("and one to door.jpg", { giveUpMs: 90_000 });
    expect(again.find((event) => event.type === "toolEnd")).toMatchObject({ isError: false });
    expect(await checksum(board, "door.jpg")).toBe(crc32(picture));
    noteMemory(board, "before a photo", before);
    noteMemory(board, "after two", await board.memory());
  });
});
