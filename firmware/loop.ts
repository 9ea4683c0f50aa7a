import { setting } from "./config";
import { HAS_MEDIA, USER } from "./history";
import { joinPrompts, prepareParts } from "./media";
import { exchange } from "./request";
import { afterReply, edit, remember, type Run } from "./turn";
import { type Part } from "./parts";
import type { AgentEvent, RunResult, Session } from "./types";

/** Milliseconds between looks at whether a step was interrupted. */
const HEARTBEAT_MS = 500;
// Runs one prompt to its end: model → tool calls → tool results → model … until a reply has no call, the cap on
// iterations is reached (one last call goes without tools), the server fails, or somebody aborts. Never rejects.
// `session.abort` is set while it runs.
//
// A call that was made before in the same run, with the same arguments, is answered from memory unless its tool is
// `repeatable`; one that failed may be tried once more. Two turns in a row that ran nothing new lead to the last call
// without tools.
//
// Steps follow one another by timers, not by a chain of promises, which would hold 31 variables for every turn. Rooms
// that a part of a turn needs (caller, history editor, what is done with a reply) are made for that part.
export function run(session: Session, prompt: string, parts?: Part[]): Promise<RunResult> {
  let iteration = 0;
  let stop: (() => void) | undefined;
  let settle: ((result: RunResult) => void) | undefined;
  /** The server has refused a request, with files in the conversation: it would with every later one that says the same. */
  let isSpoilt: any;

  const own: Run = {
    past: {},
    idle: 0,
    wait: false,
    media: "",
    end: function (stopReason, text, message, data) {
      const resolve = settle;
      if (!resolve) return;
      settle = undefined;
      clearInterval(heartbeat);
      if (stop) stop();
      session.abort = undefined;
      if (session.child && session.child.abort) session.child.abort(message || "");
      // What somebody stopped must not be done by the next prompt. Before it is remembered there is nothing to take back.
      if (message && !begin) edit(session).rollback(stopReason !== "aborted" && !isSpoilt);
      const event: AgentEvent = { type: "final", text: text, stopReason: stopReason };
      const result: RunResult = { text: text, stopReason: stopReason };
      if (message) {
        event.isError = true;
        event.message = result.message = message;
      }
      if (data !== undefined) event.data = result.data = data;
      session.emit(event);
      resolve(result);
    },
    // Callers are deep in the stack, or one of many in a row. A timer costs 9 variables, a promise with its two
    // reactions 57. A step that failed must not leave the session busy for ever. Out of memory and an overflow of the
    // stack interrupt it, pass every `catch`, and are seen by the heartbeat only: nothing is left that would go on.
    later: function (step) {
      own.wait = true;
      setTimeout(function () {
        own.wait = false;
        try {
          if (settle) step();
        } catch (e) {
          own.end("transportError", "", "interrupted: " + ((e as any).message || "out of memory or stack. Lower historyBytes, or free variables"));
        }
      }, 1);
    },
    turn: function () {
      if (!session.calls) return own.end("maxIterations", "", "the prompt took all its model calls (maxModelCalls)");
      session.calls--;
      const bare = ++iteration > setting("maxToolIterations") || own.idle > 1;
      session.emit({ type: "iterationStart", iteration: iteration });
      stop = exchange(session, !bare, function (reply, failure) {
        stop = undefined;
        isSpoilt = failure && failure.refused && session.history!.media;
        own.later(function () {
          afterReply(session, own, reply, bare, failure && failure.message);
        });
      });
    },
  };

  if (!session.parent) {
    session.calls = setting("maxModelCalls");
    session.plans = 0;
    session.prompt = prompt;
  }
  const promise = new Promise<RunResult>(function (resolve) {
    settle = resolve;
  });
  const heartbeat = setInterval(function () {
    if (!own.wait && !stop) own.end("transportError", "", "interrupted: out of memory or stack. Lower historyBytes, or free variables");
  }, HEARTBEAT_MS);
  session.abort = function (reason) {
    own.end("aborted", "", reason);
  };
  // Remembers what is asked, with that of a failed run before it, and begins. Not kept: it would cost a dozen variables.
  let begin: any = function (text: string, media: string): void {
    const before = edit(session).takePrompt();
    const all = joinPrompts(before, text, media, session.history!.bytes.length >> 1);
    if (!remember(session, all.media ? HAS_MEDIA + USER : USER, all.text, undefined, false, all.media))
      return own.end("transportError", "", "the prompt does not fit into the history: raise historyBytes");
    begin = undefined;
    own.later(own.turn);
  };

  if (!parts) begin(prompt, "");
  else {
    own.wait = true;
    prepareParts(session, parts, "", function (text, media) {
      own.later(function () {
        begin(prompt + (text && "\n" + text), media);
      });
    });
  }
  return promise;
}
