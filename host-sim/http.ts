import nodeHttp from "node:http";
import nodeHttps from "node:https";
import type { Clock, Deliver, Events } from "./clock";
import { boardError, withEvents } from "./clock";
import {
  createSockets,
  handshakeError,
  type Server,
  type ServerRequest,
  type ServerResponse,
  type Sockets,
  TLS_CLOSE_NOTIFY,
  TLS_OPTIONS,
} from "./sockets";

export interface HttpOptions {
  clock: Clock;
  /** Runs each event of a request later, never inside the caller. */
  deliver: Deliver;
  /** Whether packets can flow. Without it: always. */
  online?: () => boolean;
  /** Console lines Espruino prints where it does not throw ("ERROR: …"). */
  print?: (line: string) => void;
  /** Whether a connection is refused, where that can be known at once (see `isRefused`). Without it: never. */
  refuses?: (host: string, port: number) => boolean;
  /**
   * Called where the board would run out of memory, which no board code can catch. It should stop the running code;
   * what it throws goes through `write`. Without it `write` throws an Error "OUT OF MEMORY".
   */
  outOfMemory?: () => void;
  /**
   * Runs one call of a `data` listener with `stackBytes` of the interpreter's stack in use already, and calls
   * `onInterrupt` before it throws what no board code can catch. Without it the stack has no limit.
   */
  callData?: (fn: () => void, stackBytes: number, onInterrupt: () => void) => void;
}

/** What `http.request` takes, or a URL. `method` is sent as it is; without `port`: 80, for "https:" 443. */
export interface HttpRequestOptions {
  host?: string;
  port?: number | string | null;
  path?: string;
  method?: string;
  protocol?: string;
  headers?: Record<string, unknown>;
}

/** `statusCode` is text; header names keep the server's case; of a repeated header the first counts. */
export interface HttpResponse extends Events {
  statusCode: string;
  statusMessage: string;
  httpVersion: string;
  headers: Record<string, string>;
}

/** Events: `connect` (the response; the callback is its listener), `drain`, `error` ({code, message}). */
export interface HttpRequest extends Events {
  /** Sends the text form of `data`, one byte per character. Always false. Throws once `end` was called. */
  write(data: unknown): false;
  end(data?: unknown): void;
  /** Set to true: the socket is closed. The response, if there is one, gets `end` and `close`. */
  clsNow: boolean;
}

export interface HttpApi {
  request(options: HttpRequestOptions | string, callback?: (response: HttpResponse) => void): HttpRequest | undefined;
  get(options: HttpRequestOptions | string, callback?: (response: HttpResponse) => void): HttpRequest | undefined;
  createServer(callback: (request: ServerRequest, response: ServerResponse) => void): Server;
}

export interface Http {
  api: HttpApi;
  /** Module `net`. */
  net: Sockets["net"];
  /** Module `tls`. */
  tls: Sockets["tls"];
  /** What `require("dgram")` gives: sockets for single packets, on Node's. */
  dgram: Sockets["dgram"];
  /** Cuts every connection. No event of any request is delivered afterwards. */
  closeAll(): void;
  /** Requests that hold a connection. */
  open(): number;
}

/** What the board reads from and hands to a socket at once. */
const PIECE_BYTES = 536;
/** Unsent text of one request: of 4,000 variables an agent leaves enough for 12 kB at once, not for 14 kB. */
const MAX_UNSENT_BYTES = 13 * 1024;
/** What each chunk of one read has on the stack while the chunks after it are handed on: measured on a 32-bit build. */
const CHUNK_STACK_BYTES = 100;
/** What a response without `data` listener holds back. */
const MAX_UNREAD_BYTES = 512;
/** How often a request that waits for the link looks at it, in ms. */
const LINK_CHECK_MS = 100;
const USER_AGENT = "Espruino 2v29";
const UNSENT_DATA = -8;
const NO_CONNECTION = -11;
const NO_RESPONSE = -15;
/** lwIP's errno values, as the console shows them. */
const CONNECT_ERRNO: Record<string, number> = {
  ECONNREFUSED: 111,
  EHOSTUNREACH: 118,
  ENETUNREACH: 118,
  ETIMEDOUT: 116,
};
const ERRNO_OFFLINE = 118;
const ERRNO_REFUSED = 111;

/**
 * Espruino's `http` client on Node's. What a board does and this keeps: `Connection: close`; no Content-Length of its
 * own; connecting at the first `write` or `end`; sending and receiving in pieces of at most 536 bytes; a response
 * without Content-Length and chunked coding is over after its first data; a connection cut after the headers looks like
 * an end; no certificate is ever checked and the TLS server name is always the same; the chunks of one read are handed
 * on with nothing in between, each with a little more of the stack in use. (Where a read ends inside a chunk, a board
 * hands the chunk on in two; here it stays whole up to 536 bytes.)
 *
 * Known difference: a board waits inside the first `write` or `end` until it knows that it cannot connect and throws an
 * InternalError ("Unable to create socket", "Unable to locate host"); no event follows. So it is here while the link is
 * down, and where `refuses` knows. Of anything else Node knows later, after that call has returned: the request then
 * gets an `error` event {code: -11} with that message. The console line is the same.
 */
export function createHttp(options: HttpOptions): Http {
  const { clock } = options;
  const online = options.online ?? (() => true);
  const print = options.print ?? (() => {});
  const callData = options.callData ?? ((fn) => fn());
  const open = new Set<{ destroy(): void }>();
  const sockets = createSockets({ clock, deliver: options.deliver, online, print, refuses: options.refuses });
  let isClosed = false;

  const deliver: Deliver = (fn) =>
    options.deliver(() => {
      if (!isClosed) fn();
    });

  function request(
    wanted: HttpRequestOptions | string,
    callback?: (response: HttpResponse) => void,
  ): HttpRequest | undefined {
    const settings = typeof wanted === "string" ? parseUrl(wanted) : wanted;
    if (typeof settings !== "object" || settings === null) {
      print(`ERROR: Expecting Options to be an Object but it was ${typeName(settings)}`);
      return undefined;
    }
    if (callback !== undefined && typeof callback !== "function") {
      print(`ERROR: Expecting Callback Function but got ${typeName(callback)}`);
      return undefined;
    }
    return createRequest(settings, callback);
  }

  function createRequest(settings: HttpRequestOptions, callback?: (response: HttpResponse) => void): HttpRequest {
    const isTls = settings.protocol === "https:";
    let node: nodeHttp.ClientRequest | undefined;
    let unsent: Buffer[] = [];
    let unsentBytes = 0;
    let isEnded = false;
    let isPumping = false;
    let isDrainDue = false;
    let isDone = false;
    let closeNow: unknown;
    let response: ReturnType<typeof createResponse> | undefined;

    const req = withEvents(
      {
        write(data: unknown): false {
          if (isEnded || isDone) throw boardError("Error", "This socket is closed");
          queue(data);
          return false;
        },
        end(data?: unknown): void {
          if (isEnded || isDone) throw boardError("Error", "This socket is closed");
          if (data !== undefined) queue(data);
          connect();
          isEnded = true;
          isDrainDue = false;
          pump();
        },
      },
      deliver,
    ) as HttpRequest;
    for (const name of ["write", "end"]) Object.defineProperty(req, name, { enumerable: false });
    Object.defineProperty(req, "clsNow", {
      get: () => closeNow,
      set(value: unknown) {
        closeNow = value;
        if (value) close();
      },
      configurable: true,
    });
    if (callback) req.on("connect", callback);
    const connection = { destroy: () => finish() };

    /** Gives up the socket; nothing comes from it any more. */
    function finish(): void {
      isDone = true;
      open.delete(connection);
      unsent = [];
      node?.destroy();
    }

    /**
     * The socket closes; `error` goes to the request before the response hears of it. A board sends and looks at what
     * came in one go: of what it had sent, `drain` still comes first, and finds the socket closed.
     */
    function close(error?: { code: number; message: string }): void {
      if (isDone) return;
      finish();
      drain();
      if (error) req.emit("error", error);
      response?.close(error !== undefined);
    }

    function queue(data: unknown): void {
      const bytes = Buffer.from(String(data), "latin1");
      if (unsentBytes + bytes.length > MAX_UNSENT_BYTES) {
        finish();
        options.outOfMemory?.();
        throw boardError("Error", "OUT OF MEMORY");
      }
      connect();
      if (bytes.length > 0) unsent.push(bytes);
      unsentBytes += bytes.length;
      pump();
    }

    function connect(): void {
      if (node) return;
      if (isClosed) throw boardError("InternalError", "Not connected to the internet");
      const host = settings.host === undefined ? "127.0.0.1" : String(settings.host);
      if (!online()) {
        finish();
        if (!/^\d+\.\d+\.\d+\.\d+$/.test(host)) throw boardError("InternalError", "Unable to locate host");
        print(`ERROR: Connect failed (err ${ERRNO_OFFLINE})`);
        throw boardError("InternalError", "Unable to create socket");
      }
      if (sockets.refuses(host, portOf(settings, isTls))) {
        finish();
        print(`ERROR: Connect failed (err ${ERRNO_REFUSED})`);
        throw boardError("InternalError", "Unable to create socket");
      }
      try {
        node = openNodeRequest(settings, host, isTls);
      } catch (error) {
        finish();
        throw boardError("Error", `http.request: ${(error as Error).message}`);
      }
      open.add(connection);
      node.on("error", (error) => whenOnline(() => onError(error)));
      node.on("close", () => whenOnline(onClose));
      node.on("information", (info) =>
        onInformation(info.statusCode, info.statusMessage, info.httpVersion, info.rawHeaders),
      );
      node.on("response", (message) => {
        response = createResponse(message, message.rawHeaders);
        message.on("data", (data: Buffer) => response?.receive(data));
        message.on("end", () => response?.complete(message.complete));
        // A cut connection: `close` follows, which says all there is to say.
        message.on("error", () => {});
        message.on("close", () => response?.complete(message.complete));
      });
    }

    /** What reaches or leaves the board while the link is down waits, as TCP would repeat it until the link is back. */
    function whenOnline(fn: () => void): void {
      if (online()) return deliver(fn);
      clock.setTimeout(() => {
        if (!isDone) whenOnline(fn);
      }, LINK_CHECK_MS);
    }

    function onInformation(statusCode: number, statusMessage: string, httpVersion: string, rawHeaders: string[]): void {
      response = createResponse({ statusCode, statusMessage, httpVersion }, rawHeaders);
      node?.removeAllListeners("response");
      response.complete(true);
    }

    function onError(error: NodeJS.ErrnoException): void {
      if (isDone || response) return;
      // An address with several numbers fails as a whole, without a `syscall`.
      const errno = CONNECT_ERRNO[error.code ?? ""];
      if (errno !== undefined) {
        print(`ERROR: Connect failed (err ${errno})`);
        close({ code: NO_CONNECTION, message: "Unable to create socket" });
      } else if (error.syscall === "getaddrinfo") {
        close({ code: NO_CONNECTION, message: "Unable to locate host" });
      } else {
        close({ code: NO_RESPONSE, message: "no response" });
        const raised = isTls ? handshakeError(error) : undefined;
        if (raised)
          deliver(() => {
            throw raised;
          });
      }
    }

    function onClose(): void {
      if (!response) close({ code: NO_RESPONSE, message: "no response" });
    }

    /**
     * Sends one piece per turn of Node's event loop, in which a cut of the connection can be noticed; `drain` when all
     * is sent and more may come.
     */
    function pump(): void {
      if (isPumping || isDone) return;
      isPumping = true;
      whenOnline(() => {
        if (isDone || !node) return;
        const first = unsent.shift();
        if (!first) {
          isPumping = false;
          if (isEnded) node.end();
          return;
        }
        const piece = first.subarray(0, PIECE_BYTES);
        if (first.length > piece.length) unsent.unshift(first.subarray(piece.length));
        unsentBytes -= piece.length;
        isDrainDue = unsent.length === 0 && !isEnded;
        const goOn = (): void => {
          isPumping = false;
          drain();
          if (unsent.length > 0 || isEnded) pump();
        };
        if (node.write(piece)) setImmediate(() => whenOnline(goOn));
        else node.once("drain", goOn);
      });
    }

    function drain(): void {
      if (!isDrainDue) return;
      isDrainDue = false;
      req.emit("drain");
    }

    function createResponse(
      head: { statusCode?: number; statusMessage?: string; httpVersion: string },
      rawHeaders: string[],
    ) {
      const headers: Record<string, string> = {};
      for (let i = 0; i < rawHeaders.length; i += 2) headers[rawHeaders[i]] ??= rawHeaders[i + 1];
      const res = withEvents(
        {
          statusCode: String(head.statusCode),
          statusMessage: head.statusMessage ?? "",
          httpVersion: head.httpVersion,
          headers,
        },
        (fn) => {
          const level = levelNow;
          deliver(level === undefined ? fn : () => callListener(fn, level));
        },
      ) as HttpResponse;
      const isChunked = /^chunked$/i.test(hasHeader(headers, "transfer-encoding") ?? "");
      const isFramed = isChunked || hasHeader(headers, "content-length") !== undefined;
      /** `level`: how many chunks of the same read come before. */
      const pieces: { bytes: Buffer; level: number }[] = [];
      let lastLevel = 0;
      let readLeft = 0;
      /** Level of the data that is being handed on. */
      let levelNow: number | undefined;
      let hasListener = false;
      let isFlowing = false;
      let isCutShort = false;
      let isComplete: boolean | undefined;
      let isOver = false;

      const on = res.on;
      Object.defineProperty(res, "on", {
        value(event: string, listener: (...args: any[]) => void) {
          on(event, listener);
          if (event !== "data") return;
          hasListener = true;
          if (!isOver || pieces.length > 0) flow();
        },
        configurable: true,
      });
      // A board had said it when it sent, before anything could be answered.
      drain();
      req.emit("connect", res);

      function flow(): void {
        if (isFlowing) return;
        isFlowing = true;
        if (isOver) deliver(step);
        else whenOnline(step);
      }

      /** A board hands on each further chunk of a read from inside of what handed on the one before. */
      function callListener(fn: () => void, level: number): void {
        if (!hasListener) return;
        callData(fn, level * CHUNK_STACK_BYTES, () => {
          print("ERROR: Error processing Serial data handler - removing it.");
          res.removeAllListeners("data");
          hasListener = false;
        });
      }

      /** One read, or the end. What nobody listens to is kept for a later listener, who then has missed the end. */
      function step(): void {
        isFlowing = false;
        // What comes from now on is in another read.
        readLeft = 0;
        if (pieces.length > 0 && hasListener) {
          do {
            const { bytes, level } = pieces.shift()!;
            levelNow = level;
            res.emit("data", bytes.toString("latin1"));
          } while (pieces.length > 0 && pieces[0].level > 0);
          levelNow = undefined;
          if (!isFramed) {
            pieces.length = 0;
            isCutShort = true;
            return end();
          }
          return flow();
        }
        const held = pieces.reduce((sum, { bytes }) => sum + bytes.length, 0);
        if (isComplete !== undefined && held <= MAX_UNREAD_BYTES) end();
      }

      function end(): void {
        if (isOver) return;
        isOver = true;
        const isTlsDone = isTls && (isComplete === true || isCutShort);
        const hasUnsent = isComplete === false && unsent.length > 0;
        res.emit("end");
        finish();
        if (isTlsDone) req.emit("error", { code: TLS_CLOSE_NOTIFY, message: "unknown error" });
        if (hasUnsent) req.emit("error", { code: UNSENT_DATA, message: "unsent data" });
        res.emit("close", isTlsDone || hasUnsent);
      }

      return {
        receive(data: Buffer): void {
          for (let at = 0; at < data.length; at += PIECE_BYTES) {
            const bytes = data.subarray(at, at + PIECE_BYTES);
            // Its length in hexadecimal and two line ends go with a chunk.
            const size = isChunked ? bytes.length + bytes.length.toString(16).length + 4 : PIECE_BYTES;
            const isInRead = size <= readLeft;
            lastLevel = isInRead ? lastLevel + 1 : 0;
            readLeft = (isInRead ? readLeft : PIECE_BYTES) - size;
            pieces.push({ bytes, level: lastLevel });
          }
          flow();
        },
        complete(isWhole: boolean): void {
          isComplete ??= isWhole;
          flow();
        },
        close(hadError: boolean): void {
          if (isOver) return;
          isOver = true;
          res.emit("end");
          res.emit("close", hadError);
        },
      };
    }

    return req;
  }

  return {
    api: {
      request,
      get(wanted, callback) {
        if (typeof wanted === "object" && wanted !== null) wanted.method = "GET";
        const req = request(wanted, callback);
        req?.end();
        return req;
      },
      createServer: (callback) => sockets.createHttpServer(callback),
    },
    net: sockets.net,
    tls: sockets.tls,
    dgram: sockets.dgram,
    closeAll() {
      isClosed = true;
      sockets.closeAll();
      for (const connection of [...open]) connection.destroy();
    },
    open: () => open.size,
  };
}

function portOf(settings: HttpRequestOptions, isTls: boolean): number {
  return Number(settings.port) || (isTls ? 443 : 80);
}

function openNodeRequest(settings: HttpRequestOptions, host: string, isTls: boolean): nodeHttp.ClientRequest {
  const port = portOf(settings, isTls);
  const path = String(settings.path);
  const headers = settings.headers ?? {};
  const options: nodeHttps.RequestOptions = {
    host,
    port,
    path,
    method: String(settings.method),
    agent: false,
    setHost: false,
    ...TLS_OPTIONS,
  };
  const node = isTls ? nodeHttps.request(options) : nodeHttp.request(options);
  node.setHeader("User-Agent", USER_AGENT);
  node.setHeader("Connection", "close");
  // Node would add one of the two by itself; a board sends what it was told to.
  node.removeHeader("Content-Length");
  node.removeHeader("Transfer-Encoding");
  for (const [name, value] of Object.entries(headers)) node.setHeader(name, String(value));
  if (hasHeader(headers, "host") === undefined) {
    const given = Number(settings.port);
    node.setHeader("Host", given > 0 && given !== 80 ? `${host}:${given}` : host);
  }
  return node;
}

function hasHeader(headers: Record<string, unknown>, name: string): string | undefined {
  const key = Object.keys(headers).find((key) => key.toLowerCase() === name);
  return key === undefined ? undefined : String(headers[key]);
}

/** As Espruino's `url.parse` splits an address. */
function parseUrl(url: string): HttpRequestOptions {
  const match = /^(?:([^:/]*:)\/\/)?([^/:]*)(?::(\d*))?(\/[^]*)?$/.exec(url);
  if (!match) return { method: "GET", host: "", path: "/", port: null };
  const [, protocol, host, port, path] = match;
  return { protocol, method: "GET", host, port: port ? Number(port) : null, path: path ?? "/" };
}

function typeName(value: unknown): string {
  if (value === null) return "null";
  const names: Record<string, string> = { string: "String", boolean: "bool", number: "Number", function: "Function" };
  return names[typeof value] ?? "undefined";
}
