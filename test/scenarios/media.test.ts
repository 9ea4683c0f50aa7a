import { closeSync, openSync, truncateSync, writeSync } from "node:fs";
import { join } from "node:path";
import { describe, expect } from "vitest";
import { startFileServer } from "../gateway/file-server";
import { reply, text, toolCall } from "../fixtures/scripted-model";
import { jpeg, sha256 } from "../fixtures/picture";
import { scenario } from "./scenario";
import { claude, cutOnce, decoded, parts, show, stored, withFileServer } from "./uploads";

const seen = { multimodal: true };

/** Other bytes in the same place: a file that is written anew has none for a moment. */
function writeOver(file: string): void {
  const handle = openSync(file, "r+");
  writeSync(handle, jpeg(300_001).subarray(1), 0, 300_000, 0);
  closeSync(handle);
}

describe("files of a prompt", () => {
  const cat = jpeg(3001);
  scenario(
    "go within the request, as they are, for the length of their run",
    { settings: seen, files: { "cat.jpg": cat }, turns: [toolCall("add", { a: 1, b: 2 }), text("A cat."), text("It was a cat.")] },
    async ({ board, model }) => {
      const events = await show(board, "What is this?", ["cat.jpg"]);
      expect(events.at(-1)).toMatchObject({ type: "final", text: "A cat.", stopReason: "done" });
      for (const request of model.requests.slice(0, 2)) {
        const [prompt, label, image] = request.json.messages[1]!.content;
        expect([prompt, label]).toEqual([{ type: "text", text: "What is this?" }, { type: "text", text: "cat.jpg" }]);
        expect(image.image_url.url).toMatch(/^data:image\/jpeg;base64,/);
        expect(sha256(decoded(image.image_url.url))).toBe(sha256(cat));
      }
      await board.ask("What was it?");
      expect(model.requests[2]!.json.messages[1]!.content[2]).toEqual({ type: "text", text: "[cat.jpg was shown earlier]" });
    },
  );

  scenario(
    "that cannot be shown are named to the model and the person, and the rest goes on",
    { settings: { ...seen, inlineBytes: 2048 }, files: { "cat.jpg": cat, "a.bin": "\0\0\0\0" }, turns: [text("I see nothing.")] },
    async ({ board, model }) => {
      const events = await show(board, "What is this?", ["cat.jpg", "dog.jpg", "a.bin"]);
      const warnings = events.filter((event) => event.type === "error").map((event) => event.message);
      expect(warnings).toEqual([
        "cat.jpg was not shown to the model: it has 3001 bytes, and 2048 may go within a request (inlineBytes). A file server takes more (uploadUrl)",
        expect.stringMatching(/^dog\.jpg was not shown to the model: There is no file dog\.jpg/),
        expect.stringMatching(/^a\.bin was not shown to the model: its type is unknown/),
      ]);
      expect(model.requests[0]!.json.messages[1]!.content).toMatch(/^What is this\?\n\[cat\.jpg cannot be shown: [^\n]*\]\n\[dog\.jpg .*\]\n\[a\.bin .*\]$/);
    },
  );

  const big = jpeg(300_000);
  scenario(
    "of 300 kB go from the SD card as they are",
    { settings: seen, card: { "big.jpg": big }, turns: [text("A big one.")], timeoutMs: 120_000 },
    async ({ board, model }) => {
      const events = await show(board, "What is this?", ["sd:big.jpg"]);
      expect(events.at(-1)).toMatchObject({ text: "A big one." });
      expect(sha256(decoded(model.requests[0]!.json.messages[1]!.content[2].image_url.url))).toBe(sha256(big));
    },
  );

  scenario(
    "are refused in words where they are no list of paths",
    { settings: seen },
    async ({ board }) => {
      for (const files of [[], ["a", 1], Array(9).fill("a"), "cat.jpg"]) {
        board.type(`ask(${JSON.stringify({ text: "What is this?", files })})\n`);
        const event = await board.expectEvent((one) => one.type === "final");
        expect(event).toMatchObject({ isError: true, message: 'files is a list of 1 to 8 paths: ask({text:"What is this?",files:["photo.jpg"]})' });
      }
    },
  );
});

describe("files that are uploaded", () => {
  const cat = jpeg(5000);
  const upload = { settings: { ...seen, fileToken: "file-token-0123456789" }, files: { "cat.jpg": cat } };

  withFileServer("go up whole, once while they are unchanged, and reach the model as a link", stored("f-1"), {},
    { ...upload, turns: [text("A cat."), text("The same cat.")] },
    async ({ board, model, uploads, url }) => {
      const events = await show(board, "What is this?", ["cat.jpg"]);
      await show(board, "And this?", ["cat.jpg"]);
      expect(uploads).toHaveLength(1);
      expect(uploads[0]).toMatchObject({ name: "cat.jpg", type: "image/jpeg", authorization: "Bearer file-token-0123456789" });
      expect(sha256(uploads[0]!.bytes)).toBe(sha256(cat));
      const image = { type: "image_url", image_url: { url: `${url}/download/f-1` } };
      expect(parts(model.requests[0]!, -1)[2]).toEqual(image);
      expect(parts(model.requests[1]!, -1)[2]).toEqual(image);
      expect(parts(model.requests[1]!, 1)[2]).toEqual({ type: "text", text: "[cat.jpg was shown earlier]" });
      const sent = events.filter((event) => event.type === "upload").map((event) => event.sent);
      expect(sent.length).toBeLessThanOrEqual(9);
      expect(sent.at(-1)).toBe(5000);
      expect(sent).toEqual([...sent].sort((a, b) => a - b));
    });

  const big = jpeg(300_000);
  withFileServer("of 300 kB go up from the SD card as they are", stored("f-1"), {},
    { ...upload, card: { "big.jpg": big }, turns: [text("A big one.")], timeoutMs: 120_000 },
    async ({ board, uploads }) => {
      await show(board, "What is this?", ["sd:big.jpg"]);
      expect(uploads.map((one) => [one.name, sha256(one.bytes)])).toEqual([["big.jpg", sha256(big)]]);
    });

  withFileServer("go up again once they have changed", stored("f-1"), {},
    { ...upload, turns: [text("A cat."), text("Another.")] },
    async ({ board, uploads }) => {
      await show(board, "What is this?", ["cat.jpg"]);
      await board.runLine('require("Storage").write("cat.jpg",require("Storage").read("cat.jpg").substr(0,4999)+"x")');
      await show(board, "And this?", ["cat.jpg"]);
      expect(uploads.map((one) => one.bytes.length)).toEqual([5000, 5000]);
      expect(sha256(uploads[1]!.bytes)).not.toBe(sha256(cat));
    });

  const failures: [string, (number: number) => Response, Record<string, unknown>, RegExp, number][] = [
    ["413", () => new Response("", { status: 413 }), {}, /^The file server answered 413 \(what was sent is too large for it\)$/, 1],
    ["401", () => Response.json({ code: 1, message: "unknown token" }, { status: 401 }), {}, /answered 401: unknown token \(check fileToken\)/, 1],
    ["200 with a page", () => new Response("<html>login</html>", { headers: { "content-type": "text/html" } }), {}, /something that is no JSON: check uploadUrl/, 1],
    ["200 with a code", () => Response.json({ code: 17, message: "no room left" }), {}, /refused the file: no room left/, 1],
    ["an id of 5,000 characters", () => Response.json({ code: 0, data: { file_id: "x".repeat(5000) } }), {}, /no URL or id that can be used/, 1],
    ["an id that would end the message", () => Response.json({ id: 'a"}]}' }), {}, /no URL or id that can be used/, 1],
    ["nothing that helps", () => Response.json({ code: 0, data: {} }), {}, /neither file_id, url nor id: check uploadUrl/, 1],
    ["503 for ever", () => new Response("", { status: 503 }), { retries: 1 }, /answered 503 \(it has a problem of its own, try later\)/, 2],
    ["a reply of 20 kB", () => Response.json({ code: 3, message: "m".repeat(20_000) }), {}, /refused the file: m+\n/, 1],
  ];
  for (const [what, answer, settings, problem, count] of failures)
    withFileServer(`are left out of the message where the server gives ${what}, and the run goes on`, (_, number) => answer(number), settings,
      { ...upload, turns: [text("I see nothing.")] },
      async ({ board, model, uploads }) => {
        const events = await show(board, "What is this?", ["cat.jpg"]);
        expect(events.at(-1)).toMatchObject({ text: "I see nothing.", stopReason: "done" });
        const said = events.filter((event) => event.type === "error").map((event) => event.message);
        expect(said).toHaveLength(1);
        expect(said[0]!.replace("cat.jpg was not shown to the model: ", "")).toMatch(problem);
        expect(said[0]!.length).toBeLessThan(400);
        expect(parts(model.requests[0]!, 1)).toMatch(/^What is this\?\n\[cat\.jpg cannot be shown: /);
        expect(uploads).toHaveLength(count);
      });

  withFileServer("go up again after a failure that passes", (_, number) => (number < 3 ? new Response("", { status: 503 }) : stored("f-2")()), {},
    { ...upload, turns: [text("A cat.")] },
    async ({ board, model, uploads, url }) => {
      const events = await show(board, "What is this?", ["cat.jpg"]);
      expect(events.filter((event) => event.type === "retry").map((event) => event.attempt)).toEqual([1, 2]);
      expect(uploads.map((one) => sha256(one.bytes))).toEqual(Array(3).fill(sha256(cat)));
      expect(parts(model.requests[0]!, 1)[2].image_url.url).toBe(`${url}/download/f-2`);
    });

  for (const bytes of [0, 1, 300, 2600, 5200]) {
    withFileServer(`go up again, whole, where the connection is lost after ${bytes} bytes`, stored("f-4"), {},
      { ...upload, turns: [text("A cat.")], allow: /ERROR: Socket|Socket error/ },
      async ({ board, model, uploads, url }) => {
        const proxy = await cutOnce(Number(new URL(url).port), bytes);
        try {
          await board.runLine(`set_config({uploadUrl:"${proxy.url}/upload",downloadUrl:"${url}/download"})`);
          const events = await show(board, "What is this?", ["cat.jpg"]);
          expect(events.filter((event) => event.type === "retry").map((event) => event.attempt)).toEqual([1]);
          expect(uploads.map((one) => sha256(one.bytes))).toEqual([sha256(cat)]);
          expect(parts(model.requests[0]!, 1)[2].image_url.url).toBe(`${url}/download/f-4`);
        } finally {
          await proxy.close();
        }
      });
  }

  const changes: [string, (file: string) => void, RegExp][] = [
    ["is changed while it is sent", writeOver, /was changed while it was sent: show it again$/],
    ["gets shorter while it is sent", (file) => truncateSync(file, 100), /: it got shorter, or the card is gone$/],
  ];
  for (const [what, change, problem] of changes)
    withFileServer(`are left out where the file ${what}`, stored("f-5"), {},
      { ...upload, settings: { ...upload.settings, retries: 0 }, card: { "big.jpg": jpeg(300_000) }, turns: [text("I see nothing.")], timeoutMs: 120_000 },
      async ({ board, model, url }) => {
        const proxy = await cutOnce(Number(new URL(url).port), 10_000, () => change(join(board.cardFolder, "big.jpg")));
        try {
          await board.runLine(`set_config({uploadUrl:"${proxy.url}/upload"})`);
          const events = await show(board, "What is this?", ["sd:big.jpg"]);
          expect(events.filter((event) => event.type === "error").map((event) => event.message)).toEqual([expect.stringMatching(problem)]);
          expect(parts(model.requests[0]!, 1)).toMatch(/^What is this\?\n\[sd:big\.jpg cannot be shown: /);
        } finally {
          await proxy.close();
        }
      });

  withFileServer("that the model cannot reach are told with what to set", stored("f-6"), {},
    { ...upload, turns: [reply(400, { error: { message: "Error while downloading http://127.0.0.1/f-6." } })] },
    async ({ board }) => {
      const events = await show(board, "What is this?", ["cat.jpg"]);
      expect(events.at(-1)).toMatchObject({
        stopReason: "transportError",
        message: expect.stringMatching(/Error while downloading .*set_config\(\{mediaInline:true\}\) sends files within the request/),
      });
    });

  withFileServer("reach the model by the id where that is all there is", () => Response.json({ id: "file-abc", object: "file" }),
    (url) => ({ uploadUrl: `${url}/v1/files` }),
    { ...upload, files: { "cat.jpg": cat, "a.pdf": Buffer.from("%PDF-1.4 ...") }, turns: [text("A cat.")] },
    async ({ board, model, uploads }) => {
      await show(board, "What is this?", ["cat.jpg", "a.pdf"]);
      expect(uploads.map((one) => one.type)).toEqual(["image/jpeg", "application/pdf"]);
      expect(parts(model.requests[0]!, 1)[2]).toEqual({ type: "file", file: { file_id: "file-abc" } });
    });

  withFileServer("are shown to the person by send_file", stored("f-3"), (url) => ({ downloadUrl: `${url}/d/` }),
    { ...upload, turns: [toolCall("send_file", { path: "cat.jpg" }), text("There it is.")] },
    async ({ board, url }) => {
      const events = await board.ask("show me the cat");
      expect(events).toContainEqual({ type: "file", path: "cat.jpg", size: 5000, url: `${url}/d/f-3` });
      await board.expectOutput(`${url}/d/f-3`);
    });
});

describe("our gateway as the file server", () => {
  const big = jpeg(300_000);
  const options = { settings: seen, card: { "big.jpg": big }, turns: [text("A big one.")], timeoutMs: 120_000 };
  scenario("keeps what the board uploads, byte for byte, and gives the model a link", options, async ({ board, model }) => {
    const server = await startFileServer();
    const upload = { uploadUrl: `${server.url}/upload`, fileToken: server.token };
    await board.runLine(`set_config(${JSON.stringify(upload)})`);
    const events = await show(board, "What is this?", ["sd:big.jpg"]);
    expect(events.at(-1)).toMatchObject({ text: "A big one." });
    const { url } = parts(model.requests[0]!, 1)[2].image_url;
    const got = await fetch(url);
    expect(got.headers.get("content-type")).toBe("image/jpeg");
    expect(sha256(Buffer.from(await got.arrayBuffer()))).toBe(sha256(big));
  });
});

describe("files of tools", () => {
  const cat = jpeg(3001);
  const addCamera =
    'add_tool({name:"look",description:"Look.",execute:function(){return {parts:[{type:"text",content:"a picture"},{type:"image",content:"cat.jpg"}]}}})';

  for (const provider of ["openai", "anthropic"]) {
    scenario(
      `follow the results of their turn (${provider})`,
      {
        settings: { ...seen, provider },
        files: { "cat.jpg": cat },
        turns: provider === "openai" ? [[toolCall("look", {}), toolCall("add", { a: 1, b: 2 })], text("A cat, and 3."), text("Yes.")] : [claude({ name: "look", input: {} }, { name: "add", input: { a: 1, b: 2 } }), claude("A cat, and 3."), claude("Yes.")],
      },
      async ({ board, model }) => {
        await board.runLine("init_tools");
        await board.runLine(addCamera);
        const events = await board.ask("look, and add 1 and 2");
        expect(events.at(-1)).toMatchObject({ text: "A cat, and 3.", stopReason: "done" });
        const last = model.requests[1]!.json.messages.at(-1)!.content;
        if (provider === "openai") {
          expect(model.requests[1]!.json.messages.slice(-3).map((message) => message.role)).toEqual(["tool", "tool", "user"]);
          expect(last[0]).toEqual({ type: "text", text: "cat.jpg (look)" });
          expect(sha256(decoded(last[1].image_url.url))).toBe(sha256(cat));
        } else {
          expect(last.map((block: any) => block.type)).toEqual(["tool_result", "tool_result", "text", "image"]);
          expect(sha256(decoded(last[3].source.data))).toBe(sha256(cat));
        }
        await board.ask("really?");
        const text = model.requests[2]!.json.messages.at(provider === "openai" ? -3 : -3)!.content.at(-1);
        expect(text).toEqual({ type: "text", text: "[cat.jpg was shown earlier]" });
      },
    );
  }
});
