import { setting } from "./config";
import { readHistory } from "./history";
import { openMediaBody } from "./media-body";
import { load } from "./registry";
import { fillTemplate } from "./text";
import type { Post } from "./transport";
import type { Provider, RequestFrame, Session } from "./types";

/** Bytes of the history in one piece of a request: a piece is copied, and the socket takes about this much at once. */
const PIECE_BYTES = 512;

// The body of a request, in pieces: head, slices of the history, each tool from flash, tail. It exists while it is sent. What
// is needed only now is let go of: 60 variables. `next` throws where a file that is to be sent has changed; there is a `close`
// where there is such a file to let go of.
export function createBody(o: Post, session: Session, provider: Provider | undefined, withTools: boolean): void {
  const history = session.history!;
  const toolPieces = provider!.tool;
  let frame: RequestFrame | undefined = provider!.frame({
    apiKey: setting("apiKey"),
    model: setting("model"),
    systemPrompt: fillTemplate(setting("systemPrompt"), session.prompt || ""),
    maxTokens: setting("maxTokens"),
    tokensField: setting("tokensField"),
    temperature: setting("temperature"),
    topP: setting("topP"),
    withTools: withTools,
  });
  // Each message in the history has a comma before it; where none stands before the first, it is not sent.
  let sent = frame.head.endsWith("[") ? 1 : 0;
  let media = history.media ? openMediaBody(history, sent) : undefined;
  if (media && media.hasId && history.provider === "anthropic") frame.headers["anthropic-beta"] = "files-api-2025-04-14";
  let node = withTools ? session.tools.first : undefined;
  // Files of tools may have been changed since.
  let sum = 0;
  for (let one = node; one; one = one.next)
    if (typeof one.tool === "string") sum ^= E.CRC32(require("Storage").read(one.tool) || "");
  if (withTools && (session.toolBytes === undefined || session.toolSum !== sum)) {
    session.toolSum = sum;
    session.toolBytes = 0;
    for (let one = node; one; one = one.next)
      for (const piece of toolPieces(load(one), one === node)) session.toolBytes += piece.length;
  }
  provider = undefined;
  let head = frame.head;
  let between = frame.between;
  let tail = frame.tail;
  let pieces: string[] = [];
  o.url = setting("baseUrl").replace(/\/+$/, "") + frame.path;
  o.headers = frame.headers;
  o.close = media && media.close;
  o.length =
    frame.head.length + (media ? media.length : history.used - sent) + frame.between.length + (withTools ? session.toolBytes! : 0) + frame.tail.length;
  o.next = function (): string | undefined {
    let piece = head;
    head = "";
    if (piece) return piece;
    if (media) {
      piece = media.next()!;
      if (piece !== undefined) return piece;
      media = undefined;
      sent = history.used;
    }
    const size = Math.min(PIECE_BYTES, history.used - sent);
    if (size > 0) {
      sent += size;
      return readHistory(history, sent - size, size);
    }
    piece = between;
    between = "";
    if (piece) return piece;
    if (node && !pieces.length) {
      pieces = toolPieces(load(node), node === session.tools.first);
      node = node.next;
    }
    if (pieces.length) return pieces.shift();
    piece = tail;
    tail = "";
    return piece || undefined;
  };
  frame = undefined;
}
