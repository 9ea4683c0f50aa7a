/** The server that probes of `http` and `net` talk to. It answers by path, with exactly the bytes that are written here. */
import net from "node:net";
import tls from "node:tls";
import { selfSignedCertificate } from "../gateway/certificate";

export interface TestServer {
  port: number;
  /** The same, by TLS. */
  tlsPort: number;
  /** A port at which nothing listens. */
  closedPort: number;
  close(): Promise<void>;
}

const reply = (head: string, body: string): string => `HTTP/1.1 ${head.replaceAll("\n", "\r\n")}\r\n\r\n${body}`;

const bodyOf = (request: string): string => JSON.stringify(request.slice(request.indexOf("\r\n\r\n") + 4));

/** What is sent for a path; `echo` sends the request back, `body` what follows its head, as JSON. */
const REPLIES: Record<string, (request: string) => { send: string[]; isCut?: boolean }> = {
  "/hello": () => ({ send: [reply("200 OK\nContent-Type: text/plain\nContent-Length: 5", "hello")] }),
  "/empty": () => ({ send: [reply("204 No Content\nContent-Length: 0", "")] }),
  "/chunked": () => ({ send: [reply("200 OK\nTransfer-Encoding: chunked", "5\r\nfirst\r\n6\r\nsecond\r\n0\r\n\r\n")] }),
  "/missing": () => ({ send: [reply("404 Not Found\nX-Why: it is not here\nContent-Length: 4", "gone")] }),
  "/long": () => ({ send: [reply("200 OK\nContent-Length: 1200", "0123456789".repeat(120))] }),
  "/headers": () => ({ send: [reply("200 OK\nX-A: 1\nx-a: 2\nSet-Cookie: a=b\nContent-Length: 0", "")] }),
  "/unframed": () => ({ send: [reply("200 OK\nContent-Type: text/plain", "first part, "), "second part"] }),
  "/echo": (request) => ({ send: [reply(`200 OK\nContent-Length: ${request.length}`, request)] }),
  "/body": (request) => ({
    send: [reply(`200 OK\nContent-Length: ${bodyOf(request).length}`, bodyOf(request))],
  }),
  "/reset": () => ({ send: [], isCut: true }),
  "/cut": () => ({ send: [reply("200 OK\nContent-Length: 100", "only this")], isCut: true }),
};

const isWhole = (request: string): boolean => {
  const end = request.indexOf("\r\n\r\n");
  if (end < 0) return false;
  const body = request.slice(end + 4);
  if (/\r\ntransfer-encoding: chunked/i.test(request.slice(0, end))) return /(^|\r\n)0\r\n\r\n$/.test(body);
  return body.length >= Number(/\r\ncontent-length: (\d+)/i.exec(request.slice(0, end + 2))?.[1] ?? 0);
};

const answer = (socket: net.Socket, request: string): void => {
  const path = request.split(" ")[1]?.replace(/\?.*/, "") ?? "";
  const { send, isCut } = (REPLIES[path] ?? REPLIES["/missing"]!)(request);
  const next = (): void => {
    const piece = send.shift();
    if (piece !== undefined) return void socket.write(piece, "latin1", () => setImmediate(next));
    if (isCut) socket.destroy();
    else socket.end();
  };
  next();
};

/** A system gives out the ports below this one by itself. */
const FIRST_QUIET_PORT = 61_000;
const QUIET_PORTS = 4_000;

/** Listens on the loopback interface, at ports of five digits: places in what is typed do not move. */
export const startTestServer = async (): Promise<TestServer> => {
  const open = new Set<net.Socket>();
  const serve = (socket: net.Socket): void => {
    open.add(socket);
    let request = "";
    let isAnswered = false;
    socket.on("error", () => {});
    socket.on("close", () => open.delete(socket));
    socket.on("data", (data) => {
      request += data.toString("latin1");
      if (isAnswered || !isWhole(request)) return;
      isAnswered = true;
      answer(socket, request);
    });
  };
  const bind = (target: net.Server, port: number): Promise<number> =>
    new Promise((resolve, reject) => {
      target.once("error", reject);
      target.listen(port, "127.0.0.1", () => resolve((target.address() as net.AddressInfo).port));
    });
  const end = (target: net.Server): Promise<void> => new Promise((resolve) => target.close(() => resolve()));
  const listen = async (target: net.Server): Promise<number> => {
    for (;;) {
      const port = await bind(target, 0);
      if (port >= 10_000) return port;
      await end(target);
    }
  };
  const server = net.createServer(serve);
  const secure = tls.createServer({ ...selfSignedCertificate("rsa"), maxVersion: "TLSv1.2" }, serve);
  secure.on("tlsClientError", () => {});
  const port = await listen(server);
  const tlsPort = await listen(secure);
  let closedPort: number | undefined;
  while (closedPort === undefined) {
    const other = net.createServer();
    closedPort = await bind(other, FIRST_QUIET_PORT + Math.floor(Math.random() * QUIET_PORTS)).catch(() => undefined);
    if (closedPort !== undefined) await end(other);
  }
  return {
    port,
    tlsPort,
    closedPort,
    async close() {
      for (const socket of open) socket.destroy();
      await Promise.all([end(server), end(secure)]);
    },
  };
};
