/**
 * The file server: boards send files up, models and people fetch them by links. `/upload` and `/download/<id>` are
 * those that the devices of RT-Thread's agent framework know; `/v1/files` is OpenAI's Files API over the same files.
 */
import { create as contentDisposition } from "content-disposition";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Clock } from "../clock";
import { Fault } from "../fault";
import type { FileLimits } from "../limits";
import type { Metrics } from "../metrics";
import type { TokenEntry } from "../tokens";
import type { Visit } from "../visit";
import { receiveUpload, type Upload } from "./receive";
import type { FileStore, StoredFile } from "./store";

/** Files of one list, if nobody says how many, and at most. */
const PAGE = 100;
const MOST_PAGE = 1_000;

export interface FileRoutesOptions {
  store: FileStore;
  limits: FileLimits;
  /** Milliseconds without a byte of an upload. */
  stallMs: number;
  /** What links begin with. Default: the address at which the board has reached the gateway. */
  publicUrl?: string;
  clock: Clock;
  metrics: Metrics;
  /** @throws {Fault} 401 */
  findToken(headers: FastifyRequest["headers"]): Promise<TokenEntry>;
  /** Counts a request against the board's budgets. @throws {Fault} 429 */
  admit(token: TokenEntry): void;
  /** Sees to it that a request is logged. */
  follow(request: FastifyRequest, reply: FastifyReply): Visit;
}

type ById = FastifyRequest<{ Params: { id: string } }>;

/** Whether failures are told as `{code, message}`, the form of the framework's devices. */
export function isDevicePath(url: string): boolean {
  return /^\/(upload|download|files)([/?]|$)/.test(url);
}

/** A failure in the form of the framework's devices: `code` is 0 where all is well. */
export const deviceFault = ({ status, message }: Fault): object => ({ code: status, message });

/** Adds the routes, whose bodies nobody reads but they. */
export async function addFileRoutes(app: FastifyInstance, options: FileRoutesOptions): Promise<void> {
  const { store, limits, stallMs, publicUrl, clock, metrics, findToken, admit, follow } = options;

  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null));

  const anyone = async (request: FastifyRequest, reply: FastifyReply): Promise<void> => void follow(request, reply);
  async function board(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    follow(request, reply).token = await findToken(request.headers);
  }
  /** A device whose HTTP client can set no header has the token in its upload address. */
  async function uploader(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { token } = request.query as { token?: unknown };
    const { authorization = typeof token === "string" ? `Bearer ${token}` : undefined } = request.headers;
    follow(request, reply).token = await findToken({ ...request.headers, authorization });
  }

  app.post("/upload", { onRequest: uploader }, async (request, reply) => {
    const file = await receive(request, reply, () => ({ expiresAt: clock.now() + limits.expireMs }));
    await reply.send({ code: 0, message: "ok", data: describe(request, file) });
  });
  app.get("/files", { onRequest: board }, async (request, reply) => {
    const { files, hasMore } = page(request);
    done(request);
    await reply.send({
      code: 0,
      message: "ok",
      data: {
        files: files.map((file) => ({
          ...describe(request, file),
          created_at: seconds(file.createdAt),
          expires_at: seconds(file.expiresAt),
        })),
        has_more: hasMore,
      },
    });
  });
  app.delete("/files/:id", { onRequest: board }, async (request: ById, reply) => {
    const file = await remove(request);
    await reply.send({ code: 0, message: "deleted", data: { file_id: file.id } });
  });
  // A model in the cloud has no token: who knows the id may read the file.
  app.route({
    method: ["GET", "HEAD"],
    url: "/download/:id",
    onRequest: anyone,
    handler: (request: ById, reply) => answerContent(request, reply, find(request)),
  });

  app.post("/v1/files", { onRequest: board }, async (request, reply) => {
    const file = await receive(request, reply, (fields) => ({
      purpose: readPurpose(fields),
      expiresAt: clock.now() + Math.min(limits.expireMs, readExpiry(fields)),
    }));
    await reply.send(fileObject(file));
  });
  app.get("/v1/files", { onRequest: board }, async (request, reply) => {
    const { files, hasMore } = page(request);
    done(request);
    await reply.send({
      object: "list",
      data: files.map(fileObject),
      first_id: files[0]?.id ?? null,
      last_id: files.at(-1)?.id ?? null,
      has_more: hasMore,
    });
  });
  app.get("/v1/files/:id", { onRequest: board }, async (request: ById, reply) => {
    const file = findOwn(request);
    done(request);
    await reply.send(fileObject(file));
  });
  app.get("/v1/files/:id/content", { onRequest: board }, (request: ById, reply) =>
    answerContent(request, reply, findOwn(request)),
  );
  app.delete("/v1/files/:id", { onRequest: board }, async (request: ById, reply) => {
    const file = await remove(request);
    await reply.send({ id: file.id, object: "file", deleted: true });
  });

  function done(request: FastifyRequest, file?: StoredFile): void {
    const { account } = request.visit!;
    account.outcome = "done";
    if (file !== undefined) Object.assign(account, aboutFile(file));
  }

  function find(request: ById): StoredFile {
    const file = store.find(request.params.id);
    if (file === undefined) throw noFile();
    return file;
  }

  /** A file of the board that asks; that others have one of this id is not told. */
  function findOwn(request: ById): StoredFile {
    const file = find(request);
    if (file.owner !== request.visit!.token!.name) throw noFile();
    return file;
  }

  async function remove(request: ById): Promise<StoredFile> {
    const file = findOwn(request);
    await store.remove(file);
    done(request, file);
    return file;
  }

  /** Takes the file of an upload. Where the board goes before it has the id, the file goes, too. */
  async function receive(
    request: FastifyRequest,
    reply: FastifyReply,
    readFields: (fields: Upload["fields"]) => Pick<StoredFile, "expiresAt" | "purpose">,
  ): Promise<StoredFile> {
    const visit = request.visit!;
    admit(visit.token!);
    visit.isUnderWay = true;
    try {
      const upload = await receiveUpload(request.raw, { store, fileBytes: limits.fileBytes, stallMs, clock });
      const { incoming, name, type, fields } = upload;
      let file: StoredFile;
      try {
        if (reply.raw.destroyed) throw gone();
        file = await incoming.keep({ owner: visit.token!.name, name, type, ...readFields(fields) });
      } finally {
        await incoming.drop();
      }
      if (reply.raw.destroyed) {
        await store.remove(file);
        throw gone();
      }
      reply.raw.once("close", () => {
        if (!reply.raw.writableFinished) void store.remove(file);
      });
      metrics.fileReceivedBytes.inc(file.bytes);
      done(request, file);
      return file;
    } catch (error) {
      if (error instanceof Fault) Object.assign(visit.account, { outcome: error.code, problem: error.message });
      throw error;
    } finally {
      metrics.uploads.inc({ outcome: visit.account.outcome || "internal" });
      visit.isUnderWay = false;
      visit.log();
    }
  }

  async function answerContent(request: FastifyRequest, reply: FastifyReply, file: StoredFile): Promise<void> {
    const { headers, method } = request;
    const visit = request.visit!;
    const etag = `"${file.sha256}"`;
    const isFresh = !isMatch(headers["if-none-match"], etag);
    const ranges = method === "GET" && (headers["if-range"] === undefined || headers["if-range"] === etag);
    const range = isFresh && ranges ? readRange(headers.range, file.bytes) : undefined;
    if (range === "none") {
      reply.header("content-range", `bytes */${file.bytes}`);
      throw new Fault(416, `gateway: the file has ${file.bytes} bytes, none is in that Range`, "bad_range");
    }
    const { start, end } = range ?? { start: 0, end: file.bytes - 1 };
    const left = Math.max(0, Math.floor((file.expiresAt - clock.now()) / 1000));
    const about = {
      "accept-ranges": "bytes",
      etag,
      "last-modified": new Date(file.createdAt).toUTCString(),
      "cache-control": `private, max-age=${left}`,
      "content-disposition": contentDisposition(file.name, { type: "inline" }),
      "x-content-type-options": "nosniff",
    };
    if (!isFresh) {
      done(request, file);
      return void (await reply.code(304).headers(about).send());
    }
    const handle = method === "HEAD" ? undefined : await store.open(file);
    reply.code(range === undefined ? 200 : 206).headers(about);
    reply.type(file.type.startsWith("text/") ? `${file.type}; charset=utf-8` : file.type);
    reply.header("content-length", end - start + 1);
    if (range !== undefined) reply.header("content-range", `bytes ${start}-${end}/${file.bytes}`);
    if (handle === undefined) {
      done(request, file);
      return void (await reply.send());
    }
    visit.isUnderWay = true;
    const stream = handle.createReadStream({ start, end });
    stream.once("close", () => {
      metrics.fileSentBytes.inc(stream.bytesRead);
      Object.assign(visit.account, aboutFile(file), { outcome: stream.readableEnded ? "done" : "reader_gone" });
      visit.isUnderWay = false;
      visit.log();
      // What is missing does not come any more: nobody is to wait for it.
      if (stream.bytesRead < end - start + 1) reply.raw.destroy();
    });
    await reply.send(stream);
  }

  function describe(request: FastifyRequest, file: StoredFile): object {
    const base = publicUrl ?? ownUrl(request);
    return {
      file_id: file.id,
      file_name: file.name,
      file_size: file.bytes,
      content_type: file.type,
      ...(base !== undefined && { url: `${base}/download/${file.id}` }),
    };
  }

  /** A part of the board's files, as the query says: `limit`, `after` (an id), `order`, `purpose`. */
  function page(request: FastifyRequest): { files: StoredFile[]; hasMore: boolean } {
    const query = request.query as Record<string, unknown>;
    const { limit = String(PAGE), after, order = "desc", purpose } = query;
    const most = Number(limit);
    if (!/^\d+$/.test(String(limit)) || most < 1) throw badQuery(`limit must be a number from 1 to ${MOST_PAGE}`);
    if (order !== "asc" && order !== "desc") throw badQuery("order must be asc or desc");
    let files = store.list(request.visit!.token!.name);
    if (order === "asc") files.reverse();
    if (purpose !== undefined) files = files.filter((file) => file.purpose === purpose);
    if (after !== undefined) {
      const at = files.findIndex(({ id }) => id === after);
      if (at < 0) throw badQuery("after must be the id of a file of this board");
      files = files.slice(at + 1);
    }
    const size = Math.min(most, MOST_PAGE);
    return { files: files.slice(0, size), hasMore: files.length > size };
  }
}

const seconds = (ms: number): number => Math.floor(ms / 1000);

const gone = (): Fault => new Fault(499, "gateway: the board has gone before it had the file's id", "board_gone");
const noFile = (): Fault =>
  new Fault(404, "gateway: there is no such file: it has expired, was deleted, or never was. Send it again", "no_file");
const badQuery = (problem: string): Fault => new Fault(400, `gateway: ${problem}`, "bad_request");

/** For the log. Of the id, which opens the file to whoever has it, no more than tells files apart. */
function aboutFile({ id, name, type, bytes }: StoredFile): object {
  return { file: id.slice(0, 13), name, type, bytes };
}

/** https://platform.openai.com/docs/api-reference/files/object */
function fileObject({ id, bytes, createdAt, expiresAt, name, purpose = "user_data" }: StoredFile): object {
  return {
    id,
    object: "file",
    bytes,
    created_at: seconds(createdAt),
    expires_at: seconds(expiresAt),
    filename: name,
    purpose,
    status: "processed",
  };
}

function readPurpose(fields: Upload["fields"]): string {
  const purpose = fields.get("purpose") ?? "";
  if (!/^[a-z][a-z_-]{0,39}$/.test(purpose))
    throw new Fault(400, 'gateway: the form needs a field "purpose", such as user_data or vision', "bad_form");
  return purpose;
}

/** Milliseconds that the form says the file shall stay; without end where it says nothing. */
function readExpiry(fields: Upload["fields"]): number {
  const text = fields.get("expires_after[seconds]");
  if (text === undefined) return Infinity;
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < 3_600 || value > 2_592_000)
    throw new Fault(400, "gateway: expires_after[seconds] must be a number from 3600 to 2592000", "bad_form");
  return value * 1000;
}

/** `http://` and the address of this end of the connection: who has come this way may come this way again. */
function ownUrl({ socket }: FastifyRequest): string | undefined {
  const { localAddress, localPort } = socket;
  if (localAddress === undefined || localPort === undefined) return undefined;
  const address = localAddress.replace(/^::ffff:/, "");
  return `http://${address.includes(":") ? `[${address}]` : address}:${localPort}`;
}

function isMatch(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false;
  return header.split(",").some((one) => ["*", etag].includes(one.trim().replace(/^W\//, "")));
}

/**
 * The bytes that a Range header asks for, both ends included; undefined where all are to be sent, as for several ranges
 * and what is no range at all, which RFC 9110 lets a server ignore; `none` where the file has no such bytes.
 */
function readRange(header: string | undefined, size: number): { start: number; end: number } | "none" | undefined {
  const [, first, last] = /^bytes=(\d*)-(\d*)$/.exec(header ?? "") ?? [];
  if (first === undefined || last === undefined || (first === "" && last === "")) return undefined;
  if (first === "") return Number(last) === 0 ? "none" : { start: Math.max(0, size - Number(last)), end: size - 1 };
  const start = Number(first);
  const end = last === "" ? size - 1 : Math.min(Number(last), size - 1);
  if (last !== "" && Number(last) < start) return undefined;
  return start < size ? { start, end } : "none";
}
