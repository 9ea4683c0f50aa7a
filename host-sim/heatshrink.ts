/** Module `heatshrink`: LZSS with a window of 256 bytes and matches of up to 64, as the interpreter is built. */
import type { Bridge } from "./bridge";

const WINDOW_BITS = 8;
const LENGTH_BITS = 6;
const WINDOW = 1 << WINDOW_BITS;
const LONGEST = 1 << LENGTH_BITS;
/** A match of so many bytes takes fewer bits than the bytes themselves. */
const SHORTEST = 2;

/** Packs bits, the highest first; the last byte is filled with zeros. */
const createBitWriter = () => {
  const bytes: number[] = [];
  let current = 0;
  let free = 8;
  return {
    write(value: number, count: number): void {
      for (let bit = count - 1; bit >= 0; bit--) {
        free--;
        current |= ((value >> bit) & 1) << free;
        if (free > 0) continue;
        bytes.push(current);
        current = 0;
        free = 8;
      }
    },
    end: (): number[] => (free < 8 ? [...bytes, current] : bytes),
  };
};

/** A byte as it is: a set bit and 8 more. Bytes seen before: a clear bit, how far back less 1, how many less 1. */
export const compress = (data: Uint8Array): Uint8Array => {
  const writer = createBitWriter();
  for (let at = 0; at < data.length; ) {
    const longest = Math.min(LONGEST, data.length - at);
    let best = 0;
    let back = 0;
    // The nearest of the longest matches.
    for (let start = at - 1; start >= Math.max(0, at - WINDOW) && best < longest; start--) {
      let length = 0;
      while (length < longest && data[start + length] === data[at + length]) length++;
      if (length > best) {
        best = length;
        back = at - start;
      }
    }
    if (best >= SHORTEST) {
      writer.write(0, 1);
      writer.write(back - 1, WINDOW_BITS);
      writer.write(best - 1, LENGTH_BITS);
      at += best;
    } else {
      writer.write(1, 1);
      writer.write(data[at++]!, 8);
    }
  }
  return Uint8Array.from(writer.end());
};

/** What ends in the middle ends there; bytes from before the beginning are zero. */
export const decompress = (data: Uint8Array): Uint8Array => {
  const result: number[] = [];
  let position = 0;
  const left = (): number => data.length * 8 - position;
  const read = (count: number): number => {
    let value = 0;
    for (let i = 0; i < count; i++, position++)
      value = (value << 1) | ((data[position >> 3]! >> (7 - (position & 7))) & 1);
    return value;
  };
  while (left() > 0) {
    if (read(1)) {
      if (left() < 8) break;
      result.push(read(8));
      continue;
    }
    if (left() < WINDOW_BITS + LENGTH_BITS) break;
    const back = read(WINDOW_BITS) + 1;
    for (let count = read(LENGTH_BITS) + 1; count > 0; count--) result.push(result[result.length - back] ?? 0);
  }
  return Uint8Array.from(result);
};

/** Returns the module's object. Both functions take text, lists and buffers, and give an ArrayBuffer. */
export const createHeatshrink = (bridge: Bridge): object => {
  const { library, functions, bytes } = bridge;
  const heatshrink = library.builtIn(library.newObject());
  const through = (change: (data: Uint8Array) => Uint8Array) => (value: unknown) =>
    library.arrayBuffer(Buffer.from(change(Buffer.from(bytes(value), "latin1"))).toString("latin1"));
  functions(heatshrink, { compress: through(compress), decompress: through(decompress) });
  return heatshrink;
};
