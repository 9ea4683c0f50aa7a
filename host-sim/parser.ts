/**
 * Espruino's grammar: source text to a syntax tree in ESTree's terms. The interpreter executes text as it reads it, so
 * that it accepts what no JavaScript parser does (statements need nothing between them, any expression may stand on the
 * left of `=`) and what it cannot read is an error only where and when it gets there. A statement it cannot read is a
 * `BrokenStatement` here, and nothing of the block after it is in the tree.
 *
 * Every node has `start` and `end`, as in ESTree, and `last`: where its last token begins. The interpreter reports
 * errors at the token it has read last.
 */

/** What the interpreter says of what it cannot read, and where. */
export class EspruinoSyntaxError extends Error {
  constructor(
    message: string,
    /** Offset into the source. */
    readonly position: number,
    /** Class of the error. */
    readonly type = "SyntaxError",
  ) {
    super(message);
  }
}

/** A node of the tree. Its fields are those of ESTree, and where they are not, `parse` says so. */
export type Node = any;

const RESERVED = new Set(
  (
    "if else do while for break continue function return var let const this throw try catch finally true false null " +
    "undefined new in instanceof switch case default delete typeof void debugger class extends super static of"
  ).split(" "),
);
const ASSIGNMENTS = new Set(["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", ">>=", "<<=", ">>>="]);
const PRECEDENCE: Record<string, number> = {
  "??": 1,
  "||": 1,
  "&&": 2,
  "|": 3,
  "^": 4,
  "&": 5,
  "==": 6,
  "!=": 6,
  "===": 6,
  "!==": 6,
  "<=": 7,
  ">=": 7,
  "<": 7,
  ">": 7,
  instanceof: 7,
  in: 7,
  "<<": 8,
  ">>": 8,
  ">>>": 8,
  "+": 9,
  "-": 9,
  "*": 10,
  "/": 10,
  "%": 10,
};
/** Operators of more than one character, the longest first. */
const OPERATORS = (
  ">>>= === !== <<= >>= >>> == != <= << >= >> += -= ++ -- *= %= &= && |= || ^= => ?? /= " +
  "! % & ( ) * + , - . / : ; < = > ? [ ] ^ { | } ~"
).split(" ");
/** Bytes from this one on stand for operators and reserved words, in this order: code may be stored that way. */
const FIRST_TOKEN_BYTE = 138;
const TOKEN_BYTES = (
  "== === != !== <= << <<= >= >> >>> >>= >>>= += -= ++ -- *= %= &= && |= || ^= => if else do while for break " +
  "continue function return var let const this throw try catch finally true false null undefined new in instanceof " +
  "switch case default delete typeof void debugger class extends super static of"
).split(" ");
const OPERATORS_BY_FIRST = new Map<string, string[]>();
for (const operator of OPERATORS)
  OPERATORS_BY_FIRST.set(operator[0]!, [...(OPERATORS_BY_FIRST.get(operator[0]!) ?? []), operator]);
/** After these a slash begins a regular expression. */
const BEFORE_REGEX = new Set(["EOF", ..."!%&*+-/<=>?[{}(,;:"]);
const VALUES = new Set(["true", "false", "null", "undefined"]);
const STATEMENT_STARTS = new Set([
  ..."ID INT FLOAT STRING new null undefined true false this delete typeof void super ++ -- ! - + ~ [ (".split(" "),
  "TEMPLATE LITERAL",
  "REGEX",
]);
/** The interpreter keeps so much of a name or a number. */
const MAX_TOKEN = 63;
/** What of a token fits the text of an error. */
const MAX_SHOWN = 29;
const SPACE = /[\t-\r ]*/y;
const NAME = /[A-Za-z_$][\w$]*/y;
const NUMBER =
  /0[xXbBoO][\da-fA-F_]*|(?:\d[\d_]*\.?|\.\d)[\d_]*(?:[eE][+-]?[\d_]*)?/y;
const DECLARATION = /(?:class|function|var|let|const)\s+([A-Za-z_$][\w$]*)/y;
const SIMPLE_ESCAPES: Record<string, string> = { n: "\n", b: "\b", f: "\f", r: "\r", t: "\t", v: "\v" };

const toByte = (code: number): string => String.fromCharCode(code & 0xff);

/**
 * The number a decimal text is to the interpreter: it adds up digit by digit and ends a few units in the last place
 * away from the nearest double.
 */
export const textToFloat = (text: string): number => {
  const match = /^\s*([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?)(\d*))?/.exec(text.replace(/_/g, ""))!;
  let value = 0;
  for (const digit of match[2]!) value = value * 10 + Number(digit);
  let multiplier = 0.1;
  for (const digit of match[3] ?? "") {
    value += multiplier * Number(digit);
    multiplier /= 10;
  }
  for (let exponent = Math.min(Number(match[5] ?? 0), 700); exponent > 0; exponent--) {
    if (match[4] === "-") value /= 10;
    else value *= 10;
  }
  return match[1] === "-" ? 0 - value : value;
};

/** The value of a whole number as it is written: 64 bits, whose overflow wraps; a leading zero may mean octal. */
const textToInteger = (raw: string): number => {
  const text = raw.replace(/_/g, "").slice(0, MAX_TOKEN);
  const prefix = /^0([xXbBoO])/.exec(text);
  const radix = prefix ? { x: 16, b: 2, o: 8 }[prefix[1]!.toLowerCase() as "x"] : /^0[0-7]/.test(text) ? 8 : 10;
  const digits = prefix ? text.slice(2) : text;
  if (radix === 10 && digits.length < 16) return Number(digits);
  let value = 0n;
  for (const digit of digits) {
    const number = parseInt(digit, radix);
    if (Number.isNaN(number)) break;
    value = value * BigInt(radix) + BigInt(number);
  }
  return Number(BigInt.asIntN(64, value));
};

/**
 * Parses a program, or the code of a function. Never throws for what stands in the source. Nodes are ESTree's but for
 * these:
 *
 * - `BrokenStatement`: `{message, position, errorType}`; ends its block. `done` is what has been executed when the
 *   interpreter finds the error, `declares` the name that exists then
 * - `BrokenExpression`: the same in an operand that may not be executed, where it is no error
 * - `Callee`: in `done` only, a function that is looked up before its arguments are read
 * - functions: `bodyStart` and `bodyEnd`, the text kept as their code; `isReturn` where that is an expression; `usesThis`
 * - `ReturnStatement`, `BreakStatement`, `ContinueStatement`: `isOutside` where no function or loop is around them
 * - `SwitchStatement`: `broken`, the error of a `case` after `default`
 * - `MemberExpression`: `operator`, offset of its dot or bracket; binary nodes: `operatorStart`
 * - `TemplateLiteral`: `parts`, each a text or an expression node
 * - in brackets: `outerStart`, `outerLast` and `outerEnd` of the brackets around a node
 */
export const parse = (source: string, kind: "program" | "function" = "program"): Node => {
  let limit = source.length;
  /** The token that comes next. */
  let type = "EOF";
  let start = 0;
  let end = 0;
  let value: any;
  /** The token read last. */
  let lastStart = 0;
  let lastEnd = 0;
  let isForInit = false;
  let loops = 0;
  let switches = 0;
  let functions = kind === "function" ? 1 : 0;
  let hasThis = false;

  const fail = (message: string, position: number, errorType = "SyntaxError"): never => {
    throw new EspruinoSyntaxError(message, position, errorType);
  };

  // ---- Tokens
  const skipSpace = (from: number): number => {
    let position = from;
    for (;;) {
      SPACE.lastIndex = position;
      position = Math.min(limit, position + SPACE.exec(source)![0].length);
      if (source[position] !== "/" || position >= limit) return position;
      if (source[position + 1] === "/") {
        const lineEnd = source.indexOf("\n", position);
        position = lineEnd < 0 || lineEnd >= limit ? limit : lineEnd + 1;
      } else if (source[position + 1] === "*") {
        const close = source.indexOf("*/", position + 2);
        if (close < 0 || close + 2 > limit) return -1;
        position = close + 2;
      } else return position;
    }
  };
  const next = (): void => {
    const previous = type;
    lastStart = start;
    lastEnd = end;
    value = undefined;
    const position = skipSpace(end);
    if (position < 0) {
      type = "UNFINISHED COMMENT";
      start = skipUnfinished(end);
      end = limit;
      return;
    }
    start = position;
    // A zero byte ends a source.
    if (position >= limit || source[position] === "\0") {
      type = "EOF";
      end = position;
      return;
    }
    const char = source[position]!;
    if ((char >= "a" && char <= "z") || (char >= "A" && char <= "Z") || char === "_" || char === "$") {
      NAME.lastIndex = position;
      const name = NAME.exec(source)![0];
      end = Math.min(limit, position + name.length);
      value = name.slice(0, MAX_TOKEN);
      type = RESERVED.has(name) ? name : "ID";
      if (name === "this") hasThis = true;
      return;
    }
    if ((char >= "0" && char <= "9") || (char === "." && isDigit(source[position + 1]) && position + 1 < limit)) {
      NUMBER.lastIndex = position;
      const text = NUMBER.exec(source)![0].slice(0, limit - position);
      end = position + text.length;
      const isInteger = /^0[xXbBoO]/.test(text) || /^[\d_]+$/.test(text);
      type = isInteger ? "INT" : "FLOAT";
      value = isInteger ? textToInteger(text) : textToFloat(text);
      return;
    }
    if (char === '"' || char === "'" || char === "`") return readString(position, char);
    if (char === "/" && startsRegex(previous)) return readRegex(position);
    const operator = OPERATORS_BY_FIRST.get(char)?.find(
      (text) => source.startsWith(text, position) && position + text.length <= limit,
    );
    type = operator ?? TOKEN_BYTES[char.charCodeAt(0) - FIRST_TOKEN_BYTE] ?? char;
    end = position + (operator ? operator.length : 1);
    if (!operator && RESERVED.has(type)) value = type;
  };
  const skipUnfinished = (from: number): number => {
    const open = source.indexOf("/*", from);
    return open < 0 ? from : open;
  };
  const isDigit = (char: string | undefined): boolean => char !== undefined && char >= "0" && char <= "9";
  const startsRegex = (previous: string): boolean =>
    BEFORE_REGEX.has(previous) ||
    ((RESERVED.has(previous) || (previous.length > 1 && OPERATORS.includes(previous))) && !VALUES.has(previous));

  /** Text up to its quote; of a template also where in the source each character of its value stands. */
  const readString = (from: number, quote: string): void => {
    let position = from + 1;
    let text = "";
    const places: number[] = [];
    let nesting = 0;
    let isTemplate = false;
    let previous = quote;
    let invalid = false;
    const add = (char: string, place: number): void => {
      text += char;
      if (quote === "`") places.push(place);
      previous = char;
    };
    while (position < limit && source[position] !== "\0" && (source[position] !== quote || nesting > 0)) {
      const char = source[position]!;
      if (quote === "`") {
        if ((previous === "$" || nesting > 0) && char === "{") {
          nesting++;
          isTemplate = true;
        } else if (nesting > 0 && char === "}") nesting--;
      }
      if (nesting === 0 && char === "\\") {
        const place = position++;
        const escape = source[position];
        if (escape !== undefined && escape in SIMPLE_ESCAPES) {
          add(SIMPLE_ESCAPES[escape]!, place);
          position++;
        } else if (escape === "u" || escape === "x") {
          const wanted = escape === "u" ? 4 : 2;
          const digits = /^[\da-fA-F]*/.exec(source.slice(position + 1, Math.min(limit, position + 1 + wanted)))![0];
          if (digits.length < wanted) invalid = true;
          add(toByte(parseInt(digits || "0", 16)), place);
          position += 1 + digits.length;
        } else if (escape !== undefined && escape >= "0" && escape <= "7") {
          const digits = /^[0-7]{1,3}/.exec(source.slice(position, Math.min(limit, position + 3)))![0];
          add(toByte(parseInt(digits, 8)), place);
          position += digits.length;
        } else if (escape !== undefined && position < limit) {
          add(toByte(escape.charCodeAt(0)), place);
          position++;
        }
      } else if (char === "\n" && quote !== "`") break;
      else {
        add(toByte(char.charCodeAt(0)), position);
        position++;
      }
    }
    const isFinished = position < limit && source[position] === quote;
    type = isTemplate ? "TEMPLATE LITERAL" : "STRING";
    if (!isFinished) type = quote === "`" ? "UNFINISHED TEMPLATE LITERAL" : "UNFINISHED STRING";
    start = from;
    end = isFinished ? position + 1 : position;
    value = isTemplate ? { text, places } : text;
    if (invalid) fail("Invalid escape sequence", lastStart, "Error");
  };
  const readRegex = (from: number): void => {
    let position = from + 1;
    while (position < limit && source[position] !== "/" && source[position] !== "\n")
      position += source[position] === "\\" ? 2 : 1;
    const isFinished = position < limit && source[position] === "/";
    type = isFinished ? "REGEX" : "UNFINISHED REGEX";
    const pattern = source.slice(from + 1, Math.min(limit, position));
    if (isFinished) position++;
    const flags = isFinished ? /^[gimyu]*/.exec(source.slice(position, limit))![0] : "";
    end = Math.min(limit, position + flags.length);
    value = { pattern: pattern.replace(/[^\x00-\xff]/g, (char) => toByte(char.charCodeAt(0))), flags };
  };
  /** Goes on reading from `position`, as at the beginning of a source. */
  const seek = (position: number): void => {
    type = "EOF";
    start = position;
    end = position;
    next();
    lastStart = position;
    lastEnd = position;
  };

  const tokenName = (name: string): string => {
    if (name.length === 1) return name.charCodeAt(0) > 127 ? `?[${name.charCodeAt(0)}]` : `'${name}'`;
    return name;
  };
  const tokenText = (): string => {
    if (type === "ID") return `ID:${value}`.slice(0, MAX_SHOWN);
    if (type === "STRING") return `String:'${value}'`.slice(0, MAX_SHOWN);
    return tokenName(type);
  };
  const is = (wanted: string): boolean => type === wanted;
  const match = (wanted: string): void => {
    if (!is(wanted)) fail(`Got ${tokenText()} expected ${tokenName(wanted)}`, start);
    next();
  };

  // ---- Nodes
  const finish = (node: Node): Node => {
    node.end = lastEnd;
    node.last = lastStart;
    return node;
  };
  /** What the statement that is being read has executed so far, as far as it can be noticed. */
  let done: Node[] = [];
  /** A finished expression stands for its parts. */
  const finishEffect = (node: Node): Node => {
    finish(node);
    while (done.length && done[done.length - 1].start >= node.start) done.pop();
    done.push(node);
    return node;
  };

  // ---- Expressions
  const expression = (): Node => {
    const from = start;
    const first = assignment();
    if (!is(",")) return first;
    const expressions = [first];
    while (is(",")) {
      next();
      expressions.push(assignment());
    }
    return finish({ type: "SequenceExpression", start: from, expressions });
  };
  const assignment = (): Node => {
    const from = start;
    const left = conditional();
    if (!ASSIGNMENTS.has(type)) return left;
    const operator = type;
    const operatorStart = start;
    next();
    const right = assignment();
    return finishEffect({ type: "AssignmentExpression", start: from, operator, operatorStart, left, right });
  };
  const conditional = (): Node => {
    const from = start;
    const test = binary(unary(), 0);
    if (!is("?")) return test;
    const operatorStart = start;
    next();
    const consequent = optional(assignment);
    if (!is(":")) finishEffect({ type: "ConditionalExpression", start: from, operatorStart, test, consequent });
    match(":");
    const alternate = optional(assignment);
    return finishEffect({ type: "ConditionalExpression", start: from, operatorStart, test, consequent, alternate });
  };
  /** What is not executed may be wrong: the interpreter goes on behind the token it could not read. */
  const optional = (read: () => Node): Node => {
    const from = start;
    try {
      return read();
    } catch (error) {
      if (!(error instanceof EspruinoSyntaxError)) throw error;
      if (!is("EOF")) skipToken();
      const node = { type: "BrokenExpression", start: Math.min(from, lastEnd), end: lastEnd, last: lastStart };
      return { ...node, message: error.message, position: error.position, errorType: error.type };
    }
  };
  const precedence = (): number => (is("in") && isForInit ? 0 : (PRECEDENCE[type] ?? 0));
  const binary = (first: Node, outer: number): Node => {
    let left = first;
    for (let inner = precedence(); inner > outer; inner = precedence()) {
      const operator = type;
      const operatorStart = start;
      next();
      const isLogical = operator === "&&" || operator === "||" || operator === "??";
      const operand = () => binary(unary(), inner);
      const right = isLogical ? optional(operand) : operand();
      left = (isLogical ? finish : finishEffect)({
        type: isLogical ? "LogicalExpression" : "BinaryExpression",
        start: outerStart(left),
        operator,
        operatorStart,
        left,
        right,
      });
    }
    return left;
  };
  const outerStart = (node: Node): number => node.outerStart ?? node.start;
  const unary = (): Node => {
    if (!is("!") && !is("~") && !is("-") && !is("+")) return postfix();
    const from = start;
    const operator = type;
    next();
    const argument = unary();
    return finish({ type: "UnaryExpression", start: from, operator, prefix: true, argument });
  };
  const postfix = (): Node => {
    const from = start;
    let node: Node;
    if (is("++") || is("--")) {
      const operator = type;
      next();
      const argument = postfix();
      node = finishEffect({ type: "UpdateExpression", start: from, operator, prefix: true, argument });
    } else node = call();
    while (is("++") || is("--")) {
      const operator = type;
      const operatorStart = start;
      next();
      node = finishEffect({
        type: "UpdateExpression",
        start: from,
        operator,
        operatorStart,
        prefix: false,
        argument: node,
      });
    }
    return node;
  };
  const call = (): Node => {
    const from = start;
    let isNew = false;
    let calleeStart = from;
    if (is("new")) {
      next();
      isNew = true;
      calleeStart = start;
      if (is("new")) fail("Nesting 'new' operators is unsupported", lastStart, "Error");
    }
    let node: Node;
    if (is("super")) {
      const superStart = start;
      next();
      node = member(finish({ type: "Super", start: superStart }), superStart);
    } else node = member(factor(), calleeStart);
    if (is("TEMPLATE LITERAL")) fail("Tagged Templates are not supported", lastStart);
    while (is("(") || isNew) {
      const isConstruct = isNew;
      isNew = false;
      const open = is("(") ? start : undefined;
      if (open !== undefined && /^(Identifier|MemberExpression)$/.test(node.type) && node.object?.type !== "Super")
        done.push({ ...node, type: "Callee", callee: node });
      const list = open === undefined ? [] : callArguments();
      node = finishEffect({
        type: isConstruct ? "NewExpression" : "CallExpression",
        start: from,
        callee: node,
        arguments: list,
        open,
      });
      node = member(node, from);
    }
    return node;
  };
  const callArguments = (): Node[] => {
    const list: Node[] = [];
    match("(");
    while (!is(")")) {
      list.push(assignment());
      if (!is(")")) match(",");
    }
    match(")");
    return list;
  };
  const member = (first: Node, from: number): Node => {
    let node = first;
    while (is(".") || is("[")) {
      const operator = start;
      if (is(".")) {
        next();
        if (!is("ID") && !RESERVED.has(type)) match("ID");
        const property = { type: "Identifier", start, end, last: start, name: value };
        next();
        node = finishEffect({ type: "MemberExpression", start: from, object: node, property, computed: false, operator });
      } else {
        next();
        const property = assignment();
        match("]");
        node = finishEffect({ type: "MemberExpression", start: from, object: node, property, computed: true, operator });
      }
    }
    return node;
  };
  const factor = (): Node => {
    const from = start;
    const literal = (literalValue: unknown, extra: object = {}): Node => {
      next();
      return finish({ type: "Literal", start: from, value: literalValue, ...extra });
    };
    switch (type) {
      case "ID": {
        const name = value;
        next();
        const node = finish({ type: "Identifier", start: from, name });
        if (is("TEMPLATE LITERAL")) fail("Tagged template literals not supported", lastStart);
        return is("=>") ? arrow(from, [node]) : node;
      }
      case "INT":
      case "FLOAT":
        return literal(value, { isNumber: true });
      case "STRING":
        return literal(value);
      case "REGEX":
        return literal(undefined, { regex: value });
      case "true":
      case "false":
        return literal(is("true"));
      case "null":
        return literal(null);
      case "undefined":
        next();
        return finish({ type: "UndefinedLiteral", start: from });
      case "(":
        return brackets();
      case "TEMPLATE LITERAL":
        return template();
      case "{":
        return object();
      case "[":
        return array();
      case "function": {
        next();
        return functionExpression(from);
      }
      case "class":
        next();
        return classNode(from, "ClassExpression", true);
      case "this":
        next();
        return finish({ type: "ThisExpression", start: from });
      case "delete": {
        next();
        const inner = start;
        const argument = member(factor(), inner);
        return finish({ type: "UnaryExpression", start: from, operator: "delete", prefix: true, argument });
      }
      case "typeof":
      case "void": {
        const operator = type;
        next();
        const argument = unary();
        return finish({ type: "UnaryExpression", start: from, operator, prefix: true, argument });
      }
      default:
        match("EOF");
        return fail("Unexpected end of Input", lastStart);
    }
  };
  /** An expression in brackets, or the parameters of an arrow function. */
  const brackets = (): Node => {
    const from = start;
    next();
    const expressions: Node[] = [];
    let trailingComma: number | undefined;
    while (!is(")")) {
      expressions.push(assignment());
      trailingComma = undefined;
      if (!is(")")) {
        trailingComma = start;
        match(",");
      }
    }
    match(")");
    const areNames = expressions.every((node) => node.type === "Identifier");
    if (areNames && is("=>")) return arrow(from, expressions);
    let node: Node;
    if (expressions.length === 0) return finish({ type: "UndefinedLiteral", start: from });
    if (expressions.length === 1) node = expressions[0];
    else {
      // Names in brackets are not read, but for the last.
      for (const item of expressions.slice(0, -1)) if (item.type === "Identifier") item.isUnread = true;
      const first = expressions[0];
      const last = expressions[expressions.length - 1];
      node = {
        type: "SequenceExpression",
        start: outerStart(first),
        end: last.outerEnd ?? last.end,
        last: last.outerLast ?? last.last,
        expressions,
      };
    }
    node.outerStart = from;
    node.outerLast = lastStart;
    node.outerEnd = lastEnd;
    if (trailingComma !== undefined) node.trailingComma = trailingComma;
    return node;
  };
  const arrow = (from: number, params: Node[]): Node => {
    const arrowStart = start;
    const paramsEnd = lastEnd;
    match("=>");
    const node: Node = { type: "ArrowFunctionExpression", start: from, params, arrow: arrowStart, paramsEnd };
    if (is("{")) functionBody(node);
    else {
      const bodyStart = start;
      hasThis = is("this");
      functions++;
      const outer = [loops, switches, isForInit, done] as const;
      done = [];
      loops = 0;
      switches = 0;
      try {
        node.body = assignment();
        node.bodyStart = bodyStart;
        node.bodyEnd = start;
      } catch (error) {
        if (!(error instanceof EspruinoSyntaxError)) throw error;
        // Where it is defined, the interpreter takes no notice of it: it is an error where the function is called.
        if (!is("EOF")) skipToken();
        node.body = brokenBlock(error, Math.min(bodyStart, lastEnd), lastEnd);
        node.bodyStart = bodyStart;
        node.bodyEnd = start;
      }
      [loops, switches, isForInit, done] = outer;
      functions--;
      node.isReturn = true;
      node.usesThis = hasThis;
    }
    return finish(node);
  };
  const brokenStatement = (error: EspruinoSyntaxError, from: number, to: number): Node => {
    const node: Node = { type: "BrokenStatement", start: from, end: to, last: from, done };
    done = [];
    DECLARATION.lastIndex = from;
    const declares = DECLARATION.exec(source)?.[1];
    return { ...node, declares, message: error.message, position: error.position, errorType: error.type };
  };
  const brokenBlock = (error: EspruinoSyntaxError, from: number, to: number): Node => ({
    type: "BlockStatement",
    start: from,
    end: to,
    last: from,
    isBare: true,
    body: [brokenStatement(error, from, to)],
  });
  const template = (): Node => {
    const from = start;
    const { text, places } = value as { text: string; places: number[] };
    const before = lastStart;
    const parts: (string | Node)[] = [];
    const outer = [limit, type, start, end, value, lastStart, lastEnd, isForInit] as const;
    let plain = "";
    for (let i = 0; i < text.length; i++) {
      if (text[i] !== "$" || text[i + 1] !== "{") {
        plain += text[i];
        continue;
      }
      let open = 1;
      let close = i + 2;
      while (close < text.length) {
        if (text[close] === "{") open++;
        if (text[close] === "}" && --open === 0) break;
        close++;
      }
      if (plain !== "") parts.push(plain);
      plain = "";
      const codeStart = places[i + 2] ?? outer[3] - 1;
      limit = close < text.length ? places[close]! : outer[3] - 1;
      isForInit = false;
      seek(codeStart);
      const node = expression();
      parts.push({ type: "TemplateExpression", start: codeStart, end: limit, last: node.last, expression: node });
      limit = outer[0];
      i = close;
    }
    if (plain !== "") parts.push(plain);
    [limit, type, start, end, value, lastStart, lastEnd, isForInit] = outer;
    next();
    return finish({ type: "TemplateLiteral", start: from, parts, before });
  };
  const object = (): Node => {
    const from = start;
    const properties: Node[] = [];
    next();
    while (!is("}")) {
      const propertyStart = start;
      const isName = is("ID");
      let key: Node;
      if (is("ID") || RESERVED.has(type)) {
        key = { type: "Identifier", start, end, last: start, name: value };
        next();
      } else if (is("STRING") || is("FLOAT") || is("INT")) key = factor();
      else match("ID");
      const keyText = key.type === "Identifier" ? key.name : key.value;
      if (is("ID") && typeof keyText === "string") {
        // Only an accessor may go on with a name.
        if (keyText !== "get" && keyText !== "set") match(",");
        key = { type: "Identifier", start, end, last: start, name: value };
        next();
        const method = functionExpression(start, false);
        properties.push(finish({ type: "Property", start: propertyStart, key, kind: keyText, value: method }));
      } else if (is("(")) {
        const method = functionExpression(start, false);
        properties.push(
          finish({ type: "Property", start: propertyStart, key, kind: "init", method: true, value: method }),
        );
      } else if (isName && (is(",") || is("}"))) {
        properties.push(
          finish({ type: "Property", start: propertyStart, key, kind: "init", shorthand: true, value: { ...key } }),
        );
      } else {
        match(":");
        const item = assignment();
        properties.push(finish({ type: "Property", start: propertyStart, key, kind: "init", value: item }));
      }
      if (!is("}")) match(",");
    }
    match("}");
    return finish({ type: "ObjectExpression", start: from, properties });
  };
  const array = (): Node => {
    const from = start;
    const elements: (Node | null)[] = [];
    next();
    while (!is("]")) {
      elements.push(is(",") ? null : assignment());
      if (!is("]")) match(",");
    }
    match("]");
    return finish({ type: "ArrayExpression", start: from, elements });
  };

  // ---- Functions and classes
  const functionParameters = (): Node[] => {
    const params: Node[] = [];
    match("(");
    while (!is(")")) {
      const node = { type: "Identifier", start, end, last: start, name: value };
      match("ID");
      params.push(node);
      if (!is(")")) match(",");
    }
    match(")");
    return params;
  };
  /** From the name or the parameters on. */
  const functionExpression = (from: number, mayHaveName = true): Node => {
    const node: Node = { type: "FunctionExpression", start: from };
    if (mayHaveName && is("ID")) {
      node.id = { type: "Identifier", start, end, last: start, name: value };
      next();
    }
    node.paramsStart = start;
    node.params = functionParameters();
    functionBody(node);
    return finish(node);
  };
  /** What stands between a bracket and the one that closes it. `end`: of the last token, or where there is one, of its space. */
  interface Brackets {
    close: number;
    end: number;
    tokens: number;
    hasThis: boolean;
  }
  let bracketsByOpen: Map<number, Brackets> | undefined;
  /** All brackets from the token that comes next on, each found by its own place. */
  const findBrackets = (): Map<number, Brackets> => {
    const found = new Map<number, Brackets>();
    const open: { start: number; tokens: number; hasThis: boolean }[] = [];
    while (!is("EOF")) {
      const inner = open[open.length - 1];
      if (is("}") && inner) {
        open.pop();
        found.set(inner.start, { close: start, end: lastEnd, tokens: inner.tokens, hasThis: inner.hasThis });
        const outer = open[open.length - 1];
        if (outer) {
          outer.tokens += 2 + inner.tokens;
          outer.hasThis ||= inner.hasThis;
        }
      } else if (is("{")) open.push({ start, tokens: 0, hasThis: false });
      else if (inner) {
        inner.tokens++;
        inner.hasThis ||= is("this");
      }
      skipToken();
    }
    return found;
  };
  const bracketsAt = (open: number): Brackets | undefined => {
    const state = [type, start, end, value, lastStart, lastEnd, hasThis] as const;
    if (!bracketsByOpen) {
      seek(0);
      bracketsByOpen = findBrackets();
    }
    let found = bracketsByOpen.get(open);
    if (!found) {
      // Inside a template literal.
      seek(open);
      found = findBrackets().get(open);
    }
    [type, start, end, value, lastStart, lastEnd, hasThis] = state;
    return found;
  };
  /** The interpreter looks for the closing bracket first, and reads the code between when it is called. */
  const functionBody = (node: Node): void => {
    const open = start;
    if (!is("{")) match("{");
    const brackets = bracketsAt(open);
    if (!brackets) return fail("Got EOF expected '}'", limit);
    const { close } = brackets;
    seek(open + 1);
    let { tokens } = brackets;
    if (is("STRING") && value === "ram") {
      next();
      tokens--;
      if (is(";")) {
        next();
        tokens--;
      }
      node.ramEnd = start;
    }
    node.isReturn = is("return");
    const codeStart = start;
    if (node.isReturn) {
      next();
      tokens--;
    }
    node.bodyStart = start;
    // The first token is kept with the space behind it.
    node.bodyEnd = tokens === 1 ? close : tokens === 0 ? start : brackets.end;
    const outer = [limit, loops, switches, isForInit] as const;
    limit = node.bodyEnd;
    loops = 0;
    switches = 0;
    isForInit = false;
    functions++;
    seek(codeStart);
    const block: Node = { type: "BlockStatement", start: open, body: [] };
    const outerDone = done;
    done = [];
    if (node.isReturn) block.body.push(onlyReturn(close));
    else block.body = statements(close);
    functions--;
    done = outerDone;
    [limit, loops, switches, isForInit] = outer;
    // Regular expressions begin after a bracket.
    type = "}";
    start = close;
    end = close + 1;
    block.end = end;
    block.last = close;
    node.body = block;
    node.usesThis = brackets.hasThis;
    // The keyword counts for an arrow function around this one, too, unless it stood before it.
    hasThis = brackets.hasThis;
    next();
  };
  /** Code that begins with `return` is one expression; what follows it is never read. */
  const onlyReturn = (close: number): Node => {
    const from = start;
    next();
    try {
      const argument = is(";") || is("EOF") ? null : expression();
      return { ...finish({ type: "ReturnStatement", start: from, argument }), restEnd: close };
    } catch (error) {
      if (!(error instanceof EspruinoSyntaxError)) throw error;
      return brokenStatement(error, from, close);
    }
  };
  /** Goes over tokens to the bracket that closes the block. */
  const skipToBracket = (): void => {
    let open = 0;
    while (!is("EOF") && (open > 0 || !is("}"))) {
      if (is("{")) open++;
      if (is("}")) open--;
      skipToken();
    }
  };
  /** Escapes that cannot be read are no error while nothing is executed. */
  const skipToken = (): void => {
    try {
      next();
    } catch (error) {
      if (!(error instanceof EspruinoSyntaxError)) throw error;
    }
  };
  /** Statements up to `close`, or to the first that cannot be read. */
  const statements = (close?: number): Node[] => {
    const body: Node[] = [];
    while (!is("EOF") && !is("}")) {
      const from = start;
      try {
        body.push(statement());
      } catch (error) {
        if (!(error instanceof EspruinoSyntaxError)) throw error;
        body.push(brokenStatement(error, from, close ?? limit));
        break;
      }
    }
    return body;
  };
  const block = (): Node => {
    const from = start;
    match("{");
    const body = statements();
    const lastNode = body[body.length - 1];
    if (lastNode?.type === "BrokenStatement") {
      seek(from + 1);
      skipToBracket();
      lastNode.end = start;
    }
    if (!is("}")) {
      const error = new EspruinoSyntaxError(`Got ${tokenText()} expected '}'`, start);
      if (lastNode?.type !== "BrokenStatement") body.push(brokenStatement(error, start, start));
      return { ...finish({ type: "BlockStatement", start: from, body, isOpen: true }), end: start };
    }
    next();
    return finish({ type: "BlockStatement", start: from, body });
  };
  const classNode = (from: number, nodeType: string, isName: boolean): Node => {
    const node: Node = { type: nodeType, start: from, members: [] };
    if (isName && is("ID")) {
      node.id = { type: "Identifier", start, end, last: start, name: value };
      next();
    }
    if (is("extends")) {
      node.extendsStart = start;
      next();
      if (!is("ID")) {
        const text = source.slice(start, end);
        fail(`"${/^\w/.test(text) ? text : ""}" is not defined`, node.extendsStart, "ReferenceError");
      }
      node.superClass = { type: "Identifier", start, end, last: start, name: value };
      next();
    }
    node.open = start;
    match("{");
    while (is("ID") || is("static")) {
      const memberStart = start;
      const isStatic = is("static");
      if (isStatic) next();
      let key: Node = { type: "Identifier", start, end, last: start, name: value };
      match("ID");
      let kind = key.name === "constructor" ? "constructor" : "method";
      if (is("ID") && (key.name === "get" || key.name === "set")) {
        kind = key.name;
        key = { type: "Identifier", start, end, last: start, name: value };
        next();
      }
      let member: Node;
      if (kind !== "method" || is("(")) {
        const method = functionExpression(start, false);
        member = finish({ type: "MethodDefinition", start: memberStart, key, kind, static: isStatic, value: method });
      } else {
        match("=");
        const field = assignment();
        member = finish({ type: "PropertyDefinition", start: memberStart, key, static: isStatic, value: field });
      }
      while (is(";")) next();
      node.members.push(member);
    }
    match("}");
    return finish(node);
  };

  // ---- Statements
  const blockOrStatement = (): Node => (is("{") ? block() : statement());
  /** The semicolon behind a statement belongs to it. */
  const ended = (node: Node): Node => {
    finish(node);
    if (is(";")) {
      node.semicolon = start;
      next();
      node.end = lastEnd;
    }
    return node;
  };
  const empty = (): Node => ({ type: "EmptyStatement", start: lastEnd, end: lastEnd, last: lastStart });
  const statement = (): Node => {
    const from = start;
    done = [];
    if (STATEMENT_STARTS.has(type)) {
      const node = expression();
      return ended({ type: "ExpressionStatement", start: from, expression: node });
    }
    switch (type) {
      case "{":
        return block();
      case ";":
        next();
        return finish({ type: "EmptyStatement", start: from });
      case "var":
      case "let":
      case "const":
        return ended(variables());
      case "if":
        return ifStatement();
      case "do":
        return doStatement();
      case "while":
        return whileStatement();
      case "for":
        return forStatement();
      case "try":
        return tryStatement();
      case "return": {
        next();
        const argument = is(";") || is("}") ? null : expression();
        return ended({ type: "ReturnStatement", start: from, argument, isOutside: functions === 0 });
      }
      case "throw": {
        next();
        const argument = expression();
        return ended({ type: "ThrowStatement", start: from, argument });
      }
      case "function": {
        next();
        const id = { type: "Identifier", start, end, last: start, name: value };
        match("ID");
        const paramsStart = start;
        const params = functionParameters();
        const node: Node = { type: "FunctionDeclaration", start: from, id, params, paramsStart };
        functionBody(node);
        return finish(node);
      }
      case "class": {
        next();
        const id = { type: "Identifier", start, end, last: start, name: value };
        match("ID");
        const node = classNode(from, "ClassDeclaration", false);
        node.id = id;
        return node;
      }
      case "continue":
        next();
        return ended({ type: "ContinueStatement", start: from, isOutside: loops === 0 });
      case "break":
        next();
        return ended({ type: "BreakStatement", start: from, isOutside: loops === 0 && switches === 0 });
      case "switch":
        return switchStatement();
      case "debugger":
        next();
        return ended({ type: "DebuggerStatement", start: from });
      default:
        match("EOF");
        return finish({ type: "EmptyStatement", start: lastStart, end: lastStart });
    }
  };
  const variables = (): Node => {
    const node: Node = { type: "VariableDeclaration", start, kind: type, declarations: [] };
    next();
    let hasComma = true;
    while (hasComma && is("ID")) {
      const id = { type: "Identifier", start, end, last: start, name: value };
      next();
      const item: Node = { type: "VariableDeclarator", start: id.start, id, init: null };
      if (is("=")) {
        next();
        item.init = assignment();
      }
      node.declarations.push(finish(item));
      hasComma = is(",");
      if (hasComma) {
        node.trailingComma = start;
        next();
        if (is("ID")) delete node.trailingComma;
      }
    }
    return finish(node);
  };
  const ifStatement = (): Node => {
    const from = start;
    next();
    match("(");
    const test = expression();
    const close = start;
    match(")");
    const node: Node = { type: "IfStatement", start: from, test, close };
    node.consequent = is(";") ? undefined : blockOrStatement();
    if (!node.consequent || !node.consequent.semicolon) {
      if (is(";")) {
        if (!node.consequent) {
          next();
          node.consequent = finish({ type: "EmptyStatement", start: lastStart });
        } else {
          node.strayStart = start;
          next();
          node.strayEnd = lastEnd;
        }
      } else node.consequent ??= empty();
    }
    if (is("else")) {
      node.elseStart = start;
      next();
      node.alternate = is(";") ? undefined : blockOrStatement();
      if (!node.alternate) {
        const semicolon = start;
        next();
        node.alternate = finish({ type: "EmptyStatement", start: semicolon, semicolon });
      }
    } else delete node.elseStart;
    return finish(node);
  };
  const loopBody = (): Node => {
    loops++;
    const body = blockOrStatement();
    loops--;
    return body;
  };
  const doStatement = (): Node => {
    const from = start;
    next();
    const needsSemicolon = !is("{");
    const body = loopBody();
    if (needsSemicolon && body.semicolon === undefined) {
      // What has taken the semicolon for itself leaves none.
      if (!(source[lastStart] === ";" && lastEnd - lastStart === 1 && endsWithSemicolon(body))) match(";");
    }
    match("while");
    match("(");
    const test = expression();
    match(")");
    return ended({ type: "DoWhileStatement", start: from, body, test });
  };
  /** A loop or an `if` whose last statement leaves its semicolon to what is around it. */
  const endsWithSemicolon = (node: Node): boolean => {
    if (/^(For|ForIn|ForOf|While)Statement$/.test(node.type)) return endsWithSemicolon(node.body);
    if (node.type === "IfStatement") return node.alternate !== undefined && endsWithSemicolon(node.alternate);
    return node.semicolon !== undefined;
  };
  const whileStatement = (): Node => {
    const from = start;
    next();
    match("(");
    const test = expression();
    match(")");
    const body = loopBody();
    return finish({ type: "WhileStatement", start: from, test, body });
  };
  const forStatement = (): Node => {
    const from = start;
    next();
    match("(");
    isForInit = true;
    let init: Node = null;
    if (is("var") || is("let") || is("const")) init = variables();
    else if (!is(";")) init = expression();
    isForInit = false;
    if (is("in") || is("of")) {
      const operator = type;
      const operatorStart = start;
      next();
      const right = expression();
      const close = start;
      match(")");
      const body = loopBody();
      return finish({
        type: operator === "of" ? "ForOfStatement" : "ForInStatement",
        start: from,
        left: init,
        right,
        close,
        body,
        operatorStart,
      });
    }
    match(";");
    const test = is(";") ? null : expression();
    match(";");
    const update = is(")") ? null : expression();
    match(")");
    const body = loopBody();
    return finish({ type: "ForStatement", start: from, init, test, update, body });
  };
  const switchStatement = (): Node => {
    const from = start;
    next();
    match("(");
    const discriminant = expression();
    match(")");
    const open = start;
    match("{");
    const node: Node = { type: "SwitchStatement", start: from, discriminant, open, cases: [] };
    switches++;
    const body = (item: Node): void => {
      while (!is("EOF") && !is("case") && !is("default") && !is("}"))
        item.consequent.push(blockOrStatement());
      node.cases.push(finish(item));
    };
    while (is("case")) {
      const item: Node = { type: "SwitchCase", start, consequent: [] };
      next();
      item.test = assignment();
      match(":");
      body(item);
    }
    if (is("default")) {
      const item: Node = { type: "SwitchCase", start, test: null, consequent: [] };
      next();
      match(":");
      body(item);
    }
    switches--;
    if (is("case")) {
      node.broken = { message: "CASE after DEFAULT unsupported", position: lastStart, from: start };
      skipToBracket();
    }
    match("}");
    return finish(node);
  };
  const tryStatement = (): Node => {
    const from = start;
    next();
    if (!is("{")) match("{");
    const node: Node = { type: "TryStatement", start: from, block: block() };
    if (is("catch")) {
      const handler: Node = { type: "CatchClause", start, param: null };
      next();
      if (is("(")) {
        next();
        handler.param = { type: "Identifier", start, end, last: start, name: value };
        // With an exception on its way, the interpreter makes nothing of another.
        if (!is("ID")) fail("", start);
        next();
        match(")");
      }
      if (!is("{")) match("{");
      handler.body = block();
      node.handler = finish(handler);
    }
    if (is("finally") || !node.handler) {
      match("finally");
      if (!is("{")) match("{");
      node.finalizer = block();
    }
    return finish(node);
  };

  const program: Node = { type: "Program", start: 0, end: source.length, last: 0, body: [] };
  try {
    seek(0);
  } catch (error) {
    if (!(error instanceof EspruinoSyntaxError)) throw error;
    program.body.push(brokenStatement(error, 0, source.length));
    return program;
  }
  while (!is("EOF")) {
    const from = start;
    try {
      const node = blockOrStatement();
      program.body.push(node);
      while (is(";")) {
        next();
        if (node.semicolon !== undefined) node.semicolon = lastStart;
      }
    } catch (error) {
      if (!(error instanceof EspruinoSyntaxError)) throw error;
      program.body.push(brokenStatement(error, from, source.length));
      break;
    }
  }
  return program;
};
