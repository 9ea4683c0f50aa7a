import { createBody } from "./body";
import { setting } from "./config";
import { failureWords, type Failure } from "./failure";
import { createReply } from "./reply";
import { openProvider } from "./provider";
import { createSseParser, type SseParser } from "./sse";
import { cutUtf8 } from "./text";
import { post, type Post } from "./transport";
import { Todo, type Provider, type ReplyCollector, type Session } from "./types";

/**
 * Text is shown in pieces of as many bytes, or what there is of it where nothing comes for a moment: each event costs as much as the reading of
 * ten deltas. How the stream was cut makes no difference to that.
 */
const SHOWN_BYTES = 96;
/** Variables that a request takes at the most, with its reply and a tool. */
const REQUEST_VARIABLES = 800;

// Sends the conversation and reads the reply; fails over to another attempt while `retries` and `retryBudgetMs` last
// and nothing was shown yet. Calls `done` once, with `own` and the reply or with what failed. Returns what stops it without
// `done`.
export function exchange<T>(
  session: Session,
  withTools: boolean,
  done: (own: T, reply: ReplyCollector | undefined, failure?: Failure) => void,
  own: T
): () => void {
  const limit = setting("sseLineBytes");
  let attempts = 0;
  /** Milliseconds waited so far between attempts. */
  let waited = 0;
  /** Ends what is under way; undefined between attempts and after the last. */
  let stop: ((failure: null) => void) | undefined;
  /** It was stopped: what is read already counts no more. */
  let over = false;
  // What follows belongs to one attempt, and is set anew by the next.
  let status = 0;
  let retryAfter = "";
  let date = "";
  /** The server says that asking again is no use, by the header that the clients of OpenAI and Anthropic go by, too. */
  let useless = false;
  /** What kind of body comes: stream, json, page or error; "" before its first character. */
  let kind = "";
  /** Its `rest` is the body, where that is no stream. */
  let sse: SseParser;
  let unread = false;
  /** Events that are recognised are thinking. */
  let thinks = false;
  let read: Provider["read"];
  /** Undefined until the server answers. */
  let reply: ReplyCollector;
  let options: Post;

  function onEvent(data: string): void {
    if (!data) {
      reply.flush();
      session.emit({ type: "error", message: "a line of the reply is longer than sseLineBytes (" + limit + ") and was left out" });
      return;
    }
    const echo = reply.echo.length;
    const before = reply.fresh.length;
    reply.idea = "";
    try {
      read(data, reply);
    } catch (e) {
      // A whole reply that cannot be read is a failure of its own, told at the end.
      if (!unread && kind === "stream") {
        reply.flush();
        session.emit({ type: "error", message: "a piece of the reply could not be read: " + (e as Error).message });
      }
      unread = true;
    }
    if (kind !== "stream" || reply.calls.length || reply.stop || reply.failure || echo !== reply.echo.length) return;
    const fresh = reply.fresh.substr(before);
    const text = fresh || reply.idea;
    // Where nothing but a text came of an event, later ones may differ from it in that text only.
    if (!text || (fresh && reply.idea)) return;
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
    // Not where it carries text and thinking, whichever of the two is the one that varies.
    // With both, the one that does not vary here would be lost of those events where it does.
    if ((fresh ? seen.fresh : seen.idea) === text + "@" && !(seen.fresh && seen.idea)) thinks = !fresh;
    else sse.learn("");
  }

  // Reads what has come. What is shown is shown from here, where the stack is still long.
  function onReady(): void {
    let text: string | undefined;
    if (kind !== "stream") {
      // The first bytes of a body, or one that is no stream.
      text = sse.rest;
      if (!kind) {
        // White space and a byte order mark, before the body, say nothing yet. Most have none, and need no copy.
        let start = text;
        if (!/^[!-~]/.test(text.charAt(0))) {
          start = text.trim();
          if (start.charAt(0) === "\xef") start = start.length < 3 ? "" : start.substr(3).trim();
        }
        const first = start.charAt(0);
        if (status < 200 || status > 299) kind = "error";
        else if (first) kind = first === "{" ? "json" : first === "<" ? "page" : "stream";
        else if (text.length > limit) text = "";
        if (kind === "json") text = text.substr(text.indexOf(first));
      }
      sse.rest = kind === "stream" ? text : text.substr(0, limit + 1);
      if (kind !== "stream") return;
    }
    while (!over) {
      text = sse.alike && sse.alike();
      if (text && thinks) reply.thought(text);
      else if (text) reply.fresh += text;
      const isOver = sse.todo === Todo.Wait || (text = sse.next()) === undefined;
      if (!isOver) onEvent(text!);
      while (reply.fresh.length >= SHOWN_BYTES) {
        text = reply.fresh;
        reply.fresh = cutUtf8(text, SHOWN_BYTES) || text;
        text = text.substr(reply.fresh.length);
        reply.flush();
        reply.fresh = text;
      }
      if (isOver) return;
    }
  }

  function onDone(broken: string): void {
    stop = undefined;
    if (!reply) begin();
    const body = kind === "stream" ? "" : sse.rest;
    const tooLong = body.length > limit;
    if (kind === "json" && !broken && !tooLong) onEvent(body);
    // What the stream ends in the middle of is no piece to warn of.
    unread = unread || kind === "stream";
    if (kind === "stream") {
      // A last line or event without its line end counts as well.
      sse.learn("");
      sse.rest += "\n\n";
      onReady();
    }
    sse.rest = "";
    reply.flush(true);
    if (reply.stop && !reply.failure) return done(own, reply);
    // What the reply came to, as a failure.
    const words = failureWords();
    let failure = words.cut();
    if (reply.failure) failure = words.http(reply.failure.status, reply.failure.message, "", "");
    else if (status && (status < 200 || status > 299)) failure = words.http(status, body, retryAfter, date);
    else if (kind === "page") failure = words.page();
    else if (!status || broken) failure = words.broken(broken || "it closed the connection");
    else if (kind === "json" && (tooLong || body.trim().endsWith("}"))) failure = words.unread(tooLong);
    if (useless || !failure.retry || reply.shown || attempts > setting("retries")) return done(own, reply, failure);
    // Exponential backoff with jitter; what the server asked for is the least.
    const wait = Math.max(failure.waitMs, Math.round(500 * (1 << attempts) * (0.75 + Math.random() / 2)));
    if (waited + wait > setting("retryBudgetMs")) {
      if (failure.waitMs) failure.message += ". It asks to wait " + Math.ceil(failure.waitMs / 1000) + " s (retryBudgetMs is shorter)";
      return done(own, reply, failure);
    }
    waited += wait;
    session.emit({ type: "retry", attempt: attempts, waitMs: wait, reason: failure.message });
    const timer = setTimeout(attempt, wait);
    stop = function () {
      clearTimeout(timer);
    };
  }

  // Makes what a reply is read with: not before the server answers.
  function begin(): void {
    const share = session.history!.bytes.length >> 2;
    sse = createSseParser(limit);
    reply = createReply(
      session.emit,
      withTools ? session.tools : undefined,
      share,
      setting("maxToolArgLen"),
      Math.min(share, setting("reasoningBytes")),
      SHOWN_BYTES
    );
    read = openProvider().read;
  }

  function onHead(code: number, received: Record<string, string>): void {
    status = code;
    // Header names keep the server's case. An answer that is there needs none of them.
    if (code < 200 || code > 299)
      for (const name in received) {
        const lower = name.toLowerCase();
        if (lower === "retry-after") retryAfter = received[name];
        else if (lower === "date") date = received[name];
        else if (lower === "x-should-retry") useless = received[name] === "false";
      }
    begin();
    options.into = sse;
    options.onQuiet = reply.flush;
  }

  function attempt(): void {
    attempts++;
    // Out of memory cannot be caught on the board: look before.
    const free = process.memory().free;
    if (free < REQUEST_VARIABLES) return done(own, reply, failureWords().memory(free));
    status = 0;
    retryAfter = date = kind = "";
    unread = thinks = useless = false;
    reply = undefined as any;
    const content = createBody(session, openProvider(), withTools && session.tools.count > 0);
    content.headers["Content-Type"] = "application/json";
    content.headers.Accept = "text/event-stream";
    content.headers["Accept-Encoding"] = "identity";
    // Our gateway then leaves out what is not read here. It takes this for the longest line.
    content.headers["X-Agent-Slim"] = String(limit);
    options = {
      url: setting("baseUrl").replace(/\/+$/, "") + content.path,
      headers: content.headers,
      length: content.length,
      next: content.next,
      close: content.close,
      totalMs: setting("requestTimeoutMs"),
      idleMs: setting("idleTimeoutMs"),
      onHead: onHead,
      onReady: onReady,
      onDone: onDone,
    };
    stop = post(options);
  }

  attempt();
  return function () {
    if (over) return;
    over = true;
    if (stop) {
      // What has come is shown before the run ends.
      if (reply) reply.flush();
      stop(null);
    }
  };
}
