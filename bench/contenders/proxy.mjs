/** A plain reverse proxy that many use, in a process of its own. */
import { Agent, createServer } from "node:http";
import httpProxy from "http-proxy";

const [upstream] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true, maxSockets: Infinity });
const proxy = httpProxy.createProxyServer({ target: new URL(upstream).origin, agent });
proxy.on("error", (_error, _request, response) => response.destroy());
const server = createServer((request, response) => proxy.web(request, response));
server.listen(0, "127.0.0.1", () => process.send({ port: server.address().port }));
process.on("message", () => {
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  process.send({ heapMb: (heapUsed + external) / 1024 / 1024, cpuMs: process.cpuUsage().user / 1000 });
});
process.on("disconnect", () => process.exit(0));
