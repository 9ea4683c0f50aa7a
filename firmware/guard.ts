/**
 * How many turns of loops pass between two looks at time and memory. Primes, since all loops count with the same
 * number: one that catches what the loop within it throws must look in its turn.
 */
const TURNS = [17, 19, 13, 23];

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
}

// Makes code ready for sandbox.ts: each loop gets a guard, since the interpreter cannot be interrupted from inside.
// Refused is what the interpreter does not parse, and the words that reach the interpreter itself, the agent, or code
// that would run without a guard. Code with a `return` of its own becomes a function, so that the value of all of it is
// its result.
//
// | written                    | becomes
// |----------------------------|---------------------------------------------
// | while (a) …, do … while (a)| while (guard, a)
// | for (a; b; c) …            | for (a; b; guard, c)
// | for (a of b) { … }         | for (a of b) {guard; … }
// | for (a in b) f();          | for (a in b) guard, f();
//
// One pass over the tokens; all state exists only while it runs. The interpreter skips the inside of every block that
// it does not execute, so each is parsed on its own: in a branch that is never taken. Not of classes: it parses none
// there.
export function guardCode(code: string): Guarded {
  const refused =
    " eval Function global globalThis reset load save edit dump trace echo quit Modules peek8 peek16 peek32 poke8 " +
    "poke16 poke32 agent_commands agent_send_message main_loop_entry init_tools list_tools cleanup_agent " +
    "show_llm_config set_config clear_history add_tool add_observer save_tool remove_tool session_save session_load ";
  const refusedProperties =
    " constructor __proto__ internal setFlags setConsole setBootCode setPassword lockConsole enableWatchdog " +
    "kickWatchdog reboot deepSleep memoryArea memoryMap nativeCall asm defrag dumpVariables dumpStr replaceWith " +
    "getDetails getAPDetails eraseAll compact ";
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

  // `$n` and `$` are sandbox.ts's.
  function guard(): string {
    return "++$n%" + TURNS[loops++ % TURNS.length] + "||$()";
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

  function insert(text: string, place: number): void {
    out += code.substring(from, place) + text;
    from = place;
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

  // Goes behind the end of a text, a regular expression, or a template up to its next `${`.
  function takeText(quote: string): void {
    last = "'";
    for (;;) {
      const found = /["'`\\$\n\x2f]/.exec(code.substr(at, 64));
      at += found ? found.index : 64;
      const c = code.charAt(at);
      if (!c || (c === "\n" && quote !== "`")) return fail("a " + quote + " is not closed");
      at += c === "\\" ? 2 : found ? 1 : 0;
      if (found && c === quote) return;
      if (found && c === "$" && quote === "`" && code.charAt(at) === "{") {
        at++;
        open.push({ close: "}", word: quote, at: at, semis: 0 });
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
      if (beginsBody) insert(guard() + ";", at + 1);
    } else if (word === "while") insert(guard() + ",", at + 1);
    at++;
    open.push({ close: c === "(" ? ")" : c === "[" ? "]" : "}", word: word, at: at, semis: 0 });
    last = c;
  }

  function takeClose(c: string): void {
    const bracket = open.pop();
    if (!bracket || bracket.close !== c) {
      const what = bracket ? "Got " + c + " expected " + bracket.close : "a " + c + " too many";
      return fail("it does not parse: " + what);
    }
    const word = bracket.word;
    if (c === ")") {
      closed = word;
      body = word === "for" && !bracket.semis;
    }
    if (c === "}" && word === "function") functions--;
    if (c === "}" && (word === "function" || word === "block")) check(bracket.at, at);
    at++;
    last = c;
    if (c === "}" && word === "`") takeText(word);
  }

  function takeWord(word: string): void {
    const property = last === ".";
    const key = (last === "{" || last === ",") && code.charAt(skip(at + word.length)) === ":";
    if (property ? has(refusedProperties, word) : !key && has(refused, word))
      fail("code must not use " + word + ", which reaches the agent or the interpreter itself");
    if (!property && !key && has(missing, word)) fail("Espruino has no " + word);
    if (!property && word === "return" && !functions) returns = true;
    if (!property && word === "class") classes = true;
    at += word.length;
    last = property ? "x" : word;
  }

  function takeOther(c: string): void {
    const next = code.charAt(at + 1);
    const bracket = open[open.length - 1];
    if (c === ";" && bracket && bracket.word === "for" && ++bracket.semis === 2)
      insert(guard() + (code.charAt(skip(at + 1)) === ")" ? "" : ","), at + 1);
    // After ++ and -- stands what may stand before them.
    if ((c === "+" || c === "-") && next === c) at++;
    else last = c === "=" && next === ">" ? "=>" : c;
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
    if (beginsBody && c !== "{" && c !== ";" && !has(statements, word)) insert(guard() + ",", at);
    if (word) takeWord(word);
    else if ("\"'`".indexOf(c) >= 0) {
      at++;
      takeText(c);
    } else if (c === "/" && (has(beforeExpression, last) || !/^[a-zA-Z0-9_$\x80-\xff'\])}]/.test(last))) {
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
