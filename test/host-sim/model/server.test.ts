import { http } from "msw";
import { setupServer } from "msw/node";
import { afterEach, describe, expect, it } from "vitest";
import { createModelServer, modelResponse, type ModelServer } from "../../../host-sim/model/server";

const url = "http://model.test/v1/chat/completions";
const turnOn = {
  type: "function",
  function: {
    name: "switch_lamp",
    description: "Switch the lamp of a room on or off.",
    parameters: {
      type: "object",
      properties: { room: { type: "string", description: "Name of the room" }, on: { type: "boolean" } },
      required: ["room", "on"],
    },
  },
};
const user = (content: unknown) => ({ role: "user", content });
const called = (...ids: string[]) => ({
  role: "assistant",
  content: null,
  tool_calls: ids.map((id) => ({ id, type: "function", function: { name: "switch_lamp", arguments: "{}" } })),
});
const result = (id: string, content: unknown = "ok") => ({ role: "tool", tool_call_id: id, content });

function post(body: unknown): Promise<Response> {
  const text = typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body);
  return modelResponse(new Request(url, { method: "POST", body: text as string }));
}

interface Chunk {
  object: string;
  model: string;
  choices: { delta: Record<string, any>; finish_reason: string | null }[];
  usage?: Record<string, number>;
}

async function readStream(response: Response): Promise<Chunk[]> {
  const blocks = (await response.text()).split("\n\n").filter((block) => block !== "");
  expect(blocks.pop()).toBe("data: [DONE]");
  return blocks.map((block) => {
    expect(block.startsWith("data: ")).toBe(true);
    return JSON.parse(block.slice(6)) as Chunk;
  });
}

describe("a streamed answer", () => {
  it("sends text in several pieces that make the whole", async () => {
    const messages = [
      user("switch on the lamp in the Küche 🙂"),
      called("a"),
      result("a", "Die Lampe in der Küche 🙂 ist an"),
    ];
    const response = await post({ model: "m", messages, tools: [turnOn], stream: true });
    expect(response.headers.get("content-type")).toContain("text/event-stream");
    const chunks = await readStream(response);
    expect(chunks[0]!.choices[0]!.delta).toEqual({ role: "assistant", content: "" });
    const pieces = chunks.flatMap((chunk) => chunk.choices[0]!.delta.content ?? []).filter((piece) => piece !== "");
    expect(pieces.length).toBeGreaterThan(4);
    expect(pieces.join("")).toBe("Die Lampe in der Küche 🙂 ist an.");
    expect(chunks.at(-1)!.choices[0]!.finish_reason).toBe("stop");
    expect(chunks.slice(0, -1).every((chunk) => chunk.choices[0]!.finish_reason === null)).toBe(true);
    expect(new Set(chunks.map((chunk) => chunk.object))).toEqual(new Set(["chat.completion.chunk"]));
    expect(chunks[0]!.model).toBe("offline-stand-in");
  });

  it("sends a call's id and name first and its arguments in pieces", async () => {
    const body = { model: "m", messages: [user("switch on the lamp in the Küche")], tools: [turnOn], stream: true };
    const chunks = await readStream(await post(body));
    const deltas = chunks.flatMap((chunk) => (chunk.choices[0]!.delta.tool_calls ?? []) as Record<string, any>[]);
    expect(deltas[0]).toMatchObject({ index: 0, type: "function", function: { name: "switch_lamp", arguments: "" } });
    expect(deltas[0]!.id).toMatch(/^call_\w{24}$/);
    expect(deltas.length).toBeGreaterThan(3);
    const args = deltas.map((delta) => delta.function.arguments).join("");
    expect(JSON.parse(args)).toEqual({ room: "Küche", on: true });
    expect(chunks.at(-1)!.choices[0]!.finish_reason).toBe("tool_calls");
  });

  it("gives usage only where it is asked for", async () => {
    const body = { model: "m", messages: [user("hi")], stream: true };
    expect((await readStream(await post(body))).some((chunk) => chunk.usage !== undefined)).toBe(false);
    const chunks = await readStream(await post({ ...body, stream_options: { include_usage: true } }));
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: expect.any(Number) } });
  });
});

describe("an answer in one piece", () => {
  it("carries calls, usage and the finish reason", async () => {
    const response = await post({ model: "m", messages: [user("switch off the lamp in the hall")], tools: [turnOn] });
    const body = (await response.json()) as any;
    expect(body.object).toBe("chat.completion");
    expect(body.choices[0].finish_reason).toBe("tool_calls");
    expect(body.choices[0].message.content).toBeNull();
    expect(JSON.parse(body.choices[0].message.tool_calls[0].function.arguments)).toEqual({ room: "hall", on: false });
    expect(body.usage.total_tokens).toBe(body.usage.prompt_tokens + body.usage.completion_tokens);
  });

  it("is cut at max_tokens and says so", async () => {
    const body = (await (await post({ model: "m", messages: [user("hi")], max_tokens: 3 })).json()) as any;
    expect(body.choices[0].finish_reason).toBe("length");
    expect(body.choices[0].message.content).toHaveLength(12);
  });
});

describe("what is refused", () => {
  const tools = [turnOn];
  const cases: [string, unknown, RegExp][] = [
    ["no JSON", "{", /parse the JSON body/],
    ["no UTF-8", Uint8Array.of(0x22, 0xe4, 0x22), /not valid UTF-8/],
    ["an array", [], /must be a JSON object/],
    ["no model", { messages: [user("hi")] }, /model parameter/],
    ["no messages", { model: "m" }, /Missing required parameter: 'messages'/],
    ["empty messages", { model: "m", messages: [] }, /empty array/],
    ["an unknown role", { messages: [{ role: "robot", content: "" }] }, /messages\[0\]\.role/],
    ["content null", { messages: [user("hi"), { role: "assistant", content: null }] }, /messages\[1\]\.content/],
    ["content a number", { messages: [user("hi"), user(3)] }, /messages\[1\]\.content.*a number/],
    ["a bad part", { messages: [user([{ type: "tool" }])] }, /messages\[0\]\.content\[0\]\.type/],
    ["an orphan result", { messages: [user("hi"), result("a")] }, /messages\[1\] answers 'a'/],
    ["a result twice", { messages: [user("hi"), called("a"), result("a"), result("a")] }, /messages\[3\] answers 'a'/],
    [
      "a call without result",
      { messages: [user("hi"), called("a", "b"), result("a"), user("?")] },
      /messages\[1\].*: b$/,
    ],
    ["a call at the end", { messages: [user("hi"), called("a")] }, /messages\[1\].*: a$/],
    ["one call id twice", { messages: [user("hi"), called("a", "a"), result("a")] }, /Duplicate value.*messages\[1\]/],
    [
      "no calls in tool_calls",
      { messages: [{ role: "assistant", content: "", tool_calls: [] }] },
      /messages\[0\]\.tool_calls/,
    ],
    [
      "arguments that are no JSON",
      {
        messages: [
          user("hi"),
          {
            role: "assistant",
            tool_calls: [{ id: "a", type: "function", function: { name: "f", arguments: '{"a":' } }],
          },
          result("a"),
        ],
      },
      /messages\[1\]\.tool_calls\[0\]\.function\.arguments/,
    ],
    ["no tools in tools", { messages: [user("hi")], tools: [] }, /'tools': empty array/],
    [
      "a bad tool name",
      { messages: [user("hi")], tools: [{ type: "function", function: { name: "a b" } }] },
      /tools\[0\].*a b/,
    ],
    ["two tools of one name", { messages: [user("hi")], tools: [turnOn, turnOn] }, /tools\[1\].*duplicate/],
    [
      "a type that JSON Schema lacks",
      {
        messages: [user("hi")],
        tools: [
          {
            type: "function",
            function: { name: "f", parameters: { type: "object", properties: { a: { type: "double" } } } },
          },
        ],
      },
      /function 'f'.*properties\.a.*"double"/,
    ],
    ["tool_choice without tools", { messages: [user("hi")], tool_choice: "auto" }, /only allowed when 'tools'/],
    [
      "tool_choice of an unknown tool",
      { messages: [user("hi")], tools, tool_choice: { type: "function", function: { name: "x" } } },
      /"x"/,
    ],
    ["stream as text", { messages: [user("hi")], stream: "yes" }, /'stream': expected a boolean/],
    ["stream_options without stream", { messages: [user("hi")], stream_options: {} }, /stream_options/],
    ["max_tokens of zero", { messages: [user("hi")], max_tokens: 0 }, /max_tokens/],
  ];

  it.each(cases)("%s", async (name, body, message) => {
    const needsModel = typeof body === "object" && body !== null && "messages" in body && name !== "no model";
    const response = await post(needsModel ? { model: "m", ...body } : body);
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as any;
    expect(error.message).toMatch(message);
    expect(error.type).toBe("invalid_request_error");
  });

  it("takes a history as the agent keeps it", async () => {
    const messages = [
      { role: "system", content: "Be brief." },
      user("switch on the lamp in the hall"),
      called("a", "b"),
      result("b"),
      result("a"),
      { role: "assistant", content: "Done." },
      user([{ type: "text", text: "and now off" }]),
    ];
    expect((await post({ model: "m", messages, tools })).status).toBe(200);
  });

  it("unknown paths and methods get JSON too", async () => {
    const notFound = await modelResponse(new Request("http://model.test/v1/nothing"));
    expect(notFound.status).toBe(404);
    expect(await notFound.json()).toMatchObject({ error: { message: expect.stringContaining("/v1/nothing") } });
    expect((await modelResponse(new Request(url))).status).toBe(405);
  });
});

it("lists itself as a stand-in", async () => {
  const response = await modelResponse(new Request("http://model.test/v1/models"));
  expect(await response.json()).toMatchObject({ object: "list", data: [{ id: "offline-stand-in" }] });
});

it("serves as a mock handler", async () => {
  const mock = setupServer(http.all("http://model.test/v1/*", ({ request }) => modelResponse(request)));
  mock.listen({ onUnhandledRequest: "error" });
  try {
    const response = await fetch(url, { method: "POST", body: JSON.stringify({ model: "m", messages: [user("hi")] }) });
    expect(((await response.json()) as any).choices[0].message.content).toContain("stand-in");
  } finally {
    mock.close();
  }
});

describe("the server", () => {
  let server: ModelServer | undefined;
  afterEach(() => server?.close());

  it("answers over HTTP on a free port of this machine", async () => {
    const lines: string[] = [];
    server = await createModelServer({ log: (line) => lines.push(line) });
    expect(server.url).toBe(`http://127.0.0.1:${server.port}/v1`);
    const body = JSON.stringify({ model: "m", messages: [user("hi")], stream: true });
    const response = await fetch(`${server.url}/chat/completions`, { method: "POST", body });
    expect(response.headers.get("transfer-encoding")).toBe("chunked");
    expect((await readStream(response)).length).toBeGreaterThan(3);
    expect((await fetch(`${server.url}/models`)).status).toBe(200);
    expect(lines).toEqual(["POST /v1/chat/completions 200", "GET /v1/models 200"]);
  });

  it("rejects where the port is taken", async () => {
    server = await createModelServer();
    await expect(createModelServer({ port: server.port })).rejects.toThrow(/EADDRINUSE/);
  });
});
