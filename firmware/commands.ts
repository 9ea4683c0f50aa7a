import { picksMain, wrapMain } from "./agents";
import { takeConsole } from "./channel/chat";
import { createSerial, type Channel } from "./channel/serial";
import { openSettings, setting } from "./config";
import { messageLog } from "./message-log";
import { editRegistry, find, load } from "./registry";
import { observe } from "./observers";
import { openSandbox } from "./sandbox";
import { savedSession } from "./saved";
import { savedTools } from "./saved-tools";
import { ask, clear, open } from "./session";
import { fromJson } from "./text";
import type { RunResult, Session } from "./types";

/** The one conversation of this board. */
const session: Session = {
  tools: { count: 0 },
  lastCallId: 0,
  // Not the function itself: all that it is made with would stay.
  wrap: function (tool) {
    return wrapMain(tool);
  },
  // A listener that throws is reported and changes nothing: the interpreter calls those later, from its own queue.
  emit: function (event) {
    if (session.show) session.show(event);
    E.emit("agent", event);
  },
};
/** The console, while a run or chat mode needs it. */
let channel: Channel | undefined;

/** While the interpreter looks through the globals, see `word`: 1 after the first word, 2 after others. */
let looking = 0;

// Makes the console, or lets go of it where neither a run nor chat mode uses it: at rest it would cost 100 variables.
function useChannel(wanted: boolean): void {
  if (wanted ? channel : session.abort || (channel && channel.close)) return;
  channel = wanted ? createSerial(session) : undefined;
  session.show = channel && channel.show;
  session.confirm = channel && channel.confirm;
}

// Asks, and shows what comes at the console. Resolves to the RunResult.
function send(asked: any): Promise<RunResult> {
  useChannel(true);
  const files = asked && asked.files;
  const text = files ? asked.text : asked;
  const logs = setting("messageLog") && !session.abort && typeof text === "string";
  const note = session.abort || typeof text !== "string" || !text.trim() ? "" : savedTools().lastRun(true);
  let settle: any;
  // Not within it: what is made there would keep two scopes.
  const promise = new Promise<RunResult>(function (resolve) {
    settle = resolve;
  });
  if (logs) settle = { settle: settle, text: text.trim() };
  ask(session, note ? "[" + note + "]\n" + text : text, files, finish, settle);
  return promise;
}

// Ends what `send` began. `settle` is the promise's, or that and what goes into the message log.
function finish(result: RunResult, settle: any): void {
  const problem = settle.text ? messageLog().append("console", "", settle.text, result.text) : "";
  if (problem) session.emit({ type: "error", message: problem });
  useChannel(false);
  (settle.settle || settle)(result);
}

// Runs a command and returns what a call of it gives.
function run(name: string, value: any): any {
  let text = "";
  let used = 0;
  switch (name) {
    case "ask":
    case "agent_send_message":
      return send(value);
    case "agent_commands":
      return print(
        "init_tools list_tools main_loop_entry cleanup_agent agent_send_message show_llm_config ask status clear_history " +
          "set_config abort add_tool add_graph save_tool remove_tool add_observer session_save session_load"
      );
    case "init_tools":
      open(session);
      print(session.tools.count + " tools ready");
      return session.tools.count;
    case "list_tools":
      if (!session.tools.count) print("no tools: init_tools registers them");
      for (let node = session.tools.first; node; node = node.next) {
        const tool = load(node);
        print(node.name + ": " + fromJson(tool.description) + (tool.origin ? " (saved " + tool.origin + ")" : ""));
      }
      return session.tools.count;
    case "main_loop_entry":
      open(session);
      useChannel(true);
      return takeConsole(
        session,
        channel!,
        send,
        function () {
          useChannel(false);
        },
        "chat: Ctrl-C stops an answer, Ctrl-D or exit leaves\r\nyou> "
      );
    case "cleanup_agent":
      used = process.memory().usage;
      if (channel && channel.close) channel.close();
      clear(session, true);
      useChannel(false);
      openSandbox().stop();
      print("variables: " + used + " before, " + process.memory().usage + " after");
      return print("[mem] cleanup done");
    case "show_llm_config":
      openSettings().names.forEach(function (key) {
        const set = setting(key);
        print(key + ": " + (set === "" ? "not set" : /Key$|Token$/.test(key) ? "set" : set));
      });
      return;
    case "set_config": {
      if (!value || typeof value !== "object" || value instanceof Array)
        return print('set_config({model:"qwen3",maxToolIterations:5}) changes settings, null puts one back; show_llm_config lists them');
      if (session.abort) return print("busy: nothing was changed. Stop it first (abort), or wait for the answer");
      const settings = openSettings();
      text = settings.apply(value, true).join("; ");
      if (text) return print("nothing was changed: " + text);
      text = settings.save();
      // What could not be saved is not in force either.
      if (text) settings.load();
      // Some tools are there only with a setting.
      if (session.tools.count && !session.abort) {
        editRegistry(session.tools).init(picksMain);
        delete session.toolBytes;
      }
      return print(text || "saved" + ("historyBytes" in value && session.history ? " (historyBytes: after clear_history)" : ""));
    }
    case "add_tool":
      open(session);
      delete session.toolBytes;
      return print(editRegistry(session.tools).append(value) || "registered " + value.name);
    case "add_graph":
      open(session);
      delete session.toolBytes;
      return print(editRegistry(session.tools).appendGraph(value) || "the graph is registered");
    case "save_tool":
    case "remove_tool": {
      open(session);
      const saved = savedTools();
      const node = name === "remove_tool" && find(session.tools, value);
      // Of add_tool and add_graph.
      if (node && typeof node.tool !== "number" && !(typeof node.tool === "string" && node.tool.startsWith("tool."))) {
        editRegistry(session.tools).unlink(value);
        delete session.toolBytes;
        const stays = typeof node.tool === "string" && node.tool.charAt(0) !== "{";
        return print(value + " is removed" + (stays ? ", its file " + node.tool + " stays" : ""));
      }
      const result =
        name === "remove_tool" ? saved.remove(value, session, editRegistry)
        : typeof value === "string" ? saved.restore(value, session, editRegistry)
        : saved.save(value, "at the console", session, editRegistry);
      return print(result.content);
    }
    case "add_observer":
      if (!value || typeof value !== "object") return print("add_observer({onToolStart:function(name,callId,args){...}})");
      E.on("agent", observe(value));
      return print("observing");
    case "session_save":
      return print(savedSession(session).save());
    case "session_load":
      return print(savedSession(session).load());
    case "clear_history":
      clear(session, false);
      return print("the conversation is forgotten");
    case "abort":
      if (!session.abort) return print("nothing to stop");
      return session.abort("abort");
    case "status":
      text = session.history
        ? session.history.sizes.length + " messages, " + session.history.used + " of " + session.history.bytes.length + " bytes"
        : "not allocated";
      return print(
        (session.abort ? "busy" : "idle") + "; model " + (setting("model") || "not set") + " at " +
          (setting("baseUrl") || "no server (set_config)") + "; " + session.tools.count + " tools; history " + text +
          "; variables " + process.memory().usage + " of " + process.memory().total
      );
  }
}

// Makes a command of a word: a property of the global object whose getter gives a function. The getter cannot know
// whether a call follows, so it has the command run a moment later, unless the function was called by then.
//
// To print an object, the interpreter gets every global in turn, looking for the name of its class. Commands must not
// run then: it comes by the first word before the others.
export function word(name: string): (value?: any) => any {
  const first = name === "agent_commands";
  const bare = looking
    ? undefined
    : setTimeout(function () {
        const looked = looking > 1;
        if (first) looking = 0;
        if (!first || !looked) run(name, undefined);
      }, 1);
  looking = first ? 1 : looking && 2;
  return function (value: any) {
    // The first word's timer has to end the looking.
    if (bare && !first) clearTimeout(bare);
    if (first) looking = 2;
    return run(name, value);
  };
}
