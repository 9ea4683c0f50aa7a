/** Fills a tool's parameters from the words of a request, by the tool's schema and nothing else. */
import { groupsOf, isStopWord, stem, unitTopics, type Token } from "./language";
import { meetsName, type Param, type ToolProfile } from "./profile";

/** Stands for the result of an earlier step until there is one. */
export class ResultOf {
  constructor(
    readonly step: number,
    readonly as: "number" | "text",
  ) {}
}

/** A result that is known already, as a text and, where it is or holds one, as a number. */
export interface KnownResult {
  number?: number;
  text: string;
}

/** Arguments of a call that was made before; what is not said again is taken from there. */
export interface EarlierCall {
  tool: string;
  args: Record<string, unknown>;
}

export interface Filling {
  args: Record<string, unknown>;
  /** Required parameters that nothing was found for, with the reason where a value was found and did not fit. */
  missing: { param: Param; reason?: string }[];
  /** How many parameters were filled by something that was plainly meant for them. */
  evidence: number;
  /** Values of the request (numbers, pins, files, quoted texts …) that found no parameter. */
  unused: Token[];
  used: Set<Token>;
}

export interface FillContext {
  /** The text that tokens point into. */
  text: string;
  /** What "the result" or "it" means here: an earlier step, or a value from the conversation. */
  reference?: ResultOf | KnownResult;
  earlier?: EarlierCall;
}

const valueKinds = new Set(["number", "quoted", "file", "pin", "email", "url", "time"]);
const referencePattern =
  /^(it|its|that|this|them|result|results|answer|outcome|sum|product|total|value|remainder|difference)$/;
const anaphoraPattern = /^(it|its|that|this|same|again|now|back|too|also|there|them)$/;
const names = {
  pin: words("pin gpio io"),
  file: words("path file filename folder directory dir document"),
  email: words("to recipient email mail address receiver cc"),
  url: words("url link uri website site webpage page address"),
  time: words("time date when day at start begin end deadline due hour"),
  place: words("city location place town country region where destination area"),
  target: words("to recipient receiver destination dest target language lang person contact"),
  source: words("from source origin"),
  topic: words("about topic subject theme"),
  title: words("name title label called"),
  content: words("text message content body msg say saying note data string sentence"),
  before: words("old find search before from original target"),
  after: words("new replacement replace with after by to"),
  first: words("start first from begin offset index"),
  expression: words("expression formula equation calculation"),
};

function words(list: string): Set<string> {
  return new Set(list.split(" ").map(stem));
}

function isNamed(param: Param, set: Set<string>): boolean {
  return [...param.nameStems].some((s) => set.has(s));
}

function isAbout(param: Param, set: Set<string>): boolean {
  return isNamed(param, set) || [...param.topics].some((s) => set.has(s));
}

/** Fills what can be filled. Never invents a value: what is not said stays missing. */
export function fill(profile: ToolProfile, clause: Token[], context: FillContext): Filling {
  const args: Record<string, unknown> = {};
  const reasons = new Map<string, string>();
  const used = new Set<Token>();
  let evidence = 0;
  const open = (): Param[] => profile.params.filter((param) => !Object.hasOwn(args, param.name));
  const inOrder = (): Param[] => [...open()].sort((a, b) => Number(b.required) - Number(a.required));
  const free = (kind: Token["kind"]): Token[] => clause.filter((token) => token.kind === kind && !used.has(token));

  /** Sets a parameter if the value fits it; otherwise notes why it did not. */
  const put = (param: Param, value: unknown, tokens: Token[], weight: number): boolean => {
    if (value === undefined) return false;
    const reason = value instanceof ResultOf ? undefined : misfit(param, value);
    if (reason !== undefined) {
      reasons.set(param.name, reason);
      return false;
    }
    args[param.name] = value;
    tokens.forEach((token) => used.add(token));
    evidence += weight;
    return true;
  };

  const state = findState(clause);

  const fillPins = (): void => {
    const exact = open().filter((param) => isNamed(param, names.pin));
    const params =
      exact.length > 0 ? exact : open().filter((param) => param.topics.has("pin") && param.type !== "boolean");
    for (const param of params) {
      const tokens = free("pin");
      if (tokens.length === 0) return;
      if (param.type === "array")
        put(
          param,
          tokens.map((token) => pinFor(param, token)),
          tokens,
          1,
        );
      else put(param, pinFor(param, tokens[0]!), [tokens[0]!], 1);
    }
  };

  const fillKind = (kind: Token["kind"], set: Set<string>): void => {
    for (const matches of [isNamed, isAbout]) {
      for (const param of inOrder()) {
        const tokens = free(kind);
        if (tokens.length === 0) return;
        if (!matches(param, set) || param.schema.enum !== undefined) continue;
        if (param.type === "array")
          put(
            param,
            tokens.map((token) => token.text),
            tokens,
            1,
          );
        else if (param.type === "string") put(param, tokens[0]!.text, [tokens[0]!], 1);
      }
    }
  };

  const fillUnits = (): void => {
    for (const token of free("number").filter((candidate) => candidate.unit !== undefined)) {
      const topics = words(unitTopics[token.unit!]!);
      const numeric = inOrder().filter(isNumeric);
      const param = numeric.find((p) => isNamed(p, topics)) ?? numeric.find((p) => isAbout(p, topics));
      if (param !== undefined) put(param, scale(param, token), [token], 1);
    }
  };

  const fillCuedNumbers = (): void => {
    for (const token of free("number")) {
      const cues = cuesOf(clause, token);
      const numeric = inOrder().filter(isNumeric);
      const closeness = (param: Param): number => {
        const met = (stems: Set<string>, list: string[]): number => list.filter((cue) => stems.has(cue)).length;
        const named = met(param.nameStems, [...cues.before, ...cues.after]);
        if (named === 0) return param.required ? 0 : 0.1 * met(param.topics, [...cues.before, ...cues.after]);
        // "row 5" is a place, "5 rows" a number of them.
        const isPlace = isNamed(param, names.first);
        return named / param.nameStems.size + (isPlace ? 2 * met(param.nameStems, cues.before) - 1 : 0);
      };
      const param = numeric.sort((a, b) => closeness(b) - closeness(a))[0];
      if (param !== undefined && closeness(param) > 0) put(param, scale(param, token), [token], 0.5);
    }
  };

  const fillChoices = (): void => {
    for (const param of open()) {
      const options = param.schema.enum;
      if (options !== undefined) {
        const isNamedHere = clause.some((token) => param.nameStems.has(token.stem));
        const found = findOption(options, clause, state, isNamedHere);
        if (found !== undefined) put(param, found.option, found.tokens, 1);
      } else if (state !== undefined && takesState(param) && !clauseHasNumberFor(param)) {
        put(param, stateFor(param, state.isOn), state.tokens, 1);
      } else if (param.type === "boolean") {
        const at = clause.findIndex((token) => token.kind === "word" && param.nameStems.has(token.stem));
        if (at >= 0) put(param, !/^(without|no|not)$/.test(clause[at - 1]?.word ?? ""), [clause[at]!], 0.5);
      }
    }
  };

  const clauseHasNumberFor = (param: Param): boolean =>
    isNumeric(param) && free("number").some((token) => misfit(param, scale(param, token)) === undefined);

  const fillQuoted = (): void => {
    for (const token of free("quoted")) {
      const textual = inOrder().filter((param) => param.type === "string" && param.schema.enum === undefined);
      const cue = wordsBefore(clause, token, 3);
      const byCue =
        textual.find((param) => cue.some((word) => param.nameStems.has(stem(word)))) ??
        (/^(with|by|to)$/.test(cue[0] ?? "") ? textual.find((param) => isNamed(param, names.after)) : undefined) ??
        (/^(replace|change|find|from)$/.test(cue[0] ?? "")
          ? textual.find((p) => isNamed(p, names.before))
          : undefined) ??
        (/^(called|named|titled)$/.test(cue[0] ?? "") ? textual.find((p) => isNamed(p, names.title)) : undefined);
      const looksLikePath = /^[\w./-]+$/.test(token.word) && !token.word.includes(" ");
      const byPlace =
        textual.find((param) => !isNamed(param, names.file) && (param.required || isNamed(param, names.content))) ??
        (looksLikePath ? textual.find((param) => isNamed(param, names.file)) : undefined);
      const param = byCue ?? byPlace;
      if (param !== undefined) put(param, token.word, [token], 1);
    }
    for (const param of open()) {
      if (param.type !== "array" || param.schema.items?.type !== "string") continue;
      const tokens = free("quoted");
      if (tokens.length > 0)
        put(
          param,
          tokens.map((token) => token.word),
          tokens,
          1,
        );
    }
  };

  const fillNumbers = (): void => {
    for (const param of open()) {
      const itemType = param.schema.items?.type;
      if (param.type !== "array" || (itemType !== "number" && itemType !== "integer")) continue;
      const tokens = free("number");
      if (tokens.length > 0)
        put(
          param,
          tokens.map((token) => token.value),
          tokens,
          1,
        );
    }
    for (const param of open().filter((p) => isNumeric(p) && p.required)) {
      if (context.reference !== undefined && referenceComesFirst(clause, free("number")[0])) fillReference(param);
      if (Object.hasOwn(args, param.name)) continue;
      const token = free("number").find((candidate) => candidate.unit === undefined || isPlain(param));
      if (token !== undefined) put(param, scale(param, token), [token], 0);
    }
    const optional = open().filter((p) => isNumeric(p) && !p.required);
    const rest = free("number").filter((token) => token.unit === undefined);
    const isRange = clause[clause.indexOf(rest[0]!) - 1]?.word === "to";
    if (optional.length === 1 && rest.length === 1 && !isRange)
      put(optional[0]!, scale(optional[0]!, rest[0]!), rest, 0);
  };

  let referenceUsed = false;
  const fillReference = (param: Param): void => {
    const reference = context.reference;
    const word = clause.find((token) => referencePattern.test(token.word) && !used.has(token));
    if (reference === undefined || word === undefined || referenceUsed) return;
    const as = isNumeric(param) ? "number" : "text";
    if (as === "text" && (param.type !== "string" || param.schema.enum !== undefined || isNamed(param, names.file)))
      return;
    if (isNamed(param, names.pin)) return;
    const value = reference instanceof ResultOf ? new ResultOf(reference.step, as) : reference[as];
    referenceUsed = put(param, value, [word], 1);
  };

  /** The run of words after one of these words, as text: `in New York`, `to German`, `saying I am late`. */
  const after = (cue: RegExp, toTheEnd: boolean): Token[] => {
    for (let at = 0; at < clause.length; at += 1) {
      if (!cue.test(clause[at]!.word) || used.has(clause[at]!)) continue;
      let from = at + 1;
      // What follows a colon is meant word for word.
      while (clause[at]!.word !== ":" && /^(the|a|an|:|that)$/.test(clause[from]?.word ?? "")) from += 1;
      let to = from;
      while (to < clause.length && !used.has(clause[to]!)) {
        const token = clause[to]!;
        if (!toTheEnd && (valueKinds.has(token.kind) || (token.kind === "symbol" && !/^[-'’.]$/.test(token.text))))
          break;
        if (!toTheEnd && token.kind === "word" && (isStopWord(token.word) || isTimeWord(token.word))) break;
        if (!toTheEnd && /^(saying|says|called|named|about)$/.test(token.word)) break;
        to += 1;
      }
      if (to > from) return clause.slice(from, to);
    }
    return [];
  };

  const textOf = (tokens: Token[]): string | undefined =>
    tokens.length === 0
      ? undefined
      : context.text.slice(tokens[0]!.start, tokens.at(-1)!.end).replace(/[\s.!?,;]+$/, "");

  const fillPhrases = (): void => {
    const textual = (): Param[] =>
      inOrder().filter((param) => param.type === "string" && param.schema.enum === undefined);
    const phrase = (set: Set<string>, cue: RegExp, toTheEnd = false): void => {
      for (const param of textual().filter((p) => isNamed(p, set))) {
        const tokens = after(cue, toTheEnd);
        while (tokens.length > 0 && /^(into|to|in|on|at|as|please)$/.test(tokens.at(-1)!.word)) tokens.pop();
        put(param, textOf(tokens), tokens, 1);
      }
    };
    for (const param of textual().filter((p) => isNamed(p, names.time))) {
      const at = clause.findIndex((token) => !used.has(token) && (token.kind === "time" || isTimeWord(token.word)));
      if (at < 0) break;
      let to = at + 1;
      while (
        to < clause.length &&
        /^(at|on|in|the|next|this|morning|evening|afternoon|night|\d.*)$/.test(clause[to]!.word)
      ) {
        to += 1;
      }
      const from = /^(next|this)$/.test(clause[at - 1]?.word ?? "") ? at - 1 : at;
      const tokens = clause.slice(from, to);
      put(param, textOf(tokens), tokens, 1);
    }
    phrase(names.expression, /^(calculate|compute|evaluate|solve|is|of)$/, true);
    phrase(names.content, /^(saying|says|say|containing|text|:)$/, true);
    phrase(names.title, /^(called|named|titled)$/);
    for (const param of textual().filter((p) => isNamed(p, names.place) && !/language/.test(p.name))) {
      const tokens = [/^(in|near)$/, /^(for|at)$/, /^(to|of)$/]
        .map((cue) => after(cue, false))
        .find((found) => found.length > 0);
      const found = tokens ?? capitalised(clause, used, profile);
      put(param, textOf(found), found, 1);
    }
    phrase(names.target, /^(to|into)$/);
    phrase(names.source, /^from$/);
    phrase(names.topic, /^about$/);
    phrase(names.file, /^(file|folder|directory|called|named)$/);
  };

  /** What is left of the clause once the words that chose the tool are gone, for one required text. */
  const fillRest = (): void => {
    const textual = open().filter((p) => p.type === "string" && p.required && p.schema.enum === undefined);
    const param = textual.length === 1 ? textual[0]! : undefined;
    if (param === undefined || isNamed(param, names.pin) || isNamed(param, names.file) || isNamed(param, names.email))
      return;
    const isLead = (token: Token): boolean =>
      token.kind === "symbol" ||
      (token.kind === "word" &&
        (isStopWord(token.word) || meetsName(profile, token.stem) || param.nameStems.has(token.stem)));
    const start = clause.findIndex((token) => !used.has(token) && !isLead(token));
    // The verb of a request that the tool does not do is no text for it.
    const isVerb = clause.findIndex((token) => token.kind === "word" && !isStopWord(token.word)) === start;
    if (start < 0 || (isVerb && profile.isAction)) return;
    let end = start;
    while (end < clause.length && !used.has(clause[end]!)) end += 1;
    while (end > start && /^(please|now|[.!?,]|to|in|at|for|with|and|of)$/.test(clause[end - 1]!.word)) end -= 1;
    const tokens = clause.slice(start, end);
    // "make a new file": words that only describe the tool's work.
    const isDescription = tokens.every((token) => isStopWord(token.word) || profile.topics.has(token.stem));
    if (!(isDescription && profile.isAction)) put(param, textOf(tokens), tokens, 0);
  };

  const fillGiven = (): void => {
    for (const param of open().filter((p) => p.required)) {
      const only = param.schema.enum?.length === 1 ? param.schema.enum[0] : undefined;
      put(param, param.schema.const ?? param.schema.default ?? only, [], 0);
    }
    const json = open().find((param) => param.type === "object" && param.required);
    const found = /\{.*\}/s.exec(context.text)?.[0];
    if (json !== undefined && found !== undefined) {
      try {
        put(json, JSON.parse(found), [], 1);
      } catch {
        reasons.set(json.name, "what stands in { } is not JSON");
      }
    }
  };

  const fillFromEarlier = (): void => {
    const earlier = context.earlier;
    if (earlier === undefined) return;
    for (const param of open().filter((p) => p.required)) {
      const value = earlier.args[param.name];
      if (value === undefined || reasons.has(param.name)) continue;
      put(param, value, [], 0);
    }
  };

  const isFollowUp =
    clause.some((token) => anaphoraPattern.test(token.word)) || /^(and|then|now)$/.test(clause[0]?.word ?? "");

  fillPins();
  fillKind("file", names.file);
  fillKind("email", names.email);
  fillKind("url", names.url);
  fillUnits();
  fillCuedNumbers();
  fillChoices();
  fillQuoted();
  fillNumbers();
  if (context.reference !== undefined)
    open()
      .filter((p) => p.required)
      .forEach(fillReference);
  fillPhrases();
  if (isFollowUp) fillFromEarlier();
  fillRest();
  fillGiven();

  const missing = open()
    .filter((param) => param.required)
    .map((param) => ({ param, reason: reasons.get(param.name) }));
  return {
    args,
    missing,
    evidence,
    unused: clause.filter((token) => valueKinds.has(token.kind) && !used.has(token)),
    used,
  };
}

function isNumeric(param: Param): boolean {
  return param.type === "number" || param.type === "integer";
}

/** Whether a number with a unit may go to a parameter that does not speak of the unit. */
function isPlain(param: Param): boolean {
  return !Object.values(unitTopics).some((topics) => isNamed(param, words(topics)));
}

/** Why a value cannot be a parameter's; undefined where it can. */
function misfit(param: Param, value: unknown): string | undefined {
  const { minimum, maximum } = param.schema;
  const options = param.schema.enum;
  if (options !== undefined && !options.includes(value)) return `it has to be one of ${options.join(", ")}`;
  if (!isNumeric(param)) return undefined;
  if (typeof value !== "number" || !Number.isFinite(value)) return "it has to be a number";
  if (param.type === "integer" && !Number.isInteger(value)) return `it has to be a whole number, not ${value}`;
  if (minimum !== undefined && value < minimum) return `it has to be at least ${minimum}, not ${value}`;
  if (maximum !== undefined && value > maximum) return `it has to be at most ${maximum}, not ${value}`;
  return undefined;
}

function pinFor(param: Param, token: Token): unknown {
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
function scale(param: Param, token: Token): number {
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

/** The words that stand by a value and may name its parameter: the nearest before it and the one after it. */
function cuesOf(clause: Token[], token: Token): { before: string[]; after: string[] } {
  const next = clause[clause.indexOf(token) + 1];
  const isTopic = next?.kind === "word" && !isStopWord(next.word);
  return { before: wordsBefore(clause, token, 1).map(stem), after: isTopic ? [next.stem] : [] };
}

/** Up to `count` words before a token, nearest first, leaving out what only connects. */
function wordsBefore(clause: Token[], token: Token, count: number): string[] {
  const found: string[] = [];
  for (let i = clause.indexOf(token) - 1; i >= 0 && found.length < count; i -= 1) {
    const { word, kind } = clause[i]!;
    if (kind === "word" && count > 1) {
      if (!/^(the|a|an|is|as|of)$/.test(word)) found.push(word);
    } else if (kind === "word" && /^(to|of|at|is|the|a|an|be|by|number|equals)$/.test(word)) {
      continue;
    } else if (kind === "word") {
      found.push(word);
    } else if (!/^[:=]$/.test(clause[i]!.text)) {
      break;
    }
  }
  return found;
}

const timeWords = words(
  "today tomorrow tonight yesterday monday tuesday wednesday thursday friday saturday sunday noon midnight weekend week",
);

function isTimeWord(word: string): boolean {
  return timeWords.has(stem(word));
}

interface State {
  isOn: boolean;
  tokens: Token[];
}

/** On or off, where it is a state: `turn on the lamp`, `turn it on`, but not `the lamp on pin 2`. */
function findState(clause: Token[]): State | undefined {
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
function takesState(param: Param): boolean {
  const described = (param.schema.description ?? "").toLowerCase();
  const speaksOfIt = /\b(on|off|high|low|enable[ds]?|disable[ds]?|true|false)\b/.test(described);
  if (param.type === "boolean")
    return param.required || speaksOfIt || isNamed(param, words("on state power enable value"));
  if (isNamed(param, names.pin)) return false;
  if (isNumeric(param))
    return (param.schema.minimum === 0 && param.schema.maximum === 1 && param.type === "integer") || speaksOfIt;
  return param.type === "string" && speaksOfIt && param.required;
}

function stateFor(param: Param, isOn: boolean): unknown {
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

/** The option of an enum that the clause names: literally, as on/off, as a number, or by a word that means the same. */
function findOption(
  options: unknown[],
  clause: Token[],
  state: State | undefined,
  isNamedHere: boolean,
): { option: unknown; tokens: Token[] } | undefined {
  let best: { option: unknown; tokens: Token[]; length: number } | undefined;
  for (const option of options) {
    if (typeof option === "number") {
      const token = clause.find((candidate) => candidate.kind === "number" && candidate.value === option);
      if (token !== undefined) return { option, tokens: [token] };
      continue;
    }
    const parts = String(option)
      .toLowerCase()
      .split(/[^\p{L}\p{N}]+/u)
      .filter((part) => part !== "");
    const tokens = parts.map((part) =>
      clause.find(
        (token) =>
          token.word === part || token.text.toLowerCase() === part || (token.stem !== "" && token.stem === stem(part)),
      ),
    );
    const isWhole = parts.length > 0 && tokens.every((token) => token !== undefined);
    const isPreposition = parts.length === 1 && isStopWord(parts[0]!) && !isNamedHere;
    if (isWhole && !isPreposition && parts.length > (best?.length ?? 0)) {
      best = { option, tokens: tokens as Token[], length: parts.length };
    }
  }
  const isOn = state?.isOn;
  const texts = options.map((option) => String(option).toLowerCase());
  if (isOn !== undefined && (best === undefined || /^(on|off)$/.test(String(best.option).toLowerCase()))) {
    const words = isOn ? ["on", "high", "true", "enabled", "1"] : ["off", "low", "false", "disabled", "0"];
    const at = words.map((word) => texts.indexOf(word)).find((i) => i >= 0);
    if (at !== undefined) return { option: options[at], tokens: state!.tokens };
  }
  if (best !== undefined) return best;
  const alike = options.flatMap((option) => {
    const groups = [...groupsOf(stem(String(option).toLowerCase()))];
    const token = clause.find((candidate) => [...groupsOf(candidate.stem)].some((group) => groups.includes(group)));
    return token === undefined ? [] : [{ option, tokens: [token] }];
  });
  return alike.length === 1 ? alike[0] : undefined;
}

function referenceComesFirst(clause: Token[], number: Token | undefined): boolean {
  const at = clause.findIndex((token) => referencePattern.test(token.word));
  return at >= 0 && (number === undefined || at < clause.indexOf(number));
}

/** The first run of capitalised words that is not the beginning of the clause: a name. */
function capitalised(clause: Token[], used: Set<Token>, profile: ToolProfile): Token[] {
  const isName = (token: Token, i: number): boolean =>
    (i > 0 || clause.length <= 2) &&
    token.kind === "word" &&
    /^\p{Lu}/u.test(token.text) &&
    !used.has(token) &&
    !isStopWord(token.word) &&
    !meetsName(profile, token.stem);
  const from = clause.findIndex(isName);
  if (from < 0) return [];
  let to = from + 1;
  while (to < clause.length && isName(clause[to]!, to)) to += 1;
  return clause.slice(from, to);
}
