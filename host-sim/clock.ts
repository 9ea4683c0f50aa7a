/** Milliseconds since the clock started; fractions are allowed. Timers never fire inside `setTimeout` itself. */
export interface Clock {
  now(): number;
  /** Calls `fn` once, `ms` milliseconds from now (negative or not a number counts as 0). Returns an id, 1 or larger. */
  setTimeout(fn: () => void, ms: number): number;
  /** Unknown ids are ignored. */
  clearTimeout(id: number): void;
}

/** A clock that stands still until it is told to move: tests own the time. */
export interface ManualClock extends Clock {
  /**
   * Moves time on by `ms`, from timer to timer, firing each at its own time (ties in the order they were set), timers
   * set on the way included. A timer that throws ends the call at that timer's time; the others stay pending.
   */
  advance(ms: number): void;
  /** How many timers wait. */
  pending(): number;
  /** When the next timer is due, on this clock; undefined where none waits. */
  nextDue(): number | undefined;
}

/** A timer that sets itself again without letting time pass would keep `advance` busy for ever. */
const MAX_TIMERS_AT_ONE_TIME = 100_000;

export function createManualClock(startMs = 0): ManualClock {
  const timers = new Map<number, { due: number; fn: () => void }>();
  let time = startMs;
  let nextId = 1;

  function next(): { id: number; due: number; fn: () => void } | undefined {
    let first: { id: number; due: number; fn: () => void } | undefined;
    for (const [id, timer] of timers) {
      if (!first || timer.due < first.due) first = { id, ...timer };
    }
    return first;
  }

  return {
    now: () => time,
    setTimeout(fn, ms) {
      timers.set(nextId, { due: time + (ms > 0 ? ms : 0), fn });
      return nextId++;
    },
    clearTimeout(id) {
      timers.delete(id);
    },
    advance(ms) {
      if (!(ms >= 0)) throw new Error(`advance: ${ms} is not a number of milliseconds`);
      const end = time + ms;
      let atThisTime = 0;
      for (let timer = next(); timer && timer.due <= end; timer = next()) {
        atThisTime = timer.due > time ? 0 : atThisTime + 1;
        if (atThisTime > MAX_TIMERS_AT_ONE_TIME) {
          throw new Error(`advance: a timer sets itself again and again at ${time} ms without letting time pass`);
        }
        time = Math.max(time, timer.due);
        timers.delete(timer.id);
        timer.fn();
      }
      time = end;
    },
    pending: () => timers.size,
    nextDue: () => next()?.due,
  };
}

/** The computer's own monotonic clock, counted from this call. Pending timers keep the process alive. */
export function realClock(): Clock {
  const start = performance.now();
  const timers = new Map<number, NodeJS.Timeout>();
  let nextId = 1;
  const now = () => performance.now() - start;

  // Node rounds to whole milliseconds and may wake a fraction early: wait again rather than be early.
  function wait(id: number, fn: () => void, due: number): void {
    const handle = setTimeout(
      () => {
        if (now() < due) return wait(id, fn, due);
        timers.delete(id);
        fn();
      },
      Math.max(0, due - now()),
    );
    timers.set(id, handle);
  }

  return {
    now,
    setTimeout(fn, ms) {
      const id = nextId++;
      wait(id, fn, now() + (ms > 0 ? ms : 0));
      return id;
    },
    clearTimeout(id) {
      clearTimeout(timers.get(id));
      timers.delete(id);
    },
  };
}

/** Runs `fn` later, never inside the caller: the board's event queue. */
export type Deliver = (fn: () => void) => void;

type Listener = (...args: any[]) => void;

/** What Espruino gives every object; here only the simulated devices have it. */
export interface Events {
  on(event: string, listener: Listener): void;
  removeListener(event: string, listener: Listener): void;
  removeAllListeners(event?: string): void;
  emit(event: string, ...args: any[]): void;
}

/**
 * Adds `on`, `removeListener`, `removeAllListeners` and `emit` to `target`, hidden from `Object.keys`. As on the board,
 * `emit` takes the listeners there are at that moment and queues one call for each, with `target` as `this`.
 */
export function withEvents<T extends object>(target: T, deliver: Deliver): T & Events {
  const listeners = new Map<string, Listener[]>();
  const methods: Events = {
    on(event, listener) {
      listeners.set(event, [...(listeners.get(event) ?? []), listener]);
    },
    removeListener(event, listener) {
      listeners.set(event, (listeners.get(event) ?? []).filter((other) => other !== listener));
    },
    removeAllListeners(event) {
      if (event === undefined) listeners.clear();
      else listeners.delete(event);
    },
    emit(event, ...args) {
      for (const listener of listeners.get(event) ?? []) deliver(() => listener.apply(target, args));
    },
  };
  for (const [name, value] of Object.entries(methods)) {
    Object.defineProperty(target, name, { value, writable: true, configurable: true });
  }
  return target as T & Events;
}

/** An error as Espruino throws it: `type` is what the console prints before the message. */
export function boardError(type: "Error" | "TypeError" | "SyntaxError" | "InternalError", message: string): Error {
  return Object.assign(new Error(message), { type });
}
