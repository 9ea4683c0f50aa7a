import v8 from "node:v8";
import vm from "node:vm";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { bootFirmware } from "./board";
import { cutAt, inPieces } from "./pieces";

const { createSseParser } = bootFirmware();

interface Read {
  events: string[];
  /** Events that were left out, since they or a line of theirs are too long. */
  lost: number;
}

/** A parser whose lost events are counted: by itself, or by the empty event that it gives in the place of each. */
function createCounted(maxLineBytes: number) {
  let blanks = 0;
  const parser = createSseParser(maxLineBytes);
  const take = () => {
    const events: string[] = [];
    while (parser.next()) {
      if (parser.data) events.push(parser.data);
      else blanks++;
    }
    return events;
  };
  return {
    feed: (piece: string) => ((parser.rest += piece), take()),
    end: () => ((parser.rest += "\n\n"), take()),
    lost: () => blanks,
  };
}

function read(pieces: string[], maxLineBytes = 1000): Read {
  const parser = createCounted(maxLineBytes);
  const events: string[] = [];
  for (const piece of pieces) events.push(...parser.feed(piece));
  events.push(...parser.end());
  return { events, lost: parser.lost() };
}

/**
 * The standard's algorithm on the whole text, with three things of ours: the end of the stream ends the last line and
 * event as well, an event without data is none, and one with a line or data of more than `maxLineBytes` is left out.
 */
function reference(stream: string, maxLineBytes = 1000): Read {
  const events: string[] = [];
  let data: string[] = [];
  let tooLong = false;
  let lost = 0;
  stream
    .split(/\r\n|\r|\n/)
    .concat("", "")
    .forEach((line, i) => {
      if (line.length > maxLineBytes) tooLong = true;
      if (i === 0) line = line.replace(/^\xef\xbb\xbf/, "");
      if (line === "") {
        const text = data.join("\n");
        if (tooLong || text.length > maxLineBytes) lost++;
        else if (text) events.push(text);
        data = [];
        tooLong = false;
      } else if (!line.startsWith(":")) {
        const colon = line.indexOf(":");
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (field === "data") data.push(value);
      }
    });
  return { events, lost };
}

const lineEnd = fc.constantFrom("\n", "\r", "\r\n");
const piece = fc.oneof(
  { weight: 4, arbitrary: lineEnd },
  { weight: 3, arbitrary: fc.constantFrom("data:", "data: ", 'data: {"a":1}', "data:x", "data: [DONE]", "data:  y") },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      ":",
      ": ping",
      "event: message",
      "id: 7",
      "retry: 5",
      "date: x",
      "Data: x",
      " data: x",
      "dat",
      "a:",
    ),
  },
  { weight: 1, arbitrary: fc.string({ maxLength: 12 }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom("\xef\xbb\xbf", "\0", "\xe6\xb8\xa9", "\xff", "x".repeat(30), `data: ${"y".repeat(30)}`),
  },
);
const stream = fc
  .tuple(
    fc.constantFrom("", "\xef\xbb\xbf", "\xef\xbb", "\xef\xbb\xbf\xef\xbb\xbf"),
    fc.array(piece, { maxLength: 40 }),
  )
  .map(([start, parts]) => start + parts.join(""));

describe("createSseParser", () => {
  it("reads LF, CR LF and CR, one space after the colon, several data lines, comments and other fields", () => {
    expect(read(["data: a\n\ndata:b\r\n\r\ndata:  c\r\r"]).events).toEqual(["a", "b", " c"]);
    expect(read(["data: {\ndata: }\n\n"]).events).toEqual(["{\n}"]);
    expect(read([": ping\n\n:\nevent: message\nid: 7\nretry: 500\ndata: a\n\n"]).events).toEqual(["a"]);
    expect(read(["data: a\r\n\n"]).events).toEqual(["a"]);
    expect(read(["data: a\n\r\n"]).events).toEqual(["a"]);
  });

  it("reads the last event without its line ends", () => {
    expect(read(["data: a\n\ndata: b"]).events).toEqual(["a", "b"]);
    expect(read(["data: a\n"]).events).toEqual(["a"]);
    expect(read(["data: a\r"]).events).toEqual(["a"]);
    expect(read([""]).events).toEqual([]);
    expect(read([]).events).toEqual([]);
  });

  it("takes one byte order mark off the start, wherever it is cut", () => {
    expect(read(["\xef", "\xbb", "\xbf", "data: a\n\n"]).events).toEqual(["a"]);
    expect(read(["\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n"]).events).toEqual([]);
    expect(read(["\n\xef\xbb\xbfdata: a\n\n"]).events).toEqual([]);
    // A first line that is left out is the first line all the same.
    expect(read([`${"x".repeat(1001)}\n\n\xef\xbb\xbfdata: a\n\n`])).toEqual({ events: [], lost: 1 });
  });

  it("keeps CR and LF of one line end together, and only of one", () => {
    expect(read(["data: a\r", "\n", "\n", "data: b"]).events).toEqual(["a", "b"]);
    expect(read(["data: a\r", "\n\r", "\ndata: b\r", "\r"]).events).toEqual(["a", "b"]);
    expect(read(["data: a\r", "", "\ndata: b\n\n"]).events).toEqual(["a\nb"]);
  });

  it("takes a data line without a colon as an empty one", () => {
    expect(read(["data: a\ndata\ndata: b\n\n"]).events).toEqual(["a\n\nb"]);
    expect(read(["data\n\ndata:\n\ndata: a\n\n"]).events).toEqual(["a"]);
  });

  it("leaves out and counts each event with a line that is too long, and reads on", () => {
    const long = "x".repeat(20);
    expect(read([`data: ${long}\n\ndata: a\n\ndata: ${long}\n\n`], 20)).toEqual({ events: ["a"], lost: 2 });
    expect(read(["data: 67890\n\ndata: 678901\n\n"], 11)).toEqual({ events: ["67890"], lost: 1 });
    // Two lines of one event are one loss; the data lines of an event count together.
    expect(read([`data: ${long}\ndata: ${long}\ndata: a\n\ndata: b\n\n`], 20)).toEqual({ events: ["b"], lost: 1 });
    expect(
      read(
        [
          "data: 123456789\ndata: 123456789\n\ndata: 123456789\ndata: 1234567890\n\n",
          "data: a\n\ndata: 123456789\ndata: 1234567890a\n\n",
        ],
        20,
      ),
    ).toEqual({
      events: ["123456789\n123456789", "123456789\n1234567890", "a"],
      lost: 1,
    });
    expect(read([`data: ${long}`], 20)).toEqual({ events: [], lost: 1 });
  });

  it("agrees with the standard on any stream, cut anywhere", () => {
    fc.assert(
      fc.property(stream, fc.array(fc.nat(200), { maxLength: 30 }), fc.constantFrom(20, 1000), (text, cuts, max) => {
        const expected = reference(text, max);
        expect(read([text], max)).toEqual(expected);
        expect(read(cutAt(text, cuts), max)).toEqual(expected);
        expect(read(inPieces(text, 1), max)).toEqual(expected);
      }),
      { numRuns: 2000 },
    );
  });

  it("gives an event in the piece that ends it", () => {
    const parser = createCounted(100);
    expect(parser.feed("data: a\n")).toEqual([]);
    expect(parser.feed("\n")).toEqual(["a"]);
    expect(parser.feed("data: b\n\ndata: c\n\n")).toEqual(["b", "c"]);
    expect(parser.end()).toEqual([]);
  });

  it("reads a million empty lines", () => {
    for (const end of ["\n", "\r", "\r\n"]) {
      const lines = end.repeat(1_000_000);
      expect(read([...inPieces(lines, 65_536), "data: a", end, end])).toEqual({ events: ["a"], lost: 0 });
    }
    expect(read([...inPieces("\n".repeat(100_000), 1), "data: a\n\n"]).events).toEqual(["a"]);
  });

  it("keeps no more than the limit of a line of 10 MB", () => {
    v8.setFlagsFromString("--expose-gc");
    const collect = vm.runInNewContext("gc") as () => void;
    const parser = createCounted(3072);
    // Each piece is a string of its own, or keeping them all would not show.
    const fresh = (i: number) => Buffer.alloc(536, 97 + (i % 26)).toString("latin1");
    parser.feed("data: ");
    collect();
    const before = process.memoryUsage().heapUsed;
    let lostAt = -1;
    for (let i = 0; i < 20_000; i++) {
      expect(parser.feed(fresh(i))).toHaveLength(0);
      if (parser.lost() && lostAt < 0) lostAt = i;
    }
    collect();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(2_000_000);
    // In the very piece that made it too long: 6 + 6 × 536 is the first above 3072.
    expect(lostAt).toBe(5);
    expect(parser.lost()).toBe(1);
    expect(parser.feed("\ndata: lost too\n\ndata: a\n\n")).toEqual(["a"]);
  });

  it("does so for an event of a million short data lines", () => {
    const parser = createCounted(3072);
    const lines = "data: 0123456789\n".repeat(1000);
    for (let i = 0; i < 1000; i++) expect(parser.feed(lines)).toEqual([]);
    expect(parser.feed("\ndata: a\n\n")).toEqual(["a"]);
    expect(parser.lost()).toBe(1);
  });
});
