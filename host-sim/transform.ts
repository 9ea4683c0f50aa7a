/**
 * Gives Espruino's meaning to JavaScript source before V8 runs it: Espruino executes source text as it reads it, so
 * functions and variables exist from where they stand on, a `let` of a loop is one variable, class fields stand on the
 * prototype, and so on. The text on the board stays as it is; only what the simulator evaluates is rewritten.
 *
 * Names that begin with a Greek letter belong to the simulator. Espruino's identifiers are ASCII, so they cannot clash.
 */
import { type Function as FunctionNode, type Identifier, Parser, type Program } from "acorn";
import MagicString from "magic-string";

/** One function of a source: what `toString` prints and the memory estimate charges for. */
export interface FunctionInfo {
  name: string;
  params: string[];
  /** The body between its braces, or the expression of an arrow function. */
  body: string;
  isExpression: boolean;
  start: number;
  end: number;
}

export interface TransformOptions {
  /** `program`: declarations become globals. `local`: inside a function, by a direct `eval`. */
  scope: "program" | "local";
  /** Unique per source; keeps the names of nested sources apart. */
  id: number;
  /** Name of the scope record that encloses the code. */
  outerScope?: string;
  /** Whether the value of the last statement is wanted (`return` of the wrapper function). */
  wantsValue?: boolean;
}

export interface Transformed {
  code: string;
  functions: FunctionInfo[];
  /** Offset in the source of a place in `code`, both counted from 1. */
  originalOffset(line: number, column: number): number | undefined;
  /** Offset of the closing bracket of the call V8 places at `offset`: the interpreter stands there while it runs. */
  callEnd(offset: number): number | undefined;
}

/** What the interpreter says of a source it cannot parse. */
export class EspruinoSyntaxError extends Error {
  constructor(
    message: string,
    /** Offset into the source. */
    readonly position: number,
  ) {
    super(message);
  }
}

interface Scope {
  parent?: Scope;
  isFunction: boolean;
  node: any;
  names: Map<string, { start: number; rename?: string }>;
  /** Loops of the same function around this scope, outermost first. */
  depth: number;
}

interface Reference {
  node: Identifier;
  scope: Scope;
  loops: any[];
  /** `{a}` in an object literal: renaming must keep the key. */
  isShorthand: boolean;
}

const MAX_IDENTIFIER = 63;
const LOOPS = new Set(["ForStatement", "ForInStatement", "ForOfStatement", "WhileStatement", "DoWhileStatement"]);

/** acorn without what Espruino does not mind: names declared twice, regular expressions nobody has run yet. */
const LenientParser = Parser.extend(
  (Base: any) =>
    class extends Base {
      declareName(): void {}
      validateRegExpFlags(): void {}
      validateRegExpPattern(): void {}
    } as any,
);

/** Children of a node in source order. */
const children = (node: any): any[] => {
  const list: any[] = [];
  for (const key in node) {
    if (key === "type" || key === "start" || key === "end") continue;
    const value = node[key];
    if (Array.isArray(value)) for (const item of value) item && typeof item.type === "string" && list.push(item);
    else if (value && typeof value.type === "string") list.push(value);
  }
  return list;
};

const isFunctionNode = (node: any): node is FunctionNode =>
  node.type === "FunctionDeclaration" || node.type === "FunctionExpression" || node.type === "ArrowFunctionExpression";

const cutToByte = (text: string): string =>
  // biome-ignore lint: a loop over characters is what it is
  text.replace(/[^\x00-\xff]/g, (char) => String.fromCharCode(char.charCodeAt(0) & 0xff));

/** Methods that null has too, when they are called. */
const NULL_METHODS = new Set(["toString", "valueOf", "hasOwnProperty"]);

const hasWideChar = (text: string): boolean => /[^\x00-\xff]/.test(text);

/**
 * Whether a statement as the body of `do` leaves the semicolon that must stand before `while`: `if`, an empty statement
 * and a body in braces have none to leave.
 */
const endsBeforeSemicolon = (body: any, source: string, isOutermost = true): boolean => {
  if (body.type === "BlockStatement") return isOutermost;
  if (body.type === "IfStatement")
    return (
      !!body.alternate &&
      (body.alternate.type === "EmptyStatement" || endsBeforeSemicolon(body.alternate, source, false))
    );
  if (LOOPS.has(body.type) && body.type !== "DoWhileStatement") return endsBeforeSemicolon(body.body, source, false);
  return !/^(Empty|Try|Switch)Statement$/.test(body.type) && source[body.end - 1] === ";";
};

/** Constructs Espruino has no grammar for, with what it says where they are executed. */
const refusal = (node: any, parent: any, source: string): { type: string; message: string } | undefined => {
  const syntax = (message: string) => ({ type: "SyntaxError", message });
  const undefinedName = (name: string) => ({ type: "ReferenceError", message: `"${name}" is not defined` });
  switch (node.type) {
    case "SpreadElement":
      return syntax(parent?.type === "ObjectExpression" ? "Got '.' expected ID" : "Got '.' expected EOF");
    case "RestElement":
      if (parent?.type === "ArrayPattern" || parent?.type === "ObjectPattern") return undefined;
      return syntax(parent?.type === "ArrowFunctionExpression" ? "Got '.' expected EOF" : "Got '.' expected ID");
    case "AssignmentPattern":
      if (!isFunctionNode(parent)) return parent?.type === "Property" ? syntax("Got '=' expected EOF") : undefined;
      return syntax(parent.type === "ArrowFunctionExpression" ? "Got => expected ','" : "Got '=' expected ','");
    case "ObjectPattern":
    case "ArrayPattern": {
      if (parent?.type === "CatchClause") return { type: "", message: "" };
      if (isFunctionNode(parent) && parent.type !== "ArrowFunctionExpression")
        return syntax(`Got '${source[node.start]}' expected ID`);
      if (parent?.type === "AssignmentExpression" && node.type === "ArrayPattern")
        return { type: "Error", message: "Unable to assign value to non-reference Array" };
      const named = /[A-Za-z_$][\w$]*/.exec(source.slice(node.start, node.end));
      if (node.type === "ArrayPattern" && node.elements[0]?.type === "AssignmentPattern")
        return { type: "Error", message: "Unable to assign value to non-reference Array" };
      if (node.type === "ObjectPattern" && node.properties[0]?.value?.type === "AssignmentPattern")
        return syntax("Got '=' expected EOF");
      if (node.type === "ArrayPattern" && node.elements[0] === null && node.elements[1]?.type === "Identifier")
        return undefinedName(node.elements[1].name);
      return named ? undefinedName(named[0]) : syntax(`Got '${source[node.start]}' expected EOF`);
    }
    case "ChainExpression":
      return syntax(
        source.slice(node.start, node.end).includes("?.[") ? "Got ')' expected ':'" : "Got '.' expected EOF",
      );
    case "AssignmentExpression":
      if (node.operator === "**=") return syntax("Got *= expected EOF");
      return ["??=", "||=", "&&="].includes(node.operator) ? syntax("Got '=' expected EOF") : undefined;
    case "BinaryExpression":
      return node.operator === "**" ? syntax("Got '*' expected EOF") : undefined;
    case "AwaitExpression":
      return syntax("Got ID expected EOF");
    case "YieldExpression":
      return syntax("Got '*' expected ID");
    case "FunctionDeclaration":
    case "FunctionExpression":
    case "ArrowFunctionExpression":
      if (node.async)
        return parent?.type === "MethodDefinition"
          ? syntax(`Got ID:${parent.key.name} expected '='`)
          : parent?.type === "Property"
            ? syntax(`Got ID:${parent.key.name} expected ','`)
            : undefinedName("async");
      if (!node.generator) return undefined;
      return syntax(parent?.type === "MethodDefinition" ? "Got '*' expected '}'" : "Got '*' expected ID");
    case "LabeledStatement":
      return undefinedName(node.label.name);
    case "PrivateIdentifier":
      return syntax("Got '#' expected '}'");
    case "TaggedTemplateExpression":
      return syntax("Tagged Templates are not supported");
    case "StaticBlock":
      return syntax("Got '{' expected ID");
    case "MetaProperty":
    case "ImportExpression":
      return syntax("Got '.' expected EOF");
    case "WithStatement":
      return syntax("Got '{' expected EOF");
    case "ImportDeclaration":
    case "ExportNamedDeclaration":
    case "ExportDefaultDeclaration":
    case "ExportAllDeclaration":
      return syntax("Got ID expected EOF");
    case "Property":
      return node.computed && parent?.type === "ObjectExpression" ? syntax("Got '[' expected ID") : undefined;
    case "MethodDefinition":
    case "PropertyDefinition":
      if (node.computed) return syntax("Got '[' expected '}'");
      return node.key.type === "Literal" ? syntax(`Got String:'${node.key.value}' expected '}'`) : undefined;
    case "DoWhileStatement":
      return endsBeforeSemicolon(node.body, source) ? undefined : syntax("Got while expected ';'");
    case "SwitchStatement": {
      const position = node.cases.findIndex((item: any) => item.test === null);
      return position >= 0 && position < node.cases.length - 1 ? syntax("CASE after DEFAULT unsupported") : undefined;
    }
    case "Literal":
      if (node.bigint) return syntax("Got ID:n expected EOF");
      if (node.regex) {
        const unknown = /[^gimyu]/.exec(node.regex.flags);
        if (unknown) return syntax(`Got ID:${unknown[0]} expected ','`);
        if (/\[[^\]\\]*(\\.[^\]\\]*)*\//.test(node.regex.pattern)) return syntax("Got ']' expected ','");
        if (/\)\s*$/.test(source.slice(0, node.start)) && parent?.type !== "ArrowFunctionExpression")
          return syntax("Got '/' expected EOF");
      }
      return typeof node.value === "string" && /\\u\{/.test(node.raw) ? syntax("Invalid escape sequence") : undefined;
    case "TemplateLiteral":
      for (const expression of node.expressions)
        if (containsBraceInString(expression)) return syntax("Got UNFINISHED STRING expected EOF");
      return undefined;
    case "Identifier":
      return /[^\x00-\x7f]/.test(node.name) ? syntax("Got UNKNOWN expected EOF") : undefined;
    default:
      return undefined;
  }
};

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

const containsBraceInString = (node: any): boolean =>
  (node.type === "Literal" && typeof node.value === "string" && node.value.includes("}")) ||
  children(node).some(containsBraceInString);

/**
 * Bytes of C stack the interpreter has in use in a function where it calls another, measured on a 32-bit build: so much
 * for the call, and more for every statement and expression around it.
 */
const FRAME_BYTES = 610;
const STACK_BYTES: Record<string, number> = {
  IfStatement: 170,
  ForStatement: 350,
  ForInStatement: 350,
  ForOfStatement: 350,
  WhileStatement: 250,
  DoWhileStatement: 250,
  SwitchStatement: 90,
  TryStatement: 130,
  ConditionalExpression: 100,
  LogicalExpression: 270,
  BinaryExpression: 280,
  CallExpression: 700,
  NewExpression: 700,
  ArrayExpression: 300,
  ObjectExpression: 300,
};
/** Methods that are built in and call nothing back. */
const BUILT_IN_METHODS = new Set(
  (
    "push pop shift unshift slice splice indexOf lastIndexOf includes join concat substr substring charAt " +
    "charCodeAt split trim startsWith endsWith padStart padEnd repeat toLowerCase toUpperCase toString toFixed " +
    "test exec match keys values entries parse stringify read write print set subarray fill getTime now floor " +
    "ceil round min max abs random hasOwnProperty"
  ).split(" "),
);

/** Stack a call of this function needs at its deepest call of another function. */
const stackOf = (node: any): number => {
  let most = 0;
  const search = (item: any, around: number): void => {
    if (isFunctionNode(item)) return;
    if (item.type === "CallExpression" || item.type === "NewExpression") {
      const isBuiltIn =
        item.callee.type === "MemberExpression" &&
        !item.callee.computed &&
        BUILT_IN_METHODS.has(item.callee.property.name);
      if (!isBuiltIn && around > most) most = around;
      search(item.callee, around);
      for (const argument of item.arguments) search(argument, around + STACK_BYTES.CallExpression!);
      return;
    }
    const inner = around + (STACK_BYTES[item.type] ?? 0);
    for (const child of children(item)) search(child, inner);
  };
  search(node.body, 0);
  return FRAME_BYTES + most;
};

const argumentKeepers = new WeakMap<FunctionInfo, boolean>();

/**
 * False where a function certainly keeps none of its arguments beyond its call: it only calls them, and no function of
 * its own could still see them.
 */
export const mayKeepArguments = (info: FunctionInfo): boolean => {
  const known = argumentKeepers.get(info);
  if (known !== undefined) return known;
  const body = info.isExpression ? `return (${info.body})` : info.body;
  const program = LenientParser.parse(`(function(${info.params.join()}){${body}\n})`, { ecmaVersion: "latest" });
  const names = new Set([...info.params, "arguments", "eval"]);
  const keeps = (node: any, parent: any): boolean => {
    if (isFunctionNode(node)) return node.body.type !== "BlockStatement" || node.body.body.length > 0;
    if (node.type === "Identifier" && names.has(node.name)) {
      const isKey = !parent.computed && (parent.property === node || parent.key === node) && !parent.shorthand;
      const isCalled = parent.type === "CallExpression" && parent.callee === node && node.name !== "eval";
      return !isKey && !isCalled;
    }
    return children(node).some((child) => keeps(child, node));
  };
  const result = keeps((program as any).body[0].expression.body, undefined);
  argumentKeepers.set(info, result);
  return result;
};

/** Helpers of `library.js` that do what V8's operator does not: its operands may be of any type. */
const OPERATORS: Record<string, string> = {
  "+": "add",
  "-": "sub",
  "*": "mul",
  "/": "div",
  "%": "mod",
  "&": "and",
  "|": "or",
  "^": "xor",
  "<<": "shl",
  ">>": "shr",
  ">>>": "ushr",
  "<": "lt",
  ">": "gt",
  "<=": "le",
  ">=": "ge",
  "==": "eq",
  "!=": "ne",
  "===": "same",
  "!==": "differs",
};

/** A type that can be told from the text alone; what is left as it stands is faster. */
const staticType = (node: any): string | undefined => {
  if (node.type === "Literal") return node.value === null ? "null" : typeof node.value;
  if (node.type === "TemplateLiteral") return "string";
  if (node.type !== "UnaryExpression") return undefined;
  if (node.operator === "typeof") return "string";
  if (node.operator === "!") return "boolean";
  if (node.operator === "void") return "undefined";
  return node.argument.type === "Literal" && node.operator === "-" ? "number" : undefined;
};

/** Whether V8 computes the same as the interpreter: two of a kind, or `===` with what has no second form. */
const isPlainOperation = (node: any): boolean => {
  const left = staticType(node.left);
  const right = staticType(node.right);
  if (node.operator === "===" || node.operator === "!==")
    return [left, right].some((type) => type !== undefined && type !== "number" && type !== "object");
  return left === right && (left === "number" || (left === "string" && node.operator !== "+"));
};

/** Rewrites one source. Throws `EspruinoSyntaxError` where it is no JavaScript at all. */
export const transform = (source: string, options: TransformOptions): Transformed => {
  let program: Program;
  try {
    program = LenientParser.parse(source, { ecmaVersion: "latest", sourceType: "script", allowHashBang: true });
  } catch (error) {
    const position = (error as { pos?: number }).pos ?? 0;
    const rest = source.slice(position);
    const message = (error as Error).message;
    if (/^Unterminated (string|template)/.test(message))
      throw new EspruinoSyntaxError("Got UNFINISHED STRING expected EOF", position);
    if (rest.trim() === "") throw new EspruinoSyntaxError("Unexpected end of Input", position);
    const got = /^[\w$]+/.test(rest) ? `ID:${/^[\w$]+/.exec(rest)![0]}` : `'${rest[0]}'`;
    throw new EspruinoSyntaxError(`Got ${got} expected EOF`, position);
  }
  const text = new MagicString(source);
  const functions: FunctionInfo[] = [];
  const isProgram = options.scope === "program";
  const table = isProgram ? "τ" : `ε.t[${options.id}]`;

  // Pass 1: scopes, references and what cannot be parsed.
  const root: Scope = { isFunction: true, node: program, names: new Map(), depth: 0 };
  const references: Reference[] = [];
  const refused = new Map<any, { type: string; message: string }>();
  const holdsFunctions = new Set<any>();
  const scopes = new Map<any, Scope>();

  const functionScope = (scope: Scope): Scope => (scope.isFunction ? scope : functionScope(scope.parent!));
  const declare = (scope: Scope, name: string, start: number): void => {
    const known = scope.names.get(name);
    if (!known || start < known.start) scope.names.set(name, { start });
  };

  const analyse = (node: any, parent: any, scope: Scope, statement: any, loops: any[]): void => {
    const problem = refusal(node, parent, source);
    if (problem && !(refused.get(statement) && problem.type !== "")) refused.set(statement, problem);
    let inner = scope;
    let innerLoops = loops;
    if (isFunctionNode(node)) {
      for (let outer: Scope | undefined = scope; outer; outer = functionScope(outer).parent)
        holdsFunctions.add(functionScope(outer).node);
      if (node.type === "FunctionDeclaration" && node.id) declare(functionScope(scope), node.id.name, node.start);
      inner = { parent: scope, isFunction: true, node, names: new Map(), depth: scope.depth + 1 };
      scopes.set(node, inner);
      innerLoops = [];
      if (node.type === "FunctionExpression" && node.id) declare(inner, node.id.name, -1);
      for (const param of node.params) if (param.type === "Identifier") declare(inner, param.name, -1);
    } else if (
      (node.type === "BlockStatement" && !isFunctionNode(parent)) ||
      LOOPS.has(node.type) ||
      node.type === "SwitchStatement" ||
      node.type === "CatchClause"
    ) {
      inner = { parent: scope, isFunction: false, node, names: new Map(), depth: scope.depth };
      scopes.set(node, inner);
      if (LOOPS.has(node.type)) innerLoops = [...loops, node];
      if (node.type === "CatchClause" && node.param?.type === "Identifier") declare(inner, node.param.name, -1);
    } else if (node.type === "ClassDeclaration" && node.id) {
      declare(functionScope(scope), node.id.name, node.start);
    } else if (node.type === "VariableDeclaration") {
      for (const item of node.declarations)
        if (item.id.type === "Identifier")
          declare(node.kind === "var" ? functionScope(scope) : scope, item.id.name, item.id.start);
    } else if (node.type === "Identifier") {
      const isName =
        (parent.type === "MemberExpression" && parent.property === node && !parent.computed) ||
        ((parent.type === "Property" || parent.type === "MethodDefinition" || parent.type === "PropertyDefinition") &&
          parent.key === node &&
          !parent.shorthand &&
          !parent.computed);
      if (!isName && !(isFunctionNode(parent) && parent.id === node && parent.type === "FunctionExpression"))
        references.push({ node, scope, loops, isShorthand: parent.type === "Property" && parent.shorthand });
    }
    if (parent?.type === "Property" && parent.shorthand && parent.value === node) return;
    for (const child of children(node)) {
      if (node.type === "Property" && node.shorthand && child === node.key) continue;
      const isStatement = /Statement$|Declaration$/.test(child.type) && child.type !== "VariableDeclaration";
      const startsStatement =
        isStatement || (child.type === "VariableDeclaration" && !LOOPS.has(node.type)) ? child : statement;
      // The name of a declared function belongs to the scope around it.
      const childScope = isFunctionNode(node) && child === node.id ? scope : inner;
      analyse(child, node, childScope, child.type === "BlockStatement" ? statement : startsStatement, innerLoops);
    }
  };
  for (const statement of program.body) analyse(statement, program, root, statement, []);

  // A name used above its declaration means the one outside: the declared one gets another name.
  if (references.length) {
    const resolve = (reference: Reference): Scope | undefined => {
      for (let scope: Scope | undefined = reference.scope; scope; scope = scope.parent)
        if (scope.names.has(reference.node.name)) return scope;
      return undefined;
    };
    const isGlobal = (scope: Scope) => scope === root && isProgram;
    const early = new Set<Reference>();
    let renames = 0;
    for (const reference of references) {
      const scope = resolve(reference);
      if (!scope || isGlobal(scope)) continue;
      const declared = scope.names.get(reference.node.name)!;
      if (reference.node.start >= declared.start) continue;
      if (functionScope(reference.scope) !== functionScope(scope)) continue;
      if (reference.loops.some((loop) => loop.start <= declared.start && declared.start < loop.end)) continue;
      early.add(reference);
      declared.rename ??= `${reference.node.name}ρ${options.id}_${renames++}`;
    }
    for (const reference of references) {
      const scope = resolve(reference);
      const name = (scope && !early.has(reference) && scope.names.get(reference.node.name)?.rename) || undefined;
      if (name) {
        reference.node.name = name;
        text.update(
          reference.node.start,
          reference.node.end,
          reference.isShorthand ? `${source.slice(reference.node.start, reference.node.end)}:${name}` : name,
        );
      } else if (reference.node.name.length > MAX_IDENTIFIER) {
        cutIdentifier(reference.node);
      }
    }
  }
  function cutIdentifier(node: any): void {
    if (node.name.length <= MAX_IDENTIFIER) return;
    node.name = node.name.slice(0, MAX_IDENTIFIER);
    text.update(node.start, node.end, node.name);
  }

  // Pass 2: the rewriting.
  // Openers hang on the text after them, closers on the text before: at one place all closers come first.
  /** A keyword that touched a quote or a bracket (`case"a"`) must not run into the name put there. */
  const apart = (position: number, code: string) =>
    /[\w$]/.test(source[position - 1] ?? "") && /^[^\x00-\x7f\w]/.test(code) ? ` ${code}` : code;
  const before = (position: number, code: string) => text.appendRight(position, apart(position, code));
  const update = (start: number, end: number, code: string) => text.update(start, end, apart(start, code));
  const after = (position: number, code: string) => text.appendLeft(position, code);
  const remove = (start: number, end: number) => {
    if (start < end) text.update(start, end, "");
  };
  const replace = (start: number, end: number, code: string) => {
    if (start === end) text.appendLeft(start, code);
    else text.update(start, end, code);
  };
  let classes = 0;

  interface Context {
    scope: string;
    /** The nearest function node, `null` at program level. */
    fn: FunctionNode | null;
    /** True directly in the program's statement list. */
    isTop: boolean;
    classVariable?: string;
  }

  const functionId = (node: any, name: string): number => {
    const body = node.body;
    const isExpression = body.type !== "BlockStatement";
    functions.push({
      name,
      params: node.params.map((param: any) => source.slice(param.start, param.end)),
      body: isExpression ? source.slice(body.start, body.end) : source.slice(body.start + 1, body.end - 1),
      isExpression,
      start: node.start,
      end: node.end,
    });
    return functions.length - 1;
  };

  const opener = (node: any, name: string, context: Context): string =>
    `ε.f(${table}[${functionId(node, name)}],${context.scope},`;

  const functionBody = (node: any, context: Context): void => {
    const inner: Context = { ...context, fn: node, isTop: false };
    if (node.type !== "ArrowFunctionExpression") inner.classVariable = context.classVariable;
    for (const param of node.params) if (param.type === "Identifier") cutIdentifier(param);
    const isExpression = node.body.type !== "BlockStatement";
    let prologue = `var δ=ε.in(${stackOf(node)});`;
    if (holdsFunctions.has(node)) {
      inner.scope = `σ${options.id}_${functions.length}`;
      const names = [...scopes.get(node)!.names].map(([name, info]) => info.rename ?? name.slice(0, MAX_IDENTIFIER));
      const reads = names.map((name, index) => `ι==${index}?${name}:`).join("");
      prologue += `var ${inner.scope}=ε.s(${context.scope},${names.length},ι=>${reads}0);`;
    }
    if (isExpression) {
      before(source.lastIndexOf("=>", node.body.start) + 2, `{${prologue}return ε.out(δ,(`);
      visit(node.body, node, inner);
      after(node.end, "))}");
      return;
    }
    before(node.body.start + 1, prologue);
    statements(node.body.body, node.body, inner);
    after(node.body.end - 1, ";ε.out(δ);");
  };

  const statements = (list: any[], parent: any, context: Context): void => {
    for (const item of list) visit(item, parent, context);
  };

  const declaration = (node: any, parent: any, context: Context): void => {
    const isHead = LOOPS.has(parent.type) && parent.body !== node;
    const isGlobal = isProgram && context.fn === null && (node.kind === "var" || (context.isTop && !isHead));
    if (!isGlobal) {
      for (const item of node.declarations) {
        cutIdentifier(item.id);
        if (item.init) visit(item.init, item, context);
      }
      return;
    }
    remove(node.start, node.declarations[0].start);
    // A statement that begins with a name of the source must not become a directive or a label: it cannot.
    for (const item of node.declarations) {
      cutIdentifier(item.id);
      const name = JSON.stringify(item.id.name);
      if (!item.init) {
        if (parent.type !== "ForInStatement" && parent.type !== "ForOfStatement")
          update(item.id.start, item.id.end, `ε.declare(${name})`);
        continue;
      }
      if (node.kind === "const") {
        update(item.id.start, source.indexOf("=", item.id.end) + 1, `ε.constant(${name},`);
        visit(item.init, item, context);
        after(item.end, ")");
      } else {
        // The variable exists while its initialiser runs, and after that has thrown.
        if (item.init.type !== "Literal" && !isFunctionNode(item.init)) before(item.id.start, `ε.name(${name}),`);
        visit(item.init, item, context);
      }
    }
  };

  const loop = (node: any, context: Context): void => {
    const head = node.init ?? node.left;
    const inner = { ...context, isTop: false };
    // `for (const …;…)` has one constant in either language.
    const isLet =
      head?.type === "VariableDeclaration" &&
      (head.kind === "let" || (head.kind === "const" && node.type !== "ForStatement"));
    if (isLet) {
      const names = head.declarations.map((item: any) => item.id.name.slice(0, MAX_IDENTIFIER));
      before(node.start, `{let ${names.join()};`);
      remove(head.start, head.declarations[0].start);
    }
    if (head?.type === "VariableDeclaration") {
      if (isLet) {
        for (const item of head.declarations) {
          if (item.init) visit(item.init, item, inner);
        }
      } else declaration(head, node, inner);
    } else if (head) visit(head, node, inner);
    if (node.type !== "ForStatement") {
      before(node.right.start, node.type === "ForOfStatement" ? " ε.iterable(" : " ε.keyed(");
      visit(node.right, node, inner);
      after(node.right.end, ")");
    } else for (const part of [node.test, node.update]) if (part) visit(part, node, inner);
    if (node.type === "ForStatement") countedBody(node, inner);
    else visit(node.body, node, inner);
    if (isLet) after(node.end, "}");
  };

  /** The body of a loop that may have no end. */
  const countedBody = (node: any, context: Context): void => {
    const isBlock = node.body.type === "BlockStatement";
    before(isBlock ? node.body.start + 1 : node.body.start, isBlock ? "ε.step();" : "{ε.step();");
    visit(node.body, node, context);
    if (!isBlock) after(node.body.end, "}");
  };

  const classBody = (node: any, context: Context): void => {
    const variable = `κ${options.id}_${classes++}`;
    const inner: Context = { ...context, classVariable: variable, isTop: false };
    if (node.superClass) {
      update(node.start, node.superClass.start, `ε.c(${context.scope},`);
      visit(node.superClass, node, context);
      update(node.superClass.end, node.body.start + 1, `,${variable}=>[`);
    } else {
      update(node.start, node.body.start + 1, `ε.c(${context.scope},undefined,${variable}=>[`);
    }
    let position = node.body.start + 1;
    for (const member of node.body.body) {
      if (member.start > position) remove(position, member.start);
      const kind = member.type === "PropertyDefinition" ? "field" : member.kind;
      const name = JSON.stringify(member.key.name ?? member.key.value);
      const entry = `["${member.static ? "static " : ""}${kind}",${name},`;
      if (member.type === "PropertyDefinition") {
        if (member.value) {
          update(member.start, source.indexOf("=", member.key.end) + 1, entry);
          visit(member.value, member, inner);
          if (member.value.end < member.end && source.slice(member.value.end, member.end).includes(";")) {
            const semicolon = source.lastIndexOf(";", member.end);
            update(semicolon, member.end, "");
          }
          after(member.end, "],");
        } else update(member.start, member.end, `${entry}undefined],`);
      } else {
        update(member.start, member.value.start, `${entry}${opener(member.value, member.key.name, inner)}function`);
        functionBody(member.value, inner);
        after(member.end, ")],");
      }
      position = member.end;
    }
    update(position, node.end, "])");
  };

  const visit = (node: any, parent: any, context: Context): void => {
    const problem = refused.get(node);
    if (problem) {
      const code =
        problem.type === ""
          ? ";"
          : `throw ε.error(${JSON.stringify(problem.type)},${JSON.stringify(problem.message)});`;
      update(node.start, node.end, code);
      return;
    }
    switch (node.type) {
      case "FunctionDeclaration": {
        const name = node.id!.name;
        cutIdentifier(node.id);
        const isGlobal = isProgram && context.fn === null;
        const keyword = isGlobal ? "" : "var ";
        update(
          node.start,
          source.indexOf("(", node.id!.end),
          `${keyword}${node.id.name}=${opener(node, name, context)}function`,
        );
        functionBody(node, context);
        after(node.end, ");");
        return;
      }
      case "FunctionExpression":
      case "ArrowFunctionExpression":
        before(
          node.start,
          opener(node, node.id?.name ?? (parent.type === "VariableDeclarator" ? parent.id.name : ""), context),
        );
        functionBody(node, context);
        after(node.end, ")");
        return;
      case "ClassDeclaration": {
        const isGlobal = isProgram && context.fn === null;
        before(node.start, `${isGlobal ? "" : "var "}${node.id.name}=`);
        classBody(node, context);
        after(node.end, ";");
        return;
      }
      case "ClassExpression":
        classBody(node, context);
        return;
      case "VariableDeclaration":
        declaration(node, parent, context);
        return;
      case "ForStatement":
      case "ForInStatement":
      case "ForOfStatement":
        loop(node, context);
        return;
      case "WhileStatement":
      case "DoWhileStatement":
        visit(node.test, node, { ...context, isTop: false });
        countedBody(node, { ...context, isTop: false });
        return;
      case "BlockStatement":
        statements(node.body, node, { ...context, isTop: false });
        return;
      case "ExpressionStatement":
        if (node.directive) {
          update(
            node.expression.start,
            node.expression.end,
            node === lastStatement ? JSON.stringify(cutToByte(node.expression.value)) : "0",
          );
          return;
        }
        if (node.expression.type === "MemberExpression" && !node.expression.computed && node !== lastStatement) {
          const member = node.expression;
          before(node.start, "ε.touch(");
          visit(member.object, member, context);
          update(source.lastIndexOf(".", member.property.start), member.property.end, `,"${member.property.name}")`);
          return;
        }
        break;
      case "TryStatement":
        visit(node.block, node, context);
        if (node.handler) visit(node.handler, node, context);
        if (node.finalizer) visit(node.finalizer, node, context);
        return;
      case "CatchClause": {
        const name = node.param ? node.param.name : "ξ";
        if (!node.param) text.appendLeft(node.body.start, "(ξ)");
        before(node.body.start + 1, `ε.out(δ);${name}=ε.caught(${name});`);
        visit(node.body, node, context);
        return;
      }
      case "ReturnStatement": {
        const start = node.start + "return".length;
        if (!node.argument) {
          before(start, " ε.out(δ)");
          return;
        }
        before(start, " ε.out(δ,(");
        visit(node.argument, node, context);
        after(source[node.end - 1] === ";" ? node.end - 1 : node.end, "))");
        return;
      }
      case "DebuggerStatement":
        update(node.start, node.end, ";");
        return;
      case "Literal":
        if (node.regex) {
          update(
            node.start,
            node.end,
            `ε.regexp(${JSON.stringify(cutToByte(node.regex.pattern))},${JSON.stringify(node.regex.flags)})`,
          );
        } else if (typeof node.value === "string") {
          const hasContinuation = /\\\r?\n/.test(node.raw);
          if (hasContinuation) {
            const value = JSON.parse(
              `"${node.raw
                .slice(1, -1)
                .replace(/\\\r?\n/g, "\\n")
                .replace(/\\'/g, "'")
                .replace(/(^|[^\\])"/g, '$1\\"')}"`,
            );
            update(node.start, node.end, JSON.stringify(cutToByte(value)));
          } else if (hasWideChar(node.value)) update(node.start, node.end, JSON.stringify(cutToByte(node.value)));
        } else if (
          typeof node.value === "number" &&
          /^[\d_.]+(e[+-]?\d+)?$/i.test(node.raw) &&
          /[.e]/i.test(node.raw)
        ) {
          const value = textToFloat(node.raw);
          if (value !== node.value) update(node.start, node.end, value === Infinity ? "Infinity" : String(value));
        } else if (typeof node.value === "number" && /^\d+$/.test(node.raw) && node.value > 2 ** 53) {
          update(node.start, node.end, String(Number(BigInt.asIntN(64, BigInt(node.raw)))));
        }
        return;
      case "TemplateLiteral":
        for (const quasi of node.quasis)
          if (hasWideChar(quasi.value.cooked ?? ""))
            replace(quasi.start, quasi.end, cutToByte(quasi.value.cooked!).replace(/[\\`$]/g, "\\$&"));
        node.expressions.forEach((expression: any, index: number) => {
          before(node.quasis[index].end + 2, "ε.str(");
          visit(expression, node, context);
          after(node.quasis[index + 1].start - 1, ")");
        });
        return;
      case "Identifier":
        if (node.name === "arguments") {
          if (!context.fn) {
            if (isProgram) update(node.start, node.end, "ε.noArgs()");
          } else if (context.fn.type === "ArrowFunctionExpression")
            update(node.start, node.end, `[${context.fn.params.map((param: any) => param.name).join()}]`);
          else update(node.start, node.end, "ε.args(arguments)");
        }
        return;
      case "UnaryExpression":
        if (node.operator === "typeof") {
          // A name that does not exist must stay bare.
          if (node.argument.type === "Identifier") {
            if (node.argument.name === "undefined" || node.argument.name === "arguments") break;
            before(node.start, `(`);
            after(node.end, `==="object"?ε.typeOf(${node.argument.name}):typeof ${node.argument.name})`);
            return;
          }
          update(
            node.start,
            node.argument.start,
            source.slice(node.start, node.argument.start).replace("typeof", "ε.typeOf("),
          );
          visit(node.argument, node, context);
          after(node.end, ")");
          return;
        }
        if (node.operator === "-" && typeof node.argument.value === "number") {
          if (node.argument.value === 0) update(node.start, node.end, "0");
          else visit(node.argument, node, context);
          return;
        }
        if (node.operator === "-" || node.operator === "+" || node.operator === "~") {
          const helper = { "-": "ε.sub(0,", "+": "ε.num(", "~": "ε.inv(" }[node.operator as "-" | "+" | "~"];
          update(node.start, node.start + 1, helper);
          visit(node.argument, node, context);
          after(node.end, ")");
          return;
        }
        break;
      case "BinaryExpression":
        if (node.operator in OPERATORS && !isPlainOperation(node)) {
          before(node.start, `ε.${OPERATORS[node.operator]}(`);
          visit(node.left, node, context);
          const operator = findOperator(node.left.end, node.right.start, node.operator);
          update(operator, operator + node.operator.length, ",");
          visit(node.right, node, context);
          after(node.end, ")");
          return;
        }
        break;
      case "AssignmentExpression":
        assignment(node, context);
        return;
      case "UpdateExpression":
        step(node, parent, context);
        return;
      case "MemberExpression":
        if (node.object.type === "Super") {
          update(node.object.start, node.object.end, "ε.superOf(this)");
          if (node.computed) visit(node.property, node, context);
          return;
        }
        if (!node.computed) {
          cutIdentifier(node.property);
          const isTarget =
            (parent.type === "AssignmentExpression" && parent.left === node) ||
            (parent.type === "CallExpression" && parent.callee === node) ||
            parent.type === "UpdateExpression" ||
            (parent.type === "UnaryExpression" && parent.operator === "delete");
          if (node.property.name === "name" && !isTarget) {
            before(node.start, "ε.nameOf(");
            visit(node.object, node, context);
            update(source.lastIndexOf(".", node.property.start), node.end, ")");
            return;
          }
          const isNullMethod =
            parent.type === "CallExpression" && parent.callee === node && NULL_METHODS.has(node.property.name);
          if (isNullMethod) before(node.object.start, "ε.boxed((");
          visit(node.object, node, context);
          if (isNullMethod) after(node.object.end, "))");
          return;
        }
        break;
      case "CallExpression":
        if (node.callee.type === "Super") {
          update(
            node.start,
            source.indexOf("(", node.callee.end) + 1,
            `ε.superCall(${context.classVariable ?? "undefined"},this,[`,
          );
          for (const item of node.arguments) visit(item, node, context);
          update(node.end - 1, node.end, "])");
          return;
        }
        if (node.callee.type === "MemberExpression" && node.callee.object.type === "Super") {
          visit(node.callee, node, context);
          const open = source.indexOf("(", node.callee.end);
          update(open, open + 1, node.arguments.length ? ".call(this," : ".call(this");
          for (const item of node.arguments) visit(item, node, context);
          return;
        }
        if (node.callee.type === "Identifier" && node.callee.name === "eval" && node.arguments.length === 1) {
          const isLocal = context.fn !== null || !isProgram;
          before(node.arguments[0].start, `ε.source(`);
          visit(node.arguments[0], node, context);
          after(node.arguments[0].end, `,"${context.scope}",${isLocal})`);
          return;
        }
        break;
      case "Property":
        if (node.shorthand) {
          if (node.value.name === "arguments") visitShorthandArguments(node, context);
          return;
        }
        if (node.key.type === "Identifier" && !node.computed) cutIdentifier(node.key);
        if (node.kind !== "init") {
          functionId(node.value, node.key.name ?? String(node.key.value));
          functionBody(node.value, context);
          return;
        }
        if (node.method) {
          const name = node.key.name ?? String(node.key.value);
          replace(node.key.end, node.value.start, `:${opener(node.value, name, context)}function`);
          functionBody(node.value, context);
          after(node.end, ")");
          return;
        }
        visit(node.value, node, context);
        return;
      default:
        break;
    }
    const inner = context.isTop && node.type !== "Program" ? { ...context, isTop: false } : context;
    for (const child of children(node)) visit(child, node, inner);
  };

  const visitShorthandArguments = (node: any, context: Context): void => {
    if (context.fn) update(node.start, node.end, "arguments:ε.args(arguments)");
  };

  /** Offset of an operator between two operands; comments in between may hold the character too. */
  const findOperator = (from: number, to: number, operator: string): number => {
    const gap = source.slice(from, to).replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, (comment) => " ".repeat(comment.length));
    return from + gap.indexOf(operator);
  };

  /** Makes `a.b` to `a,"b"` and `a[b]` to `a,b`, with `tail` in the place of what follows up to `end`. */
  const memberArguments = (member: any, end: number, tail: string, context: Context): void => {
    visit(member.object, member, context);
    if (member.computed) {
      const open = findOperator(member.object.end, member.property.start, "[");
      update(open, open + 1, ",");
      visit(member.property, member, context);
      update(findOperator(member.property.end, member.end, "]"), end, tail);
    } else
      update(
        source.lastIndexOf(".", member.property.start),
        end,
        `,"${member.property.name.slice(0, MAX_IDENTIFIER)}"${tail}`,
      );
  };

  const assignment = (node: any, context: Context): void => {
    const left = node.left;
    const operator = findOperator(left.end, node.right.start, node.operator);
    const operatorEnd = operator + node.operator.length;
    const helper = node.operator === "=" ? undefined : OPERATORS[node.operator.slice(0, -1)];
    if (helper) {
      if (left.type === "Identifier") {
        update(operator, operatorEnd, `=ε.${helper}(${left.name},`);
        visit(node.right, node, context);
        after(node.end, ")");
        return;
      }
      before(node.start, `ε.assign(ε.${helper},`);
      memberArguments(left, operatorEnd, ",", context);
      visit(node.right, node, context);
      after(node.end, ")");
      return;
    }
    if (
      node.operator === "=" &&
      left.type === "MemberExpression" &&
      !left.computed &&
      left.property.name === "length"
    ) {
      before(node.start, "ε.setLength(");
      visit(left.object, left, context);
      update(source.lastIndexOf(".", left.property.start), operatorEnd, ",");
      visit(node.right, node, context);
      after(node.end, ")");
      return;
    }
    visit(left, node, context);
    visit(node.right, node, context);
  };

  /** `++` and `--`: V8's own where the operand is a number, which is nearly always. */
  const step = (node: any, parent: any, context: Context): void => {
    const operand = node.argument;
    const helper = node.operator === "++" ? "ε.add" : "ε.sub";
    if (operand.type === "MemberExpression") {
      before(node.start, node.prefix ? `ε.assign(${helper},` : `ε.postfix(${helper},`);
      remove(node.start, operand.start);
      memberArguments(operand, node.end, "", context);
      after(node.end, node.prefix ? ",1)" : ")");
      return;
    }
    const name = operand.name.slice(0, MAX_IDENTIFIER);
    const isUnused =
      (parent.type === "ExpressionStatement" && parent !== lastStatement) ||
      (parent.type === "ForStatement" && parent.update === node);
    const open = isUnused ? " " : "ε.id(";
    const close = isUnused ? "" : ")";
    const other = node.prefix
      ? `${name}=${helper}(${name},1)`
      : isUnused
        ? `${name}=${helper}(ε.old(${name}),1)`
        : `(ε.u=ε.old(${name}),${name}=${helper}(ε.u,1),ε.u)`;
    before(node.start, `${open}typeof ${name}==="number"?`);
    after(node.end, `:${other}${close}`);
  };

  const lastStatement = options.wantsValue
    ? program.body.filter((statement) => statement.type !== "EmptyStatement").pop()
    : undefined;
  const top: Context = { scope: options.outerScope ?? "σ0", fn: null, isTop: true };
  for (const statement of program.body) visit(statement, program, top);
  if (isProgram && lastStatement && !refused.has(lastStatement)) {
    if (lastStatement.type === "ExpressionStatement") {
      text.prependRight(lastStatement.start, "return (");
      const end = lastStatement.expression.end;
      const tail = source.slice(end, lastStatement.end).replace(";", "");
      if (lastStatement.end > end) update(end, lastStatement.end, `${tail});`);
      else text.appendLeft(end, ");");
    } else if (lastStatement.type === "FunctionDeclaration" || lastStatement.type === "ClassDeclaration") {
      text.append(`\nreturn ${lastStatement.id!.name};`);
    } else if (lastStatement.type === "VariableDeclaration") {
      const item = lastStatement.declarations[lastStatement.declarations.length - 1]!;
      if (item.id.type === "Identifier") text.append(`\nreturn ${item.id.name};`);
    }
  }
  if (isProgram) {
    text.prepend("(function(ε,τ,σ0){var δ=ε.in(300);");
    text.append("\n})");
  }

  let decoded: ReturnType<MagicString["generateDecodedMap"]> | undefined;
  let lineStarts: number[] | undefined;
  let callEnds: Map<number, number> | undefined;
  return {
    code: text.toString(),
    functions,
    originalOffset(line, column) {
      decoded ??= text.generateDecodedMap({ hires: true });
      if (!lineStarts) {
        lineStarts = [0];
        for (let i = 0; i < source.length; i++) if (source[i] === "\n") lineStarts.push(i + 1);
      }
      const segments = decoded.mappings[line - 1];
      if (!segments) return undefined;
      let best: number[] | undefined;
      for (const segment of segments) {
        // V8 may point at what was put before the text: the next piece that is the source's own then counts.
        if (segment[0] > column - 1 && best) break;
        if (segment.length >= 4) best = segment as number[];
      }
      return best ? lineStarts[best[2]!]! + best[3]! : undefined;
    },
    callEnd(offset) {
      if (!callEnds) {
        callEnds = new Map();
        const collect = (node: any): void => {
          if (node.type === "NewExpression") callEnds!.set(node.start, node.end - 1);
          if (node.type === "CallExpression") {
            const isMethod = node.callee.type === "MemberExpression" && !node.callee.computed;
            callEnds!.set(isMethod ? node.callee.property.start : node.callee.start, node.end - 1);
          }
          for (const child of children(node)) collect(child);
        };
        collect(program);
      }
      return callEnds.get(offset);
    },
  };
};
