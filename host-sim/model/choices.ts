/** What a parameter makes of a word: a state, an option, a pin in its own form, a number in its own unit. */
import { isAbout, isNamed, isNumeric, names, words } from "./draft";
import { groupsOf, isStopWord, stem, type Token } from "./language";
import type { Param } from "./profile";

/** A pin as the parameter wants it: a number, or a name such as D2. */
export function pinFor(param: Param, token: Token): unknown {
  const number = token.value!;
  if (param.type === "number" || param.type === "integer") return number;
  const letter = /([dap])\d+$/i.exec(token.text)?.[1]?.toUpperCase();
  const options = param.schema.enum ?? param.schema.items?.enum;
  const forms = [`${letter ?? "D"}${number}`, String(number), `GPIO${number}`];
  if (options !== undefined) return forms.find((form) => options.includes(form)) ?? forms[0];
  if (param.type === "array" && param.schema.items?.type !== "string") return number;
  const wantsLetter = letter !== undefined || /\bD\d/.test(param.schema.description ?? "");
  return wantsLetter ? forms[0] : forms[1];
}

/** Brings a percentage or a time to what the parameter counts in. */
export function scale(param: Param, token: Token): number {
  const value = token.value!;
  const { maximum } = param.schema;
  if (token.unit === "percent") {
    if (maximum === 100 || (maximum !== 1 && isAbout(param, words("percent percentage")))) return value;
    if (maximum === 1) return value / 100;
    if (maximum === undefined)
      return /\b0(\.0)?\s*(to|-|–|\.\.+)\s*1(\.0)?\b/.test(param.schema.description ?? "") ? value / 100 : value;
    return Math.round((maximum * value) / 100);
  }
  if (token.unit === "second") {
    if (isAbout(param, words("ms millisecond"))) return value * 1000;
    if (isAbout(param, words("minute")) && !isAbout(param, words("second"))) return value / 60;
    if (isAbout(param, words("hour")) && !isAbout(param, words("second"))) return value / 3600;
  }
  return value;
}

export interface State {
  isOn: boolean;
  tokens: Token[];
}

/** On or off, where it is a state: `turn on the lamp`, `turn it on`, but not `the lamp on pin 2`. */
export function findState(clause: Token[]): State | undefined {
  for (let i = 0; i < clause.length; i += 1) {
    const token = clause[i]!;
    const before = clause[i - 1]?.word ?? "";
    const next = clause[i + 1];
    if (token.kind !== "word") continue;
    if (/^(off|low|false|disable|disabled|deactivate)$/.test(token.word)) return { isOn: false, tokens: [token] };
    if (/^(high|true|enable|enabled|activate)$/.test(token.word)) return { isOn: true, tokens: [token] };
    if (token.word === "light" && (next?.word === "up" || (before === "" && next?.kind === "pin"))) {
      return { isOn: true, tokens: [token] };
    }
    if (token.word !== "on") continue;
    const afterVerb = /^(turn|turning|turned|switch|switched|power|put|to|be|again|back|light|set)$/.test(before);
    const endsClause = next === undefined || (next.kind === "symbol" && /^[.,;!?)]$/.test(next.text));
    const endsPhrase = /^(please|now|again|and|then|for|at|with|too)$/.test(next?.word ?? "");
    if (afterVerb || endsClause || endsPhrase) return { isOn: true, tokens: [token] };
  }
  return undefined;
}

/** Whether on or off can be a value of the parameter. */
export function takesState(param: Param): boolean {
  const described = (param.schema.description ?? "").toLowerCase();
  const speaksOfIt = /\b(on|off|high|low|enable[ds]?|disable[ds]?|true|false)\b/.test(described);
  if (param.type === "boolean")
    return param.required || speaksOfIt || isNamed(param, words("on state power enable value"));
  if (isNamed(param, names.pin)) return false;
  if (isNumeric(param))
    return (param.schema.minimum === 0 && param.schema.maximum === 1 && param.type === "integer") || speaksOfIt;
  return param.type === "string" && speaksOfIt && param.required;
}

export function stateFor(param: Param, isOn: boolean): unknown {
  if (param.type === "boolean") return isOn;
  if (isNumeric(param)) return isOn ? (param.schema.maximum ?? 1) : (param.schema.minimum ?? 0);
  const pairs = [
    ["on", "off"],
    ["high", "low"],
    ["true", "false"],
    ["enabled", "disabled"],
  ] as const;
  const described = (param.schema.description ?? "").toLowerCase();
  const pair = pairs.find(([on, off]) => described.includes(on) && described.includes(off)) ?? pairs[0];
  return isOn ? pair[0] : pair[1];
}

export interface FoundOption {
  option: unknown;
  tokens: Token[];
}

/**
 * The option of an enum that the words name: on or off, literally, or by a word that means the same and no other
 * option. `isNamed`: the parameter itself is named, so that even a small word may be an option (`pull up`).
 */
export function findOption(
  options: unknown[],
  clause: Token[],
  state: State | undefined,
  isNamed: boolean,
): FoundOption | undefined {
  const literal = literalOption(options, clause, isNamed);
  const mayBeState = literal === undefined || /^(on|off)$/i.test(String(literal.option));
  return (mayBeState ? stateOption(options, state) : undefined) ?? literal ?? similarOption(options, clause);
}

/** The longest option that stands in the clause, the first of equally long ones. */
function literalOption(options: unknown[], clause: Token[], isNamed: boolean): FoundOption | undefined {
  const found = options.flatMap((option) => {
    if (typeof option === "number") {
      const token = clause.find(({ kind, value }) => kind === "number" && value === option);
      return token === undefined ? [] : [{ option, tokens: [token] }];
    }
    const parts =
      String(option)
        .toLowerCase()
        .match(/[\p{L}\p{N}]+/gu) ?? [];
    const isSmall = parts.length === 1 && isStopWord(parts[0]!) && !isNamed;
    const tokens = parts.map((part) => clause.find((token) => isWord(token, part)));
    const isWhole = tokens.length > 0 && tokens.every((token) => token !== undefined);
    return isWhole && !isSmall ? [{ option, tokens }] : [];
  });
  const place = ({ tokens }: FoundOption): number => tokens[0]!.start;
  return found.sort((a, b) => b.tokens.length - a.tokens.length || place(a) - place(b))[0];
}

/** Whether a token is a word of an option: as written, by its stem, or as the unit of a number (`20 USD`). */
function isWord(token: Token, word: string): boolean {
  if (token.kind === "number" && token.unit !== undefined) return token.text.toLowerCase().endsWith(` ${word}`);
  return token.word === word || token.text.toLowerCase() === word || (token.stem !== "" && token.stem === stem(word));
}

function stateOption(options: unknown[], state: State | undefined): FoundOption | undefined {
  if (state === undefined) return undefined;
  const words = state.isOn ? ["on", "high", "true", "enabled", "1"] : ["off", "low", "false", "disabled", "0"];
  const texts = options.map((option) => String(option).toLowerCase());
  const at = words.map((word) => texts.indexOf(word)).find((i) => i >= 0);
  return at === undefined ? undefined : { option: options[at], tokens: state.tokens };
}

function similarOption(options: unknown[], clause: Token[]): FoundOption | undefined {
  const similar = options.flatMap((option) => {
    const groups = groupsOf(stem(String(option).toLowerCase()));
    const token = clause.find((candidate) => [...groupsOf(candidate.stem)].some((group) => groups.has(group)));
    return token === undefined ? [] : [{ option, tokens: [token] }];
  });
  return similar.length === 1 ? similar[0] : undefined;
}
