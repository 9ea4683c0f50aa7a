/** Splits a text where a new request begins, and says of a clause what kind it is. */
import { findArithmetic } from "./arithmetic";
import { isStopWord, stem, type Token } from "./language";
import { scoreWords, topicStems, type ToolProfile } from "./profile";

/** One request: a part of a sentence. */
export interface Piece {
  tokens: Token[];
  /** Joined to the piece before by "and" or a comma within a sentence. */
  isJoined: boolean;
  isQuestion: boolean;
}

/** Tokens as they were written. */
export function textOf(tokens: Token[], text: string): string {
  return tokens.length === 0 ? "" : text.slice(tokens[0]!.start, tokens.at(-1)!.end);
}

/** Sentences end at their marks and at line ends. */
export function splitSentences(tokens: Token[], text: string): Token[][] {
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
export function refusalOf(sentence: Token[], text: string): string | undefined {
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
export function splitPieces(sentence: Token[], text: string, profiles: ToolProfile[], hasReference: boolean): Piece[] {
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
export function isBareValue(tokens: Token[]): boolean {
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
export function isInquiry(tokens: Token[]): boolean {
  const words = tokens.flatMap((token) => (token.kind === "word" ? [token.word] : []));
  while (/^(so|and|now|well|then|ok|okay|please)$/.test(words[0] ?? "")) words.shift();
  return /^(is|are|was|were|does|did|has|have|what|what's|whats|which|who|where|when|how|why)$/.test(words[0] ?? "");
}

/** Set phrases that are made of small words only, as the topics they stand for. */
export function idioms(tokens: Token[]): string[] {
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
