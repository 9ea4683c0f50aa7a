import type { Clock, Deliver } from "./clock";
import { boardError } from "./clock";

/** The names `pinMode` takes and `getPinMode` gives. */
export type PinMode =
  | "analog"
  | "input"
  | "input_pullup"
  | "input_pulldown"
  | "output"
  | "opendrain"
  | "opendrain_pullup"
  | "af_output"
  | "af_opendrain";

/** What a watch callback gets. Times are seconds on the board's clock; `lastTime` is undefined at the first change. */
export interface WatchEvent {
  state: boolean;
  lastTime: number | undefined;
  time: number;
  pin: unknown;
}

export interface WatchOptions {
  repeat?: boolean;
  edge?: "rising" | "falling" | "both" | number;
  /** Milliseconds a level must stay before it counts. 0: off. */
  debounce?: number;
}

/**
 * One pin as anybody outside may see it. `value` is the logical level (D0 is a button, low is 1). `pwm.duty` is 0 to 1,
 * `pwm.freq` Hz. `dac` is the output of D25 or D26, `analog` what the outside applies to an ADC pin, both 0 to 1.
 */
export interface PinState {
  mode: PinMode | "undefined";
  value: 0 | 1;
  pwm?: { duty: number; freq: number };
  dac?: number;
  analog?: number;
}

export interface PinBankOptions {
  /** Console lines Espruino prints where it does not throw ("ERROR: …", "WARNING: …"). */
  print?: (line: string) => void;
  /** Makes what a watch event carries as `pin`; the realm gives its Pin objects. Without it: the pin's number. */
  toPin?: (pin: number) => unknown;
  /** How watch callbacks are run. Without it: on the clock, 0 ms later. */
  deliver?: Deliver;
}

/** All pins of the board, by number. Every method throws `Invalid pin` for a number that is none of 0 to 39. */
export interface PinBank {
  /** `pinMode`: undefined or "auto" lets later calls choose the mode again. */
  mode(pin: number, mode?: PinMode | "auto", automatic?: boolean): void;
  /** `getPinMode`: undefined for a pin nothing has configured yet. */
  getMode(pin: number): PinMode | undefined;
  /** `digitalWrite` of one pin. Without a `pinMode` before, the pin becomes an output. */
  write(pin: number, value: unknown): void;
  /** `digitalRead` of one pin. Without a `pinMode` before, the pin becomes an **input**, even one just written to. */
  read(pin: number): 0 | 1;
  /** `Pin.toggle`: true where the pin is high afterwards. */
  toggle(pin: number): boolean;
  /** `analogWrite`: duty 0 to 1, `freq` in Hz (0 or none: 5000, software PWM 50). */
  analogWrite(pin: number, value: number, options?: { freq?: number; soft?: boolean; forceSoft?: boolean }): void;
  /** `analogRead`: 0 to just under 1 in steps of 1/4096; NaN on pins without ADC1 (only 32 to 39 have it). */
  analogRead(pin: number): number;
  /** `digitalPulse`: `time` in ms, or a list of times. */
  pulse(pin: number, value: unknown, time: number | number[]): void;
  /** `Pin.getInfo`. */
  getInfo(pin: number): Record<string, unknown>;
  /** `setWatch`: the watch's id, or undefined (with a console line) for a pin that cannot be watched. */
  setWatch(fn: (event: WatchEvent) => void, pin: number, options?: WatchOptions | boolean): number | undefined;
  /** `clearWatch(id)`. */
  clearWatch(id: number): void;
  /** `clearWatch()`. */
  clearAllWatches(): void;
  /** The outside world drives a pin: electrical level 0 or 1, undefined lets go of it. */
  setInput(pin: number, level: 0 | 1 | boolean | undefined): void;
  /** The outside world applies a voltage to an ADC pin, 0 (GND) to 1 (full range). Throws for other pins. */
  setAnalog(pin: number, value: number): void;
  /**
   * What `reset()` does to the pins: watches and pulses are gone, modes are automatic again, and the pins that start-up
   * configures are inputs. The others (D2 and its LED, D4, D5, …) go on as they were. A new bank is power-up.
   */
  reset(): void;
  /** Every pin that board code or the outside world touched, as plain JSON, keyed "D2". */
  state(): Record<string, PinState>;
}

const PIN_COUNT = 40;
/** ADC1's pins in order of channel; Espruino's ESP32 build has no ADC2. */
const ADC_PINS = [36, 37, 38, 39, 32, 33, 34, 35];
const DAC_PINS = [25, 26];
/** GPIO numbers the chip does not bring out: configuring them changes nothing. */
const MISSING_PINS = [20, 24, 28, 29, 30, 31];
/** What start-up configures as inputs with pull-up; the rest is left alone. */
const PULLED_UP_AT_START = [0, 12, 13, 14, 15, 18, 19, 21, 22, 25, 26, 27, 34, 35, 36, 37, 38, 39];
/** BTN1: the button pulls it low, so Espruino inverts it. Boards carry a resistor that holds it high. */
const BUTTON_PIN = 0;
const BUTTON_DEBOUNCE_MS = 25;
const PWM_FREQ_DEFAULT_HZ = 5000;
const SOFT_PWM_FREQ_DEFAULT_HZ = 50;
/** LEDC channels Espruino sets aside: five at the default frequency, three with a frequency of their own. */
const PWM_CHANNELS = 5;
const PWM_FREE_CHANNELS = 3;
const PWM_STEPS = 1024;
const ADC_STEPS = 4096;
const DAC_STEPS = 256;
const MODES: readonly string[] = [
  "analog",
  "input",
  "input_pullup",
  "input_pulldown",
  "output",
  "opendrain",
  "opendrain_pullup",
  "af_output",
  "af_opendrain",
];

interface Pin {
  number: number;
  mode: PinMode | undefined;
  manual: boolean;
  direction: "in" | "out" | "opendrain";
  pull: 0 | 1 | undefined;
  latch: 0 | 1;
  outside: 0 | 1 | undefined;
  analog: number | undefined;
  pwm: { duty: number; freq: number; soft: boolean } | undefined;
  dac: number | undefined;
  touched: boolean;
}

interface Watch {
  pin: number;
  fn: (event: WatchEvent) => void;
  repeat: boolean;
  edge: number;
  debounce: number;
  state: boolean;
  lastTime: number | undefined;
  timer?: { id: number; state: boolean; changedAt: number };
}

/**
 * The ESP32's pins as Espruino drives them. Input-only pins (34–39) and numbers the chip does not have take writes
 * without effect. Espruino does nothing to keep code off D6–D11; on hardware touching them cuts the chip off from its
 * flash and it hangs, so here it throws.
 */
export function createPins(clock: Clock, options: PinBankOptions = {}): PinBank {
  const print = options.print ?? (() => {});
  const toPin = options.toPin ?? ((pin: number) => pin);
  const deliver: Deliver = options.deliver ?? ((fn) => void clock.setTimeout(fn, 0));
  const watches = new Map<number, Watch>();
  const pulses = new Map<number, { ids: Set<number>; end: number }>();
  let nextWatch = 1;

  const pins: Pin[] = [];
  for (let number = 0; number < PIN_COUNT; number++) {
    const outside = number === BUTTON_PIN ? 1 : undefined;
    pins.push({ ...atPowerUp(number), outside, analog: undefined, touched: false });
  }

  function atPowerUp(number: number): Omit<Pin, "outside" | "analog" | "touched"> {
    const pulled = PULLED_UP_AT_START.includes(number);
    return {
      number,
      mode: pulled ? "input_pullup" : undefined,
      manual: false,
      direction: "in",
      pull: pulled ? pullOf(number, 1) : undefined,
      latch: 0,
      pwm: undefined,
      dac: undefined,
    };
  }

  function touch(number: number): Pin {
    const pin = pins[number];
    if (!pin) throw boardError("Error", "Invalid pin");
    if (number >= 6 && number <= 11) {
      throw boardError("Error", `D${number} is wired to the flash chip: on a board this call hangs the processor`);
    }
    pin.touched = true;
    return pin;
  }

  /** The voltage at the pin, as a logic level. */
  function level(pin: Pin): 0 | 1 {
    const idle = pin.outside ?? pin.pull ?? 0;
    if (pin.pwm) return pin.pwm.duty > 0 ? 1 : 0;
    if (pin.direction === "out") return pin.latch;
    if (pin.direction === "opendrain") return pin.latch === 0 ? 0 : idle;
    return idle;
  }

  /** What Espruino makes of the voltage. */
  function value(pin: Pin): 0 | 1 {
    return flip(pin.number, level(pin));
  }

  /** Runs `change` and reports the edge it made, if any, to the watches. */
  function changing(pin: Pin, change: () => void): void {
    const before = value(pin);
    change();
    const after = value(pin);
    if (after !== before) onEdge(pin, after === 1);
  }

  function configure(pin: Pin, mode: PinMode): void {
    if (mode === "af_output" || mode === "af_opendrain") {
      print(`ERROR: jshPinSetState: Unexpected state: ${mode === "af_output" ? 8 : 9}`);
      return;
    }
    changing(pin, () => {
      pin.mode = mode;
      if (!isOutputCapable(pin.number) && !mode.startsWith("input") && mode !== "analog") return;
      pin.pwm = undefined;
      pin.direction = mode === "output" ? "out" : mode.startsWith("opendrain") ? "opendrain" : "in";
      pin.pull = undefined;
      if (!isOutputCapable(pin.number)) return;
      if (mode === "input_pullup" || mode === "opendrain_pullup") pin.pull = pullOf(pin.number, 1);
      if (mode === "input_pulldown") pin.pull = pullOf(pin.number, 0);
    });
  }

  function setLatch(pin: Pin, high: boolean): void {
    changing(pin, () => {
      if (!isOutputCapable(pin.number)) return;
      if (pin.pwm && !pin.pwm.soft) pin.pwm = undefined;
      pin.dac = undefined;
      pin.latch = flip(pin.number, high ? 1 : 0);
    });
  }

  function output(number: number, high: boolean): void {
    const pin = touch(number);
    setLatch(pin, high);
    if (!pin.manual) configure(pin, "output");
  }

  function input(number: number): 0 | 1 {
    const pin = touch(number);
    if (!pin.manual) configure(pin, "input");
    return value(pin);
  }

  function startPwm(pin: Pin, value: number, freq: number): void {
    const own = freq > 0 && freq !== PWM_FREQ_DEFAULT_HZ;
    const inUse = pins.filter((other) => other !== pin && other.pwm && !other.pwm.soft);
    const sameKind = inUse.filter((other) => (other.pwm?.freq !== PWM_FREQ_DEFAULT_HZ) === own);
    if (sameKind.length >= (own ? PWM_FREE_CHANNELS : PWM_CHANNELS)) {
      print("ERROR: no PWM channel available anymore");
      return;
    }
    const duty = Math.floor(value * PWM_STEPS) / PWM_STEPS;
    if (!isOutputCapable(pin.number)) return;
    pin.pwm = { duty, freq: own ? Math.trunc(freq) : PWM_FREQ_DEFAULT_HZ, soft: false };
  }

  function onEdge(pin: Pin, state: boolean): void {
    const now = clock.now();
    for (const [id, watch] of [...watches]) {
      if (watch.pin !== pin.number) continue;
      if (watch.debounce <= 0) {
        watch.state = state;
        report(id, watch, state, now);
      } else if (watch.timer) {
        clock.clearTimeout(watch.timer.id);
        settle(id, watch, state);
      } else if (state !== watch.state) {
        settle(id, watch, state);
      }
    }
  }

  function settle(id: number, watch: Watch, state: boolean): void {
    const changedAt = clock.now();
    const timer = clock.setTimeout(() => {
      watch.timer = undefined;
      if (state === watch.state) return;
      watch.state = state;
      report(id, watch, state, changedAt);
    }, watch.debounce);
    watch.timer = { id: timer, state, changedAt };
  }

  function report(id: number, watch: Watch, state: boolean, atMs: number): void {
    const time = atMs / 1000;
    const lastTime = watch.lastTime;
    watch.lastTime = time;
    if (watch.edge !== 0 && watch.edge > 0 !== state) return;
    if (!watch.repeat) watches.delete(id);
    deliver(() => watch.fn({ state, lastTime, time, pin: toPin(watch.pin) }));
  }

  function clearWatch(id: number): void {
    const watch = watches.get(id);
    if (!watch) throw boardError("Error", `Unknown Watch ${id}`);
    if (watch.timer) clock.clearTimeout(watch.timer.id);
    watches.delete(id);
  }

  return {
    mode(number, mode, automatic = false) {
      const pin = touch(number);
      if (typeof mode === "string" && MODES.includes(mode)) {
        pin.manual = !automatic;
        configure(pin, mode as PinMode);
        return;
      }
      pin.manual = false;
      if (mode !== undefined && mode !== "auto") throw boardError("Error", "Unknown pin mode");
    },
    getMode(number) {
      const pin = pins[number];
      if (!pin) throw boardError("Error", "Invalid pin");
      return pin.mode;
    },
    write: (number, value) => output(number, Boolean(value)),
    read: input,
    toggle(number) {
      const on = value(touch(number)) === 0;
      output(number, on);
      return on;
    },
    analogWrite(number, wanted, { freq = 0, soft = false, forceSoft = false } = {}) {
      const pin = touch(number);
      const clipped = Math.min(1, Math.max(0, Number(wanted) || 0));
      const value = number === BUTTON_PIN ? 1 - clipped : clipped;
      changing(pin, () => {
        if (DAC_PINS.includes(number)) {
          if (soft || forceSoft) print("ERROR: pin does not support software PWM");
          pin.dac = (Math.floor(value * DAC_STEPS) % DAC_STEPS) / DAC_STEPS;
        } else if (soft && !forceSoft) {
          if (!pin.manual) configure(pin, "output");
          if (!isOutputCapable(number)) return;
          pin.pwm = { duty: value, freq: freq > 0 ? freq : SOFT_PWM_FREQ_DEFAULT_HZ, soft: true };
        } else {
          startPwm(pin, value, Number.isFinite(freq) ? freq : 0);
        }
      });
    },
    analogRead(number) {
      const pin = pins[number];
      if (!pin || !ADC_PINS.includes(number)) return NaN;
      pin.touched = true;
      const voltage = pin.analog ?? level(pin);
      return Math.min(ADC_STEPS - 1, Math.max(0, Math.floor(voltage * ADC_STEPS))) / ADC_STEPS;
    },
    pulse(number, wanted, time) {
      const pin = touch(number);
      const times = Array.isArray(time) ? time : [time];
      if (!Array.isArray(time)) {
        if (typeof time !== "number") throw boardError("Error", `Expecting Number or Array, got ${typeof time}`);
        if (!(time >= 0)) throw boardError("Error", "Pulse Time is less than 0 or not a number");
        if (time === 0) throw boardError("Error", "digitalPulse with time 0 (wait for the last pulse) is not modelled");
      }
      let high = Boolean(wanted);
      const running = pulses.get(number) ?? { ids: new Set<number>(), end: clock.now() };
      if (running.ids.size === 0) {
        output(number, high);
        running.end = clock.now();
      }
      for (const ms of times) {
        high = !high;
        if (!(ms > 0)) continue;
        running.end += ms;
        const next = high;
        const id = clock.setTimeout(() => {
          running.ids.delete(id);
          setLatch(pin, next);
        }, running.end - clock.now());
        running.ids.add(id);
      }
      pulses.set(number, running);
    },
    getInfo(number) {
      const pin = pins[number];
      if (!pin) throw boardError("Error", "Invalid pin");
      const info: Record<string, unknown> = { port: "D", num: number };
      if (number === BUTTON_PIN) info.negated = true;
      if (pin.mode) info.mode = pin.mode;
      info.output = pin.latch;
      const channel = ADC_PINS.indexOf(number);
      if (channel >= 0) info.analog = { ADCs: [1], channel };
      info.functions = {};
      return info;
    },
    setWatch(fn, number, options) {
      if (!pins[number]) {
        print("ERROR: Invalid pin");
        return undefined;
      }
      if (number >= 6 && number <= 12) {
        print(
          "WARNING: Unable to set watch. You may already have a watch on a pin with the same number " +
            "(eg. A0 and B0),\nor this pin cannot be used with watch",
        );
        return undefined;
      }
      const isObject = typeof options === "object" && options !== null;
      const settings: WatchOptions = isObject ? options : { repeat: Boolean(options) };
      const isButton = number === BUTTON_PIN;
      const edge = edgeOf(settings.edge ?? (isButton ? 1 : 0));
      if (typeof fn !== "function") throw boardError("Error", "Function or String not supplied!");
      const debounce = Number(settings.debounce ?? (isButton ? BUTTON_DEBOUNCE_MS : 0));
      const state = input(number) === 1;
      const isWatched = [...watches.values()].some((watch) => watch.pin === number);
      watches.set(nextWatch, {
        pin: number,
        fn,
        repeat: Boolean(settings.repeat),
        edge,
        debounce: debounce > 0 ? debounce : 0,
        state,
        lastTime: undefined,
      });
      const pin = pins[number];
      // The first watch of a pin makes it an input and switches its pull-up on, whatever pinMode said.
      if (!isWatched) {
        pin.direction = "in";
        pin.pwm = undefined;
        if (isOutputCapable(number)) pin.pull = 1;
      }
      return nextWatch++;
    },
    clearWatch(id) {
      if (id === undefined) {
        throw boardError("Error", "clearWatch(undefined) not allowed. Use clearWatch() instead");
      }
      clearWatch(id);
    },
    clearAllWatches() {
      for (const id of [...watches.keys()]) clearWatch(id);
    },
    setInput(number, wanted) {
      const pin = pins[number];
      if (!pin) throw new Error(`setInput: there is no pin ${number}`);
      pin.touched = true;
      changing(pin, () => {
        pin.outside = wanted === undefined ? undefined : wanted ? 1 : 0;
      });
    },
    setAnalog(number, voltage) {
      const pin = pins[number];
      if (!pin || !ADC_PINS.includes(number)) throw new Error(`setAnalog: pin ${number} has no ADC; 32 to 39 have`);
      pin.touched = true;
      pin.analog = Math.min(1, Math.max(0, voltage));
    },
    reset() {
      for (const id of [...watches.keys()]) clearWatch(id);
      for (const { ids } of pulses.values()) for (const id of ids) clock.clearTimeout(id);
      pulses.clear();
      for (const pin of pins) {
        if (PULLED_UP_AT_START.includes(pin.number)) Object.assign(pin, atPowerUp(pin.number), { latch: pin.latch });
        pin.manual = false;
      }
    },
    state() {
      const result: Record<string, PinState> = {};
      for (const pin of pins) {
        if (!pin.touched) continue;
        const entry: PinState = { mode: pin.pwm ? "output" : (pin.mode ?? "undefined"), value: value(pin) };
        if (pin.pwm) entry.pwm = { duty: pin.pwm.duty, freq: pin.pwm.freq };
        if (pin.dac !== undefined) entry.dac = pin.dac;
        if (pin.analog !== undefined) entry.analog = pin.analog;
        result[`D${pin.number}`] = entry;
      }
      return result;
    },
  };
}

function isOutputCapable(pin: number): boolean {
  return pin < 34 && !MISSING_PINS.includes(pin);
}

function flip(pin: number, level: 0 | 1): 0 | 1 {
  return pin === BUTTON_PIN ? (level === 1 ? 0 : 1) : level;
}

/** The resistor behind a pull mode: Espruino turns it round on an inverted pin; 34–39 have none. */
function pullOf(pin: number, wanted: 0 | 1): 0 | 1 | undefined {
  return isOutputCapable(pin) ? flip(pin, wanted) : undefined;
}

function edgeOf(edge: unknown): number {
  if (typeof edge === "number") return Math.sign(edge);
  if (edge === "rising") return 1;
  if (edge === "falling") return -1;
  if (edge === "both") return 0;
  throw boardError("TypeError", "'edge' in setWatch should be 1, -1, 0, 'rising', 'falling' or 'both'");
}
