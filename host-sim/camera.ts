/**
 * A serial camera: the pictures of a folder, one after the other, in the VC0706's protocol, as the cameras with that chip
 * speak it. A command is 56 00, its number, how many bytes follow, those bytes; a reply 76 00, the number, a status, how
 * many bytes follow, those bytes. Known are: reset (26), version (11), frame control (36), length of the frame (34) and a
 * piece of it (32), whose bytes stand between two replies of their own.
 */
import fs from "node:fs";
import path from "node:path";
import type { Clock } from "./clock";
import type { SerialDevice } from "./serial";

export interface CameraOptions {
  clock: Clock;
  /** JPEG files, in order of their names, over and over. Or the pictures themselves. */
  pictures: string | Uint8Array[];
  /** Default 38400. At any other speed it hears nothing. */
  baud?: number;
}

/** What can be wrong with it, for tests. Each lasts until it is set back. */
export interface CameraFaults {
  /** Answers nothing, not even a reset. */
  isSilent?: boolean;
  /** Sends these bytes before each reply. */
  garbage?: string;
  /** Breaks off for good after so many more bytes, counted from when it is set. */
  cutAfter?: number;
  /** Loses one byte of the next so many pieces. */
  lossyPieces?: number;
  /** Says its picture has so many bytes. */
  claimedLength?: number;
  /** The status of every reply; 0 is well. */
  status?: number;
}

export interface Camera extends SerialDevice {
  readonly faults: CameraFaults;
  /** Commands that came, as numbers, in order. */
  readonly commands: number[];
}

const SPEED = 38400;
const VERSION = "VC0703 1.00";
/** What it says once it has started, and how long that takes. */
const STARTED = "Ctrl infr exist\r\nUser-defined sensor\r\n625\r\nInit end\r\n";
const START_MS = 1000;
const RESET = 0x26;
const GET_VERSION = 0x11;
const FRAME_CONTROL = 0x36;
const FRAME_LENGTH = 0x34;
const READ_FRAME = 0x32;
/** The chip reads its memory in units of so many bytes. */
const UNIT = 8;

const unknownCommand = 1;
const wrongLength = 2;
const wrongFormat = 3;

/** Throws where there are no pictures in the folder, or no folder. */
export const createCamera = ({ clock, pictures, baud = SPEED }: CameraOptions): Camera => {
  const files = typeof pictures === "string" ? picturesOf(pictures) : undefined;
  const count = files?.length ?? pictures.length;
  const read = (index: number): Buffer =>
    files === undefined ? Buffer.from(pictures[index] as Uint8Array) : fs.readFileSync(files[index]!);
  const faults: CameraFaults = {};
  const commands: number[] = [];
  let isHeard = false;
  let deliver: (bytes: string) => void = () => {};
  let heard = Buffer.alloc(0);
  let next = 0;
  /** The picture that stands still; undefined while the camera is running. */
  let frame: Buffer | undefined;

  const send = (data: Buffer): void => {
    if (faults.cutAfter !== undefined) {
      data = data.subarray(0, faults.cutAfter);
      faults.cutAfter -= data.length;
    }
    deliver((data.length > 0 ? (faults.garbage ?? "") : "") + data.toString("latin1"));
  };
  const reply = (command: number, status: number, data: Uint8Array = Buffer.alloc(0)): Buffer =>
    Buffer.from([0x76, 0, command, faults.status ?? status, data.length, ...data]);

  const readFrame = (data: Buffer): void => {
    if (data.length !== 12) return send(reply(READ_FRAME, wrongLength));
    const from = data.readUInt32BE(2);
    const length = data.readUInt32BE(6);
    if (frame === undefined || from % UNIT > 0 || length % UNIT > 0) return send(reply(READ_FRAME, wrongFormat));
    // Behind its end stands whatever was there before.
    const piece = Buffer.alloc(length, 0xaa);
    frame.copy(piece, 0, from, from + length);
    let whole = Buffer.concat([reply(READ_FRAME, 0), piece, reply(READ_FRAME, 0)]);
    if (faults.lossyPieces) {
      faults.lossyPieces--;
      whole = Buffer.concat([whole.subarray(0, 20), whole.subarray(21)]);
    }
    send(whole);
  };
  const obey = (command: number, data: Buffer): void => {
    commands.push(command);
    if (faults.isSilent) return;
    if (command === RESET) {
      frame = undefined;
      send(reply(command, 0));
      const to = deliver;
      clock.setTimeout(() => deliver === to && send(Buffer.from(STARTED)), START_MS);
    } else if (command === GET_VERSION) send(reply(command, 0, Buffer.from(VERSION)));
    else if (command === FRAME_CONTROL) {
      // 0: this frame stays. 3: the camera runs on.
      if (data[0] === 3) frame = undefined;
      else if (data[0] === 0) frame ??= read(next++ % count);
      send(reply(command, data.length === 1 ? 0 : wrongLength));
    } else if (command === FRAME_LENGTH) {
      const size = Buffer.alloc(4);
      size.writeUInt32BE(faults.claimedLength ?? frame?.length ?? 0);
      send(reply(command, 0, size));
    } else if (command === READ_FRAME) readFrame(data);
    else send(reply(command, unknownCommand));
  };

  return {
    faults,
    commands,
    connect(speed, to) {
      isHeard = speed === baud;
      deliver = to;
      heard = Buffer.alloc(0);
    },
    receive(bytes) {
      if (!isHeard) return;
      heard = Buffer.concat([heard, Buffer.from(bytes, "latin1")]);
      for (;;) {
        const start = heard.indexOf(0x56);
        if (start < 0) heard = Buffer.alloc(0);
        heard = heard.subarray(Math.max(0, start));
        if (heard.length < 4) return;
        if (heard[1] !== 0) {
          heard = heard.subarray(1);
          continue;
        }
        const end = 4 + heard[3]!;
        if (heard.length < end) return;
        const [command, data] = [heard[2]!, Buffer.from(heard.subarray(4, end))];
        heard = heard.subarray(end);
        obey(command, data);
      }
    },
  };
};

const picturesOf = (dir: string): string[] => {
  let names: string[];
  try {
    names = fs.readdirSync(dir).filter((name) => /\.jpe?g$/i.test(name)).sort();
  } catch (error) {
    throw new Error(`${dir} cannot be used as a camera: ${(error as Error).message}`);
  }
  if (names.length === 0) throw new Error(`${dir} cannot be used as a camera: there is no .jpg file in it`);
  return names.map((name) => path.join(dir, name));
};
