import type { Driver, StartOptions, TestBoard } from "../test/drivers/types";
import { scriptedModel, type Turn } from "../test/fixtures/scripted-model";

/** How exact the search is, in variables. */
const STEP = 8;

/** Characters of a string that fit into one more variable of 14 bytes. */
const CHARACTERS = 10;

/** Real milliseconds for one try; a board that ran out of memory says nothing more. */
const TRY_MS = 8_000;

export interface PeakRun {
  settings?: StartOptions["settings"];
  files?: StartOptions["files"];
  card?: StartOptions["card"];
  /** What the model does after power-up, in order: for `prepare`, then for each try of `run`. */
  turns: () => Turn[];
  /** What happens before it is measured: tools registered, a history filled. */
  prepare(board: TestBoard): Promise<void>;
  turnsOfRun: () => Turn[];
  /** What is measured. Throws, or never settles, where it did not go well. */
  run(board: TestBoard): Promise<void>;
}

export interface Peak {
  /** Variables in use before the run. */
  idle: number;
  /** The fewest free variables with which the run went well. */
  needed: number;
}

interface Prepared {
  board: TestBoard;
  queue: Turn[];
}

/** The board's own measure of memory, under another name: the agent gets a stand-in that always says "enough". */
const TAKE_MEASURE =
  'var _m=process.memory;process.memory=function(){return{free:9999,usage:1,total:9999,blocksize:14}};var _b="";';

async function free(board: TestBoard): Promise<number> {
  return Number(/=(\d+)/.exec(await board.runLine("_m().free"))![1]);
}

async function prepare(driver: Driver, peak: PeakRun): Promise<Prepared> {
  const queue = peak.turns();
  const model = scriptedModel(() => queue.shift()!);
  const board = await driver.start({ model, observe: false, settings: peak.settings, files: peak.files, card: peak.card });
  await peak.prepare(board);
  await board.runLine(TAKE_MEASURE);
  return { board, queue };
}

/** Leaves `wanted` variables free, more or less; returns how many there are. */
async function fill(board: TestBoard, wanted: number): Promise<number> {
  await board.runLine('_b=""');
  const size = ((await free(board)) - wanted) * CHARACTERS;
  if (size > 0) await board.runLine(`_b="".padEnd(${size})`);
  return free(board);
}

async function goesWell({ board, queue }: Prepared, peak: PeakRun): Promise<boolean> {
  queue.push(...peak.turnsOfRun());
  const late = new Promise<never>((_, reject) => setTimeout(() => reject(new Error("too late")), TRY_MS).unref());
  const from = board.output().length;
  try {
    await Promise.race([peak.run(board), late]);
    return queue.length === 0 && !board.output().slice(from).includes("OUT OF MEMORY");
  } catch {
    return false;
  }
}

/**
 * How many free variables a run needs: the fewest with which it goes well, found by bisection with a string that takes
 * up the others. The interpreter collects garbage by itself when it runs short, so nothing that could be collected
 * counts, and nothing that is needed is missed, however short it lives. It works on every interpreter with a fixed
 * number of variables. Exact to `STEP` variables.
 */
export async function findPeak(driver: Driver, peak: PeakRun): Promise<Peak> {
  let one = await prepare(driver, peak);
  try {
    // The first use of a built-in class keeps variables for good: that is no peak.
    if (!(await goesWell(one, peak)))
      throw new Error(`the run fails with all memory:\n${one.board.output().slice(-800)}`);
    const most = await free(one.board);
    const idle = (await memoryTotal(one.board)) - most;
    let good = most;
    let bad = 0;
    while (good - bad > STEP) {
      const is = await fill(one.board, (good + bad) >> 1);
      if (is >= good || is <= bad) break;
      if (await goesWell(one, peak)) good = is;
      else {
        bad = is;
        await one.board.stop().catch(() => undefined);
        one = await prepare(driver, peak);
        await goesWell(one, peak);
      }
    }
    return { idle, needed: good };
  } finally {
    await one.board.stop().catch(() => undefined);
  }
}

async function memoryTotal(board: TestBoard): Promise<number> {
  return Number(/=(\d+)/.exec(await board.runLine("_m().total"))![1]);
}
