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
    limit: 1100,
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
  "tools/": 35961,
  "firmware/graph-check.ts": 7438,
  "firmware/sandbox.ts": 6333,
  "firmware/graph.ts": 5656,
  "firmware/provider/": 5474,
  "firmware/config.ts": 4798,
  "firmware/guard.ts": 4534,
  "firmware/saved-tools.ts": 4321,
  "firmware/commands.ts": 3831,
  "firmware/fetch.ts": 3719,
  "firmware/channel/": 3526,
  "firmware/turn.ts": 3379,
  "firmware/upload.ts": 3085,
  "firmware/request.ts": 2929,
  "firmware/caller.ts": 2897,
  "firmware/repair.ts": 2669,
  "firmware/failure.ts": 2633,
  "firmware/sift.ts": 2450,
  "firmware/registry.ts": 2436,
  "firmware/message-log.ts": 2419,
  "firmware/sink.ts": 2353,
  "firmware/media-body.ts": 2333,
  "firmware/sse.ts": 2248,
  "firmware/media.ts": 2112,
  "firmware/reply.ts": 1982,
  "firmware/wrap.ts": 1966,
  "firmware/text.ts": 1930,
  "firmware/session.ts": 1835,
  "firmware/utf8.ts": 1681,
  "firmware/history.ts": 1617,
  "firmware/subagent.ts": 1613,
  "firmware/loop.ts": 1592,
  "firmware/camera.ts": 1439,
  "firmware/transport.ts": 1316,
  "firmware/saved.ts": 1301,
  "firmware/main.ts": 1258,
  "firmware/files.ts": 1134,
  "firmware/disk.ts": 1083,
  "firmware/card.ts": 1054,
  "firmware/body.ts": 1030,
  "firmware/media-type.ts": 674,
  "firmware/observers.ts": 667,
  "firmware/pins.ts": 613,
  "firmware/agents.ts": 603,
  "firmware/numbers.ts": 571,
  "firmware/parts.ts": 474,
  "(build)": 286,
};

/** The most that a room may have now: a tenth more and 50 bytes, so that a fix has room and a feature is noticed. */
export function roomLimit(room: string): number {
  return Math.floor((roomBytes[room] ?? 0) * 1.1) + 50;
}
