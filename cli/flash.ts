/** `espruino-agent flash`: the agent, its settings and its Wi-Fi onto a board. */
import type { Readable, Writable } from "node:stream";
import { httpsWarning, isHttps, isSecretName, readBoardSettings, writeBoardSettings } from "./board-settings";
import { makeBundle } from "./bundle";
import type { Command, Options, Surroundings } from "./command";
import { choosePort, messageOf, portOptions, withDevice } from "./connect";
import { type BoardInfo, describeBoard, type Device, DeviceError, type Loaded } from "./device";
import { usualLine } from "./diagnosis";
import { installAgent, ownBytes, readBoot, recover, setBoot } from "./install";
import { createProgress, type Progress } from "./progress";
import { problemsOf, readSettingsFile, type Settings, UsageError } from "./settings";
import { fromBytes } from "./text";
import { checkWifi, joinWifi } from "./wifi";
import { WireError } from "./wire";

export const flashCommand: Command = {
  name: "flash",
  usage: "--port <port> [options]",
  summary: "Puts the agent onto a board with Espruino, and starts it",
  examples: [
    "espruino-agent flash --port /dev/ttyUSB0",
    "espruino-agent flash --port /dev/ttyUSB0 --wifi HomeNet --gateway http://192.168.1.10:8089",
    "AGENT_TOKEN=eagw_... espruino-agent flash --port /dev/ttyUSB0 --gateway http://192.168.1.10:8089",
    "espruino-agent flash --port COM3 --config agent.json --no-boot",
    "espruino-agent flash --port tcp://192.168.1.20:3333 --json",
  ],
  options: [
    ...portOptions,
    ["--config <file>", "JSON file of settings, laid over those that the board has"],
    ["--replace-config", "Forget the settings that the board has"],
    ["--gateway <url>", "Where the agent finds its gateway or model server: http://192.168.1.10:8089"],
    ["--token <token>", "The board's token at the gateway; better in AGENT_TOKEN, which no shell remembers"],
    ["--wifi <ssid>", "Join this network and save it; the password is asked for"],
    ["--replace", "Where the board has no room for two agents, erase the old one first; a cut then leaves it without"],
    ["--no-boot", "Do not start the agent at power-up; takes out what an earlier flash put into .bootcde"],
    ["--json", "Print one JSON object, for scripts"],
  ],
  notes: `
Environment:
  AGENT_WIFI_PASSWORD  the password for --wifi; empty for an open network
  AGENT_TOKEN          the token for --gateway

The board keeps the agent it has until the new one is on it, proved by its CRC and tried: flash can be stopped, or the
board unplugged, at any time, and be run again. Only with --replace, on a board that has no room for both, the old one
goes first: a cut then leaves a board that starts to its prompt and says so, until flash is run again.
Exit codes: 0 done; 1 it could not be done; 2 bad usage.`,
  async run(positional, options, io) {
    if (positional.length > 0) {
      throw new UsageError(`unexpected ${JSON.stringify(positional[0])}: the port is named by --port`);
    }
    const settings = readSettings(options, io.env);
    if (options.replaceConfig === true && settings === undefined) {
      throw new UsageError("--replace-config needs --config or --gateway: with what?");
    }
    const choice = await choosePort(options, io);
    const ssid = options.wifi as string | undefined;
    const wifi = ssid === undefined ? undefined : { ssid, password: await readPassword(ssid, io) };
    if (wifi) checkWifi(wifi.ssid, wifi.password);

    const code = await makeBundle(io.build, io.stderr);
    if (code === undefined) return 1;
    const isJson = options.json === true;
    const progress = createProgress(io, isJson);
    const secrets = [wifi?.password, ...secretsOf(settings)].filter((text) => text !== undefined);
    const job: FlashJob = {
      code,
      settings,
      replacesSettings: options.replaceConfig === true,
      wifi,
      isBoot: options.boot !== false,
      mayReplace: options.replace === true,
    };
    let isUnderWay = false;
    // The option changes nothing where the old agent is gone already.
    const again = `espruino-agent flash again${job.mayReplace ? ", with --replace" : ""}`;
    try {
      const result = await withDevice(choice, io, secrets, progress, (device) => {
        isUnderWay = true;
        return flashBoard(device, job, progress);
      });
      if (isJson) io.stdout.write(`${JSON.stringify({ ok: true, port: choice.port, ...result })}\n`);
      return 0;
    } catch (error) {
      progress.end();
      if (io.signal.aborted) {
        io.stderr.write(`stopped: run ${again}\n`);
        return io.signal.reason as number;
      }
      const told = messageOf(error);
      const isCut = isUnderWay && error instanceof WireError;
      const message = isCut ? `${told}. Run ${again}` : told;
      if (isJson) io.stdout.write(`${JSON.stringify({ ok: false, port: choice.port, error: message })}\n`);
      else io.stderr.write(`${message}\n`);
      return 1;
    }
  },
};

/** What is to be on the board. */
export interface FlashJob {
  /** The bundle: no control characters but line feeds between tokens. */
  code: string;
  /** Laid over the board's own, checked. */
  settings?: Settings;
  /** The board's own settings are forgotten. */
  replacesSettings?: boolean;
  wifi?: { ssid: string; password: string };
  /** The agent starts at power-up. */
  isBoot: boolean;
  /** The old agent may be erased before the new one is on the board, where there is no room for both. */
  mayReplace?: boolean;
}

/** What was done. */
export interface FlashResult {
  board: string;
  version: string;
  agent: { bytes: number; isChanged: boolean; method?: string };
  /** A sentence. */
  boot: string;
  /** Names of the settings that were laid over. */
  settings?: string[];
  wifi?: { ssid: string; ip: string };
  isStarted: boolean;
  /** A sentence on what will hardly work. */
  warning?: string;
}

/**
 * Puts everything onto a board and starts it. May be cut at any moment, and be called again.
 * @throws {DeviceError}, {WireError} what could not be done
 */
export async function flashBoard(device: Device, job: FlashJob, progress: Progress): Promise<FlashResult> {
  progress.begin("waiting for the board", 0);
  for (const line of await device.wake()) progress.say(`board: ${line}`);
  progress.begin("board: an empty interpreter", 0);
  // Nothing of a program is in the way then, and none of it runs from files that move.
  await device.reset();
  let result: FlashResult;
  try {
    result = await fillBoard(device, job, progress);
  } catch (error) {
    // What is on the board runs again.
    progress.begin("starting what is on the board", 0);
    if (error instanceof DeviceError) await device.load().catch(() => undefined);
    throw error;
  }
  const boot = await readBoot(device);
  progress.begin("starting", 0);
  const loaded = await device.load();
  progress.end();
  if (job.isBoot) {
    const problem = explainStart(loaded, ownBytes(boot), device.wire.port);
    if (problem !== undefined) throw new DeviceError(`everything is on the board, but ${problem}`);
    progress.say("The agent runs. espruino-agent console opens its console, espruino-agent doctor checks the rest");
  }
  if (result.warning !== undefined) progress.say(`warning: the server has an https address: ${result.warning}`);
  return result;
}

/** All that is written onto the board, which is at its prompt, without a program. */
async function fillBoard(device: Device, job: FlashJob, progress: Progress): Promise<FlashResult> {
  const info = await describeBoard(device);
  progress.say(`board: ${tellBoard(info)}`);
  if (job.wifi && !info.modules.split(",").includes("Wifi")) {
    throw new DeviceError(`--wifi: this firmware (${info.board}) has no Wi-Fi module; nothing was changed`);
  }
  await recover(device, progress);

  const { isChanged, method } = await installAgent(device, info, job.code, job.mayReplace === true, progress);
  const bytes = job.code.length;
  progress.say(
    isChanged
      ? `agent: ${bytes} bytes written${method === "lines" ? " line by line" : ""}, CRC read back, tried`
      : `agent: the same ${bytes} bytes are on the board already`,
  );
  const result: FlashResult = {
    board: info.board,
    version: info.version,
    agent: { bytes, isChanged, method },
    boot: "",
    isStarted: job.isBoot,
  };
  if (job.settings) {
    await writeBoardSettings(device, info, job.settings, job.replacesSettings === true);
    result.settings = Object.keys(job.settings);
    progress.say(`settings: ${result.settings.join(", ") || "none"} written to agent.json`);
    const saved = await readBoardSettings(device);
    if (typeof saved === "object" && saved.values.baseUrl && !saved.values.model) {
      progress.say('settings: no model is set, and most servers want one: set_config({model:"NAME"}) at its console');
    }
    if (typeof saved === "object" && isHttps(saved.values)) result.warning = httpsWarning;
  }
  result.boot = await setBoot(device, job.isBoot);
  progress.say(`boot: ${result.boot}`);
  if (job.wifi) {
    progress.begin(`wifi: joining ${job.wifi.ssid}`, 0);
    const ip = await joinWifi(device, job.wifi.ssid, job.wifi.password);
    result.wifi = { ssid: job.wifi.ssid, ip };
    progress.say(`wifi: the board is ${ip || "connected"} in ${job.wifi.ssid}, and joins it at power-up`);
  }
  return result;
}

export function tellBoard(info: BoardInfo): string {
  const kB = (bytes: number): string => `${Math.round(bytes / 1024)} kB`;
  return (
    `${info.board} with Espruino ${info.version}, ${info.total - info.usage} of ${info.total} variables free, ` +
    `${kB(info.freeBytes + info.trashBytes)} of Storage free`
  );
}

/** What the agent prints when it has been loaded. */
const banner = "espruino-agent:";

/** What is wrong with a board that was started, and what to do; undefined where all is well. */
function explainStart({ printed, last, isUp }: Loaded, own: number, port: string): string | undefined {
  const isLoaded = printed.includes(banner);
  const isRestarted = printed.split(banner).length > 2;
  if (isLoaded && isUp && !isRestarted) return undefined;
  const error = fromBytes(printed)
    .split(/\r?\n/)
    .map((line) => line.replace(/[\x00-\x1f]/g, "").trim())
    .find((line) => /Uncaught|OUT OF MEMORY|Error/.test(line));
  const usual = usualLine(last, 3);
  const shown = usual === "" ? "" : `; it prints ${JSON.stringify(usual)}`;
  const what = !isLoaded
    ? `the agent did not start with it${error ? `: ${error}` : ""}`
    : isRestarted
      ? "the board restarts by itself after the agent was loaded"
      : `the board does not answer after the agent was loaded${shown}`;
  if (isLoaded || own > 0) {
    const code = own > 0 ? `Its .bootcde has ${own} bytes of code of your own beside the agent's line. ` : "";
    const cause = own > 0 ? "If that is the cause, take it out" : "To take out what runs at power-up";
    const advice =
      `${code}${cause}: open espruino-agent console --port ${port}, press the board's RESET button and then ` +
      'Ctrl-C, type require("Storage").erase(".bootcde"), and run flash again';
    // A weak supply or a bad moment does that, too.
    return isLoaded && isRestarted
      ? `${what}. Run flash again; if it happens again: ${advice[0]!.toLowerCase()}${advice.slice(1)}`
      : `${what}. ${advice}`;
  }
  return what;
}

/** Settings from `--config` and, over them, `--gateway` and its token. Checked by the board's own rules. */
function readSettings(options: Options, env: Surroundings["env"]): Settings | undefined {
  const parts: [source: string, settings: Settings][] = [];
  if (options.config !== undefined) parts.push(["--config", readSettingsFile("--config", options.config as string)]);
  if (options.gateway !== undefined) {
    parts.push(["--gateway", { baseUrl: readGateway(options.gateway as string) }]);
    const token = (options.token as string | undefined) ?? env.AGENT_TOKEN;
    if (token) parts.push([options.token === undefined ? "AGENT_TOKEN" : "--token", { apiKey: token }]);
  } else if (options.token !== undefined) throw new UsageError("--token needs --gateway: the token of which one?");
  for (const [source, settings] of parts) {
    const problems = problemsOf(settings);
    if (problems.length > 0) throw new UsageError(`${source}: ${problems.join(", ")}`);
  }
  return parts.length === 0 ? undefined : Object.assign({}, ...parts.map(([, settings]) => settings));
}

/** `http://host:8089` as the agent's `baseUrl`, which ends in `/v1`. */
function readGateway(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.search !== "" || url.hash !== "" || url.username !== "") {
    throw new UsageError(
      "--gateway has to be a URL such as http://192.168.1.10:8089, without a name, a key or a query",
    );
  }
  const path = url.pathname.replace(/\/+$/, "");
  return `${url.origin}${path === "" ? "/v1" : path}`;
}

/** Values of settings that nobody may see. */
function secretsOf(settings: Settings = {}): string[] {
  const secrets = Object.entries(settings).filter(([name]) => isSecretName(name));
  return secrets.flatMap(([, value]) => (typeof value === "string" ? [value] : []));
}

async function readPassword(ssid: string, { env, stdin, stderr, signal }: Surroundings): Promise<string> {
  if (env.AGENT_WIFI_PASSWORD !== undefined) return env.AGENT_WIFI_PASSWORD;
  if (stdin.isTTY !== true) {
    throw new UsageError(
      "--wifi: no terminal to ask for the password: set AGENT_WIFI_PASSWORD (empty for an open network)",
    );
  }
  const { isCancel, password: askPassword } = await import("@clack/prompts");
  const answer = await askPassword({
    message: `Password of the Wi-Fi network ${ssid} (empty for an open one)`,
    input: stdin as unknown as Readable,
    output: stderr as unknown as Writable,
    signal,
    withGuide: false,
  });
  if (isCancel(answer)) throw new UsageError("no password, nothing was changed");
  return answer ?? "";
}
