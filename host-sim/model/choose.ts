/** Which tool a clause means: its words, and how well its values fill the parameters. */
import { idioms, isInquiry } from "./clauses";
import type { FillContext } from "./draft";
import { fill, type Filling } from "./fill";
import { isStopWord, stem, type Token } from "./language";
import { isOtherDeed, meetsName, scoreWords, topicStems, type Param, type ToolProfile } from "./profile";

export interface Choice {
  profile: ToolProfile;
  filling: Filling;
  score: number;
  wordScore: number;
  bestWord: number;
}

/** How well one tool fits a clause. */
export function weigh(
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
export function choose(
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

/** What has to be known before the call can be made, as a sentence. */
export function askFor(choice: Choice): string {
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
