/** A stream on its way from the upstream to a board: the next piece is read when the board has taken the one before. */
import type { Clock } from "./clock";
import { Fault } from "./fault";
import type { Redactor } from "./secret";
import { MERGE_MS, type Slimmer } from "./slim/slim";
import { createEventReader, EventTooLong } from "./sse";
import type { Meter } from "./usage";

/** A comment goes to the board where the upstream is alive and nothing else was sent for so long, in milliseconds. */
const KEEP_ALIVE_MS = 5_000;

export interface Relay {
  /** The next piece of the upstream's body, undefined at its end. Rejects where the stream breaks. */
  read(): Promise<Uint8Array | undefined>;
  /** Hands text (a character for each byte) to the board; resolves when it may have more. Rejects where it has gone. */
  send(bytes: string): Promise<void>;
  meter: Meter;
  redactor: Redactor;
  /** What an event means that must not reach the board as it is. It ends a slim stream. */
  check(body: unknown): Fault | undefined;
  /** The longest event that is read, in characters. */
  eventLength: number;
}

const toBytes = (text: string): string => Buffer.from(text, "utf8").toString("latin1");

/** Measures an event, and returns what it holds; undefined where it is no JSON object. */
function measure(meter: Meter, data: string): unknown {
  if (!data.startsWith("{")) return undefined;
  try {
    const body: unknown = JSON.parse(data);
    meter.read(body);
    return body;
  } catch {
    // Not for the meter to judge.
    return undefined;
  }
}

/** Passes a stream on as it comes. It is read along for its usage, up to an event that is too long. */
export async function relay({ read, send, meter, redactor, eventLength }: Relay): Promise<void> {
  const events = createEventReader(eventLength);
  const secrets = redactor.stream();
  let isMeasured = true;
  for (let piece = await read(); piece !== undefined; piece = await read()) {
    try {
      if (isMeasured) for (const data of events.feed(piece)) measure(meter, data);
    } catch (error) {
      if (!(error instanceof EventTooLong)) throw error;
      isMeasured = false;
    }
    await send(secrets.feed(Buffer.from(piece).toString("latin1")));
  }
  await send(secrets.end());
}

/** Passes a stream on made small. Where it breaks, `left` gets what was said before, and the reason is thrown. */
export async function relaySlim(
  { read, send, meter, redactor, check, eventLength }: Relay,
  slimmer: Slimmer,
  clock: Clock,
  left: (bytes: string) => void,
): Promise<void> {
  const events = createEventReader(eventLength);
  const secrets = redactor.stream();
  const safe = (text: string): string => secrets.feed(toBytes(text));
  let lastSent = clock.now();
  /** Rings when what waits has waited long enough. */
  let alarm: Alarm | undefined;
  /** What the stream ends with, once what came before has gone out. */
  let fault: Fault | undefined;

  function take(all: string[]): string {
    let text = "";
    for (const data of all) {
      fault = check(measure(meter, data));
      if (fault !== undefined) break;
      text += slimmer.take(data);
    }
    return text;
  }

  async function pass(text: string): Promise<void> {
    if (text === "") return;
    lastSent = clock.now();
    await send(safe(text));
  }

  try {
    let next = read();
    for (;;) {
      const piece = await (alarm === undefined ? next : Promise.race([next, alarm.rang]));
      if (piece === undefined) break;
      if (piece === "rang") {
        alarm = undefined;
        await pass(slimmer.flush());
        continue;
      }
      const text = take(events.feed(piece));
      // Whatever waits now has not waited yet.
      if (text !== "") alarm = alarm?.stop();
      const isQuiet = text === "" && !slimmer.isWaiting() && clock.now() - lastSent >= KEEP_ALIVE_MS;
      await pass(isQuiet ? ":\n\n" : text);
      if (fault !== undefined) throw fault;
      if (slimmer.isWaiting()) alarm ??= setAlarm(clock, MERGE_MS);
      next = read();
    }
    await pass(take(events.end()) + slimmer.end());
    await send(secrets.end());
    if (fault !== undefined) throw fault;
  } catch (error) {
    left(safe(slimmer.end()) + secrets.end());
    if (error instanceof EventTooLong)
      throw new Fault(502, `gateway: the upstream sent ${error.message}`, "upstream_odd");
    throw error;
  } finally {
    alarm?.stop();
  }
}

interface Alarm {
  rang: Promise<"rang">;
  stop(): undefined;
}

function setAlarm(clock: Clock, ms: number): Alarm {
  let timer: unknown;
  const rang = new Promise<"rang">((resolve) => (timer = clock.setTimeout(() => resolve("rang"), ms)));
  return { rang, stop: () => void clock.clearTimeout(timer) as undefined };
}
