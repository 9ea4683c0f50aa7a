import { parseArgs } from "node:util";
import { gatewaySections } from "./gateway";
import { hostSections } from "./host";
import { formatTable, type Section, tell, writeResults } from "./report";
import { measureSize, sizeSections } from "./size";

/** `npm run bench`: what can be measured without an interpreter. About two minutes. */
const PARTS = ["size", "host", "gateway"];

const HELP = `npm run bench -- [--only PART,…] [--runs N] [--rooms]

  --only PART,…    of ${PARTS.join(", ")} (default all)
  --runs N         conversations for each contender on the host (default 300)
  --rooms          prints what each room takes, for bench/budgets.ts

The first time, what the host part compares with is installed by npm into node_modules/.cache/bench.`;

async function printRooms(): Promise<void> {
  for (const { room, bytes } of (await measureSize()).rooms) if (bytes) console.log(`  "${room}": ${bytes},`);
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      only: { type: "string", default: PARTS.join() },
      runs: { type: "string", default: "300" },
      rooms: { type: "boolean" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) return console.log(HELP);
  if (values.rooms) return printRooms();
  const parts = values.only.split(",");
  const odd = parts.find((part) => !PARTS.includes(part));
  if (odd !== undefined) throw new TypeError(`--only knows no ${JSON.stringify(odd)}: ${PARTS.join(", ")}`);
  const runs = Number(values.runs);
  if (!Number.isInteger(runs) || runs < 1) throw new TypeError(`--runs must be a whole number, not ${values.runs}`);
  const sections: Section[] = [];
  if (parts.includes("size")) sections.push(...(await sizeSections()));
  if (parts.includes("host")) {
    tell("on the host");
    sections.push(...(await hostSections(runs)));
  }
  if (parts.includes("gateway")) {
    tell("gateway");
    sections.push(...(await gatewaySections()));
  }
  console.log(formatTable(sections));
  tell(`\n${await writeResults("host", sections, { runs })}`);
}

try {
  await main();
} catch (error) {
  console.error(error instanceof TypeError ? error.message : error);
  process.exitCode = error instanceof TypeError ? 2 : 1;
}
