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
  /** Milliseconds: the whole request, and the longest silence. */
  totalMs: number;
  idleMs: number;
  /** Called once, and let go of then. `o` is what `post` was called with. */
  onHead?(status: number, headers: Record<string, string>, o: any): void;
  /**
   * Bytes of the body are appended to its `rest`, so that they are in memory once only. `onReady` takes them off. To be set by
   * `onHead` at the latest.
   */
  into?: { rest: string };
  onReady(o: any): void;
  /** Nothing has come for a moment. */
  onQuiet?(): void;
  /** Called exactly once, unless aborted. `failure` says what went wrong below HTTP: "" where the answer ended. */
  onDone(failure: string, o: any): void;
}

/** What is given to the socket at once has as many bytes, and those of one piece: it keeps them until they are gone. */
const SENT_BYTES = 256;
/** Bytes from which on what came is looked at at once, and milliseconds otherwise. Another read of the socket may come before. */
const PENDING_BYTES = 536;
const PENDING_MS = 20;
/** Milliseconds between looks at the clock, and without a byte that are a pause: a slow model's words are seen as they come. */
const LOOK_MS = 250;
const QUIET_MS = 100;

// Sends a request and returns what ends it, called with null: the socket is closed, timers are cleared and no callback comes
// any more. Never throws: what goes wrong reaches `onDone`.
export function post(o: Post): (failure: null) => void {
  const started = getTime();
  let heard = started;
  let over = false;
  let request: any;
  let timer: any;
  let options: any;
  /** The timer that hands on what came, and how much may be there before that is done at once. */
  let waiting: any;
  let most = PENDING_BYTES;

  // Ends the request: what failed; null for an abort; nothing, or what the board tells of its socket, where the answer is over.
  function end(failure?: any): void {
    const isWhole = failure === undefined || typeof failure === "boolean";
    // Also where sending failed because the server has answered and closed the connection by then.
    if (failure !== null && !o.onHead) ready();
    if (over) return;
    over = true;
    if (o.close) o.close();
    if (timer) clearInterval(timer);
    if (waiting) clearTimeout(waiting);
    // The board's http has no abort: this flag makes it close the socket, but not before what it has received is used
    // up, which never happens to half a chunk. So that goes first.
    if (request) {
      delete request.dRcv;
      request.clsNow = true;
    }
    request = undefined;
    if (failure !== null) o.onDone(isWhole ? "" : failure.message || (typeof failure === "string" ? failure : "connection failed"), o);
  }

  // Sends the next piece. Once there is none, it and what gives them are let go: they would cost 50 variables while the
  // answer comes.
  let send: any = function (): void {
    heard = getTime();
    if (over) return;
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
        send = undefined;
        request.removeAllListeners("drain");
        request.end();
      }
      // What it was asked with is not looked at any more once it is connected: 80 variables.
      delete request.opt;
    } catch (e) {
      end(e);
    }
  };

  function ready(): void {
    if (waiting) clearTimeout(waiting);
    waiting = undefined;
    if (over) return;
    o.onReady(o);
    most = o.into!.rest.length + PENDING_BYTES;
    // Now, since to read it takes a while.
    heard = getTime();
  }

  // The board calls this from within itself once more for every chunk in what it read: the stack is short here, and whatever
  // is to be done waits for the idle loop. An event of its own comes before the next read, as a timer may not.
  function onData(piece: string): void {
    if (over) return;
    if (!waiting) waiting = setTimeout(ready, PENDING_MS);
    o.into!.rest += piece;
    if (o.into!.rest.length < most) return;
    most = Infinity;
    request.emit("more");
  }

  try {
    options = url.parse(o.url!);
    options.method = o.method || "POST";
    options.headers = o.headers;
    if (!o.method || o.length) o.headers!["Content-Length"] = String(o.length);
    request = require("http").request(options, function (response: any) {
      if (over) return;
      heard = getTime();
      o.onHead!(parseInt(response.statusCode), response.headers, o);
      // Not needed any more: 80 variables.
      delete response.headers;
      delete response.statusCode;
      delete response.statusMessage;
      delete response.httpVersion;
      delete o.onHead;
      request.removeAllListeners("connect");
      response.on("data", onData);
      response.on("close", end);
    });
    request.on("more", ready);
    options = undefined;
    delete o.headers;
    delete o.url;
    request.on("drain", send);
    request.on("error", end);
    // From the idle loop: here the stack is deep.
    setTimeout(send, 1);
    // One coarse timer looks at both limits: setting one anew for every piece costs more than it tells.
    timer = setInterval(function () {
      const now = getTime();
      const silence = (now - heard) * 1000;
      if (silence >= QUIET_MS && o.onQuiet) o.onQuiet();
      if (silence >= o.idleMs) end("timeout: no byte for " + o.idleMs + " ms (idleTimeoutMs)");
      else if ((now - started) * 1000 >= o.totalMs) end("timeout: not finished after " + o.totalMs + " ms (requestTimeoutMs)");
    }, LOOK_MS);
  } catch (e) {
    // A refused connection and an unknown host throw here. Later, since the caller has not got its handle yet.
    setTimeout(end, 1, e);
  }
  return end;
}
