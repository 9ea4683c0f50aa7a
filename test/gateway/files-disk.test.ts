/** What the disk does to uploads: it is full, slow, or takes part of what it is given. */
import type { FileHandle } from "node:fs/promises";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { until } from "./harness";
import { form, formHeaders, jpeg, sendRaw, sha256, startFileServer, uploadHead, type FileServer } from "./file-server";

/** What a write to a file on its way in does instead. */
let onWrite: ((write: () => Promise<{ bytesWritten: number }>) => Promise<{ bytesWritten: number }>) | undefined;
/** What any opening of a file that is to be written does first. */
let onOpen: ((file: string) => void) | undefined;
/** Bytes that a write takes at most. */
let mostBytes = Infinity;

vi.mock("node:fs/promises", async (original) => {
  const real = await original<typeof import("node:fs/promises")>();
  return {
    ...real,
    async open(file: string, flags: string, mode?: number): Promise<FileHandle> {
      if (flags !== "r") onOpen?.(String(file));
      const handle = await real.open(file, flags, mode);
      if (!String(file).includes("incoming")) return handle;
      const write = handle.write.bind(handle) as any;
      (handle as any).write = (bytes: Buffer, at: number) => {
        const take = (): Promise<any> => write(bytes, at, Math.min(bytes.length - at, mostBytes));
        return onWrite === undefined ? take() : onWrite(take);
      };
      return handle;
    },
  };
});

beforeEach(() => {
  onWrite = onOpen = undefined;
  mostBytes = Infinity;
});

const noSpace = (code = "ENOSPC"): Error => Object.assign(new Error(`${code}: cannot write`), { code });
const content = jpeg(300_000);
const send = (server: FileServer): ReturnType<FileServer["ask"]> =>
  server.ask({ path: "/upload", body: form({ filename: "a.jpg", content }), headers: formHeaders });

describe("a disk that is full: 507, nothing is left, and the next upload is taken", () => {
  const full = { status: 507, json: { code: 507, message: expect.stringMatching(/disk is full: make room where/) } };

  it("in the middle of a file", async () => {
    const server = await startFileServer();
    let writes = 0;
    onWrite = (write) => (++writes > 2 ? Promise.reject(noSpace()) : write());
    expect(await send(server)).toMatchObject(full);
    expect(await server.onDisk()).toEqual([]);
    onWrite = undefined;
    expect((await send(server)).status).toBe(200);
  });

  it.each([
    ["at its beginning", /incoming/, "EDQUOT"],
    ["at the entry of its id", /ids/, "ENOSPC"],
  ])("%s", async (_name, place, code) => {
    const server = await startFileServer();
    onOpen = (file) => {
      if (place.test(file)) throw noSpace(code);
    };
    expect(await send(server)).toMatchObject(full);
    expect(await server.onDisk()).toEqual([]);
    expect((await server.ask({ path: "/metrics", method: "GET" })).body).toContain("agent_gateway_file_bytes 0");
    onOpen = undefined;
    expect((await send(server)).status).toBe(200);
  });

  it("for another id of what is there: that stays", async () => {
    const server = await startFileServer();
    const { json } = await send(server);
    onOpen = (file) => {
      if (/ids/.test(file)) throw noSpace();
    };
    expect(await send(server)).toMatchObject(full);
    const bytes = await (await fetch(json.data.url)).arrayBuffer();
    expect(sha256(new Uint8Array(bytes))).toBe(sha256(content));
  });

  it("any other failure is the gateway's own, and told in its log", async () => {
    const server = await startFileServer();
    onWrite = () => Promise.reject(noSpace("EIO"));
    const message = expect.stringMatching(/EIO/);
    expect(await send(server)).toMatchObject({ status: 500, json: { code: 500, message } });
    expect(await server.onDisk()).toEqual([]);
    expect(server.lines.join("")).toContain("the gateway itself failed");
  });
});

it("a disk that takes some of what it is given gets the rest", async () => {
  const server = await startFileServer();
  mostBytes = 1_000;
  const { json } = await send(server);
  mostBytes = Infinity;
  const bytes = await (await fetch(json.data.url)).arrayBuffer();
  expect(sha256(new Uint8Array(bytes))).toBe(sha256(content));
});

it("while the disk is busy the socket is not read: no body is whole in memory", async () => {
  const server = await startFileServer({ limits: { fileBytes: 50_000_000 } });
  let release = (): void => {};
  const gate = new Promise<void>((resolve) => (release = resolve));
  onWrite = async (write) => {
    await gate;
    return write();
  };
  const body = form({ filename: "a.jpg", content: jpeg(30_000_000) });
  let port = 0;
  server.gateway.app.server.on("connection", (socket) => void (port = socket.remotePort!));
  const answer = sendRaw(server, [uploadHead(server.token, body.length), body]);
  await until(() => port > 0 && server.bytesRead(port) > 0);
  // Until nothing more comes.
  let before = -1;
  while (before !== server.bytesRead(port)) {
    before = server.bytesRead(port);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  expect(before).toBeLessThan(1_000_000);
  release();
  expect(await answer).toMatch(/^HTTP\/1\.1 200 /);
});

it("a board that goes while the disk is busy leaves nothing", async () => {
  const server = await startFileServer();
  const body = form({ filename: "a.jpg", content });
  let isWaiting = false;
  let release = (): void => {};
  onWrite = async (write) => {
    isWaiting = true;
    await new Promise<void>((resolve) => (release = resolve));
    return write();
  };
  const gone = sendRaw(server, [uploadHead(server.token, body.length), body.subarray(0, 70_000)], "when read");
  await until(() => isWaiting);
  await gone;
  onWrite = undefined;
  release();
  await until(() => server.logged().some(({ outcome }) => outcome === "board_gone"));
  expect(await server.onDisk()).toEqual([]);
});
