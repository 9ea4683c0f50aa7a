import { mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import http from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { closedPort, startGateway, until, type AskOptions, type Reply } from "./harness";
import {
  BOUNDARY,
  form,
  formHeaders,
  jpeg,
  namesIn,
  sendRaw,
  sha256,
  startFileServer,
  uploadHead,
  type FileServer,
  type PartOptions,
} from "./file-server";

const picture = jpeg(300 * 1024);

function post(server: FileServer, parts: PartOptions[], more: AskOptions = {}): Promise<Reply> {
  return server.ask({ path: "/upload", body: form(...parts), ...more, headers: { ...formHeaders, ...more.headers } });
}

const get = (server: FileServer, to: string, more: AskOptions = {}): Promise<Reply> =>
  server.ask({ path: to, method: "GET", ...more });

async function uploaded(server: FileServer, part: PartOptions = {}, more: AskOptions = {}): Promise<string> {
  const { status, json } = await post(server, [{ filename: "cat.jpg", content: jpeg(1000), ...part }], more);
  expect({ status, json }).toEqual({ status: 200, json: { code: 0, message: "ok", data: expect.anything() } });
  return json.data.file_id;
}

/** The bytes of a download; no text, as `ask` gives it. */
async function download(server: FileServer, id: string): Promise<Buffer> {
  return Buffer.from(await (await fetch(`${server.url}/download/${id}`)).arrayBuffer());
}

describe("a file goes up and comes down the same", () => {
  it("as a device of the C framework sends it, and in fewer than 512 bytes of answer", async () => {
    const server = await startFileServer();
    const { status, json, headers, body } = await post(server, [
      { filename: "picture.jpg", type: "application/octet-stream", content: picture },
    ]);
    expect(status).toBe(200);
    const { file_id: id } = json.data;
    expect(json).toEqual({
      code: 0,
      message: "ok",
      data: {
        file_id: expect.stringMatching(/^file-[A-Za-z0-9_-]{24}$/),
        file_name: "picture.jpg",
        file_size: picture.length,
        content_type: "image/jpeg",
        url: `${server.url}/download/${id}`,
      },
    });
    // It reads no chunked answer.
    expect(headers["content-length"]).toBe(String(Buffer.byteLength(body)));

    const response = await fetch(json.data.url);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "content-type": "image/jpeg",
      "content-length": String(picture.length),
      "content-disposition": 'inline; filename=picture.jpg',
      "x-content-type-options": "nosniff",
      "accept-ranges": "bytes",
      etag: `"${sha256(picture)}"`,
    });
    expect(sha256(Buffer.from(await response.arrayBuffer()))).toBe(sha256(picture));

    const longest = await startFileServer({ publicUrl: `https://${"f".repeat(192)}` });
    const answer = await post(longest, [{ filename: `${"ü".repeat(300)}.jpg`, content: picture }]);
    expect(answer.json.data.file_name).toMatch(/^ü{48}\.jpg$/);
    expect(Buffer.byteLength(answer.body)).toBeLessThan(512);
  });

  it("from undici's FormData, which sends chunks", async () => {
    const server = await startFileServer();
    const body = new FormData();
    body.set("file", new Blob([new Uint8Array(picture)], { type: "image/jpeg" }), 'a "cat"\n.jpg');
    const headers = { authorization: `Bearer ${server.token}` };
    const response = await fetch(`${server.url}/upload`, { method: "POST", body, headers });
    const { data } = (await response.json()) as any;
    expect(data.file_name).toBe("a _cat__.jpg");
    expect(sha256(await download(server, data.file_id))).toBe(sha256(picture));

    const stream = new Response(body);
    const type = stream.headers.get("content-type")!;
    const chunked = await fetch(`${server.url}/upload`, {
      method: "POST",
      body: stream.body,
      headers: { ...headers, "content-type": type },
      duplex: "half",
    } as RequestInit);
    expect(await chunked.json()).toMatchObject({ code: 0, data: { file_size: picture.length } });
  });

  it("however the body is cut into pieces", async () => {
    const server = await startFileServer();
    const content = jpeg(700);
    const almost = Buffer.from(`\r\n--${BOUNDARY.slice(0, -1)}`);
    const body = form({ filename: "a.jpg", content: Buffer.concat([content, almost]) });
    const whole = Buffer.concat([uploadHead(server.token, body.length), body]);
    const cuts = fc.array(fc.integer({ min: 0, max: whole.length }), { maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(cuts, async (list) => {
        const at = [0, ...list.sort((a, b) => a - b), whole.length];
        const pieces = at.slice(1).map((end, i) => whole.subarray(at[i], end));
        expect(await sendRaw(server, pieces)).toMatch(/^HTTP\/1\.1 200 /);
      }),
      { numRuns: 40 },
    );
    const [name, ...others] = await readdir(path.join(server.folder, "content"));
    expect(others).toEqual([]);
    expect((await readFile(path.join(server.folder, "content", name!))).subarray(0, 700).equals(content)).toBe(true);
  });
});

describe("what is downloaded", () => {
  it("by range", async () => {
    const server = await startFileServer();
    const content = "0123456789";
    const id = await uploaded(server, { filename: "ten.txt", content });
    const etag = `"${sha256(Buffer.from(content))}"`;
    const cases: [Record<string, string>, number, string, string?][] = [
      [{ range: "bytes=2-4" }, 206, "234", "bytes 2-4/10"],
      [{ range: "bytes=7-" }, 206, "789", "bytes 7-9/10"],
      [{ range: "bytes=-3" }, 206, "789", "bytes 7-9/10"],
      [{ range: "bytes=-30" }, 206, content, "bytes 0-9/10"],
      [{ range: "bytes=5-500" }, 206, "56789", "bytes 5-9/10"],
      [{ range: "bytes=0-0" }, 206, "0", "bytes 0-0/10"],
      [{ range: "bytes=0-0", "if-range": etag }, 206, "0", "bytes 0-0/10"],
      [{ range: "bytes=0-0", "if-range": '"other"' }, 200, content],
      // What is no range is ignored, and several may be.
      ...["bytes=", "bytes=-", "bytes=a-b", "lines=1-2", "bytes=4-2", "bytes=0-1,4-5"].map(
        (range): [Record<string, string>, number, string] => [{ range }, 200, content],
      ),
      [{ "if-none-match": etag }, 304, ""],
      [{ "if-none-match": `"x", W/${etag}`, range: "bytes=0-1" }, 304, ""],
      [{ "if-none-match": "*" }, 304, ""],
      [{ "if-none-match": '"x"' }, 200, content],
    ];
    for (const [headers, status, body, range] of cases) {
      const answer = await get(server, `/download/${id}`, { headers, token: "" });
      expect({ headers, status: answer.status, body: answer.body }).toEqual({ headers, status, body });
      expect(answer.headers["content-range"]).toBe(range);
      if (status !== 304) expect(answer.headers["content-length"]).toBe(String(body.length));
      expect(answer.headers["x-content-type-options"]).toBe("nosniff");
    }
    for (const range of ["bytes=10-", "bytes=10-12", "bytes=-0", `bytes=${"9".repeat(400)}-`]) {
      const none = await get(server, `/download/${id}`, { headers: { range } });
      expect(none).toMatchObject({ status: 416, headers: { "content-range": "bytes */10" }, json: { code: 416 } });
    }
    const head = await server.ask({ path: `/download/${id}`, method: "HEAD", token: "" });
    expect(head).toMatchObject({ status: 200, body: "", headers: { "content-length": "10", etag } });
    expect(head.headers["content-type"]).toBe("text/plain; charset=utf-8");
  });

  it.each([
    ["no id", ""],
    ["an id of 5,000 characters", "a".repeat(5_000)],
    ["one that nobody has", `file-${"a".repeat(24)}`],
    ["a path", "..%2f..%2fetc%2fpasswd"],
    ["a name of JavaScript's own", "__proto__"],
  ])("%s: 404 that says what to do", async (_name, id) => {
    const server = await startFileServer();
    expect(await get(server, `/download/${id}`)).toMatchObject({
      status: 404,
      json: { code: 404, message: expect.stringMatching(/expired, was deleted, or never was\. Send it again/) },
    });
    const openai = await get(server, `/v1/files/${id || "x"}`);
    expect(openai).toMatchObject({ status: 404, json: { error: { code: "no_file" } } });
  });

  it("an id that is no address: 400, in the form of devices", async () => {
    const server = await startFileServer();
    for (const id of ["%zz", "%ff%fe"])
      expect(await get(server, `/download/${id}`)).toMatchObject({ status: 400, json: { code: 400, message: expect.stringMatching(/no escape/) } });
  });

  it("content that gets shorter while it is read: the connection ends", async () => {
    const server = await startFileServer();
    const bytes = jpeg(4_000_000);
    const id = await uploaded(server, { content: bytes });
    const response = await fetch(`${server.url}/download/${id}`);
    const reader = response.body!.getReader();
    let came = (await reader.read()).value!.length;
    await truncate(path.join(server.folder, "content", sha256(bytes)), 0);
    const rest = async (): Promise<void> => {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        came += value.length;
      }
    };
    await expect(rest()).rejects.toThrow();
    expect(came).toBeLessThan(bytes.length);
  });

  it.each([
    ["removed", (file: string) => rm(file)],
    ["damaged", (file: string) => truncate(file, 999)],
    ["damaged", (file: string) => rm(file).then(() => mkdir(file))],
  ])("content that somebody has %s in the folder", async (what, spoil) => {
    const server = await startFileServer();
    const id = await uploaded(server);
    const file = path.join(server.folder, "content", sha256(jpeg(1000)));
    await spoil(file);
    const message = `gateway: the content of this file has been ${what}: send it again`;
    expect(await get(server, `/download/${id}`)).toMatchObject({ status: 404, json: { code: 404, message } });
    if ((await stat(file).catch(() => undefined))?.isDirectory()) await rm(file, { recursive: true });
    // Sent again, it is there for both.
    const again = await uploaded(server);
    for (const one of [id, again]) expect((await download(server, one)).equals(jpeg(1000))).toBe(true);
  });
});

describe("uploads that are refused leave nothing", () => {
  const good = { filename: "a.jpg", content: jpeg(5_000) };
  const cases: [string, PartOptions[], number, RegExp][] = [
    ["no part", [], 400, /no file: it must be a part called "file"/],
    ["another field only", [{ name: "x", content: "y" }], 400, /no file/],
    ["a part of another name", [{ ...good, name: "photo" }], 400, /must be the part called "file"/],
    ["no file name", [{ content: "abc" }], 400, /no file name: add filename/],
    ["a bare line break in the name", [{ ...good, filename: "a\nb.jpg" }], 400, /file name on one line/],
    ["two files", [good, good], 400, /two files: send them one by one/],
    ["two files of two names", [good, { ...good, name: "more" }], 400, /two files/],
    ["a second part without a file name", [good, { content: "x" }], 400, /no file name/],
    ["too many fields", [...Array.from({ length: 20 }, (_, i) => ({ name: `f${i}` })), good], 400, /too many parts/],
    ["a long field", [{ name: "purpose", content: "x".repeat(2_000) }, good], 400, /longer than 1024 bytes/],
    ["an empty file", [{ ...good, content: "" }], 400, /empty/],
    ["20 MB", [{ ...good, content: jpeg(20_000_000) }], 413, /larger than 10485760 bytes \(--max-file-bytes\)/],
    ["an extension that is not taken", [{ ...good, filename: "a.exe" }], 415, /\.exe files are not taken: send jpg/],
    ["a page", [{ filename: "a.html", content: "<h1>hi" }], 415, /\.html files/],
    ["a program without an extension", [{ filename: "a", content: "MZ\x90\0\x03" }], 415, /not taken/],
    ["bytes of no kind", [{ filename: "a", content: Buffer.from([1, 2, 3, 0xff]) }], 415, /of no kind that is known/],
    ["another type than its name", [{ ...good, filename: "a.png" }], 415, /ends in \.png, but the file is image\/jpeg/],
    ["another type than declared", [{ ...good, type: "audio/mpeg" }], 415, /says audio\/mpeg, but the file is image/],
    ["a type that is not taken", [{ ...good, type: "text/html" }], 415, /Content-Type that is declared/],
    ["a text that is none", [{ filename: "a.txt", content: jpeg(5_000) }], 415, /ends in \.txt/],
    ["a text that is none at its end", [{ filename: "a.txt", content: `${"x".repeat(9_000)}\0` }], 415, /no kind/],
    ["Base64", [{ ...good, headers: "Content-Transfer-Encoding: base64\r\n" }], 400, /send the bytes as they are/],
  ];
  it.each(cases)("%s", async (_name, parts, status, message) => {
    const server = await startFileServer();
    const answer = await post(server, parts);
    expect(answer).toMatchObject({ status, json: { code: status, message: expect.stringMatching(message) } });
    expect(answer.json.message).toMatch(/^gateway: /);
    // The board shows 300 bytes of it.
    expect(Buffer.byteLength(answer.json.message)).toBeLessThanOrEqual(300);
    expect(await server.onDisk()).toEqual([]);
    expect((await post(server, [good])).status).toBe(200);
  });

  it.each<[string, Record<string, string>, string | Buffer, number, RegExp]>([
    ["JSON", { "content-type": "application/json" }, "{}", 415, /must be multipart\/form-data/],
    ["no type", { "content-type": "" }, "x", 415, /sent as multipart\/form-data/],
    ["a form of the other kind", { "content-type": "application/x-www-form-urlencoded" }, "file=x", 415, /multipart/],
    ["no boundary", { "content-type": "multipart/form-data" }, form(good), 400, /names no boundary/],
    ["another boundary", { "content-type": "multipart/form-data; boundary=x" }, form(good), 400, /broken|no file/],
    ["packed", { "content-encoding": "gzip" }, form(good), 415, /Content-Encoding/],
    ["no closing boundary", {}, form(good).subarray(0, -8), 400, /form is broken/],
    ["nothing", {}, "", 400, /broken|no file/],
    ["no form at all", {}, "x".repeat(100_000), 400, /broken|no file/],
  ])("%s", async (_name, headers, body, status, message) => {
    const server = await startFileServer();
    const answer = await post(server, [], { body, headers });
    expect(answer).toMatchObject({ status, json: { code: status, message: expect.stringMatching(message) } });
    expect(await server.onDisk()).toEqual([]);
  });

  it("too large, whatever the length says: without one, and around the file", async () => {
    const server = await startFileServer({ limits: { fileBytes: 1_000 } });
    const tooLarge = { status: 413, json: { code: 413 } };
    expect((await post(server, [{ ...good, content: jpeg(1_000) }])).status).toBe(200);
    expect(await post(server, [{ ...good, content: jpeg(1_001) }])).toMatchObject(tooLarge);
    const long = { name: "x".repeat(200_000) };
    const bodies = [form({ ...good, content: jpeg(300_000) }), Buffer.alloc(300_000), form(long)];
    for (const body of bodies) {
      const head = `${body.length.toString(16)}\r\n`;
      const pieces = [uploadHead(server.token, undefined), Buffer.from(head), body, Buffer.from("\r\n0\r\n\r\n")];
      expect(await sendRaw(server, pieces)).toMatch(/^HTTP\/1\.1 4(13|00) /);
    }
    expect(await server.onDisk()).toHaveLength(2);
  });

  it("a Content-Length that is wrong", async () => {
    const server = await startFileServer();
    const body = form(good);
    const short = await sendRaw(server, [uploadHead(server.token, body.length - 100), body]);
    expect(short).toMatch(/^HTTP\/1\.1 400 /);
    await sendRaw(server, [uploadHead(server.token, body.length + 100), body], "when read");
    await until(() => server.logged().filter(({ route }) => route === "/upload").length === 2);
    expect(await server.onDisk()).toEqual([]);
  });

  it("one that stops coming", async () => {
    let fire: (() => void) | undefined;
    const clock = {
      now: () => Date.now(),
      // What is still coming before the answer goes is waited for no longer than a turn.
      setTimeout: (fn: () => void, ms: number) =>
        ms === 77_000 ? void (fire = fn) : setTimeout(fn, ms === 5_000 ? 0 : ms),
      clearTimeout: (id: any) => clearTimeout(id),
    };
    const server = await startFileServer({}, { clock, limits: { stallMs: 77_000 } });
    const body = form(good);
    const answer = sendRaw(server, [uploadHead(server.token, body.length), body.subarray(0, 4_000)]);
    // It looks again and again, and gives up when nothing has come since.
    while (!server.logged().some(({ outcome }) => outcome === "upload_stalled")) {
      fire?.();
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await answer).toMatch(/^HTTP\/1\.1 408 .*nothing more of the file has come for 77 s/s);
    expect(await server.onDisk()).toEqual([]);
  });
});

describe("a connection that drops", () => {
  it("at any point of the body leaves nothing, however it was sent", async () => {
    const server = await startFileServer();
    const point = fc.record({
      size: fc.integer({ min: 1, max: 200_000 }),
      part: fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
      isChunked: fc.boolean(),
      cut: fc.constantFrom("at once" as const, "when read" as const),
    });
    let sent = 0;
    await fc.assert(
      fc.asyncProperty(point, async ({ size, part, isChunked, cut }) => {
        const field = { name: "purpose", content: "vision" };
        const body = form(field, { filename: "a.jpg", content: jpeg(Math.max(size, 20)) });
        const framed = isChunked
          ? Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from("\r\n0\r\n\r\n")])
          : body;
        const head = uploadHead(server.token, isChunked ? undefined : body.length);
        await sendRaw(server, [head, framed.subarray(0, Math.floor(part * framed.length))], cut);
        sent++;
        await until(() => server.logged().filter(({ route }) => route === "/upload").length === sent);
        expect(await server.onDisk()).toEqual([]);
      }),
      { numRuns: 60, examples: [[{ size: 20, part: 0.9999999, isChunked: false, cut: "when read" }]] },
    );
    const outcomes = new Set(server.logged().filter(({ route }) => route === "/upload").map(({ outcome }) => outcome));
    expect([...outcomes]).toEqual(["board_gone"]);
    expect((await get(server, "/metrics")).body).toContain("agent_gateway_file_bytes 0");
  });

  it("before the answer has come leaves the whole file or none", async () => {
    const server = await startFileServer();
    for (let turn = 0; turn < 20; turn++) {
      const body = form({ filename: "a.jpg", content: jpeg(5_000, turn + 2) });
      await sendRaw(server, [uploadHead(server.token, body.length), body], turn % 2 ? "at once" : "when read");
    }
    await until(() => server.logged().filter(({ route }) => route === "/upload").length === 20);
    await server.gateway.close();
    const [ids, contents, incoming] = await Promise.all(
      ["ids", "content", "incoming"].map((name) => readdir(path.join(server.folder, name))),
    );
    expect(incoming).toEqual([]);
    expect(ids!.length).toBe(contents!.length);
  });

  it("while it is being read is told in the log", async () => {
    const server = await startFileServer();
    const id = await uploaded(server, { content: jpeg(9_000_000) });
    await new Promise<void>((resolve) => {
      const request = http.get(`${server.url}/download/${id}`, (response) => {
        response.once("data", () => request.destroy());
        response.on("error", () => {});
        response.once("close", resolve);
      });
      request.on("error", () => {});
    });
    await until(() => server.logged().some(({ outcome }) => outcome === "reader_gone"));
    expect((await download(server, id)).length).toBe(9_000_000);
  });
});

describe("whose files they are", () => {
  it("an upload takes a token, in a header or in the address; a link takes none", async () => {
    const server = await startFileServer();
    for (const [token, code] of [["", "token_missing"], ["eagw_wrong", "token_unknown"]] as const) {
      const answer = await post(server, [{ filename: "a.jpg", content: picture }], { token });
      expect(answer).toMatchObject({ status: 401, json: { code: 401 } });
      expect(answer.json.message).toMatch(/token add NAME.*set_config\(\{fileToken:/);
      await until(() => server.logged().some(({ outcome }) => outcome === code));
    }
    const part = { filename: "a.jpg", content: picture };
    const byAddress = await post(server, [part], { token: "", path: `/upload?token=${server.token}` });
    expect(byAddress.status).toBe(200);
    const twice = await post(server, [part], { token: "", path: "/upload?token=a&token=b" });
    expect(twice.status).toBe(401);
    expect((await get(server, `/download/${byAddress.json.data.file_id}`, { token: "" })).status).toBe(200);
    for (const to of ["/files", "/v1/files", `/v1/files/${byAddress.json.data.file_id}/content`]) {
      expect((await get(server, to, { token: "" })).status).toBe(401);
      expect((await get(server, `${to}?token=${server.token}`, { token: "" })).status).toBe(401);
    }
    await until(() => server.lines.length > 8);
    expect(server.lines.join("")).not.toContain(server.token);
  });

  it("a board lists, reads and deletes only its own", async () => {
    const server = await startFileServer();
    const kitchen = { token: await server.tokens.add("kitchen") };
    const mine = await uploaded(server);
    const theirs = await uploaded(server, { filename: "dog.jpg" }, kitchen);
    const list = async (more?: AskOptions): Promise<string[]> =>
      (await get(server, "/files", more)).json.data.files.map((file: any) => file.file_id);
    expect(await list()).toEqual([mine]);
    expect(await list(kitchen)).toEqual([theirs]);
    for (const [to, method] of [
      [`/files/${theirs}`, "DELETE"],
      [`/v1/files/${theirs}`, "DELETE"],
      [`/v1/files/${theirs}`, "GET"],
      [`/v1/files/${theirs}/content`, "GET"],
    ] as const) {
      expect((await server.ask({ path: to, method })).status).toBe(404);
    }
    // The same content is there once, and goes with its last id.
    expect(await readdir(path.join(server.folder, "content"))).toEqual([sha256(jpeg(1000))]);
    expect(await server.ask({ path: `/files/${mine}`, method: "DELETE" })).toMatchObject({
      status: 200,
      json: { code: 0, data: { file_id: mine } },
    });
    expect((await get(server, `/download/${mine}`)).status).toBe(404);
    expect((await server.ask({ path: `/files/${mine}`, method: "DELETE" })).status).toBe(404);
    expect((await download(server, theirs)).length).toBe(1000);
    expect((await server.ask({ path: `/files/${theirs}`, method: "DELETE", ...kitchen })).status).toBe(200);
    expect(await server.onDisk()).toEqual([]);
  });

  it("uploads take no tokens: they are taken where those are used up", async () => {
    const answer = { choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } };
    const server = await startFileServer({}, { budgets: { tokensPerHour: 1 }, fetch: async () => Response.json(answer) });
    expect((await server.ask()).status).toBe(200);
    expect((await server.ask()).status).toBe(429);
    expect((await post(server, [{ filename: "a.jpg", content: jpeg(100) }])).status).toBe(200);
  });

  it("uploads count against the board's budgets", async () => {
    const server = await startFileServer({}, { budgets: { requestsPerHour: 2 } });
    await uploaded(server);
    await uploaded(server);
    const answer = await post(server, [{ filename: "a.jpg", content: picture }]);
    expect(answer).toMatchObject({ status: 429, json: { code: 429 }, headers: { "retry-after": expect.any(String) } });
    expect((await get(server, "/files")).status).toBe(200);
  });
});

describe("files go when their time is over", () => {
  it("links end, the folder is emptied, and it all survives a restart", async () => {
    let now = 1_700_000_000_000;
    const timers = new Map<() => void, number>();
    const clock = {
      now: () => now,
      setTimeout(fn: () => void, ms: number) {
        if (ms > 900_000) timers.set(fn, ms);
        return ms > 900_000 ? fn : setTimeout(fn, ms);
      },
      clearTimeout: (id: any) => (typeof id === "function" ? void timers.delete(id) : clearTimeout(id)),
    };
    const folder = await mkdtemp(path.join(tmpdir(), "files-"));
    const limits = { expireMs: 7_200_000 };
    const first = await startFileServer({ folder, limits }, { clock });
    const early = await uploaded(first);
    now += 3_600_000;
    const late = await uploaded(first, { filename: "late.jpg", content: picture });
    expect((await get(first, `/download/${late}`)).headers["cache-control"]).toBe("private, max-age=7200");
    await first.gateway.close();
    expect(timers.size).toBe(0);

    const second = await startFileServer({ folder, limits }, { clock, stateFolder: first.stateFolder });
    expect((await download(second, early)).equals(jpeg(1000))).toBe(true);
    now += 3_600_000;
    expect((await get(second, `/download/${early}`)).status).toBe(404);
    expect((await get(second, "/files", { token: first.token })).json.data.files).toMatchObject([
      { file_id: late, file_name: "late.jpg", created_at: 1_700_003_600, expires_at: 1_700_010_800 },
    ]);
    // Still there, until the timer comes.
    expect(await second.onDisk()).toHaveLength(4);
    expect([...timers.values()]).toEqual([3_600_000]);
    [...timers.keys()][0]!();
    while ((await second.onDisk()).length > 2) await new Promise((resolve) => setImmediate(resolve));
    now += 3_600_000;
    await second.gateway.close();
    // What has expired while nobody was there goes at the start.
    await startFileServer({ folder, limits }, { clock, stateFolder: first.stateFolder });
    expect(await namesIn(folder)).toEqual([]);
  });

  it("what a crash has left is cleared up, what is damaged is set aside", async () => {
    const first = await startFileServer();
    const { folder, stateFolder } = first;
    const good = await uploaded(first);
    const bad = await uploaded(first, { filename: "bad.jpg", content: jpeg(50, 7) });
    await first.gateway.close();
    await writeFile(path.join(folder, "incoming", "half"), "x");
    await writeFile(path.join(folder, "content", "0".repeat(64)), "nobody's");
    await writeFile(path.join(folder, "ids", `${good}.json.aa.tmp`), "{");
    await writeFile(path.join(folder, "ids", `${bad}.json`), '{"id":"../../x"}');
    // A gateway that was killed: nobody has this number.
    await writeFile(path.join(folder, "gateway.pid"), "999999999");
    const second = await startFileServer({ folder }, { stateFolder });
    expect((await second.onDisk()).sort()).toEqual([sha256(jpeg(1000)), `${bad}.json.bad`, `${good}.json`].sort());
    expect((await download(second, good)).length).toBe(1000);
    expect((await get(second, `/download/${bad}`)).status).toBe(404);
    expect(second.lines.join("")).toMatch(/is damaged .* it is now/);
  });

  it("one gateway at a time", async () => {
    const { folder, stateFolder } = await startFileServer();
    await writeFile(path.join(folder, "gateway.pid"), String(process.ppid));
    await expect(startFileServer({ folder }, { stateFolder })).rejects.toThrow(
      /--files: .* is used by another gateway, process \d+: stop that, or choose another/,
    );
  });
});

describe("there is only so much room", () => {
  it("in the folder: 507 that says what to do, until something is deleted", async () => {
    const server = await startFileServer({ limits: { totalBytes: 5_000 } });
    const send = (seed: number, headers = {}): Promise<Reply> =>
      post(server, [{ filename: "a.jpg", content: jpeg(2_000, seed) }], { headers });
    const first = await send(1);
    expect((await send(2)).status).toBe(200);
    const full = await send(3);
    expect(full).toMatchObject({ status: 507, json: { code: 507 } });
    expect(full.json.message).toMatch(/its 5000 bytes for files \(--files-total\) are used up: delete some, or wait/);
    expect(await server.onDisk()).toHaveLength(4);
    await server.ask({ path: `/files/${first.json.data.file_id}`, method: "DELETE" });
    expect((await send(3)).status).toBe(200);
  });

  it("for so many files", async () => {
    const server = await startFileServer({ limits: { totalFiles: 2 } });
    await uploaded(server);
    await uploaded(server);
    expect((await post(server, [{ filename: "a.jpg", content: picture }])).status).toBe(507);
  });
});

it("many at once, of the same contents, with deletions in between", async () => {
  const server = await startFileServer();
  const work = Array.from({ length: 40 }, async (_, i) => {
    const content = jpeg(50_000, 1 + (i % 4));
    const id = await uploaded(server, { content });
    expect(sha256(await download(server, id))).toBe(sha256(content));
    if (i % 2) expect((await server.ask({ path: `/files/${id}`, method: "DELETE" })).status).toBe(200);
    return id;
  });
  const ids = await Promise.all(work);
  expect(new Set(ids).size).toBe(40);
  const left = (await get(server, "/files")).json.data.files.map((file: any) => file.file_id);
  expect([...left].sort()).toEqual(ids.filter((_, i) => i % 2 === 0).sort());
  // Even numbers have two of the four contents.
  expect(await server.onDisk()).toHaveLength(20 + 2);
  for (const id of left) expect((await download(server, id)).length).toBe(50_000);
  expect((await get(server, "/metrics")).body).toContain("agent_gateway_file_bytes 100000");
});

describe("OpenAI's Files API is the same store", () => {
  const send = (server: FileServer, ...parts: PartOptions[]): Promise<Reply> =>
    post(server, [...parts, { filename: "cat.jpg", content: jpeg(1000) }], { path: "/v1/files" });

  it("makes, lists, reads and deletes", async () => {
    let now = 1_700_000_000_000;
    const clock = { now: () => now, setTimeout, clearTimeout };
    const server = await startFileServer({}, { clock });
    const made = await send(server, { name: "purpose", content: "vision" });
    expect(made).toMatchObject({ status: 200 });
    const { id } = made.json;
    expect(made.json).toEqual({
      id: expect.stringMatching(/^file-/),
      object: "file",
      bytes: 1000,
      created_at: 1_700_000_000,
      expires_at: 1_700_604_800,
      filename: "cat.jpg",
      purpose: "vision",
      status: "processed",
    });
    expect((await get(server, `/v1/files/${id}`)).json).toEqual(made.json);
    expect((await get(server, `/v1/files/${id}/content`)).headers["content-type"]).toBe("image/jpeg");
    expect((await download(server, id)).length).toBe(1000);

    const expiry = { name: "expires_after[seconds]", content: "3600" };
    now += 1000;
    const short = await send(server, { name: "purpose", content: "user_data" }, expiry);
    expect(short.json.expires_at - short.json.created_at).toBe(3600);
    now += 1000;
    const plain = await uploaded(server);
    const list = async (query: string): Promise<any> => {
      const { status, json } = await get(server, `/v1/files${query}`);
      return status === 200 ? [json.data.map((file: any) => file.id), json.has_more] : json.error.message;
    };
    const all = [plain, short.json.id, id];
    expect(await list("")).toEqual([all, false]);
    expect(await list("?order=asc&limit=2")).toEqual([[id, short.json.id], true]);
    expect(await list(`?after=${plain}&limit=1`)).toEqual([[short.json.id], true]);
    expect(await list("?purpose=vision")).toEqual([[id], false]);
    for (const query of ["limit=0", "limit=x", "order=up", "after=nobody"])
      expect(await list(`?${query}`)).toMatch(/must be/);
    expect((await server.ask({ path: `/v1/files/${id}`, method: "DELETE" })).json).toEqual({
      id,
      object: "file",
      deleted: true,
    });
    expect((await get(server, `/v1/files/${id}`)).json.error).toMatchObject({ type: "not_found_error" });
  });

  it("wants a purpose, and leaves nothing without one", async () => {
    const server = await startFileServer();
    for (const parts of [
      [],
      [{ name: "purpose", content: "<b>" }],
      [
        { name: "purpose", content: "vision" },
        { name: "expires_after[seconds]", content: "5" },
      ],
    ]) {
      expect(await send(server, ...parts)).toMatchObject({ status: 400, json: { error: { code: "bad_form" } } });
    }
    expect(await server.onDisk()).toEqual([]);
  });
});

it("metrics and log tell what has happened, and no name breaks a line", async () => {
  const server = await startFileServer();
  const id = await uploaded(server, { filename: "../\u202egnp\u2028\u001b[31m\\\"b.jpg" });
  await get(server, `/download/${id}`);
  await post(server, []);
  const { body } = await get(server, "/metrics");
  for (const line of [
    'agent_gateway_requests_total{route="/upload",status="200"} 1',
    'agent_gateway_requests_total{route="/download/:id",status="200"} 1',
    'agent_gateway_uploads_total{outcome="done"} 1',
    'agent_gateway_uploads_total{outcome="bad_form"} 1',
    "agent_gateway_file_received_bytes_total 1000",
    "agent_gateway_file_sent_bytes_total 1000",
    "agent_gateway_files 1",
    "agent_gateway_file_bytes 1000",
  ]) {
    expect(body).toContain(line);
  }
  await until(() => server.logged().filter(({ route }) => route).length === 3);
  const [up, down] = server.logged().filter(({ route }) => route);
  const known = { route: "/upload", method: "POST", board: "desk", status: 200 };
  expect(up).toMatchObject({ ...known, outcome: "done", bytes: 1000 });
  expect(up.name).toMatch(/^[\x20-\x7e]+\.jpg$/);
  expect(down).toMatchObject({ route: "/download/:id", method: "GET", file: id.slice(0, 13), type: "image/jpeg" });
  expect(down.board).toBeUndefined();
  expect(server.lines.join("")).not.toContain(id);
});

it("without a folder there are no files, and it says so", async () => {
  const gateway = await startGateway({ upstream: await closedPort() });
  for (const to of ["/upload", "/v1/files"]) {
    const { status, body } = await gateway.ask({ path: to });
    expect(status).toBe(404);
    expect(body).toMatch(/takes no files: start it with --files/);
  }
  const server = await startFileServer();
  expect(await server.ask({ path: "/upload", method: "PUT" })).toMatchObject({ status: 405, json: { code: 405 } });
});

it("ends what is under way when it stops", async () => {
  const server = await startFileServer();
  const body = form({ filename: "a.jpg", content: picture });
  const cut = sendRaw(server, [uploadHead(server.token, body.length), body.subarray(0, 5_000)]);
  while ((await server.onDisk()).length === 0) await new Promise((next) => setImmediate(next));
  await server.gateway.close();
  await cut;
  expect(await readdir(server.folder)).not.toContain("gateway.pid");
  expect(await server.onDisk()).toEqual([]);
});
