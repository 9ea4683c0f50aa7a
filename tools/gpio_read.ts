import { pinProblem } from "../firmware/pins";
import type { Tool } from "../firmware/types";

const gpioRead: Tool = {
  name: "gpio_read",
  description:
    "Read a digital pin. Use it to see whether a pin is high or low, a button or switch is pressed, an LED or output " +
    "is on or off. Returns 1 or 0. The board's BOOT button is pin 0: 1 = pressed.",
  parameters: {
    type: "object",
    properties: {
      pin: { type: "integer", description: "GPIO number: 4 for pin D4" },
      pull: {
        type: "string",
        enum: ["up", "down"],
        description: "Internal resistor of an input: up for a button to ground, down for a button to 3.3 V",
      },
    },
    required: ["pin"],
  },
  repeatable: true,
  execute(args) {
    const pin = args.pin;
    let problem = pinProblem(pin, "read");
    if (!problem && args.pull && pin > 33) problem = "Pin " + pin + " has no internal resistor: leave out pull.";
    if (problem) return { isError: true, content: problem };
    const mode = getPinMode(pin);
    if (args.pull && mode !== "output") pinMode(pin, args.pull === "up" ? "input_pullup" : "input_pulldown");
    let value = digitalRead(pin);
    // An output that code at the console switched is an input after digitalRead: it is put back, its level is kept by
    // the chip, and only then is what was read what it drives.
    if (mode === "output" && getPinMode(pin) !== mode) {
      pinMode(pin, mode);
      value = digitalRead(pin);
    }
    return "Pin " + pin + " reads " + (value ? "1 (high, on)" : "0 (low, off)");
  },
};

export default gpioRead;
