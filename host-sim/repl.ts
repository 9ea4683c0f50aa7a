/**
 * The board's serial console: Espruino's line editor and REPL. Bytes in, bytes out; what a terminal shows is Espruino's
 * own echo. Layout, escape sequences and the states of the input follow the interpreter's `jsinteractive.c`.
 *
 * Every byte counts as handled before the next one comes, as on a slow wire: a Ctrl-C clears what was typed before it,
 * however the bytes were cut into pieces. (The interpreter's own idle loop clears what an earlier piece had left.)
 *
 * Ctrl-C breaks a loop that runs where a `Wire` sees the bytes come in meanwhile: board code runs in one piece here.
 * With a wire, a loop runs on until Ctrl-C comes, as on a board. Without one nobody could break it: it ends by itself
 * after a number of turns (`RealmOptions.maxSteps`), which is said. The interpreter's debugger, which Ctrl-C enters on
 * some boards, is not modelled; nor is the text that the ESP32's ROM prints when the chip starts.
 */
import type { Clock } from "./clock";
import type { ConsoleDevice } from "./globals";
import { createPackets } from "./packets";
import type { Realm } from "./realm";
import type { StorageApi } from "./storage";

/** The outside of the console: a terminal, a test or an uploader holds this end. */
export interface Console {
  /** Bytes typed at the board's serial port, one character each. */
  write(bytes: string): void;
  /** Bytes the board sends. Returns a function that stops the listener. */
  onData(listener: (bytes: string) => void): () => void;
  /** Lets a wire that goes on receiving while board code runs break that code. Returns a function that takes it off. */
  addWire(wire: Wire): () => void;
}

/** The other end of a serial wire, in a thread of its own. */
export interface Wire {
  /** How many Ctrl-C have come in that `write` has not been given yet. Asked often while board code runs. */
  waitingBreaks(): number;
}

export interface Repl {
  console: Console;
  /** The inside: what `print`, `Serial1` and `E.setConsole` use. */
  device: ConsoleDevice;
  /** Prints what the interpreter prints when it has started: the banner (it has none where flash holds a program). */
  started(hasBanner: boolean): void;
  /** Prints `Uncaught …` and the stack. */
  printError(text: string): void;
  /** Whether a Ctrl-C asks what is running to end. Giving true uses that Ctrl-C up. */
  takeBreak(): boolean;
  /** Runs board code that is not an event's: a typed line, a boot file. */
  runLine(fn: () => void): void;
  /** Whether somebody could break what runs: a wire is there. */
  hasWire(): boolean;
  isInLine(): boolean;
  /** Whether what is typed is shown: `echo(0)` turns it off. */
  isEchoOn(): boolean;
  /** Called when nothing runs: the prompt comes back. */
  idle(): void;
  /**
   * Forgets the line being typed and a packet under way. `load` leaves echo as it is, `reset` turns it on, and after
   * `power` the default device is the console, too.
   */
  clear(kind: "load" | "reset" | "power"): void;
}

export interface ReplOptions {
  /** The realm of the moment: a reset makes a new one. */
  realm(): Realm;
  clock: Clock;
  /** Files that packets send and fetch. */
  storage(): StorageApi;
  isPin(value: unknown): boolean;
  version: string;
  board: string;
  /** Bytes for `Serial1` while it is not the console. */
  onSerialData(bytes: string): void;
}

/** The first line turns off line wrapping in the terminal. */
const BANNER = (version: string) =>
  "\x1b[?7l\n ____                 _ \n|  __|___ ___ ___ _ _|_|___ ___ \n|  __|_ -| . |  _| | | |   | . |\n" +
  "|____|___|  _|_| |___|_|_|_|___|\n" +
  `         |_| espruino.com\n ${version} (c) 2025 G.Williams\n\n` +
  "Espruino is Open Source. Our work is supported\nonly by sales of official boards and donations:\n" +
  "http://espruino.com/Donate\n";

const RESULT_FLAGS = { limit: true, some: true, pretty: true, names: true, dropQuotes: true };
/** Longer lines do not go into the history. */
const MAX_HISTORY_LINE = 500;
/** All lines of the history together. A board forgets them when it needs the memory. */
const MAX_HISTORY = 16_000;
const UNFINISHED = 1000;
/** Width of a column of names that could complete a word. */
const COLUMN = 20;

/** The interpreter's tokens, as far as completing a name goes: space, comments, words and numbers, texts, the rest. */
const TOKEN = /\s+|\/\/.*|\/\*[^]*?(?:\*\/|$)|[\w$]+|"(?:[^"\\]|\\[^])*"?|'(?:[^'\\]|\\[^])*'?|`[^`]*`?|[^]/g;
const RESERVED = new Set(
  (
    "if else do while for return break continue function var let const this null undefined true false in instanceof " +
    "switch case default new typeof void delete try catch finally throw class extends super static of debugger"
  ).split(" "),
);

const CTRL_C = "\x03";
const countBreaks = (bytes: string): number => bytes.split(CTRL_C).length - 1;

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
  const wires = new Set<Wire>();
  const history: string[] = [];
  /** Place in the history of the line shown, as long as it has not been changed. */
  let historyIndex: number | undefined;
  let deviceName: string | null = "Serial1";
  let line = "";
  let cursor = 0;
  let isRemoved = false;
  let isEcho = true;
  let waiting = "";
  let isEchoOffForLine = false;
  let state: "" | "dle" | "esc" | "esc[" | "escO" | "number" = "";
  let stateNumber = 0;
  /** Ctrl-C that have ended something before they were read. */
  let usedBreaks = 0;

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
  const clearLine = (): void => {
    if (line === "") return;
    removeLine();
    line = "";
    cursor = 0;
    historyIndex = undefined;
  };
  /** The rest of the cursor's line, a space over what stood behind it, and back. */
  const putRestOfLine = (from: number): void => {
    const visible = line.slice(from).split("\n")[0]!;
    put(`${visible} ${"\b".repeat(visible.length + 1)}`);
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
    historyIndex = undefined;
    const isAtEnd = cursor >= line.length;
    line = line.slice(0, cursor) + text + line.slice(cursor);
    if (!isAtEnd && showsLine()) putRestOfLine(cursor);
    cursor += text.length;
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
    historyIndex = undefined;
    line = line.slice(0, at) + line.slice(at + 1);
    cursor = at;
    if (!showsLine()) return;
    if (isNewLine) {
      put(line.slice(cursor).replace(/\n/g, "\n:"));
      moveCursor(line.length, cursor);
    } else {
      if (isBackspace) put("\b");
      putRestOfLine(cursor);
    }
  };

  let isInLine = false;
  const runLine = (fn: () => void): void => {
    const was = isInLine;
    isInLine = true;
    try {
      fn();
    } finally {
      isInLine = was;
    }
  };
  const remember = (text: string): void => {
    if (text.length > MAX_HISTORY_LINE) return;
    const known = history.indexOf(text);
    if (known >= 0) history.splice(known, 1);
    history.push(text);
    let size = history.reduce((sum, one) => sum + one.length, 0);
    while (size > MAX_HISTORY) size -= history.shift()!.length;
  };
  const execute = (text: string): void => {
    const realm = options.realm();
    realm.library.resetStack();
    try {
      const value = realm.evaluate(text, "REPL");
      if (text !== "" && echoes()) {
        remember(text);
        // Writing a value out may run code of the program, which may print.
        put("=");
        put(`${realm.library.format(value, RESULT_FLAGS)}\n`);
      }
    } catch (error) {
      if (text !== "" && echoes()) remember(text);
      realm.report(error);
    }
    realm.reportRaised();
  };
  const newLine = (mayExecute: boolean): void => {
    if (/\S/.test(line.slice(cursor))) {
      historyIndex = undefined;
      if (showsLine()) put("\x1b[J");
      line = `${line.slice(0, cursor)}\n${line.slice(cursor)}`;
      if (showsLine()) {
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
      historyIndex = undefined;
      runLine(() => execute(text));
      isEchoOffForLine = false;
    } else {
      if (showsLine()) put("\n:");
      historyIndex = undefined;
      line += "\n";
      cursor++;
    }
  };
  const moveBy = (step: number): void => {
    const next = cursor + step;
    if (next < 0 || next > line.length || line[Math.min(cursor, next)] === "\n") return;
    cursor = next;
    if (showsLine()) put(step > 0 ? "\x1b[C" : "\x1b[D");
  };
  const moveTo = (target: number): void => {
    moveCursor(cursor, target);
    cursor = target;
  };
  const home = (): void => {
    const start = line.lastIndexOf("\n", cursor - 1) + 1;
    if (cursor > 0 && showsLine()) put("\b".repeat(cursor - start));
    if (cursor > 0) cursor = start;
  };
  const end = (): void => {
    const next = line.indexOf("\n", cursor);
    const target = next < 0 ? line.length : next;
    if (showsLine()) put(line.slice(cursor, target));
    cursor = target;
  };
  const moveUpDown = (step: number): void => {
    const [x, y] = position(cursor);
    const lines = line.split("\n");
    const target = Math.min(Math.max(y + step, 0), lines.length - 1);
    const before = lines.slice(0, target).reduce((sum, one) => sum + one.length + 1, 0);
    const next = before + Math.min(x, lines[target]!.length);
    if (showsLine()) moveCursor(cursor, next);
    cursor = next;
  };
  const upDown = (step: number): void => {
    if ((line !== "" && historyIndex === undefined) || cursor < line.length) return moveUpDown(step);
    const next = historyIndex === undefined ? (step < 0 ? history.length - 1 : history.length) : historyIndex + step;
    const text = history[next];
    if (text === undefined && step < 0) return;
    replaceLine(text ?? "");
    historyIndex = text === undefined ? undefined : next;
  };

  /** Names that a value has of its own, then what its prototypes have, built-in ones in alphabetical order. */
  const namesOf = (value: unknown): string[] => {
    const { library, global } = options.realm();
    const names: string[] = [];
    const own = (object: object): string[] => library.ownNames(object);
    const isPlain = (name: string): boolean => /^[A-Za-z_$][\w$]*$/.test(name) && !/^(constructor|__.*__)$/.test(name);
    for (let object: any = global.Object(value); object; object = Object.getPrototypeOf(object)) {
      // The interpreter counts `length` among what every object has.
      const all = [...own(object).filter(isPlain), ...(Object.getPrototypeOf(object) === null ? ["length"] : [])];
      const isProgram = (name: string): boolean => library.nativeDescriptor(object, name)?.enumerable === true;
      names.push(...all.filter(isProgram), ...all.filter((name) => !isProgram(name)).sort());
    }
    return names;
  };
  const field = (object: any, name: string): unknown => {
    const realm = options.realm();
    try {
      return object?.[name] ?? realm.library.newObject();
    } catch (error) {
      realm.report(error);
      return realm.library.newObject();
    }
  };
  /** Completes the name before the cursor, as far as it is clear, and shows what it could be. */
  const complete = (): void => {
    const typed = line.slice(0, cursor);
    const realm = options.realm();
    // What the name is looked for in: nothing behind an operator, an object without fields behind an unknown value.
    let object: unknown = realm.global;
    let part: string | undefined;
    let isAtEnd = true;
    for (const match of typed.matchAll(TOKEN)) {
      const token = match[0];
      isAtEnd = match.index + token.length === typed.length;
      if (/^(\s|\/[/*])/.test(token)) continue;
      if (token === ".") {
        object = field(part === undefined ? undefined : object, part ?? "");
        part = undefined;
      } else if (/^[A-Za-z_$]/.test(token) && !RESERVED.has(token)) part = token;
      else {
        object = undefined;
        part = undefined;
      }
      isAtEnd &&= part !== undefined;
    }
    if (object === undefined || (part !== undefined && !isAtEnd)) return;
    part ??= "";
    const wanted = part;
    const matches = namesOf(object).filter((name) => name.length > wanted.length && name.startsWith(wanted));
    if (matches.length === 0) return;
    if (matches.length > 1) {
      moveCursor(cursor, line.length);
      isRemoved = true;
      put("\n\n");
      for (let i = 0; i < matches.length; i += 2) {
        const [first, second] = [matches[i]!, matches[i + 1]];
        const gap = " ".repeat(Math.max(1, COLUMN - first.length));
        put(second === undefined ? `${first}\n` : `${first}${gap}${second}\n`);
      }
      put("\n");
      returnLine();
    }
    let common = matches[0]!;
    for (const name of matches) while (!name.startsWith(common)) common = common.slice(0, -1);
    if (common.length > wanted.length) append(common.slice(wanted.length));
  };

  /** Where a packet's data stand in for it. */
  let setAside = "";
  const packets = createPackets({
    console: {
      put,
      putBytes(bytes) {
        if (deviceName) send(bytes);
      },
      removeLine,
      echoLine() {
        isEchoOffForLine = false;
      },
      setLine(data) {
        line = data;
      },
      restoreLine() {
        line = setAside;
        state = "";
      },
    },
    realm: options.realm,
    storage: options.storage,
    clock: options.clock,
    isPin: options.isPin,
  });

  const KEYPAD: Record<string, string> = { o: "/", j: "*", m: "-", k: "+", M: "\r" };
  const receiveEscape = (char: string): void => {
    const was = state;
    state = "";
    if (was === "esc") {
      if (char === "O") state = "escO";
      else if (char === "[") state = "esc[";
      else if (char === "\n") newLine(false);
    } else if (was === "escO") {
      if (char === "F") end();
      else if (char === "H") home();
      else if (KEYPAD[char] !== undefined) receive(KEYPAD[char]);
    } else if (was === "esc[") {
      if (char >= "0" && char <= "9") {
        stateNumber = Number(char);
        state = "number";
      } else if (char === "D") moveBy(-1);
      else if (char === "C") moveBy(1);
      else if (char === "A") upDown(-1);
      else if (char === "B") upDown(1);
      else if (char === "F") end();
      else if (char === "H") home();
    } else if (char >= "0" && char <= "9") {
      stateNumber = (stateNumber * 10 + Number(char)) & 0xffff;
      state = "number";
    } else if (char === "H") {
      if (stateNumber === 2) clearLine();
    } else if (char === "~") {
      if (stateNumber === 1) home();
      else if (stateNumber === 3) erase(false);
      else if (stateNumber === 4) end();
      else if (stateNumber === 5) moveTo(0);
      else if (stateNumber === 6) moveTo(line.length);
    }
  };
  const receive = (char: string): void => {
    // One that has ended something must not clear the line, too.
    const isUsed = char === CTRL_C && usedBreaks > 0;
    if (isUsed) usedBreaks--;
    if (packets.isReceiving()) runLine(() => packets.receive(char));
    else if (char === "\0") state = "";
    else if (char === "\x01") {
      if (state === "dle") {
        setAside = line;
        packets.start();
      }
    } else if (char === CTRL_C) {
      if (!isUsed) clearLine();
    } else if (char === "\x05") {
      if (line === "") put(`Espruino ${options.version} ${options.board}\n`);
    } else if (char === "\x10") {
      if (line === "") isEchoOffForLine = true;
      state = "dle";
    } else if (char === "\x1b") state = "esc";
    else if (state === "esc" || state === "escO" || state === "esc[" || state === "number") receiveEscape(char);
    else {
      state = "";
      if (char === "\b" || char === "\x7f") erase(true);
      else if (char === "\r" || char === "\n") newLine(true);
      else if (char === "\t") {
        if (echoes()) complete();
        else append("    ");
      } else if (char >= " ") append(char);
    }
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
    inject(bytes) {
      waiting += bytes;
    },
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

  /** Bytes of the piece being handled that have not been read yet. */
  let unread = "";
  const takeInput = (): void => {
    unread = waiting;
    waiting = "";
    options.realm().enter(() => {
      while (unread !== "") {
        const bytes = unread;
        unread = bytes.slice(1);
        if (deviceName === null) {
          // Without a console the port hands over what is there: the first byte alone, then the rest.
          unread = "";
          usedBreaks = Math.max(0, usedBreaks - countBreaks(bytes));
          options.onSerialData(bytes[0]!);
          if (bytes.length > 1) options.onSerialData(bytes.slice(1));
          return;
        }
        receive(bytes[0]!);
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
      addWire(wire) {
        wires.add(wire);
        return () => void wires.delete(wire);
      },
    },
    started(hasBanner) {
      if (!echoes()) return;
      if (hasBanner) put(BANNER(options.version));
      put("\n");
      isRemoved = true;
    },
    printError(text) {
      removeLine();
      put(text);
    },
    takeBreak() {
      // A packet's data may hold the byte, and without a console the program itself may want it.
      if (packets.isReceiving() || deviceName === null) return false;
      let count = countBreaks(unread) + countBreaks(waiting) - usedBreaks;
      for (const wire of wires) count += wire.waitingBreaks();
      if (count <= 0) return false;
      usedBreaks++;
      return true;
    },
    runLine,
    hasWire: () => wires.size > 0,
    isInLine: () => isInLine,
    isEchoOn: () => isEcho,
    idle() {
      if (waiting !== "") takeInput();
      else returnLine();
    },
    clear(kind) {
      packets.stop();
      line = "";
      cursor = 0;
      historyIndex = undefined;
      isEchoOffForLine = false;
      state = "";
      history.length = 0;
      if (kind === "load") return;
      isEcho = true;
      if (kind === "reset") return;
      deviceName = "Serial1";
      isRemoved = false;
    },
  };
};
