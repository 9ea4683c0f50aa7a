/** From `--port` to a board at its prompt: what `flash` and `doctor` begin with. */
import type { Command, Options, Surroundings } from "./command";
import { createDevice, type Device, DeviceError } from "./device";
import type { Progress } from "./progress";
import { UsageError } from "./settings";
import { defaultBaudRate, listPorts, openWire, readAddress, tellPort, tellPorts, WireError } from "./wire";

export const portOptions: Command["options"] = [
  ["--port <port>", "/dev/ttyUSB0, COM3 or tcp://host:port (default: the only serial port there is)"],
  ["--baud <rate>", `Bits a second of a serial port (default ${defaultBaudRate})`],
];

export interface PortChoice {
  port: string;
  baudRate: number;
}

/** @throws {UsageError} no port is named and there is not exactly one, or the rate is no number */
export async function choosePort(options: Options, { stderr }: Surroundings): Promise<PortChoice> {
  const rate = (options.baud as string | undefined) ?? String(defaultBaudRate);
  const baudRate = Number(rate);
  if (!/^\d{3,7}$/.test(rate)) throw new UsageError(`--baud: ${JSON.stringify(rate)} is no rate such as 115200`);
  if (options.port !== undefined) {
    readAddress(options.port as string);
    return { port: options.port as string, baudRate };
  }
  const ports = await listPorts();
  if (ports.length !== 1) throw new UsageError(`--port is missing. ${tellPorts(ports)}`);
  stderr.write(`port: ${tellPort(ports[0]!)}\n`);
  return { port: ports[0]!.path, baudRate };
}

/**
 * Opens the wire, lets `use` work with the board, and closes the wire whatever happens. `progress` shows what is waited
 * for.
 */
export async function withDevice<T>(
  { port, baudRate }: PortChoice,
  { signal }: Surroundings,
  secrets: string[],
  progress: Progress,
  use: (device: Device) => Promise<T>,
): Promise<T> {
  progress.begin(`opening ${port}`, 0);
  const wire = await openWire(port, { baudRate, signal });
  try {
    const onWait = (what: string): void => progress.begin(what, 0);
    return await use(createDevice(wire, { secrets, signal, onWait }));
  } finally {
    await wire.close();
  }
}

/** What is told of an error of the wire or the board; others are faults of this program and are thrown on. */
export function messageOf(error: unknown): string {
  if (error instanceof WireError || error instanceof DeviceError) return error.message;
  throw error;
}
