import { describe, expect, test } from "vitest";
import { planSteps, soak, SoakFailure, type Step } from "../../bench/soak";
import { simDriver } from "../drivers/sim";

const driver = simDriver();

describe("soak", () => {
  test("a seed gives the same steps, and fewer prompts the first of them", () => {
    const steps = planSteps(42, 50, 0.3, true);
    expect(planSteps(42, 50, 0.3, true)).toEqual(steps);
    expect(planSteps(42, 20, 0.3, true)).toEqual(steps.slice(0, 20));
    expect(planSteps(43, 20, 0.3, true)).not.toEqual(steps.slice(0, 20));
  });

  test("the share of faults is what was asked for", () => {
    const share = (faults: number): number => planSteps(1, 400, faults, true).filter(({ fault }) => fault).length / 400;
    expect(share(0)).toBe(0);
    expect(share(1)).toBe(1);
    expect(Math.abs(share(0.2) - 0.2)).toBeLessThan(0.06);
  });

  test("thirty prompts with every other one in trouble", { timeout: 120_000 }, async () => {
    const steps = planSteps(5, 30, 0.5, true);
    const summary = await soak({ driver, steps });
    expect(summary).toMatchObject({ prompts: 30, brokenHistories: 0 });
    const errors = Object.values(summary.errors).reduce((sum, count) => sum + count, 0);
    expect(summary.answers + summary.aborted + errors).toBe(30);
    expect(summary.faults).toBe(steps.filter(({ fault }) => fault).length);
  });

  test("what goes wrong names the prompt", { timeout: 60_000 }, async () => {
    const fine: Step = { prompt: "hello", turns: [], answer: "fine" };
    // An answer that nobody gives: the run ends with an error, and the step has no fault that would explain it.
    const failing: Step = { ...fine, answer: " " };
    const failure = await soak({ driver, steps: [fine, failing], first: 7 }).catch((error) => error);
    expect(failure).toBeInstanceOf(SoakFailure);
    expect(failure).toMatchObject({ index: 8, step: failing });
  });
});
