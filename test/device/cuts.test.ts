/** Uploads that end in the middle: what is on the board then starts, whole, and the next upload completes. */
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createDevice, DeviceError } from "../../cli/device";
import { flashBoard, type FlashJob } from "../../cli/flash";
import { WireError } from "../../cli/wire";
import { createStorage, type Storage } from "../../host-sim/storage";
import { type Bench, createBench, createFragileStorage, listen, quiet, type WireFaults } from "./bench";
import { agentCode } from "./program";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const oldCode = agentCode("old", 500);
const newCode = agentCode("new", 1500);
const ownBoot = "var mine=1;";
const oldSettings = '{"model":"old","apiKey":"sk-old","systemPrompt":"Grüße"}';
const job: FlashJob = { code: newCode, settings: { model: "new", searchKey: "sk-new" }, isBoot: true };

/** A little more than the bundle may have, see `esbuild.config.mjs`. */
const bundleBytes = 150_000;
/** What Espruino's Linux build has. */
const smallStorage = 262_144;

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

describe("a Storage without room for two bundles, as Espruino's Linux build has it", () => {
  const large = { old: agentCode("old", bundleBytes), new: agentCode("new", bundleBytes) };
  const largeJob: FlashJob = { ...job, code: large.new };
  const files = (): Files => ({ ...used(), agent: large.old, "photo.jpg": "mine", ".tool.blink": "exports=1" });
  const start = (): Bench => createBench({ storage: storageWith(files(), smallStorage) });

  it("is told, with the option and what it costs, and nothing is changed", async () => {
    expect(large.old.length + large.new.length).toBeGreaterThan(smallStorage);
    const bench = start();
    bench.power();
    const outcome = bench.run(flashBoard(createDevice(bench.wire()), largeJob, quiet));
    await expect(outcome).rejects.toThrow(
      /^the board's Storage is too full for the old and the new agent: .* --replace: .*a cut leaves the board without/,
    );
    // At power-up, and again at the end.
    expect(bench.printed().match(/espruino-agent: ask old\r\n/g)).toHaveLength(2);
    for (const [name, text] of Object.entries(files()))
      expect(Buffer.from(bench.storage.api.read(name)!, "latin1").toString("utf8")).toBe(text);
  });

  it("--replace does not help where even one does not fit, and is not named", async () => {
    const bench = createBench({ storage: storageWith({ ...files(), mine: "x".repeat(100_000) }, smallStorage) });
    bench.power();
    const replacing = { ...largeJob, code: agentCode("new", 2 * bundleBytes), mayReplace: true };
    const outcome = bench.run(flashBoard(createDevice(bench.wire()), replacing, quiet));
    await expect(outcome).rejects.toThrow(/^the board's Storage is too full: (?!.*--replace)/);
    expect(bench.storage.api.read("agent")).toBe(large.old);
  });

  it("--replace keeps the old one until the new one is there where both fit", async () => {
    const bench = createBench({ storage: storageWith(used()) });
    bench.power();
    const progress = listen();
    await bench.run(flashBoard(createDevice(bench.wire()), { ...job, mayReplace: true }, progress));
    expect(progress.lines.join("\n")).not.toMatch(/erased/);
  });

  it("with --replace, the power is lost at any step", { timeout: 240_000 }, async () => {
    let total = 0;
    {
      const bench = start();
      const fragile = createFragileStorage(bench.storage, Infinity, () => {});
      bench.power({ storage: fragile });
      const progress = listen();
      await bench.run(flashBoard(createDevice(bench.wire()), { ...largeJob, mayReplace: true }, progress));
      expect(progress.lines.join("\n")).toMatch(/no room for two, so the old one is erased now\. Do not unplug/);
      total = fragile.steps();
      await expectWhole(bench);
      bench.stop();
    }
    // All around the beginning and the end, and some in the long middle.
    const middle = [0.2, 0.5, 0.8].map((share) => Math.floor(total * share));
    const places = [1, 2, 3, 4, 5, 6, 7, 8, ...middle, total - 8, total - 6, total - 5, total - 4, total - 2, total];
    let absent = 0;
    for (const steps of places) {
      const bench = start();
      const fragile = createFragileStorage(bench.storage, steps, () => wire.cut());
      bench.power({ storage: fragile });
      const wire = bench.wire();
      const outcome = bench.run(flashBoard(createDevice(wire), { ...largeJob, mayReplace: true }, quiet));
      await expect(outcome).rejects.toBeInstanceOf(WireError);

      const board = bench.power();
      const agents = bench.printed().match(/espruino-agent: ask (old|new)\r\n/g)?.length ?? 0;
      const isAbsent = /(?:^|[\nJ])No agent on this board: .* flash again\r\n/.test(bench.printed());
      expect({ steps, agents, isAbsent }).toEqual({ steps, agents: isAbsent ? 0 : 1, isAbsent });
      expect(bench.printed().replace(/Uncaught [^>]*?at \.boot3[^>]*?\^\r\n/, "")).not.toMatch(/Uncaught/);
      expect(bench.printed()).toMatch(/>$/);
      // What the person has put behind the agent's line runs all the same.
      expect(board.evaluate("mine")).toBe(1);
      if (isAbsent) absent += 1;
      // The option is needed as long as the old one is there.
      const isOld = bench.storage.api.read("agent") === large.old;
      await bench.run(flashBoard(createDevice(bench.wire()), { ...largeJob, mayReplace: isOld }, quiet));
      await expectWhole(bench);
      bench.stop();
    }
    expect(absent).toBeGreaterThan(5);
  });

  async function expectWhole(bench: Bench): Promise<void> {
    const { api } = bench.storage;
    expect(api.read("agent")).toBe(large.new);
    expect(api.list().sort()).toEqual([".bootcde", ".tool.blink", "agent", "agent.json", "photo.jpg"]);
    expect([api.read("photo.jpg"), api.read(".tool.blink")]).toEqual(["mine", "exports=1"]);
    const settings = JSON.parse(Buffer.from(api.read("agent.json")!, "latin1").toString("utf8"));
    expect(settings).toEqual({ ...JSON.parse(oldSettings), ...job.settings });
    bench.power();
    expect(bench.printed()).toMatch(/espruino-agent: ask new\r\n/);
    expect(bench.printed()).not.toContain("No agent");
  }

  it("a new agent that does not start leaves a board that says that it has none", async () => {
    const bench = start();
    bench.power();
    const code = `${large.new}\nthrow new Error("no PSRAM")`;
    const outcome = bench.run(flashBoard(createDevice(bench.wire()), { ...job, code, mayReplace: true }, quiet));
    await expect(outcome).rejects.toThrow(/no PSRAM.*without an agent now: there was no room for the old one/);
    bench.power();
    expect(bench.printed()).toMatch(/No agent on this board: .*Run espruino-agent flash again\r\n/);
    await bench.run(flashBoard(createDevice(bench.wire()), largeJob, quiet));
    await expectWhole(bench);
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
