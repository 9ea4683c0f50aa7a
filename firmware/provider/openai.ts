import { CALLS, ECHO_CALLS, HAS_MEDIA, RESULT, SHORT_CALLS, SHORT_RESULT, USER } from "../history";
import { takeCall, takeFailure, takeThought } from "../reply";
import { cutUtf8, toJson, wireText } from "../text";
import { Gives, type Provider, type ReplyCollector } from "../types";

// The OpenAI chat completions dialect, as Ollama, llama.cpp, LM Studio, vLLM and gateways speak it.
// https://platform.openai.com/docs/api-reference/chat
//
// With `echoes`, the reasoning of a reply goes back with its tool calls, as DeepSeek asks for it in the field that it comes
// in: https://api-docs.deepseek.com/guides/thinking_mode. A call's `extra_content` always does: Gemini keeps the signature
// of a thought there. https://ai.google.dev/gemini-api/docs/thought-signatures
export function createOpenai(echoes: boolean): Provider {
  return {
    compose: function (kind, text, calls, isError, echo) {
      // The first content is the message's own: quotes within a text are escaped.
      if (kind === SHORT_CALLS) return '{"role":"assistant","reasoning_content":""' + text.substr(text.indexOf(',"content":'));
      if (kind === SHORT_RESULT) return text.substr(0, text.indexOf(',"content":')) + ',"content":"(shortened to save memory)"}';
      // A message of a tool can hold text only.
      if (kind & HAS_MEDIA)
        return '{"role":"user","content":[' + (kind === HAS_MEDIA + USER ? '{"type":"text","text":' + wireText(text) + "}," : "") + echo + "]}";
      if (kind === RESULT)
        return '{"role":"tool","tool_call_id":' + wireText(calls![0].id) + ',"content":' + wireText((isError ? "Error: " : "") + text) + "}";
      let json = '{"role":"' + (kind === USER ? "user" : "assistant") + '"';
      const isCalls = kind === CALLS || kind === ECHO_CALLS;
      if (isCalls && echoes) json += ',"reasoning_content":' + wireText(echo || "");
      json += ',"content":' + wireText(text);
      if (isCalls) {
        json += ',"tool_calls":[';
        for (const call of calls!)
          json += (json.endsWith("[") ? "" : ",") + '{"id":' + wireText(call.id) + ',"type":"function","function":{"name":' +
            wireText(call.name) + ',"arguments":' + wireText(call.arguments) + "}" +
            (call.echo ? ',"extra_content":' + call.echo : "") + "}";
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
          (o.temperature < 0 ? "" : ',"temperature":' + o.temperature) + (o.topP < 0 ? "" : ',"top_p":' + o.topP) +
          ',"messages":[{"role":"system","content":' + wireText(o.systemPrompt) + "}",
        between: o.withTools ? '],"tools":[' : "]",
        tail: o.withTools ? "]}" : "}",
      };
    },
    tool: function (tool, first) {
      return [
        (first ? "" : ",") + '{"type":"function","function":{"name":"' + tool.name + '","description":', tool.description,
        ',"parameters":', tool.parameters, "}}",
      ];
    },
    echoes: echoes,
    read: read,
  };
}

function read(reply: ReplyCollector): void {
  let body = reply.body;
  reply.body = undefined;
  // Its code is a status, or a word such as "invalid_api_key".
  if (body.error) return takeFailure(reply, body.error, body.error.code || body.error.status);
  body = body.choices && body.choices[0];
  if (!body) return;
  const reason = body.finish_reason || (body.message && "stop");
  if (typeof reason === "string" && !reply.stop) reply.stop = reason === "length" ? "length" : "stop";
  // A delta of a stream and the message of a whole reply have the same fields.
  body = body.delta || body.message || {};
  const thought = body.reasoning_content || body.reasoning;
  if (thought) takeThought(reply, thought);
  if (typeof thought === "string" && thought && reply.echo.length < reply.echoBytes) {
    const all = reply.echo + thought;
    reply.echo = cutUtf8(all, reply.echoBytes);
    reply.gives = Gives.More;
    // Nothing follows what was cut.
    if (reply.echo !== all) reply.echoBytes = 0;
  }
  let text = body.content;
  if (text instanceof Array) text = text.map(textOf).join("");
  if (text && typeof text === "string") {
    reply.fresh += text;
    reply.gives = reply.gives ? Gives.More : Gives.Text;
    reply.got = text;
  }
  body = body.tool_calls;
  if (body instanceof Array)
    for (const one of body) {
      const call = (one && one.function) || {};
      const slot = one && takeCall(reply, one.index, one.id, call.name, call.arguments);
      if (slot && one.extra_content && !slot.echo) slot.echo = toJson(one.extra_content);
    }
}

// The text of one part of a message's content; "" where it is none.
function textOf(part: any): string {
  return part && typeof part.text === "string" ? part.text : "";
}
