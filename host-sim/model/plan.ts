/**
 * From a line of text to calls: clauses, then for each clause the tool that its words and values meet best. The plan of
 * a text is the same every time, so that it can be taken up again after each turn's results.
 */
import { planArithmetic, type Step } from "./calculate";
import { askFor, choose, weigh } from "./choose";
import { isBareValue, refusalOf, splitPieces, splitSentences, textOf, type Piece } from "./clauses";
import { isNamed, names, ResultOf, type EarlierCall, type FillContext, type KnownResult } from "./draft";
import { fill } from "./fill";
import { isStopWord, tokenize, type Token } from "./language";
import type { ToolProfile } from "./profile";

export interface Plan {
  steps: Step[];
  /** What could not be turned into a call, in sentences for the person. */
  notes: string[];
  /** True where a note asks for a value, so that the next message may be the answer. */
  asks: boolean;
  /** Clauses that met no tool at all. */
  unmet: string[];
}

/** What the conversation holds that "it", "the result" or "and now off" may mean. */
export interface Memory {
  earlier?: EarlierCall;
  result?: KnownResult;
}

/** Most calls that one message leads to. */
const maxSteps = 8;

/** Plans the calls of one message. */
export function makePlan(text: string, profiles: ToolProfile[], memory: Memory): Plan {
  const plan: Plan = { steps: [], notes: [], asks: false, unmet: [] };
  let earlier = memory.earlier;
  let reference: ResultOf | KnownResult | undefined = memory.result;
  // Calls that lack an argument, which a later part of the sentence may bring: "turn D2, D4 and D5 on".
  let waiting: { tool: string; args: Record<string, unknown>; clause: string; note?: string }[] = [];

  const push = (step: Step): void => {
    plan.steps.push(step);
    earlier = { tool: step.tool, args: step.args };
    reference = new ResultOf(plan.steps.length - 1, "text");
  };

  for (const sentence of splitSentences(tokenize(text), text)) {
    const refusal = refusalOf(sentence, text);
    if (refusal !== undefined) {
      plan.notes.push(refusal);
      continue;
    }
    for (const piece of splitPieces(sentence, text, profiles, reference !== undefined)) {
      const clause = textOf(piece.tokens, text);
      const context: FillContext = { text, reference, earlier };
      const done = planArithmetic(piece, text, profiles, plan, reference);
      if (done.isWhole) {
        if (done.step !== undefined) push(done.step);
        if (done.problem !== undefined) plan.notes.push(done.problem);
        continue;
      }
      if (done.step !== undefined) {
        push(done.step);
        context.reference = reference;
      }
      const tokens = done.tokens;
      const ellipsis = readEllipsis(tokens, piece, profiles, context);
      if (ellipsis !== undefined && !isComplete(ellipsis, profiles)) {
        waiting.push({ ...ellipsis, clause });
        continue;
      }
      if (ellipsis !== undefined) {
        const { isQuestion } = piece;
        for (const { tool, args, clause: lacking, note } of waiting) {
          const filled = { ...ellipsis.args, ...args };
          if (tool !== ellipsis.tool || !isComplete({ tool, args: filled }, profiles)) continue;
          push({ tool, args: filled, text: lacking, isQuestion });
          plan.notes = plan.notes.filter((other) => other !== note);
        }
        waiting = [];
        push({ ...ellipsis, text: clause, isQuestion });
        continue;
      }
      const choice = choose(tokens, piece.isQuestion, profiles, context);
      if (choice === undefined) {
        if (hasContent(tokens) && done.step === undefined) plan.unmet.push(clause);
        continue;
      }
      if (choice.filling.missing.length > 0) {
        const note = askFor(choice);
        plan.notes.push(note);
        plan.asks = true;
        waiting.push({ tool: choice.profile.name, args: choice.filling.args, clause, note });
        earlier = { tool: choice.profile.name, args: choice.filling.args };
        continue;
      }
      const left = choice.filling.unused.map((token) => token.text);
      if (left.length > 0)
        plan.notes.push(`I did not use ${left.join(", ")}: ${choice.profile.name} does not take it.`);
      push({ tool: choice.profile.name, args: choice.filling.args, text: clause, isQuestion: piece.isQuestion });
    }
  }
  plan.asks &&= plan.steps.length === 0;
  if (plan.steps.length > maxSteps) {
    plan.notes.push(`That was more than ${maxSteps} calls; I left out the rest.`);
    plan.steps.length = maxSteps;
  }
  return plan;
}

/** The tool that fits best whether or not the words speak for it; for a request that demands a call. */
export function forceStep(text: string, profiles: ToolProfile[], memory: Memory): Step | undefined {
  const tokens = tokenize(text);
  const choices = profiles.map((profile) => weigh(profile, profiles, tokens, false, { text, ...memory }));
  const best = choices.sort((a, b) => b.score - a.score)[0];
  return best && { tool: best.profile.name, args: best.filling.args, text, isQuestion: false };
}

function hasContent(tokens: Token[]): boolean {
  return tokens.some((token) => token.kind !== "symbol");
}

/** "and now off", "D4 too", "and in Paris?": the call before once more, with what is said anew. */
function readEllipsis(
  tokens: Token[],
  piece: Piece,
  profiles: ToolProfile[],
  context: FillContext,
): { tool: string; args: Record<string, unknown> } | undefined {
  const earlier = context.earlier;
  const profile = profiles.find((candidate) => candidate.name === earlier?.tool);
  if (earlier === undefined || profile === undefined || (profile.isAction && piece.isQuestion)) return undefined;
  const words = tokens.filter((token) => token.kind === "word");
  const line = words.map((token) => token.word).join(" ");
  const isBare = isBareValue(tokens);
  const isName = tokens.every((token) => /^\p{Lu}/u.test(token.text));
  const continues = piece.isJoined && (/^(the|a|an|my)$/.test(tokens[0]!.word) || isName);
  const isShort = words.filter((token) => !isStopWord(token.word)).length <= 2;
  const opens = isShort && /^(and|now|then|again|what about|how about)\b/.test(line);
  if (!isBare && !continues && !opens) return undefined;
  if (!isBare && !continues) {
    const others = profiles.filter((other) => other !== profile);
    const other = choose(tokens, piece.isQuestion, others, { text: context.text });
    if (other !== undefined && other.filling.missing.length === 0) return undefined;
  }
  if (/^(again|once more)\b/.test(line)) return { tool: profile.name, args: earlier.args };
  // "to 50" after "set pin 4 to 30 percent" is no pin.
  const params = profile.params.filter(
    (param) => !isNamed(param, names.pin) || tokens.some(({ kind }) => kind === "pin"),
  );
  const said = fill({ ...profile, params }, withoutFiller(tokens), { text: context.text });
  if (Object.keys(said.args).length === 0 || (said.evidence === 0 && !isBare)) return undefined;
  return { tool: profile.name, args: { ...earlier.args, ...said.args } };
}

function withoutFiller(tokens: Token[]): Token[] {
  return tokens.filter((token) => !/^(again|too|also|now|please)$/.test(token.word));
}

function isComplete(step: { tool: string; args: Record<string, unknown> }, profiles: ToolProfile[]): boolean {
  const profile = profiles.find((candidate) => candidate.name === step.tool)!;
  return profile.params.every((param) => !param.required || Object.hasOwn(step.args, param.name));
}
