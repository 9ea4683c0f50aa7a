import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { toBytes } from "../drivers/bytes";
import { bootFirmware } from "./board";
import { exchangeWith, OK, type Outcome } from "./exchange";
import { cutAt, inPieces } from "./pieces";

/** Cases and recorded streams that are kept beside the repository. Without them there is nothing to replay. */
const shared = fileURLToPath(new URL("../../../shared/", import.meta.url));
const readShared = (...parts: string[]): string | undefined => {
  const file = path.join(shared, ...parts);
  return fs.existsSync(file) ? fs.readFileSync(file, "utf8") : undefined;
};

const firmware = bootFirmware();
firmware.openSettings().apply({ baseUrl: "http://model/v1", model: "m", apiKey: "sk-abc" }, true);
const tools = { count: 0 };
firmware.editRegistry(tools).init(() => true);

/** The same bytes in as many ways as the network may cut them. */
function everySplit(stream: string, own: string[], check: (pieces: string[]) => void): void {
  check(own);
  check([stream]);
  check(inPieces(stream, 536));
  check(inPieces(stream, 1));
  fc.assert(
    fc.property(fc.array(fc.nat(stream.length), { maxLength: 40 }), (places) => check(cutAt(stream, places))),
    { numRuns: stream.length > 20_000 ? 10 : 40 },
  );
}

interface ProviderCase {
  name: string;
  dialect: string;
  status: number;
  headers: Record<string, string>;
  body: (string | { hex: string })[];
  end?: "reset" | "hang";
  expect: Record<string, any>;
}

function checkCase(outcome: Outcome, want: Record<string, any>): void {
  if (want.text !== undefined) expect(outcome.text).toBe(want.text);
  if (want.textContains) expect(outcome.text).toContain(want.textContains);
  if (want.textStartsWith) expect(outcome.text.startsWith(want.textStartsWith)).toBe(true);
  if (want.textEndsWith) expect(outcome.text.endsWith(want.textEndsWith)).toBe(true);
  if (want.reasoning !== undefined) expect(outcome.reasoning).toBe(want.reasoning);
  if (want.toolCalls) {
    // Where the case names no id, the loop makes one up.
    expect(outcome.calls).toEqual(want.toolCalls.map((call: object) => ({ id: "", ...call })));
  }
  for (const name of want.notRun ?? []) expect(outcome.calls.map((call) => call.name)).not.toContain(name);
  if (want.toolResultIsError) expect(outcome.refused).toHaveLength(1);
  if (want.toolResultContains) expect(outcome.refused[0]!.problem).toContain(want.toolResultContains);
  if (want.warning) expect(outcome.warnings).not.toEqual([]);
  if (want.stop === "cut") expect(outcome.failure!.message).toContain("cut off");
  else if (want.stop === "toolCalls") expect(outcome.calls).not.toEqual([]);
  else if (want.stop) expect(outcome.stop).toBe(want.stop);
  const failed = !!want.isError;
  expect(outcome.failure?.message ?? "", "failure").toMatch(failed ? /./ : /^$/);
  for (const word of want.errorContains ?? []) expect(outcome.failure!.message.toLowerCase()).toContain(word);
  expect(outcome.failure?.message ?? "").not.toContain("sk-abc");
  if (want.retried !== undefined) expect(outcome.waits.length > 0, "retried").toBe(want.retried);
  if (want.waitAtLeastMs) for (const wait of outcome.waits) expect(wait).toBeGreaterThanOrEqual(want.waitAtLeastMs);
  if (want.waitAtMostMs) for (const wait of outcome.waits) expect(wait).toBeLessThanOrEqual(want.waitAtMostMs);
}

const cases: ProviderCase[] = JSON.parse(readShared("cases", "provider-cases.json") ?? "[]");
const openaiCases = cases.filter((one) => one.dialect === "openai");

describe.skipIf(!openaiCases.length)("provider cases", () => {
  it.each(openaiCases.map((one) => [one.name, one] as const))("%s", (_, one) => {
    const own = one.body.map((piece) =>
      typeof piece === "string" ? toBytes(piece) : Buffer.from(piece.hex, "hex").toString("latin1"),
    );
    let first: Outcome | undefined;
    everySplit(own.join(""), own, (pieces) => {
      const answer = { status: one.status, headers: one.headers, end: one.end, pieces };
      const outcome = exchangeWith(firmware, tools, one.expect.isError ? [answer] : [answer, OK]);
      first ??= outcome;
      expect(outcome).toEqual(first);
      checkCase(outcome, one.expect);
    });
  });
});

interface RecordedStream {
  dialect: string;
  text: string;
  reasoning: string;
  toolCalls: { id: string; name: string; arguments: string }[];
  rawStopReason: string;
}

const streams: Record<string, RecordedStream> = JSON.parse(readShared("streams", "expected.json") ?? "{}");
const openaiStreams = Object.entries(streams).filter(([, one]) => one.dialect === "openai");

describe.skipIf(!openaiStreams.length)("recorded streams", () => {
  const registry = { count: 0 };
  firmware.editRegistry(registry).append({ name: "weather", description: "Weather of a place", execute: () => "sunny" });

  it.each(openaiStreams)("%s", (file, want) => {
    const lines = readShared("streams", file)!.split("\n").filter(Boolean);
    const own = [...lines, "[DONE]"].map((line) => toBytes(`data: ${line}\n\n`));
    let first: Outcome | undefined;
    everySplit(own.join(""), own, (pieces) => {
      const outcome = exchangeWith(firmware, registry, [{ pieces }]);
      first ??= outcome;
      expect(outcome).toEqual(first);
      expect(outcome.text).toBe(want.text);
      expect(outcome.reasoning).toBe(want.reasoning);
      expect(outcome.calls).toEqual(want.toolCalls.map((call) => ({ ...call, arguments: JSON.parse(call.arguments) })));
      expect(outcome.refused).toEqual([]);
      expect(outcome.warnings).toEqual([]);
      expect(outcome.failure).toBeUndefined();
      expect(outcome.stop).toBe("stop");
    });
  });
});
