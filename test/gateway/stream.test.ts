import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Fault } from "../../gateway/fault";
import { createRedactor } from "../../gateway/secret";
import { createSlimmer, LINE_BYTES, MERGE_MS } from "../../gateway/slim/slim";
import { relay, relaySlim } from "../../gateway/stream";
import { createMeter } from "../../gateway/usage";
import { createManualClock } from "../../host-sim/clock";
import { toBytes } from "../drivers/bytes";
import { cutAt } from "../firmware/pieces";
import { readAsBoard } from "./board-reader";

const said = (content: string): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`;
const role = 'data: {"choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n';

/** A relay whose upstream and clock belong to the test. */
function startRelay(isSlim = true, key = "") {
  const clock = createManualClock(1e12);
  const sent: string[] = [];
  let left = "";
  let asked: { resolve(piece: Uint8Array | undefined): void; reject(error: Error): void } | undefined;
  let release: (() => void) | undefined;
  let isSlow = false;
  const redactor = createRedactor(key);
  const options = {
    read: () => new Promise<Uint8Array | undefined>((resolve, reject) => (asked = { resolve, reject })),
    send(bytes: string): Promise<void> {
      if (bytes !== "") sent.push(bytes);
      return isSlow ? new Promise((resolve) => (release = resolve)) : Promise.resolve();
    },
    meter: createMeter("openai", 40),
    redactor,
    check: (body: any) => (body?.error ? new Fault(502, "gateway: the key", "key") : undefined),
    eventLength: 1e6,
  };
  const slimmer = createSlimmer("openai", { lineBytes: LINE_BYTES, withUsage: false, words: redactor.words });
  const done = isSlim ? relaySlim(options, slimmer, clock, (bytes) => (left = bytes)) : relay(options);
  done.catch(() => {});
  const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  return {
    clock,
    done,
    sent,
    left: () => left,
    meter: options.meter,
    isReading: () => asked !== undefined,
    slow: (slow: boolean) => {
      isSlow = slow;
      if (!slow) release?.();
    },
    async give(text: string): Promise<void> {
      asked!.resolve(Buffer.from(text));
      asked = undefined;
      await settle();
    },
    async end(): Promise<void> {
      asked!.resolve(undefined);
      await settle();
    },
    async break(): Promise<void> {
      asked!.reject(new Error("reset"));
      await settle();
    },
    async advance(ms: number): Promise<void> {
      clock.advance(ms);
      await settle();
    },
  };
}

describe("a slim stream", () => {
  it("that ends in what must not reach a board gives what came before it, in the same piece too", async () => {
    const relay = startRelay();
    await relay.give(`${said("a")}data: {"error":{"message":"bad key"}}\n\n${said("b")}`);
    await expect(relay.done).rejects.toThrow("gateway: the key");
    expect(relay.sent.join("") + relay.left()).toBe(role + said("a"));
    expect(relay.clock.pending()).toBe(0);
  });

  it(`keeps text for ${MERGE_MS} ms from its first piece on, and no longer`, async () => {
    const relay = startRelay();
    await relay.give(said("a"));
    expect(relay.sent).toEqual([role]);
    await relay.advance(MERGE_MS - 1);
    await relay.give(said("b"));
    expect(relay.sent).toEqual([role]);
    await relay.advance(1);
    expect(relay.sent.slice(1)).toEqual([said("ab")]);
    // Then anew.
    await relay.give(said("c"));
    await relay.advance(MERGE_MS - 1);
    expect(relay.sent).toHaveLength(2);
    await relay.advance(1);
    expect(relay.sent.slice(2)).toEqual([said("c")]);
    expect(relay.clock.pending()).toBe(0);
    await relay.give(said("d"));
    await relay.end();
    await relay.done;
    expect(relay.sent.slice(3)).toEqual([said("d")]);
    expect(relay.clock.pending()).toBe(0);
  });

  it("counts the time anew for what begins to wait in the middle of it", async () => {
    const relay = startRelay();
    await relay.give(said("a"));
    await relay.advance(40);
    await relay.give('data: {"choices":[{"delta":{"reasoning":"b"}}]}\n\n');
    expect(relay.sent).toEqual([role, said("a")]);
    await relay.advance(MERGE_MS - 1);
    expect(relay.sent).toHaveLength(2);
    await relay.advance(1);
    expect(relay.sent).toHaveLength(3);
  });

  it("is not read further while the board has not taken what it has", async () => {
    const relay = startRelay();
    relay.slow(true);
    await relay.give(said("a"));
    expect(relay.isReading()).toBe(false);
    relay.slow(false);
    await relay.advance(0);
    expect(relay.isReading()).toBe(true);
  });

  it("gives what was said before it broke, and why it ended", async () => {
    const relay = startRelay();
    await relay.give(said("half"));
    await relay.break();
    await expect(relay.done).rejects.toThrow("reset");
    expect(relay.left()).toBe(said("half"));
    expect(relay.clock.pending()).toBe(0);
  });

  it("reads a last line without its end", async () => {
    const relay = startRelay();
    await relay.give("data: [DONE]");
    await relay.end();
    await relay.done;
    expect(relay.sent).toEqual(["data: [DONE]\n\n"]);
  });

  it("is the same for a board at whatever pace it comes", async () => {
    const key = "sk-Qz7vKp2XwR9tLm4N";
    const stream = toBytes(`${said("Grü")}${said(`ße ${key.slice(0, 9)}`)}: ping\n\n${said("😀")}data: [DONE]\n\n`);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat(stream.length), fc.nat(80)), { maxLength: 12 }),
        fc.boolean(),
        async (steps, isSlim) => {
          const relay = startRelay(isSlim, key);
          const pieces = cutAt(
            stream,
            steps.map(([place]) => place),
          );
          for (const [i, piece] of pieces.entries()) {
            if (piece !== "") await relay.give(Buffer.from(piece, "latin1") as unknown as string);
            await relay.advance(steps[i]?.[1] ?? 0);
          }
          await relay.end();
          await relay.done;
          expect(readAsBoard("openai", relay.sent)).toMatchObject({ text: `Grüße ${key.slice(0, 9)}😀`, stop: "done" });
          if (!isSlim) expect(relay.sent.join("")).toBe(stream);
        },
      ),
      { numRuns: 60 },
    );
  });
});

it("a stream is read along for what it costs, whole or slim", async () => {
  const usage = { prompt_tokens: 11, completion_tokens: 22 };
  for (const isSlim of [true, false]) {
    const relay = startRelay(isSlim);
    await relay.give(said("12345678"));
    expect(relay.meter.total()).toEqual({ tokens: 10 + 2, isEstimated: true });
    await relay.give(`data: {"choices":[],"usage":${JSON.stringify(usage)}}\n\n`);
    await relay.end();
    expect(relay.meter.total()).toEqual({ tokens: 33, isEstimated: false });
  }
});
