import { pinProblem } from "../firmware/pins";
import type { Tool } from "../firmware/types";

const adcRead: Tool = {
  name: "adc_read",
  description:
    "Measure the analog voltage on a pin. Use it for an analog sensor, potentiometer or battery, on pins 32 to 39. " +
    "Returns the value from 0 to 1 and about how many volts (0 to 3.3) it is.",
  parameters: {
    type: "object",
    properties: { pin: { type: "integer", description: "GPIO number, 32 to 39: 34 for pin D34" } },
    required: ["pin"],
  },
  repeatable: true,
  execute(args) {
    const problem = pinProblem(args.pin, "adc");
    if (problem) return { isError: true, content: problem };
    const value = analogRead(args.pin);
    return "Pin " + args.pin + " reads " + value.toFixed(3) + " (about " + (value * 3.3).toFixed(2) + " V)";
  },
};

export default adcRead;
