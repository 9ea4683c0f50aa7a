import { setting } from "./config";
import { cutUtf8, fromJson, limitText } from "./text";
import { endPost, post, type Post } from "./transport";
import type { Session, ToolOutput } from "./types";

/** Variables that a request takes at the most, with its answer. */
const FETCH_VARIABLES = 800;
/** Milliseconds between looks at whether the run was stopped. */
const LOOK_MS = 500;
/** Levels of objects and arrays that are looked into. */
const LEVELS = 12;

/** One request of a tool to a service. */
export interface FetchOptions {
  url: string;
  /** Default GET, with a body POST. */
  method?: string;
  headers?: Record<string, string>;
  body?: string;
  /** In place of `body`: how many bytes it has, and its next piece, undefined after the last. */
  length?: number;
  next?(): string | undefined;
  /** Lets go of what `next` reads from. */
  close?(): void;
  /** Milliseconds: the whole request. Less than the tool may take, so that the model hears why. Default 20,000. */
  timeoutMs?: number;
  /** The conversation that asks. Stopping its run stops the request. */
  session?: Session;
}

/** A request whose answer is JSON, of which some texts and numbers are wanted. */
export interface ServiceRequest extends FetchOptions {
  /** Who is asked, in words for the model. */
  what: string;
  /** The settings that have its address and its key. */
  urlSetting: string;
  keySetting: string;
  /** See `createPicker`. */
  keys: string;
  maxString: number;
  take(key: string, value: any): boolean | void;
  /** Makes the tool's output of what was taken. */
  end(): ToolOutput;
}

/** What a service answered, whatever its status. Header names are in lower case. */
export interface Fetched {
  status: number;
  headers: Record<string, string>;
  body: string;
  /** The body was longer. */
  cut: boolean;
}

// Cuts what stands inside of a JSON string to `max` bytes, at no place where it would be no JSON string or no UTF-8.
function cutString(raw: string, max: number): string {
  raw = cutUtf8(raw, max);
  for (;;) {
    const at = raw.lastIndexOf("\\");
    const rest = raw.length - at;
    let run = at;
    while (run > 0 && raw.charAt(run - 1) === "\\") run--;
    // None near the end, or the second of two.
    if (at < 0 || rest > 6 || (at - run) & 1) return raw;
    // An escape that is whole, and is no first half of a character.
    if (rest >= (raw.charAt(at + 1) === "u" ? 6 : 2) && !/\\u[dD][89abAB]..$/.test(raw)) return raw;
    raw = raw.substr(0, at);
  }
}

// Reads some fields of a JSON text while it streams in: nothing of it is kept here but the text under way. Fields are taken
// that are named in `keys`, comma separated, and stand in objects and arrays that are named there, too, or in none. Each text,
// number and boolean is handed to `take`, those of an array of texts by the array's name; the end of an object in an array, and
// of the whole, is handed on as the key "". A text is cut to `maxString` bytes and ends in "..." then. With true, `take` has enough.
//
// Gives what takes the pieces, and says 0 as long as more is wanted, 1 where it is over, 2 for what is no JSON. Built-ins
// touch the bytes of texts; a loop runs only over what stands between them.
export function createPicker(
  keys: string,
  maxString: number,
  take: (key: string, value: any) => boolean | void
): (piece: string) => number {
  const wanted = keys.split(",");
  /** What is open, innermost first: } an object in an array, > one in an object, ] an array. */
  let open = "";
  /** How many are open inside of one that is left out, and itself. */
  let skipped = 0;
  let key = "";
  /** The next text is a key; what comes next is taken. */
  let isKey = false;
  let takes = false;
  let inString = false;
  /** The text up to here, or the number or word, and whether it ends in half of an escape. */
  let text = "";
  let odd = 0;
  let state = 0;

  function hand(json: string): void {
    text = "";
    let value: any;
    try {
      value = fromJson(json);
    } catch (e) {
      return;
    }
    if (value !== null && value !== undefined && typeof value !== "object" && take(key, value)) state = 1;
  }

  // One character of what stands between texts, but for colons.
  function mark(c: string): void {
    if (c <= " ") return;
    const opens = c === "{" || c === "[";
    const closes = c === "}" || c === "]";
    if (!open && !opens) state = 2;
    if (!opens && !closes && c !== ",") {
      if (takes && text.length < 32) text += c;
      return;
    }
    if (text) hand(text);
    if (opens) {
      if (skipped || (open && !takes) || open.length >= LEVELS) skipped++;
      else open = (c === "[" ? "]" : open.charAt(0) === "]" || !open ? "}" : ">") + open;
    } else if (closes && skipped) skipped--;
    else if (closes) {
      if (open.charAt(0) === "}" && take("", undefined)) state = 1;
      open = open.substr(1);
      if (!open) state = state || 1;
    }
    const array = open.charAt(0) === "]";
    takes = array && !skipped;
    isKey = !array && !skipped && !closes;
  }

  return function (piece) {
    let at = 0;
    while (at < piece.length && !state) {
      const quote = piece.indexOf('"', at);
      const stop = quote < 0 ? piece.length : quote;
      if (!inString) {
        while (at < stop && !state) {
          const c = piece.charAt(at++);
          if (c === ":") isKey = false;
          else if (!skipped || c !== ",") mark(c);
        }
        if (quote < 0 || state) return state;
        if (!open) state = 2;
        inString = true;
        at++;
        continue;
      }
      let slash = stop;
      while (slash > at && piece.charAt(slash - 1) === "\\") slash--;
      odd = (stop - slash + (slash === at ? odd : 0)) & 1;
      // A quote behind half an escape belongs to the text.
      const end = quote < 0 || odd ? -1 : quote;
      const next = end < 0 && quote >= 0 ? quote + 1 : stop;
      if (isKey || takes) text += piece.substr(at, Math.min(next - at, maxString + 1 - text.length));
      at = next;
      if (quote >= 0 && odd) odd = 0;
      if (takes && !isKey && text.length > maxString) {
        hand('"' + cutString(text, maxString) + '..."');
        takes = false;
      }
      if (end < 0) continue;
      at++;
      inString = false;
      if (isKey) {
        key = text;
        takes = wanted.indexOf(key) >= 0;
        text = "";
      } else if (takes) hand('"' + text + '"');
      takes = isKey && takes;
    }
    return state;
  };
}

// Sends a request. Hands on status and headers, then pieces of the answer until `onData` is true, which closes the
// connection. However it ends, `done` is called once: with "" if that was as it should be, else with what went wrong.
export function send(
  o: FetchOptions,
  onHead: (status: number, headers: Record<string, string>) => void,
  onData: (piece: string) => boolean,
  done: (failure: string) => void
): void {
  const limit = o.timeoutMs || 20000;
  const host = o.url.split("?")[0];
  const running = o.session && o.session.abort;
  let body = o.body;
  let enough = false;
  /** What came and was not handed on yet. */
  const came = { rest: "" };
  let headers: any = o.headers || {};
  headers["Accept-Encoding"] = "identity";
  // Out of memory cannot be caught on the board: look before.
  const free = process.memory().free;
  if (free < FETCH_VARIABLES) return done("not enough memory for a request, " + free + " variables are free");

  function end(failure: string): void {
    clearInterval(timer);
    done(failure);
  }

  // Takes what has come. Whoever hands on a piece may still hold the rest of it: the connection is closed later.
  function read(): void {
    const piece = came.rest;
    came.rest = "";
    if (!piece || enough || !onData(piece)) return;
    enough = true;
    setTimeout(function () {
      endPost(request, null);
      end("");
    }, 1);
  }

  const request: Post = {
    url: o.url,
    method: o.method || (o.body || o.next ? "POST" : "GET"),
    headers: headers,
    length: o.next ? o.length! : body ? body.length : 0,
    next:
      o.next ||
      function () {
        const piece = body;
        body = undefined;
        return piece;
      },
    close: o.close,
    totalMs: limit,
    idleMs: limit,
    onHead: onHead,
    into: came,
    batch: 536,
    onReady: read,
    onDone: function (failure) {
      if (!enough) end(failure && (failure.startsWith("timeout") ? host + " did not answer within " + limit + " ms" : "no answer from " + host + " (" + failure + ")"));
    },
  };
  post(request);
  // They are sent before anything is answered, and would stay in memory until the end.
  headers = o.headers = o.next = undefined;
  const timer = setInterval(function () {
    if (!o.session || o.session.abort === running) return;
    endPost(request, null);
    end("stopped");
  }, LOOK_MS);
}

// Asks a service whose answer is JSON. What is wrong with it is an error result, in words for the model and the person: no
// answer, a status that is not 2xx, no JSON, an answer that was cut off, one that `take` or `end` can make nothing of.
export function askService(o: ServiceRequest): Promise<ToolOutput> {
  return new Promise(function (resolve) {
    let status = 0;
    let state = 0;
    let said = "";
    let broken: any;
    let feed: ((piece: string) => number) | undefined;
    send(
      o,
      function (code) {
        status = code;
        feed =
          code >= 200 && code < 300
            ? createPicker(o.keys, o.maxString, o.take)
            : createPicker("detail,error,errors,message,msg", 200, function (_key, value) {
                if (typeof value === "string") said = value;
                return !!said;
              });
      },
      function (piece) {
        try {
          state = feed!(piece);
        } catch (e) {
          broken = e;
          state = 1;
        }
        return state > 0;
      },
      function (failure) {
        let problem = "";
        let check = "";
        let retry = status === 408 || status === 429 || status >= 500;
        if (status && (status < 200 || status > 299)) {
          if (status === 401 || status === 403) check = "check " + o.keySetting;
          else if (status === 404 || status === 405) check = "check " + o.urlSetting;
          else if (status === 413) check = "what was sent is too large for it";
          else if (status === 429 || status === 432 || status === 433) check = "it is asked too often, or the quota is used up";
          else if (status >= 500) check = "it has a problem of its own, try later";
          else if (status < 400)
            check = "it sends us elsewhere: check " + o.urlSetting + ". What is on the internet wants https: put a gateway in between";
          problem = " answered " + status + (said && ": " + limitText(said, 200)) + (check && " (" + check + ")");
        } else if (state === 2) problem = " sent something that is no JSON: check " + o.urlSetting;
        else if (!state && status && (!failure || failure.startsWith("no answer"))) {
          problem = " was cut off in its answer: try again";
          retry = true;
        } else if (!state) {
          retry = failure.startsWith("no answer");
          problem =
            ": " + failure +
            (failure.split("answer").length < 2 ? "" : ". Tell the person to check " + o.urlSetting + " (" + setting(o.urlSetting).split("?")[0] + ") and that it runs");
        }
        try {
          if (broken) throw broken;
          resolve(problem ? { isError: true, content: o.what + problem, retry: retry } : o.end());
        } catch (e) {
          resolve({ isError: true, content: o.what + " cannot be read: " + (e as Error).message });
        }
      }
    );
  });
}

// For tools: asks for what is no JSON, or a little of it. Of the body `maxBytes` are kept, and the connection is closed then.
// Rejects, in words for the model, where no answer came.
export function fetchText(o: FetchOptions, maxBytes: number): Promise<Fetched> {
  return new Promise(function (resolve, reject) {
    const got: Fetched = { status: 0, headers: {}, body: "", cut: false };
    send(
      o,
      function (status, headers) {
        got.status = status;
        for (const name in headers) got.headers[name.toLowerCase()] = headers[name];
      },
      function (piece) {
        got.cut = got.body.length + piece.length > maxBytes;
        got.body += piece.substr(0, maxBytes - got.body.length);
        return got.cut;
      },
      function (failure) {
        if (failure) reject(new Error(failure));
        else resolve(got);
      }
    );
  });
}

// Text for a query of a URL. The board's own encodeURIComponent is wrong for bytes of 0x80 and more.
export function escapeQuery(text: string): string {
  return text.replace(/[^A-Za-z0-9_.~\-]/g, function (c) {
    return "%" + c.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0");
  });
}
