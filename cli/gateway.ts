/** `espruino-agent gateway`: the LAN gateway, and the tokens by which it knows boards. */
import { readFile } from "node:fs/promises";
import { networkInterfaces } from "node:os";
import path from "node:path";
import { BUDGETS, type Budgets } from "../gateway/budget";
import { FILE_LIMITS, LIMITS, MOST_SILENCE_MS, type FileLimits, type Limits } from "../gateway/limits";
import type { FileOptions, Gateway } from "../gateway/server";
import { defaultStateFolder, FolderError, makeFolder, writeWhole } from "../gateway/state";
import { createTokenStore, nameProblem, TOKEN_COMMAND, TokenError, type TokenEntry } from "../gateway/tokens";
import { keyProblem, KEY_VARIABLE, readUpstreamUrl, isLoopback, type Auth } from "../gateway/upstream";
import type { Command, Options, Surroundings } from "./command";
import type { Output } from "./console";
import { UsageError } from "./settings";

const DEFAULT_LISTEN = "0.0.0.0:8089";

const HOUR_MS = 3_600_000;

/** Characters of --files-url: the answer to an upload must stay under the 512 bytes that a small device reads. */
const URL_LENGTH = 200;

const BUDGET_OPTIONS: [flag: string, name: keyof Budgets][] = [
  ["requests-per-hour", "requestsPerHour"],
  ["requests-per-day", "requestsPerDay"],
  ["tokens-per-hour", "tokensPerHour"],
  ["tokens-per-day", "tokensPerDay"],
];

export const gatewayCommand: Command = {
  name: "gateway",
  usage: "--upstream <url> [options]\n       espruino-agent gateway token add NAME | list | revoke NAME [options]",
  summary: "Lets boards talk plain HTTP to a provider: TLS and the API key stay here",
  examples: [
    `${KEY_VARIABLE}=sk-... espruino-agent gateway --upstream https://api.openai.com/v1 --models gpt-5-mini`,
    `${KEY_VARIABLE}=sk-ant-... espruino-agent gateway --upstream https://api.anthropic.com/v1`,
    "espruino-agent gateway --upstream http://127.0.0.1:11434/v1 --listen 192.168.1.10:8089",
    "espruino-agent gateway --upstream http://127.0.0.1:11434/v1 --files ./files --files-expire 24",
    "espruino-agent gateway --upstream http://127.0.0.1:11434/v1 --files ./files --files-url https://files.example.org",
    "espruino-agent gateway token add kitchen --tokens-per-day 200000",
    "espruino-agent gateway token revoke kitchen",
  ],
  options: [
    ["--upstream <url>", "Base URL of the provider or server, up to /v1; https:// unless it is in the local network"],
    ["--listen <address>", `HOST:PORT for boards (default ${DEFAULT_LISTEN})`],
    ["--models <list>", "Models that boards may ask for, with commas between (default: all)"],
    [
      "--state <dir>",
      "Where one gateway keeps tokens and usage (default: espruino-agent/gateway in the state folder)",
    ],
    ["--auth <how>", "How the key is sent: auto (by the API that is asked), bearer or x-api-key"],
    ["--no-key", "The upstream needs no key, though it is https://"],
    ...BUDGET_OPTIONS.map(([flag, name]): [string, string] => [
      `--${flag} <number>`,
      `What each board may use, or with token add this board (default ${BUDGETS[name]}; 0: no limit)`,
    ]),
    ["--max-body <bytes>", `Longest request (default ${LIMITS.bodyBytes})`],
    ["--silence <seconds>", `Longest silence of the upstream (default ${LIMITS.silenceMs / 1000})`],
    ["--timeout <seconds>", `Longest reply (default ${LIMITS.totalMs / 1000})`],
    ["--files <dir>", "Take files from boards and keep them in this folder (default: none are taken)"],
    ["--files-url <url>", "What links to files begin with, if a model cannot reach the address that boards use"],
    ["--files-expire <hours>", `How long a file stays (default ${FILE_LIMITS.expireMs / HOUR_MS})`],
    ["--files-total <bytes>", `Bytes of all files together (default ${FILE_LIMITS.totalBytes})`],
    ["--max-file-bytes <bytes>", `Largest file (default ${FILE_LIMITS.fileBytes})`],
    ["--json", "token add, token list: JSON. The gateway: its log as JSON on a terminal, too"],
  ],
  notes: `
Environment:
  ${KEY_VARIABLE}  the provider's key. It is taken from here alone, and written nowhere
  NODE_EXTRA_CA_CERTS   a file with the CA of an upstream that has its own

The log is one line of JSON a request on stdout, without keys, tokens and what was said. /healthz and /metrics
(Prometheus) are open to whoever can reach the port. A board that sends "X-Agent-Slim: 1" gets a slim stream.

Files (--files): POST /upload takes a form with one part called file, GET /files lists a board's own, DELETE /files/ID
deletes one; each wants the board's token. GET /download/ID wants none, as a model has none: whoever has the link can
read the file until it expires. /v1/files is the same as OpenAI's Files API. A device that can set no header gives its
token in the address, /upload?token=... Pictures, sound, video, PDF and text are taken.

Exit codes: 0 stopped by Ctrl-C or a signal, or done; 1 the port or a folder cannot be used, or there is no such token;
2 bad usage.`,
  async run(positional, options, io) {
    const [word, ...rest] = positional;
    if (word === undefined) return serve(options, io);
    if (word !== "token")
      throw new UsageError(`unexpected ${JSON.stringify(word)}: gateway takes options, or token add, list or revoke`);
    try {
      return await manageTokens(rest, options, io);
    } catch (error) {
      const problem = error instanceof TokenError ? error.message : stateProblem(error, stateFolderOf(options, io));
      io.stderr.write(`${problem}\n`);
      return 1;
    }
  },
};

function stateFolderOf(options: Options, io: Surroundings): string {
  return options.state === undefined ? defaultStateFolder(io.env) : path.resolve(String(options.state));
}

function stateProblem(error: unknown, folder: string): string {
  const { errno, message } = error as NodeJS.ErrnoException;
  if (typeof errno !== "number") throw error;
  return `the state folder ${folder} cannot be used (${message}): choose another with --state`;
}

/** `name` of an option with its value as a whole number. */
function readNumber(options: Options, flag: string, least: number, most: number): number | undefined {
  const text = options[flag.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())];
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!/^\d+$/.test(String(text)) || value < least || value > most)
    throw new UsageError(`--${flag} must be a whole number from ${least} to ${most}`);
  return value;
}

function readBudgets(options: Options): Partial<Budgets> {
  const given = BUDGET_OPTIONS.map(([flag, name]) => [name, readNumber(options, flag, 0, 1e12)] as const);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined));
}

function readLimits(options: Options): Partial<Limits> {
  const silence = readNumber(options, "silence", 1, MOST_SILENCE_MS / 1000);
  const timeout = readNumber(options, "timeout", 1, 86_400);
  const body = readNumber(options, "max-body", 1024, 100 * 1024 * 1024);
  return {
    ...(body !== undefined && { bodyBytes: body }),
    ...(silence !== undefined && { silenceMs: silence * 1000 }),
    ...(timeout !== undefined && { totalMs: timeout * 1000 }),
  };
}

/** What --files and its like say; undefined where no files are taken. */
function readFiles(options: Options): FileOptions | undefined {
  const bytes = readNumber(options, "max-file-bytes", 1, 1e12);
  const hours = readNumber(options, "files-expire", 1, 10 * 366 * 24);
  const total = readNumber(options, "files-total", 1, 1e15);
  const publicUrl = options.filesUrl === undefined ? undefined : readFilesUrl(String(options.filesUrl));
  if (options.files === undefined) {
    const given = { "max-file-bytes": bytes, "files-expire": hours, "files-total": total, "files-url": publicUrl };
    const name = Object.entries(given).find(([, value]) => value !== undefined)?.[0];
    if (name !== undefined) throw new UsageError(`--${name} says nothing without --files and a folder for them`);
    return undefined;
  }
  if (options.files === "") throw new UsageError("--files needs a folder");
  const limits: Partial<FileLimits> = {
    ...(bytes !== undefined && { fileBytes: bytes }),
    ...(hours !== undefined && { expireMs: hours * HOUR_MS }),
    ...(total !== undefined && { totalBytes: total }),
  };
  const { fileBytes, totalBytes } = { ...FILE_LIMITS, ...limits };
  if (fileBytes > totalBytes)
    throw new UsageError(`--max-file-bytes (${fileBytes}) must not be above --files-total (${totalBytes})`);
  return { folder: path.resolve(String(options.files)), publicUrl, limits };
}

function readFilesUrl(text: string): string {
  const url = URL.canParse(text) && /^https?:\/\//i.test(text) ? new URL(text) : undefined;
  if (url === undefined || url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "")
    throw new UsageError("--files-url must be a URL such as https://files.example.org, without user, ? and #");
  const base = `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
  if (base.length > URL_LENGTH) throw new UsageError(`--files-url is longer than ${URL_LENGTH} characters`);
  return base;
}

interface Address {
  host: string;
  port: number;
}

/** `HOST:PORT`, `[HOST]:PORT`, or a port alone. */
function readListen(text: string): Address {
  const [, bracketed, plain, digits] = /^(?:(?:\[([^\]]+)\]|([^:[\]]+)):)?(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > 65_535)
    throw new UsageError(`--listen must be HOST:PORT such as ${DEFAULT_LISTEN}, or a port`);
  return { host: bracketed ?? plain ?? "0.0.0.0", port };
}

function readModels(options: Options): string[] {
  const models = String(options.models ?? "")
    .split(",")
    .map((name) => name.trim())
    .filter(Boolean);
  if (options.models !== undefined && models.length === 0) throw new UsageError("--models names no model");
  return models;
}

function readAuth(options: Options): Auth {
  const auth = options.auth ?? "auto";
  if (auth === "auto" || auth === "bearer" || auth === "x-api-key") return auth;
  throw new UsageError("--auth must be auto, bearer or x-api-key");
}

function readUpstream(options: Options, io: Surroundings): { upstream: string; key: string } {
  if (options.upstream === undefined)
    throw new UsageError("--upstream is missing: the provider's base URL, such as https://api.openai.com/v1");
  let upstream: string;
  try {
    upstream = readUpstreamUrl(String(options.upstream));
  } catch (error) {
    throw new UsageError(`--upstream: ${(error as Error).message}`);
  }
  const key = io.env[KEY_VARIABLE] ?? "";
  const problem = keyProblem(key);
  if (problem !== "") throw new UsageError(problem);
  const isSecure = upstream.startsWith("https:");
  if (key === "" && isSecure && options.key !== false)
    throw new UsageError(
      `${KEY_VARIABLE} is not set: put the provider's key into the environment (no option takes it, since others can see ` +
        "options), or say --no-key",
    );
  if (key !== "" && options.key === false)
    throw new UsageError(`--no-key, but ${KEY_VARIABLE} is set: leave out one of the two`);
  if (isSecure && io.env.NODE_TLS_REJECT_UNAUTHORIZED === "0")
    throw new UsageError(
      "NODE_TLS_REJECT_UNAUTHORIZED=0 turns certificate checks off, and anyone could read the key: unset it. A CA of " +
        "your own goes into NODE_EXTRA_CA_CERTS",
    );
  return { upstream, key };
}

/** The addresses at which boards find a gateway that listens on `host`: those of a home network first. */
export function lanAddresses(host: string, interfaces = networkInterfaces()): string[] {
  if (host !== "0.0.0.0" && host !== "::") return [host.includes(":") ? `[${host}]` : host];
  const all = Object.values(interfaces)
    .flat()
    .filter((one) => one !== undefined && one.family === "IPv4" && !one.internal)
    .map((one) => one!.address);
  const rank = (address: string): number =>
    ["192.168.", "10.", "172."].findIndex((start) => address.startsWith(start)) + 1 || 9;
  return all.length > 0 ? all.sort((a, b) => rank(a) - rank(b)) : ["127.0.0.1"];
}

/** What a gateway leaves in its state folder, so that `token add` can say what to type at the board. */
interface Running {
  baseUrl: string;
  model?: string;
  provider?: "anthropic";
  /** Where files go, if they are taken. */
  uploadUrl?: string;
}

const runningFile = (stateFolder: string): string => path.join(stateFolder, "gateway.json");

async function readRunning(stateFolder: string): Promise<Running | undefined> {
  try {
    const running = JSON.parse(await readFile(runningFile(stateFolder), "utf8"));
    return typeof running?.baseUrl === "string" ? running : undefined;
  } catch {
    // None has run yet: what it would say is a guess then.
    return undefined;
  }
}

async function serve(options: Options, io: Surroundings): Promise<number> {
  const { stdout, stderr, signal } = io;
  const { upstream, key } = readUpstream(options, io);
  const address = readListen(String(options.listen ?? DEFAULT_LISTEN));
  const models = readModels(options);
  const stateFolder = stateFolderOf(options, io);
  const files = readFiles(options);
  const isPlain = options.json === true || stdout.isTTY !== true;
  const settings = { auth: readAuth(options), budgets: readBudgets(options), limits: readLimits(options) };

  let gateway: Gateway | undefined;
  let tokens: TokenEntry[];
  let port: number;
  try {
    await makeFolder(stateFolder);
    const log = (line: string): void => void stdout.write(isPlain ? line : tellLine(line));
    // The web server is loaded by nobody who does not start one.
    const { createGateway } = await import("../gateway/server");
    const places = { upstream, key, models, stateFolder, files };
    gateway = await createGateway({ ...places, ...settings, log, withProcessMetrics: true });
    tokens = await createTokenStore(stateFolder, warn(stderr)).list();
    port = await gateway.listen(address.host, address.port);
  } catch (error) {
    await gateway?.close();
    const problem =
      error instanceof FolderError
        ? error.message
        : (listenProblem(error, address) ?? stateProblem(error, stateFolder));
    stderr.write(`${problem}\n`);
    return 1;
  }
  const [host, ...others] = lanAddresses(address.host);
  const origin = `http://${host}:${port}`;
  const running: Running = {
    baseUrl: `${origin}/v1`,
    ...(models[0] !== undefined && { model: models[0] }),
    ...(new URL(upstream).hostname.endsWith("anthropic.com") && { provider: "anthropic" as const }),
    ...(files !== undefined && { uploadUrl: `${origin}/upload` }),
  };
  await writeWhole(runningFile(stateFolder), `${JSON.stringify(running)}\n`).catch((error: Error) => {
    stderr.write(`${runningFile(stateFolder)} cannot be written: ${error.message}\n`);
  });

  stderr.write(`boards: ${running.baseUrl}${others.length > 0 ? ` (also ${others.join(", ")})` : ""}\n`);
  stderr.write(`upstream: ${upstream}, models: ${models.length > 0 ? models.join(", ") : "all"}\n`);
  if (key === "" && options.key !== false)
    stderr.write(`${KEY_VARIABLE} is not set: no key is sent to the upstream\n`);
  if (files !== undefined) {
    const { fileBytes, expireMs, totalBytes } = { ...FILE_LIMITS, ...files.limits };
    const bounds = `each up to ${fileBytes} bytes for ${expireMs / HOUR_MS} h, ${totalBytes} bytes in all`;
    stderr.write(`files: ${files.folder}, ${bounds}, links ${files.publicUrl ?? origin}/download/...\n`);
  }
  const active = tokens.filter((token) => token.revokedAt === undefined).map((token) => token.name);
  stderr.write(
    active.length > 0
      ? `tokens: ${active.length} (${active.slice(0, 10).join(", ")}${active.length > 10 ? ", ..." : ""})\n`
      : `no board has a token yet: ${TOKEN_COMMAND}\n`,
  );
  if (key !== "" && upstream.startsWith("http:") && !isLoopback(new URL(upstream).hostname))
    stderr.write("warning: the key goes over the local network without TLS, as the upstream is http://\n");

  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
  const isPipeBroken = signal.reason === 141;
  if (!isPipeBroken) stderr.write(`stopping: replies under way get ${LIMITS.graceMs / 1000} s\n`);
  await gateway.close();
  // Being told to stop is how it ends; a log that nobody takes any more is not.
  return isPipeBroken ? 141 : 0;
}

const warn =
  (stderr: Output) =>
  (problem: string): void =>
    void stderr.write(`warning: ${problem}\n`);

/** Why a port cannot be had; undefined for what is no such problem. */
function listenProblem(error: unknown, { host, port }: Address): string | undefined {
  const { code, syscall } = error as NodeJS.ErrnoException;
  const at = `${host}:${port}`;
  if (code === "EADDRINUSE") return `${at} is in use: stop what listens there, or choose another port with --listen`;
  if (syscall === "listen" && code === "EACCES")
    return `${at} needs rights that you have not: choose a port above 1023 with --listen`;
  if (code === "EADDRNOTAVAIL")
    return `${host} is no address of this machine: choose one with --listen, 0.0.0.0 for all`;
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return `no address is called ${host}: choose another with --listen`;
  return syscall === "listen" ? `${at} cannot be listened on (${code})` : undefined;
}

/** A line of the log for a person. */
function tellLine(line: string): string {
  const { time, level, msg, board, from, model, status, outcome, problem, tokens, isEstimated, ms, ...rest } =
    JSON.parse(line);
  const clock = new Date(time).toTimeString().slice(0, 8);
  if (status === undefined) return `${clock} ${level >= 40 ? "warning: " : ""}${msg}\n`;
  const used = tokens > 0 ? `, ${isEstimated ? "about " : ""}${tokens} tokens` : "";
  const size = rest.bytes > 0 ? `, ${rest.bytes} bytes` : "";
  const what = `${status || "-"} ${outcome}${used}${size}, ${(ms / 1000).toFixed(1)} s`;
  const asked = rest.dialect === undefined ? `${rest.method} ${rest.route}` : undefined;
  const who = [clock, board ?? `(${from})`, model, asked, rest.name, what].filter(Boolean).join(" ");
  // Words of others, such as a model's name, must not reach the terminal as more than words.
  return `${`${who}${problem ? `: ${problem}` : ""}`.replace(/[\x00-\x1f\x7f-\x9f]/g, "?")}\n`;
}

async function manageTokens(words: string[], options: Options, io: Surroundings): Promise<number> {
  const [verb = "", name] = words;
  if (!["add", "list", "revoke"].includes(verb) || words.length !== (verb === "list" ? 1 : 2))
    throw new UsageError("usage: espruino-agent gateway token add NAME, token list, or token revoke NAME");
  const badName = verb === "add" ? nameProblem(name!) : "";
  if (badName !== "") throw new UsageError(badName);
  const stateFolder = stateFolderOf(options, io);
  const store = createTokenStore(stateFolder, warn(io.stderr));
  if (verb === "list") return listTokens(await store.list(), options, io.stdout);
  if (verb === "revoke") {
    await store.revoke(name!);
    io.stdout.write(`${name}: its token is revoked, at once\n`);
    return 0;
  }

  const budgets = readBudgets(options);
  const models = readModels(options);
  const listen = options.listen === undefined ? undefined : readListen(String(options.listen));
  const running = listen === undefined ? await readRunning(stateFolder) : undefined;
  const { host, port } = listen ?? readListen(DEFAULT_LISTEN);
  const baseUrl = running?.baseUrl ?? `http://${lanAddresses(host)[0]}:${port}/v1`;
  const model = models[0] ?? running?.model;
  const { provider, uploadUrl } = running ?? {};
  const token = await store.add(name!, budgets);
  if (options.json === true) {
    io.stdout.write(`${JSON.stringify({ name, token, baseUrl, model, provider, uploadUrl })}\n`);
    return 0;
  }
  const fields = [
    `baseUrl:${JSON.stringify(baseUrl)}`,
    `apiKey:${JSON.stringify(token)}`,
    `model:${JSON.stringify(model ?? "...")}`,
    ...(provider === undefined ? [] : [`provider:${JSON.stringify(provider)}`]),
    ...(uploadUrl === undefined
      ? []
      : ["multimodal:true", `uploadUrl:${JSON.stringify(uploadUrl)}`, `fileToken:${JSON.stringify(token)}`]),
  ];
  io.stdout.write(
    `The token of ${name}, shown this once:\n\n  ${token}\n\nType at the board:\n\n` +
      `  set_config({${fields.join(",")}})\n\nA running gateway knows it already.\n`,
  );
  return 0;
}

function listTokens(tokens: TokenEntry[], options: Options, stdout: Output): number {
  if (options.json === true) {
    stdout.write(`${JSON.stringify(tokens)}\n`);
    return 0;
  }
  if (tokens.length === 0) stdout.write(`no board has a token yet: ${TOKEN_COMMAND}\n`);
  const width = Math.max(4, ...tokens.map(({ name }) => name.length));
  const date = (text: string): string => text.slice(0, 16).replace("T", " ");
  for (const { name, createdAt, revokedAt, budgets } of tokens) {
    const own = BUDGET_OPTIONS.filter(([, key]) => budgets?.[key] !== undefined).map(
      ([flag, key]) => `${flag} ${budgets![key]}`,
    );
    const state = revokedAt === undefined ? "" : `, revoked ${date(revokedAt)}`;
    stdout.write(
      `${name.padEnd(width)}  made ${date(createdAt)}${state}${own.length > 0 ? `, ${own.join(", ")}` : ""}\n`,
    );
  }
  return 0;
}
