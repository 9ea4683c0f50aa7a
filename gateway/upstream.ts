/** The server behind the gateway: what its address may be, and how a request is made to it. */
import { isIP, BlockList } from "node:net";
import type { Dialect } from "./slim/slim";

/** The environment variable of the upstream key: the only way to give it. */
export const KEY_VARIABLE = "GATEWAY_UPSTREAM_KEY";

const ownNetwork = new BlockList();
for (const [address, bits] of [
  ["127.0.0.0", 8],
  ["10.0.0.0", 8],
  ["172.16.0.0", 12],
  ["192.168.0.0", 16],
  ["169.254.0.0", 16],
  // Carrier-grade NAT, as Tailscale gives out.
  ["100.64.0.0", 10],
] as const) {
  ownNetwork.addSubnet(address, bits, "ipv4");
}
ownNetwork.addAddress("::1", "ipv6");
ownNetwork.addSubnet("fc00::", 7, "ipv6");
ownNetwork.addSubnet("fe80::", 10, "ipv6");

/** Whether a host of a URL is this machine itself. */
export function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

/** Whether a host of a URL is this machine or in a local network, as far as its name tells. */
export function isLocalHost(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, "");
  const version = isIP(host);
  if (version !== 0) return ownNetwork.check(host, version === 4 ? "ipv4" : "ipv6");
  // A name without dots is one that the local network, or Docker, knows.
  return !host.includes(".") || /\.(local|lan|home|internal|localhost|home\.arpa)$/.test(host);
}

/**
 * The base URL of the upstream, without a slash at its end; `/v1` where it has no path. Plain HTTP only to where
 * everything stays in the local network.
 * @throws {Error} one line that says what is wrong with the text; never repeats a password
 */
export function readUpstreamUrl(text: string): string {
  if (!URL.canParse(text) || !/^https?:\/\//i.test(text))
    throw new Error("the upstream must be a URL such as https://api.openai.com/v1 or http://127.0.0.1:11434/v1");
  const url = new URL(text);
  if (url.username !== "" || url.password !== "")
    throw new Error(`the upstream's URL must hold no user or password: the key goes into ${KEY_VARIABLE}`);
  if (url.search !== "" || url.hash !== "") throw new Error("the upstream's URL must have no ? or # in it");
  if (/\/(chat\/completions|messages|models)\/*$/.test(url.pathname))
    throw new Error("the upstream's URL must end before /chat/completions or /messages, in most cases with /v1");
  if (url.protocol === "http:" && !isLocalHost(url.hostname))
    throw new Error(
      `http://${url.hostname} is not in a local network, and without TLS all on the way could read the key: use https://`,
    );
  return `${url.origin}${url.pathname.replace(/\/+$/, "") || "/v1"}`;
}

/** What is wrong with a key, in words that do not repeat it; "" if nothing is. */
export function keyProblem(key: string): string {
  return /^[\x21-\x7e]*$/.test(key)
    ? ""
    : `${KEY_VARIABLE} holds a space, a line break or a character that no key has: set it again`;
}

/** How the key is sent: as the API of the request has it (`auto`), or always in one of two ways. */
export type Auth = "auto" | "bearer" | "x-api-key";

/** The headers of a request to the upstream. Of the board's, those that name a version of the API are passed on. */
export function upstreamHeaders(
  dialect: Dialect,
  key: string,
  auth: Auth,
  received: Record<string, unknown>,
): Record<string, string> {
  const headers: Record<string, string> = { "user-agent": "espruino-agent-gateway" };
  if (dialect === "anthropic") {
    for (const name of ["anthropic-version", "anthropic-beta"]) {
      const value = received[name];
      if (typeof value === "string") headers[name] = value;
    }
    headers["anthropic-version"] ??= "2023-06-01";
  }
  const isBearer = auth === "bearer" || (auth === "auto" && dialect === "openai");
  if (key !== "") headers[isBearer ? "authorization" : "x-api-key"] = isBearer ? `Bearer ${key}` : key;
  return headers;
}
