/**
 * Files in a request: what the stand-in can say of them, which is what their bytes say. Content parts are OpenAI's
 * (platform.openai.com/docs/api-reference/chat/create) and, as vLLM has them, `audio_url` and `video_url`.
 */
import { fileTypeFromBuffer } from "file-type";
import { imageSize } from "image-size";
import { isObject, RequestError } from "./request-error";

/** One file of a message. */
export interface Media {
  kind: "image" | "audio" | "video" | "file";
  /** What stands before it in the message, where that is a name. */
  label?: string;
  /** Where it is to be had; undefined once it is there. */
  url?: string;
  bytes?: Buffer;
  /** The ending that files of its format have, by its bytes; undefined where they say nothing, or before `loadMedia`. */
  format?: string;
  /** A file server's id: the stand-in has no such files. */
  id?: string;
  /** Where in the request it stands. */
  at: string;
}

export const mediaPartTypes = ["image_url", "input_audio", "file", "audio_url", "video_url"];

const fetchMs = 10_000;
const maxBytes = 16 * 1024 * 1024;
/** What OpenAI takes. */
const imageTypes = ["png", "jpg", "gif", "webp"];

/** Reads a content part of one of `mediaPartTypes`. @throws {RequestError} it is not as the API has it */
export function readMedia(part: Record<string, unknown>, at: string): Media {
  const type = part.type as string;
  const value = part[type];
  if (!isObject(value)) throw invalid(`Invalid type for '${at}.${type}': expected an object.`, `${at}.${type}`, "invalid_type");
  const text = (name: string): string | undefined => {
    const item = value[name];
    if (item === undefined || typeof item === "string") return item;
    throw invalid(`Invalid type for '${at}.${type}.${name}': expected a string.`, `${at}.${type}.${name}`, "invalid_type");
  };
  const need = (name: string): string => {
    const item = text(name);
    if (item !== undefined) return item;
    const param = `${at}.${type}.${name}`;
    throw invalid(`Missing required parameter: '${param}'.`, param, "missing_required_parameter");
  };
  if (type === "input_audio") {
    const format = need("format");
    if (format !== "wav" && format !== "mp3") {
      const message = `Invalid value: '${format}'. Supported values are: 'wav' and 'mp3'.`;
      throw invalid(message, `${at}.${type}.format`, "invalid_value");
    }
    return { kind: "audio", bytes: decode(need("data"), `${at}.${type}.data`), at };
  }
  if (type === "file") {
    const id = text("file_id");
    if (id !== undefined) return { kind: "file", id, at };
    const label = text("filename");
    return { kind: "file", label, ...readUrl(need("file_data"), `${at}.${type}.file_data`), at };
  }
  return { kind: type.replace("_url", "") as Media["kind"], ...readUrl(need("url"), `${at}.${type}.url`), at };
}

function invalid(message: string, param: string, code: string): RequestError {
  return new RequestError(400, message, param, code);
}

function readUrl(url: string, at: string): { url?: string; bytes?: Buffer } {
  const data = /^data:[^,]*;base64,/.exec(url);
  if (data) return { bytes: decode(url.slice(data[0].length), at) };
  if (/^https?:\/\//.test(url) && URL.canParse(url)) return { url };
  throw invalid("Invalid URL: expected one that begins with http://, https:// or data: with base64.", at, "invalid_value");
}

function decode(base64: string, at: string): Buffer {
  if (base64 === "" || base64.length % 4 > 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(base64)) {
    throw invalid("Invalid base64 data.", at, "invalid_base64");
  }
  return Buffer.from(base64, "base64");
}

/**
 * Brings the bytes of everything that is not there yet. Only addresses of this computer and of its own network are asked.
 * @throws {RequestError} as OpenAI refuses what it cannot download or take for an image
 */
export async function loadMedia(media: Media[]): Promise<void> {
  for (const one of media) {
    if (one.url !== undefined) {
      one.bytes = await download(one.url, one.at);
      one.url = undefined;
    }
    if (one.bytes === undefined) continue;
    one.format = (await fileTypeFromBuffer(one.bytes))?.ext;
    if (one.kind !== "image") continue;
    if (one.format !== undefined && imageTypes.includes(one.format) && sizeOf(one.bytes) !== undefined) continue;
    const message =
      "You uploaded an unsupported image. Please make sure your image is valid and has one of the following formats: " +
      "png, jpeg, gif, webp.";
    throw invalid(message, one.at, "invalid_image_format");
  }
}

async function download(url: string, at: string): Promise<Buffer> {
  const fail = (reason: string): RequestError => invalid(`Error while downloading ${url}: ${reason}.`, at, "invalid_image_url");
  if (!isNear(new URL(url).hostname)) throw fail("the stand-in is offline and asks nobody outside of this network");
  let response: Response;
  try {
    response = await fetch(url, { redirect: "error", signal: AbortSignal.timeout(fetchMs) });
  } catch (error) {
    throw fail(((error as Error).cause as Error | undefined)?.message ?? (error as Error).message);
  }
  if (!response.ok) throw fail(`status ${response.status}`);
  const pieces: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const piece of response.body ?? []) {
      size += piece.length;
      if (size > maxBytes) throw fail(`more than ${maxBytes} bytes`);
      pieces.push(piece);
    }
  } catch (error) {
    if (error instanceof RequestError) throw error;
    throw fail((error as Error).message);
  }
  return Buffer.concat(pieces);
}

/** Whether a host is this computer, or one that only its own network knows. */
function isNear(host: string): boolean {
  return /^(localhost|127\.|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|169\.254\.|\[(::1|f[cd]|fe80))|\.(local|lan|home|internal)$/i.test(host);
}

function sizeOf(bytes: Buffer): { width: number; height: number } | undefined {
  try {
    const { width, height } = imageSize(bytes);
    return width > 0 && height > 0 ? { width, height } : undefined;
  } catch {
    return undefined;
  }
}

const formats: Record<string, string> = { jpg: "JPEG", webp: "WebP" };
const kinds: Record<Media["kind"], string> = { image: "image", audio: "recording", video: "video", file: "file" };

/** What the bytes of each file say, one sentence each. Empty where there are none. */
export function tellMedia(media: Media[]): string {
  const sentences = media.map(({ kind, label, bytes, format, id }) => {
    const name = label ?? "It";
    if (bytes === undefined) return `${name} is known to me by its id ${id} only: I cannot see it.`;
    const size = kind === "image" ? sizeOf(bytes) : undefined;
    const pixels = size === undefined ? "" : ` of ${size.width} x ${size.height} pixels`;
    const what = format === undefined ? `a ${kinds[kind]} in a format unknown to me` : `a ${formats[format] ?? format.toUpperCase()} ${kinds[kind]}`;
    return `${name} is ${what}${pixels}, ${bytes.length} bytes.`;
  });
  if (sentences.length > 0) sentences.push("That is all that an offline stand-in can tell.");
  return sentences.join(" ");
}
