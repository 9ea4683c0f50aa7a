/**
 * A provider's stream made small for a board: only what the agent reads, raw UTF-8 in place of `\u` escapes, and small
 * deltas merged. What comes out are events of the same API, for any client. Fed with events, and told by its caller
 * when to send what waits: it reads no stream and has no timer.
 */
import { anthropicLineBefore, createAnthropicDialect, slimAnthropicReply } from "./anthropic";
import { slimError, type Dialect, type Words } from "./fields";
import { createMerger } from "./merge";
import { createOpenaiDialect, slimOpenaiReply } from "./openai";

export { MESSAGE_LENGTH, type Dialect, type Words } from "./fields";

/** The header by which a board asks for it: `1`, or the length in bytes of the longest line that it reads. */
export const SLIM_HEADER = "x-agent-slim";

/** Milliseconds that text may wait for more of it. The board shows text in pieces of 96 bytes, or where none
 * comes for as long; a model with 50 tokens a second sends five. */
export const MERGE_MS = 200;

/**
 * Bytes of one line: a third of what a board reads by default (`sseLineBytes`), since it is parsed whole, at about
 * three times its size. Longer lines would save little: what stands around the text is 60 bytes.
 */
export const LINE_BYTES = 1024;

/** The least that a board can be set to read. */
const LEAST_LINE_BYTES = 256;

/** The longest line that a slim header asks for, in bytes; undefined where it asks for no slim stream. */
export function readSlimHeader(value: unknown): number | undefined {
  if (typeof value !== "string" || !/^\d{1,6}$/.test(value) || Number(value) === 0) return undefined;
  const wanted = Number(value);
  return wanted < LEAST_LINE_BYTES ? LINE_BYTES : Math.min(wanted, LINE_BYTES);
}

export interface SlimOptions {
  /** The longest line; one whose text cannot be cut (an id, a signature) may be longer. */
  lineBytes: number;
  /** The client asked for an event with the usage (OpenAI's `include_usage`). */
  withUsage: boolean;
  /** Takes secrets out of an error message. */
  words: Words;
}

export interface Slimmer {
  /** Takes the data of one event; returns what is to be sent now. */
  take(data: string): string;
  /** What waits, but for half of a surrogate pair: its other half is in the next delta. */
  flush(): string;
  /** The stream is over: whatever is left. */
  end(): string;
  /** `flush` would give something. */
  isWaiting(): boolean;
}

export function createSlimmer(dialect: Dialect, options: SlimOptions): Slimmer {
  const isOpenai = dialect === "openai";
  const out = createMerger(options.lineBytes, isOpenai ? () => "" : anthropicLineBefore);
  const reader = isOpenai ? createOpenaiDialect(out, options) : createAnthropicDialect(out, options.words);
  return {
    take(data) {
      const text = data.startsWith("{") ? data : data.trim();
      let body: unknown;
      try {
        body = text.startsWith("{") ? JSON.parse(text) : undefined;
      } catch {
        // The board's parser takes more than JSON, and says itself what it cannot read.
        out.raw(data);
        return out.taken();
      }
      if (body === undefined) reader.readText(text);
      else reader.read(body);
      return out.taken();
    },
    flush() {
      out.flush(false);
      return out.taken();
    },
    end() {
      out.flush(true);
      reader.end();
      return out.taken();
    },
    isWaiting: out.isWaiting,
  };
}

/** A whole reply, no stream, with only what the agent reads. What is no reply of the dialect stays as it is. */
export function slimReply(dialect: Dialect, body: any, words: Words): unknown {
  if (typeof body !== "object" || body === null) return body;
  if (body.error) return slimErrorBody(dialect, body.error, words);
  return (dialect === "openai" ? slimOpenaiReply(body) : slimAnthropicReply(body)) ?? body;
}

/** The body of an answer that is an error, as the dialect has it. */
export function slimErrorBody(dialect: Dialect, error: unknown, words: Words): object {
  const slim = slimError(error, words);
  return dialect === "openai" ? { error: slim } : { type: "error", error: slim };
}
