import net from "node:net";
import fc from "fast-check";
import { http as mock, HttpResponse } from "msw";
import { setupServer } from "msw/node";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { createManualClock } from "../../host-sim/clock";
import { createHttp } from "../../host-sim/http";
import type { HttpOptions, HttpRequest, HttpRequestOptions, HttpResponse as Res } from "../../host-sim/http";

type Seen = unknown[];

function setUp(options: Partial<HttpOptions> = {}) {
  const clock = createManualClock();
  const lines: string[] = [];
  let inEvent = false;
  const http = createHttp({
    clock,
    print: (line) => lines.push(line),
    deliver: (fn) =>
      void setImmediate(() => {
        inEvent = true;
        fn();
        inEvent = false;
      }),
    ...options,
  });

  /** Starts a request that notes everything that happens to it. */
  function start(wanted: HttpRequestOptions | string, onResponse?: (res: Res, req: HttpRequest) => void) {
    const seen: Seen = [];
    const note = (name: string) => (value?: unknown) => {
      expect(inEvent).toBe(true);
      seen.push(value === undefined ? name : [name, value]);
      if (name === "close" || name === "error") wake();
    };
    let wake = () => {};
    let res: Res | undefined;
    const over = new Promise<void>((resolve) => {
      wake = resolve;
    });
    const req = http.api.request(wanted, (response) => {
      res = response;
      seen.push("response");
      for (const event of ["data", "end", "close"]) response.on(event, note(event));
      onResponse?.(response, req);
    }) as HttpRequest;
    for (const event of ["error", "drain"]) req.on(event, note(event));
    /** Waits for `close` or `error`, and for what follows it. */
    const finished = async () => {
      await over;
      for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve));
      return seen;
    };
    const pieces = () => seen.flatMap((item) => (Array.isArray(item) && item[0] === "data" ? [String(item[1])] : []));
    return { req, seen, finished, pieces, body: () => pieces().join(""), res: () => res as Res };
  }
  return { ...http, clock, lines, start };
}

const HOST = { host: "model.test", method: "GET", path: "/" };

describe("against a mocked server", () => {
  const server = setupServer();
  beforeAll(() => server.listen({ onUnhandledRequest: "error" }));
  afterEach(() => server.resetHandlers());
  afterAll(() => server.close());

  it("answers with a text status, the server's header case and ordered events", async () => {
    server.use(
      mock.get("http://model.test/", () => {
        return new HttpResponse("hello", { headers: { "Content-Length": "5", "X-Case": "A" } });
      }),
    );
    const { start } = setUp();
    const { req, finished, res } = start(HOST);
    req.end();
    expect(await finished()).toEqual(["response", ["data", "hello"], "end", ["close", false]]);
    expect(res().statusCode).toBe("200");
    expect(res().statusMessage).toBe("OK");
    expect(res().httpVersion).toBe("1.1");
    expect(Object.keys(res().headers).map((name) => name.toLowerCase())).toEqual(["content-length", "x-case"]);
    expect(Object.keys(res())).toEqual(["statusCode", "statusMessage", "httpVersion", "headers"]);
  });

  it("sends what a board sends: its headers, bytes, no length of its own", async () => {
    let request: { headers: Record<string, string>; body: Buffer } | undefined;
    server.use(
      mock.post("http://model.test:8080/v1/chat", async ({ request: got }) => {
        request = { headers: Object.fromEntries(got.headers), body: Buffer.from(await got.arrayBuffer()) };
        return new HttpResponse(null, { status: 204 });
      }),
    );
    const { start } = setUp();
    const { req, finished } = start({
      host: "model.test",
      port: 8080,
      path: "/v1/chat",
      method: "POST",
      headers: { "Content-Length": 8, Authorization: "Bearer k" },
    });
    expect(req.write("\xc3\xa9\xff")).toBe(false);
    expect(req.write(new Uint8Array([0, 255]))).toBe(false);
    req.end();
    await finished();
    expect(request?.headers).toMatchObject({
      authorization: "Bearer k",
      connection: "close",
      "content-length": "8",
      host: "model.test:8080",
    });
    expect(request?.headers["user-agent"]).toMatch(/^Espruino /);
    expect(request?.headers["transfer-encoding"]).toBeUndefined();
    expect(request?.body.toString("latin1")).toBe("\xc3\xa9\xff0,255");
  });

  it("says drain whenever all is sent and end was not called", async () => {
    let body = "";
    server.use(
      mock.post("http://model.test/", async ({ request }) => {
        body = await request.text();
        return new HttpResponse("ok", { headers: { "Content-Length": "2" } });
      }),
    );
    const { start } = setUp();
    const { req, seen, finished } = start({ ...HOST, method: "POST", headers: { "Content-Length": 1200 } });
    let sent = 0;
    req.on("drain", () => {
      sent++;
      if (sent < 3) req.write(String(sent).repeat(400));
      else req.end();
    });
    req.write("0".repeat(400));
    await finished();
    expect(seen.slice(0, 4)).toEqual(["drain", "drain", "drain", "response"]);
    expect(body).toBe("0".repeat(400) + "1".repeat(400) + "2".repeat(400));
  });

  it("takes 12 kB at once; more than that runs out of memory", async () => {
    server.use(mock.post("http://model.test/", () => new HttpResponse(null, { status: 204 })));
    let calls = 0;
    const { start } = setUp({ outOfMemory: () => void calls++ });
    const fits = start({ ...HOST, method: "POST", headers: { "Content-Length": 12288 } });
    fits.req.write("x".repeat(12288));
    fits.req.end();
    expect(await fits.finished()).toContainEqual("end");
    const { req } = start({ ...HOST, method: "POST" });
    expect(() => req.write("x".repeat(14336))).toThrow("OUT OF MEMORY");
    expect(calls).toBe(1);
  });

  it("delivers any body in any chunking byte for byte, in pieces of at most 536", async () => {
    const { start } = setUp();
    const chunk = fc.uint8Array({ minLength: 1, maxLength: 1500 });
    await fc.assert(
      fc.asyncProperty(fc.array(chunk, { minLength: 1, maxLength: 6 }), fc.boolean(), async (chunks, isChunked) => {
        const whole = Buffer.concat(chunks);
        server.use(
          mock.get("http://model.test/", () => {
            const stream = new ReadableStream({
              start(controller) {
                for (const piece of chunks) controller.enqueue(piece);
                controller.close();
              },
            });
            const headers: Record<string, string> = isChunked
              ? { "Transfer-Encoding": "chunked" }
              : { "Content-Length": String(whole.length) };
            return new HttpResponse(stream, { headers });
          }),
        );
        const { req, finished, pieces, body } = start(HOST);
        req.end();
        const seen = await finished();
        expect(Buffer.from(body(), "latin1").equals(whole)).toBe(true);
        expect(Math.max(...pieces().map((piece) => piece.length))).toBeLessThanOrEqual(536);
        expect(seen.slice(-2)).toEqual(["end", ["close", false]]);
      }),
      { numRuns: 40 },
    );
  });

  it("a body that breaks off looks like an end; a server that is not reached is no response", async () => {
    const { start } = setUp();
    server.use(
      mock.get("http://model.test/", () => {
        let sent = false;
        const stream = new ReadableStream({
          pull(controller) {
            if (sent) return controller.error(new Error("cut"));
            sent = true;
            controller.enqueue(Buffer.from("data: half"));
          },
        });
        return new HttpResponse(stream, { headers: { "Transfer-Encoding": "chunked" } });
      }),
    );
    const cut = start(HOST);
    cut.req.end();
    expect(await cut.finished()).toEqual(["response", ["data", "data: half"], "end", ["close", false]]);
    server.use(mock.get("http://model.test/", () => HttpResponse.error()));
    const none = start(HOST);
    none.req.end();
    expect(await none.finished()).toEqual([["error", { code: -15, message: "no response" }]]);
  });

  it("https: a complete answer is followed by an error", async () => {
    server.use(mock.get("https://model.test/", () => new HttpResponse("hi", { headers: { "Content-Length": "2" } })));
    const { start } = setUp();
    const { req, finished } = start("https://model.test/");
    req.end();
    await finished();
    expect(await finished()).toEqual([
      "response",
      ["data", "hi"],
      "end",
      ["error", { code: -30848, message: "unknown error" }],
      ["close", true],
    ]);
  });

  it("throws at once while the link is down, as a board does", () => {
    let calls = 0;
    const { start, lines } = setUp({ online: () => (calls++, false) });
    expect(() => start(HOST).req.end()).toThrow(
      expect.objectContaining({ type: "InternalError", message: "Unable to locate host" }),
    );
    expect(lines).toEqual([]);
    const { req } = start({ ...HOST, host: "192.168.4.7" });
    expect(() => req.write("x")).toThrow("Unable to create socket");
    expect(lines).toEqual(["ERROR: Connect failed (err 118)"]);
    expect(() => req.write("x")).toThrow("This socket is closed");
    expect(calls).toBe(2);
  });

  it("holds everything back while the link is down in between", async () => {
    server.use(mock.get("http://model.test/", () => new HttpResponse("hello", { headers: { "Content-Length": "5" } })));
    let online = true;
    const { start, clock } = setUp({ online: () => online });
    const { req, seen, finished } = start(HOST, () => {
      online = false;
    });
    req.end();
    while (clock.pending() === 0) await new Promise((resolve) => setImmediate(resolve));
    clock.advance(5000);
    expect(seen).toEqual(["response"]);
    online = true;
    clock.advance(100);
    expect(await finished()).toEqual(["response", ["data", "hello"], "end", ["close", false]]);
  });

  it("refuses calls after end, odd arguments and what is not modelled", async () => {
    server.use(mock.get("http://model.test/", () => new HttpResponse(null, { status: 204 })));
    const { start, api, lines } = setUp();
    const { req, finished } = start(HOST);
    req.end("x");
    expect(() => req.write("y")).toThrow("This socket is closed");
    expect(() => req.end()).toThrow("This socket is closed");
    await finished();
    expect(api.request(5 as any)).toBeUndefined();
    expect(api.request({}, 5 as any)).toBeUndefined();
    expect(lines).toEqual([
      "ERROR: Expecting Options to be an Object but it was Number",
      "ERROR: Expecting Callback Function but got Number",
    ]);
    expect(() => start({ ...HOST, path: "/a b" }).req.end()).toThrow("http.request: Request path contains");
  });

  it("get sends GET by itself", async () => {
    server.use(mock.get("http://model.test/x", () => new HttpResponse("got", { headers: { "Content-Length": "3" } })));
    const { api } = setUp();
    const body = await new Promise((resolve) => {
      api.get("http://model.test/x", (res) => res.on("data", resolve));
    });
    expect(body).toBe("got");
  });

  it("clsNow closes the socket; closeAll silences everything", async () => {
    const forever = () => {
      const stream = new ReadableStream({ start: (controller) => controller.enqueue(Buffer.from("first")) });
      return new HttpResponse(stream, { headers: { "Content-Length": "50" } });
    };
    server.use(mock.get("http://model.test/", forever));
    const { start, closeAll, open, api } = setUp();
    const one = start(HOST, (res, req) => res.on("data", () => (req.clsNow = true)));
    one.req.end();
    expect(one.req.clsNow).toBeUndefined();
    expect(await one.finished()).toEqual(["response", ["data", "first"], "end", ["close", false]]);
    expect(one.req.clsNow).toBe(true);
    expect(() => one.req.write("x")).toThrow("This socket is closed");

    const reached = new Promise<void>((resolve) => {
      const two = start(HOST, (res) => {
        res.on("data", () => {
          closeAll();
          expect(two.seen).toEqual(["response", ["data", "first"]]);
          resolve();
        });
      });
      two.req.end();
    });
    await reached;
    expect(open()).toBe(0);
    expect(() => api.get("http://model.test/")).toThrow("Not connected to the internet");
  });
});

describe("against a socket", () => {
  let answer: (socket: net.Socket) => void = () => {};
  const server = net.createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => answer(socket));
  });
  let at: HttpRequestOptions = {};
  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    at = { host: "127.0.0.1", port: (server.address() as net.AddressInfo).port, method: "GET", path: "/" };
  });
  afterAll(() => void server.close());

  async function ask(reply: (socket: net.Socket) => void) {
    answer = reply;
    const { start, lines } = setUp();
    const started = start(at);
    started.req.end();
    return { seen: await started.finished(), lines, res: started.res() };
  }

  it("a response without length ends after its first data", async () => {
    const { seen } = await ask((socket) => socket.write("HTTP/1.1 200 OK\r\n\r\nfirst"));
    expect(seen).toEqual(["response", ["data", "first"], "end", ["close", false]]);
  });

  it("keeps the case of header names, and the first of two", async () => {
    const { res } = await ask((socket) => {
      socket.end("HTTP/1.1 404 Not Here\r\nCONTENT-length: 0\r\nX-a: 1\r\nX-a: 2\r\n\r\n");
    });
    expect(res.headers).toEqual({ "CONTENT-length": "0", "X-a": "1" });
    expect([res.statusCode, res.statusMessage]).toEqual(["404", "Not Here"]);
  });

  it("100 Continue is taken as the answer", async () => {
    const { seen, res } = await ask((socket) => socket.write("HTTP/1.1 100 Continue\r\n\r\n"));
    expect(res.statusCode).toBe("100");
    expect(seen).toEqual(["response", "end", ["close", false]]);
  });

  it.each([
    ["reset", (socket: net.Socket) => socket.resetAndDestroy()],
    ["closed", (socket: net.Socket) => socket.end()],
    ["answered with no HTTP", (socket: net.Socket) => socket.end("hello\r\n\r\n")],
  ])("%s before the headers: no response", async (_, reply) => {
    const { seen } = await ask((socket) => void reply(socket));
    expect(seen).toEqual([["error", { code: -15, message: "no response" }]]);
  });

  it.each([
    ["reset", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", (socket: net.Socket) => socket.resetAndDestroy()],
    ["closed", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", (socket: net.Socket) => socket.end()],
    [
      "cut",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
      (socket: net.Socket) => socket.end(),
    ],
  ])("%s after the headers: an end without error", async (_, head, reply) => {
    // The client must have read the head before the connection goes.
    const { seen } = await ask((socket) => socket.write(head, () => setTimeout(() => reply(socket), 20)));
    expect(seen).toEqual(["response", ["data", "hello"], "end", ["close", false]]);
  });

  it("a connection cut while there is more to send is an error", async () => {
    answer = (socket) => {
      socket.write("HTTP/1.1 413 Too Much\r\nContent-Length: 50\r\n\r\nhello");
      setTimeout(() => socket.resetAndDestroy(), 20);
    };
    const queue: (() => void)[] = [];
    const { api } = setUp({ deliver: (fn) => queue.push(fn) });
    const seen: unknown[] = [];
    const req = api.request({ ...at, method: "POST", headers: { "Content-Length": 12000 } }, (res) => {
      for (const event of ["data", "end", "close"]) res.on(event, (value) => seen.push(event, value));
    }) as HttpRequest;
    req.on("error", (error) => seen.push(error));
    req.write("x".repeat(12000));
    queue.shift()?.();
    // The next piece, the response, its first data and the end of the socket: all are there before the board goes on.
    while (queue.length < 4) await new Promise((resolve) => setImmediate(resolve));
    while (!seen.includes("close")) {
      queue.shift()?.();
      if (queue.length === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    expect(seen).toEqual(["data", "hello", "end", undefined, { code: -8, message: "unsent data" }, "close", true]);
  });

  it("keeps a short body for a late listener, who has missed the end", async () => {
    answer = (socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    const { api, open } = setUp();
    const res = await new Promise<Res>((resolve) => void api.get(at, resolve));
    while (open() > 0) await new Promise((resolve) => setImmediate(resolve));
    const seen: unknown[] = [];
    res.on("end", () => seen.push("end"));
    await new Promise<void>((resolve) => {
      res.on("data", (data) => {
        seen.push(data);
        resolve();
      });
    });
    expect(seen).toEqual(["hello"]);
  });

  it.each(["resetAndDestroy", "end"] as const)("%s before the headers while the body goes out", async (cut) => {
    answer = (socket) => socket[cut]();
    const { start } = setUp();
    const { req, seen, finished } = start({ ...at, method: "POST", headers: { "Content-Length": 400_000 } });
    let failure: unknown;
    req.on("drain", () => {
      try {
        req.write("x".repeat(400));
      } catch (error) {
        failure = error;
      }
    });
    req.write("x".repeat(400));
    await finished();
    // The piece that was sent when it was noticed has its `drain`; what is written then finds the socket closed.
    expect(seen.at(-1)).toEqual(["error", { code: -15, message: "no response" }]);
    expect(seen.slice(0, -1).every((item) => item === "drain")).toBe(true);
    expect(failure).toMatchObject({ message: "This socket is closed", type: "Error" });
  });

  it("no drain for a piece that was not sent whole", async () => {
    answer = (socket) => socket.resetAndDestroy();
    const { start } = setUp();
    const { req, finished } = start({ ...at, method: "POST", headers: { "Content-Length": 12_000 } });
    req.write("x".repeat(12_000));
    expect((await finished()).at(-1)).toEqual(["error", { code: -15, message: "no response" }]);
  });

  it("hands on the chunks of one read together, each with more of the stack in use", async () => {
    const levels: number[] = [];
    const CHUNKED = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    answer = (socket) => socket.end(`${CHUNKED}${"1\r\nx\r\n".repeat(100)}64\r\n${"y".repeat(100)}\r\n0\r\n\r\n`);
    const { start } = setUp({
      callData(fn, stackBytes) {
        levels.push(stackBytes);
        fn();
      },
    });
    const { req, finished, body } = start(at);
    req.end();
    await finished();
    expect(body()).toBe("x".repeat(100) + "y".repeat(100));
    // 536 bytes hold 89 chunks of 6 bytes; the rest of the text is in a second read.
    const upTo = (count: number) => Array.from({ length: count }, (_, i) => i * 100);
    expect(levels).toEqual([...upTo(89), ...upTo(12)]);
  });

  it("removes a data listener that was interrupted", async () => {
    const calls: number[] = [];
    answer = (socket) =>
      socket.end(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${"1\r\nx\r\n".repeat(5)}0\r\n\r\n`);
    const { start, lines } = setUp({
      callData(fn, stackBytes, onInterrupt) {
        calls.push(stackBytes);
        if (stackBytes === 200) onInterrupt();
        else fn();
      },
    });
    const { req, finished } = start(at);
    req.end();
    expect(await finished()).toEqual(["response", ["data", "x"], ["data", "x"], "end", ["close", false]]);
    expect(calls).toEqual([0, 100, 200]);
    expect(lines).toEqual(["ERROR: Error processing Serial data handler - removing it."]);
  });

  it("refused and unknown hosts: the board's console line, and an error with the board's words", async () => {
    const free = net.createServer();
    await new Promise<void>((resolve) => free.listen(0, "127.0.0.1", resolve));
    const { port } = free.address() as net.AddressInfo;
    await new Promise((resolve) => free.close(resolve));
    const { start, lines } = setUp();
    const refused = start({ ...at, port });
    refused.req.end();
    expect(await refused.finished()).toEqual([["error", { code: -11, message: "Unable to create socket" }]]);
    expect(lines).toEqual(["ERROR: Connect failed (err 111)"]);
    const unknown = start({ ...at, host: "name.invalid" });
    unknown.req.end();
    expect(await unknown.finished()).toEqual([["error", { code: -11, message: "Unable to locate host" }]]);
  });
});
