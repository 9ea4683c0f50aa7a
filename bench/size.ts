import { eachMapping, TraceMap } from "@jridgewell/trace-mapping";
import { type Comment, type Token, tokenizer, tokTypes } from "acorn";
import { buildBundle, SIZE_BUDGET } from "../esbuild.config.mjs";
import { roomBytes, roomLimit } from "./budgets";
import type { Section } from "./report";

/** Bytes that Espruino's Storage takes for a file besides its content: a header, and both on multiples of four. */
const STORAGE_HEADER = 32;

export interface RoomSize {
  /** A file of `firmware/`, a folder in it, or `tools/`; what the build itself adds is `(build)`. */
  room: string;
  bytes: number;
}

export interface BundleSize {
  bytes: number;
  rooms: RoomSize[];
  /** Bytes by what they are in the minified text. */
  comments: number;
  names: number;
  texts: number;
}

function roomOf(source: string | null): string {
  const file = source?.replaceAll("\\", "/").replace(/^.*?(?=(?:firmware|tools)\/)/, "");
  if (!file || /^\(|\/\(/.test(file)) return "(build)";
  const [top, name, ...deeper] = file.split("/");
  if (top === "tools") return "tools/";
  return top === "firmware" ? `firmware/${name}${deeper.length ? "/" : ""}` : "(build)";
}

/** What the build keeps of a slice, or of what else stands behind the program: a line that the board passes over. */
const SLICE = "//";

/**
 * Each byte belongs to the source of the mapping before it in its line: rooms and tools that the build joins are told apart
 * so. A slice without any is a text of a tool, or their table.
 */
function roomSizes(code: string, map: string): RoomSize[] {
  const lines = code.split("\n");
  const starts: number[] = [];
  lines.reduce((at, line) => (starts.push(at), at + line.length + 1), 0);
  const bytes = new Map<string, number>();
  let at = 0;
  let room = "(build)";
  const upTo = (end: number): void => {
    bytes.set(room, (bytes.get(room) ?? 0) + end - at);
    at = end;
  };
  let line = 0;
  const upToLine = (end: number): void => {
    for (; line < end; line++) {
      upTo(starts[line]!);
      if (lines[line]!.startsWith(SLICE)) room = "tools/";
    }
  };
  eachMapping(new TraceMap(map), ({ generatedLine, generatedColumn, source }) => {
    upToLine(generatedLine);
    upTo(starts[generatedLine - 1]! + generatedColumn);
    room = roomOf(source);
  });
  upToLine(lines.length);
  upTo(code.length);
  return [...bytes].map(([name, size]) => ({ room: name, bytes: size })).sort((a, b) => b.bytes - a.bytes);
}

/** Builds the bundle, without writing it, and measures it. Throws what the build finds wrong. */
export async function measureSize(): Promise<BundleSize> {
  const { code, map, problems } = await buildBundle({ write: false, budget: Infinity });
  if (problems.length) throw new Error(`the build failed: ${problems[0]!.message}`);
  let names = 0;
  let texts = 0;
  const comments: Comment[] = [];
  const text = new Set<unknown>([tokTypes.string, tokTypes.template]);
  const count = (part: string): void => {
    const words = tokenizer(part, { ecmaVersion: 2020, onComment: comments }) as Iterable<Token>;
    for (const { type, start, end } of words) {
      if (type === tokTypes.name) names += end - start;
      else if (text.has(type)) texts += end - start;
    }
  };
  const lines = code.split("\n");
  count(lines.filter((line) => !line.startsWith(SLICE)).join("\n"));
  // The table of the tools and the mark at the end are no program.
  for (const line of lines.slice(0, -2)) if (line.startsWith(SLICE)) count(line.slice(SLICE.length));
  const commented = comments.reduce((sum, { start, end }) => sum + end - start, 0);
  return { bytes: code.length, rooms: roomSizes(code, map), comments: commented, names, texts };
}

/** How much each room has grown since its budget was set, most first: where to look when a budget is exceeded. */
export function growthOf(rooms: RoomSize[]): { room: string; bytes: number; grown: number }[] {
  return rooms
    .map(({ room, bytes }) => ({ room, bytes, grown: bytes - (roomBytes[room] ?? 0) }))
    .filter(({ grown }) => grown > 0)
    .sort((a, b) => b.grown - a.grown);
}

/** The rooms that grew most, in words for a failing test. */
export async function whatGrew(): Promise<string> {
  const grown = growthOf((await measureSize()).rooms).slice(0, 3);
  return `grown since: ${grown.map(({ room, grown }) => `${room} by ${grown} bytes`).join(", ") || "no room"}`;
}

export async function sizeSections(): Promise<Section[]> {
  const { bytes, rooms, comments, names, texts } = await measureSize();
  const share = (part: number): number => (100 * part) / bytes;
  return [
    {
      title: "Size of the bundle",
      figures: [
        { name: "minified", value: bytes, unit: "bytes", goal: SIZE_BUDGET },
        { name: "in the board's Storage", value: Math.ceil(bytes / 4) * 4 + STORAGE_HEADER, unit: "bytes" },
        { name: "names", value: share(names), unit: "% of it" },
        { name: "texts", value: share(texts), unit: "% of it" },
        { name: "comments", value: share(comments), unit: "% of it" },
      ],
    },
    {
      title: "… by room",
      figures: rooms.map(({ room, bytes }) => ({ name: room, value: bytes, unit: "bytes", goal: roomLimit(room) })),
    },
  ];
}
