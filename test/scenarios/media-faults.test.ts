import { spawnSync } from "node:child_process";
import { closeSync, ftruncateSync, mkdirSync, openSync, truncateSync, unlinkSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Busboy } from "@fastify/busboy";
import { describe, expect } from "vitest";
import type { AgentEvent } from "../../firmware/types";
import { serve } from "../drivers/serve";
import { jpeg, sha256 } from "../fixtures/picture";
import { reply, type ScriptedModel, text, toolCall } from "../fixtures/scripted-model";
import { driver, scenario, type ScenarioContext, type ScenarioOptions } from "./scenario";
import { cutOnce, decoded, isCut, parts, show, startCutter, stored, type Upload, withFileServer } from "./uploads";

const seen = { multimodal: true };
const cat = jpeg(5000);

const warnings = (events: AgentEvent[]): string[] => events.flatMap((event) => (event.type === "error" ? [event.message] : []));
const finals = (events: AgentEvent[]): AgentEvent[] => events.filter((event) => event.type === "final");

/** A scenario whose model is a server of its own on the loopback interface, on every driver. */
function withModelServer(
  name: string,
  options: ScenarioOptions,
  body: (context: ScenarioContext & { port: number }) => Promise<void>,
): void {
  scenario(name, options, async (context) => {
    const { board, model } = context;
    // A body that the board has cut short is what some of these tests are about.
    const server = await serve((request) => model.handle(request), (problem) => isCut(problem) || model.reportProblem(problem));
    try {
      await board.runLine(`set_config({baseUrl:"${server.url}/v1"})`);
      await body({ ...context, port: Number(new URL(server.url).port) });
    } finally {
      model.release();
      await server.close();
    }
  });
}

/** All that the newest request says, but for the system prompt. */
const newest = (model: ScriptedModel): any[] => model.requests.at(-1)!.json.messages.slice(1);

describe("a run that is stopped", () => {
  withFileServer("while a file is sent sends no other, and takes nothing from the conversation", stored("f-1"), {},
    {
      settings: seen,
      card: { "big.jpg": jpeg(300_000) },
      files: { "cat.jpg": cat, "dog.jpg": jpeg(3000) },
      turns: [text("Hi."), text("Yes.")],
      allow: /ERROR: Socket|Socket error/,
      timeoutMs: 90_000,
    },
    async ({ board, model, uploads }) => {
      await board.ask("hello");
      const before = board.events().length;
      board.type('ask({text:"What is this?",files:["sd:big.jpg","cat.jpg","dog.jpg"]})\n');
      await board.expectEvent((event) => event.type === "upload");
      board.type("abort\n");
      await board.expectEvent((event) => event.type === "final" && event.stopReason === "aborted");
      await board.advance(3000);
      expect(warnings(board.events().slice(before))).toEqual([]);
      expect(uploads.map((one) => one.name)).not.toContain("cat.jpg");
      expect((await board.ask("Are you there?")).at(-1)).toMatchObject({ text: "Yes." });
      expect(newest(model).map((message) => message.content)).toEqual(["hello", "Hi.", "Are you there?"]);
    });

  withModelServer("while a file goes within the request leaves nothing of it to the next one",
    { settings: seen, card: { "big.jpg": jpeg(300_000) }, turns: [text("Yes.")], allow: /ERROR: Socket|Socket error/, timeoutMs: 90_000 },
    async ({ board, model, port }) => {
      const timers = await board.timers();
      const proxy = await cutOnce(port, 50_000, () => board.type("abort\n"));
      try {
        await board.runLine(`set_config({baseUrl:"${proxy.url}/v1"})`);
        board.type('ask({text:"What is this?",files:["sd:big.jpg"]})\n');
        expect(await board.expectEvent((event) => event.type === "final")).toMatchObject({ stopReason: "aborted" });
        expect((await board.ask("Are you there?")).at(-1)).toMatchObject({ text: "Yes." });
        expect(model.requests).toHaveLength(1);
        expect(newest(model)).toEqual([{ role: "user", content: "Are you there?" }]);
        expect(await board.timers()).toBe(timers);
      } finally {
        await proxy.close();
      }
    });

  withFileServer("while an upload is to be repeated does not repeat it", () => new Response("", { status: 503 }), {},
    { settings: seen, files: { "cat.jpg": cat }, turns: [text("Yes.")] },
    async ({ board, model, uploads }) => {
      board.type('ask({text:"What is this?",files:["cat.jpg"]})\n');
      await board.expectEvent((event) => event.type === "retry");
      board.type("abort\n");
      await board.expectEvent((event) => event.type === "final");
      await board.ask("Are you there?");
      await board.advance(3000);
      expect(uploads).toHaveLength(1);
      expect(finals(board.events())).toHaveLength(2);
      expect(newest(model)).toEqual([{ role: "user", content: "Are you there?" }]);
    });
});

describe("a prompt whose files the server refuses", () => {
  for (const [status, isKept] of [[400, false], [413, false], [401, true]] as const)
    scenario(`with ${status} is ${isKept ? "kept" : "not sent again with the next one"}`,
      { settings: seen, files: { "cat.jpg": cat }, turns: [reply(status, { error: { message: "No images here." } }), text("Hi.")] },
      async ({ board, model }) => {
        const events = await show(board, "What is this?", ["cat.jpg"]);
        expect(events.at(-1)).toMatchObject({ stopReason: "transportError", message: expect.stringContaining(`answered ${status}: No images here.`) });
        if (status === 413) expect(events.at(-1)).toMatchObject({ message: expect.stringContaining("lower inlineBytes") });
        expect((await board.ask("hello")).at(-1)).toMatchObject({ text: "Hi." });
        const content = newest(model).at(-1)!.content;
        if (isKept) expect(content.map((part: any) => part.type)).toEqual(["text", "text", "image_url"]);
        else expect(newest(model)).toEqual([{ role: "user", content: "hello" }]);
      });
});

scenario("a prompt whose tool gave a file that the server refuses is not done again with the next one",
  { settings: seen, files: { "fake.jpg": "no picture" }, turns: [toolCall("read_file", { path: "fake.jpg" }), reply(400, { error: { message: "unsupported image" } }), text("Hi.")] },
  async ({ board, model }) => {
    expect((await board.ask("describe fake.jpg")).at(-1)).toMatchObject({ message: expect.stringContaining("unsupported image") });
    expect((await board.ask("hello")).at(-1)).toMatchObject({ text: "Hi." });
    expect(newest(model)).toEqual([{ role: "user", content: "hello" }]);
  });

describe("what a tool gives as parts", () => {
  const lists: [string, RegExp, boolean?][] = [
    ["[null,{type:'text',content:'after it'}]", /^\[part 1 cannot be shown: its content is no text\]\nafter it$/],
    ["[{type:'text',content:'before it'},{type:'image'}]", /^before it\n\[part 2 cannot be shown: its content is no text\]$/],
    ["[{type:'zip',content:5}]", /^\[part 1 cannot be shown/],
    ["[{type:'image',content:'x'.padEnd(500)}]", /^\[x +cannot be shown: A file name has 1 to 28 bytes/],
    ["new Array(30).fill({type:'image',content:'cat.jpg'})", /^\[cat\.jpg cannot be shown: too much for one message\. Show it alone, or raise historyBytes\]\n\[cat/],
    ["[{type:'text',content:''.padEnd(3000,'long ')}]", /\[cut: \d+ of 3000 bytes\]$/],
    ["[]", /^done \(no output\)$/],
  ];
  scenario("is taken as far as it can be, and the run goes on", {
      settings: seen,
      files: { "cat.jpg": cat },
      turns: (request) => (request.json.messages.at(-1)!.content === "look" ? toolCall("look", {}) : text("ok")),
      timeoutMs: 90_000,
    },
    async ({ board }) => {
      await board.runLine("init_tools");
      await board.runLine('add_tool({name:"look",description:"Look.",repeatable:true,execute:function(){return {parts:LIST}}})');
      for (const [list, says] of lists) {
        await board.runLine(`LIST=${list};0`);
        const events = await board.ask("look");
        expect(events.filter((event) => event.type === "toolEnd").map((event) => event.content)).toEqual([expect.stringMatching(says)]);
        expect(events.at(-1)).toMatchObject({ text: "ok" });
      }
    });
});

describe("files that change under way", () => {
  const changes: [string, (file: string) => void, RegExp][] = [
    ["gets shorter", (file) => truncateSync(file, 100), /^\[sd:small\.jpg was changed since: read it again/],
    ["is taken away", (file) => unlinkSync(file), /^\[sd:small\.jpg cannot be shown any more: There is no sd:small\.jpg/],
    ["gets longer", (file) => writeFileSync(file, jpeg(4000)), /^\[sd:small\.jpg was changed since/],
  ];
  for (const [what, change, says] of changes)
    for (const retries of [0, 1])
      withModelServer(`are told where the second one ${what} while the first is sent (retries ${retries})`,
        {
          settings: { ...seen, retries },
          card: { "big.jpg": jpeg(300_000), "small.jpg": jpeg(3000) },
          turns: retries ? [text("One.")] : [],
          timeoutMs: 90_000,
        },
        async ({ board, model, port }) => {
          const proxy = await cutOnce(port, 10_000, () => change(join(board.cardFolder, "small.jpg")));
          try {
            await board.runLine(`set_config({baseUrl:"${proxy.url}/v1"})`);
            const events = await show(board, "What is this?", ["sd:big.jpg", "sd:small.jpg"]);
            const reason = "a file was changed, or the SD card is gone: sd:small.jpg";
            if (!retries) return expect(events.at(-1)).toMatchObject({ isError: true, message: reason });
            expect(events).toContainEqual(expect.objectContaining({ type: "retry", reason }));
            const content = newest(model).at(-1)!.content;
            expect(sha256(decoded(content[2].image_url.url))).toBe(sha256(jpeg(300_000)));
            expect(content[4]).toEqual({ type: "text", text: expect.stringMatching(says) });
          } finally {
            await proxy.close();
          }
        });

  scenario("between two prompts are told, or shown as they are now",
    { settings: { ...seen, mediaKept: "always" }, card: { "a.jpg": jpeg(3000) }, turns: [text("One."), text("Two."), text("Three."), text("Four.")] },
    async ({ board, model }) => {
      const file = join(board.cardFolder, "a.jpg");
      await show(board, "What is this?", ["sd:a.jpg"]);
      writeFileSync(file, jpeg(4000, 2));
      await show(board, "And now?", ["sd:a.jpg"]);
      expect(newest(model)[0]!.content[2].text).toBe("[sd:a.jpg was changed since: read it again to see what is there now]");
      expect(sha256(decoded(newest(model)[2]!.content[2].image_url.url))).toBe(sha256(jpeg(4000, 2)));
      unlinkSync(file);
      await board.ask("And now?");
      expect(newest(model)[2]!.content[2].text).toMatch(/^\[sd:a\.jpg cannot be shown any more: There is no/);
      writeFileSync(file, jpeg(4000, 2));
      await board.ask("And now?");
      expect(sha256(decoded(newest(model)[2]!.content[2].image_url.url))).toBe(sha256(jpeg(4000, 2)));
    });
});

describe("files that cannot be shown", () => {
  const cases: [string, RegExp][] = [
    ["sd:none.jpg", /There is no sd:none\.jpg on the SD card\. Call tree/],
    ["none.jpg", /There is no file none\.jpg\. Call tree/],
    ["sd:empty.jpg", /sd:empty\.jpg is empty/],
    ["sd:folder.jpg", /is a folder\. Call tree with sd:folder\.jpg\//],
    ["sd:huge.jpg", /it has 20971520 bytes, and 524288 may go within a request \(inlineBytes\)\. A file server takes more \(uploadUrl\)/],
    ["sd:a.xyz", /its type is unknown\. Give it an ending such as/],
    ["sd:a\nb.jpg", /holds none of/],
    ["a\nb.jpg", /no line break/],
    [`sd:${"x".repeat(500)}.jpg`, /at most 63 bytes/],
    ["sd:../a.jpg", /starts at its root/],
    ["sd:", /name a file of it/],
    ["agent.json", /holds the agent's settings and API key/],
    ["video.mp4", /takes no video \(mediaUrlParts\)/],
    ["sound.ogg", /takes \.wav and \.mp3 only \(mediaUrlParts\)/],
  ];
  scenario("are named to the model and the person, each with what to do",
    { settings: { ...seen, uploadBytes: 1_000_000 }, card: { "empty.jpg": "", "a.xyz": "hello" }, files: { "video.mp4": "0123ftypisom", "sound.ogg": "OggS" }, turns: () => text("ok"), timeoutMs: 90_000 },
    async ({ board, model }) => {
      mkdirSync(join(board.cardFolder, "folder.jpg"));
      const huge = openSync(join(board.cardFolder, "huge.jpg"), "w");
      ftruncateSync(huge, 20 * 1024 * 1024);
      closeSync(huge);
      for (const [path, says] of cases) {
        const said = warnings(await show(board, "What is this?", [path]));
        expect(said, path).toEqual([expect.stringMatching(says)]);
        expect(said[0]!.length).toBeLessThan(300);
        expect(newest(model).at(-1)!.content).toMatch(/^What is this\?\n\[/);
      }
      // With a file server there is another limit.
      await board.runLine('set_config({uploadUrl:"http://127.0.0.1:1/upload"})');
      expect(warnings(await show(board, "What is this?", ["sd:huge.jpg"]))).toEqual([expect.stringMatching(/20971520 bytes, and 1000000 may be uploaded \(uploadBytes\)/)]);
      await board.runLine('set_config({multimodal:false})');
      expect(warnings(await show(board, "What is this?", ["sd:huge.jpg"]))).toEqual([expect.stringMatching(/the setting multimodal is off/)]);
    });

  scenario("are not printed as text by read_file",
    { files: { "cat.jpg": cat }, turns: [toolCall("read_file", { path: "cat.jpg" }), text("ok")] },
    async ({ board }) => {
      const events = await board.ask("what is in cat.jpg?");
      expect(events).toContainEqual(expect.objectContaining({ type: "toolEnd", isError: true, content: "cat.jpg is image/jpeg, no text: show it with set_config({multimodal:true})" }));
    });

  scenario("of a kind that Anthropic's API does not take are named, too",
    { settings: { ...seen, provider: "anthropic", retries: 0 }, files: { "a.bmp": "BM", "a.wav": "RIFF", "a.mp4": "...." }, turns: () => reply(400, { error: { message: "enough" } }) },
    async ({ board }) => {
      expect(warnings(await show(board, "What is this?", ["a.bmp", "a.wav", "a.mp4"]))).toEqual([
        expect.stringMatching(/this server takes no image\/bmp$/),
        expect.stringMatching(/this server takes no audio\/wav$/),
        expect.stringMatching(/this server takes no video/),
      ]);
    });

  const urls: [string, RegExp][] = [
    ["127.0.0.1:8089/upload", /^nothing was changed: uploadUrl must start with http:\/\/ or https:\/\//],
    ["ftp://127.0.0.1/upload", /^nothing was changed: uploadUrl must start with http/],
    ["http://me:secret@127.0.0.1/upload", /^nothing was changed: uploadUrl must not hold a user or password/],
    ["http://", /no answer from http: \(.*\)\. Tell the person to check uploadUrl \(http:\/\/\)/],
    ["http://127.0.0.1:1/upload", /no answer from http:\/\/127\.0\.0\.1:1\/upload \(.*\)\. Tell the person to check uploadUrl/],
  ];
  for (const [uploadUrl, says] of urls)
    scenario(`because uploadUrl is ${uploadUrl} say so`,
      { settings: { ...seen, retries: 0 }, files: { "cat.jpg": cat }, turns: () => text("ok"), allow: /ERROR: Connect failed/ },
      async ({ board }) => {
        const printed = await board.runLine(`set_config(${JSON.stringify({ uploadUrl })})`);
        if (says.source.startsWith("^nothing")) return expect(printed).toMatch(says);
        const events = await show(board, "What is this?", ["cat.jpg"]);
        expect(warnings(events)).toEqual([expect.stringMatching(says)]);
        expect(events.at(-1)).toMatchObject({ text: "ok" });
      });
});

describe("a file server that says nothing", () => {
  for (const [what, bytes] of [["before it has read anything", 0], ["after it has read all", 1_000_000]] as const)
    scenario(`is given up in time: ${what}`,
      { settings: { ...seen, uploadTimeoutMs: 1000, retries: 0 }, files: { "cat.jpg": cat }, turns: [text("ok"), text("Yes.")], allow: /ERROR: Socket|Socket error/ },
      async ({ board }) => {
        const sockets: Socket[] = [];
        const server = createServer((socket) => {
          sockets.push(socket);
          socket.on("error", () => undefined);
          if (bytes) socket.resume();
          else socket.pause();
        });
        await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
        try {
          await board.runLine(`set_config({uploadUrl:"http://127.0.0.1:${(server.address() as AddressInfo).port}/upload"})`);
          const events = await show(board, "What is this?", ["cat.jpg"]);
          expect(warnings(events)).toEqual([expect.stringMatching(/The file server: http:\/\/127\.0\.0\.1:\d+\/upload did not answer within 1000 ms\. Tell the person to check uploadUrl/)]);
          expect((await board.ask("Are you there?")).at(-1)).toMatchObject({ text: "Yes." });
        } finally {
          for (const socket of sockets) socket.destroy();
          server.close();
        }
      });
});

/** Answers as soon as the head of a request and some more is there, and hangs up, as some proxies do. */
async function startRudeServer(answer: string): Promise<{ url: string; connections(): number; close(): void }> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    let came = 0;
    socket.on("error", () => undefined).on("data", (piece) => {
      if (came < 2000 && (came += piece.length) >= 2000) socket.end(answer, () => socket.destroy());
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections: () => sockets.length,
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

describe("a server that answers before it has read all", () => {
  const page = "<html><body>413 Request Entity Too Large</body></html>";
  const answer = `HTTP/1.1 413 Request Entity Too Large\r\nContent-Type: text/html\r\nContent-Length: ${page.length}\r\nConnection: close\r\n\r\n${page}`;
  const options = { settings: { ...seen, retries: 1 }, card: { "big.jpg": jpeg(300_000) }, allow: /ERROR: Socket|Socket error/, timeoutMs: 90_000 };
  scenario("is heard: the file server", { ...options, turns: [text("ok")] }, async ({ board }) => {
    const server = await startRudeServer(answer);
    try {
      await board.runLine(`set_config({uploadUrl:"${server.url}/upload"})`);
      const events = await show(board, "What is this?", ["sd:big.jpg"]);
      expect(warnings(events)).toEqual([expect.stringMatching(/The file server answered 413 \(what was sent is too large for it\)$/)]);
      expect(server.connections()).toBe(1);
    } finally {
      server.close();
    }
  });
  scenario("is heard: the model", options, async ({ board }) => {
    const server = await startRudeServer(answer);
    try {
      await board.runLine(`set_config({baseUrl:"${server.url}/v1"})`);
      const events = await show(board, "What is this?", ["sd:big.jpg"]);
      expect(events.at(-1)).toMatchObject({ message: expect.stringMatching(/answered 413 \(the request is too large: lower inlineBytes/) });
      expect(server.connections()).toBe(1);
    } finally {
      server.close();
    }
  });
});

/** The part `file` of a form, as busboy reads it. */
function readWithBusboy(upload: Upload): Promise<{ name: string; sha256: string }> {
  return new Promise((resolve, reject) => {
    const parser = new Busboy({ headers: { "content-type": upload.contentType } });
    parser.on("file", (_part, file, name) => {
      const pieces: Buffer[] = [];
      file.on("data", (piece: Buffer) => pieces.push(piece)).on("end", () => resolve({ name, sha256: sha256(Buffer.concat(pieces)) }));
    });
    parser.on("error", reject).on("finish", () => reject(new Error("no file")));
    parser.end(upload.body);
  });
}

describe("names of files", () => {
  // Some parsers undo %22 and %5C, others do not; Python's own drops blanks at the ends.
  const names = ['a"b.jpg', "a\\b.jpg", "a.jpg\\", "100%.jpg", "a%22b.jpg", "a;b=c.jpg", "Kätzchen €.jpg", "猫.jpg", "a'b|c.jpg", " a b .jpg", 'x\\".jpg', "--x--.jpg"];
  const files = Object.fromEntries(names.map((name, i) => [name, jpeg(1000 + i, i + 1)]));
  const plain = (name: string): string => name.replaceAll("%22", '"').replaceAll("%5C", "\\");
  withFileServer("reach parsers that others wrote: undici's, busboy, Python's where it is there", (_, number) => stored(`f-${number}`)(), {},
    { settings: { ...seen, historyBytes: 8192 }, files, turns: () => text("ok"), timeoutMs: 120_000, byteStrings: true },
    async ({ board, uploads }) => {
      for (const name of names) expect(warnings(await show(board, "What is this?", [name])), name).toEqual([]);
      expect(uploads.map((one) => [plain(one.name), sha256(one.bytes)])).toEqual(names.map((name) => [plain(name), sha256(files[name]!)]));
      const byBusboy = await Promise.all(uploads.map(readWithBusboy));
      expect(byBusboy.map((one) => [plain(one.name), one.sha256])).toEqual(names.map((name) => [plain(name), sha256(files[name]!)]));

      const program = fileURLToPath(new URL("../fixtures/read_forms.py", import.meta.url));
      const input = uploads.map((one) => `${JSON.stringify({ type: one.contentType, body: one.body.toString("base64") })}\n`).join("");
      const python = spawnSync(process.env.PYTHON ?? "python3", [program], { input });
      if (python.error) return;
      expect(python.stderr.toString()).toBe("");
      const found = python.stdout.toString().trim().split("\n").map((line) => JSON.parse(line) as Record<string, string>);
      const parsers = [...new Set(found.map((one) => one.parser))];
      for (const parser of parsers) {
        const its = found.filter((one) => one.parser === parser);
        expect(its.map((one) => one.error ?? [plain(one.name!).trim(), one.sha256]), parser).toEqual(names.map((name) => [plain(name).trim(), sha256(files[name]!)]));
      }
      expect(parsers).toContain("email");
    });
});

/** Numbers below 2 ** 31 that are the same for the same seed. */
function* numbers(seed: number): Generator<number, never> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    yield state >>> 1;
  }
}

describe("connections that drop at any point", () => {
  const rounds = driver.name === "espruino" ? 6 : 40;
  // In the middle of a chunk the board notices by the silence only.
  const options = { settings: { ...seen, retries: 1, idleTimeoutMs: 2000 }, turns: () => text("ok"), allow: /ERROR: Socket|Socket error/, timeoutMs: 240_000 };
  const picture = jpeg(9000);

  withFileServer("leave nothing of an upload behind", (_, number) => stored(`f-${number}`)(), {}, { ...options, files: { "cat.jpg": picture } },
    async ({ board, model, uploads, url }) => {
      const cutter = await startCutter(Number(new URL(url).port));
      const random = numbers(6);
      try {
        await board.runLine(`set_config({uploadUrl:"${cutter.url}/upload",downloadUrl:"${url}/d"})`);
        for (let round = 0; round < rounds; round++) {
          const way = random.next().value % 4 ? "up" : "down";
          cutter.cut(way, random.next().value % (way === "up" ? picture.length + 300 : 100));
          const events = await show(board, "What is this?", ["cat.jpg"]);
          expect(cutter.isDone()).toBe(true);
          expect(events.at(-1)).toMatchObject({ text: "ok" });
          expect(events.filter((event) => event.type === "retry")).toHaveLength(1);
          expect(parts(model.requests.at(-1)!, -1)[2].image_url.url).toBe(`${url}/d/f-${uploads.length}`);
          await board.runLine("clear_history");
        }
        expect(new Set(uploads.map((one) => sha256(one.bytes)))).toEqual(new Set([sha256(picture)]));
      } finally {
        await cutter.close();
      }
    });

  withModelServer("leave nothing of a request behind", { ...options, card: { "cat.jpg": picture } }, async ({ board, model, port }) => {
    const cutter = await startCutter(port);
    const random = numbers(7);
    try {
      await board.runLine(`set_config({baseUrl:"${cutter.url}/v1"})`);
      for (let round = 0; round < rounds; round++) {
        const way = random.next().value % 4 ? "up" : "down";
        cutter.cut(way, random.next().value % (way === "up" ? 15_000 : 900));
        const events = await show(board, "What is this?", ["sd:cat.jpg"]);
        expect(cutter.isDone()).toBe(true);
        // Text that was shown is not asked for anew.
        const last = events.at(-1)!;
        if (last.type === "final" && last.isError) expect(last.message).toMatch(/no answer from|cut off|no byte for 2000 ms/);
        expect((await board.ask("Are you there?")).at(-1)).toMatchObject({ text: "ok" });
        expect(model.problems).toEqual([]);
        const shown = JSON.stringify(newest(model)).match(/data:image\/jpeg;base64,[^"]*/g) ?? [];
        for (const one of shown) expect(sha256(decoded(one))).toBe(sha256(picture));
        await board.runLine("clear_history");
      }
    } finally {
      await cutter.close();
    }
  });
});

describe("a day with many pictures", () => {
  withFileServer("takes no more memory or Storage than the first ones", (_, number) => stored(`f-${number}`)(), {},
    { settings: seen, card: Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`${i}.jpg`, jpeg(700 + i, i + 1)])), turns: () => text("A picture."), timeoutMs: 240_000, observe: true },
    async ({ board, uploads }) => {
      const free = (): Promise<string> => board.runLine('require("Storage").getFree()');
      let before = 0;
      const room = await free();
      for (let i = 0; i < 50; i++) {
        // Every other one goes within the request.
        if (i === 25) await board.runLine("set_config({mediaInline:true})");
        await show(board, "What is this?", [`sd:${i}.jpg`]);
        if (i === 10) before = (await board.memory()).usage;
      }
      expect(uploads).toHaveLength(25);
      expect((await board.memory()).usage - before).toBeLessThan(12);
      expect(await free()).not.toBe("");
      expect(Number(/\d+/.exec(room)![0]) - Number(/\d+/.exec(await free())![0])).toBeLessThan(400);
    });
});

// The interpreter's Linux build has no card that could be taken out: there a file that gets shorter stands for it.
if (driver.name === "sim")
  describe("an SD card that is taken out", () => {
    const big = jpeg(100_000);
    const options = { settings: { ...seen, retries: 1 }, card: { "big.jpg": big }, turns: () => text("ok"), allow: /ERROR: Socket|Socket error/, timeoutMs: 120_000 };
    const way = (name: string, isUpload: boolean, total: number): void =>
      withModelServer(`at any moment leaves nothing that disturbs the next prompt: ${name}`, options, async ({ board, model, port }) => {
        const uploads: Upload[] = [];
        const files = await serve(async (request) => {
          const file = (await request.formData()).get("file") as File;
          uploads.push({ bytes: Buffer.from(await file.arrayBuffer()) } as Upload);
          return stored("f-1")();
        }, () => undefined);
        const random = numbers(isUpload ? 8 : 9);
        const timers = await board.timers();
        let late = 0;
        try {
          for (let round = 0; round < 15; round++) {
            const proxy = await cutOnce(isUpload ? Number(new URL(files.url).port) : port, random.next().value % total, () => board.moveCard!(false));
            await board.runLine(isUpload ? `set_config({uploadUrl:"${proxy.url}/upload"})` : `set_config({baseUrl:"${proxy.url}/v1"})`);
            const events = await show(board, "What is this?", ["sd:big.jpg"]);
            expect(events.at(-1)).toMatchObject({ text: "ok" });
            const told = [...warnings(events), ...events.flatMap((event) => (event.type === "retry" ? [event.reason] : []))];
            const content = newest(model).at(-1)!.content;
            // All was read before, or it is told.
            if (told.length) late++;
            if (told.length) expect(told[0]).toMatch(/SD card|the card/);
            else if (isUpload) expect(sha256(uploads.at(-1)!.bytes)).toBe(sha256(big));
            else expect(sha256(decoded(content[2].image_url.url))).toBe(sha256(big));
            if (told.length) expect(JSON.stringify(content)).toMatch(/sd:big\.jpg cannot be shown|sd:big\.jpg cannot be shown any more/);
            board.moveCard!(true);
            await board.runLine("E.unmountSD();clear_history()");
            const again = await show(board, "And now?", ["sd:big.jpg"]);
            expect(again.at(-1)).toMatchObject({ text: "ok" });
            expect(warnings(again)).toEqual([]);
            await board.runLine("clear_history");
            await proxy.close();
          }
          expect(late).toBeGreaterThan(5);
          for (const one of uploads) expect(sha256(one.bytes)).toBe(sha256(big));
          expect(await board.timers()).toBe(timers);
        } finally {
          await files.close();
        }
      });
    way("within a request", false, 140_000);
    way("an upload", true, 101_000);
  });
