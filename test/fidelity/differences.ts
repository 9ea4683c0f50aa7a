/**
 * The differences between simulator and interpreter that are known, each with its reason. What is listed and does not
 * differ any more is an error, so that the table stays true.
 */
import table from "./differences.json";

export interface Differences {
  /** Our own probes, as `file:name`. */
  probes: Record<string, string>;
  /** Probes that were recorded once, by name. */
  recorded: Record<string, string>;
  /** Espruino's own test scripts, by file name without `.js`; a trailing `*` stands for all that begin so. */
  tests: Record<string, string>;
}

export const differences: Differences = table;

/** The reason that is listed for a name, if it is. */
export const reasonFor = (list: Record<string, string>, name: string): string | undefined =>
  list[name] ?? Object.entries(list).find(([key]) => key.endsWith("*") && name.startsWith(key.slice(0, -1)))?.[1];

/** Names in a list that nothing is called by. */
export const strayNames = (list: Record<string, string>, names: string[]): string[] =>
  Object.keys(list).filter((key) =>
    key.endsWith("*") ? !names.some((name) => name.startsWith(key.slice(0, -1))) : !names.includes(key),
  );
