import type { Dialect } from "../../gateway/slim/slim";
import { bootFirmware } from "../firmware/board";
import { exchangeWith, type Outcome } from "../firmware/exchange";

/** What a board makes of a reply. `failure` is what it tells the person. */
export type BoardReply = Omit<Outcome, "events" | "waits">;

const firmwares = new Map<Dialect, ReturnType<typeof bootFirmware>>();

/** Bytes of a line that a board reads by default. */
export const SSE_LINE_BYTES = 3072;
/** The longest that it can be set to read. */
export const MOST_LINE_BYTES = 8192;

/**
 * Reads an event stream (a character for each byte) in pieces with the firmware's own code, from its request to its
 * reply. The board has no tools: a call is what the server says, and the name is not looked for.
 */
export function readAsBoard(dialect: Dialect, pieces: string[], lineBytes = SSE_LINE_BYTES): BoardReply {
  let firmware = firmwares.get(dialect);
  if (firmware === undefined) {
    firmware = bootFirmware();
    firmwares.set(dialect, firmware);
  }
  const settings = { provider: dialect, baseUrl: "http://gateway/v1", model: "m", retries: 0, sseLineBytes: lineBytes };
  const problems = firmware.openSettings().apply(settings, true);
  if (problems.length > 0) throw new Error(problems.join("; "));
  const { events: _events, waits: _waits, ...reply } = exchangeWith(firmware, { count: 0 }, [{ pieces }]);
  return reply;
}
