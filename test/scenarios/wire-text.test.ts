import { isUtf8 } from "node:buffer";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { crc32 } from "node:zlib";
import fc from "fast-check";
import { expect } from "vitest";
import { buildBundle } from "../../esbuild.config.mjs";
import { toBytes } from "../drivers/bytes";
import { scenario } from "./scenario";

/** Each text in a file has its length before it, in two bytes. Prints the CRC of what each function gives for it. */
const program = `
import { fromJson, toJson, wireText } from ${JSON.stringify(fileURLToPath(new URL("../../firmware/text", import.meta.url)))};
global.report = function (file) {
  const all = require("Storage").read(file) || "";
  let at = 0;
  while (at < all.length) {
    const size = all.charCodeAt(at) * 256 + all.charCodeAt(at + 1);
    const text = all.substr(at + 2, size);
    // JSON.stringify writes six characters for a byte beyond ASCII.
    const value = size < 1000 ? toJson({ a: text, b: [text, 7] }) : "";
    const isSame = !value || text.indexOf("\\0") >= 0 || fromJson(value).a === text;
    print([E.CRC32(wireText(text)), E.CRC32(toJson(text)), E.CRC32(value), isSame].join(" "));
    at += 2 + size;
  }
  print("[end of the report]");
};`;
const folder = await mkdtemp(join(tmpdir(), "wire-text-"));
await writeFile(join(folder, "main.ts"), program);
const { code } = await buildBundle({ entry: join(folder, "main.ts"), write: false });
await rm(folder, { recursive: true });

/** One text after the other. What is bad in each is bad for a reason of its own. */
const written = [
  ...["", "plain", 'a "quoted" \\ word\n', "\x00\x01\x1f\x7f\x0b\b\f\r\t", "\x7f"],
  ...["é", "’tis", "今天天气很好", "😀", "\u0800\ud7ff\ue000\uffff", "\u{10000}\u{10ffff}"].map(toBytes),
  ...['é"\\\n\x00ü', "\\u00e9 é\\u00e9 \\\\", "é1fuA\\b😀\x1f\x7f", "😀".repeat(80), "ü, ".repeat(99)].map(toBytes),
  ...["\x80", "é\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xed\xbf\xbf"],
  ...["\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xfe", "\xf8\x88\x80\x80\x80"],
  ...["\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xe2\x82\xe2\x82\xac", "\xf0\x9f\x98x", "\xc3\xa9\xa9", "\xe2\x82\xac\xac"],
  ...["\xf0\x9f\x98\x80\x80", "x\xc3", "\xc3x", "x\xbf", "\xbfx"],
];
const some = fc.sample(
  fc.oneof(
    fc.string({ unit: "binary", maxLength: 12 }).map(toBytes),
    fc.string({ unit: fc.integer({ min: 0, max: 255 }).map((one) => String.fromCharCode(one)), maxLength: 12 }),
    fc
      .array(fc.constantFrom("\xe2", "\x82", "\xac", "\xf0", "\x9f", "\xc3", "\xa9", "\xed", "a", '"', "\\", "\x00"))
      .map((parts) => parts.join("")),
  ),
  { numRuns: 60, seed: 7 },
);

/** What is no part of UTF-8 becomes U+FFFD, byte by byte. */
function repaired(text: string): string {
  let out = "";
  for (let at = 0; at < text.length; ) {
    const character = [1, 2, 3, 4].map((size) => text.slice(at, at + size)).find((one) => isUtf8(Buffer.from(one, "latin1")));
    out += character ?? "\xef\xbf\xbd";
    at += character?.length ?? 1;
  }
  return out;
}

/** As JSON.stringify writes it on the board, except for the bytes beyond ASCII. */
const quoted = (text: string): string =>
  JSON.stringify(text).replaceAll("\x7f", "\\u007F").replace(/\\u001[a-f]|\\u000[a-f]/g, (one) => `\\u${one.slice(2).toUpperCase()}`);
const crc = (text: string): number => crc32(Buffer.from(text, "latin1"));

function expected(text: string): string {
  const own = quoted(text);
  const value = text.length < 1000 ? `{"a":${own},"b":[${own},7]}` : "";
  return [crc(quoted(repaired(text))), crc(own), crc(value), true].join(" ");
}

const packed = (texts: string[]): Uint8Array =>
  Buffer.from(texts.map((text) => String.fromCharCode(text.length >> 8, text.length & 255) + text).join(""), "latin1");

/** Regular expressions take the stack of the interpreter: a long text takes no more of it than a short one. */
const long = ["今天天气很好。".repeat(195), "Les élèves de l’école\n".repeat(150), "😀".repeat(1020), "x".repeat(4000) + "\xff"].map(
  (text, i) => (i < 3 ? toBytes(text) : text),
);

scenario(
  "text is written as JSON as everybody else reads it, whatever bytes it has",
  { bundle: Buffer.from(code), files: { texts: packed([...written, ...some]), long: packed(long) }, byteStrings: true, timeoutMs: 120_000 },
  async ({ board }) => {
    const report = async (file: string): Promise<string[]> => {
      board.type(`report("${file}")\n`);
      const printed = await board.expectOutput("[end of the report]", { giveUpMs: 60_000 });
      return printed.split("\n").map((line) => line.trim()).filter((line) => /^-?\d+ /.test(line));
    };
    const texts = [...written, ...some];
    const seen = await report("texts");
    const odd = texts.filter((text, i) => seen[i] !== expected(text)).map((text) => JSON.stringify(text));
    expect(odd).toEqual([]);
    expect(await report("long")).toEqual(long.map(expected));
  },
);
