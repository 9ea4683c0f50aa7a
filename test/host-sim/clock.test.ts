import { describe, expect, it } from "vitest";
import { createManualClock, realClock, withEvents } from "../../host-sim/clock";

describe("createManualClock", () => {
  it("fires due timers in order, each at its own time", () => {
    const clock = createManualClock(1000);
    const seen: string[] = [];
    const note = (name: string) => () => void seen.push(`${name}@${clock.now()}`);
    clock.setTimeout(note("c"), 30);
    clock.setTimeout(note("a"), 10.5);
    clock.setTimeout(note("b1"), 20);
    clock.setTimeout(note("b2"), 20);
    clock.setTimeout(note("late"), 31);
    clock.advance(30);
    expect(seen).toEqual(["a@1010.5", "b1@1020", "b2@1020", "c@1030"]);
    expect(clock.now()).toBe(1030);
    expect(clock.pending()).toBe(1);
    expect(clock.nextDue()).toBe(1031);
  });

  it("fires timers set on the way, and not those cleared", () => {
    const clock = createManualClock();
    const seen: number[] = [];
    const again = () => {
      seen.push(clock.now());
      clock.setTimeout(again, 10);
    };
    clock.setTimeout(again, 10);
    const id = clock.setTimeout(() => seen.push(-1), 15);
    clock.setTimeout(() => clock.clearTimeout(id), 12);
    clock.advance(35);
    expect(seen).toEqual([10, 20, 30]);
  });

  it("counts a negative or missing delay as 0, and fires it only when time is moved", () => {
    const clock = createManualClock();
    const seen: string[] = [];
    clock.setTimeout(() => seen.push("negative"), -5);
    clock.setTimeout(() => seen.push("NaN"), NaN);
    expect(seen).toEqual([]);
    clock.advance(0);
    expect(seen).toEqual(["negative", "NaN"]);
    expect(clock.nextDue()).toBeUndefined();
  });

  it("stands at the timer that threw, with the others waiting", () => {
    const clock = createManualClock();
    clock.setTimeout(() => {
      throw new Error("in the timer");
    }, 5);
    clock.setTimeout(() => {}, 6);
    expect(() => clock.advance(10)).toThrow("in the timer");
    expect(clock.now()).toBe(5);
    expect(clock.pending()).toBe(1);
  });

  it("refuses to go back and to run for ever", () => {
    const clock = createManualClock();
    expect(() => clock.advance(-1)).toThrow("advance: -1");
    const again = () => void clock.setTimeout(again, 0);
    clock.setTimeout(again, 0);
    expect(() => clock.advance(1)).toThrow("without letting time pass");
  });
});

describe("realClock", () => {
  it("runs a timer, never early, and not a cleared one", async () => {
    const clock = realClock();
    const start = clock.now();
    const cleared = clock.setTimeout(() => expect.unreachable(), 1);
    clock.clearTimeout(cleared);
    const end = await new Promise<number>((resolve) => clock.setTimeout(() => resolve(clock.now()), 2));
    expect(end).toBeGreaterThanOrEqual(start + 2);
    clock.clearTimeout(12345);
  });
});

describe("withEvents", () => {
  it("queues one call for each listener there is at that moment", () => {
    const queue: (() => void)[] = [];
    const target = withEvents({ name: "it" }, (fn) => queue.push(fn));
    const seen: unknown[] = [];
    const first = function (this: unknown, ...args: unknown[]) {
      seen.push(this === target, args);
    };
    target.on("a", first);
    target.emit("a", 1, 2);
    target.on("a", () => seen.push("second"));
    expect(seen).toEqual([]);
    for (const fn of queue.splice(0)) fn();
    expect(seen).toEqual([true, [1, 2]]);
    target.removeListener("a", first);
    target.emit("a");
    target.removeAllListeners("a");
    target.emit("a");
    for (const fn of queue.splice(0)) fn();
    expect(seen).toEqual([true, [1, 2], "second"]);
    expect(Object.keys(target)).toEqual(["name"]);
  });
});
