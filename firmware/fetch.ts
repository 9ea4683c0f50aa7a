import { setting } from "./config";
import { cutUtf8, fromJson, limitText } from "./text";
import { post } from "./transport";
import type { Session } from "./types";

/** Variables that a request takes at the most, with what is kept of its answer. */
const FETCH_VARIABLES = 450;
/** Milliseconds between looks at whether the run was stopped. */
const LOOK_MS = 500;
/** Levels of objects and arrays that are kept; what is deeper is left out, since reading it takes the stack. */
const LEVELS = 8;

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
  /** Bytes of the answer that are kept. Once they are there the connection is closed. Default 1,024. */
  maxBytes?: number;
  /** Milliseconds: the whole request. Less than the tool may take, so that the model hears why. Default 20,000. */
  timeoutMs?: number;
  /** Takes each piece of an answer with status 2xx, which is then not kept; false once it has enough. */
  feed?(piece: string): boolean;
  /** The conversation that asks. Stopping its run stops the request. */
  session?: Session;
}

/** What a service answered, whatever its status. Header names are in lower case. */
export interface Fetched {
  status: number;
  headers: Record<string, string>;
  body: string;
  /** The body was longer. */
  cut: boolean;
}

/** A request whose answer is JSON. */
export interface JsonOptions extends FetchOptions {
  /** What is asked, in two words for the model. */
  what: string;
  /** The settings that have its address and its key. */
  urlSetting: string;
  keySetting: string;
  /** Names of the fields that are kept, and of those that they are in, comma separated. */
  keys: string;
  /** Bytes of a text that are kept. */
  maxString: number;
}

/** Cuts a JSON text down to some of its fields while it streams in. */
export interface JsonPicker {
  /** Takes the next bytes. False once nothing more is wanted: the text is over, no JSON, or what is kept is long enough. */
  feed(piece: string): boolean;
  /** What was kept, as JSON text, whatever of the text is missing; "" where nothing was. */
  end(): string;
}

/** What asks services in the network for tools. It exists while one is asked. */
export interface Fetcher {
  /** Rejects, in words for the model, only where no answer came. */
  text(o: FetchOptions): Promise<Fetched>;
  /**
   * Resolves to those parts of the answer that were asked for. Rejects, in words for the model and the person, where it is
   * no JSON, its status is not 2xx, or it was cut off.
   */
  json(o: JsonOptions): Promise<any>;
  /**
   * Of `keys` see `JsonOptions`. Texts longer than `maxString` bytes are cut, and end in "..."; past `maxBytes` in all nothing
   * more is taken. Elements of an array that is kept are kept.
   */
  picker(keys: string, maxString: number, maxBytes: number): JsonPicker;
  /** Text for a query of a URL. The board's own encodeURIComponent is wrong for bytes of 0x80 and more. */
  escape(text: string): string;
}

export function createFetcher(): Fetcher {
  // Cuts what stands inside of a JSON string to `max` bytes, at no place where it would be no JSON string or no UTF-8.
  function cutString(raw: string, max: number): string {
    raw = cutUtf8(raw, max);
    for (;;) {
      const at = raw.lastIndexOf("\\");
      const rest = raw.length - at;
      if (at < 0 || rest > 6) return raw;
      let run = at;
      while (run > 0 && raw.charAt(run - 1) === "\\") run--;
      // The second of two backslashes.
      if ((at - run) & 1) return raw;
      // An escape that is whole, and is no first half of a character.
      if (rest >= (raw.charAt(at + 1) === "u" ? 6 : 2) && !/\\u[dD][89abAB]..$/.test(raw)) return raw;
      raw = raw.substr(0, at);
    }
  }

  // Built-ins touch the bytes of texts; a loop runs only over what stands between them.
  function picker(keys: string, maxString: number, maxBytes: number): JsonPicker {
    const wanted = keys.split(",");
    let out = "";
    /** What closes the objects and arrays that are open and kept, innermost first. */
    let closers = "";
    /** How many are open inside of one that is left out, and itself. */
    let skipped = 0;
    let key = "";
    let isKey = false;
    let inString = false;
    /** The string up to here, as far as it is kept, and whether it ends in half of an escape. */
    let text = "";
    let odd = 0;
    let literal = "";
    let over = false;

    function isWanted(): boolean {
      return !skipped && (closers.charAt(0) !== "}" || wanted.indexOf(key) >= 0);
    }

    function put(value: string): void {
      const last = out.charAt(out.length - 1);
      if (last && last !== "{" && last !== "[") out += ",";
      if (closers.charAt(0) === "}") out += '"' + key + '":';
      out += value;
    }

    function endLiteral(): void {
      if (literal && closers && isWanted()) put(literal);
      literal = "";
    }

    function take(c: string): void {
      if (c <= " ") return;
      if (c === "{" || c === "[") {
        if (closers.length < LEVELS && isWanted()) {
          put(c);
          closers = (c === "{" ? "}" : "]") + closers;
          isKey = c === "{";
        } else skipped++;
      } else if (!closers) over = true;
      else if (c === "}" || c === "]") {
        endLiteral();
        if (skipped) skipped--;
        else {
          out += closers.charAt(0);
          closers = closers.substr(1);
          over = !closers;
        }
      } else if (c === ",") {
        endLiteral();
        isKey = !skipped && closers.charAt(0) === "}";
      } else if (c === ":") isKey = false;
      else if (literal.length < 32) literal += c;
    }

    // The place of the quote that ends the string, from `at` on; -1 where it is not in this piece.
    function findEnd(piece: string, at: number): number {
      const from = at;
      for (;;) {
        const quote = at < piece.length ? piece.indexOf('"', at) : -1;
        const stop = quote < 0 ? piece.length : quote;
        let slash = stop;
        while (slash > from && piece.charAt(slash - 1) === "\\") slash--;
        const half = (stop - slash + (slash === from ? odd : 0)) & 1;
        if (quote >= 0 && half) {
          at = quote + 1;
          continue;
        }
        odd = quote < 0 ? half : 0;
        return quote;
      }
    }

    return {
      feed: function (piece) {
        let at = 0;
        while (at < piece.length && !over) {
          if (inString) {
            const end = findEnd(piece, at);
            const stop = end < 0 ? piece.length : end;
            if (!skipped && text.length <= maxString) text += piece.substr(at, Math.min(stop - at, maxString + 1 - text.length));
            at = stop + 1;
            inString = end < 0;
            if (inString) return true;
            if (isKey) key = text;
            else if (isWanted()) put('"' + (text.length > maxString ? cutString(text, maxString) + "..." : text) + '"');
          } else {
            const quote = piece.indexOf('"', at);
            const stop = quote < 0 ? piece.length : quote;
            while (at < stop && !over) take(piece.charAt(at++));
            if (quote < 0 || over) continue;
            // A text alone is nothing to pick from.
            over = !closers;
            at = quote + 1;
            inString = true;
            text = "";
          }
          over = over || out.length > maxBytes;
        }
        return !over;
      },
      end: function () {
        return out + closers;
      },
    };
  }

  function fetchText(o: FetchOptions): Promise<Fetched> {
    return new Promise(function (resolve, reject) {
      const got: Fetched = { status: 0, headers: {}, body: "", cut: false };
      const host = o.url.split("?")[0];
      const most = o.maxBytes || 1024;
      const limit = o.timeoutMs || 20000;
      const running = o.session && o.session.abort;
      let body = o.body;
      // Out of memory cannot be caught on the board: look before.
      const free = process.memory().free;
      if (free < FETCH_VARIABLES) return reject(new Error("not enough memory for a request: " + free + " variables are free"));

      function end(failure: string): void {
        clearInterval(timer);
        if (failure) reject(new Error(failure));
        else resolve(got);
      }

      const headers = o.headers || {};
      headers["Accept-Encoding"] = "identity";
      const stop = post({
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
        totalMs: limit,
        idleMs: limit,
        onHead: function (status, received) {
          got.status = status;
          for (const name in received) got.headers[name.toLowerCase()] = received[name];
        },
        onData: function (piece) {
          let more = true;
          if (o.feed && got.status >= 200 && got.status < 300) more = o.feed(piece);
          else {
            got.cut = got.body.length + piece.length > most;
            got.body += piece.substr(0, most - got.body.length);
            more = !got.cut;
          }
          if (more) return;
          stop();
          end("");
        },
        onDone: function (failure) {
          end(failure && (failure.startsWith("timeout") ? host + " did not answer within " + limit + " ms" : "no answer from " + host + " (" + failure + ")"));
        },
      });
      const timer = setInterval(function () {
        if (!o.session || o.session.abort === running) return;
        stop();
        end("stopped");
      }, LOOK_MS);
    });
  }

  // What a service says of itself in an error: the first text in JSON of the usual shapes.
  function said(json: string): string {
    let value: any;
    try {
      value = fromJson(json);
    } catch (e) {
      return "";
    }
    for (let level = 0; value && typeof value === "object" && level < LEVELS; level++)
      value = value.detail || value.error || value.errors || value.message || value[0];
    return typeof value === "string" ? ": " + limitText(value, 200) : "";
  }

  function hint(status: number, o: JsonOptions): string {
    if (status === 401 || status === 403) return "check " + o.keySetting;
    if (status === 404 || status === 405) return "check " + o.urlSetting;
    if (status === 429 || status === 432 || status === 433) return "it is asked too often, or the quota is used up";
    if (status >= 500) return "it has a problem of its own: try later";
    if (status >= 300 && status < 400)
      return "it sends us elsewhere: check " + o.urlSetting + ". What is on the internet wants https: use a gateway in the LAN";
    return "";
  }

  return {
    text: fetchText,
    picker: picker,
    escape: function (text) {
      return text.replace(/[^A-Za-z0-9_.~\-]/g, function (c) {
        return "%" + c.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0");
      });
    },
    json: function (o) {
      const kept = picker(o.keys, o.maxString, o.maxBytes || 2048);
      let more = true;
      o.feed = function (piece) {
        more = kept.feed(piece);
        return more;
      };
      return fetchText(o).then(
        function (got) {
          let json: any;
          if (got.status < 200 || got.status > 299) {
            const error = picker("detail,error,errors,message", 200, 400);
            error.feed(got.body);
            const why = hint(got.status, o);
            throw new Error(o.what + " answered " + got.status + said(error.end()) + (why && " (" + why + ")"));
          }
          if (!kept.end() && !more) throw new Error(o.what + " sent something that is no JSON: check " + o.urlSetting);
          if (more) throw new Error("the answer of " + o.what + " was cut off: try again");
          try {
            json = fromJson(kept.end());
          } catch (e) {
            throw new Error(o.what + " sent JSON that cannot be read");
          }
          return json;
        },
        function (e) {
          throw new Error(
            o.what + ": " + e.message + (e.message === "stopped" ? "" : ". Tell the person to check " + o.urlSetting + " (" + setting(o.urlSetting).split("?")[0] + ") and that it runs")
          );
        }
      );
    },
  };
}
