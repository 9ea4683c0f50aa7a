import { parseArgs } from "node:util";
import { planSteps, soak, SoakFailure, type Step, type Summary } from "../bench/soak";
import { espruinoDriver } from "./drivers/espruino";
import type { Driver } from "./drivers/types";

/**
 * `npm run soak`: random prompts, tools, faults of the server and of the Wi-Fi, aborts and power cuts, all from one
 * seed. Exit code 1 where anything did not go as it should, with the seed and the shortest run that shows it.
 */
const HELP = `npm run soak -- [--prompts N] [--faults SHARE] [--seed N] [--driver sim|espruino] [--from N]

  --prompts N      how many prompts (default 1000)
  --faults SHARE   share of them in which something goes wrong, 0 to 1 (default 0.2)
  --seed N         the same seed gives the same run (default: another each time)
  --driver NAME    sim, or espruino: the interpreter that ESPRUINO_BIN names (default sim)
  --from N         leaves out the prompts before the N-th, to narrow a failure down`;

/** Prompts between two lines of progress. */
const PROGRESS = 100;

interface Options {
  prompts: number;
  faults: number;
  seed: number;
  from: number;
  driver: string;
}

function readOptions(): Options | undefined {
  const { values } = parseArgs({
    options: {
      prompts: { type: "string", default: "1000" },
      faults: { type: "string", default: "0.2" },
      seed: { type: "string", default: String(Math.floor(Math.random() * 1e9)) },
      driver: { type: "string", default: "sim" },
      from: { type: "string", default: "0" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) return undefined;
  const whole = (name: "prompts" | "seed" | "from", least: number): number => {
    const value = Number(values[name]);
    if (!Number.isInteger(value) || value < least)
      throw new TypeError(`--${name} must be a whole number from ${least}, not ${values[name]}`);
    return value;
  };
  const faults = Number(values.faults);
  if (!(faults >= 0 && faults <= 1)) throw new TypeError(`--faults must be from 0 to 1, not ${values.faults}`);
  if (values.driver !== "sim" && values.driver !== "espruino")
    throw new TypeError(`--driver must be sim or espruino, not ${values.driver}`);
  const options = {
    prompts: whole("prompts", 1),
    seed: whole("seed", 0),
    from: whole("from", 0),
    faults,
    driver: values.driver,
  };
  if (options.from >= options.prompts) throw new TypeError("--from must be less than --prompts");
  return options;
}

async function openDriver(name: string): Promise<Driver> {
  if (name === "sim") return (await import("./drivers/sim")).simDriver();
  const binary = process.env.ESPRUINO_BIN;
  if (!binary) throw new TypeError("--driver espruino: set ESPRUINO_BIN to an Espruino interpreter built for Linux");
  return espruinoDriver(binary);
}

function print(summary: Summary): void {
  const errors = Object.entries(summary.errors).sort((a, b) => b[1] - a[1]);
  const failed = errors.reduce((sum, [, count]) => sum + count, 0);
  console.log(`${summary.prompts} prompts, ${summary.faults} with a fault, ${summary.powerCuts} power cuts`);
  console.log(`answers: ${summary.answers}, stopped: ${summary.aborted}, clear errors: ${failed}`);
  for (const [message, count] of errors) console.log(`  ${String(count).padStart(4)}  ${message}`);
  console.log(`broken histories: ${summary.brokenHistories}`);
  console.log(`variables with an empty history: ${summary.memoryStart} early, ${summary.memoryEnd} at the end`);
}

/** The latest step to begin with so that `last` still fails: later ones tell more. */
async function shortest(driver: Driver, steps: Step[], last: number, from: number): Promise<number> {
  for (const length of [1, 2, 4, 8, 16, 32, 64, 128]) {
    const first = last - length + 1;
    if (first <= from) return from;
    console.log(`does it fail from prompt ${first} on?`);
    try {
      await soak({ driver, steps: steps.slice(first, last + 1), first });
    } catch (error) {
      if (error instanceof SoakFailure && error.index === last) return first;
    }
  }
  return from;
}

async function main(): Promise<number> {
  const options = readOptions();
  if (!options) {
    console.log(HELP);
    return 0;
  }
  const { prompts, faults, seed, from } = options;
  const driver = await openDriver(options.driver);
  const steps = planSteps(seed, prompts, faults, driver.name === "sim");
  const command = `npm run soak -- --faults ${faults} --seed ${seed} --driver ${options.driver}`;
  console.log(`${command} --prompts ${prompts}${from ? ` --from ${from}` : ""}`);
  try {
    print(
      await soak({
        driver,
        steps: steps.slice(from),
        first: from,
        onProgress(done, { answers }) {
          if (done % PROGRESS === 0) console.log(`${done} prompts, ${answers} answers`);
        },
      }),
    );
    return 0;
  } catch (error) {
    if (!(error instanceof SoakFailure)) throw error;
    console.error(`prompt ${error.index} of seed ${seed}: ${error.message}\n${JSON.stringify(error.step)}`);
    const first = await shortest(driver, steps, error.index, from);
    console.error(`shortest: ${command} --prompts ${error.index + 1}${first ? ` --from ${first}` : ""}`);
    return 1;
  }
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(error instanceof TypeError ? error.message : error);
  process.exitCode = error instanceof TypeError ? 2 : 1;
}
