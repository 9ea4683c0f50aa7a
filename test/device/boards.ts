/** Boards that can be reached by a port, for one scenario on all of them. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createBoard, type Board, type BoardOptions } from "../../host-sim/board";
import { serveTcp, type TcpPeer } from "../../host-sim/peer";
import { createStorage } from "../../host-sim/storage";
import { bridgeInterpreter } from "../drivers/tcp-bridge";

/** A board on a port. */
export interface PortBoard {
  readonly port: string;
  /** Power off and on at this moment. Connections are cut, where the port is one of this computer. */
  powerCycle(): Promise<void>;
  stop(): Promise<void>;
}

export interface PortDriver {
  readonly name: "sim" | "espruino" | "board";
  /** Power can be taken away by a test, and nobody's work is on it. */
  readonly isOwn: boolean;
  readonly hasWifi: boolean;
  start(): Promise<PortBoard>;
}

/** A simulated board on a TCP port, in real time. */
export function simOnPort(options: BoardOptions = {}): PortDriver {
  return {
    name: "sim",
    isOwn: true,
    hasWifi: true,
    async start() {
      const storage = options.storage ?? createStorage();
      let board: Board;
      let peer: TcpPeer | undefined;
      async function boot(port: number): Promise<void> {
        // Client and board are in one process.
        board = createBoard({ endsLongRuns: true, ...options, storage });
        peer = await serveTcp(board, { port });
        board.boot();
      }
      async function end(): Promise<void> {
        board.stop();
        await peer?.close();
      }
      await boot(0);
      const { port } = peer!;
      return {
        port: `tcp://127.0.0.1:${port}`,
        async powerCycle() {
          await end();
          await boot(port);
        },
        stop: end,
      };
    },
  };
}

/** The real interpreter behind a TCP port. */
export function interpreterOnPort(binary: string): PortDriver {
  return {
    name: "espruino",
    isOwn: true,
    hasWifi: false,
    async start() {
      const folder = await mkdtemp(path.join(tmpdir(), "device-"));
      const bridge = await bridgeInterpreter(binary, folder);
      return {
        port: `tcp://127.0.0.1:${bridge.port}`,
        powerCycle: () => bridge.restart({ disconnect: true }),
        async stop() {
          await bridge.stop();
          await rm(folder, { recursive: true, force: true });
        },
      };
    },
  };
}

/** A board on this computer's serial port. Its agent and settings are replaced by the test's. */
export function boardOnPort(port: string): PortDriver {
  return {
    name: "board",
    isOwn: false,
    hasWifi: true,
    start: async () => ({ port, powerCycle: async () => {}, stop: async () => {} }),
  };
}

/** All that there are here: the simulator always, the others where the environment names them. */
export function portDrivers(): PortDriver[] {
  const { ESPRUINO_BIN, ESPRUINO_PORT } = process.env;
  return [
    simOnPort(),
    ...(ESPRUINO_BIN ? [interpreterOnPort(ESPRUINO_BIN)] : []),
    ...(ESPRUINO_PORT ? [boardOnPort(ESPRUINO_PORT)] : []),
  ];
}
