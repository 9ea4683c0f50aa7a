import { describe, expect, test } from "vitest";
import { createConsoleLog } from "./console-log";

describe("the console log", () => {
  test("takes frames out, wherever they are cut", () => {
    const whole = 'a\x01{"t":1}\x02b\r\n\x01#1 [2]\x02c';
    for (let cut = 0; cut <= whole.length; cut++) {
      const frames: string[] = [];
      const log = createConsoleLog((frame) => frames.push(frame));
      log.feed(whole.slice(0, cut));
      log.feed(whole.slice(cut));
      expect(frames).toEqual(['{"t":1}', "#1 [2]"]);
      expect(log.text()).toBe("ab\nc");
    }
  });

  test("carries out that the REPL erases its line, wherever that is cut", () => {
    const whole = "one\r\n>half\r\x1b[Jtick\r\n>half";
    for (let cut = 0; cut <= whole.length; cut++) {
      const log = createConsoleLog(() => undefined);
      log.feed(whole.slice(0, cut));
      log.feed(whole.slice(cut));
      expect(log.text()).toBe("one\ntick\n>half");
    }
  });

  test("expect goes on after the last match, in characters of UTF-8", async () => {
    const log = createConsoleLog(() => undefined);
    log.feed(Buffer.from("für 5 € an\nund an").toString("latin1"));
    expect(await log.expect("an")).toBe("für 5 € an");
    expect(await log.expect(/a[n]/)).toBe("\nund an");
    const next = log.expect("an");
    log.feed("later an");
    expect(await next).toBe("later an");
  });

  test("fail rejects every waiter with the last output", async () => {
    const log = createConsoleLog(() => undefined);
    log.feed("so far");
    const waiting = log.expect("more");
    log.fail(new Error("the board is gone"));
    await expect(waiting).rejects.toThrow(/the board is gone while waiting for more.*so far/s);
    await expect(log.expect("again")).rejects.toThrow("the board is gone");
  });
});
