/** Texts that stand in a request without quotes: places, names, messages, and what is left over. */
import { isNamed, isText, names, verbIndex, valueKinds, words, type Draft } from "./draft";
import { isStopWord, stem, type Token } from "./language";
import { meetsName, meetsSubject, type Param, type ToolProfile } from "./profile";

const timeWords = words(
  "today tomorrow tonight yesterday monday tuesday wednesday thursday friday saturday sunday noon midnight week",
);

function isTime(token: Token): boolean {
  return token.kind === "time" || timeWords.has(stem(token.word));
}

function isCapital(token: Token): boolean {
  return /^\p{Lu}/u.test(token.text);
}

/** The run of words after a cue: `in New York`, `to German`; with `toTheEnd` all of it: `saying I am late`. */
function after({ clause, used }: Draft, cue: RegExp, toTheEnd: boolean): Token[] {
  const endsRun = (token: Token): boolean => {
    if (used.has(token)) return true;
    if (toTheEnd) return false;
    if (token.kind === "symbol") return !/^[-'’.]$/.test(token.text);
    const isSmall = isStopWord(token.word) || /^(saying|says|called|named|about)$/.test(token.word);
    return valueKinds.has(token.kind) || isSmall || isTime(token);
  };
  for (let at = 0; at < clause.length; at += 1) {
    if (!cue.test(clause[at]!.word) || used.has(clause[at]!)) continue;
    let from = at + 1;
    // What follows a colon is meant word for word.
    while (clause[at]!.word !== ":" && /^(the|a|an|:|that)$/.test(clause[from]?.word ?? "")) from += 1;
    let to = from;
    // A name is over where the capitals are: "named Bob aged 30".
    const endsName = (token: Token): boolean => !toTheEnd && isCapital(clause[from]!) && !isCapital(token);
    while (to < clause.length && !endsRun(clause[to]!) && !endsName(clause[to]!)) to += 1;
    if (to > from) return clause.slice(from, to);
  }
  return [];
}

/** Puts a run of tokens, as it was written, less small words at its end. */
function putRun(draft: Draft, param: Param, run: Token[], evidence: number): void {
  let end = run.length;
  while (end > 0 && /^(please|now|[.!?,;]|into|to|in|on|at|as|for|with|and|of)$/.test(run[end - 1]!.word)) end -= 1;
  if (end === 0) return;
  const tokens = run.slice(0, end);
  const text = draft.context.text.slice(tokens[0]!.start, tokens.at(-1)!.end);
  draft.put(param, text, tokens, evidence);
}

/** Fills text parameters by what they are named and by the words that announce such a text. */
export function fillPhrases(draft: Draft): void {
  const openTexts = (set: Set<string>): Param[] => draft.open().filter((param) => isText(param) && isNamed(param, set));
  const phrase = (set: Set<string>, cue: RegExp, toTheEnd = false): void => {
    for (const param of openTexts(set)) putRun(draft, param, after(draft, cue, toTheEnd), 1);
  };
  for (const param of openTexts(names.time)) putRun(draft, param, timeRun(draft), 1);
  phrase(names.expression, /^(calculate|compute|evaluate|solve|is|of)$/, true);
  phrase(names.content, /^(saying|says|say|containing|text|:)$/, true);
  phrase(names.title, /^(called|named|titled)$/);
  for (const param of openTexts(names.place).filter((place) => !place.nameStems.has(stem("language")))) {
    const runs = [/^(in|near)$/, /^(for|at)$/, /^(to|of)$/].map((cue) => after(draft, cue, false));
    putRun(draft, param, runs.find((run) => run.length > 0) ?? capitalised(draft), 1);
  }
  phrase(names.target, /^(to|into)$/);
  phrase(names.source, /^from$/);
  phrase(names.topic, /^about$/);
  phrase(names.file, /^(file|folder|directory|called|named)$/);
}

/** `tomorrow at 9`, `next Monday`, `7:30`. */
function timeRun({ clause, used }: Draft): Token[] {
  const at = clause.findIndex((token) => !used.has(token) && isTime(token));
  if (at < 0) return [];
  const continues = /^(at|on|in|the|next|this|morning|evening|afternoon|night|\d.*)$/;
  let to = at + 1;
  while (to < clause.length && continues.test(clause[to]!.word)) to += 1;
  return clause.slice(/^(next|this)$/.test(clause[at - 1]?.word ?? "") ? at - 1 : at, to);
}

/** The first run of capitalised words that is not the beginning of the clause: a name. */
function capitalised({ clause, used, profile }: Draft): Token[] {
  const isName = (token: Token, i: number): boolean =>
    (i > 0 || clause.length <= 2) &&
    token.kind === "word" &&
    isCapital(token) &&
    !used.has(token) &&
    !isStopWord(token.word) &&
    !meetsName(profile, token.stem);
  const from = clause.findIndex(isName);
  if (from < 0) return [];
  let to = from + 1;
  while (to < clause.length && isName(clause[to]!, to)) to += 1;
  return clause.slice(from, to);
}

/** For a tool that lacks one text: what is left of the clause once the words that chose the tool are gone. */
export function fillRest(draft: Draft): void {
  const { clause, used, profile } = draft;
  const open = draft.open().filter((param) => param.required && isText(param));
  const param = open[0];
  if (param === undefined || open.length > 1) return;
  if (profile.isAction && !clause.some((token) => meetsSubject(profile, token))) return;
  if ([names.pin, names.file, names.email].some((set) => isNamed(param, set))) return;
  const start = clause.findIndex((token) => !used.has(token) && !isLead(token, profile, param));
  // The verb of a request that the tool does not do is no text for it.
  if (start < 0 || (start === verbIndex(clause) && profile.isAction)) return;
  let end = start;
  while (end < clause.length && !used.has(clause[end]!)) end += 1;
  const run = clause.slice(start, end);
  // "make a new file": words that only describe the tool's work.
  const isDescription = run.every((token) => isStopWord(token.word) || profile.topics.has(token.stem));
  if (!(isDescription && profile.isAction)) putRun(draft, param, run, 0);
}

/** Words that come before a text and are no part of it. */
function isLead(token: Token, profile: ToolProfile, param: Param): boolean {
  if (token.kind !== "word") return token.kind === "symbol";
  return isStopWord(token.word) || meetsName(profile, token.stem) || param.nameStems.has(token.stem);
}
