/** What Prometheus reads at `/metrics`. No label holds what a client can make up: a board's name is its token's. */
import { collectDefaultMetrics, Counter, Gauge, Registry } from "prom-client";

export interface Metrics {
  registry: Registry;
  requests: Counter<"route" | "status">;
  refusals: Counter<"reason">;
  outcomes: Counter<"outcome">;
  boardRequests: Counter<"board">;
  boardTokens: Counter<"board" | "kind">;
  receivedBytes: Counter;
  sentBytes: Counter<"stream">;
  streams: Gauge;
  uploads: Counter<"outcome">;
  fileReceivedBytes: Counter;
  fileSentBytes: Counter;
  files: Gauge;
  fileBytes: Gauge;
}

const PREFIX = "agent_gateway_";

/**
 * @param withProcess also the process's own: memory, CPU, event loop
 * @param fileUsage how many files there are, and their bytes
 */
export function createMetrics(withProcess: boolean, fileUsage: () => { files: number; bytes: number }): Metrics {
  const registry = new Registry();
  const registers = [registry];
  if (withProcess) collectDefaultMetrics({ register: registry });
  return {
    registry,
    requests: new Counter({
      name: `${PREFIX}requests_total`,
      help: "Requests answered, by what was asked for and the status that the board got (0: it had gone)",
      labelNames: ["route", "status"],
      registers,
    }),
    refusals: new Counter({
      name: `${PREFIX}refusals_total`,
      help: "Requests that were not sent upstream, by reason",
      labelNames: ["reason"],
      registers,
    }),
    outcomes: new Counter({
      name: `${PREFIX}upstream_outcomes_total`,
      help: "Requests that were sent upstream, by what became of them",
      labelNames: ["outcome"],
      registers,
    }),
    boardRequests: new Counter({
      name: `${PREFIX}board_requests_total`,
      help: "Requests of each board that counted against its budgets",
      labelNames: ["board"],
      registers,
    }),
    boardTokens: new Counter({
      name: `${PREFIX}board_tokens_total`,
      help: "Tokens of each board, as the provider told or as estimated",
      labelNames: ["board", "kind"],
      registers,
    }),
    receivedBytes: new Counter({
      name: `${PREFIX}upstream_received_bytes_total`,
      help: "Bytes of bodies that came from the upstream, unpacked",
      registers,
    }),
    sentBytes: new Counter({
      name: `${PREFIX}stream_sent_bytes_total`,
      help: "Bytes of streams that went to boards",
      labelNames: ["stream"],
      registers,
    }),
    streams: new Gauge({ name: `${PREFIX}streams`, help: "Streams under way", registers }),
    uploads: new Counter({
      name: `${PREFIX}uploads_total`,
      help: "Files that boards have sent, by what became of them",
      labelNames: ["outcome"],
      registers,
    }),
    fileReceivedBytes: new Counter({
      name: `${PREFIX}file_received_bytes_total`,
      help: "Bytes of files that boards have sent and that were kept",
      registers,
    }),
    fileSentBytes: new Counter({
      name: `${PREFIX}file_sent_bytes_total`,
      help: "Bytes of files that were fetched",
      registers,
    }),
    files: new Gauge({
      name: `${PREFIX}files`,
      help: "Files that are kept",
      registers,
      collect() {
        this.set(fileUsage().files);
      },
    }),
    fileBytes: new Gauge({
      name: `${PREFIX}file_bytes`,
      help: "Bytes that files take on the disk, those on their way in too",
      registers,
      collect() {
        this.set(fileUsage().bytes);
      },
    }),
  };
}
