import { CALLS, ECHO_CALLS, HAS_MEDIA, RESULT, SHORT_CALLS, SHORT_RESULT, USER } from "../history";
import { takeCall, takeFailure, takeThought } from "../reply";
import { fromJson, readWhole, toJson, wireText } from "../text";
import { Gives, type Provider, type ReplyCollector } from "../types";

/** Tokens to ask for where `maxTokens` is 0: this API wants a number, and every Claude model may write that much. */
const DEFAULT_MAX_TOKENS = 4096;

// The Anthropic Messages dialect, as Anthropic and gateways speak it. https://platform.claude.com/docs/en/api/messages
//
// The results of a turn must all be in the one message after its calls, and the history takes them one by one. So each
// is a part of that message: the first opens it, the last closes it. A turn is kept or dropped whole, and no request
// goes out before its last result, so that what is sent is always whole messages.
//
// Thinking goes back with the calls that it led to, whole and with its signature, for the rest of the run. The signature
// holds for the system prompt, tools and messages before it, so all of it goes when the history drops or shortens anything;
// thinking that is too long does not go back at all. We do not ask for thinking, and a model that thinks unasked does not
// need it back. https://platform.claude.com/docs/en/build-with-claude/preserved-thinking
export function createAnthropic(): Provider {
  /** The signature of the thinking block that is open; undefined while there is none. */
  let signature: string | undefined;

  // A piece of the thinking to send back: all of it, or nothing.
  function carry(reply: ReplyCollector, piece: string): void {
    if (reply.echo.length + piece.length <= reply.echoBytes) {
      reply.echo += piece;
      if (piece) reply.gives = Gives.More;
    } else {
      reply.echo = "";
      reply.echoBytes = 0;
    }
  }

  // What stands in a JSON string for `text`; "" where it is no text.
  function inner(text: any): string {
    return typeof text === "string" && text ? wireText(text).slice(1, -1) : "";
  }

  // Takes what a block, or a delta of one, adds to the thinking; with neither, the block is over.
  function think(reply: ReplyCollector, block: any, begins: boolean): void {
    const comma = reply.echo ? "," : "";
    if (begins && block.type === "redacted_thinking") carry(reply, comma + toJson(block));
    if (begins && block.type === "thinking") {
      signature = "";
      carry(reply, comma + '{"type":"thinking","thinking":"');
    }
    if (signature === undefined) return;
    if (block) {
      carry(reply, inner(block.thinking));
      signature += inner(block.signature);
    } else {
      carry(reply, '","signature":"' + signature + '"}');
      signature = undefined;
    }
  }

  // Takes a block, or a delta of one.
  function take(reply: ReplyCollector, block: any, index: any, begins: boolean): void {
    if (begins || signature !== undefined) think(reply, block, begins);
    const text = block.text;
    if (text && typeof text === "string") {
      reply.fresh += text;
      reply.gives = reply.gives ? Gives.More : Gives.Text;
      reply.got = text;
    }
    if (block.thinking) takeThought(reply, block.thinking);
    if (block.type === "tool_use") {
      // Empty where it begins: the arguments follow, or there are none.
      const input = block.input;
      takeCall(reply, index, block.id, block.name, input && typeof input === "object" && !Object.keys(input).length ? "" : input);
    } else if (block.type === "input_json_delta") {
      // A tool that the server runs itself streams its input, too; that is no call of ours.
      let ours = typeof index !== "number";
      for (const call of reply.calls) if (call.index === index) ours = true;
      if (ours) takeCall(reply, index, "", "", block.partial_json);
    }
  }

  return {
    compose: function (kind, text, calls, isError, echo) {
      // What follows the content says whether the part was the last.
      if (kind === SHORT_RESULT)
        return (
          text.substr(0, text.indexOf(',"content":"')) + ',"content":"(shortened to save memory)"}' +
          (text.endsWith("]}") ? "]}" : "")
        );
      if (kind === HAS_MEDIA + USER) return '{"role":"user","content":[{"type":"text","text":' + wireText(text) + "}," + echo + "]}";
      // They close the message of the results, whose last one has left it open.
      if (kind & HAS_MEDIA) return echo + "]}";
      // An id has letters, digits, _ and - only, or the request is refused.
      const odd = /[^a-zA-Z0-9_\-]/g;
      if (kind === RESULT) {
        const call = calls![0];
        return (
          (call.first ? '{"role":"user","content":[' : "") + '{"type":"tool_result","tool_use_id":"' + call.id.replace(odd, "_") +
          (isError ? '","is_error":true' : '"') + ',"content":' + wireText(text) + (call.last ? "}]}" : "}")
        );
      }
      const start = '{"role":"assistant","content":[';
      // The first block that is no thinking: quotes within a text are escaped.
      if (kind === SHORT_CALLS) {
        const at = text.indexOf('{"type":"text","');
        const call = text.indexOf('{"type":"tool_use","');
        return start + text.substr(at >= 0 && at < call ? at : call);
      }
      if (kind !== CALLS && kind !== ECHO_CALLS)
        return '{"role":"' + (kind === USER ? "user" : "assistant") + '","content":' + wireText(text) + "}";
      // A block that was not closed would spoil the history.
      let json = start + (echo && readWhole("[" + echo + "]") ? echo : "");
      // A block of no text, or of white space alone, is refused.
      if (text.trim()) json += (json.endsWith("[") ? "" : ",") + '{"type":"text","text":' + wireText(text) + "}";
      // Arguments are JSON already; there and back takes out the bytes that are no UTF-8.
      for (const call of calls!)
        json += (json.endsWith("[") ? "" : ",") + '{"type":"tool_use","id":"' + call.id.replace(odd, "_") +
          '","name":' + wireText(call.name) + ',"input":' + fromJson(wireText(call.arguments)) + "}";
      return json + "]}";
    },
    frame: function (o) {
      const headers: Record<string, string> = { "anthropic-version": "2023-06-01" };
      if (o.apiKey) headers["x-api-key"] = o.apiKey;
      return {
        path: "/messages",
        headers: headers,
        head:
          '{"model":' + wireText(o.model) + ',"stream":true,"max_tokens":' + (o.maxTokens || DEFAULT_MAX_TOKENS) +
          (o.temperature < 0 ? "" : ',"temperature":' + o.temperature) + (o.topP < 0 ? "" : ',"top_p":' + o.topP) +
          (o.systemPrompt ? ',"system":' + wireText(o.systemPrompt) : "") + ',"messages":[',
        between: o.withTools ? '],"tools":[' : "]",
        tail: o.withTools ? "]}" : "}",
      };
    },
    tool: function (tool, first) {
      return [(first ? "" : ",") + '{"name":"' + tool.name + '","description":', tool.description, ',"input_schema":', tool.parameters, "}"];
    },
    echoes: true,
    read: function (reply) {
      let body = reply.body;
      reply.body = undefined;
      if (body.error) return takeError(body.error, reply);
      const type = body.type;
      const index = body.index;
      const reason = body.stop_reason || (body.delta && body.delta.stop_reason);
      if (typeof reason === "string" && !reply.stop)
        reply.stop = reason === "max_tokens" || reason === "model_context_window_exceeded" ? "length" : "stop";
      const blocks = body.content;
      body = body.content_block || body.delta;
      if (body) take(reply, body, index, type === "content_block_start");
      else if (type === "content_block_stop") think(reply, undefined, false);
      else if (type === "message_stop") reply.stop = reply.stop || "done";
      else if (blocks instanceof Array) {
        // A whole reply.
        for (let i = 0; i < blocks.length; i++)
          if (blocks[i]) {
            take(reply, blocks[i], i, true);
            think(reply, undefined, false);
          }
        reply.stop = reply.stop || "stop";
      }
    },
  };
}

// An error within a stream has no HTTP status of its own. https://platform.claude.com/docs/en/api/errors
function takeError(error: any, reply: ReplyCollector): void {
  const statuses: Record<string, number> = {
    invalid_request_error: 400,
    authentication_error: 401,
    billing_error: 402,
    permission_error: 403,
    not_found_error: 404,
    request_too_large: 413,
    rate_limit_error: 429,
    api_error: 500,
    timeout_error: 504,
    overloaded_error: 529,
  };
  takeFailure(reply, error, statuses[error.type]);
}
