import { setting } from "./config";
import { HAS_MEDIA, USER } from "./history";
import { joinPrompts, prepareParts } from "./media";
import { exchange, stopExchange, type Exchange } from "./request";
import { afterReply, edit, remember } from "./turn";
import { type Part } from "./parts";
import type { Failure } from "./failure";
import type { AgentEvent, ReplyCollector, RunResult, Session, StopReason } from "./types";

/** Milliseconds between looks at whether a step was interrupted. */
const HEARTBEAT_MS = 500;

/**
 * One run: what its steps hand to each other. It is plain data, and its steps are functions that are made when they are
 * used: one that is kept costs as much as five numbers.
 */
export interface Run {
  session: Session;
  /** Gets the result and `carry`, once; undefined from then on. */
  done?: Done;
  carry?: any;
  /** The request under way. */
  stop?: Exchange;
  /** Looks at whether a step was interrupted; undefined while a request is under way, which has a timer of its own. */
  timer?: any;
  iteration: number;
  /** The model was asked without tools. */
  bare?: boolean;
  /** What is asked is in the history, from where it may have to be taken back. */
  asked?: boolean;
  /** The server has refused a request, with files in the conversation: it would with every later one that says the same. */
  spoilt?: any;
  /** What each call of this run came to, in short, by a checksum of its name and arguments. */
  past: Record<string, string>;
  /** Turns in a row, up to this one, in which no tool was run. */
  idle: number;
  /** A step is to be done, a tool to give its result, or a file to be uploaded. */
  wait?: boolean;
  /** Parts that follow the results of the turn, as JSON with references. */
  media?: string;
}

/** Whoever gets a result. `carry` is what it was given to be kept meanwhile: a function without a scope costs half of a closure. */
export type Done = (result: RunResult, carry?: any) => void;

// Runs one prompt to its end: model → tool calls → tool results → model … until a reply has no call, the cap on
// iterations is reached (one last call goes without tools), the server fails, or somebody aborts. Calls `done` once, from
// the idle loop or from `session.abort`, which is set while it runs.
//
// A call that was made before in the same run, with the same arguments, is answered from memory unless its tool is
// `repeatable`; one that failed may be tried once more. Two turns in a row that ran nothing new lead to the last call
// without tools.
//
// Steps follow one another by timers, not by a chain of promises, which would hold 31 variables for every turn.
export function run(session: Session, prompt: string, parts: Part[] | undefined, done: Done, carry?: any): void {
  const own: Run = { session: session, done: done, carry: carry, timer: 0, iteration: 0, past: {}, idle: 0 };
  if (!session.parent) {
    session.calls = setting("maxModelCalls");
    session.plans = 0;
    session.prompt = prompt;
  }
  watch(own);
  session.abort = stopper(own);
  if (!parts) return begin(own, prompt, "");
  own.wait = true;
  prepareParts(session, parts, "", function (text, media) {
    later(own, function () {
      begin(own, prompt + (text && "\n" + text), media);
    });
  });
}

// On its own: what `run` was called with would stay with it.
function stopper(own: Run): (reason: string) => void {
  return function (reason) {
    end(own, "aborted", "", reason);
  };
}

// Remembers what is asked, with that of a failed run before it, and begins.
function begin(own: Run, text: string, media: string): void {
  const session = own.session;
  const before = edit(session).takePrompt();
  const all = joinPrompts(before, text, media, session.history!.bytes.length >> 1);
  if (!remember(session, all.media ? HAS_MEDIA + USER : USER, all.text, undefined, false, all.media))
    return fail(own, "the prompt does not fit into the history: raise historyBytes");
  own.asked = true;
  later(own, turn);
}

// Out of memory and an overflow of the stack interrupt a step and pass every `catch`: nothing is left that would go on.
function look(own: Run): void {
  if (!own.wait && !own.stop) interrupted(own);
}

function interrupted(own: Run, words?: string): void {
  fail(own, "interrupted: " + (words || "out of memory or stack. Lower historyBytes, or free variables"));
}

function watch(own: Run): void {
  own.timer = setInterval(look, HEARTBEAT_MS, own);
}

// Goes on with a step from the idle loop: callers are deep in the stack, or one of many in a row. A timer costs 9 variables,
// a promise with its two reactions 57.
export function later(own: Run, step: (own: Run) => void): void {
  own.wait = true;
  setTimeout(goOn, 1, own, step);
}

// A step that failed must not leave the session busy for ever.
function goOn(own: Run, step: (own: Run) => void): void {
  delete own.wait;
  try {
    if (own.done) step(own);
  } catch (e) {
    interrupted(own, (e as any).message);
  }
}

// Asks the model.
export function turn(own: Run): void {
  const session = own.session;
  if (!session.calls) return end(own, "maxIterations", "", "the prompt took all its model calls (maxModelCalls)");
  session.calls--;
  own.bare = ++own.iteration > setting("maxToolIterations") || own.idle > 1 || undefined;
  session.emit({ type: "iterationStart", iteration: own.iteration });
  clearInterval(own.timer);
  delete own.timer;
  own.stop = exchange(session, !own.bare, takeReply, own);
}

function takeReply(own: Run, reply: ReplyCollector | undefined, failure?: Failure): void {
  watch(own);
  own.stop = undefined;
  own.spoilt = failure && failure.refused && own.session.history!.media;
  later(own, function () {
    afterReply(own, reply, failure && failure.message);
  });
}

// Ends a run that cannot go on.
export function fail(own: Run, message: string): void {
  end(own, "transportError", "", message);
}

// Ends the run, once. With a message it failed.
export function end(own: Run, stopReason: StopReason, text: string, message?: string, data?: any): void {
  const session = own.session;
  const done = own.done;
  if (!done) return;
  own.done = undefined;
  if (own.timer) clearInterval(own.timer);
  if (own.stop) stopExchange(own.stop);
  session.abort = undefined;
  if (session.child && session.child.abort) session.child.abort(message || "");
  // What somebody stopped must not be done by the next prompt.
  if (message && own.asked) edit(session).rollback(stopReason !== "aborted" && !own.spoilt);
  const event: AgentEvent = { type: "final", text: text, stopReason: stopReason };
  const result: RunResult = { text: text, stopReason: stopReason };
  if (message) {
    event.isError = true;
    event.message = result.message = message;
  }
  if (data !== undefined) event.data = result.data = data;
  session.emit(event);
  done(result, own.carry);
}
