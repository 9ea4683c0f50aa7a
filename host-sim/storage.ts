import fs from "node:fs";
import path from "node:path";
import { boardError } from "./clock";

export interface StorageOptions {
  /** Bytes of flash set aside for files, in pages of 4096. Default 917,504: 224 pages, as every ESP32 build has. */
  capacity?: number;
  /** Keeps the files in this folder, one file each, from one start to the next. Without it: in memory only. */
  dir?: string;
  /** What Espruino writes to the console while it compacts, without a line end of its own. */
  print?: (text: string) => void;
}

/** Module `Storage`. File contents are byte strings: one character, 0x00 to 0xFF, per byte. */
export interface StorageApi {
  eraseAll(): void;
  erase(name: unknown): void;
  /** `length` of 0 or less: to the end. Undefined where there is no such file. */
  read(name: unknown, offset?: number, length?: number): string | undefined;
  /** Takes what `writeJSON` writes: unquoted keys and `\x` escapes as well. Returns plain data made in Node. */
  readJSON(name: unknown, noExceptions?: boolean): unknown;
  readArrayBuffer(name: unknown): ArrayBuffer | undefined;
  /**
   * Objects are stored as JSON, arrays as bytes. With `offset` above 0 it fills a part of an existing file that has not
   * been written yet. Throws "Unable to find or create file" where flash is full; an older version is lost by then.
   */
  write(name: unknown, data: unknown, offset?: number, size?: number): boolean;
  writeJSON(name: unknown, data: unknown): boolean;
  /** Names in order of their place in flash; StorageFiles once, with a trailing "\x01" unless `sf` asks for them. */
  list(regex?: RegExp, filter?: { sf?: boolean }): string[];
  hash(regex?: RegExp): number;
  compact(showMessage?: boolean): void;
  getFree(checkInternalFlash?: boolean): number;
  getStats(checkInternalFlash?: boolean): StorageStats;
  /** Does nothing on boards whose files are all in the chip's own flash. */
  optimise(): void;
  open(name: unknown, mode: "r" | "w" | "a"): StorageFile;
}

/** Bytes count each file's 32-byte header and its padding to 4. `freeBytes` is what is left behind the last file. */
export interface StorageStats {
  totalBytes: number;
  freeBytes: number;
  fileBytes: number;
  fileCount: number;
  trashBytes: number;
  trashCount: number;
}

/** A file that can grow, in chunks of 4064 bytes. Byte 255 ends it. The fields are visible on the board, too. */
export interface StorageFile {
  name: string;
  chunk: number;
  offset: number;
  mode: number;
  read(length: number): string | undefined;
  readLine(): string | undefined;
  getLength(): number;
  write(data: unknown): void;
  erase(): void;
  pipe(...args: unknown[]): never;
}

/** `files`: bytes per file. StorageFiles carry their plain name and the length of what was written to them. */
export interface StorageState {
  files: Record<string, number>;
  freeBytes: number;
  totalBytes: number;
}

export interface Storage {
  api: StorageApi;
  state(): StorageState;
}

/** One file in flash. An erased one keeps its place, with the first four bytes of its name zeroed. */
interface Entry {
  name: string;
  isStorageFile: boolean;
  data: Uint8Array;
}

const PAGE_BYTES = 4096;
const ESP32_PAGES = 224;
/** Where the ESP32's files begin; `hash` mixes addresses in. */
const FLASH_START = 0x320000;
const HEADER_BYTES = 32;
const NAME_BYTES = 28;
const CHUNK_BYTES = PAGE_BYTES - HEADER_BYTES;
const MAX_CHUNK = 255;
/** Compaction moves its progress sign on every 16 kB. */
const PROGRESS_SHIFT = 14;
const STORAGE_FILE_SUFFIX = "+sf";
const TEMP_PREFIX = "%temp-";

/**
 * The board's flash files. Flash is a list: new files go behind the last one, replaced and erased ones stay as trash
 * until the space is needed (or `compact`). In a folder each file is written to a temporary file and renamed, trash is
 * not kept, and a start finds the files in the order they were last written.
 *
 * Throws where the folder cannot be written, holds more than `capacity`, or holds a file Storage could not have.
 */
export function createStorage(options: StorageOptions = {}): Storage {
  const capacity = options.capacity ?? ESP32_PAGES * PAGE_BYTES;
  if (!Number.isInteger(capacity) || capacity < PAGE_BYTES || capacity % PAGE_BYTES !== 0) {
    throw new Error(`Storage capacity ${capacity} is not a multiple of ${PAGE_BYTES} bytes`);
  }
  const print = options.print ?? (() => {});
  const folder = options.dir === undefined ? undefined : openFolder(options.dir);
  let entries: Entry[] = folder ? folder.load() : [];
  const loaded = used(entries);
  if (loaded > capacity) {
    throw new Error(`Storage folder ${options.dir} holds ${loaded} bytes of files; the board's flash has ${capacity}`);
  }

  function find(name: string): Entry | undefined {
    const wanted = stripDrive(name);
    return entries.find((entry) => entry.name === wanted);
  }

  function eraseEntry(entry: Entry): void {
    if (isLive(entry)) folder?.remove(entry);
    entry.name = `\0\0\0\0${entry.name.slice(4)}`;
  }

  function stats(): StorageStats {
    const live = entries.filter(isLive);
    const fileBytes = used(live);
    const trashBytes = used(entries) - fileBytes;
    return {
      totalBytes: capacity,
      freeBytes: capacity - fileBytes - trashBytes,
      fileBytes,
      fileCount: live.length,
      trashBytes,
      trashCount: entries.length - live.length,
    };
  }

  /** False where there was nothing to throw away. */
  function compact(): boolean {
    if (entries.every(isLive)) return false;
    print("Compacting... ");
    // Only pages from the first erased file on are rewritten, and only kept files move the sign.
    const first = firstPageWithTrash();
    let progress = 0;
    let address = 0;
    for (const entry of entries) {
      const step = (address - first) >> PROGRESS_SHIFT;
      if (address >= first && isLive(entry) && step !== progress) {
        print(`\b${"/-\\|"[step & 3]}`);
        progress = step;
      }
      address += bytesOf(entry);
    }
    print("\n");
    entries = entries.filter(isLive);
    return true;
  }

  function firstPageWithTrash(): number {
    let address = 0;
    let unbrokenPage = 0;
    for (const entry of entries) {
      if (address % PAGE_BYTES === 0) unbrokenPage = address;
      if (!isLive(entry)) return unbrokenPage;
      address += bytesOf(entry);
    }
    return 0;
  }

  function create(name: string, size: number, isStorageFile: boolean): Entry | undefined {
    const entry: Entry = { name: stripDrive(name), isStorageFile, data: new Uint8Array(size).fill(0xff) };
    const { freeBytes } = stats();
    if (bytesOf(entry) > freeBytes) {
      // Espruino adds up what is free from each page on, so it also tries where it cannot win.
      let freeSum = freeBytes;
      for (let left = Math.floor(freeBytes / PAGE_BYTES) * PAGE_BYTES; left > 0; left -= PAGE_BYTES) freeSum += left;
      const trash = entries.reduce((sum, { data, name }) => sum + (name.startsWith("\0\0\0\0") ? data.length : 0), 0);
      if (bytesOf(entry) >= freeSum + trash || !compact()) return undefined;
      if (bytesOf(entry) > stats().freeBytes) return undefined;
    }
    entries.push(entry);
    return entry;
  }

  function writeFile(name: string, bytes: Uint8Array, isStorageFile: boolean, offset: number, wanted: number): boolean {
    if (offset < 0 || wanted < 0) return false;
    const size = wanted || bytes.length;
    if (!size) throw boardError("Error", "Can't create zero length file");
    let entry = find(name);
    if (offset === 0) {
      const isSame = entry && entry.isStorageFile === isStorageFile && entry.data.length === size;
      if (entry && isSame && !isErased(entry.data) && bytes.length === size && isEqual(entry.data, bytes)) return true;
      if (entry && !(isSame && isErased(entry.data))) {
        eraseEntry(entry);
        entry = undefined;
      }
      entry ??= create(name, size, isStorageFile);
    }
    if (!entry) throw boardError("Error", "Unable to find or create file");
    if (offset + bytes.length > entry.data.length) throw boardError("Error", "Too much data for file size");
    if (!isErased(entry.data.subarray(offset, offset + bytes.length))) {
      throw boardError("Error", "File already written with different data");
    }
    entry.data.set(bytes, offset);
    if (isLive(entry)) folder?.save(entry);
    return true;
  }

  function readBytes(name: unknown, offset = 0, length = 0): Uint8Array | undefined {
    const entry = find(padName(name));
    if (!entry) return undefined;
    const from = Math.max(0, toInt(offset));
    const count = toInt(length);
    return entry.data.subarray(from, count > 0 ? from + count : undefined);
  }

  function list(regex: RegExp | undefined, sf: boolean | undefined): { name: string; address: number }[] {
    const found: { name: string; address: number }[] = [];
    let address = FLASH_START;
    for (const entry of entries) {
      let name = trimName(entry.name);
      const at = address;
      address += bytesOf(entry);
      if (!isLive(entry) || (sf !== undefined && sf !== entry.isStorageFile)) continue;
      if (entry.isStorageFile) {
        if (!name.endsWith("\x01")) continue;
        if (sf) name = name.slice(0, -1);
      }
      if (!regex || name.match(regex)) found.push({ name, address: at });
    }
    return found;
  }

  const api: StorageApi = {
    eraseAll() {
      for (const entry of entries) if (isLive(entry)) folder?.remove(entry);
      entries = [];
    },
    erase(name) {
      const entry = find(padName(name));
      if (entry) eraseEntry(entry);
    },
    read(name, offset, length) {
      const bytes = readBytes(name, offset, length);
      return bytes && toByteString(bytes);
    },
    readJSON(name, noExceptions) {
      const bytes = readBytes(name);
      if (!bytes) return undefined;
      try {
        return parseJson(toByteString(bytes));
      } catch (error) {
        if (noExceptions) return undefined;
        throw error;
      }
    },
    readArrayBuffer(name) {
      const bytes = readBytes(name);
      return bytes && new Uint8Array(bytes).buffer;
    },
    write(name, data, offset, size) {
      if (isPlainObject(data)) {
        return writeFile(padName(name), latin1(toJson(data, false) ?? ""), false, 0, 0);
      }
      return writeFile(padName(name), toBytes(data), false, toInt(offset), toInt(size));
    },
    writeJSON(name, data) {
      const text = typeof data === "function" ? "undefined" : (toJson(data, true) ?? "null");
      return writeFile(padName(name), latin1(text), false, 0, 0);
    },
    list: (regex, filter) => list(regex, filter?.sf === undefined ? undefined : Boolean(filter.sf)).map((f) => f.name),
    hash(regex) {
      let hash = 0xabcddcba;
      for (const { name, address } of list(regex, false)) hash = ((hash << 1) | (hash >>> 31)) ^ address ^ crc32(name);
      return hash | 0;
    },
    compact: () => void compact(),
    getFree: () => stats().freeBytes,
    getStats: stats,
    optimise() {},
    open(name, mode) {
      if (mode !== "r" && mode !== "w" && mode !== "a") {
        throw boardError("Error", `Invalid mode ${JSON.stringify(mode)}`);
      }
      return openStorageFile(String(name), mode);
    },
  };

  function openStorageFile(name: string, mode: "r" | "w" | "a"): StorageFile {
    const base = trimName(padName(name)).slice(0, NAME_BYTES - 1);
    const chunkName = (chunk: number) => padName(base + String.fromCharCode(chunk));
    const chunkData = (chunk: number) => find(chunkName(chunk))?.data;

    /** The chunk that has room (or would come next), and how much is written in it. */
    function lastChunk(): { chunk: number; offset: number; before: number } {
      let chunk = 1;
      let before = 0;
      let data = chunkData(chunk);
      while (data && data[data.length - 1] !== 0xff && chunk < MAX_CHUNK) {
        before += data.length;
        data = chunkData(++chunk);
      }
      const end = data ? data.indexOf(0xff) : 0;
      return { chunk, offset: data && end < 0 ? data.length : end, before };
    }

    function read(length: number, isLine: boolean): string | undefined {
      if (file.mode !== 114) throw boardError("Error", "Can't read in this mode");
      let data = chunkData(file.chunk);
      if (!data) return undefined;
      let result = "";
      while (isLine || result.length < length) {
        if (file.offset >= data.length) {
          file.offset = 0;
          const next = file.chunk === MAX_CHUNK ? undefined : chunkData(++file.chunk);
          if (!next) break;
          data = next;
        }
        const byte = data[file.offset];
        if (byte === 0xff) break;
        file.offset++;
        result += String.fromCharCode(byte);
        if (isLine && byte === 10) break;
      }
      return result === "" ? undefined : result;
    }

    function newChunk(bytes: Uint8Array): void {
      try {
        writeFile(chunkName(file.chunk), bytes, true, 0, CHUNK_BYTES);
      } catch (error) {
        file.mode = 0;
        throw error;
      }
      file.offset = bytes.length;
    }

    const methods = {
      read: (length: number) => read(Math.max(0, toInt(length)), false),
      readLine: () => read(0, true),
      getLength() {
        const { offset, before } = lastChunk();
        return before + offset;
      },
      write(data: unknown) {
        if (file.mode !== 119 && file.mode !== 97) throw boardError("Error", "Can't write in this mode");
        const bytes = latin1(String(data));
        if (bytes.length === 0) return;
        const entry = find(chunkName(file.chunk));
        if (!entry) return newChunk(bytes);
        const here = bytes.subarray(0, entry.data.length - file.offset);
        // Flash bits only go from 1 to 0.
        here.forEach((byte, i) => (entry.data[file.offset + i] &= byte));
        file.offset += here.length;
        folder?.save(entry);
        if (file.offset < entry.data.length) return;
        if (file.chunk === MAX_CHUNK) throw boardError("Error", "File too big!");
        file.chunk++;
        newChunk(bytes.subarray(here.length));
      },
      erase() {
        for (let chunk = 1; ; chunk++) {
          const entry = find(chunkName(chunk));
          if (!entry) break;
          eraseEntry(entry);
        }
        Object.assign(file, { chunk: 1, offset: 0, mode: 0 });
      },
      pipe() {
        throw boardError("Error", "StorageFile.pipe is not modelled by the simulator");
      },
    };
    const file = { name: name.slice(0, NAME_BYTES), chunk: 1, offset: 0, mode: 0 } as StorageFile;
    for (const [key, value] of Object.entries(methods)) Object.defineProperty(file, key, { value, writable: true });
    if (mode === "w") file.erase();
    if (mode === "a") {
      const { chunk, offset } = lastChunk();
      Object.assign(file, { chunk, offset });
    }
    file.mode = mode.charCodeAt(0);
    return file;
  }

  return {
    api,
    state() {
      const files: Record<string, number> = {};
      for (const { name } of list(undefined, false)) files[name] = find(padName(name))?.data.length ?? 0;
      for (const { name } of list(undefined, true)) files[name] = api.open(name, "r").getLength();
      const { freeBytes, totalBytes } = stats();
      return { files, freeBytes, totalBytes };
    },
  };
}

function bytesOf(entry: Entry): number {
  return HEADER_BYTES + Math.ceil(entry.data.length / 4) * 4;
}

function used(entries: Entry[]): number {
  return entries.reduce((sum, entry) => sum + bytesOf(entry), 0);
}

function isLive(entry: Entry): boolean {
  return !entry.name.startsWith("\0\0\0\0");
}

/** Names are cut at 28 bytes without a word, and end at a zero byte. */
function padName(name: unknown): string {
  const text = String(name).replace(/[^\0-\xff]/g, "?");
  const end = text.indexOf("\0");
  return (end < 0 ? text : text.slice(0, end)).slice(0, NAME_BYTES).padEnd(NAME_BYTES, "\0");
}

function trimName(name: string): string {
  return name.replace(/\0+$/, "");
}

/** "C:name" is "name": some boards have two banks of flash. */
function stripDrive(name: string): string {
  return name[1] === ":" ? name.slice(2).padEnd(NAME_BYTES, "\0") : name;
}

function isErased(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0xff);
}

function isEqual(a: Uint8Array, b: Uint8Array): boolean {
  return a.every((byte, i) => byte === b[i]);
}

function toInt(value: unknown): number {
  return Number(value) | 0;
}

function latin1(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => character.charCodeAt(0) & 0xff);
}

function toByteString(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1");
}

function kindOf(value: unknown): string {
  return Object.prototype.toString.call(value).slice(8, -1);
}

/** An object of the realm is not an instance of this one's `Object`, so look at what it calls itself. */
function isPlainObject(value: unknown): boolean {
  return kindOf(value) === "Object" && !ArrayBuffer.isView(value);
}

/** What `Storage.write` makes of its data; of an array's elements only the lowest byte counts. */
function toBytes(data: unknown): Uint8Array {
  if (typeof data === "string") return latin1(data);
  if (typeof data === "number" || typeof data === "boolean") return Uint8Array.of(Number(data));
  if (data === undefined) throw boardError("Error", "Can't get pointer to data to write");
  if (data === null) throw boardError("TypeError", "Expecting Number or iterable, got null");
  if (typeof data === "function") return new Uint8Array(0);
  if (kindOf(data) === "ArrayBuffer") return new Uint8Array(data as ArrayBuffer).slice();
  if (ArrayBuffer.isView(data)) {
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    const width = (data as Uint8Array).BYTES_PER_ELEMENT ?? 1;
    return bytes.filter((_, i) => i % width === 0);
  }
  if (Array.isArray(data)) {
    const parts = data.map(toBytes);
    const result = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    parts.reduce((at, part) => (result.set(part, at), at + part.length), 0);
    return result;
  }
  return latin1(String(data));
}

/** CRC-32 as `E.CRC32` counts it. */
function crc32(text: string): number {
  let crc = 0xffffffff;
  for (const byte of latin1(text)) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc;
}

/** Espruino's JSON text. `compact` is what `writeJSON` writes: keys without quotes, `\x` escapes. */
function toJson(value: any, compact: boolean): string | undefined {
  if (typeof value?.toJSON === "function") return toJson(value.toJSON(), compact);
  if (value === null) return "null";
  if (typeof value === "boolean") return String(value);
  if (typeof value === "number") return numberText(value);
  if (typeof value === "string") return quote(value, compact);
  if (typeof value !== "object") return undefined;
  const items = kindOf(value) === "ArrayBuffer" ? [...new Uint8Array(value)] : value;
  if (Array.isArray(items) || (ArrayBuffer.isView(items) && "length" in items)) {
    return `[${Array.from(items as ArrayLike<unknown>, (item) => toJson(item, compact) ?? "null").join(",")}]`;
  }
  const fields: string[] = [];
  for (const key of Object.keys(value)) {
    const text = toJson(value[key], compact);
    if (text === undefined) continue;
    const isBare = compact && (/^(0|[1-9]\d*)$/.test(key) || /^[a-zA-Z_][a-zA-Z0-9_]{0,61}$/.test(key));
    fields.push(`${isBare ? key : quote(key, compact)}:${text}`);
  }
  return `{${fields.join(",")}}`;
}

function numberText(value: number): string {
  if (!Number.isFinite(value)) return "null";
  return String(Math.abs(value) < 1e-6 || Math.abs(value) > 1e15 ? value : Number(value.toFixed(11)));
}

function quote(text: string, compact: boolean): string {
  const known: Record<string, string> = {
    "\n": "\\n",
    "\t": "\\t",
    "\b": "\\b",
    "\f": "\\f",
    "\r": "\\r",
    "\\": "\\\\",
    '"': '\\"',
  };
  const escaped = text.replace(/[\0-\x1f"\\\x7f-\uffff]/g, (character, at: number) => {
    if (known[character]) return known[character];
    if (compact && character === "\v") return "\\v";
    const code = character.charCodeAt(0);
    if (compact && code < 8 && !/[0-7]/.test(text[at + 1] ?? "")) return `\\${code}`;
    const hex = code.toString(16).toUpperCase();
    return compact && code < 256 ? `\\x${hex.padStart(2, "0")}` : `\\u${hex.padStart(4, "0")}`;
  });
  return `"${escaped}"`;
}

type Token = { kind: "EOF" | "ID" | "INT" | "FLOAT" | "STRING" | "UNFINISHED STRING" | "punctuation"; text: string };

const SPACE = /(?:\s|\/\/[^\n]*|\/\*[^]*?\*\/)*/;
const IDENTIFIER = /[A-Za-z_$][\w$]*/;
const INTEGER = /0[xX][\da-fA-F]+|0[bB][01]+|0[oO][0-7]+|\d+(?![\d.eE])/;
const FLOAT = /(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/;
const STRING = /"(?:[^"\\]|\\[^])*"|'(?:[^'\\]|\\[^])*'|`(?:[^`\\]|\\[^])*`/;
const UNFINISHED = /["'`][^]*/;
const KINDS = [IDENTIFIER, INTEGER, FLOAT, STRING, UNFINISHED, /[^]/].map((kind) => `(${kind.source})`);
const TOKEN = new RegExp(`${SPACE.source}(?:${KINDS.join("|")})?`, "y");

/**
 * Reads JSON as `Storage.readJSON` does: unquoted keys, any quotes, trailing commas, comments, hex; what follows the
 * value is not looked at. Throws a SyntaxError with Espruino's text.
 */
function parseJson(text: string): unknown {
  let token: Token;
  let at = 0;

  function advance(): void {
    TOKEN.lastIndex = at;
    const match = TOKEN.exec(text) as RegExpExecArray;
    at = TOKEN.lastIndex;
    const [, id, int, float, string, unfinished, other] = match;
    if (id !== undefined) token = { kind: "ID", text: id };
    else if (int !== undefined) token = { kind: "INT", text: int };
    else if (float !== undefined) token = { kind: "FLOAT", text: float };
    else if (string !== undefined) token = { kind: "STRING", text: unquote(string) };
    else if (unfinished !== undefined) token = { kind: "UNFINISHED STRING", text: "" };
    else if (other !== undefined) token = { kind: "punctuation", text: other };
    else token = { kind: "EOF", text: "" };
  }

  function is(character: string): boolean {
    return token.kind === "punctuation" && token.text === character;
  }

  function match(character: string): void {
    if (!is(character)) {
      const names: Record<string, string> = { ID: `ID:${token.text}`, STRING: `String:'${token.text}'` };
      const got = token.kind === "punctuation" ? `'${token.text}'` : (names[token.kind] ?? token.kind);
      throw boardError("SyntaxError", `Got ${got} expected '${character}'`);
    }
    advance();
  }

  function parseValue(): unknown {
    const { kind, text: word } = token;
    const words: Record<string, unknown> = { true: true, false: false, null: null };
    if (kind === "ID" && word in words) return advance(), words[word];
    if (kind === "INT" || kind === "FLOAT") return advance(), Number(word);
    if (kind === "STRING") return advance(), word;
    if (is("-")) {
      advance();
      return token.kind === "INT" || token.kind === "FLOAT" ? -(parseValue() as number) || 0 : null;
    }
    if (is("[")) {
      const list: unknown[] = [];
      advance();
      while (!is("]")) {
        list.push(parseValue());
        if (!is("]")) match(",");
      }
      advance();
      return list;
    }
    if (is("{")) {
      const object: Record<string, unknown> = {};
      advance();
      while (token.kind === "STRING" || token.kind === "INT" || token.kind === "ID") {
        const key = token.kind === "INT" ? String(Number(token.text)) : token.text;
        advance();
        match(":");
        const value = parseValue();
        if (!is("}")) match(",");
        if (key !== "__proto__" && key !== "constructor" && !Object.hasOwn(object, key)) object[key] = value;
      }
      match("}");
      return object;
    }
    const reserved = /^(undefined|function|var|let|const|if|for|while|return|new|this|class|typeof|in|of)$/;
    const got = kind === "punctuation" ? `'${word}'` : kind === "ID" && reserved.test(word) ? word : kind;
    throw boardError("SyntaxError", `Expecting valid value, got ${got}`);
  }

  advance();
  return parseValue();
}

function unquote(literal: string): string {
  const named: Record<string, string> = { n: "\n", t: "\t", b: "\b", v: "\v", f: "\f", r: "\r", a: "\x07" };
  return literal
    .slice(1, -1)
    .replace(/\\(x[\da-fA-F]{2}|u[\da-fA-F]{4}|[0-7]{1,3}|[^])/g, (_, escape: string) => {
      if (/^[xu]./.test(escape)) return String.fromCharCode(parseInt(escape.slice(1), 16) & 0xff);
      if (/^[0-7]/.test(escape)) return String.fromCharCode(parseInt(escape, 8) & 0xff);
      return named[escape] ?? escape;
    });
}

/** The files of a folder on the host. */
interface Folder {
  load(): Entry[];
  save(entry: Entry): void;
  remove(entry: Entry): void;
}

/** A board's files hold keys and passwords: they are their owner's alone. */
const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;

/** Not with `recursive`: below /proc, Node 20 then tries for ever. A folder that is there stays as it is. */
function makeFolder(dir: string): void {
  if (fs.existsSync(dir)) return;
  if (path.dirname(dir) !== dir) makeFolder(path.dirname(dir));
  fs.mkdirSync(dir, { mode: FOLDER_MODE });
}

function openFolder(dir: string): Folder {
  function attempt<T>(action: () => T): T {
    try {
      return action();
    } catch (error) {
      throw new Error(`Storage folder ${dir} cannot be written: ${(error as Error).message}`);
    }
  }

  const fileOf = (entry: Entry) =>
    path.join(dir, encodeName(trimName(entry.name)) + (entry.isStorageFile ? STORAGE_FILE_SUFFIX : ""));

  function save(entry: Entry): void {
    // A StorageFile's chunk has a fixed size and ends at its first erased byte: keep only what was written.
    const end = entry.isStorageFile ? entry.data.indexOf(0xff) : -1;
    const target = fileOf(entry);
    const temp = path.join(dir, TEMP_PREFIX + path.basename(target));
    attempt(() => {
      // The mode is that of a new file only.
      fs.rmSync(temp, { force: true });
      fs.writeFileSync(temp, end < 0 ? entry.data : entry.data.subarray(0, end), { mode: FILE_MODE });
      fs.renameSync(temp, target);
    });
  }

  /** A file that was put there by hand, or by an earlier version. */
  function close(file: string): void {
    try {
      if ((fs.statSync(file).mode & 0o077) !== 0) fs.chmodSync(file, FILE_MODE);
    } catch {
      // It is another user's, who lets this one read it.
    }
  }

  attempt(() => {
    makeFolder(path.resolve(dir));
    const probe = path.join(dir, `${TEMP_PREFIX}probe`);
    fs.writeFileSync(probe, "");
    fs.rmSync(probe);
  });

  return {
    save,
    remove: (entry) => attempt(() => fs.rmSync(fileOf(entry), { force: true })),
    load() {
      const found: { entry: Entry; writtenAt: number }[] = [];
      for (const { name: file } of fs.readdirSync(dir, { withFileTypes: true }).filter((item) => item.isFile())) {
        const full = path.join(dir, file);
        if (file.startsWith(TEMP_PREFIX)) {
          attempt(() => fs.rmSync(full));
          continue;
        }
        const isStorageFile = file.endsWith(STORAGE_FILE_SUFFIX);
        const encoded = isStorageFile ? file.slice(0, -STORAGE_FILE_SUFFIX.length) : file;
        const name = decodeName(encoded);
        const proper = encodeName(name);
        if (proper !== encoded) throw new Error(`Storage folder ${dir}: rename "${file}" to "${proper}" or remove it`);
        if (name.length > NAME_BYTES) {
          throw new Error(`Storage folder ${dir}: the name of "${file}" is longer than ${NAME_BYTES} bytes`);
        }
        const written = fs.readFileSync(full);
        close(full);
        if (written.length === 0 && !isStorageFile) {
          throw new Error(`Storage folder ${dir}: "${file}" is empty; the board cannot have empty files`);
        }
        const data = new Uint8Array(isStorageFile ? CHUNK_BYTES : written.length).fill(0xff);
        data.set(written.subarray(0, data.length));
        found.push({ entry: { name: padName(name), isStorageFile, data }, writtenAt: fs.statSync(full).mtimeMs });
      }
      found.sort((a, b) => a.writtenAt - b.writtenAt || (a.entry.name < b.entry.name ? -1 : 1));
      return found.map(({ entry }) => entry);
    },
  };
}

/**
 * The name that a Storage file has in a folder: every byte but letters, digits, "-" and "_", and dots that are not the
 * whole name, is percent-encoded.
 */
export function encodeName(name: string): string {
  const isDots = /^\.+$/.test(name);
  return name.replace(isDots ? /[^]/g : /[^A-Za-z0-9._-]/g, (character) => {
    return `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`;
  });
}

/** File names of the host are Unicode; a name typed by hand becomes its UTF-8 bytes. */
function decodeName(file: string): string {
  return Buffer.from(file, "utf8")
    .toString("latin1")
    .replace(/%([\dA-F]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)));
}
