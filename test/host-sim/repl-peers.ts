import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Board, createBoard } from "../../host-sim/board";
import { serveTcp } from "../../host-sim/peer";
import { createStorage } from "../../host-sim/storage";
import { bridgeInterpreter } from "../drivers/tcp-bridge";

/** A console behind a TCP port of this computer, whose board can be switched off and on. */
export interface Peer {
  readonly port: number;
  /** The same flash, a new start. Clients stay connected. */
  powerCycle(): Promise<void>;
  stop(): Promise<void>;
}

/** The simulated board. */
export async function simulatedPeer(): Promise<Peer> {
  const listeners = new Set<(bytes: string) => void>();
  const print = (text: string): void => listeners.forEach((listener) => listener(text.replace(/\n/g, "\r\n")));
  const storage = createStorage({ print });
  let board: Board;
  const start = (): void => {
    board = createBoard({ storage });
    board.console.onData((bytes) => listeners.forEach((listener) => listener(bytes)));
    board.boot();
  };
  start();
  const peer = await serveTcp({
    console: {
      write: (bytes) => board.console.write(bytes),
      onData(listener) {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      },
      addWire: (wire) => board.console.addWire(wire),
    },
  });
  return {
    port: peer.port,
    async powerCycle() {
      board.stop();
      start();
    },
    async stop() {
      await peer.close();
      board.stop();
    },
  };
}

/** The interpreter's Linux build, its flash in a folder of its own. */
export async function interpreterPeer(binary: string): Promise<Peer> {
  const folder = await mkdtemp(path.join(tmpdir(), "espruino-peer-"));
  const bridge = await bridgeInterpreter(binary, folder);
  return {
    port: bridge.port,
    powerCycle: () => bridge.restart(),
    async stop() {
      await bridge.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
