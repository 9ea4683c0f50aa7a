/** Finds what is to be calculated in a clause: `2 plus 3 * 4`, `the sum of 2 and 3`, `subtract 4 from the result`. */
import type { Token } from "./language";

export type Operation = "add" | "sub" | "mul" | "div" | "mod" | "pow";

/** A number, what "the result" or "it" means, or an operation on two of these. */
export type Expression = number | "reference" | { operation: Operation; left: Expression; right: Expression };

export interface Arithmetic {
  expression: Expression;
  /** The tokens it was read from: `from` up to, not including, `to`. */
  from: number;
  to: number;
}

const infix: [words: string, operation: Operation][] = [
  ["multiplied by", "mul"],
  ["multiplied with", "mul"],
  ["divided by", "div"],
  ["to the power of", "pow"],
  ["added to", "add"],
  ["plus", "add"],
  ["+", "add"],
  ["minus", "sub"],
  ["-", "sub"],
  ["−", "sub"],
  ["–", "sub"],
  ["times", "mul"],
  ["*", "mul"],
  ["×", "mul"],
  ["·", "mul"],
  ["x", "mul"],
  ["/", "div"],
  ["÷", "div"],
  ["modulo", "mod"],
  ["mod", "mod"],
  ["%", "mod"],
  ["^", "pow"],
];
const rank: Record<Operation, number> = { add: 1, sub: 1, mul: 2, div: 2, mod: 2, pow: 3 };
const heads: [pattern: RegExp, operation: Operation][] = [
  [/^(add|sum|total)$/, "add"],
  [/^(multiply|product)$/, "mul"],
  [/^(subtract|difference)$/, "sub"],
  [/^(divide|quotient)$/, "div"],
  [/^(remainder|modulus|mod|modulo)$/, "mod"],
];
const filler =
  /^(of|between|and|by|to|with|from|when|if|is|are|the|numbers?|dividing|divided|,|left|over|for|in|you|we|i|divide)$/;
const referenceWords = /^(it|that|this|result|answer|outcome|sum|product|total|value|remainder|difference|quotient)$/;

/**
 * The first calculation of a clause. A reference ("the result", "it") counts as a number only where `hasReference`.
 */
export function findArithmetic(clause: Token[], hasReference: boolean): Arithmetic | undefined {
  for (let at = 0; at < clause.length; at += 1) {
    const head = heads.find(([pattern]) => pattern.test(clause[at]!.word));
    if (head !== undefined) {
      const found = readHead(clause, at, head[1], hasReference);
      if (found !== undefined) return found;
    }
    const found = readInfix(clause, at, 1, hasReference, false);
    if (found !== undefined && typeof found.expression === "object") return { ...found, from: at };
  }
  return undefined;
}

interface Part {
  expression: Expression;
  to: number;
}

/** `sum of 2 and 3`, `subtract 2 from 10`, `remainder of 17 divided by 5`: what is named first, then the operands. */
function readHead(clause: Token[], at: number, operation: Operation, hasReference: boolean): Arithmetic | undefined {
  const operands: Expression[] = [];
  let to = at + 1;
  let isReversed = false;
  while (to < clause.length) {
    const part = readInfix(clause, to, 1, hasReference, operation === "mod");
    if (part !== undefined) {
      operands.push(part.expression);
      to = part.to;
    } else if (filler.test(clause[to]!.word)) {
      if (clause[to]!.word === "from" && operation === "sub") isReversed = true;
      to += 1;
    } else {
      break;
    }
  }
  if (operands.length < 2) return undefined;
  while (filler.test(clause[to - 1]!.word)) to -= 1;
  if (isReversed) operands.reverse();
  const expression = operands.reduce((left, right) => ({ operation, left, right }));
  return { expression, from: at, to };
}

/** Operators bind as in arithmetic; `divided by` only joins the operands where a remainder was asked for. */
function readInfix(
  clause: Token[],
  at: number,
  least: number,
  hasReference: boolean,
  isRemainder: boolean,
): Part | undefined {
  let left = readOperand(clause, at, hasReference, isRemainder);
  while (left !== undefined) {
    const operator = readOperator(clause, left.to);
    if (operator === undefined || rank[operator.operation] < least) return left;
    if (isRemainder && operator.operation === "div") return left;
    const right = readInfix(clause, operator.to, rank[operator.operation] + 1, hasReference, isRemainder);
    if (right === undefined) return left;
    const { operation } = operator;
    left = { expression: { operation, left: left.expression, right: right.expression }, to: right.to };
  }
  return undefined;
}

function readOperand(clause: Token[], at: number, hasReference: boolean, isRemainder: boolean): Part | undefined {
  const token = clause[at];
  if (token === undefined) return undefined;
  if (token.kind === "number" && token.unit === undefined) {
    const value = token.value!;
    const isSquared = clause[at + 1]?.word === "squared";
    if (isSquared) return { expression: { operation: "mul", left: value, right: value }, to: at + 2 };
    return { expression: value, to: at + 1 };
  }
  if (token.unit === "percent" && clause[at + 1]?.word === "of") {
    const whole = readOperand(clause, at + 2, hasReference, isRemainder);
    if (whole === undefined) return undefined;
    return { expression: { operation: "mul", left: token.value! / 100, right: whole.expression }, to: whole.to };
  }
  if (token.text === "(") {
    const inner = readInfix(clause, at + 1, 1, hasReference, false);
    return inner !== undefined && clause[inner.to]?.text === ")" ? { ...inner, to: inner.to + 1 } : undefined;
  }
  const isHalf = token.word === "half" && clause[at + 1]?.word === "of";
  if (isHalf || /^(twice|double)$/.test(token.word)) {
    const inner = readOperand(clause, isHalf ? at + 2 : at + 1, hasReference, isRemainder);
    return inner && { expression: { operation: "mul", left: isHalf ? 0.5 : 2, right: inner.expression }, to: inner.to };
  }
  const word = /^(the|its)$/.test(token.word) ? at + 1 : at;
  const isReference =
    referenceWords.test(clause[word]?.word ?? "") && !/^(of|between|when)$/.test(clause[word + 1]?.word ?? "");
  return hasReference && isReference ? { expression: "reference", to: word + 1 } : undefined;
}

function readOperator(clause: Token[], at: number): { operation: Operation; to: number } | undefined {
  for (const [text, operation] of infix) {
    const parts = text.split(" ");
    if (parts.every((part, i) => clause[at + i]?.word === part)) return { operation, to: at + parts.length };
  }
  return undefined;
}
