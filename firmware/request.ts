import { setting } from "./config";
import { failureWords, type Failure } from "./failure";
import { readHistory } from "./history";
import { find, load } from "./registry";
import { createReply } from "./reply";
import { createSseParser, type SseParser } from "./sse";
import { fillTemplate } from "./text";
import { post } from "./transport";
import type { Provider, ReplyCollector, RequestFrame, Session, ToolNode } from "./types";

/** Variables that a request takes at the most, with its reply and a tool. */
const REQUEST_VARIABLES = 600;
/** Bytes of the history in one piece of a request: a piece is copied, and the socket takes about this much at once. */
const PIECE_BYTES = 512;

// Sends the conversation and reads the reply; fails over to another attempt while `retries` and `retryBudgetMs` last
// and nothing was shown yet. Calls `done` once with the reply or with what failed. Returns what stops it without `done`.
export function exchange(
  session: Session,
  provider: Provider,
  withTools: boolean,
  done: (reply: ReplyCollector | undefined, failure?: Failure) => void
): () => void {
  const history = session.history!;
  let attempts = 0;
  /** Milliseconds waited so far between attempts. */
  let waited = 0;
  let stop: (() => void) | undefined;
  // What follows belongs to one attempt, and is set anew by the next.
  let frame: RequestFrame | undefined;
  let node: ToolNode | undefined;
  let sent = 0;
  let status = 0;
  let retryAfter = "";
  let date = "";
  /** What kind of body comes: stream, json, page or error; "" before its first character. */
  let kind = "";
  /** Body of a failed request, or of a reply that is one JSON text. */
  let body = "";
  let sse: SseParser | undefined;
  let unread = false;
  let reply: ReplyCollector;

  // The request's body, piece by piece: head, slices of the history, each tool from flash, tail.
  function next(): string | undefined {
    const f = frame;
    if (!f) return undefined;
    let piece = f.head;
    f.head = "";
    if (piece) return piece;
    const size = Math.min(PIECE_BYTES, history.used - sent);
    if (size > 0) {
      sent += size;
      return readHistory(history, sent - size, size);
    }
    piece = f.between;
    f.between = "";
    if (piece) return piece;
    if (node) {
      const tool = load(node);
      const first = node === session.tools.first;
      node = node.next;
      return provider.tool(tool, first);
    }
    frame = undefined;
    return f.tail;
  }

  function readEvents(events: string[]): void {
    for (const data of events) {
      if (!data) {
        const limit = setting("sseLineBytes");
        session.emit({ type: "error", message: "a line of the reply is longer than sseLineBytes (" + limit + ") and was left out" });
        continue;
      }
      try {
        provider.read(data, reply);
      } catch (e) {
        // A whole reply that cannot be read is a failure of its own, told at the end.
        if (!unread && kind === "stream")
          session.emit({ type: "error", message: "a piece of the reply could not be read: " + (e as Error).message });
        unread = true;
      }
      reply.flush();
    }
  }

  function onData(piece: string): void {
    const limit = setting("sseLineBytes");
    if (!kind) {
      body += piece;
      // White space and a byte order mark, before the body, say nothing yet.
      let text = body.trim();
      if (text.charAt(0) === "\xef") text = text.length < 3 ? "" : text.substr(3).trim();
      const first = text.charAt(0);
      if (status < 200 || status > 299) kind = "error";
      else if (first) kind = first === "{" ? "json" : first === "<" ? "page" : "stream";
      else if (body.length > limit) body = "";
      if (!kind) return;
      piece = kind === "json" ? body.substr(body.indexOf(first)) : body;
      body = "";
    }
    if (kind === "stream") {
      if (!sse) sse = createSseParser(limit);
      readEvents(sse.feed(piece));
    } else if (body.length <= limit) body = (body + piece).substr(0, limit + 1);
  }

  // What the reply came to, as a failure; undefined if it is an answer.
  function judge(broken: string): Failure | undefined {
    if (reply.stop && !reply.failure) return undefined;
    const words = failureWords();
    if (reply.failure) return words.http(reply.failure.status, reply.failure.message, "", "");
    if (status && (status < 200 || status > 299)) return words.http(status, body, retryAfter, date);
    if (kind === "page") return words.page();
    if (!status || broken) return words.broken(broken || "it closed the connection");
    const tooLong = body.length > setting("sseLineBytes");
    if (kind === "json" && (tooLong || body.trim().endsWith("}"))) return words.unread(tooLong);
    return words.cut();
  }

  function onDone(broken: string): void {
    stop = undefined;
    if (kind === "json" && !broken && body.length <= setting("sseLineBytes")) readEvents([body]);
    // What the stream ends in the middle of is no piece to warn of.
    unread = unread || kind === "stream";
    if (sse) readEvents(sse.end());
    reply.flush(true);
    const failure = judge(broken);
    if (!failure || !failure.retry || reply.shown || attempts > setting("retries")) return done(reply, failure);
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
    sent = status = 0;
    retryAfter = date = kind = body = "";
    unread = false;
    sse = undefined;
    reply = createReply(
      session.emit,
      function (name) {
        return withTools && !!find(session.tools, name);
      },
      history.bytes.length >> 2,
      setting("maxToolArgLen"),
      Math.min(history.bytes.length >> 2, setting("reasoningBytes"))
    );
    const tools = withTools && session.tools.count > 0;
    const f = provider.frame({
      apiKey: setting("apiKey"),
      model: setting("model"),
      systemPrompt: fillTemplate(setting("systemPrompt"), session.prompt || ""),
      maxTokens: setting("maxTokens"),
      tokensField: setting("tokensField"),
      temperature: setting("temperature"),
      topP: setting("topP"),
      withTools: tools,
    });
    frame = f;
    // Each message in the history has a comma before it; where none stands before the first, it is not sent.
    if (f.head.endsWith("[")) sent = 1;
    node = tools ? session.tools.first : undefined;
    if (tools && session.toolBytes === undefined) {
      session.toolBytes = 0;
      for (let one = node; one; one = one.next) session.toolBytes += provider.tool(load(one), one === node).length;
    }
    f.headers["Content-Type"] = "application/json";
    f.headers.Accept = "text/event-stream";
    f.headers["Accept-Encoding"] = "identity";
    stop = post({
      url: setting("baseUrl").replace(/\/+$/, "") + f.path,
      headers: f.headers,
      length: f.head.length + history.used - sent + f.between.length + (tools ? session.toolBytes! : 0) + f.tail.length,
      next: next,
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
      onData: onData,
      onDone: onDone,
    });
  }

  attempt();
  return function () {
    if (stop) stop();
  };
}
