/** The gateway's files. */
import { randomBytes } from "node:crypto";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { homedir } from "node:os";
import path from "node:path";

/** Where the state is kept if nobody says so: the place for it in the person's home. */
export function defaultStateFolder(env: Record<string, string | undefined>): string {
  return path.join(
    env.XDG_STATE_HOME || path.join(env.HOME || homedir(), ".local", "state"),
    "espruino-agent",
    "gateway",
  );
}

/**
 * Makes the folder and those above it where they are missing, for their owner only. Step by step, because Node's own
 * `recursive` never ends where a folder can be seen and nothing made in it, as in /proc.
 */
export async function makeFolder(folder: string): Promise<void> {
  const make = (): Promise<void> =>
    mkdir(folder, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  try {
    await make();
  } catch (error) {
    const parent = path.dirname(folder);
    if ((error as NodeJS.ErrnoException).code !== "ENOENT" || parent === folder) throw error;
    await makeFolder(parent);
    await make();
  }
}

/** Writes a file whole or not at all: whoever reads it meets the old text or the new one. For its owner only. */
export async function writeWhole(file: string, text: string): Promise<void> {
  const own = `${file}.${randomBytes(6).toString("hex")}.tmp`;
  try {
    const handle = await open(own, "wx", 0o600);
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(own, file);
  } catch (error) {
    await rm(own, { force: true });
    throw error;
  }
}
