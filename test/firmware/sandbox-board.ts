import type { Ran } from "../../firmware/sandbox";
import type { ToolResult } from "../../firmware/types";
import { createBoard } from "../../host-sim/board";
import { createManualClock } from "../../host-sim/clock";
import { decodeStrings, toBytes } from "../drivers/bytes";
import { boardScript } from "../fixtures/board-script";

/** What the board runs: rooms of the firmware, and words for the test to reach them by. */
const contents = `
  import { picksMain, wrapMain } from "./firmware/agents";
  import { createCaller } from "./firmware/caller";
  import { openSettings } from "./firmware/config";
  import { guardCode } from "./firmware/guard";
  import { editRegistry, load } from "./firmware/registry";
  import { openSandbox } from "./firmware/sandbox";
  import { savedTools } from "./firmware/saved-tools";
  global.session = { tools: { count: 0 }, lastCallId: 0, wrap: wrapMain, emit: function () {} };
  global.saved = savedTools();
  global.sandbox = openSandbox();
  global.journal = function () { return sandbox.journal(); };
  global.editRegistry = editRegistry;
  global.editor = function () { return editRegistry(session.tools); };
  global.start = function () {
    openSettings().load();
    editor().init(picksMain);
  };
  global.tools = function () {
    const list = [];
    for (let node = session.tools.first; node; node = node.next) {
      const origin = load(node).origin;
      list.push(node.name + (origin ? ": " + origin : ""));
    }
    return list;
  };
  global.tell = function (id, value) { E.emit("told", id, JSON.stringify(value)); };
  global.runCode = function (id, what, code, args) {
    const guarded = guardCode(code);
    if (guarded.problem) return tell(id, { problem: guarded.problem });
    sandbox.run(what, guarded.code, args).then(function (ran) { tell(id, ran); });
  };
  global.callTool = function (id, name, args) {
    createCaller(session).call({ id: "x", name: name, arguments: args }, function (result) { tell(id, result); });
  };
`;

const script = await boardScript(contents, { minify: true });

/** Milliseconds of the board's after which a test is stuck. */
const MOST_MS = 30_000;

export interface SandboxBoardOptions {
  settings?: Record<string, unknown>;
  /** Files of the Storage, bytes as characters. */
  files?: Record<string, string>;
  /** Bytes of the Storage, a multiple of 4096. */
  storageBytes?: number;
}

/** A simulated board with the rooms that run code. Values come back as JSON carries them. */
export async function plugInSandbox(options: SandboxBoardOptions = {}) {
  const { createStorage } = await import("../../host-sim/storage");
  const clock = createManualClock();
  const storage = createStorage({ capacity: options.storageBytes });
  const board = createBoard({ clock, storage });
  const told = new Map<number, unknown>();
  let printed = "";
  let lastId = 0;
  board.console.onData((bytes) => (printed += bytes));
  board.onEvent("told", (id: number, json: string) => told.set(id, decodeStrings(JSON.parse(json))));
  const settings = JSON.stringify({ allowJs: true, apiKey: "sk-sandbox-0123456789", ...options.settings });
  const files = {
    "agent.json": toBytes(settings),
    agent: script,
    ...options.files,
    ".bootcde": 'require("agent");start()',
  };
  for (const [name, content] of Object.entries(files)) storage.api.write(name, content);
  board.boot();

  async function wait(line: (id: number) => string): Promise<any> {
    const id = ++lastId;
    board.evaluate(line(id));
    for (let ms = 0; !told.has(id) && ms < MOST_MS; ms++) clock.advance(1);
    if (!told.has(id)) throw new Error(`nothing came of it; the board printed ${printed.slice(-1000)}`);
    return told.get(id);
  }

  return {
    clock,
    storage: storage.api,
    printed: () => printed,
    /** The JSON value of an expression. */
    value: (expression: string): any => JSON.parse(String(board.evaluate(toBytes(`JSON.stringify(${expression})`)))),
    /** Guards code and runs it; `what` goes into the journal. */
    run: (code: string, args?: unknown, what = ""): Promise<Ran & { problem?: string }> =>
      wait((id) =>
        toBytes(
          `runCode(${id},${JSON.stringify(what)},${JSON.stringify(code)},${JSON.stringify(args) ?? "undefined"})`,
        ),
      ),
    /** Calls a tool with all that stands around it. */
    call: (name: string, args: unknown): Promise<ToolResult> =>
      wait((id) => toBytes(`callTool(${id},${JSON.stringify(name)},${JSON.stringify(JSON.stringify(args))})`)),
    /** The registered tools, saved ones with their origin. */
    tools: (): string[] => JSON.parse(String(board.evaluate("JSON.stringify(tools())"))),
    /** Power off and on again, with the same Storage. */
    restart() {
      board.evaluate("load()");
      clock.advance(10);
    },
    stop: () => board.stop(),
  };
}

export type SandboxBoard = Awaited<ReturnType<typeof plugInSandbox>>;
