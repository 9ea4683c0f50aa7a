import { describe, expect, test } from "vitest";
import { formatTable } from "../../bench/report";

describe("table", () => {
  test("figures stand under one another, with their goals", () => {
    const table = formatTable([
      {
        title: "Memory",
        figures: [
          { name: "idle", value: 915, unit: "variables", goal: 900, note: "all tools" },
          { name: "after boot", value: 459, unit: "variables", goal: 500 },
        ],
      },
      {
        title: "Work",
        figures: [
          { name: "ratio", value: 1.534, unit: "×" },
          { name: "slim", unit: "×", note: "no valgrind" },
        ],
      },
    ]);
    expect(table.split("\n")).toEqual([
      "Memory",
      "  idle         915  variables  ✗ ≤ 900  all tools",
      "  after boot   459  variables  ✓ ≤ 500",
      "",
      "Work",
      "  ratio       1.53  ×",
      "  slim           –  ×                   no valgrind",
    ]);
  });

  test("a figure that should be large has its goal the other way round", () => {
    const figure = { name: "boards", value: 199, unit: "boards", goal: 200, isLeast: true };
    expect(formatTable([{ title: "Load", figures: [figure] }])).toContain("✗ ≥ 200");
  });
});
