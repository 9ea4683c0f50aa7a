/** A board's Wi-Fi: joined, and saved for the next power-up only when it works. */
import { type Device, DeviceError } from "./device";
import { UsageError } from "./settings";
import { boardLiteral, fromBytes } from "./text";

/** Milliseconds until a network is joined or refused: the ESP32 makes three attempts. */
const joinMs = 45_000;
const scanMs = 15_000;

/** What the ESP32 says where the other side did not accept the password. */
const wrongPassword =
  /4WAY_HANDSHAKE_TIMEOUT|HANDSHAKE_TIMEOUT|AUTH_FAIL|AUTH_EXPIRE|MIC_FAILURE|NOT_AUTHED|ASSOC_FAIL/;

/** @throws {UsageError} no access point takes such a password; "" is an open network's */
export function checkWifi(ssid: string, password: string): void {
  if (Buffer.byteLength(ssid) > 32) throw new UsageError("--wifi: a network's name has at most 32 bytes");
  const length = Buffer.byteLength(password);
  if (length > 0 && (length < 8 || length > 64)) {
    throw new UsageError("the Wi-Fi password has to have 8 to 63 characters; leave it empty for an open network");
  }
}

/**
 * Joins a network and saves it on the board. Returns the board's address.
 * @throws {DeviceError} the board cannot join: why, and what to do. What it had saved before still holds.
 */
export async function joinWifi(device: Device, ssid: string, password: string): Promise<string> {
  const options = password === "" ? "{}" : `{password:${boardLiteral(password)}}`;
  const answer = await device.call<{ ip?: string; error?: string }>(
    `var w=require("Wifi");w.connect(${boardLiteral(ssid)},${options},` +
      `function(e){done(e?{error:String(e)}:{ip:w.getIP().ip})})`,
    joinMs,
  );
  if (answer.error === undefined) {
    await device.evaluate('(require("Wifi").save(),1)');
    return answer.ip ?? "";
  }
  // Back to the network that was saved before, if there was one.
  const others = answer.error === "NO_AP_FOUND" ? await namesInRange(device) : [];
  await device.evaluate('(require("Wifi").restore(),1)').catch(() => undefined);
  throw new DeviceError(explainJoin(ssid, answer.error, others));
}

function explainJoin(ssid: string, reason: string, others: string[]): string {
  const name = JSON.stringify(ssid);
  if (reason === "NO_AP_FOUND") {
    const list = others.length > 0 ? ` In range: ${others.map((other) => JSON.stringify(other)).join(", ")}.` : "";
    return `Wi-Fi: ${name} is not in range of the board.${list} An ESP32 sees 2.4 GHz networks only`;
  }
  const told = `the board says ${reason}; nothing was saved`;
  if (wrongPassword.test(reason))
    return `Wi-Fi: ${name} does not accept the password (${told}). Run it again with the right one`;
  return `Wi-Fi: ${name} cannot be joined (${told})`;
}

async function namesInRange(device: Device): Promise<string[]> {
  const scan = 'require("Wifi").scan(function(l){done(l.map(function(a){return a.ssid}))})';
  const names = await device.call<string[]>(scan, scanMs).catch(() => [] as string[]);
  return [...new Set(names.map(fromBytes))].filter((name) => name !== "").slice(0, 10);
}
