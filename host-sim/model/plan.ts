/**
 * From a line of text to calls: clauses, then for each clause the tool that its words and values meet best. The plan of
 * a text is the same every time, so that it can be taken up again after each turn's results.
 */
import { findArithmetic, type Arithmetic, type Expression, type Operation } from "./arithmetic";
import { fill, ResultOf, type EarlierCall, type FillContext, type Filling, type KnownResult } from "./fill";
import { groupsOf, isStopWord, stem, tokenize, type Token } from "./language";
import { isOtherDeed, meetsName, scoreWords, topicStems, type Param, type ToolProfile } from "./profile";

/** One call to make. An argument that is a `ResultOf` is known once that step has its result. */
export interface Step {
  tool: string;
  args: Record<string, unknown>;
  /** The clause it came from, as written; for a part of a calculation that part. */
  text: string;
  isQuestion: boolean;
}

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

interface Piece {
  tokens: Token[];
  /** Joined to the piece before by "and" or a comma within a sentence. */
  isJoined: boolean;
  isQuestion: boolean;
}

interface Choice {
  profile: ToolProfile;
  filling: Filling;
  score: number;
  wordScore: number;
  bestWord: number;
}

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

function textOf(tokens: Token[], text: string): string {
  return tokens.length === 0 ? "" : text.slice(tokens[0]!.start, tokens.at(-1)!.end);
}

function splitSentences(tokens: Token[], text: string): Token[][] {
  const sentences: Token[][] = [[]];
  tokens.forEach((token, i) => {
    const before = tokens[i - 1];
    const isNewLine = before !== undefined && text.slice(before.end, token.start).includes("\n");
    if (isNewLine && before.text !== ":") sentences.push([]);
    sentences.at(-1)!.push(token);
    if (token.kind === "symbol" && /^[.?!;…]$/.test(token.text)) sentences.push([]);
  });
  const isContent = (token: Token): boolean => token.kind !== "symbol";
  // "1." before a step of a list.
  const isNumbering = (sentence: Token[]): boolean =>
    sentences.length > 2 && sentence.filter(isContent).every((token) => token.kind === "number");
  return sentences.filter((sentence) => sentence.some(isContent) && !isNumbering(sentence));
}

/** Conditions, schedules and what is not to be done are no calls; saying so is better than doing half of it. */
function refusalOf(sentence: Token[], text: string): string | undefined {
  const words = sentence.map((token) => token.word);
  const quoted = `"${textOf(sentence, text).replace(/[.?!;]$/, "")}"`;
  const opening = words.slice(0, 4).join(" ");
  if (/\b(do not|don't|dont|never)\b/.test(opening) || /^(please )?not\b/.test(opening)) {
    return `I leave that alone: ${quoted}.`;
  }
  const isConditional = words.some((word, i) => {
    if (i > 0 && word === "when" && /^(remainder|rest|know|it|is)$/.test(words[i - 1]!)) return false;
    if (i > 0 && /^(when|until|while)$/.test(word)) return false;
    if (!/^(if|when|whenever|unless|until|once|while)$/.test(word)) return false;
    return (
      i === 0 ||
      ((word === "if" || word === "unless") &&
        !/^(me|us|see|check|know|out|tell|say|sure|whether|even|remainder)$/.test(words[i - 1]!))
    );
  });
  if (isConditional && sentence.at(-1)?.text !== "?") {
    return `I do not follow conditions, so I did nothing for ${quoted}. Ask for the steps one after another.`;
  }
  const isRepeated = words.some(
    (word, i) =>
      word === "every" && (sentence[i + 1]?.unit === "second" || /^(second|minute|hour)$/.test(words[i + 1] ?? "")),
  );
  if (isRepeated) return `I cannot repeat things by the clock, so I did nothing for ${quoted}.`;
  return undefined;
}

/** Splits a sentence where a new request begins: at "then", and at "and" or a comma between two requests. */
function splitPieces(sentence: Token[], text: string, profiles: ToolProfile[], hasReference: boolean): Piece[] {
  const isQuestionSentence = sentence.at(-1)?.text === "?";
  const raw: { tokens: Token[]; isHard: boolean }[] = [{ tokens: [], isHard: true }];
  for (let i = 0; i < sentence.length; i += 1) {
    const token = sentence[i]!;
    const current = raw.at(-1)!;
    const isConnector = token.kind !== "quoted" && /^(and|,|then|but|also|afterwards)$/.test(token.word);
    if (!isConnector || (token.word === "also" && !/^(and|,)$/.test(sentence[i - 1]?.word ?? ""))) {
      current.tokens.push(token);
      continue;
    }
    const isHard = token.word === "then" || token.word === "afterwards";
    if (current.tokens.length > 0) raw.push({ tokens: [], isHard });
    else current.isHard ||= isHard;
  }
  const pieces: Piece[] = [];
  for (const { tokens, isHard } of raw.filter((candidate) => candidate.tokens.length > 0)) {
    const before = pieces.at(-1);
    const startsNew =
      before === undefined ||
      isHard ||
      (isRequest(tokens, profiles, hasReference || pieces.length > 0) &&
        isRequest(before.tokens, profiles, hasReference)) ||
      ((isBareValue(tokens) || tokens.length <= 2) && hasSeparateValue(before.tokens, tokens));
    if (startsNew) {
      pieces.push({ tokens, isJoined: before !== undefined && !isHard, isQuestion: false });
    } else {
      const from = sentence.indexOf(before.tokens.at(-1)!);
      before.tokens = sentence.slice(
        sentence.indexOf(before.tokens[0]!),
        Math.max(from, sentence.indexOf(tokens.at(-1)!)) + 1,
      );
    }
  }
  for (const piece of pieces) piece.isQuestion = asksSomething(piece.tokens, isQuestionSentence);
  return pieces;
}

/** Whether a piece speaks of a tool by itself, or calculates. */
function isRequest(tokens: Token[], profiles: ToolProfile[], hasReference: boolean): boolean {
  if (findArithmetic(tokens, hasReference) !== undefined) return true;
  const stems = [...topicStems(tokens.filter((token) => token.kind === "word")), ...idioms(tokens)];
  return profiles.some((profile) => scoreWords(profile, profiles, stems).best >= 1.3);
}

/** Only values, states and small words: "D4 off", "now at 60 percent". */
function isBareValue(tokens: Token[]): boolean {
  const isBare = (token: Token): boolean =>
    token.kind !== "word" || isStopWord(token.word) || /^(off|high|low|back|percent|again)$/.test(token.word);
  return (
    tokens.every(isBare) &&
    tokens.some((token) => (token.kind !== "symbol" && !isStopWord(token.word)) || /^(on|off)$/.test(token.word))
  );
}

/** "turn on D2 and D4": the same kind of value once more; numbers alone do not count ("add 2 and 3"). */
function hasSeparateValue(before: Token[], tokens: Token[]): boolean {
  const isNamed = (token: Token): boolean => token.kind === "word" && /^\p{Lu}/u.test(token.text);
  if (tokens.every(isNamed) && before.slice(1).some(isNamed)) return true;
  const kinds = ["pin", "file", "email", "url"];
  return kinds.some(
    (kind) => tokens.some((token) => token.kind === kind) && before.some((token) => token.kind === kind),
  );
}

function asksSomething(tokens: Token[], endsWithMark: boolean): boolean {
  const first = tokens.find(
    (token) => token.kind === "word" && !/^(so|and|well|ok|okay|hey|hi|hello|please)$/.test(token.word),
  );
  const second = tokens[tokens.indexOf(first!) + 1]?.word ?? "";
  if (first === undefined) return endsWithMark;
  if (/^(can|could|would|will)$/.test(first.word) && second === "you") return false;
  if (/^(tell|show|give)$/.test(first.word)) return true;
  return (
    endsWithMark ||
    /^(is|are|was|do|does|did|what|what's|whats|which|who|where|when|how|why|has|have)$/.test(first.word)
  );
}

/** Whether a clause asks how things are: then nothing may be changed to answer it. */
function isInquiry(tokens: Token[]): boolean {
  const words = tokens.flatMap((token) => (token.kind === "word" ? [token.word] : []));
  while (/^(so|and|now|well|then|ok|okay|please)$/.test(words[0] ?? "")) words.shift();
  return /^(is|are|was|were|does|did|has|have|what|what's|whats|which|who|where|when|how|why)$/.test(words[0] ?? "");
}

/** Set phrases that are made of small words only, as the topics they stand for. */
function idioms(tokens: Token[]): string[] {
  const line = tokens.map((token) => token.word).join(" ");
  const found: string[] = [];
  if (/\b(who|what) (are|is) (you|this)\b|\byour name\b|\byourself\b|\bare you (a|an|real|human|there)\b/.test(line))
    found.push("agent", "identity");
  if (/\bwhat (else )?can you\b|\bwhat (are )?you (can|able)\b|\bcan you do\b|\bhow can you help\b|^help\b/.test(line))
    found.push("ability");
  if (/\bhow many\b/.test(line)) found.push("count");
  const what = /\b(?:which|what) (?:other )?(\w+s)\b/.exec(line)?.[1];
  const shown = /\b(?:tell|show|give|see|name)(?: me| us)?(?: all)?(?: of)?(?: the| my| your)? (?:\w+ )?(\w+s)\b/.exec(
    line,
  )?.[1];
  if (
    [what, shown].some(
      (word) => word !== undefined && !isStopWord(word) && !word.endsWith("ss") && !word.endsWith("us"),
    )
  )
    found.push("list");
  return found.map(stem);
}

function weigh(
  profile: ToolProfile,
  profiles: ToolProfile[],
  tokens: Token[],
  isQuestion: boolean,
  context: FillContext,
): Choice {
  const filling = fill(profile, tokens, context);
  const phrases = idioms(tokens);
  // "show the files" lists them, "show main.js" reads.
  const telling = phrases.includes("list") ? tokens.filter((token) => token.word !== "show") : tokens;
  const words = scoreWords(profile, profiles, [...topicStems(telling), ...phrases]);
  const unmet = topicStems(telling.filter((token) => !filling.used.has(token))).filter(
    (word) => scoreWords(profile, profiles, [word]).met === 0,
  );
  const verb = telling.find((token) => token.kind === "word" && !isStopWord(token.word));
  let score = words.total + 0.8 * filling.evidence - 2.2 * filling.missing.length - 1.2 * filling.unused.length;
  score -= 0.5 * unmet.length;
  if (verb !== undefined && meetsName(profile, verb.stem)) score += 0.8;
  if (verb !== undefined && isOtherDeed(profile, verb.stem)) score -= 4;
  if (isQuestion && profile.isAction) score -= 2;
  // "read it" after gpio_write means gpio_read rather than another tool that reads.
  const isRelated = context.earlier?.tool.split("_").some((word) => profile.nameStems.has(stem(word))) ?? false;
  if (isRelated && tokens.some((token) => token.word === "it" || token.word === "that")) score += 0.5;
  return { profile, filling, score, wordScore: words.total, bestWord: words.best };
}

/** The tool that a clause means; undefined where none is met well enough. */
function choose(
  tokens: Token[],
  isQuestion: boolean,
  profiles: ToolProfile[],
  context: FillContext,
): Choice | undefined {
  const choices = profiles
    .map((profile) => weigh(profile, profiles, tokens, isQuestion, context))
    .filter((choice) => choice.bestWord >= 0.75 && choice.wordScore >= 1.2)
    .filter((choice) => !(choice.profile.isAction && isInquiry(tokens)))
    .sort((a, b) => b.score - a.score);
  const best = choices[0];
  if (best === undefined) return undefined;
  return best.score >= (best.filling.missing.length > 0 ? 0 : 0.8) ? best : undefined;
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
  if (earlier === undefined || profile === undefined) return undefined;
  const words = tokens.filter((token) => token.kind === "word");
  const startsAnew =
    piece.isJoined && (/^(the|a|an|my)$/.test(tokens[0]!.word) || tokens.every((token) => /^\p{Lu}/u.test(token.text)));
  const isShort = words.filter((token) => !isStopWord(token.word)).length <= 2;
  const opens =
    /^(and|now|then|again)$/.test(words[0]?.word ?? "") ||
    /^(what|how) about\b/.test(words.map((w) => w.word).join(" "));
  const isBare = isBareValue(tokens);
  if (!isBare && !startsAnew && !(opens && isShort)) return undefined;
  if (
    !isBare &&
    choose(
      tokens,
      piece.isQuestion,
      profiles.filter((p) => p !== profile),
      { text: context.text },
    )?.filling.missing.length === 0 &&
    !startsAnew
  )
    return undefined;
  const said = /^(again|once more)/.test(words.map((w) => w.word).join(" "))
    ? undefined
    : fill(profile, withoutFiller(tokens), { text: context.text });
  if (said !== undefined && (Object.keys(said.args).length === 0 || (said.evidence === 0 && !isBare))) return undefined;
  return { tool: profile.name, args: { ...earlier.args, ...said?.args } };
}

function withoutFiller(tokens: Token[]): Token[] {
  return tokens.filter((token) => !/^(again|too|also|now|please)$/.test(token.word));
}

function isComplete(step: { tool: string; args: Record<string, unknown> }, profiles: ToolProfile[]): boolean {
  const profile = profiles.find((candidate) => candidate.name === step.tool)!;
  return profile.params.every((param) => !param.required || Object.hasOwn(step.args, param.name));
}

function askFor(choice: Choice): string {
  const parts = choice.filling.missing.map(({ param, reason }) => askForOne(param, reason));
  return `${choice.profile.name} needs ${parts.join(" and ")}.`;
}

function askForOne(param: Param, reason: string | undefined): string {
  if (reason !== undefined) return `another ${param.name} (${reason})`;
  const options = param.schema.enum;
  if (options !== undefined) return `${param.name} (one of ${options.join(", ")})`;
  const description = param.schema.description?.replace(/[.\s]+$/, "");
  return description === undefined ? param.name : `${param.name} (${description})`;
}

interface ArithmeticPlan {
  /** True where the clause asked for nothing but the calculation, or where it cannot be done. */
  isWhole: boolean;
  step?: Step;
  /** The clause with the calculation replaced by "result". */
  tokens: Token[];
}

const askingWords = new Set(
  "calculate compute evaluate solve work figure equal result math number answer question".split(" ").map(stem),
);

/** Plans a calculation; all steps but the last are added to the plan, the last is given back. */
function planArithmetic(
  piece: Piece,
  text: string,
  profiles: ToolProfile[],
  plan: Plan,
  reference: ResultOf | KnownResult | undefined,
): ArithmeticPlan {
  const nothing = { isWhole: false, tokens: piece.tokens };
  const hasNumber = reference instanceof ResultOf || reference?.number !== undefined;
  const found = findArithmetic(piece.tokens, hasNumber);
  if (found === undefined) return nothing;
  const rest = [...piece.tokens.slice(0, found.from), ...piece.tokens.slice(found.to)];
  const isWhole =
    topicStems(rest).every((word) => askingWords.has(word)) && rest.every((token) => /word|symbol/.test(token.kind));
  const source = textOf(piece.tokens.slice(found.from, found.to), text);
  const steps: Step[] = [];
  const last = planExpression(found, source, piece, text, profiles, plan.steps.length, reference, steps);
  if (typeof last === "string") {
    if (!isWhole) return nothing;
    plan.notes.push(last);
    return { isWhole, tokens: [] };
  }
  plan.steps.push(...steps.slice(0, -1));
  const stand: Token = {
    ...piece.tokens[found.from]!,
    kind: "word",
    text: source,
    word: "result",
    stem: "result",
    unit: undefined,
  };
  const tokens = [...piece.tokens.slice(0, found.from), stand, ...piece.tokens.slice(found.to)];
  return { isWhole, step: steps.at(-1), tokens };
}

/** Adds the steps of an expression; a text says what is in the way. */
function planExpression(
  found: Arithmetic,
  source: string,
  piece: Piece,
  text: string,
  profiles: ToolProfile[],
  offset: number,
  reference: ResultOf | KnownResult | undefined,
  steps: Step[],
): string | undefined {
  const whole = wholeExpressionTool(profiles);
  const evaluate = (expression: Expression): unknown => {
    if (typeof expression === "number") return expression;
    if (expression === "reference") {
      return reference instanceof ResultOf ? new ResultOf(reference.step, "number") : reference?.number;
    }
    const left = evaluate(expression.left);
    const right = evaluate(expression.right);
    const step = operationStep(expression.operation, left, right, profiles);
    if (typeof step === "string") throw new NotPossible(step);
    const isTop = expression === found.expression;
    steps.push({ ...step, text: isTop ? textOf(piece.tokens, text) : "", isQuestion: isTop && piece.isQuestion });
    return new ResultOf(offset + steps.length - 1, "number");
  };
  try {
    evaluate(found.expression);
  } catch (error) {
    if (!(error instanceof NotPossible)) throw error;
    if (whole === undefined || JSON.stringify(found.expression).includes("reference")) return error.message;
    steps.length = 0;
    const args = { [whole.params.find((param) => param.required)!.name]: source };
    steps.push({ tool: whole.name, args, text: textOf(piece.tokens, text), isQuestion: piece.isQuestion });
  }
  return undefined;
}

class NotPossible extends Error {}

/** A tool that takes a whole expression as text. */
function wholeExpressionTool(profiles: ToolProfile[]): ToolProfile | undefined {
  return profiles.find((profile) => {
    const required = profile.params.filter((param) => param.required);
    return (
      required.length === 1 &&
      required[0]!.type === "string" &&
      /expression|formula|equation|calculation/i.test(required[0]!.name)
    );
  });
}

const nameOfOperation: Record<Operation, string> = {
  add: "addition",
  sub: "subtraction",
  mul: "multiplication",
  div: "division",
  mod: "the remainder",
  pow: "powers",
};

/** One operation as a call: by a tool of that name or meaning, or by a calculator whose enum has the operation. */
function operationStep(
  operation: Operation,
  left: unknown,
  right: unknown,
  profiles: ToolProfile[],
): Pick<Step, "tool" | "args"> | string {
  const candidates = profiles.filter((profile) => profile.params.filter(isNumericParam).length >= 2);
  const isMeant = (words: Set<string>): boolean => words.has(operation);
  const tool =
    candidates.find((profile) => isMeant(profile.nameGroups) && onlyNumbers(profile)) ??
    candidates.find((profile) => optionFor(profile, operation) !== undefined) ??
    candidates.find(
      (profile) =>
        profile.nameStems.size > 0 &&
        isMeant(profile.topicGroups) &&
        onlyNumbers(profile) &&
        !isOther(profile, operation),
    );
  if (tool !== undefined) {
    const [a, b] = tool.params.filter(isNumericParam);
    const option = optionFor(tool, operation);
    return { tool: tool.name, args: { ...option, [a!.name]: left, [b!.name]: right } };
  }
  // Without a tool for it, a difference is the sum with the negative number.
  if (operation === "sub" && typeof right === "number") return operationStep("add", left, -right, profiles);
  return `None of my tools does ${nameOfOperation[operation]}.`;
}

function isNumericParam(param: Param): boolean {
  return param.type === "number" || param.type === "integer";
}

function onlyNumbers(profile: ToolProfile): boolean {
  return profile.params.every((param) => !param.required || isNumericParam(param));
}

const operations: Operation[] = ["add", "sub", "mul", "div", "mod", "pow"];

/** Whether the tool's name says that it does another operation, whatever its description mentions. */
function isOther(profile: ToolProfile, operation: Operation): boolean {
  return (
    operations.some((other) => other !== operation && profile.nameGroups.has(other)) ||
    profile.nameGroups.has("compare")
  );
}

function optionFor(profile: ToolProfile, operation: Operation): Record<string, unknown> | undefined {
  const signs: Record<Operation, string> = { add: "+", sub: "-", mul: "*", div: "/", mod: "%", pow: "^" };
  for (const param of profile.params) {
    const option = param.schema.enum?.find(
      (value) => value === signs[operation] || groupsOf(stem(String(value).toLowerCase())).has(operation),
    );
    if (option !== undefined) return { [param.name]: option };
  }
  return undefined;
}
