import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { CutChunk } from "../fixtures/scripted-model";

/** A Fetch-style handler behind a real HTTP server on the loopback interface. */
export interface LocalServer {
  /** `http://127.0.0.1:<port>`. */
  readonly url: string;
  /** Ends every connection and stops listening. */
  close(): Promise<void>;
}

/**
 * Serves `handle` on a free port. `Response.error()` and a failing body stream become a TCP reset. Bytes the client
 * sent beyond its Content-Length, or a body it cut short, go to `report`: the handler cannot see them.
 */
export async function serve(
  handle: (request: Request) => Promise<Response>,
  report: (problem: string) => void,
): Promise<LocalServer> {
  const server = createServer((message, response) => {
    answer(handle, message, response).catch((error: Error) => {
      report(`server: ${error.message}`);
      message.socket.resetAndDestroy();
    });
  });
  server.on("clientError", (error: NodeJS.ErrnoException & { rawPacket?: Buffer }, socket) => {
    const bytes = JSON.stringify(error.rawPacket?.toString("latin1").slice(0, 300) ?? "");
    if (error.code !== "ECONNRESET") report(`server: the request is malformed: ${error.message} at ${bytes}`);
    socket.destroy();
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

async function answer(
  handle: (request: Request) => Promise<Response>,
  message: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const pieces: Buffer[] = [];
  for await (const piece of message) pieces.push(piece as Buffer);
  const headers = Object.entries(message.headersDistinct).map(([name, values]) => [name, values!.join(", ")] as const);
  const result = await handle(
    new Request(`http://${message.headers.host ?? "127.0.0.1"}${message.url}`, {
      method: message.method,
      headers: headers.map(([name, value]) => [name, value]),
      body: message.method === "GET" || message.method === "HEAD" ? undefined : Buffer.concat(pieces),
    }),
  );
  if (result.type === "error") {
    message.socket.resetAndDestroy();
    return;
  }
  message.socket.setNoDelay(true);
  response.writeHead(result.status, Object.fromEntries(result.headers));
  response.flushHeaders();
  const reader = result.body?.getReader();
  response.once("close", () => void reader?.cancel().catch(() => undefined));
  for (;;) {
    let next: Awaited<ReturnType<NonNullable<typeof reader>["read"]>> | undefined;
    try {
      next = await reader?.read();
    } catch (error) {
      // The length of a chunk, less than that of it, and the end.
      if (error instanceof CutChunk) message.socket.end("40\r\ndata: ");
      else message.socket.resetAndDestroy();
      return;
    }
    if (!next || next.done) break;
    await new Promise((resolve) => response.write(next.value, resolve));
  }
  response.end();
}
