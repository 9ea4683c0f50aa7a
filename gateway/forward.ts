/** One request on its way to the upstream, and what comes back. */
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { failureAnswer, readReply, refusedKey, replyAnswer, type Answer } from "./answer";
import { within, type Clock } from "./clock";
import { connectionFault, errorWords, Fault, faultEvent } from "./fault";
import type { Limits } from "./limits";
import type { Redactor } from "./secret";
import { createSlimmer, type Dialect } from "./slim/slim";
import { relay, relaySlim, type Relay } from "./stream";
import { upstreamHeaders, type Auth } from "./upstream";
import { createMeter } from "./usage";

/** Bytes of an error body that are read. */
const ERROR_BYTES = 64 * 1024;

/** Characters of the upstream's words that are logged: enough to know what is wrong, too little for a conversation. */
const PROBLEM_LENGTH = 200;

/** What a board asked for, once it is known that it may. */
export interface Job {
  dialect: Dialect;
  /** After the upstream's base URL. */
  path: string;
  /** The request's body; undefined for a GET. */
  body: Record<string, unknown> | undefined;
  /** Bytes of the body as it came. */
  bodyBytes: number;
  /** The board's own headers. */
  headers: Record<string, unknown>;
  /** The longest line of a slim stream; undefined for a reply as the upstream sends it. */
  lineBytes: number | undefined;
}

/** What became of a request. Kept up to date while it is under way. */
export interface Account {
  upstreamStatus?: number;
  /** Bytes of the body that came from the upstream (unpacked), and of the answer or stream that went to the board. */
  receivedBytes: number;
  sentBytes: number;
  /** What the request came to; 0 while nothing was asked of a model. */
  tokens: number;
  isEstimated: boolean;
  /** `done`, or what went wrong, in a word. */
  outcome: string;
  /** The same in words for the log, without secrets. */
  problem?: string;
}

export interface ForwardOptions {
  upstream: string;
  key: string;
  auth: Auth;
  limits: Limits;
  clock: Clock;
  fetch: typeof fetch;
  redactor: Redactor;
  /** Gets an error that nothing outside explains. */
  onDefect(error: unknown): void;
}

export interface Forwarder {
  /**
   * Sends the job upstream. A stream goes straight to `raw`: `onStream` is called before its first byte, and nothing is
   * returned. Any other answer is returned. Ends early where the board closes its connection.
   * @throws {Fault} where there is nothing to answer with, and nothing was sent
   */
  forward(job: Job, raw: ServerResponse, account: Account, onStream: () => void): Promise<Answer | undefined>;
  /** Ends what is under way, as if the upstream had been too slow. */
  stop(): void;
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

export function createForwarder(options: ForwardOptions): Forwarder {
  const { upstream, key, auth, limits, clock, redactor } = options;
  const { host } = new URL(upstream);
  /** The upstream knows no `stream_options`, so it is not asked for the usage of a stream any more. */
  let refusesUsage = false;
  const underWay = new Set<AbortController>();

  const silence = (): Fault =>
    new Fault(504, `gateway: ${host} has sent nothing for ${limits.silenceMs / 1000} s (--silence)`, "upstream_silent");
  const slow = (): Fault =>
    new Fault(
      504,
      `gateway: the reply of ${host} was not over in ${limits.totalMs / 1000} s (--timeout)`,
      "upstream_slow",
    );
  const stalled = (): Fault => new Fault(408, "gateway: the board takes nothing any more", "board_stalled");
  const tooLong = (): Fault =>
    new Fault(502, `gateway: the reply is no stream and longer than ${limits.replyBytes} bytes`, "reply_too_long", {
      isFinal: true,
    });

  const heard = <T>(promise: Promise<T>): Promise<T> => within(clock, limits.silenceMs, promise, silence);

  async function ask(job: Job, body: object | undefined, signal: AbortSignal): Promise<Response> {
    const headers = upstreamHeaders(job.dialect, key, auth, job.headers);
    if (body !== undefined) headers["content-type"] = "application/json";
    const response = options.fetch(upstream + job.path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      // The key must not follow to another host.
      redirect: "manual",
      signal,
    });
    return heard(response);
  }

  /** A body whole; undefined where it is longer than `most` bytes. */
  async function readAll(read: Relay["read"], most: number): Promise<Buffer | undefined> {
    const pieces: Uint8Array[] = [];
    let size = 0;
    for (let piece = await read(); piece !== undefined; piece = await read()) {
      pieces.push(piece);
      size += piece.length;
      if (size > most) return undefined;
    }
    return Buffer.concat(pieces);
  }

  return {
    async forward(job, raw, account, onStream) {
      const { dialect, lineBytes } = job;
      const controller = new AbortController();
      const { signal } = controller;
      underWay.add(controller);
      const onClose = (): void => controller.abort(new Fault(499, "gateway: the board has gone", "board_gone"));
      const deadline = clock.setTimeout(() => controller.abort(slow()), limits.totalMs);
      raw.once("close", onClose);

      const isSlim = lineBytes !== undefined;
      const answering = { dialect, host, isSlim, redactor };
      const meter = createMeter(dialect, job.bodyBytes);
      let reader: Reader | undefined;
      let begun: Uint8Array[] = [];
      /** The model has answered, and what it said counts. */
      let hasReply = false;

      const faultOf = (error: unknown): Fault => {
        if (error instanceof Fault) return error;
        if (signal.aborted && signal.reason instanceof Fault) return signal.reason;
        const fault = connectionFault(error, host, clock.now());
        if (fault === undefined) options.onDefect(error);
        return (
          fault ??
          new Fault(500, "gateway: it failed itself, its log says why; the board's settings are right", "internal")
        );
      };

      async function read(): Promise<Uint8Array | undefined> {
        if (begun.length > 0) return begun.shift();
        if (reader === undefined) return undefined;
        const { value } = await heard(reader.read());
        account.receivedBytes += value?.length ?? 0;
        return value;
      }

      /** Writes text (a character for each byte); true where more may follow at once. */
      function write(bytes: string): boolean {
        account.sentBytes += bytes.length;
        return raw.write(bytes, "latin1");
      }

      async function send(bytes: string): Promise<void> {
        if (bytes === "") return;
        signal.throwIfAborted();
        if (write(bytes)) return;
        await within(clock, limits.stallMs, once(raw, "drain", { signal }), stalled);
      }

      async function fetchReply(body: object | undefined): Promise<Response> {
        const response = await ask(job, body, signal);
        account.upstreamStatus = response.status;
        reader = response.body?.getReader() as Reader | undefined;
        return response;
      }

      /** The upstream's answer; where it is a failure, with its body. */
      async function fetchAnswer(): Promise<{ response: Response; text: string }> {
        const { body } = job;
        const asksUsage = isSlim && dialect === "openai" && body?.stream === true && body.stream_options === undefined;
        const withUsage = { ...body, stream_options: { include_usage: true } };
        for (;;) {
          const isAsked = asksUsage && !refusesUsage;
          const response = await fetchReply(isAsked ? withUsage : body);
          const text = response.ok ? "" : ((await readAll(read, ERROR_BYTES))?.toString("utf8") ?? "");
          const isRefused = [400, 422].includes(response.status) && /stream_options|include_usage/.test(text);
          if (!isAsked || !isRefused) return { response, text };
          refusesUsage = true;
        }
      }

      /** Whether the body is a stream: its first character tells, whatever its type says, unless that says so. */
      async function isStream(response: Response): Promise<boolean> {
        if (/event-stream/i.test(response.headers.get("content-type") ?? "")) return true;
        let text = "";
        const pieces: Uint8Array[] = [];
        while (text === "" && pieces.length < 100) {
          const piece = await read();
          if (piece === undefined) break;
          pieces.push(piece);
          text = Buffer.concat(pieces)
            .toString("utf8")
            .replace(/^\uFEFF/, "")
            .trimStart();
        }
        begun = pieces;
        return text !== "" && !"{[<".includes(text.charAt(0));
      }

      async function stream(): Promise<void> {
        hasReply = true;
        onStream();
        raw.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
        raw.flushHeaders();
        const check = (body: unknown): Fault | undefined => refusedKey(body, answering);
        const options = { read, send, meter, redactor, check, eventLength: limits.eventLength };
        const asked = job.body?.stream_options as { include_usage?: unknown } | undefined;
        const slimOptions = { withUsage: asked?.include_usage === true, words: redactor.words };
        try {
          if (!isSlim) await relay(options);
          else {
            const slimmer = createSlimmer(dialect, { lineBytes, ...slimOptions });
            await relaySlim(options, slimmer, clock, (bytes) => void (raw.writable && write(bytes)));
          }
          account.outcome = "done";
          raw.end();
        } catch (error) {
          // A cut is passed on as a cut: no end that looks like one. What the gateway itself gives up is told.
          const fault = faultOf(error);
          const isOurs = error instanceof Fault || signal.aborted || fault.code === "internal";
          account.outcome = isOurs ? fault.code : "upstream_cut";
          account.problem = fault.message;
          if (isOurs && isSlim && raw.writable) write(Buffer.from(faultEvent(dialect, fault)).toString("latin1"));
          if (account.outcome === "board_stalled" || !raw.socket) raw.destroy();
          else raw.socket.destroySoon();
        }
      }

      try {
        const { response, text } = await fetchAnswer();
        if (!response.ok) {
          account.outcome = "upstream_failed";
          account.problem = redactor.words(errorWords(text)).slice(0, PROBLEM_LENGTH);
          return failureAnswer(response, text, clock.now(), answering);
        }
        if (await isStream(response)) {
          await stream();
          return undefined;
        }
        const bytes = await readAll(read, limits.replyBytes);
        if (bytes === undefined) throw tooLong();
        const json = readReply(bytes, host);
        const refused = refusedKey(json, answering);
        if (refused !== undefined) throw refused;
        hasReply = true;
        meter.read(json);
        account.outcome = "done";
        return replyAnswer(json, answering);
      } catch (error) {
        throw faultOf(error);
      } finally {
        clock.clearTimeout(deadline);
        raw.off("close", onClose);
        underWay.delete(controller);
        // What is left of the upstream's body is not wanted any more.
        controller.abort();
        reader?.cancel().catch(() => undefined);
        if (hasReply && job.body !== undefined) Object.assign(account, meter.total());
      }
    },
    stop() {
      for (const controller of underWay) controller.abort(new Fault(503, "gateway: it is being stopped", "stopping"));
    },
  };
}
