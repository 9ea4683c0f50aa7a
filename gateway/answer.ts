/** What the upstream sent, if it is no stream, as an answer to the board. */
import {
  errorWords,
  Fault,
  faultBody,
  keyFault,
  keyStatus,
  RETRY_HEADER,
  retryAfterSeconds,
  statusFault,
} from "./fault";
import type { Redactor } from "./secret";
import { MESSAGE_LENGTH, slimErrorBody, slimReply, type Dialect } from "./slim/slim";

export interface Answer {
  status: number;
  headers: Record<string, string>;
  /** JSON text. */
  body: string;
}

export interface AnswerOptions {
  dialect: Dialect;
  /** The upstream's host. */
  host: string;
  /** The board wants only what it reads. */
  isSlim: boolean;
  redactor: Redactor;
}

const isPage = (text: string): boolean => text.trimStart().startsWith("<");

/**
 * An upstream's failure: as it is, without secrets, where it says the right thing to a board.
 * @throws {Fault} where it would send the person at the board to the wrong setting
 */
export function failureAnswer(response: Response, text: string, now: number, options: AnswerOptions): Answer {
  const { status, headers } = response;
  const { dialect, host, isSlim } = options;
  const { words } = options.redactor;
  const said = words(errorWords(text));
  // Some say so with 400, as Google does.
  if (/"(invalid_api_key|API_KEY_INVALID)"/.test(text)) throw keyFault(status, said, host);
  const fault = statusFault(status, said, isPage(text), host);
  if (fault !== undefined) throw fault;

  const message = said.slice(0, MESSAGE_LENGTH) || `gateway: ${host} answered ${status} without a word`;
  const plain = (): object => faultBody(dialect, new Fault(status, message, "upstream_failed"));
  function body(): object {
    let json: any;
    try {
      json = JSON.parse(text);
    } catch {
      return plain();
    }
    if (typeof json !== "object" || json === null) return plain();
    if (!isSlim) return mapTexts(json, words) as object;
    return json.error ? slimErrorBody(dialect, json.error, words) : plain();
  }
  const retryAfter = retryAfterSeconds(headers, now);
  const retry = /"insufficient_quota"/.test(text) ? "false" : headers.get(RETRY_HEADER);
  return {
    status,
    headers: {
      ...(retryAfter !== undefined && { "retry-after": String(retryAfter) }),
      ...((retry === "true" || retry === "false") && { [RETRY_HEADER]: retry }),
    },
    body: JSON.stringify(body()),
  };
}

/** What an error within a good answer or a stream means, where it is the gateway's key that is refused. */
export function refusedKey(json: any, { host, redactor }: Pick<AnswerOptions, "host" | "redactor">): Fault | undefined {
  const status = keyStatus(json?.error);
  return status === undefined ? status : keyFault(status, redactor.words(errorWords(JSON.stringify(json))), host);
}

/** A reply that is one JSON text, and its value. @throws {Fault} where it is none */
export function readReply(bytes: Buffer, host: string): unknown {
  const text = bytes.toString("utf8").replace(/^\uFEFF/, "");
  if (text.trim() === "")
    throw new Fault(502, `gateway: ${host} sent an empty answer: check --upstream`, "upstream_empty");
  if (isPage(text)) throw statusFault(200, "", true, host)!;
  try {
    return JSON.parse(text);
  } catch {
    throw new Fault(
      502,
      `gateway: the answer of ${host} is neither JSON nor a stream: check --upstream`,
      "upstream_odd",
    );
  }
}

export function replyAnswer(json: unknown, { dialect, isSlim, redactor }: AnswerOptions): Answer {
  const text = JSON.stringify(isSlim ? slimReply(dialect, json, redactor.words) : json);
  const secrets = redactor.stream();
  const safe = secrets.feed(Buffer.from(text).toString("latin1")) + secrets.end();
  return { status: 200, headers: {}, body: Buffer.from(safe, "latin1").toString("utf8") };
}

/** A copy of a JSON value with every text in it changed. */
function mapTexts(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === "string") return change(value);
  if (Array.isArray(value)) return value.map((item) => mapTexts(item, change));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [change(key), mapTexts(item, change)]));
}
