/** The settings in a board's `agent.json`. Keys and tokens stay on the board: they are never sent to this computer. */
import { type BoardInfo, type Device, DeviceError, hasPackets } from "./device";
import { copyFile, replaceFile, settingsFile } from "./install";
import type { Settings } from "./settings";
import { boardLiteral, toBytes } from "./text";
import { eraseFile, uploadFile } from "./upload";

const partFile = `${settingsFile}.part`;
const storage = 'require("Storage")';

export interface BoardSettings {
  /** Without secrets. */
  values: Settings;
  /** Names of the secrets that are set. */
  secrets: string[];
}

/** Names of settings that nobody is shown, by the firmware's rule. */
export function isSecretName(name: string): boolean {
  return /(Key|Token)$/.test(name);
}

/** Undefined where there is no such file, `"unreadable"` where it holds no JSON object. */
export async function readBoardSettings(device: Device): Promise<BoardSettings | "unreadable" | undefined> {
  // The board's JSON.parse makes one byte of \u20ac; so the escape is taken there for the six characters that it is.
  const raw = await device.evaluate<{ values: Settings; secrets: string[] } | 0 | null>(
    `(function(t,o,k){if(t===undefined)return null;try{o=JSON.parse(t.split("\\\\u").join("\\\\\\\\u"))}catch(e){}` +
      `if(!o||typeof o!="object"||o instanceof Array)return 0;` +
      `k=Object.keys(o).filter(function(n){return(n.endsWith("Key")||n.endsWith("Token"))&&o[n]});` +
      `k.forEach(function(n){delete o[n]});return{values:o,secrets:k}})(${storage}.read("${settingsFile}"))`,
    { isSecret: true },
  );
  if (raw === null) return undefined;
  if (raw === 0) return "unreadable";
  return { values: decode(raw.values) as Settings, secrets: raw.secrets };
}

/** Text from the board as it was written: bytes are UTF-8, and an escape is its character. */
function decode(value: unknown): unknown {
  if (typeof value === "string") {
    return decodeBytes(value).replace(/\\u([\da-f]{4})/gi, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)));
  }
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(decode);
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, decode(one)]));
}

/** A firmware with Unicode strings (not an ESP32's) gives characters where others give bytes. */
function decodeBytes(text: string): string {
  if (/[^\x00-\xff]/.test(text)) return text;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.from(text, "latin1"));
  } catch {
    return text;
  }
}

/**
 * Lays settings over those on the board; `null` takes one away. With `replaces` nothing of the old ones is kept. At no
 * moment are both the old and the new settings gone.
 * @throws {DeviceError} what is on the board is no JSON object
 */
export async function writeBoardSettings(
  device: Device,
  info: BoardInfo,
  settings: Settings,
  replaces: boolean,
): Promise<void> {
  const old = replaces ? undefined : await readBoardSettings(device);
  if (old === "unreadable") {
    throw new DeviceError(`${settingsFile} on the board is no JSON object: --replace-config writes it anew`);
  }
  const values: Settings = { ...old?.values, ...settings };
  for (const [name, value] of Object.entries(values)) if (value === null) delete values[name];
  const text = toBytes(JSON.stringify(values));
  const kept = (old?.secrets ?? []).filter((name) => !Object.hasOwn(settings, name));
  if (kept.length === 0) return replaceFile(device, info, settingsFile, text);

  // The secrets are put in on the board.
  await uploadFile(device, partFile, text, { hasPackets: hasPackets(info) });
  const isWritten = await device.evaluate<boolean>(
    `(function(s,t,o){o=s.readJSON("${settingsFile}",1);t=s.read("${partFile}");` +
      `${JSON.stringify(kept)}.forEach(function(n){` +
      `t='{"'+n+'":'+JSON.stringify(o[n])+(t.length>2?",":"")+t.substr(1)});` +
      `return s.write(${boardLiteral(`${settingsFile}.new`)},t)})(${storage})`,
    { isSecret: true },
  );
  if (!isWritten) throw new DeviceError("the settings could not be written to the board's Storage");
  await copyFile(device, `${settingsFile}.new`, settingsFile);
  await eraseFile(device, `${settingsFile}.new`);
  await eraseFile(device, partFile);
}

/** Whether the board would have to ask its server by https. */
export function isHttps({ baseUrl }: Settings): boolean {
  return /^https:/i.test(String(baseUrl));
}

/** What a person has to know who gives a board an https address. */
export const httpsWarning =
  "https takes 40 to 60 kB of memory, which an ESP32 with the agent does not have, and Espruino checks no certificate: " +
  "use plain http to a gateway in your own network (flash --gateway http://192.168.1.10:8089)";
