/** README's figures: what a slim stream saves, on streams that were recorded from providers. */
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { createSlimmer, LINE_BYTES, MERGE_MS, type Dialect } from "./slim/slim";

/** Bytes to the board for one recorded stream, the framing of HTTP's chunks included. */
export interface StreamRow {
  file: string;
  events: number;
  /** As the provider sends it. */
  plainBytes: number;
  /** Slim, from a model so slow that no two events come within 200 ms. */
  slowBytes: number;
  /** Slim, at one event every 20 ms. */
  fastBytes: number;
}

const SLOW_MS = 200;
const FAST_MS = 20;

/** A piece of a body as a chunk: its length in hex, two line ends, and itself. */
const chunkBytes = (text: string): number => {
  const size = Buffer.byteLength(text);
  return size === 0 ? 0 : size + size.toString(16).length + 4;
};
const LAST_CHUNK_BYTES = 5;

/** The bytes of a stream whose events come `gapMs` apart. */
function slimBytes(dialect: Dialect, payloads: string[], gapMs: number): number {
  const slimmer = createSlimmer(dialect, { lineBytes: LINE_BYTES, withUsage: false, words: (text) => text });
  let bytes = LAST_CHUNK_BYTES;
  let since: number | undefined;
  payloads.forEach((data, i) => {
    const now = i * gapMs;
    if (since !== undefined && now - since >= MERGE_MS) {
      bytes += chunkBytes(slimmer.flush());
      since = undefined;
    }
    const text = slimmer.take(data);
    bytes += chunkBytes(text);
    if (text !== "") since = undefined;
    if (slimmer.isWaiting()) since ??= now;
  });
  return bytes + chunkBytes(slimmer.end());
}

/**
 * Measures the streams that `expected.json` in `folder` names, one JSON payload a line in each file. None where there
 * is no such folder.
 */
export function measureStreams(folder: string): StreamRow[] {
  const index = path.join(folder, "expected.json");
  if (!existsSync(index)) return [];
  const streams = JSON.parse(readFileSync(index, "utf8")) as Record<string, { dialect: Dialect }>;
  return Object.entries(streams).map(([file, { dialect }]) => {
    const lines = readFileSync(path.join(folder, file), "utf8").split("\n").filter(Boolean);
    const payloads = dialect === "openai" ? [...lines, "[DONE]"] : lines;
    const name = (data: string): string => (dialect === "anthropic" ? `event: ${JSON.parse(data).type}\n` : "");
    const plain = payloads.map((data) => chunkBytes(`${name(data)}data: ${data}\n\n`));
    return {
      file,
      events: payloads.length,
      plainBytes: plain.reduce((sum, bytes) => sum + bytes, LAST_CHUNK_BYTES),
      slowBytes: slimBytes(dialect, payloads, SLOW_MS),
      fastBytes: slimBytes(dialect, payloads, FAST_MS),
    };
  });
}

/** The rows as a Markdown table, with their sum. */
export function streamTable(rows: StreamRow[]): string {
  const sum = (field: "events" | "plainBytes" | "slowBytes" | "fastBytes"): number =>
    rows.reduce((total, row) => total + row[field], 0);
  const all = {
    file: "**all**",
    events: sum("events"),
    plainBytes: sum("plainBytes"),
    slowBytes: sum("slowBytes"),
    fastBytes: sum("fastBytes"),
  };
  const count = (value: number): string => value.toLocaleString("en-US");
  const lines = [...rows, all].map(({ file, events, plainBytes, slowBytes, fastBytes }) => {
    const name = file.replace(/\.chunks\.txt$/, "");
    const share = (bytes: number): string => `${count(bytes)} (${Math.round((100 * bytes) / plainBytes)} %)`;
    return `| ${name} | ${count(events)} | ${count(plainBytes)} | ${share(slowBytes)} | ${share(fastBytes)} |`;
  });
  return [
    `| stream | events | bytes as sent | slim, an event every ${SLOW_MS} ms | slim, every ${FAST_MS} ms |`,
    "|---|---:|---:|---:|---:|",
    ...lines,
  ].join("\n");
}
