/**
 * `Graphics`: pictures in the board's memory (`createArrayBuffer`), and such as a program draws itself
 * (`createCallback`). Which dots a line, a circle or a polygon takes is measured on the interpreter; so is how an image
 * is turned and scaled.
 *
 * Known differences: small letters and signs of the small font are the simulator's own, and the vector font is the small
 * one, enlarged. With 4 and 8 bits to a dot colours are black or white, where the board finds the nearest of a palette.
 * What draws on a display wired to the board is not modelled.
 */
import type { Bridge } from "./bridge";
import { CELL, eachDot } from "./graphics-font";
import { type Image, type ImageReader, createImageReader, memoryOf, pixelOf } from "./graphics-image";

interface Rect {
  x1: number;
  y1: number;
  x2: number;
  y2: number;
}

interface Font {
  kind: "small" | "vector" | "custom";
  scaleX: number;
  scaleY: number;
}

/** How the dots lie in memory. */
interface Layout {
  isMsbFirst: boolean;
  isZigzag: boolean;
  isInterleaved: boolean;
  isVertical: boolean;
}

/** One picture. Places are those of the device; `at` and `toDevice` turn what a program says into them. */
export interface Surface {
  width: number;
  height: number;
  bpp: number;
  layout: Layout;
  colorOrder: string;
  /** The memory; undefined where the program draws. */
  bytes?: Uint8Array;
  callbacks?: { dot?: (x: number, y: number, color: number) => void; rect?: (...list: number[]) => void };
  fg: number;
  bg: number;
  swapXY: boolean;
  invertX: boolean;
  invertY: boolean;
  offsetX: number;
  offsetY: number;
  clip: Rect;
  modified?: Rect;
  cursorX: number;
  cursorY: number;
  font: Font;
  /** -1, 0, 1, or undefined: as -1. */
  alignX?: number;
  alignY?: number;
  textRotation: number;
}

const BITS_PER_PIXEL = [1, 2, 4, 8, 16, 24, 32];
const MAX_SIDE = 32767;
const MAX_POINTS = 64;
/** Places of a polygon, and of a line without steps, are counted in parts of a dot. */
const PARTS = 16;
const MAX_SCALE = 1023;

/** Methods an ESP32 has, too. */
const UNMODELLED = (
  "wrapString findFont setFontPBF setFont6x8 getFonts quadraticBezier transformVertices blit asBMP asURL dump " +
  "fillPolyAA drawCircleAA theme setTheme flip"
).split(" ");

const maskOf = (bpp: number): number => (bpp >= 32 ? 0xffffffff : 2 ** bpp - 1);
const swap = (rect: Rect): Rect => ({
  x1: Math.min(rect.x1, rect.x2),
  y1: Math.min(rect.y1, rect.y2),
  x2: Math.max(rect.x1, rect.x2),
  y2: Math.max(rect.y1, rect.y2),
});

const resetState = (surface: Surface): void => {
  surface.fg = maskOf(surface.bpp);
  surface.bg = 0;
  surface.font = { kind: "small", scaleX: 1, scaleY: 1 };
  surface.alignX = surface.alignY = undefined;
  surface.textRotation = 0;
  surface.clip = { x1: 0, y1: 0, x2: surface.width - 1, y2: surface.height - 1 };
  surface.cursorX = surface.cursorY = surface.offsetX = surface.offsetY = 0;
};

/** Where a dot is, in bits from the beginning. */
const bitIndex = ({ width, height, bpp, layout }: Surface, x: number, y: number): number => {
  if (layout.isZigzag && y & 1) x = width - (x + 1);
  if (layout.isInterleaved) {
    const half = height >> 1;
    const isLower = y >= half;
    return (x + (isLower ? y - half : y) * width) * bpp * 2 + (isLower ? bpp : 0);
  }
  return layout.isVertical ? ((x + (y >> 3) * width) << 3) | (y & 7) : (x + y * width) * bpp;
};

const readDot = (surface: Surface, x: number, y: number): number => {
  const { bytes, bpp, layout } = surface;
  if (!bytes) return surface.bg;
  const bit = bitIndex(surface, x, y);
  let at = bit >> 3;
  if (bpp < 8) {
    const shift = layout.isMsbFirst ? 8 - ((bit & 7) + bpp) : bit & 7;
    return (bytes[at]! >> shift) & maskOf(bpp);
  }
  let color = 0;
  for (let i = 0; i < bpp; i += 8) color += bytes[at++]! * 2 ** (layout.isMsbFirst ? bpp - 8 - i : i);
  return color;
};

const writeDot = (surface: Surface, x: number, y: number, color: number): void => {
  const { bytes, bpp, layout, callbacks } = surface;
  if (!bytes) return callbacks?.dot?.(x, y, color);
  const bit = bitIndex(surface, x, y);
  let at = bit >> 3;
  if (bpp < 8) {
    const shift = layout.isMsbFirst ? 8 - ((bit & 7) + bpp) : bit & 7;
    const mask = maskOf(bpp);
    bytes[at] = (bytes[at]! & ~(mask << shift)) | ((color & mask) << shift);
    return;
  }
  for (let i = 0; i < bpp; i += 8) bytes[at++] = Math.floor(color / 2 ** (layout.isMsbFirst ? bpp - 8 - i : i)) & 0xff;
};

const noteModified = (surface: Surface, { x1, y1, x2, y2 }: Rect): void => {
  const known = surface.modified;
  surface.modified = known
    ? {
        x1: Math.min(known.x1, x1),
        y1: Math.min(known.y1, y1),
        x2: Math.max(known.x2, x2),
        y2: Math.max(known.y2, y2),
      }
    : { x1, y1, x2, y2 };
};

const setDot = (surface: Surface, x: number, y: number, color: number): void => {
  const { clip, bpp } = surface;
  if (x < clip.x1 || y < clip.y1 || x > clip.x2 || y > clip.y2) return;
  noteModified(surface, { x1: x, y1: y, x2: x, y2: y });
  writeDot(surface, x, y, (color & maskOf(bpp)) >>> 0);
};
const getDot = (surface: Surface, x: number, y: number): number =>
  x < 0 || y < 0 || x >= surface.width || y >= surface.height ? 0 : readDot(surface, x, y);

const fill = (surface: Surface, given: Rect, color: number): void => {
  const rect = swap(given);
  const x1 = Math.max(rect.x1, surface.clip.x1);
  const y1 = Math.max(rect.y1, surface.clip.y1);
  const x2 = Math.min(rect.x2, surface.clip.x2);
  const y2 = Math.min(rect.y2, surface.clip.y2);
  if (x2 < x1 || y2 < y1) return;
  noteModified(surface, { x1, y1, x2, y2 });
  const isDot = x1 === x2 && y1 === y2;
  if (!isDot && surface.callbacks?.rect) return surface.callbacks.rect(x1, y1, x2, y2, color);
  for (let y = y1; y <= y2; y++) for (let x = x1; x <= x2; x++) writeDot(surface, x, y, color);
};

/** A place as the program names it -> that of the device. `parts`: how many there are to a dot. */
const toDevice = (surface: Surface, x: number, y: number, parts = 1): [number, number] => {
  x += surface.offsetX * parts;
  y += surface.offsetY * parts;
  if (surface.swapXY) [x, y] = [y, x];
  if (surface.invertX) x = (surface.width - 1) * parts - x;
  if (surface.invertY) y = (surface.height - 1) * parts - y;
  return [x, y];
};
const fromDevice = (surface: Surface, x: number, y: number): [number, number] => {
  if (surface.invertX) x = surface.width - 1 - x;
  if (surface.invertY) y = surface.height - 1 - y;
  if (surface.swapXY) [x, y] = [y, x];
  return [x - surface.offsetX, y - surface.offsetY];
};
const rectToDevice = (surface: Surface, { x1, y1, x2, y2 }: Rect): Rect => {
  const [left, top] = toDevice(surface, x1, y1);
  const [right, bottom] = toDevice(surface, x2, y2);
  return { x1: left, y1: top, x2: right, y2: bottom };
};
const setAt = (surface: Surface, x: number, y: number, color: number): void => {
  const [deviceX, deviceY] = toDevice(surface, x, y);
  setDot(surface, deviceX, deviceY, color);
};
const getAt = (surface: Surface, x: number, y: number): number => getDot(surface, ...toDevice(surface, x, y));
const fillAt = (surface: Surface, rect: Rect, color: number): void => fill(surface, rectToDevice(surface, rect), color);

/** `amount` of 256 of the first colour in the second. */
const blend = ({ bpp }: Surface, front: number, back: number, amount: number): number => {
  const share = Math.min(256, Math.max(0, amount));
  const mix = (bits: number, shift: number): number => {
    const mask = 2 ** bits - 1;
    return ((((back >>> shift) & mask) * (256 - share) + ((front >>> shift) & mask) * share) >> 8) << shift;
  };
  if (bpp === 2 || bpp === 4 || bpp === 8) return (back * (256 - share) + front * share + 127) >> 8;
  if (bpp === 16) return mix(5, 11) | mix(6, 5) | mix(5, 0);
  if (bpp === 24) return mix(8, 16) | mix(8, 8) | mix(8, 0);
  return share >= 128 ? front : back;
};

/** One dot for each step along the longer side; the other place goes on in 256th parts. */
const drawLine = (surface: Surface, x1: number, y1: number, x2: number, y2: number): void => {
  const { x1: fromX, y1: fromY, x2: toX, y2: toY } = rectToDevice(surface, { x1, y1, x2, y2 });
  const isFlat = Math.abs(toX - fromX) > Math.abs(toY - fromY);
  const ends = [isFlat ? [fromX, fromY] : [fromY, fromX], isFlat ? [toX, toY] : [toY, toX]] as [number, number][];
  ends.sort((first, second) => first[0] - second[0]);
  const [[start, across], [end, endAcross]] = ends as [[number, number], [number, number]];
  const step = Math.trunc(((endAcross - across) * 256) / Math.max(1, end - start));
  let place = across * 256 + 128;
  for (let along = start; along <= end; along++, place += step)
    if (isFlat) setDot(surface, along, place >> 8, surface.fg);
    else setDot(surface, place >> 8, along, surface.fg);
};

/** Wu's line: two dots for each step, which share the colour. Places in 16th parts of a dot. */
const drawSmoothLine = (surface: Surface, x1: number, y1: number, x2: number, y2: number): void => {
  let [fromX, fromY] = toDevice(surface, x1, y1, PARTS).map((place) => place * 16) as [number, number];
  let [toX, toY] = toDevice(surface, x2, y2, PARTS).map((place) => place * 16) as [number, number];
  const isSteep = Math.abs(toY - fromY) > Math.abs(toX - fromX);
  if (isSteep) [fromX, fromY, toX, toY] = [fromY, fromX, toY, toX];
  if (fromX > toX) [fromX, fromY, toX, toY] = [toX, toY, fromX, fromY];
  const slope = toX > fromX ? Math.trunc(((toY - fromY) * 256) / (toX - fromX)) : 256;
  const shade = (x: number, y: number, amount: number): void => {
    const [deviceX, deviceY] = isSteep ? [y, x] : [x, y];
    setDot(surface, deviceX, deviceY, blend(surface, surface.fg, getDot(surface, deviceX, deviceY), amount));
  };
  const pair = (x: number, place: number, share: number): void => {
    const part = place & 255;
    shade(x, place >> 8, ((256 - part) * share) >> 8);
    shade(x, (place >> 8) + 1, (part * share) >> 8);
  };
  const first = fromX & ~255;
  const last = (toX + 256) & ~255;
  let place = fromY + ((slope * (first - fromX)) >> 8);
  pair(first >> 8, place, 255 - (fromX & 255));
  pair(last >> 8, toY + ((slope * (last - toX)) >> 8), (toX + 256) & 255);
  for (let x = (first >> 8) + 1; x < last >> 8; x++) {
    place += slope;
    pair(x, place, 256);
  }
};

/** Goes along a quarter of an ellipse: `dot` gets each place on it, `row` each that is the last of its row. */
const eachOfQuarter = (
  radiusX: number,
  radiusY: number,
  calls: { dot?: (x: number, y: number) => void; row?: (x: number, y: number) => void },
): void => {
  const xx = radiusX * radiusX;
  const yy = radiusY * radiusY;
  let x = 0;
  let y = radiusY;
  let error = yy - (2 * radiusY - 1) * xx;
  for (let isMoving = true; isMoving && y >= 0; ) {
    isMoving = false;
    calls.dot?.(x, y);
    const twice = 2 * error;
    if (twice < (2 * x + 1) * yy) {
      x++;
      error += (2 * x + 1) * yy;
      isMoving = true;
    }
    if (twice > -(2 * y - 1) * xx) {
      calls.row?.(x, y);
      y--;
      error -= (2 * y - 1) * xx;
      isMoving = true;
    }
  }
  // A flat one ends too early.
  while (x++ < radiusX) (calls.dot ?? calls.row)?.(x, 0);
};

/** The four quarters stand apart as far as the rectangle is wide and high. */
const drawCorners = (surface: Surface, { x1, y1, x2, y2 }: Rect, radiusX: number, radiusY: number): void =>
  eachOfQuarter(radiusX, radiusY, {
    dot(x, y) {
      for (const placeY of [y2 + y, y1 - y])
        for (const placeX of [x2 + x, x1 - x]) setDot(surface, placeX, placeY, surface.fg);
    },
  });
const fillCorners = (surface: Surface, { x1, y1, x2, y2 }: Rect, radiusX: number, radiusY: number, color: number): void =>
  eachOfQuarter(radiusX, radiusY, {
    row(x, y) {
      for (const place of [y2 + y, y1 - y]) fill(surface, { x1: x1 - x, y1: place, x2: x2 + x, y2: place }, color);
    },
  });

const ellipse = (surface: Surface, given: Rect, isFilled: boolean): void => {
  const { x1, y1, x2, y2 } = swap(rectToDevice(surface, given));
  const x = Math.trunc((x1 + x2) / 2);
  const y = Math.trunc((y1 + y2) / 2);
  const centre = { x1: x, y1: y, x2: x, y2: y };
  const [radiusX, radiusY] = [(x2 - x1) >> 1, (y2 - y1) >> 1];
  if (isFilled) fillCorners(surface, centre, radiusX, radiusY, surface.fg);
  else drawCorners(surface, centre, radiusX, radiusY);
};

/** Row by row, between the edges that are crossed there: inside is where as many go down as up on the left. */
const fillPolygon = (surface: Surface, parts: number[]): void => {
  const points: [number, number][] = [];
  for (let i = 0; i + 1 < parts.length; i += 2) points.push(toDevice(surface, parts[i]!, parts[i + 1]!, PARTS));
  const rows = points.map(([, y]) => y >> 4);
  const first = Math.max(surface.clip.y1, Math.min(surface.height - 1, ...rows));
  const last = Math.min(surface.clip.y2, Math.max(0, ...rows));
  for (let row = first; row <= last; row++) {
    const y = row * PARTS;
    const crossings: { x: number; isDown: boolean }[] = [];
    points.forEach(([x1, y1], index) => {
      const [x2, y2] = points.at(index - 1)!;
      const isCrossed = (y1 <= y && y2 > y) || (y2 <= y && y1 > y);
      if (!isCrossed || crossings.length >= MAX_POINTS) return;
      crossings.push({ x: x1 + Math.trunc(((y - y1) * (x2 - x1)) / (y2 - y1)), isDown: y2 - y1 > 1 });
    });
    crossings.sort((left, right) => left.x - right.x);
    let from = 0;
    let depth = 0;
    crossings.forEach(({ x, isDown }, index) => {
      if (depth === 0) from = x;
      depth += isDown ? 1 : -1;
      if (depth !== 0 && index < crossings.length - 1) return;
      const left = (from + PARTS - 1) >> 4;
      const right = (x + PARTS - 1) >> 4;
      if (right > left) fill(surface, { x1: left, y1: row, x2: right - 1, y2: row }, surface.fg);
    });
  }
};

/**
 * Rows that lie whole in memory are moved as they are. Otherwise the interpreter moves dot by dot: a column and a few rows
 * less than there are, and downwards only the first row.
 */
const scroll = (surface: Surface, x: number, y: number): void => {
  const [fromX, fromY] = toDevice(surface, 0, 0);
  const [toX, toY] = toDevice(surface, x, y);
  const { clip, layout, width, bpp, bg } = surface;
  const [byX, byY] = [toX - fromX, toY - fromY];
  const [columns, rows] = [clip.x2 - clip.x1 + 1, clip.y2 - clip.y1 + 1];
  if (byX === 0 && byY === 0) return;
  noteModified(surface, clip);
  const isInOrder = !layout.isZigzag && !layout.isInterleaved && !layout.isVertical;
  const isWholeRows = byX === 0 && columns === width && isInOrder && (width * bpp) % 8 === 0 && surface.bytes;
  const movedColumns = isWholeRows ? columns : columns - 1 - Math.abs(byX);
  const movedRows = isWholeRows ? rows - Math.abs(byY) : rows - 1 - Math.abs(byX);
  const moved: [x: number, y: number, color: number][] = [];
  for (let row = 0; row < (isWholeRows || byY <= 0 ? movedRows : Math.min(1, movedRows)); row++)
    for (let column = 0; column < movedColumns; column++) {
      const left = clip.x1 + column;
      const top = clip.y1 + row;
      const color = getDot(surface, left - Math.min(byX, 0), top - Math.min(byY, 0));
      moved.push([left + Math.max(byX, 0), top + Math.max(byY, 0), color]);
    }
  if (Math.abs(byX) < columns && Math.abs(byY) < rows) for (const [left, top, color] of moved) setDot(surface, left, top, color);
  const { x1, y1, x2, y2 } = clip;
  if (byX > 0) fill(surface, { x1, y1, x2: x1 + byX - 1, y2 }, bg);
  if (byX < 0) fill(surface, { x1: x2 + 1 + byX, y1, x2, y2 }, bg);
  if (byY > 0) fill(surface, { x1, y1, x2, y2: y1 + byY - 1 }, bg);
  if (byY < 0) fill(surface, { x1, y1: y2 + 1 + byY, x2, y2 }, bg);
};

/** False where more places would be open than the board has room for. */
const floodFill = (surface: Surface, startX: number, startY: number, color: number): boolean => {
  const old = getAt(surface, startX, startY);
  const isInside = (x: number, y: number): boolean =>
    x >= 0 && y >= 0 && x < surface.width && y < surface.height && getAt(surface, x, y) === old;
  const open: [number, number][] = [[startX, startY]];
  if (old === color) return true;
  for (let next = open.pop(); next; next = open.pop()) {
    const [x, y] = next;
    let left = x;
    while (isInside(left - 1, y)) setAt(surface, --left, y, color);
    let right = x;
    while (isInside(right, y)) setAt(surface, right++, y, color);
    for (const row of [y + 1, y - 1]) {
      let isInSpan = false;
      for (let column = left; column < right; column++) {
        const isOpen = isInside(column, row);
        if (isOpen && !isInSpan) open.push([column, row]);
        isInSpan = isOpen;
      }
    }
    if (open.length > MAX_POINTS / 2) return false;
  }
  return true;
};

/** An image as it is: each of its dots is one. */
const drawPlain = (surface: Surface, image: Image, x: number, y: number): void => {
  for (let row = 0; row < image.height; row++)
    for (let column = 0; column < image.width; column++) {
      const color = pixelOf(image, column, row);
      if (color !== undefined) setAt(surface, x + column, y + row, color);
    }
};

interface Placement {
  scale: number;
  rotate: number;
  isCentred: boolean;
}

/** An image turned and scaled: for each dot of what it covers, the one of the image that is there. In 256th parts. */
const drawTurned = (surface: Surface, image: Image, x: number, y: number, { scale, rotate, isCentred }: Placement): void => {
  const [cos, sin] = [Math.cos(rotate), Math.sin(rotate)];
  const stepX = Math.trunc((cos / scale) * 256);
  const stepY = Math.trunc((sin / scale) * 256);
  const width = Math.trunc(0.5 + scale * (image.width * Math.abs(cos) + image.height * Math.abs(sin)));
  const height = Math.trunc(0.5 + scale * (image.width * Math.abs(sin) + image.height * Math.abs(cos)));
  const left = x * 256 - (isCentred ? width * 128 : 0);
  const top = y * 256 - (isCentred ? height * 128 : 0);
  const firstX = left >> 8;
  const firstY = top >> 8;
  const beforeX = firstX * 256 - left;
  const beforeY = firstY * 256 - top;
  let rowX = image.width * 128 - Math.trunc((1 + stepX * width + stepY * height) / 2) + ((stepX * beforeX + stepY * beforeY) >> 8);
  let rowY = image.height * 128 - Math.trunc((1 + stepX * height - stepY * width) / 2) + ((stepX * beforeY - stepY * beforeX) >> 8);
  for (let row = 0; row < height; row++) {
    let [imageX, imageY] = [rowX, rowY];
    for (let column = 0; column < width; column++) {
      const isIn = imageX >= 0 && imageY >= 0 && imageX >> 8 < image.width && imageY >> 8 < image.height;
      const color = isIn ? pixelOf(image, imageX >> 8, imageY >> 8) : undefined;
      if (color !== undefined) setAt(surface, firstX + column, firstY + row, color);
      imageX += stepX;
      imageY -= stepY;
    }
    rowX += stepY;
    rowY += stepX;
  }
};

/** Bitmap of a font of the program's: column after column. */
interface CustomFont {
  bitmap: string;
  firstChar: number;
  widths: string | number;
  height: number;
  bpp: number;
}

/** Makes `Graphics` a global of the realm. */
export const installGraphics = (bridge: Bridge, print: (line: string) => void): void => {
  const { library, global, native, functions, fail, notModelled } = bridge;
  const { newObject, method, str, toInteger, toNumber, isIterable } = library;
  const surfaces = new WeakMap<object, Surface>();
  const customFonts = new WeakMap<Surface, CustomFont>();
  const shared = newObject();
  const Graphics = native(() => notModelled("new Graphics"));
  Object.defineProperty(Graphics, "prototype", { value: shared });
  method(global, "Graphics", Graphics);
  method(shared, "constructor", Graphics);

  const surfaceOf = (object: object): Surface => surfaces.get(object) ?? fail("Error", "There is no screen here; call this on a Graphics");
  const images: ImageReader = createImageReader(bridge, (value) => surfaces.get(value), blend);
  const numbers = (list: unknown): number[] => {
    const values: number[] = [];
    library.eachItem(list, (item) => void values.push(toNumber(item)));
    return values;
  };
  /** 0..1 each, `"#rgb"`, `"#rrggbb"`, or one number as it stands in memory. */
  const toColor = (surface: Surface, red: unknown, green?: unknown, blue?: unknown): number => {
    let parts = [red, green, blue].map((value) => (value === undefined ? Number.NaN : toNumber(value)));
    if (typeof red === "string") {
      const short = /^#([\da-f])([\da-f])([\da-f])$/i.exec(red);
      const long = /^#([\da-f]{2})([\da-f]{2})([\da-f]{2})$/i.exec(red);
      if (!short && !long) return fail("Error", "If Color is a String, it must be of the form '#rrggbb' or '#rgb'");
      parts = (short ?? long)!.slice(1).map((digits) => parseInt(digits, 16) / (short ? 15 : 255));
    }
    if (!parts.every(Number.isFinite)) return (toInteger(red) & maskOf(surface.bpp)) >>> 0;
    const given = parts.map((part) => Math.min(255, Math.max(0, Math.trunc(part * 256))));
    const [r, g, b] = [...surface.colorOrder].map((name) => given["rgb".indexOf(name)]!) as [number, number, number];
    if (surface.bpp === 16) return (b >> 3) | ((g >> 2) << 5) | ((r >> 3) << 11);
    if (surface.bpp >= 24) return ((b | (g << 8) | (r << 16) | (surface.bpp === 32 ? 0xff000000 : 0)) >>> 0);
    return r + g + b >= 384 ? maskOf(surface.bpp) : 0;
  };

  const make = (width: number, height: number, bpp: number, layout: Layout, colorOrder: string): [any, Surface] => {
    if (width <= 0 || height <= 0 || width > MAX_SIDE || height > MAX_SIDE) return fail("Error", "Invalid Size");
    if (!BITS_PER_PIXEL.includes(bpp)) return fail("Error", "Invalid BPP");
    const surface = { width, height, bpp, layout, colorOrder, swapXY: false, invertX: false, invertY: false } as Surface;
    resetState(surface);
    const object = Object.setPrototypeOf(newObject(), shared);
    surfaces.set(object, surface);
    return [object, surface];
  };
  const plainLayout: Layout = { isMsbFirst: true, isZigzag: false, isInterleaved: false, isVertical: false };

  functions(Graphics, {
    createArrayBuffer(width: unknown, height: unknown, bits: unknown, options?: any) {
      const bpp = toInteger(bits);
      const given = typeof options === "object" && options !== null ? options : {};
      const layout = {
        isMsbFirst: given.msb === undefined || Boolean(given.msb),
        isZigzag: Boolean(given.zigzag),
        isInterleaved: Boolean(given.interleavex),
        isVertical: Boolean(given.vertical_byte),
      };
      if (layout.isVertical && bpp !== 1) return fail("Error", "vertical_byte only works for 1bpp ArrayBuffers");
      if (layout.isVertical && toInteger(height) & 7)
        return fail("Error", "height must be a multiple of 8 when using vertical_byte");
      const order = given.color_order === undefined ? "rgb" : str(given.color_order);
      if (!/^(?=.*r)(?=.*g)(?=.*b)...$/.test(order)) print("WARNING: color_order must be 3 characters");
      const colorOrder = order.length === 3 ? order : "rgb";
      const [object, surface] = make(toInteger(width), toInteger(height), bpp, layout, colorOrder);
      const size = (surface.width * surface.height * bpp + 7) >> 3;
      const buffer = given.buffer ?? library.arrayBuffer("\0".repeat(size));
      surface.bytes =
        memoryOf(buffer) ?? fail("Error", `'buffer' should be ArrayBuffer, got ${library.typeName(buffer)}`);
      object.buffer = buffer;
      return object;
    },
    createCallback(width: unknown, height: unknown, bits: unknown, callback: any) {
      const dot = typeof callback === "function" ? callback : callback?.setPixel;
      const rect = typeof callback === "function" ? undefined : callback?.fillRect;
      if (typeof dot !== "function")
        return fail("Error", `Expecting Callback Function or an Object but got ${library.typeName(callback)}`);
      const [object, surface] = make(toInteger(width), toInteger(height), toInteger(bits), plainLayout, "rgb");
      object.iSetPixel = dot;
      if (typeof rect === "function") object.iFillRect = rect;
      surface.callbacks = {
        dot: (x, y, color) => void object.iSetPixel?.(x, y, color),
        rect: typeof rect === "function" ? (...list) => void object.iFillRect?.(...list) : undefined,
      };
      return object;
    },
    createImage(text: unknown) {
      if (typeof text !== "string") return fail("TypeError", "Expecting String");
      const rows = text.replace(/^\n/, "").replace(/\n$/, "").split("\n");
      const image = newObject();
      const width = Math.max(...rows.map((row) => row.length));
      const bytes = new Uint8Array((width * rows.length + 7) >> 3);
      rows.forEach((row, y) =>
        [...row].forEach((char, x) => {
          const at = y * width + x;
          if (char !== " " && char !== ".") bytes[at >> 3]! |= 128 >> (at & 7);
        }),
      );
      image.width = width;
      image.height = rows.length;
      image.buffer = Buffer.from(bytes).toString("latin1");
      return image;
    },
    getInstance: () => undefined,
  });

  const isObject = (value: unknown): boolean => typeof value === "object" && value !== null;
  const rectOf = (given: any, y1: unknown, x2: unknown, y2: unknown): Rect & { radius: number } => {
    if (!isObject(given))
      return { x1: toInteger(given), y1: toInteger(y1), x2: toInteger(x2), y2: toInteger(y2), radius: 0 };
    const value = (...names: string[]): number => toInteger(names.map((name) => given[name]).find((item) => item !== undefined));
    const rect = { x1: value("x1", "x"), y1: value("y1", "y"), x2: value("x2"), y2: value("y2"), radius: value("r") };
    if (given.w >= 0) rect.x2 = rect.x1 + toInteger(given.w);
    if (given.h >= 0) rect.y2 = rect.y1 + toInteger(given.h);
    return rect;
  };
  /** What is inside of the round corners, and their radius. */
  const rounded = (surface: Surface, given: Rect & { radius: number }) => {
    const outer = swap(rectToDevice(surface, given));
    const radius = Math.min(given.radius, (outer.x2 - outer.x1) >> 1, (outer.y2 - outer.y1) >> 1);
    const inner = { x1: outer.x1 + radius, y1: outer.y1 + radius, x2: outer.x2 - radius, y2: outer.y2 - radius };
    return { outer, inner, radius };
  };
  const fillRect = (surface: Surface, rect: Rect & { radius: number }, color: number): void => {
    if (rect.radius <= 0) return fillAt(surface, rect, color);
    const { outer, inner, radius } = rounded(surface, rect);
    fill(surface, { ...outer, y1: inner.y1, y2: inner.y2 }, color);
    fillCorners(surface, inner, radius, radius, color);
  };
  const drawRect = (surface: Surface, rect: Rect & { radius: number }): void => {
    const isRound = rect.radius > 0;
    const { outer, inner, radius } = rounded(surface, isRound ? rect : { ...rect, radius: 0 });
    for (const y of [outer.y1, outer.y2]) fill(surface, { ...inner, y1: y, y2: y }, surface.fg);
    for (const x of [outer.x1, outer.x2]) fill(surface, { ...inner, x1: x, x2: x }, surface.fg);
    if (isRound) drawCorners(surface, inner, radius, radius);
  };

  // ---- Text.
  const charHeight = (surface: Surface): number => {
    const { kind, scaleY } = surface.font;
    if (kind === "vector") return scaleY;
    return (kind === "small" ? CELL.height : (customFonts.get(surface)?.height ?? 0)) * scaleY;
  };
  /** Width of a character in dots of the font, and how many columns of the bitmap come before it. */
  const customChar = ({ widths, firstChar }: CustomFont, code: number): { width: number; before: number } => {
    const index = code - firstChar;
    if (typeof widths === "number") return { width: widths, before: widths * index };
    let before = 0;
    for (let i = 0; i < index; i++) before += widths.charCodeAt(i) || 0;
    return { width: index < 0 ? 0 : widths.charCodeAt(index) || 0, before };
  };
  const charWidth = (surface: Surface, char: string): number => {
    const { kind, scaleX } = surface.font;
    if (kind === "small") return CELL.width * scaleX;
    if (kind === "vector") return char === " " ? scaleX >> 1 : Math.ceil((scaleX * CELL.width) / CELL.height);
    return scaleX * customChar(customFonts.get(surface)!, char.charCodeAt(0)).width;
  };
  const measure = (surface: Surface, text: string, isOneLine = false) => {
    let [width, widest, height, imageCount, maxImageHeight] = [0, 0, charHeight(surface), 0, 0];
    for (let i = 0; i < text.length; i++) {
      if (text[i] === "\n") {
        widest = Math.max(widest, width);
        width = 0;
        height += charHeight(surface);
        if (isOneLine) break;
      } else if (text[i] === "\0") {
        const image = images.read(surface, text.slice(i + 1));
        imageCount++;
        maxImageHeight = Math.max(maxImageHeight, image.height);
        width += image.width;
        i += image.headerBytes + image.bytes;
      } else width += charWidth(surface, text[i]!);
    }
    return { width: Math.max(widest, width), height, imageCount, maxImageHeight };
  };
  const drawChar = (surface: Surface, char: string, x: number, y: number, isSolid: boolean): void => {
    const { kind, scaleX, scaleY } = surface.font;
    const block = (column: number, row: number, color: number): void => {
      const left = x + column * scaleX;
      const top = y + row * scaleY;
      fillAt(surface, { x1: left, y1: top, x2: left + scaleX - 1, y2: top + scaleY - 1 }, color);
    };
    if (kind !== "custom") {
      const [width, height] = [charWidth(surface, char), charHeight(surface)];
      if (isSolid) fillAt(surface, { x1: x, y1: y, x2: x + width - 1, y2: y + height - 1 }, surface.bg);
      if (kind === "small") return eachDot(char, (column, row) => block(column, row, surface.fg));
      return eachDot(char, (column, row) => {
        const edges = [column, row, column + 1, row + 1].map((place, index) =>
          Math.round((place * (index % 2 ? scaleY : scaleX)) / CELL.height),
        ) as [number, number, number, number];
        const [left, top, right, bottom] = edges;
        if (right > left && bottom > top)
          fillAt(surface, { x1: x + left, y1: y + top, x2: x + right - 1, y2: y + bottom - 1 }, surface.fg);
      });
    }
    const font = customFonts.get(surface)!;
    if (char.charCodeAt(0) < font.firstChar) return;
    const { width, before } = customChar(font, char.charCodeAt(0));
    const most = 2 ** font.bpp - 1;
    for (let column = 0; column < width; column++)
      for (let row = 0; row < font.height; row++) {
        const bit = ((before + column) * font.height + row) * font.bpp;
        const byte = font.bitmap.charCodeAt(bit >> 3) || 0;
        const value = (byte >> (8 - font.bpp - (bit & 7))) & most;
        if (isSolid || value) block(column, row, blend(surface, surface.fg, surface.bg, Math.trunc((256 * value) / most)));
      }
  };
  /** Text that is turned stands as if the picture were turned the other way. */
  const turnText = (surface: Surface, x: number, y: number): { x: number; y: number; undo(): void } => {
    const { swapXY, invertX, invertY, width, height, textRotation } = surface;
    const undo = (): void => void Object.assign(surface, { swapXY, invertX, invertY });
    if (textRotation === 1) {
      Object.assign(surface, { swapXY: !swapXY, invertX: !invertX });
      return { x: y, y: width - (x + 1), undo };
    }
    if (textRotation === 2) {
      Object.assign(surface, { invertX: !invertX, invertY: !invertY });
      return { x: width - (x + 1), y: height - (y + 1), undo };
    }
    if (textRotation === 3) {
      Object.assign(surface, { swapXY: !swapXY, invertY: !invertY });
      return { x: height - (y + 1), y: x, undo };
    }
    return { x, y, undo };
  };
  const drawText = (surface: Surface, text: string, givenX: number, givenY: number, isSolid: boolean): void => {
    const { x: startX, y: startY, undo } = turnText(surface, givenX, givenY);
    const shift = (size: number, align: number | undefined): number =>
      align === undefined ? 0 : Math.trunc((size * (align + 1)) / 2);
    const lineStart = (from: number): number =>
      startX - shift(measure(surface, text.slice(from), true).width, surface.alignX);
    const height = charHeight(surface);
    const [ax, ay] = fromDevice(surface, surface.clip.x1, surface.clip.y1);
    const [bx, by] = fromDevice(surface, surface.clip.x2, surface.clip.y2);
    const seen = swap({ x1: ax, y1: ay, x2: bx, y2: by });
    let x = lineStart(0);
    let y = startY - shift(measure(surface, text).height, surface.alignY);
    for (let i = 0; i < text.length; i++) {
      const char = text[i]!;
      if (char === "\n") {
        x = lineStart(i + 1);
        y += height;
      } else if (char === "\0") {
        const image = images.read(surface, text.slice(i + 1));
        drawPlain(surface, image, x, y + Math.trunc((height - image.height) / 2));
        x += image.width;
        i += image.headerBytes + image.bytes;
      } else {
        const width = charWidth(surface, char);
        if (x > seen.x1 - width && x < seen.x2 && y > seen.y1 - height && y <= seen.y2) drawChar(surface, char, x, y, isSolid);
        x += width;
      }
    }
    undo();
  };
  const setFontSize = (surface: Surface, kind: Font["kind"], scaleX: number, scaleY = scaleX): void => {
    const limited = (scale: number): number => Math.min(MAX_SCALE, Math.max(1, scale));
    surface.font = { kind, scaleX: limited(scaleX), scaleY: limited(scaleY) };
  };

  /** Methods that give the object they are called on, so that calls can be chained. */
  const chained = (calls: Record<string, (surface: Surface, list: any[], object: any) => void>): void => {
    for (const [name, call] of Object.entries(calls))
      functions(shared, {
        [name](this: object, ...list: unknown[]) {
          call(surfaceOf(this), list, this);
          return this;
        },
      });
  };
  const giving = (calls: Record<string, (surface: Surface, list: any[], object: any) => unknown>): void => {
    for (const [name, call] of Object.entries(calls))
      functions(shared, {
        [name](this: object, ...list: unknown[]) {
          return call(surfaceOf(this), list, this);
        },
      });
  };
  const isTurned = ({ swapXY }: Surface): boolean => swapXY;
  const poly = (surface: Surface, points: unknown, isClosed: boolean, isSmooth: boolean): void => {
    const scale = isSmooth ? PARTS : 1;
    const list = numbers(points).map((value) => Math.trunc(value * scale + 0.5));
    const draw = isSmooth ? drawSmoothLine : drawLine;
    const last = list.length - (list.length % 2) - 2;
    for (let i = 2; i <= last; i += 2) draw(surface, list[i - 2]!, list[i - 1]!, list[i]!, list[i + 1]!);
    if (last < 0) return;
    [surface.cursorX, surface.cursorY] = [Math.trunc(list[last]! / scale), Math.trunc(list[last + 1]! / scale)];
    if (isClosed) draw(surface, list[last]!, list[last + 1]!, list[0]!, list[1]!);
  };

  chained({
    reset: (surface) => resetState(surface),
    clear(surface, [isReset]) {
      if (isReset) resetState(surface);
      fill(surface, { x1: 0, y1: 0, x2: surface.width - 1, y2: surface.height - 1 }, surface.bg);
    },
    fillRect: (surface, list) => fillRect(surface, rectOf(list[0], list[1], list[2], list[3]), surface.fg),
    clearRect: (surface, list) => fillRect(surface, rectOf(list[0], list[1], list[2], list[3]), surface.bg),
    drawRect: (surface, list) => drawRect(surface, rectOf(list[0], list[1], list[2], list[3])),
    setPixel(surface, [x, y, color]) {
      setAt(surface, toInteger(x), toInteger(y), color === undefined ? surface.fg : toColor(surface, color));
      [surface.cursorX, surface.cursorY] = [toInteger(x), toInteger(y)];
    },
    setColor: (surface, [r, g, b]) => void (surface.fg = toColor(surface, r, g, b)),
    setBgColor: (surface, [r, g, b]) => void (surface.bg = toColor(surface, r, g, b)),
    drawLine(surface, list) {
      const [x1, y1, x2, y2] = list.concat(undefined, undefined, undefined, undefined).map(toInteger) as number[];
      drawLine(surface, x1!, y1!, x2!, y2!);
    },
    drawLineAA(surface, list) {
      const [x1, y1, x2, y2] = list.map((value) => Math.trunc(toNumber(value) * PARTS + 0.5));
      drawSmoothLine(surface, x1 || 0, y1 || 0, x2 || 0, y2 || 0);
    },
    moveTo: (surface, [x, y]) => void ([surface.cursorX, surface.cursorY] = [toInteger(x), toInteger(y)]),
    lineTo(surface, [x, y]) {
      drawLine(surface, surface.cursorX, surface.cursorY, toInteger(x), toInteger(y));
      [surface.cursorX, surface.cursorY] = [toInteger(x), toInteger(y)];
    },
    drawPoly: (surface, [points, isClosed]) => isIterable(points) && poly(surface, points, Boolean(isClosed), false),
    drawPolyAA: (surface, [points, isClosed]) => isIterable(points) && poly(surface, points, Boolean(isClosed), true),
    fillPoly(surface, [points]) {
      if (!isIterable(points)) return;
      const parts = numbers(points).map((value) => Math.max(-32768, Math.min(32767, Math.trunc(0.5 + value * PARTS))));
      if (parts.length > MAX_POINTS * 2)
        fail("Error", `Maximum number of points (${MAX_POINTS}) exceeded for fillPoly`);
      fillPolygon(surface, parts);
    },
    drawEllipse: (surface, list) => ellipse(surface, rectOf(toInteger(list[0]), list[1], list[2], list[3]), false),
    fillEllipse: (surface, list) => ellipse(surface, rectOf(toInteger(list[0]), list[1], list[2], list[3]), true),
    drawCircle: (surface, list) => ellipse(surface, circle(list), false),
    fillCircle: (surface, list) => ellipse(surface, circle(list), true),
    setClipRect(surface, list) {
      const { x1, y1, x2, y2 } = rectToDevice(surface, rectOf(toInteger(list[0]), list[1], list[2], list[3]));
      const x = (value: number): number => Math.min(surface.width - 1, Math.max(0, value));
      const y = (value: number): number => Math.min(surface.height - 1, Math.max(0, value));
      surface.clip = swap({ x1: x(x1), y1: y(y1), x2: x(x2), y2: y(y2) });
    },
    setOffset: (surface, [x, y]) => void ([surface.offsetX, surface.offsetY] = [toInteger(x), toInteger(y)]),
    setRotation(surface, [given, isReflected]) {
      const rotation = toInteger(given);
      surface.swapXY = rotation === 1 || rotation === 3;
      surface.invertX = rotation === 1 || rotation === 2;
      surface.invertY = rotation === 2 || rotation === 3;
      if (!isReflected) return;
      if (surface.swapXY) surface.invertY = !surface.invertY;
      else surface.invertX = !surface.invertX;
    },
    scroll: (surface, [x, y]) => scroll(surface, toInteger(x), toInteger(y)),
    floodFill(surface, [x, y, color]) {
      if (!surface.bytes) fail("Error", "Can't use floodFill on Graphics with no getPixel");
      const wanted = color === undefined ? surface.fg : toColor(surface, color);
      if (!floodFill(surface, toInteger(x), toInteger(y), wanted)) print("floodFill overflow");
    },
    setFontBitmap: (surface) => setFontSize(surface, "small", 1),
    setFontVector: (surface, [size]) => setFontSize(surface, "vector", toInteger(size)),
    setFontCustom(surface, [bitmap, firstChar, widths, height]) {
      if (typeof bitmap !== "string") fail("Error", "Font bitmap must be a String");
      if (!(toInteger(firstChar) >= 0 && toInteger(firstChar) <= 255)) fail("Error", "First character out of range");
      if (typeof widths !== "string" && !Number.isInteger(widths)) fail("Error", "Font width must be a String or an integer");
      const bpp = Math.max(1, toInteger(height) >> 16);
      if (![1, 2, 4].includes(bpp)) fail("Error", "Invalid BPP - 1,2,4 supported");
      customFonts.set(surface, { bitmap, firstChar: toInteger(firstChar), widths, height: toInteger(height) & 255, bpp });
      setFontSize(surface, "custom", (toInteger(height) >> 8) & 255);
    },
    setFont(surface, [given, size], object) {
      if (typeof given !== "string") return;
      const [, name = "", sizes] = /^(Vector(?=\d)|[^:]*):?(.*)$/.exec(given) ?? [];
      const [scaleX, scaleY] = sizes ? sizes.split("x").map((value) => toInteger(value)) : [toInteger(size)];
      if (name === "Vector") return setFontSize(surface, "vector", scaleX!, scaleY);
      if (name === "" || name === "4x6") return setFontSize(surface, "small", scaleX!, scaleY);
      if (typeof object[`setFont${name}`] !== "function") fail("Error", `Unknown font ${JSON.stringify(name)}`);
      object[`setFont${name}`]();
      setFontSize(surface, surface.font.kind, scaleX!, scaleY);
    },
    setFontAlign(surface, [x, y, rotation]) {
      const side = (value: unknown): number => Math.min(1, Math.max(-1, toInteger(value)));
      surface.alignX = side(x);
      surface.alignY = side(y);
      surface.textRotation = Math.min(3, Math.max(0, toInteger(rotation)));
    },
    drawString: (surface, [text, x, y, isSolid]) =>
      drawText(surface, str(text), toInteger(x), toInteger(y), Boolean(isSolid)),
    drawImage(surface, [given, x, y, options]) {
      const image = images.read(surface, given);
      const has = isObject(options);
      const frame = has ? toInteger(options.frame) : 0;
      if (frame > 0) image.offset += image.bytes * frame;
      const scale = has ? toNumber(options.scale) : 1;
      const rotate = has && options.rotate !== undefined ? toNumber(options.rotate) : Number.NaN;
      const isCentred = Number.isFinite(rotate);
      const place: Placement = { scale: scale > 0 ? scale : 1, rotate: isCentred ? rotate : 0, isCentred };
      if (place.scale === 1 && !isCentred) drawPlain(surface, image, toInteger(x), toInteger(y));
      else drawTurned(surface, image, toInteger(x), toInteger(y), place);
    },
  });
  const circle = ([x, y, radius]: unknown[]): Rect => ({
    x1: toInteger(x) - toInteger(radius),
    y1: toInteger(y) - toInteger(radius),
    x2: toInteger(x) + toInteger(radius),
    y2: toInteger(y) + toInteger(radius),
  });

  giving({
    getWidth: (surface) => (isTurned(surface) ? surface.height : surface.width),
    getHeight: (surface) => (isTurned(surface) ? surface.width : surface.height),
    getBPP: (surface) => surface.bpp,
    getPixel: (surface, [x, y]) => getAt(surface, toInteger(x), toInteger(y)),
    getColor: (surface) => surface.fg,
    getBgColor: (surface) => surface.bg,
    toColor: (surface, [r, g, b]) => toColor(surface, r, g, b),
    blendColor: (surface, [from, to, amount]) =>
      blend(surface, toColor(surface, to), toColor(surface, from), Math.trunc(toNumber(amount) * 256)),
    getFontHeight: (surface) => charHeight(surface),
    getFont({ font }) {
      if (font.kind === "custom") return "Custom";
      const name = font.kind === "small" ? "4x6" : "Vector";
      if (font.scaleX !== font.scaleY) return `${name}:${font.scaleX}x${font.scaleY}`;
      return font.kind === "small" && font.scaleX === 1 ? name : `${name}:${font.scaleX}`;
    },
    stringWidth: (surface, [text]) => measure(surface, str(text)).width,
    stringMetrics(surface, [text]) {
      const metrics = measure(surface, str(text));
      const { width, height, imageCount, maxImageHeight } = metrics;
      return Object.assign(newObject(), { width, height, imageCount, maxImageHeight, unrenderableChars: false });
    },
    imageMetrics(surface, [given]) {
      const image = images.read(surface, given);
      const { width, height, bpp, transparent } = image;
      const frames = Math.trunc((image.data.length - image.offset) / image.bytes);
      const metrics = Object.assign(newObject(), { width, height, bpp, transparent: transparent !== undefined });
      return frames > 1 ? Object.assign(metrics, { frames }) : metrics;
    },
    getModified(surface, [isReset]) {
      const { modified } = surface;
      if (isReset) surface.modified = undefined;
      return modified && Object.assign(newObject(), modified);
    },
    asImage: (surface, [options], object) => {
      const part = isObject(options) ? options : {};
      const type = isObject(options) ? options.type : options;
      if (type !== undefined && type !== "object" && type !== "string")
        return fail("Error", `Unknown image type ${JSON.stringify(type)}`);
      const all = { width: isTurned(surface) ? surface.height : surface.width, height: isTurned(surface) ? surface.width : surface.height };
      const [x, y] = [toInteger(part.x), toInteger(part.y)];
      const width = part.w === undefined ? all.width : toInteger(part.w);
      const height = part.h === undefined ? all.height : toInteger(part.h);
      const { bpp, layout } = surface;
      const transparent = object.transparent === undefined ? undefined : toInteger(object.transparent);
      const palette = isIterable(object.palette) && typeof object.palette === "object" ? object.palette : undefined;
      const isWhole = x === 0 && y === 0 && width === all.width && height === all.height;
      const isInOrder =
        layout.isMsbFirst && !layout.isZigzag && !layout.isInterleaved && !layout.isVertical &&
        !surface.swapXY && !surface.invertX && !surface.invertY;
      const image = newObject();
      Object.assign(image, { width, height });
      if (bpp !== 1) image.bpp = bpp;
      if (type !== "string" && surface.bytes && isWhole && (bpp === 8 || isInOrder))
        return Object.assign(image, { buffer: object.buffer });
      let [bits, count, data] = [0, 0, ""];
      for (let row = 0; row < height; row++)
        for (let column = 0; column < width; column++) {
          bits = bits * 2 ** bpp + getAt(surface, x + column, y + row);
          for (count += bpp; count >= 8; count -= 8) {
            const rest = 2 ** (count - 8);
            data += String.fromCharCode(Math.floor(bits / rest));
            bits %= rest;
          }
        }
      if (count > 0) data += "\0";
      if (type !== "string") {
        if (transparent !== undefined) image.transparent = transparent;
        if (palette) image.palette = palette;
        return Object.assign(image, { buffer: data });
      }
      const flags = bpp | (transparent === undefined ? 0 : 128) | (palette ? 64 : 0);
      let header = String.fromCharCode(width & 255, height & 255, flags);
      if (transparent !== undefined) header += String.fromCharCode(transparent & 255);
      const colors = palette ? numbers(palette) : [];
      for (let i = 0; palette && i < 2 ** bpp; i++)
        header += String.fromCharCode((colors[i] ?? 0) & 255, ((colors[i] ?? 0) >> 8) & 255);
      return header + data;
    },
  });
  for (const name of UNMODELLED) functions(shared, { [name]: () => notModelled(`Graphics.${name}`) });
};
