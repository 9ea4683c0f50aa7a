import { setting } from "./config";

/**
 * Bytes to and from a server: the only file that calls `require("http")`. One request at a time; the body is pulled
 * piece by piece as the socket drains, so it is never in memory whole.
 */
export interface Post {
  url?: string;
  /** POST, unless it is something else. */
  method?: string;
  headers?: Record<string, string>;
  /** Bytes of the body in all: it is sent as Content-Length. */
  length: number;
  /** Gives the next piece of the body, undefined after the last. */
  next?(): string | undefined;
  /** Lets go of what `next` reads from, once it is not called any more. */
  close?(): void;
  /** Milliseconds: the whole request, and the longest silence; those of the settings where they are not given. */
  totalMs?: number;
  idleMs?: number;
  /** Called once, and let go of then. `o` is what `post` was called with. */
  onHead?(status: number, headers: Record<string, string>, o: any): void;
  /**
   * Bytes of the body are appended to its `rest`, so that they are in memory once only. `onReady` takes them off, and is also
   * called when nothing has come for a moment. To be set by `onHead` at the latest.
   */
  into?: { rest: string };
  onReady(o: any, isQuiet?: boolean): void;
  /** So many new bytes are handed on at once, fewer after a moment. */
  batch: number;
  /** Called exactly once, unless aborted. `failure` says what went wrong below HTTP: "" where the answer ended. */
  onDone(failure: string, o: any): void;
  // What follows is the transport's own, and set by `post`. The board's http has the other end of it, as `o` of its objects.
  /** There is nothing to be ended. */
  ended?: boolean;
  /** When it has to be over, and when it was last heard of. */
  until?: number;
  heard?: number;
  req?: any;
  response?: any;
  /** The timer that looks at the clock, and the one that hands on what came. */
  look?: any;
  soon?: any;
  /** What hands it on, and what ends it. */
  hand?: (o: Post) => void;
  gone?: (failure?: any) => void;
  /** With so many bytes in `into` they are handed on. */
  full?: number;
}

/** What is given to the socket at once has as many bytes, and those of one piece: it keeps them until they are gone. */
const SENT_BYTES = 256;
/** Milliseconds after which what came is handed on in any case. Another read of the socket may come before. */
const PENDING_MS = 20;
/** Milliseconds between looks at the clock, and without a byte that are a pause: a slow model's words are seen as they come. */
const LOOK_MS = 250;
const QUIET_MS = 100;

// Sends a request; `endPost` ends it. Never throws: what goes wrong reaches `onDone`.
export function post(o: Post): void {
  o.heard = getTime();
  o.until = o.heard + (o.totalMs || setting("requestTimeoutMs")) / 1000;
  o.full = o.batch;
  delete o.ended;
  try {
    let options: any = url.parse(o.url!);
    options.method = o.method || "POST";
    options.headers = o.headers;
    if (!o.method || o.length) o.headers!["Content-Length"] = String(o.length);
    const request = (o.req = require("http").request(options, takeResponse));
    options = undefined;
    delete o.headers;
    delete o.url;
    (request as any).o = o;
    request.on("more", (o.hand = ready));
    request.on("drain", send);
    request.on("error", (o.gone = takeClose));
    // From the idle loop: here the stack is deep.
    request.emit("drain");
    // One coarse timer looks at both limits: setting one anew for every piece costs more than it tells.
    o.look = setInterval(look, LOOK_MS, o);
  } catch (e) {
    // A refused connection and an unknown host throw here. Later: the caller is not done yet.
    setTimeout(endPost, 1, o, e);
  }
}

// Ends a request: the socket is closed, timers are cleared, and no callback comes any more after `onDone`. One that is over is
// left alone. `failure`: what failed; null for an abort, of which `onDone` is not told; nothing, or what the board tells of
// its socket, where the answer is over.
export function endPost(o: Post, failure?: any): void {
  const isWhole = failure === undefined || typeof failure === "boolean";
  const request = o.req;
  // Also where sending failed because the server has answered and closed the connection by then.
  if (failure !== null && !o.onHead) ready(o);
  if (o.ended) return;
  o.ended = true;
  if (o.close) o.close();
  if (o.look) clearInterval(o.look);
  if (o.soon) clearTimeout(o.soon);
  // The board's http has no abort: this flag makes it close the socket, but not before what it has received is used
  // up, which never happens to half a chunk. So that goes first.
  if (request) {
    delete request.dRcv;
    delete request.o;
    request.clsNow = true;
  }
  if (o.response) delete o.response.o;
  o.req = o.response = o.look = o.soon = undefined;
  if (failure !== null) o.onDone(isWhole ? "" : failure.message || (typeof failure === "string" ? failure : "connection failed"), o);
}

// The listeners have what they belong to as `o` of their object; none once it is over.
function takeClose(this: any, failure?: any): void {
  if (this.o) endPost(this.o, failure);
}

// Sends the next piece. Once there is none, it and what gives them are let go: they would cost 50 variables while the
// answer comes.
function send(this: any): void {
  const request = this;
  const o: Post = request.o;
  if (!o) return;
  o.heard = getTime();
  // Connecting happens with the first piece, and throws where it fails.
  try {
    let size = 0;
    let piece = o.next!();
    while (piece !== undefined && (size += piece.length) < SENT_BYTES) {
      request.write(piece);
      piece = o.next!();
    }
    if (piece !== undefined) request.write(piece);
    else {
      if (o.close) o.close();
      delete o.next;
      delete o.close;
      delete (o as any).length;
      request.removeAllListeners("drain");
      request.end();
    }
    // What it was asked with is not looked at any more once it is connected: 80 variables.
    delete request.opt;
  } catch (e) {
    endPost(o, e);
  }
}

function takeResponse(this: any, response: any): void {
  const o: Post = this.o;
  if (!o) return;
  o.heard = getTime();
  o.response = response;
  response.o = o;
  o.onHead!(parseInt(response.statusCode), response.headers, o);
  // Not needed any more: 80 variables.
  delete response.headers;
  delete response.statusCode;
  delete response.statusMessage;
  delete response.httpVersion;
  delete o.onHead;
  this.removeAllListeners("connect");
  response.on("data", takeData);
  response.on("close", o.gone);
}

// The board calls this from within itself once more for every chunk in what it read: the stack is short here, and whatever
// is to be done waits for the idle loop. An event of its own comes before the next read, as a timer may not.
function takeData(this: any, piece: string): void {
  const o: Post = this.o;
  if (!o) return;
  if ((o.into!.rest += piece).length >= o.full!) {
    o.full = Infinity;
    o.req.emit("more", o);
  } else if (!o.soon) o.soon = setTimeout(o.hand!, PENDING_MS, o);
}

// Hands on what came.
function ready(o: Post): void {
  if (o.soon) o.soon = clearTimeout(o.soon);
  if (o.ended || !o.into) return;
  o.onReady(o);
  o.full = o.into.rest.length + o.batch;
  // Now, since to read it takes a while.
  o.heard = getTime();
}

function look(o: Post): void {
  const now = getTime();
  const silence = (now - o.heard!) * 1000;
  if (silence >= QUIET_MS) {
    if (o.into) o.onReady(o, true);
    const idle = o.idleMs || setting("idleTimeoutMs");
    if (silence >= idle) endPost(o, "timeout: no byte for " + idle + " ms (idleTimeoutMs)");
  }
  if (now >= o.until!) endPost(o, "timeout: not finished after " + (o.totalMs || setting("requestTimeoutMs")) + " ms (requestTimeoutMs)");
}
