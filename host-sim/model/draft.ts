/** A call in the making: what its parameters have got so far, and which words of the request are used up. */
import { isStopWord, stem, type Token } from "./language";
import type { Param, ToolProfile } from "./profile";

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

export interface FillContext {
  /** The text that tokens point into. */
  text: string;
  /** What "the result" or "it" means here: an earlier step, or a value from the conversation. */
  reference?: ResultOf | KnownResult;
  earlier?: EarlierCall;
}

/** Kinds of tokens that are a value by themselves. */
export const valueKinds: ReadonlySet<string> = new Set(["number", "quoted", "file", "pin", "email", "url", "time"]);

/** Words that parameters of one purpose are named with. */
export const names = {
  pin: words("pin gpio io"),
  file: words("path file filename folder directory dir document"),
  where: words("pattern folder directory dir"),
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

/** Stems of a list of words. */
export function words(list: string): Set<string> {
  return new Set(list.split(" ").map(stem));
}

/** Whether one of the words is in the parameter's name. */
export function isNamed(param: Param, set: Set<string>): boolean {
  return [...param.nameStems].some((s) => set.has(s));
}

/** Whether one of the words is in the parameter's name or description. */
export function isAbout(param: Param, set: Set<string>): boolean {
  return isNamed(param, set) || [...param.topics].some((s) => set.has(s));
}

export function isNumeric(param: Param): boolean {
  return param.type === "number" || param.type === "integer";
}

/** Text that may be anything. */
export function isText(param: Param): boolean {
  return param.type === "string" && param.schema.enum === undefined;
}

/** Why a value cannot be a parameter's; undefined where it can. */
export function misfit(param: Param, value: unknown): string | undefined {
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

export interface Draft {
  profile: ToolProfile;
  clause: Token[];
  context: FillContext;
  args: Record<string, unknown>;
  used: Set<Token>;
  /** Why a value that was found did not fit, by parameter. */
  reasons: Map<string, string>;
  /** How much of it was plainly meant for its parameter. */
  evidence: number;
  /** Sets a parameter and uses up the tokens; where the value does not fit, notes why and returns false. */
  put(param: Param, value: unknown, tokens: Token[], evidence: number): boolean;
  /** Parameters without a value, the required ones first. */
  open(): Param[];
  /** Unused tokens of a kind, in order. */
  free(kind: Token["kind"]): Token[];
}

export function createDraft(profile: ToolProfile, clause: Token[], context: FillContext): Draft {
  const draft: Draft = {
    profile,
    clause,
    context,
    args: {},
    used: new Set(),
    reasons: new Map(),
    evidence: 0,
    put(param, value, tokens, evidence) {
      if (value === undefined) return false;
      const reason = value instanceof ResultOf ? undefined : misfit(param, value);
      if (reason !== undefined) {
        draft.reasons.set(param.name, reason);
        return false;
      }
      draft.args[param.name] = value;
      for (const token of tokens) draft.used.add(token);
      draft.evidence += evidence;
      return true;
    },
    open() {
      const open = profile.params.filter((param) => !Object.hasOwn(draft.args, param.name));
      return [...open.filter((param) => param.required), ...open.filter((param) => !param.required)];
    },
    free: (kind) => clause.filter((token) => token.kind === kind && !draft.used.has(token)),
  };
  return draft;
}

/** The words before a token, nearest first, at most `count`; `skip` are left out, a value ends it. */
export function wordsBefore(clause: Token[], token: Token, count: number, skip: RegExp): string[] {
  const found: string[] = [];
  for (let i = clause.indexOf(token) - 1; i >= 0 && found.length < count; i -= 1) {
    const { kind, word } = clause[i]!;
    if (kind === "word") {
      if (!skip.test(word)) found.push(word);
    } else if (valueKinds.has(kind) && count === 1) {
      break;
    }
  }
  return found;
}

/** The place of the clause's first word that is not a small one: its verb, where it asks for a deed. */
export function verbIndex(clause: Token[]): number {
  return clause.findIndex((token) => token.kind === "word" && !isStopWord(token.word));
}
