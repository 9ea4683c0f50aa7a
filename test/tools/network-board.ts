import type { RequestHandler } from "msw";
import { setupServer } from "msw/node";
import type { ToolResult } from "../../firmware/types";
import { type BoardOptions, createBoard } from "../../host-sim/board";
import { createManualClock, type ManualClock } from "../../host-sim/clock";
import { decodeStrings, toBytes } from "../drivers/bytes";
import { boardScript } from "../fixtures/board-script";

/** What the board runs: rooms of the firmware, and words for the test to reach them by. */
const contents = `
  import { wrapMain, picksMain } from "./firmware/agents";
  import { createCaller } from "./firmware/caller";
  import { openSettings } from "./firmware/config";
  import { openSource } from "./firmware/disk";
  import { freePath, openSink } from "./firmware/sink";
  import { fetchText } from "./firmware/fetch";
  import { messageLog } from "./firmware/message-log";
  import { editRegistry } from "./firmware/registry";
  global.session = { tools: { count: 0 }, lastCallId: 0, wrap: wrapMain, emit: function () {} };
  global.messageLog = messageLog;
  global.fetchText = fetchText;
  global.freePath = freePath;
  global.openSink = openSink;
  global.openSource = openSource;
  global.start = function () {
    const problem = openSettings().load();
    if (problem) print(problem);
    editRegistry(session.tools).init(picksMain);
  };
  global.tell = function (id, promise) {
    promise.then(function (value) { E.emit("told", id, true, value === undefined ? "null" : JSON.stringify(value)); },
      function (e) { E.emit("told", id, false, JSON.stringify(e.message || String(e))); });
  };
  global.callTool = function (name, args) {
    return new Promise(function (resolve) {
      createCaller(session).call({ id: "x", name: name, arguments: args }, resolve);
    });
  };
`;

const script = await boardScript(contents);

/** How far the board's clock moves in one turn of Node's event loop, in ms: while I/O settles, time hardly passes. */
const TURN_MS = 1;
/** The same while nothing but time is waited for. */
const WAIT_MS = 100;
/** Turns after which a test is stuck. */
const MOST_TURNS = 20_000;

/**
 * All tools on a simulated board whose network is msw's. Settings are the board's `agent.json`. `hardware` is what the board
 * has besides. To be closed.
 */
export function networkBoard(
  handlers: RequestHandler[],
  settings: Record<string, unknown>,
  files: Record<string, string | Uint8Array> = {},
  hardware: (clock: ManualClock) => Partial<BoardOptions> = () => ({}),
) {
  const clock = createManualClock();
  const unhandled: string[] = [];
  const server = setupServer(...handlers);
  server.listen({
    onUnhandledRequest(request) {
      unhandled.push(`${request.method} ${request.url}`);
      throw new Error("nobody serves this");
    },
  });
  const board = createBoard({ clock, timeAtBootMs: Date.UTC(2026, 10, 30, 10, 20), ...hardware(clock) });
  let output = "";
  board.console.onData((bytes) => (output += bytes));
  const all = { agent: script, "agent.json": JSON.stringify(settings), ...files, ".bootcde": 'require("agent")' };
  for (const [name, content] of Object.entries(all)) {
    const bytes = typeof content === "string" ? toBytes(content) : Buffer.from(content).toString("latin1");
    if (!board.storage.api.write(name, bytes)) throw new Error(`Storage.write of ${name} failed`);
  }
  board.boot();
  board.evaluate("start()");
  let lastId = 0;
  const told = new Map<number, { ok: boolean; value: unknown }>();
  board.onEvent("told", (id: number, ok: boolean, json: string) => told.set(id, { ok, value: decodeStrings(JSON.parse(json)) }));

  /** Runs an expression that gives a promise, until that settles; time passes in steps of `stepMs` meanwhile. */
  async function settle<T>(expression: string, stepMs = TURN_MS): Promise<T> {
    const id = ++lastId;
    board.evaluate(toBytes(`tell(${id},${expression})`));
    for (let turn = 0; !told.has(id); turn++) {
      if (turn > MOST_TURNS) throw new Error(`${expression} does not end\n${output}`);
      clock.advance(stepMs);
      await new Promise((resolve) => setImmediate(resolve));
    }
    const { ok, value } = told.get(id)!;
    if (!ok) throw new Error(String(value));
    return value as T;
  }

  return {
    board,
    clock,
    settle,
    unhandled,
    /** What the board printed. */
    output: () => output,
    /** Calls a tool as the loop does, with its processors. */
    call: (name: string, args: unknown, stepMs?: number) =>
      settle<ToolResult>(`callTool(${JSON.stringify(name)},${JSON.stringify(JSON.stringify(args))})`, stepMs),
    /** Names of the tools that are registered. */
    tools(): string[] {
      return String(board.evaluate('var n="";for(var o=session.tools.first;o;o=o.next)n+=o.name+",";n')).split(",").filter(Boolean);
    },
    /** Connections and timers that are still there. */
    pending: () => clock.pending(),
    close(): void {
      board.stop();
      server.close();
    },
  };
}

/** For what takes its time. */
export const SLOW = WAIT_MS;
