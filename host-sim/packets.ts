/**
 * The console's packets, by which uploaders send code and files with acknowledgements: `DLE SOH`, two bytes that hold a
 * type (top 3 bits) and a length (13 bits), then the data. What is answered, and in which order, follows the
 * interpreter, its faults included: a write that Storage refuses is acknowledged all the same (its error is printed),
 * and a line feed within an answer's data becomes CR LF without being counted.
 */
import { type Expression, parseExpressionAt } from "acorn";
import type { Clock } from "./clock";
import { decompress } from "./heatshrink";
import type { Library, Realm } from "./realm";
import type { StorageApi } from "./storage";

/** Top 3 bits of a packet's first byte. */
export const PacketType = { response: 0, eval: 1, event: 2, fileSend: 3, data: 4, fileReceive: 5 } as const;
export const ACK = "\x06";
export const NAK = "\x15";
const DLE_SOH = "\x10\x01";

/** A packet that is not complete so many ms after its `DLE SOH` is given up: 5 s since 2v26, 1 s before. */
export const PACKET_TIMEOUT_MS = 5000;
/** A file is given up so many ms after its last packet. */
export const FILE_TIMEOUT_MS = 10_000;
/** Bytes of a file in one answer. */
const REPLY_BYTES = 1024;
/** Compressed data are written in pieces of this size, one `Storage.write` each. */
const WRITE_BYTES = 512;
const LENGTH_MASK = 0x1fff;

/** The packet of that type and data (a byte string of at most 8,191), as a client sends it. */
export function packet(type: number, data: string): string {
  if (data.length > LENGTH_MASK) throw new Error(`a packet holds ${LENGTH_MASK} bytes, not ${data.length}`);
  return `${DLE_SOH}${String.fromCharCode((type << 5) | (data.length >> 8), data.length & 0xff)}${data}`;
}

/** What packets do to the console. */
export interface PacketConsole {
  /** Console text: a line feed becomes CR LF. */
  put(text: string): void;
  /** Bytes as they are. */
  putBytes(bytes: string): void;
  /** Takes the line being typed off the screen, as every output does first. */
  removeLine(): void;
  /** What follows `DLE` on an empty line is not echoed; it was no such `DLE`. */
  echoLine(): void;
  /** The packet's data stand in for the line being typed: the interpreter has one buffer for both. */
  setLine(data: string): void;
  /** Brings back the line that was being typed. */
  restoreLine(): void;
}

export interface PacketOptions {
  console: PacketConsole;
  /** The realm of the moment: a reset makes a new one. */
  realm(): Realm;
  storage(): StorageApi;
  clock: Clock;
  isPin(value: unknown): boolean;
}

export interface Packets {
  /** `DLE SOH` has come: what follows is a packet. */
  start(): void;
  isReceiving(): boolean;
  /** One more byte of the packet. It may run board code: call it inside `Realm.enter`. */
  receive(char: string): void;
  /** Gives up the packet and the file under way (a reset). */
  stop(): void;
}

/** A file on its way in: name, size and how much has come. */
interface Incoming {
  name: string;
  size: number;
  offset: number;
  isCompressed: boolean;
  /** The file, where it goes to the SD card. */
  onCard?: { write(piece: string): void; close(): void };
}

export const createPackets = (options: PacketOptions): Packets => {
  const { console, clock, isPin } = options;
  let header: string | undefined;
  let data = "";
  let packetTimer: number | undefined;
  let file: Incoming | undefined;
  let fileTimer: number | undefined;

  const reply = (type: number, text: string): void => {
    const length = text.length & LENGTH_MASK;
    console.putBytes(DLE_SOH + String.fromCharCode((type << 5) | (length >> 8), length & 0xff));
    console.put(text);
  };
  const endPacket = (): void => {
    if (packetTimer !== undefined) clock.clearTimeout(packetTimer);
    packetTimer = undefined;
    header = undefined;
    data = "";
    console.restoreLine();
  };
  const endFile = (): void => {
    if (fileTimer !== undefined) clock.clearTimeout(fileTimer);
    fileTimer = undefined;
    file?.onCard?.close();
    file = undefined;
  };
  const awaitFile = (): void => {
    if (fileTimer !== undefined) clock.clearTimeout(fileTimer);
    fileTimer = clock.setTimeout(endFile, FILE_TIMEOUT_MS);
  };

  /** An error that a built-in function raises: it takes the line off the screen as it is raised, and has no stack. */
  const builtInError = (error: unknown): unknown => {
    console.removeLine();
    const { message } = error as Error;
    const type = (error as { type?: string }).type ?? "Error";
    return Object.assign(options.realm().library.makeError(type, message) as object, { stack: undefined });
  };

  /** Calls the listeners of `E` at once. Returns whether there were any, and what one of them threw. */
  const emit = (name: string, value: unknown): { isHeard: boolean; errors: unknown[] } => {
    const { library, global } = options.realm();
    const errors: unknown[] = [];
    const listeners = library.listeners(global.E as object, name);
    for (const listener of listeners) {
      try {
        listener.call(global.E, value);
      } catch (error) {
        errors.push(error);
      }
    }
    return { isHeard: listeners.length > 0, errors };
  };
  const report = (errors: unknown[]): void => {
    for (const error of errors) options.realm().report(error);
  };

  /** The object that a packet's text describes; undefined, the line taken off the screen, where it does not parse. */
  const parseObject = (text: string): Record<string, unknown> | undefined => {
    const { library } = options.realm();
    try {
      const value = parseLiberally(text, library.newObject, library.newArray);
      return typeof value === "object" && value !== null && !Array.isArray(value)
        ? (value as Record<string, unknown>)
        : undefined;
    } catch {
      console.removeLine();
      return undefined;
    }
  };

  const evaluate = (text: string): void => {
    const realm = options.realm();
    let answer: string;
    try {
      const value = evaluateExpression(realm, text);
      answer = toJs(realm.library, value, isPin);
    } catch (error) {
      const value = caught(realm, error);
      if (realm.library.isRealmError(value)) console.removeLine();
      console.put(NAK);
      realm.report(value);
      return;
    }
    console.put(ACK);
    reply(PacketType.response, answer);
  };

  const sendFile = (text: string): void => {
    const name = parseObject(text)?.fn;
    const content = typeof name === "string" ? options.storage().read(name) : undefined;
    if (content === undefined) return console.put(NAK);
    console.put(ACK);
    for (let at = 0; at < content.length; at += REPLY_BYTES)
      reply(PacketType.data, content.slice(at, at + REPLY_BYTES));
    reply(PacketType.data, "");
  };

  const startFile = (text: string): void => {
    endFile();
    const request = parseObject(text);
    const size = Math.trunc(Number(request?.s)) || 0;
    if (typeof request?.fn !== "string" || size === 0) return console.put(NAK);
    let onCard: Incoming["onCard"];
    if (request.fs) {
      try {
        onCard = options.realm().global.E.openFile(request.fn, "w");
      } catch (error) {
        const raised = builtInError(caught(options.realm(), error));
        console.put(NAK);
        return report([raised]);
      }
    }
    file = { name: request.fn, size, offset: 0, isCompressed: Boolean(request.c), onCard };
    awaitFile();
    console.put(ACK);
  };

  const continueFile = (text: string): void => {
    if (!file) return console.put(NAK);
    const { name, size, onCard } = file;
    const errors: unknown[] = [];
    const write = (piece: string): void => {
      try {
        if (onCard) onCard.write(piece);
        else options.storage().write(name, piece, file!.offset, size);
      } catch (error) {
        errors.push(builtInError(onCard ? caught(options.realm(), error) : error));
      }
      file!.offset += piece.length;
    };
    if (file.isCompressed) {
      const plain = Buffer.from(decompress(Buffer.from(text, "latin1"))).toString("latin1");
      for (let at = 0; at < plain.length; at += WRITE_BYTES) write(plain.slice(at, at + WRITE_BYTES));
    } else if (text !== "") write(text);
    const { offset } = file;
    if (offset >= size) endFile();
    else awaitFile();
    const progress = options.realm().library.newObject();
    Object.assign(progress, { l: text.length, o: offset, s: size, fn: name });
    errors.push(...emit("packetUpload", progress).errors);
    console.put(ACK);
    report(errors);
  };

  const process = (type: number, text: string): void => {
    if (type === PacketType.eval) evaluate(text);
    else if (type === PacketType.event) {
      const value = parseObject(text);
      const { isHeard, errors } = value ? emit("packet", value) : { isHeard: false, errors: [] };
      console.put(isHeard ? ACK : NAK);
      report(errors);
    } else if (type === PacketType.fileSend) startFile(text);
    else if (type === PacketType.data) continueFile(text);
    else if (type === PacketType.fileReceive) sendFile(text);
    else console.put(NAK);
  };

  return {
    start() {
      header = "";
      data = "";
      console.setLine("");
      packetTimer = clock.setTimeout(() => {
        options.realm().enter(() => {
          console.put(NAK);
          endPacket();
        });
      }, PACKET_TIMEOUT_MS);
    },
    isReceiving: () => header !== undefined,
    receive(char) {
      if (header!.length < 2) {
        if (header === "") console.echoLine();
        header += char;
      } else data += char;
      if (header!.length < 2) return;
      const word = (header!.charCodeAt(0) << 8) | header!.charCodeAt(1);
      if (data.length < (word & LENGTH_MASK)) return;
      console.setLine(data);
      process(word >> 13, data);
      endPacket();
    },
    stop() {
      endFile();
      if (header !== undefined) endPacket();
    },
  };
};

const caught = (realm: Realm, error: unknown): unknown => {
  try {
    return realm.library.caught(error);
  } catch (interrupt) {
    return interrupt;
  }
};

/** Words that begin a statement: where an expression is expected the interpreter names them. */
const STATEMENT =
  /^\s*(var|let|const|if|else|for|while|do|return|switch|case|default|break|continue|try|catch|finally|throw)\b/;

/** Runs the expression that the text begins with; what follows it is not looked at. */
const evaluateExpression = (realm: Realm, text: string): unknown => {
  const fail = (message: string): never => {
    const line = text.split("\n")[0]!;
    const stack = `    at :1:1\n${line}\n^\n`;
    throw Object.assign(realm.library.makeError("SyntaxError", message) as object, { stack });
  };
  if (text.trim() === "") fail("Unexpected end of Input");
  const word = STATEMENT.exec(text)?.[1];
  if (word) fail(`Got ${word} expected EOF`);
  let expression: Expression;
  try {
    expression = parseExpressionAt(text, 0, { ecmaVersion: "latest", sourceType: "script", preserveParens: true });
  } catch {
    return realm.evaluate(text, "");
  }
  const code = text.slice(0, expression.end);
  try {
    // As a statement these would be a block or a declaration.
    return realm.evaluate(/^\s*(\{|function\b|class\b)/.test(code) ? `(${code})` : code, "");
  } catch (error) {
    const value = realm.library.caught(error);
    // The interpreter looks a lone name up when it has left the text behind.
    if (expression.type === "Identifier" && realm.library.isRealmError(value))
      (value as { stack?: string }).stack = undefined;
    throw value;
  }
};

/** `E.toJS`: JSON with bare keys, bytes as `\x` escapes, functions as text, buffers as lists, cycles left out. */
export const toJs = (library: Library, value: unknown, isPin: (value: unknown) => boolean): string => {
  const busy: unknown[] = [];
  const write = (item: any): string => {
    if (item === undefined || item === null) return "null";
    // Built-in objects are functions to the interpreter.
    const isPlain = typeof item === "object" && !isPin(item) && library.typeName(item) !== "Function";
    if (!isPlain) return library.format(item, { dropQuotes: true });
    if (typeof item.toJSON === "function") return write(item.toJSON());
    busy.push(item);
    const isList = Array.isArray(item) || (library.isBuffer(item) && !("getInt8" in item));
    const text = isList ? list(item) : object(item);
    busy.pop();
    return text;
  };
  const list = (item: any): string => {
    const values = Array.isArray(item) || "length" in item ? item : new Uint8Array(item.buffer ?? item);
    return `[${Array.from(values as ArrayLike<unknown>)
      .filter((one) => !busy.includes(one))
      .map(write)
      .join(",")}]`;
  };
  const object = (item: object): string => {
    const fields: string[] = [];
    const isView = library.isBuffer(item);
    for (const name of isView ? ["buffer", "byteOffset", "byteLength"] : library.ownNames(item)) {
      const descriptor = library.nativeDescriptor(item, name);
      const held: unknown = isView ? (item as any)[name] : descriptor?.value;
      if (!(isView || descriptor?.enumerable) || held === undefined || busy.includes(held)) continue;
      const isBare = /^(0|[1-9]\d*)$/.test(name) || /^[A-Za-z_]\w{0,61}$/.test(name);
      fields.push(`${isBare ? name : library.format(name, {})}:${write(held)}`);
    }
    return `{${fields.join(",")}}`;
  };
  return write(value);
};

/**
 * The interpreter's liberal JSON: keys without quotes, any kind of quotes, comments, trailing commas; what follows the
 * value is not looked at. Objects and arrays are made by the given functions. Throws where it does not parse.
 */
const parseLiberally = (
  text: string,
  newObject: () => Record<string, unknown>,
  newArray: (items: unknown[]) => unknown[],
): unknown => {
  const read = (node: any): unknown => {
    if (node.type === "Literal" && !node.regex && node.bigint === undefined) return node.value;
    if (node.type === "TemplateLiteral" && node.expressions.length === 0) return node.quasis[0].value.cooked;
    if (node.type === "UnaryExpression" && node.operator === "-" && typeof node.argument.value === "number")
      return 0 - node.argument.value;
    if (node.type === "ArrayExpression") return newArray(node.elements.map(read));
    if (node.type !== "ObjectExpression") throw new SyntaxError("Expecting valid value");
    const object = newObject();
    for (const property of node.properties) {
      if (property.computed || property.shorthand || property.method || property.kind !== "init")
        throw new SyntaxError("Expecting valid value");
      object[String(property.key.name ?? property.key.value)] = read(property.value);
    }
    return object;
  };
  return read(parseExpressionAt(text, 0, { ecmaVersion: "latest", sourceType: "script" }));
};
