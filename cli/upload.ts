/**
 * Files into a board's Storage, proved by their CRC: in Espruino's packets, which are acknowledged, or in lines that
 * call `Storage.write`.
 */
import { crc32 } from "node:zlib";
import { ACK, NAK, packet, PacketType } from "../host-sim/packets";
import { type Device, DeviceError } from "./device";
import { boardLiteral } from "./text";

export interface UploadOptions {
  /** The firmware has the packet protocol. Where packets are not answered all the same, lines are used. */
  hasPackets: boolean;
  /** Called with the bytes that are on the board; fewer than before where it starts again. */
  onProgress?(bytes: number): void;
}

/** How a file got there. */
export interface Uploaded {
  method: "packets" | "lines";
  /** Times that it was begun again. */
  restarts: number;
}

/**
 * Bytes of a file in one packet. A board needs about 50 variables for them, and Espruino's Linux build takes up to 511
 * bytes from its input at once, see `holdLine` in `device.ts`.
 */
const packetBytes = 432;
/** … and in one line, where each may need four characters and the line exists twice. */
const lineBytes = 256;
/** A packet that is not complete after 5 s is answered with NAK (`host-sim/packets.ts`); the answer may be late. */
const packetMs = 6_500;
/** A file is begun anew so many times in all. */
const maxAttempts = 4;
/** A piece is sent again so many times before the file is begun anew. */
const maxResends = 3;

const storage = 'require("Storage")';

/** Bytes of a file's head in Storage. */
const headBytes = 32;
/** Storage may have to be compacted, which erases and writes every page of it: 224 of them, at up to 0.1 s each. */
export const compactMs = 120_000;

/** What a file of so many bytes takes of the Storage. */
export function sizeInStorage(bytes: number): number {
  return headBytes + Math.ceil(bytes / 4) * 4;
}

/** Has the Storage compact itself where fewer bytes are free behind its last file; the board needs its power then. */
export async function freeSpace(device: Device, bytes: number, onCompact = (): void => {}): Promise<void> {
  if ((await device.evaluate<number>(`${storage}.getFree()`)) >= bytes) return;
  onCompact();
  await device.evaluate(`(${storage}.compact(),1)`, { attempts: 1, ms: compactMs });
}

export interface Sum {
  length: number;
  crc: number;
}

export function sumOf(content: string): Sum {
  return { length: content.length, crc: crc32(Buffer.from(content, "latin1")) };
}

/** Length and CRC of a Storage file, or of a part of it (`length` 0: all the rest); undefined where there is none. */
export async function readSum(device: Device, name: string, offset = 0, length = 0): Promise<Sum | undefined> {
  const text = `${storage}.read(${boardLiteral(name)},${offset},${length})`;
  const sum = await device.evaluate<[number, number] | null>(
    `(function(t){return t===undefined?null:[t.length,E.CRC32(t)]})(${text})`,
  );
  return sum ? { length: sum[0], crc: sum[1] >>> 0 } : undefined;
}

export function isSame(a: Sum | undefined, b: Sum | undefined): boolean {
  return a !== undefined && b !== undefined && a.length === b.length && a.crc === b.crc;
}

export async function eraseFile(device: Device, name: string): Promise<void> {
  await device.evaluate(`${storage}.erase(${boardLiteral(name)})`);
}

/**
 * Writes a file anew and reads its CRC back. Where that fails or the wire breaks, what is on the board under this name
 * is incomplete.
 * @throws {DeviceError} the Storage is full, or the file does not arrive as it is sent
 */
export async function uploadFile(
  device: Device,
  name: string,
  content: string,
  { hasPackets, onProgress = () => {} }: UploadOptions,
): Promise<Uploaded> {
  let method: Uploaded["method"] = hasPackets ? "packets" : "lines";
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    onProgress(0);
    const printed = device.mark();
    await eraseFile(device, name);
    // What an earlier attempt has left may take the room of this one; the time that a board needs is not a packet's.
    if (attempt > 0) await freeSpace(device, sizeInStorage(content.length));
    if (method === "packets" && !(await openFile(device, name, content.length))) method = "lines";
    const send = method === "packets" ? sendPacket : sendLine;
    const isSent = await sendPieces(
      device,
      name,
      content,
      method === "packets" ? packetBytes : lineBytes,
      send,
      onProgress,
    );
    if (isSent && isSame(await readSum(device, name), sumOf(content))) return { method, restarts: attempt };
    if (storageFull.test(printed())) throw new DeviceError(`the board's Storage is full: ${name} could not be written`);
  }
  throw new DeviceError(
    `${name} did not arrive as it was sent, ${maxAttempts} times: a bad cable, a hub, or a baud rate that is too high?`,
  );
}

/** `written`: it is on the board; `refused`: it is not; `unknown`: the answer was lost, or the piece was. */
type Outcome = "written" | "refused" | "unknown";
type Send = (device: Device, name: string, piece: string, offset: number, size: number) => Promise<Outcome>;

async function sendPieces(
  device: Device,
  name: string,
  content: string,
  size: number,
  send: Send,
  onProgress: (bytes: number) => void,
): Promise<boolean> {
  let offset = 0;
  let resends = 0;
  for (const piece of cut(content, size)) {
    for (;;) {
      let outcome = await send(device, name, piece, offset, content.length);
      if (outcome === "unknown") {
        await device.wake();
        // Whatever was lost, the board knows what it has.
        const sum = await readSum(device, name, 0, offset + piece.length);
        if (isSame(sum, sumOf(content.slice(0, offset + piece.length)))) outcome = "written";
      }
      if (outcome === "written") break;
      resends += 1;
      if (resends > maxResends) return false;
    }
    offset += piece.length;
    onProgress(offset);
  }
  return true;
}

/**
 * Values that the low byte of a length must not have in a packet's head (the high one holds the type, too), because
 * they mean something on the way: 3 interrupts, 4 ends Espruino's Linux build, 17 and 19 are flow control.
 */
const awkward = [3, 4, 17, 19];

/** Pieces of at most `size` bytes whose lengths are harmless. */
export function cut(content: string, size: number): string[] {
  const pieces: string[] = [];
  const add = (piece: string): void => {
    if (!awkward.includes(piece.length & 0xff)) return void pieces.push(piece);
    const half = piece.length >> 1;
    add(piece.slice(0, half));
    add(piece.slice(half));
  };
  for (let at = 0; at < content.length; at += size) add(content.slice(at, at + size));
  return pieces;
}

/** Begins a file in packets; false where they are not answered. */
async function openFile(device: Device, name: string, size: number): Promise<boolean> {
  let head = `{fn:${JSON.stringify(name)},s:${size}}`;
  while (awkward.includes(head.length & 0xff)) head += " ";
  for (let attempt = 0; attempt < 2; attempt++) {
    if ((await exchangePacket(device, PacketType.fileSend, head)) === "written") return true;
    await device.wake();
  }
  return false;
}

async function exchangePacket(device: Device, type: number, data: string): Promise<Outcome> {
  const look = (printed: string): Outcome | undefined =>
    printed.includes(NAK) ? "refused" : printed.includes(ACK) ? "written" : undefined;
  return (await device.exchange(packet(type, data), look, packetMs)) ?? "unknown";
}

const sendPacket: Send = (device, _name, piece) => exchangePacket(device, PacketType.data, piece);

const sendLine: Send = async (device, name, piece, offset, size) => {
  const call = `${storage}.write(${boardLiteral(name)},${boardLiteral(piece)},${offset},${size})`;
  try {
    return (await device.evaluate<boolean>(call, { attempts: 1 })) === true ? "written" : "refused";
  } catch (error) {
    if (!(error instanceof DeviceError) || storageFull.test(error.message)) throw error;
    return "unknown";
  }
};

/** Storage's words. A packet that it refuses is acknowledged all the same; the error is printed before or after. */
const storageFull = /Unable to find or create file/;
