/**
 * Files that boards have sent, in a folder of their own: each content once, named by its SHA-256, and for each id a
 * small JSON file that says whose it is and how long it stays. What is being received is in `incoming`, and only moves
 * when it is whole. One gateway uses a folder at a time.
 */
import { createHash, randomBytes, type Hash } from "node:crypto";
import { open, readdir, readFile, rename, rm, stat, type FileHandle } from "node:fs/promises";
import path from "node:path";
import type { Clock } from "../clock";
import { Fault } from "../fault";
import { FolderError, lockFolder, makeFolder, removeHalfWritten, setAside, writeWhole } from "../state";

/** Random bytes of an id: who has it may read the file, so it must not be guessed. */
const ID_BYTES = 18;

const ID = /^file-[A-Za-z0-9_-]{24}$/;

/** The longest that a timer waits: a date may be further off than timers reach. */
const MOST_WAIT_MS = 3_600_000;

export interface StoredFile {
  /** `file-` and 24 characters of 144 random bits. */
  id: string;
  /** The board that sent it, by the name of its token. */
  owner: string;
  /** Safe, with an extension. */
  name: string;
  /** Content type, without parameters. */
  type: string;
  bytes: number;
  /** Of the content, in hexadecimal. */
  sha256: string;
  /** Milliseconds since 1970. */
  createdAt: number;
  expiresAt: number;
  /** What it is for, where the sender said so. */
  purpose?: string;
}

/** A file on its way in. Either `keep` or `drop` ends it. */
export interface IncomingFile {
  /** Resolves when the bytes are written. @throws {Fault} 507 where there is no room */
  write(bytes: Buffer): Promise<void>;
  /** Makes it a file. @throws {Fault} 507 */
  keep(about: Pick<StoredFile, "owner" | "name" | "type" | "purpose" | "expiresAt">): Promise<StoredFile>;
  /** Leaves nothing of it, unless it was kept. */
  drop(): Promise<void>;
}

export interface FileStore {
  /** @throws {Fault} 507 where there is no room, as far as `bytes` tells; 0 if nobody knows */
  receive(bytes: number): Promise<IncomingFile>;
  /** The file of an id; undefined where there is none, or none any more. */
  find(id: string): StoredFile | undefined;
  /** The files of a board, newest first. */
  list(owner: string): StoredFile[];
  /** Opens the content for reading. @throws {Fault} 404 where somebody else has removed or damaged it in the folder */
  open(file: StoredFile): Promise<FileHandle>;
  remove(file: StoredFile): Promise<void>;
  /** How many ids there are, and the bytes of all contents, incoming ones too. */
  usage(): { files: number; bytes: number };
  /** Waits for what is under way. */
  close(): Promise<void>;
}

export interface FileStoreOptions {
  folder: string;
  /** Bytes that all contents together may take. */
  totalBytes: number;
  /** Ids there may be. */
  totalFiles: number;
  clock: Clock;
  /** Gets what went wrong and stops nobody, in one line. */
  onProblem(problem: string): void;
}

/**
 * Opens the folder, which is made where it is missing. What was left half-written, what has expired and content that no
 * id refers to is removed.
 * @throws {FolderError}
 */
export async function openFileStore(options: FileStoreOptions): Promise<FileStore> {
  const { folder, totalBytes, totalFiles, clock, onProblem } = options;
  const [contentFolder, idFolder, incomingFolder] = ["content", "ids", "incoming"].map((name) =>
    path.join(folder, name),
  ) as [string, string, string];
  const files = new Map<string, StoredFile>();
  /** Ids by content. */
  const uses = new Map<string, { bytes: number; count: number }>();
  const underWay = new Set<Promise<unknown>>();
  let incomingBytes = 0;
  let storedBytes = 0;
  let timer: unknown;
  let isClosed = false;

  const contentOf = (sha256: string): string => path.join(contentFolder, sha256);
  const entryOf = (id: string): string => path.join(idFolder, `${id}.json`);

  /** One after the other: a content must not be removed while an id for it is being written. */
  let last: Promise<unknown> = Promise.resolve();
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
  }

  function add(file: StoredFile): void {
    const use = uses.get(file.sha256) ?? { bytes: file.bytes, count: 0 };
    if (use.count++ === 0) {
      uses.set(file.sha256, use);
      storedBytes += file.bytes;
    }
    files.set(file.id, file);
  }

  /** Forgets a file; true if its content is used by no other. */
  function forget(file: StoredFile): boolean {
    files.delete(file.id);
    const use = uses.get(file.sha256)!;
    if (--use.count > 0) return false;
    uses.delete(file.sha256);
    storedBytes -= use.bytes;
    return true;
  }

  async function erase(file: string): Promise<void> {
    await rm(file, { force: true }).catch((error: Error) => onProblem(`a file cannot be removed: ${error.message}`));
  }

  const remove = (file: StoredFile): Promise<void> =>
    inTurn(async () => {
      if (files.get(file.id) !== file) return;
      // The id first: without its content it would be a link to nothing.
      const isLast = forget(file);
      await erase(entryOf(file.id));
      if (isLast) await erase(contentOf(file.sha256));
    });

  async function removeExpired(): Promise<void> {
    const now = clock.now();
    await Promise.all([...files.values()].filter(({ expiresAt }) => expiresAt <= now).map(remove));
  }

  /** Sees to it that expired files go without anybody asking for them. */
  function waitForNext(): void {
    clock.clearTimeout(timer);
    if (isClosed || files.size === 0) return;
    const next = Math.min(...[...files.values()].map(({ expiresAt }) => expiresAt));
    const ms = Math.min(Math.max(next - clock.now(), 1_000), MOST_WAIT_MS);
    timer = clock.setTimeout(() => void removeExpired().then(waitForNext), ms);
    (timer as Partial<NodeJS.Timeout>).unref?.();
  }

  function checkRoom(bytes: number): void {
    if (storedBytes + incomingBytes + bytes > totalBytes)
      throw full(`its ${totalBytes} bytes for files (--files-total) are used up: delete some, or wait`);
  }

  async function receive(bytes: number): Promise<IncomingFile> {
    await removeExpired();
    checkRoom(bytes);
    if (files.size >= totalFiles) throw full(`it has ${files.size} files, which is all it keeps: delete some, or wait`);
    const own = path.join(incomingFolder, randomBytes(12).toString("hex"));
    const handle = await open(own, "wx", 0o600).catch(rejectFull);
    const hash: Hash = createHash("sha256");
    let size = 0;
    let isOpen = true;
    let isDone = false;
    let done = (): void => {};
    const lifetime = new Promise<void>((resolve) => (done = resolve));
    underWay.add(lifetime);

    async function shut(): Promise<void> {
      if (!isOpen) return;
      isOpen = false;
      await handle.close().catch(() => undefined);
    }

    async function end(): Promise<void> {
      isDone = true;
      incomingBytes -= size;
      await shut();
      await erase(own);
      underWay.delete(lifetime);
      done();
    }

    return {
      async write(bytes) {
        checkRoom(bytes.length);
        size += bytes.length;
        incomingBytes += bytes.length;
        hash.update(bytes);
        for (let at = 0; at < bytes.length; ) {
          at += (await handle.write(bytes, at).catch(rejectFull)).bytesWritten;
        }
      },
      async keep(about) {
        await handle.sync().catch(rejectFull);
        await shut();
        const sha256 = hash.digest("hex");
        const id = `file-${randomBytes(ID_BYTES).toString("base64url")}`;
        const file: StoredFile = { id, ...about, bytes: size, sha256, createdAt: clock.now() };
        await inTurn(async () => {
          const isNew = !uses.has(sha256);
          // Over what is there already: the bytes are the same, unless somebody has damaged those in the folder.
          await rename(own, contentOf(sha256)).catch(rejectFull);
          try {
            await writeWhole(entryOf(id), `${JSON.stringify(file)}\n`).catch(rejectFull);
          } catch (error) {
            if (isNew) await erase(contentOf(sha256));
            throw error;
          }
          add(file);
        });
        await end();
        waitForNext();
        return file;
      },
      async drop() {
        if (!isDone) await end();
      },
    };
  }

  async function readEntries(): Promise<void> {
    await removeHalfWritten(idFolder);
    for (const name of await readdir(idFolder)) {
      const file = path.join(idFolder, name);
      if (!name.endsWith(".json")) continue;
      try {
        const entry = readEntry(await readFile(file, "utf8"), name.slice(0, -".json".length));
        const { size } = await stat(contentOf(entry.sha256));
        if (size !== entry.bytes) throw new Error("its content has another size");
        add(entry);
      } catch (error) {
        await setAside(file, error as Error, "its file is not to be had any more", onProblem);
      }
    }
  }

  await makeUsable(folder, [contentFolder, idFolder, incomingFolder]);
  const unlock = await lockFolder(folder, "--files");
  try {
    for (const name of await readdir(incomingFolder)) await erase(path.join(incomingFolder, name));
    await readEntries();
    for (const name of await readdir(contentFolder)) {
      if (!uses.has(name)) await erase(contentOf(name));
    }
    await removeExpired();
    waitForNext();
  } catch (error) {
    await unlock();
    throw new FolderError("--files", `the folder ${folder} cannot be used (${(error as Error).message}): choose another`);
  }

  return {
    receive,
    find(id) {
      const file = ID.test(id) ? files.get(id) : undefined;
      return file === undefined || file.expiresAt <= clock.now() ? undefined : file;
    },
    list(owner) {
      const now = clock.now();
      const all = [...files.values()].filter((file) => file.owner === owner && file.expiresAt > now);
      return all.reverse().sort((a, b) => b.createdAt - a.createdAt);
    },
    async open(file) {
      let handle: FileHandle | undefined;
      try {
        handle = await open(contentOf(file.sha256), "r");
        if ((await handle.stat()).size === file.bytes) return handle;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      }
      await handle?.close();
      const what = handle === undefined ? "removed" : "damaged";
      onProblem(`the content of ${file.id.slice(0, 13)} in ${contentFolder} has been ${what}`);
      throw new Fault(404, `gateway: the content of this file has been ${what}: send it again`, "no_file");
    },
    remove,
    usage: () => ({ files: files.size, bytes: storedBytes + incomingBytes }),
    async close() {
      isClosed = true;
      clock.clearTimeout(timer);
      await Promise.all(underWay);
      await last;
      await unlock();
    },
  };
}

function readEntry(text: string, id: string): StoredFile {
  const file = JSON.parse(text) as StoredFile;
  const isWord = [file.owner, file.name, file.type].every((value) => typeof value === "string" && value !== "");
  const isCount = [file.bytes, file.createdAt, file.expiresAt].every((value) => Number.isFinite(value) && value >= 0);
  if (!isWord || !isCount || file.id !== id || !ID.test(id) || !/^[0-9a-f]{64}$/.test(file.sha256))
    throw new Error("not what was written");
  return file;
}

const full = (problem: string): Fault => new Fault(507, `gateway: ${problem}`, "no_room");

/** A disk without room is no defect. @throws {Fault} 507, or the error as it is */
function rejectFull(error: NodeJS.ErrnoException): never {
  if (error.code === "ENOSPC" || error.code === "EDQUOT")
    throw full("its disk is full: make room where the gateway runs");
  throw error;
}

async function makeUsable(folder: string, parts: string[]): Promise<void> {
  try {
    for (const part of parts) await makeFolder(part);
    const probe = path.join(parts[2]!, "probe");
    await (await open(probe, "w", 0o600)).close();
    await rm(probe);
  } catch (error) {
    throw new FolderError("--files", `the folder ${folder} cannot be used (${(error as Error).message}): choose another`);
  }
}
