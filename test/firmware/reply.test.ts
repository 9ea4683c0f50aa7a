import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { toBytes } from "../drivers/bytes";
import { bootFirmware, isUtf8 } from "./board";
import { exchangeWith, OK, type Outcome } from "./exchange";
import { cutAt, inPieces } from "./pieces";

const firmware = bootFirmware();
firmware.openSettings().apply({ baseUrl: "http://model/v1", model: "m" }, true);
const tools = { count: 0 };
for (const name of ["add", "mul", "say", "info"]) {
  firmware.editRegistry(tools).append({ name, description: `${name} something`, execute: () => "done" });
}

const event = (value: unknown) => `data: ${typeof value === "string" ? value : toBytes(JSON.stringify(value))}\n\n`;
const delta = (one: unknown) => event({ choices: [{ index: 0, delta: one, finish_reason: null }] });
const finish = (reason: string) =>
  event({ choices: [{ index: 0, delta: {}, finish_reason: reason }] }) + event("[DONE]");
const piece = (index: unknown, id: unknown, name: unknown, args: unknown) => ({
  index,
  id,
  type: "function",
  function: { name, arguments: args },
});

/** The outcome of a stream, which must be the same in single bytes. */
function read(stream: string, last = true): Outcome {
  const outcome = exchangeWith(firmware, tools, [{ pieces: [stream] }]);
  const bytewise = exchangeWith(firmware, tools, [{ pieces: inPieces(stream, 1) }]);
  expect(bytewise).toEqual(outcome);
  if (last) expect(outcome.failure).toBeUndefined();
  return outcome;
}

/** Calls from pieces, each in an event of its own. */
function callsOf(...pieces: unknown[]) {
  return read(pieces.map((one) => delta({ tool_calls: [one] })).join("") + finish("tool_calls")).calls;
}

/** The same with the pieces as `[index, id, name, arguments]`, undefined for a field that is not there. */
const merge = (...pieces: [unknown, unknown, unknown, unknown][]) => callsOf(...pieces.map((one) => piece(...one)));
const _ = undefined;

describe("which call a piece belongs to", () => {
  it("an index of a call, no id or the same id: that call", () => {
    expect(merge([0, "a", "add", '{"a":'], [0, _, _, "1"], [0, "a", _, "}"])).toEqual([
      { id: "a", name: "add", arguments: { a: 1 } },
    ]);
  });

  it("an index of a call, another id: a call of that id, else a new one", () => {
    expect(merge([0, "a", "add", '{"a":1}'], [0, "b", "mul", '{"a":'], [0, "b", _, "2}"])).toEqual([
      { id: "a", name: "add", arguments: { a: 1 } },
      { id: "b", name: "mul", arguments: { a: 2 } },
    ]);
    expect(merge([0, "a", "add", '{"a":'], [0, "b", "mul", '{"b":'], [0, "a", _, "1}"], [0, "b", _, "2}"])).toEqual([
      { id: "a", name: "add", arguments: { a: 1 } },
      { id: "b", name: "mul", arguments: { b: 2 } },
    ]);
    // Pieces without an id go on with the newest of that index.
    expect(merge([0, "a", "add", '{"a":1}'], [0, "b", "mul", '{"b":'], [0, _, _, "2}"])).toEqual([
      { id: "a", name: "add", arguments: { a: 1 } },
      { id: "b", name: "mul", arguments: { b: 2 } },
    ]);
  });

  it("no index, an id: the call of that id, else a new one", () => {
    expect(merge([_, "a", "add", '{"a":'], [_, "b", "mul", '{"b":'], [_, "a", _, "1}"], [_, "b", _, "2}"])).toEqual([
      { id: "a", name: "add", arguments: { a: 1 } },
      { id: "b", name: "mul", arguments: { b: 2 } },
    ]);
  });

  it("no index, no id: the last call, else a new one", () => {
    expect(merge([_, _, "add", '{"a":'], [_, _, _, "1}"])).toEqual([{ id: "", name: "add", arguments: { a: 1 } }]);
    expect(merge([0, "a", "add", "{}"], [1, "b", "mul", '{"b":'], [_, _, _, "2}"])).toEqual([
      { id: "a", name: "add", arguments: {} },
      { id: "b", name: "mul", arguments: { b: 2 } },
    ]);
  });

  it("a name and arguments after a complete call: a new call, if it has no id of its own", () => {
    expect(merge([_, _, "add", '{"a":1}'], [_, _, "add", '{"a":2}'])).toEqual([
      { id: "", name: "add", arguments: { a: 1 } },
      { id: "", name: "add", arguments: { a: 2 } },
    ]);
    expect(merge([0, _, "add", '{"a":1}'], [0, _, "mul", '{"b":'], [0, _, _, "2}"])).toEqual([
      { id: "", name: "add", arguments: { a: 1 } },
      { id: "", name: "mul", arguments: { b: 2 } },
    ]);
    // After one that is not complete it is the same call, its name repeated.
    expect(merge([0, _, "add", '{"a":{"b":1}'], [0, _, "add", "}"])).toEqual([
      { id: "", name: "add", arguments: { a: { b: 1 } } },
    ]);
    expect(merge([0, "a", "add", '{"a":"}'], [0, "a", "add", '"}'])).toEqual([
      { id: "a", name: "add", arguments: { a: "}" } },
    ]);
  });
});

describe("how the fields of a call are merged", () => {
  it("id and name: the first that is not empty stays", () => {
    expect(merge([0, "", "", ""], [0, "x", "add", "{"], [0, null, "other", "}"])).toEqual([
      { id: "x", name: "add", arguments: {} },
    ]);
    expect(merge([0, null, null, null], [0, "", "add", ""], [0, "late", "", '{"a":1}'])).toEqual([
      { id: "late", name: "add", arguments: { a: 1 } },
    ]);
    expect(merge([0, _, "add", '{"a":1}'], [0, "late", _, _])).toEqual([
      { id: "late", name: "add", arguments: { a: 1 } },
    ]);
  });

  it("arguments: text is appended, an object is its JSON, null and empty text add nothing", () => {
    expect(merge([0, "x", "add", '{"a"'], [0, _, _, null], [0, _, _, ""], [0, _, _, ":1}"])).toEqual([
      { id: "x", name: "add", arguments: { a: 1 } },
    ]);
    expect(merge([0, "x", "add", { a: [1, { b: "ü😀" }] }])).toEqual([
      { id: "x", name: "add", arguments: { a: [1, { b: "ü😀" }] } },
    ]);
  });

  it("no arguments at all are {}", () => {
    for (const none of [_, null, "", " \n", {}])
      expect(merge([0, "x", "info", none])).toEqual([{ id: "x", name: "info", arguments: {} }]);
    expect(callsOf({ index: 0, id: "x", function: { name: "info" } })).toEqual([
      { id: "x", name: "info", arguments: {} },
    ]);
  });

  it("arguments up to maxToolArgLen; of what is longer nothing is run, and the model is told the limit", () => {
    const exact = `{"a":"${"x".repeat(1024 - 8)}"}`;
    expect(merge([0, "x", "say", exact])).toHaveLength(1);
    const stream = [exact.slice(0, 1000), `x${exact.slice(1000)}`, '"}', "}"]
      .map((args, i) => delta({ tool_calls: [piece(0, "x", i ? "" : "say", args)] }))
      .join("");
    const outcome = read(stream + delta({ tool_calls: [piece(1, "y", "add", "{}")] }) + finish("tool_calls"));
    expect(outcome.calls).toEqual([{ id: "y", name: "add", arguments: {} }]);
    expect(outcome.refused).toEqual([
      { name: "say", problem: expect.stringContaining("MAX_TOOL_ARG_LEN (1024 bytes)") },
    ]);
    expect(outcome.warnings).toHaveLength(1);
  });
});

describe("calls as odd servers send them", () => {
  it("keeps parallel calls apart, however their pieces are mixed", () => {
    const call = fc.record({
      name: fc.constantFrom("add", "mul", "say"),
      value: fc.string({ unit: "binary", maxLength: 20 }),
    });
    const style = fc.constantFrom("index and id", "index, then id", "index", "id", "always 0", "index and id each");
    fc.assert(
      fc.property(
        fc.array(call, { minLength: 1, maxLength: 8 }),
        style,
        fc.array(fc.nat(60), { maxLength: 4 }),
        fc.infiniteStream(fc.nat(7)),
        (calls, how, places, order) => {
          const each = /id/.test(how);
          const queues = calls.map(({ name, value }, i) => {
            const pieces = cutAt(
              JSON.stringify({ value }).replace(
                /[^ -~]/g,
                (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`,
              ),
              places,
            );
            return pieces.map((args, k) => {
              const index = how === "always 0" ? 0 : how === "id" ? undefined : i;
              const withId =
                how === "index"
                  ? false
                  : how === "index, then id"
                    ? k === pieces.length - 1
                    : how === "index and id"
                      ? k === 0
                      : true;
              return piece(index, withId ? `call-${i}` : undefined, k ? undefined : name, args);
            });
          });
          let stream = "";
          while (queues.some((queue) => queue.length)) {
            const queue = queues.filter((one) => one.length)[
              each ? order.next().value % queues.filter((one) => one.length).length : 0
            ]!;
            stream += delta({ tool_calls: [queue.shift()] });
          }
          const got = read(stream + finish("tool_calls")).calls;
          const byId = new Map(got.map((one) => [one.id, one]));
          calls.forEach(({ name, value }, i) => {
            const one = how === "index" ? got[i] : byId.get(`call-${i}`);
            expect(one).toMatchObject({ name, arguments: { value } });
          });
          expect(got).toHaveLength(calls.length);
        },
      ),
    );
  });

  it("takes several pieces of one event in order", () => {
    const outcome = read(
      delta({
        tool_calls: [piece(0, "a", "add", "{"), piece(1, "b", "mul", "{"), piece(0, _, _, "}"), piece(1, _, _, "}")],
      }) + finish("tool_calls"),
    );
    expect(outcome.calls.map((call) => call.id)).toEqual(["a", "b"]);
  });

  it("counts a field of the wrong type as not given", () => {
    expect(merge(["0", "a", "add", "{}"], ["0", "a", _, _])).toEqual([{ id: "a", name: "add", arguments: {} }]);
    expect(merge([null, "a", "add", "{}"], [{}, "b", "mul", "{}"])).toHaveLength(2);
    expect(merge([0, 7, "add", '{"a":'], [0, {}, ["x"], "1}"])).toEqual([{ id: "", name: "add", arguments: { a: 1 } }]);
    expect(merge([0, "a", "add", 5], [0, _, _, true], [0, _, _, '{"a":1}'])).toEqual([
      { id: "a", name: "add", arguments: { a: 1 } },
    ]);
  });

  it("finds nothing in what is no list of calls", () => {
    for (const odd of [
      {},
      { index: 0, id: "a", function: { name: "add", arguments: "{}" } },
      "add",
      5,
      true,
      null,
      [],
      [null, 1, "add", [], {}, { function: 7 }, { function: null }],
    ]) {
      const outcome = read(delta({ content: "a", tool_calls: odd }) + finish("stop"));
      expect(outcome).toMatchObject({ text: "a", calls: [], refused: [], stop: "stop" });
    }
  });

  it("takes only the first 8 calls, says so once, and mixes nothing of the others in", () => {
    const eight = Array.from({ length: 8 }, (__, i) => ({ id: `c${i}`, name: "add", arguments: { i } }));
    for (const [named, numbered] of [
      [true, true],
      [true, false],
      [false, true],
    ] as const) {
      let stream = "";
      for (let i = 0; i < 11; i++) {
        const index = numbered ? i : undefined;
        stream += delta({ tool_calls: [piece(index, named ? `c${i}` : undefined, "add", `{"i":`)] });
        stream += delta({ tool_calls: [piece(index, undefined, undefined, `${i}}`)] });
      }
      const outcome = read(stream + finish("tool_calls"));
      expect(outcome.calls).toEqual(eight.map((call) => (named ? call : { ...call, id: "" })));
      expect(outcome.warnings).toHaveLength(1);
    }
  });

  it("does so where every call says index 0", () => {
    let stream = "";
    for (let i = 0; i < 10; i++) {
      stream +=
        delta({ tool_calls: [piece(0, `c${i}`, "add", `{"i":`)] }) +
        delta({ tool_calls: [piece(0, undefined, undefined, `${i}}`)] });
    }
    const outcome = read(stream + finish("tool_calls"));
    expect(outcome.calls.map((call) => call.arguments.i)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(outcome.refused).toEqual([]);
  });

  it("refuses arguments that are cut, no object, or followed by more, and invents nothing", () => {
    const bad = [
      '{"a":1',
      '{"a":12',
      '{"a":',
      "{",
      '{"a":"x',
      "[1]",
      '"text"',
      "12",
      "true",
      "null",
      "[]",
      '{"a":1} {"a":2}',
      '{"a":1}{"b":2}',
      '{"a":1}}',
      '{"a":1},{"a":2}',
      '{"a":1}}}',
      '{"a":-}',
    ];
    for (const args of bad) {
      const outcome = read(delta({ tool_calls: [piece(0, "x", "add", args)] }) + finish("tool_calls"));
      expect.soft(outcome.calls, args).toEqual([]);
      expect.soft(outcome.refused, args).toHaveLength(1);
    }
  });

  it("repairs arguments that lack only what surrounds or closes complete values", () => {
    for (const args of ['x{"a":1}', "{a:1}", "{'a':1,}"]) expect(merge([0, "x", "add", args])[0]!.arguments).toEqual({ a: 1 });
    expect(merge([0, "x", "add", '{"b":{"c":[1,2]}'])[0]!.arguments).toEqual({ b: { c: [1, 2] } });
    // After the output limit it may lack whole arguments.
    const cut = read(delta({ tool_calls: [piece(0, "x", "add", '{"b":{"c":[1,2]}')] }) + finish("length"));
    expect(cut).toMatchObject({ calls: [], refused: [expect.anything()] });
  });

  it("refuses every beginning of arguments that may have cut a value", () => {
    const whole = '{"a":12,"b":{"c":[1,{"d":"}"}]},"e":"\\"}"}';
    for (let size = 1; size < whole.length; size++) {
      const calls = merge([0, "x", "add", whole.slice(0, size)]);
      if (/[^"\]}]$/.test(whole.slice(0, size))) expect(calls, whole.slice(0, size)).toEqual([]);
      for (const one of calls) expect(JSON.parse(whole)).toMatchObject(one.arguments);
    }
    expect(merge([0, "x", "add", whole])).toHaveLength(1);
  });

  it("takes nested objects, 200 levels of them, and odd names and numbers", () => {
    const deep = `${'{"a":'.repeat(200)}1${"}".repeat(200)}`;
    firmware.openSettings().apply({ maxToolArgLen: 4096 }, true);
    expect(merge([0, "x", "add", deep])).toHaveLength(1);
    const list = `{"a":${"[".repeat(200)}${"]".repeat(200)}}`;
    expect(merge([0, "x", "add", list])).toHaveLength(1);
    firmware.openSettings().apply({ maxToolArgLen: null }, true);
    const odd = merge([0, "x", "add", '{"__proto__":{"isAdmin":true},"constructor":1,"hasOwnProperty":2,"a":1}'])[0]!;
    expect(odd.arguments.a).toBe(1);
    expect(odd.arguments.isAdmin).toBeUndefined();
    expect(({} as any).isAdmin).toBeUndefined();
    // What a double cannot hold would be another number, or none, when it is written again.
    for (const args of ['{"a":1e999}', '{"a":12345678901234567890}', '{"a":-9007199254740994}'])
      expect(read(delta({ tool_calls: [piece(0, "x", "add", args)] }) + finish("stop"))).toMatchObject({
        calls: [],
        refused: [expect.anything()],
      });
    // A name that every object has is no tool.
    const own = read(delta({ content: '{"name":"__proto__","arguments":{}}' }) + finish("stop"));
    expect(own).toMatchObject({ calls: [], text: '{"name":"__proto__","arguments":{}}' });
  });

  it("joins a surrogate pair whose halves come in two pieces of the arguments", () => {
    const say = `"index":0,"id":"x","function":{"name":"say","arguments"`;
    const stream =
      `data: {"choices":[{"delta":{"tool_calls":[{${say}:"{\\"t\\":\\"\\ud83d"}}]}}]}\n\n` +
      `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\\ude00\\"}"}}]}}]}\n\n`;
    expect(read(stream + finish("tool_calls")).calls).toEqual([{ id: "x", name: "say", arguments: { t: "😀" } }]);
    // Escapes of the arguments' own JSON are text until the arguments are whole.
    expect(merge([0, "x", "say", '{"t":"\\ud83d'], [0, _, _, '\\ude00"}'])[0]!.arguments).toEqual({ t: "😀" });
  });
});

describe("text and reasoning", () => {
  const text = (...parts: unknown[]) => read(parts.map((content) => delta({ content })).join("") + finish("stop")).text;

  it("takes content as text or as a list of parts", () => {
    expect(text("a", null, "", "b")).toBe("ab");
    expect(
      text([{ type: "text", text: "a" }, null, 5, { type: "image" }, { text: 7 }, { type: "text", text: "b" }], {}, 5),
    ).toBe("ab");
  });

  it("joins halves of a surrogate pair across deltas, with empty deltas between them", () => {
    const half = (one: string) => `data: {"choices":[{"delta":{"content":"${one}"}}]}\n\n`;
    expect(read(half("a\\ud83d") + half("\\ude00b") + finish("stop")).text).toBe("a😀b");
    expect(read(half("\\ud83d") + half("") + delta({ content: null }) + half("\\ude00") + finish("stop")).text).toBe(
      "😀",
    );
    expect(read(half("\\ud83d") + half("\\ud83d") + half("\\ude00") + finish("stop")).text).toBe("\ufffd😀");
    expect(read(half("\\ud83d\\ud83d\\ude00") + finish("stop")).text).toMatch(/\ufffd+😀/);
    expect(read(half("x\\ud83d") + finish("stop")).text).toBe("x\ufffd");
  });

  it("shows U+FFFD for a half that stays alone, wherever it stands", () => {
    const half = (one: string) => `data: {"choices":[{"delta":{"content":"${one}"}}]}\n\n`;
    for (const alone of ["x\\ud83dy", "x\\ude00y", "\\ude00", "x\\ud83d\\u0041"]) {
      const outcome = read(half(alone) + finish("stop"));
      for (const one of outcome.events) if (one.type === "textDelta") expect.soft(isUtf8(one.text), alone).toBe(true);
      expect.soft(outcome.text, alone).toMatch(/\ufffd/);
    }
  });

  it("joins halves in the reasoning, too", () => {
    const half = (one: string) => `data: {"choices":[{"delta":{"reasoning_content":"${one}"}}]}\n\n`;
    expect(read(half("a\\ud83d") + half("\\ude00b") + delta({ content: "x" }) + finish("stop")).reasoning).toBe("a😀b");
  });

  it("keeps thinking out of the answer, however the tags are cut into deltas", () => {
    const whole =
      "\n <think>plan <b> </thin </think>\n\n <think>more</think>\n" +
      "Done <think> is a tag, a < b, <tool_ [TOOL and </think>.";
    fc.assert(
      fc.property(fc.array(fc.nat(whole.length), { maxLength: 12 }), (places) => {
        const outcome = read(
          cutAt(whole, places)
            .map((content) => delta({ content }))
            .join("") + finish("stop"),
        );
        expect(outcome.text).toBe("Done <think> is a tag, a < b, <tool_ [TOOL and </think>.");
        expect(outcome.reasoning).toBe("plan <b> </thin more");
      }),
    );
  });

  it("shows what only began like a tag", () => {
    for (const begun of ["<", "<thi", "<thinker> x", "<think", "a <tool_cal", "[TOOL", "<|py"]) {
      const outcome = read([...begun].map((content) => delta({ content })).join("") + finish("stop"));
      expect(outcome.text).toBe(begun);
      expect(outcome.reasoning).toBe("");
    }
    expect(read(delta({ content: "<think>only" }) + finish("stop"))).toMatchObject({ text: "", reasoning: "only" });
  });

  it("takes calls written as text, of registered tools only", () => {
    const call = '{"name":"add","arguments":{"a":1,"b":"</x>"}}';
    const wanted = [{ id: "", name: "add", arguments: { a: 1, b: "</x>" } }];
    for (const form of [
      call,
      ` ${call}\n`,
      `<tool_call>\n${call}\n</tool_call>`,
      `<function_call>${call}</function_call>`,
      `<|python_tag|>${call}`,
      `[TOOL_CALLS][${call}]`,
      `\`\`\`json\n${call}\n\`\`\``,
      `\`\`\`\n${call}\n\`\`\``,
      `<think>hm</think>${call}`,
      call.replace("arguments", "parameters"),
    ]) {
      for (const size of [1, 5, 1000]) {
        const outcome = read(
          inPieces(form, size)
            .map((content) => delta({ content }))
            .join("") + finish("stop"),
        );
        expect.soft(outcome.calls, `${form} in ${size}`).toEqual(wanted);
        expect.soft(outcome.text, form).toBe("");
      }
    }
    expect(
      read(
        delta({ content: `Adding: <tool_call>${call}</tool_call><tool_call>{"name":"mul"}</tool_call>` }) +
          finish("stop"),
      ),
    ).toMatchObject({
      text: "Adding: ",
      calls: [...wanted, { id: "", name: "mul", arguments: {} }],
    });
  });

  it("leaves everything else text", () => {
    const other = [
      '{"name":"launch","arguments":{}}',
      '<tool_call>{"name":"add","arguments":{}}</tool_call><tool_call>{"name":"launch"}</tool_call>',
      '{"name":"add","arguments":{}} is how you call it.',
      '{"temperature":21}',
      "{}",
      "[]",
      "{",
      "```\ncode\n```",
      '```json\n{"name":"Add","arguments":{}}\n```',
      '<tool_call>{"name":"add","arguments":{"a":1}',
      '<tool_call>{"name":"add","arguments":{"a":1',
      "<tool_call>add(1, 2)</tool_call>",
      '{"name":["add"]}',
      '[TOOL_CALLS][{"name":"add","arguments":{}},',
      "null",
      `{"name":"add","arguments":{"a":"${"x".repeat(1300)}"}}`,
    ];
    for (const form of other) {
      const outcome = read(delta({ content: form }) + finish("stop"));
      expect.soft(outcome.calls, form).toEqual([]);
      expect.soft(outcome.refused, form).toEqual([]);
      expect.soft(outcome.text, form).toBe(form);
    }
  });

  it("loses nothing of any answer, and shows it while it comes", () => {
    const word = fc.oneof(
      fc.string({ unit: "binary", maxLength: 10 }),
      fc.constantFrom("<", "<think", "<tool_call>", "{", "```", "[TOOL_CALLS]", "</think>", " ", "é", "😀"),
    );
    fc.assert(
      fc.property(fc.array(word, { maxLength: 20 }), (words) => {
        // A first letter, so that what follows is the answer and no thinking, no call and no leading white space.
        const outcome = read(["a", ...words].map((content) => delta({ content })).join("") + finish("stop"));
        expect(outcome.text).toBe(["a", ...words].join(""));
        expect(outcome.calls).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });
});

describe("events and bodies of the wrong shape", () => {
  it("reads past them", () => {
    const odd: unknown[] = [
      {},
      { choices: null },
      { choices: {} },
      { choices: "x" },
      { choices: [] },
      { choices: [null] },
      { choices: [5] },
      { choices: [{}] },
      { choices: [{ delta: null, finish_reason: null }] },
      { choices: [{ delta: "x", finish_reason: 5 }] },
      { choices: [{ delta: [], finish_reason: {} }] },
      { choices: [{ delta: { reasoning: {}, reasoning_content: 5, content: 5 } }] },
      { error: null, choices: [] },
      { usage: {} },
      "[]",
      "5",
      "null",
      '"text"',
      ": ping",
      "keep-alive",
      "[1,2]",
    ];
    const outcome = read(odd.map(event).join("") + delta({ content: "a" }) + odd.map(event).join("") + finish("stop"));
    expect(outcome).toMatchObject({ text: "a", calls: [], warnings: [], stop: "stop" });
  });

  it("warns once of events that are no JSON, and reads on", () => {
    const outcome = read(event('{"choices":[') + event("{]") + delta({ content: "a" }) + event("{'") + finish("stop"));
    expect(outcome.text).toBe("a");
    expect(outcome.warnings).toHaveLength(1);
  });

  it("takes white space around the JSON", () => {
    expect(
      read(
        'data:   {"choices":[{"delta":{"content":"a"}}]}  \n\n' +
          'data:\ndata: {"choices":[{"delta":{"content":"b"}}]}\n\n' +
          finish("stop"),
      ).text,
    ).toBe("ab");
  });

  it("survives 200 levels of nesting in an event", () => {
    const deep = `{"x":${"[".repeat(200)}${"]".repeat(200)},"choices":[{"delta":{"content":"a"}}]}`;
    expect(read(event(deep) + finish("stop")).text).toBe("a");
  });

  it("reports each line that is too long where it stood", () => {
    const long = delta({ content: "x".repeat(4000) });
    const outcome = read(delta({ content: "a" }) + long + delta({ content: "b" }) + long + finish("stop"));
    expect(outcome.events.map((one) => one.type)).toEqual(["textDelta", "error", "textDelta", "error"]);
  });

  it("calls an answer cut where nothing says that it ended", () => {
    const cut = read(delta({ content: "half" }), false);
    expect(cut.text).toBe("half");
    expect(cut.failure!.message).toContain("cut off");
    expect(cut.waits).toEqual([]);
    // Nothing was shown: asked for again, whole.
    const again = exchangeWith(firmware, tools, [
      { pieces: [delta({ tool_calls: [piece(0, "x", "add", "{}")] })] },
      OK,
    ]);
    expect(again).toMatchObject({ text: "fine", calls: [], failure: undefined });
    expect(again.waits).toHaveLength(1);
    expect(exchangeWith(firmware, tools, [{ pieces: [] }, OK]).text).toBe("fine");
  });

  it("surfaces an error inside the stream with its message", () => {
    for (const error of [
      { message: "no room", code: 400 },
      { message: "no room", code: "bad" },
      "no room",
      { message: "no room" },
    ]) {
      const outcome = read(event({ error }), false);
      expect(outcome.failure!.message).toContain("no room");
      expect(outcome.waits).toEqual([]);
    }
    for (const error of [true, 5, {}, [], { code: null, message: null }]) {
      expect(read(event({ error }), false).failure!.message).toContain("error");
    }
    expect(read(event({ error: { status: 503, message: "busy" } }), false).waits).toHaveLength(2);
  });
});

describe("an answer that is one JSON text", () => {
  const whole = (message: unknown, finish_reason: unknown = "stop") =>
    JSON.stringify({ id: "c", choices: [{ index: 0, message, finish_reason }] });

  it("is read as a stream would be", () => {
    expect(read(whole({ content: "plain" }))).toMatchObject({ text: "plain", stop: "stop" });
    expect(read(whole({ content: "plain" }, null))).toMatchObject({ text: "plain", stop: "stop" });
    expect(
      read(`\n ${whole({ reasoning_content: "hm", tool_calls: [piece(_, "x", "add", { a: 1 })] }, "tool_calls")}\n`),
    ).toMatchObject({
      reasoning: "hm",
      calls: [{ id: "x", name: "add", arguments: { a: 1 } }],
    });
    expect(read(whole({ content: "<think>a</think>b" }, "length"))).toMatchObject({
      text: "b",
      reasoning: "a",
      stop: "length",
    });
  });

  it("may have a byte order mark before it", () => {
    expect(read(`\xef\xbb\xbf${whole({ content: "plain" })}`, false)).toMatchObject({
      text: "plain",
      failure: undefined,
    });
  });

  it("may be as long as sseLineBytes, however it is cut", () => {
    for (const size of [3000, 3071, 3072, 3073, 3100, 3600, 5000]) {
      const body = whole({ content: "x".repeat(size - whole({ content: "" }).length) });
      expect(body).toHaveLength(size);
      const results = [1, 7, 536, 10_000].map((step) =>
        exchangeWith(firmware, tools, [{ pieces: inPieces(body, step) }]),
      );
      for (const result of results) expect(result, `${size} bytes`).toEqual(results[0]);
      if (size <= 3072) expect(results[0]!.failure).toBeUndefined();
      else expect(results[0]!.failure!.message).toContain("sseLineBytes");
    }
  });

  it("is asked for again where the connection ended inside it", () => {
    const body = whole({ content: "plain" });
    const outcome = exchangeWith(firmware, tools, [{ pieces: [body.slice(0, -9)] }, OK]);
    expect(outcome).toMatchObject({ text: "fine", failure: undefined });
    expect(outcome.waits).toHaveLength(1);
  });
});

describe("failures before an answer", () => {
  it("are none where the server answers and closes while the request is being sent", () => {
    const pieces = [delta({ content: "fine" }) + finish("stop")];
    expect(exchangeWith(firmware, tools, [{ pieces, end: "early" }])).toMatchObject({ text: "fine", failure: undefined });
    const { failure } = exchangeWith(firmware, tools, [{ status: 413, pieces: ['{"error":"too large"}'], end: "early" }]);
    expect(failure!.message).toContain("too large");
    const lost = exchangeWith(firmware, tools, [{ pieces: [], end: "early" }, OK]);
    expect(lost).toMatchObject({ text: "fine", failure: undefined });
    expect(lost.waits).toHaveLength(1);
  });

  it("quotes the server's own words, however they are cut", () => {
    for (const size of [50, 590, 700, 1500]) {
      const body = JSON.stringify({ error: { message: "quota of model m is used up", details: "x".repeat(size) } });
      const results = [1, 7, 536, 10_000].map(
        (step) => exchangeWith(firmware, tools, [{ status: 403, pieces: inPieces(body, step) }]).failure!,
      );
      for (const result of results) expect(result, `${body.length} bytes`).toEqual(results[0]);
      expect(results[0]!.message).toContain("quota of model m is used up");
    }
  });

  it("never ends without a reason", () => {
    const body = fc.oneof(
      fc.string({ unit: "binary" }).map(toBytes),
      fc.jsonValue().map((value) => toBytes(JSON.stringify(value))),
      fc.jsonValue().map((value) => event(toBytes(JSON.stringify({ error: value })))),
      fc
        .jsonValue()
        .map((value) => event(toBytes(JSON.stringify({ choices: [{ delta: value, finish_reason: "stop" }] })))),
      fc
        .jsonValue()
        .map((value) =>
          event(toBytes(JSON.stringify({ choices: [{ delta: { tool_calls: [value] }, finish_reason: "stop" }] }))),
        ),
      fc.jsonValue().map((value) => toBytes(JSON.stringify({ choices: [value] }))),
    );
    fc.assert(
      fc.property(
        body,
        fc.constantFrom(200, 204, 301, 400, 408, 429, 500, 503, NaN),
        fc.array(fc.nat(100), { maxLength: 5 }),
        (bytes, status, places) => {
          const whole = exchangeWith(firmware, tools, [{ status, pieces: [bytes] }]);
          const parts = exchangeWith(firmware, tools, [{ status, pieces: cutAt(bytes, places) }]);
          expect(parts).toEqual(whole);
          expect(whole.failure ? whole.failure.message : whole.stop).not.toBe("");
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe("events that differ in their text only", () => {
  const piece = fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom(" a", "word", " of", ".", "é", "😀", "日本") },
    { weight: 2, arbitrary: fc.constantFrom('"', "\\", "\n", "\r\n", '"}', '"}}]}', "<", "[", "<b>", "data: x", "@", "\u0001") },
    { weight: 1, arbitrary: fc.string({ unit: "grapheme", maxLength: 30 }) },
  );
  const event = fc.oneof(
    { weight: 8, arbitrary: fc.record({ content: piece }) },
    { weight: 4, arbitrary: fc.record({ reasoning_content: piece }) },
    { weight: 1, arbitrary: fc.constantFrom({ content: null }, { content: "" }, { role: "assistant" }, {}) },
    { weight: 1, arbitrary: fc.record({ content: piece, reasoning_content: piece }) },
  );
  const shape = fc.record({
    /** Fields before and behind the choices; a function of the event's number. */
    varies: fc.boolean(),
    random: fc.boolean(),
    lineEnd: fc.constantFrom("\n", "\r\n"),
    ascii: fc.boolean(),
    named: fc.boolean(),
  });

  it("are read as all others, whatever they carry and however they are cut", () => {
    const escape = (json: string) =>
      json.replace(/[^\x00-\x7f]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
    fc.assert(
      fc.property(fc.array(event, { maxLength: 40 }), shape, fc.array(fc.nat(5000), { maxLength: 20 }), (deltas, how, cuts) => {
        const bytes = deltas
          .map((one, i) => {
            const body: any = { id: how.varies ? `c${i >> 2}` : "c", choices: [{ index: 0, delta: one, finish_reason: null }] };
            if (how.random) body.obfuscation = "x".repeat((i * 7) % 5);
            const json = JSON.stringify(body);
            const name = how.named ? `event: chunk${how.lineEnd}` : "";
            return `${name}data: ${how.ascii ? escape(json) : toBytes(json)}${how.lineEnd}${how.lineEnd}`;
          })
          .concat('data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n')
          .join("");
        // A thought and a text of one event, in this order; an empty thought is none.
        const all = (name: string) => deltas.map((one: any) => one[name] ?? "").join("");
        const text = all("content");
        const wanted = { text: text.trimStart(), reasoning: all("reasoning_content") };
        if (/^\s*(<think>|```|\{)/.test(text)) return;
        for (const pieces of [[bytes], inPieces(bytes, 536), inPieces(bytes, 1), cutAt(bytes, cuts)]) {
          const outcome = exchangeWith(firmware, tools, [{ pieces }, OK]);
          if (!text.trim()) continue;
          expect({ text: outcome.text, reasoning: outcome.reasoning }).toEqual(wanted);
          expect(outcome.warnings).toEqual([]);
        }
      }),
      {
        numRuns: 300,
        examples: [
          [
            [{ content: " " }, { content: ".", reasoning_content: " a" }, { content: ".", reasoning_content: '"' }],
            { varies: false, random: false, lineEnd: "\n", ascii: false, named: false },
            [],
          ],
        ],
      },
    );
  });

  it.each(["word", 'a "word"\n', "\\ \xc3\xa9"])("are recognised once two of them were read, with texts such as %j", (word) => {
    const sse = firmware.createSseParser(3072);
    let parsed = 0;
    for (let i = 0; i < 100; i++) {
      const content = JSON.stringify(`${word} ${i}`);
      sse.rest += `data: {"id":"c","choices":[{"delta":{"content":${content}}}],"obfuscation":"${"x".repeat(i % 7)}"}\n\n`;
      if (!(sse.sample === undefined && sse.alike()) && sse.next()) {
        parsed++;
        firmware.learn(sse, `${word} ${i}`, 2, undefined);
      } else expect(sse.text).toBe(`${word} ${i}`);
      expect(sse.next()).toBe(false);
    }
    expect(parsed).toBe(2);
  });
});
