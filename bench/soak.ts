import fc from "fast-check";
import type { AgentEvent } from "../firmware/types";
import { type Driver, defaultSettings, type TestBoard } from "../test/drivers/types";
import {
  hang,
  held,
  raw,
  type RecordedRequest,
  reply,
  reset,
  scriptedModel,
  type ScriptedModel,
  streamEvents,
  text,
  toolCall,
  type Turn,
} from "../test/fixtures/scripted-model";

/** What a server, or a person, can do to a run. */
const FAULTS = [
  "reset",
  "resetBefore",
  "hang",
  "hangBefore",
  "cutChunk",
  "cut",
  "401",
  "429",
  "503",
  "html",
  "singleBytes",
  "longLine",
  "junk",
  "abort",
  "busy",
  "wifi",
] as const;

/** Those after which the run still has to end with its answer, however often they come. */
const HARMLESS: readonly string[] = ["singleBytes", "busy"];

export interface Fault {
  kind: (typeof FAULTS)[number];
  /** Which request of the run it strikes. */
  stage: number;
  /** Where in the reply, from 0 to 1. */
  at: number;
  /** It strikes every attempt, not only the first. */
  lasting: boolean;
}

export interface Step {
  prompt: string;
  /** Turns with tool calls, before the answer. */
  turns: { name: string; args: Record<string, unknown> }[][];
  answer: string;
  fault?: Fault;
  /** What happens after the run. */
  after?: "clear" | "cleanup" | "save" | "powerCut" | "chat";
}

const words = fc.array(
  fc.constantFrom("the", "lamp", "is", "on", "now", "and", "café", "灯", "🙂", "it’s", "42", "\n"),
  {
    minLength: 1,
    maxLength: 40,
  },
);

const call = fc.oneof(
  fc
    .record({ a: fc.integer({ min: -999, max: 999 }), b: fc.integer({ min: -999, max: 999 }) })
    .map((args) => ({ name: "add", args })),
  fc
    .record({ pin: fc.constantFrom(2, 4, 5), value: fc.constantFrom(0, 1) })
    .map((args) => ({ name: "gpio_write", args })),
  fc.record({ text: words.map((list) => list.join(" ")) }).map((args) => ({ name: "word_count", args })),
  fc.record({ path: fc.constantFrom("note.txt", "missing.txt") }).map((args) => ({ name: "read_file", args })),
  fc.constant({ name: "no_such_tool", args: { x: 1 } }),
);

/** From 0 to 1, every value as likely. */
const share = fc.noBias(fc.nat(999)).map((thousandths) => thousandths / 1000);

function stepWith(faults: number, isSim: boolean): fc.Arbitrary<Step> {
  const kinds = FAULTS.filter((kind) => kind !== "wifi" || isSim);
  return fc
    .record({
      words,
      turns: fc.array(fc.array(call, { minLength: 1, maxLength: 3 }), { maxLength: 2 }),
      answer: words,
      chance: share,
      kind: fc.constantFrom(...kinds),
      stage: fc.nat(2),
      at: share,
      lasting: fc.boolean(),
      then: fc.noBias(fc.nat(99)),
    })
    .map(({ words: prompt, turns, answer, chance, kind, stage, at, lasting, then }): Step => {
      const after =
        then === 0
          ? "powerCut"
          : then < 3
            ? "cleanup"
            : then < 5
              ? "save"
              : then < 8
                ? "clear"
                : then < 9
                  ? "chat"
                  : undefined;
      const fault = chance < faults ? { kind, stage: Math.min(stage, turns.length), at, lasting } : undefined;
      const said = answer.join(" ").trim() || "done";
      return { prompt: prompt.join(" ").replaceAll("\n", " ").trim() || "hello", turns, answer: said, fault, after };
    });
}

/** The steps of a seed: those of fewer prompts are the first of those of more. */
export function planSteps(seed: number, prompts: number, faults: number, isSim: boolean): Step[] {
  return fc.sample(stepWith(faults, isSim), { seed, numRuns: prompts });
}

/** How the soak went. */
export interface Summary {
  prompts: number;
  answers: number;
  /** Runs that ended with a message, by its beginning. */
  errors: Record<string, number>;
  aborted: number;
  faults: number;
  powerCuts: number;
  /** Requests that broke a rule of the API: such a history would be refused by a real server. */
  brokenHistories: number;
  /** Variables in use with an empty history. */
  memoryStart: number;
  memoryEnd: number;
}

export class SoakFailure extends Error {
  constructor(
    readonly index: number,
    readonly step: Step,
    reason: string,
  ) {
    super(reason);
  }
}

const TROUBLE =
  /Uncaught (?!InternalError: Unable)|interpreter error|OUT OF MEMORY|Interrupted|Stack overflow|ERROR:(?! Connect f)/;

/** What stays on an interpreter of the built-in functions that are used for the first time when something fails. */
const FIRST_USE_VARIABLES = 60;

/** Characters by which messages are told apart: what follows is of the one run. */
const MESSAGE_LENGTH = 64;

/** Prompts until most of what can happen has happened once. */
const SETTLING = 40;

/** A server closes connections that a board has given up: that is no fault of the board's. */
const CUT_REQUEST = /^server: (aborted|the request is malformed: (Parse Error at ""|write EPIPE|read ECONNRESET).*)$/;

interface Server {
  turns: (request: RecordedRequest) => Turn;
  begin(index: number, step: Step, board: TestBoard): void;
}

/** The model of a soak: it does what the step says, and what the step's fault does to it. */
function faultyServer(): Server {
  let index = 0;
  let step: Step;
  let board: TestBoard;
  let struck = 0;

  /** Which turn of the run it is: the ids of its calls say so, whatever the history has dropped. */
  function stageOf({ json }: RecordedRequest): number {
    const [, of, stage] = /^call_(\d+)_(\d+)_/.exec(json.messages.at(-1)!.tool_call_id ?? "") ?? [];
    return Number(of) === index ? Number(stage) + 1 : 0;
  }

  function streamOf(stage: number): string[] {
    const calls = step.turns[stage];
    if (!calls) return streamEvents([text(...(step.answer.match(/[^]{1,7}/gu) ?? []))], () => "");
    const parts = calls.map(({ name, args }, i) => toolCall(name, args, { id: `call_${index}_${stage}_${i}` }));
    return streamEvents(parts, () => "");
  }

  function strike({ kind, at }: Fault, stage: number): Turn {
    const events = streamOf(stage);
    const bytes = Buffer.from(events.join(""));
    const place = Math.floor(at * bytes.length);
    const [before, rest] = [bytes.subarray(0, place), bytes.subarray(place)];
    const act = (typed: string) => raw([before, () => board.type(typed), rest]);
    switch (kind) {
      case "reset":
        return reset([before]);
      case "resetBefore":
        return reset();
      case "hang":
        return hang([before]);
      case "hangBefore":
        return hang();
      case "cutChunk":
        return raw([before], "cutChunk");
      case "cut":
        return raw([before]);
      case "401":
        return reply(401, { error: { message: "Incorrect API key provided", code: "invalid_api_key" } });
      case "429":
        return reply(429, { error: { message: "slow down" } }, { "retry-after": "1" });
      case "503":
        return reply(503, "upstream unavailable");
      case "html":
        return reply(200, "<html><body>Sign in to the hotel's network</body></html>", { "content-type": "text/html" });
      case "singleBytes":
        return raw([...bytes.subarray(0, 400)].map((byte) => Uint8Array.of(byte)).concat([bytes.subarray(400)]));
      case "longLine":
        return raw([`data: {"choices":[{"delta":{"content":"${"x".repeat(6000)}"}}]}\n\n`, bytes]);
      case "junk":
        return raw([
          before.subarray(0, events[0]!.length),
          "\ndata: {nonsense\n\n\xff\x00: ?\n\n",
          bytes.subarray(events[0]!.length),
        ]);
      case "abort":
        return act("abort()\n");
      case "busy":
        return act('ask("me too")\n');
      case "wifi":
        return at < 0.5
          ? held(() => Promise.resolve(board.type('require("Wifi").disconnect()\n')), raw([bytes]))
          : act('require("Wifi").disconnect()\n');
    }
  }

  return {
    turns(request) {
      const stage = stageOf(request);
      const { fault } = step;
      if (fault?.stage === stage && (fault.lasting || !struck)) {
        struck++;
        return strike(fault, stage);
      }
      return raw(streamOf(stage));
    },
    begin(at, one, on) {
      [index, step, board] = [at, one, on];
      struck = 0;
    },
  };
}

type Final = Extract<AgentEvent, { type: "final" }>;

/** The end of the run, and not of a second prompt that was refused while it went on. */
const isOwnEnd = (event: AgentEvent): event is Final => event.type === "final" && !event.message?.startsWith("busy");

export interface SoakOptions {
  driver: Driver;
  /** The steps, and where the first of them stands in its seed's. */
  steps: Step[];
  first?: number;
  onProgress?: (done: number, summary: Summary) => void;
}

/** Runs the steps. Throws `SoakFailure` at the first that did not go as it should. */
export async function soak({ driver, steps, first = 0, onProgress }: SoakOptions): Promise<Summary> {
  const server = faultyServer();
  const model: ScriptedModel = scriptedModel(server.turns);
  const summary: Summary = {
    prompts: 0,
    answers: 0,
    errors: {},
    aborted: 0,
    faults: 0,
    powerCuts: 0,
    brokenHistories: 0,
    memoryStart: 0,
    memoryEnd: 0,
  };
  const settings = { retries: 1, retryBudgetMs: 3000, idleTimeoutMs: driver.name === "sim" ? 700 : 1500 };
  const files: Record<string, string> = { "note.txt": "a line of a note\n".repeat(30) };
  const start = (): Promise<TestBoard> => driver.start({ model, settings, files });
  let board = await start();
  let checked = 0;

  async function runOf(step: Step): Promise<AgentEvent[]> {
    const from = board.events().length;
    await board.ask(step.prompt, { giveUpMs: 60_000 });
    // The second prompt of "busy" has an end of its own.
    const since = (): AgentEvent[] => board.events().slice(from);
    await board.waitUntil(() => since().some(isOwnEnd), { giveUpMs: 60_000 });
    return since();
  }

  /** What is wrong with how a step went; "" if nothing is. */
  function judge(step: Step, events: AgentEvent[]): string {
    const ends = events.filter(isOwnEnd);
    if (ends.length !== 1) return `${ends.length} final events: ${JSON.stringify(ends)}`;
    const final = ends[0]!;
    if (final.isError || final.message) {
      const message = final.message ?? "";
      if (final.stopReason === "aborted") summary.aborted++;
      else
        summary.errors[message.slice(0, MESSAGE_LENGTH)] = (summary.errors[message.slice(0, MESSAGE_LENGTH)] ?? 0) + 1;
      if (!/\w{3}/.test(message)) return `an error without words: ${JSON.stringify(final)}`;
      if (!step.fault) return `no fault, and an error: ${message}`;
      if (HARMLESS.includes(step.fault.kind)) return `${step.fault.kind} does no harm, and an error: ${message}`;
      return "";
    }
    summary.answers++;
    if (!step.fault && final.text !== step.answer) return `the answer is ${JSON.stringify(final.text)}`;
    for (const end of events.filter((event) => event.type === "toolEnd")) {
      const known =
        end.name !== "no_such_tool" && !end.content.includes("missing.txt") && !end.content.includes("already");
      if (known && end.isError && !step.fault) return `tool ${end.name} failed: ${end.content}`;
    }
    return "";
  }

  /** What is wrong with the board and its requests since the last look. */
  function trouble(): string {
    model.problems.splice(0, model.problems.length, ...model.problems.filter((problem) => !CUT_REQUEST.test(problem)));
    if (model.problems.length) {
      summary.brokenHistories += model.problems.length;
      return `a request breaks the rules: ${model.problems[0]}`;
    }
    const output = board.output();
    const line = output
      .slice(checked)
      .split("\n")
      .find((one) => TROUBLE.test(one));
    if (output.includes(defaultSettings.apiKey)) return "the API key is in the output";
    checked = output.length;
    return line ? `unhandled on the board: ${line}` : "";
  }

  async function reconnect(): Promise<void> {
    await board.runLine('require("Wifi").connect("espruino-sim",{},function(){})');
    await board.advance(5000);
  }

  async function afterwards(step: Step): Promise<void> {
    if (step.fault?.kind === "wifi") await reconnect();
    if (step.after === "clear") await board.runLine("clear_history");
    else if (step.after === "cleanup") await board.runLine("cleanup_agent");
    else if (step.after === "save") await board.runLine("session_save");
    else if (step.after === "chat") {
      await board.enterChat();
      board.type("\x04");
      await board.expectOutput(/\n>+$/);
    } else if (step.after === "powerCut") {
      summary.powerCuts++;
      await board.stop();
      board = await start();
      checked = 0;
    }
  }

  /** With an empty history and every tool, so that it is the same however the last run went. */
  async function memory(): Promise<number> {
    await board.runLine("init_tools");
    await board.runLine("clear_history");
    return (await board.memory()).usage;
  }

  try {
    for (const [i, step] of steps.entries()) {
      const index = first + i;
      const fail = (reason: string): never => {
        throw new SoakFailure(index, step, reason);
      };
      try {
        server.begin(index, step, board);
        if (step.fault) summary.faults++;
        const events = await runOf(step);
        summary.prompts++;
        const wrong = judge(step, events) || trouble();
        if (wrong) fail(wrong);
        await afterwards(step);
        const late = trouble();
        if (late) fail(late);
        if (i === Math.min(SETTLING, steps.length - 1)) summary.memoryStart = await memory();
      } catch (error) {
        if (error instanceof SoakFailure) throw error;
        fail((error as Error).message);
      }
      onProgress?.(i + 1, summary);
    }
    summary.memoryEnd = await memory();
    const grown = summary.memoryEnd - summary.memoryStart;
    if (board.memoryKind !== "other" && grown > FIRST_USE_VARIABLES) {
      throw new SoakFailure(first + steps.length - 1, steps.at(-1)!, `memory grew by ${grown} variables`);
    }
    return summary;
  } finally {
    await board.stop().catch(() => undefined);
  }
}
