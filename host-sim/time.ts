/** Timers of the board, on the injected clock. */
import type { Bridge } from "./bridge";
import type { Clock } from "./clock";
import { Interrupt } from "./realm";
import type { WaitingTimer } from "./state";

const MIN_INTERVAL_MS = 0.1;
/** Espruino takes intervals up to 100 years. */
const MAX_INTERVAL_MS = 3_153_600_000_000;

interface Timer {
  clockId: number;
  due: number;
  interval?: number;
  callback: unknown;
  list: unknown[];
}

export interface Timers {
  /** Runs a callback: a function, or text to evaluate. */
  call(callback: unknown, list: unknown[]): void;
  stop(): void;
  waiting(): WaitingTimer[];
  /** What waiting timers keep alive. */
  roots(): unknown[];
}

/**
 * `setTimeout` and its family. Nothing fires sooner than after 0.1 ms. An interval whose code is interrupted is removed,
 * and `onRemoved` called before the interrupt is reported.
 */
export const installTimers = (bridge: Bridge, clock: Clock, onRemoved: () => void): Timers => {
  const { realm, global, functions, fail } = bridge;
  const timers = new Map<number, Timer>();
  const call = (callback: unknown, list: unknown[]): void => {
    if (typeof callback === "string") realm.evaluate(callback, "event");
    else Reflect.apply(realm.library.current(callback as Function), global, list);
  };
  const schedule = (id: number, timer: Timer): void => {
    timer.clockId = clock.setTimeout(
      () => {
        if (timer.interval === undefined) timers.delete(id);
        else {
          // Intervals keep their own beat however late they are served.
          timer.due += timer.interval;
          if (timer.due < clock.now()) timer.due = clock.now();
          schedule(id, timer);
        }
        realm.enter(() => {
          try {
            call(timer.callback, timer.list);
          } catch (error) {
            if (error instanceof Interrupt && timer.interval !== undefined && timers.get(id) === timer) {
              clock.clearTimeout(timer.clockId);
              timers.delete(id);
              onRemoved();
            }
            throw error;
          }
        });
      },
      Math.max(0, timer.due - clock.now()),
    );
  };
  const intervalOf = (ms: unknown): number => {
    const value = Number(ms);
    if (!(value >= MIN_INTERVAL_MS)) return MIN_INTERVAL_MS;
    return value > MAX_INTERVAL_MS ? fail("Error", "Interval is too long (>100 years)") : value;
  };
  const startTimer = (callback: unknown, ms: unknown, list: unknown[], isInterval: boolean): number => {
    if (typeof callback !== "function" && typeof callback !== "string")
      fail("Error", "Function or String not supplied!");
    const interval = intervalOf(ms);
    // One more than the last in the list: numbers come back once timers are gone.
    const id = Math.max(0, ...timers.keys()) + 1;
    const timer: Timer = { clockId: 0, due: clock.now() + interval, callback, list };
    if (isInterval) timer.interval = interval;
    timers.set(id, timer);
    schedule(id, timer);
    return id;
  };
  const clearTimer = (name: string) =>
    function (...list: unknown[]) {
      if (list.length === 0) {
        for (const timer of timers.values()) clock.clearTimeout(timer.clockId);
        timers.clear();
        return;
      }
      if (list[0] === undefined) fail("Error", `clear${name}(undefined) not allowed. Use clear${name}() instead`);
      const timer = timers.get(list[0] as number);
      if (timer) clock.clearTimeout(timer.clockId);
      timers.delete(list[0] as number);
    };
  functions(global, {
    setTimeout: (callback: unknown, ms?: unknown, ...list: unknown[]) => startTimer(callback, ms, list, false),
    setInterval: (callback: unknown, ms?: unknown, ...list: unknown[]) => startTimer(callback, ms, list, true),
    clearTimeout: clearTimer("Timeout"),
    clearInterval: clearTimer("Interval"),
    changeInterval(id: number, ms: unknown) {
      const timer = timers.get(id);
      if (!timer) return fail("Error", "Unknown Interval");
      timer.interval = intervalOf(ms);
      timer.due = clock.now() + timer.interval;
      clock.clearTimeout(timer.clockId);
      schedule(id, timer);
    },
  });

  return {
    call,
    stop() {
      for (const timer of timers.values()) clock.clearTimeout(timer.clockId);
      timers.clear();
    },
    waiting: () =>
      [...timers].map(([id, { callback, list, interval, due }]) => {
        return { id, callback, list, interval, left: Math.max(0, due - clock.now()) };
      }),
    roots: () => [...timers.values()].flatMap((timer) => [timer.callback, timer.list]),
  };
};
