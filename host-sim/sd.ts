/**
 * An SD card in the board's slot: a folder of this computer, as the interpreter's FAT file system shows it (module `fs`,
 * `E.openFile`, objects of class `File`). Names of errors and what throws are those of an ESP32, from the interpreter's
 * source; where its Linux build has the same, they were compared with that.
 *
 * Differs from a card: names are UTF-8 as the folder has them, where FAT of the interpreter has code page 437.
 */
import fs from "node:fs";
import path from "node:path";
import type { Bridge } from "./bridge";
import type { Pipe } from "./pipe";

/** A card. Put into a board's slot with the option `sd` of `createBoard`. */
export interface SdCard {
  /** The folder, without symbolic links. Nothing outside of it is read or written. */
  readonly root: string;
  /** Whether it is in the slot. */
  isIn(): boolean;
  /** Takes it out while the board runs, without the board having been told. What is open fails from then on. */
  pull(): void;
  /** Puts it in again. The board must call `E.unmountSD()` before it can use it, as a real one must. */
  insert(): void;
  /** How often it was put in. */
  insertions(): number;
  /** Bytes that still fit on it. Default: as many as the folder's disk takes. */
  freeBytes: number;
}

/** Throws where `dir` is no folder that can be read. */
export const createSdCard = (dir: string): SdCard => {
  let isIn = true;
  let insertions = 1;
  let root: string;
  try {
    root = fs.realpathSync(dir);
    if (!fs.statSync(root).isDirectory()) throw new Error("it is no folder");
    fs.readdirSync(root);
  } catch (error) {
    throw new Error(`${dir} cannot be used as an SD card: ${(error as Error).message}`);
  }
  return {
    root,
    isIn: () => isIn,
    pull() {
      isIn = false;
    },
    insert() {
      if (!isIn) insertions++;
      isIn = true;
    },
    insertions: () => insertions,
    freeBytes: Number.POSITIVE_INFINITY,
  };
};

export interface SdOptions {
  /** What is in the slot. With a card, the slot is wired on the board, and `E.connectSDCard` need not be called. */
  card?: SdCard;
  isPin(value: unknown): boolean;
  /** Variables that are free: what does not fit ends what runs, as running out of memory does. */
  freeVariables(): number;
  print(line: string): void;
  pipe: Pipe;
}

export interface Sd {
  /** `require("fs")`. */
  fs: object;
  /** What the interpreter does before it starts anew: closes every file. */
  unmount(): void;
}

/** The interpreter's buffer for a path, with the zero behind it. */
const PATH_BYTES = 64;
/** Longest single name. */
const NAME_BYTES = 63;
/** How much the interpreter hands to the file system at a time. */
const WRITE_BYTES = 32;
/** Bytes of a text that is in one piece for each variable. */
const BYTES_PER_VARIABLE = 14;
/** Of shorter texts nobody asks whether there is room: to count what is free takes long. */
const SMALL_BYTES = 2048;

/** A failure of the file system, by FAT's name for it. */
class FatError extends Error {}

interface OpenFile {
  descriptor: number;
  size: number;
  position: number;
  canRead: boolean;
  canWrite: boolean;
  /** Once the card has failed under it, a file fails for good. */
  insertion: number;
}

const codeOf = (error: unknown): string => {
  if (error instanceof FatError) return error.message;
  const code = (error as NodeJS.ErrnoException).code ?? "";
  if (code === "ENOENT") return "NO_FILE";
  if (code === "ENOTDIR") return "NO_PATH";
  if (code === "EEXIST") return "EXIST";
  if (code === "EROFS") return "WRITE_PROTECTED";
  return ["EACCES", "EPERM", "EISDIR", "ENOTEMPTY", "ELOOP"].includes(code) ? "DENIED" : "DISK_ERR";
};

/** The names of a path, from the root on; none for the root itself. Throws a `FatError` for what FAT takes for no path. */
const namesOf = (text: string): string[] => {
  const drive = text.indexOf(":");
  if (drive >= 0 && text.slice(0, drive) !== "0") throw new FatError("INVALID_DRIVE");
  const names: string[] = [];
  // A control character ends the path.
  for (const part of text.slice(drive + 1).split(/[\x00-\x1f]/, 1)[0]!.split(/[/\\]+/)) {
    if (part === "" || part === ".") continue;
    if (part === "..") {
      names.pop();
      continue;
    }
    const name = part.replace(/[. ]+$/, "");
    if (name === "" || /["*:<>?|\x7f]/.test(name) || name.length > NAME_BYTES) throw new FatError("INVALID_NAME");
    names.push(name);
  }
  return names;
};

/** Puts `E.openFile`, `E.connectSDCard`, `E.unmountSD` and the class `File` into the realm. */
export const installSd = (bridge: Bridge, options: SdOptions): Sd => {
  const { realm, library, global, native, functions, fail, bytes } = bridge;
  const { newObject, method, str, toInteger } = library;
  const { card } = options;
  const open = new Map<object, OpenFile>();
  let isConnected = card !== undefined;
  /** The insertion of the card that is mounted; 0 while none is. */
  let mounted = 0;

  /** Throws what the interpreter throws where there is no card to be had. */
  const mount = (): void => {
    if (mounted > 0) return;
    if (!isConnected) return fail("Error", "SD card must be setup with E.connectSDCard first");
    if (!card?.isIn()) return fail("Error", "Unable to mount media : NOT_READY");
    mounted = card.insertions();
  };
  const isThere = (insertion: number): boolean => card!.isIn() && card!.insertions() === insertion;
  const checkCard = (insertion = mounted): void => {
    if (!isThere(insertion)) throw new FatError("DISK_ERR");
  };
  const unmount = (): void => {
    for (const file of open.values()) fs.closeSync(file.descriptor);
    open.clear();
    mounted = 0;
    isConnected = card !== undefined;
  };
  /** Runs what uses the card; what goes wrong is thrown as the interpreter says it. */
  const guarded = <T>(message: string, use: () => T): T => {
    try {
      return use();
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      return fail("Error", `${message} : ${codeOf(error)}`);
    }
  };
  const pathOf = (value: unknown): string => {
    const text = value === undefined ? "" : str(value);
    return text.length >= PATH_BYTES ? fail("Error", "File path too long") : text;
  };
  /** Texts the board has no room for end what runs. */
  const hold = (length: number): void => {
    if (length > SMALL_BYTES && length / BYTES_PER_VARIABLE > options.freeVariables()) realm.interrupt("memory");
  };

  const hostName = (name: string): string => Buffer.from(name, "latin1").toString("utf8");
  const boardName = (name: string): string => Buffer.from(name, "utf8").toString("latin1");
  /** A path of this computer; that it is below the root was looked at. */
  interface Place {
    full: string;
    stats?: fs.Stats;
  }
  /** Where the names lead, whatever their case. Only the last of them may be missing. */
  const locate = (names: string[]): Place => {
    checkCard();
    let full = card!.root;
    let stats: fs.Stats | undefined = fs.statSync(full);
    names.forEach((name, index) => {
      const wanted = hostName(name).toLowerCase();
      const found = fs.readdirSync(full).find((other) => other.toLowerCase() === wanted);
      const isLast = index === names.length - 1;
      if (found === undefined && !isLast) throw new FatError("NO_PATH");
      full = path.join(full, found ?? hostName(name));
      stats = found === undefined ? undefined : fs.statSync(full);
      if (found === undefined) return;
      const real = path.relative(card!.root, fs.realpathSync(full));
      if (real === ".." || real.startsWith(`..${path.sep}`) || path.isAbsolute(real)) throw new FatError("DENIED");
      if (!stats!.isFile() && !stats!.isDirectory()) throw new FatError("DENIED");
      if (!isLast && !stats!.isDirectory()) throw new FatError("NO_PATH");
    });
    return { full, stats };
  };

  const modes: Record<string, { flags: number; canRead: boolean; canWrite: boolean }> = {
    r: { flags: fs.constants.O_RDONLY, canRead: true, canWrite: false },
    "r+": { flags: fs.constants.O_RDWR, canRead: true, canWrite: true },
    w: { flags: fs.constants.O_WRONLY | fs.constants.O_CREAT | fs.constants.O_TRUNC, canRead: false, canWrite: true },
    "w+": { flags: fs.constants.O_RDWR | fs.constants.O_CREAT, canRead: true, canWrite: true },
    a: { flags: fs.constants.O_WRONLY | fs.constants.O_CREAT, canRead: false, canWrite: true },
  };
  const File: any = native(() => undefined);
  const openFile = (given: unknown, givenMode: unknown): object | undefined => {
    mount();
    if (given === undefined) return fail("Error", "Path is undefined");
    const text = pathOf(given);
    const name = givenMode === undefined ? "r" : str(givenMode);
    const mode = Object.hasOwn(modes, name) ? modes[name]! : undefined;
    if (mode === undefined) return undefined;
    return guarded("Could not open file", () => {
      const names = namesOf(text);
      if (names.length === 0) throw new FatError("INVALID_NAME");
      const { full, stats } = locate(names);
      if (stats?.isDirectory()) throw new FatError(mode.flags & fs.constants.O_CREAT ? "DENIED" : "NO_FILE");
      const descriptor = fs.openSync(full, mode.flags | (stats ? 0 : (fs.constants.O_NOFOLLOW ?? 0)));
      if (mode.flags & fs.constants.O_TRUNC) card!.freeBytes += stats?.size ?? 0;
      const { size } = fs.fstatSync(descriptor);
      const position = name === "a" ? size : 0;
      const target = newObject(File.prototype);
      open.set(target, { descriptor, size, position, ...mode, insertion: mounted });
      return target;
    });
  };

  const read = (file: OpenFile, given: unknown): string | undefined => {
    const length = Math.min(Math.max(0, toInteger(given)), file.size - file.position);
    if (!file.canRead || length <= 0) return undefined;
    hold(length);
    return guarded("Unable to read file", () => {
      checkCard(file.insertion);
      const buffer = Buffer.alloc(length);
      const count = fs.readSync(file.descriptor, buffer, 0, length, file.position);
      file.position += count;
      return count === 0 ? undefined : buffer.toString("latin1", 0, count);
    });
  };
  const write = (file: OpenFile, given: unknown): number => {
    if (!file.canWrite) return 0;
    const isData = typeof given === "string" || (typeof given === "object" && given !== null);
    const data = isData ? Buffer.from(bytes(given), "latin1") : Buffer.alloc(0);
    let written = 0;
    guarded("Unable to write file", () => {
      while (written < data.length) {
        checkCard(file.insertion);
        const end = file.position + Math.min(WRITE_BYTES, data.length - written);
        const most = Math.min(end, file.size + Math.max(0, card!.freeBytes)) - file.position;
        if (most <= 0) throw new FatError("DISK_ERR");
        const count = fs.writeSync(file.descriptor, data, written, most, file.position);
        file.position += count;
        card!.freeBytes -= Math.max(0, file.position - file.size);
        file.size = Math.max(file.size, file.position);
        written += count;
      }
    });
    return written;
  };
  const close = (target: object): void => {
    const file = open.get(target);
    if (file) fs.closeSync(file.descriptor);
    open.delete(target);
  };
  const move = (file: OpenFile, by: unknown, isSkip: boolean): void => {
    const count = toInteger(by);
    if (count < 0) return options.print(`WARNING: ${isSkip ? "Bytes to skip" : "Position to seek to"} must be >=0`);
    guarded(isSkip ? "Unable to skip" : "Unable to seek", () => checkCard(file.insertion));
    const position = (isSkip ? file.position : 0) + count;
    // Only a file that is written grows by it.
    file.position = file.canWrite ? position : Math.min(position, file.size);
  };
  /** A closed file does nothing. */
  const fileMethod = <T>(call: (file: OpenFile, value: unknown) => T, otherwise?: T) =>
    function (this: object, value: unknown): T | undefined {
      const file = open.get(this);
      return file === undefined ? otherwise : call(file, value);
    };
  functions(File.prototype, {
    read: fileMethod(read),
    write: fileMethod<number>(write, 0),
    seek: fileMethod((file, position) => move(file, position, false)),
    skip: fileMethod((file, count) => move(file, count, true)),
    close(this: object) {
      close(this);
    },
    pipe(this: object, destination: unknown, given?: unknown) {
      options.pipe(this, destination, given);
    },
  });
  method(File.prototype, "constructor", File);
  method(global, "File", File);

  const writeWhole = (given: unknown, data: unknown, mode: string): boolean => {
    if (data === undefined || data === null) return false;
    const target = openFile(given, mode);
    if (target === undefined) return false;
    try {
      return write(open.get(target)!, data) > 0;
    } finally {
      close(target);
    }
  };
  const readFile = (given: unknown): string | undefined => {
    const target = openFile(given, "r");
    if (target === undefined) return undefined;
    try {
      return read(open.get(target)!, 0x7fffffff);
    } finally {
      close(target);
    }
  };
  const writeFile = (given: unknown, data: unknown): boolean => writeWhole(given, data, "w");
  const appendFile = (given: unknown, data: unknown): boolean => writeWhole(given, data, "a");
  const readdir = (given: unknown): unknown => {
    const text = pathOf(given);
    mount();
    return guarded("Unable to list files", () => {
      const { full, stats } = locate(namesOf(text));
      if (!stats?.isDirectory()) throw new FatError("NO_PATH");
      const names = fs.readdirSync(full).filter((name) => {
        try {
          return locate(namesOf(boardName(path.relative(card!.root, path.join(full, name))))).stats !== undefined;
        } catch {
          // What the card could not hold, or leads out of it, is not on it.
          return false;
        }
      });
      return library.newArray(names.sort().map(boardName));
    });
  };
  const statSync = (given: unknown): unknown => {
    const text = pathOf(given);
    mount();
    let stats: fs.Stats | undefined;
    try {
      const names = namesOf(text);
      if (names.length > 0) stats = locate(names).stats;
    } catch {
      // Nothing is said of why.
    }
    if (stats === undefined) return undefined;
    const result = newObject();
    result.size = stats.isDirectory() ? 0 : stats.size;
    result.dir = stats.isDirectory();
    result.mtime = Reflect.construct(global.Date, [Math.trunc(stats.mtimeMs / 1000) * 1000]);
    return result;
  };
  const unlink = (given: unknown): boolean => {
    const text = pathOf(given);
    mount();
    return guarded("Unable to delete file", () => {
      const names = namesOf(text);
      if (names.length === 0) throw new FatError("INVALID_NAME");
      const { full, stats } = locate(names);
      if (stats === undefined) throw new FatError("NO_FILE");
      if (stats.isDirectory()) fs.rmdirSync(full);
      else fs.unlinkSync(full);
      if (!stats.isDirectory()) card!.freeBytes += stats.size;
      return true;
    });
  };
  const mkdir = (given: unknown): boolean => {
    const text = pathOf(given);
    mount();
    return guarded("Unable to create the directory", () => {
      const { full, stats } = locate(namesOf(text));
      if (stats !== undefined) throw new FatError("EXIST");
      fs.mkdirSync(full);
      return true;
    });
  };
  const fsModule = library.builtIn(newObject());
  const both = { readdir, readFile, writeFile, appendFile, unlink, mkdir };
  for (const [name, fn] of Object.entries(both)) {
    const made = native(fn);
    method(fsModule, name, made);
    method(fsModule, `${name}Sync`, made);
  }
  functions(fsModule, { statSync, pipe: options.pipe });

  functions(global.E, {
    openFile,
    connectSDCard(spi: unknown, csPin: unknown) {
      if ((typeof spi !== "object" && typeof spi !== "function") || spi === null)
        return fail("Error", `First argument is a ${library.typeName(spi)}, not an SPI object`);
      if (!options.isPin(csPin)) return fail("Error", "Second argument is not a valid pin");
      unmount();
      isConnected = true;
    },
    unmountSD: unmount,
  });
  return { fs: fsModule, unmount };
};
