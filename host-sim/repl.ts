/**
 * The board's serial console: Espruino's line editor and REPL. Bytes in, bytes out; what a terminal shows is Espruino's
 * own echo. Layout and escape sequences follow the interpreter's `jsinteractive.c`.
 *
 * Not modelled: breaking a running loop with Ctrl-C. Board code runs in one piece here, so that nothing is received
 * meanwhile; a loop that does not end is broken after a number of turns (`RealmOptions.maxSteps`), with the message
 * that Ctrl-C has on a board. Nor are upload packets (a line that begins with DLE SOH is taken for text) and tab
 * completion.
 */
import type { ConsoleDevice } from "./globals";
import type { Realm } from "./realm";

/** The outside of the console: a terminal, a test or an uploader holds this end. */
export interface Console {
  /** Bytes typed at the board's serial port, one character each. */
  write(bytes: string): void;
  /** Bytes the board sends. Returns a function that stops the listener. */
  onData(listener: (bytes: string) => void): () => void;
}

export interface Repl {
  console: Console;
  /** The inside: what `print`, `Serial1` and `E.setConsole` use. */
  device: ConsoleDevice;
  /** Prints the start-up banner. */
  banner(): void;
  /** Prints `Uncaught …` and the stack. */
  printError(text: string): void;
  /** Called when nothing runs: the prompt comes back. */
  idle(): void;
  /** Forgets the line being typed (a reset). */
  clear(): void;
}

export interface ReplOptions {
  /** The realm of the moment: a reset makes a new one. */
  realm(): Realm;
  version: string;
  board: string;
  /** Bytes for `Serial1` while it is not the console. */
  onSerialData(bytes: string): void;
}

const BANNER = (version: string) =>
  "\n ____                 _ \n|  __|___ ___ ___ _ _|_|___ ___ \n|  __|_ -| . |  _| | | |   | . |\n" +
  "|____|___|  _|_| |___|_|_|_|___|\n" +
  `         |_| espruino.com\n ${version} (c) 2025 G.Williams\n\n` +
  "Espruino is Open Source. Our work is supported\nonly by sales of official boards and donations:\n" +
  "http://espruino.com/Donate\n\n";

const RESULT_FLAGS = { limit: true, some: true, pretty: true, names: true, dropQuotes: true };
const MAX_HISTORY = 40;
const UNFINISHED = 1000;

/** Open brackets of a line; Espruino goes on reading while there are some. Text and comments do not count. */
export const openBrackets = (line: string): number => {
  let depth = 0;
  let previous = "";
  for (let i = 0; i < line.length; i++) {
    const char = line[i]!;
    if (char === "/" && line[i + 1] === "/") {
      const end = line.indexOf("\n", i);
      if (end < 0) break;
      i = end;
      continue;
    }
    if (char === "/" && line[i + 1] === "*") {
      const end = line.indexOf("*/", i + 2);
      if (end < 0) return UNFINISHED;
      i = end + 1;
      continue;
    }
    if (char === "/" && (previous === "" || "(,=:[!&|?{};+-*%<>~^".includes(previous))) {
      let end = i + 1;
      while (end < line.length && line[end] !== "/" && line[end] !== "\n") end += line[end] === "\\" ? 2 : 1;
      i = end;
      previous = "/";
      continue;
    }
    if (char === '"' || char === "'" || char === "`") {
      let end = i + 1;
      while (end < line.length && line[end] !== char) {
        if (char !== "`" && line[end] === "\n") return 0;
        end += line[end] === "\\" ? 2 : 1;
      }
      if (end >= line.length) return char === "`" ? UNFINISHED : 0;
      i = end;
      previous = char;
      continue;
    }
    if ("{[(".includes(char)) depth++;
    if ("}])".includes(char)) depth--;
    if (depth < 0) return depth;
    if (!/\s/.test(char)) previous = char;
  }
  return depth;
};

/** An error of a host's listener is the host's: it must not look to board code as if the board had failed. */
export const callHost = (fn: () => void): void => {
  try {
    fn();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
};

/** Makes the console of one board. */
export const createRepl = (options: ReplOptions): Repl => {
  const listeners = new Set<(bytes: string) => void>();
  const history: string[] = [];
  let historyIndex = -1;
  let deviceName: string | null = "Serial1";
  let line = "";
  let cursor = 0;
  let isRemoved = true;
  let isEcho = true;
  let waiting = "";
  let isEchoOffForLine = false;
  let state: "" | "esc" | "esc[" | "escO" | "number" | "cr" = "";
  let stateNumber = 0;

  const send = (bytes: string): void => {
    for (const listener of [...listeners]) callHost(() => listener(bytes));
  };
  /** Console text: line ends become CR LF; nothing is sent while no device is the console. */
  const put = (text: string): void => {
    if (deviceName && text !== "") send(text.replace(/\n/g, "\r\n"));
  };
  const echoes = () => isEcho && !isEchoOffForLine;
  const showsLine = () => echoes() && !isRemoved;

  const position = (index: number): [number, number] => {
    const before = line.slice(0, index).split("\n");
    return [before[before.length - 1]!.length, before.length - 1];
  };
  const moveCursor = (from: number, to: number): void => {
    const [oldX, oldY] = position(from);
    const [newX, newY] = position(to);
    put((newX > oldX ? "\x1b[C" : "\x1b[D").repeat(Math.abs(newX - oldX)));
    put((newY > oldY ? "\x1b[B" : "\x1b[A").repeat(Math.abs(newY - oldY)));
  };
  const removeLine = (): void => {
    if (isRemoved) return;
    isRemoved = true;
    if (!echoes()) return;
    moveCursor(cursor, 0);
    put("\r\x1b[J");
  };
  const returnLine = (): void => {
    if (!isRemoved) return;
    isRemoved = false;
    if (!echoes()) return;
    put(`>${line.replace(/\n/g, "\n:")}`);
    moveCursor(line.length, cursor);
  };
  const replaceLine = (text: string): void => {
    if (showsLine()) {
      moveCursor(cursor, 0);
      put("\x1b[J");
      put(text.replace(/\n/g, "\n:"));
    }
    line = text;
    cursor = text.length;
  };
  const append = (text: string): void => {
    if (cursor < line.length) {
      const tail = line.slice(cursor);
      line = line.slice(0, cursor) + text + tail;
      cursor += text.length;
      if (showsLine()) {
        const visible = tail.split("\n")[0]!;
        put(`${text}${visible} ${"\b".repeat(visible.length + 1)}`);
      }
      return;
    }
    line += text;
    cursor = line.length;
    if (showsLine()) put(text);
  };
  const erase = (isBackspace: boolean): void => {
    if (isBackspace ? cursor === 0 : cursor >= line.length) return;
    const at = isBackspace ? cursor - 1 : cursor;
    const isNewLine = line[at] === "\n";
    if (isNewLine && showsLine()) {
      put("\x1b[J");
      if (isBackspace) {
        put("\b ");
        moveCursor(cursor, cursor - 1);
      }
    }
    line = line.slice(0, at) + line.slice(at + 1);
    cursor = at;
    if (!showsLine()) return;
    const tail = line.slice(cursor);
    if (isNewLine) {
      put(tail.replace(/\n/g, "\n:"));
      moveCursor(line.length, cursor);
    } else {
      const visible = tail.split("\n")[0]!;
      put(`${isBackspace ? "\b" : ""}${visible} ${"\b".repeat(visible.length + 1)}`);
    }
  };

  const execute = (text: string): void => {
    const realm = options.realm();
    realm.library.resetStack();
    try {
      const value = realm.evaluate(text, "REPL");
      if (echoes() && text !== "") {
        // Writing a value out may run code of the program, which may print.
        put("=");
        put(`${realm.library.format(value, RESULT_FLAGS)}\n`);
      }
    } catch (error) {
      realm.report(error);
    }
    realm.reportRaised();
  };
  const newLine = (mayExecute: boolean): void => {
    if (cursor < line.length) {
      line = `${line.slice(0, cursor)}\n${line.slice(cursor)}`;
      if (showsLine()) {
        put("\x1b[J");
        put(line.slice(cursor).replace(/\n/g, "\n:"));
        moveCursor(line.length, cursor + 1);
      }
      cursor++;
      return;
    }
    if (mayExecute && openBrackets(line) <= 0) {
      if (showsLine()) put("\n");
      if (!isEchoOffForLine) isRemoved = true;
      const text = line.trimEnd();
      line = "";
      cursor = 0;
      if (text !== "" && echoes()) {
        history.push(text);
        if (history.length > MAX_HISTORY) history.shift();
      }
      historyIndex = -1;
      execute(text);
      isEchoOffForLine = false;
    } else {
      if (showsLine()) put("\n:");
      line += "\n";
      cursor = line.length;
    }
  };
  const moveBy = (step: number): void => {
    const next = cursor + step;
    if (next < 0 || next > line.length || line[Math.min(cursor, next)] === "\n") return;
    cursor = next;
    if (showsLine()) put(step > 0 ? "\x1b[C" : "\x1b[D");
  };
  const moveTo = (target: number): void => {
    if (showsLine()) moveCursor(cursor, target);
    cursor = target;
  };
  const changeHistory = (step: number): void => {
    const next = (historyIndex < 0 ? history.length : historyIndex) + step;
    if (next < 0) return;
    if (next >= history.length) {
      historyIndex = -1;
      if (step > 0) replaceLine("");
      return;
    }
    historyIndex = next;
    replaceLine(history[next]!);
  };
  const lineStart = () => line.lastIndexOf("\n", cursor - 1) + 1;
  const lineEnd = () => (line.indexOf("\n", cursor) < 0 ? line.length : line.indexOf("\n", cursor));

  const escape = (char: string): boolean => {
    if (state === "esc") {
      state = char === "O" ? "escO" : char === "[" ? "esc[" : "";
      if (char === "\n") newLine(false);
      return true;
    }
    if (state === "escO") {
      state = "";
      if (char === "F") moveTo(lineEnd());
      else if (char === "H") moveTo(lineStart());
      return true;
    }
    if (state === "esc[") {
      state = "";
      if (char >= "0" && char <= "9") {
        stateNumber = Number(char);
        state = "number";
      } else if (char === "D") moveBy(-1);
      else if (char === "C") moveBy(1);
      else if (char === "A") changeHistory(-1);
      else if (char === "B") changeHistory(1);
      else if (char === "F") moveTo(lineEnd());
      else if (char === "H") moveTo(lineStart());
      return true;
    }
    if (state === "number") {
      if (char >= "0" && char <= "9") {
        stateNumber = stateNumber * 10 + Number(char);
        return true;
      }
      state = "";
      if (char === "H" && stateNumber === 2) {
        if (line !== "") removeLine();
        line = "";
        cursor = 0;
      } else if (char === "~") {
        if (stateNumber === 1) moveTo(lineStart());
        else if (stateNumber === 3) erase(false);
        else if (stateNumber === 4) moveTo(lineEnd());
      }
      return true;
    }
    return false;
  };

  const receive = (char: string): void => {
    if (char === "\x03") {
      // The interrupt breaks what runs (nothing can be running here) and clears the line.
      if (line !== "") removeLine();
      line = "";
      cursor = 0;
      state = "";
      return;
    }
    if (state !== "cr" && state !== "" && escape(char)) return;
    const isAfterCr = state === "cr";
    state = "";
    if (char === "\0" || char === "\x01") return;
    if (char === "\x05") {
      if (line === "") put(`Espruino ${options.version} ${options.board}\n`);
    } else if (char === "\x10") {
      if (line === "") isEchoOffForLine = true;
    } else if (char === "\x1b") state = "esc";
    else if (char === "\b" || char === "\x7f") erase(true);
    else if (char === "\n" && isAfterCr) return;
    else if (char === "\r" || char === "\n") {
      if (char === "\r") state = "cr";
      newLine(true);
    } else if (char === "\t") append("    ");
    else if (char >= " ") append(char);
  };

  const device: ConsoleDevice = {
    setEcho(isOn) {
      isEcho = isOn;
    },
    print(text) {
      removeLine();
      put(text);
    },
    write: (bytes) => send(bytes),
    device: () => deviceName,
    setDevice(name) {
      if (name === deviceName) return;
      if (isEcho) {
        removeLine();
        put(`-> ${name}\n`);
      }
      const old = deviceName;
      deviceName = name;
      if (isEcho) put(`<- ${old}\n`);
    },
  };

  const takeInput = (): void => {
    const bytes = waiting;
    waiting = "";
    options.realm().enter(() => {
      for (let i = 0; i < bytes.length; i++) {
        if (deviceName === null) {
          // Without a console the port hands over what is there: the first byte alone, then the rest.
          options.onSerialData(bytes[i]!);
          if (i + 1 < bytes.length) options.onSerialData(bytes.slice(i + 1));
          return;
        }
        receive(bytes[i]!);
      }
    });
  };

  return {
    device,
    console: {
      write(bytes) {
        waiting += bytes;
        // A listener of the output may answer at once: its bytes wait, as they would in the port's buffer.
        if (!options.realm().isRunning()) takeInput();
      },
      onData(listener) {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      },
    },
    banner() {
      put(BANNER(options.version));
    },
    printError(text) {
      removeLine();
      put(text);
    },
    idle() {
      if (waiting !== "") takeInput();
      else returnLine();
    },
    clear() {
      line = "";
      cursor = 0;
      isEchoOffForLine = false;
      isRemoved = true;
      deviceName = "Serial1";
      isEcho = true;
      state = "";
    },
  };
};
