import { describe, expect, it } from "vitest";
import { createParts, MAX_PARTS } from "../../firmware/parts";
import { mediaType } from "../../firmware/media-type";

describe("a list of parts", () => {
  it("takes as many as it was made for, and says so of one more", () => {
    const list = createParts(2);
    expect(list.append("text", "hello")).toBe("");
    expect(list.append("image", "cat.jpg")).toBe("");
    expect(list.append("text", "too many")).toBe("the list of parts is full: it was made for 2");
    expect(list.parts).toEqual([{ type: "text", content: "hello" }, { type: "image", content: "cat.jpg" }]);
  });

  it("gives nothing for an index that is out of range", () => {
    const list = createParts(2);
    list.append("text", "hello");
    expect([-1, 0, 1, 2, NaN, 0.5].map((i) => list.get(i)?.content)).toEqual([undefined, "hello", undefined, undefined, undefined, undefined]);
  });

  it("is empty after release, and may be filled anew", () => {
    const list = createParts(1);
    list.append("text", "hello");
    list.release();
    expect(list.get(0)).toBeUndefined();
    expect(list.append("text", "again")).toBe("");
  });

  it("refuses what is no part, in words", () => {
    const list = createParts(3);
    expect(list.append("smell" as "text", "x")).toBe("a part is of the type text, image, audio or video, not smell");
    expect(list.append("text", "")).toBe("a part needs a text");
    expect(list.append("image", undefined as unknown as string)).toBe("a part needs the path of a file");
    expect(list.parts).toEqual([]);
  });

  it("has a capacity of at least one and at most what a message takes", () => {
    for (const [asked, is] of [[0, 1], [-5, 1], [NaN, 1], [99, MAX_PARTS]] as const) {
      const list = createParts(asked);
      let taken = 0;
      while (!list.append("text", "x")) taken++;
      expect(taken).toBe(is);
    }
  });
});

describe("the type of a file", () => {
  it("is what its name says, else what its first bytes say", () => {
    const types: [string, string, string][] = [
      ["cat.JPG", "", "image/jpeg"],
      ["a.b.png", "", "image/png"],
      ["song.mp3", "", "audio/mpeg"],
      ["cat", "\xff\xd8\xff\xe0", "image/jpeg"],
      ["cat.bin", "\x89PNG\r\n", "image/png"],
      ["cat", "RIFF1234WEBPVP8 ", "image/webp"],
      ["cat", "RIFF1234WAVEfmt ", "audio/wav"],
      ["cat", "RIFF1234AVI LIST", ""],
      ["clip", "\0\0\0\x20ftypisom", "video/mp4"],
      ["paper", "%PDF-1.7", "application/pdf"],
      ["image/jpeg", "", ""],
      ["jpg", "", "image/jpeg"],
      ["notes.txt", "hello world", ""],
      ["", "", ""],
    ];
    for (const [name, start, type] of types) expect([name, mediaType(name, start)]).toEqual([name, type]);
  });
});
