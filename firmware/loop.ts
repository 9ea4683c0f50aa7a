import { createCaller } from "./caller";
import { setting } from "./config";
import { ANSWER, CALLS, ECHO_CALLS, editHistory, RESULT, USER } from "./history";
import { find, load } from "./registry";
import { exchange } from "./request";
import { cutUtf8, fromJson, limitText, readWhole, toJson, wireText } from "./text";
import type { AgentEvent, Provider, ReplyCall, ReplyCollector, RunResult, Session, StopReason, ToolResult } from "./types";

/** Milliseconds between looks at whether a step was interrupted. */
const HEARTBEAT_MS = 500;
/** Bytes kept of what a call came to, in case it is made again. */
const OUTCOME_BYTES = 120;

// Text cut until it fits into `bytes` as JSON: text that is all escapes grows when it is written.
function fit(text: string, bytes: number): string {
  while (text.length > 64 && wireText(text).length > bytes) text = limitText(text, text.length >> 1);
  return text;
}

// Runs one prompt to its end: model → tool calls → tool results → model … until a reply has no call, the cap on
// iterations is reached (one last call goes without tools), the server fails, or somebody aborts. Never rejects.
// `session.abort` is set while it runs.
//
// A call that was made before in the same run, with the same arguments, is answered from memory unless its tool is
// `repeatable`; one that failed may be tried once more. Two turns in a row that ran nothing new lead to the last call
// without tools.
//
// Steps follow one another by timers, not by a chain of promises, which would hold 31 variables for every turn. Rooms
// that a part of a turn needs (caller, history editor) are made for that part.
export function run(session: Session, provider: Provider, prompt: string): Promise<RunResult> {
  const history = session.history!;
  /** Bytes of the history that one message may fill at the most, so that others fit beside it. */
  const share = history.bytes.length >> 2;
  let iteration = 0;
  /** What each call of this run came to, in short, by a checksum of its name and arguments. */
  const outcomes: Record<string, string> = {};
  /** Turns in a row, up to this one, in which no tool was run. */
  let fruitless = 0;
  /** What a tool ended the run with; the other calls of its turn are not made. */
  let last: RunResult | undefined;
  let stop: (() => void) | undefined;
  /** A step is to come, or a tool is to give its result; while the model is asked, `stop` is set. */
  let waiting = false;
  let settle: ((result: RunResult) => void) | undefined;

  function remember(kind: number, text: string, calls?: ReplyCall[], isError?: boolean, echo?: string): boolean {
    return editHistory(history, setting("messageTrim"), provider).append(provider.compose(kind, text, calls, isError, echo), kind);
  }

  function end(stopReason: StopReason, text: string, message?: string): void {
    const resolve = settle;
    if (!resolve) return;
    settle = undefined;
    clearInterval(heartbeat);
    if (stop) stop();
    session.abort = undefined;
    if (session.child && session.child.abort) session.child.abort(message || "");
    // What somebody stopped must not be done by the next prompt.
    if (message) editHistory(history, setting("messageTrim"), provider).rollback(stopReason !== "aborted");
    const event: AgentEvent = { type: "final", text: text, stopReason: stopReason };
    const result: RunResult = { text: text, stopReason: stopReason };
    if (message) {
      event.isError = true;
      event.message = result.message = message;
    }
    if (last && last.data !== undefined) event.data = result.data = last.data;
    session.emit(event);
    resolve(result);
  }

  // Goes on from the idle loop: callers are deep in the stack, or one of many in a row. A timer costs 9 variables, a
  // promise with its two reactions 57.
  function later(step: () => void): void {
    waiting = true;
    setTimeout(function () {
      waiting = false;
      try {
        if (settle) step();
      } catch (e) {
        broken(e);
      }
    }, 1);
  }

  // A step that failed must not leave the session busy for ever. Out of memory and an overflow of the stack interrupt
  // it, pass every `catch`, and are seen by the heartbeat only: nothing is left that would go on with the run.
  function broken(e: any): void {
    end("transportError", "", "interrupted: " + ((e && e.message) || "out of memory or stack. Lower historyBytes, or free variables"));
  }

  function turn(): void {
    if (!session.calls) return end("maxIterations", "", "the prompt took all its model calls (maxModelCalls)");
    session.calls--;
    const bare = ++iteration > setting("maxToolIterations") || fruitless > 1;
    session.emit({ type: "iterationStart", iteration: iteration });
    stop = exchange(session, provider, !bare, function (reply, failure) {
      stop = undefined;
      later(function () {
        if (failure || !reply) end("transportError", reply ? limitText(reply.text, share) : "", failure && failure.message);
        else if (reply.calls.length && !bare) takeCalls(reply);
        else finish(reply, bare);
      });
    });
  }

  function finish(reply: ReplyCollector, bare: boolean): void {
    const text = limitText(reply.text, share);
    if (reply.stop === "length")
      session.emit({ type: "error", message: "the answer was cut at maxTokens (" + setting("maxTokens") + " tokens)" });
    if (!text.trim()) return end("done", "", "the model's answer is empty: ask again, or check the model (" + setting("model") + ")");
    remember(ANSWER, fit(text, share));
    end(bare ? "maxIterations" : "done", text);
  }

  // Makes what goes back on the wire valid, whatever the model wrote; a call with a problem is answered, not run.
  function takeCalls(reply: ReplyCollector): void {
    const caller = createCaller(session);
    let bytes = 0;
    for (const call of reply.calls) {
      for (const other of reply.calls) if (other !== call && other.id === call.id) call.id = "";
      if (!call.id) call.id = "call_" + ++session.lastCallId;
      let args = "{}";
      if (!call.problem)
        try {
          // What the output limit cut off may lack whole arguments: it is not repaired.
          args = toJson(caller.readArguments(call, reply.stop !== "length"));
          // The board writes "..." for what its stack is too short for.
          if (!readWhole(args)) throw new Error("the arguments are nested too deeply");
        } catch (e) {
          args = "{}";
          call.problem =
            reply.stop === "length"
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
    if (!remember(reply.echo ? ECHO_CALLS : CALLS, cutUtf8(reply.text, share >> 2), reply.calls, false, reply.echo))
      return end("transportError", "", "the model's tool calls do not fit into the history: raise historyBytes");
    const runnable = reply.calls.filter(function (call) {
      return !call.problem;
    });
    if (runnable.length) session.emit({ type: "toolRequest", calls: runnable });
    fruitless++;
    nextCall(reply.calls);
  }

  // Runs the first of `calls` and goes on with the others.
  function nextCall(calls: ReplyCall[]): void {
    const call = calls.shift();
    if (!call && !last) return later(turn);
    if (!call) {
      remember(ANSWER, fit(last!.text, share));
      session.emit({ type: "textDelta", text: last!.text });
      return end(last!.stopReason, last!.text);
    }
    function answer(result: ToolResult): void {
      const content = fit(result.content, share);
      const event: AgentEvent = { type: "toolEnd", name: call!.name, callId: call!.id, isError: result.isError, content: content };
      if (result.ends) event.ends = result.ends;
      session.emit(event);
      if (!remember(RESULT, content, [call!], result.isError))
        return end("transportError", "", "the tool results do not fit into the history: raise historyBytes");
      if (result.ends) last = { stopReason: result.ends, text: content, data: result.data };
      later(function () {
        nextCall(calls);
      });
    }
    if (last) return answer({ isError: true, content: "not run: the run is over" });
    if (call.problem) return answer({ isError: true, content: call.problem });
    const key = String(E.CRC32(call.name + call.arguments));
    const before = outcomes[key];
    if (before)
      return answer({ isError: before.startsWith("it failed"), content: "already done in this run, not repeated: " + before });
    const node = find(session.tools, call.name);
    const repeatable = node && load(node).repeatable;
    fruitless = 0;
    session.emit({ type: "toolStart", name: call.name, callId: call.id, arguments: call.arguments });
    waiting = true;
    createCaller(session).call(call, function (result) {
      // What failed may be tried once more.
      if (!repeatable)
        outcomes[key] =
          result.isError && outcomes[key] === undefined ? "" : (result.isError ? "it failed: " : "") + limitText(result.content, OUTCOME_BYTES);
      later(function () {
        answer(result);
      });
    });
  }

  if (!session.parent) {
    session.calls = setting("maxModelCalls");
    session.plans = 0;
    session.prompt = prompt;
  }
  const promise = new Promise<RunResult>(function (resolve) {
    settle = resolve;
  });
  const heartbeat = setInterval(function () {
    if (!waiting && !stop) broken(undefined);
  }, HEARTBEAT_MS);
  session.abort = function (reason) {
    end("aborted", "", reason);
  };
  const before = editHistory(history, setting("messageTrim"), provider).takePrompt();
  if (before) {
    const earlier = fromJson(before).content;
    if (earlier.length + prompt.length < history.bytes.length >> 1) prompt = earlier + "\n\n" + prompt;
  }
  if (remember(USER, prompt)) later(turn);
  else end("transportError", "", "the prompt does not fit into the history: raise historyBytes");
  return promise;
}
