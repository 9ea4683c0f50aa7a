/** What is aimed at, the most that is let through, and why it is that much. */
export interface Budget {
  goal: number;
  /** A change that exceeds it fails. It has a margin over what was measured, for what differs from run to run. */
  limit: number;
  unit: string;
  why: string;
}

/**
 * What a change may not exceed. Bytes are judged by `npm test`, the others by `npm run test:target`, on an interpreter
 * that is like a board: a fixed number of variables of 14 bytes. `bench/README.md` says what each figure means.
 */
export const budgets = {
  boot: {
    goal: 500,
    limit: 600,
    unit: "variables",
    why: "the smallest board, of 2,500 variables, keeps three quarters of them for the person",
  },
  idle: {
    goal: 900,
    limit: 1000,
    unit: "variables",
    why: "all tools at rest and a history of 4 kB: a quarter of an ESP32",
  },
  tool: { goal: 10, limit: 10, unit: "variables", why: "a person adds tools without asking what they cost at rest" },
  peak: {
    goal: 500,
    limit: 1300,
    unit: "variables above idle",
    why: "together with what is idle it fits a board of 2,500 variables",
  },
  growth: {
    goal: 0,
    limit: 0,
    unit: "variables",
    why: "what grows with every prompt ends a board that runs for months",
  },
  stackCalls: { goal: 12, limit: 14, unit: "plain recursive calls", why: "an ESP32-C3 has a stack for 15 of them" },
  ratio: {
    goal: 1.5,
    limit: 2,
    unit: "× floor",
    why: "a board has to keep up with a model's stream, and its person has a program on it, too",
  },
  slimRatio: {
    goal: 0.3,
    limit: 0.6,
    unit: "× floor",
    why: "the gateway takes off the board what a computer does for nothing",
  },
} satisfies Record<string, Budget>;

/**
 * Bytes of the minified bundle that each room had when its budget was set: `npm run bench -- --rooms` prints them anew.
 * A room is a file of `firmware/`, a folder in it, or `tools/`.
 */
export const roomBytes: Record<string, number> = {
  "tools/": 25470,
  "firmware/graph-check.ts": 7006,
  "firmware/sandbox.ts": 5739,
  "firmware/graph.ts": 5674,
  "firmware/provider/": 5320,
  "firmware/config.ts": 4059,
  "firmware/saved-tools.ts": 4051,
  "firmware/guard.ts": 3636,
  "firmware/fetch.ts": 3538,
  "firmware/commands.ts": 3265,
  "firmware/caller.ts": 2994,
  "firmware/channel/": 2877,
  "firmware/turn.ts": 2842,
  "firmware/repair.ts": 2667,
  "firmware/request.ts": 2620,
  "firmware/message-log.ts": 2344,
  "firmware/failure.ts": 2290,
  "firmware/sift.ts": 2265,
  "firmware/registry.ts": 2049,
  "firmware/text.ts": 2024,
  "firmware/wrap.ts": 1902,
  "firmware/sse.ts": 1876,
  "firmware/reply.ts": 1565,
  "firmware/history.ts": 1426,
  "firmware/loop.ts": 1351,
  "firmware/subagent.ts": 1338,
  "firmware/session.ts": 1277,
  "firmware/saved.ts": 1265,
  "firmware/main.ts": 1246,
  "firmware/transport.ts": 1137,
  "firmware/files.ts": 1087,
  "firmware/body.ts": 823,
  "firmware/agents.ts": 689,
  "firmware/pins.ts": 619,
  "firmware/observers.ts": 611,
  "firmware/numbers.ts": 395,
};

/** The most that a room may have now: a tenth more and 50 bytes, so that a fix has room and a feature is noticed. */
export function roomLimit(room: string): number {
  return Math.floor((roomBytes[room] ?? 0) * 1.1) + 50;
}
