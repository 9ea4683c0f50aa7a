/* eslint-disable prefer-rest-params, prefer-spread -- the board has neither rest nor spread */
import { setting } from "./config";
import { checkFile } from "./files";
import { cutUtf8, limitText, toJson } from "./text";

/**
 * Where code runs that a model wrote. There is no wall around it: the interpreter has none. What code sees guards
 * against mistakes: loops that look at time and memory (guard.ts), a Storage without the agent's own files, timers that
 * are kept apart from the agent's. And the Storage tells the next start of code that did not come back.
 */

/** Variables that must stay free: what follows needs them, and out of memory cannot be caught. */
const SPARE_VARIABLES = 200;
/** Milliseconds that a timer or watch of code may take at a time when the code itself is over. */
const CALLBACK_MS = 1000;

/** Storage file that says what is running. Tools may not use it, see checkFile. */
const JOURNAL = ".agentrun";
/**
 * Bytes of it. When it is full, it is made anew, and its place in the flash is given up until the Storage is compacted.
 */
const JOURNAL_BYTES = 1024;
/** Bytes of one entry. */
const ENTRY_BYTES = 48;

/** What code may use of the module Wifi. */
const WIFI = "getStatus getIP getHostByName ping scan";

/** What code came to. */
export interface Ran {
  /** What it printed, cut to `toolResultBytes` with a marker. */
  stdout: string;
  /** Why it failed, with the line; "" if it did not. */
  stderr: string;
  /** Its value as text, cut likewise; undefined where it has none. */
  value?: string;
  /** Files of the Storage that it wrote or erased. */
  changed: string[];
  /** Timers and watches that go on: `timer 3, watch 1`. */
  left?: string;
}

/**
 * What is running, for the next start. Flash is written by adding to a file, which wears it least: an entry when code
 * begins, and one byte when it has come back.
 */
export interface Journal {
  /** Notes that `what` begins. Returns the place for `end`; 0 where there is no room in the Storage. */
  begin(what: string): number;
  end(place: number): void;
  /** What began and did not come back; "" if there is no such thing. */
  open(): string;
  /** Ends the entry that is open. */
  close(): void;
}

/** What runs code. It exists while it does. */
export interface Sandbox {
  /**
   * Runs code that `guardCode` made, from the idle loop, with `args`; `what` is noted in the journal, "" for no note.
   * Never rejects. A promise as its value is awaited. All of it may take `toolTimeoutMs`. Timers and watches go on
   * afterwards, unless it failed. What a value of the shape of a ToolResult says of failure counts.
   */
  run(what: string, code: string, args: any): Promise<Ran>;
  /** Ends timers and watches of code, those in `which` or all. */
  stop(which?: string[]): void;
  journal(): Journal;
}

/** What code sees. It is made for code that begins, and all code shares it as long as timers of any go on. */
interface Room {
  /** What the code that is running came to so far. */
  ran?: Ran;
  /** Bytes that it printed, and timers and watches that it started. */
  printed: number;
  mine: string[];
  /** What was thrown here, not by the code itself. */
  raised: string;
  /**
   * An overflow of the stack has left it in memory until a restart: the interpreter counts no more than 15 uses of a
   * function at a time, and never gives up one that had more, nor what that function sees. So it is used again.
   */
  lost?: boolean;
  toText(value: any): string;
  look(goesOn?: any): boolean;
  put(): void;
  load(name: any): any;
  /**
   * setTimeout, setInterval, setWatch, the two that clear timers, clearWatch: there only for code that has these words.
   */
  timers?: any[];
}

/** Globals that code has made since the board started: what of the globals it may change. */
export const ownGlobals: string[] = [];

let room: Room | undefined;
/** Timers and watches of code that go on: `timer 3`, `watch 1`. */
const going: string[] = [];
/** The watchdog is on. */
let watched = false;

export function openSandbox(): Sandbox {
  function journal(): Journal {
    const storage = require("Storage");
    const text = storage.read(JOURNAL) || "";
    const free = text.indexOf("\xff");
    const used = free < 0 ? text.length : free;

    function write(piece: string, at: number, size?: number): boolean {
      try {
        return storage.write(JOURNAL, piece, at, size);
      } catch (e) {
        return false;
      }
    }

    return {
      begin: function (what) {
        what = what.replace(/[^\x20-\x7e]+/g, " ").substr(0, ENTRY_BYTES);
        // The run before goes on, nobody waits for it.
        if (used && text.charAt(used - 1) !== "\n") what = "\n" + what;
        if (used && used + what.length < text.length) return write(what, used) ? used + what.length : 0;
        // The Storage must not move files to make room: this program runs in it.
        return storage.getFree() > JOURNAL_BYTES + 40 && write(what, 0, JOURNAL_BYTES) ? what.length : 0;
      },
      end: function (place) {
        if (place) write("\n", place);
      },
      open: function () {
        return used && text.charAt(used - 1) !== "\n" ? text.substring(text.lastIndexOf("\n", used - 1) + 1, used) : "";
      },
      close: function () {
        write("\n", used);
      },
    };
  }

  // Takes `name` off the list of what goes on; false where it is not there.
  function drop(name: string): boolean {
    const at = going.indexOf(name);
    if (at >= 0) going.splice(at, 1);
    if (room && !room.ran && !going.length && !room.lost) room = undefined;
    return at >= 0;
  }

  function stop(which?: string[]): void {
    for (const name of (which || going).slice(0)) {
      if (!drop(name)) continue;
      const id = parseInt(name.split(" ")[1]);
      // A watch that is over already is unknown.
      try {
        if (name.startsWith("watch")) clearWatch(id);
        else clearInterval(id);
      } catch (e) {
        continue;
      }
    }
  }

  function furnish(isTimed: boolean): Room {
    /** When the guards began to count, in seconds; 0 after every pause. */
    let since = 0;
    let looks = 0;

    function raise(text: string): never {
      here.raised = text;
      throw new Error(text);
    }

    function toText(value: any): string {
      if (value && value.message && value.stack) return String(value.message);
      return value && typeof value === "object" ? toJson(value) : String(value);
    }

    // A guard's look. Throws where the code has had its time, or memory runs short. With `goesOn`, a chain of promises
    // goes on: that of code that is over, and has left no timers, has no end. No board makes more than one look a
    // millisecond: where the clock stands still, they are counted.
    function look(goesOn?: any): boolean {
      const now = getTime();
      const ms = here.ran ? setting("toolTimeoutMs") : CALLBACK_MS;
      let problem = "";
      if (!since) {
        looks = 0;
        setTimeout(function () {
          since = 0;
        }, 1);
      }
      if (!since || now < since) since = now;
      if ((now - since) * 1000 > ms || ++looks > ms)
        problem = "stopped: it ran for " + ms + " ms without a pause. Is a loop endless?";
      // To look exactly is to collect garbage.
      else if (process.memory(false as any).free < SPARE_VARIABLES && process.memory().free < SPARE_VARIABLES)
        problem = "stopped: it used up the memory. Keep less at a time";
      else if (goesOn && !here.ran && !going.length) problem = "stopped: it is over, and its promises go on.";
      if (!problem) return true;
      if (!here.ran) {
        stop();
        // The interpreter loses what a timer throws while a request is under way.
        print("code " + problem + " All timers of code are stopped.");
      }
      return raise(problem);
    }

    function put(): void {
      const ran = here.ran;
      let line = "";
      for (const value of arguments as any) line += (line && " ") + toText(value);
      // Nobody waits for it any more.
      if (!ran) return print(line);
      line += "\n";
      if (here.printed === ran.stdout.length) ran.stdout += cutUtf8(line, setting("toolResultBytes") - here.printed);
      here.printed += line.length;
    }

    // A module, or the Storage with no files but those that tools may use, or Wi-Fi without what would take the agent
    // off the network, or tells passwords.
    function load(name: any): any {
      if (name === "Wifi") {
        const wifi: any = {};
        for (const word of WIFI.split(" ")) wifi[word] = (require(name) as any)[word];
        return wifi;
      }
      if (name !== "Storage") {
        if (name === "Flash" || name === "TelnetServer" || checkFile(String(name), true).problem)
          raise("code must not use the module " + name);
        return require(name);
      }
      const storage = require("Storage");

      function named(path: any, writing: boolean): string {
        const file = checkFile(String(path), writing);
        if (file.problem) raise(file.problem);
        return file.name;
      }

      function note(name: string, what: string): void {
        const ran = here.ran;
        if (!ran) return;
        ran.changed = ran.changed.filter(function (other) {
          return other !== name && other !== name + " (erased)";
        });
        ran.changed.push(name + what);
      }

      function write(path: any, data: any, offset: any, size: any): boolean {
        const name = named(path, true);
        const free = storage.getFree();
        if (data && typeof data === "object" && data.byteLength === undefined && !(data instanceof Array))
          data = toJson(data);
        // To make room, the Storage would move files, and the agent runs in one.
        if (!offset && data && (size || data.length || data.byteLength) + 40 > free)
          raise("the Storage is full: " + free + " bytes free");
        note(name, "");
        return storage.write(name, data, offset, size);
      }

      return {
        read: function (path: any, offset: any, length: any) {
          return storage.read(named(path, false), offset, length);
        },
        readJSON: function (path: any, quiet: any) {
          return storage.readJSON(named(path, false), quiet);
        },
        write: write,
        writeJSON: function (path: any, data: any) {
          return write(path, toJson(data), 0, 0);
        },
        erase: function (path: any) {
          const name = named(path, true);
          if (storage.read(name, 0, 1) !== undefined) note(name, " (erased)");
          storage.erase(name);
        },
        open: function (path: any, mode: any) {
          const name = named(path, mode !== "r");
          if (mode !== "r") note(name, "");
          return storage.open(name, mode);
        },
        list: function (pattern: any, filter: any) {
          return storage.list(pattern, filter).filter(function (name) {
            return !checkFile(name, false).problem;
          });
        },
        getFree: storage.getFree,
        getStats: storage.getStats,
      };
    }

    const here: Room = { printed: 0, mine: [], raised: "", toText: toText, look: look, put: put, load: load };
    if (!isTimed) return here;

    // setTimeout and its like, with a list of what they started.
    function starter(kind: string, start: any): any {
      return function (callback: any) {
        const list: any[] = [].slice.call(arguments);
        let name = "";
        if (typeof callback !== "function") raise("give a function, not a text");
        if (start === setTimeout)
          list[0] = function () {
            drop(name);
            callback.apply(undefined, arguments);
          };
        const id = start.apply(undefined, list);
        name = kind + id;
        going.push(name);
        if (here.ran) here.mine.push(name);
        return id;
      };
    }

    // clearTimeout and its like: without an id, for all that code has started, not for those of the agent.
    function stopper(kind: string): any {
      // The board counts parameters that are declared as given.
      return function () {
        const name = arguments.length ? kind + arguments[0] : "";
        stop(
          going.filter(function (one) {
            return name ? one === name : one.startsWith(kind);
          })
        );
      };
    }

    const clear = stopper("timer ");
    here.timers = [starter("timer ", setTimeout), starter("timer ", setInterval), starter("watch ", setWatch)];
    here.timers.push(clear, clear, stopper("watch "));
    return here;
  }

  function run(what: string, code: string, args: any): Promise<Ran> {
    const ran: Ran = { stdout: "", stderr: "", changed: [] };
    const limit = setting("toolTimeoutMs");
    const most = setting("toolResultBytes");
    const place = what && journal().begin(what);
    const isTimed = /setT|setI|setW|clear/.test(code);
    if (!room || (isTimed && !room.timers)) room = furnish(isTimed);
    const here = room;
    let settle: ((ran: Ran) => void) | undefined;
    let timer: any;

    // What was thrown, and where: the first place that the interpreter names, with the text of the line.
    function describe(thrown: any): string {
      let stack = (thrown && thrown.stack) || "";
      if (thrown && thrown.message === here.raised) {
        let own = stack.indexOf("    at $run");
        if (own < 0) own = stack.indexOf("    at eval");
        stack = own < 0 ? "" : stack.substr(own);
      }
      const found = /:[0-9]+:[0-9]+[)]*\n/.exec(stack);
      if (!found) return here.toText(thrown);
      const line = stack.split(found[0])[1].split("\n")[0];
      // Within a function, lines count from its own first one.
      const whole = /^ *at eval|^ *at [$]run/.test(stack);
      const bare = line
        .replace(/[+][+][$]n%[0-9]+[|][|][$][(][)][,;]*|==[$]0[?]0:this|[$][(]1[)],/g, "")
        .trim();
      const at = whole ? "line " + parseInt(found[0].substr(1)) + (bare && ": " + bare) : bare && "at " + bare;
      return here.toText(thrown) + (at && " (" + at + ")");
    }

    function end(problem: string, value?: any): void {
      const resolve = settle;
      if (!resolve) return;
      settle = undefined;
      if (timer) clearTimeout(timer);
      try {
        if (value && typeof value.content === "string") {
          if (value.isError) problem = value.content;
          value = value.content;
        }
        if (!problem && value !== undefined) ran.value = limitText(here.toText(value), most);
      } catch (e) {
        problem = "its value cannot be read";
      }
      const size = ran.stdout.length;
      if (here.printed > size) ran.stdout += "\n[cut: " + size + " of " + here.printed + " bytes]";
      else ran.stdout = ran.stdout.substr(0, size - 1);
      ran.stderr = limitText(problem, most);
      const mine = here.mine;
      if (here.ran === ran) delete here.ran;
      if (problem) stop(mine);
      const left = mine.filter(function (one) {
        return going.indexOf(one) >= 0;
      });
      if (left.length) ran.left = left.join(", ");
      if (!going.length && !here.lost) room = undefined;
      if (place) journal().end(place);
      resolve(ran);
    }

    function start(): void {
      let value;
      const began = getTime();
      const watchdog = setting("watchdogMs");
      if (watchdog && !watched) E.enableWatchdog(watchdog / 1000, true);
      watched = true;
      // Out of memory and an overflow of the stack end what runs, pass every `catch`, and leave timers alone.
      timer = setTimeout(function () {
        timer = undefined;
        here.lost = true;
        end("interrupted: out of memory or stack (functions may be about 12 deep in each other), or Ctrl-C");
      }, 1);
      // What a timer keeps is not to keep the text of the code.
      const text = [code];
      code = "";
      here.ran = ran;
      here.printed = 0;
      here.mine = [];
      try {
        const put = here.put;
        const log = { log: put, error: put, warn: put, info: put, debug: put };
        const seen = [here.look, 0, global, text, args, here.load, put, log].concat(here.timers || []);
        const names =
          "$,$n,$0,$code,args,require,print,console,setTimeout,setInterval,setWatch,clearTimeout,clearInterval," +
          "clearWatch,return eval($code.pop())";
        value = (Function as any).apply(undefined, names.split(",")).apply(undefined, seen);
      } catch (e) {
        return end(describe(e));
      }
      clearTimeout(timer);
      timer = undefined;
      if (!(value instanceof Promise)) return end("", value);
      const rest = Math.max(limit - (getTime() - began) * 1000, 1);
      timer = setTimeout(function () {
        timer = undefined;
        end("its promise was not settled within " + limit + " ms (toolTimeoutMs)");
      }, rest);
      value.then(
        function (given: any) {
          end("", given);
        },
        function (thrown: any) {
          end(describe(thrown));
        }
      );
    }

    return new Promise(function (resolve) {
      settle = resolve;
      setTimeout(start, 1);
    });
  }

  return { run: run, stop: stop, journal: journal };
}
