/** `espruino-agent doctor`: what works from this computer to the board and the model, and what to do where it does not. */
import { createColors } from "picocolors";
import packageJson from "../package.json" with { type: "json" };
import { httpsWarning, isHttps, readBoardSettings } from "./board-settings";
import { loadBuild } from "./bundle";
import type { Command, Surroundings } from "./command";
import { choosePort, portOptions, type PortChoice } from "./connect";
import {
  type BoardInfo,
  createDevice,
  describeBoard,
  type Device,
  DeviceError,
  hasPackets,
  stoppedProgram,
} from "./device";
import { errorWords } from "../gateway/fault";
import { isCut, ownBytes, readBoot } from "./install";
import { createProgress } from "./progress";
import { problemsOf, type Settings, UsageError } from "./settings";
import { boardLiteral, fromBytes } from "./text";
import { isSame, readSum, sumOf } from "./upload";
import { listPorts, openWire, tellPort, tellPorts, type Wire, WireError } from "./wire";

export const doctorCommand: Command = {
  name: "doctor",
  usage: "[--port <port>] [options]",
  summary: "Checks the computer, the board and the way to the model, and says what to do",
  examples: [
    "espruino-agent doctor",
    "espruino-agent doctor --port /dev/ttyUSB0",
    "espruino-agent doctor --port tcp://192.168.1.20:3333 --json",
  ],
  options: [...portOptions, ["--json", "Print one JSON object, for scripts"]],
  notes: `
The model is asked for one token by the board itself. A program that runs on the board, and the agent's chat, are
stopped for it; nothing on the board is changed. Exit codes: 0 all is well; 1 something is wrong; 2 bad usage.`,
  async run(positional, options, io) {
    if (positional.length > 0) throw new UsageError(`unexpected ${JSON.stringify(positional[0])}`);
    const isJson = options.json === true;
    const checks: Check[] = [];
    const progress = createProgress(io, isJson);
    const colors = createColors(io.stdout.isTTY === true);
    const marks = { ok: colors.green("✓"), wrong: colors.red("✗"), unknown: colors.dim("–") };
    const report: Report = (name, status, text, fix) => {
      checks.push({ name, status, text, ...(fix === undefined ? {} : { fix }) });
      progress.say(`${marks[status]} ${name.padEnd(10)} ${text.replace(/\n/g, `\n${" ".repeat(13)}`)}`);
      if (fix !== undefined) progress.say(`${" ".repeat(13)}${fix.replace(/\n/g, `\n${" ".repeat(13)}`)}`);
    };
    const work = (title: string): void => progress.begin(title, 0);

    const ports = options.port === undefined ? await listPorts() : [];
    const choice = options.port === undefined && ports.length !== 1 ? undefined : await choosePort(options, io);
    checkNode(report);
    if (choice) await checkPort(choice, io, report, work);
    else {
      const text = ports.length === 0 ? "none" : ports.map(tellPort).join(", ");
      report("port", "wrong", text, ports.length === 0 ? tellPorts(ports) : "Choose one with --port");
    }
    progress.end();
    if (io.signal.aborted) return io.signal.reason as number;
    const isOk = checks.every(({ status }) => status !== "wrong");
    if (isJson) io.stdout.write(`${JSON.stringify({ ok: isOk, checks })}\n`);
    return isOk ? 0 : 1;
  },
};

/** `unknown`: it could not be looked at, or it does not matter here. */
type Status = "ok" | "wrong" | "unknown";
type Report = (name: string, status: Status, text: string, fix?: string) => void;

interface Check {
  name: string;
  status: Status;
  text: string;
  fix?: string;
}

function checkNode(report: Report): void {
  const wanted = packageJson.engines.node.replace(">=", "");
  const isNewer = process.versions.node.localeCompare(wanted, "en", { numeric: true }) >= 0;
  report("node", isNewer ? "ok" : "wrong", process.version, isNewer ? undefined : `Install Node ${wanted} or later`);
}

async function checkPort(
  { port, baudRate }: PortChoice,
  io: Surroundings,
  report: Report,
  work: (title: string) => void,
): Promise<void> {
  let wire: Wire;
  work(`opening ${port}`);
  try {
    wire = await openWire(port, { baudRate, signal: io.signal });
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    return report("port", "wrong", error.message);
  }
  report("port", "ok", port);
  try {
    await checkBoard(createDevice(wire, { signal: io.signal, onWait: work }), io, report, work);
  } catch (error) {
    if (!(error instanceof WireError) && !(error instanceof DeviceError)) throw error;
    if (!io.signal.aborted) report("board", "wrong", error.message);
  } finally {
    await wire.close();
  }
}

async function checkBoard(
  device: Device,
  io: Surroundings,
  report: Report,
  work: (title: string) => void,
): Promise<void> {
  work("waiting for the board");
  const stopped = await device.wake();
  const info = await describeBoard(device);
  report("board", "ok", [info.board, ...stopped].join("; "));
  report(
    "firmware",
    "ok",
    `Espruino ${info.version}${hasPackets(info) ? "" : ", without packets: uploads are slower"}`,
  );
  checkVariables(info, report);
  await checkAgent(device, io, report);
  await checkBoot(device, stopped.includes(stoppedProgram), report);
  await checkClock(device, report);
  const settings = await checkSettings(device, report);
  work("Wi-Fi");
  const isOnline = await checkWifi(device, info, report);
  if (!settings?.baseUrl) report("model", "unknown", "not asked: no server is set");
  else if (!isOnline) report("model", "unknown", "not asked: the board is not online");
  else {
    work(`model: the board asks ${tellUrl(settings)}`);
    await checkModel(device, settings, report);
  }
}

/** What the agent needs to work with all its tools and the history's default size, as measured (README). */
const neededVariables = 2_500;

function checkVariables({ total, usage }: BoardInfo, report: Report): void {
  const text = `${total - usage} of ${total} free`;
  if (total >= neededVariables) return report("variables", "ok", text);
  report("variables", "wrong", text, `The agent needs a board with ${neededVariables}: an ESP32, its Bluetooth off`);
}

async function checkAgent(device: Device, io: Surroundings, report: Report): Promise<void> {
  const flash = "Run espruino-agent flash";
  const sum = await readSum(device, "agent");
  const wasCut = await isCut(device);
  if (!sum) {
    if (!wasCut) return report("agent", "wrong", "not on the board", flash);
    return report("agent", "wrong", "not on the board: an update with --replace was cut", `${flash} again`);
  }
  const { code, problems } = await (io.build ?? (await loadBuild()))({ write: false });
  const isThis = isSame(sum, sumOf(code));
  const text = `${sum.length} bytes, CRC ${sum.crc.toString(16).padStart(8, "0")}`;
  if (wasCut) report("agent", "wrong", `${text}; an upload was cut`, `${flash} again`);
  else if (problems.length > 0) report("agent", "unknown", `${text}; not compared: the sources here do not build`);
  else if (isThis) report("agent", "ok", `${packageJson.version}, ${text}, the same as here`);
  else report("agent", "wrong", `${text}, another build than the one here`, flash);
}

/** What runs at power-up. `wasStopped`: the board gave no prompt before what ran was stopped. */
async function checkBoot(device: Device, wasStopped: boolean, report: Report): Promise<void> {
  const boot = await readBoot(device);
  if (boot.hasLine && !boot.hasRst) report("boot", "ok", ".bootcde starts the agent at power-up");
  else if (boot.hasLine) {
    report("boot", "wrong", "a file .bootrst runs in the place of .bootcde", 'require("Storage").erase(".bootrst")');
  } else report("boot", "unknown", 'the agent is not started at power-up; require("agent") starts it');
  const own = ownBytes(boot);
  if (own === 0) return;
  const text = `.bootcde has ${own} bytes of code of your own`;
  if (!wasStopped) return report("boot code", "unknown", text);
  report(
    "boot code",
    "wrong",
    `${text}; the board gave no prompt before what ran was stopped`,
    'Does that code end? require("Storage").erase(".bootcde") takes it out; flash then writes the agent\'s line anew',
  );
}

const dayMs = 86_400_000;
/** Older than any Espruino that can run the agent: a clock that began at 0. */
const firstMs = Date.UTC(2020, 0);

/** The agent does not need the time; people and tools may. */
async function checkClock(device: Device, report: Report): Promise<void> {
  const ms = await device.evaluate<number>("Math.floor(Date.now())");
  const date = new Date(ms);
  const isDate = !Number.isNaN(date.getTime());
  const text = isDate ? `${date.toISOString().slice(0, 16).replace("T", " ")} UTC` : "no date that there is";
  if (isDate && Math.abs(ms - Date.now()) < dayMs) return report("clock", "ok", text);
  const why = ms < firstMs ? "not set, or lost its power" : "wrong";
  const now = Math.floor(Date.now() / 1000);
  const fix = `setTime(${now}) at the board's console sets it until it is switched off`;
  report("clock", "unknown", `${text}: ${why}`, fix);
}

/** The settings that are saved on the board, without keys and tokens: those do not leave it. */
async function checkSettings(device: Device, report: Report): Promise<Settings | undefined> {
  const read = await readBoardSettings(device);
  const fix = 'At the board\'s console: set_config({baseUrl:"http://192.168.1.10:11434/v1",model:"qwen3"})';
  if (read === undefined) {
    report("settings", "wrong", "none on the board: the agent has no model", fix);
    return undefined;
  }
  if (read === "unreadable") {
    report("settings", "wrong", "agent.json is no JSON object", "Write it anew: flash --config FILE --replace-config");
    return undefined;
  }
  const { values: settings, secrets } = read;
  const problems = problemsOf(settings);
  if (problems.length > 0) {
    report(
      "settings",
      "wrong",
      `agent.json: ${problems.join("; ")}`,
      "Correct it: set_config({NAME:null}) puts one back",
    );
  } else if (!settings.baseUrl) report("settings", "wrong", "no server is set", fix);
  else if (settings.model) report("settings", "ok", `model ${String(settings.model)} at ${tellUrl(settings)}`);
  // Right for a server that has one model; what this one says is told by `checkModel`.
  else report("settings", "unknown", `no model is set: it is left to the server at ${tellUrl(settings)}`);
  if (isHttps(settings)) report("tls", "unknown", httpsWarning);
  if (secrets.length > 0) report("keys", "unknown", `${secrets.join(", ")} set`);
  else {
    report(
      "keys",
      "unknown",
      "no key or token is set",
      "A gateway wants a token: espruino-agent gateway token add NAME makes one; flash --gateway URL with AGENT_TOKEN " +
        "set puts it on the board",
    );
  }
  return settings;
}

function tellUrl({ baseUrl }: Settings): string {
  if (!URL.canParse(String(baseUrl))) return "an address that is no URL";
  const url = new URL(String(baseUrl));
  url.username = url.password = url.search = "";
  return url.href;
}

async function checkWifi(device: Device, info: BoardInfo, report: Report): Promise<boolean> {
  if (!info.modules.split(",").includes("Wifi")) {
    report("wifi", "unknown", "this firmware has no Wi-Fi module; it may have another network");
    return true;
  }
  const status = await device.evaluate<{ station?: string; ssid?: string; rssi?: number; ip?: string }>(
    "(function(w,s,i){s=w.getStatus();i=w.getIP();" +
      'return{station:s.station,ssid:s.ssid,rssi:s.rssi,ip:i&&i.ip}})(require("Wifi"))',
  );
  const name = status.ssid === undefined ? "" : ` in ${fromBytes(status.ssid)}`;
  const isOnline = status.station === "connected" && status.ip !== undefined && status.ip !== "0.0.0.0";
  const strength = status.rssi === undefined ? "" : `, ${status.rssi} dBm`;
  if (isOnline) report("wifi", "ok", `${status.ip}${name}${strength}`);
  else report("wifi", "wrong", `not connected (${status.station ?? "off"})`, "Run espruino-agent flash --wifi SSID");
  return isOnline;
}

/** A server may have to load the model first. */
const modelMs = 90_000;
/** Bytes of an answer that are looked at: a message of 300 characters, with what is around it. */
const answerBytes = 800;
/** Characters of a server's message that are shown. */
const saidLength = 320;

interface Answer {
  status?: string;
  text?: string;
  error?: string;
}

/** Has the board ask for one token: its own network, its own key. The key stays on the board. */
async function checkModel(device: Device, settings: Settings, report: Report): Promise<void> {
  const isAnthropic = settings.provider === "anthropic";
  const url = new URL(
    `${String(settings.baseUrl).replace(/\/+$/, "")}${isAnthropic ? "/messages" : "/chat/completions"}`,
  );
  const body = JSON.stringify({
    model: settings.model ?? "",
    [String(isAnthropic ? "max_tokens" : (settings.tokensField ?? "max_tokens"))]: 1,
    messages: [{ role: "user", content: "ok" }],
  });
  const isTls = url.protocol === "https:";
  const request = {
    method: "POST",
    protocol: url.protocol,
    host: url.hostname,
    port: Number(url.port || (isTls ? 443 : 80)),
    path: url.pathname,
  };
  const authorization = isAnthropic ? 'h["x-api-key"]=k' : 'h.Authorization="Bearer "+k';
  const version = isAnthropic ? 'h["anthropic-version"]="2023-06-01";' : "";
  const script =
    `var o=${JSON.stringify(request)},b=${boardLiteral(body)},t="",q,` +
    'k=(require("Storage").readJSON("agent.json",1)||{}).apiKey,h={"Content-Type":"application/json"};' +
    `h["Content-Length"]=b.length;${version}if(k)${authorization};o.headers=h;` +
    'q=require("http").request(o,function(r){' +
    `r.on("data",function(d){if(t.length<${2 * answerBytes})t+=d});` +
    'r.on("close",function(){done({status:r.statusCode,' +
    `text:(k?t.split(k).join("***"):t).substr(0,${answerBytes})})})});` +
    'q.on("error",function(e){done({error:String(e.message||e)})});q.end(b)';
  let answer: Answer;
  try {
    answer = await device.call<Answer>(script, modelMs);
  } catch (error) {
    if (!(error instanceof DeviceError)) throw error;
    answer = { error: error.message };
  }
  const status = Number(answer.status);
  if (status === 200) return report("model", "ok", `${url.href} answers the board`);
  if (answer.error !== undefined) {
    const { text, fix } = explainRequest(answer.error, url);
    return report("model", "wrong", text, fix);
  }
  const said = tellBody(fromBytes(answer.text ?? ""));
  report("model", "wrong", `${url.href} answers ${answer.status}${said}`, explainStatus(status, said, url, settings));
}

/** Why the board's request failed, by its own words for it. */
export function explainRequest(error: string, url: URL): { text: string; fix: string } {
  const isTls = url.protocol === "https:";
  if (isTls && /mbedtls|ssl|tls|memory/i.test(error)) {
    return { text: `https to ${url.host} failed on the board: ${tellLine(fromBytes(error))}`, fix: httpsWarning };
  }
  if (/locate host/i.test(error)) {
    return {
      text: `the board does not find ${url.hostname}`,
      fix: 'Use the machine\'s address: set_config({baseUrl:"http://192.168.1.10:8089/v1"})',
    };
  }
  if (/create socket|Connect failed/i.test(error)) {
    return {
      text: `nobody listens at ${url.host} for the board`,
      fix:
        "Is the gateway (espruino-agent gateway --upstream URL) or the server running, does it listen on 0.0.0.0, " +
        "and does a firewall let the board through?",
    };
  }
  if (/does not answer/.test(error)) {
    return {
      text: `${url.host} does not answer the board within ${modelMs / 1000} s`,
      fix: "Can the board reach that network? It may hang in this request: press its RESET button",
    };
  }
  return {
    text: `the board's request to ${url.host} failed: ${tellLine(fromBytes(error))}`,
    fix: isTls ? httpsWarning : "Is that an HTTP server?",
  };
}

/** The message in an answer, or what it begins with, on one line. */
function tellBody(text: string): string {
  const line = tellLine(errorWords(wholeJson(text)) || text);
  return line === "" ? "" : `: ${line}`;
}

/** An answer that was cut within its message, as JSON that has what is there of it; others as they are. */
function wholeJson(text: string): string {
  const cut = /"(?:message|detail|error)"\s*:\s*("(?:[^"\\]|\\(?:[^u]|u[\da-f]{4}))*)(?:\\u?[\da-f]{0,3})?$/i.exec(text);
  return cut ? `{"message":${cut[1]}..."}` : text;
}

/** Words of others on one line. */
function tellLine(text: string): string {
  const line = text.replace(/[\x00-\x1f\x7f-\x9f\s]+/g, " ").trim();
  return line.length > saidLength ? `${line.slice(0, saidLength)}...` : line;
}

/** What to do about an answer, by what the server says in it. */
function explainStatus(status: number, said: string, url: URL, settings: Settings): string {
  if (status === 401 || status === 403) {
    return (
      "The key or token on the board is missing, wrong or revoked. espruino-agent gateway token add NAME makes one; " +
      "flash --gateway URL with AGENT_TOKEN set puts it on the board"
    );
  }
  if (status === 404 || status === 400 || status === 422) return explainRefusal(status, said, url, settings);
  if (status === 429)
    return "The board's budget at the gateway, or the provider's limit, is used up: wait, or raise it";
  // It has named the cause, and where the setting is.
  if (status >= 500 && said.startsWith(": gateway: "))
    return `The board is right so far: do what is said there at the gateway (${url.origin}); its log has the request`;
  if (status >= 500) return `Look at the log of the gateway or server at ${url.origin}`;
  return `Is there a model server at ${url.origin}?`;
}

/** The model, or the path, is not what the server has. */
function explainRefusal(status: number, said: string, url: URL, settings: Settings): string {
  const atConsole = "at the board's console";
  if (!settings.model) {
    const [command] = /set_config\(\{model:"[^"]+"\}\)/.exec(said) ?? ['set_config({model:"NAME"})'];
    return `No model is set, and the server wants one: ${command} ${atConsole}`;
  }
  const isModel = /model|deployment/i.test(said);
  if (isModel || status !== 404) {
    return (
      `${isModel ? "The server does not take the model" : "Does the server take the model"} ${String(settings.model)}` +
      `${isModel ? "." : "?"} set_config({model:"NAME"}) ${atConsole} names another`
    );
  }
  const path = new URL(String(settings.baseUrl)).pathname.replace(/\/+$/, "");
  return path.endsWith("/v1")
    ? `That server has nothing at ${url.pathname}: baseUrl has to be the address of its API, up to /v1`
    : `baseUrl has to end in /v1 for most servers: set_config({baseUrl:"${url.origin}${path}/v1"}) ${atConsole}`;
}
