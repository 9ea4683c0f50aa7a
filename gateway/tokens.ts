/**
 * The boards' tokens. Each is a file of its own, named by the token's SHA-256, so that looking one up is reading one
 * file: what `token add` and `token revoke` do counts for a running gateway at once, and two of them at the same time
 * do not get in each other's way. A token is 192 random bits, which no plain hash gives away.
 */
import { createHash, randomBytes } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { BUDGETS, type Budgets } from "./budget";
import { TOKEN_PREFIX } from "./secret";
import { makeFolder, setAside, writeWhole } from "./state";

const TOKEN_BYTES = 24;

/** How a board gets a token, for the person who has to give it one. */
export const TOKEN_COMMAND = "espruino-agent gateway token add NAME";

/** What is kept of a token; never the token. */
export interface TokenEntry {
  /** Whose it is: budgets, logs and metrics go by it. */
  name: string;
  /** ISO 8601. */
  createdAt: string;
  revokedAt?: string;
  /** Budgets of this board alone, in place of the gateway's. */
  budgets?: Partial<Budgets>;
}

/** What the person who manages tokens has to change; one line. */
export class TokenError extends Error {}

export interface TokenStore {
  /**
   * Makes a token and returns it; it cannot be had again.
   * @throws {TokenError} where the name cannot be used or has a token that is not revoked
   */
  add(name: string, budgets?: Partial<Budgets>): Promise<string>;
  /** @throws {TokenError} where no token that is not revoked has that name */
  revoke(name: string): Promise<void>;
  /** All that ever were, revoked ones too, by name and age. */
  list(): Promise<TokenEntry[]>;
  /** The entry of a token, undefined where it is unknown. */
  find(token: string): Promise<TokenEntry | undefined>;
}

const fileName = /^[0-9a-f]{64}\.json$/;

function readEntry(text: string): TokenEntry {
  const { name, createdAt, revokedAt, budgets } = JSON.parse(text) as TokenEntry;
  if (typeof name !== "string" || name === "") throw new Error("no name");
  const own = Object.entries(budgets ?? {}).filter(([key, value]) => key in BUDGETS && typeof value === "number");
  return {
    name,
    createdAt: String(createdAt),
    ...(revokedAt !== undefined && { revokedAt: String(revokedAt) }),
    ...(own.length > 0 && { budgets: Object.fromEntries(own) }),
  };
}

/** What is wrong with a board's name, in words; "" if nothing is. */
export function nameProblem(name: string): string {
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name)) return "";
  return `${JSON.stringify(name)} is no name for a board: use up to 64 letters, digits, dots, hyphens and underscores`;
}

/**
 * Tokens in the folder `tokens` of a state folder, which is made by the first one. What is damaged there is put aside:
 * nobody is let in by it.
 * @param onProblem gets a line for each token that cannot be read
 */
export function createTokenStore(
  stateFolder: string,
  onProblem: (problem: string) => void = () => {},
  now: () => number = Date.now,
): TokenStore {
  const folder = path.join(stateFolder, "tokens");
  const fileOf = (token: string): string =>
    path.join(folder, `${createHash("sha256").update(token).digest("hex")}.json`);

  /** What is kept in a file; undefined where there is none, or none any more. */
  async function read(file: string): Promise<TokenEntry | undefined> {
    const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      throw error;
    });
    if (text === undefined) return undefined;
    try {
      return readEntry(text);
    } catch (error) {
      await setAside(file, error as Error, `its board needs a new token: ${TOKEN_COMMAND}`, onProblem);
      return undefined;
    }
  }

  async function readAll(): Promise<{ file: string; entry: TokenEntry }[]> {
    const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return [];
      throw error;
    });
    const files = names.filter((name) => fileName.test(name)).map((name) => path.join(folder, name));
    const all: { file: string; entry: TokenEntry }[] = [];
    for (const file of files) {
      try {
        const entry = await read(file);
        if (entry !== undefined) all.push({ file, entry });
      } catch (error) {
        onProblem(`${file} cannot be read (${(error as Error).message}): its board is not let in`);
      }
    }
    return all.sort((a, b) => compare(a.entry.name, b.entry.name) || compare(a.entry.createdAt, b.entry.createdAt));
  }

  const activeOf = async (name: string): Promise<{ file: string; entry: TokenEntry }[]> =>
    (await readAll()).filter(({ entry }) => entry.name === name && entry.revokedAt === undefined);

  return {
    async add(name, budgets) {
      const problem = nameProblem(name);
      if (problem !== "") throw new TokenError(problem);
      if ((await activeOf(name)).length > 0) {
        throw new TokenError(
          `${name} has a token already, which cannot be shown again: choose another name, or revoke it first`,
        );
      }
      await makeFolder(folder);
      const token = TOKEN_PREFIX + randomBytes(TOKEN_BYTES).toString("base64url");
      const own = budgets && Object.keys(budgets).length > 0 ? { budgets } : {};
      const entry: TokenEntry = { name, createdAt: new Date(now()).toISOString(), ...own };
      await writeWhole(fileOf(token), `${JSON.stringify(entry)}\n`);
      return token;
    },
    async revoke(name) {
      const active = await activeOf(name);
      if (active.length === 0) {
        const names = (await readAll())
          .filter(({ entry }) => entry.revokedAt === undefined)
          .map(({ entry }) => entry.name);
        const list = [...new Set(names)].join(", ");
        throw new TokenError(
          `${name} has no token to revoke; ${list === "" ? "no board has one" : `these have: ${list}`}`,
        );
      }
      for (const { file, entry } of active) {
        await writeWhole(file, `${JSON.stringify({ ...entry, revokedAt: new Date(now()).toISOString() })}\n`);
      }
    },
    list: async () => (await readAll()).map(({ entry }) => entry),
    find: (token) => read(fileOf(token)),
  };
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
