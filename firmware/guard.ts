import { ownGlobals } from "./sandbox";

/**
 * What code must not use, apart from the agent's commands, which are all that has a getter: the interpreter's words
 * that would end or change the agent, its timers, its console or its memory. What the code has declared under such a
 * name is its own. Names that begin with $ are never: they are the agent's, see esbuild.slices.mjs. Not in the list and
 * left alone: what reads (`getTime`, `process.memory`), pins and buses, the clock (`setTime`, `E.setTimeZone`). `print`,
 * `console`, `require`, and the functions of timers are those of sandbox.ts.
 */
const REFUSED =
  " eval Function global globalThis reset load save edit dump trace echo quit Modules ESP32 Serial1 USB Telnet " +
  "changeInterval setDeepSleep peek8 peek16 peek32 poke8 poke16 poke32 ";
/** Properties, of whatever object. */
const REFUSED_PROPERTIES =
  " constructor __proto__ internal setFlags setConsole setBootCode setPassword lockConsole enableWatchdog " +
  "kickWatchdog reboot memoryArea memoryMap nativeCall asm defrag dumpVariables dumpStr replaceWith eraseAll compact ";
/** Properties of `E` and `process`, whose events are the agent's: on, emit, addListener, removeAllListeners … */
const REFUSED_EVENTS = /^on$|^emit$|^.+stener/;

/** Code that may be run, or why it may not. */
export interface Guarded {
  code: string;
  /** In words for the model, with the line; "" if nothing is wrong. */
  problem: string;
}

interface Bracket {
  close: string;
  /**
   * The word before a parenthesis; of braces, what is in them: block, function, switch, ` in a template, "" for others.
   */
  word: string;
  /** Where the inside begins. */
  at: number;
  /** Semicolons in the head of a loop. */
  semis: number;
  /** What the closed bracket goes on with, see `root`. */
  root: string;
  /** How much of `declared` stays when a function ends. */
  mark: number;
}

// Makes code ready for sandbox.ts: each loop and function gets a guard, since the interpreter cannot be interrupted
// from inside, and so does what a chain of promises goes on with. Refused is what the interpreter does not parse, words that
// reach the interpreter itself, the agent, or code that would run without a guard, and every change of what is not the
// code's own. Code with a `return` of its own becomes a function, so that the value of all of it is its result.
//
// | written                    | becomes
// |----------------------------|---------------------------------------------
// | while (a) …, do … while (a)| while (guard, a)
// | for (a; b; c) …            | for (a; b; guard, c)
// | for (a of b) { … }         | for (a of b) {guard; … }
// | for (a in b) f();          | for (a in b) guard, f();
// | function () { … }          | function () {guard; … }
// | a.then(b)                  | a[($(1),"then")](b)
// | this                       | (this==$0?0:this), never the global object
//
// One pass over the tokens; all state exists only while it runs. The interpreter skips the inside of every block that
// it does not execute, so each is parsed on its own: in a branch that is never taken. Not of classes: it parses none
// there.
export function guardCode(code: string): Guarded {
  /**
   * How many turns of loops pass between two looks at time and memory. Primes, since all loops count with the same
   * number: one that catches what the loop within it throws must look in its turn.
   */
  const turns = [17, 19, 13, 23];
  const missing = " async await yield import export ";
  const statements = " if for while do switch return throw try var let const function break continue class ";
  const beforeExpression = " return typeof case in of delete void throw new else do ";
  const beforeBlock = " ; { } else do try finally catch ";
  const control = " if for while catch with ";
  const declares = " var let const ";
  const open: Bracket[] = [];
  let out = "";
  let from = 0;
  let at = 0;
  /** The token before: a word, one character, `=>`; "'" for a text, "x" for the name of a property. */
  let last = "";
  /** The word before the parentheses that were closed last. */
  let closed = "";
  /** The next token begins the body of a loop over a collection. */
  let body = false;
  /** Functions that the place is in. */
  let functions = 0;
  let returns = false;
  let classes = false;
  let problem = "";
  let loops = 0;
  /** The first name of the chain of properties that was read last, `a` of `a.b[c]`; "" for what begins otherwise. */
  let root = "";
  /** Where the last point is. */
  let dot = 0;
  /** Names that were declared up to here, in functions that are still open. */
  let declared = " ";
  /** How many they were before the parameters that were read last. */
  let mark = 1;
  /** How many brackets were open at a var or let, whose commas separate names. */
  let naming = -1;

  // `$n` and `$` are sandbox.ts's.
  function guard(): string {
    return "++$n%" + turns[loops++ % 4] + "||$()";
  }

  // The board's indexOf also finds the part of what it looks for that a text ends with.
  function has(list: string, word: string): boolean {
    const found = list.indexOf(" " + word + " ");
    return found >= 0 && found + word.length + 2 <= list.length;
  }

  function lineOf(place: number): number {
    return code.substr(0, place).split("\n").length;
  }

  function fail(text: string): void {
    if (!problem) problem = text + " (line " + lineOf(at) + ")";
  }

  // Puts a text into the code, in the place of what stands there up to the other place.
  function insert(text: string, place: number, to: number): void {
    out += code.substring(from, place) + text;
    from = to;
  }

  // What comes next is a value, not an operator.
  function expects(): boolean {
    return has(beforeExpression, last) || !/^[a-zA-Z0-9_$\x80-\xff'\])}]/.test(last);
  }

  // What was read last is changed.
  function change(): void {
    if (!root || has(declared, root) || ownGlobals.indexOf(root) >= 0) return;
    if (root in global)
      fail("code must not change " + root + ", which is not its own: declare it with var");
    else ownGlobals.push(root);
  }

  // Declares what stands between two places, if these are the parameters of a function.
  function takeParameters(start: number, end: number, next: number): void {
    const names = code.substring(start, end);
    next = skip(next);
    if (code.substr(next, 2) !== "=>" && (code.charAt(next) !== "{" || has(control, last))) return;
    if (!/^[a-zA-Z0-9_, \n\r\t]*$/.test(names)) return;
    mark = declared.length;
    declared += names.replace(/[, \n\r\t]+/g, " ") + " ";
  }

  // The next place that is neither space nor comment. What indexOf finds may be before `place`, see `has`.
  function skip(place: number): number {
    for (;;) {
      const c = code.charAt(place);
      const comment = c === "/" ? code.charAt(place + 1) : "";
      if (comment === "/" || comment === "*") {
        const end = comment === "/" ? code.indexOf("\n", place) : code.indexOf("*/", place + 2) + 1;
        place = end > place ? end + 1 : code.length;
      } else if (c && " \t\r\n".indexOf(c) >= 0) place++;
      else return place;
    }
  }

  function push(close: string, word: string, root: string): void {
    open.push({ close: close, word: word, at: at, semis: 0, root: root, mark: mark });
  }

  // Goes behind the end of a text, a regular expression, or a template up to its next `${`.
  function takeText(quote: string): void {
    last = "'";
    root = "";
    for (;;) {
      const found = /["'`\\$\n\x2f]/.exec(code.substr(at, 64));
      at += found ? found.index : 64;
      const c = code.charAt(at);
      if (!c || (c === "\n" && quote !== "`")) return fail("a " + quote + " is not closed");
      at += c === "\\" ? 2 : found ? 1 : 0;
      if (found && c === quote) return;
      if (found && c === "$" && quote === "`" && code.charAt(at) === "{") {
        at++;
        push("}", quote, "");
        last = "(";
        return;
      }
    }
  }

  function check(start: number, end: number): void {
    if (problem || classes) return;
    try {
      new Function("for(;;){switch(1){case 0:\n" + code.substring(start, end) + "\n}break}")();
    } catch (e) {
      const found = /:[0-9]+:[0-9]+[)]*\n/.exec((e as any).stack || "");
      const line = found ? parseInt(found[0].substr(1)) - 2 : 0;
      problem = "it does not parse: " + (e as Error).message + " (line " + (lineOf(start) + line) + ")";
    }
  }

  function takeOpen(c: string, beginsBody: boolean): void {
    let word = c === "(" ? last : "";
    if (c !== "(" && has(declares, last)) fail("Espruino has no destructuring");
    if (c === "{") {
      if (last === ")") word = closed === "switch" ? closed : has(control, closed) ? "block" : "function";
      else if (last === "=>") word = "function";
      else if (!last || has(beforeBlock, last)) word = "block";
      if (word === "function") functions++;
      if (beginsBody || word === "function") insert(guard() + ";", at + 1, at + 1);
    } else if (word === "while") insert(guard() + ",", at + 1, at + 1);
    at++;
    const end = code.indexOf(")", at);
    if (c === "(") takeParameters(at, end, end + 1);
    push(c === "(" ? ")" : c === "[" ? "]" : "}", word, c === "[" ? root : "");
    last = c;
  }

  function takeClose(c: string): void {
    const bracket = open.pop();
    if (!bracket || bracket.close !== c) {
      const what = bracket ? "Got " + c + " expected " + bracket.close : "a " + c + " too many";
      return fail("it does not parse: " + what);
    }
    const word = bracket.word;
    if (naming > open.length) naming = -1;
    root = bracket.root;
    if (c === ")") {
      closed = word;
      body = word === "for" && !bracket.semis;
    }
    if (c === "}" && word === "function") {
      functions--;
      declared = declared.substr(0, bracket.mark);
    }
    if (c === "}" && (word === "function" || word === "block")) check(bracket.at, at);
    at++;
    last = c;
    if (c === "}" && word === "`") takeText(word);
  }

  function takeWord(word: string): void {
    const property = last === ".";
    const end = at + word.length;
    const next = skip(end);
    const bracket = open[open.length - 1];
    let refused;
    if (property) {
      refused = has(REFUSED_PROPERTIES, word) || (has(" E process ", root) && REFUSED_EVENTS.test(word));
      if (word === "then" || word === "catch") insert('[($(1),"' + word + '")]', dot, end);
    } else if ((last !== "{" && last !== ",") || code.charAt(next) !== ":") {
      // What begins a loop over a collection was a name until now.
      if ((word === "of" || word === "in") && bracket && bracket.word === "for" && !bracket.semis) change();
      root = word;
      if (word === "this") {
        insert("(this==$0?0:this)", at, end);
        root = "";
      }
      if (has(missing, word)) fail("Espruino has no " + word);
      if (word === "return" && !functions) returns = true;
      if (word === "class") classes = true;
      if (has(declares, word)) naming = open.length;
      else if (has(declares + "function class ", last) || (last === "," && naming === open.length)) {
        declared += word + " ";
      } else takeParameters(at, end, end);
      const found: any = Object.getOwnPropertyDescriptor(global, word);
      refused = word.charAt(0) === "$" || (!has(declared, word) && (has(REFUSED, word) || (found && found.get)));
    }
    if (refused) fail("code must not use " + word + ", which reaches the agent or the interpreter itself");
    else if (last === "delete") change();
    at = end;
    last = property ? "x" : word;
  }

  function takeOther(c: string): void {
    const next = code.charAt(at + 1);
    const bracket = open[open.length - 1];
    if (c === ";" && bracket && bracket.word === "for" && ++bracket.semis === 2)
      insert(guard() + (code.charAt(skip(at + 1)) === ")" ? "" : ","), at + 1, at + 1);
    if (c === ".") dot = at;
    if (c === ";") naming = -1;
    // Before a name, ++ and -- are like delete; behind it, what may follow is as before.
    if ((c === "+" || c === "-") && next === c) {
      if (expects() || (last === ")" && has(control, closed))) last = "delete";
      else change();
      at++;
    } else {
      if (!expects() && /^[-+*%&|^\x2f]*=[^=>]|^<<=|^>>+=/.test(code.substr(at, 4))) change();
      last = c === "=" && next === ">" ? "=>" : c;
    }
    at += last === "=>" ? 2 : 1;
  }

  while (!problem) {
    at = skip(at);
    const c = code.charAt(at);
    if (!c) break;
    const found = /^[a-zA-Z0-9_$\x80-\xff]+/.exec(code.substr(at, 64));
    const word = found ? found[0] : "";
    const beginsBody = body;
    body = false;
    if (beginsBody && c !== "{" && c !== ";" && !has(statements, word)) insert(guard() + ",", at, at);
    if (word) takeWord(word);
    else if ("\"'`".indexOf(c) >= 0) {
      at++;
      takeText(c);
    } else if (c === "/" && expects()) {
      at++;
      takeText(c);
    } else if ("([{".indexOf(c) >= 0) takeOpen(c, beginsBody);
    else if (")]}".indexOf(c) >= 0) takeClose(c);
    else takeOther(c);
  }
  if (open.length) fail("it does not parse: a " + open[open.length - 1].close + " is missing");
  check(0, code.length);
  out += code.substr(from);
  return { code: returns ? "function $run(){" + out + "\n}$run()" : out, problem: problem };
}
