import { LLMock } from "@copilotkit/aimock";
import { describe, expect } from "vitest";
import type { AgentEvent } from "../../firmware/types";
import type { TestBoard } from "../drivers/types";
import { scenario } from "./scenario";

// Whole conversations with a server that others wrote: its idea of a provider is not ours.

type Message = { role: string; content: string | null; tool_calls?: any[]; tool_call_id?: string };

interface Conversation {
  board: TestBoard;
  mock: LLMock;
  /** Messages of the n-th request, the system prompt left out; -1 is the last one. */
  messages(n: number): Message[];
  /** Statuses that the server answered with. */
  statuses(): number[];
}

const DIALECTS = ["openai", "anthropic"] as const;

const shown = (events: AgentEvent[]): string =>
  events.flatMap((event) => (event.type === "textDelta" ? [event.text] : [])).join("");
const ends = (events: AgentEvent[]): unknown[] =>
  events.flatMap((event) => (event.type === "toolEnd" ? [[event.name, event.isError]] : []));
const retries = (events: AgentEvent[]): number => events.filter((event) => event.type === "retry").length;
const done = (text: string): unknown => ({ type: "final", stopReason: "done", text });
const failed = (message: RegExp): unknown =>
  expect.objectContaining({ type: "final", isError: true, message: expect.stringMatching(message) });

function conversation(
  name: string,
  dialect: (typeof DIALECTS)[number],
  prepare: (mock: LLMock) => void,
  body: (context: Conversation) => Promise<void>,
): void {
  const settings = { provider: dialect, idleTimeoutMs: 20_000 };
  scenario(`${dialect}: ${name}`, { settings, byteStrings: true, timeoutMs: 120_000 }, async ({ board }) => {
    const mock = new LLMock({ port: 0, host: "127.0.0.1", chunkSize: 7, journalMaxEntries: 0 });
    prepare(mock);
    await mock.start();
    try {
      expect(await board.runLine(`set_config({baseUrl:"${mock.url}/v1"})`)).toContain("saved");
      await body({
        board,
        mock,
        messages(n) {
          const { messages } = mock.getRequests().at(n)!.body as unknown as { messages: Message[] };
          return messages.filter(({ role }) => role !== "system");
        },
        statuses: () => mock.getRequests().map(({ response }) => response.status),
      });
    } finally {
      await mock.stop();
    }
  });
}

for (const dialect of DIALECTS) {
  describe(`a server of aimock's, ${dialect}`, () => {
    const greeting = "Grüße aus der Küche: 21 °C, 日本語 🙂.\nA second line.";
    conversation(
      "text in small pieces, and the next prompt has it before it",
      dialect,
      (mock) => mock.onMessage("who are you", { content: greeting }).onMessage("again", { content: "The same." }),
      async ({ board, messages }) => {
        const events = await board.ask("who are you?");
        expect(shown(events)).toBe(greeting);
        expect(events.at(-1)).toEqual(done(greeting));
        await board.expectOutput("A second line.");
        expect((await board.ask("again please")).at(-1)).toEqual(done("The same."));
        expect(messages(-1)).toMatchObject([
          { role: "user", content: "who are you?" },
          { role: "assistant", content: greeting },
          { role: "user", content: "again please" },
        ]);
      },
    );

    conversation(
      "two tools in one turn, one more in the next, then the answer",
      dialect,
      (mock) =>
        mock
          .on(
            { userMessage: "LED", turnIndex: 0 },
            {
              content: "Let me see.",
              toolCalls: [
                { name: "gpio_write", arguments: '{"pin":2,"value":1}' },
                { name: "add", arguments: '{"a":19,"b":23}' },
              ],
            },
          )
          .on({ userMessage: "LED", turnIndex: 1 }, { toolCalls: [{ name: "mul", arguments: '{"a":42,"b":2}' }] })
          .on({ userMessage: "LED", turnIndex: 2 }, { content: "The LED is on, 42 and 84." }),
      async ({ board, messages }) => {
        const events = await board.ask("turn on the LED and calculate");
        expect(ends(events)).toEqual([["gpio_write", false], ["add", false], ["mul", false]]);
        expect(shown(events)).toBe("Let me see.The LED is on, 42 and 84.");
        expect(events.at(-1)).toEqual(done("The LED is on, 42 and 84."));
        const last = messages(-1);
        expect(last.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "tool", "assistant", "tool"]);
        expect(last[1]!.tool_calls!.map((call) => [call.function.name, JSON.parse(call.function.arguments)])).toEqual([
          ["gpio_write", { pin: 2, value: 1 }],
          ["add", { a: 19, b: 23 }],
        ]);
        const ids = last.flatMap(({ tool_calls = [] }) => tool_calls.map(({ id }) => id));
        expect(last.flatMap(({ tool_call_id }) => tool_call_id ?? [])).toEqual(ids);
        expect(last[3]!.content).toContain("42");
        expect(last[5]!.content).toContain("84");
      },
    );

    conversation(
      "a call before the text, and thinking before both",
      dialect,
      (mock) =>
        mock
          .on(
            { userMessage: "sum", hasToolResult: false },
            {
              reasoning: "secret thoughts about sums",
              blocks: [
                { type: "toolCall", name: "add", arguments: '{"a":1,"b":2}' },
                { type: "text", text: "Adding." },
              ],
            } as never,
          )
          .on({ userMessage: "sum", hasToolResult: true }, { content: "It is 3.", reasoning: "more secret thoughts" }),
      async ({ board, messages }) => {
        const events = await board.ask("what is the sum?");
        expect(ends(events)).toEqual([["add", false]]);
        expect(shown(events)).toBe("Adding.It is 3.");
        expect(events.at(-1)).toEqual(done("It is 3."));
        const thoughts = events.flatMap((event) => (event.type === "reasoningDelta" ? [event.text] : [])).join("");
        expect(thoughts).toContain("more secret thoughts");
        expect(board.output()).not.toContain("secret");
        expect(JSON.stringify(messages(-1))).not.toContain("secret");
      },
    );

    conversation(
      "calls that are wrong are answered, not run",
      dialect,
      (mock) =>
        mock
          .on(
            { userMessage: "odd", hasToolResult: false },
            {
              toolCalls: [
                { name: "no_such_tool", arguments: "{}" },
                { name: "add", arguments: '{"a":1}' },
                { name: "get_agent_public_info", arguments: "{}" },
              ],
            },
          )
          .on({ userMessage: "odd", hasToolResult: true }, { content: "Sorry." }),
      async ({ board, messages }) => {
        const events = await board.ask("do something odd");
        expect(ends(events)).toEqual([["no_such_tool", true], ["add", true], ["get_agent_public_info", false]]);
        expect(events.at(-1)).toEqual(done("Sorry."));
        expect(messages(-1).filter(({ role }) => role === "tool")).toHaveLength(3);
      },
    );

    conversation(
      "errors: what may pass is tried again, what will not is told at once",
      dialect,
      (mock) => mock.onMessage("hello", { content: "Here I am." }),
      async ({ board, mock, statuses, messages }) => {
        for (const status of [429, 500, 503]) {
          mock.nextRequestError(status, { message: "come back later", type: "server_error" });
          const events = await board.ask("hello");
          expect(retries(events)).toBe(1);
          expect(events.at(-1)).toEqual(done("Here I am."));
          expect(statuses().slice(-2)).toEqual([status, 200]);
        }
        for (const [status, hint] of [
          [401, /401.*apiKey/],
          [404, /404.*baseUrl/],
          [400, /400.*the message of it/],
        ] as const) {
          mock.nextRequestError(status, { message: "the message of it" });
          const events = await board.ask("hello");
          expect(retries(events)).toBe(0);
          expect(events.at(-1)).toEqual(failed(hint));
        }
        expect((await board.ask("hello once more")).at(-1)).toEqual(done("Here I am."));
        // The three prompts that failed became a part of the one that did not.
        expect(messages(-1).at(-1)!.content).toBe("hello\n\nhello\n\nhello\n\nhello once more");
      },
    );

    conversation(
      "a stream that is cut: what was shown is not asked for again, what was not is",
      dialect,
      (mock) => {
        // The prompt that failed becomes a part of the next: the first that matches counts.
        mock.onMessage("well", { content: "Well." });
        const answer = { content: "This answer is long enough for many pieces." };
        // Time between the chunks: what goes out together with a reset is lost.
        mock.on({ userMessage: "cut" }, answer, { truncateAfterChunks: 6, latency: 10 });
        mock.on(
          { userMessage: "call", hasToolResult: false, sequenceIndex: 0 },
          { toolCalls: [{ name: "gpio_write", arguments: '{"pin":2,"value":1}' }] },
          { truncateAfterChunks: 3 },
        );
        mock.on(
          { userMessage: "call", hasToolResult: false },
          { toolCalls: [{ name: "gpio_write", arguments: '{"pin":2,"value":1}' }] },
        );
        mock.on({ userMessage: "call", hasToolResult: true }, { content: "Called." });
      },
      async ({ board, statuses }) => {
        const events = await board.ask("cut this");
        expect(retries(events)).toBe(0);
        const part = shown(events);
        expect(part).toMatch(/^This /);
        expect(part).not.toContain("pieces.");
        expect(events.at(-1)).toEqual(failed(/cut off|closed/));
        expect((await board.ask("well?")).at(-1)).toEqual(done("Well."));
        await board.runLine("clear_history");
        const called = await board.ask("call this");
        expect(retries(called)).toBe(1);
        expect(ends(called)).toEqual([["gpio_write", false]]);
        expect(called.at(-1)).toEqual(done("Called."));
        expect(statuses()).toHaveLength(5);
      },
    );

    conversation(
      "chaos: dropped, malformed, disconnected, limited; then all is well",
      dialect,
      (mock) => mock.onMessage("hello", { content: "Here I am." }),
      async ({ board, mock }) => {
        await board.runLine("set_config({retries:1})");
        for (const chaos of [{ dropRate: 1 }, { malformedRate: 1 }, { disconnectRate: 1 }, { rateLimitRate: 1 }]) {
          mock.setChaos(chaos);
          expect((await board.ask("hello")).at(-1)).toEqual(failed(/\w{4}/));
          mock.clearChaos();
          expect((await board.ask("hello")).at(-1)).toEqual(done("Here I am."));
        }
      },
    );

    conversation(
      "a server that does not know what to say",
      dialect,
      () => undefined,
      async ({ board }) => {
        expect((await board.ask("hello")).at(-1)).toEqual(failed(/404.*baseUrl/));
      },
    );

    conversation(
      "twenty prompts with a tool in each: the history stays within its bounds",
      dialect,
      (mock) =>
        mock
          .on({ predicate: (request) => request.messages.at(-1)!.role === "tool" }, (request: any) => ({
            content: `It is ${/\d+/.exec(String(request.messages.at(-1).content))![0]}.`,
          }))
          .on({ userMessage: /add/ }, (request: any) => {
            const [a, b] = String(request.messages.at(-1).content).match(/\d+/g)!;
            return { toolCalls: [{ name: "add", arguments: JSON.stringify({ a: Number(a), b: Number(b) }) }] };
          }),
      async ({ board, messages }) => {
        for (let i = 1; i <= 20; i++) {
          expect((await board.ask(`add ${i} and ${i * 2}`)).at(-1)).toEqual(done(`It is ${i * 3}.`));
          expect(messages(-1)[0]!.role).toBe("user");
        }
        expect(messages(-1).length).toBeLessThanOrEqual(24);
        expect(messages(-1).filter(({ role }) => role === "user").length).toBeGreaterThan(3);
      },
    );
  });
}

describe("a file server of aimock's", () => {
  const picture = Buffer.from(Array.from({ length: 4096 }, (_, i) => (i < 3 ? [0xff, 0xd8, 0xff][i]! : (i * 31) & 255)));
  const options = { settings: { multimodal: true }, files: { "cat.jpg": picture }, timeoutMs: 120_000 };
  scenario("keeps what the board uploads, as it is, and the model hears its id", options, async ({ board }) => {
    const mock = new LLMock({ port: 0, host: "127.0.0.1", journalMaxEntries: 0 });
    mock.onMessage("what is this", { content: "A cat." });
    await mock.start();
    try {
      await board.runLine(`set_config({baseUrl:"${mock.url}/v1",uploadUrl:"${mock.url}/v1/files",fileToken:"aimock-token-1"})`);
      board.type('ask({text:"what is this?",files:["cat.jpg"]})\n');
      expect(await board.expectEvent((event) => event.type === "final")).toEqual(done("A cat."));
      const authorization = { authorization: "Bearer aimock-token-1" };
      const { data } = (await (await fetch(`${mock.url}/v1/files`, { headers: authorization })).json()) as { data: any[] };
      expect(data).toMatchObject([{ object: "file", filename: "cat.jpg", bytes: picture.length, purpose: "user_data" }]);
      const content = await fetch(`${mock.url}/v1/files/${data[0].id}/content`, { headers: authorization });
      expect(Buffer.from(await content.arrayBuffer()).equals(picture)).toBe(true);
      const asked = mock.getRequests().filter((request) => request.path.endsWith("/chat/completions"));
      const { messages } = asked.at(-1)!.body as unknown as { messages: any[] };
      expect(messages.at(-1).content.at(-1)).toEqual({ type: "file", file: { file_id: data[0].id } });
    } finally {
      await mock.stop();
    }
  });
});
