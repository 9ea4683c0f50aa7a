import fc from "fast-check";
import { expect, test } from "vitest";
import { text, toolCall, type Turn } from "../fixtures/scripted-model";
import { scenario, type ScenarioContext, withBoard } from "./scenario";

// Whatever code of the model's tries: the agent answers the next prompt as it has answered the first one.

/** The model's turns, as far as they are known; the board is asked one thing after the other. */
function script() {
  const turns: Turn[] = [];
  return { turns, next: (): Turn => turns.shift() ?? text("more") };
}

/** What a prompt comes to that needs a tool, and what goes on afterwards. */
async function sum({ board, model }: ScenarioContext, turns: Turn[]) {
  turns.push(toolCall("add", { a: 1, b: 1 }, { id: "call_sum" }), text("two"));
  const events = await board.ask("1 + 1?");
  const ends = events.flatMap((event) => {
    if (event.type === "toolEnd") return [event.name, event.isError, event.content];
    return event.type === "final" ? [event.text, event.stopReason] : [];
  });
  const tools = model.requests.at(-1)!.json.tools!.map((tool) => tool.function.name);
  const words = await board.runLine("typeof ask+typeof E.on+JSON.stringify([1])");
  return { ends, tools, timers: await board.timers(), words };
}

async function check(context: ScenarioContext, turns: Turn[], programs: string[]) {
  const first = await sum(context, turns);
  expect(first.ends).toEqual(["add", false, "2", "two", "done"]);
  for (const code of programs) {
    turns.push(toolCall("run_js", { code }, { id: "call_try" }), text("tried"));
    const events = await context.board.ask("try it");
    expect(events.at(-1), code).toMatchObject({ type: "final", text: "tried", stopReason: "done" });
    // Timers of its own come to their end.
    await context.board.advance(200);
    expect(await sum(context, turns), code).toEqual(first);
  }
}

const settings = { allowJs: true, toolTimeoutMs: 300, historyBytes: 4096 };

const handful = [
  "E = 1; JSON = 1; Promise = 1",
  "Array.prototype.push = function () {}",
  "function JSON() {}\nJSON.parse = 1",
  "function f() { this.E = 1; this.ask = 2 }\nf()",
  'setTimeout(function () { ask("x"); }, 1)',
  "clearInterval(); clearTimeout(); 1",
  'E.removeAllListeners("agent")',
  "[1].map(function () { throw null })",
  "function f() { return Promise.resolve().then(f) }\nf()",
  "function f() { f() } f()",
];
const some = script();
scenario("a handful of attempts", { settings, turns: some.next, allow: /./, timeoutMs: 120_000 }, (context) =>
  check(context, some.turns, handful),
);

const names =
  "E JSON Math Promise Array Object String print process console require setTimeout getTime D4 ask status abort";
const name = fc.constantFrom(...names.split(" "));
const place = fc
  .tuple(name, fc.constantFrom("", "", ".x", ".parse", ".prototype", ".prototype.push", '["on"]', ".a[0].b"))
  .map(([root, rest]) => root + rest);
const write = fc
  .tuple(
    place,
    fc.constantFrom(
      "# = 1",
      "# += 1",
      "# = function () {}",
      "#++",
      "--#",
      "delete #",
      "for (# of [1]) {}",
      "for (# in {a: 1});",
      "for (# = 0; ;) break",
      "v = # = 2",
      "if (1) ++#",
    ),
  )
  .map(([to, how]) => how.replace("#", to));
const declaration = fc
  .tuple(
    name,
    fc.constantFrom(
      "var # = 1; #++",
      "var v = 1, # = 2; # = 3",
      "let # = 1; # += 1",
      "function #() {}",
      "class # {}",
      "(function (#) { # = 1 })(2)",
      "[1].map((v, #) => # * 2)",
      "try { nosuch() } catch (#) { # = 1 }",
    ),
  )
  .map(([to, how]) => how.replaceAll("#", to));
const call = fc.constantFrom(
  'ask("x")',
  "abort()",
  "status",
  "clear_history()",
  "cleanup_agent",
  'set_config({apiKey: ""})',
  "reset()",
  "this.reset()",
  "this.E = 1",
  "global.E = 1",
  "setTimeout(reset, 1)",
  'eval("reset()")',
  'new Function("reset()")()',
  'setTimeout("reset()", 0)',
  "changeInterval(1, 1)",
  "clearInterval(); clearTimeout()",
  "clearTimeout(1); clearInterval(2); clearWatch()",
  'E.removeAllListeners("agent")',
  'E.emit("agent", {type: "final"})',
  'E.on("agent", function () { throw 1 })',
  'require("Storage").eraseAll()',
  'require("Storage").erase("agent")',
  'require("Wifi").disconnect()',
  "setInterval(function () { clearInterval() }, 10)",
  "throw null",
  "while (1);",
  "(function f() { f() })()",
  "function f() { return Promise.resolve().then(f) }\nf()",
);
const around = fc.constantFrom(
  "#",
  "#",
  "(function () { # })()",
  "[1].forEach(function () { # })",
  "(() => { # })()",
  "if (1) { # }",
  "try { # } catch (e) {}",
  "setTimeout(function () { # }, 5)",
  "Promise.resolve().then(function () { # })",
  "class A { m() { # } }\nnew A().m()",
  "`${(function () { # })()}`",
);
const program = fc
  .array(
    fc
      .tuple(around, fc.oneof({ weight: 3, arbitrary: write }, declaration, { weight: 2, arbitrary: call }))
      .map(([frame, what]) => frame.replace("#", () => what)),
    { minLength: 1, maxLength: 3 },
  )
  .map((statements) => statements.join("\n;"));

test.skipIf(process.env.TEST_DRIVER === "espruino")(
  "random attempts",
  { timeout: 240_000 },
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(program, { minLength: 1, maxLength: 12 }), async (programs) => {
        const all = script();
        const options = { settings, turns: all.next, allow: /./ };
        await withBoard(options, (context) => check(context, all.turns, programs));
      }),
      { numRuns: Number(process.env.RUNS ?? 12) },
    );
  },
);
