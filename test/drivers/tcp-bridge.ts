import { type ChildProcess, spawn } from "node:child_process";
import { createServer, type Socket } from "node:net";

/** Bytes that may wait for one client; a client that reads nothing is cut off there, as nobody may stall the others. */
const MAX_WAITING_BYTES = 1024 * 1024;

export interface BridgeOptions {
  /** Port on 127.0.0.1. Default 0: any free one. */
  port?: number;
  /** Laid over the environment, such as `{ESPR_VARS: "2500"}` for an ESP32-like build. */
  env?: NodeJS.ProcessEnv;
}

/** The real interpreter behind a TCP port of this computer. */
export interface InterpreterBridge {
  readonly port: number;
  /** False once the interpreter has ended on its own, until `restart`. */
  isRunning(): boolean;
  /**
   * A power cycle at this very moment: SIGKILL, and a new interpreter on the same flash, which runs `.bootcde` or
   * prints its banner. Clients stay connected, as on a USB serial chip with its own power, unless `disconnect` cuts
   * them off.
   */
  restart(options?: { disconnect?: boolean }): Promise<void>;
  /** Ends the interpreter and every connection. The folder stays. */
  stop(): Promise<void>;
}

/**
 * Puts a Linux build of Espruino behind a TCP port: what clients send is its standard input, its standard output goes
 * to every client that is connected, byte for byte. Its flash is the file `espruino.flash` in `folder`. The interpreter
 * runs from this call on; what it prints while nobody listens is lost, as on a serial wire.
 *
 * Bytes pass unchanged, and the Linux build has its own ways with some. A 0x04 ends the interpreter wherever it stands,
 * even within a packet: every connection is then ended. So does a second 0x03 on an empty line within 5 s, and a 0x03
 * counts as Ctrl-C even in a packet's length. And its input thread and main loop share a queue without a lock: now and
 * then a byte is lost while long input is read without echo.
 *
 * Rejects where the port is taken or the binary does not start.
 */
export async function bridgeInterpreter(
  binary: string,
  folder: string,
  { port = 0, env }: BridgeOptions = {},
): Promise<InterpreterBridge> {
  const clients = new Set<Socket>();
  let child: ChildProcess | undefined;

  function disconnect(): void {
    for (const client of clients) client.destroy();
  }

  async function start(): Promise<void> {
    const own = spawn(binary, [], { cwd: folder, env: { ...process.env, ...env }, stdio: ["pipe", "pipe", "ignore"] });
    child = own;
    own.stdin.on("error", () => undefined);
    own.stdout.on("data", (bytes: Buffer) => {
      for (const client of clients) {
        if (client.writableLength > MAX_WAITING_BYTES) client.destroy();
        else client.write(bytes);
      }
    });
    own.once("exit", () => {
      if (child !== own) return;
      child = undefined;
      for (const client of clients) client.end();
    });
    await new Promise<void>((resolve, reject) => {
      own.once("spawn", resolve);
      own.once("error", reject);
    });
  }

  async function kill(): Promise<void> {
    const own = child;
    child = undefined;
    if (!own) return;
    const gone = new Promise((resolve) => own.once("exit", resolve));
    // SIGTERM is ignored.
    own.kill("SIGKILL");
    await gone;
  }

  const server = createServer((client) => {
    client.setNoDelay(true);
    clients.add(client);
    client.on("error", () => undefined);
    client.on("close", () => clients.delete(client));
    client.on("data", (bytes) => {
      const stdin = child?.stdin;
      if (!stdin || stdin.write(bytes)) return;
      client.pause();
      stdin.once("drain", () => client.resume());
      stdin.once("close", () => client.resume());
    });
    if (!child) client.end();
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  const address = server.address() as { port: number };
  try {
    await start();
  } catch (error) {
    server.close();
    throw error;
  }

  return {
    port: address.port,
    isRunning: () => child !== undefined,
    async restart(options) {
      await kill();
      if (options?.disconnect) disconnect();
      await start();
    },
    async stop() {
      const closed = new Promise((resolve) => server.close(resolve));
      disconnect();
      await kill();
      await closed;
    },
  };
}
