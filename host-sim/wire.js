/**
 * The far end of the simulated board's serial wire, in a thread of its own: a TCP server or a pseudo-terminal. The
 * thread goes on while board code runs in the other one, as the UART of a chip does: output leaves at once, and a
 * Ctrl-C is counted when it comes in. Plain JavaScript, so that Node runs it whatever loads the rest. See peer.ts.
 */
import { constants, openSync, writeSync } from "node:fs";
import { createServer } from "node:net";
import { parentPort, workerData } from "node:worker_threads";

const { kind, host, port, shared, limits } = workerData;
/** Counters that both threads see: Ctrl-C that came in, bytes of output that were taken over. */
const [BREAKS, TAKEN] = [0, 1];
const counters = new Int32Array(shared);
const CTRL_C = 3;

/**
 * Whoever holds the other end. `isFull` is true where it has to be waited for: the board then waits, as for a full
 * transmit buffer, until it has read or is given up.
 */
const clients = new Set();
let unhandled = 0;
let untaken = 0;
let end = () => {};

const notice = (text) => parentPort.postMessage({ notice: text });

const receive = (bytes) => {
  for (const byte of bytes) if (byte === CTRL_C) Atomics.add(counters, BREAKS, 1);
  unhandled += bytes.length;
  parentPort.postMessage({ input: bytes });
  if (unhandled > limits.inputBytes) for (const client of clients) client.pause();
};

/** Lets the board go on once nobody has to be waited for. */
const settle = () => {
  for (const client of clients) if (client.isFull()) return;
  Atomics.add(counters, TAKEN, untaken);
  untaken = 0;
  Atomics.notify(counters, TAKEN);
};

parentPort.on("message", (message) => {
  if (message.handled !== undefined) {
    unhandled -= message.handled;
    if (unhandled <= limits.inputBytes) for (const client of clients) client.resume();
  }
  if (message.output !== undefined) {
    untaken += message.output.length;
    for (const client of clients) client.write(message.output);
    settle();
  }
  if (message.close) {
    end();
    parentPort.close();
  }
});

const fail = (error) => {
  parentPort.postMessage({ error: { message: error.message, code: error.code } });
  parentPort.close();
};

const serveTcp = () => {
  const server = createServer((socket) => {
    socket.setNoDelay(true);
    let giveUp;
    const client = {
      write(bytes) {
        socket.write(bytes);
        if (!client.isFull() || giveUp !== undefined) return;
        giveUp = setTimeout(() => {
          notice("a client that does not read was disconnected");
          client.end();
        }, limits.stallMs);
      },
      isFull: () => socket.writableLength > limits.outputBytes,
      pause: () => socket.pause(),
      resume: () => socket.resume(),
      end() {
        clearTimeout(giveUp);
        clients.delete(client);
        socket.destroy();
        settle();
      },
    };
    clients.add(client);
    if (unhandled > limits.inputBytes) socket.pause();
    socket.on("data", receive);
    socket.on("drain", () => {
      clearTimeout(giveUp);
      giveUp = undefined;
      settle();
    });
    socket.on("error", () => {});
    socket.on("close", client.end);
  });
  server.on("error", fail);
  server.listen(port, host, () => {
    server.off("error", fail);
    server.on("error", (error) => notice(error.message));
    end = () => {
      server.close();
      for (const client of clients) client.end();
    };
    const address = server.address();
    parentPort.postMessage({ ready: { port: address.port, host: address.address } });
  });
};

/** How often output that the kernel had no room for is tried again, in ms. */
const RETRY_MS = 5;

const servePty = async () => {
  const { open } = (await import("@lydell/node-pty")).default;
  const { SerialPort } = await import("serialport");
  const terminal = open({ cols: 80, rows: 24, encoding: null });
  const { master, slave, fd, ptsName: path } = terminal;
  // The pair lives, and keeps its settings, as long as something holds the slave's end: not the stream, it would read.
  openSync(path, constants.O_RDWR | constants.O_NOCTTY);
  slave.destroy();
  // A new terminal echoes and turns CR into LF. A serial library's own opening makes a plain wire of it.
  const setup = new SerialPort({ path, baudRate: 115200, lock: false, autoOpen: false });
  await new Promise((resolve, reject) => setup.open((error) => (error ? reject(error) : resolve())));
  await new Promise((resolve) => setup.close(resolve));

  let waiting = Buffer.alloc(0);
  let retry;
  // Whether anybody has it open cannot be asked: nobody has, where nothing is read for a while.
  let isUnread = false;
  let lastProgress = 0;
  // The stream's own writing would block this thread as soon as the kernel's buffer is full.
  const flush = () => {
    retry = undefined;
    try {
      while (waiting.length > 0) {
        waiting = waiting.subarray(writeSync(fd, waiting));
        lastProgress = performance.now();
      }
      isUnread = false;
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
      retry = setTimeout(flush, RETRY_MS);
      if (!isUnread && performance.now() - lastProgress > limits.unreadMs) {
        isUnread = true;
        notice(`nobody reads ${path}: output is lost`);
      }
    }
    settle();
  };
  const terminalClient = {
    write(bytes) {
      if (isUnread && terminalClient.isOver()) return;
      if (waiting.length === 0) lastProgress = performance.now();
      waiting = Buffer.concat([waiting, bytes]);
      if (retry === undefined) flush();
    },
    isOver: () => waiting.length > limits.outputBytes,
    isFull: () => !isUnread && terminalClient.isOver(),
    pause: () => master.pause(),
    resume: () => master.resume(),
  };
  clients.add(terminalClient);
  master.on("data", receive);
  end = () => {
    clearTimeout(retry);
    master.destroy();
    // What holds the slave's end goes with the process or here, with the thread.
    process.exit(0);
  };
  parentPort.postMessage({ ready: { path } });
};

if (kind === "tcp") serveTcp();
else servePty().catch(fail);
