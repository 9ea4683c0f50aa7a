/**
 * `npm run test:fidelity`: how far the simulated board does what the interpreter does. `ESPRUINO_BIN` names the
 * interpreter, a Linux build like an ESP32's; without it the simulator is held against what is recorded. `ESPRUINO_TESTS`
 * names the folder of Espruino's own test scripts. Exit code 1 where something differs that is not listed.
 */
import { parseArgs } from "node:util";
import { differences, reasonFor, strayNames } from "./differences";
import { listTests, runInSimulator, runOnInterpreter } from "./espruino-tests";
import { type Interpreter, startInterpreter } from "./interpreter";
import { loadProbes, saveProbes } from "./probe-files";
import { compareRecorded, loadRecorded } from "./recorded";
import { runOnSimulator } from "./simulator";
import { startTestServer, type TestServer } from "./test-server";
import { formatOutput, type Probe } from "./transcript";

const HELP = `npm run test:fidelity -- [options] [file[:probe] ...]

Compares the simulated board with the interpreter that ESPRUINO_BIN names, and with what is recorded of it.

  --record   write down what the interpreter prints now
  --all      print every difference, the listed ones too
  --help     this text

  ESPRUINO_BIN     Espruino built for Linux: 4,000 variables of 14 bytes, no Unicode
  ESPRUINO_TESTS   folder of Espruino's own test scripts (its tests/): compares them, too

Exit codes: 0, 1 where something differs that is not listed, 2 for bad usage.
`;

/** A line of typing can get lost on its way to the interpreter: it is asked again before a probe counts as changed. */
const ATTEMPTS = 3;

const share = (part: number, whole: number): string =>
  `${part} of ${whole} (${whole ? ((100 * part) / whole).toFixed(1) : "0"} %)`;

interface Report {
  /** Differences that are not listed, and listed ones that are none. */
  problems: number;
  showListed: boolean;
}

/** Prints what is wrong with one comparison. True where both sides agree. */
const judge = (report: Report, kind: "probes" | "recorded" | "tests", name: string, wrong: string | undefined): boolean => {
  const reason = reasonFor(differences[kind], name);
  if (wrong === undefined && reason && !differences[kind][name]) return true;
  if (wrong === undefined && reason) {
    report.problems++;
    console.log(`${name} agrees now: take it out of test/fidelity/differences.json ("${kind}")`);
  } else if (wrong !== undefined && !reason) {
    report.problems++;
    console.log(`${name} differs:\n${wrong}\n`);
  } else if (wrong !== undefined && report.showListed) console.log(`${name}: ${reason}\n${wrong}\n`);
  return wrong === undefined;
};

const sideBySide = (interpreter: string, simulator: string): string =>
  `--- interpreter\n${formatOutput(interpreter)}\n--- simulator\n${formatOutput(simulator)}`;

/** Asks the interpreter. Gives what it prints, or what is recorded where it prints that in one of a few attempts. */
const ask = async (
  get: () => Promise<Interpreter>,
  renew: () => Promise<void>,
  probe: Probe,
  server: TestServer,
): Promise<string> => {
  let output = "";
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    try {
      output = await (await get()).run(probe, server);
      if (output === probe.output || probe.output === undefined) return output;
    } catch (error) {
      output = (error as Error).message;
    }
    // The next attempt must not find the files of this one.
    await renew();
  }
  return output;
};

const compareProbes = async (report: Report, only: string[], binary: string | undefined, isRecording: boolean) => {
  const server = await startTestServer();
  let interpreter: Interpreter | undefined;
  const get = async (): Promise<Interpreter> => (interpreter ??= await startInterpreter(binary!));
  const renew = async (): Promise<void> => {
    await interpreter?.stop();
    interpreter = undefined;
  };
  const counts = { all: 0, agree: 0, asked: 0, same: 0, skipped: 0 };
  const names: string[] = [];
  try {
    for (const [file, probes] of loadProbes()) {
      let isChanged = false;
      for (const probe of probes) {
        const name = `${file}:${probe.name}`;
        names.push(name);
        if (only.length && !only.includes(file) && !only.includes(name)) continue;
        if (binary) {
          const { has } = await get();
          if (probe.needs.some((need) => !has.has(need))) counts.skipped++;
          else {
            counts.asked++;
            const output = await ask(get, renew, probe, server);
            if (output === probe.output) counts.same++;
            else if (isRecording) {
              probe.output = output;
              isChanged = true;
              console.log(`${name}: recorded`);
            } else {
              report.problems++;
              console.log(`${name}: the interpreter does not print what is recorded`);
              console.log(`--- recorded\n${formatOutput(probe.output ?? "")}\n--- interpreter\n${formatOutput(output)}\n`);
            }
          }
        }
        counts.all++;
        const simulated = await runOnSimulator(probe, server);
        const wrong = simulated === probe.output ? undefined : sideBySide(probe.output ?? "", simulated);
        if (judge(report, "probes", name, wrong)) counts.agree++;
      }
      if (isChanged) saveProbes(file, probes);
    }
    for (const name of only.length ? [] : strayNames(differences.probes, names)) {
      report.problems++;
      console.log(`differences.json lists "${name}", which is no probe`);
    }
    const version = interpreter?.version;
    if (version !== undefined) {
      const skipped = counts.skipped ? `, ${counts.skipped} not for this build` : "";
      console.log(`interpreter ${version}: prints what is recorded in ${share(counts.same, counts.asked)}${skipped}`);
    }
    console.log(`own probes: the simulator agrees in ${share(counts.agree, counts.all)}`);
  } finally {
    await renew();
    await server.close();
  }
};

const compareRecordings = (report: Report): void => {
  const recorded = loadRecorded();
  const names = Object.keys(recorded);
  if (names.length === 0) return console.log("recorded programs: none here");
  const agree = names.filter((name) => judge(report, "recorded", name, compareRecorded(recorded[name]!)));
  for (const name of strayNames(differences.recorded, names)) {
    report.problems++;
    console.log(`differences.json lists "${name}", which was not recorded`);
  }
  console.log(`recorded programs: the simulator agrees in ${share(agree.length, names.length)}`);
};

const compareTests = async (report: Report, folder: string, binary: string | undefined): Promise<void> => {
  let passed = 0;
  let counted = 0;
  let failing = 0;
  const names = listTests(folder);
  for (const name of names) {
    // What the interpreter itself does not pass says nothing.
    if (binary && !(await runOnInterpreter(binary, folder, name)).hasPassed) {
      failing++;
      continue;
    }
    counted++;
    const { hasPassed, output } = await runInSimulator(folder, name);
    if (!binary) {
      // Whether the interpreter passes it is not known then.
      if (hasPassed) passed++;
      else console.log(`${name} fails: ${reasonFor(differences.tests, name) ?? "the interpreter may fail it, too"}`);
    } else if (judge(report, "tests", name, hasPassed ? undefined : output.slice(-500))) passed++;
  }
  const of = binary ? "those that pass on the interpreter" : "all";
  const note = failing ? `; ${failing} fail on the interpreter` : "";
  console.log(`Espruino's own tests: ${share(passed, counted)} of ${of} pass on the simulator${note}`);
};

const main = async (): Promise<number> => {
  let parsed;
  try {
    parsed = parseArgs({
      allowPositionals: true,
      options: { record: { type: "boolean" }, all: { type: "boolean" }, help: { type: "boolean" } },
    });
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${HELP}`);
    return 2;
  }
  const { values, positionals } = parsed;
  if (values.help) {
    console.log(HELP);
    return 0;
  }
  const binary = process.env.ESPRUINO_BIN || undefined;
  const folder = process.env.ESPRUINO_TESTS || undefined;
  if (values.record && !binary) {
    console.error("--record needs an interpreter: set ESPRUINO_BIN");
    return 2;
  }
  const report: Report = { problems: 0, showListed: !!values.all };
  await compareProbes(report, positionals, binary, !!values.record);
  if (positionals.length === 0) {
    compareRecordings(report);
    if (folder) await compareTests(report, folder, binary);
  }
  return report.problems ? 1 : 0;
};

process.exitCode = await main();
