import { afterEach, expect, it } from "vitest";
import { http, HttpResponse } from "msw";
import { networkBoard } from "./network-board";
let board: ReturnType<typeof networkBoard>;
afterEach(() => board.close());
it("works", async () => {
  board = networkBoard([http.post("http://search.test/search", async ({ request }) => {
    console.log(await request.text(), Object.fromEntries(request.headers));
    return HttpResponse.json({ query: "x", answer: "Forty-two é.", images: [], results: [{ title: "T", url: "http://a", content: "C\nD", score: 0.8, raw_content: null }], response_time: 1.2 });
  })], { searchUrl: "http://search.test/", searchKey: "tvly-secret-1" });
  console.log(board.tools().join());
  console.log(await board.call("web_search", { query: "meaning of life" }));
  console.log(board.output(), board.pending());
});
