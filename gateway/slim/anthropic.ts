/** Anthropic's messages, slimmed: what `firmware/provider/anthropic.ts` reads is kept, and what clients rely on. */
import { pick, slimError, type SlimDialect, type Words } from "./fields";
import type { Merger } from "./merge";

/** Clients go by the `event:` line, which says the type once more. */
export const anthropicLineBefore = (value: any): string => `event: ${value.type}\n`;

export function createAnthropicDialect(out: Merger, words: Words): SlimDialect {
  function readDelta(index: number, delta: any): void {
    const grow = (type: string, field: string): void => {
      const text = delta[field];
      if (typeof text !== "string") return;
      const make = (part: string): object => ({ type: "content_block_delta", index, delta: { type, [field]: part } });
      out.grow({ key: `${type} ${index}`, text, make });
    };
    const { type, signature } = delta;
    if (type === "text_delta") grow(type, "text");
    else if (type === "thinking_delta") grow(type, "thinking");
    else if (type === "input_json_delta") grow(type, "partial_json");
    // Never cut: clients take the last one for all of it.
    else if (type === "signature_delta") out.event({ type: "content_block_delta", index, delta: { type, signature } });
    // Citations and what else may come are shown nowhere.
  }

  return {
    read(body) {
      if (body.error) return out.event({ type: "error", error: slimError(body.error, words) });
      const { type, index } = body;
      if (type === "message_start") {
        const { id, role, model, usage } = body.message ?? {};
        const message = { ...pick({ id, type: "message", role, model }), content: [], stop_reason: null };
        return out.event({ type, message: { ...message, stop_sequence: null, usage: slimUsage(usage) } });
      }
      if (type === "content_block_start" && body.content_block)
        return out.event({ type, index, content_block: slimBlock(body.content_block) });
      if (type === "content_block_delta" && body.delta) return readDelta(index, body.delta);
      if (type === "content_block_stop") return out.event({ type, index });
      if (type === "message_delta") {
        const { stop_reason = null, stop_sequence = null } = body.delta ?? {};
        return out.event({ type, delta: { stop_reason, stop_sequence }, usage: slimUsage(body.usage) });
      }
      if (type === "message_stop") return out.event({ type });
      // A ping, and what a board would not read either, unless it has the parts of something that it does.
      if (body.content || body.content_block || body.delta) out.raw(JSON.stringify(body));
    },
    readText() {},
    end() {},
  };
}

/** A block of a reply, whole or as it begins. Of the tools that the server runs itself nothing is read but that. */
function slimBlock(block: any): object {
  const { type, text, thinking, signature, id, name, tool_use_id, input } = block;
  if (type === "redacted_thinking") return block;
  if (type === "tool_use") return { ...pick({ type, id, name }), input: input ?? {} };
  const own = pick({ type, text, thinking, signature, id, name, tool_use_id });
  return input === undefined ? own : { ...own, input: {} };
}

function slimUsage(usage: any): object {
  const { input_tokens, output_tokens } = usage ?? {};
  return pick({ input_tokens, output_tokens });
}

/** A whole reply; undefined where `body` is none. */
export function slimAnthropicReply(body: any): object | undefined {
  if (!Array.isArray(body.content)) return undefined;
  const { id, type, role, model, stop_reason = null, stop_sequence = null, usage } = body;
  return {
    ...pick({ id, type, role, model }),
    content: body.content.filter(Boolean).map(slimBlock),
    stop_reason,
    stop_sequence,
    usage: slimUsage(usage),
  };
}
