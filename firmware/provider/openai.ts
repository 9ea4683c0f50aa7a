import { CALLS, RESULT, SHORT_RESULT, USER } from "../history";
import { fromJson, toJson, wireText } from "../text";
import type { Provider } from "../types";

// The OpenAI chat completions dialect, as Ollama, llama.cpp, LM Studio, vLLM and gateways speak it.
// https://platform.openai.com/docs/api-reference/chat
export function createOpenai(): Provider {
  return {
    compose: function (kind, text, calls, isError) {
      if (kind === SHORT_RESULT) return text.substr(0, text.indexOf(',"content":')) + ',"content":"(shortened to save memory)"}';
      if (kind === RESULT)
        return '{"role":"tool","tool_call_id":' + wireText(calls![0].id) + ',"content":' + wireText((isError ? "Error: " : "") + text) + "}";
      let json = '{"role":"' + (kind === USER ? "user" : "assistant") + '","content":' + wireText(text);
      if (kind === CALLS) {
        json += ',"tool_calls":[';
        for (const call of calls!)
          json += (json.endsWith("[") ? "" : ",") + '{"id":' + wireText(call.id) + ',"type":"function","function":{"name":' +
            wireText(call.name) + ',"arguments":' + wireText(call.arguments) + "}}";
        json += "]";
      }
      return json + "}";
    },
    frame: function (o) {
      const headers: Record<string, string> = {};
      if (o.apiKey) headers.Authorization = "Bearer " + o.apiKey;
      return {
        path: "/chat/completions",
        headers: headers,
        head:
          '{"model":' + wireText(o.model) + ',"stream":true' + (o.maxTokens ? ',"' + o.tokensField + '":' + o.maxTokens : "") +
          ',"messages":[{"role":"system","content":' + wireText(o.systemPrompt) + "}",
        between: o.withTools ? '],"tools":[' : "]",
        tail: o.withTools ? "]}" : "}",
      };
    },
    tool: function (tool, first) {
      return (
        (first ? "" : ",") + '{"type":"function","function":{"name":"' + tool.name + '","description":' + tool.description +
        ',"parameters":' + tool.parameters + "}}"
      );
    },
    read: function (data, reply) {
      if (data.charAt(0) !== "{") data = data.trim();
      if (data.startsWith("[DONE]")) reply.stop = reply.stop || "done";
      // Keep-alive text inside data, as some gateways send.
      if (data.charAt(0) !== "{") return;
      const body = fromJson(data);
      const error = body.error;
      if (error) {
        // An object with a message, or text; its code is a status, or a word such as "invalid_api_key".
        reply.failure = { status: Number(error.code || error.status) || 0, message: String(error.message || (typeof error === "string" ? error : toJson(error))) };
        return;
      }
      const choice = body.choices && body.choices[0];
      if (!choice) return;
      // A delta of a stream and the message of a whole reply have the same fields.
      const delta = choice.delta || choice.message || {};
      reply.thought(delta.reasoning_content || delta.reasoning);
      if (typeof delta.content === "string") reply.fresh += delta.content;
      else if (delta.content instanceof Array)
        for (const part of delta.content) if (part && typeof part.text === "string") reply.fresh += part.text;
      if (delta.tool_calls instanceof Array)
        for (const one of delta.tool_calls) {
          const call = (one && one.function) || {};
          if (one) reply.call(one.index, one.id, call.name, call.arguments);
        }
      const reason = choice.finish_reason || (choice.message && "stop");
      if (typeof reason === "string" && !reply.stop) reply.stop = reason === "length" ? "length" : "stop";
    },
  };
}
