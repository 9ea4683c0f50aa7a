/**
 * Gives Espruino's meaning to its source before V8 runs it: Espruino executes source text as it reads it, so functions
 * and variables exist from where they stand on, a `let` of a loop is one variable, class fields stand on the prototype,
 * and so on. The text on the board stays as it is; only what the simulator evaluates is rewritten.
 *
 * Names that begin with a Greek letter belong to the simulator. Espruino's identifiers are ASCII, so they cannot clash.
 * A number in a comment before a call of the simulator's own is the place an error in there is reported at.
 */
import MagicString from "magic-string";
import { type Node, parse } from "./parser";

/** One function of a source: what `toString` prints and the memory estimate charges for. */
export interface FunctionInfo {
  name: string;
  params: string[];
  /** What the board keeps as its code. */
  body: string;
  /** The code is an expression, of which the value is returned: of an arrow function, or behind a leading `return`. */
  isExpression: boolean;
  /** From the first character of the function to its last. */
  start: number;
  end: number;
  /** Where the code begins. */
  bodyStart: number;
  /** Its last character is a closing bracket. */
  hasBrackets: boolean;
  /** The function keeps its own name: that of an expression. */
  keepsName?: boolean;
  /** It keeps `this` from where it was made. */
  keepsThis?: boolean;
}

export interface TransformOptions {
  /**
   * `program`: declarations become globals. `module`: a function of `exports` and `module`. `local`: inside a function,
   * by a direct `eval`.
   */
  scope: "program" | "module" | "local";
  /** Unique per source; keeps the names of nested sources apart. */
  id: number;
  /** Name of the scope record that encloses the code. */
  outerScope?: string;
  /** Whether the value of the last statement is wanted (`return` of the wrapper function). */
  wantsValue?: boolean;
}

/** A place of the source as V8 names it. */
export interface Place {
  /** Offset in the source. */
  offset: number;
  /** The offset is the one to report, whatever the error is. */
  isExact: boolean;
}

/** Where a call stands: `end` is the token the interpreter has read last when it runs. */
export interface CallSite {
  end: number;
  /** What the function is called by; undefined where it has no name. */
  name?: string;
  /** Where the called function is reported missing. */
  callee: number;
}

export interface Transformed {
  code: string;
  functions: FunctionInfo[];
  /** The place in the source of a place in `code`, both counted from 1. */
  locate(line: number, column: number): Place | undefined;
  /** The call that V8 places there. */
  callAt(place: Place): CallSite | undefined;
  /** Where the interpreter reports that a name is not defined, which V8 places somewhere before it. */
  nameAt(offset: number, name: string): number;
  /** Where the interpreter reports that a variable may not be set, which V8 places there. */
  storeAt(offset: number): number | undefined;
  /** Where the interpreter reports that the reading of a field failed, which V8 places there. */
  readAt(offset: number): number | undefined;
  /** The expression of a template literal around the offset: the interpreter reads it as a source of its own. */
  templateAt(offset: number): { start: number; end: number } | undefined;
}

interface Scope {
  parent?: Scope;
  isFunction: boolean;
  node: Node;
  names: Map<string, Declared>;
}

interface Declared {
  /** Where the first declaration stands. */
  start: number;
  /** All of them, each with the part of the function it stands in that may not be executed. */
  sites: { start: number; branch?: Node }[];
  rename?: string;
  /** Its declaration stands in the code already. */
  isEmitted?: boolean;
  /** Used where it may not have been declared: it begins as `ε.none`. */
  isUncertain?: boolean;
}

interface Reference {
  node: Node;
  parent: Node;
  scope: Scope;
  loops: Node[];
  /** `{a}` in an object literal: renaming must keep the key. */
  isShorthand: boolean;
}

const LOOPS = new Set(["ForStatement", "ForInStatement", "ForOfStatement", "WhileStatement", "DoWhileStatement"]);

/** Children of a node in source order. */
const children = (node: Node): Node[] => {
  const list: Node[] = [];
  for (const key in node) {
    const value = node[key];
    if (Array.isArray(value)) for (const item of value) item && typeof item.type === "string" && list.push(item);
    else if (value && typeof value.type === "string") list.push(value);
  }
  return list;
};

const contains = (node: Node, position: number): boolean => node.start <= position && position < node.end;

/** A part of a function that may be left out, or left before its end. */
const isBranch = (node: Node, parent: Node): boolean =>
  node.type === "SwitchCase" ||
  (parent.type === "IfStatement" && parent.test !== node) ||
  (LOOPS.has(parent.type) && parent.body === node) ||
  (parent.type === "TryStatement" && parent.finalizer !== node);

const declaresName = ({ node, parent }: Reference): boolean =>
  parent.id === node && /^(VariableDeclarator|FunctionDeclaration|ClassDeclaration)$/.test(parent.type);

/** A name that is not read there, or not by its name alone. */
const isTarget = ({ node, parent }: Reference): boolean =>
  parent.left === node && /^(AssignmentExpression|ForInStatement|ForOfStatement)$/.test(parent.type) ||
  parent.type === "UpdateExpression" ||
  (parent.type === "UnaryExpression" && (parent.operator === "typeof" || parent.operator === "delete"));

const isFunctionNode = (node: Node): boolean =>
  node.type === "FunctionDeclaration" || node.type === "FunctionExpression" || node.type === "ArrowFunctionExpression";

/** Methods that null has too, when they are called. */
const NULL_METHODS = new Set(["toString", "valueOf", "hasOwnProperty"]);

/** Built-in functions that a program might want to replace by assigning to their names. */
const BUILT_IN_FUNCTIONS = new Set(
  (
    "print require load reset save dump edit echo trace eval parseInt parseFloat isNaN isFinite btoa atob " +
    "encodeURIComponent decodeURIComponent setTimeout setInterval clearTimeout clearInterval changeInterval getTime " +
    "setTime digitalWrite digitalRead digitalPulse analogWrite analogRead setWatch clearWatch pinMode getPinMode"
  ).split(" "),
);
/** Names of the language that Espruino takes for any other. */
const OTHER_RESERVED = new Set(["enum", "export", "import", "with", "await", "yield"]);

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
const stackOf = (node: Node): number => {
  let most = 0;
  const search = (item: Node, around: number): void => {
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
  const program = parse(info.body, "function");
  const names = new Set([...info.params, "arguments", "eval"]);
  const keeps = (node: Node, parent: Node): boolean => {
    if (isFunctionNode(node)) return node.body.type !== "BlockStatement" || node.body.body.length > 0;
    if (node.type === "Identifier" && names.has(node.name)) {
      const isKey = !parent.computed && (parent.property === node || parent.key === node) && !parent.shorthand;
      const isCalled = parent.type === "CallExpression" && parent.callee === node && node.name !== "eval";
      return !isKey && !isCalled;
    }
    return children(node).some((child) => keeps(child, node));
  };
  const result = keeps(program, undefined);
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
  in: "has",
  instanceof: "isA",
};

/** A type that can be told from the text alone; what is left as it stands is faster. */
const staticType = (node: Node): string | undefined => {
  if (node.type === "Literal") return node.regex ? "object" : node.value === null ? "null" : typeof node.value;
  if (node.type === "TemplateLiteral") return "string";
  if (node.type === "UndefinedLiteral") return "undefined";
  if (node.type !== "UnaryExpression") return undefined;
  if (node.operator === "typeof") return "string";
  if (node.operator === "!" || node.operator === "delete") return "boolean";
  if (node.operator === "void") return "undefined";
  return node.argument.type === "Literal" && node.operator === "-" ? "number" : undefined;
};

/** Whether V8 computes the same as the interpreter: two of a kind, or `===` with what has no second form. */
const isPlainOperation = (node: Node): boolean => {
  if (node.operator === "in" || node.operator === "instanceof") return false;
  const left = staticType(node.left);
  const right = staticType(node.right);
  if (node.operator === "===" || node.operator === "!==")
    return [left, right].some((type) => type !== undefined && type !== "number" && type !== "object");
  return left === right && (left === "number" || (left === "string" && /^([<>]=?|[=!]==?)$/.test(node.operator)));
};

/** Whether a value is certainly no object that would be asked for its value. */
const hasPlainTruth = (node: Node): boolean =>
  node.type === "BinaryExpression" ||
  staticType(node) !== undefined ||
  (node.type === "LogicalExpression" && hasPlainTruth(node.left) && hasPlainTruth(node.right));

const outerStart = (node: Node): number => node.outerStart ?? node.start;
const outerEnd = (node: Node): number => node.outerEnd ?? node.end;
const outerLast = (node: Node): number => node.outerLast ?? node.last;

/** What a stack trace calls a function by that is called so. */
const calleeName = (callee: Node): string | undefined => {
  if (callee.type === "Identifier") return callee.name;
  if (callee.type === "SequenceExpression") return calleeName(callee.expressions[callee.expressions.length - 1]);
  return callee.type === "MemberExpression" && !callee.computed ? callee.property.name : undefined;
};

/** Rewrites one source. What cannot be read throws where it stands. */
export const transform = (source: string, options: TransformOptions): Transformed => {
  const program = parse(source, options.scope === "program" ? "program" : "function");
  const text = new MagicString(source);
  const functions: FunctionInfo[] = [];
  const isProgram = options.scope === "program";
  const table = options.scope === "local" ? `ε.t[${options.id}]` : "τ";

  // Pass 1: scopes and references.
  const root: Scope = { isFunction: true, node: program, names: new Map() };
  const references: Reference[] = [];
  const holdsFunctions = new Set<Node>();
  /** Functions in which `arguments` stands. */
  const usesArguments = new Set<Node>();
  const scopes = new Map<Node, Scope>();

  const functionScope = (scope: Scope): Scope => (scope.isFunction ? scope : functionScope(scope.parent!));
  const declare = (scope: Scope, name: string, start: number, branch?: Node): void => {
    const site = { start, branch };
    const known = scope.names.get(name);
    if (!known) scope.names.set(name, { start, sites: [site] });
    else {
      known.sites.push(site);
      if (start < known.start) known.start = start;
    }
  };

  const analyse = (node: Node, parent: Node, scope: Scope, loops: Node[], branch?: Node): void => {
    let inner = scope;
    let innerLoops = loops;
    if (isBranch(node, parent)) branch = node;
    if (isFunctionNode(node)) {
      for (let outer: Scope | undefined = scope; outer; outer = functionScope(outer).parent)
        holdsFunctions.add(functionScope(outer).node);
      if (node.type === "FunctionDeclaration") {
        declare(functionScope(scope), node.id.name, node.start, branch);
        node.id.isOfFunction = true;
      }
      branch = undefined;
      inner = { parent: scope, isFunction: true, node, names: new Map() };
      scopes.set(node, inner);
      innerLoops = [];
      if (node.type === "FunctionExpression" && node.id) declare(inner, node.id.name, -1);
      for (const param of node.params) declare(inner, param.name, -1);
    } else if (
      (node.type === "BlockStatement" && !isFunctionNode(parent)) ||
      LOOPS.has(node.type) ||
      node.type === "CatchClause"
    ) {
      inner = { parent: scope, isFunction: false, node, names: new Map() };
      scopes.set(node, inner);
      if (LOOPS.has(node.type)) innerLoops = [...loops, node];
      if (node.type === "CatchClause" && node.param) declare(inner, node.param.name, -1);
    } else if (node.type === "ClassDeclaration") {
      declare(functionScope(scope), node.id.name, node.start, branch);
      node.id.isOfFunction = true;
    } else if (node.type === "VariableDeclaration") {
      for (const item of node.declarations) {
        item.id.isOfFunction = node.kind === "var";
        if (node.kind === "var") declare(functionScope(scope), item.id.name, item.id.start, branch);
        else declare(scope, item.id.name, item.id.start);
      }
    } else if (node.type === "Identifier") {
      const isName =
        (parent.type === "MemberExpression" && parent.property === node && !parent.computed) ||
        ((parent.type === "Property" || parent.type === "MethodDefinition" || parent.type === "PropertyDefinition") &&
          parent.key === node) ||
        (parent.id === node && (parent.type === "FunctionExpression" || parent.type === "ClassExpression"));
      if (node.name === "arguments") usesArguments.add(functionScope(scope).node);
      if (!isName)
        references.push({ node, parent, scope, loops, isShorthand: parent.type === "Property" && !!parent.shorthand });
    }
    for (const child of children(node)) {
      // The name of a declared function belongs to the scope around it.
      const childScope = isFunctionNode(node) && child === node.id ? scope : inner;
      analyse(child, node, childScope, innerLoops, branch);
    }
  };
  for (const statement of program.body) analyse(statement, program, root, []);

  /** The scopes whose variables are meant; none for what is global. */
  const targets = new Map<Reference, Scope | undefined>();

  // A name used above its declaration means the one outside: the declared one gets another name. So it is where the
  // declaration stands in a branch: which one is meant is then known when it is executed.
  {
    const isGlobal = (scope: Scope) => scope === root && isProgram;
    const uncertain = new Set<Reference>();
    let renames = 0;
    const rename = (scope: Scope, name: string): void => {
      scope.names.get(name)!.rename ??= `${name}ρ${options.id}_${renames++}`;
    };
    /** In a loop the declaration may have been executed before, if the loop does not make a scope of its own around it. */
    const isBefore = ({ node, loops }: Reference, scope: Scope): boolean => {
      const { start } = scope.names.get(node.name)!;
      const isRepeated = (loop: Node) =>
        loop.start <= start && start < loop.end && (scope === root || contains(scope.node, loop.start));
      return node.start < start && !loops.some(isRepeated);
    };
    /** The scope whose variable is meant. */
    const resolve = (reference: Reference): Scope | undefined => {
      const { name } = reference.node;
      const isOfFunction: boolean = reference.node.isOfFunction;
      let isClosure = false;
      for (let scope: Scope | undefined = reference.scope; scope; scope = scope.parent) {
        if (scope.names.has(name)) {
          if (isGlobal(scope)) return undefined;
          // What belongs to the function is declared in spite of a `let` around it, which V8 does not allow.
          const isOther = isOfFunction ? !scope.isFunction : !isClosure && isBefore(reference, scope);
          if (!isOther) return scope;
          rename(scope, name);
        }
        isClosure ||= scope.isFunction;
      }
      return undefined;
    };
    // Nor does it allow one of the name of the caught error.
    for (const [node, scope] of scopes)
      if (node.type === "CatchClause")
        for (const name of scope.names.keys())
          if (scopes.get(node.body)?.names.has(name)) rename(scope, name);
    for (const reference of references) targets.set(reference, resolve(reference));
    for (const [reference, scope] of targets) {
      if (!scope || !scope.isFunction || declaresName(reference)) continue;
      const { name, start } = reference.node;
      const isClosure = functionScope(reference.scope) !== scope;
      const declared = scope.names.get(name)!;
      const isCertain = declared.sites.some((site) =>
        site.branch ? site.start <= start && contains(site.branch, start) : isClosure || site.start <= start,
      );
      if (isCertain) continue;
      uncertain.add(reference);
      declared.isUncertain = true;
      rename(scope, name);
    }
    for (const [reference, scope] of targets) {
      const { node } = reference;
      const name = scope?.names.get(node.name)?.rename ?? (OTHER_RESERVED.has(node.name) ? `${node.name}ρ` : undefined);
      node.isLocal = scope !== undefined;
      if (name) {
        const key = reference.isShorthand ? `${source.slice(node.start, node.end)}:` : "";
        node.code = name;
        node.isUncertain = uncertain.has(reference);
        text.update(node.start, node.end, key + (isTarget(reference) ? name : readOf(node)));
      } else if (node.end - node.start !== node.name.length || isTokenByte(node)) {
        // Longer than the interpreter keeps a name.
        node.code = node.name;
        text.update(node.start, node.end, node.name);
      }
    }
  }
  function isTokenByte(node: Node): boolean {
    return source.charCodeAt(node.start) > 127;
  }
  function nameOf(node: Node): string {
    return node.code ?? node.name;
  }
  /** The code that reads a variable; that it is not defined is reported there, or at `position`. */
  function readOf(node: Node, position?: number): string {
    const at = position === undefined ? "" : `/*${position}*/`;
    return node.isUncertain ? `(${node.code}===ε.none?${at}${node.name}:${node.code})` : at + nameOf(node);
  }
  const uncertainOnes = (scope: Scope): string =>
    [...scope.names.values()].map((declared) => (declared.isUncertain ? `var ${declared.rename}=ε.none;` : "")).join("");

  // Pass 2: the rewriting.
  // Openers hang on the text after them, closers on the text before: at one place all closers come first.
  /** A keyword that touched a quote or a bracket (`case"a"`) must not run into the name put there. */
  const apart = (position: number, code: string) =>
    /[\w$]/.test(source[position - 1] ?? "") && /^[^\x00-\x7f\w]/.test(code) ? ` ${code}` : code;
  const before = (position: number, code: string) => text.appendRight(position, apart(position, code));
  const update = (start: number, end: number, code: string) => {
    if (start < end) text.update(start, end, apart(start, code));
    else if (code !== "") text.appendLeft(start, code);
  };
  const after = (position: number, code: string) => text.appendLeft(position, code);
  const remove = (start: number, end: number) => {
    if (start < end) text.update(start, end, "");
  };
  /** A call of a helper; what it throws is reported at `position`. */
  const helper = (name: string, position: number) => `ε./*${position}*/${name}(`;
  let classes = 0;

  const calls = new Map<number, CallSite>();
  const exactCalls = new Map<number, CallSite>();
  const names = new Map<number, number>();
  const reads = new Map<number, number>();
  /** Where V8 places the setting of a variable, and where the interpreter reports that it may not be set. */
  const stores = new Map<number, number>();
  const templates: { start: number; end: number }[] = [];

  interface Context {
    scope: string;
    /** The nearest function node, `null` at program level. */
    fn: Node | null;
    names: Scope;
    classVariable?: string;
    /** In the block of a `finally`: its label, which is where a jump out of it goes. */
    breakTo?: string;
    continueTo?: string;
    returnTo?: string;
    /** Labels of the `finally` blocks around that want to know of a `return`. */
    returning?: string[];
  }

  const functionId = (node: Node, name: string): number => {
    functions.push({
      name,
      params: node.params.map((param: Node) => param.name),
      body: source.slice(node.bodyStart, node.bodyEnd),
      isExpression: !!node.isReturn,
      start: node.start,
      end: node.end,
      bodyStart: node.bodyStart,
      hasBrackets: node.body.type === "BlockStatement" && !node.body.isBare,
      keepsName: node.type === "FunctionExpression" && !!node.id,
      keepsThis: node.type === "ArrowFunctionExpression" && !!node.usesThis,
    });
    return functions.length - 1;
  };

  const opener = (node: Node, name: string, context: Context): string =>
    `ε.f(${table}[${functionId(node, name)}],${context.scope},`;

  /** Shows the variables of a scope to those who count what closures keep. */
  const scopeRecord = (name: string, outer: string, scope: Scope): string => {
    const list = [...scope.names];
    const reading = list.map(([variable, { rename }], index) => `ι==${index}?${rename ?? variable}:`).join("");
    const names = [...scope.names.keys(), ...(scope === root && options.scope === "module" ? ["exports", "module"] : [])];
    return `var ${name}=ε.s(${outer},${list.length},ι=>${reading}0,"${names.join()}");`;
  };

  /** Rewrites parameters and body. */
  const functionBody = (node: Node, context: Context): void => {
    const { scope, classVariable } = context;
    const inner: Context = { scope, classVariable, fn: node, names: scopes.get(node)! };
    const declared = inner.names.names;
    for (const param of node.params) {
      const known = declared.get(param.name);
      if (known) known.isEmitted = true;
      if (usesArguments.has(node) && node.type === "ArrowFunctionExpression") continue;
      const code = node.params.find((other: Node) => other !== param && other.name === param.name && other.start > param.start)
        ? `${param.name}ρ${param.start}`
        : param.name;
      if (code !== source.slice(param.start, param.end)) update(param.start, param.end, code);
    }
    const isExpression = node.body.type !== "BlockStatement";
    let prologue = `var δ=ε.in(${stackOf(node)});${uncertainOnes(inner.names)}`;
    if (usesArguments.has(node)) {
      if (node.type !== "ArrowFunctionExpression") prologue += "var ζ;";
      else {
        const list = node.params.map((param: Node) => param.name).join();
        const open = `${list}${list && ","}...ζ`;
        update(node.start, node.paramsEnd, `(${open})`);
        prologue += `ζ=[${open}];`;
      }
    }
    if (holdsFunctions.has(node)) {
      inner.scope = `σ${options.id}_${functions.length}`;
      prologue += scopeRecord(inner.scope, context.scope, inner.names);
    }
    if (isExpression) {
      remove(node.arrow + 2, outerStart(node.body));
      before(outerStart(node.body), `{${prologue}return ε.out(δ,(`);
      visit(node.body, node, inner);
      after(outerEnd(node.body), "))}");
      return;
    }
    const { body } = node;
    if (body.isBare) {
      // An arrow function without a body that can be read.
      update(node.arrow + 2, body.end, `{${prologue}${broken(body.body[0])}}`);
      return;
    }
    before(body.start + 1, prologue);
    if (node.ramEnd !== undefined) remove(body.start + 1, node.ramEnd);
    statements(body.body, body, inner);
    const rest = body.body[0]?.restEnd;
    if (rest !== undefined) remove(body.body[0].end, rest);
    // A `return` in a `finally` sets the result, and the function goes on.
    const isLate = lateReturns.has(node);
    if (isLate) before(body.start + 1, "var Ω;");
    after(body.end - 1, isLate ? ";return ε.out(δ,Ω);" : ";ε.out(δ);");
  };

  const broken = (node: { message: string; position: number; errorType?: string }): string =>
    `throw ${helper("error", node.position)}${JSON.stringify(node.errorType ?? "SyntaxError")},` +
    `${JSON.stringify(node.message)});`;

  /** What the interpreter has executed when it comes upon the error, and the error. */
  const brokenStatement = (node: Node, context: Context): void => {
    const declares = isProgram && context.fn === null && context.names === root ? node.declares : undefined;
    let position = node.start;
    let code = declares ? `ε.declare(${JSON.stringify(declares)});` : "";
    for (const item of node.done) {
      const expression = item.type === "Callee" ? item.callee : item;
      const from = outerStart(expression);
      if (from < position || outerEnd(expression) > node.end) continue;
      update(position, from, code);
      if (item.type === "Callee") {
        before(from, helper("callee", outerLast(expression)));
        visit(expression, { type: "Callee" }, context);
        const name = expression.type === "Identifier" ? expression.name : (expression.property.name ?? "");
        after(outerEnd(expression), `,${JSON.stringify(name)})`);
      } else visit(expression, { type: "ExpressionStatement" }, context);
      position = outerEnd(expression);
      code = ";";
    }
    update(position, node.end, code + (node.message === "" ? ";" : broken(node)));
  };

  const statements = (list: Node[], parent: Node, context: Context): void => {
    for (const item of list) visit(item, parent, context);
  };

  /** Statements need nothing between them on the board. */
  const semicolon = (node: Node, end: number): void => {
    if (node.semicolon === undefined) after(end, ";");
  };

  /** One list for each call. Arrow functions have theirs in a parameter of their own. */
  const argumentsOf = (fn: Node): string =>
    fn.type === "ArrowFunctionExpression" ? "ζ" : `(ζ??=ε.args(arguments,${fn.params.length}))`;

  const refersTo = (node: Node, name: string, scope: Scope): boolean =>
    references.some(
      (reference) => reference.node.name === name && contains(node, reference.node.start) && targets.get(reference) === scope,
    );

  const declaration = (node: Node, parent: Node, context: Context): void => {
    const isHead = LOOPS.has(parent.type) && parent.body !== node;
    const isGlobal =
      isProgram && context.fn === null && (node.kind === "var" || (context.names === root && !isHead));
    const list: Node[] = node.declarations;
    if (node.trailingComma !== undefined) remove(node.trailingComma, node.trailingComma + 1);
    if (list.length === 0) {
      remove(node.start, node.start + node.kind.length);
      if (!isHead) semicolon(node, node.start + node.kind.length);
      return;
    }
    const lastItem = list[list.length - 1];
    if (isGlobal) {
      remove(node.start, list[0].start);
      for (const item of list) {
        const name = JSON.stringify(item.id.name);
        if (!item.init) {
          if (parent.type !== "ForInStatement" && parent.type !== "ForOfStatement")
            update(item.id.start, item.id.end, `ε.declare(${name})`);
          continue;
        }
        if (node.kind === "const") {
          update(item.id.start, outerStart(item.init), `${helper("constant", outerLast(item.init))}${name},`);
          visit(item.init, item, context);
          after(outerEnd(item.init), ")");
        } else {
          stores.set(source.indexOf("=", item.id.end), outerLast(item.init));
          // The variable exists while its initialiser runs, and after that has thrown.
          if (item.init.type !== "Literal" && !isFunctionNode(item.init)) before(item.id.start, `ε.name(${name}),`);
          visit(item.init, item, context);
        }
      }
    } else {
      // A second declaration of a name in one scope is an assignment.
      const scope = node.kind === "var" ? functionScope(context.names) : context.names;
      const isAgain = list.some((item) => scope.names.get(item.id.name)?.isEmitted);
      const isSelfish = node.kind !== "var" && list.some((item) => item.init && refersTo(item.init, item.id.name, scope));
      const isMixed = isAgain || isSelfish || list.some((item, index) => list.findIndex((other) => other.id.name === item.id.name) < index);
      const isOuter = !isHead && scope.isFunction && node.kind === "let";
      if (node.kind !== "var" && isMixed) {
        list.forEach((item, index) => {
          const known = scope.names.get(item.id.name);
          // The variable exists while its own value is computed.
          const isOwn = item.init && refersTo(item.init, item.id.name, scope);
          const code = isOwn ? `let ${nameOf(item.id)};` : `${node.kind} `;
          update(index ? list[index - 1].end : node.start, item.id.start, `${index ? ";" : ""}${known?.isEmitted ? "" : code}`);
          if (!item.init) update(item.id.start, item.id.end, known?.isEmitted ? "0" : `${nameOf(item.id)}`);
          else visit(item.init, item, context);
          if (known) known.isEmitted = true;
        });
      } else {
        // Outside of blocks `let` is `var`.
        if (isOuter) update(node.start, node.start + 3, "var");
        for (const item of list) {
          const known = scope.names.get(item.id.name);
          if (known) known.isEmitted = true;
          if (known?.isUncertain && node.kind === "var" && !hasNoInitialiser(parent, node)) {
            const code = `${known.rename}=${known.rename}===ε.none?undefined:${known.rename}`;
            if (!item.init) update(item.id.start, item.id.end, code);
            else if (item.init.type !== "Literal" && !isFunctionNode(item.init)) before(item.id.start, `${code},`);
          }
          if (item.init) visit(item.init, item, context);
          else if (node.kind === "const" && !isHead) after(item.id.end, "=undefined");
        }
      }
    }
    if (!isHead) semicolon(node, lastItem.end);
  };

  /** The declaration in the head of a loop that sets the variable itself. */
  const hasNoInitialiser = (parent: Node, node: Node): boolean =>
    (parent.type === "ForInStatement" || parent.type === "ForOfStatement") && parent.left === node;

  const loop = (node: Node, context: Context): void => {
    const head = node.type === "ForStatement" ? node.init : node.left;
    const inner = { ...context, names: scopes.get(node)!, breakTo: undefined, continueTo: undefined };
    // `for (const …;…)` has one constant in either language.
    const isLet =
      head?.type === "VariableDeclaration" &&
      head.declarations.length > 0 &&
      (head.kind === "let" || (head.kind === "const" && node.type !== "ForStatement"));
    let isEnclosed = isLet;
    if (isLet) {
      before(node.start, `{let ${head.declarations.map((item: Node) => nameOf(item.id)).join()};`);
      remove(head.start, head.declarations[0].start);
      for (const item of head.declarations) if (item.init) visit(item.init, item, inner);
    } else if (head?.type === "VariableDeclaration") {
      const known = functionScope(inner.names).names.get(head.declarations[0]?.id.name);
      if (hasNoInitialiser(node, head) && known?.isUncertain) {
        before(node.start, `{if(${known.rename}===ε.none)${known.rename}=undefined;`);
        isEnclosed = true;
      }
      declaration(head, node, inner);
    } else if (head) visit(head, node, inner);
    if (node.type === "ForStatement") {
      for (const part of [node.test, node.update]) if (part) visit(part, node, inner);
      countedBody(node, inner);
    } else {
      const isName =
        head?.type === "VariableDeclaration" ? head.declarations.length === 1 : /^(Identifier|MemberExp)/.test(head?.type);
      if (!isName) {
        // The interpreter needs a name there.
        const what = `for(a ${source.slice(node.operatorStart, node.operatorStart + 2)} b) - 'a' must be a variable name, not `;
        update(node.start, outerEnd(node.body), `throw ε./*${node.operatorStart}*/error("Error",${JSON.stringify(`${what}undefined`)});`);
        return;
      }
      const name = node.type === "ForOfStatement" ? "iterable" : "keyed";
      if (name === "keyed") update(node.operatorStart, node.operatorStart + 2, "of");
      before(outerStart(node.right), ` ${helper(name, outerLast(node.body))}`);
      visit(node.right, node, inner);
      after(outerEnd(node.right), ")");
      const isBlock = node.body.type === "BlockStatement";
      if (!isBlock) before(node.body.start, "{");
      visit(node.body, node, inner);
      if (!isBlock) after(node.body.end, "}");
    }
    if (isEnclosed) after(node.end, "}");
  };

  /** The body of a loop that may have no end. */
  const countedBody = (node: Node, context: Context): void => {
    const isBlock = node.body.type === "BlockStatement";
    before(isBlock ? node.body.start + 1 : node.body.start, isBlock ? "ε.step();" : "{ε.step();");
    visit(node.body, node, context);
    if (!isBlock) after(node.body.end, "}");
  };

  const classBody = (node: Node, context: Context): void => {
    const variable = `κ${options.id}_${classes++}`;
    const inner: Context = { ...context, classVariable: variable };
    const open = node.open + 1;
    if (node.superClass) {
      names.set(node.superClass.start, node.extendsStart);
      update(node.start, node.superClass.start, `${helper("c", node.superClass.start)}${context.scope},`);
      visit(node.superClass, node, context);
      update(node.superClass.end, open, `,${JSON.stringify(node.superClass.name)},${variable}=>[`);
    } else {
      update(node.start, open, `${helper("c", node.start)}${context.scope},undefined,"",${variable}=>[`);
    }
    let position = open;
    for (const member of node.members) {
      const kind = member.type === "PropertyDefinition" ? "field" : member.kind;
      const entry = `["${member.static ? "static " : ""}${kind}",${JSON.stringify(member.key.name)},`;
      if (member.type === "PropertyDefinition") {
        update(position, outerStart(member.value), entry);
        visit(member.value, member, inner);
        after(outerEnd(member.value), "],");
        position = outerEnd(member.value);
      } else {
        update(position, member.value.paramsStart, `${entry}${opener(member.value, member.key.name, inner)}function`);
        functionBody(member.value, inner);
        after(member.value.end, ")],");
        position = member.value.end;
      }
    }
    update(position, node.end, "])");
  };

  /** Where a name alone is reported that is not defined, if that is not at its own place. */
  const reportName = (node: Node, position: number): void => {
    if (node?.type === "Identifier") names.set(node.start, position);
  };

  const visit = (node: Node, parent: Node, context: Context): void => {
    if (node.trailingComma !== undefined && node.type !== "VariableDeclaration")
      remove(node.trailingComma, node.trailingComma + 1);
    switch (node.type) {
      case "BrokenStatement":
        brokenStatement(node, context);
        return;
      case "FunctionDeclaration": {
        const { name } = node.id;
        const isGlobal = isProgram && context.fn === null;
        const info = functionScope(context.names).names.get(name);
        if (info) info.isEmitted = true;
        const code = opener(node, name, context);
        update(
          node.start,
          node.paramsStart,
          isGlobal ? `${nameOf(node.id)}=ε.again(${JSON.stringify(name)},${code}function` : `var ${nameOf(node.id)}=${code}function`,
        );
        functionBody(node, context);
        after(node.end, isGlobal ? "));" : ");");
        return;
      }
      case "FunctionExpression":
      case "ArrowFunctionExpression":
        before(
          node.start,
          opener(node, node.id?.name ?? (parent.type === "VariableDeclarator" ? parent.id.name : ""), context),
        );
        if (node.type === "ArrowFunctionExpression") arrowHead(node);
        functionBody(node, context);
        after(node.end, ")");
        return;
      case "ClassDeclaration": {
        const isGlobal = isProgram && context.fn === null;
        before(node.start, `${isGlobal ? "" : "var "}${nameOf(node.id)}=`);
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
        visit(node.test, node, context);
        countedBody(node, { ...context, breakTo: undefined, continueTo: undefined });
        return;
      case "DoWhileStatement":
        countedBody(node, { ...context, breakTo: undefined, continueTo: undefined });
        visit(node.test, node, context);
        semicolon(node, node.end);
        return;
      case "IfStatement":
        ifStatement(node, context);
        return;
      case "SwitchStatement":
        switchStatement(node, context);
        return;
      case "BlockStatement":
        statements(node.body, node, { ...context, names: scopes.get(node) ?? context.names });
        if (node.isOpen) after(node.end, "}");
        return;
      case "ExpressionStatement":
        expressionStatement(node, parent, context);
        return;
      case "TryStatement":
        tryStatement(node, context);
        return;
      case "ReturnStatement": {
        const start = node.start + "return".length;
        if (node.isOutside) {
          if (node.argument) {
            update(node.start, outerStart(node.argument), "");
            visit(node.argument, node, context);
          } else remove(node.start, start);
          const position = node.argument ? outerLast(node.argument) : node.start;
          after(
            node.argument ? outerEnd(node.argument) : start,
            `;${broken({ message: "RETURN statement, but not in a function.", position })}`,
          );
          return;
        }
        const notes = (context.returning ?? []).map((label) => `${label}π=2,`).join("");
        const { returnTo } = context;
        if (returnTo) update(node.start, start, "{const ω");
        if (!node.argument) {
          after(start, returnTo ? "=undefined;" : ` ${notes}ε.out(δ)`);
          if (!returnTo) semicolon(node, start);
        } else {
          update(start, outerStart(node.argument), returnTo ? "=(" : ` ε.out(δ,(${notes}`);
          visit(node.argument, node, context);
          after(outerEnd(node.argument), returnTo ? ");" : "))");
          if (!returnTo) semicolon(node, outerEnd(node.argument));
        }
        if (returnTo) {
          lateReturns.add(context.fn!);
          after(node.end, `if(${returnTo}π===2)return ${notes}ε.out(δ,ω);Ω=ω;break ${returnTo};}`);
        }
        return;
      }
      case "ThrowStatement":
        update(node.start + "throw".length, outerStart(node.argument), " ");
        visit(node.argument, node, context);
        semicolon(node, outerEnd(node.argument));
        return;
      case "BreakStatement":
      case "ContinueStatement": {
        const word = node.type === "BreakStatement" ? "break" : "continue";
        const what = `${word.toUpperCase()} statement outside of ${word === "break" ? "SWITCH, " : ""}FOR or WHILE loop`;
        const label = word === "break" ? context.breakTo : context.continueTo;
        if (node.isOutside) update(node.start, node.start + word.length, broken({ message: what, position: node.start }));
        else {
          if (label) update(node.start, node.start + word.length, `break ${label}`);
          semicolon(node, node.start + word.length);
        }
        return;
      }
      case "DebuggerStatement":
        update(node.start, node.start + "debugger".length, ";");
        return;
      case "Literal":
        literal(node);
        return;
      case "UndefinedLiteral":
        if (source[node.start] === "(") update(node.start, node.end, " undefined");
        return;
      case "TemplateLiteral":
        template(node, context);
        return;
      case "Identifier":
        if (node.isUnread) {
          update(node.start, node.end, "0");
          return;
        }
        if (node.name === "arguments") {
          if (!context.fn) {
            if (isProgram) update(node.start, node.end, `${helper("noArgs", node.start)})`);
          } else update(node.start, node.end, argumentsOf(context.fn));
        } else if (node.outerLast !== undefined && !names.has(node.start)) names.set(node.start, node.outerLast);
        return;
      case "UnaryExpression":
        unary(node, context);
        return;
      case "BinaryExpression":
        reportName(node.left, node.operatorStart);
        if (!isPlainOperation(node)) {
          before(outerStart(node.left), helper(OPERATORS[node.operator]!, outerLast(node.right)));
          visit(node.left, node, context);
          update(outerEnd(node.left), outerStart(node.right), ",");
          visit(node.right, node, context);
          after(outerEnd(node.right), ")");
          return;
        }
        break;
      case "LogicalExpression":
        reportName(node.left, node.operatorStart);
        logical(node, context);
        return;
      case "ConditionalExpression":
        reportName(node.test, node.operatorStart);
        if (!hasPlainTruth(node.test)) {
          before(outerStart(node.test), "ε.truth(");
          after(outerEnd(node.test), ")");
        }
        if (!node.alternate) after(outerEnd(node.consequent), ":0");
        break;
      case "AssignmentExpression":
        assignment(node, parent, context);
        return;
      case "UpdateExpression":
        step(node, parent, context);
        return;
      case "MemberExpression":
        member(node, parent, context);
        return;
      case "CallExpression":
        call(node, context);
        return;
      case "NewExpression": {
        exactCalls.set(node.last, { end: node.last, name: calleeName(node.callee), callee: outerLast(node.callee) });
        update(node.start, outerStart(node.callee), helper("directNew", node.last));
        visit(node.callee, node, context);
        if (node.open === undefined) after(outerEnd(node.callee), `,${outerLast(node.callee)})`);
        else {
          update(outerEnd(node.callee), node.open + 1, `,${outerLast(node.callee)}${node.arguments.length ? "," : ""}`);
          for (const item of node.arguments) visit(item, node, context);
        }
        return;
      }
      case "Super":
        update(node.start, node.end, `${helper("superOf", node.start)}${superThis(context)})`);
        return;
      case "ObjectExpression":
        objectLiteral(node, context);
        return;
      case "BrokenExpression":
        update(
          node.start,
          node.end,
          ` ${helper("raise", node.position)}${JSON.stringify(node.errorType)},${JSON.stringify(node.message)})`,
        );
        return;
      case "SequenceExpression":
        if (node.outerLast !== undefined) reportName(node.expressions[node.expressions.length - 1], node.outerLast);
        break;
      default:
        break;
    }
    for (const child of children(node)) visit(child, node, context);
  };

  /** Of an arrow function that does not use `this`, the board keeps none: `super` then starts from the global object. */
  const superThis = (context: Context): string =>
    context.fn?.type === "ArrowFunctionExpression" && !context.fn.usesThis ? "globalThis" : "this";

  const arrowHead = (node: Node): void => {
    // No line end may stand before the arrow.
    remove(node.paramsEnd, node.arrow);
  };

  /** Accessors stay what they are in V8; only afterwards it can be told what code they have. */
  const objectLiteral = (node: Node, context: Context): void => {
    const accessors: string[] = [];
    for (const item of node.properties) {
      if (item.type === "Property") property(item, context, accessors);
      else visit(item, node, context);
    }
    if (accessors.length === 0) return;
    before(node.start, "ε.accessors(");
    after(node.end, `,${context.scope},[${accessors.join()}])`);
  };

  const property = (node: Node, context: Context, accessors: string[]): void => {
    const { key } = node;
    const name = String(key.name ?? key.value);
    if (node.shorthand) {
      if (name === "arguments" && context.fn) update(node.start, node.end, `arguments:${argumentsOf(context.fn)}`);
      return;
    }
    if (key.type === "Identifier") {
      if (key.end - key.start !== name.length || isTokenByte(key)) update(key.start, key.end, name);
    } else literal(key);
    if (node.kind !== "init") {
      accessors.push(`"${node.kind}",${JSON.stringify(name)},${table}[${functionId(node.value, name)}]`);
      functionBody(node.value, context);
    } else if (node.method) {
      update(key.end, node.value.paramsStart, `:${opener(node.value, name, context)}function`);
      functionBody(node.value, context);
      after(node.end, ")");
    } else visit(node.value, node, context);
  };

  const literal = (node: Node): void => {
    const raw = source.slice(node.start, node.end);
    if (node.regex) {
      update(
        node.start,
        node.end,
        `ε.regexp(${JSON.stringify(node.regex.pattern)},${JSON.stringify(node.regex.flags)})`,
      );
    } else if (typeof node.value === "string") {
      if (/[^\x20-\x7e]|[\\`]/.test(raw)) update(node.start, node.end, JSON.stringify(node.value));
    } else if (typeof node.value === "number") {
      const isPlain = /^(0|[1-9]\d*)$/.test(raw) && String(node.value) === raw;
      if (!isPlain) {
        const code = node.value < 0 ? `(${node.value})` : node.value === Infinity ? "Infinity" : String(node.value);
        update(node.start, node.end, `${code} `);
      } else if (/[\w$.]/.test(source[node.end] ?? "")) after(node.end, " ");
    }
  };

  const template = (node: Node, context: Context): void => {
    const { parts } = node;
    const codeOf = (part: string) => JSON.stringify(part);
    let position = node.start;
    let code = '(""';
    for (const part of parts) {
      if (typeof part === "string") {
        code += `+${codeOf(part)}`;
        continue;
      }
      const { expression } = part;
      templates.push({ start: part.start, end: part.end });
      reportName(expression, node.before);
      update(position, outerStart(expression), `${code}+${helper("str", outerLast(expression))}`);
      visit(expression, part, context);
      position = outerEnd(expression);
      code = ")";
    }
    update(position, node.end, `${code})`);
  };

  const logical = (node: Node, context: Context): void => {
    visit(node.left, node, context);
    visit(node.right, node, context);
    // The two kinds may stand side by side without brackets on the board.
    const isMixed = (side: Node) =>
      side.type === "LogicalExpression" && side.outerStart === undefined && (side.operator === "??") !== (node.operator === "??");
    for (const side of [node.left, node.right]) {
      if (!isMixed(side)) continue;
      before(outerStart(side), "(");
      after(outerEnd(side), ")");
    }
  };

  const unary = (node: Node, context: Context): void => {
    const { operator, argument } = node;
    if (operator === "typeof") {
      // A name that does not exist must stay bare.
      if (argument.type === "Identifier" && argument.name !== "arguments") {
        const name = nameOf(argument);
        const code = `(typeof ${name}==="object"?ε.typeOf(${name}):typeof ${name})`;
        update(node.start, node.end, argument.isUncertain ? `(${name}===ε.none?"undefined":${code})` : code);
        return;
      }
      update(node.start, outerStart(argument), "ε.typeOf(");
      visit(argument, node, context);
      after(outerEnd(argument), ")");
      return;
    }
    if (operator === "delete") {
      if (argument.type === "MemberExpression" && argument.object.type !== "Super") {
        update(node.start, outerStart(argument.object), helper("del", argument.last));
        memberArguments(argument, outerEnd(argument), ")", context);
      } else if (argument.type === "Identifier" && !argument.isLocal) {
        update(node.start, node.end, `ε.delName(${JSON.stringify(argument.name)})`);
      } else {
        update(node.start, outerStart(argument), "(");
        visit(argument, node, context);
        after(outerEnd(argument), ",false)");
      }
      return;
    }
    if (operator === "-" && typeof argument.value === "number" && argument.outerStart === undefined) {
      if (argument.value === 0) update(node.start, node.end, "0");
      else {
        remove(node.start + 1, argument.start);
        visit(argument, node, context);
        before(node.start, "(");
        after(node.end, ")");
      }
      return;
    }
    if (operator === "-" || operator === "+" || operator === "~") {
      const name = { "-": "neg", "+": "num", "~": "inv" }[operator as "-" | "+" | "~"];
      update(node.start, outerStart(argument), helper(name, outerLast(argument)));
      visit(argument, node, context);
      after(outerEnd(argument), ")");
      return;
    }
    visit(argument, node, context);
  };

  const ifStatement = (node: Node, context: Context): void => {
    reportName(node.test, node.close);
    visit(node.test, node, context);
    if (node.strayStart !== undefined) remove(node.strayStart, node.strayEnd);
    const branch = (item: Node): void => {
      if (item.type === "EmptyStatement" && item.start === item.end) after(item.start, ";");
      else if (item.type === "BlockStatement" && !item.isOpen) visit(item, node, context);
      else {
        // What is written there may become more than one statement.
        before(item.start, "{");
        visit(item, node, context);
        after(item.end, "}");
      }
    };
    branch(node.consequent);
    if (node.alternate) branch(node.alternate);
  };

  let finallies = 0;
  /** Functions in which a `finally` may give the result. */
  const lateReturns = new Set<Node>();
  const tryStatement = (node: Node, context: Context): void => {
    const { block, handler, finalizer } = node;
    let inner = context;
    const label = `φ${options.id}_${finallies}`;
    if (finalizer) {
      finallies++;
      if (returnsIn(finalizer)) inner = { ...context, returning: [...(context.returning ?? []), label] };
      before(node.start, `{let ${label}π=0;try{`);
      if (!handler) remove(node.start, block.start);
    }
    visit(block, node, inner);
    if (handler) {
      const name = handler.param ? nameOf(handler.param) : "ξ";
      if (!handler.param) after(handler.body.start, "(ξ)");
      before(handler.body.start + 1, `ε.out(δ);${name}=ε.caught(${name});`);
      visit(handler.body, handler, { ...inner, names: scopes.get(handler)! });
    }
    if (!finalizer) return;
    // What `finally` throws is lost where nothing was thrown before, and no jump leads out of it; only a `return` after
    // a `return` counts.
    const end = handler ? handler.body.end : block.end;
    update(end, finalizer.start, `}catch(ψ){${label}π=1;throw ψ;}finally{ε.out(δ);${label}:try`);
    const jumps = { breakTo: label, continueTo: label, returnTo: label };
    visit(finalizer, node, { ...context, ...jumps });
    after(finalizer.end, `catch(χ){χ=ε.caught(χ);if(${label}π===1)throw χ;}}}`);
  };
  const returnsIn = (node: Node): boolean =>
    node.type === "ReturnStatement" || (!isFunctionNode(node) && children(node).some(returnsIn));

  const switchStatement = (node: Node, context: Context): void => {
    // Objects count as nothing there: their `valueOf` is called while nothing is executed.
    const compared = (value: Node, parent: Node): void => {
      const isObject = !hasPlainTruth(value) || staticType(value) === "object";
      if (isObject) before(outerStart(value), "ε.compared(");
      visit(value, parent, context);
      if (isObject) after(outerEnd(value), ")");
    };
    compared(node.discriminant, node);
    const inner = { ...context, breakTo: undefined };
    for (const item of node.cases) {
      if (item.test) compared(item.test, item);
      statements(item.consequent, item, inner);
    }
    if (node.broken) {
      remove(node.broken.from, node.end - 1);
      after(node.end, broken(node.broken));
    }
  };

  /** True where the value of an expression is not used by anything. */
  const isUnused = (node: Node, parent: Node): boolean =>
    (parent.type === "ExpressionStatement" && !returned.has(parent)) ||
    (parent.type === "ForStatement" && (parent.update === node || parent.init === node));

  const expressionStatement = (node: Node, parent: Node, context: Context): void => {
    const { expression } = node;
    const end = outerEnd(expression);
    if (returned.has(node)) {
      // Text that `eval` runs where it stands is no function: V8 knows its value.
      before(outerStart(expression), isProgram ? "return (" : "(");
      visit(expression, node, context);
      after(end, ")");
      semicolon(node, end);
      return;
    }
    if (expression.type === "Identifier" && parent.type === "Program" && node.semicolon !== undefined)
      names.set(expression.start, node.semicolon);
    if (expression.type === "Literal" && typeof expression.value === "string") update(outerStart(expression), end, "0");
    else if (expression.type === "MemberExpression" && expression.object.type !== "Super") {
      // A name alone is not read: no getter runs.
      const reported = expression.computed ? expression.last : expression.operator;
      before(outerStart(expression), helper("touch", reported));
      if (expression.outerStart !== undefined) remove(expression.outerStart, outerStart(expression.object));
      reportName(expression.object, reported);
      memberArguments(expression, end, `,${expression.computed})`, context);
    } else visit(expression, node, context);
    semicolon(node, end);
  };

  const isSetByLoop = (node: Node, parent: Node): boolean =>
    (parent.type === "ForInStatement" || parent.type === "ForOfStatement") && parent.left === node;

  const member = (node: Node, parent: Node, context: Context): void => {
    const { object, property } = node;
    const isCallee = parent.type === "CallExpression" && parent.callee === node;
    const reported = node.computed ? node.last : node.operator;
    reportName(object, reported);
    if (node.computed) {
      if (object.type === "Super" || isSetByLoop(node, parent)) {
        visit(object, node, context);
        visit(property, node, context);
        return;
      }
      before(outerStart(object), helper("at", reported));
      memberArguments(node, node.end, ")", context);
      return;
    }
    reads.set(property.start, reported);
    if (property.end - property.start !== property.name.length || isTokenByte(property))
      update(property.start, property.end, property.name);
    const isTarget =
      (parent.type === "AssignmentExpression" && parent.left === node) ||
      isCallee ||
      parent.type === "UpdateExpression" ||
      isSetByLoop(node, parent);
    if (property.name === "name" && !isTarget && object.type !== "Super") {
      before(outerStart(object), helper("nameOf", reported));
      visit(object, node, context);
      update(outerEnd(object), node.end, ")");
      return;
    }
    // Built-in methods are found by the kind of a value: their prototypes have none of them.
    if (
      object.type === "MemberExpression" &&
      !object.computed &&
      object.property.name === "prototype" &&
      !isTarget
    ) {
      before(outerStart(object), helper("ofPrototype", reported));
      visit(object, node, context);
      update(outerEnd(object), node.end, `,${JSON.stringify(property.name)})`);
      return;
    }
    const isNullMethod = isCallee && NULL_METHODS.has(property.name) && object.type !== "Super";
    if (isNullMethod) before(outerStart(object), "ε.boxed((");
    visit(object, node, context);
    if (isNullMethod) after(outerEnd(object), "))");
  };

  const call = (node: Node, context: Context): void => {
    const { callee } = node;
    const site: CallSite = { end: node.last, name: calleeName(callee), callee: outerLast(callee) };
    const list = (): void => {
      for (const item of node.arguments) visit(item, node, context);
    };
    const separator = node.arguments.length ? "," : "";
    if (callee.type === "Super") {
      const holder = context.classVariable ?? "undefined";
      update(node.start, node.open + 1, `${helper("directSuper", node.last)}${holder},${superThis(context)},${callee.start}${separator}`);
      exactCalls.set(node.last, site);
      list();
      return;
    }
    if (callee.type === "MemberExpression" && callee.object.type === "Super") {
      visit(callee, node, context);
      update(outerEnd(callee), node.open + 1, `.call(${superThis(context)}${separator}`);
      calls.set(callee.property.start, site);
      list();
      return;
    }
    if (callee.type === "MemberExpression" && callee.computed && callee.outerStart === undefined) {
      reportName(callee.object, callee.last);
      before(outerStart(callee.object), helper("directCall", node.last));
      memberArguments(callee, node.open + 1, `,${callee.last}${separator}`, context);
      exactCalls.set(node.last, site);
      list();
      return;
    }
    if (callee.type === "Identifier" && callee.name === "eval" && node.arguments.length === 1 && !callee.isLocal) {
      const isLocal = context.fn !== null || !isProgram;
      const [argument] = node.arguments;
      calls.set(callee.start, { ...site, name: "eval" });
      before(outerStart(argument), "ε.source(");
      visit(argument, node, context);
      after(outerEnd(argument), `,"${context.scope}",${isLocal})`);
      return;
    }
    // A name in brackets is called without its object.
    if (callee.outerStart !== undefined && callee.type === "MemberExpression") before(callee.start, "0,");
    const isNamed = callee.outerStart === undefined && callee.type === "MemberExpression";
    const isVariable = callee.type === "Identifier" && callee.outerStart === undefined;
    calls.set(isNamed ? callee.property.start : isVariable ? callee.start : node.open, site);
    // What is no function is found before the arguments are read. A global may be a getter: it is read once.
    if (isVariable && !callee.isUncertain && !(BUILT_IN_FUNCTIONS.has(callee.name) && !callee.isLocal)) {
      const value = callee.isLocal ? nameOf(callee) : "ε.u";
      const check = `typeof ${value}==="function"||${helper("checkCall", callee.start)}${value},${JSON.stringify(callee.name)})`;
      if (callee.isLocal) {
        before(callee.start, `(${check},`);
        after(node.end, ")");
      } else {
        before(callee.start, "(ε.u=");
        after(callee.end, `,${check},ε.u)`);
        calls.set(node.open, site);
      }
    }
    visit(callee, node, context);
    list();
  };

  /** Makes `a.b` to `a,"b"` and `a[b]` to `a,b`, with `tail` in the place of what follows up to `end`. */
  const memberArguments = (node: Node, end: number, tail: string, context: Context): void => {
    visit(node.object, node, context);
    if (node.computed) {
      update(outerEnd(node.object), outerStart(node.property), ",");
      visit(node.property, node, context);
      update(outerEnd(node.property), end, tail);
    } else update(outerEnd(node.object), end, `,${JSON.stringify(node.property.name)}${tail}`);
  };

  const assignment = (node: Node, parent: Node, context: Context): void => {
    const { left, right } = node;
    const reported = outerLast(right);
    const name = node.operator === "=" ? undefined : OPERATORS[node.operator.slice(0, -1)];
    if (left.type === "Identifier" && left.name !== "arguments") {
      stores.set(node.operatorStart, reported);
      if (!left.isLocal && BUILT_IN_FUNCTIONS.has(left.name)) {
        before(outerStart(left), `(${helper("settable", reported)}${JSON.stringify(left.name)}),`);
        after(outerEnd(right), ")");
      }
      if (left.outerStart !== undefined) {
        remove(left.outerStart, left.start);
        remove(left.end, left.outerEnd);
      }
      if (name) {
        // What is added to is read when the rest is known.
        update(outerEnd(left), outerStart(right), `=${helper(`${name}To`, reported)}`);
        visit(right, node, context);
        after(outerEnd(right), `,${readOf(left, reported)})`);
      } else visit(right, node, context);
      return;
    }
    if (left.type === "MemberExpression") {
      const { object } = left;
      const isSuper = object.type === "Super";
      if (!isSuper) reportName(object, left.computed ? left.last : left.operator);
      if (name) {
        before(outerStart(left), helper("assign", reported) + `ε.${name},`);
        if (left.outerStart !== undefined) remove(left.outerStart, outerStart(object));
        memberArguments(left, outerStart(right), ",", context);
        visit(right, node, context);
        after(outerEnd(right), ")");
        return;
      }
      const isSimple = (object.type === "Identifier" || object.type === "ThisExpression") && object.outerStart === undefined;
      const isLength = !left.computed && left.property.name === "length";
      // What it gives is what stands there then: a typed array may have made another number of it.
      if (isLength || !isUnused(node, parent) || (left.computed && !isSimple) || left.outerStart !== undefined) {
        before(outerStart(left), helper(isLength ? "setLength" : "put", reported));
        if (left.outerStart !== undefined) remove(left.outerStart, outerStart(object));
        memberArguments(left, outerStart(right), isLength ? `,${left.operator},` : `,${left.computed ? left.last : left.operator},${left.computed},`, context);
        visit(right, node, context);
        after(outerEnd(right), ")");
        return;
      }
      if (left.computed) {
        visit(object, left, context);
        const objectCode = object.type === "ThisExpression" ? "this" : nameOf(object);
        before(outerStart(left.property), helper("key", left.last) + `${objectCode},`);
        visit(left.property, left, context);
        after(outerEnd(left.property), `,${reported})`);
      } else {
        before(outerStart(object), helper("holder", left.operator));
        visit(object, left, context);
        after(outerEnd(object), `,${JSON.stringify(left.property.name)},${reported})`);
        if (left.property.end - left.property.start !== left.property.name.length || isTokenByte(left.property))
          update(left.property.start, left.property.end, left.property.name);
      }
      visit(right, node, context);
      return;
    }
    // No name on the left: that is found out when both sides are known. `a && b` may give the name b.
    const target = left.type === "LogicalExpression" ? left.right : undefined;
    if (/^(Identifier|MemberExpression)$/.test(target?.type) && !name) {
      const operator = left.operator;
      const test = operator === "??" ? "ε.isNothing(" : operator === "||" ? "!(" : "!!(";
      before(outerStart(left), `ε.lvalue(${test}`);
      if (left.outerStart !== undefined) remove(left.outerStart, outerStart(left.left));
      visit(left.left, left, context);
      if (target.type === "Identifier") {
        update(outerEnd(left.left), outerStart(right), `),λ=>${nameOf(target)}=λ,${reported},`);
      } else {
        update(outerEnd(left.left), outerStart(target.object), `),λ=>${helper("put", reported)}`);
        memberArguments(target, outerStart(right), `,${target.last},${target.computed},λ),${reported},`, context);
      }
      visit(right, node, context);
      after(outerEnd(right), ")");
      return;
    }
    before(outerStart(left), helper("badTarget", reported));
    visit(left, node, context);
    update(outerEnd(left), outerStart(right), ",");
    visit(right, node, context);
    after(outerEnd(right), ")");
  };

  /** `++` and `--`: V8's own where the operand is a number, which is nearly always. */
  const step = (node: Node, parent: Node, context: Context): void => {
    const operand = node.argument;
    const name = node.operator === "++" ? "add" : "sub";
    if (operand.type === "MemberExpression") {
      const code = helper(node.prefix ? "assign" : "postfix", node.last) + `ε.${name},`;
      before(node.start, code);
      remove(node.start, outerStart(operand.object));
      reportName(operand.object, operand.computed ? operand.last : operand.operator);
      memberArguments(operand, node.end, node.prefix ? ",1)" : ")", context);
      return;
    }
    if (operand.type !== "Identifier") {
      remove(node.start, outerStart(operand));
      before(outerStart(operand), helper("badTarget", node.last));
      visit(operand, node, context);
      update(outerEnd(operand), node.end, ")");
      return;
    }
    const code = nameOf(operand);
    reportName(operand, node.prefix ? outerLast(operand) : node.operatorStart);
    stores.set(operand.start, node.last);
    const wanted = !isUnused(node, parent);
    // The name itself stays in its place: there V8 sees that it is not defined.
    const read = readOf(operand);
    const slow = node.prefix
      ? `${code}=${helper(name, node.last)}${read},1)`
      : wanted
        ? `(ε.u=ε.old(${read}),${code}=${helper(name, node.last)}ε.u,1),ε.u)`
        : `${code}=${helper(name, node.last)}ε.old(${read}),1)`;
    const fast = node.prefix ? `${node.operator}${code}` : `${code}${node.operator}`;
    // `typeof` would not notice that a name is not defined; the operation does.
    remove(node.start, operand.start);
    remove(operand.end, node.end);
    const value = `typeof ${code}==="number"?${fast}:${slow}`;
    text.update(operand.start, operand.end, wanted ? `(${value})` : value);
  };

  /** Statements whose value the program has: the last, or the branches of an `if`. */
  const returned = new Set<Node>();
  const wantValue = (node: Node | undefined): void => {
    if (!node) return;
    if (node.type === "ExpressionStatement") returned.add(node);
    if (node.type === "IfStatement")
      for (const branch of [node.consequent, node.alternate]) if (branch?.type !== "BlockStatement") wantValue(branch);
  };
  const lastStatement = options.wantsValue ? program.body[program.body.length - 1] : undefined;
  wantValue(lastStatement);
  const isModule = options.scope === "module";
  const top: Context = { scope: isModule ? `σ${options.id}` : (options.outerScope ?? "σ0"), fn: null, names: root };
  for (const statement of program.body) visit(statement, program, top);
  let tail = "";
  if (isProgram && lastStatement) {
    if (lastStatement.type === "FunctionDeclaration" || lastStatement.type === "ClassDeclaration") {
      tail = `\nreturn ${nameOf(lastStatement.id)};`;
    } else if (lastStatement.type === "VariableDeclaration" && lastStatement.declarations.length) {
      const item = lastStatement.declarations[lastStatement.declarations.length - 1];
      tail = `\nreturn ${nameOf(item.id)};`;
    }
  }
  if (options.scope !== "local") {
    const record = isModule ? scopeRecord(top.scope, "σ0", root) : "";
    text.prepend(`(function(ε,τ,σ0${isModule ? ",exports,module" : ""}){var δ=ε.in(300);${uncertainOnes(root)}${record}`);
    text.append(isModule ? "\n;return exports})" : `${tail}\n})`);
  } else text.prepend(uncertainOnes(root));

  const code = text.toString();
  let decoded: ReturnType<MagicString["generateDecodedMap"]> | undefined;
  let lineStarts: number[] | undefined;
  let codeLineStarts: number[] | undefined;
  const startsOf = (from: string): number[] => {
    const starts = [0];
    for (let i = from.indexOf("\n"); i >= 0; i = from.indexOf("\n", i + 1)) starts.push(i + 1);
    return starts;
  };
  return {
    code,
    functions,
    locate(line, column) {
      codeLineStarts ??= startsOf(code);
      const position = codeLineStarts[line - 1]! + column - 1;
      const marker = /\/\*(\d+)\*\/$/.exec(code.slice(Math.max(0, position - 12), position));
      if (marker) return { offset: Number(marker[1]), isExact: true };
      decoded ??= text.generateDecodedMap({ hires: true });
      lineStarts ??= startsOf(source);
      const segments = decoded.mappings[line - 1];
      if (!segments) return undefined;
      let best: number[] | undefined;
      for (const segment of segments) {
        // V8 may point at what was put before the text: the next piece that is the source's own then counts.
        if (segment[0] > column - 1 && best) break;
        if (segment.length >= 4) best = segment as number[];
      }
      return best && { offset: lineStarts[best[2]!]! + best[3]!, isExact: false };
    },
    callAt: ({ offset, isExact }) => (isExact ? exactCalls.get(offset) : calls.get(offset)),
    nameAt(offset, name) {
      const found = references.find(({ node }) => node.start >= offset && node.name === name)?.node.start ?? offset;
      return names.get(found) ?? found;
    },
    readAt: (offset) => reads.get(offset),
    storeAt: (offset) => stores.get(offset),
    templateAt(offset) {
      let found: { start: number; end: number } | undefined;
      for (const item of templates)
        if (item.start <= offset && offset <= item.end && (!found || item.start >= found.start)) found = item;
      return found;
    },
  };
};
