/**
 * Which files are taken: pictures, sound, video and documents that models read. What a file is, its bytes say; its name
 * and the type that was declared have to agree. Nothing that a browser would run as a page is in the list.
 */
import { fileTypeFromBuffer } from "file-type";
import { Fault } from "../fault";

/** Bytes of a file's beginning that tell what it is. */
export const HEAD_BYTES = 4_100;

/** Content type, and the extensions of files that have it; the first is given to a name without one. */
const EXTENSIONS: Record<string, string[]> = {
  "image/jpeg": ["jpg", "jpeg", "jpe"],
  "image/png": ["png"],
  "image/gif": ["gif"],
  "image/webp": ["webp"],
  "image/bmp": ["bmp"],
  "audio/mpeg": ["mp3"],
  "audio/wav": ["wav"],
  "audio/ogg": ["ogg", "oga", "opus"],
  "audio/flac": ["flac"],
  "audio/aac": ["aac"],
  "audio/mp4": ["m4a"],
  "audio/webm": ["weba"],
  "audio/amr": ["amr"],
  "video/mp4": ["mp4", "m4v"],
  "video/webm": ["webm"],
  "video/quicktime": ["mov"],
  "video/x-msvideo": ["avi"],
  "application/pdf": ["pdf"],
  "text/plain": ["txt", "log"],
  "text/markdown": ["md"],
  "text/csv": ["csv"],
  "application/json": ["json"],
};

const TYPE_OF_EXTENSION = new Map(
  Object.entries(EXTENSIONS).flatMap(([type, list]) => list.map((extension) => [extension, type] as const)),
);

/** Other names under which a type is declared, or known to the library that looks at the bytes. */
const ALIASES = new Map(
  Object.entries({
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/apng": "image/png",
    "image/x-ms-bmp": "image/bmp",
    "audio/mp3": "audio/mpeg",
    "audio/wave": "audio/wav",
    "audio/x-wav": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/opus": "audio/ogg",
    "application/ogg": "audio/ogg",
    "audio/x-flac": "audio/flac",
    "audio/x-aac": "audio/aac",
    "audio/m4a": "audio/mp4",
    "audio/x-m4a": "audio/mp4",
    "video/x-m4v": "video/mp4",
    "video/vnd.avi": "video/x-msvideo",
    "video/avi": "video/x-msvideo",
    "text/x-markdown": "text/markdown",
  }),
);

/** A container that may hold sound alone: the bytes are told apart by what their sender says they are. */
const SOUND_IN: Record<string, string> = { "video/mp4": "audio/mp4", "video/webm": "audio/webm" };

const isText = (type: string): boolean => type.startsWith("text/") || type === "application/json";

/** Small devices send all files as bytes; and what declares no type at all is text by RFC 7578. */
const SAY_NOTHING = ["", "application/octet-stream", "text/plain"];

/** The type without parameters, by its usual name. */
const plainType = (type: string): string => {
  const name = type.split(";")[0]!.trim().toLowerCase();
  return ALIASES.get(name) ?? name;
};

/** The extension of a name, in lower case; "" where there is none. One of digits alone, as in `12.30`, is none. */
export function extensionOf(name: string): string {
  return /\.(?=\d*[a-z])([a-z0-9]{1,10})$/i.exec(name)?.[1]!.toLowerCase() ?? "";
}

/** The extension that a file of `type` has. */
export const firstExtension = (type: string): string => EXTENSIONS[type]![0]!;

export interface TypeCheck {
  /** Looks at the next bytes. @throws {Fault} 415 as soon as it is sure that the file is not taken */
  feed(bytes: Buffer): Promise<void>;
  /** The file's content type. @throws {Fault} 415 */
  end(): Promise<string>;
}

/**
 * Finds out what a file is from its bytes, as they come.
 * @param name as `cleanName` gives it
 * @param declared the content type of the part
 * @throws {Fault} 415 where the name or the declared type is of no file that is taken
 */
export function checkType(name: string, declared: string): TypeCheck {
  const extension = extensionOf(name);
  const byName = extension === "" ? undefined : TYPE_OF_EXTENSION.get(extension);
  if (extension !== "" && byName === undefined)
    throw refusal(`.${extension} files are not taken: send ${[...TYPE_OF_EXTENSION.keys()].join(", ")}`);
  const said = plainType(declared);
  const byDeclaration = SAY_NOTHING.includes(said) ? undefined : said;
  if (byDeclaration !== undefined && !Object.hasOwn(EXTENSIONS, byDeclaration))
    throw refusal("files of the Content-Type that is declared are not taken: leave it out, or say what the file is");

  let head = Buffer.alloc(0);
  let hasLooked = false;
  let found: string | undefined;
  let isUtf8 = true;
  const decoder = new TextDecoder("utf-8", { fatal: true });

  /** Text is UTF-8 without control characters, to its end. */
  function readText(bytes: Buffer, isEnd: boolean): void {
    if (!isUtf8) return;
    try {
      isUtf8 = !/[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]/.test(decoder.decode(bytes, { stream: !isEnd }));
    } catch {
      isUtf8 = false;
    }
  }

  /** What the bytes so far can be. */
  function candidates(): string[] {
    const list = found === undefined ? [] : [found, SOUND_IN[found]].filter((type) => type !== undefined);
    return isUtf8 ? [...list, ...Object.keys(EXTENSIONS).filter(isText)] : list;
  }

  function decide(): string {
    const list = candidates().filter((type) => Object.hasOwn(EXTENSIONS, type));
    if (list.length === 0)
      throw refusal(
        found === undefined
          ? "the file is of no kind that is known: pictures, sound, video, PDF and UTF-8 text are taken"
          : `the file is ${found}, which is not taken`,
      );
    const fits = (type: string | undefined): boolean => type === undefined || list.includes(type);
    if (!fits(byName)) throw refusal(`the name ends in .${extension}, but the file is ${list[0]}`);
    if (!fits(byDeclaration)) throw refusal(`Content-Type says ${byDeclaration}, but the file is ${byName ?? list[0]}`);
    return byName ?? byDeclaration ?? list[0]!;
  }

  async function look(): Promise<void> {
    hasLooked = true;
    const type = await fileTypeFromBuffer(head).catch(() => undefined);
    if (type !== undefined) found = plainType(type.mime);
    decide();
  }

  return {
    async feed(bytes) {
      const mayBeText = isUtf8;
      readText(bytes, false);
      if (!hasLooked) {
        head = Buffer.concat([head, bytes.subarray(0, HEAD_BYTES - head.length)]);
        if (head.length === HEAD_BYTES) await look();
      } else if (mayBeText && !isUtf8) decide();
    },
    async end() {
      readText(Buffer.alloc(0), true);
      if (!hasLooked) await look();
      return decide();
    },
  };
}

function refusal(problem: string): Fault {
  return new Fault(415, `gateway: ${problem}`, "type_refused");
}
