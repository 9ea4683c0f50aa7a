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
    limit: 950,
    unit: "variables",
    why: "all tools at rest and a history of 4 kB: a quarter of an ESP32",
  },
  tool: { goal: 10, limit: 10, unit: "variables", why: "a person adds tools without asking what they cost at rest" },
  peak: {
    goal: 500,
    limit: 750,
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
    limit: 1.7,
    unit: "× floor",
    why: "a board has to keep up with a model's stream, and its person has a program on it, too",
  },
  slimRatio: {
    goal: 0.3,
    limit: 0.5,
    unit: "× floor",
    why: "the gateway takes off the board what a computer does for nothing",
  },
} satisfies Record<string, Budget>;

/**
 * Bytes of the minified bundle that each room had when its budget was set: `npm run bench -- --rooms` prints them anew.
 * A room is a file of `firmware/`, a folder in it, or `tools/`.
 * Renewed when functions came to be made where they are used: each such place names the function's parameters and where it
 * stands, some 30 bytes; loop and request also became functions of their own in the place of functions within functions.
 */
export const roomBytes: Record<string, number> = {
  "tools/": 33906,
  "firmware/graph-check.ts": 7410,
  "firmware/graph.ts": 5778,
  "firmware/sandbox.ts": 5701,
  "firmware/provider/": 5460,
  "firmware/config.ts": 4962,
  "firmware/saved-tools.ts": 4791,
  "firmware/guard.ts": 4480,
  "firmware/commands.ts": 4334,
  "firmware/turn.ts": 4099,
  "firmware/request.ts": 4041,
  "firmware/fetch.ts": 3500,
  "firmware/channel/": 3473,
  "firmware/upload.ts": 3089,
  "firmware/caller.ts": 2942,
  "firmware/repair.ts": 2649,
  "firmware/failure.ts": 2626,
  "firmware/sink.ts": 2546,
  "firmware/sift.ts": 2525,
  "firmware/message-log.ts": 2462,
  "firmware/registry.ts": 2394,
  "firmware/media-body.ts": 2362,
  "firmware/loop.ts": 2290,
  "firmware/sse.ts": 2269,
  "firmware/media.ts": 2118,
  "firmware/wrap.ts": 2037,
  "firmware/camera.ts": 1998,
  "firmware/reply.ts": 1998,
  "firmware/text.ts": 1846,
  "firmware/session.ts": 1825,
  "firmware/subagent.ts": 1813,
  "firmware/utf8.ts": 1637,
  "firmware/transport.ts": 1494,
  "firmware/main.ts": 1448,
  "firmware/history.ts": 1390,
  "firmware/saved.ts": 1334,
  "firmware/disk.ts": 1122,
  "firmware/files.ts": 1104,
  "firmware/body.ts": 1095,
  "firmware/card.ts": 1003,
  "(build)": 702,
  "firmware/observers.ts": 658,
  "firmware/media-type.ts": 652,
  "firmware/pins.ts": 592,
  "firmware/agents.ts": 570,
  "firmware/numbers.ts": 558,
  "firmware/parts.ts": 449,
};

/** The most that a room may have now: a tenth more and 50 bytes, so that a fix has room and a feature is noticed. */
export function roomLimit(room: string): number {
  return Math.floor((roomBytes[room] ?? 0) * 1.1) + 50;
}
