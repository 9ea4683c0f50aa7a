import { toJson } from "./text";

/**
 * A number as text, the same on the board and in Node: at most 12 significant digits, so that 0.1 + 0.2 is `0.3` and
 * the board does not write 1234567.891 as 1234567.89100000006 (only a 12th digit may differ: the board's toFixed may
 * cut it). Whole numbers are written in full up to 2^53; beyond, where they are no longer exact, as `about 1.5e+20`.
 * `""` for NaN and infinities: the caller says what was wrong.
 */
export function formatNumber(x: number): string {
  let rest = Math.abs(x);
  if (!isFinite(x)) return "";
  if (rest > 9007199254740992 || (rest && rest < 1e-7)) {
    let exponent = 0;
    // The bounds are those at which 12 digits round to 10 and to 1.
    for (; rest >= 9.999999999995; rest /= 10) exponent++;
    for (; rest < 0.9999999999995; rest *= 10) exponent--;
    return (exponent > 0 ? "about " : "") + formatNumber(x < 0 ? -rest : rest) + (exponent > 0 ? "e+" : "e") + exponent;
  }
  if (x === Math.floor(x)) return "" + x;
  let decimals = 12;
  for (; rest >= 1 && decimals > 1; rest /= 10) decimals--;
  for (; rest < 0.1; rest *= 10) decimals++;
  return x.toFixed(decimals).replace(/0+$/, "").replace(/\.$/, "");
}

/** What a value would have to be by `enum`, `minimum` and `maximum` of a JSON Schema, as `5 or more`; `""` if it is that. */
export function rangeOf(rule: any, value: any): string {
  if (rule.enum && rule.enum.indexOf(value) < 0) return "one of " + toJson(rule.enum);
  // Not without a limit: the board takes "notes" for less than undefined.
  if (typeof value !== "number") return "";
  if (rule.minimum !== undefined && value < rule.minimum) return rule.minimum + " or more";
  return rule.maximum !== undefined && value > rule.maximum ? rule.maximum + " or less" : "";
}
