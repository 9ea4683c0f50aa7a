/**
 * Sockets and servers of the board: modules `net` and `dgram` and `http.createServer`, on Node's `net` and `dgram`. A
 * server listens on this computer's loopback interface only, at the port the board's program asks for.
 */
import { spawnSync } from "node:child_process";
import dgram from "node:dgram";
import { existsSync, readFileSync } from "node:fs";
import net from "node:net";
import tls from "node:tls";
import type { Clock, Deliver, Events } from "./clock";
import { boardError, withEvents } from "./clock";

export interface SocketsOptions {
  clock: Clock;
  /** Runs each event later, never inside the caller. */
  deliver: Deliver;
  /** Whether packets can flow. Without it: always. */
  online?: () => boolean;
  /** Console lines Espruino prints where it does not throw ("ERROR: …"). */
  print?: (line: string) => void;
  /** Whether a connection is refused, where that can be known at once (see `isRefused`). Without it: never. */
  refuses?: (host: string, port: number) => boolean;
}

/** Events: `connect` (the socket), `data` (text), `drain`, `end`, `close` (whether there was an error), `error`. */
export interface Socket extends Events {
  /** Sends the text form of `data`. Always false. Throws once `end` was called. */
  write(data: unknown): false;
  end(data?: unknown): void;
}

export interface Server extends Events {
  /** Throws an InternalError while the board has no network. */
  listen(port: number): Server;
  close(): void;
}

/** Events: `message` (text, `{ address, port, size }`), `close` (whether there was an error: false). */
export interface DatagramSocket extends Events {
  /** `send(text, port, host)` or `send(text, offset, length, port, host)`. Throws once `close` was called. */
  send(text: unknown, ...where: unknown[]): void;
  /** Throws an InternalError where a socket of the board has the port, and not both may share it. */
  bind(port: number, callback?: (socket: DatagramSocket) => void): DatagramSocket;
  close(): void;
}

/** What an HTTP server's callback gets first. Events: `data` (text), `end`, `close`. */
export interface ServerRequest extends Events {
  method: string;
  url: string;
  headers: Record<string, string>;
}

/** What it gets second. Without `writeHead` the status is 200. */
export interface ServerResponse extends Events {
  headers: Record<string, string>;
  setHeader(name: unknown, value: unknown): void;
  writeHead(status: number, headers?: Record<string, unknown>): void;
  write(data: unknown): false;
  end(data?: unknown): void;
}

type Connect = (options: { host?: string; port?: number }, callback?: (socket: Socket) => void) => Socket | undefined;

export interface Sockets {
  net: { connect: Connect; createServer(callback: (socket: Socket) => void): Server };
  /** `connect` is heard when the computer at the other end has answered; whether it speaks TLS shows later. */
  tls: { connect: Connect };
  dgram: { createSocket(options: unknown, callback?: (socket: DatagramSocket) => void): DatagramSocket };
  createHttpServer(callback: (request: ServerRequest, response: ServerResponse) => void): Server;
  /** Whether a connection is refused, as far as that is known at once. */
  refuses(host: string, port: number): boolean;
  /** Closes everything. No event is delivered afterwards. */
  closeAll(): void;
}

/** What the board reads from a socket at once. */
const PIECE_BYTES = 536;
const NO_CONNECTION = -11;
const CLOSED = "This socket is closed";
const CONNECT_ERRNO: Record<string, number> = { ECONNREFUSED: 111, EHOSTUNREACH: 118, ENETUNREACH: 118, ETIMEDOUT: 116 };
const UNSENT_DATA = -8;
const SERVER = "Espruino 2v29";
const ERRNO_REFUSED = 111;

/** A board checks no certificate and gives every server the same name; its TLS ends with version 1.2. */
export const TLS_OPTIONS = {
  rejectUnauthorized: false,
  servername: "mbed TLS Server 1",
  maxVersion: "TLSv1.2",
} as const;
/** What TLS says when the other end has closed. */
export const TLS_CLOSE_NOTIFY = -30848;

/** The exception that a failed TLS handshake leaves; undefined where the error is none of TLS. */
export const handshakeError = (error: NodeJS.ErrnoException): Error | undefined => {
  const { code = "" } = error;
  const isCut = code === "ECONNRESET" && /TLS/.test(error.message);
  if (!isCut && !/^(EPROTO$|ERR_SSL_)/.test(code)) return undefined;
  const what = isCut ? "-0x1" : /alert/i.test(code + error.message) ? "-0x7780" : "-0x7200";
  return boardError("InternalError", `mbedtls_ssl_handshake returned ${what}`);
};

/** Where Linux shows the sockets of this computer, and the state there of those that listen. */
const SOCKET_TABLES = ["/proc/net/tcp", "/proc/net/tcp6"];
const LISTENING = "0A";
const CONNECT_MS = 2000;
const TRY_TO_CONNECT = `
  require("net")
    .connect(Number(process.argv[2]), process.argv[1])
    .on("connect", () => process.exit(0))
    .on("error", (error) => process.exit(error.code === "ECONNREFUSED" ? 1 : 0));`;

/**
 * Whether a connection to this computer is refused, found out while the caller waits, as a board does. Where the
 * system's table shows nobody who listens, another process tries: a port may be handed on to elsewhere. False for other
 * computers, and where there is no such table: it shows later then.
 */
export const isRefused = (host: string, port: number): boolean => {
  if (!/^(localhost|127\.\d+\.\d+\.\d+)$/i.test(host)) return false;
  const tables = SOCKET_TABLES.filter((file) => existsSync(file));
  const end = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const listens = (row: string): boolean => {
    const [, local = "", , state] = row.trim().split(/\s+/);
    return state === LISTENING && local.endsWith(end);
  };
  if (tables.length === 0 || tables.some((file) => readFileSync(file, "latin1").split("\n").some(listens))) return false;
  const env = { PATH: process.env.PATH };
  const attempt = spawnSync(process.execPath, ["-e", TRY_TO_CONNECT, host, String(port)], { timeout: CONNECT_MS, env });
  return attempt.status === 1;
};

const hide = (target: object, names: string[]): void => {
  for (const name of names) Object.defineProperty(target, name, { enumerable: false });
};

/** Hands on text to `data` listeners; what comes before there is one waits for it. */
const createReader = (target: Events): { push(text: string): void } => {
  const waiting: string[] = [];
  let hasListener = false;
  const { on } = target;
  Object.defineProperty(target, "on", {
    value(event: string, listener: (...list: any[]) => void) {
      on(event, listener);
      if (event !== "data") return;
      hasListener = true;
      for (const text of waiting.splice(0)) target.emit("data", text);
    },
    configurable: true,
  });
  return {
    push(text) {
      if (hasListener) target.emit("data", text);
      else waiting.push(text);
    },
  };
};

const pieces = (data: Buffer): string[] => {
  const list: string[] = [];
  for (let at = 0; at < data.length; at += PIECE_BYTES) list.push(data.toString("latin1", at, at + PIECE_BYTES));
  return list;
};

const header = (headers: Record<string, string>, name: string): string | undefined => {
  const key = Object.keys(headers).find((other) => other.toLowerCase() === name);
  return key === undefined ? undefined : headers[key];
};

/** Takes a body apart: `push` gives its text and whether that was the last of it. */
const createBody = (headers: Record<string, string>): { push(text: string): { text: string; isOver: boolean } } => {
  let rest = "";
  let chunkLeft = 0;
  let left = Number(header(headers, "content-length")) || 0;
  if (!/^chunked$/i.test(header(headers, "transfer-encoding") ?? "")) {
    return {
      push(text) {
        left -= text.length;
        return { text, isOver: left <= 0 };
      },
    };
  }
  return {
    push(given) {
      rest += given;
      let text = "";
      for (;;) {
        if (chunkLeft === 0) {
          const line = /^(?:\r\n)?([\da-fA-F]+)[^\r\n]*\r\n/.exec(rest);
          if (!line) return { text, isOver: false };
          rest = rest.slice(line[0].length);
          chunkLeft = parseInt(line[1]!, 16);
          if (chunkLeft === 0) return { text, isOver: true };
        }
        const piece = rest.slice(0, chunkLeft);
        if (piece === "") return { text, isOver: false };
        text += piece;
        chunkLeft -= piece.length;
        rest = rest.slice(piece.length);
      }
    },
  };
};

/** One set of sockets per start of the interpreter. */
export const createSockets = (options: SocketsOptions): Sockets => {
  const online = options.online ?? (() => true);
  const print = options.print ?? (() => {});
  /** At the ports of the board's own servers somebody listens, even where this computer gets to it a moment later. */
  const ownPorts = new Map<Server, number>();
  const refuses = (host: string, port: number): boolean =>
    ![...ownPorts.values()].includes(port) && !!options.refuses?.(host, port);
  const open = new Set<{ destroy(): void }>();
  let isClosed = false;
  const deliver: Deliver = (fn) =>
    options.deliver(() => {
      if (!isClosed) fn();
    });
  const needNetwork = (): void => {
    if (isClosed || !online()) throw boardError("InternalError", "Not connected to the internet");
  };

  /** Writing and ending, as both kinds of sockets have them. */
  const writer = (node: net.Socket, target: () => Events) => {
    let isEnded = false;
    let unsent = 0;
    const write = (data: unknown): false => {
      if (isEnded || node.destroyed) throw boardError("Error", CLOSED);
      const bytes = Buffer.from(String(data), "latin1");
      if (bytes.length === 0) return false;
      unsent++;
      node.write(bytes, (error) => {
        if (error) return;
        if (--unsent === 0 && !isEnded && !node.destroyed) target().emit("drain", target());
      });
      return false;
    };
    return {
      write,
      hasUnsent: () => unsent > 0,
      end(data?: unknown): void {
        if (isEnded) throw boardError("Error", CLOSED);
        if (data !== undefined) write(data);
        isEnded = true;
        node.end();
      },
    };
  };

  const track = (node: net.Socket): void => {
    open.add(node);
    node.on("close", () => open.delete(node));
  };

  const createSocket = (node: net.Socket, isClient: boolean): Socket => {
    track(node);
    let failure: { code: number; message: string } | undefined;
    let raised: Error | undefined;
    const out = writer(node, () => socket);
    const socket = withEvents({ write: out.write, end: out.end }, deliver) as unknown as Socket;
    hide(socket, ["write", "end"]);
    const reader = createReader(socket);
    node.on("data", (data) => {
      for (const piece of pieces(data)) reader.push(piece);
    });
    node.on("error", (error: NodeJS.ErrnoException) => {
      const errno = isClient ? CONNECT_ERRNO[error.code ?? ""] : undefined;
      if (errno !== undefined) print(`ERROR: Connect failed (err ${errno})`);
      if (errno !== undefined || error.syscall === "getaddrinfo") {
        const message = errno === undefined ? "Unable to locate host" : "Unable to create socket";
        failure = { code: NO_CONNECTION, message };
        return;
      }
      raised = handshakeError(error);
      if (raised && out.hasUnsent()) failure = { code: UNSENT_DATA, message: "unsent data" };
    });
    node.on("end", () => {
      if (node instanceof tls.TLSSocket) failure = { code: TLS_CLOSE_NOTIFY, message: "unknown error" };
      node.end();
    });
    node.on("close", () => {
      if (failure) socket.emit("error", failure);
      socket.emit("end");
      socket.emit("close", failure !== undefined);
      if (raised) {
        const error = raised;
        deliver(() => {
          throw error;
        });
      }
    });
    return socket;
  };

  const listening = (onConnection: (node: net.Socket) => void): Server => {
    const node = net.createServer({ allowHalfOpen: true }, onConnection);
    let isListening = false;
    const server = withEvents(
      {
        listen(port: number): Server {
          needNetwork();
          node.on("error", (error: NodeJS.ErrnoException) => {
            const reason = error.code === "EACCES" ? "this computer allows it to administrators only" : error.code;
            print(`ERROR: Unable to listen on port ${port}: ${reason}`);
          });
          node.listen(Number(port) & 0xffff, "127.0.0.1");
          ownPorts.set(server, Number(port) & 0xffff);
          const handle = { destroy: () => void node.close() };
          open.add(handle);
          node.on("close", () => open.delete(handle));
          isListening = true;
          return server;
        },
        close(): void {
          if (!isListening) return print("WARNING: Server not found!");
          isListening = false;
          ownPorts.delete(server);
          node.close();
        },
      },
      deliver,
    ) as unknown as Server;
    hide(server, ["listen", "close"]);
    return server;
  };

  /** Ports that datagram sockets are bound to, and whether others may be too. */
  const boundPorts = new Map<dgram.Socket, { port: number; isShared: boolean }>();
  const createDatagramSocket = (given: unknown): DatagramSocket => {
    const isShared = !!(given as { reuseAddr?: unknown } | null | undefined)?.reuseAddr;
    const node = dgram.createSocket({ type: "udp4", reuseAddr: isShared });
    let isEnded = false;
    open.add({ destroy: () => !isEnded && node.close() });
    node.on("error", (error: NodeJS.ErrnoException) => print(`ERROR: Socket error ${error.code ?? error.message}`));
    node.on("message", (data, { address, port, size }) => {
      socket.emit("message", data.toString("latin1"), { address, port, size });
    });
    node.on("close", () => {
      boundPorts.delete(node);
      socket.emit("close", false);
    });
    const socket = withEvents(
      {
        send(text: unknown, ...where: unknown[]): void {
          if (isEnded) throw boardError("Error", CLOSED);
          needNetwork();
          let bytes = Buffer.from(String(text), "latin1");
          let [port, host] = where;
          if (where.length > 2) {
            bytes = bytes.subarray(Number(port), Number(port) + Number(host));
            [, , port, host] = where;
          }
          if (bytes.length) node.send(bytes, Number(port) & 0xffff, String(host));
        },
        bind(wanted: number, callback?: (socket: DatagramSocket) => void): DatagramSocket {
          needNetwork();
          const port = Number(wanted) & 0xffff;
          const others = [...boundPorts.values()].filter((other) => other.port === port);
          if (others.some((other) => !other.isShared || !isShared)) {
            print("ERROR: Socket bind failed");
            throw boardError("InternalError", "Unable to create socket");
          }
          boundPorts.set(node, { port, isShared });
          node.bind(port, "127.0.0.1");
          if (callback) deliver(() => callback(socket));
          return socket;
        },
        close(): void {
          if (isEnded) return;
          isEnded = true;
          boundPorts.delete(node);
          node.close();
        },
        addMembership(group: unknown): void {
          throw boardError("Error", `dgramSocket.addMembership(${String(group)}) is not modelled by the simulated board`);
        },
      },
      deliver,
    ) as unknown as DatagramSocket;
    hide(socket, ["send", "bind", "close", "addMembership"]);
    return socket;
  };

  const serveHttp = (node: net.Socket, server: Server): void => {
    track(node);
    let head = "";
    let request: ServerRequest | undefined;
    let body: ReturnType<typeof createBody> | undefined;
    let reader: ReturnType<typeof createReader> | undefined;
    let response: ServerResponse;
    let isOver = false;

    const finish = (): void => {
      if (isOver) return;
      isOver = true;
      request?.emit("end");
    };
    /** A board sees that nothing more has come when it looks again: the program has had its turn by then. */
    let turn = 0;
    const finishLater = (): void => {
      const own = ++turn;
      setImmediate(() =>
        deliver(() => {
          if (own === turn) finish();
        }),
      );
    };
    const receive = (text: string): void => {
      if (!request) {
        head += text;
        const end = head.indexOf("\r\n\r\n");
        if (end < 0) return;
        const rest = head.slice(end + 4);
        const [line = "", ...lines] = head.slice(0, end).split("\r\n");
        const [method = "", url = ""] = line.split(" ");
        const headers: Record<string, string> = {};
        for (const item of lines) {
          const [, name, value] = /^([^:]+):\s*(.*)$/.exec(item) ?? [];
          if (name !== undefined) headers[name] ??= value!;
        }
        request = withEvents({ headers, method, url }, deliver) as ServerRequest;
        reader = createReader(request);
        body = createBody(headers);
        response = createResponse(node);
        server.emit("connect", request, response);
        receive(rest);
        return;
      }
      const { text: data, isOver: isLast } = body!.push(text);
      for (const piece of pieces(Buffer.from(data, "latin1"))) reader!.push(piece);
      if (isLast) finishLater();
    };
    node.on("data", (data) => receive(data.toString("latin1")));
    node.on("error", () => {});
    node.on("end", () => {
      if (!request) node.destroy();
    });
    node.on("close", () => {
      deliver(() => {
        if (!request) return;
        finish();
        response.emit("end");
        request.emit("close", false);
        response.emit("close", false);
      });
    });
  };

  const createResponse = (node: net.Socket): ServerResponse => {
    let hasHead = false;
    let isChunked = false;
    const out = writer(node, () => response);
    const headers: Record<string, string> = { Connection: "close" };
    const response = withEvents(
      {
        headers,
        setHeader(name: unknown, value: unknown): void {
          headers[String(name)] = String(value);
        },
        writeHead(status: number, given?: Record<string, unknown>): void {
          if (given !== undefined && (typeof given !== "object" || given === null))
            return print("ERROR: Headers sent to writeHead should be an object");
          if (hasHead) return print("ERROR: Headers have already been sent");
          hasHead = true;
          const all = { ...headers, ...given };
          isChunked = Object.entries(all).some(
            ([name, value]) => /^transfer-encoding$/i.test(name) && /^chunked$/i.test(String(value)),
          );
          const lines = Object.entries(all).map(([name, value]) => `${name}: ${String(value)}\r\n`);
          out.write(`HTTP/1.1 ${Number(status) | 0} OK\r\nServer: ${SERVER}\r\n${lines.join("")}\r\n`);
        },
        write(data: unknown): false {
          if (!hasHead) response.writeHead(200);
          const text = String(data);
          return out.write(isChunked ? `${text.length.toString(16)}\r\n${text}\r\n` : text);
        },
        end(data?: unknown): void {
          if (data !== undefined || !hasHead) response.write(data ?? "");
          out.end(isChunked ? "0\r\n\r\n" : undefined);
        },
      },
      deliver,
    ) as unknown as ServerResponse;
    hide(response, ["setHeader", "writeHead", "write", "end"]);
    return response;
  };

  const connector =
    (connect: (where: { host: string; port: number }) => net.Socket): Connect =>
    (wanted, callback) => {
      if (typeof wanted !== "object" || wanted === null) {
        print(`ERROR: Expecting Options to be an Object but it was ${typeof wanted}`);
        return undefined;
      }
      needNetwork();
      const host = wanted.host === undefined ? "127.0.0.1" : String(wanted.host);
      const port = Number(wanted.port) & 0xffff;
      if (refuses(host, port)) {
        print(`ERROR: Connect failed (err ${ERRNO_REFUSED})`);
        throw boardError("InternalError", "Unable to create socket");
      }
      const node = connect({ host, port });
      const socket = createSocket(node, true);
      if (callback) socket.on("connect", callback);
      node.on("connect", () => {
        socket.emit("connect", socket);
        if (node.writableLength === 0) socket.emit("drain", socket);
      });
      return socket;
    };

  return {
    tls: { connect: connector((where) => tls.connect({ ...where, ...TLS_OPTIONS })) },
    net: {
      connect: connector((where) => net.connect(where)),
      createServer(callback) {
        const server = listening((node) => server.emit("connect", createSocket(node, false)));
        server.on("connect", callback);
        return server;
      },
    },
    dgram: { createSocket: createDatagramSocket },
    createHttpServer(callback) {
      const server = listening((node) => serveHttp(node, server));
      server.on("connect", callback);
      return server;
    },
    refuses,
    closeAll() {
      isClosed = true;
      for (const handle of [...open]) handle.destroy();
    },
  };
};
