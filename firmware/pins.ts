/**
 * The pin policy of an ESP32, in one place: what is wrong with using `pin` that way, the reason and which pins to use
 * instead; `""` if nothing is. Output is `write`, the rest are inputs.
 *
 * Even reading is refused on the pins of the flash chip and of the console, because digitalRead makes a pin an input:
 * the flash would be gone, and with it the running program, or the console. Espruino knows ADC1 only (32-39); ADC2
 * belongs to the radio. 37 and 38 are read where a board has them.
 */
export function pinProblem(pin: number, use: "write" | "read" | "adc"): string {
  let why = "";
  if (!(pin >= 0 && pin < 40) || pin === 20 || pin === 24 || (pin > 27 && pin < 32)) why = "does not exist on an ESP32";
  else if (pin > 5 && pin < 12) why = "is wired to the flash chip: using it would crash the board";
  else if (pin === 1 || pin === 3) why = "is the serial console (UART0): using it would cut the console off";
  else if (use === "write" && pin > 33) why = "is input-only: it cannot be an output";
  else if (use === "adc" && pin < 32) {
    const adc2 = pin < 5 || (pin > 11 && pin < 16) || pin > 24;
    why = adc2 ? "is on ADC2, which does not work while Wi-Fi is on" : "has no analog input";
  }
  if (!why) return "";
  const outputs = "2, 4, 5, 13-19, 21-23, 25-27, 32 or 33";
  const instead = use === "adc" ? "32-36 or 39" : use === "read" ? outputs.replace(" or 33", "-36 or 39") : outputs;
  return "Pin " + pin + " " + why + ". Use " + instead + " instead.";
}
