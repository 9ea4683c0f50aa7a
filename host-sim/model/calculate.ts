/** Turns calculations into calls, one an operation, with the tools there are. */
import { findArithmetic, type Arithmetic, type Expression, type Operation } from "./arithmetic";
import { textOf, type Piece } from "./clauses";
import { isNumeric, ResultOf, type KnownResult } from "./draft";
import { groupsOf, stem, type Token } from "./language";
import { topicStems, type ToolProfile } from "./profile";

/** One call to make. An argument that is a `ResultOf` is known once that step has its result. */
export interface Step {
  tool: string;
  args: Record<string, unknown>;
  /** The clause it came from, as written; for a part of a calculation that part. */
  text: string;
  isQuestion: boolean;
}

interface ArithmeticPlan {
  /** True where the clause asked for nothing but the calculation, or where it cannot be done. */
  isWhole: boolean;
  step?: Step;
  /** The clause with the calculation replaced by "result". */
  tokens: Token[];
  /** Why none of the tools can do it by itself. */
  problem?: string;
}

const askingWords = new Set(
  "calculate compute evaluate solve work figure equal result math number answer question".split(" ").map(stem),
);

/** Plans a calculation; all steps but the last are added to the plan, the last is given back. */
export function planArithmetic(
  piece: Piece,
  text: string,
  profiles: ToolProfile[],
  plan: { steps: Step[] },
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
    // A tool that takes a list of numbers may do it all the same.
    return isWhole && !profiles.some(takesNumbers) ? { isWhole, tokens: [], problem: last } : nothing;
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

function takesNumbers(profile: ToolProfile): boolean {
  return profile.params.some(({ type, schema }) => type === "array" && schema.items?.type === "number");
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
  const candidates = profiles.filter((profile) => profile.params.filter(isNumeric).length >= 2);
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
    const [a, b] = tool.params.filter(isNumeric);
    const option = optionFor(tool, operation);
    return { tool: tool.name, args: { ...option, [a!.name]: left, [b!.name]: right } };
  }
  // Without a tool for it, a difference is the sum with the negative number.
  if (operation === "sub" && typeof right === "number") return operationStep("add", left, -right, profiles);
  return `None of my tools does ${nameOfOperation[operation]}.`;
}

function onlyNumbers(profile: ToolProfile): boolean {
  return profile.params.every((param) => !param.required || isNumeric(param));
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
