import { sift, surrogates } from "./sift";
import { cutUtf8, readWhole, toJson } from "./text";
import { Gives, Mode, type AgentEvent, type Registry, type ReplyCall, type ReplyCollector } from "./types";

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
//
// Plain data: a function that is kept costs as much as five numbers.
export function createReply(
  emit: (event: AgentEvent) => void,
  tools: Registry | undefined,
  keepBytes: number,
  maxArgs: number,
  echoBytes: number,
  showBytes: number
): ReplyCollector {
  // The same empty text for all: each one that is written costs a variable.
  const none = String();
  return {
    fresh: none,
    gives: Gives.Nothing,
    got: none,
    stop: none,
    echo: none,
    echoBytes: echoBytes,
    text: none,
    wise: none,
    calls: [],
    mode: Mode.Before,
    held: none,
    emit: emit,
    tools: tools,
    keepBytes: keepBytes,
    maxArgs: maxArgs,
    showBytes: showBytes,
  };
}

// What the server reports inside the reply: an object with a message, or text.
export function takeFailure(reply: ReplyCollector, error: any, status: any): void {
  reply.failure = { status: Number(status) || 0, message: String(error.message || (typeof error === "string" ? error : toJson(error))) };
}

// A piece of the model's thinking.
export function takeThought(reply: ReplyCollector, delta: any): void {
  if (typeof delta !== "string" || !delta) return;
  if (reply.fresh) flush(reply);
  reply.gives = reply.gives ? Gives.More : Gives.Thought;
  reply.got = delta;
  if (reply.half || delta.indexOf("\xed") >= 0) {
    const join = surrogates();
    reply.wise = join.joinText(reply.wise, delta);
    reply.half = join.wholeLength(reply.wise) < reply.wise.length;
  } else reply.wise += delta;
  const show = reply.showBytes;
  let size = reply.half ? reply.wise.length - 3 : reply.wise.length;
  for (; size >= show; size = size - delta.length) {
    delta = cutUtf8(reply.wise, show) || reply.wise.substr(0, show);
    reply.wise = reply.wise.substr(delta.length);
    reply.emit({ type: "reasoningDelta", text: delta });
  }
}

// A piece of a tool call; fields of the wrong type count as not given. Returns the call, unless it is left out.
export function takeCall(reply: ReplyCollector, index: any, id: any, name: any, args: any): ReplyCall | undefined {
  const calls = reply.calls;
  const numbered = typeof index === "number";
  if (typeof id !== "string") id = "";
  if (typeof name !== "string") name = "";
  if (args && typeof args === "object") args = toJson(args);
  if (typeof args !== "string") args = "";
  reply.gives = reply.gives || id || name ? Gives.More : Gives.Arguments;
  reply.got = args;
  reply.index = index;
  let slot: ReplyCall | undefined;
  if (reply.fresh || reply.wise) flush(reply);
  if (!id && !name && reply.dropped === (numbered ? index : true)) return undefined;
  if (id) for (const one of calls) if (one.id === id && (!numbered || one.index === undefined || one.index === index)) slot = one;
  if (numbered && !slot) for (const one of calls) if (one.index === index && (!id || !one.id || !name)) slot = one;
  if (!id && !numbered) slot = calls[calls.length - 1];
  if (slot && slot.name && name && args && (!id || !slot.id) && readWhole(slot.arguments)) slot = undefined;
  if (!slot) {
    if (!id && !name && !args) return undefined;
    if (calls.length >= MAX_CALLS) return drop(reply, numbered ? index : true);
    slot = { id: "", name: "", arguments: "" };
    if (numbered) slot.index = index;
    calls.push(slot);
  }
  if (!slot.id) slot.id = id;
  if (!slot.name) slot.name = name;
  if (slot.problem) return slot;
  if (slot.arguments.length + args.length > reply.maxArgs) return refuse(reply, slot);
  // Rarely a piece ends or begins with half of a surrogate pair: what joins those is made for it.
  const before = slot.arguments;
  slot.arguments =
    args.charAt(0) === "\xed" || before.charAt(before.length - 3) === "\xed" ? surrogates().joinText(before, args) : before + args;
  return slot;
}

// Leaves a call out, since there are too many; the first time it is told.
function drop(reply: ReplyCollector, index: any): undefined {
  if (reply.dropped === undefined)
    reply.emit({ type: "error", message: "the model asked for more than " + MAX_CALLS + " tool calls at once: the rest is left out" });
  reply.dropped = index;
}

// A call with arguments that are too long is answered, not run.
function refuse(reply: ReplyCollector, call: ReplyCall): ReplyCall {
  call.problem = "not run: its arguments are longer than MAX_TOOL_ARG_LEN (" + reply.maxArgs + " bytes). Do it in smaller pieces";
  reply.emit({ type: "error", message: "tool call " + call.name + ": arguments longer than maxToolArgLen (" + reply.maxArgs + " bytes), not run" });
  return call;
}

// Shows what can be shown of the text so far; with `last`, all of it, and calls written as text become calls.
export function flush(reply: ReplyCollector, last?: boolean): void {
  const text = reply.fresh;
  if (reply.wise) {
    let thought = reply.wise;
    reply.wise = reply.half ? thought.substr(thought.length - 3) : "";
    if (reply.half) thought = thought.substr(0, thought.length - 3);
    if (thought) reply.emit({ type: "reasoningDelta", text: thought });
  }
  // The usual case, in few words: in the middle of an answer, and nothing in it that could begin a tag or a call.
  if (!last && reply.mode === Mode.Plain && !reply.held && !/[<\[\xed]/.test(text)) {
    reply.fresh = "";
    if (!text) return;
    if (reply.text.length <= reply.keepBytes) reply.text += text;
    return reply.emit({ type: "textDelta", text: text });
  }
  if (!text && !reply.held) return;
  if (text.indexOf("\xed") >= 0) reply.fresh = surrogates().mend(text);
  sift(reply, !!last);
}
