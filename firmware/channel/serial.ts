import { setting } from "../config";
import type { AgentEvent, Session } from "../types";
import { askPerson } from "./chat";
import { showOther } from "./event";

/** An answer outside chat mode is printed when a line of it is longer than this, up to the last space. */
const LINE_BYTES = 72;

/** A way to talk to the agent, and where it is in that: what is done rarely is made when it is done. */
export interface Channel {
  /** The console. While it is taken, `E.getConsole` gives nothing. */
  device: any;
  /** What is typed in chat mode and not sent yet. */
  line: string;
  /** In the middle of a line of output. */
  midLine?: boolean;
  /** What was shown last is thinking. */
  thought?: boolean;
  /** Takes the line that is typed next, where it is the answer to a question. */
  answer?: (text: string) => void;
  /**
   * Shows text of the model's: line ends for a terminal, and no escape sequence that could change it. With `all`, a line
   * that has no end yet is ended.
   */
  write(text: string, all: boolean): void;
  /** Shows an event to the person. */
  show(event: AgentEvent): void;
  /** Asks the person: true for y or yes, false for anything else, and where nothing comes in time. */
  confirm(question: string): Promise<boolean>;
  /** Leaves chat mode, if in it: undefined while not. */
  close?: () => void;
}

// The serial console. Outside chat mode it belongs to the interpreter, which takes its prompt away and puts it back
// around what is printed: an answer is printed there in whole lines. In chat mode the console is taken from the
// interpreter, since only then Ctrl-C and Ctrl-D reach this code; an answer appears as it comes, and `print` goes nowhere.
export function createSerial(session: Session): Channel {
  /** Outside chat mode: text that makes no whole line yet. */
  let rest = "";
  const showsThinking = setting("showReasoning");

  const channel: Channel = {
    device: (global as any)[E.getConsole() || ""],
    line: "",
    write: function (text, all) {
      // Most text goes on with a line; to split one takes the board longer than all the rest.
      if (all || channel.close || (JSON.stringify(text).length > text.length + 2 && /[\n\x1b]/.test(text))) {
        if (text.indexOf("\x1b") >= 0) text = text.split("\x1b").join("");
        if (channel.close) {
          if (all) text = (channel.midLine ? "\n" : "") + text;
          if (text) channel.midLine = !text.endsWith("\n");
          return channel.device.write(text.indexOf("\n") < 0 ? text : text.split("\n").join("\r\n"));
        }
        const lines = (rest + (all && rest && text ? "\n" : "") + text).split("\n");
        rest = "";
        text = all ? "" : lines.pop()!;
        for (const one of lines) if (one || !all) print(one);
      }
      rest += text;
      const space = rest.length > LINE_BYTES ? rest.lastIndexOf(" ") : -1;
      if (space < 0) return;
      print(rest.substr(0, space));
      rest = rest.substr(space + 1);
    },
    // Called for each piece of the text, and short therefore: the interpreter reads all of a function whenever it runs.
    show: function (event) {
      if (event.type === "textDelta" && !channel.thought && !event.agent) channel.write(event.text, false);
      else if (showsThinking || event.type !== "reasoningDelta") showOther(channel, event);
    },
    confirm: function (question) {
      return askPerson(session, channel, question);
    },
  };
  return channel;
}
