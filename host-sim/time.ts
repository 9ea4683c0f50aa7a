/** `Date`, `getTime` and timers of the board, all on the injected clock. */
import type { Bridge } from "./bridge";
import type { Clock } from "./clock";

const MIN_INTERVAL_MS = 1;
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
  /** What waiting timers keep alive. */
  roots(): unknown[];
}

/** `Date` and `getTime`: unix time that began at `timeAtBootMs` and runs with the clock. */
export const installDate = (bridge: Bridge, clock: Clock, timeAtBootMs: number): void => {
  const { library, global, native, functions } = bridge;
  const { method, str } = library;
  let timeOffset = timeAtBootMs;
  const now = () => timeOffset + clock.now();
  const NativeDate = library.NativeDate as any;
  const EspruinoDate: any = native(function (this: unknown, ...list: any[]) {
    let time: number;
    if (list.length === 0) time = Math.floor(now());
    else if (list.length === 1) time = typeof list[0] === "string" ? parseDate(list[0]) : Number(list[0]);
    else time = Date.UTC(...(list as [number, number]));
    return new NativeDate(time);
  });
  const parseDate = (text: string): number => {
    const hasZone = /(Z|GMT|UTC|[+-]\d\d:?\d\d)\s*(\(.*\))?$/.test(text);
    const time = hasZone ? Date.parse(text) : Date.parse(`${text}Z`);
    return Number.isNaN(time) ? Date.parse(`${text} UTC`) : time;
  };
  EspruinoDate.prototype = NativeDate.prototype;
  method(NativeDate.prototype, "constructor", EspruinoDate);
  functions(EspruinoDate, {
    now: () => Math.floor(now()),
    parse: (text: unknown) => parseDate(str(text)),
  });
  // The board's time zone is UTC until E.setTimeZone, whatever the computer's is.
  for (const name of ["FullYear", "Month", "Date", "Day", "Hours", "Minutes", "Seconds", "Milliseconds"]) {
    method(NativeDate.prototype, `get${name}`, NativeDate.prototype[`getUTC${name}`]);
    if (name !== "Day") method(NativeDate.prototype, `set${name}`, NativeDate.prototype[`setUTC${name}`]);
  }
  functions(NativeDate.prototype, {
    getTimezoneOffset: () => 0,
    getIsDST: () => false,
    toString(this: any) {
      const [day, date, month, year, time] = new Date(this.getTime())
        .toUTCString()
        .replace(",", "")
        .split(" ") as string[];
      return `${day} ${month} ${Number(date)} ${year} ${time} GMT+0000`;
    },
    toUTCString(this: any) {
      return new Date(this.getTime()).toUTCString();
    },
  });
  for (const name of Object.getOwnPropertyNames(NativeDate.prototype))
    if (/Locale|GMT|^toDateString$|^toTimeString$|^[gs]etYear$|^setUTC/.test(name)) delete NativeDate.prototype[name];
  method(global, "Date", EspruinoDate);
  functions(global, {
    getTime: () => now() / 1000,
    setTime: (seconds: number) => void (timeOffset = seconds * 1000 - clock.now()),
  });
};

/** `setTimeout` and its family. Nothing fires sooner than after 1 ms. */
export const installTimers = (bridge: Bridge, clock: Clock): Timers => {
  const { realm, global, functions, fail } = bridge;
  const timers = new Map<number, Timer>();
  const call = (callback: unknown, list: unknown[]): void => {
    if (typeof callback === "string") realm.evaluate(callback, "");
    else Reflect.apply(callback as Function, global, list);
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
        realm.enter(() => call(timer.callback, timer.list));
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
    roots: () => [...timers.values()].flatMap((timer) => [timer.callback, timer.list]),
  };
};
