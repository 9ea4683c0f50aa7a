/** Answers as OpenAI's wire format has them: one JSON object, or a stream of chunks. */
import { randomUUID } from "node:crypto";
import type { Answer } from "./answer";
import type { ChatRequest } from "./protocol";
import { modelName } from "./sentence";

/** About how many characters a token is; for usage figures and `max_tokens`. */
const charactersPerToken = 4;

interface Reply {
  content: string | null;
  calls: { id: string; name: string; arguments: string }[];
  finishReason: "stop" | "tool_calls" | "length";
}

function toReply(answer: Answer, request: ChatRequest): Reply {
  if ("toolCalls" in answer) {
    const calls = answer.toolCalls.map((call) => ({
      id: `call_${randomUUID().replaceAll("-", "").slice(0, 24)}`,
      name: call.name,
      arguments: JSON.stringify(call.arguments),
    }));
    return { content: null, calls, finishReason: "tool_calls" };
  }
  const letters = Array.from(answer.text);
  const most = (request.maxTokens ?? Infinity) * charactersPerToken;
  if (letters.length > most) return { content: letters.slice(0, most).join(""), calls: [], finishReason: "length" };
  return { content: answer.text, calls: [], finishReason: "stop" };
}

function usageOf(reply: Reply, request: ChatRequest): Record<string, number> {
  const count = (length: number): number => Math.ceil(length / charactersPerToken);
  const prompt = count(JSON.stringify([request.messages, request.tools]).length);
  const completion = count((reply.content ?? "").length + JSON.stringify(reply.calls).length);
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}

function head(object: string): Record<string, unknown> {
  return {
    id: `chatcmpl-${randomUUID().replaceAll("-", "")}`,
    object,
    created: Math.floor(Date.now() / 1000),
    model: modelName,
  };
}

/** The body of an answer that is not streamed. */
export function encodeCompletion(answer: Answer, request: ChatRequest): object {
  const reply = toReply(answer, request);
  const toolCalls = reply.calls.map(({ id, name, arguments: args }) => ({
    id,
    type: "function",
    function: { name, arguments: args },
  }));
  const message = { role: "assistant", content: reply.content, ...(toolCalls.length > 0 && { tool_calls: toolCalls }) };
  return {
    ...head("chat.completion"),
    choices: [{ index: 0, message, logprobs: null, finish_reason: reply.finishReason }],
    usage: usageOf(reply, request),
  };
}

/**
 * The server-sent events of a streamed answer, each a whole `data: …` block: a delta with the role, the text word by
 * word or each call's name and then its arguments in pieces, the finish reason, the usage where it was asked for, and
 * `[DONE]`. No piece cuts a character.
 */
export function* encodeStream(answer: Answer, request: ChatRequest): Generator<string> {
  const reply = toReply(answer, request);
  const common = head("chat.completion.chunk");
  const event = (fields: object): string => `data: ${JSON.stringify({ ...common, ...fields })}\n\n`;
  const delta = (content: object, finish: string | null = null): string =>
    event({ choices: [{ index: 0, delta: content, finish_reason: finish }] });

  yield delta({ role: "assistant", content: reply.content === null ? null : "" });
  for (const piece of (reply.content ?? "").match(/\s*\S+\s*$|\s*\S+|\s+/gu) ?? []) yield delta({ content: piece });
  for (const [index, call] of reply.calls.entries()) {
    const start = { index, id: call.id, type: "function", function: { name: call.name, arguments: "" } };
    yield delta({ tool_calls: [start] });
    for (const piece of piecesOf(call.arguments))
      yield delta({ tool_calls: [{ index, function: { arguments: piece } }] });
  }
  yield delta({}, reply.finishReason);
  if (request.includeUsage) yield event({ choices: [], usage: usageOf(reply, request) });
  yield "data: [DONE]\n\n";
}

/** Pieces of about a token's length, so that a reader has to put arguments together as with a real provider. */
function piecesOf(text: string): string[] {
  const letters = Array.from(text);
  const pieces: string[] = [];
  for (let at = 0; at < letters.length; at += 5) pieces.push(letters.slice(at, at + 5).join(""));
  return pieces;
}
