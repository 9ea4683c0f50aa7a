import { setting } from "./config";
import { openSource, type Source } from "./disk";
import { askService } from "./fetch";
import type { Session, ToolResult } from "./types";

/** Bytes that are read at once. */
const PIECE_BYTES = 512;
/** Pieces that are looked at before others get their turn. */
const PIECES = 16;
/** Files that are remembered, and for how many seconds: a file server may forget them, too. */
const REMEMBERED = 4;
const REMEMBERED_S = 3600;
/** Bytes of an id or a URL: it stands in the history. */
const WHERE_BYTES = 300;

// Sends a file to the file server: POST of multipart/form-data, RFC 7578, with the one part `file`, read from flash or card
// while it is sent. Calls `done` once: with what is wrong, in words for the model; or with `u` and the file's URL, or `i` and its
// id. What was sent within the hour and is unchanged is not sent again.
//
// The reply is {code: 0, data: {file_id}} (RT-Thread's agent), {url}, or {id} (https://platform.openai.com/docs/api-reference/files).
// OpenAI's wants to hear a purpose, too.
export function upload(session: Session, path: string, type: string, done: (problem: string, where: string) => void): void {
  let root = session;
  while (root.parent) root = root.parent;
  const running = session.abort;
  const address = setting("uploadUrl").replace(/\/+$/, "");
  const opened = openSource(path);
  if (typeof opened === "string") return done(opened, "");
  const source: Source = opened;
  const size = source.size;
  /** Checksum of the file before it is sent, and of what was sent. */
  let before = 0;
  let sum = 0;
  let at = 0;
  let attempts = 0;
  let key = "";
  /** What has become of the file in the meantime: to send it again is no use. */
  let gone = "";

  // The board's CRC32 takes no start value.
  function add(piece: string): void {
    sum = E.CRC32(sum + piece);
  }

  function finish(problem: string, where: string): void {
    source.close();
    done(problem, where);
  }

  // Looks at the whole file, some of it at a time. Let go of then: it would cost a dozen variables while the file is sent.
  let look: any = function (): void {
    if (session.abort !== running) return finish("stopped", "");
    for (let i = 0; i < PIECES && at < size; i++) {
      const piece = source.read(at, Math.min(PIECE_BYTES, size - at));
      if (!piece) return finish("it cannot be read: is the card still there?", "");
      add(piece);
      at += piece.length;
    }
    if (at < size) {
      setTimeout(look, 1);
      return;
    }
    look = undefined;
    before = sum;
    // In a sum of sums: whole, it would take a dozen variables more for each file.
    key = E.CRC32([path, size, before, address, setting("downloadUrl")].join("|")) + "|";
    const now = getTime() | 0;
    for (const entry of root.uploads || []) {
      const rest = entry.startsWith(key) ? entry.substr(key.length) : "";
      const bar = rest.indexOf("|");
      if (rest && now - Number(rest.substr(0, bar)) < REMEMBERED_S) return finish("", rest.substr(bar + 1));
    }
    send();
  };

  function send(): void {
    if (session.abort !== running) return finish("stopped", "");
    let boundary = "----agent" + Math.random().toString(36).substr(2) + Math.random().toString(36).substr(2);
    // What is sent is let go of: the head alone has 20 variables.
    let line = "--" + boundary + '\r\nContent-Disposition: form-data; name="';
    // Quotes in a name as browsers write them, https://html.spec.whatwg.org/#multipart-form-data; backslashes, too, which some
    // servers take for half of an escape. No name of a file has control characters.
    let name = source.name.replace(/["\\]/g, function (c) {
      return c === '"' ? "%22" : "%5C";
    });
    let head =
      (address.endsWith("/files") && setting("provider") !== "anthropic" ? line + 'purpose"\r\n\r\nuser_data\r\n' : "") +
      line + 'file"; filename="' + name + '"\r\nContent-Type: ' + type + "\r\n\r\n";
    let tail = "\r\n--" + boundary + "--\r\n";
    const length = head.length + size + tail.length;
    line = "";
    let headers: any = { "Content-Type": "multipart/form-data; boundary=" + boundary, Accept: "application/json" };
    if (setting("fileToken")) headers.Authorization = "Bearer " + setting("fileToken");
    boundary = name = "";
    let told = 0;
    let code = 0;
    let link = "";
    let id = "";
    let said = "";
    at = sum = 0;
    attempts++;
    askService({
      url: address,
      headers: headers,
      length: length,
      next: function () {
        let piece = head;
        head = "";
        if (piece) return piece;
        if (at < size) {
          const wanted = Math.min(PIECE_BYTES, size - at);
          piece = source.read(at, wanted);
          // The connection is given up: a server must not take this for a whole file.
          if (piece.length < wanted) {
            gone = "it got shorter, or the card is gone";
            throw new Error();
          }
          add(piece);
          at += wanted;
          if (at - told >= size >> 3 || at === size) {
            told = at;
            session.emit({ type: "upload", path: path, sent: at, total: size });
          }
          return piece;
        }
        piece = tail;
        tail = "";
        return piece || undefined;
      },
      timeoutMs: setting("uploadTimeoutMs"),
      session: session,
      what: "The file server",
      urlSetting: "uploadUrl",
      keySetting: "fileToken",
      keys: "code,data,file_id,url,id,message,error",
      maxString: WHERE_BYTES,
      take: function (name, value) {
        if (name === "code") code = value;
        else if (name === "url") link = value;
        else if (name === "file_id" || (name === "id" && !id)) id = String(value);
        else if (name === "message" || name === "error") said = String(value);
      },
      end: function () {
        let where = "";
        if (code) return { isError: true, content: "The file server refused the file: " + (said || "code " + code) };
        const base = setting("downloadUrl").replace(/\/+$/, "") || (address.endsWith("/upload") ? address.substr(0, address.length - 7) + "/download" : "");
        if (id && base && (!link || setting("downloadUrl"))) link = base + "/" + id;
        if (link) where = "u" + link;
        else if (id) where = "i" + id;
        if (!where) return { isError: true, content: "The file server's answer has neither file_id, url nor id: check uploadUrl" + (said && ": " + said) };
        if (where.length > WHERE_BYTES || !/^[!-~]+$/.test(where) || /["|\\]/.test(where) || (link && !/^uhttps*:\/\//.test(where)))
          return { isError: true, content: "The file server's answer has no URL or id that can be used: check uploadUrl and downloadUrl" };
        if (sum !== before) return { isError: true, content: path + " was changed while it was sent: show it again" };
        return where;
      },
    }).then(function (output) {
      if (typeof output === "string") {
        const list = root.uploads || (root.uploads = []);
        list.push(key + (getTime() | 0) + "|" + output);
        if (list.length > REMEMBERED) list.shift();
        return finish("", output);
      }
      const result = output as ToolResult;
      if (gone || !result.retry || attempts > setting("retries") || session.abort !== running) return finish(gone || result.content, "");
      const wait = 500 << attempts;
      session.emit({ type: "retry", attempt: attempts, waitMs: wait, reason: result.content });
      setTimeout(send, wait);
    });
    headers = undefined;
  }

  if (size > setting("uploadBytes")) return finish("it has " + size + " bytes, and " + setting("uploadBytes") + " may be uploaded (uploadBytes)", "");
  look();
}
