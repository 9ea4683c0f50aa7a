/** What a person sees of longer work: lines, and a bar where there is a terminal. */
import { createColors } from "picocolors";
import type { Surroundings } from "./command";

/** What work says of itself. */
export interface Progress {
  /** Something was done, or found: one line. */
  say(line: string): void;
  /** A longer piece of work begins: `total` bytes, or 0 where nobody knows. Ends with the next `begin`, or `end`. */
  begin(title: string, total: number): void;
  /** So many bytes of it are done. */
  advance(bytes: number): void;
  end(): void;
}

/** Characters of the bar. */
const width = 30;

/**
 * Lines go to `stdout`, or nowhere where a script reads it (`isQuiet`); the bar goes to `stderr`, and only where that
 * is a terminal. (The bar of `@clack/prompts` takes the keyboard, and ends the program with 0 at Ctrl-C.)
 */
export function createProgress({ stdout, stderr }: Surroundings, isQuiet: boolean): Progress {
  const colors = createColors(stderr.isTTY === true);
  let title = "";
  let total = 0;
  let shown = "";

  function draw(bytes: number): void {
    if (stderr.isTTY !== true) return;
    const share = total === 0 ? 0 : bytes / total;
    const full = Math.floor(share * width);
    const bar = `${colors.green("━".repeat(full))}${colors.dim("━".repeat(width - full))} ${Math.floor(share * 100)} %`;
    const text = total === 0 ? `${title} …` : `${title}  ${bar}`;
    if (text !== shown) stderr.write(`\r\x1b[K${text}`);
    shown = text;
  }

  function clear(): void {
    if (shown !== "") stderr.write("\r\x1b[K");
    shown = "";
  }

  return {
    say(line) {
      clear();
      if (!isQuiet) stdout.write(`${line}\n`);
    },
    begin(name, bytes) {
      title = name;
      total = bytes;
      draw(0);
    },
    advance: draw,
    end: clear,
  };
}
