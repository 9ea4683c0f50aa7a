import { parseArgs } from "node:util";
import { espruinoDriver } from "../test/drivers/espruino";
import { peakSection, restSection, stackSection } from "./memory";
import { formatTable, type Section, tell, writeResults } from "./report";
import { hasValgrind } from "./valgrind";
import { countBoot, countRequest, countStreams, streamSections } from "./work";

/**
 * `npm run bench:target`: memory and work on the interpreter that `ESPRUINO_BIN` names, one table, and
 * `bench/results/target.json`. About eight minutes with the defaults.
 */
const PARTS = ["rest", "peak", "stack", "streams", "request"];

const HELP = `npm run bench:target -- [--prompts N] [--only PART,…] [--stream NAME]

  --prompts N     prompts over which memory must not grow (default 1000)
  --only PART,…   of ${PARTS.join(", ")} (default all)
  --stream NAME   only recorded streams with this in their name

ESPRUINO_BIN names an Espruino interpreter built for Linux.`;

function readOptions(): { prompts: number; parts: string[]; stream: string } {
  const { values } = parseArgs({
    options: {
      prompts: { type: "string", default: "1000" },
      only: { type: "string", default: PARTS.join() },
      stream: { type: "string", default: "" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) {
    console.log(HELP);
    process.exit(0);
  }
  const prompts = Number(values.prompts);
  if (!Number.isInteger(prompts) || prompts < 1)
    throw new TypeError(`--prompts must be a whole number, not ${values.prompts}`);
  const parts = values.only.split(",");
  const odd = parts.find((part) => !PARTS.includes(part));
  if (odd !== undefined) throw new TypeError(`--only knows no ${JSON.stringify(odd)}: ${PARTS.join(", ")}`);
  return { prompts, parts, stream: values.stream };
}

async function measure(binary: string): Promise<void> {
  const { prompts, parts, stream } = readOptions();
  const driver = espruinoDriver(binary);
  const sections: Section[] = [];
  const has = (part: string): boolean => parts.includes(part);
  let comparable: boolean | undefined;
  if (has("rest")) {
    tell("memory at rest");
    const rest = await restSection(driver, prompts);
    sections.push(rest.section);
    comparable = rest.comparable;
  }
  if (has("peak")) {
    tell("memory at the peak");
    sections.push(await peakSection(driver));
  }
  if (has("stack")) {
    tell("stack");
    sections.push(await stackSection(binary));
  }
  if (!hasValgrind()) tell("work is not measured: valgrind is not installed");
  else {
    if (has("streams")) {
      tell("work for streams");
      sections.push(...streamSections(await countStreams(binary, stream)));
    }
    if (has("request")) {
      tell("work for a request");
      const request = await countRequest(binary);
      tell("boot");
      sections.push({ ...request, figures: [...request.figures, ...(await countBoot(binary))] });
    }
  }
  console.log(formatTable(sections));
  tell(`\n${await writeResults("target", sections, { comparable, prompts })}`);
}

const binary = process.env.ESPRUINO_BIN;
if (!binary) {
  console.error("bench:target: set ESPRUINO_BIN to an Espruino interpreter built for Linux");
  process.exitCode = 2;
} else {
  try {
    await measure(binary);
  } catch (error) {
    console.error(error instanceof TypeError ? error.message : error);
    process.exitCode = error instanceof TypeError ? 2 : 1;
  }
}
