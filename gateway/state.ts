/** The gateway's files, and whose they are while it runs. */
import { randomBytes } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
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

/** Removes what `writeWhole` left half-written in a folder when its process was killed. Nobody else may write there. */
export async function removeHalfWritten(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (name.endsWith(".tmp")) await rm(path.join(folder, name), { force: true });
  }
}

/**
 * Puts a file aside that holds something else than the gateway writes, as `NAME.bad`, and tells so in one line.
 * @param loss what is lost with it, and what to do about that
 */
export async function setAside(
  file: string,
  why: Error,
  loss: string,
  onProblem: (problem: string) => void,
): Promise<void> {
  try {
    await rename(file, `${file}.bad`);
    onProblem(`${file} is damaged (${why.message}): it is now ${file}.bad, and ${loss}`);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    // Somebody else has put it aside, and told so.
    if (code !== "ENOENT") onProblem(`${file} is damaged, and cannot be put aside (${message}): delete it; ${loss}`);
  }
}

/** Why a folder cannot be used, in one line for the person who starts the gateway. */
export class FolderError extends Error {
  /** @param option the option that names the folder */
  constructor(option: "--files" | "--state", problem: string) {
    super(`${option}: ${problem}`);
  }
}

const LOCK_NAME = "gateway.pid";

/**
 * Keeps other gateways out of a folder that there is: they would count what boards use apart, and take for rubbish what
 * is being received. The lock of a process that is gone, or from before the machine was started, is taken over.
 * Processes in containers do not see each other: there it is for the person to give each gateway a folder of its own.
 * @returns what gives the folder free
 * @throws {FolderError} where another gateway uses it, or nothing can be written there
 */
export async function lockFolder(folder: string, option: "--files" | "--state"): Promise<() => Promise<void>> {
  const file = path.join(folder, LOCK_NAME);
  // Numbers of processes begin anew with each start of Linux, which has a name of its own there.
  const boot = await readFile("/proc/sys/kernel/random/boot_id", "utf8").catch(() => "");
  const own = `${process.pid} ${boot}`;
  const held = (): Promise<string> => readFile(file, "utf8").catch(() => "");
  for (let turn = 0; turn < 3; turn++) {
    try {
      const handle = await open(file, "wx", 0o600);
      await handle.writeFile(own).finally(() => handle.close());
      // Another one may have taken it over that found it empty.
      if ((await held()) === own)
        return async () => {
          if ((await held()) === own) await rm(file, { force: true });
        };
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code !== "EEXIST")
        throw new FolderError(option, `the folder ${folder} cannot be used (${message}): choose another`);
      const [holder = "", holderBoot = boot] = (await held()).split(" ");
      if (holderBoot === boot && isRunning(Number(holder)))
        throw new FolderError(
          option,
          `${folder} is used by another gateway, process ${holder}: stop that, or choose another folder. If that ` +
            `process is no gateway, delete ${file}`,
        );
      await rm(file, { force: true });
    }
  }
  throw new FolderError(option, `${file} cannot be kept: another gateway starts at the same time`);
}

function isRunning(pid: number): boolean {
  // A container's process has the same number at every start.
  if (!Number.isInteger(pid) || pid <= 0 || pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
