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
    limit: 500,
    unit: "variables",
    why: "the smallest board, of 2,500 variables, keeps three quarters of them for the person",
  },
  idle: {
    goal: 900,
    limit: 920,
    unit: "variables",
    why: "all tools at rest and a history of 4 kB: a quarter of an ESP32",
  },
  tool: { goal: 10, limit: 10, unit: "variables", why: "a person adds tools without asking what they cost at rest" },
  peak: {
    goal: 500,
    limit: 560,
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
    limit: 1.55,
    unit: "× floor",
    why: "a board has to keep up with a model's stream, and its person has a program on it, too",
  },
  slimRatio: {
    goal: 0.3,
    limit: 0.35,
    unit: "× floor",
    why: "the gateway takes off the board what a computer does for nothing",
  },
} satisfies Record<string, Budget>;

/**
 * Bytes of the minified bundle that each room had when its budget was set: `npm run bench -- --rooms` prints them anew.
 * A room is a file of `firmware/`, a folder in it, or `tools/`.
 * Renewed when functions came to be made where they are used: each such place names the function's parameters and where it
 * stands, some 30 bytes; loop and request also became functions of their own in the place of functions within functions.
 * Renewed when parser, reply and transport became plain data: what was a closure's variable is a field that has to be named.
 */
export const roomBytes: Record<string, number> = {
  "tools/": 33676,
  "firmware/graph-check.ts": 7417,
  "firmware/graph.ts": 5729,
  "firmware/provider/": 5675,
  "firmware/sandbox.ts": 5636,
  "firmware/config.ts": 4922,
  "firmware/saved-tools.ts": 4806,
  "firmware/guard.ts": 4463,
  "firmware/commands.ts": 4305,
  "firmware/turn.ts": 3821,
  "firmware/request.ts": 3647,
  "firmware/fetch.ts": 3485,
  "firmware/channel/": 3475,
  "firmware/sse.ts": 3082,
  "firmware/upload.ts": 3075,
  "firmware/caller.ts": 2948,
  "firmware/repair.ts": 2649,
  "firmware/failure.ts": 2626,
  "firmware/sift.ts": 2473,
  "firmware/sink.ts": 2459,
  "firmware/message-log.ts": 2444,
  "firmware/media-body.ts": 2430,
  "firmware/registry.ts": 2396,
  "firmware/media.ts": 2098,
  "firmware/reply.ts": 2085,
  "firmware/loop.ts": 2083,
  "firmware/text.ts": 2017,
  "firmware/camera.ts": 1990,
  "firmware/transport.ts": 1973,
  "firmware/wrap.ts": 1873,
  "firmware/session.ts": 1810,
  "firmware/subagent.ts": 1800,
  "firmware/utf8.ts": 1632,
  "firmware/main.ts": 1467,
  "firmware/history.ts": 1438,
  "firmware/saved.ts": 1338,
  "firmware/body.ts": 1121,
  "firmware/files.ts": 1100,
  "firmware/disk.ts": 1095,
  "firmware/card.ts": 1003,
  "(build)": 706,
  "firmware/agents.ts": 703,
  "firmware/observers.ts": 655,
  "firmware/media-type.ts": 652,
  "firmware/pins.ts": 592,
  "firmware/numbers.ts": 554,
  "firmware/parts.ts": 449,
};

/** The most that a room may have now: a tenth more and 50 bytes, so that a fix has room and a feature is noticed. */
export function roomLimit(room: string): number {
  return Math.floor((roomBytes[room] ?? 0) * 1.1) + 50;
}
