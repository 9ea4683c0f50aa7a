/**
 * What each board may use: requests and tokens, per hour and per day. A window begins with the first request in it and
 * is over an hour or a day later; the clock may jump without a board being shut out for longer than that.
 */
import { readFile } from "node:fs/promises";
import path from "node:path";
import type { Clock } from "./clock";
import { makeFolder, setAside, writeWhole } from "./state";

/** The most that one board may use; 0 is no limit. */
export interface Budgets {
  requestsPerHour: number;
  requestsPerDay: number;
  tokensPerHour: number;
  tokensPerDay: number;
}

/**
 * What is meant for one board that a person talks to, with room: a run makes up to 11 requests, and a request with its
 * reply is some 3,000 tokens. What it shall stop is a board in a loop.
 */
export const BUDGETS: Budgets = {
  requestsPerHour: 1_000,
  requestsPerDay: 5_000,
  tokensPerHour: 1_000_000,
  tokensPerDay: 5_000_000,
};

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Usage is saved at once, but no more often than this: a gateway that is killed forgets that much of it at most. */
const SAVE_MS = 1_000;

/** When a board may ask again whose budget is held by requests that are under way. */
const HELD_SECONDS = 5;

interface Window {
  /** Milliseconds since 1970. */
  start: number;
  requests: number;
  tokens: number;
  /** Whether some of the tokens are an estimate. */
  isEstimated: boolean;
}

/** Held by one request from when it is let in to when it is settled. */
export interface Admission {
  /** What the request came to. Further calls count nothing. */
  settle(tokens: number, isEstimated: boolean): void;
}

export interface Refusal {
  /** Which budget is used up, `requestsPerHour` and so on. */
  budget: keyof Budgets;
  limit: number;
  used: number;
  /** Whether some of what was used is an estimate. */
  isEstimated: boolean;
  /** Whole seconds until the window is over, at least 1 and at most a day. */
  retryAfter: number;
}

export interface BudgetBook {
  /**
   * Counts a request of a board, or says what is used up. `tokens` is what the request may cost: it is held until the
   * request is settled, so that many at once cannot use up more than one after the other. A request that costs none (0)
   * is let in by its own budgets, whatever was used of tokens.
   */
  admit(board: string, budgets: Budgets, tokens: number): Admission | Refusal;
  /** Writes what is not saved yet; further changes are saved no more. */
  close(): Promise<void>;
}

type Usage = { hour: Window; day: Window };

const SPANS = [
  ["hour", HOUR_MS, "requestsPerHour", "tokensPerHour"],
  ["day", DAY_MS, "requestsPerDay", "tokensPerDay"],
] as const;

export interface BookOptions {
  /** Where `usage.json` is kept. */
  stateFolder: string;
  clock: Clock;
  /** Gets one line where usage cannot be read or saved. */
  onProblem(problem: string): void;
}

/** Reads the usage that an earlier gateway has saved. What is damaged is put aside as `usage.json.bad`. */
export async function openBudgetBook({ stateFolder, clock, onProblem }: BookOptions): Promise<BudgetBook> {
  const file = path.join(stateFolder, "usage.json");
  const boards = new Map<string, Usage>();
  const held = new Map<string, number>();
  /** Runs where usage was saved a moment ago. */
  let timer: unknown;
  let isDue = false;
  let isClosed = false;
  let saving = Promise.resolve();

  for (const [board, usage] of await readUsage(file, onProblem)) boards.set(board, usage);

  const isOver = (window: Window, span: number): boolean => {
    const age = clock.now() - window.start;
    // A window that begins in the future is from before the clock was set back.
    return age < 0 || age >= span;
  };

  function usageOf(board: string): Usage {
    const fresh = (): Window => ({ start: clock.now(), requests: 0, tokens: 0, isEstimated: false });
    const usage = boards.get(board) ?? { hour: fresh(), day: fresh() };
    for (const [name, span] of SPANS) if (isOver(usage[name], span)) usage[name] = fresh();
    boards.set(board, usage);
    return usage;
  }

  /** What is kept of a board: what is held counts as used, in case nobody is there any more to settle it. */
  function kept(board: string, { hour, day }: Usage): Usage {
    const tokens = held.get(board) ?? 0;
    const withHeld = (window: Window): Window =>
      tokens === 0 ? window : { ...window, tokens: window.tokens + tokens, isEstimated: true };
    return { hour: withHeld(hour), day: withHeld(day) };
  }

  async function write(): Promise<void> {
    for (const [board, usage] of boards) {
      if (SPANS.every(([name, span]) => isOver(usage[name], span)) && !held.has(board)) boards.delete(board);
    }
    const all = Object.fromEntries([...boards].map(([board, usage]) => [board, kept(board, usage)]));
    try {
      await makeFolder(stateFolder);
      await writeWhole(file, `${JSON.stringify(all)}\n`);
    } catch (error) {
      onProblem(`usage is not saved, a restart will forget it: ${(error as Error).message}`);
    }
  }

  function save(): void {
    isDue = isClosed || timer !== undefined;
    if (isDue) return;
    saving = saving.then(write);
    timer = clock.setTimeout(() => {
      timer = undefined;
      if (isDue) save();
    }, SAVE_MS);
    (timer as Partial<NodeJS.Timeout>).unref?.();
  }

  return {
    admit(board, budgets, tokens) {
      const usage = usageOf(board);
      const reserved = held.get(board) ?? 0;
      for (const [name, span, requestBudget, tokenBudget] of SPANS) {
        const window = usage[name];
        const left = Math.min(Math.max(1, Math.ceil((window.start + span - clock.now()) / 1000)), span / 1000);
        const refuse = (budget: keyof Budgets, used: number, isEstimated: boolean, retryAfter: number): Refusal => ({
          budget,
          limit: budgets[budget],
          used,
          isEstimated,
          retryAfter,
        });
        const most = tokens === 0 ? 0 : budgets[tokenBudget];
        if (budgets[requestBudget] > 0 && window.requests >= budgets[requestBudget])
          return refuse(requestBudget, window.requests, false, left);
        if (most > 0 && window.tokens >= most) return refuse(tokenBudget, window.tokens, window.isEstimated, left);
        if (most > 0 && window.tokens + reserved >= most)
          return refuse(tokenBudget, window.tokens + reserved, true, Math.min(HELD_SECONDS, left));
      }
      for (const [name] of SPANS) usage[name].requests++;
      held.set(board, reserved + tokens);
      save();
      let isSettled = false;
      return {
        settle(used, isEstimated) {
          if (isSettled) return;
          isSettled = true;
          const rest = (held.get(board) ?? 0) - tokens;
          if (rest > 0) held.set(board, rest);
          else held.delete(board);
          const now = usageOf(board);
          for (const [name] of SPANS) {
            now[name].tokens += used;
            now[name].isEstimated ||= isEstimated && used > 0;
          }
          save();
        },
      };
    },
    async close() {
      isClosed = true;
      clock.clearTimeout(timer);
      await saving;
      if (isDue) await write();
    },
  };
}

async function readUsage(file: string, onProblem: (problem: string) => void): Promise<[string, Usage][]> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT")
      onProblem(`usage cannot be read, all budgets begin anew: ${(error as Error).message}`);
    return [];
  }
  try {
    const all = Object.entries(JSON.parse(text) as Record<string, Usage>);
    const isCount = (value: unknown): boolean => typeof value === "number" && value >= 0;
    const isWindow = (w: Window): boolean => [w.start, w.requests, w.tokens].every(isCount);
    if (!all.every(([, usage]) => isWindow(usage.hour) && isWindow(usage.day))) throw new Error("no usage");
    return all;
  } catch (error) {
    await setAside(file, error as Error, "all budgets begin anew", onProblem);
    return [];
  }
}
