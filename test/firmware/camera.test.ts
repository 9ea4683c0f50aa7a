import fc from "fast-check";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { type Camera, openVc0706 } from "../../firmware/camera";

/** A port whose other end is the test's. */
function createPort() {
  const sent: string[] = [];
  let listener: ((data: string) => void) | undefined;
  const port = {
    write: (data: string) => void sent.push(data),
    on: (_event: string, heard: (data: string) => void) => void (listener = heard),
    removeListener: () => void (listener = undefined),
  };
  return {
    port: port as unknown as Espruino.Serial,
    sent,
    hasListener: () => listener !== undefined,
    /** Feeds bytes, in the pieces that the sizes say. */
    feed(data: string, sizes: number[] = []): void {
      let at = 0;
      for (const size of [...sizes, data.length]) {
        if (at < data.length) listener?.(data.slice(at, at + size));
        at += size;
      }
    },
  };
}

let other: ReturnType<typeof createPort>;
let camera: Camera;
beforeEach(() => {
  vi.useFakeTimers();
  other = createPort();
  camera = openVc0706(other.port, 38400);
});
afterEach(() => vi.useRealTimers());

const bytes = (length: number) =>
  fc.uint8Array({ minLength: length, maxLength: length }).map((list) => String.fromCharCode(...list));
const split = fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 60 });
const head = "\x76\0\x32\0\0";

it("any split of a piece gives the same bytes, whatever came before it", () => {
  const noise = fc.string({ maxLength: 30 }).map((text) => text.replace(/[^ -u]/g, " "));
  const piece = fc.integer({ min: 1, max: 512 }).chain((length) => fc.tuple(fc.constant(length), bytes(Math.ceil(length / 8) * 8)));
  fc.assert(
    fc.property(piece, noise, split, ([length, data], before, sizes) => {
      const done = vi.fn();
      camera.read(1024, length, done);
      other.feed(before + head + data + head, sizes);
      expect(done.mock.calls).toEqual([["", data.slice(0, length)]]);
      expect(vi.getTimerCount()).toBe(0);
    }),
  );
});

it("any split of the replies gives the same length", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 32 - 1 }), split, (size, sizes) => {
      const done = vi.fn();
      camera.take(done);
      other.feed("\x76\0\x36\0\0", sizes);
      other.feed("\x76\0\x36\0\0", sizes);
      const length = String.fromCharCode(size >>> 24, (size >>> 16) & 255, (size >>> 8) & 255, size & 255);
      other.feed(`\x76\0\x34\0\x04${length}`, sizes);
      expect(done.mock.calls).toEqual([["", size]]);
    }),
  );
});

it("any stream of bytes ends in one answer, and keeps no more than a reply of it", () => {
  fc.assert(
    fc.property(fc.array(bytes(7), { maxLength: 100 }), (pieces) => {
      const done = vi.fn();
      camera.read(0, 16, done);
      for (const piece of pieces) other.feed(piece);
      for (let i = 0; i < 10; i++) vi.advanceTimersByTime(3000);
      expect(done).toHaveBeenCalledTimes(1);
      expect(vi.getTimerCount()).toBe(0);
    }),
  );
});

it("writes commands as the chip has them", () => {
  camera.take(() => undefined);
  other.feed("\x76\0\x36\0\0");
  other.feed("\x76\0\x36\0\0");
  other.feed("\x76\0\x34\0\x04\0\0\x12\x34");
  camera.read(0x1234, 509, () => undefined);
  expect(other.sent.map((text) => Buffer.from(text, "latin1").toString("hex"))).toEqual([
    "5600360103",
    "5600360100",
    "5600340100",
    "5600320c000a0000123400000200000a",
  ]);
});

it("is quiet once it is closed", () => {
  const done = vi.fn();
  camera.read(0, 8, done);
  camera.close();
  expect(other.hasListener()).toBe(false);
  vi.advanceTimersByTime(60_000);
  expect(done).not.toHaveBeenCalled();
});
