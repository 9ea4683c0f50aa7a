/**
 * The serial ports that are not the console: `Serial2` and `Serial3` of an ESP32, and what is wired to them. Bytes take
 * the time they take on the line; whatever pins are named, the device is at them.
 */
import type { Bridge } from "./bridge";
import type { Clock } from "./clock";

/** What is at the other end of a port. Bytes are byte strings. */
export interface SerialDevice {
  /**
   * The board has set the port up: what `send` is given arrives there, at `baud` bits a second. Called again with each
   * `setup`; what was sent before and has not arrived is lost.
   */
  connect(baud: number, send: (bytes: string) => void): void;
  /** The board has sent bytes, at the speed it has set up. */
  receive(bytes: string): void;
}

export interface SerialPorts {
  clock: Clock;
  /** By the name of the port. */
  devices: Record<string, SerialDevice | undefined>;
}

const DEFAULT_BAUD = 9600;
/** A byte on the line, with its start and stop bits. */
const BITS_PER_BYTE = 10;
/** How many bytes the board finds waiting each time it looks, while they stream in. */
const PIECE_BYTES = 16;
/** What is kept for `read` while nobody listens; what comes on top is lost. */
const KEPT_BYTES = 512;

/** Makes the port's object a global of the realm. Returns what takes its power away. */
export const installSerialPort = (bridge: Bridge, name: string, { clock, devices }: SerialPorts): (() => void) => {
  const { realm, library, global, functions, notModelled, bytes } = bridge;
  const { str, toInteger } = library;
  const device = devices[name];
  const port = library.newObject();
  let baud = 0;
  let received = "";
  /** On its way to the board. */
  let line = "";
  let timer: number | undefined;

  const stop = (): void => {
    if (timer !== undefined) clock.clearTimeout(timer);
    timer = undefined;
    line = "";
    baud = 0;
  };
  const arrive = (data: string): void => {
    if (library.listeners(port, "data").length > 0) library.emit(port, "data", [data]);
    else received = (received + data).slice(0, KEPT_BYTES);
  };
  const run = (): void => {
    if (timer !== undefined || line === "") return;
    const piece = line.slice(0, PIECE_BYTES);
    timer = clock.setTimeout(
      () => {
        timer = undefined;
        line = line.slice(piece.length);
        realm.queue(() => arrive(piece));
        run();
      },
      (piece.length * BITS_PER_BYTE * 1000) / baud,
    );
  };
  const write = (data: string): void => {
    if (baud > 0 && data !== "") device?.receive(data);
  };
  functions(port, {
    setup(given?: unknown) {
      stop();
      baud = given === undefined ? DEFAULT_BAUD : toInteger(given);
      const speed = baud;
      if (baud <= 0) return;
      device?.connect(baud, (data) => {
        // A device that has been let go of reaches nobody.
        if (baud !== speed) return;
        line += data;
        run();
      });
    },
    unsetup: stop,
    write: (...list: unknown[]) => write(list.map(bytes).join("")),
    print: (value: unknown) => write(str(value).replace(/\n/g, "\r\n")),
    println: (value: unknown) => write(`${str(value).replace(/\n/g, "\r\n")}\r\n`),
    available: () => received.length,
    read(count?: unknown) {
      const wanted = count === undefined ? 0 : toInteger(count);
      const piece = wanted > 0 ? received.slice(0, wanted) : received;
      received = received.slice(piece.length);
      return piece;
    },
    flush: () => undefined,
    isConnected: () => baud > 0,
    inject: (...list: unknown[]) => {
      const data = list.map(bytes).join("");
      realm.queue(() => arrive(data));
    },
    setConsole: () => notModelled(`${name}.setConsole`),
    find: () => notModelled(`${name}.find`),
    pipe: () => notModelled(`${name}.pipe`),
  });
  library.method(global, name, port);
  return stop;
};
