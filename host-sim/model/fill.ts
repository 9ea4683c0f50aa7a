/** Fills a tool's parameters from the words of a request, by the tool's schema and nothing else. */
import { findOption, findState, pinFor, scale, stateFor, takesState } from "./choices";
import {
  createDraft,
  isAbout,
  isNamed,
  isNumeric,
  isText,
  misfit,
  names,
  ResultOf,
  valueKinds,
  words,
  wordsBefore,
  type Draft,
  type FillContext,
} from "./draft";
import { isStopWord, stem, unitTopics, type Token } from "./language";
import { fillPhrases, fillRest } from "./phrases";
import type { Param, ToolProfile } from "./profile";

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

/** Fills what can be filled. Never invents a value: what is not said stays missing. */
export function fill(profile: ToolProfile, clause: Token[], context: FillContext): Filling {
  const draft = createDraft(profile, clause, context);
  // What can only be meant for one parameter comes first, what is left over last.
  fillPins(draft);
  fillKind(draft, "file", names.file);
  fillKind(draft, "email", names.email);
  fillKind(draft, "url", names.url);
  fillCard(draft);
  fillUnits(draft);
  fillNamedNumbers(draft);
  fillChoices(draft);
  fillQuoted(draft);
  fillNumbers(draft);
  for (const param of draft.open().filter((open) => open.required)) fillReference(draft, param);
  fillPhrases(draft);
  if (isFollowUp(clause)) fillFromEarlier(draft);
  fillRest(draft);
  fillGiven(draft);

  const { args, evidence, used, reasons } = draft;
  const lacking = draft.open().filter((param) => param.required);
  return {
    args,
    missing: lacking.map((param) => ({ param, reason: reasons.get(param.name) })),
    evidence,
    unused: clause.filter((token) => valueKinds.has(token.kind) && !used.has(token)),
    used,
  };
}

/** Gives a parameter the first of the tokens, or a list all of them. */
function putTokens(draft: Draft, param: Param, tokens: Token[], valueOf: (token: Token) => unknown): void {
  const first = tokens[0];
  if (first === undefined) return;
  if (param.type === "array") draft.put(param, tokens.map(valueOf), tokens, 1);
  else draft.put(param, valueOf(first), [first], 1);
}

function fillPins(draft: Draft): void {
  const named = draft.open().filter((param) => isNamed(param, names.pin));
  const told = draft.open().filter((param) => param.topics.has("pin") && param.type !== "boolean");
  for (const param of named.length > 0 ? named : told) {
    putTokens(draft, param, draft.free("pin"), (token) => pinFor(param, token));
  }
}

function fillKind(draft: Draft, kind: Token["kind"], set: Set<string>): void {
  for (const meets of [isNamed, isAbout]) {
    for (const param of draft.open()) {
      const takesText = isText(param) || param.type === "array";
      if (takesText && meets(param, set)) putTokens(draft, param, draft.free(kind), (token) => token.text);
    }
  }
}

/** Where to look, where the tool has paths of the SD card: such a path, or `sd:` for "on the SD card". */
function fillCard(draft: Draft): void {
  const { clause } = draft;
  const param = draft.open().find((open) => isText(open) && isNamed(open, names.where) && /\bsd:/.test(open.schema.description ?? ""));
  if (param === undefined) return;
  const path = draft.free("file").find(({ text }) => /^sd:/i.test(text));
  const at = clause.findIndex(({ word }, i) => word === "sd-card" || (word === "sd" && clause[i + 1]?.word === "card"));
  if (path !== undefined) draft.put(param, path.text, [path], 1);
  else if (at >= 0) draft.put(param, "sd:", clause.slice(at, at + (clause[at]!.word === "sd" ? 2 : 1)), 1);
}

function fillUnits(draft: Draft): void {
  for (const token of draft.free("number")) {
    if (token.unit === undefined) continue;
    const topics = words(unitTopics[token.unit]!);
    const numeric = draft.open().filter(isNumeric);
    const param = numeric.find((p) => isNamed(p, topics)) ?? numeric.find((p) => isAbout(p, topics));
    if (param !== undefined) draft.put(param, scale(param, token), [token], 1);
  }
}

/** Numbers whose neighbour names the parameter: `rows 10`, `10 rows`, `starting at 5`. */
function fillNamedNumbers(draft: Draft): void {
  for (const token of draft.free("number")) {
    const before = wordsBefore(draft.clause, token, 1, /^(to|of|at|is|the|a|an|be|by|number|equals)$/).map(stem);
    const next = draft.clause[draft.clause.indexOf(token) + 1];
    const around = next?.kind === "word" && !isStopWord(next.word) ? [...before, next.stem] : before;
    const closeness = (param: Param): number => {
      const met = (stems: Set<string>, list: string[]): number => list.filter((word) => stems.has(word)).length;
      const named = met(param.nameStems, around);
      if (named === 0) return param.required ? 0 : 0.1 * met(param.topics, around);
      // "row 5" is a place, "5 rows" a number of them.
      const isPlace = isNamed(param, names.first);
      return named / param.nameStems.size + (isPlace ? 2 * met(param.nameStems, before) - 1 : 0);
    };
    const numeric = draft.open().filter(isNumeric);
    const param = numeric.sort((a, b) => closeness(b) - closeness(a))[0];
    if (param !== undefined && closeness(param) > 0) draft.put(param, scale(param, token), [token], 0.5);
  }
}

/** Options of an enum, on and off, and flags that are named: `with headers`, `without headers`. */
function fillChoices(draft: Draft): void {
  const { clause } = draft;
  const state = findState(clause);
  for (const param of draft.open()) {
    const options = param.schema.enum;
    const at = clause.findIndex((token) => token.kind === "word" && param.nameStems.has(token.stem));
    if (options !== undefined) {
      // A number is still free, or used, for its unit: "20 USD" is an amount and a currency.
      const free = clause.filter((token) => token.unit !== undefined || !draft.used.has(token));
      const isNamedHere = at >= 0;
      const found =
        findOption(options, announced(clause, param), state, isNamedHere) ??
        findOption(options, free, state, isNamedHere);
      if (found !== undefined) {
        const own = found.tokens.filter((token) => token.unit === undefined);
        draft.put(param, found.option, own, 1);
      }
    } else if (state !== undefined && takesState(param) && !hasNumberFor(draft, param)) {
      draft.put(param, stateFor(param, state.isOn), state.tokens, 1);
    } else if (param.type === "boolean" && at >= 0) {
      draft.put(param, !/^(without|no|not)$/.test(clause[at - 1]?.word ?? ""), [clause[at]!], 0.5);
    }
  }
}

/** The words after "from" for a source, after "to" or "in" for a target. */
function announced(clause: Token[], param: Param): Token[] {
  const cue = isNamed(param, names.source) ? /^from$/ : isNamed(param, names.target) ? /^(to|in|into)$/ : undefined;
  const at = cue === undefined ? -1 : clause.findIndex((token) => cue.test(token.word));
  return at < 0 ? [] : clause.slice(at + 1, at + 4);
}

function hasNumberFor(draft: Draft, param: Param): boolean {
  return isNumeric(param) && draft.free("number").some((token) => misfit(param, scale(param, token)) === undefined);
}

/** The words before a quoted text that tell which parameter it is for, by what the parameter is named. */
const quoteCues: [cue: RegExp, set: Set<string>][] = [
  [/^(with|by|to)$/, names.after],
  [/^(replace|change|find|from)$/, names.before],
  [/^(called|named|titled)$/, names.title],
];

function fillQuoted(draft: Draft): void {
  for (const token of draft.free("quoted")) {
    const textual = draft.open().filter(isText);
    const before = wordsBefore(draft.clause, token, 3, /^(the|a|an|is|as|of)$/);
    const cued = quoteCues.find(([cue]) => cue.test(before[0] ?? ""))?.[1];
    const isFree = (p: Param): boolean => !isNamed(p, names.file) && (p.required || isNamed(p, names.content));
    const param =
      textual.find((p) => before.some((word) => p.nameStems.has(stem(word)))) ??
      textual.find((p) => cued !== undefined && isNamed(p, cued)) ??
      textual.find(isFree) ??
      textual.find((p) => isNamed(p, names.file) && /^[\w./-]+$/.test(token.word));
    if (param !== undefined) draft.put(param, token.word, [token], 1);
  }
  for (const param of draft.open()) {
    const isList = param.type === "array" && param.schema.items?.type === "string";
    if (isList) putTokens(draft, param, draft.free("quoted"), (token) => token.word);
  }
}

/** Numbers that nothing else claimed, in order. */
function fillNumbers(draft: Draft): void {
  const { clause, context } = draft;
  for (const param of draft.open()) {
    const isList = param.type === "array" && /^(number|integer)$/.test(String(param.schema.items?.type));
    if (isList) putTokens(draft, param, draft.free("number"), (token) => token.value);
  }
  for (const param of draft.open().filter((open) => isNumeric(open) && open.required)) {
    const first = draft.free("number")[0];
    if (context.reference !== undefined && referenceComesFirst(clause, first)) fillReference(draft, param);
    if (Object.hasOwn(draft.args, param.name)) continue;
    const token = draft.free("number").find((candidate) => candidate.unit === undefined || !speaksOfUnit(param));
    if (token !== undefined) draft.put(param, scale(param, token), [token], 0);
  }
  const optional = draft.open().filter((open) => isNumeric(open) && !open.required);
  const [rest, more] = draft.free("number").filter((token) => token.unit === undefined);
  if (optional.length !== 1 || rest === undefined || more !== undefined) return;
  const isEndOfRange = clause[clause.indexOf(rest) - 1]?.word === "to";
  if (!isEndOfRange) draft.put(optional[0]!, scale(optional[0]!, rest), [rest], 0);
}

/** A parameter that is counted in some unit does not take a number of another one. */
function speaksOfUnit(param: Param): boolean {
  return Object.values(unitTopics).some((topics) => isNamed(param, words(topics)));
}

const referenceWords =
  /^(it|its|that|this|them|result|results|answer|outcome|sum|product|total|value|remainder|difference)$/;

function referenceComesFirst(clause: Token[], number: Token | undefined): boolean {
  const at = clause.findIndex((token) => referenceWords.test(token.word));
  return at >= 0 && (number === undefined || at < clause.indexOf(number));
}

/** "it" or "the result" for a number or a text; each such word is meant once. */
function fillReference(draft: Draft, param: Param): void {
  const { reference } = draft.context;
  const word = draft.clause.find((token) => referenceWords.test(token.word) && !draft.used.has(token));
  const isUsed = draft.clause.some((token) => referenceWords.test(token.word) && draft.used.has(token));
  if (reference === undefined || word === undefined || isUsed) return;
  if (!isNumeric(param) && (!isText(param) || isNamed(param, names.file))) return;
  if (isNamed(param, names.pin)) return;
  const as = isNumeric(param) ? "number" : "text";
  draft.put(param, reference instanceof ResultOf ? new ResultOf(reference.step, as) : reference[as], [word], 1);
}

function isFollowUp(clause: Token[]): boolean {
  const opens = /^(and|then|now)$/.test(clause[0]?.word ?? "");
  return (
    opens || clause.some((token) => /^(it|its|that|this|same|again|now|back|too|also|there|them)$/.test(token.word))
  );
}

/** What the call before was about, where the request goes on from it: "turn it off". */
function fillFromEarlier(draft: Draft): void {
  for (const param of draft.open()) {
    if (!param.required || draft.reasons.has(param.name)) continue;
    draft.put(param, draft.context.earlier?.args[param.name], [], 0);
  }
}

/** What the schema itself gives, and an object that is written out as JSON. */
function fillGiven(draft: Draft): void {
  for (const param of draft.open().filter((open) => open.required)) {
    const only = param.schema.enum?.length === 1 ? param.schema.enum[0] : undefined;
    draft.put(param, param.schema.const ?? param.schema.default ?? only, [], 0);
  }
  const param = draft.open().find((open) => open.type === "object" && open.required);
  const json = /\{.*\}/s.exec(draft.context.text)?.[0];
  if (param === undefined || json === undefined) return;
  try {
    draft.put(param, JSON.parse(json), [], 1);
  } catch {
    draft.reasons.set(param.name, "what stands in { } is not JSON");
  }
}
