import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Driver, TestBoard } from "../test/drivers/types";
import { scriptedModel, text, toolCall, type Turn } from "../test/fixtures/scripted-model";
import { budgets } from "./budgets";
import { ask, conversation, type Prompt, PROMPT, streams } from "./exchange";
import { findPeak, type PeakRun } from "./peak";
import { type Figure, type Section, tell } from "./report";
import { deepestStack, hasValgrind } from "./valgrind";

/** The recorded stream that is longest. */
const LONG = "openai.openai-text";

/** Prompts until the history is full and everything that is used has been used once. */
const WARM_UP = 10;

async function askWell(board: TestBoard, prompt: Prompt): Promise<void> {
  const reason = await ask(board, prompt);
  if (reason !== "done") throw new Error(`a run ended with ${reason}:\n${board.output().slice(-800)}`);
}

const repeat = (times: number): Turn[] => Array.from({ length: times }, () => conversation).flat();

/** Prompts asked on a board that is warm, and the most that stayed of them: 0 means no growth. */
export async function growth(board: TestBoard, queue: Turn[], prompts: number): Promise<number> {
  const usages: number[] = [];
  for (let i = 0; i < WARM_UP + prompts; i++) {
    queue.push(...conversation);
    await askWell(board, PROMPT);
    if (i >= WARM_UP / 2) usages.push((await board.memory()).usage);
  }
  const before = usages.splice(0, WARM_UP / 2);
  return Math.max(...usages) - Math.max(...before);
}

/** Figures at rest: after boot, init_tools, the first prompts, 100 and `prompts` more, and cleanup. */
export async function restSection(driver: Driver, prompts: number): Promise<{ section: Section; comparable: boolean }> {
  const queue: Turn[] = [];
  const board = await driver.start({ model: scriptedModel(() => queue.shift()!), observe: false });
  try {
    const usage = async (): Promise<number> => (await board.memory()).usage;
    const { total, blocksize } = await board.memory();
    const figures: Figure[] = [
      { name: "after boot", value: await usage(), unit: "variables", goal: budgets.boot.goal },
    ];
    const ready = await board.runLine("init_tools");
    const tools = Number(/(\d+) tools ready/.exec(ready)![1]);
    const opened = await usage();
    figures.push({ name: `after init_tools (${tools} tools)`, value: opened, unit: "variables" });
    await board.runLine("var _h=new Uint8Array(4096)");
    const buffer = (await usage()) - opened;
    await board.runLine("_h=undefined;delete _h");
    figures.push({
      name: "… a tool at rest",
      value: (opened - figures[0]!.value! - buffer) / tools,
      unit: "variables",
      goal: budgets.tool.goal,
      note: `the history is ${buffer}`,
    });
    queue.push(text("hello"));
    await askWell(board, "hello");
    figures.push({
      name: "idle after the first prompt",
      value: await usage(),
      unit: "variables",
      goal: budgets.idle.goal,
      note: "all tools, a history of 4 kB",
    });
    figures.push({ name: "idle in chat mode", value: await usageInChat(board), unit: "variables" });
    queue.push(...repeat(WARM_UP));
    for (let i = 0; i < WARM_UP; i++) await askWell(board, PROMPT);
    const before = await usage();
    for (let done = 0; done < prompts;) {
      const next = Math.min(done < 100 ? 100 : prompts, prompts);
      tell(`  ${next} prompts`);
      while (done < next) {
        queue.push(...conversation);
        await askWell(board, PROMPT);
        done++;
      }
      figures.push({
        name: `growth over ${next} prompts`,
        value: (await usage()) - before,
        unit: "variables",
        goal: budgets.growth.goal,
        note: `${before} after ${WARM_UP}`,
      });
    }
    await board.runLine("cleanup_agent");
    figures.push({ name: "after cleanup_agent", value: await usage(), unit: "variables" });
    const comparable = board.memoryKind === "esp32";
    // Goals are for a board.
    if (!comparable) for (const figure of figures) delete figure.goal;
    const doubt = comparable ? "" : ": not comparable with a board";
    const title = `Memory at rest (of ${total} variables of ${blocksize} bytes${doubt})`;
    return { section: { title, figures }, comparable };
  } finally {
    await board.stop();
  }
}

/** Milliseconds after which the board looks for itself. */
const LOOK_MS = 1500;

/** In chat mode nothing can be typed at the interpreter: a timer on the board looks, and what it costs is taken off. */
async function usageInChat(board: TestBoard): Promise<number> {
  const look = async (isChat: boolean): Promise<number> => {
    await board.runLine(`var _u=0;setTimeout(function(){_u=process.memory().usage},${LOOK_MS})`);
    if (isChat) await board.enterChat();
    await board.advance(LOOK_MS + 500);
    if (isChat) {
      board.type("\x04");
      await board.expectOutput(/\n>+$/);
    }
    return Number(/=(\d+)/.exec(await board.runLine("_u"))![1]);
  };
  const inChat = await look(true);
  return (await board.memory()).usage + inChat - (await look(false));
}

async function warm(board: TestBoard): Promise<void> {
  await board.runLine("init_tools");
  for (let i = 0; i < 4; i++) await askWell(board, PROMPT);
}

export interface PeakCase {
  name: string;
  run: PeakRun;
  goal?: number;
}

/** The two-tool turn, as `memory.test.ts` and the budgets judge it. */
export const twoTools: PeakRun = {
  turns: () => repeat(4),
  prepare: warm,
  turnsOfRun: () => [...conversation],
  run: (board) => askWell(board, PROMPT),
};

/** The main agent hands a task on, and the sub-agent calls a tool for it. */
const delegation: Turn[] = [
  toolCall("board_agent", { task: "Turn the lamp on." }, { id: "call_c" }),
  toolCall("gpio_write", { pin: 2, value: 1 }, { id: "call_d" }),
  text("The lamp is on."),
  text("It is on."),
];

const subAgent: PeakRun = {
  settings: { mode: "deep" },
  turns: () => [...delegation, ...delegation],
  async prepare(board) {
    await board.runLine("init_tools");
    for (let i = 0; i < 2; i++) await askWell(board, PROMPT);
  },
  turnsOfRun: () => [...delegation],
  run: (board) => askWell(board, PROMPT),
};

/** A picture that is larger than all memory of the board. */
const PICTURE_BYTES = 300_000;

function pictureRun(prepare: (board: TestBoard) => Promise<void>): PeakRun {
  const answer = text("A lamp.");
  return {
    settings: { multimodal: true },
    card: { "lamp.jpg": Buffer.alloc(PICTURE_BYTES, 0xff) },
    turns: () => Array.from({ length: 4 }, () => answer),
    async prepare(board) {
      await prepare(board);
      await board.runLine("init_tools");
      for (let i = 0; i < 4; i++) await askWell(board, PROMPT);
    },
    turnsOfRun: () => [answer],
    async run(board) {
      // Or the second time it would be known at the file server.
      await board.runLine("clear_history");
      await askWell(board, { text: "What is this?", files: ["sd:lamp.jpg"] });
    },
  };
}

/** A turn to compare others with. */
const textRun: PeakRun = {
  ...pictureRun(async () => undefined),
  async run(board) {
    await board.runLine("clear_history");
    await askWell(board, "What is this?");
  },
};

/** Takes every upload, and forgets it. */
async function useFileServer(board: TestBoard): Promise<void> {
  const server = createServer((request, response) => {
    request.resume().on("end", () => response.end('{"code":0,"data":{"file_id":"f-1"}}'));
  }).unref();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await board.runLine(`set_config({uploadUrl:"http://127.0.0.1:${port}/upload"})`);
}

/** What peaks are measured of. Another room's comes here as another case. */
export function peakCases(): PeakCase[] {
  const cases: PeakCase[] = [
    { name: "two-tool turn", run: twoTools, goal: budgets.peak.goal },
    { name: "turn with text alone", run: textRun },
    { name: "turn with a picture of 300 kB in its request", run: pictureRun(async () => undefined) },
    { name: "turn with an upload of 300 kB", run: pictureRun(useFileServer) },
    { name: "sub-agent with a tool", run: subAgent },
  ];
  const long = streams().find((stream) => stream.name === LONG);
  if (long) {
    const run: PeakRun = { ...twoTools, turnsOfRun: () => [long.turn], run: (board) => askWell(board, "long") };
    cases.push({ name: `stream of ${Math.round(long.bytes.length / 1000)} kB`, run });
  }
  return cases;
}

/** Whether the interpreter has a fixed number of variables, of a board's size. */
export async function isLikeBoard(driver: Driver): Promise<boolean> {
  const board = await driver.start({ model: scriptedModel([]), observe: false });
  const { memoryKind } = board;
  await board.stop();
  return memoryKind === "esp32";
}

export async function peakSection(driver: Driver): Promise<Section> {
  const title = "Memory at the peak (the fewest free variables with which it goes well)";
  const figures: Figure[] = [];
  if (!(await isLikeBoard(driver))) {
    const note = "not measured: this interpreter's memory is not like a board's";
    return { title, figures: peakCases().map(({ name }) => ({ name, unit: "variables above idle", note })) };
  }
  for (const { name, run, goal } of peakCases()) {
    tell(`  peak of ${name}`);
    const { idle, needed } = await findPeak(driver, run);
    figures.push({ name, value: needed, unit: "variables above idle", goal, note: `${idle + needed} in all` });
  }
  return { title, figures };
}

/** Plain recursive calls by which stack is told: their slope is bytes per call. */
const DEPTHS = [14, 22];

/** The deepest path in bytes of this interpreter's stack, and in plain calls, which every board has another size of. */
export async function stackSection(binary: string): Promise<Section> {
  const title = "Stack";
  if (!hasValgrind()) {
    return {
      title,
      figures: [{ name: "deepest call path", unit: "bytes", note: "not measured: valgrind is not installed" }],
    };
  }
  const calls = async (depth: number): Promise<number> =>
    deepestStack(binary, { model: scriptedModel([]) }, async (board) => {
      await board.runLine("function f(n){if(n)f(n-1)}", { giveUpMs: 60_000 });
      await board.runLine(`f(${depth})`, { giveUpMs: 60_000 });
    });
  const [less, more] = [await calls(DEPTHS[0]!), await calls(DEPTHS[1]!)];
  const perCall = (more - less) / (DEPTHS[1]! - DEPTHS[0]!);
  const rest = less - perCall * DEPTHS[0]!;
  const deepest = await deepestStack(binary, { model: scriptedModel([...conversation]) }, async (board) => {
    await board.runLine("init_tools", { giveUpMs: 60_000 });
    await ask(board, PROMPT, 120_000);
  });
  return {
    title: "Stack (of this build of the interpreter; other machines' frames have another size)",
    figures: [
      { name: "deepest call path of a two-tool run", value: deepest - rest, unit: "bytes" },
      {
        name: "… in plain recursive calls",
        value: (deepest - rest) / perCall,
        unit: "calls",
        goal: budgets.stackCalls.goal,
        note: `${perCall} bytes each; an ESP32 has room for about 26, an ESP32-C3 for 15`,
      },
    ],
  };
}
