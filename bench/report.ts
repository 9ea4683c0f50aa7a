import { mkdir, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

/** One line of a table. A figure that could not be had has no value, and a note that says why. */
export interface Figure {
  /** Stable name, also in the JSON. */
  name: string;
  value?: number;
  unit: string;
  /** The most (or, for `isLeast`, the least) that it should be. */
  goal?: number;
  isLeast?: boolean;
  note?: string;
}

/** Figures of one kind, printed as one part of the table. */
export interface Section {
  title: string;
  figures: Figure[];
}

/** Where the JSON goes; the folder is not kept in git. */
const RESULTS = fileURLToPath(new URL("results/", import.meta.url));

const number = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });

function isMet({ value, goal, isLeast }: Figure): boolean {
  return value !== undefined && goal !== undefined && (isLeast ? value >= goal : value <= goal);
}

function goalOf(figure: Figure): string {
  if (figure.goal === undefined) return "";
  const bound = `${figure.isLeast ? "≥" : "≤"} ${number.format(figure.goal)}`;
  return figure.value === undefined ? bound : `${isMet(figure) ? "✓" : "✗"} ${bound}`;
}

/** The sections as one table: name, value, unit, goal and whether it is met, note. */
export function formatTable(sections: Section[]): string {
  const cells = sections.map(({ title, figures }) => ({
    title,
    rows: figures.map((figure) => [
      figure.name,
      figure.value === undefined ? "–" : number.format(figure.value),
      figure.unit,
      goalOf(figure),
      figure.note ?? "",
    ]),
  }));
  const rows = cells.flatMap((section) => section.rows);
  const width = (column: number): number => Math.max(0, ...rows.map((row) => [...row[column]!].length));
  const widths = [0, 1, 2, 3].map(width);
  const pad = (text: string, column: number): string => {
    const space = " ".repeat(widths[column]! - [...text].length);
    return column === 1 ? space + text : text + space;
  };
  const lines = cells.flatMap(({ title, rows }) => [
    "",
    title,
    ...rows.map((row) => `  ${row.map((text, i) => (i < 4 ? pad(text, i) : text)).join("  ")}`.trimEnd()),
  ]);
  return lines.join("\n").trimStart();
}

/** Writes `bench/results/<name>.json` and returns its path. `about` says what was measured on. */
export async function writeResults(name: string, sections: Section[], about: Record<string, unknown>): Promise<string> {
  await mkdir(RESULTS, { recursive: true });
  const file = `${RESULTS}${name}.json`;
  await writeFile(file, `${JSON.stringify({ ...about, node: process.version, sections }, null, 2)}\n`);
  return file;
}

/** A line of progress on standard error, so that the table can go to a file. */
export function tell(text: string): void {
  process.stderr.write(`${text}\n`);
}
