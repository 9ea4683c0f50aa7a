import { pinProblem } from "../firmware/pins";
import type { Tool } from "../firmware/types";

const pwmWrite: Tool = {
  name: "pwm_write",
  description:
    "Output PWM on a pin. Use it to dim an LED, set a brightness, fan or motor speed in percent, or move a servo " +
    "(frequency 50). At most 5 pins at 5000 Hz and 3 at other frequencies. Returns what was set; 0 percent is off.",
  parameters: {
    type: "object",
    properties: {
      pin: { type: "integer", description: "GPIO number: 4 for pin D4" },
      duty_percent: { type: "number", minimum: 0, maximum: 100, description: "Duty (brightness) in percent" },
      frequency_hz: { type: "integer", minimum: 1, maximum: 40000, description: "Frequency in Hz, default 5000" },
    },
    required: ["pin", "duty_percent"],
  },
  // Fading and sweeping repeat a call.
  repeatable: true,
  tier: "do",
  execute(args) {
    const pin = args.pin;
    const problem = pinProblem(pin, "write");
    if (problem) return { isError: true, content: problem };
    const duty = args.duty_percent;
    const freq = args.frequency_hz || 5000;
    // Setting the mode first keeps a later digitalRead from making the pin an input; after analogWrite it would end it.
    pinMode(pin, "output");
    // On 25 and 26 Espruino writes the 8-bit DAC instead, where a full 1 overflows to 0 V.
    const isDac = pin === 25 || pin === 26;
    analogWrite(pin, isDac && duty > 99.6 ? 0.996 : duty / 100, { freq });
    if (isDac) return "Pin " + pin + " is a DAC: it now gives a steady " + duty + " percent of 3.3 V, without pulses";
    return "Pin " + pin + " now has PWM with " + duty + " percent duty at " + freq + " Hz";
  },
};

export default pwmWrite;
