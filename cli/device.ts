/** A board with Espruino at the other end of a wire: its prompt, and expressions that it evaluates. */
import { crc32 } from "node:zlib";
import { explainNoPrompt, howToInstall, isCrashLoop, isLocked, isOfEspruino, isPython, isStarting } from "./diagnosis";
import { boardLiteral, fromBytes } from "./text";
import type { Wire } from "./wire";

/** The board is not as it has to be, or does not do what it was asked: in words, with what to do. */
export class DeviceError extends Error {}

export interface EvaluateOptions {
  /** Milliseconds for the answer. Default 4,000. */
  ms?: number;
  /** How often the line is typed where no answer comes. 1 for what must not be done twice. Default 3. */
  attempts?: number;
  /** The value may be secret: no error quotes what was printed. */
  isSecret?: boolean;
}

export interface Device {
  readonly wire: Wire;
  /**
   * Gets the interpreter's prompt: stops a running program, leaves the agent's chat mode, waits for a board that is
   * just starting. Returns what was stopped for it, in words.
   * @throws {DeviceError} there is no Espruino that listens: what was seen, and what to do
   */
  wake(): Promise<string[]>;
  /**
   * The value of an expression, which travels as JSON. Text comes as byte strings.
   * @throws {DeviceError} the expression throws, or no answer came
   */
  evaluate<T>(expression: string, options?: EvaluateOptions): Promise<T>;
  /**
   * The value that `body`, statements, hands to its function `done`, now or later. Typed once.
   * @throws {DeviceError} it throws at once, or no answer came
   */
  call<T>(body: string, ms: number): Promise<T>;
  /**
   * Writes bytes and looks at what is printed after them until `look` finds something; undefined where it does not in
   * `ms` milliseconds.
   */
  exchange<T>(bytes: string, look: (printed: string) => T | undefined, ms: number): Promise<T | undefined>;
  /**
   * Whether the interpreter, at its prompt, shows what is typed, and its prompt. `echo(0)` turns both off. To be asked
   * after `wake`.
   */
  hasEcho(): Promise<boolean>;
  /**
   * Waits until the interpreter has run what was typed, and is at an empty line: it answers an enquiry then. False
   * where it does not in `ms` milliseconds; firmware before 2v25 never does.
   */
  untilIdle(ms: number): Promise<boolean>;
  /** Gives what is printed from now on, at most the last 64 kB; what must not be shown is masked. */
  mark(): () => string;
  /** `reset()`: an empty interpreter, no boot code; at its prompt. */
  reset(): Promise<void>;
  /** `load()`: as after power-up. Nothing is stopped to get the prompt. */
  load(): Promise<Loaded>;
}

/** How a board came up. What was printed is masked. */
export interface Loaded {
  /** What was printed first, until it was up; at most 64 kB. */
  printed: string;
  /** What was printed last. */
  last: string;
  /** It gave its prompt, or the agent's, and did so still a moment later. */
  isUp: boolean;
}

export interface DeviceOptions {
  /** Texts that must never be shown: passwords, keys. */
  secrets?: string[];
  /** Aborted: everything that waits for the board rejects. */
  signal?: AbortSignal;
  /** Told in words what is waited for, where it takes longer than a board's answer. */
  onWait?(what: string): void;
}

/** What `wake` says where the board gave no prompt before Ctrl-C. */
export const stoppedProgram = "stopped the program that was running";

/** What is kept of the board's output. */
const logBytes = 65_536;

/** Milliseconds in which a board that has nothing else to do answers on a slow line. */
const answerMs = 400;
/** … in which a program that runs is stopped. */
const stopMs = 1_500;
/** A board that prints nothing for so long has done what it was sent; one that goes on printing is not waited for. */
const quietMs = 150;
const settleMs = 5_000;
/** A board that has just come up is looked at for so long. */
const watchMs = 2_000;
/** What is kept of the last that it has printed. */
const lastBytes = 4_096;
/** A board that says nothing in this time is silent. */
const silenceMs = 5_000;
/** Most boards have started in this time, and so has the agent on them. */
const bootMs = 2_000;
/** Time for a board that starts: boot loader, Wi-Fi, boot code. Two rounds of a crash loop, too. */
const startMs = 14_000;
/** What answers, but not as Espruino does, is not waited for any longer. */
const foreignMs = 7_000;
/** What is printed in this time, while nothing is typed, is no answer. */
const unaskedMs = 2_000;
/** A line that arrives damaged so often is not typed again. */
const maxDamaged = 5;
/** After output with an error in it, time for an answer that may still come. */
const graceMs = 300;

/**
 * Espruino's Linux build reads its input in a thread that shares a queue with the interpreter, without a lock: where
 * both are at it, bytes are lost, or the queue is broken for good. A loop that runs for a moment keeps the interpreter away
 * until the rest of what was sent is there.
 */
const holdLine = "\x10for(let t=getTime()+.02;getTime()<t;);\n";
/** What is shorter is there at once. */
const holdBytes = 64;

/** Answer of newer firmware to an enquiry (Ctrl-E) on an empty line. */
export const identity = /Espruino \d+v\d+\S* ([^\r\n]+)\r?\n/;
const enquiry = "\x05";
const interrupt = "\x03";
/** Takes the line that is being typed away, whatever it is. */
const eraseLine = "\x1b[2H";

/** Whose prompt is the last thing printed: the interpreter's, its debugger's (after Ctrl-C in a loop), the agent's. */
function promptOf(printed: string): "prompt" | "debugger" | "chat" | undefined {
  if (printed.endsWith("you> ")) return "chat";
  const prompt = /(?:^|[\r\n]|\x1b\[J)(debug)?>(?:\x1b\[[A-Z])*$/.exec(printed);
  if (prompt === null) return undefined;
  return prompt[1] === undefined ? "prompt" : "debugger";
}

export function createDevice(wire: Wire, { secrets = [], signal, onWait }: DeviceOptions = {}): Device {
  let log = "";
  /** Bytes that are no longer in `log`. */
  let dropped = 0;
  let lastId = 0;
  let failure: Error | undefined;
  let isLinux = false;
  /** It has answered at least once. */
  let wasAwake = false;
  const waiting = new Set<() => void>();
  const poke = (): void => {
    for (const look of [...waiting]) look();
  };
  const fail = (error: Error): void => {
    failure ??= error;
    poke();
  };
  wire.onData((bytes) => {
    log += bytes;
    if (log.length > 2 * logBytes) {
      dropped += log.length - logBytes;
      log = log.slice(-logBytes);
    }
    poke();
  });
  wire.onEnd(fail);
  const onAbort = (): void => fail(new DeviceError("stopped"));
  if (signal?.aborted) onAbort();
  signal?.addEventListener("abort", onAbort, { once: true });

  const place = (): number => dropped + log.length;
  const since = (from: number): string => log.slice(Math.max(0, from - dropped));
  const mask = (text: string): string => maskSecrets(text, secrets);

  /** The first value `look` finds in what is printed after `from`; undefined after `ms` milliseconds. */
  function wait<T>(from: number, look: (printed: string) => T | undefined, ms: number): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      const end = (): void => {
        clearTimeout(timer);
        waiting.delete(check);
      };
      const check = (): void => {
        const found = failure ? undefined : look(since(from));
        if (!failure && found === undefined) return;
        end();
        if (failure) reject(failure);
        else resolve(found);
      };
      const timer = setTimeout(() => {
        end();
        resolve(undefined);
      }, ms);
      waiting.add(check);
      check();
    });
  }

  async function exchange<T>(bytes: string, look: (printed: string) => T | undefined, ms: number) {
    const from = place();
    if (bytes !== "") await wire.write(isLinux && bytes.length >= holdBytes ? `${holdLine}${bytes}` : bytes);
    return wait(from, look, ms);
  }

  async function wake(): Promise<string[]> {
    const stopped = await findPrompt();
    wasAwake = true;
    return stopped;
  }

  async function findPrompt(): Promise<string[]> {
    const from = place();
    const begin = Date.now();
    const stopped: string[] = [];
    for (let round = 0; ; round++) {
      if (round > 0) {
        onWait?.(tellWaiting(since(from)));
        await settle();
      }
      // Nobody minds an enquiry: in chat mode it is no text, and other programs print nothing. The debugger answers it.
      const known = await exchange(enquiry, (printed) => identity.exec(printed) ?? undefined, answerMs);
      const isKnown = known !== undefined;
      isLinux ||= known?.[1] === "LINUX";
      if (isKnown && (await answers(answerMs))) return stopped;
      if (isCrashLoop(since(from))) break;
      // On a line that is not empty Ctrl-C ends no interpreter on Linux.
      await exchange(" ", (printed) => printed.includes(" ") || undefined, answerMs / 4);
      const seen = await exchange(`${interrupt}\r`, promptOf, stopMs);
      // The debugger's own `quit` lets an empty loop go on.
      const leave = seen === "chat" ? "exit\r" : seen === "debugger" ? interrupt : "";
      if (seen === "chat") stopped.push("left the agent's chat");
      if (leave !== "") await exchange(leave, (printed) => promptOf(printed) === "prompt" || undefined, stopMs);
      const printed = since(from);
      if (stopped.length === 0 && (seen === "debugger" || /Execution Interrupted/.test(printed)))
        stopped.push(stoppedProgram);
      // With `echo(0)` there is no prompt; chat mode would have shown its own.
      const mayListen =
        seen !== undefined || isKnown || isOfEspruino(printed) || (round > 0 && printed.trim() === "");
      if (mayListen && (await answers(stopMs))) return stopped;
      if (isCrashLoop(since(from)) || Date.now() - begin > patience(since(from), wasAwake)) break;
    }
    const seen = since(from);
    const isUnasked = seen.trim() !== "" && !isCrashLoop(seen) && !isPython(seen) && (await printsUnasked());
    const text = mask(since(from));
    if (!wasAwake || isCrashLoop(text)) throw new DeviceError(explainNoPrompt(wire.port, text, isUnasked));
    throw new DeviceError(`${wire.port}: the board stopped answering. Press its RESET button, and run this again`);
  }

  /** Waits until the board has nothing more to print: it may be busy with what it has been sent. False: it goes on. */
  async function settle(): Promise<boolean> {
    const end = Date.now() + settleMs;
    while (Date.now() < end) {
      if ((await exchange("", (printed) => printed || undefined, quietMs)) === undefined) return true;
    }
    return false;
  }

  async function printsUnasked(): Promise<boolean> {
    if (!(await settle())) return true;
    return (await exchange("", (printed) => printed.trim() || undefined, unaskedMs)) !== undefined;
  }

  async function answers(ms: number): Promise<boolean> {
    const id = ++lastId;
    const line = `\x10print("\\x1e${id}=1\\x1e")\n`;
    return (await exchange(line, (printed) => printed.includes(`\x1e${id}=1\x1e`) || undefined, ms)) === true;
  }

  /** Types a line that prints a frame with the value. `damaged`: it was not run; undefined: it may have been. */
  async function ask<T>(
    line: string,
    id: number,
    { ms, isSecret }: { ms: number; isSecret: boolean },
  ): Promise<{ value: T } | "damaged" | undefined> {
    const frame = new RegExp(`\x1e${id}([=!?])([^\x1e]*)\x1e`);
    const from = place();
    const look = (printed: string) => frame.exec(printed) ?? (brokenLine.test(printed) ? "broken" : undefined);
    let found = await exchange(line, look, ms);
    // An error of something else on the board may have come first.
    if (found === "broken") found = await wait(from, (printed) => frame.exec(printed) ?? undefined, graceMs);
    if (found === undefined || found === "broken") return undefined;
    if (found[1] === "?") return "damaged";
    if (found[1] === "!") throw new DeviceError(`the board says: ${mask(fromBytes(found[2]!)).trim()}`);
    return { value: parseValue(found[2]!, isSecret) as T };
  }

  /** Types what `code` makes of an id until it is answered. */
  async function evaluateLine<T>(code: (id: number) => string, options: EvaluateOptions): Promise<T> {
    const { ms = 4_000, attempts = 3, isSecret = false } = options;
    const from = place();
    let unanswered = 0;
    for (let damaged = 0; unanswered < attempts && damaged < maxDamaged;) {
      const id = ++lastId;
      const line = guardedLine(id, code(id));
      // A byte of the last line may have been lost, and with it the bracket that would have ended it.
      if (damaged + unanswered > 0) await wire.write(eraseLine);
      const answer = await ask<T>(line, id, { ms, isSecret });
      if (answer === "damaged") damaged += 1;
      else if (answer === undefined) unanswered += 1;
      else return answer.value;
    }
    throw noAnswer(since(from), isSecret);
  }

  function noAnswer(printed: string, isSecret: boolean): DeviceError {
    if (isSecret) return new DeviceError("the board does not answer");
    const lines = mask(fromBytes(printed))
      .split(/[\r\n]+/)
      .map((line) => line.replace(/[\x00-\x1f\x7f]/g, "").trim());
    const last = lines
      .filter((line) => line !== "" && line !== ">")
      .slice(-3)
      .join(" | ");
    const isFull = /OUT OF MEMORY|LOW_MEMORY|Execution Interrupted/.test(printed);
    if (isFull) return new DeviceError(`the board ran out of memory: ${last}`);
    return new DeviceError(`the board does not answer${last === "" ? "" : `; it printed: ${last.slice(0, 300)}`}`);
  }

  return {
    wire,
    wake,
    evaluate: (expression, options = {}) =>
      evaluateLine((id) => `print("\x1e${id}="+JSON.stringify(${expression})+"\x1e")`, options),
    call: (body, ms) =>
      evaluateLine((id) => `(function(done){${body}})(function(v){print("\x1e${id}="+JSON.stringify(v)+"\x1e")})`, {
        ms,
        attempts: 1,
      }),
    exchange,
    async hasEcho() {
      if (await exchange(" ", (printed) => printed.includes(" ") || undefined, answerMs)) {
        await exchange("\b", (printed) => printed !== "" || undefined, answerMs);
        return true;
      }
      await wire.write(eraseLine);
      return false;
    },
    untilIdle: async (ms) =>
      (await exchange(enquiry, (printed) => identity.test(printed) || undefined, ms)) ?? false,
    mark() {
      const from = place();
      return () => mask(since(from));
    },
    async reset() {
      await restart("reset", () => {});
      await wake();
    },
    async load() {
      const from = place();
      let first = "";
      const see = (printed: string): void => {
        if (dropped <= from) first = printed;
      };
      await restart("load", see);
      let isUp = await isAlive(since(from));
      if (isUp) {
        // What hangs or restarts a board has often a timer of its own.
        await exchange("", () => undefined, watchMs);
        isUp = await isAlive(since(from));
      }
      see(since(from));
      return { printed: mask(first), last: mask(since(from).slice(-lastBytes)), isUp };
    },
  };

  /** Types it, and waits until the board is up, or a time over which none takes as long. `see` sees what is printed. */
  async function restart(how: "reset" | "load", see: (printed: string) => void): Promise<void> {
    const from = place();
    // Boot code may take its time: `wake` would stop it. Where it turns echo off there is no prompt, but an answer.
    const look = (): true | undefined => {
      const printed = since(from);
      see(printed);
      return promptOf(printed) !== undefined || identity.test(printed) || undefined;
    };
    let isThere = await exchange(`\x10${how}()\n`, look, bootMs);
    for (let ms = bootMs; !isThere && ms < startMs; ms += bootMs) {
      onWait?.("the board starts: waiting for its prompt");
      isThere = await exchange(enquiry, look, bootMs);
    }
  }

  /** Whether it answers as it is; the agent's chat is not spoken to. */
  async function isAlive(printed: string): Promise<boolean> {
    return promptOf(printed) === "chat" || answers(stopMs);
  }
}

/** Milliseconds that are given to who has printed this; `isKnown`: it has answered before. */
function patience(printed: string, isKnown: boolean): number {
  if (printed.trim() === "") return silenceMs;
  if (isLocked(printed)) return 0;
  if (isKnown || isStarting(printed) || isOfEspruino(printed)) return startMs;
  return isPython(printed) ? 0 : foreignMs;
}

function tellWaiting(printed: string): string {
  if (printed.trim() === "") return "nothing answers so far: waiting for Espruino's prompt";
  if (isStarting(printed)) return "the board starts: waiting for Espruino's prompt";
  if (isOfEspruino(printed)) return "Espruino is busy: stopping its program, waiting for its prompt";
  return "something answers, but not as Espruino does: waiting for its prompt";
}

/**
 * A line that runs `code` (ASCII) if it has arrived as it was sent: a lost or changed byte could make another statement
 * of it. Answers with a frame, `=` and the value, `!` and an error, or `?` where it was damaged.
 */
function guardedLine(id: number, code: string): string {
  const whole = `try{${code}}catch(e){print("\x1e${id}!"+e+"\x1e")}`.replaceAll("\x1e", "\\x1e");
  const sum = crc32(Buffer.from(whole, "latin1"));
  const run = `if(!E.CRC32||E.CRC32(c)==s)eval(c);else print("\\x1e${id}?\\x1e")`;
  return `\x10(function(c,s){${run}})(${JSON.stringify(whole)},${sum})\n`;
}

/** The interpreter's own words for a line that did not come to its end. */
const brokenLine = /Uncaught |OUT OF MEMORY|Execution Interrupted/;

function parseValue(text: string, isSecret: boolean): unknown {
  if (text === "undefined") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    const shown = isSecret ? "" : `: ${JSON.stringify(text.slice(0, 100))}`;
    throw new DeviceError(`the board answered something that is no JSON${shown}`);
  }
}

/** `text` with every secret, also as the board would write it, replaced by dots. */
export function maskSecrets(text: string, secrets: string[]): string {
  let masked = text;
  for (const secret of secrets) {
    if (secret === "") continue;
    const bytes = Buffer.from(secret, "utf8").toString("latin1");
    const literal = boardLiteral(secret).slice(1, -1);
    const forms = [secret, bytes, literal];
    const quoted = forms.map((form) => JSON.stringify(form).slice(1, -1));
    for (const form of [...forms, ...quoted]) masked = masked.split(form).join("•••");
  }
  return masked;
}

/** What a board says of itself. */
export interface BoardInfo {
  /** `2v29`, `2v29.277`. */
  version: string;
  /** `ESP32`. */
  board: string;
  /** Names of the built-in modules, with commas. */
  modules: string;
  /** Variables of the interpreter. */
  total: number;
  usage: number;
  /** Bytes of a Storage; trash is what is free after Espruino has compacted it. */
  freeBytes: number;
  trashBytes: number;
  totalBytes?: number;
}

/** The oldest firmware that can run the agent: from 2v14 on `let` and `const` have block scope. */
const oldest = 14;
/** Packets with acknowledgements came with 2v25. */
const packetsSince = 25;

/** Asks the board who it is. @throws {DeviceError} it is no Espruino that can run the agent */
export async function describeBoard(device: Device): Promise<BoardInfo> {
  const info = await device.evaluate<Partial<BoardInfo>>(
    '(function(e,m,s,t){t=s.getStats?s.getStats():{};return{version:e.VERSION,board:e.BOARD,modules:e.MODULES||"",' +
      "total:m.total,usage:m.usage,freeBytes:s.getFree(),trashBytes:t.trashBytes||0,totalBytes:t.totalBytes}})" +
      '(process.env,process.memory(),require("Storage"))',
  );
  const { version, board } = info;
  const number = minorVersion(version);
  if (version === undefined || board === undefined || number === undefined) {
    const name = `${String(board ?? "no board")}, version ${String(version ?? "none")}`;
    throw new DeviceError(`unknown firmware (${name.slice(0, 80)}). ${howToInstall(device.wire.port)}`);
  }
  if (number < oldest) {
    throw new DeviceError(
      `Espruino ${version} is too old: the agent needs 2v${oldest} or later. ${howToInstall(device.wire.port)}`,
    );
  }
  return info as BoardInfo;
}

/** 2904 of `2v29.4`: the part after `2v`; counts on for a version 3. */
function minorVersion(version: string | undefined): number | undefined {
  const [, major, minor] = /^(\d+)v(\d+)/.exec(version ?? "") ?? [];
  return major === undefined ? undefined : (Number(major) - 2) * 1000 + Number(minor);
}

export function hasPackets(info: BoardInfo): boolean {
  return minorVersion(info.version)! >= packetsSince;
}
