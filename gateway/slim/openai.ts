/** OpenAI's chat completions, slimmed. What is kept is what `firmware/provider/openai.ts` reads. */
import { pick, slimError, type SlimDialect, type Words } from "./fields";
import type { Merger } from "./merge";

export interface OpenaiOptions {
  /** The client asked for an event with the usage (`include_usage`). */
  withUsage: boolean;
  words: Words;
}

/**
 * The first event alone carries `id`, `object`, `created`, `model` and the role: clients take them from there, and the
 * board needs none of them.
 */
export function createOpenaiDialect(out: Merger, options: OpenaiOptions): SlimDialect {
  let isBegun = false;
  let usage: object | undefined;

  const chunk = (index: number, delta: object): object => ({ choices: [{ index, delta }] });

  function grow(index: number, field: string, text: unknown): void {
    if (typeof text !== "string") return;
    out.grow({ key: `${field} ${index}`, text, make: (part) => chunk(index, { [field]: part }) });
  }

  function readCall(choice: number, one: any): void {
    if (!one) return;
    const fn = one.function ?? {};
    const given = fn.arguments && typeof fn.arguments === "object" ? JSON.stringify(fn.arguments) : fn.arguments;
    const text = typeof given === "string" ? given : "";
    const place = typeof one.index === "number" ? { index: one.index as number } : {};
    const { id, type, thought_signature } = one;
    const extra = one.extra_content ? { extra_content: one.extra_content as unknown } : {};
    const own = { ...pick({ id, type, thought_signature }), ...extra };
    const named = pick({ name: fn.name, thought_signature: fn.thought_signature });
    const call = (fields: object, named: object, part: string): object =>
      chunk(choice, { tool_calls: [{ ...place, ...fields, function: { ...named, arguments: part } }] });

    const make = (part: string): object => call({}, {}, part);
    if (Object.keys(own).length + Object.keys(named).length === 0)
      return out.grow({ key: `arguments ${choice} ${String(place.index)}`, text, make });
    // Nothing joins what begins a call: which call a piece belongs to is for the board to say, by what it has so far.
    if (text === "") out.event(call(own, named, ""));
    else out.grow({ text, make, makeFirst: (part) => call(own, named, part) });
  }

  function sendUsage(): void {
    if (usage === undefined || !options.withUsage) return;
    out.event({ object: "chat.completion.chunk", choices: [], usage });
    usage = undefined;
  }

  return {
    read(body) {
      if (body.error) return out.event({ error: slimError(body.error, options.words) });
      if (body.usage && typeof body.usage === "object") usage = slimUsage(body.usage);
      const choice = body.choices?.[0];
      if (!choice) return;
      const index = typeof choice.index === "number" ? choice.index : 0;
      const delta = choice.delta || choice.message || {};
      if (!isBegun) {
        const { id, object, created, model } = body;
        const role = typeof delta.role === "string" ? delta.role : "assistant";
        out.event({ ...pick({ id, object, created, model }), ...chunk(index, { role }) });
        isBegun = true;
      }
      if (delta.reasoning_content) grow(index, "reasoning_content", delta.reasoning_content);
      else grow(index, "reasoning", delta.reasoning);
      grow(index, "content", textOf(delta.content));
      if (Array.isArray(delta.tool_calls)) for (const one of delta.tool_calls) readCall(index, one);
      const finish = choice.finish_reason || (choice.message && "stop");
      if (typeof finish === "string") out.event({ choices: [{ index, delta: {}, finish_reason: finish }] });
    },
    readText(data) {
      if (!data.startsWith("[DONE]")) return;
      sendUsage();
      out.raw("[DONE]");
    },
    end: sendUsage,
  };
}

/** Content as text: parts of it are joined. */
function textOf(content: unknown): unknown {
  if (!Array.isArray(content)) return content;
  return content.map((part) => (typeof part?.text === "string" ? part.text : "")).join("");
}

function slimUsage({ prompt_tokens, completion_tokens, total_tokens }: any): object {
  return pick({ prompt_tokens, completion_tokens, total_tokens });
}

/** A whole reply; undefined where `body` is none. */
export function slimOpenaiReply(body: any): object | undefined {
  if (!Array.isArray(body.choices)) return undefined;
  const { id, object, created, model } = body;
  return {
    ...pick({ id, object, created, model }),
    choices: body.choices.map((choice: any) => {
      const { role, reasoning_content, reasoning, content, tool_calls } = choice?.message ?? {};
      return {
        ...pick({ index: choice?.index }),
        message: {
          ...pick({ role, reasoning_content, reasoning: reasoning_content ? undefined : reasoning }),
          content: textOf(content) ?? null,
          ...(Array.isArray(tool_calls) && { tool_calls }),
        },
        finish_reason: choice?.finish_reason ?? null,
      };
    }),
    ...(body.usage && { usage: slimUsage(body.usage) }),
  };
}
