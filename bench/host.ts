import { execFile, spawn } from "node:child_process";
import { copyFile, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { toolsPlugin } from "../esbuild.tools.mjs";
import { chatRequestProblems } from "../test/fixtures/chat-request";
import { streamEvents } from "../test/fixtures/scripted-model";
import { conversation } from "./exchange";
import { type Figure, type Section, tell } from "./report";

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("../", import.meta.url));
const HERE = fileURLToPath(new URL("contenders/", import.meta.url));
const CACHE = fileURLToPath(new URL("../node_modules/.cache/bench/contenders/", import.meta.url));

/** What a Node user would pick instead, in versions that run on Node 20. They are no dependencies of the project. */
const PACKAGES = {
  "@ai-sdk/openai-compatible": "2.0.92",
  "@mariozechner/pi-agent-core": "0.73.1",
  "@openai/agents": "0.20.0",
  ai: "6.0.325",
  "http-proxy": "1.18.1",
  zod: "4.6.5",
};

interface Contender {
  name: string;
  file: string;
  /** Packages to be installed for it; ours needs none. */
  isForeign: boolean;
}

const CONTENDERS: Contender[] = [
  { name: "our firmware code in Node", file: "firmware.ts", isForeign: false },
  { name: "our bundle on the simulated board", file: "bundle.ts", isForeign: false },
  { name: "@openai/agents", file: "openai-agents.mjs", isForeign: true },
  { name: "ai (Vercel)", file: "ai.mjs", isForeign: true },
  { name: "pi-agent-core", file: "pi-agent-core.mjs", isForeign: true },
];

const WARM_UP = 30;
const RUNS = 300;

/** Installs what others wrote into a folder of its own, once; returns it. Rejects where npm cannot get it. */
export async function installPackages(): Promise<string> {
  const wanted = `${JSON.stringify({ private: true, type: "module", dependencies: PACKAGES }, null, 2)}\n`;
  const file = join(CACHE, "package.json");
  const isThere = await stat(join(CACHE, "node_modules", ".package-lock.json")).catch(() => undefined);
  if (isThere && (await readFile(file, "utf8").catch(() => "")) === wanted) return CACHE;
  tell("  installing what it is compared with, once");
  await mkdir(CACHE, { recursive: true });
  await writeFile(file, wanted);
  await run("npm", ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], { cwd: CACHE });
  return CACHE;
}

/** The firmware's rooms as one script with the board's globals free. */
async function buildFirmware(): Promise<string> {
  const contents = ["agents", "config", "session"].map((name) => `export * from "./firmware/${name}";`).join("\n");
  const outfile = join(CACHE, "firmware.js");
  await build({
    stdin: { contents, resolveDir: ROOT },
    outfile,
    bundle: true,
    format: "cjs",
    platform: "neutral",
    external: ["Storage", "http", "fs"],
    plugins: [toolsPlugin({ toolsDir: `${ROOT}tools` })],
  });
  return outfile;
}

interface Mock {
  url: string;
  /** The tools of the last request, as OpenAI's API has them. */
  tools(): unknown[];
  problems: string[];
  close(): void;
}

/** The model: calls both tools, and answers once it has their results. It looks at every request, whoever sent it. */
export async function mockModel(): Promise<Mock> {
  const [calls, answer] = conversation.map((turn) =>
    streamEvents((Array.isArray(turn) ? turn : [turn]) as Parameters<typeof streamEvents>[0], () => "", true).join(""),
  );
  let tools: unknown[] = [];
  const problems: string[] = [];
  const server = createServer((message, response) => {
    const pieces: Buffer[] = [];
    message.on("data", (piece: Buffer) => pieces.push(piece));
    message.on("end", () => {
      const body = Buffer.concat(pieces);
      const request = new Request(`http://mock${message.url}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
      });
      const json = JSON.parse(body.toString("utf8"));
      tools = json.tools ?? [];
      if (
        json.messages.at(-1).role === "tool" &&
        json.messages.filter(({ role }: any) => role === "tool").length !== 2
      ) {
        problems.push(...chatRequestProblems(request, body).problems, "not two results");
      }
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(json.messages.at(-1).role === "tool" ? answer : calls);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    tools: () => tools,
    problems,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

interface Result {
  runsPerSecond: number;
  cpuMs: number;
  maxRssMb: number;
  heapMb: number;
}

function start(file: string, list: string[]): Promise<Result> {
  const child = spawn(process.execPath, ["--expose-gc", "--import", "tsx", file, ...list], {
    stdio: ["ignore", "pipe", "pipe"],
    cwd: ROOT,
    env: { ...process.env, BENCH_FIRMWARE: join(CACHE, "firmware.js") },
  });
  let output = "";
  let errors = "";
  child.stdout.on("data", (bytes: Buffer) => (output += bytes.toString()));
  child.stderr.on("data", (bytes: Buffer) => (errors += bytes.toString()));
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => {
      const line = output.trim().split("\n").at(-1) ?? "";
      if (code === 0 && line.startsWith("{")) resolve(JSON.parse(line));
      else reject(new Error(`${file} ended with ${code}: ${errors.slice(-800)}`));
    });
  });
}

/** Runs every contender, one after another, against one local model. */
export async function hostSections(runs = RUNS): Promise<Section[]> {
  const mock = await mockModel();
  const results: { name: string; result?: Result; note?: string }[] = [];
  let tools = "[]";
  await buildFirmware();
  try {
    for (const { name, file, isForeign } of CONTENDERS) {
      tell(`  ${name}`);
      try {
        let path = join(HERE, file);
        if (isForeign) {
          // Beside what it imports.
          path = join(await installPackages(), file);
          for (const one of ["run.mjs", file]) await copyFile(join(HERE, one), join(CACHE, one));
        }
        results.push({ name, result: await start(path, [mock.url, tools, String(WARM_UP), String(runs)]) });
        // All send the tools that ours sends.
        if (!isForeign) tools = JSON.stringify(mock.tools());
      } catch (error) {
        results.push({ name, note: (error as Error).message.split("\n")[0] });
      }
    }
  } finally {
    mock.close();
  }
  if (mock.problems.length) tell(`  requests against the rules: ${mock.problems[0]}`);
  const ours = results[0]?.result;
  const figure = (field: keyof Result, unit: string) =>
    results.map(({ name, result, note }): Figure => {
      const ratio = result && ours ? `${(result[field] / ours[field]).toFixed(2)} × ours` : note;
      return { name, value: result?.[field], unit, note: ratio };
    });
  const count = JSON.parse(tools).length as number;
  return [
    {
      title: `On the host: two-tool conversations, ${count} tools sent, one at a time`,
      figures: figure("runsPerSecond", "runs/s"),
    },
    { title: "… CPU", figures: figure("cpuMs", "ms/run") },
    { title: "… memory at the most", figures: figure("maxRssMb", "MB resident") },
    { title: "… memory in use after it, garbage collected", figures: figure("heapMb", "MB of heap") },
  ];
}
