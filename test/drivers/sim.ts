import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { http, passthrough } from "msw";
import { setupServer } from "msw/node";
import type { AgentEvent } from "../../firmware/types";
import { createBoard } from "../../host-sim/board";
import { createManualClock } from "../../host-sim/clock";
import { createSdCard } from "../../host-sim/sd";
import { decodeStrings, fromBytes, toBytes } from "./bytes";
import { createConsoleLog } from "./console-log";
import { createTestBoard, waitForPrompt } from "./test-board";
import { defaultSettings, type Driver } from "./types";

/** Where the scripted model answers; no such host exists. */
const BASE_URL = "http://model.test/v1";

/** How far the board's clock moves in one turn of Node's event loop, in ms: while I/O settles, time hardly passes. */
const TURN_MS = 1;

/** Steps of `advance`: I/O that a timer has started is over before the next timers are due. */
const ADVANCE_STEP_MS = 10;

/** Longer than any pause that the agent makes for its own sake. */
const SETTLE_MS = 20;

const turnOfEventLoop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/**
 * The simulated board on a clock of the test's own. HTTP goes through msw; only addresses of this computer are let
 * through, so that a refused connection is a real one.
 */
export function simDriver(): Driver {
  return {
    name: "sim",
    async start({ model, settings, files, card, bundle, variables, observe = true }) {
      const clock = createManualClock();
      const log = createConsoleLog(
        (frame) => {
          throw new Error(`the board printed a frame of the test's: ${frame}`);
        },
        () => clock.advance(TURN_MS),
      );
      const server = setupServer(
        http.post(`${BASE_URL}/chat/completions`, ({ request }) => model.handle(request)),
        http.post(`${BASE_URL}/messages`, ({ request }) => model.handle(request)),
        http.all(/^http:\/\/127\.0\.0\.1:/, () => passthrough()),
      );
      server.listen({
        onUnhandledRequest(request, print) {
          model.reportProblem(`nobody serves ${request.method} ${request.url}`);
          print.error();
        },
      });
      const cardFolder = await mkdtemp(join(tmpdir(), "agent-card-"));
      for (const [name, content] of Object.entries(card ?? {})) await writeFile(join(cardFolder, name), content);
      const sd = createSdCard(cardFolder);
      const board = createBoard({ clock, variables, sd });
      board.console.onData((bytes) => log.feed(bytes));
      const events: AgentEvent[] = [];
      if (observe) {
        board.onEvent("agent", (event) => {
          events.push(decodeStrings(JSON.parse(JSON.stringify(event))) as AgentEvent);
          log.poke();
        });
      }

      async function stop(): Promise<void> {
        board.stop();
        model.release();
        await turnOfEventLoop();
        server.close();
        await rm(cardFolder, { recursive: true, force: true });
      }

      try {
        const code = bundle ?? (await readFile(fileURLToPath(new URL("../../dist/agent.js", import.meta.url))));
        const config = JSON.stringify({ ...defaultSettings, baseUrl: BASE_URL, ...settings });
        const all = { agent: code, "agent.json": config, ...files, ".bootcde": 'require("agent")' };
        for (const [name, content] of Object.entries(all)) {
          const bytes = typeof content === "string" ? toBytes(content) : Buffer.from(content).toString("latin1");
          if (!board.storage.api.write(toBytes(name), bytes)) throw new Error(`Storage.write of ${name} failed`);
        }
        board.boot();
        await waitForPrompt(log);
      } catch (error) {
        await stop();
        throw error;
      }
      async function advance(ms: number): Promise<void> {
        for (let left = ms; left > 0; left -= ADVANCE_STEP_MS) {
          clock.advance(Math.min(left, ADVANCE_STEP_MS));
          await turnOfEventLoop();
          await turnOfEventLoop();
        }
      }

      return createTestBoard({
        log,
        events: observe ? events : undefined,
        baseUrl: BASE_URL,
        cardFolder,
        moveCard: (isIn) => (isIn ? sd.insert() : sd.pull()),
        hasHardware: true,
        memoryKind: "estimate",
        hasByteStrings: true,
        type: (bytes) => board.console.write(bytes),
        memory: async () => ({ ...board.state().memory, blocksize: 14 }),
        timers: async () => clock.pending(),
        async file(name) {
          const bytes = board.storage.api.read(name);
          return bytes === undefined ? undefined : fromBytes(String(bytes));
        },
        settle: () => advance(SETTLE_MS),
        advance,
        stop,
      });
    },
  };
}
