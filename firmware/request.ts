import { createBody } from "./body";
import { setting } from "./config";
import { failureWords, type Failure } from "./failure";
import { createReply } from "./reply";
import { openProvider } from "./provider";
import { createSseParser, type SseParser } from "./sse";
import { cutUtf8 } from "./text";
import { post, type Post } from "./transport";
import { Alike, Todo, type Provider, type ReplyCollector, type Session } from "./types";

/**
 * Text is shown in pieces of as many bytes, or what there is of it where nothing comes for a moment: each event costs as
 * much as the reading of ten deltas. How the stream was cut makes no difference to that.
 */
const SHOWN_BYTES = 96;
/** Variables that a request takes at the most, with its reply and a tool. */
const REQUEST_VARIABLES = 800;

/** What sends a conversation and reads the reply: plain data, as a run is. Of the functions those stay that are called often. */
export interface Exchange extends Post {
  session: Session;
  withTools: boolean;
  done: (own: any, reply: ReplyCollector | undefined, failure?: Failure) => void;
  own: any;
  attempts: number;
  /** Milliseconds waited so far between attempts. */
  waited: number;
  /** It was stopped: what is read already counts no more. */
  over?: boolean;
  // What follows belongs to one attempt, and is set anew by the next.
  /** Ends it; undefined between attempts and after the last. */
  stop?: (failure: null) => void;
  /** Until the next attempt. */
  timer?: any;
  /** Of the answer; 0 where there is none. */
  code: number;
  /** Headers of an answer that is none. */
  received?: Record<string, string>;
  /** What kind of body comes: stream, json, page or error; "" before its first character. */
  kind: string;
  /** Its `rest` is the body, where that is no stream. Undefined until the server answers, and so is `reply`. */
  into?: SseParser;
  reply?: ReplyCollector;
  read?: Provider["read"];
  take?(x: Exchange, data: string | undefined): boolean;
  unread: boolean;
  /** What the text of events that are recognised is. */
  alike: Alike;
  /** Index of the call that it is of, where it is of one. */
  index?: any;
  /** sseLineBytes. */
  most: number;
}

// Sends the conversation and reads the reply; fails over to another attempt while `retries` and `retryBudgetMs` last
// and nothing was shown yet. Calls `done` once, with `own` and the reply or with what failed. `stopExchange` stops it without.
export function exchange<T>(
  session: Session,
  withTools: boolean,
  done: (own: T, reply: ReplyCollector | undefined, failure?: Failure) => void,
  own: T
): Exchange {
  const x: any = { session: session, withTools: withTools, done: done, own: own, attempts: 0, waited: 0, most: setting("sseLineBytes") };
  attempt(x);
  return x;
}

// Ends an exchange without `done`, once; one that is over is left alone.
export function stopExchange(x: Exchange): void {
  if (x.over) return;
  x.over = true;
  if (x.timer) clearTimeout(x.timer);
  // What has come is shown before the run ends.
  if (x.stop && x.reply) x.reply.flush();
  if (x.stop) x.stop(null);
}

function attempt(x: Exchange): void {
  x.attempts++;
  x.timer = undefined;
  // Out of memory cannot be caught on the board: look before.
  const free = process.memory().free;
  if (free < REQUEST_VARIABLES) return x.done(x.own, x.reply, failureWords().memory(free));
  x.code = 0;
  x.kind = "";
  x.unread = false;
  x.alike = Alike.Text;
  x.reply = x.received = x.onQuiet = undefined;
  const content = createBody(x.session, openProvider(), x.withTools && x.session.tools.count > 0);
  content.headers["Content-Type"] = "application/json";
  content.headers.Accept = "text/event-stream";
  content.headers["Accept-Encoding"] = "identity";
  // Our gateway then leaves out what is not read here. It takes this for the longest line.
  content.headers["X-Agent-Slim"] = String(x.most);
  x.url = setting("baseUrl").replace(/\/+$/, "") + content.path;
  x.headers = content.headers;
  x.length = content.length;
  x.next = content.next;
  x.close = content.close;
  x.totalMs = setting("requestTimeoutMs");
  x.idleMs = setting("idleTimeoutMs");
  x.onHead = takeHead;
  x.onReady = takeBytes;
  x.onDone = takeEnd;
  x.stop = post(x);
}

// Makes what a reply is read with: not before the server answers.
function beginReply(x: Exchange): void {
  const session = x.session;
  const share = session.history!.bytes.length >> 2;
  x.into = createSseParser(x.most);
  x.reply = createReply(
    session.emit,
    x.withTools ? session.tools : undefined,
    share,
    setting("maxToolArgLen"),
    Math.min(share, setting("reasoningBytes")),
    SHOWN_BYTES
  );
  x.onQuiet = x.reply.flush;
  x.read = openProvider().read;
  x.take = takeEvent;
}

function takeHead(code: number, received: Record<string, string>, x: Exchange): void {
  x.code = code;
  // An answer that is there needs none of them.
  if (code < 200 || code > 299 || received["x-should-retry"]) x.received = received;
  beginReply(x);
}

// Takes what the parser gave, and lets go of it as soon as it is read. True where there is no event.
function takeEvent(x: Exchange, data: string | undefined): boolean {
  const reply = x.reply!;
  if (data === undefined) return true;
  if (!data) {
    reply.flush();
    x.session.emit({ type: "error", message: "a line of the reply is longer than sseLineBytes (" + x.most + ") and was left out" });
    return false;
  }
  const echo = reply.echo.length;
  const before = reply.fresh.length;
  const count = reply.calls.length;
  const call = reply.calls[count - 1];
  const size = call ? call.arguments.length : 0;
  reply.idea = "";
  try {
    x.read!(data, reply);
  } catch (e) {
    // A whole reply that cannot be read is a failure of its own, told at the end.
    if (!x.unread && x.kind === "stream") {
      reply.flush();
      x.session.emit({ type: "error", message: "a piece of the reply could not be read: " + (e as Error).message });
    }
    x.unread = true;
  }
  data = "";
  if (x.kind !== "stream" || count !== reply.calls.length || reply.stop || reply.failure || echo !== reply.echo.length) return false;
  const fresh = reply.fresh.substr(before);
  const args = call ? call.arguments.substr(size) : "";
  const text = fresh || reply.idea || args;
  // Where nothing but a text came of an event, later ones may differ from it in that text only.
  if (!text || text !== fresh + reply.idea + args || /["\\]/.test(text)) return false;
  const other = x.into!.learn(text);
  if (!other) return false;
  const seen: any = { fresh: "", echo: "", echoBytes: 0, idea: "", args: "", calls: reply.calls };
  seen.thought = function (delta: any): void {
    if (delta) seen.idea = delta;
  };
  seen.call = function (index: any, id: any, name: any, delta: any): void {
    // An event may have pieces of several calls.
    seen.args = id || name ? undefined : seen.args + delta;
    if (delta) x.index = index;
  };
  try {
    x.read!(other, seen);
  } catch (e) {
    seen.args = undefined;
  }
  // Not where it carries more than one of them, whichever is the one that varies: the one that does not vary here would be
  // lost of those events where it does.
  x.alike = fresh ? Alike.Text : args ? Alike.Arguments : Alike.Thought;
  if (seen.fresh + seen.idea + seen.args !== text + "@") x.into!.learn("");
  return false;
}

// Reads what has come. What is shown is shown from here, where the stack is still long.
function takeBytes(x: Exchange): void {
  const sse = x.into!;
  const reply = x.reply!;
  const kind = x.kind || startBody(x, sse.rest);
  let text: string | undefined;
  if (kind !== "stream") {
    sse.rest = sse.rest.substr(0, x.most + 1);
    return;
  }
  while (!x.over) {
    text = sse.alike && sse.alike();
    if (text && x.alike === Alike.Text) reply.fresh += text;
    else if (text && x.alike === Alike.Thought) reply.thought(text);
    else if (text) reply.call(x.index, "", "", text);
    const isOver = sse.todo === Todo.Wait || x.take!(x, sse.next());
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

// Looks at the first bytes of a body, and returns its kind. White space and a byte order mark before it say nothing yet; most
// have none, and need no copy.
function startBody(x: Exchange, text: string): string {
  let start = text;
  if (!/^[!-~]/.test(text.charAt(0))) {
    start = text.trim();
    if (start.charAt(0) === "\xef") start = start.length < 3 ? "" : start.substr(3).trim();
  }
  const first = start.charAt(0);
  if (x.code < 200 || x.code > 299) x.kind = "error";
  else if (first) x.kind = first === "{" ? "json" : first === "<" ? "page" : "stream";
  else if (text.length > x.most) x.into!.rest = "";
  if (x.kind === "json") x.into!.rest = text.substr(text.indexOf(first));
  return x.kind;
}

function takeEnd(broken: string, x: Exchange): void {
  const code = x.code;
  const kind = x.kind;
  x.stop = undefined;
  if (!x.reply) beginReply(x);
  const reply = x.reply!;
  const sse = x.into!;
  const body = kind === "stream" ? "" : sse.rest;
  const tooLong = body.length > x.most;
  if (kind === "json" && !broken && !tooLong) x.take!(x, body);
  // What the stream ends in the middle of is no piece to warn of.
  x.unread = x.unread || kind === "stream";
  if (kind === "stream") {
    // A last line or event without its line end counts as well.
    sse.learn("");
    sse.rest += "\n\n";
    takeBytes(x);
  }
  sse.rest = "";
  reply.flush(true);
  if (reply.stop && !reply.failure) return x.done(x.own, reply);
  // What the reply came to, as a failure.
  const words = failureWords();
  let failure = words.cut();
  // Names of headers keep the server's case.
  const header: Record<string, string> = {};
  for (const name in x.received) header[name.toLowerCase()] = x.received[name];
  if (reply.failure) failure = words.http(reply.failure.status, reply.failure.message, "", "");
  else if (code && (code < 200 || code > 299)) failure = words.http(code, body, header["retry-after"] || "", header.date || "");
  else if (kind === "page") failure = words.page();
  else if (!code || broken) failure = words.broken(broken || "it closed the connection");
  else if (kind === "json" && (tooLong || body.trim().endsWith("}"))) failure = words.unread(tooLong);
  // By this header the clients of OpenAI and Anthropic go, too.
  if (header["x-should-retry"] === "false" || !failure.retry || reply.shown || x.attempts > setting("retries")) return x.done(x.own, reply, failure);
  // Exponential backoff with jitter; what the server asked for is the least.
  const wait = Math.max(failure.waitMs, Math.round(500 * (1 << x.attempts) * (0.75 + Math.random() / 2)));
  if (x.waited + wait > setting("retryBudgetMs")) {
    if (failure.waitMs) failure.message += ". It asks to wait " + Math.ceil(failure.waitMs / 1000) + " s (retryBudgetMs is shorter)";
    return x.done(x.own, reply, failure);
  }
  x.waited += wait;
  x.session.emit({ type: "retry", attempt: x.attempts, waitMs: wait, reason: failure.message });
  x.timer = setTimeout(attempt, wait, x);
}
