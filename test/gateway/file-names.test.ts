import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cleanName, fileName } from "../../gateway/files/name";
import { checkType, HEAD_BYTES } from "../../gateway/files/types";
import { jpeg } from "./file-server";

const nameOf = (sent: string, type = "image/jpeg"): string => fileName(cleanName(sent), type);

describe("names", () => {
  it.each([
    ["cat.jpg", "cat.jpg"],
    ["CAT.JPG", "CAT.jpg"],
    ["Zürich 1.jpg", "Zürich 1.jpg"],
    ["猫.jpg", "猫.jpg"],
    ["../../etc/passwd", "passwd.jpg"],
    ["C:\\photos\\cat.jpg", "cat.jpg"],
    ["/sd/DCIM/IMG_0001.JPG", "IMG_0001.jpg"],
    ['a"b.jpg', "a_b.jpg"],
    ["a%22b%0D%0A.jpg", "a_b__.jpg"],
    ["a\r\nSet-Cookie: x.jpg", "a__Set-Cookie_ x.jpg"],
    ["\u202egpj.exe\u2028", "_gpj.exe_.jpg"],
    [".bashrc", "bashrc.jpg"],
    ["...", "file.jpg"],
    ["", "file.jpg"],
    [".jpg", "jpg.jpg"],
    ["photo 12.30", "photo 12.30.jpg"],
    ["trailing.jpg. ", "trailing.jpg"],
    ["<script>.jpg", "_script_.jpg"],
    ["$(rm -rf).jpg", "_(rm -rf).jpg"],
    ["\ud800x.jpg", "_x.jpg"],
  ])("%j is kept as %j", (sent, kept) => expect(nameOf(sent)).toBe(kept));

  it("of any text are short, plain, and the same when sent again", () => {
    const long = { minLength: 90, maxLength: 300 };
    const text = fc.oneof(fc.string({ unit: "binary" }), fc.string({ unit: "grapheme", ...long }), fc.string(long));
    fc.assert(
      fc.property(text, fc.constantFrom("", ".jpg", ".JPEG"), (stem, end) => {
        const name = nameOf(stem + end);
        expect(Buffer.byteLength(name)).toBeLessThanOrEqual(100);
        expect(name).toMatch(/^[^.\s/\\\p{C}\p{Zl}\p{Zp}"<>|?*%;`$:][^/\\\p{C}\p{Zl}\p{Zp}"<>|?*%;`$:]*\.[a-z0-9]+$/u);
        expect(nameOf(name)).toBe(name);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("types", () => {
  const latin1 = (text: string): Buffer => Buffer.from(text, "latin1");
  const mp4 = (brand: string): Buffer => latin1(`\0\0\0\x18ftyp${brand}\0\0\0\0isommp42`);

  async function typeOf(name: string, declared: string, bytes: Buffer, size = 1_000): Promise<string> {
    try {
      const check = checkType(name, declared);
      for (let at = 0; at < bytes.length; at += size) await check.feed(bytes.subarray(at, at + size));
      return await check.end();
    } catch (error) {
      return (error as Error).message;
    }
  }

  it.each([
    ["a.jpg", "", jpeg(20), "image/jpeg"],
    ["a.JPEG", "image/jpg", jpeg(20), "image/jpeg"],
    ["a", "application/octet-stream", jpeg(20), "image/jpeg"],
    ["a.png", "image/png", latin1("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0"), "image/png"],
    ["a.gif", "", latin1("GIF89a\x01\0\x01\0"), "image/gif"],
    ["a.webp", "", latin1("RIFF\x10\0\0\0WEBPVP8 "), "image/webp"],
    ["a.bmp", "image/x-ms-bmp", latin1("BM\x10\0\0\0\0\0\0\0"), "image/bmp"],
    ["a.wav", "audio/x-wav", latin1("RIFF\x10\0\0\0WAVEfmt "), "audio/wav"],
    ["a.mp3", "audio/mp3", latin1("ID3\x04\0\0\0\0\x7f\x7f"), "audio/mpeg"],
    ["a.opus", "audio/ogg; codecs=opus", latin1(`OggS\0\x02${"\0".repeat(20)}\x01\x13OpusHead\x01\x02`), "audio/ogg"],
    ["a.flac", "audio/x-flac", latin1("fLaC\0\0\0\x22"), "audio/flac"],
    ["a.amr", "", latin1("#!AMR\n\x3c\x91"), "audio/amr"],
    ["a.avi", "video/avi", latin1("RIFF\x10\0\0\0AVI LIST"), "video/x-msvideo"],
    ["a.mp4", "video/mp4", mp4("isom"), "video/mp4"],
    // Sound in a container that is known as one of video.
    ["a.m4a", "audio/mp4", mp4("mp42"), "audio/mp4"],
    ["a.m4a", "", mp4("M4A "), "audio/mp4"],
    ["a", "audio/mp4", mp4("isom"), "audio/mp4"],
    ["a.mov", "", mp4("qt  "), "video/quicktime"],
    ["a.webm", "audio/webm", latin1("\x1a\x45\xdf\xa3\x93\x42\x82\x84webm\x42\x87\x81\x04"), "video/webm"],
    ["a.pdf", "", latin1("%PDF-1.4\n%\xe2\xe3"), "application/pdf"],
    ["a.txt", "", Buffer.from("Grüezi\tmitenand\r\n"), "text/plain"],
    ["notes.md", "text/plain", Buffer.from("# Notes"), "text/markdown"],
    ["a.csv", "text/csv", Buffer.from("a,b\n1,2\n"), "text/csv"],
    ["a.json", "", Buffer.from('{"a":1}'), "application/json"],
    // Begins as a picture or a sound would.
    ["a.txt", "", Buffer.from("BMW and ID3"), "text/plain"],
    ["a", "", Buffer.from("plain words"), "text/plain"],
    ["a.txt", "", Buffer.from(`${"x".repeat(HEAD_BYTES - 1)}ü${"y".repeat(100)}`), "text/plain"],
  ])("%s, declared as %j", async (name, declared, bytes, type) => {
    for (const size of [1, 7, 1_000]) expect(await typeOf(name, declared, bytes, size)).toBe(type);
  });

  it.each([
    ["a.png", "", jpeg(20), /ends in \.png, but the file is image\/jpeg/],
    ["a.jpg", "image/png", jpeg(20), /says image\/png, but the file is image\/jpeg/],
    ["a.mp4", "audio/mpeg", mp4("isom"), /says audio\/mpeg, but the file is video\/mp4/],
    ["a.m4a", "", mp4("qt  "), /ends in \.m4a/],
    ["a.svg", "", Buffer.from("<svg>"), /\.svg files are not taken/],
    ["a", "image/svg+xml", Buffer.from("<svg>"), /Content-Type that is declared/],
    ["a", "", latin1("PK\x03\x04\x14\0\0\0\0\0"), /is application\/zip, which is not taken/],
    ["a.jpg", "", latin1("\x7fELF\x01\x01\x01\0"), /is application\/x-elf, which is not taken/],
    ["a.jpg", "", Buffer.from("words"), /ends in \.jpg, but the file is text\/plain/],
    ["a.txt", "", Buffer.from([0x61, 0xc3]), /no kind that is known/],
    ["a.txt", "", Buffer.from("a\0b"), /no kind that is known/],
    ["a", "constructor", jpeg(20), /Content-Type that is declared/],
  ])("%s, declared as %j, is refused", async (name, declared, bytes, message) => {
    for (const size of [1, 7, 1_000]) expect(await typeOf(name, declared, bytes, size)).toMatch(message);
  });

  it("is said as soon as it is known", async () => {
    const check = checkType("a.txt", "");
    await check.feed(Buffer.alloc(HEAD_BYTES, "x"));
    await expect(check.feed(Buffer.from([0xff]))).rejects.toThrow(/no kind/);
    await expect(checkType("a.png", "").feed(jpeg(HEAD_BYTES))).rejects.toThrow(/ends in \.png/);
  });
});
