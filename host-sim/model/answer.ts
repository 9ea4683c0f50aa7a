import { ResultOf } from "./draft";
import { isStopWord, tokenize } from "./language";
import type { Step } from "./calculate";
import { type Media, tellMedia } from "./media";
import { forceStep, makePlan, type Memory, type Plan } from "./plan";
import { profileTools } from "./profile";
import type { ChatMessage, ChatRequest } from "./protocol";
import { introduce, isErrorResult, numberIn, tellAbilities, tellOutcome, textIn, type Outcome } from "./sentence";

/** What the stand-in replies with: a text, or calls to be made first. */
export type Answer = { text: string } | { toolCalls: { name: string; arguments: Record<string, unknown> }[] };

/** A user message with the calls and results that followed it. */
interface Exchange {
  text: string;
  outcomes: Outcome[];
  /** Files that came with the message, and with the results. */
  media: Media[];
  unshown: string[];
  reply: string;
}

/**
 * Answers one request by its messages and tools alone: the same request always gets the same answer. The calls of a
 * message are planned anew each turn and taken up where the results in the history end.
 */
export function answer(request: ChatRequest): Answer {
  const exchanges = readExchanges(request.messages);
  const current = exchanges.at(-1);
  const profiles = profileTools(request.tools);
  if (current === undefined) return { text: `${introduce()}\n${tellAbilities(profiles)}` };

  const unshown = current.unshown.map((one) => `I was not shown ${one}`);
  const seen = [...unshown, tellMedia(current.media)].filter((part) => part !== "").join(" ");
  if (profiles.length === 0) return { text: tellWithoutTools(current, seen) };
  const memory = remember(exchanges.slice(0, -1));
  const plan = planExchange(current.text, exchanges, request, memory);
  const progress = follow(plan, current.outcomes);
  const forced = typeof request.toolChoice === "object" || request.toolChoice === "required";
  if (request.toolChoice !== "none") {
    let calls = progress.next;
    if (calls.length === 0 && forced && current.outcomes.length === 0) {
      const only = request.toolChoice;
      const allowed = typeof only === "object" ? profiles.filter((profile) => profile.name === only.name) : profiles;
      const step = forceStep(current.text, allowed, memory);
      if (step !== undefined) calls = [{ name: step.tool, arguments: withoutReferences(step.args) }];
    }
    if (calls.length > 0) return { toolCalls: request.parallelToolCalls ? calls : calls.slice(0, 1) };
  }
  return { text: compose(current, plan, progress, profiles, seen) };
}

function readExchanges(messages: ChatMessage[]): Exchange[] {
  const exchanges: Exchange[] = [];
  const open = new Map<string, Outcome>();
  for (const [index, message] of messages.entries()) {
    const current = exchanges.at(-1);
    // Where a tool message holds only text, the files of a result come in a user message right after it.
    const isOfResult = messages[index - 1]?.role === "tool";
    if (message.role === "user" && isOfResult && message.media.length > 0) {
      current?.media.push(...message.media);
    } else if (message.role === "user") {
      exchanges.push({ text: message.text, outcomes: [], media: [...message.media], unshown: message.unshown, reply: "" });
    } else if (message.role === "assistant") {
      if (current !== undefined) current.reply = message.text;
      for (const call of message.calls) {
        const outcome = { tool: call.name, args: JSON.parse(call.arguments) as Record<string, unknown>, content: "" };
        open.set(call.id, outcome);
        current?.outcomes.push(outcome);
      }
    } else if (message.role === "tool") {
      const outcome = open.get(message.callId);
      if (outcome !== undefined) outcome.content = message.text;
    }
  }
  return exchanges;
}

/** What "it", "that" and "now off" mean: the last call of the conversation, and its result if it had one. */
function remember(before: Exchange[]): Memory {
  const last = before.findLast((exchange) => exchange.outcomes.length > 0)?.outcomes.at(-1);
  if (last === undefined) return {};
  const result = isErrorResult(last.content) ? undefined : { number: numberIn(last), text: textIn(last) };
  return { earlier: { tool: last.tool, args: last.args }, result };
}

/** The plan of the newest message; where it only answers what was asked back, of both messages together. */
function planExchange(text: string, exchanges: Exchange[], request: ChatRequest, memory: Memory): Plan {
  const only = request.toolChoice;
  const tools = typeof only === "object" ? request.tools.filter((tool) => tool.name === only.name) : request.tools;
  const profiles = profileTools(tools);
  const before = exchanges.at(-2);
  if (before !== undefined && before.outcomes.length === 0 && before.reply !== "") {
    const asked = makePlan(before.text, profiles, {});
    if (asked.asks) {
      const joined = makePlan(`${before.text.replace(/[.?!\s]+$/, "")} ${text}`, profiles, {});
      const isShort = tokenize(text).filter((token) => token.kind === "word" && !isStopWord(token.word)).length <= 2;
      if (isShort && joined.steps.length > 0) return joined;
    }
  }
  return makePlan(text, profiles, memory);
}

interface Progress {
  /** Calls to make now. */
  next: { name: string; arguments: Record<string, unknown> }[];
  /** Each step that was called, with its outcome. */
  done: { step: Step; outcome: Outcome }[];
  /** Why steps could not be made: what they needed had failed. */
  skipped: string[];
}

/** Matches the outcomes so far with the plan's steps, in order, and finds what comes next. */
function follow(plan: Plan, outcomes: Outcome[]): Progress {
  const progress: Progress = { next: [], done: [], skipped: [] };
  const results: (Outcome | "skipped" | undefined)[] = [];
  let taken = 0;
  for (const [index, step] of plan.steps.entries()) {
    const needs = Object.values(step.args).filter((arg) => arg instanceof ResultOf);
    if (needs.some((need) => results[need.step] === undefined)) break;
    const args = resolve(step.args, results);
    if (args === undefined) {
      results[index] = "skipped";
      const missing = plan.steps[needs[0]!.step]!.tool;
      progress.skipped.push(`I did not call ${step.tool}, because it needed the result of ${missing}.`);
    } else if (taken < outcomes.length) {
      results[index] = outcomes[taken];
      progress.done.push({ step, outcome: outcomes[taken]! });
      taken += 1;
    } else {
      progress.next.push({ name: step.tool, arguments: args });
    }
  }
  return progress;
}

/** Arguments with earlier results put in; undefined where one of them failed or is not of the kind needed. */
function resolve(
  args: Record<string, unknown>,
  results: (Outcome | "skipped" | undefined)[],
): Record<string, unknown> | undefined {
  const resolved: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(args)) {
    resolved[name] = value;
    if (!(value instanceof ResultOf)) continue;
    const outcome = results[value.step];
    if (typeof outcome !== "object" || isErrorResult(outcome.content)) return undefined;
    resolved[name] = value.as === "number" ? numberIn(outcome) : textIn(outcome);
    if (resolved[name] === undefined) return undefined;
  }
  return resolved;
}

function withoutReferences(args: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(args).filter(([, value]) => !(value instanceof ResultOf)));
}

const parting = /^\W*(thanks?|thank you|danke|bye|goodbye|tschüss)(?![\p{L}])/iu;
const hello =
  /^\W*(hi|hello|hey|hallo|moin|servus|(good|guten) (morning|afternoon|evening|day|tag|morgen|abend))(?![\p{L}])/iu;
const isGreeting = (text: string): boolean => hello.test(text) || parting.test(text);
const askingWho =
  /\b(who|what) are you\b|\bwho is this\b|\bare you (a|an|real|human)\b|\byour name\b|\byourself\b|\bwer bist du\b/i;

/** `seen`: what is to be said of the files. */
function compose(
  current: Exchange,
  plan: Plan,
  progress: Progress,
  profiles: ReturnType<typeof profileTools>,
  seen: string,
): string {
  const parts: string[] = [];
  if (askingWho.test(current.text) || (isGreeting(current.text) && plan.steps.length === 0)) parts.push(introduce());
  for (const { step, outcome } of progress.done) parts.push(tellOutcome(outcome, step.text, step.isQuestion));
  for (const outcome of current.outcomes.slice(progress.done.length)) parts.push(tellOutcome(outcome, "", false));
  parts.push(...progress.skipped);
  if (seen !== "") parts.push(seen);
  const isGreetingOnly = isGreeting(current.text) && current.outcomes.length === 0 && plan.notes.length === 0;
  if (current.outcomes.length === 0 && plan.notes.length === 0 && seen === "") {
    if (parts.length === 0) parts.push(`I found no tool for that. ${introduce()}`);
    if (!parting.test(current.text)) parts.push(tellAbilities(profiles));
  } else if (plan.unmet.length > 0 && !isGreetingOnly && seen === "") {
    const unmet = plan.unmet.filter((clause) => !isGreeting(clause) && !askingWho.test(clause));
    if (unmet.length > 0) parts.push(`I found no tool for ${unmet.map((clause) => `"${clause}"`).join(" and ")}.`);
  }
  parts.push(...plan.notes);
  return parts.join(parts.some((part) => part.includes("\n")) ? "\n" : " ");
}

/** The last word of a run that may call no more tools. */
function tellWithoutTools(current: Exchange, seen: string): string {
  if (current.outcomes.length === 0 && seen !== "") return seen;
  if (current.outcomes.length === 0) return `${introduce()} ${tellAbilities([])}`;
  const parts = current.outcomes.map((outcome) =>
    tellOutcome(outcome, current.outcomes.length === 1 ? current.text : "", false),
  );
  if (seen !== "") parts.push(seen);
  return parts.join(parts.some((part) => part.includes("\n")) ? "\n" : " ");
}
