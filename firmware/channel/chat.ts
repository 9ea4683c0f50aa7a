import { setting } from "../config";
import type { Session } from "../types";
import { type Channel } from "./serial";

/** Milliseconds that the person has for a yes or no. */
const CONFIRM_MS = 30000;

// Asks the person: true for y or yes, false for anything else, and where nothing comes in time.
export function askPerson(session: Session, channel: Channel, question: string): Promise<boolean> {
  return new Promise(function (resolve) {
    // At the interpreter's own prompt the console is taken for this one line.
    const taken = !channel.close;
    const timer = setTimeout(function () {
      channel.write("[no answer within " + CONFIRM_MS / 1000 + " s: no]\n", true);
      channel.answer!("");
    }, CONFIRM_MS);
    channel.answer = function (text) {
      clearTimeout(timer);
      // To give the console back is neither another answer nor the end of the run.
      channel.answer = function () {};
      if (taken && channel.close) channel.close();
      delete channel.answer;
      resolve(text === "y" || text === "yes");
    };
    if (taken)
      takeConsole(
        session,
        channel,
        channel.answer,
        function () {
          if (channel.answer) channel.answer("");
        },
        ""
      );
    channel.write("[allow " + question + "? yes or no]\n", true);
  });
}

// Takes the console from the interpreter and writes `text`, until Ctrl-D or `channel.close`; `submit` gets each line, `left`
// is called at the end.
export function takeConsole(session: Session, channel: Channel, submit: (line: string) => void, left: () => void, text: string): void {
  const device = channel.device;
  if (!device || channel.close) return;
  /** Inside an escape sequence, as cursor keys send them: 1 after ESC, 2 after ESC [. */
  let escape = 0;
  let afterCr = false;

  function type(char: string): void {
    let line = channel.line;
    if (escape) escape = escape === 1 ? (char === "[" || char === "O" ? 2 : 0) : char >= "@" && char <= "~" ? 0 : 2;
    else if (char === "\x1b") escape = 1;
    else if (char === "\r" || char === "\n") {
      line = line.trim();
      channel.line = "";
      device.write("\r\n");
      // Some terminals keep Ctrl-D for themselves.
      if (channel.answer) channel.answer(line);
      else if (line === "exit") channel.close!();
      else if (line) submit(line);
      else if (!session.abort) device.write("you> ");
    } else if (char === "\x03") {
      channel.line = "";
      if (session.abort) session.abort("Ctrl-C");
      else device.write("^C\r\nyou> ");
    } else if (char === "\x7f" || char === "\b") {
      if (!line) return;
      let end = line.length - 1;
      while (end > 0 && (line.charCodeAt(end) & 0xc0) === 0x80) end--;
      channel.line = line.substr(0, end);
      device.write("\b \b");
    } else if (line.length >= setting("historyBytes") >> 1) device.write("\x07");
    else if (char >= " ") {
      channel.line += char;
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
    channel.line = "";
    if (session.abort && !channel.answer) session.abort("chat was left");
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
  device.write("\r" + text);
}
