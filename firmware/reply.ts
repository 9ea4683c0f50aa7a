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
  /** What follows one of these may be a call written as text, and is held back until it is known. */
  const marks = "<tool_call>,<function_call>,<|python_tag|>,[TOOL_CALLS]";
  /** Text that is not shown yet, since it may be the start of a tag or of a call. */
  let held = "";
  let thinking = false;
  /** Set once text was seen that is neither white space nor thinking. */
  let begun = false;
  let maybeCall = false;
  /** Half of a surrogate pair at the end of the thinking, the other half of which comes in the next delta. */
  let half = "";
  /** Index of a call that was left out, `true` if it has none: pieces of it belong to no call. */
  let dropped: any;

  // Length of `text` without half of a surrogate pair at its end.
  function wholeLength(text: string): number {
    const end = text.length - 3;
    return end >= 0 && text.charCodeAt(end) === 0xed && (text.charCodeAt(end + 1) & 0xf0) === 0xa0 ? end : text.length;
  }

  // `left` and `right`, pieces of one text, put together: a surrogate pair that was cut in two becomes one character, and
  // half of one whose other half is not there becomes U+FFFD.
  function joinText(left: string, right: string): string {
    const end = wholeLength(left);
    const low = right.charCodeAt(0) === 0xed && right.charCodeAt(1) >= 0xb0;
    if (!right || (end === left.length && !low)) return left + right;
    const rest = low ? right.substr(3) : right;
    if (end === left.length || !low) return left.substr(0, end) + "\xef\xbf\xbd" + rest;
    const unit = function (bytes: string, at: number): string {
      return "\\u" + (0xd000 | ((bytes.charCodeAt(at) & 63) << 6) | (bytes.charCodeAt(at + 1) & 63)).toString(16);
    };
    return left.substr(0, end) + decodeEscapes(unit(left, end + 1) + unit(right, 1)) + rest;
  }

  // Takes `size` bytes of what is held and shows them: as the answer, or as thinking.
  function show(size: number): void {
    const text = held.substr(0, size);
    held = held.substr(size);
    if (!text) return;
    if (thinking) return emit({ type: "reasoningDelta", text: text });
    reply.shown = true;
    if (reply.text.length <= keepBytes) reply.text += text;
    emit({ type: "textDelta", text: text });
  }

  // Where `tag` stands in what is held, or -1. The board's indexOf also finds the part of it that the text ends with.
  function find(tag: string): number {
    const at = held.indexOf(tag);
    return at >= 0 && held.substr(at, tag.length) === tag ? at : -1;
  }

  // How much of the end of what is held may be the start of one of `tags`.
  function partial(tags: string): number {
    let size = 0;
    for (const tag of tags.split(",")) {
      const at = held.lastIndexOf(tag.charAt(0));
      if (at >= 0 && tag.startsWith(held.substr(at))) size = Math.max(size, held.length - at);
    }
    return size;
  }

  // Takes the calls out of held text; false where it is not made of calls of registered tools.
  function takeCalls(): boolean {
    let text = held;
    for (const mark of (marks + ",</tool_call>,</function_call>,```json,```").split(",")) text = text.split(mark).join("\x01");
    let list: any[] = [];
    for (const part of text.split("\x01")) if (part.trim()) list = list.concat(readWhole(part));
    for (const one of list) if (!one || typeof one.name !== "string" || !hasTool(one.name)) return false;
    for (const one of list) reply.call(undefined, "", one.name, one.arguments || one.parameters || {});
    return list.length > 0;
  }

  // Splits what is held into thinking, text to show, and what must wait for more.
  function sift(last: boolean): void {
    while (held) {
      if (thinking) {
        const end = find("</think>");
        show(end < 0 ? held.length - (last ? 0 : partial("</think>")) : end);
        if (end < 0) return;
        held = held.substr(8);
        thinking = false;
      }
      if (!begun) {
        const start = held.trim();
        held = start && held.substr(held.indexOf(start.charAt(0)));
        if (!last && ("<think>".startsWith(held) || "```".startsWith(held))) return;
        if (held.startsWith("<think>")) {
          thinking = true;
          held = held.substr(7);
          continue;
        }
        begun = held.length > 0;
        // A whole answer in braces or a fence may be a call in a form that has no mark of its own.
        maybeCall = held.charAt(0) === "{" || held.startsWith("```");
      }
      if (!maybeCall) {
        let at = held.length;
        for (const mark of marks.split(",")) {
          const found = find(mark);
          if (found >= 0) {
            maybeCall = true;
            at = Math.min(at, found);
          }
        }
        show(maybeCall || last ? at : at - partial(marks));
      }
      // What is longer than any call can be is text.
      if (maybeCall && held.length > maxArgs + 200) maybeCall = false;
      else if (!last) return;
      else if (maybeCall && reply.stop && takeCalls()) held = "";
      if (!maybeCall || last) show(held.length);
    }
  }

  const reply: ReplyCollector = {
    fresh: "",
    stop: "",
    echo: "",
    echoBytes: echoBytes,
    text: "",
    shown: false,
    calls: [],
    thought: function (delta) {
      if (typeof delta !== "string" || !delta) return;
      delta = joinText(half, delta);
      const size = wholeLength(delta);
      half = delta.substr(size);
      if (size) emit({ type: "reasoningDelta", text: delta.substr(0, size) });
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
      slot.arguments = joinText(slot.arguments, args);
      return slot;
    },
    flush: function (last) {
      held = joinText(held, reply.fresh);
      reply.fresh = "";
      // Half of a surrogate pair waits for the other one.
      const size = wholeLength(held);
      const rest = held.substr(size);
      if (rest) held = held.substr(0, size) + (last ? "\xef\xbf\xbd" : "");
      sift(!!last);
      if (!last) held += rest;
    },
  };
  return reply;
}
