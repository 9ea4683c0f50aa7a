import { pinProblem } from "../firmware/pins";
import type { Tool } from "../firmware/types";

const gpioWrite: Tool = {
  name: "gpio_write",
  description:
    "Switch a pin on or off. Use it to turn on or turn off an LED, lamp, relay or other output, to set a pin high or " +
    "low, and again and again to blink. The board's own LED is pin 2. Returns the pin's new level.",
  parameters: {
    type: "object",
    properties: {
      pin: { type: "integer", description: "GPIO number: 2 for pin D2" },
      value: { type: "integer", minimum: 0, maximum: 1, description: "1 = on (high), 0 = off (low)" },
    },
    required: ["pin", "value"],
  },
  // Blinking is the same two calls over and over.
  repeatable: true,
  tier: "do",
  execute(args) {
    const problem = pinProblem(args.pin, "write");
    if (problem) return { isError: true, content: problem };
    // In this order the pin never shows the wrong level. Setting the mode keeps a later digitalRead from making the
    // pin an input, which would switch off what it drives.
    digitalWrite(args.pin, args.value);
    pinMode(args.pin, "output");
    return "Pin " + args.pin + " is now " + (args.value ? "on (1, high)" : "off (0, low)");
  },
};

export default gpioWrite;
