import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type CheckedGraph, checkGraphs, graphCommand } from "../../cli/graph";
import { UsageError } from "../../cli/settings";
import type { Surroundings } from "../../cli/command";
import { mutation, randomGraph, randomTools } from "../firmware/graph-random";
import { bootGraphs } from "../firmware/graph-run";

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "graph-check-"));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function write(name: string, content: string | Uint8Array): string {
  const file = join(folder, name);
  writeFileSync(file, content);
  return file;
}

/** Runs `graph` with these words; file names in the output are without their folder. */
async function run(positional: string[], options: Record<string, string | boolean | undefined> = {}) {
  let stdout = "";
  let stderr = "";
  const io = {
    stdout: { write: (text: string) => void (stdout += text) },
    stderr: { write: (text: string) => void (stderr += text) },
  } as unknown as Surroundings;
  const code = await graphCommand.run(positional, options, io);
  return { code, stdout: stdout.replaceAll(`${folder}/`, ""), stderr };
}

const check = (name: string, content: string | Uint8Array, options = {}) =>
  run(["check", write(name, content)], options);

const good = `{
  "$schema": "graph.schema.json",
  "name": "area",
  "description": "Fläche eines Zimmers.",
  "inputs": { "a": { "type": "number", "description": "in m", "minimum": 0 }, "b": { "type": "number", "default": 1 } },
  "nodes": {
    "area": { "tool": "mul", "in": { "a": "{a}", "b": "{b}" }, "type": "number" },
    "answer": { "if": "{area}", "above": 20, "then": "{area} m² is large", "else": "small" }
  },
  "outputs": { "text": { "type": "string", "from": "{answer}" } }
}
`;

describe("graph check", () => {
  it("finds nothing in a good file", async () => {
    expect(await check("good.json", good)).toEqual({ code: 0, stdout: "good.json: area is good\n", stderr: "" });
  });

  it("names place, node and port of all that is wrong, in order of place", async () => {
    const bad = good
      .replace('"name": "area"', '"name": "my area"')
      .replace('"minimum": 0', '"minimun": 0')
      .replace('"a": "{a}", "b": "{b}"', '"a": "{answer}", "b": "{c}", "b": 2, "c": 3')
      .replace('"mul"', '"multiply"')
      .replace('"above": 20', '"above": "20"')
      .replace(', "else": "small"', ', "els": "ä"')
      .replace('"from": "{answer}"', '"from": "{answer}", "typ": 1');
    expect(await check("bad.json", bad)).toEqual({
      code: 1,
      stdout: [
        "bad.json:3:3 name: must be 1 to 63 letters, digits, _ and -",
        'bad.json:5:15 input "a": minimun is unknown here; there are type, description, enum, minimum, maximum, default',
        'bad.json:5:15 input "a": is used by no node and no output',
        'bad.json:5:79 input "b": is used by no node and no output',
        'bad.json:7:15 node "area", port "tool": there is no tool called multiply',
        'bad.json:7:43 node "area", port "a": closes a cycle: answer -> area -> answer',
        'bad.json:7:72 node "area", port "b": is there twice: a port has one producer',
        'bad.json:8:5 node "answer", port "else": is not connected',
        'bad.json:8:33 node "answer", port "above": wants number, not string',
        'bad.json:8:78 node "answer", port "els": is unknown here; there are if, equals, below, above, contains, then, else, type',
        'bad.json:10:16 output "text": typ is unknown here; there are type, from, description',
        "",
      ].join("\n"),
      stderr: "",
    });
  });

  it.each<[string, string | Uint8Array, string]>([
    ["a comma too many", '{\n  "name": "x",\n}', "no-json.json:3:1 the file is no JSON: "],
    ["an end too early", '{\n  "name": "x"', "no-json.json:2:14 the file is no JSON: "],
    ["a comment", "{} // graph", "no-json.json:1:4 the file is no JSON: "],
    ["nothing", "", "no-json.json:1:1 the file is no JSON: "],
    [
      "a byte order mark",
      `\ufeff${good}`,
      "no-json.json:1:1 the file starts with a byte order mark: save it without\n",
    ],
    ["Latin-1", Buffer.from(good, "latin1"), "no-json.json:1:1 the file is not UTF-8: save it as UTF-8\n"],
    ["a list", "[]", "no-json.json:1:1 a graph is a JSON object\n"],
    ["null", "null", "no-json.json:1:1 a graph is a JSON object\n"],
    ["a number", "5", "no-json.json:1:1 a graph is a JSON object\n"],
  ])("of a file with %s says so", async (_, content, line) => {
    const { code, stdout } = await check("no-json.json", content);
    expect(code).toBe(1);
    expect(stdout.startsWith(line), stdout).toBe(true);
    expect(stdout.trimEnd().split("\n")).toHaveLength(1);
  });

  it("refuses 10,000 nodes by size, and 33 small ones by number", async () => {
    const nodes = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, i) => [`n${i}`, { value: 1 }]));
    const graph = (count: number) => JSON.stringify({ name: "g", description: "d", nodes: nodes(count), outputs: {} });
    expect((await check("big.json", graph(10_000))).stdout).toBe(
      "big.json:1:1 the file has more than 2048 bytes (graphBytes)\n",
    );
    expect((await check("many.json", graph(33))).stdout).toBe("many.json:1:31 nodes: are more than 32 (graphNodes)\n");
  });

  it.each([
    ['"nodes"', '"nodes": {"x": {"value": 1}}, "nodes"', /:6:\d+ nodes: is there twice/],
    ['"area": {', '"area": {"value": 1}, "area": {', /:7:\d+ node "area": is there twice/],
    ['"b": { "type"', '"b": {"type": "string"}, "b": { "type"', /:5:\d+ input "b": is there twice/],
    ['"minimum": 0', '"type": "number"', /:5:\d+ input "a": type is there twice/],
    ['"then"', '"then": 1, "then"', /:8:\d+ node "answer", port "then": is there twice/],
    ['"text": {', '"text": {"type": "number"}, "text": {', /:10:\d+ output "text": is there twice/],
  ])("sees what stands there twice: %s", async (old, both, line) => {
    const { code, stdout } = await check("twice.json", good.replace(old, both));
    expect(code).toBe(1);
    expect(stdout).toMatch(line);
  });

  it("says that a file is nested too deeply", async () => {
    const value = `${"[".repeat(900)}${"]".repeat(900)}`;
    const { code, stdout } = await check("deep.json", `{"name":"g","nodes":{"a":{"value":${value}}}}`);
    expect([code, stdout]).toEqual([1, "deep.json:1:1 its lists and objects are nested too deeply\n"]);
  });

  it("knows tools that the board has besides", async () => {
    const other = good.replace('"mul"', '"multiply"');
    expect((await check("other.json", other)).code).toBe(1);
    expect((await check("other.json", other, { tools: "run_js, multiply" })).code).toBe(0);
    const { stdout } = await check("other.json", good, { tools: "area" });
    expect(stdout).toBe("other.json:3:3 name: a tool called area is there already: choose another name\n");
    await expect(run(["check", write("good.json", good)], { tools: "a b" })).rejects.toThrow(UsageError);
  });

  it("checks several together: one may be a tool of the other, names are there once", async () => {
    const outer = good.replace('"name": "area"', '"name": "outer"').replace('"tool": "mul"', '"tool": "area"');
    const files = [write("1-outer.json", outer), write("2-area.json", good), write("3-area.json", good)];
    expect(await run(["check", ...files])).toEqual({
      code: 1,
      stdout:
        "1-outer.json: outer is good\n2-area.json: area is good\n" +
        "3-area.json:3:3 name: a tool called area is there already: choose another name\n",
      stderr: "",
    });
    const wrong = outer.replace('"b": "{b}"', '"c": "{b}"');
    expect((await run(["check", files[1]!, write("wrong.json", wrong)])).stdout).toMatch(
      /node "area", port "c": is no input of area; there are a, b/,
    );
    const ping = (name: string, tool: string) =>
      JSON.stringify({
        name,
        description: "d",
        nodes: { n: { tool } },
        outputs: { x: { type: "string", from: "{n}" } },
      });
    const { stdout } = await run([
      "check",
      write("ping.json", ping("ping", "pong")),
      write("pong.json", ping("pong", "ping")),
    ]);
    expect(stdout).toMatch(/^ping.json:.*no tool called pong\npong.json:.*no tool called ping\n$/);
  });

  it("prints JSON", async () => {
    const { code, stdout } = await check("bad.json", good.replace('"{b}"', '"{x}"'), { json: true });
    expect(code).toBe(1);
    const [{ file, name, problems }] = JSON.parse(stdout) as [CheckedGraph];
    expect([file, name]).toEqual(["bad.json", "area"]);
    expect(problems).toEqual([
      { node: "inputs", port: "b", problem: "is used by no node and no output", line: 5, column: 79 },
      { node: "area", port: "b", problem: "there is no input and no node x", line: 7, column: 50 },
    ]);
    expect(JSON.parse((await check("good.json", good, { json: true })).stdout)).toEqual([
      { file: "good.json", name: "area", problems: [] },
    ]);
  });

  it.each([[[]], [["check"]], [["run", "x"]], [["check", "/no/such/file.json"]], [["check", tmpdir()]]])(
    "refuses %j as bad usage",
    async (words) => {
      await expect(run(words)).rejects.toThrow(UsageError);
    },
  );
});

describe("the schema, the check on the host and the one on the board", () => {
  const tools = new Map(
    Object.entries(randomTools).map(([name, { properties }]) => [
      name,
      JSON.stringify({ type: "object", properties, required: Object.keys(properties) }),
    ]),
  );

  const hostCheck = (graph: unknown) => checkGraphs([["g", Buffer.from(JSON.stringify(graph))]], tools)[0]!.problems;

  function boardCheck(graph: unknown): string {
    const board = bootGraphs();
    for (const [name, { properties, give }] of Object.entries(randomTools)) board.addTool(name, properties, give);
    return board.add(JSON.stringify(graph));
  }

  const fits = ({ graph }: { graph: unknown }) => JSON.stringify(graph).length <= 2048;

  it("agree on good graphs", () => {
    fc.assert(
      fc.property(randomGraph.filter(fits), ({ graph }) => {
        expect(hostCheck(graph)).toEqual([]);
        expect(boardCheck(graph)).toBe("");
      }),
      { numRuns: 100 },
    );
  });

  it("agree on changed ones: what is good on the host is good to the schema and to the board", () => {
    const changed = randomGraph.chain(({ graph }) => mutation(graph)).filter((graph) => fits({ graph }));
    fc.assert(
      fc.property(changed, (graph) => {
        const problems = hostCheck(graph);
        expect(problems.filter(({ problem }) => problem.startsWith("not as the schema has it"))).toEqual([]);
        if (problems.length === 0) expect(boardCheck(graph)).toBe("");
      }),
      { numRuns: 400 },
    );
  });
});
