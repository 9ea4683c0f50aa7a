/**
 * README's settings table, made from `firmware/config.ts`: every limit stands there once, as a `case` with its default,
 * least and most value, under a comment that gives its name, unit and reason.
 * `npm run settings-table` rewrites the block in README.md, with `--check` it only says whether the block is right.
 */
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const START = "<!-- settings -->";
const END = "<!-- /settings -->";

export interface Limit {
  /** The setting's name in `agent.json`. */
  key: string;
  /** `MAX_TOOL_ARG_LEN (PKG_AGENT_MAX_TOOL_ARG_LEN)`. */
  constant: string;
  /** What the number counts. */
  unit: string;
  reason: string;
  defaultValue: number;
  minimum: number;
  maximum: number;
}

/** Reads the limits out of the source of `config.ts`. Throws with the line where one has no usable comment. */
export function readLimits(source: string): Limit[] {
  const limits: Limit[] = [];
  const pattern = /((?:^[ \t]*\/\/.*\n)*)^[ \t]*case "(\w+)":\s*return \[(-?[\d_]+), (-?[\d_]+), (-?[\d_]+)\];/gm;
  for (const match of source.matchAll(pattern)) {
    const [, comment, key, ...numbers] = match;
    const text = comment.replace(/^[ \t]*\/\/ ?/gm, "").trim().replace(/\s*\n\s*/g, " ");
    const parts = /^([A-Z][A-Z0-9_]*(?: \([A-Z0-9_]+\))?), ([^:.,]+)[:.,] (.+)$/.exec(text);
    if (!parts) {
      const line = source.slice(0, match.index).split("\n").length;
      throw new Error(
        `firmware/config.ts:${line} ${key} needs a comment "NAME (SEED_NAME), unit: reason" above its case, not "${text}"`,
      );
    }
    const [defaultValue, minimum, maximum] = numbers.map((n) => Number(n.replace(/_/g, "")));
    limits.push({ key, constant: parts[1], unit: parts[2], reason: parts[3], defaultValue, minimum, maximum });
  }
  return limits;
}

/** A Markdown table, one row a limit. */
export function settingsTable(limits: Limit[]): string {
  const sentence = (text: string) => text[0].toUpperCase() + text.slice(1);
  const cell = (text: string) => text.replace(/\|/g, "\\|");
  const rows = limits.map(
    (l) =>
      `| \`${l.key}\` | ${l.defaultValue} | ${l.minimum}–${l.maximum} | ${cell(l.unit)} | ${cell(sentence(l.reason))} ` +
      `<br>\`${l.constant}\` |`,
  );
  return ["| setting | default | range | unit | why |", "|---|---:|---|---|---|", ...rows].join("\n");
}

/** README's text with the block between the markers replaced; `undefined` where it has no markers. */
export function withSettings(readme: string, table: string): string | undefined {
  const start = readme.indexOf(START);
  const end = readme.indexOf(END);
  if (start < 0 || end < start) return undefined;
  return `${readme.slice(0, start + START.length)}\n${table}\n${readme.slice(end)}`;
}

function main(): number {
  const root = path.join(path.dirname(fileURLToPath(import.meta.url)), "..");
  const readmePath = path.join(root, "README.md");
  const readme = fs.readFileSync(readmePath, "utf8");
  const table = settingsTable(readLimits(fs.readFileSync(path.join(root, "firmware/config.ts"), "utf8")));
  const wanted = withSettings(readme, table);
  if (wanted === undefined) {
    console.error(`README.md has no block ${START} … ${END}`);
    return 1;
  }
  if (wanted === readme) return 0;
  if (process.argv.includes("--check")) {
    console.error("README.md: the settings table is not what firmware/config.ts says: run npm run settings-table");
    return 1;
  }
  fs.writeFileSync(readmePath, wanted);
  console.log("README.md: settings table rewritten");
  return 0;
}

if (process.argv[1] && fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) process.exitCode = main();
