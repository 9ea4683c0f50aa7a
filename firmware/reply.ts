import { decodeEscapes, readWhole, toJson } from "./text";
import type { AgentEvent, ReplyCall, ReplyCollector } from "./types";

/** More calls than this in one reply are dropped: each costs a message and a result of its own. */
export const MAX_CALLS = 8;

// Collects one reply: shows its text, keeps its thinking apart, and puts its tool calls together.
//
// How pieces of tool calls become calls:
//
// | a piece has …                                  | it belongs to …
// |------------------------------------------------|------------------------------------------------------------
// | an index and an id of a call                   | that call
// | an index of a call, and no id or no name       | the last call of that index
// | an index of a call, a new id and a name        | a new call (servers that always say 0)
// | no index, an id                                | the call of that id, else a new call
// | no index, no id                                | the last call, else a new one
// | a name and arguments, after a complete call    | a new call, if it has no id of its own
//
// | field      | merged how
// |------------|------------------------------------------------------------------------------------------------
// | id, name   | the first that is not empty stays; empty and null never overwrite; none at the end: an id is made up
// | arguments  | text is appended up to `maxArgs` bytes; an object is taken as its JSON text; null and "" add nothing
// | none       | no arguments at all are {}
// | echo       | what goes back on the call: the first that is not empty stays
//
// Calls written as text count only where the name is exactly a registered one; otherwise they are text.
export function createReply(
  emit: (event: AgentEvent) => void,
  hasTool: (name: string) => boolean,
  keepBytes: number,
  maxArgs: number,
  echoBytes: number
): ReplyCollector {
  /** Half of a surrogate pair at the end of the thinking, the other half of which comes in the next delta. */
  let half = "";
  /** Index of a call that was left out, `true` if it has none: pieces of it belong to no call. */
  let dropped: any;
  /** What is held back, and where in its text the reply is; see `sift`. */
  const held: Held = { text: "", mode: BEFORE };

  const reply: ReplyCollector = {
    fresh: "",
    idea: "",
    stop: "",
    echo: "",
    echoBytes: echoBytes,
    text: "",
    shown: false,
    calls: [],
    thought: function (delta) {
      if (typeof delta !== "string" || !delta) return;
      reply.idea = delta;
      if (half || delta.indexOf("\xed") >= 0) {
        const join = surrogates();
        delta = join.joinText(half, delta);
        const size = join.wholeLength(delta);
        half = delta.substr(size);
        delta = delta.substr(0, size);
      }
      if (delta) emit({ type: "reasoningDelta", text: delta });
    },
    call: function (index, id, name, args) {
      const calls = reply.calls;
      const numbered = typeof index === "number";
      if (typeof id !== "string") id = "";
      if (typeof name !== "string") name = "";
      if (args && typeof args === "object") args = toJson(args);
      if (typeof args !== "string") args = "";
      let slot: ReplyCall | undefined;
      if (!id && !name && dropped === (numbered ? index : true)) return undefined;
      if (id) for (const one of calls) if (one.id === id && (!numbered || one.index === undefined || one.index === index)) slot = one;
      if (numbered && !slot) for (const one of calls) if (one.index === index && (!id || !one.id || !name)) slot = one;
      if (!id && !numbered) slot = calls[calls.length - 1];
      if (slot && slot.name && name && args && (!id || !slot.id) && readWhole(slot.arguments)) slot = undefined;
      if (!slot) {
        if (!id && !name && !args) return undefined;
        if (calls.length >= MAX_CALLS) {
          if (dropped === undefined)
            emit({ type: "error", message: "the model asked for more than " + MAX_CALLS + " tool calls at once: the rest is left out" });
          dropped = numbered ? index : true;
          return undefined;
        }
        slot = { id: "", name: "", arguments: "" };
        if (numbered) slot.index = index;
        calls.push(slot);
      }
      if (!slot.id) slot.id = id;
      if (!slot.name) slot.name = name;
      if (slot.problem) return slot;
      if (slot.arguments.length + args.length > maxArgs) {
        slot.problem = "not run: its arguments are longer than MAX_TOOL_ARG_LEN (" + maxArgs + " bytes). Do it in smaller pieces";
        emit({ type: "error", message: "tool call " + slot.name + ": arguments longer than maxToolArgLen (" + maxArgs + " bytes), not run" });
        return slot;
      }
      slot.arguments = surrogates().joinText(slot.arguments, args);
      return slot;
    },
    flush: function (last) {
      const text = reply.fresh;
      // The usual case, in few words: in the middle of an answer, and nothing in it that could begin a tag or a call.
      if (!last && held.mode === PLAIN && !held.text && text.indexOf("<") < 0 && text.indexOf("[") < 0 && text.indexOf("\xed") < 0) {
        reply.fresh = "";
        if (!text) return;
        if (reply.text.length <= keepBytes) reply.text += text;
        return emit({ type: "textDelta", text: text });
      }
      if (!text && !held.text) return;
      sift(reply, held, !!last, emit, hasTool, keepBytes, maxArgs);
    },
  };
  return reply;
}

/** Text that is not shown yet, since it may be the start of a tag or of a call, or half of a surrogate pair. */
interface Held {
  text: string;
  mode: number;
}
/** Nothing but white space and thinking came so far. */
const BEFORE = 0;
/** In the answer. */
const PLAIN = 1;
/** Between think tags. */
const THINKING = 2;
/** What is held may be a call written as text. */
const MAYBE_CALL = 3;

/** What follows one of these may be a call written as text, and is held back until it is known. */
const MARKS = "<tool_call>,<function_call>,<|python_tag|>,[TOOL_CALLS]";

// Puts texts together that were cut within a surrogate pair. It exists while that is done.
function surrogates(): { wholeLength(text: string): number; joinText(left: string, right: string): string } {
  // Length of `text` without half of a surrogate pair at its end.
  function wholeLength(text: string): number {
    const end = text.length - 3;
    return end >= 0 && text.charCodeAt(end) === 0xed && (text.charCodeAt(end + 1) & 0xf0) === 0xa0 ? end : text.length;
  }

  // Three bytes from `at` on as the escape of the half that they are.
  function unit(bytes: string, at: number): string {
    return "\\u" + (0xd000 | ((bytes.charCodeAt(at) & 63) << 6) | (bytes.charCodeAt(at + 1) & 63)).toString(16);
  }

  return {
    wholeLength: wholeLength,
    // `left` and `right`, pieces of one text: a surrogate pair that was cut in two becomes one character, and half of one
    // whose other half is not there becomes U+FFFD.
    joinText: function (left, right) {
      const end = wholeLength(left);
      const low = right.charCodeAt(0) === 0xed && right.charCodeAt(1) >= 0xb0;
      if (!right || (end === left.length && !low)) return left + right;
      const rest = low ? right.substr(3) : right;
      if (end === left.length || !low) return left.substr(0, end) + "\xef\xbf\xbd" + rest;
      return left.substr(0, end) + decodeEscapes(unit(left, end + 1) + unit(right, 1)) + rest;
    },
  };
}

// Takes what is fresh and shows what can be shown of it and of what is held; with `last`, all of it, and calls written as
// text become calls. Splits it into thinking, text to show, and what must wait for more.
function sift(
  reply: ReplyCollector,
  held: Held,
  last: boolean,
  emit: (event: AgentEvent) => void,
  hasTool: (name: string) => boolean,
  keepBytes: number,
  maxArgs: number
): void {
  // Takes `size` bytes of what is held and shows them: as the answer, or as thinking.
  function show(size: number): void {
    const text = held.text.substr(0, size);
    held.text = held.text.substr(size);
    if (!text) return;
    if (held.mode === THINKING) return emit({ type: "reasoningDelta", text: text });
    reply.shown = true;
    if (reply.text.length <= keepBytes) reply.text += text;
    emit({ type: "textDelta", text: text });
  }

  // Where `tag` stands in what is held, or -1. The board's indexOf also finds the part of it that the text ends with.
  function find(tag: string): number {
    const at = held.text.indexOf(tag);
    return at >= 0 && held.text.substr(at, tag.length) === tag ? at : -1;
  }

  // How much of the end of what is held may be the start of one of `tags`.
  function partial(tags: string): number {
    let size = 0;
    for (const tag of tags.split(",")) {
      const at = held.text.lastIndexOf(tag.charAt(0));
      if (at >= 0 && tag.startsWith(held.text.substr(at))) size = Math.max(size, held.text.length - at);
    }
    return size;
  }

  // Takes the calls out of held text; false where it is not made of calls of registered tools.
  function takeCalls(): boolean {
    let text = held.text;
    for (const mark of (MARKS + ",</tool_call>,</function_call>,```json,```").split(",")) text = text.split(mark).join("\x01");
    let list: any[] = [];
    for (const part of text.split("\x01")) if (part.trim()) list = list.concat(readWhole(part));
    for (const one of list) if (!one || typeof one.name !== "string" || !hasTool(one.name)) return false;
    for (const one of list) reply.call(undefined, "", one.name, one.arguments || one.parameters || {});
    return list.length > 0;
  }

  const join = surrogates();
  held.text = join.joinText(held.text, reply.fresh);
  reply.fresh = "";
  // Half of a surrogate pair waits for the other one.
  const size = join.wholeLength(held.text);
  const half = held.text.substr(size);
  if (half) held.text = held.text.substr(0, size) + (last ? "\xef\xbf\xbd" : "");
  while (held.text) {
    if (held.mode === THINKING) {
      const end = find("</think>");
      show(end < 0 ? held.text.length - (last ? 0 : partial("</think>")) : end);
      if (end < 0) break;
      held.text = held.text.substr(8);
      held.mode = BEFORE;
    }
    if (held.mode === BEFORE) {
      const start = held.text.trim();
      held.text = start && held.text.substr(held.text.indexOf(start.charAt(0)));
      if (!last && ("<think>".startsWith(held.text) || "```".startsWith(held.text))) break;
      if (held.text.startsWith("<think>")) {
        held.mode = THINKING;
        held.text = held.text.substr(7);
        continue;
      }
      // A whole answer in braces or a fence may be a call in a form that has no mark of its own.
      if (held.text) held.mode = held.text.charAt(0) === "{" || held.text.startsWith("```") ? MAYBE_CALL : PLAIN;
    }
    if (held.mode === PLAIN) {
      let at = held.text.length;
      let found = false;
      for (const mark of MARKS.split(",")) {
        const place = find(mark);
        if (place >= 0) {
          found = true;
          at = Math.min(at, place);
        }
      }
      show(found || last ? at : at - partial(MARKS));
      if (found) held.mode = MAYBE_CALL;
    }
    // What is longer than any call can be is text.
    const calls = held.mode === MAYBE_CALL && held.text.length <= maxArgs + 200;
    if (held.mode === MAYBE_CALL && !calls) held.mode = PLAIN;
    else if (!last) break;
    else if (calls && reply.stop && takeCalls()) held.text = "";
    if (!calls || last) {
      held.mode = PLAIN;
      show(held.text.length);
    }
  }
  if (!last) held.text += half;
}
