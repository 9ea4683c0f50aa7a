import fc from "fast-check";
import { expect, it } from "vitest";
import { toBytes } from "../drivers/bytes";
import { bootFirmware } from "./board";
import { exchangeWith, type Outcome } from "./exchange";
import { cutAt, inPieces } from "./pieces";

/**
 * Arguments of calls in many small events, which are recognised from some bytes on: they come to what the same calls come
 * to where each is given at once, however the bytes are cut.
 */
const firmware = bootFirmware();
const tools = { count: 0 };
for (const name of ["add", "say"]) {
  firmware.editRegistry(tools).append({ name, description: `${name} something`, execute: () => "done" });
}

const text = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom("a", "word ", "1234", "xxxxxxxxxxxxxxxxxxxxxxxx", "é", "日本", "😀") },
  { weight: 2, arbitrary: fc.constantFrom('"', "\\", "\\n", "\n", '"}', '"}}]}', "\u0001", "@", "\\u00e9", "\\ud83d") },
  { weight: 1, arbitrary: fc.string({ unit: "grapheme", maxLength: 30 }) },
);
const call = fc.record({
  value: fc.array(text, { maxLength: 30 }).map((parts) => parts.join("")),
  sizes: fc.array(fc.oneof(fc.constant(0), fc.constant(1), fc.nat(3), fc.nat(12)), { minLength: 1, maxLength: 20 }),
});
const shape = fc.record({
  dialect: fc.constantFrom("openai", "anthropic"),
  /** Pieces of calls in turn rather than call by call; several in one event. */
  mixed: fc.boolean(),
  together: fc.boolean(),
  /** With those: the last call's piece first, and empty pieces of calls that are over. */
  turned: fc.boolean(),
  padded: fc.boolean(),
  /** What each piece of a call says again. */
  id: fc.constantFrom("first", "always", "empty"),
  name: fc.constantFrom("first", "always", "empty"),
  content: fc.constantFrom("none", "null", "empty", "sometimes", "always"),
  numbered: fc.boolean(),
  random: fc.boolean(),
  escaped: fc.boolean(),
  lineEnd: fc.constantFrom("\n", "\n", "\r\n"),
});
type Shape = typeof shape extends fc.Arbitrary<infer T> ? T : never;

const escape = (json: string) =>
  json.replace(/[^\x00-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** A text in pieces of the given characters, in turn. With all of them 0, in one. */
function split(whole: string, sizes: number[]): string[] {
  const units = [...whole];
  const pieces: string[] = [];
  for (let i = 0; units.length; i++) {
    const size = sizes[i % sizes.length]! || (i >= sizes.length && !sizes.some(Boolean) ? units.length : 0);
    pieces.push(units.splice(0, size).join(""));
  }
  return pieces;
}

function stream(calls: { json: string; sizes: number[] }[], how: Shape): { bytes: string; text: string } {
  const lists = calls.map(({ json, sizes }) => split(json, sizes));
  const order: { call: number; piece: string; first: boolean }[][] = [];
  const one = (call: number, i: number) => ({ call, piece: lists[call]![i]!, first: i === 0 });
  const most = Math.max(...lists.map((list) => list.length));
  if (how.mixed && (how.numbered || how.dialect === "anthropic"))
    for (let i = 0; i < most; i++) {
      const now = lists.flatMap((list, call) =>
        i < list.length ? [one(call, i)] : how.padded && how.together ? [{ call, piece: "", first: false }] : [],
      );
      if (how.turned && i) now.reverse();
      order.push(...(how.together ? [now] : now.map((piece) => [piece])));
    }
  else lists.forEach((list, call) => list.forEach((_, i) => order.push([one(call, i)])));
  const write = (body: unknown, event = "") => {
    const json = JSON.stringify(body);
    const data = how.escaped ? escape(json) : toBytes(json);
    return `${event && `event: ${event}${how.lineEnd}`}data: ${data}${how.lineEnd}${how.lineEnd}`;
  };
  let bytes = "";
  let text = "";
  if (how.dialect === "anthropic") {
    for (const pieces of order)
      for (const { call, piece, first } of pieces) {
        const content_block = { type: "tool_use", id: `id${call}`, name: call % 2 ? "say" : "add", input: {} };
        if (first) bytes += write({ type: "content_block_start", index: call, content_block }, "content_block_start");
        const body = { type: "content_block_delta", index: call, delta: { type: "input_json_delta", partial_json: piece } };
        bytes += write(body, body.type);
      }
    bytes += write({ type: "message_delta", delta: { stop_reason: "tool_use" } }, "message_delta");
    return { bytes: bytes + write({ type: "message_stop" }, "message_stop"), text };
  }
  order.forEach((pieces, i) => {
    const tool_calls = pieces.map(({ call, piece, first }) => {
      const id = first || how.id === "always" ? `id${call}` : how.id === "empty" ? "" : undefined;
      const name = first || how.name === "always" ? (call % 2 ? "say" : "add") : how.name === "empty" ? "" : undefined;
      return { index: how.numbered ? call : undefined, id, type: "function", function: { name, arguments: piece } };
    });
    const delta: Record<string, unknown> = { tool_calls };
    if (how.content === "null") delta.content = null;
    if (how.content === "empty") delta.content = "";
    if (how.content === "always" || (how.content === "sometimes" && i % 3 === 2)) {
      delta.content = "w";
      text += "w";
    }
    const body: Record<string, unknown> = { id: "c", choices: [{ index: 0, delta, finish_reason: null }] };
    if (how.random) body.obfuscation = "x".repeat((i * 7) % 5);
    bytes += write(body);
  });
  return { bytes: bytes + write({ choices: [{ delta: {}, finish_reason: "tool_calls" }] }), text };
}

const seen = ({ calls, refused, text, warnings, stop, failure }: Outcome) => ({ calls, refused, text, warnings, stop, failure });

it("arguments in small pieces come to what they come to at once, however they are cut", () => {
  fc.assert(
    fc.property(
      fc.array(call, { minLength: 1, maxLength: 3 }),
      shape,
      fc.array(fc.nat(), { maxLength: 8 }),
      fc.constantFrom(300, 2048),
      (list, how, cuts, maxToolArgLen) => {
        firmware.openSettings().apply({ baseUrl: "http://model/v1", model: "m", provider: how.dialect, maxToolArgLen }, true);
        const calls = list.map(({ value, sizes }) => ({ json: JSON.stringify({ value }), sizes }));
        const { bytes, text } = stream(calls, how);
        const sizes = calls.map(({ json }) => toBytes(json).length);
        const wanted = calls.flatMap((one, i) =>
          sizes[i]! > maxToolArgLen ? [] : [{ id: `id${i}`, name: i % 2 ? "say" : "add", arguments: JSON.parse(one.json) }],
        );
        for (const pieces of [[bytes], inPieces(bytes, 536), inPieces(bytes, 1), cutAt(bytes, cuts)]) {
          const outcome = seen(exchangeWith(firmware, tools, [{ pieces }]));
          expect(outcome.calls).toEqual(wanted);
          expect(outcome.refused).toHaveLength(calls.length - wanted.length);
          expect(outcome.text).toBe(text);
          expect(outcome.warnings).toHaveLength(calls.length - wanted.length);
          expect(outcome).toMatchObject({ stop: "stop", failure: undefined });
        }
      },
    ),
    { numRuns: Number(process.env.RUNS ?? 300) },
  );
}, 300000);
