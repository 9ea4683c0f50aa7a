import { createBody, type Body } from "./body";
import { setting } from "./config";
import { failureWords, type Failure } from "./failure";
import { find } from "./registry";
import { createReply } from "./reply";
import { openProvider } from "./provider";
import { createSseParser, type SseParser } from "./sse";
import { post } from "./transport";
import type { Provider, ReplyCollector, Session } from "./types";

/** Variables that a request takes at the most, with its reply and a tool. */
const REQUEST_VARIABLES = 600;

// Sends the conversation and reads the reply; fails over to another attempt while `retries` and `retryBudgetMs` last
// and nothing was shown yet. Calls `done` once with the reply or with what failed. Returns what stops it without `done`.
export function exchange(
  session: Session,
  withTools: boolean,
  done: (reply: ReplyCollector | undefined, failure?: Failure) => void
): () => void {
  /** Bytes of the history that the reply may fill. */
  const share = session.history!.bytes.length >> 2;
  const limit = setting("sseLineBytes");
  let attempts = 0;
  /** Milliseconds waited so far between attempts. */
  let waited = 0;
  /** Ends what is under way; undefined between attempts and after the last. */
  let stop: (() => void) | undefined;
  /** It was stopped: what is read already counts no more. */
  let over = false;
  // What follows belongs to one attempt, and is set anew by the next.
  let status = 0;
  let retryAfter = "";
  let date = "";
  /** What kind of body comes: stream, json, page or error; "" before its first character. */
  let kind = "";
  /** Body of a failed request, or of a reply that is one JSON text. */
  let body = "";
  let sse: SseParser | undefined;
  let unread = false;
  /** Events that are recognised are thinking. */
  let thinks = false;
  let read: Provider["read"];
  let reply: ReplyCollector;

  function onEvent(data: string): void {
    if (!data)
      return session.emit({ type: "error", message: "a line of the reply is longer than sseLineBytes (" + limit + ") and was left out" });
    const echo = reply.echo.length;
    reply.idea = "";
    try {
      read(data, reply);
    } catch (e) {
      // A whole reply that cannot be read is a failure of its own, told at the end.
      if (!unread && kind === "stream")
        session.emit({ type: "error", message: "a piece of the reply could not be read: " + (e as Error).message });
      unread = true;
    }
    const text = reply.fresh || reply.idea;
    const mixed = reply.fresh && reply.idea;
    const isThought = !reply.fresh;
    if (!sse || !text || mixed || reply.stop || reply.failure || reply.calls.length || echo !== reply.echo.length) return;
    // Nothing but a text came of it: later events may differ from it in that text only.
    const other = sse.learn(text);
    if (!other) return;
    const seen: any = { fresh: "", echo: "", echoBytes: 0 };
    seen.thought = function (delta: any): void {
      if (delta) seen.idea = delta;
    };
    try {
      read(other, seen);
    } catch (e) {
      seen.idea = seen.fresh = "";
    }
    if ((isThought ? seen.idea : seen.fresh) === text + "@") thinks = isThought;
    else sse.head = "";
  }

  // Reads what has come. What is shown is shown from here, where the stack is still long.
  function onReady(): void {
    if (!sse && !over) begin();
    while (sse && !over) {
      const event = sse.next();
      if (event === undefined) return;
      if (!sse.isText) onEvent(event);
      else if (thinks) reply.thought(event);
      else reply.fresh = event;
      reply.flush();
    }
  }

  // Reads the first bytes of a body, or of one that is no stream.
  function begin(): void {
    if (!kind) {
      // White space and a byte order mark, before the body, say nothing yet.
      let text = body.trim();
      if (text.charAt(0) === "\xef") text = text.length < 3 ? "" : text.substr(3).trim();
      const first = text.charAt(0);
      if (status < 200 || status > 299) kind = "error";
      else if (first) kind = first === "{" ? "json" : first === "<" ? "page" : "stream";
      else if (body.length > limit) body = "";
      if (kind === "json") body = body.substr(body.indexOf(first));
    }
    if (kind !== "stream") return;
    sse = createSseParser(limit);
    sse.push(body);
    body = "";
  }

  function onDone(broken: string): void {
    stop = undefined;
    const tooLong = body.length > limit;
    if (kind === "json" && !broken && !tooLong) onEvent(body);
    // What the stream ends in the middle of is no piece to warn of.
    unread = unread || kind === "stream";
    if (sse) {
      sse.end();
      onReady();
      sse = undefined;
    }
    reply.flush(true);
    if (reply.stop && !reply.failure) return done(reply);
    // What the reply came to, as a failure.
    const words = failureWords();
    let failure = words.cut();
    if (reply.failure) failure = words.http(reply.failure.status, reply.failure.message, "", "");
    else if (status && (status < 200 || status > 299)) failure = words.http(status, body, retryAfter, date);
    else if (kind === "page") failure = words.page();
    else if (!status || broken) failure = words.broken(broken || "it closed the connection");
    else if (kind === "json" && (tooLong || body.trim().endsWith("}"))) failure = words.unread(tooLong);
    if (!failure.retry || reply.shown || attempts > setting("retries")) return done(reply, failure);
    // Exponential backoff with jitter; what the server asked for is the least.
    const wait = Math.max(failure.waitMs, Math.round(500 * (1 << attempts) * (0.75 + Math.random() / 2)));
    if (waited + wait > setting("retryBudgetMs")) {
      if (failure.waitMs) failure.message += ". It asks to wait " + Math.ceil(failure.waitMs / 1000) + " s (retryBudgetMs is shorter)";
      return done(reply, failure);
    }
    waited += wait;
    session.emit({ type: "retry", attempt: attempts, waitMs: wait, reason: failure.message });
    const timer = setTimeout(attempt, wait);
    stop = function () {
      clearTimeout(timer);
    };
  }

  function attempt(): void {
    attempts++;
    // Out of memory cannot be caught on the board: look before.
    const free = process.memory().free;
    if (free < REQUEST_VARIABLES) return done(reply, failureWords().memory(free));
    status = 0;
    retryAfter = date = kind = body = "";
    unread = thinks = false;
    sse = undefined;
    reply = createReply(
      session.emit,
      function (name) {
        return withTools && !!find(session.tools, name);
      },
      share,
      setting("maxToolArgLen"),
      Math.min(share, setting("reasoningBytes"))
    );
    // Of these only what reads is needed once the request is sent.
    let provider: Provider | undefined = openProvider();
    read = provider.read;
    let content: Body | undefined = createBody(session, provider, withTools && session.tools.count > 0);
    content.headers["Content-Type"] = "application/json";
    content.headers.Accept = "text/event-stream";
    content.headers["Accept-Encoding"] = "identity";
    // Our gateway then leaves out what is not read here. It takes this for the longest line.
    content.headers["X-Agent-Slim"] = String(limit);
    stop = post({
      url: setting("baseUrl").replace(/\/+$/, "") + content.path,
      headers: content.headers,
      length: content.length,
      next: content.next,
      close: content.close,
      totalMs: setting("requestTimeoutMs"),
      idleMs: setting("idleTimeoutMs"),
      onHead: function (code, received) {
        status = code;
        // Header names keep the server's case.
        for (const name in received) {
          const lower = name.toLowerCase();
          if (lower === "retry-after") retryAfter = received[name];
          else if (lower === "date") date = received[name];
        }
      },
      onData: function (piece) {
        if (sse) sse.push(piece);
        else if (!kind || body.length <= limit) body += piece;
      },
      onReady: onReady,
      onDone: onDone,
    });
    provider = content = undefined;
  }

  attempt();
  return function () {
    over = true;
    if (stop) stop();
  };
}
