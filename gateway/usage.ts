/** How many tokens a request came to: as the provider says, or an estimate where it says nothing. */
import type { Dialect } from "./slim/slim";

/** Bytes of text that a token is worth, roughly, in English prose and JSON. */
const BYTES_PER_TOKEN = 4;

/** No request comes to more; a larger number is no count of tokens. */
export const MOST_TOKENS = 1e8;

export interface Meter {
  /** Takes one event of a stream, or a whole reply, as JSON. */
  read(body: any): void;
  /** What the request came to so far. */
  total(): { tokens: number; isEstimated: boolean };
}

/** Tokens of a text of that many bytes. */
export const estimateTokens = (bytes: number): number => Math.ceil(bytes / BYTES_PER_TOKEN);

function count(value: unknown): number | undefined {
  return typeof value === "number" && value >= 0 && value <= MOST_TOKENS ? Math.round(value) : undefined;
}

function sum(values: unknown[]): number | undefined {
  const counts = values.map(count).filter((value) => value !== undefined);
  return counts.length > 0 ? counts.reduce((a, b) => a + b, 0) : undefined;
}

/** @param requestBytes of the request's body, to estimate the prompt by */
export function createMeter(dialect: Dialect, requestBytes: number): Meter {
  let prompt: number | undefined;
  let completion: number | undefined;
  let replyBytes = 0;

  function addText(...texts: unknown[]): void {
    for (const text of texts) if (typeof text === "string") replyBytes += Buffer.byteLength(text);
  }

  function readOpenai(body: any): void {
    // Groq has it in a field of its own in streams.
    const usage = body.usage ?? body.x_groq?.usage;
    prompt = count(usage?.prompt_tokens) ?? prompt;
    completion = count(usage?.completion_tokens) ?? completion;
    for (const choice of Array.isArray(body.choices) ? body.choices : []) {
      const delta = choice?.delta ?? choice?.message;
      addText(delta?.content, delta?.reasoning_content ?? delta?.reasoning);
      const calls = Array.isArray(delta?.tool_calls) ? delta.tool_calls : [];
      for (const call of calls) addText(call?.function?.name, call?.function?.arguments);
    }
  }

  function readAnthropic(body: any): void {
    const usage = body.usage ?? body.message?.usage;
    const { input_tokens, cache_creation_input_tokens, cache_read_input_tokens } = usage ?? {};
    prompt = sum([input_tokens, cache_creation_input_tokens, cache_read_input_tokens]) ?? prompt;
    // What a message starts with is no count of what it will have.
    if (body.type !== "message_start") completion = count(usage?.output_tokens) ?? completion;
    const blocks = Array.isArray(body.content) ? body.content : [body.delta ?? body.content_block];
    for (const block of blocks) {
      addText(block?.text, block?.thinking, block?.partial_json, block?.name);
      if (block?.type === "tool_use" && block.input) addText(JSON.stringify(block.input));
    }
  }

  return {
    read(body) {
      if (typeof body !== "object" || body === null) return;
      if (dialect === "openai") readOpenai(body);
      else readAnthropic(body);
    },
    total: () => ({
      tokens: (prompt ?? estimateTokens(requestBytes)) + (completion ?? estimateTokens(replyBytes)),
      isEstimated: prompt === undefined || completion === undefined,
    }),
  };
}
