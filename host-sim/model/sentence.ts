/** Puts tool results into sentences, and says what the stand-in is and can do. */
import { tokenize } from "./language";
import type { ToolProfile } from "./profile";

export const modelName = "offline-stand-in";

/** One call of this run with what came back. */
export interface Outcome {
  tool: string;
  args: Record<string, unknown>;
  content: string;
}

const longestQuotedResult = 4000;

/** Whether a tool message tells of a failure. The API has no field for it, so the text has to show it. */
export function isErrorResult(content: string): boolean {
  const text = content.trim();
  if (/^(uncaught |internal |type|reference|syntax|range)?(error|failed|failure|exception)\b/i.test(text)) return true;
  const json = parseObject(text);
  if (json === undefined) return false;
  return (
    Boolean(json.error) ||
    json.isError === true ||
    json.is_error === true ||
    json.ok === false ||
    json.success === false
  );
}

function parseObject(text: string): Record<string, unknown> | undefined {
  if (!text.startsWith("{")) return undefined;
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

/**
 * The number a result is or holds: the whole text, a JSON field called result or value, or the first number in it that
 * was not one of the call's own arguments.
 */
export function numberIn(outcome: Outcome): number | undefined {
  const text = outcome.content.trim();
  if (text !== "" && Number.isFinite(Number(text))) return Number(text);
  const json = parseObject(text);
  const field = json?.result ?? json?.value ?? json?.answer;
  if (typeof field === "number") return field;
  const given = Object.values(outcome.args);
  const own = (value: number): boolean => given.includes(value);
  const numbers = [...text.matchAll(/(?<![\p{L}\p{N}_.])-?\d+(?:\.\d+)?(?![\p{N}.]*\p{N})/gu)].map(([found]) =>
    Number(found),
  );
  return numbers.find((value) => !own(value));
}

/** A result as a text to go on with: a heading line ("notes.txt, rows 1-3 of 3:") is left out. */
export function textIn(outcome: Outcome): string {
  const text = outcome.content;
  const end = text.indexOf("\n");
  return end > 0 && text.slice(0, end).trimEnd().endsWith(":") ? text.slice(end + 1) : text;
}

/** One result as a sentence. `clause` is what was asked, where it is known. */
export function tellOutcome(outcome: Outcome, clause: string, isQuestion: boolean): string {
  const content = shorten(outcome.content.trim());
  if (isErrorResult(content)) return `${outcome.tool} failed: ${endSentence(reasonOf(content))}`;
  if (content === "") return `${outcome.tool} was called and gave nothing back.`;
  const json = parseObject(content);
  if (json !== undefined) return `${outcome.tool} says: ${endSentence(flatten(json))}`;
  if (content.includes("\n")) return content;
  if (isBareValue(content)) return tellValue(outcome, content, clause, isQuestion);
  return yesOrNo(clause, content, isQuestion) + endSentence(capitalise(content));
}

function shorten(content: string): string {
  if (content.length <= longestQuotedResult) return content;
  return Array.from(content).slice(0, longestQuotedResult).join("") + "\n(shortened)";
}

function reasonOf(content: string): string {
  const json = parseObject(content);
  const error = json?.error ?? json?.message ?? json?.reason;
  if (typeof error === "string") return error;
  if (typeof error === "object" && error !== null) return flatten(error as Record<string, unknown>);
  return json === undefined ? content.replace(/^error:\s*/i, "") : flatten(json);
}

function flatten(json: Record<string, unknown>): string {
  const parts = Object.entries(json).map(([key, value]) => {
    const words = key.replace(/_/g, " ");
    return `${words} ${typeof value === "object" && value !== null ? JSON.stringify(value) : String(value)}`;
  });
  return parts.join(", ");
}

function endSentence(text: string): string {
  return /[.!?:…)"]$/.test(text) && !/\w\)$/.test(text) ? text : text + ".";
}

/** A sentence begins with a capital; a file name does not. */
function capitalise(text: string): string {
  return /^\p{Ll}[\p{L}'’]*\s/u.test(text) ? text[0]!.toUpperCase() + text.slice(1) : text;
}

/** A number, a word or two: something that needs a sentence around it. */
function isBareValue(content: string): boolean {
  return content.length <= 40 && content.split(/\s+/).length <= 2 && !/[.!?]$/.test(content.replace(/\d\.$/, ""));
}

const questionLead =
  /^(?:(?:please|so|and|now)\s+)*(?:what is|what's|whats|calculate|compute|evaluate|how much is|was ist|wie ?viel ist)\s+(.+)$/is;

function tellValue(outcome: Outcome, value: string, clause: string, isQuestion: boolean): string {
  const asked = clause.trim().replace(/[\s?.!]+$/, "");
  if (/^(true|yes)$/i.test(value) && isQuestion) return "Yes.";
  if (/^(false|no)$/i.test(value) && isQuestion) return "No.";
  const subject = questionLead.exec(asked)?.[1];
  const isPlain = subject !== undefined && !/\b(it|that|this|result)\b/i.test(subject);
  if (isPlain) return `${subject[0]!.toUpperCase()}${subject.slice(1)} is ${value}.`;
  if (isQuestion && clause !== "") return `The answer is ${value}.`;
  const args = Object.entries(outcome.args).map(([key, arg]) => `${key} = ${cut(tellArgument(arg), 40)}`);
  const call = args.length === 0 ? outcome.tool : `${outcome.tool} with ${args.join(", ")}`;
  return /^(ok|okay|done|success|successful)$/i.test(value) ? `Done: ${call}.` : `${call} gives ${value}.`;
}

function tellArgument(arg: unknown): string {
  return typeof arg === "string" && /^\S+$/.test(arg) ? arg : JSON.stringify(arg);
}

const opposites: [RegExp, RegExp][] = [
  [/\b(bigger|larger|greater|more|higher|above|größer)\b/i, /\b(smaller|less|lower|below|fewer|kleiner)\b/i],
  [/\b(on|high|an)\b/i, /\b(off|low|aus)\b/i],
];
const equal = /\b(equal|equals|same|gleich)\b/i;

/** "Yes: " or "No: " where the question asked for one of two opposites and the result names one of them. */
function yesOrNo(clause: string, content: string, isQuestion: boolean): string {
  const first =
    tokenize(clause).find((token) => token.kind === "word" && !/^(and|so|then|now)$/.test(token.word))?.word ?? "";
  if (!isQuestion || !/^(is|are|was|does|do|has|have)$/.test(first)) return "";
  if (/\bnot\b/i.test(content) || /\b(or|oder|not|nicht)\b/i.test(clause)) return "";
  if (equal.test(clause) && !opposites[0]!.some((side) => side.test(clause)))
    return equal.test(content) ? "Yes: " : "No: ";
  for (const [one, other] of opposites) {
    const asked = sideOf(clause, one, other);
    if (asked === undefined) continue;
    const told = sideOf(content, one, other);
    if (told === undefined) return equal.test(content) ? "No: " : "";
    return asked === told ? "Yes: " : "No: ";
  }
  return "";
}

function sideOf(text: string, one: RegExp, other: RegExp): boolean | undefined {
  // "on pin 4" is a place, "on" at the end or before a comma is a state.
  const plain = text.replace(/\bon (?=the|a|an|my|this|pin|gpio|D?\d)/gi, "");
  const isOne = one.test(plain);
  return isOne === other.test(plain) ? undefined : isOne;
}

/** Who is answering: said on greetings, when asked, and where nothing fits. */
export function introduce(): string {
  return (
    `I am ${modelName}, an offline stand-in for a language model: I match the words of your request to the ` +
    "available tools, and I cannot talk about anything else."
  );
}

/** What can be done with these tools, one line each. */
export function tellAbilities(profiles: ToolProfile[]): string {
  if (profiles.length === 0) return "This request came without tools, so there is nothing I can do.";
  const lines = profiles.map(
    (profile) => `- ${profile.name}${profile.summary === "" ? "" : `: ${cut(profile.summary, 90)}`}`,
  );
  return `What I can do:\n${lines.join("\n")}`;
}

function cut(text: string, length: number): string {
  const letters = Array.from(text);
  return letters.length <= length
    ? text
    : letters
        .slice(0, length - 1)
        .join("")
        .trimEnd() + "…";
}
