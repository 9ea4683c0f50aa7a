import { describe, expect, it } from "vitest";
import { createManualClock } from "../../host-sim/clock";
import { createPins, type WatchEvent } from "../../host-sim/pin";

function setUp() {
  const clock = createManualClock();
  const lines: string[] = [];
  const pins = createPins(clock, { print: (line) => lines.push(line) });
  return { clock, pins, lines };
}

describe("digital pins", () => {
  it("become outputs when written to", () => {
    const { pins } = setUp();
    expect(pins.getMode(2)).toBeUndefined();
    pins.write(2, 1);
    expect(pins.state()).toEqual({ D2: { mode: "output", value: 1 } });
    pins.write(2, 0);
    expect(pins.state().D2.value).toBe(0);
    expect(pins.toggle(2)).toBe(true);
    expect(pins.getInfo(2)).toEqual({ port: "D", num: 2, mode: "output", output: 1, functions: {} });
  });

  it("become inputs when read, which switches an output off", () => {
    const { pins } = setUp();
    pins.write(2, 1);
    expect(pins.read(2)).toBe(0);
    expect(pins.getMode(2)).toBe("input");
    pins.mode(4, "output");
    pins.write(4, 1);
    expect(pins.read(4)).toBe(1);
  });

  it.each([
    ["input", 0],
    ["input_pullup", 1],
    ["input_pulldown", 0],
  ] as const)("%s without a signal reads %i, with one the signal", (mode, idle) => {
    const { pins } = setUp();
    pins.mode(5, mode);
    expect(pins.read(5)).toBe(idle);
    pins.setInput(5, 1);
    expect(pins.read(5)).toBe(1);
    pins.setInput(5, 0);
    expect(pins.read(5)).toBe(0);
    pins.setInput(5, undefined);
    expect(pins.read(5)).toBe(idle);
  });

  it("pull down only, as open drain", () => {
    const { pins } = setUp();
    pins.mode(5, "opendrain_pullup");
    pins.write(5, 1);
    expect(pins.read(5)).toBe(1);
    pins.setInput(5, 0);
    expect(pins.read(5)).toBe(0);
    pins.setInput(5, 1);
    pins.write(5, 0);
    expect(pins.read(5)).toBe(0);
  });

  it("keep a mode set by pinMode until auto", () => {
    const { pins } = setUp();
    pins.mode(5, "input_pullup");
    pins.write(5, 1);
    expect(pins.getMode(5)).toBe("input_pullup");
    pins.mode(5, "auto");
    pins.write(5, 1);
    expect(pins.getMode(5)).toBe("output");
    expect(() => pins.mode(5, "sideways" as any)).toThrow("Unknown pin mode");
  });

  it("start as the board starts them: D0 is the button, pulled high, and reads inverted", () => {
    const { pins } = setUp();
    expect(pins.getMode(0)).toBe("input_pullup");
    expect(pins.getMode(34)).toBe("input_pullup");
    expect(pins.read(0)).toBe(0);
    pins.setInput(0, 0);
    expect(pins.read(0)).toBe(1);
  });

  it("34 to 39 take no output and have no pull resistor", () => {
    const { pins } = setUp();
    pins.mode(34, "output");
    pins.write(34, 1);
    expect(pins.state().D34).toEqual({ mode: "output", value: 0 });
    pins.setInput(34, 1);
    pins.write(34, 0);
    expect(pins.state().D34.value).toBe(1);
    pins.mode(35, "input_pullup");
    expect(pins.read(35)).toBe(0);
    pins.analogWrite(34, 1);
    expect(pins.state().D34.pwm).toBeUndefined();
  });

  it("6 to 11 are the flash chip's, 40 is no pin", () => {
    const { pins } = setUp();
    for (const pin of [6, 11]) {
      expect(() => pins.write(pin, 1)).toThrow(`D${pin} is wired to the flash chip`);
      expect(() => pins.read(pin)).toThrow(`D${pin} is wired to the flash chip`);
    }
    expect(() => pins.write(40, 1)).toThrow("Invalid pin");
    expect(() => pins.read(-1)).toThrow("Invalid pin");
    expect(() => pins.mode(NaN, "input")).toThrow("Invalid pin");
    expect(pins.state()).toEqual({});
  });
});

describe("PWM, DAC and ADC", () => {
  it("drives PWM in 1024 steps, 5000 Hz unless told", () => {
    const { pins } = setUp();
    pins.analogWrite(2, 0.5);
    pins.analogWrite(4, 0.3333, { freq: 50 });
    pins.analogWrite(5, 7, { soft: true });
    expect(pins.state()).toEqual({
      D2: { mode: "output", value: 1, pwm: { duty: 0.5, freq: 5000 } },
      D4: { mode: "output", value: 1, pwm: { duty: 341 / 1024, freq: 50 } },
      D5: { mode: "output", value: 1, pwm: { duty: 1, freq: 50 } },
    });
    pins.write(2, 0);
    expect(pins.state().D2).toEqual({ mode: "output", value: 0 });
  });

  it("has five channels at the default frequency and three of their own", () => {
    const { pins, lines } = setUp();
    for (const pin of [12, 13, 14, 15, 16]) pins.analogWrite(pin, 0.5);
    for (const pin of [17, 18, 19]) pins.analogWrite(pin, 0.5, { freq: 100 + pin });
    expect(lines).toEqual([]);
    pins.analogWrite(21, 0.5);
    pins.analogWrite(22, 0.5, { freq: 1000 });
    expect(lines).toEqual(Array(2).fill("ERROR: no PWM channel available anymore"));
    pins.analogWrite(12, 0.25);
    expect(pins.state().D12.pwm?.duty).toBe(0.25);
  });

  it("D25 and D26 are DACs, whose full scale overflows to 0 as on the board", () => {
    const { pins } = setUp();
    pins.analogWrite(25, 0.5);
    expect(pins.state().D25.dac).toBe(0.5);
    pins.analogWrite(25, 1);
    expect(pins.state().D25.dac).toBe(0);
  });

  it("reads analog values in 4096 steps, below 1, on 32 to 39 only", () => {
    const { pins } = setUp();
    pins.setAnalog(33, 0.5001);
    pins.setAnalog(36, 1);
    expect(pins.analogRead(33)).toBe(2048 / 4096);
    expect(pins.analogRead(36)).toBe(4095 / 4096);
    expect(pins.analogRead(39)).toBe(0);
    expect(pins.analogRead(2)).toBeNaN();
    expect(() => pins.setAnalog(2, 0.5)).toThrow("pin 2 has no ADC");
    expect(pins.state().D33).toEqual({ mode: "undefined", value: 0, analog: 0.5001 });
  });
});

describe("digitalPulse", () => {
  it("makes a square wave on the clock and queues what follows", () => {
    const { clock, pins } = setUp();
    const seen: string[] = [];
    const look = () => seen.push(`${clock.now()}:${pins.state().D2.value}`);
    pins.pulse(2, 1, [5, 2, 4]);
    pins.pulse(2, 1, 3);
    for (let i = 0; i < 15; i++, clock.advance(1)) look();
    expect(seen.join(" ")).toBe("0:1 1:1 2:1 3:1 4:1 5:0 6:0 7:1 8:1 9:1 10:1 11:0 12:0 13:0 14:0");
    expect(() => pins.pulse(2, 1, -1)).toThrow("Pulse Time is less than 0 or not a number");
    expect(() => pins.pulse(2, 1, 0)).toThrow("not modelled");
    expect(() => pins.pulse(2, 1, "x" as any)).toThrow("Expecting Number or Array");
  });
});

describe("watches", () => {
  it("reports every change with times in seconds, later than the change", () => {
    const { clock, pins } = setUp();
    const seen: WatchEvent[] = [];
    pins.mode(4, "input_pulldown");
    const id = pins.setWatch((event) => seen.push(event), 4, { repeat: true, edge: "both" });
    expect(id).toBe(1);
    pins.setInput(4, 0);
    clock.advance(1000);
    seen.length = 0;
    pins.setInput(4, 1);
    expect(seen).toEqual([]);
    clock.advance(500);
    pins.setInput(4, 0);
    clock.advance(0);
    expect(seen).toMatchObject([
      { state: true, time: 1, pin: 4 },
      { state: false, time: 1.5, lastTime: 1, pin: 4 },
    ]);
  });

  it("is over after one edge without repeat, and counts the other edge for lastTime only", () => {
    const { clock, pins } = setUp();
    const seen: WatchEvent[] = [];
    pins.setInput(4, 0);
    pins.setWatch((event) => seen.push(event), 4, { edge: "falling" });
    pins.setInput(4, 1);
    clock.advance(10);
    pins.setInput(4, 0);
    pins.setInput(4, 1);
    pins.setInput(4, 0);
    clock.advance(0);
    expect(seen).toEqual([{ state: false, lastTime: 0, time: 0.01, pin: 4 }]);
  });

  it("waits until a bouncing level has settled", () => {
    const { clock, pins } = setUp();
    const seen: WatchEvent[] = [];
    pins.setInput(4, 0);
    pins.setWatch((event) => seen.push(event), 4, { repeat: true, debounce: 20 });
    for (const level of [1, 0, 1, 0, 1] as const) {
      pins.setInput(4, level);
      clock.advance(5);
    }
    expect(seen).toEqual([]);
    clock.advance(20);
    expect(seen).toMatchObject([{ state: true, time: 0.02 }]);
    pins.setInput(4, 0);
    clock.advance(10);
    pins.setInput(4, 1);
    clock.advance(100);
    expect(seen).toHaveLength(1);
  });

  it("of the button wait for a press and debounce by themselves", () => {
    const { clock, pins } = setUp();
    const seen: boolean[] = [];
    pins.setWatch(({ state }) => seen.push(state), 0, true);
    pins.setInput(0, 0);
    clock.advance(24);
    expect(seen).toEqual([]);
    clock.advance(1);
    pins.setInput(0, 1);
    clock.advance(100);
    expect(seen).toEqual([true]);
  });

  it("can be cleared; what cannot be watched is said on the console", () => {
    const { clock, pins, lines } = setUp();
    const seen: unknown[] = [];
    const id = pins.setWatch(() => seen.push(1), 4, true) as number;
    pins.clearWatch(id);
    pins.setWatch(() => seen.push(2), 5, true);
    pins.clearAllWatches();
    for (const pin of [4, 5]) {
      pins.setInput(pin, 0);
      pins.setInput(pin, 1);
    }
    clock.advance(100);
    expect(seen).toEqual([]);
    expect(() => pins.clearWatch(id)).toThrow("Unknown Watch 1");
    expect(() => pins.clearWatch(undefined as any)).toThrow("clearWatch(undefined) not allowed");
    expect(pins.setWatch(() => {}, 12)).toBeUndefined();
    expect(pins.setWatch(() => {}, 99)).toBeUndefined();
    expect(lines).toEqual([expect.stringMatching(/^WARNING: Unable to set watch\. /), "ERROR: Invalid pin"]);
    expect(() => pins.setWatch(() => {}, 4, { edge: "up" as any })).toThrow("'edge' in setWatch should be");
  });
});

it("reset ends watches and pulses, makes inputs of the usual pins and leaves the LED on", () => {
  const { clock, pins } = setUp();
  pins.write(2, 1);
  pins.write(12, 1);
  pins.mode(16, "input_pulldown");
  pins.setInput(4, 1);
  pins.setWatch(() => expect.unreachable(), 4, true);
  pins.pulse(5, 1, 50);
  pins.reset();
  expect(pins.state()).toMatchObject({ D2: { mode: "output", value: 1 }, D12: { mode: "input_pullup", value: 1 } });
  pins.write(16, 1);
  expect(pins.getMode(16)).toBe("output");
  pins.setInput(4, 0);
  pins.setInput(4, 1);
  clock.advance(100);
  expect(pins.read(4)).toBe(1);
  expect(clock.pending()).toBe(0);
});
