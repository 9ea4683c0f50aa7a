import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { evaluate, mutation, randomGraph, randomTools } from "./graph-random";
import { bootGraphs } from "./graph-run";

const LIMITS = { graphBytes: 8192, toolResultBytes: 4096 };

function boot() {
  const board = bootGraphs();
  board.openSettings().apply(LIMITS, true);
  for (const [name, { properties, give }] of Object.entries(randomTools)) {
    board.addTool(name, properties, (args) => give(args) ?? { isError: true, content: "too large" });
  }
  return board;
}

describe("random graphs", () => {
  it("come to what a plain evaluation comes to, and call no tool in vain", async () => {
    let runs = 0;
    let failures = 0;
    await fc.assert(
      fc.asyncProperty(randomGraph, async (random) => {
        const board = boot();
        expect(board.add(random.graph)).toBe("");
        const expected = evaluate(random);
        const result = await board.call("graph", random.args);
        if (expected.failing.size > 0) {
          const node = /^node "(\w+)": small: too large$/.exec(result!.content)?.[1];
          expect(result!.isError).toBe(true);
          expect(expected.failing).toContain(node);
          failures++;
          return;
        }
        const values = Object.values(expected.outputs);
        const only =
          typeof values[0] === "string"
            ? values[0]
            : typeof values[0] === "object"
              ? JSON.stringify(values[0])
              : String(values[0]);
        if (values.length > 1) expect(JSON.parse(result!.content)).toEqual(expected.outputs);
        else expect(result!.content).toBe(only || "done (no output)");
        expect(result!.isError).toBe(false);
        const called = new Map<string, number>();
        for (const [name] of board.calls) called.set(name, (called.get(name) ?? 0) + 1);
        expect(called).toEqual(expected.called);
        runs++;
      }),
      { numRuns: 200 },
    );
    // Neither side of the property is empty.
    expect(Math.min(runs, failures)).toBeGreaterThan(5);
  });

  it("that are changed at random are refused, or run to some result", async () => {
    let taken = 0;
    let refused = 0;
    const changed = randomGraph.chain(({ graph, args }) => mutation(graph).map((mutant) => ({ mutant, args })));
    await fc.assert(
      fc.asyncProperty(changed, async ({ mutant, args }) => {
        const board = boot();
        const before = board.registry.count;
        const problem = board.add(JSON.stringify(mutant));
        expect(typeof problem).toBe("string");
        expect(board.registry.count).toBe(before + (problem ? 0 : 1));
        if (problem) refused++;
        else {
          const result = await board.call(mutant.name, args);
          expect(result).toEqual({ isError: expect.any(Boolean), content: expect.any(String) });
          taken++;
        }
      }),
      { numRuns: 300 },
    );
    expect(Math.min(taken, refused)).toBeGreaterThan(5);
  });
});
