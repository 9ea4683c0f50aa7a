/** The events of an upstream's stream, as text. */
import { createParser } from "eventsource-parser";

export interface EventReader {
  /**
   * Takes the next bytes, cut anywhere, and returns the data of each event that ended in them.
   * @throws {EventTooLong} and reads nothing any more, where an event or a line is longer than it may be
   */
  feed(bytes: Uint8Array): string[];
  /** The stream is over: a last event without its end counts as well, as it does for a board. */
  end(): string[];
}

export class EventTooLong extends Error {}

/** @param most characters of an event, or of a line */
export function createEventReader(most: number): EventReader {
  let events: string[] = [];
  let isOver = false;
  const decoder = new TextDecoder();
  const parser = createParser({
    onEvent: ({ data }) => void events.push(data),
    onError(error) {
      // The standard has it that what is no field is skipped.
      if (error.type === "max-buffer-size-exceeded") isOver = true;
    },
    maxBufferSize: most,
  });
  function read(text: string): string[] {
    if (!isOver) parser.feed(text);
    if (isOver) throw new EventTooLong(`an event of more than ${most} characters`);
    const all = events;
    events = [];
    return all;
  }
  return {
    feed: (bytes) => read(decoder.decode(bytes, { stream: true })),
    end: () => read(`${decoder.decode()}\n\n`),
  };
}
