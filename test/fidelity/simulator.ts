/** Runs a probe on the simulated board. */
import { createBoard } from "../../host-sim/board";
import { createManualClock } from "../../host-sim/clock";
import type { TestServer } from "./test-server";
import { fillPorts, isOver, type Probe, settle } from "./transcript";

const NOW_MS = Date.UTC(2026, 0, 1);
const GIVE_UP_MS = 10_000;

/** What the console shows from the prompt on that the first line is typed at. A board of its own for each probe. */
export const runOnSimulator = async (probe: Probe, server: TestServer): Promise<string> => {
  const clock = createManualClock();
  const board = createBoard({ clock, timeAtBootMs: NOW_MS });
  let output = "";
  try {
    board.boot();
    board.console.onData((bytes) => {
      output += bytes;
    });
    for (const line of probe.input) {
      board.console.write(`${fillPorts(line, server)}\n`);
      clock.advance(probe.waitMs);
    }
    const giveUpAt = Date.now() + GIVE_UP_MS;
    while (!isOver(probe, output) && Date.now() < giveUpAt) {
      await new Promise((resolve) => setImmediate(resolve));
      clock.advance(1);
    }
  } finally {
    board.stop();
  }
  return settle(probe, `>${output}`, server);
};
