import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { crc32 } from "node:zlib";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { interpreterPeer, type Peer, simulatedPeer } from "../host-sim/repl-peers";
import { installClient } from "./install";

const run = promisify(execFile);
const bundle = fileURLToPath(new URL("../../dist/agent.js", import.meta.url));
const packetClient = fileURLToPath(new URL("./packet-client.js", import.meta.url));
const binary = process.env.ESPRUINO_BIN;
const GIVE_UP_MS = 30_000;
/** The tool does not notice that it has sent everything where that, without comments, is 512 bytes or less. */
const PADDING = `"${"-".repeat(520)}";`;

/** The simulated board's wire holds back what it cannot take: the tool need not wait after each line. */
const AT_ONCE = ["--config", "STORAGE_UPLOAD_METHOD=1"];

interface Subject {
  name: string;
  start(): Promise<Peer>;
  /** Settings of the tool. */
  pace: string[];
  /** Further attempts: the interpreter's Linux build loses a byte now and then. */
  retry: number;
}
const subjects: Subject[] = [{ name: "the simulated board", start: simulatedPeer, pace: AT_ONCE, retry: 0 }];
if (binary) subjects.push({ name: "the interpreter", start: () => interpreterPeer(binary), pace: [], retry: 2 });

let tool: string;
let folder: string;

beforeAll(async () => {
  tool = await installClient("espruino");
  folder = await mkdtemp(path.join(tmpdir(), "espruino-clients-"));
});

afterAll(() => rm(folder, { recursive: true, force: true }));

/** What is printed once `line` has been typed, up to and including `wanted`. */
async function type(peer: Peer, line: string, wanted: string): Promise<string> {
  const socket = connect(peer.port, "127.0.0.1");
  let got = "";
  const found = new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no ${wanted} in ${JSON.stringify(got)}`)), GIVE_UP_MS);
    socket.on("error", reject);
    socket.on("data", (bytes) => {
      got += bytes.toString("latin1");
      if (!got.includes(wanted)) return;
      clearTimeout(timer);
      resolve();
    });
  });
  socket.write(line);
  await found.finally(() => socket.destroy());
  return got;
}

describe.each(subjects)("Espruino's command line tool and $name", ({ retry, start, pace }) => {
  let peer: Peer;
  beforeEach(async () => {
    peer = await start();
    await type(peer, "\n", ">");
  });
  afterEach(() => peer.stop());

  /** Runs the tool; its exit code says nothing. Descriptions of boards are not fetched. */
  async function espruino(...list: string[]): Promise<string> {
    const cli = path.join(tool, "bin", "espruino-cli.js");
    const common = ["--no-ble", "-p", `tcp://127.0.0.1:${peer.port}`, "--config", "BOARD_JSON_URL=http://127.0.0.1"];
    const { stdout } = await run(process.execPath, [cli, ...common, ...list], { cwd: folder, timeout: 280_000 });
    return stdout;
  }

  it("uploads a program, which runs", { retry }, async () => {
    const program = path.join(folder, "program.js");
    const functions = Array.from({ length: 40 }, (_, i) => `function f${i}() { return ${i}; }\n`);
    await writeFile(program, `print("hello from upload");\n${functions.join("")}print("sum", f1() + f39());\n`);
    const printed = await espruino(program, "--sleep", "1");
    expect(printed).toContain("hello from upload");
    expect(printed).toContain("sum 40");
    expect(await type(peer, "f2()+f3()\n", "=5")).not.toContain("Uncaught");
  });

  it("evaluates an expression without a reset", { retry }, async () => {
    await type(peer, "kept=42\n", "=42");
    expect(await espruino("-e", `${PADDING}print("kept is",kept);`, "--sleep", "1")).toContain("kept is 42");
  });

  it("writes the agent into flash, and it boots", { retry }, async () => {
    const boot = path.join(folder, "boot.js");
    await writeFile(boot, 'require("agent")');
    const list = ["--storage", `agent:${bundle}`, "--storage", ".bootcde:boot.js", ...pace];
    await espruino(...list, "-e", `${PADDING}print("written");`);
    const sum = crc32(await readFile(bundle));
    expect(await type(peer, 'E.CRC32(require("Storage").read("agent"))\n', String(sum))).toContain(`=${sum}`);
    await peer.powerCycle();
    expect(await type(peer, "show_llm_config\n", "baseUrl")).not.toContain("Uncaught");
  });

  it("sends and fetches files in packets", { retry }, async () => {
    const text = "0123456789 abcdefghij ".repeat(300);
    const bytes = Array.from({ length: 3000 }, (_, i) => String.fromCharCode((i * 37) & 0xff)).join("");
    // The interpreter writes a line feed as CR LF and does not count it, and its Linux build quits at a 04.
    const safe = bytes.replace(/[\n\x03\x04]/g, "-");
    const job = [
      ["espruinoEval", "[1,{a:'x'}]"],
      ["espruinoSendFile", "text", text],
      ["espruinoEval", "E.CRC32(require('Storage').read('text'))"],
      ["espruinoSendFile", "packed", text, { c: 1 }],
      ["espruinoEval", "E.CRC32(require('Storage').read('packed'))"],
      ["espruinoSendFile", "bytes", safe, { chunkSize: 1021 }],
      ["espruinoReceiveFile", "bytes"],
      ["espruinoReceiveFile", "nothing"],
      ["espruinoSendPacket", "DATA", "no file"],
      ["espruinoSendPacket", "EVAL", "nonsense("],
    ];
    const { stdout } = await run(process.execPath, [packetClient, tool, String(peer.port), JSON.stringify(job)]);
    expect(JSON.parse(stdout)).toEqual([
      [1, { a: "x" }],
      null,
      crc32(Buffer.from(text, "latin1")),
      null,
      crc32(Buffer.from(text, "latin1")),
      null,
      safe,
      { error: expect.stringContaining("NAK") as string },
      { error: expect.stringContaining("NAK") as string },
      { error: expect.stringContaining("NAK") as string },
    ]);
  });
});
