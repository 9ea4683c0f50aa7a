/**
 * An upload: a form with one part `file`, written to the store while it arrives. The body is never whole in memory:
 * while the disk is busy the form is not read, and then the socket neither.
 */
import type { IncomingMessage } from "node:http";
import { Busboy, type BusboyFileStream, type BusboyInstance } from "@fastify/busboy";
import type { Clock } from "../clock";
import { Fault } from "../fault";
import { cleanName, fileName } from "./name";
import type { FileStore, IncomingFile } from "./store";
import { checkType } from "./types";

/** Bytes of a form beside the file: boundaries, headers of parts, other fields. */
const FORM_BYTES = 64 * 1024;

/** Other fields that a form may have; the value of each, in bytes. Only `purpose` and `expires_after` mean anything. */
const MOST_FIELDS = 16;
const FIELD_BYTES = 1_024;

export interface ReceiveOptions {
  store: FileStore;
  /** Bytes of a file. */
  fileBytes: number;
  /** Milliseconds without a byte. */
  stallMs: number;
  clock: Clock;
}

export interface Upload {
  name: string;
  type: string;
  /** To be kept or dropped by who asked for it. */
  incoming: IncomingFile;
  /** The other fields of the form, by name. */
  fields: Map<string, string>;
}

/**
 * Reads the form of a request. Where it fails, nothing is left on the disk; what the client still sends is not read.
 * @throws {Fault} 400, 408, 413, 415, 499 or 507, with what to change
 */
export async function receiveUpload(request: IncomingMessage, options: ReceiveOptions): Promise<Upload> {
  const { store, fileBytes, stallMs, clock } = options;
  const tooLarge = (): Fault =>
    new Fault(
      413,
      `gateway: the file is larger than ${fileBytes} bytes (--max-file-bytes): send a smaller one`,
      "file_too_large",
    );
  const told = Number(request.headers["content-length"] ?? 0);
  if (told > fileBytes + FORM_BYTES) throw tooLarge();
  const parser = createParser(request);
  const fields = new Map<string, string>();
  let failure: Fault | Error | undefined;
  let stream: BusboyFileStream | undefined;
  let saving: Promise<Upload> | undefined;
  let received = 0;
  let over = (): void => {};
  /** The form has been read to its end, or failed. */
  const isOver = new Promise<void>((resolve) => (over = resolve));

  function fail(error: Error): void {
    if (failure !== undefined) return;
    failure = error;
    request.unpipe(parser);
    stream?.destroy(error);
    over();
  }

  async function save(name: string, declared: string, file: BusboyFileStream): Promise<Upload> {
    const clean = cleanName(name);
    const check = checkType(clean, declared);
    const incoming = await store.receive(Math.max(0, told - FORM_BYTES));
    try {
      let size = 0;
      for await (const bytes of file as AsyncIterable<Buffer>) {
        size += bytes.length;
        if (size > fileBytes) throw tooLarge();
        await check.feed(bytes);
        await incoming.write(bytes);
      }
      if (size === 0) throw bad("the file is empty: was it written and closed before it was sent?");
      const type = await check.end();
      await isOver;
      if (failure !== undefined) throw failure;
      return { name: fileName(clean, type), type, incoming, fields };
    } catch (error) {
      await incoming.drop();
      throw error;
    }
  }

  parser.on("file", (part, file, name: string | undefined, encoding, type) => {
    // Whoever reads it learns of its failure; nobody may be reading when it comes.
    file.on("error", () => {});
    if (failure !== undefined) return void file.resume();
    if (saving !== undefined) return fail(bad("the form has two files: send them one by one"));
    if (part !== "file") return fail(bad(`a file must be the part called "file"`));
    if (!["7bit", "8bit", "binary"].includes(encoding))
      return fail(bad("the part has a Content-Transfer-Encoding: send the bytes as they are"));
    stream = file;
    saving = save(name ?? "", type, file);
    saving.catch(fail);
  });
  parser.on("field", (name, value, _isNameCut, isCut) => {
    if (name === "file") fail(bad(`the part "file" has no file name: add filename="..." to its Content-Disposition`));
    else if (isCut) fail(bad(`a field of the form is longer than ${FIELD_BYTES} bytes`));
    else if (typeof name === "string") fields.set(name, value);
  });
  for (const event of ["partsLimit", "filesLimit", "fieldsLimit"] as const) {
    parser.on(event, () => fail(bad("the form has too many parts: send one file")));
  }
  parser.on("error", (error) => fail(bad(`the form is broken (${(error as Error).message})`)));
  function finish(): void {
    if (saving === undefined)
      fail(bad(`the form has no file: it must be a part called "file", with a file name on one line`));
    over();
  }
  // The form may be over before the body is, and what is missing then may be all that tells of a cut.
  parser.on("finish", () => void (request.complete ? finish() : request.once("end", finish)));

  const gone = (): Fault => new Fault(499, "gateway: the board has gone before the file was whole", "board_gone");
  const onClose = (): void => void (request.complete || fail(gone()));
  const onData = (piece: Buffer): void => {
    received += piece.length;
    if (received > fileBytes + FORM_BYTES) fail(tooLarge());
  };
  let timer: unknown;
  function watch(before: number): void {
    timer = clock.setTimeout(() => {
      if (received === before)
        fail(new Fault(408, `gateway: nothing more of the file has come for ${stallMs / 1000} s`, "upload_stalled"));
      else watch(received);
    }, stallMs);
  }

  watch(received);
  request.on("data", onData).once("close", onClose).once("error", onClose);
  request.pipe(parser);
  try {
    if (request.destroyed) onClose();
    await isOver;
    if (saving === undefined) throw failure!;
    return await saving;
  } catch (error) {
    // What was being written has to be gone before the answer says so.
    await saving?.catch(() => undefined);
    throw failure ?? error;
  } finally {
    clock.clearTimeout(timer);
    request.off("data", onData).off("close", onClose).off("error", onClose);
  }
}

const bad = (problem: string): Fault => new Fault(400, `gateway: ${problem}`, "bad_form");

/** @throws {Fault} where the request is no form */
function createParser({ headers }: IncomingMessage): BusboyInstance {
  const type = headers["content-type"] ?? "";
  if (!/^multipart\/form-data *(;|$)/i.test(type))
    throw new Fault(415, "gateway: an upload must be multipart/form-data with a part called file", "no_form");
  if (headers["content-encoding"] !== undefined)
    throw new Fault(415, "gateway: the upload is packed (Content-Encoding): send it as it is", "no_form");
  try {
    return new Busboy({
      headers: { ...headers, "content-type": type },
      limits: { fields: MOST_FIELDS, fieldSize: FIELD_BYTES, headerPairs: 20, headerSize: 16 * 1024 },
    });
  } catch {
    throw bad("the Content-Type names no boundary");
  }
}
