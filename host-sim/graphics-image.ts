/** Images as `Graphics` draws them: objects, texts and buffers with a header, other pictures. */
import type { Bridge } from "./bridge";
import type { Surface } from "./graphics";

export interface Image {
  width: number;
  height: number;
  bpp: number;
  /** The colour that is not drawn. */
  transparent?: number;
  /** Colours by value. */
  palette?: number[];
  data: Uint8Array;
  /** Where the dots begin. */
  offset: number;
  headerBytes: number;
  /** How many the dots of one frame are. */
  bytes: number;
}

export interface ImageReader {
  /** Throws an Error of the realm where the value is no image. What has no colours of its own gets those of `surface`. */
  read(surface: Surface, given: any): Image;
}

const typedArray = Object.getOwnPropertyDescriptors(Object.getPrototypeOf(Uint8Array.prototype) as Uint8Array);

/** The memory of a buffer or a view of the realm; undefined where the value is none. Buffers there are views, too. */
export const memoryOf = (value: unknown): Uint8Array | undefined => {
  if (!ArrayBuffer.isView(value) || value instanceof DataView) return undefined;
  const get = (name: "buffer" | "byteOffset" | "byteLength"): any => Reflect.apply(typedArray[name].get!, value, []);
  return new Uint8Array(get("buffer"), get("byteOffset"), get("byteLength"));
};

/** Bits of a header that are no bits per dot. */
const HAS_TRANSPARENT = 128;
const HAS_PALETTE = 64;
const PALETTE_SIZES = [2, 4, 8, 16, 256];

/** Value of a dot in the picture's colours; undefined where it is transparent. */
export const pixelOf = ({ width, bpp, data, offset, transparent, palette }: Image, x: number, y: number): number | undefined => {
  let bit = (x + y * width) * bpp;
  let value = 0;
  for (let left = bpp; left > 0; ) {
    const inByte = Math.min(left, 8 - (bit & 7));
    const byte = data[offset + (bit >> 3)] ?? 0;
    value = value * 2 ** inByte + ((byte >> (8 - (bit & 7) - inByte)) & (2 ** inByte - 1));
    bit += inByte;
    left -= inByte;
  }
  if (value === transparent) return undefined;
  return palette ? palette[value % palette.length] : value;
};

export const createImageReader = (
  { library, fail }: Bridge,
  surfaceOf: (value: object) => Surface | undefined,
  blend: (surface: Surface, front: number, back: number, amount: number) => number,
): ImageReader => {
  const { toInteger } = library;
  const bytesOf = (value: unknown): Uint8Array | undefined =>
    typeof value === "string" ? Buffer.from(value, "latin1") : memoryOf(value);
  const paletteOf = (value: any): number[] => {
    if (ArrayBuffer.isView(value) && PALETTE_SIZES.includes((value as Uint16Array).length)) return [...(value as Uint16Array)];
    return fail("Error", "Palette specified, but must be a flat Uint16Array of 2,4,8,16,256 elements");
  };
  const parse = (given: any): Omit<Image, "bytes"> => {
    const whole = bytesOf(given);
    if (whole) {
      const flags = whole[2] ?? 0;
      const bpp = flags & 63;
      let offset = 3;
      const transparent = flags & HAS_TRANSPARENT ? whole[offset++] : undefined;
      let palette: number[] | undefined;
      if (flags & HAS_PALETTE) {
        if (bpp > 8) return fail("Error", "Can't have palette on >8 bit images");
        palette = Array.from({ length: 2 ** bpp }, (_, i) => (whole[offset + i * 2] ?? 0) | ((whole[offset + i * 2 + 1] ?? 0) << 8));
        offset += palette.length * 2;
      }
      const [width = 0, height = 0] = whole;
      return { width, height, bpp, transparent, palette, data: whole, offset, headerBytes: offset };
    }
    if (typeof given !== "object" || given === null) return fail("Error", "First argument must be Object or String");
    const surface = surfaceOf(given);
    const size = surface ?? { width: toInteger(given.width), height: toInteger(given.height), bpp: toInteger(given.bpp) };
    return {
      width: size.width,
      height: size.height,
      bpp: size.bpp > 0 ? size.bpp : 1,
      transparent: given.transparent === undefined ? undefined : toInteger(given.transparent),
      palette: given.palette === undefined ? undefined : paletteOf(given.palette),
      data: bytesOf(given.buffer) ?? fail("Error", "Expecting valid Image"),
      offset: 0,
      headerBytes: 0,
    };
  };
  return {
    read(surface, given) {
      const image = parse(given);
      if (image.width <= 0 || image.height <= 0 || image.bpp > 32) return fail("Error", "Expecting valid Image");
      const { fg, bg } = surface;
      if (image.bpp === 1) image.palette ??= [bg, fg];
      if (image.bpp === 2) image.palette ??= [bg, blend(surface, fg, bg, 85), blend(surface, fg, bg, 171), fg];
      return { ...image, bytes: (image.width * image.height * image.bpp + 7) >> 3 };
    },
  };
};
