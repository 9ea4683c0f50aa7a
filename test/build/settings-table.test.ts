import fs from "node:fs";
import { describe, expect, it } from "vitest";
import { readLimits, settingsTable, withSettings } from "../../cli/settings-table";

const SOURCE = `
    // MAX_THING (PKG_MAX_THING), bytes: the most of it. Two
    // lines | of reason.
    case "maxThing":
      return [1_024, 64, 8192];
    // RETRIES, attempts, for what may pass.
    case "retries": return [2, 0, 5];
`;

describe("settings table", () => {
  it("reads name, unit, reason and numbers of each limit", () => {
    expect(readLimits(SOURCE)).toEqual([
      {
        key: "maxThing",
        constant: "MAX_THING (PKG_MAX_THING)",
        unit: "bytes",
        reason: "the most of it. Two lines | of reason.",
        defaultValue: 1024,
        minimum: 64,
        maximum: 8192,
      },
      {
        key: "retries",
        constant: "RETRIES",
        unit: "attempts",
        reason: "for what may pass.",
        defaultValue: 2,
        minimum: 0,
        maximum: 5,
      },
    ]);
  });

  it("names the line of a limit without a reason", () => {
    expect(() => readLimits('\n\ncase "a": return [1, 0, 2];')).toThrow(/config\.ts:3 a needs a comment/);
  });

  it("escapes what would end a cell, and replaces the block only", () => {
    const table = settingsTable(readLimits(SOURCE));
    expect(table).toContain("Two lines \\| of reason.");
    expect(withSettings("a\n<!-- settings -->\nold\n<!-- /settings -->\nb", table)).toBe(
      `a\n<!-- settings -->\n${table}\n<!-- /settings -->\nb`,
    );
    expect(withSettings("no markers", table)).toBeUndefined();
  });

  const limits = fs.existsSync("firmware/config.ts") ? readLimits(fs.readFileSync("firmware/config.ts", "utf8")) : [];

  it("finds every limit of the firmware, each within its own range", () => {
    const cases = fs.readFileSync("firmware/config.ts", "utf8").match(/return \[-?\d/g) ?? [];
    expect(limits).toHaveLength(cases.length);
    for (const limit of limits) {
      expect(limit.minimum).toBeLessThanOrEqual(limit.defaultValue);
      expect(limit.defaultValue).toBeLessThanOrEqual(limit.maximum);
    }
  });

  it("is up to date in README.md", () => {
    const readme = fs.existsSync("README.md") ? fs.readFileSync("README.md", "utf8") : "";
    const wanted = withSettings(readme, settingsTable(limits));
    if (wanted !== undefined) expect(readme).toBe(wanted);
  });
});
