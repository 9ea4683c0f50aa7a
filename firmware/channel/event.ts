import { cutUtf8 } from "../text";
import type { AgentEvent } from "../types";
import { type Channel } from "./serial";

/** Bytes of a result in the one line that shows a tool call. */
const TOOL_LINE_BYTES = 100;

// Shows what is no text of the main agent's answer.
export function showOther(channel: Channel, event: AgentEvent): void {
  let text = "";
  const agent = event.agent ? event.agent + "/" : "";
  // Calls come one after the other: a question that is still open at the end of one, or of a run, is nobody's any more.
  if ((event.type === "final" || event.type === "toolEnd") && channel.answer) channel.answer("");
  // What a sub-agent writes goes to the agent that asked it.
  if (agent && (event.type === "textDelta" || event.type === "final")) return;
  const thinks = event.type === "reasoningDelta";
  if (thinks !== !!channel.thought) channel.write(thinks ? "[thinking]\n" : event.type === "textDelta" ? "[answer]\n" : "", true);
  channel.thought = thinks;
  if (event.type === "textDelta" || event.type === "reasoningDelta") return channel.write(event.text, false);
  if (event.type === "toolEnd") {
    if (event.ends) return;
    const first = cutUtf8(event.content.split("\n")[0], TOOL_LINE_BYTES);
    text = agent + event.name + (event.isError ? " failed: " : ": ") + first + (first.length < event.content.length ? " ..." : "");
  } else if (event.type === "retry") text = agent + "trying again in " + (event.waitMs / 1000).toFixed(1) + " s: " + event.reason;
  else if (event.type === "error") text = agent + "warning: " + event.message;
  else if (event.type === "plan") {
    const marks: Record<string, string> = { todo: "[ ] ", doing: "[>] ", done: "[x] ", failed: "[!] " };
    // All of it at its start, then a line for what has changed.
    const whole = event.steps[0].state === "doing";
    for (const step of event.steps) {
      const one = marks[step.state] + step.task + " (" + step.agent + ")";
      if (whole) text += (text && "\n") + one;
      else if (step.state !== "todo") text = one;
    }
    return channel.write(text + (channel.close ? "\n" : ""), true);
  } else if (event.type === "upload") text = agent + event.path + ": " + event.sent + " of " + event.total + " bytes sent";
  else if (event.type === "file") text = event.path + ": " + event.url;
  else if (event.type !== "final") return;
  else if (event.message) text = (event.stopReason === "aborted" ? "stopped: " : "error: ") + event.message;
  else if (event.stopReason === "maxIterations") text = "the last answer without tools, see maxToolIterations";
  if (text) text = "[" + text + "]" + (channel.close ? "\n" : "");
  channel.write(text, true);
  if (event.type !== "final" || !channel.close) return;
  channel.device.write((channel.midLine ? "\r\n" : "") + "you> " + channel.line);
  channel.midLine = false;
}
