/** What a tool says of itself, as words; and how well the words of a request meet them. */
import { groupsOf, isStopWord, stem, tokenize, type Token } from "./language";
import type { JsonSchema, ToolSpec } from "./protocol";

export type ParamType = "string" | "number" | "integer" | "boolean" | "array" | "object";

export interface Param {
  name: string;
  type: ParamType;
  required: boolean;
  schema: JsonSchema;
  /** Stems of the words of its name. */
  nameStems: Set<string>;
  /** Stems of the words of its name and description. */
  topics: Set<string>;
}

export interface ToolProfile {
  name: string;
  /** The first sentence of the description, for people. */
  summary: string;
  params: Param[];
  nameStems: Set<string>;
  nameGroups: Set<string>;
  topics: Set<string>;
  topicGroups: Set<string>;
  paramTopics: Set<string>;
  /** True where calling it changes something, as far as its name tells. */
  isAction: boolean;
}

const actionWords =
  "write set turn switch edit delete remove send create add new book start stop restart reset put post";
const actionStems = new Set(actionWords.split(" ").map(stem));

/** The words of an identifier: `setThermostat_v2` → set, thermostat, v2. */
function wordsOfName(name: string): string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== "")
    .map((word) => word.toLowerCase());
}

function wordsOfText(text: string): string[] {
  return tokenize(text).flatMap((token) => (token.kind === "word" ? wordsOfName(token.text) : []));
}

function stemsOf(words: string[]): Set<string> {
  return new Set(words.filter((word) => !isStopWord(word)).map(stem));
}

function groupsOfAll(stems: Iterable<string>): Set<string> {
  return new Set([...stems].flatMap((s) => [...groupsOf(s)]));
}

/** One profile a tool. A part of a description that names another tool speaks for that other tool and is left out. */
export function profileTools(specs: ToolSpec[]): ToolProfile[] {
  return specs.map((spec) => {
    const others = specs.map((other) => other.name).filter((name) => name !== spec.name && name.includes("_"));
    const parts = spec.description.split(/(?<=[.;])\s+|,\s+/);
    const own = parts.filter((part) => !others.some((name) => part.includes(name))).join(" ");
    const params = readParams(spec.parameters);
    const nameStems = new Set(wordsOfName(spec.name).map(stem));
    const topics = stemsOf(wordsOfText(own));
    // `add(a, b)` only calculates, `add_contact` changes something.
    const isComputation = nameStems.size === 1 && params.every((param) => /^(number|integer)$/.test(param.type));
    return {
      name: spec.name,
      summary: (/^.*?[.!?](?=\s|$)/s.exec(spec.description.trim())?.[0] ?? spec.description.trim()).replace(
        /\s+/g,
        " ",
      ),
      params,
      nameStems,
      nameGroups: groupsOfAll(nameStems),
      topics,
      topicGroups: groupsOfAll(topics),
      paramTopics: new Set(params.flatMap((param) => [...param.topics, ...enumStems(param.schema)])),
      isAction: !isComputation && [...nameStems].some((s) => actionStems.has(s)),
    };
  });
}

function enumStems(schema: JsonSchema): string[] {
  const values = schema.enum ?? schema.items?.enum ?? [];
  return values.flatMap((value) => (typeof value === "string" ? wordsOfName(value).map(stem) : []));
}

function readParams(schema: JsonSchema): Param[] {
  return Object.entries(schema.properties ?? {}).map(([name, given]) => {
    const resolved = resolve(given);
    const nameWords = wordsOfName(name);
    return {
      name,
      type: typeOf(resolved),
      required: schema.required?.includes(name) ?? false,
      schema: resolved,
      nameStems: new Set(nameWords.map(stem)),
      topics: new Set([...nameWords.map(stem), ...stemsOf(wordsOfText(resolved.description ?? ""))]),
    };
  });
}

/** The first alternative that is not null, with the description of the whole. */
function resolve(schema: JsonSchema): JsonSchema {
  if (typeof schema !== "object") return {};
  const options = schema.anyOf ?? schema.oneOf;
  const option = options?.find((candidate) => candidate.type !== "null");
  return option === undefined ? schema : { ...resolve(option), description: schema.description ?? option.description };
}

function typeOf(schema: JsonSchema): ParamType {
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  const type = types.find((candidate) => candidate !== undefined && candidate !== "null");
  if (type !== undefined) return type as ParamType;
  const sample = schema.const ?? schema.enum?.[0];
  if (typeof sample === "number") return "number";
  return typeof sample === "boolean" ? "boolean" : "string";
}

/** Whether a word of a request means a word of the tool's name. */
export function meetsName(profile: ToolProfile, word: string): boolean {
  return meetsExactly(profile.nameStems, word) || [...groupsOf(word)].some((group) => profile.nameGroups.has(group));
}

/** Whether a token means what the tool's name is about, not only what it does: the user in `create_user`. */
export function meetsSubject(profile: ToolProfile, token: Token): boolean {
  const subjects = new Set([...profile.nameStems].filter((s) => !actionStems.has(s)));
  const word = token.kind === "word" ? token.stem : stem(token.kind === "email" ? "mail" : token.kind);
  const groups = groupsOf(word);
  return meetsExactly(subjects, word) || [...groupsOfAll(subjects)].some((group) => groups.has(group));
}

const deeds = "write create delete send set restart play translate remind".split(" ");

/** Whether a verb asks for a deed that the tool does not do: `delete` never means a tool that writes. */
export function isOtherDeed(profile: ToolProfile, word: string): boolean {
  const groups = [...groupsOf(word)].filter((group) => deeds.includes(group));
  if (groups.length === 0 || meetsExactly(profile.topics, word) || meetsName(profile, word)) return false;
  return !groups.some((group) => profile.topicGroups.has(group));
}

/** `remind` meets `reminder`: one is the beginning of the other, and they differ by an ending. */
function meetsExactly(stems: Set<string>, word: string): boolean {
  if (stems.has(word)) return true;
  if (word.length < 5) return false;
  for (const s of stems) {
    if (s.length >= 5 && Math.abs(s.length - word.length) <= 5 && (s.startsWith(word) || word.startsWith(s)))
      return true;
  }
  return false;
}

export interface WordScore {
  /** Sum over the words that meet the tool; about 3 for a word of its name. */
  total: number;
  /** The best single word. */
  best: number;
  /** Words of the request, and how many of them met the tool in any way. */
  words: number;
  met: number;
}

/**
 * How well words meet a tool. A word of the name counts most, then a word that means the same as one, then the
 * description, then the parameters. A word that many tools have counts less.
 */
export function scoreWords(profile: ToolProfile, all: ToolProfile[], stems: string[]): WordScore {
  const score: WordScore = { total: 0, best: 0, words: 0, met: 0 };
  for (const word of new Set(stems)) {
    const groups = [...groupsOf(word)];
    let value = 0;
    if (meetsExactly(profile.nameStems, word)) {
      value = 3 * rarity(all, (other) => meetsExactly(other.nameStems, word));
    }
    if (groups.length > 0) {
      const named = groups.filter((group) => profile.nameGroups.has(group));
      for (const group of named) value = Math.max(value, 2.4 * rarity(all, (other) => other.nameGroups.has(group)));
      const told = groups.filter((group) => profile.topicGroups.has(group));
      for (const group of told) value = Math.max(value, 1 * rarity(all, (other) => other.topicGroups.has(group)));
    }
    if (meetsExactly(profile.topics, word)) {
      value = Math.max(value, 1.6 * rarity(all, (other) => meetsExactly(other.topics, word)));
    }
    if (meetsExactly(profile.paramTopics, word)) {
      value = Math.max(value, 1 * rarity(all, (other) => meetsExactly(other.paramTopics, word)));
    }
    score.total += value;
    score.best = Math.max(score.best, value);
    score.words += 1;
    if (value > 0) score.met += 1;
  }
  return score;
}

/** 1 for what one tool has, down to about a half where a third of the tools have it, and a quarter where all have. */
function rarity(all: ToolProfile[], has: (profile: ToolProfile) => boolean): number {
  const share = all.length < 2 ? 0 : (all.filter(has).length - 1) / (all.length - 1);
  return 1 / (1 + 3 * share);
}

/** The words of a clause that can speak for a tool. */
export function topicStems(tokens: Token[]): string[] {
  const stems: string[] = [];
  for (const token of tokens) {
    if (token.kind === "word") {
      if (isStopWord(token.word)) continue;
      for (const word of wordsOfName(token.word)) if (!isStopWord(word)) stems.push(stem(word));
    } else if (token.unit !== undefined) {
      stems.push(stem(token.unit));
    } else if (token.kind === "pin") {
      stems.push(stem("pin"));
    } else if (token.kind === "file") {
      stems.push(stem("file"));
    } else if (token.kind === "email") {
      stems.push(stem("mail"));
    }
  }
  return stems;
}
