import { expect } from "vitest";

/** The rules that servers hold the messages after the system prompt to, and the board's own for their number. */
export function checkMessages(messages: any[], { trim, asked }: { trim: number; asked?: any }): void {
  if (!messages.length) return;
  expect(messages[0].role).toBe("user");
  const users = messages.filter((message) => message.role === "user");
  if (asked) expect(users.at(-1)).toEqual(asked);
  let open: string[] = [];
  messages.forEach((message, i) => {
    if (message.role === "tool") {
      // In the order of the calls, each once.
      expect(message.tool_call_id).toBe(open.shift());
      expect(typeof message.content).toBe("string");
      return;
    }
    expect(open, `calls without a result before message ${i}`).toEqual([]);
    expect(["user", "assistant"]).toContain(message.role);
    open = (message.tool_calls ?? []).map((call: any) => {
      expect(call.id).not.toBe("");
      expect(call.function.name).toMatch(/^[a-zA-Z0-9_-]{1,63}$/);
      expect(JSON.parse(call.function.arguments)).toBeTypeOf("object");
      return call.id;
    });
    if (message.tool_calls) expect(open).not.toEqual([]);
  });
  // One turn of the newest exchange stays, whatever the number.
  if (messages.length > trim) {
    expect(users).toHaveLength(1);
    expect(messages[1].tool_calls.length).toBeGreaterThanOrEqual(messages.length - 2);
  }
}
