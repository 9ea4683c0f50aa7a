import { http, HttpResponse } from "msw";
import { afterEach, describe, expect, it } from "vitest";
import { networkBoard } from "./network-board";

let board: ReturnType<typeof networkBoard> | undefined;
afterEach(() => {
  board?.close();
  board = undefined;
});

describe("get_recent_user_messages and get_recent_group_messages over the board's own log", () => {
  const said = (user: string, group: string, prompt: string, answer: string): unknown =>
    board!.board.evaluate(`messageLog().append(${[user, group, prompt, answer].map((one) => JSON.stringify(one)).join()})`);

  it("give the newest messages with times, oldest first", async () => {
    board = networkBoard([], { messageLog: 8192 });
    expect(said("console", "", "one", "1")).toBe("");
    said("ann", "family", "hello all", "hello Ann");
    said("bob", "family", "hi\nthere", "");
    board.clock.advance(60_000);
    said("console", "", "two", "2");
    expect(await board.call("get_recent_user_messages", {})).toEqual({
      isError: false,
      content: "2026-11-30 10:20 console: one\n2026-11-30 10:20 agent: 1\n2026-11-30 10:21 console: two\n2026-11-30 10:21 agent: 2",
    });
    expect((await board.call("get_recent_user_messages", { user: "bob" })).content).toBe("2026-11-30 10:20 bob: hi there");
    expect((await board.call("get_recent_group_messages", { group: "family", limit: 2 })).content).toBe(
      "2026-11-30 10:20 agent: hello Ann\n2026-11-30 10:20 bob: hi there",
    );
    expect((await board.call("get_recent_user_messages", { user: "eve" })).content).toBe("There are no messages of eve.");
    expect((await board.call("get_recent_group_messages", { group: "work" })).content).toBe("There are no messages of the group work.");
    expect(await board.call("get_recent_group_messages", {})).toMatchObject({ isError: true, content: expect.stringContaining('"group" is missing') });
    expect(await board.call("get_recent_group_messages", { group: "" })).toMatchObject({ isError: true });
  });

  it("give the newest that fit into a result", async () => {
    board = networkBoard([], { messageLog: 16_384 });
    for (let i = 0; i < 12; i++) said("console", "", `prompt ${i} ${"p".repeat(200)}`, `answer ${i} ${"a".repeat(200)}`);
    const { content } = await board.call("get_recent_user_messages", { limit: 20 });
    expect(content.length).toBeLessThanOrEqual(1024);
    const lines = content.split("\n");
    expect(lines.length).toBeGreaterThan(2);
    expect(lines.at(-1)).toContain("agent: answer 11 ");
    expect(lines.at(-2)).toContain("console: prompt 11 ");
  });
});

describe("get_recent_user_messages and get_recent_group_messages with messageUrl", () => {
  const settings = { messageUrl: "http://gateway.test/messages?board=7", messageToken: "message-secret-1" };

  async function ask(name: string, args: object, answer: (url: URL) => Response): Promise<any> {
    const handler = http.get("http://gateway.test/messages", ({ request }) => {
      expect(request.headers.get("authorization")).toBe("Bearer message-secret-1");
      return answer(new URL(request.url));
    });
    board = networkBoard([handler], settings);
    const result = await board.call(name, args);
    expect(board.unhandled).toEqual([]);
    return result;
  }

  it("ask the service for a user or a group", async () => {
    const messages = [
      { time: 1796034000, user: "ann", text: "hällo\nall", id: 1 },
      { time: "2026-11-30T10:21:00Z", user: null, text: "from nobody" },
      { user: "bob" },
      { time: 5, user: "agent", text: "short clock" },
    ];
    const user = await ask("get_recent_user_messages", { user: "ann & ü" }, (url) => {
      expect(url.search).toBe("?board=7&user=ann%20%26%20%C3%BC&limit=6");
      return HttpResponse.json({ ok: true, messages, next: null });
    });
    expect(user).toEqual({
      isError: false,
      content: "2026-11-30 10:20 ann: hällo all\n2026-11-30T10:21:00Z somebody: from nobody\nagent: short clock",
    });
    board!.close();
    const group = await ask("get_recent_group_messages", { group: "family", limit: 3 }, (url) => {
      expect(url.search).toBe("?board=7&group=family&limit=3");
      return HttpResponse.json(messages.slice(0, 1));
    });
    expect(group.content).toBe("2026-11-30 10:20 ann: hällo all");
  });

  it("keep the newest where the service sends too many", async () => {
    const messages = Array.from({ length: 100 }, (_, i) => ({ time: i, user: "ann", text: `message ${i} ${"x".repeat(50)}` }));
    const { content } = await ask("get_recent_user_messages", {}, () => HttpResponse.json({ messages }));
    expect(content.length).toBeLessThanOrEqual(1024);
    expect(content.split("\n").at(-1)).toContain("message 99 ");
  });

  it.each<[string, () => Response, object]>([
    ["no messages", () => HttpResponse.json({ messages: [] }), { isError: false, content: "There are no messages of console." }],
    ["something else", () => HttpResponse.json({ error: "no" }), { isError: false, content: "There are no messages of console." }],
    ["403", () => HttpResponse.json({ error: "not yours" }, { status: 403 }),
      { isError: true, content: "The message service answered 403: not yours (check messageToken)" }],
    ["a page", () => new HttpResponse("<html></html>"),
      { isError: true, content: "The message service sent something that is no JSON: check messageUrl" }],
  ])("say what came of %s", async (_what, answer, expected) => {
    expect(await ask("get_recent_user_messages", {}, answer)).toEqual(expected);
  });
});
