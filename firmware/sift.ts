import { find as findTool } from "./registry";
import { takeCall } from "./reply";
import { decodeEscapes, readWhole } from "./text";
import { Mode, type ReplyCollector } from "./types";

/** What follows one of these may be a call written as text, and is held back until it is known. */
const MARKS = "<tool_call>,<function_call>,<|python_tag|>,[TOOL_CALLS]";

/** No mark or tag is longer. */
const TAG_BYTES = 16;

// Puts texts together that were cut within a surrogate pair. It exists while that is done.
export function surrogates(): {
  wholeLength(text: string): number;
  joinText(left: string, right: string): string;
  mend(text: string): string;
} {
  // Length of `text` without half of a surrogate pair at its end.
  function wholeLength(text: string): number {
    const end = text.length - 3;
    return end >= 0 && text.charCodeAt(end) === 0xed && (text.charCodeAt(end + 1) & 0xf0) === 0xa0 ? end : text.length;
  }

  // Three bytes from `at` on as the escape of the half that they are.
  function unit(bytes: string, at: number): string {
    return "\\u" + (0xd000 | ((bytes.charCodeAt(at) & 63) << 6) | (bytes.charCodeAt(at + 1) & 63)).toString(16);
  }

  // `left` and `right`, pieces of one text: a surrogate pair that was cut in two becomes one character, and half of one
  // whose other half is not there becomes U+FFFD.
  function joinText(left: string, right: string): string {
    const end = wholeLength(left);
    const low = right.charCodeAt(0) === 0xed && right.charCodeAt(1) >= 0xb0;
    if (!right || (end === left.length && !low)) return left + right;
    const rest = low ? right.substr(3) : right;
    if (end === left.length || !low) return left.substr(0, end) + "\xef\xbf\xbd" + rest;
    return left.substr(0, end) + decodeEscapes(unit(left, end + 1) + unit(right, 1)) + rest;
  }

  return {
    wholeLength: wholeLength,
    joinText: joinText,
    // The same for a text of several pieces; its ends may belong to others.
    mend: function (text) {
      for (let at = text.indexOf("\xed"); at >= 0; at = at + 1 < text.length ? text.indexOf("\xed", at + 1) : -1) {
        if (at) text = joinText(text.substr(0, at), text.substr(at));
        if (at + 3 < text.length) text = joinText(text.substr(0, at + 3), text.substr(at + 3));
      }
      return text;
    },
  };
}

// Takes what is fresh and shows what can be shown of it and of what is held; with `last`, all of it, and calls written as
// text become calls. Splits it into thinking, text to show, and what must wait for more.
export function sift(reply: ReplyCollector, last: boolean): void {
  // Takes `size` bytes of what is held and shows them: as the answer, or as thinking.
  function show(size: number): void {
    const text = reply.held.substr(0, size);
    reply.held = reply.held.substr(size);
    if (!text) return;
    if (reply.mode === Mode.Thinking) return reply.emit({ type: "reasoningDelta", text: text });
    reply.shown = true;
    if (reply.text.length <= reply.keepBytes) reply.text += text;
    reply.emit({ type: "textDelta", text: text });
  }

  // Where `tag` stands in what is held, or -1. The board's indexOf also finds the part of it that the text ends with.
  function find(tag: string): number {
    const at = reply.held.indexOf(tag);
    return at >= 0 && reply.held.substr(at, tag.length) === tag ? at : -1;
  }

  // How much of the end of what is held may be the start of one of `tags`. The board's lastIndexOf takes a hundred times as
  // long for a text that is ten times as long.
  function partial(tags: string): number {
    const end = reply.held.substr(Math.max(0, reply.held.length - TAG_BYTES));
    let size = 0;
    for (const tag of tags.split(",")) {
      const at = end.lastIndexOf(tag.charAt(0));
      if (at >= 0 && tag.startsWith(end.substr(at))) size = Math.max(size, end.length - at);
    }
    return size;
  }

  // Takes the calls out of held text; false where it is not made of calls of registered tools.
  function takeCalls(): boolean {
    let text = reply.held;
    for (const mark of (MARKS + ",</tool_call>,</function_call>,```json,```").split(",")) text = text.split(mark).join("\x01");
    let list: any[] = [];
    for (const part of text.split("\x01")) if (part.trim()) list = list.concat(readWhole(part));
    for (const one of list) if (!one || typeof one.name !== "string" || !reply.tools || !findTool(reply.tools, one.name)) return false;
    for (const one of list) takeCall(reply, undefined, "", one.name, one.arguments || one.parameters || {});
    return list.length > 0;
  }

  const join = surrogates();
  reply.held = join.joinText(reply.held, reply.fresh);
  reply.fresh = "";
  // Half of a surrogate pair waits for the other one.
  const size = join.wholeLength(reply.held);
  const half = reply.held.substr(size);
  if (half) reply.held = reply.held.substr(0, size) + (last ? "\xef\xbf\xbd" : "");
  while (reply.held) {
    if (reply.mode === Mode.Thinking) {
      const end = find("</think>");
      show(end < 0 ? reply.held.length - (last ? 0 : partial("</think>")) : end);
      if (end < 0) break;
      reply.held = reply.held.substr(8);
      reply.mode = Mode.Before;
    }
    if (reply.mode === Mode.Before) {
      const start = reply.held.trim();
      reply.held = start && reply.held.substr(reply.held.indexOf(start.charAt(0)));
      if (!last && ("<think>".startsWith(reply.held) || "```".startsWith(reply.held))) break;
      if (reply.held.startsWith("<think>")) {
        reply.mode = Mode.Thinking;
        reply.held = reply.held.substr(7);
        continue;
      }
      // A whole answer in braces or a fence may be a call in a form that has no mark of its own.
      if (reply.held) reply.mode = reply.held.charAt(0) === "{" || reply.held.startsWith("```") ? Mode.MaybeCall : Mode.Plain;
    }
    if (reply.mode === Mode.Plain) {
      let at = reply.held.length;
      let found = false;
      for (const mark of MARKS.split(",")) {
        const place = find(mark);
        if (place >= 0) {
          found = true;
          at = Math.min(at, place);
        }
      }
      show(found || last ? at : at - partial(MARKS));
      if (found) reply.mode = Mode.MaybeCall;
    }
    // What is longer than any call can be is text.
    const calls = reply.mode === Mode.MaybeCall && reply.held.length <= reply.maxArgs + 200;
    if (reply.mode === Mode.MaybeCall && !calls) reply.mode = Mode.Plain;
    else if (!last) break;
    else if (calls && reply.stop && takeCalls()) reply.held = "";
    if (!calls || last) {
      reply.mode = Mode.Plain;
      show(reply.held.length);
    }
  }
  if (!last) reply.held += half;
}
