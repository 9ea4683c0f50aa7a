import { fromBytes } from "./bytes";
import type { ExpectOptions } from "./types";

/** What a board has printed: fed with bytes, waited on by text. Shared by the drivers. */
export interface ConsoleLog {
  feed(bytes: string): void;
  /** Everything printed so far, as a terminal would show it; one character for each byte. */
  bytes(): string;
  /** Everything printed so far as text. */
  text(): string;
  /** See `TestBoard.expectOutput`. */
  expect(expected: string | RegExp, options?: ExpectOptions): Promise<string>;
  /** Resolves with the first value `look` gives that is not `undefined`; looks again whenever something came. */
  wait<T>(look: () => T | undefined, what: string, options?: ExpectOptions): Promise<T>;
  /** Looks again on behalf of every waiter: something other than output has changed. */
  poke(): void;
  /** Takes the last occurrence of these bytes out of what was printed: something that the test itself has typed. */
  cut(bytes: string): void;
  /** Rejects every waiter, now and later. */
  fail(error: Error): void;
}

const ERASE_LINE = "\r\x1b[J";
const DEFAULT_GIVE_UP_MS = 20_000;

/**
 * Frames `\x01…\x02` in the output are the test's own and go to `onFrame`, byte strings without the two marks. Erasing
 * a line, as the REPL does around output of timers, is carried out. `turn` is called once in every turn of Node's event
 * loop while somebody waits: a board whose clock stands still lives on it.
 */
export function createConsoleLog(onFrame: (frame: string) => void, turn?: () => void): ConsoleLog {
  const waiters = new Set<() => void>();
  let printed = "";
  let pending = "";
  let cursor = 0;
  let failure: Error | undefined;
  let isLive = false;

  function append(bytes: string): void {
    for (const [i, part] of bytes.split(ERASE_LINE).entries()) {
      if (i > 0) printed = printed.slice(0, printed.lastIndexOf("\n") + 1);
      printed += part.replace(/\r|\x1b\[[A-Z]/g, "");
    }
    cursor = Math.min(cursor, printed.length);
  }

  // What may be the start of a frame or of an escape sequence waits for its rest.
  function drain(): void {
    for (;;) {
      const start = pending.indexOf("\x01");
      if (start < 0) break;
      const end = pending.indexOf("\x02", start);
      if (end < 0) {
        append(pending.slice(0, start));
        pending = pending.slice(start);
        return;
      }
      append(pending.slice(0, start));
      const frame = pending.slice(start + 1, end);
      pending = pending.slice(end + 1);
      onFrame(frame);
    }
    const open = /\r(\x1b(\[)?)?$|\x1b\[?$/.exec(pending);
    const upTo = open ? open.index : pending.length;
    append(pending.slice(0, upTo));
    pending = pending.slice(upTo);
  }

  function poke(): void {
    for (const waiter of [...waiters]) waiter();
  }

  function live(): void {
    isLive = waiters.size > 0;
    if (!isLive) return;
    try {
      turn!();
    } catch (error) {
      failure ??= error as Error;
      poke();
    }
    setImmediate(live);
  }

  function wait<T>(look: () => T | undefined, what: string, options?: ExpectOptions): Promise<T> {
    return new Promise((resolve, reject) => {
      const settle = (act: () => void): void => {
        clearTimeout(timer);
        waiters.delete(check);
        act();
      };
      const tail = (): string => `\n--- last output ---\n${fromBytes(printed.slice(-1500))}\n---`;
      const check = (): void => {
        const found = look();
        if (found !== undefined) settle(() => resolve(found));
        else if (failure) settle(() => reject(new Error(`${failure!.message} while waiting for ${what}${tail()}`)));
      };
      const timer = setTimeout(() => {
        settle(() => reject(new Error(`gave up waiting for ${what}${tail()}`)));
      }, options?.giveUpMs ?? DEFAULT_GIVE_UP_MS);
      waiters.add(check);
      if (turn && !isLive) setImmediate(live);
      isLive = true;
      check();
    });
  }

  return {
    feed(bytes) {
      pending += bytes;
      drain();
      poke();
    },
    bytes: () => printed,
    text: () => fromBytes(printed),
    expect(expected, options) {
      const look = (): string | undefined => {
        const fresh = fromBytes(printed.slice(cursor));
        const match = typeof expected === "string" ? fresh.indexOf(expected) : fresh.search(expected);
        if (match < 0) return undefined;
        const length = typeof expected === "string" ? expected.length : expected.exec(fresh)![0].length;
        const seen = fresh.slice(0, match + length);
        cursor += Buffer.byteLength(seen, fresh === printed.slice(cursor) ? "latin1" : "utf8");
        return seen;
      };
      return wait(look, String(expected), options);
    },
    wait,
    poke,
    cut(bytes) {
      const at = printed.lastIndexOf(bytes);
      if (at < 0) return;
      printed = printed.slice(0, at) + printed.slice(at + bytes.length);
      if (cursor > at) cursor = Math.max(at, cursor - bytes.length);
    },
    fail(error) {
      failure ??= error;
      poke();
    },
  };
}
