/** Functions of the object `E` that compute: on lists of numbers, bytes and text. */
import { randomInt } from "node:crypto";
import type { Bridge } from "./bridge";

const crc32 = (bytes: string): number => {
  let crc = 0xffffffff;
  for (let i = 0; i < bytes.length; i++) {
    crc ^= bytes.charCodeAt(i) & 0xff;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
};

/** Red in the lowest byte. The hue wraps at 1. */
const hsbToRgb = (hue: number, saturation: number, brightness: number): number => {
  const pack = (red: number, green: number, blue: number): number => (blue << 16) | (green << 8) | red;
  if (brightness === 0) return 0;
  const full = brightness * 255;
  const whole = Math.trunc(full);
  if (saturation === 0) return pack(whole, whole, whole);
  const turn = (hue - Math.floor(hue)) * 6;
  const sector = Math.trunc(turn) % 6;
  const rest = turn - Math.trunc(turn);
  const low = Math.trunc((1 - saturation) * full);
  const falling = Math.trunc((1 - saturation * rest) * full);
  const rising = Math.trunc((1 - saturation * (1 - rest)) * full);
  if (sector === 0) return pack(whole, rising, low);
  if (sector === 1) return pack(falling, whole, low);
  if (sector === 2) return pack(low, whole, rising);
  if (sector === 3) return pack(low, falling, whole);
  return sector === 4 ? pack(rising, low, whole) : pack(whole, low, falling);
};

/** Adds them to `E`. */
export const installComputing = (bridge: Bridge): void => {
  const { library, global, functions, fail, bytes } = bridge;
  const { toNumber, toInteger, typeName, isIterable, str } = library;
  const numbers = (list: unknown): number[] => {
    if (typeof list === "string") return [...list].map((char) => char.charCodeAt(0));
    const values: number[] = [];
    library.eachItem(list, (item) => void values.push(toNumber(item)));
    return values;
  };
  const isBuffer = (value: unknown): value is Uint8Array => library.isBuffer(value);

  functions(global.E, {
    sum(list: unknown) {
      if (typeof list !== "string" && !Array.isArray(list) && !isBuffer(list))
        return fail("Error", `First argument must be Array, not ${typeName(list)}`);
      return numbers(list).reduce((sum, value) => sum + value, 0);
    },
    variance(list: unknown, mean: unknown) {
      if (!isIterable(list)) return fail("Error", `First argument must iterable, not ${typeName(list)}`);
      const middle = toNumber(mean);
      return numbers(list).reduce((sum, value) => sum + (value - middle) ** 2, 0);
    },
    convolve(first: unknown, second: unknown, offset: unknown) {
      if (!isIterable(first) || !isIterable(second))
        return fail(
          "Error",
          `Expecting first 2 arguments to be iterable, not ${typeName(first)} and ${typeName(second)}`,
        );
      const ring = numbers(second);
      const start = ((toInteger(offset) % ring.length) + ring.length) % ring.length;
      return numbers(first).reduce((sum, value, index) => sum + value * ring[(start + index) % ring.length]!, 0);
    },
    clip(value: unknown, min: unknown, max: unknown) {
      const raised = toNumber(value) < toNumber(min) ? toNumber(min) : toNumber(value);
      return raised > toNumber(max) ? toNumber(max) : raised;
    },
    reverseByte(value: unknown) {
      let result = 0;
      for (let bit = 0; bit < 8; bit++) if (toInteger(value) & (1 << bit)) result |= 0x80 >> bit;
      return result;
    },
    mapInPlace(from: unknown, to: unknown, map: unknown, bits: unknown) {
      if (!isBuffer(from) || !isBuffer(to)) return fail("Error", "First 2 arguments should be array buffers");
      const isFunction = typeof map === "function";
      if (map !== undefined && map !== null && !isFunction && !Array.isArray(map) && !isBuffer(map))
        return fail("Error", "Third argument should be a function or array");
      const width = 8 * (from.BYTES_PER_ELEMENT ?? 1);
      const isLowestFirst = toInteger(bits) < 0;
      const size = Math.abs(toInteger(bits)) || width;
      const mask = 2 ** size - 1;
      let held = 0;
      let count = 0;
      let position = 0;
      for (let index = 0; (position < from.length || count >= size) && index < to.length; index++) {
        const first = position;
        while (count < size) {
          const item = (from[position++] ?? 0) | 0;
          held = isLowestFirst ? held | (item << count) : (held << width) | item;
          count += width;
        }
        count -= size;
        const value = (isLowestFirst ? held : held >> count) & mask;
        if (isLowestFirst) held >>= size;
        if (isFunction) to[index] = toNumber((map as (...list: unknown[]) => unknown)(value, first));
        else if (map === undefined || map === null) to[index] = value;
        else to[index] = toNumber((map as ArrayLike<unknown>)[value]);
      }
    },
    HSBtoRGB(hue: unknown, saturation: unknown, brightness: unknown, format: unknown) {
      const rgb = hsbToRgb(toNumber(hue), toNumber(saturation), toNumber(brightness));
      const kind = toInteger(format);
      const [red, green, blue] = [rgb & 0xff, (rgb >> 8) & 0xff, rgb >> 16] as const;
      if (kind === 0 || kind === 24) return rgb;
      if (kind === 16) return (blue >> 3) | ((green >> 2) << 5) | ((red >> 3) << 11);
      if (kind !== 1) return fail("Error", "HSBtoRGB's format arg expects undefined/1/16/24");
      return library.newArray([red, green, blue]);
    },
    CRC32(data: unknown) {
      if (!isIterable(data)) return undefined;
      let text = "";
      library.eachItem(data, (item) => {
        text += typeof item === "string" ? item : String.fromCharCode(toInteger(item) & 0xff);
      });
      return crc32(text);
    },
    hwRand: () => randomInt(0, 2 ** 32) - 2 ** 31,
    toString: (...list: unknown[]) => list.map(bytes).join(""),
    toFlatString: (...list: unknown[]) => list.map(bytes).join(""),
    toArrayBuffer: (value: unknown) => (typeof value === "string" ? library.arrayBuffer(value) : undefined),
    toUint8Array: (...list: unknown[]) => library.uint8Array(list.map(bytes).join("")),
    asUTF8: (value: unknown) => str(value),
    fromUTF8: (value: unknown) => str(value),
    isUTF8: () => false,
    decodeUTF8(text: unknown, lookup: any, replace: unknown) {
      if (typeof text !== "string") return fail("Error", "First argument must be String");
      let result = "";
      for (let i = 0; i < text.length; ) {
        let code = text.charCodeAt(i++);
        let more = 0;
        if ((code & 0xe0) === 0xc0) [code, more] = [code & 0x1f, 1];
        else if ((code & 0xf0) === 0xe0) [code, more] = [code & 0x0f, 2];
        else if ((code & 0xf8) === 0xf0) [code, more] = [code & 0x07, 3];
        for (; more > 0; more--) code = (code << 6) | (i < text.length ? text.charCodeAt(i++) & 0x3f : 0);
        if (code <= 0xff) {
          result += String.fromCharCode(code);
          continue;
        }
        let by: unknown = typeof lookup === "object" && lookup !== null ? lookup[code] : undefined;
        if (by === undefined && typeof replace === "function") by = replace(code);
        if (by === undefined && typeof replace === "string") by = replace;
        if (by !== undefined) result += str(by);
      }
      return result;
    },
    lookupNoCase(haystack: any, needle: unknown, returnKey?: unknown) {
      if ((typeof haystack !== "object" && typeof haystack !== "function") || haystack === null) return undefined;
      const wanted = str(needle).toLowerCase();
      const key = Object.keys(haystack).find((name) => name.toLowerCase() === wanted);
      return key === undefined ? undefined : returnKey ? key : haystack[key];
    },
    stopEventPropagation() {
      if (!library.propagation.isRunning)
        return fail("Error", "E.stopEventPropagation() called when not handling events");
      library.propagation.isStopped = true;
    },
  });
};
