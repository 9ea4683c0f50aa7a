import { answer, type Answer } from "../../../host-sim/model/answer";
import { readChatRequest } from "../../../host-sim/model/protocol";

export interface SpecOfTool {
  name: string;
  description: string;
  parameters: object;
}

export interface MadeCall {
  name: string;
  arguments: Record<string, unknown>;
}

/** One tool for a request's `tools`, with "double" brought to "number" as the agent sends it. */
export function toolSpec(tool: SpecOfTool): object {
  const parameters: unknown = JSON.parse(JSON.stringify(tool.parameters).replaceAll('"double"', '"number"'));
  return { type: "function", function: { name: tool.name, description: tool.description, parameters } };
}

/** A conversation with the model's core: `say` runs a message to its answer, with `run` doing the calls. */
export function createConversation(tools: SpecOfTool[], run: (call: MadeCall) => string = () => "ok") {
  const messages: object[] = [];
  let ids = 0;
  const ask = (extra: object = {}): Answer =>
    answer(readChatRequest({ model: "any", messages, tools: tools.map(toolSpec), ...extra }));
  return {
    messages,
    ask,
    say(text: string): { calls: MadeCall[]; turns: number; text: string } {
      messages.push({ role: "user", content: text });
      const calls: MadeCall[] = [];
      for (let turns = 1; turns <= 12; turns += 1) {
        const reply = ask();
        if ("text" in reply) {
          messages.push({ role: "assistant", content: reply.text });
          return { calls, turns, text: reply.text };
        }
        const toolCalls = reply.toolCalls.map((call) => ({
          id: `call_${(ids += 1)}`,
          type: "function",
          function: { name: call.name, arguments: JSON.stringify(call.arguments) },
        }));
        messages.push({ role: "assistant", content: null, tool_calls: toolCalls });
        reply.toolCalls.forEach((call, i) => {
          calls.push(call);
          messages.push({ role: "tool", tool_call_id: toolCalls[i]!.id, content: run(call) });
        });
      }
      throw new Error("the model does not come to an end");
    },
  };
}
