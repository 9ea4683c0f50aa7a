/**
 * Holds the simulator against what the interpreter printed: sessions at the console that are kept here with what it
 * answered, and programs recorded elsewhere. `npm run test:fidelity` asks the interpreter itself.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { differences, reasonFor, strayNames } from "./differences";
import { loadProbes } from "./probe-files";
import { compareRecorded, loadRecorded } from "./recorded";
import { runOnSimulator } from "./simulator";
import { startTestServer, type TestServer } from "./test-server";
import { formatOutput, formatProbes, parseProbes } from "./transcript";

const MIN_SHARE = 0.95;
const files = loadProbes();
const recorded = loadRecorded();

describe.each([...files])("%s", (file, probes) => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startTestServer();
  });
  afterAll(() => server.close());

  it.each(probes.map((probe) => [probe.name, probe] as const))("%s", async (name, probe) => {
    expect(probe.output, "record it first: npm run test:fidelity -- --record").toBeDefined();
    const got = formatOutput(await runOnSimulator(probe, server));
    const reason = reasonFor(differences.probes, `${file}:${name}`);
    if (reason) expect(got, "it agrees now: take it out of differences.json").not.toBe(formatOutput(probe.output!));
    else expect(got).toBe(formatOutput(probe.output!));
  });

  it("is written as it is read", () => {
    expect(parseProbes(formatProbes(probes), file)).toEqual(probes);
  });
});

describe("all probes", () => {
  const names = [...files].flatMap(([file, probes]) => probes.map((probe) => `${file}:${probe.name}`));

  it("agree, nearly all of them; no others are listed", () => {
    expect(strayNames(differences.probes, names)).toEqual([]);
    const listed = names.filter((name) => reasonFor(differences.probes, name));
    expect(1 - listed.length / names.length).toBeGreaterThanOrEqual(MIN_SHARE);
  });
});

describe.skipIf(Object.keys(recorded).length === 0)("recorded programs", () => {
  it.each(Object.keys(recorded))("%s", (name) => {
    const wrong = compareRecorded(recorded[name]!);
    if (reasonFor(differences.recorded, name))
      expect(wrong, "it agrees now: take it out of differences.json").toBeDefined();
    else expect(wrong).toBeUndefined();
  });

  it("agree, nearly all of them; no others are listed", () => {
    const names = Object.keys(recorded);
    expect(strayNames(differences.recorded, names)).toEqual([]);
    expect(1 - Object.keys(differences.recorded).length / names.length).toBeGreaterThanOrEqual(MIN_SHARE);
  });
});
