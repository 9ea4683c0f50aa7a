/**
 * Espruino's own client code for packets, driven over a TCP connection: `node packet-client.js TOOL PORT JOB`, where
 * JOB is a JSON list of steps. Prints a JSON list of their results. The tool's own TCP transport writes UTF-8, which
 * packets do not survive: only the bytes' way in and out is ours.
 */
import { createRequire } from "node:module";
import net from "node:net";
import path from "node:path";

const [tool, port, job] = process.argv.slice(2);
const load = createRequire(path.join(tool, "index.js"));
const print = console.log;
// It tells of every file that it loads.
console.log = () => {};
load("./index.js").init(async () => {
  const { connection } = globalThis.Espruino.Core.Serial;
  const socket = net.connect(Number(port), "127.0.0.1");
  await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  socket.on("data", (bytes) => connection.rxDataHandler(new Uint8Array(bytes).buffer));
  connection.writeLowLevel = (text) =>
    new Promise((resolve) => socket.write(Buffer.from(text, "latin1"), () => resolve()));
  connection.closeLowLevel = () => socket.destroy();
  connection.chunkSize = 512;
  connection.openHandler();
  const results = [];
  for (const [method, ...list] of JSON.parse(job)) {
    try {
      results.push((await connection[method](...list)) ?? null);
    } catch (error) {
      results.push({ error: String(error) });
    }
  }
  print(JSON.stringify(results));
  process.exit(0);
});
