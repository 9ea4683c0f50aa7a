import { createCaller } from "./caller";
import { setting } from "./config";
import { ANSWER, CALLS, editHistory, RESULT, USER } from "./history";
import { exchange } from "./request";
import { cutUtf8, limitText, toJson, wireText } from "./text";
import type { AgentEvent, Provider, ReplyCall, ReplyCollector, RunResult, Session, StopReason, ToolResult } from "./types";

// Runs one prompt to its end: model → tool calls → tool results → model … until a reply has no call, the cap on
// iterations is reached (one last call goes without tools), the server fails, or somebody aborts. `prompt` is the user
// message in the provider's JSON. Never rejects. `session.abort` is set while it runs.
//
// Steps follow one another by timers, not by a chain of promises, which would hold 31 variables for every turn. Rooms
// that a part of a turn needs (caller, history editor) are made for that part.
export function run(session: Session, provider: Provider, prompt: string): Promise<RunResult> {
  const history = session.history!;
  /** Bytes of the history that one message may fill at the most, so that others fit beside it. */
  const share = history.bytes.length >> 2;
  let iteration = 0;
  let stop: (() => void) | undefined;
  let settle: ((result: RunResult) => void) | undefined;

  function remember(kind: number, text: string, calls?: ReplyCall[], isError?: boolean): boolean {
    return editHistory(history, setting("messageTrim"), provider).append(provider.compose(kind, text, calls, isError), kind);
  }

  function end(stopReason: StopReason, text: string, message?: string): void {
    const resolve = settle;
    if (!resolve) return;
    settle = undefined;
    if (stop) stop();
    session.abort = undefined;
    if (message) editHistory(history, setting("messageTrim"), provider).rollback();
    const event: AgentEvent = { type: "final", text: text, stopReason: stopReason };
    const result: RunResult = { text: text, stopReason: stopReason };
    if (message) {
      event.isError = true;
      event.message = result.message = message;
    }
    session.emit(event);
    resolve(result);
  }

  // Goes on from the idle loop: callers are deep in the stack, or one of many in a row. A timer costs 9 variables, a
  // promise with its two reactions 57. A fault of ours must not leave the session busy for ever.
  function later(step: () => void): void {
    setTimeout(function () {
      try {
        if (settle) step();
      } catch (e) {
        end("transportError", "", "internal error: " + (e as Error).message);
      }
    }, 1);
  }

  function turn(): void {
    const last = ++iteration > setting("maxToolIterations");
    session.emit({ type: "iterationStart", iteration: iteration });
    stop = exchange(session, provider, !last, function (reply, failure) {
      stop = undefined;
      later(function () {
        if (failure) end("transportError", limitText(reply.text, share), failure.message);
        else if (reply.calls.length && !last) takeCalls(reply);
        else finish(reply, last);
      });
    });
  }

  function finish(reply: ReplyCollector, last: boolean): void {
    const text = limitText(reply.text, share);
    if (reply.stop === "length")
      session.emit({ type: "error", message: "the answer was cut at maxTokens (" + setting("maxTokens") + " tokens)" });
    if (text.trim()) remember(ANSWER, text);
    else session.emit({ type: "error", message: "the model's answer is empty" });
    end(last ? "maxIterations" : "done", text);
  }

  // Makes what goes back on the wire valid, whatever the model wrote; a call with a problem is answered, not run.
  function takeCalls(reply: ReplyCollector): void {
    const caller = createCaller(session.tools);
    let bytes = 0;
    for (const call of reply.calls) {
      for (const other of reply.calls) if (other !== call && other.id === call.id) call.id = "";
      if (!call.id) call.id = "call_" + ++session.lastCallId;
      let args = "{}";
      if (!call.problem)
        try {
          args = toJson(caller.readArguments(call));
        } catch (e) {
          call.problem =
            reply.stop === "length"
              ? "not run: the call was cut off by the output limit (maxTokens). Write less, or do it in smaller pieces"
              : "not run: " + (e as Error).message;
        }
      if (bytes + args.length > share) {
        args = "{}";
        call.problem = call.problem || "not run: too much in one turn. Call it again on its own";
      }
      bytes += args.length;
      call.arguments = args;
      delete call.index;
      // Servers refuse a history with a name that no tool could have.
      call.name = cutUtf8(call.name.replace(/[^a-zA-Z0-9_\-]/g, "_"), 63) || "unnamed";
    }
    if (!remember(CALLS, cutUtf8(reply.text, share >> 2), reply.calls))
      return end("transportError", "", "the model's tool calls do not fit into the history: raise historyBytes");
    const runnable = reply.calls.filter(function (call) {
      return !call.problem;
    });
    if (runnable.length) session.emit({ type: "toolRequest", calls: runnable });
    nextCall(reply.calls);
  }

  // Runs the first of `calls` and goes on with the others.
  function nextCall(calls: ReplyCall[]): void {
    const call = calls.shift();
    if (!call) return later(turn);
    function answer(result: ToolResult): void {
      let content = result.content;
      // Text that is all escapes grows when it is written as JSON.
      while (content.length > 64 && wireText(content).length > share) content = limitText(content, content.length >> 1);
      session.emit({ type: "toolEnd", name: call!.name, callId: call!.id, isError: result.isError, content: content });
      if (remember(RESULT, content, [call!], result.isError))
        later(function () {
          nextCall(calls);
        });
      else end("transportError", "", "the tool results do not fit into the history: raise historyBytes");
    }
    if (call.problem) return answer({ isError: true, content: call.problem });
    session.emit({ type: "toolStart", name: call.name, callId: call.id, arguments: call.arguments });
    createCaller(session.tools)
      .call(call)
      .then(function (result) {
        later(function () {
          answer(result);
        });
      })
      .catch(function (e) {
        end("transportError", "", "internal error: " + e.message);
      });
  }

  const promise = new Promise<RunResult>(function (resolve) {
    settle = resolve;
  });
  session.abort = function (reason) {
    end("aborted", "", reason);
  };
  if (editHistory(history, setting("messageTrim"), provider).append(prompt, USER)) later(turn);
  else end("transportError", "", "the prompt does not fit into the history: raise historyBytes");
  return promise;
}
