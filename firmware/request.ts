import { createBody } from "./body";
import { setting } from "./config";
import { failureWords, type Failure } from "./failure";
import { createReply, flush, takeCall, takeThought } from "./reply";
import { openProvider } from "./provider";
import { createSseParser, learn, type SseParser } from "./sse";
import { cutUtf8, fromJson } from "./text";
import { endPost, post, type Post } from "./transport";
import { Gives, type Provider, type Registry, type ReplyCollector, type Session } from "./types";

/**
 * Text is shown in pieces of as many bytes, or what there is of it where nothing comes for a moment: each event costs as
 * much as the reading of ten deltas. How the stream was cut makes no difference to that.
 */
const SHOWN_BYTES = 96;
/** Bytes that two or three reads of the socket bring. */
const BATCH_BYTES = 1072;
/** Variables that a request takes at the most, with its reply and a tool. */
const REQUEST_VARIABLES = 800;

/** What sends a conversation and reads the reply: plain data, as a run is. Of the functions those stay that are called often. */
export interface Exchange extends Post {
  session: Session;
  tools?: Registry;
  done: (own: any, reply: ReplyCollector | undefined, failure?: Failure) => void;
  own: any;
  attempts: number;
  /** Milliseconds waited so far between attempts. */
  waited: number;
  /** It was stopped: what is read already counts no more. */
  over?: boolean;
  // What follows belongs to one attempt, and is set anew by the next.
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
  /** Kept once thinking is recognised: it is needed for every piece then. */
  think?: typeof takeThought;
  /** What was wrong with the first event that could not be read. */
  unread?: any;
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
  const x: any = { session: session, tools: withTools ? session.tools : undefined, done: done, own: own, attempts: 0, waited: 0, most: setting("sseLineBytes") };
  attempt(x);
  return x;
}

// Ends an exchange without `done`, once; one that is over is left alone.
export function stopExchange(x: Exchange): void {
  if (x.over) return;
  x.over = true;
  if (x.timer) clearTimeout(x.timer);
  // What has come is shown before the run ends.
  if (!x.ended && x.reply) flush(x.reply);
  endPost(x, null);
}

function attempt(x: Exchange): void {
  x.attempts++;
  delete x.timer;
  // Out of memory cannot be caught on the board: look before.
  const free = process.memory().free;
  if (free < REQUEST_VARIABLES) return x.done(x.own, x.reply, failureWords().memory(free));
  x.code = 0;
  x.kind = "";
  x.batch = 1;
  x.into = x.reply = undefined;
  delete x.received;
  delete x.unread;
  createBody(x, x.session, openProvider(), !!x.tools && x.tools.count > 0);
  const headers = x.headers!;
  headers["Content-Type"] = "application/json";
  headers.Accept = "text/event-stream";
  headers["Accept-Encoding"] = "identity";
  // Our gateway then leaves out what is not read here. It takes this for the longest line.
  headers["X-Agent-Slim"] = String(x.most);
  x.onHead = takeHead;
  x.onReady = takeBytes;
  x.onDone = takeEnd;
  post(x);
}

// Makes what a reply is read with: not before the server answers.
function beginReply(x: Exchange): void {
  const session = x.session;
  const share = session.history!.bytes.length >> 2;
  const provider = openProvider();
  x.into = createSseParser(x.most);
  x.reply = createReply(
    session.emit,
    x.tools,
    share,
    setting("maxToolArgLen"),
    provider.echoes ? Math.min(share, setting("reasoningBytes")) : 0,
    SHOWN_BYTES
  );
  x.read = provider.read;
}

function takeHead(code: number, received: Record<string, string>, x: Exchange): void {
  x.code = code;
  // An answer that is there needs none of them.
  if (code < 200 || code > 299 || received["x-should-retry"]) x.received = received;
  beginReply(x);
}

// Reads the event that the parser found.
function takeEvent(x: Exchange): void {
  const reply = x.reply!;
  const sse = x.into!;
  reply.gives = Gives.Nothing;
  try {
    if (sse.data.charAt(0) === "{") {
      reply.body = sse.plain ? JSON.parse(sse.data) : fromJson(sse.data);
      x.read!(reply);
    } else takeOther(x);
  } catch (e) {
    return warn(x, e);
  }
  // Where nothing but a text came of an event, later ones may differ from it in that text only.
  if (reply.gives > Gives.More && reply.got && !reply.stop) learn(sse, reply.got, reply.gives, reply.index);
  sse.data = "";
}

// Tells of an event that is left out: because it is too long, or of the first one that cannot be read.
function warn(x: Exchange, problem?: any): void {
  const isTold = problem && x.unread;
  x.unread = problem || x.unread;
  // A whole reply that cannot be read is a failure of its own, told at the end.
  if (isTold || x.kind !== "stream") return;
  flush(x.reply!);
  x.session.emit({
    type: "error",
    message: problem
      ? "a piece of the reply could not be read: " + problem.message
      : "a line of the reply is longer than sseLineBytes (" + x.most + ") and was left out",
  });
}

// Data that does not begin as JSON does. Some gateways send text to keep a connection open.
function takeOther(x: Exchange): void {
  const reply = x.reply!;
  const data = x.into!.data.trim();
  if (!x.into!.data) return warn(x);
  if (data.startsWith("[DONE]")) reply.stop = reply.stop || "done";
  if (data.charAt(0) !== "{") return;
  reply.body = fromJson(data);
  x.read!(reply);
}

// Reads what has come. What is shown is shown from here, where the stack is still long: pieces of SHOWN_BYTES, or all there is
// where nothing comes for a moment.
function takeBytes(x: Exchange, isQuiet?: boolean): void {
  const sse = x.into!;
  const reply = x.reply!;
  if (isQuiet) return flush(reply);
  const kind = x.kind || startBody(x, sse.rest);
  const isStream = kind === "stream";
  if (!isStream) sse.rest = sse.rest.substr(0, x.most + 1);
  while (isStream && !x.over) {
    let text = "";
    let waits = false;
    if (sse.sample === undefined && sse.rest.startsWith(sse.head, sse.at)) {
      waits = sse.alike();
      text = sse.text;
      sse.text = "";
      if (sse.kind === Gives.Text) reply.fresh += text;
      else if (sse.kind === Gives.Thought) (x.think || (x.think = takeThought))(reply, text);
      else if (text) takeCall(reply, sse.index, "", "", text);
    }
    while (reply.fresh.length >= SHOWN_BYTES) {
      text = reply.fresh;
      reply.fresh = cutUtf8(text, SHOWN_BYTES) || text;
      text = text.substr(reply.fresh.length);
      flush(reply);
      reply.fresh = text;
    }
    if (waits || !sse.next()) break;
    takeEvent(x);
  }
  // Within a text nothing large is read, and several reads at once are less work.
  x.batch = sse.sample === undefined && sse.kind !== Gives.Arguments ? BATCH_BYTES : 1;
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
  if (!x.reply) beginReply(x);
  const reply = x.reply!;
  const sse = x.into!;
  const body = kind === "stream" ? "" : sse.rest;
  const tooLong = body.length > x.most;
  if (kind === "json" && !broken && !tooLong) {
    sse.data = body;
    takeEvent(x);
  }
  // What the stream ends in the middle of is no piece to warn of.
  x.unread = x.unread || kind === "stream";
  if (kind === "stream") {
    // A last line or event without its line end counts as well.
    sse.rest += "\n\n";
    takeBytes(x);
  }
  sse.rest = "";
  flush(reply, true);
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
