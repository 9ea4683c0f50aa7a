/**
 * What can go wrong between a board and a provider, as an answer that says whose setting is wrong. The board shows 300
 * bytes of a message, and no hint of its own (`firmware/failure.ts`) where it begins with `gateway: `. 401 and 403 are
 * about the board's own token, so what the upstream says of the gateway's key is never passed on with these.
 */
import type { Dialect } from "./slim/slim";

/**
 * `x-should-retry: false` tells the board, and the clients of OpenAI and Anthropic, that asking again is no use. The
 * status can then say what went wrong: that of the upstream, or 502 for what is wrong between it and the gateway.
 */
export const RETRY_HEADER = "x-should-retry";

/** An answer that is no reply of a model. */
export class Fault extends Error {
  constructor(
    readonly status: number,
    /** One or two sentences for the person at the board. */
    message: string,
    /** For logs and metrics, and as OpenAI's `code`. */
    readonly code: string,
    readonly more: {
      retryAfter?: number;
      upstreamStatus?: number;
      /** Asking again is no use before a person has changed something. */
      isFinal?: boolean;
    } = {},
  ) {
    super(message);
  }
}

/** Anthropic's names for failures; https://platform.claude.com/docs/en/api/errors. OpenAI's are free. */
function typeOf(status: number): string {
  const types: Record<number, string> = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
  };
  return types[status] ?? (status < 500 ? "invalid_request_error" : "api_error");
}

/** A fault as the body of an answer, or the data of an event. */
export function faultBody(dialect: Dialect, fault: Fault): object {
  const type = typeOf(fault.status);
  if (dialect === "anthropic") return { type: "error", error: { type, message: fault.message } };
  return { error: { message: fault.message, type, param: null, code: fault.code } };
}

/**
 * The same within a stream, where the board takes the status from OpenAI's `code` or Anthropic's `type`. No header can
 * follow any more: where asking again is no use, it is 400, which nobody does ask again after.
 */
export function faultEvent(dialect: Dialect, { status, message, code, more }: Fault): string {
  const told = more.isFinal === true ? 400 : status;
  if (dialect === "anthropic")
    return `event: error\ndata: ${JSON.stringify(faultBody(dialect, new Fault(told, message, code)))}\n\n`;
  return `data: ${JSON.stringify({ error: { message, type: typeOf(told), code: told } })}\n\n`;
}

const fixed = "The board's settings are right";

/** What an error of `fetch` means; undefined for one that is none. `host` is the upstream's. */
export function connectionFault(error: unknown, host: string, now: number): Fault | undefined {
  const { code, message } = bottomOf(error);
  const fault = (status: number, text: string): Fault => new Fault(status, `gateway: ${text}`, code.toLowerCase());
  const final = (text: string): Fault => new Fault(502, `gateway: ${text}`, code.toLowerCase(), { isFinal: true });
  switch (code) {
    case "ENOTFOUND":
      return final(`no host is called ${host}: check --upstream. ${fixed}`);
    case "EAI_AGAIN":
      return fault(502, `the gateway cannot look up ${host}: check its network and name server. ${fixed}`);
    case "ECONNREFUSED":
      return fault(502, `${host} refused the connection: is the server there running? Check --upstream. ${fixed}`);
    case "EHOSTUNREACH":
    case "ENETUNREACH":
      return fault(502, `${host} cannot be reached from the gateway: check its network and --upstream. ${fixed}`);
    case "ETIMEDOUT":
    case "UND_ERR_CONNECT_TIMEOUT":
      return fault(504, `${host} did not accept a connection in time: check the gateway's network and --upstream`);
    case "UND_ERR_HEADERS_TIMEOUT":
    case "UND_ERR_BODY_TIMEOUT":
      return fault(504, `${host} has sent nothing for too long`);
    case "ECONNRESET":
    case "EPIPE":
    case "UND_ERR_SOCKET":
      return fault(502, `${host} closed the connection before it had answered: try again`);
    case "CERT_HAS_EXPIRED":
    case "CERT_NOT_YET_VALID":
      return final(
        `the certificate of ${host} is not valid on the gateway's date, ${new Date(now).toISOString().slice(0, 10)}: ` +
          `set the gateway's clock, or tell who runs ${host}. ${fixed}`,
      );
    case "ERR_TLS_CERT_ALTNAME_INVALID":
      return final(`the certificate of ${host} is for another name: check --upstream. ${fixed}`);
  }
  if (message === "bad port")
    return final(`Node's fetch does not talk to the port of ${host}: let the server there listen on another`);
  if (/CERT|SIGNATURE|ISSUER|CRL/.test(code))
    return final(
      `the certificate of ${host} is not trusted (${code}): check --upstream, or name its CA in NODE_EXTRA_CA_CERTS ` +
        `for the gateway. ${fixed}`,
    );
  if (/SSL|TLS|EPROTO/.test(code))
    return final(`no TLS with ${host} (${code}): check --upstream, is it http:// there? ${fixed}`);
  if (code.startsWith("Z_")) return fault(502, `what ${host} has sent cannot be unpacked (${code}): try again`);
  if (code === "") return undefined;
  return fault(502, `no connection to ${host} (${code}): check --upstream and the gateway's network`);
}

/** The code and the message of the error at the bottom. */
function bottomOf(error: unknown): { code: string; message: string } {
  let code = "";
  let message = "";
  for (let at = error as any; at instanceof Error; at = at.cause ?? (at as any).errors?.[0]) {
    if (typeof (at as any).code === "string") code = (at as any).code;
    message = at.message;
  }
  return { code, message };
}

/** The words of an error body, as the board reads them: JSON of the usual shapes, or a short text. */
export function errorWords(body: string): string {
  const text = body.trim();
  if (text === "" || text.startsWith("<")) return "";
  try {
    const json = JSON.parse(text);
    const error = json.error || json;
    return String(error.message || json.message || json.detail || (typeof error === "string" ? error : text));
  } catch {
    return text;
  }
}

/** Characters of the upstream's own words in a sentence of ours. */
const QUOTE_LENGTH = 120;

const quote = (words: string): string => (words === "" ? "" : `. It says: ${words.slice(0, QUOTE_LENGTH)}`);

/** What OpenAI's `code` and Anthropic's `type` call an error that comes without a status, where it is about the key. */
const KEY_ERRORS = new Map<unknown, number>([
  ["invalid_api_key", 401],
  ["authentication_error", 401],
  ["permission_error", 403],
]);

/** 401 or 403 where an error in a body or a stream is about the key; undefined for any other, and for none. */
export function keyStatus(error: any): number | undefined {
  const { code, status, type } = error ?? {};
  const named = KEY_ERRORS.get(code) ?? KEY_ERRORS.get(type);
  return named ?? [code, status].map(Number).find((value) => value === 401 || value === 403);
}

/** The upstream refused the gateway's key. `words` are the upstream's, without secrets. */
export function keyFault(status: number, words: string, host: string): Fault {
  return new Fault(
    502,
    `gateway: ${host} refused the gateway's own key (${status}): check GATEWAY_UPSTREAM_KEY where the gateway runs. ` +
      `The board's apiKey is right${quote(words)}`,
    "upstream_refused_key",
    { upstreamStatus: status, isFinal: true },
  );
}

/**
 * What an upstream's status means where it must not reach the board as it is; undefined where it may. `words` are the
 * upstream's, without secrets; `isPage` says that the body was HTML.
 */
export function statusFault(status: number, words: string, isPage: boolean, host: string): Fault | undefined {
  const more = { upstreamStatus: status };
  const final = (text: string, code: string): Fault =>
    new Fault(502, `gateway: ${host} ${text}`, code, { ...more, isFinal: true });
  if (status === 401 || status === 403) return keyFault(status, words, host);
  if (status >= 300 && status < 400)
    return final(`sends the gateway elsewhere (${status}): correct --upstream. ${fixed}`, "upstream_redirects");
  if (!isPage) return undefined;
  if (status >= 500)
    return new Fault(status, `gateway: ${host} has a problem (${status}, with an HTML page)`, "upstream_page", more);
  return final(
    `answered ${status} with an HTML page, no API does: check --upstream, is the path right? ${fixed}`,
    "upstream_page",
  );
}

/**
 * Retry-After in whole seconds, since the board's clock may be wrong by years: a date counts from the upstream's own
 * `Date`. Undefined where it says nothing usable; nobody means more than a day.
 */
export function retryAfterSeconds(headers: Headers, now: number): number | undefined {
  const value = headers.get("retry-after");
  if (value === null) return undefined;
  const date = Date.parse(headers.get("date") ?? "");
  const seconds = /^\s*\d+\s*$/.test(value)
    ? Number(value)
    : Math.ceil((Date.parse(value) - (Number.isNaN(date) ? now : date)) / 1000);
  return seconds >= 0 && seconds <= 86_400 ? seconds : undefined;
}
