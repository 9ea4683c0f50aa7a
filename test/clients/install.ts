import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const folder = fileURLToPath(new URL("../../node_modules/.cache/clients", import.meta.url));

/** The version that was tried. */
const VERSION = "0.1.67";

/** Installs Espruino's own command line tool beside the dependencies, once, and gives its folder. */
export async function installEspruinoTool(): Promise<string> {
  const tool = path.join(folder, "node_modules", "espruino");
  const installed = await readFile(path.join(tool, "package.json"), "utf8").catch(() => "{}");
  if ((JSON.parse(installed) as { version?: string }).version === VERSION) return tool;
  await mkdir(folder, { recursive: true });
  await writeFile(path.join(folder, "package.json"), '{"private":true}\n');
  // Its optional parts are for Bluetooth and serial ports, and are built where they are installed.
  const list = ["install", "--omit=optional", "--no-save", "--no-audit", "--no-fund", `espruino@${VERSION}`];
  await promisify(execFile)("npm", list, { cwd: folder, shell: process.platform === "win32" });
  return tool;
}
