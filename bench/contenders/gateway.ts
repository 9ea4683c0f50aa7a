import { createGateway } from "../../gateway/server";

/** The gateway in a process of its own: what it costs is told by its parent's signal. */
const [upstream, stateFolder] = process.argv.slice(2) as [string, string];
const budgets = { requestsPerHour: 0, requestsPerDay: 0, tokensPerHour: 0, tokensPerDay: 0 };
const gateway = await createGateway({ upstream, key: "upstream-key", stateFolder, budgets });
const port = await gateway.listen("127.0.0.1", 0);
process.on("message", () => {
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  process.send!({ heapMb: (heapUsed + external) / 1024 / 1024, cpuMs: process.cpuUsage().user / 1000 });
});
process.on("disconnect", () => process.exit(0));
process.send!({ port });
