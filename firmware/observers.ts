import type { AgentEvent, ToolCall } from "./types";

/** Bytes of a turn's text that `onAssistantToolRequest` gets. */
const CONTENT_BYTES = 1024;

/** Whoever looks on. Each is optional; `agent` is the name of the sub-agent that it is about, undefined for the person's own. */
export interface Observer {
  /** The model asks for tools, in the given turn of its run, having written `content` before. */
  onAssistantToolRequest?(iteration: number, content: string, toolCalls: ToolCall[], agent?: string): void;
  onToolStart?(name: string, callId: string, args: string, agent?: string): void;
  onToolFinish?(name: string, callId: string, result: { isError: boolean; content: string }, agent?: string): void;
  onFinalAssistant?(response: string, stopReason: string, agent?: string): void;
}

// What one observer does with a call is not the next one's.
function copyOf(call: ToolCall): ToolCall {
  return { id: call.id, name: call.name, arguments: call.arguments };
}

// A listener for `E.on("agent", …)` that calls an observer. One that throws is reported and changes nothing.
export function observe(observer: any): (event: AgentEvent) => void {
  let iteration = 0;
  let content = "";

  function tell(name: string, first: any, second: any, third: any, fourth?: any): void {
    // A getter may throw, too.
    try {
      if (typeof observer[name] === "function") observer[name](first, second, third, fourth);
    } catch (e) {
      print("[observer " + name + " failed: " + ((e && (e as Error).message) || e) + "]");
    }
  }

  return function (event) {
    const agent = event.agent;
    if (event.type === "iterationStart") {
      iteration = event.iteration;
      content = "";
    } else if (event.type === "textDelta") {
      if (content.length < CONTENT_BYTES) content += event.text;
    } else if (event.type === "toolRequest") tell("onAssistantToolRequest", iteration, content, event.calls.map(copyOf), agent);
    else if (event.type === "toolStart") tell("onToolStart", event.name, event.callId, event.arguments, agent);
    else if (event.type === "toolEnd")
      tell("onToolFinish", event.name, event.callId, { isError: event.isError, content: event.content }, agent);
    else if (event.type === "final") tell("onFinalAssistant", event.text || event.message || "", event.stopReason, agent);
  };
}
