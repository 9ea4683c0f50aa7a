/** A gateway that takes files, and ways to send some. */
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { onTestFinished } from "vitest";
import type { FileOptions, GatewayOptions } from "../../gateway/server";
import { startGateway, until, type TestGateway } from "./harness";

export { jpeg, sha256 } from "../fixtures/picture";

export interface FileServer extends TestGateway {
  folder: string;
  /** Names of what is in the folder, without the lock. */
  onDisk(): Promise<string[]>;
  /** Bytes that the gateway has read of the connection from a port. */
  bytesRead(port: number): number;
}

export async function startFileServer(
  files: Partial<FileOptions> = {},
  options: Partial<GatewayOptions> = {},
): Promise<FileServer> {
  const folder = files.folder ?? (await mkdtemp(path.join(tmpdir(), "files-")));
  // Said first, it is done last: the gateway has closed by then.
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const gateway = await startGateway({ upstream: "http://127.0.0.1:9/v1", ...options, files: { folder, ...files } });
  const sockets = new Map<number, Socket>();
  gateway.gateway.app.server.on("connection", (socket) => sockets.set(socket.remotePort!, socket));
  return {
    ...gateway,
    folder,
    onDisk: () => namesIn(folder),
    bytesRead: (port) => sockets.get(port)?.bytesRead ?? 0,
  };
}

export async function namesIn(folder: string): Promise<string[]> {
  const all = await Promise.all(["content", "ids", "incoming"].map((name) => readdir(path.join(folder, name))));
  return all.flat();
}

export interface PartOptions {
  name?: string;
  /** As it stands between the quotes; undefined for a part without a file name. */
  filename?: string;
  type?: string;
  content?: string | Uint8Array;
  /** More header lines, each with its end. */
  headers?: string;
}

export const BOUNDARY = "----------------------------000000012345";

/** A form by hand. */
export function form(...parts: PartOptions[]): Buffer {
  const pieces = parts.flatMap(({ name = "file", filename, type, content = "", headers = "" }) => [
    Buffer.from(
      `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"` +
        `${filename === undefined ? "" : `; filename="${filename}"`}\r\n` +
        `${type === undefined ? "" : `Content-Type: ${type}\r\n`}${headers}\r\n`,
    ),
    Buffer.from(content as Uint8Array),
    Buffer.from("\r\n"),
  ]);
  return Buffer.concat([...pieces, Buffer.from(`--${BOUNDARY}--\r\n`)]);
}

export const formHeaders = { "content-type": `multipart/form-data; boundary=${BOUNDARY}` };

/**
 * Sends bytes as they are and returns all that comes back until the connection is over. `cut` ends it: at once, or when
 * the server has taken what was sent.
 */
export function sendRaw(server: FileServer, pieces: Uint8Array[], cut?: "at once" | "when read"): Promise<string> {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  return new Promise((resolve) => {
    let got = "";
    const socket = connect(server.port, "127.0.0.1", async () => {
      for (const piece of pieces) await new Promise((next) => socket.write(piece, next));
      if (cut === "when read") await until(() => got !== "" || server.bytesRead(socket.localPort!) >= length);
      if (cut !== undefined) socket.destroy();
    });
    socket.on("data", (piece) => (got += String(piece)));
    socket.on("error", () => {});
    socket.on("close", () => resolve(got));
  });
}

/** The head of an upload's request; `length` undefined for a chunked one. */
export function uploadHead(token: string, length: number | undefined): Buffer {
  const framing = length === undefined ? "Transfer-Encoding: chunked" : `Content-Length: ${length}`;
  return Buffer.from(
    `POST /upload HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\nAuthorization: Bearer ${token}\r\n` +
      `Content-Type: multipart/form-data; boundary=${BOUNDARY}\r\n${framing}\r\n\r\n`,
  );
}
