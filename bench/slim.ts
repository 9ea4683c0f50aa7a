import { createSlimmer, LINE_BYTES, MERGE_MS } from "../gateway/slim/slim";
import type { Stream } from "./exchange";

/** How fast the model is whose stream is made small, in ms for an event: 50 a second, as a hosted model has it. */
const EVENT_MS = 20;

/** A recorded stream as the gateway would send it to a board: the same code, at the pace of `EVENT_MS`. */
export function slimBytes({ dialect, payloads }: Pick<Stream, "dialect" | "payloads">): Buffer {
  const slimmer = createSlimmer(dialect, { lineBytes: LINE_BYTES, withUsage: false, words: (text) => text });
  let sent = "";
  let waitingMs: number | undefined;
  for (const data of dialect === "openai" ? [...payloads, "[DONE]"] : payloads) {
    const now = slimmer.take(data);
    sent += now;
    if (now) waitingMs = undefined;
    if (!slimmer.isWaiting()) continue;
    waitingMs = waitingMs === undefined ? 0 : waitingMs + EVENT_MS;
    if (waitingMs + EVENT_MS < MERGE_MS) continue;
    sent += slimmer.flush();
    waitingMs = undefined;
  }
  return Buffer.from(sent + slimmer.end());
}
