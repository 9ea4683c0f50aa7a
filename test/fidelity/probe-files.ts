/** The probes of this folder, and the differences that are known. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { formatProbes, parseProbes, type Probe } from "./transcript";

const FOLDER = new URL("./probes/", import.meta.url);

/** The files of probes by name, without extension. */
export const loadProbes = (): Map<string, Probe[]> => {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith(".txt"));
  return new Map(files.map((name) => [name.slice(0, -4), parseProbes(readFileSync(new URL(name, FOLDER), "utf8"), name)]));
};

/** Replaces one file. */
export const saveProbes = (file: string, probes: Probe[]): void => {
  writeFileSync(new URL(`${file}.txt`, FOLDER), formatProbes(probes));
};
