import { createCaller } from "./caller";
import { setting } from "./config";
import { ANSWER, CALLS, ECHO_CALLS, editHistory, HAS_MEDIA, RESULT } from "./history";
import { end, fail, later, turn, type Run } from "./loop";
import { prepareParts } from "./media";
import { openProvider } from "./provider";
import { find, load } from "./registry";
import { cutUtf8, limitText, readWhole, toJson, wireText } from "./text";
import type { AgentEvent, ReplyCall, ReplyCollector, Session, ToolResult } from "./types";

/** Bytes kept of what a call came to, in case it is made again. */
const OUTCOME_BYTES = 120;

/** The least that is kept of a text, in bytes. */
const LEAST_BYTES = 64;

// What changes the history of a conversation. The provider is opened first, and not within the call: this is the deepest
// path of a run.
export function edit(session: Session) {
  const provider = openProvider();
  return editHistory(session.history!, setting("messageTrim"), provider);
}

// Appends a message to the history; false where it does not fit.
export function remember(session: Session, kind: number, text: string, calls?: ReplyCall[], isError?: boolean, echo?: string): boolean {
  const provider = openProvider();
  const message = provider.compose(kind, text, calls, isError, echo);
  return editHistory(session.history!, setting("messageTrim"), provider).append(message, kind);
}

// Goes on with a reply, or with what failed: runs its calls, one after the other, or ends the run with its text. What it
// needs exists until the model is asked again.
export function afterReply(own: Run, reply: ReplyCollector | undefined, failure?: string): void {
  const session = own.session;
  /** Bytes of the history that one message may fill at the most, so that others fit beside it. */
  const share = session.history!.bytes.length >> 2;
  /** What a tool ended the run with; the other calls of its turn are not made. */
  let last: ToolResult | undefined;

  // Text cut until it fits as JSON: text that is all escapes grows when it is written, six times at the most. What is shorter
  // is not written twice.
  function fit(text: string): string {
    while (text.length > LEAST_BYTES && text.length * 6 + 2 > share && (text.length + 2 > share || wireText(text).length > share)) text = limitText(text, text.length >> 1);
    return text;
  }

  function finish(): void {
    const text = limitText(reply!.text, share);
    if (reply!.stop === "length")
      session.emit({ type: "error", message: "the answer was cut at maxTokens (" + setting("maxTokens") + " tokens)" });
    if (!text.trim()) return end(own, "done", "", "the model's answer is empty: ask again, or check the model (" + setting("model") + ")");
    remember(session, ANSWER, fit(text));
    end(own, own.bare ? "maxIterations" : "done", text);
  }

  // Makes what goes back on the wire valid, whatever the model wrote; a call with a problem is answered, not run.
  function takeCalls(calls: ReplyCall[], wasCut: boolean): void {
    const caller = createCaller(session);
    let bytes = 0;
    calls[0].first = calls[calls.length - 1].last = true;
    for (const call of calls) {
      for (let at = 0; at < calls.length; at++)
        if (!call.id || (calls[at] !== call && calls[at].id === call.id)) {
          call.id = "call_" + ++session.lastCallId;
          at = -1;
        }
      let args = "{}";
      if (!call.problem)
        try {
          // What the output limit cut off may lack whole arguments: it is not repaired.
          args = toJson(caller.readArguments(call, !wasCut));
          // The board writes "..." for what its stack is too short for.
          if (!readWhole(args)) throw new Error("the arguments are nested too deeply");
        } catch (e) {
          args = "{}";
          call.problem = wasCut
            ? "not run: the call was cut off by the output limit (maxTokens). Write less, or do it in smaller pieces"
            : "not run: " + (e as Error).message;
        }
      // What goes back with a call counts as a part of it; a call that does not fit goes without.
      const echo = call.echo ? call.echo.length : 0;
      if (bytes + args.length + echo > share) {
        delete call.echo;
        call.problem =
          args.length > share
            ? "not run: its arguments have " + args.length + " bytes, more than a quarter of historyBytes (" + share + "). Do it in smaller pieces"
            : "not run: too much in one turn. Call it again on its own";
        args = "{}";
      }
      bytes += args.length + echo;
      call.arguments = args;
      delete call.index;
      // Servers refuse a history with a name that no tool could have.
      call.name = cutUtf8(call.name.replace(/[^a-zA-Z0-9_\-]/g, "_"), 63) || "unnamed";
    }
    if (!remember(session, reply!.echo ? ECHO_CALLS : CALLS, cutUtf8(reply!.text, share >> 2), calls, false, reply!.echo))
      return fail(own, "the model's tool calls do not fit into the history: raise historyBytes");
    reply = undefined;
    const runnable: any[] = [];
    for (const call of calls) if (!call.problem) runnable.push({ id: call.id, name: call.name, arguments: call.arguments });
    if (runnable.length) session.emit({ type: "toolRequest", calls: runnable });
    own.idle++;
    // From the idle loop: what the reply was read with is let go by then.
    later(own, function () {
      nextCall(calls);
    });
  }

  function answer(call: ReplyCall, calls: ReplyCall[], result: ToolResult): void {
    const parts = result.parts;
    if (parts) {
      delete result.parts;
      own.wait = true;
      return prepareParts(session, parts, call.name, function (text, media) {
        if (media) own.media = (own.media ? own.media + "," : "") + media;
        result.content = text || result.content;
        later(own, function () {
          answer(call, calls, result);
        });
      });
    }
    if (own.media) call.last = false;
    const content = fit(result.content);
    const event: AgentEvent = { type: "toolEnd", name: call.name, callId: call.id, isError: result.isError, content: content };
    if (result.ends) {
      event.ends = result.ends;
      last = { isError: false, content: content, ends: result.ends, data: result.data };
    }
    session.emit(event);
    if (!remember(session, RESULT, content, [call], result.isError))
      return fail(own, "the tool results do not fit into the history: raise historyBytes");
    later(own, function () {
      nextCall(calls);
    });
  }

  // Runs the first of `calls` and goes on with the others.
  function nextCall(calls: ReplyCall[]): void {
    const call = calls.shift();
    if (!call && own.media) {
      const media = own.media;
      own.media = undefined;
      if (!remember(session, RESULT + HAS_MEDIA, "", undefined, false, media))
        return fail(own, "the files of the tools do not fit into the history: raise historyBytes");
    }
    if (!call && !last) return later(own, turn);
    if (!call) {
      remember(session, ANSWER, last!.content);
      session.emit({ type: "textDelta", text: last!.content });
      return end(own, last!.ends!, last!.content, undefined, last!.data);
    }
    if (last) return answer(call, calls, { isError: true, content: "not run: the run is over" });
    if (call.problem) return answer(call, calls, { isError: true, content: call.problem });
    const key = String(E.CRC32(call.name + call.arguments));
    const before = own.past[key];
    if (before)
      return answer(call, calls, { isError: before.startsWith("it failed"), content: "already done in this run, not repeated: " + before });
    const node = find(session.tools, call.name);
    const repeatable = node && load(node).repeatable;
    own.idle = 0;
    session.emit({ type: "toolStart", name: call.name, callId: call.id, arguments: call.arguments });
    own.wait = true;
    createCaller(session).call(call, function (result) {
      // What failed may be tried once more.
      if (!repeatable)
        own.past[key] =
          result.isError && own.past[key] === undefined ? "" : (result.isError ? "it failed: " : "") + limitText(result.content, OUTCOME_BYTES);
      later(own, function () {
        answer(call, calls, result);
      });
    });
  }

  if (failure || !reply) end(own, "transportError", reply ? limitText(reply.text, share) : "", failure || "no reply");
  else if (reply.calls.length && !own.bare) takeCalls(reply.calls, reply.stop === "length");
  else finish();
}
