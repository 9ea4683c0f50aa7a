import type { History, Provider } from "./types";

/**
 * The conversation: one Uint8Array, allocated once, that holds each message already in the provider's wire JSON, a
 * comma before each. It cannot grow, and a request sends slices of it. DESIGN §4.
 *
 * An exchange is a user message with everything up to the next one; a turn is an assistant message with tool calls and
 * the results of all of them. Only whole exchanges and whole turns are dropped, so no call is ever without its result
 * and no result without its call.
 */

/** Kind of a message, kept beside its length: what may be dropped together depends on it. */
export const USER = 0;
export const ANSWER = 1;
export const CALLS = 2;
export const RESULT = 3;
/** A result that was shortened to make room already. */
export const SHORT_RESULT = 4;
/** CALLS with the reasoning that the provider wants back within the run. */
export const ECHO_CALLS = 5;
/** CALLS whose reasoning was taken out again. */
export const SHORT_CALLS = 6;
/** Added to USER, and to RESULT for what follows the results of a turn: files of theirs are in it, see media.ts. */
export const HAS_MEDIA = 8;

/** What reads and changes a history. It exists while a run does; the history itself is plain data. */
export interface HistoryEditor {
  /**
   * Appends a message. What must go for it goes: reasoning; then, oldest first, whole exchanges; then, within the newest
   * exchange, tool results are shortened and turns that are over dropped. Returns false where even that is not enough.
   */
  append(json: string, kind: number): boolean;
  /**
   * Takes a failed run back to its user message, which stays so that "continue" has something to go on; or to before
   * it, if it should not be done any more.
   */
  rollback(keepPrompt: boolean): void;
  /**
   * Takes out the user message of a failed run, if that is what the history ends with, and returns it as JSON, else "".
   * It becomes a part of the next prompt: many models' templates refuse two user messages in a row.
   */
  takePrompt(): string;
}

// `length` bytes of the buffer from `from` on, as a string.
export function readHistory(h: History, from: number, length: number): string {
  return E.toString(new Uint8Array(h.bytes.buffer, from, length)) as string;
}

// `trim` is the most messages to keep; `provider` writes the stand-in for a tool result that is shortened.
export function editHistory(h: History, trim: number, provider: Provider): HistoryEditor {
  // Index of the first message of the newest exchange; 0 where there is none.
  function newestExchange(): number {
    let i = h.sizes.length - 1;
    while (i > 0 && (h.sizes[i] & 7) !== USER) i--;
    return i > 0 ? i : 0;
  }

  // Drops `count` messages from index `first` on.
  function drop(first: number, count: number): void {
    let from = 0;
    for (let i = 0; i < first; i++) from += h.sizes[i] >> 4;
    let to = from;
    for (const size of h.sizes.splice(first, count)) to += size >> 4;
    h.bytes.set(new Uint8Array(h.bytes.buffer, to, h.used - to), from);
    h.used -= to - from;
  }

  // Writes the oldest message of `kind` in the newest exchange anew, as the shorter one `as`. False if there is none.
  function shorten(kind: number, as: number): boolean {
    const first = newestExchange();
    let from = 0;
    for (let i = 0; i < h.sizes.length; i++) {
      const size = h.sizes[i] >> 4;
      if (i > first && (h.sizes[i] & 15) === kind) {
        const json = "," + provider.compose(as, readHistory(h, from + 1, size - 1));
        h.sizes[i] = size * 16 + as;
        if (json.length < size) {
          h.bytes.set(json, from);
          h.bytes.set(new Uint8Array(h.bytes.buffer, from + size, h.used - from - size), from + json.length);
          h.used -= size - json.length;
          h.sizes[i] = json.length * 16 + as;
          return true;
        }
      }
      from += size;
    }
    return false;
  }

  // Drops the oldest turn of the newest exchange, so that a long run goes on with its newest results. False where the
  // run has no turn that is over: a result that is to come belongs to the last one.
  function dropTurn(isResult: boolean): boolean {
    const first = newestExchange() + 1;
    let next = first + 1;
    while (next < h.sizes.length && ((h.sizes[next] & 7) === RESULT || (h.sizes[next] & 7) === SHORT_RESULT)) next++;
    if (first >= h.sizes.length || (isResult && next >= h.sizes.length)) return false;
    drop(first, next - first);
    return true;
  }

  return {
    append: function (json, kind) {
      const isUser = (kind & 7) === USER;
      for (;;) {
        const size = json.length + 1;
        if (size > h.bytes.length) return false;
        const fits = h.used + size <= h.bytes.length;
        const room = fits && h.sizes.length < trim;
        // Reasoning is for the rest of its run, and providers take it only after all that was there before it.
        if (!room && kind === ECHO_CALLS) {
          json = provider.compose(SHORT_CALLS, json);
          kind = SHORT_CALLS;
          continue;
        }
        if ((!room || isUser || kind === ANSWER) && shorten(ECHO_CALLS, SHORT_CALLS)) continue;
        if (room) break;
        let oldest = 1;
        while (oldest < h.sizes.length && (h.sizes[oldest] & 7) !== USER) oldest++;
        if (isUser || oldest < h.sizes.length) drop(0, oldest);
        else if (!(!fits && shorten(RESULT, SHORT_RESULT)) && !dropTurn((kind & 7) === RESULT)) {
          // The count alone never ends a run: one turn of it is kept, whatever messageTrim says.
          if (fits) break;
          return false;
        }
      }
      h.bytes.set("," + json, h.used);
      h.used += json.length + 1;
      h.sizes.push((json.length + 1) * 16 + kind);
      if (kind & HAS_MEDIA) h.media = true;
      return true;
    },
    rollback: function (keepPrompt) {
      const keep = newestExchange() + (keepPrompt ? 1 : 0);
      if (keep < h.sizes.length) drop(keep, h.sizes.length - keep);
    },
    takePrompt: function () {
      const last = h.sizes.length - 1;
      if (last < 0 || (h.sizes[last] & 7) !== USER) return "";
      const size = h.sizes[last] >> 4;
      const json = readHistory(h, h.used - size + 1, size - 1);
      drop(last, 1);
      return json;
    },
  };
}
