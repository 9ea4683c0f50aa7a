import { setting } from "../config";
import { cutUtf8 } from "../text";
import type { AgentEvent, Session } from "../types";

/** Bytes of a result in the one line that shows a tool call. */
const TOOL_LINE_BYTES = 100;

/** Milliseconds that the person has for a yes or no. */
const CONFIRM_MS = 30000;

/** An answer outside chat mode is printed when a line of it is longer than this, up to the last space. */
const LINE_BYTES = 72;

/** A way to talk to the agent. */
export interface Channel {
  /** Shows an event to the person. */
  show(event: AgentEvent): void;
  /** Asks the person: true for y or yes, false for anything else, and where nothing comes in time. */
  confirm(question: string): Promise<boolean>;
  /** Takes the input for chat mode, until Ctrl-D or `close`; `submit` gets each line, `left` is called at the end. */
  open(submit: (line: string) => void, left: () => void, quiet?: boolean): void;
  /** Leaves chat mode, if in it: undefined while not. */
  close?: () => void;
}

// The serial console. Outside chat mode it belongs to the interpreter, which takes its prompt away and puts it back
// around what is printed: an answer is printed there in whole lines. In chat mode the console is taken from the
// interpreter, since only then Ctrl-C and Ctrl-D reach this code; an answer appears as it comes, and `print` goes nowhere.
export function createSerial(session: Session): Channel {
  /** The console. While it is taken, `E.getConsole` gives nothing. */
  const device = (global as any)[E.getConsole() || ""];
  /** What is typed in chat mode and not sent yet. */
  let line = "";
  /** Outside chat mode: text that makes no whole line yet. */
  let rest = "";
  /** In the middle of a line of output. */
  let midLine = false;
  let thinking = false;
  const showsThinking = setting("showReasoning");

  // Text of the model's: line ends for a terminal, and no escape sequence that could change it. With `all`, a line that
  // has no end yet is ended.
  function write(text: string, all: boolean): void {
    // The usual case, in few words: it goes on with a line.
    if (!all && !channel.close && rest.length + text.length <= LINE_BYTES && !/[\n\x1b]/.test(text)) {
      rest += text;
      return;
    }
    if (text.indexOf("\x1b") >= 0) text = text.split("\x1b").join("");
    if (channel.close) {
      if (all) text = (midLine ? "\n" : "") + text;
      if (text) midLine = !text.endsWith("\n");
      return device.write(text.split("\n").join("\r\n"));
    }
    const lines = (rest + (all && rest && text ? "\n" : "") + text).split("\n");
    rest = all ? "" : lines.pop()!;
    for (const one of lines) if (one || !all) print(one);
    const space = rest.length > LINE_BYTES ? rest.lastIndexOf(" ") : -1;
    if (space < 0) return;
    print(rest.substr(0, space));
    rest = rest.substr(space + 1);
  }

  /** Takes the line that is typed next, where it is the answer to a question. */
  let answer: ((text: string) => void) | undefined;

  function showOther(event: AgentEvent): void {
    let text = "";
    const agent = event.agent ? event.agent + "/" : "";
    // What a sub-agent writes goes to the agent that asked it.
    if (agent && (event.type === "textDelta" || event.type === "final")) return;
    // Whoever stopped the run answers no question of it.
    if (event.type === "final" && answer) answer("");
    const thinks = event.type === "reasoningDelta";
    if (thinks !== thinking) write(thinks ? "[thinking]\n" : event.type === "textDelta" ? "[answer]\n" : "", true);
    thinking = thinks;
    if (event.type === "textDelta" || event.type === "reasoningDelta") return write(event.text, false);
    if (event.type === "toolEnd") {
      if (event.ends) return;
      const first = cutUtf8(event.content.split("\n")[0], TOOL_LINE_BYTES);
      text = agent + event.name + (event.isError ? " failed: " : ": ") + first + (first.length < event.content.length ? " ..." : "");
    } else if (event.type === "retry") text = agent + "trying again in " + (event.waitMs / 1000).toFixed(1) + " s: " + event.reason;
    else if (event.type === "error") text = agent + "warning: " + event.message;
    else if (event.type === "plan") {
      const marks: Record<string, string> = { todo: "[ ] ", doing: "[>] ", done: "[x] ", failed: "[!] " };
      // All of it at its start, then a line for what has changed.
      const whole = event.steps[0].state === "doing";
      for (const step of event.steps) {
        const one = marks[step.state] + step.task + " (" + step.agent + ")";
        if (whole) text += (text && "\n") + one;
        else if (step.state !== "todo") text = one;
      }
      return write(text + (channel.close ? "\n" : ""), true);
    } else if (event.type === "upload") text = agent + event.path + ": " + event.sent + " of " + event.total + " bytes sent";
    else if (event.type === "file") text = event.path + ": " + event.url;
    else if (event.type !== "final") return;
    else if (event.message) text = (event.stopReason === "aborted" ? "stopped: " : "error: ") + event.message;
    else if (event.stopReason === "maxIterations") text = "the last answer without tools, see maxToolIterations";
    if (text) text = "[" + text + "]" + (channel.close ? "\n" : "");
    write(text, true);
    if (event.type !== "final" || !channel.close) return;
    device.write((midLine ? "\r\n" : "") + "you> " + line);
    midLine = false;
  }

  const channel: Channel = {
    confirm: function (question) {
      return new Promise(function (resolve) {
        // At the interpreter's own prompt the console is taken for this one line.
        const taken = !channel.close;
        const timer = setTimeout(function () {
          write("[no answer within " + CONFIRM_MS / 1000 + " s: no]\n", true);
          answer!("");
        }, CONFIRM_MS);
        answer = function (text) {
          clearTimeout(timer);
          // To give the console back is neither another answer nor the end of the run.
          answer = function () {};
          if (taken && channel.close) channel.close();
          answer = undefined;
          resolve(text === "y" || text === "yes");
        };
        if (taken)
          channel.open(
            answer,
            function () {
              if (answer) answer("");
            },
            true
          );
        write("[allow " + question + "? yes or no]\n", true);
      });
    },
    // Called for each piece of the text, and short therefore: the interpreter reads all of a function whenever it runs.
    show: function (event) {
      if (event.type === "textDelta" && !thinking && !event.agent) write(event.text, false);
      else if (showsThinking || event.type !== "reasoningDelta") showOther(event);
    },
    open: function (submit, left, quiet) {
      if (!device || channel.close) return;
      /** Inside an escape sequence, as cursor keys send them: 1 after ESC, 2 after ESC [. */
      let escape = 0;
      let afterCr = false;

      function type(char: string): void {
        if (escape) escape = escape === 1 ? (char === "[" || char === "O" ? 2 : 0) : char >= "@" && char <= "~" ? 0 : 2;
        else if (char === "\x1b") escape = 1;
        else if (char === "\r" || char === "\n") {
          const text = line.trim();
          line = "";
          device.write("\r\n");
          // Some terminals keep Ctrl-D for themselves.
          if (answer) answer(text);
          else if (text === "exit") channel.close!();
          else if (text) submit(text);
          else if (!session.abort) device.write("you> ");
        } else if (char === "\x03") {
          line = "";
          if (session.abort) session.abort("Ctrl-C");
          else device.write("^C\r\nyou> ");
        } else if (char === "\x7f" || char === "\b") {
          if (!line) return;
          let end = line.length - 1;
          while (end > 0 && (line.charCodeAt(end) & 0xc0) === 0x80) end--;
          line = line.substr(0, end);
          device.write("\b \b");
        } else if (line.length >= setting("historyBytes") >> 1) device.write("\x07");
        else if (char >= " ") {
          line += char;
          device.write(char);
        }
      }

      function onData(data: string): void {
        for (let i = 0; i < data.length; i++) {
          const char = data.charAt(i);
          if (char === "\x04") channel.close!();
          else if (!(char === "\n" && afterCr)) type(char);
          afterCr = char === "\r";
          // What was typed behind the end of the chat is for the interpreter.
          if (!channel.close) return device.inject(data.substr(i + 1));
        }
      }

      channel.close = function () {
        delete channel.close;
        line = "";
        if (session.abort && !answer) session.abort("chat was left");
        device.removeListener("data", onData);
        device.write("\r\n");
        E.setConsole(device, { force: true });
        echo(true);
        device.write(">");
        left();
      };
      // Without echo the interpreter does not tell that the console moves.
      echo(false);
      E.setConsole(null as any, { force: true });
      device.on("data", onData);
      device.write(quiet ? "\r" : "\rchat: Ctrl-C stops an answer, Ctrl-D or exit leaves\r\nyou> ");
    },
  };
  return channel;
}
