/** Time as the gateway uses it, handed in so that tests own it. Timers never fire inside `setTimeout` itself. */
export interface Clock {
  /** Milliseconds since 1970, or since any other moment: only windows that are kept over a restart need the first. */
  now(): number;
  setTimeout(fn: () => void, ms: number): any;
  clearTimeout(id: any): void;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  setTimeout: (fn, ms) => setTimeout(fn, ms),
  clearTimeout: (id) => clearTimeout(id),
};

/**
 * What `promise` comes to, unless that takes longer than `ms`: then it rejects with what `fault` makes. The promise is
 * not stopped; whoever waits has to end what it waits for.
 */
export function within<T>(clock: Clock, ms: number, promise: Promise<T>, fault: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = clock.setTimeout(() => reject(fault()), ms);
    promise.then(resolve, reject).finally(() => clock.clearTimeout(timer));
  });
}
