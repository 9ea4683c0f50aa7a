/**
 * Words: how a line of text becomes tokens, and which words mean about the same. This is general knowledge of English
 * (and a little German), never of a tool or of a prompt.
 */

export type TokenKind = "word" | "number" | "quoted" | "file" | "pin" | "email" | "url" | "time" | "symbol";

export interface Token {
  kind: TokenKind;
  /** The token as it was written. */
  text: string;
  /** Lower case, brought to English where it was German. For a quoted token what stands between the quotes. */
  word: string;
  /** What `word` is compared by. */
  stem: string;
  /** The number of a number or pin token. */
  value?: number;
  /** The unit of a number token: `percent`, `hz`, `second`, `degree`, `volt` or `money`. */
  unit?: string;
  start: number;
  end: number;
}

const closedClass =
  "a an the of to is are was were be been do does did am i you me my your we us our it its this that these " +
  "those what which who whom how where when why there here and or but then than please can could would will " +
  "shall should may might must in on at for with from by as into onto up down out now just also too let " +
  "lets have has had tell give want need like know some any much very really so if whether not no yes ok " +
  "okay well all again one ones what's who's it's i'm that's how's where's there's whats whos them they he " +
  "she his her their using use via about many first after before while";
const stopWords = new Set(closedClass.split(" "));

/** Words that carry no topic: they never speak for a tool. */
export function isStopWord(word: string): boolean {
  return stopWords.has(word);
}

/** A light stem: plural, -ing, -ed and a final e are taken off, so that `files` meets `file` and `writing` `write`. */
export function stem(word: string): string {
  let s = word.toLowerCase().replace(/['’]s$/, "");
  if (s.length > 4) {
    if (/ie[sd]$/.test(s)) s = s.slice(0, -3) + "y";
    else if (/(s|x|z|ch|sh)es$/.test(s)) s = s.slice(0, -2);
    else if (/[^su]s$/.test(s)) s = s.slice(0, -1);
  } else if (/^[a-z]{2,}[^sui]s$/.test(s)) {
    s = s.slice(0, -1);
  }
  if (s.length > 5 && s.endsWith("ing")) s = undouble(s.slice(0, -3));
  else if (s.length > 4 && s.endsWith("ed")) s = undouble(s.slice(0, -2));
  return s.length > 3 && s.endsWith("e") ? s.slice(0, -1) : s;
}

function undouble(s: string): string {
  return /([bgmnprt])\1$/.test(s) ? s.slice(0, -1) : s;
}

/** Words that mean about the same. A word may be in several groups. */
const groupWords: Record<string, string> = {
  add: "add plus sum total addition",
  mul: "mul multiply multiplies multiplied multiplication multiplicate times product twice",
  sub: "sub subtract subtraction minus difference",
  div: "div divide divided division quotient",
  mod: "mod modulo modulus remainder rem",
  pow: "pow power exponent squared cubed",
  compare: "more fewer same compare comparison cmp bigger larger greater smaller less equal versus higher lower than",
  count: "count number quantity length",
  list: "list ls dir tree directory folder overview",
  file: "file document script",
  image: "image picture photo photograph",
  read: "read show view display open print cat content contents",
  write: "write save edit change modify replace append overwrite update",
  create: "create make add new start schedule book",
  delete: "delete remove erase clear",
  send: "send mail email message post",
  set: "set turn switch put adjust write drive pull make",
  toggle: "toggle blink flash pulse",
  pwm: "pwm duty dim dimmer brightness fade percent",
  analog: "analog analogue adc voltage volt",
  pin: "pin gpio led lamp light relay",
  network: "wifi wlan network online internet connected connection connect offline ip signal",
  agent: "agent assistant yourself identity version",
  tool: "tool function capability ability",
  weather: "weather forecast rain sunny raining snow",
  heat: "thermostat heating heat temperature warm warmer",
  temperature: "temperature temp degree celsius warm cold",
  search: "search find look lookup query google",
  play: "play music song",
  mail: "mail email message",
  remind: "remind reminder alarm",
  time: "time clock hour",
  date: "date day calendar",
  translate: "translate translation",
  restart: "restart reboot reset",
  memory: "memory ram heap",
};

const groupsOfStem = new Map<string, Set<string>>();
for (const [group, words] of Object.entries(groupWords)) {
  for (const word of words.split(" ")) {
    const key = stem(word);
    groupsOfStem.set(key, (groupsOfStem.get(key) ?? new Set()).add(group));
  }
}

/** The groups of like words a stem is in. */
export function groupsOf(stemmed: string): ReadonlySet<string> {
  return groupsOfStem.get(stemmed) ?? new Set();
}

const smallNumbers =
  "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen " +
  "eighteen nineteen";
const tens = "twenty thirty forty fifty sixty seventy eighty ninety";
const numberWords = new Map<string, number>();
smallNumbers.split(" ").forEach((word, i) => numberWords.set(word, i));
tens.split(" ").forEach((word, i) => numberWords.set(word, 20 + 10 * i));
const scales = new Map([
  ["hundred", 100],
  ["thousand", 1000],
  ["million", 1_000_000],
]);
const portions = new Map([
  ["half", 50],
  ["quarter", 25],
]);

/** A unit's name, the factor that brings a number to it, and the words for it. */
const unitLines: [unit: string, factor: number, words: string][] = [
  ["percent", 1, "% percent pct prozent"],
  ["hz", 1, "hz hertz"],
  ["hz", 1000, "khz kilohertz"],
  ["hz", 1_000_000, "mhz megahertz"],
  ["second", 0.001, "ms millisecond milliseconds"],
  ["second", 1, "s sec secs second seconds"],
  ["second", 60, "min mins minute minutes"],
  ["second", 3600, "hour hours"],
  ["degree", 1, "° °c °f degree degrees celsius fahrenheit grad"],
  ["volt", 1, "v volt volts"],
  ["volt", 0.001, "mv millivolt millivolts"],
  ["money", 1, "$ € dollar dollars euro euros usd eur"],
];
const units = new Map<string, [unit: string, factor: number]>();
for (const [unit, factor, words] of unitLines) for (const word of words.split(" ")) units.set(word, [unit, factor]);

/** Words that a parameter for a number of this unit is described with. */
export const unitTopics: Record<string, string> = {
  percent: "percent percentage duty brightness level volume dim share",
  hz: "hz hertz frequency freq",
  second: "second millisecond ms duration delay timeout time minute hour interval",
  degree: "temperature temp degree celsius fahrenheit angle",
  volt: "volt voltage",
  money: "amount price budget money dollar euro cost",
};

/** German words and the English ones they are read as; only where a text looks German. */
const german = new Map<string, string>();
const germanWords =
  "und=and dann=then danach=then mal=times geteilt=divided durch=by größer=bigger kleiner=smaller als=than ist=is " +
  "sind=are was=what welche=which welcher=which dateien=files datei=file lies=read lese=read lesen=read schalte=turn " +
  "schalt=turn mach=turn mache=turn ein=on an=on aus=off zeige=show zeig=show wie=how viele=many wörter=words " +
  "wort=word wer=who bist=are du=you hallo=hello ergebnis=result multipliziere=multiply addiere=add " +
  "vergleiche=compare setze=set setz=set stelle=set stell=set auf=to lampe=lamp licht=light es=it jetzt=now " +
  "bitte=please der=the die=the das=the den=the dem=the von=of vom=of im=in gibt=are rest=remainder wetter=weather " +
  "schreibe=write schreib=write mit=with mir=me oder=or wird=is rechne=calculate nicht=not kein=not wenn=if " +
  "hoch=high niedrig=low hundert=hundred tausend=thousand null=zero eins=one zwei=two drei=three vier=four " +
  "fünf=five sechs=six sieben=seven acht=eight neun=nine zehn=ten elf=eleven zwölf=twelve dreizehn=thirteen " +
  "vierzehn=fourteen fünfzehn=fifteen sechzehn=sixteen siebzehn=seventeen achtzehn=eighteen neunzehn=nineteen " +
  "zwanzig=twenty dreißig=thirty vierzig=forty fünfzig=fifty sechzig=sixty siebzig=seventy achtzig=eighty neunzig=ninety";
for (const pair of germanWords.split(" ")) german.set(...(pair.split("=") as [string, string]));
const germanSigns =
  /(^|\s)(und|ist|schalte?|welche|bitte|wie|wer|mal|jetzt|der|das|lies|zeige?|setze?|von|rest|hallo)(?=\s|$|[?!.,])/i;

const fileName = /sd:[\w./~*-]*|[\w~-][\w./~-]*\.[a-z][a-z0-9]{0,9}|\/[\w./~-]*[\w~-]|\.[a-z][\w-]+|(?<=^|\s)\//u.source;
const digits = /0x[0-9a-f]+|\d{1,3}(?:,\d{3})+(?!\d)|\d+(?:\.\d+)?|\.\d+/u.source;
/** One group a kind of token; the first that fits counts. */
const tokenPattern = new RegExp(
  [
    /(?<quoted>"[^"]*"|“[^”]*”|„[^“”]*[“”]|«[^»]*»|`[^`]*`|(?<=^|[\s(=:,])'[^']*'(?![\p{L}\p{N}]))/u.source,
    /(?<url>https?:\/\/[^\s"'<>]+[^\s"'<>.,;:!?)])/u.source,
    /(?<email>[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[a-z]{2,})/u.source,
    /(?<time>\d{4}-\d{2}-\d{2}(?:T[\d:.]+Z?)?|\d{1,2}:\d{2}(?::\d{2})?(?:\s?[ap]m\b)?|\d{1,2}\s?[ap]m\b)/u.source,
    String.raw`(?<file>(?<![\p{L}\p{N}_])(?!(?:e\.g|i\.e)\b)(?:${fileName})(?![\p{L}\p{N}_]))`,
    /(?<pin>\b(?:pins?|gpios?|io)\s*(?:number|nr\.?|no\.?|#)?\s*[dap]?\d{1,2}\b|\b[dap]\d{1,2}\b)/u.source,
    String.raw`(?<number>(?<![\p{L}\p{N}_.])[-+−]?(?:${digits})(?:st|nd|rd|th)?)`,
    /(?<word>\p{L}[\p{L}\p{M}\p{N}_]*(?:['’-][\p{L}\p{N}]+)*)/u.source,
    /(?<symbol>\S)/u.source,
  ].join("|"),
  "giu",
);

/** The tokens of a text, in order. `start` and `end` are positions in it. */
export function tokenize(text: string): Token[] {
  const isGerman = germanSigns.test(text);
  const raw: Token[] = [];
  for (const match of text.matchAll(tokenPattern)) {
    const [kind, source] = Object.entries(match.groups!).find(([, found]) => found !== undefined)!;
    const before = raw.at(-1);
    let start = match.index;
    let piece = source;
    // "10 -4" subtracts; "from -4" is a negative number.
    if (kind === "number" && /^[-+−]/.test(piece) && (before?.kind === "number" || before?.text === ")")) {
      raw.push(makeToken("symbol", piece[0]!, start, isGerman));
      piece = piece.slice(1);
      start += 1;
    }
    raw.push(makeToken(kind as TokenKind, piece, start, isGerman));
  }
  return readPinLists(readUnits(readNumberWords(raw, text), text), text);
}

function makeToken(kind: TokenKind, text: string, start: number, isGerman: boolean): Token {
  const token: Token = { kind, text, word: text.toLowerCase(), stem: "", start, end: start + text.length };
  if (kind === "quoted") token.word = text.slice(1, -1);
  if (kind === "number")
    token.value = Number(
      text
        .replace(/,/g, "")
        .replace("−", "-")
        .replace(/(st|nd|rd|th)$/i, ""),
    );
  if (kind === "pin") token.value = Number(/\d+$/.exec(text)![0]);
  if (kind === "word") {
    token.word = token.word.replace("’", "'");
    if (isGerman) token.word = german.get(token.word) ?? token.word;
    token.stem = stem(token.word);
  }
  return token;
}

/** `twenty one`, `one hundred and five`, `half`, `full speed` become number tokens. */
function readNumberWords(tokens: Token[], text: string): Token[] {
  const out: Token[] = [];
  for (let i = 0; i < tokens.length; i += 1) {
    const token = tokens[i]!;
    const before = tokens[i - 1]?.word ?? "";
    const portion = token.kind === "word" ? portions.get(token.word) : undefined;
    const isFull =
      token.word === "full" && /^(speed|brightness|power|volume|duty|blast)$/.test(tokens[i + 1]?.word ?? "");
    if (isFull) {
      out.push({ ...token, kind: "number", value: 100, unit: "percent" });
      continue;
    }
    if (portion !== undefined && tokens[i + 1]?.word !== "of") {
      out.push({ ...token, kind: "number", value: portion, unit: "percent" });
      continue;
    }
    const isPronoun = token.word === "one" && /^(which|this|that|the|another|no|any|every|each)$/.test(before);
    const parts = isPronoun ? [] : numberRun(tokens, i);
    if (parts.length === 0) {
      out.push(token);
      continue;
    }
    const last = tokens[i + parts.length - 1]!;
    const run = { text: text.slice(token.start, last.end), start: token.start, end: last.end };
    out.push({ ...token, ...run, kind: "number", word: run.text.toLowerCase(), stem: "", value: numberOf(parts) });
    i += parts.length - 1;
  }
  return out;
}

function isNumberWord(word: string): boolean {
  return word.split("-").every((part) => numberWords.has(part) || scales.has(part));
}

/** The words of one number from `from` on; `and` counts only between a scale and a number (`one hundred and five`). */
function numberRun(tokens: Token[], from: number): string[] {
  const words: string[] = [];
  for (let i = from; i < tokens.length && tokens[i]!.kind === "word"; i += 1) {
    const word = tokens[i]!.word;
    const last = words.at(-1);
    if (word === "and" && last !== undefined && scales.has(last) && numberWords.has(tokens[i + 1]?.word ?? "")) {
      words.push(word);
    } else if (isNumberWord(word) && (last === undefined || continuesNumber(last, word))) {
      words.push(word);
    } else if (word === "a" && last === undefined && scales.has(tokens[i + 1]?.word ?? "")) {
      words.push(word);
    } else {
      break;
    }
  }
  return words;
}

function continuesNumber(last: string, word: string): boolean {
  if (scales.has(word)) return true;
  if (last === "and" || last === "a" || scales.has(last)) return true;
  const tensBefore = numberWords.get(last) ?? 0;
  const unit = numberWords.get(word) ?? 100;
  return tensBefore >= 20 && unit > 0 && unit < 10;
}

function numberOf(words: string[]): number {
  let total = 0;
  let part = 0;
  for (const word of words.flatMap((w) => w.split("-"))) {
    const scale = scales.get(word);
    if (scale === undefined) {
      part += numberWords.get(word) ?? 0;
    } else if (scale === 100) {
      part = (part || 1) * 100;
    } else {
      total += (part || 1) * scale;
      part = 0;
    }
  }
  return total + part;
}

/** A number takes the unit that follows it: `30 percent`, `500Hz`, `21 °C`. */
function readUnits(tokens: Token[], text: string): Token[] {
  const out: Token[] = [];
  for (let i = 0; i < tokens.length; i += 1) {
    const token = tokens[i]!;
    let next = tokens[i + 1];
    const currency = out.at(-1);
    if (token.kind === "number" && currency !== undefined && /^[$€]$/.test(currency.text)) {
      out.pop();
      out.push({ ...token, unit: "money", start: currency.start });
      continue;
    }
    if (token.kind !== "number" || token.unit !== undefined || next === undefined) {
      out.push(token);
      continue;
    }
    let name = next.word;
    let used = 1;
    if (name === "°" && /^[cf]$/i.test(tokens[i + 2]?.text ?? "") && tokens[i + 2]!.start === next.end) {
      next = tokens[i + 2]!;
      used = 2;
    }
    const unit = units.get(name);
    // "17 % 5" is a remainder; a unit of one letter has to follow closely.
    const divisor = tokens[i + 2];
    const isEven = divisor !== undefined && next.start - token.end === divisor.start - next.end;
    const isOperator = name === "%" && divisor?.kind === "number" && isEven;
    const isLoose = /^(s|v|min)$/.test(name) && next.start !== token.end && !/^\d/.test(token.text);
    if (unit === undefined || isOperator || isLoose) {
      out.push(token);
      continue;
    }
    name = unit[0];
    const value = Number((token.value! * unit[1]).toPrecision(12));
    out.push({ ...token, value, unit: name, end: next.end, text: text.slice(token.start, next.end) });
    i += used;
  }
  return out;
}

/** In `pins 4, 5 and 6` every number is a pin. */
function readPinLists(tokens: Token[], text: string): Token[] {
  let inList = false;
  return tokens.map((token) => {
    if (token.kind === "pin") {
      inList = /^(pins|gpios)/i.test(token.text);
    } else if (inList && token.kind === "number" && Number.isInteger(token.value) && token.unit === undefined) {
      return { ...token, kind: "pin", text: text.slice(token.start, token.end) };
    } else if (token.text !== "," && token.word !== "and") {
      inList = false;
    }
    return token;
  });
}
