import type { TestBoard } from "../test/drivers/types";
import { raw, text, toolCall, type Turn } from "../test/fixtures/scripted-model";
import { recordedStreams, type RecordedStream, resplit } from "../test/fixtures/shared";

/** Bytes that a board reads from its socket at once. */
export const PIECE_BYTES = 536;

export type Dialect = "openai" | "anthropic";

/** The conversation with two tools that every figure of memory and every contender on the host is measured with. */
export const PROMPT = "turn on the LED and add 19 and 23";
export const ANSWER = "The LED is on and the sum is 42.";

/** What the model does in it. The ids never change: the history's bytes then repeat exactly, and so must the memory. */
export const conversation: Turn[] = [
  [toolCall("gpio_write", { pin: 2, value: 1 }, { id: "call_a" }), toolCall("add", { a: 19, b: 23 }, { id: "call_b" })],
  text("The LED is on ", "and the sum is 42."),
];

/** What is asked: a text, also with files that the model is to see. */
export type Prompt = string | { text: string; files: string[] };

/** Types a prompt and waits until its run is over; returns the stop reason. Nothing listens to the events meanwhile. */
export async function ask(board: TestBoard, prompt: Prompt, giveUpMs = 60_000): Promise<string> {
  board.type(`ask(${JSON.stringify(prompt)}).then(function(r){print("[end "+r.stopReason+"]")})\n`);
  const printed = await board.expectOutput(/\[end \w+\]|OUT OF MEMORY|Execution Interrupted/, { giveUpMs });
  return /\[end (\w+)\]$/.exec(printed)?.[1] ?? "interrupted";
}

/** The events of a stream as the provider frames them, one piece each. */
export function framed(dialect: string, payloads: string[]): Uint8Array[] {
  const events = payloads.map((payload) =>
    dialect === "anthropic" ? `event: ${JSON.parse(payload).type}\ndata: ${payload}\n\n` : `data: ${payload}\n\n`,
  );
  if (dialect === "openai") events.push("data: [DONE]\n\n");
  return events.map((event) => Buffer.from(event));
}

export interface Stream extends RecordedStream {
  name: string;
  dialect: Dialect;
  payloads: string[];
  bytes: Buffer;
  /** As the board's socket gives it. */
  turn: Turn;
  /** The same reply in as few events as there can be: what a run costs apart from its stream. */
  short: Turn;
  /** Deltas of text and reasoning: what a person would call tokens. */
  tokens: number;
}

function shortOpenai({ text, toolCalls }: RecordedStream): string[] {
  const calls = toolCalls.map((call, index) => ({
    index,
    id: call.id,
    type: "function",
    function: { name: call.name, arguments: call.arguments },
  }));
  const delta = calls.length ? { tool_calls: calls } : { content: text ? "fine" : "" };
  return [JSON.stringify({ choices: [{ index: 0, delta, finish_reason: calls.length ? "tool_calls" : "stop" }] })];
}

function shortAnthropic({ toolCalls }: RecordedStream): string[] {
  const blocks = toolCalls.length
    ? toolCalls.map(({ id, name, arguments: input }) => ({ type: "tool_use", id, name, input: JSON.parse(input) }))
    : [{ type: "text", text: "fine" }];
  const events = [
    ...blocks.map((content_block, index) => ({ type: "content_block_start", index, content_block })),
    { type: "message_delta", delta: { stop_reason: toolCalls.length ? "tool_use" : "end_turn" } },
    { type: "message_stop" },
  ];
  return events.map((event) => JSON.stringify(event));
}

function tokensOf(dialect: Dialect, payloads: string[]): number {
  const texts = payloads.map((payload) => {
    const event = JSON.parse(payload);
    const delta = dialect === "openai" ? event.choices?.[0]?.delta : event.delta;
    return delta?.content || delta?.reasoning_content || delta?.reasoning || delta?.text || delta?.thinking;
  });
  return texts.filter(Boolean).length;
}

/** The recorded streams kept beside the repository; none where they are not there. */
export function streams(): Stream[] {
  return Object.entries(recordedStreams()).map(([file, stream]) => {
    const dialect = stream.dialect as Dialect;
    const bytes = Buffer.concat(framed(dialect, stream.payloads));
    return {
      ...stream,
      name: file.replace(/\.chunks\.txt$/, ""),
      dialect,
      bytes,
      turn: raw(resplit([bytes], PIECE_BYTES)),
      short: raw(framed(dialect, dialect === "openai" ? shortOpenai(stream) : shortAnthropic(stream))),
      tokens: tokensOf(dialect, stream.payloads),
    };
  });
}

/** The short answer to whatever follows a tool's result. */
export const fine: Record<Dialect, Turn> = {
  openai: raw(framed("openai", ['{"choices":[{"index":0,"delta":{"content":"fine"},"finish_reason":"stop"}]}'])),
  anthropic: raw(
    framed("anthropic", [
      '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"fine"}}',
      '{"type":"message_delta","delta":{"stop_reason":"end_turn"}}',
      '{"type":"message_stop"}',
    ]),
  ),
};
