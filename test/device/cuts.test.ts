/** Uploads that end in the middle: what is on the board then starts, whole, and the next upload completes. */
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createDevice, DeviceError } from "../../cli/device";
import { flashBoard, type FlashJob } from "../../cli/flash";
import { WireError } from "../../cli/wire";
import { createStorage, type Storage } from "../../host-sim/storage";
import { type Bench, createBench, createFragileStorage, quiet, type WireFaults } from "./bench";
import { agentCode } from "./program";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const oldCode = agentCode("old", 500);
const newCode = agentCode("new", 1500);
const ownBoot = "var mine=1;";
const oldSettings = '{"model":"old","apiKey":"sk-old","systemPrompt":"Grüße"}';
const job: FlashJob = { code: newCode, settings: { model: "new", searchKey: "sk-new" }, isBoot: true };

type Files = Record<string, string>;

function storageWith(files: Files, capacity?: number): Storage {
  const storage = createStorage(capacity === undefined ? {} : { capacity });
  for (const [name, text] of Object.entries(files))
    storage.api.write(name, Buffer.from(text, "utf8").toString("latin1"));
  return storage;
}

/** A board that somebody uses: an older agent, a program and settings of their own. */
const used = (): Files => ({ agent: oldCode, ".bootcde": `require("agent");\n${ownBoot}`, "agent.json": oldSettings });
/** … one on which the agent is not started at power-up yet. */
const unstarted = (): Files => ({ ...used(), ".bootcde": ownBoot });
const empty = (): Files => ({});

function flash(bench: Bench, faults: WireFaults = {}): Promise<unknown> {
  return bench.run(flashBoard(createDevice(bench.wire(faults)), job, quiet));
}

/** The board's power comes back: where an agent starts at power-up, one of them starts, the old one or the new one. */
function expectBootable(bench: Bench, files: Files): void {
  bench.power();
  // A boot file of one's own may be half written for a moment; the next flash brings it back.
  if (files.agent === undefined || !files[".bootcde"]!.includes("require")) return;
  expect(bench.printed().match(/espruino-agent: ask (old|new)\r\n/g)).toHaveLength(1);
  // What is left of a boot file of flash's may be an error; it does not keep the agent from starting.
  expect(bench.printed().replace(/Uncaught [^>]*?at \.boot3[^>]*?\^\r\n/, "")).not.toMatch(/Uncaught/);
}

async function expectCompleted(bench: Bench, files: Files): Promise<void> {
  await flash(bench);
  const { api } = bench.storage;
  expect(api.read("agent")).toBe(newCode);
  expect(api.list().sort()).toEqual([".bootcde", "agent", "agent.json"]);
  const boot = files[".bootcde"] === undefined ? 'require("agent")' : `require("agent");\n${ownBoot}`;
  expect(api.read(".bootcde")).toBe(boot);
  const settings = JSON.parse(Buffer.from(api.read("agent.json")!, "latin1").toString("utf8"));
  expect(settings).toEqual({ ...JSON.parse(files["agent.json"] ?? "{}"), ...job.settings });
  bench.power();
  expect(bench.printed()).toMatch(/espruino-agent: ask new\r\n/);
}

describe.each([
  ["used board", used, undefined],
  ["used board with the old agent not started", unstarted, undefined],
  ["empty board", empty, undefined],
  ["used board whose Storage has room for two agents only", used, 8192],
])("%s", (_, files, capacity) => {
  it("loses its power at any step of writing to its flash", { timeout: 120_000 }, async () => {
    let isWhole = false;
    let steps = 0;
    while (!isWhole) {
      steps += 1;
      const bench = createBench({ storage: storageWith(files(), capacity) });
      const onDeath = (): void => wire.cut();
      const fragile = createFragileStorage(bench.storage, steps, onDeath);
      bench.power({ storage: fragile });
      const wire = bench.wire();
      const outcome = await bench.run(flashBoard(createDevice(wire), job, quiet)).then(
        () => "done",
        (error: unknown) => error,
      );
      isWhole = outcome === "done" && fragile.steps() < steps;
      if (outcome !== "done") expect(outcome).toBeInstanceOf(WireError);
      expectBootable(bench, files());
      await expectCompleted(bench, files());
      bench.stop();
    }
    // Otherwise the power was never lost in the middle.
    expect(steps).toBeGreaterThan(10);
  });
});

describe("the wire breaks at any byte", () => {
  it.each<[string, boolean]>([
    ["and the board goes on", false],
    ["and the board loses its power", true],
  ])("%s", { timeout: 120_000 }, async (_, losesPower) => {
    const whole = createBench({ storage: storageWith(used()) });
    whole.power();
    const wire = whole.wire();
    await whole.run(flashBoard(createDevice(wire), job, quiet));
    const length = wire.written().length;
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: length - 1 }), async (cutAfter) => {
        const bench = createBench({ storage: storageWith(used()) });
        bench.power();
        await expect(flash(bench, { cutAfter })).rejects.toBeInstanceOf(WireError);
        if (losesPower) expectBootable(bench, used());
        await expectCompleted(bench, used());
        bench.stop();
      }),
      { numRuns: 20 },
    );
  });

  it("bytes are lost on the way to the board", { timeout: 240_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 9_000 }), { minLength: 1, maxLength: 4 }), async (places) => {
        const bench = createBench({ storage: storageWith(used()) });
        bench.power();
        const lost = new Set(places);
        const toBoard = (bytes: string, at: number): string => [...bytes].filter((_, i) => !lost.has(at + i)).join("");
        const outcome = await flash(bench, { toBoard }).then(
          () => "done",
          (error: unknown) => error,
        );
        // A line that must not be typed twice may have been lost: then it says so, and the board is as it was.
        if (outcome !== "done") expect(outcome).toBeInstanceOf(DeviceError);
        expectBootable(bench, used());
        if (outcome === "done") expect(bench.storage.api.read("agent")).toBe(newCode);
        await expectCompleted(bench, used());
        bench.stop();
      }),
      { numRuns: 20 },
    );
  });
});
