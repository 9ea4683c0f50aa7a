/** The gateway as a process of its own, killed and started again. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, it, onTestFinished } from "vitest";
import { createTokenStore } from "../../gateway/tokens";
import { selfSignedCertificate } from "./certificate";
import { askGateway, startUpstream, until, UPSTREAM_KEY } from "./harness";

const program = fileURLToPath(new URL("../../cli/espruino-agent.mjs", import.meta.url));

let folder: string;
let token: string;
beforeEach(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "gateway-process-"));
  token = await createTokenStore(folder).add("desk");
});
afterEach(() => rmSync(folder, { recursive: true }));

interface Process {
  pid: number;
  /** 0 where it did not start. */
  port: number;
  /** Everything it has said. */
  said(): string;
  /** Its exit code; null where a signal ended it. */
  kill(signal: NodeJS.Signals): Promise<number | null>;
  exit: Promise<number | null>;
}

/** Starts a gateway, and waits until it takes requests or has ended. */
async function start(upstream: string, options: string[] = [], env: Record<string, string> = {}): Promise<Process> {
  const args = ["gateway", "--upstream", upstream, "--listen", "127.0.0.1:0", "--state", folder, ...options];
  const child = spawn(process.execPath, [program, ...args], {
    env: { ...process.env, GATEWAY_UPSTREAM_KEY: UPSTREAM_KEY, ...env },
  });
  let said = "";
  let port = 0;
  const ready = new Promise<void>((resolve) => {
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (piece) => {
        said += String(piece);
        // The last that it says when it starts.
        if (!said.includes("tokens: 1")) return;
        port = Number(/boards: http:\/\/127\.0\.0\.1:(\d+)/.exec(said)?.[1]);
        resolve();
      });
  });
  const exit = once(child, "close").then(([code]) => code as number | null);
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await exit;
    expect(said).not.toContain(UPSTREAM_KEY.slice(3, 12));
    expect(said).not.toContain(token);
  });
  await Promise.race([exit, ready]);
  return {
    pid: child.pid!,
    port,
    said: () => said,
    exit,
    kill: (signal) => {
      child.kill(signal);
      return exit;
    },
  };
}

const event = 'data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n';
const half: http.RequestListener = (_request, response) => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(event);
};

it("is killed in the middle of a stream: budgets are kept, its lock is taken over, and a second one is refused", async () => {
  const upstream = await startUpstream(half);
  const first = await start(upstream, ["--requests-per-day", "1"]);
  let got = "";
  const answer = askGateway(first.port, { token, onData: (text) => (got = text) });
  await until(() => got.includes("half"));
  const usage = (): any => JSON.parse(readFileSync(path.join(folder, "usage.json"), "utf8"));
  await until(() => {
    try {
      return usage().desk.day.tokens > 0;
    } catch {
      return false;
    }
  }, "usage that is saved");

  const second = await start(upstream);
  expect(await second.exit).toBe(1);
  expect(second.said()).toMatch(new RegExp(`^--state: ${folder} is used by another gateway, process ${first.pid}: `));

  expect(await first.kill("SIGKILL")).toBeNull();
  expect(await answer).toMatchObject({ status: 200, body: event, isComplete: false });
  expect(readFileSync(path.join(folder, "gateway.pid"), "utf8")).toMatch(new RegExp(`^${first.pid} `));

  const third = await start(upstream, ["--requests-per-day", "1"]);
  expect(await askGateway(third.port, { token })).toMatchObject({
    status: 429,
    json: { error: { message: expect.stringContaining("desk has used 1 of its 1 requests per day") } },
  });
  // What was under way counts as what it might have cost.
  expect(usage().desk.day).toMatchObject({ requests: 1, tokens: expect.any(Number), isEstimated: true });
  expect(await third.kill("SIGTERM")).toBe(0);
});

it("refuses a certificate that nobody it knows has signed, and takes one of a CA in NODE_EXTRA_CA_CERTS", async () => {
  const certificate = selfSignedCertificate();
  let keys = 0;
  const server = https.createServer(certificate, (request, response) => {
    if (request.headers.authorization === `Bearer ${UPSTREAM_KEY}`) keys++;
    response.setHeader("content-type", "application/json");
    response.end('{"choices":[{"message":{"content":"trusted"},"finish_reason":"stop"}]}');
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const upstream = `https://127.0.0.1:${(server.address() as { port: number }).port}/v1`;

  const wary = await start(upstream);
  const refused = await askGateway(wary.port, { token });
  expect(refused).toMatchObject({ status: 502, headers: { "x-should-retry": "false" } });
  expect(refused.json.error.message).toMatch(/is not trusted \(.*\): check --upstream, or name its CA in NODE_EXTRA_CA_CERTS/);
  expect(keys).toBe(0);
  await wary.kill("SIGTERM");

  const file = path.join(folder, "ca.pem");
  writeFileSync(file, certificate.cert);
  const trusting = await start(upstream, [], { NODE_EXTRA_CA_CERTS: file });
  expect((await askGateway(trusting.port, { token })).json.choices[0].message.content).toBe("trusted");
  expect(keys).toBe(1);
});
