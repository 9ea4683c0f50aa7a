/** The wire to a board: a serial port or a TCP connection, as one kind of byte stream. */
import { readdirSync, readlinkSync } from "node:fs";
import { connect, type Socket } from "node:net";
import path from "node:path";
import { UsageError } from "./settings";

/** Bytes as the boards have them: strings of one character for each byte. */
export interface Wire {
  /** As the person named it. */
  readonly port: string;
  /** Resolves when the bytes are with the operating system; at once where the wire is gone, see `onEnd`. */
  write(bytes: string): Promise<void>;
  /** Returns a function that stops the listener. */
  onData(listener: (bytes: string) => void): () => void;
  /** Called once, also if it is over already: the other side went away. Not called after `close`. */
  onEnd(listener: (error: WireError) => void): void;
  /** Ends the connection. Never rejects. */
  close(): Promise<void>;
}

/** The wire cannot be had, or is gone: in words, with what to do. */
export class WireError extends Error {}

export interface WireOptions {
  /** Bits a second of a serial port. Default 115,200, what Espruino uses on an ESP32. */
  baudRate?: number;
  /** Gives up opening. */
  signal?: AbortSignal;
}

export const defaultBaudRate = 115_200;

/** Milliseconds for a TCP connection: a machine on the local network answers in less, or is not there. */
const connectMs = 10_000;

/**
 * Opens `/dev/ttyUSB0`, `COM3` or `tcp://host:port`.
 * @throws {UsageError} `port` is not of that form
 * @throws {WireError} it cannot be opened
 */
export function openWire(port: string, options: WireOptions = {}): Promise<Wire> {
  const address = readAddress(port);
  return address ? openTcp(port, address, options) : openSerial(port, options);
}

export interface Address {
  host: string;
  port: number;
}

/**
 * The address in `tcp://host:port`; undefined for what may be a serial port.
 * @throws {UsageError} it is neither
 */
export function readAddress(port: string): Address | undefined {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(port)) return undefined;
  const form = `${JSON.stringify(port)} is no port: name a device such as /dev/ttyUSB0 or COM3, or tcp://host:port`;
  const [, host, number] = /^tcp:\/\/(\[[^\]]+\]|[^:/\s@]+):(\d{1,5})\/?$/i.exec(port) ?? [];
  if (host === undefined || Number(number) < 1 || Number(number) > 65_535) throw new UsageError(form);
  return { host: host.replace(/^\[|\]$/g, ""), port: Number(number) };
}

/** What both kinds have in common: listeners, and one end. */
function createWire(port: string, write: Wire["write"], end: () => Promise<void>) {
  const listeners = new Set<(bytes: string) => void>();
  const endListeners: ((error: WireError) => void)[] = [];
  let ended: WireError | undefined;
  let isClosed = false;
  const wire: Wire = {
    port,
    write: (bytes) => (ended || isClosed ? Promise.resolve() : write(bytes)),
    onData(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    onEnd(listener) {
      if (ended) listener(ended);
      else endListeners.push(listener);
    },
    async close() {
      if (isClosed) return;
      isClosed = true;
      if (!ended) await end();
    },
  };
  return {
    wire,
    receive(bytes: Buffer) {
      for (const listener of [...listeners]) listener(bytes.toString("latin1"));
    },
    lose(reason: string) {
      if (ended || isClosed) return;
      ended = new WireError(reason);
      for (const listener of endListeners.splice(0)) listener(ended);
    },
  };
}

function openTcp(port: string, address: Address, { signal }: WireOptions): Promise<Wire> {
  return new Promise((resolve, reject) => {
    const socket: Socket = connect({ host: address.host, port: address.port, noDelay: true });
    const fail = (reason: string): void => {
      clearTimeout(timer);
      socket.destroy();
      reject(new WireError(`${port}: ${reason}`));
    };
    const timer = setTimeout(() => fail(`no answer within ${connectMs / 1000} s`), connectMs);
    const onAbort = (): void => fail("given up");
    signal?.addEventListener("abort", onAbort, { once: true });
    const onError = (error: NodeJS.ErrnoException): void => fail(explainConnection(error));
    socket.once("error", onError);
    socket.once("connect", () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      socket.off("error", onError);
      const { wire, receive, lose } = createWire(
        port,
        (bytes) => new Promise((done) => socket.write(Buffer.from(bytes, "latin1"), () => done())),
        () =>
          new Promise((done) => {
            if (socket.destroyed) return done();
            socket.once("close", () => done());
            // What was written still goes out.
            socket.destroySoon();
          }),
      );
      socket.on("data", receive);
      socket.on("error", (error: NodeJS.ErrnoException) => lose(`${port}: the connection broke: ${error.message}`));
      socket.on("close", () => lose(`${port}: the other side closed the connection`));
      // So that a side that has said goodbye is not written to for ever.
      socket.on("end", () => socket.destroySoon());
      resolve(wire);
    });
  });
}

function explainConnection(error: NodeJS.ErrnoException): string {
  switch (error.code) {
    case "ECONNREFUSED":
      return "nobody listens there: is the bridge, or espruino-agent sim --listen, running?";
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return "no such host";
    case "EHOSTUNREACH":
    case "ENETUNREACH":
      return "there is no way to that host from this computer's network";
    default:
      return error.message;
  }
}

async function openSerial(port: string, { baudRate = defaultBaudRate, signal }: WireOptions): Promise<Wire> {
  const { SerialPort } = await loadSerialPort();
  const device = new SerialPort({
    path: port,
    baudRate,
    autoOpen: false,
    // Dropping DTR at the end would reset many boards.
    hupcl: false,
    // Espruino sends XOFF when its input buffer fills up.
    xon: true,
  });
  try {
    await new Promise<void>((resolve, reject) => device.open((error) => (error ? reject(error) : resolve())));
  } catch (error) {
    throw new WireError(explainSerial(port, (error as Error).message, await listPorts(), process.platform));
  }
  if (signal?.aborted) {
    device.close();
    throw new WireError(`${port}: given up`);
  }
  const { wire, receive, lose } = createWire(
    port,
    (bytes) =>
      new Promise((done) => {
        device.write(Buffer.from(bytes, "latin1"), (error) => (error ? done() : device.drain(() => done())));
      }),
    () => new Promise((done) => (device.isOpen ? device.close(() => done()) : done())),
  );
  device.on("data", receive);
  device.on("error", (error) => lose(`${port}: ${error.message}`));
  device.on("close", () => lose(`${port}: the board was unplugged, or the port is gone`));
  return wire;
}

/** Loaded where it is needed: it is a library of machine code, and a simulated board needs none. */
async function loadSerialPort(): Promise<typeof import("serialport")> {
  try {
    return await import("serialport");
  } catch (error) {
    const why = (error as Error).message.split("\n")[0];
    throw new WireError(`serial ports cannot be used on this computer: ${why}. tcp://host:port works without them`);
  }
}

/** Why a serial port cannot be opened, and what to do, from the message of the operating system. */
export function explainSerial(port: string, message: string, ports: Port[], platform: NodeJS.Platform): string {
  if (/no such (file|device)|file not found|ENOENT/i.test(message)) {
    return `there is no port ${port}. ${tellPorts(ports)}`;
  }
  if (/lock|busy|EBUSY/i.test(message) || (platform === "win32" && /access denied/i.test(message))) {
    return `${port} is in use: close the other program that has it open (a terminal, an IDE, a second espruino-agent)`;
  }
  if (/permission|access denied|EACCES|EPERM/i.test(message)) return `${port}: ${noPermission(platform)}`;
  if (/not a (tty|typewriter)|inappropriate ioctl|ENOTTY/i.test(message)) return `${port} is no serial port`;
  return `${port} cannot be opened: ${message}`;
}

/** What to do about a port that may not be opened. */
export function noPermission(platform: NodeJS.Platform): string {
  if (platform !== "linux") return "no permission to open it";
  return "no permission to open it: sudo usermod -aG dialout $USER, then log out and in again";
}

/** A serial port of this computer. */
export interface Port {
  path: string;
  /** What the system says of it, such as the name of the USB chip; "" where nothing is known. */
  description: string;
}

/** The ports there are as a sentence, or what to look at where there is none. */
export function tellPorts(ports: Port[]): string {
  if (ports.length === 0)
    return "This computer has no serial port: is the board plugged in, with a cable that carries data?";
  return `There ${ports.length === 1 ? "is" : "are"} ${ports.map(tellPort).join(", ")}`;
}

export function tellPort({ path: name, description }: Port): string {
  return description === "" ? name : `${name} (${description})`;
}

/**
 * The serial ports that may have a board. Never rejects. On Linux the folders are read, so that it also works where
 * there is no udev.
 */
export async function listPorts(folder = "/dev"): Promise<Port[]> {
  if (process.platform === "linux") return listDevices(folder);
  try {
    const { SerialPort } = await loadSerialPort();
    const ports = await SerialPort.list();
    const wired = ports.filter((port) => port.vendorId !== undefined || process.platform === "win32");
    return wired.map((port) => ({ path: port.path, description: port.manufacturer ?? port.pnpId ?? "" }));
  } catch {
    return [];
  }
}

/** USB serial devices; the fixed ports of a computer (`ttyS0`) are on no board's cable. */
function listDevices(folder: string): Port[] {
  const names = readFolder(folder).filter((name) => /^tty(USB|ACM)\d+$/.test(name));
  names.sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const byId = path.join(folder, "serial", "by-id");
  const ids = new Map(readFolder(byId).map((id) => [targetOf(path.join(byId, id)), id]));
  return names.map((name) => ({ path: path.join(folder, name), description: describeId(ids.get(name)) }));
}

function readFolder(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function targetOf(link: string): string {
  try {
    return path.basename(readlinkSync(link));
  } catch {
    return "";
  }
}

/** `usb-Silicon_Labs_CP2102_USB_to_UART_0001-if00-port0` as a person would write it. */
function describeId(id = ""): string {
  return id
    .replace(/^usb-/, "")
    .replace(/-if\d+(-port\d+)?$/, "")
    .replace(/_/g, " ");
}
