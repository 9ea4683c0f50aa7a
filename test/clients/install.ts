import { execFile } from "node:child_process";
import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const folder = fileURLToPath(new URL("../../node_modules/.cache/clients", import.meta.url));

/** The clients of others, in the versions that were tried; all run on Node 20. */
const VERSIONS = { "@anthropic-ai/sdk": "0.91.1", espruino: "0.1.67", openai: "6.26.0" };

/** Installs the clients beside the dependencies, once, and gives the folder of one. */
export async function installClient(name: keyof typeof VERSIONS): Promise<string> {
  const wanted = `${JSON.stringify({ private: true, dependencies: VERSIONS }, null, 2)}\n`;
  const file = path.join(folder, "package.json");
  const place = path.join(folder, "node_modules", name);
  const isThere = (await stat(place).catch(() => undefined)) !== undefined;
  if (isThere && (await readFile(file, "utf8").catch(() => "")) === wanted) return place;
  await mkdir(folder, { recursive: true });
  await writeFile(file, wanted);
  // Optional parts are for Bluetooth and serial ports, and are built where they are installed.
  const list = ["install", "--omit=optional", "--no-audit", "--no-fund", "--loglevel=error"];
  await promisify(execFile)("npm", list, { cwd: folder, shell: process.platform === "win32" });
  return place;
}
