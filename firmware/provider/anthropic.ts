import { CALLS, RESULT, SHORT_RESULT, USER } from "../history";
import { fromJson, toJson, wireText } from "../text";
import type { Provider } from "../types";

/** Tokens to ask for where `maxTokens` is 0: this API wants a number, and every Claude model may write that much. */
const DEFAULT_MAX_TOKENS = 4096;

// The Anthropic Messages dialect, as Anthropic and gateways speak it. https://platform.claude.com/docs/en/api/messages
//
// The results of a turn must all be in the one message after its calls, and the history takes them one by one. So each
// is a part of that message: the first opens it, the last closes it. A turn is kept or dropped whole, and no request
// goes out before its last result, so that what is sent is always whole messages.
//
// Thinking is shown and never sent back. We do not ask for it; a model that thinks unasked does so adaptively, where
// earlier turns need no thinking blocks. A block that is sent must be unchanged and in its place, and its signature
// holds for the system prompt, tools and messages that were before it: a history that drops and shortens would be
// refused from then on. https://platform.claude.com/docs/en/build-with-claude/preserved-thinking
export function createAnthropic(): Provider {
  /** Results that are to come for the calls composed last. */
  let missing = 0;
  /** The message of their results is begun. */
  let open = false;

  return {
    compose: function (kind, text, calls, isError) {
      // What follows the content says whether the part was the last.
      if (kind === SHORT_RESULT)
        return (
          text.substr(0, text.indexOf(',"content":"')) + ',"content":"(shortened to save memory)"}' +
          (text.endsWith("]}") ? "]}" : "")
        );
      // An id has letters, digits, _ and - only, or the request is refused.
      const odd = /[^a-zA-Z0-9_\-]/g;
      if (kind === RESULT) {
        const start = open ? "" : '{"role":"user","content":[';
        open = --missing > 0;
        return (
          start + '{"type":"tool_result","tool_use_id":"' + calls![0].id.replace(odd, "_") +
          (isError ? '","is_error":true' : '"') + ',"content":' + wireText(text) + (open ? "}" : "}]}")
        );
      }
      let json = '{"role":"' + (kind === USER ? "user" : "assistant") + '","content":';
      if (kind !== CALLS) return json + wireText(text) + "}";
      missing = calls!.length;
      open = false;
      // A block of no text, or of white space alone, is refused.
      json += text.trim() ? '[{"type":"text","text":' + wireText(text) + "}" : "[";
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
          (o.systemPrompt ? ',"system":' + wireText(o.systemPrompt) : "") + ',"messages":[',
        between: o.withTools ? '],"tools":[' : "]",
        tail: o.withTools ? "]}" : "}",
      };
    },
    tool: function (tool, first) {
      return (
        (first ? "" : ",") + '{"name":"' + tool.name + '","description":' + tool.description + ',"input_schema":' +
        tool.parameters + "}"
      );
    },
    read: function (data, reply) {
      if (data.charAt(0) !== "{") data = data.trim();
      // Keep-alive text inside data, as some gateways send.
      if (data.charAt(0) !== "{") return;
      const body = fromJson(data);
      const error = body.error;
      if (error) {
        // An error within a stream has no HTTP status of its own. https://platform.claude.com/docs/en/api/errors
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
        reply.failure = {
          status: Number(statuses[error.type]) || 0,
          message: String(error.message || (typeof error === "string" ? error : toJson(error))),
        };
        return;
      }
      // The blocks of a whole reply, or the one that begins or goes on here.
      const whole = body.content instanceof Array;
      const blocks = whole ? body.content : [body.content_block || body.delta];
      let index = whole ? 0 : body.index;
      for (const block of blocks) {
        if (block) {
          if (typeof block.text === "string") reply.fresh += block.text;
          reply.thought(block.thinking);
          let input = block.input;
          // Empty where it begins: the arguments follow, or there are none.
          if (input && typeof input === "object" && !Object.keys(input).length) input = "";
          if (block.type === "tool_use") reply.call(index, block.id, block.name, input);
          else if (block.type === "input_json_delta") {
            // A tool that the server runs itself streams its input, too; that is no call of ours.
            let ours = typeof index !== "number";
            for (const call of reply.calls) if (call.index === index) ours = true;
            if (ours) reply.call(index, "", "", block.partial_json);
          }
        }
        index++;
      }
      const reason = whole ? body.stop_reason || "stop" : body.delta && body.delta.stop_reason;
      if (typeof reason === "string" && !reply.stop)
        reply.stop = reason === "max_tokens" || reason === "model_context_window_exceeded" ? "length" : "stop";
      if (body.type === "message_stop") reply.stop = reply.stop || "done";
    },
  };
}
