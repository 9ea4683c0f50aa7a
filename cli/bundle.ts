/** The board's code, built from this repository. */
import { tokenizer, tokTypes, type Token } from "acorn";
import type { Surroundings } from "./command";
import type { Output } from "./console";
import { UsageError } from "./settings";

type Build = NonNullable<Surroundings["build"]>;

/** The bundle's code (default: this repository's); undefined where the sources have problems, which are then told. */
export async function makeBundle(build: Build | undefined, stderr: Output): Promise<string | undefined> {
  const { code, problems } = await (build ?? (await loadBuild()))().catch((error: NodeJS.ErrnoException) => {
    if (error.syscall === undefined) throw error;
    throw new UsageError(`dist/ cannot be written: ${error.message}`);
  });
  if (problems.length === 0) return code;
  const { formatProblem } = await import("../esbuild.check.mjs");
  for (const problem of problems) stderr.write(`${formatProblem(problem)}\n`);
  stderr.write("the bundle could not be built, so there is nothing to start\n");
  return undefined;
}

/** The bundler takes half a second to load. */
export async function loadBuild(): Promise<Build> {
  return (await import("../esbuild.config.mjs")).buildBundle;
}

/**
 * The same program, fit for a serial wire: in its literals an escape is as good as a control character. Some of those
 * mean something on the way, even within a packet: 3 interrupts, 17 and 19 are flow control, and 4 ends Espruino's
 * Linux build. And a line feed runs what was typed: where the head of a packet is lost, the rest of it is typed.
 */
export function forWire(code: string): string {
  const escape = (char: string): string => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`;
  const safe = code.replace(/[\x00-\x09\x0b-\x1f\x7f]/g, escape);
  let result = "";
  let from = 0;
  // The only literals that may hold a line feed.
  const templates = tokensOf(safe).filter(({ type }) => type === tokTypes.template);
  for (const { start, end } of templates) {
    result += safe.slice(from, start) + safe.slice(start, end).replaceAll("\n", "\\n");
    from = end;
  }
  return result + safe.slice(from);
}

/** None where the program does not parse; the board says so, then. */
function tokensOf(code: string): Token[] {
  try {
    return [...tokenizer(code, { ecmaVersion: "latest" })];
  } catch {
    return [];
  }
}
