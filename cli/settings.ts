/** The board's settings for one start: what the environment lays over what the board has saved. */
import { readFileSync } from "node:fs";
import { openSettings } from "../firmware/config";
import { createStorage, type Storage } from "../host-sim/storage";
import { encodeValue, fromBytes } from "./text";

export type Settings = Record<string, unknown>;

/** Something the person who started the program has to change. The program exits with 2. */
export class UsageError extends Error {}

const settingOfVariable: Record<string, string> = {
  AGENT_BASE_URL: "baseUrl",
  AGENT_API_KEY: "apiKey",
  AGENT_MODEL: "model",
  AGENT_PROVIDER: "provider",
};

type Environment = Record<string, string | undefined>;

/**
 * Settings from AGENT_CONFIG (a JSON file) and, over them, from the other AGENT_ variables. Empty variables count as
 * not set. What may be set, and to what, is the board's own rule.
 * @throws {UsageError} one line naming each variable that is wrong, never a value
 */
export function readEnvironment(env: Environment): Settings {
  const sources: [variable: string, settings: Settings][] = [];
  if (env.AGENT_CONFIG) sources.push(["AGENT_CONFIG", readSettingsFile("AGENT_CONFIG", env.AGENT_CONFIG)]);
  for (const [variable, setting] of Object.entries(settingOfVariable)) {
    if (env[variable]) sources.push([variable, { [setting]: env[variable] }]);
  }
  const problems = sources
    .map(([variable, settings]) => [variable, problemsOf(settings).join(", ")])
    .filter(([, text]) => text !== "")
    .map(([variable, text]) => `${variable}: ${text}`);
  if (problems.length > 0) throw new UsageError(problems.join("; "));
  return Object.assign({}, ...sources.map(([, settings]) => settings));
}

/** What is wrong with settings, in the board's words. Names settings, never shows a value. */
export function problemsOf(settings: Settings): string[] {
  const problems = openSettings().apply(encodeValue(settings), true);
  // A name in the file may hold anything; what is told is one line.
  if (problems.length > 0) return problems.map((text) => fromBytes(text).replace(/[\x00-\x1f\x7f]/g, "?"));
  const { baseUrl } = settings;
  const isUsable = !baseUrl || URL.canParse(String(baseUrl));
  return isUsable ? [] : ["baseUrl must be a URL such as http://192.168.1.10:11434/v1"];
}

/**
 * Where the settings come from that hide what the board has saved, in words: `AGENT_MODEL`, `AGENT_CONFIG`, `the
 * stand-in`. `saved` is text as the host has it.
 */
export function hidingSources(saved: Settings, env: Environment, environment: Settings, standIn: Settings): string[] {
  const sourceOf = (name: string): string => {
    if (Object.hasOwn(standIn, name)) return "the stand-in";
    return Object.keys(settingOfVariable).find((key) => env[key] && settingOfVariable[key] === name) ?? "AGENT_CONFIG";
  };
  const laid = { ...environment, ...standIn };
  const hidden = Object.keys(laid).filter((name) => (saved[name] ?? "") !== "" && saved[name] !== laid[name]);
  return [...new Set(hidden.map(sourceOf))];
}

/**
 * The settings in a JSON file, not checked. `source` is the option or variable that names the file.
 * @throws {UsageError} it cannot be read, or holds no JSON object
 */
export function readSettingsFile(source: string, file: string): Settings {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new UsageError(`${source}: ${file} cannot be read: ${(error as Error).message}`);
  }
  let value: unknown;
  try {
    value = JSON.parse(text.replace(/^\uFEFF/, ""));
  } catch (error) {
    // The message of JSON.parse quotes the text, and the text may hold a key.
    const place = / at position \d+( \(line \d+ column \d+\))?/.exec((error as Error).message)?.[0] ?? "";
    throw new UsageError(`${source}: ${file} is not JSON${place}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new UsageError(`${source}: ${file} has to hold a JSON object such as {"model": "qwen3"}`);
  }
  return value as Settings;
}

const settingsFile = "agent.json";

/** What the board has saved itself, text as byte strings; undefined where there is nothing or nothing readable. */
export function savedSettings(storage: Storage): Settings | undefined {
  const saved = storage.api.readJSON(settingsFile, true);
  return typeof saved === "object" && saved !== null && !Array.isArray(saved) ? (saved as Settings) : undefined;
}

/**
 * A Storage whose `agent.json` has `settings` laid over what is saved, for this start only: what the board writes there
 * is saved without them, unless it gave them another value. All other files are those of `storage`.
 */
export function layOver(storage: Storage, settings: Settings): Storage {
  const laid = encodeValue(settings) as Settings;
  const saved = (): Settings => savedSettings(storage) ?? {};
  const session = createStorage();
  session.api.write(settingsFile, JSON.stringify({ ...saved(), ...laid }));

  const isSettings = (name: unknown): boolean => String(name).replace(/^C:/i, "") === settingsFile;
  const apiOf = (name: unknown): Storage["api"] => (isSettings(name) ? session.api : storage.api);

  /** Saves what the board made of its settings, without what was only laid over. */
  function save(): void {
    const text = session.api.read(settingsFile);
    const written = savedSettings(session);
    if (text === undefined) return storage.api.erase(settingsFile);
    if (written === undefined) return void storage.api.write(settingsFile, text);
    const before = saved();
    for (const [name, value] of Object.entries(laid)) {
      if (JSON.stringify(written[name]) !== JSON.stringify(value)) continue;
      if (Object.hasOwn(before, name)) written[name] = before[name];
      else delete written[name];
    }
    if (Object.keys(written).length === 0) storage.api.erase(settingsFile);
    else storage.api.write(settingsFile, JSON.stringify(written));
  }

  return {
    api: {
      ...storage.api,
      read: (name, offset, length) => apiOf(name).read(name, offset, length),
      readJSON: (name, noExceptions) => apiOf(name).readJSON(name, noExceptions),
      readArrayBuffer: (name) => apiOf(name).readArrayBuffer(name),
      write(name, data, offset, size) {
        const isWritten = apiOf(name).write(name, data, offset, size);
        if (isSettings(name)) save();
        return isWritten;
      },
      writeJSON(name, data) {
        const isWritten = apiOf(name).writeJSON(name, data);
        if (isSettings(name)) save();
        return isWritten;
      },
      erase(name) {
        apiOf(name).erase(name);
        if (isSettings(name)) save();
      },
      eraseAll() {
        storage.api.eraseAll();
        session.api.eraseAll();
      },
      list(regex, filter) {
        const others = storage.api.list(regex, filter).filter((name) => name !== settingsFile);
        return [...others, ...session.api.list(regex, filter)];
      },
    },
    state() {
      const { files, ...rest } = storage.state();
      return { ...rest, files: { ...files, ...session.state().files } };
    },
  };
}
