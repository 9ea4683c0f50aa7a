/** `E.pipe`, and the method `pipe` of what can be read: hands data from one object to another, a piece at a time. */
import type { Bridge } from "./bridge";
import type { Clock } from "./clock";

/** `(source, destination, {chunkSize, end, complete})`, values of the realm. Returns at once. */
export type Pipe = (source: any, destination: any, options?: any) => void;

const CHUNK_BYTES = 64;
/** When an object that had nothing to read is asked again. */
const RETRY_MS = 1;

/** One for each start of the interpreter. Pieces are handed on while nothing else runs. */
export const createPipe = (bridge: Bridge, clock: Clock): Pipe => {
  const { realm, library, native, fail } = bridge;
  const { toInteger } = library;
  const isObject = (value: unknown): boolean => typeof value === "object" && value !== null;
  const callIfThere = (object: any, name: string): void => {
    if (typeof object[name] === "function") object[name]();
  };

  /** A text is read from its beginning. */
  const reader = (text: string): unknown => {
    const stream = library.newObject();
    let at = 0;
    library.method(stream, "read", native((count: number) => text.slice(at, (at += count)) || undefined));
    return stream;
  };

  return (given, destination, options) => {
    if (!given || !destination) return;
    const source = typeof given === "string" ? reader(given) : given;
    if (!isObject(source) || typeof source.read !== "function")
      return fail("Error", "Source object does not implement the required read(buffer, length) method");
    if (!isObject(destination) || typeof destination.write !== "function")
      return fail("Error", "Destination object does not implement the required write(buffer, length) method");
    if (options !== undefined && !isObject(options))
      return fail("TypeError", "'options' must be an object, or undefined");
    const chunkSize = options?.chunkSize === undefined ? CHUNK_BYTES : toInteger(options.chunkSize);
    if (chunkSize < 1) return fail("TypeError", "chunkSize must be an integer > 0");
    const pipe = library.newObject();
    Object.assign(pipe, { chunkSize, end: options?.end === undefined ? true : Boolean(options.end), source, destination });
    let isOver = false;
    let isWaiting = false;

    const close = (): void => {
      if (isOver) return;
      isOver = true;
      const complete = options?.complete;
      if (typeof complete === "function") realm.queue(() => void complete.call(pipe, pipe));
      if (!pipe.end) return;
      callIfThere(destination, "end");
      callIfThere(destination, "close");
      callIfThere(source, "close");
    };
    const step = (): void => {
      if (isOver || isWaiting) return;
      const piece = source.read(chunkSize);
      if (piece === undefined || piece === null) return close();
      if (!(piece.length > 0)) return void clock.setTimeout(() => realm.queue(step), RETRY_MS);
      isWaiting = destination.write(piece) === false;
      if (!isWaiting) realm.queue(step);
    };
    const listen = (object: any, event: string, listener: () => void): void => {
      if (typeof object.on === "function") object.on(event, native(listener));
    };
    listen(source, "close", close);
    listen(destination, "close", close);
    listen(destination, "drain", () => {
      isWaiting = false;
      realm.queue(step);
    });
    realm.queue(step);
  };
};
