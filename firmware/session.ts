import { picksMain } from "./agents";
import { layOver, setting } from "./config";
import { USER } from "./history";
import { run, type Done } from "./loop";
import { MAX_PARTS, type Part } from "./parts";
import { openProvider } from "./provider";
import { editRegistry } from "./registry";
import type { Session } from "./types";

// Registers the tools and allocates the history, once: doing it again changes nothing, unless another provider was set,
// whose dialect the old messages are not in. Throws where there is no memory.
export function open(session: Session): void {
  if (!session.tools.count) editRegistry(session.tools).init(picksMain);
  if (session.history && session.history.provider === setting("provider")) return;
  delete session.history;
  delete session.toolBytes;
  const bytes = setting("historyBytes");
  const memory = process.memory();
  // Out of memory cannot be caught on the board: look before. A run needs about 2 kB besides.
  if (memory.free * (memory.blocksize - 4) < bytes + 2048)
    throw new Error("not enough memory for a history of " + bytes + " bytes: lower historyBytes and restart the board");
  session.history = { bytes: new Uint8Array(bytes), used: 0, sizes: [], provider: setting("provider") };
}

// Asks the model, with its tools, until there is an answer, and calls `done` with it, once, later. `files` are the paths of
// files that it is to see. What went wrong is in the result's `message`. One run at a time: a second prompt is refused
// while one is under way, and changes nothing.
export function ask(session: Session, text: any, files: any, done: Done, carry?: any): void {
  // Of a sub-agent that was interrupted.
  if (!session.abort) layOver(undefined);
  let problem = "";
  if (session.abort) problem = "busy with another prompt: wait for its answer, or stop it with Ctrl-C or abort";
  else if (typeof text !== "string" || !text.trim()) problem = 'the prompt is empty: ask("turn on the lamp")';
  else if (files && !(files instanceof Array && files.length && files.length <= MAX_PARTS && !files.some(isNoPath)))
    problem = 'files is a list of 1 to ' + MAX_PARTS + ' paths: ask({text:"What is this?",files:["photo.jpg"]})';
  else if (!setting("baseUrl"))
    problem = 'no model server is set: set_config({baseUrl:"http://192.168.1.10:11434/v1",model:"qwen3"})';
  else
    try {
      open(session);
      const size = openProvider().compose(USER, text.trim()).length;
      const most = session.history!.bytes.length >> 1;
      if (size > most) problem = "the prompt has " + size + " bytes, at most " + most + " fit: shorten it or raise historyBytes";
    } catch (e) {
      problem = (e as Error).message;
    }
  if (!problem && setting("baseUrl").startsWith("https:") && !session.warned) {
    session.warned = true;
    session.emit({ type: "error", message: "https on this board checks no certificate: anybody between it and the server can read the key. Use http to a gateway in your network" });
  }
  if (!problem)
    return run(
      session,
      text.trim(),
      files &&
        files.map(function (file: string): Part {
          return { type: "image", content: file };
        }),
      done,
      carry
    );
  // Later, as every other event: the caller's line is over then.
  Promise.resolve().then(function () {
    session.emit({ type: "final", text: "", stopReason: "transportError", isError: true, message: problem });
    done({ text: "", stopReason: "transportError", message: problem }, carry);
  });
}

function isNoPath(file: any): boolean {
  return !file || typeof file !== "string";
}

// Stops the run under way, if any, and forgets the conversation; with `all`, frees the tools and the history, too:
// `open` makes them anew. A changed `historyBytes` takes effect here.
export function clear(session: Session, all: boolean): void {
  if (session.abort) session.abort("the conversation was cleared");
  const history = session.history;
  if (history && !all && history.bytes.length === setting("historyBytes")) {
    history.used = 0;
    history.sizes = [];
    delete history.media;
  } else delete session.history;
  delete session.uploads;
  if (!all) return;
  session.tools = { count: 0 };
  delete session.toolBytes;
}
