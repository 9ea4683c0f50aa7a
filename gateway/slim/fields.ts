/** Which of the two APIs a request is for. */
export type Dialect = "openai" | "anthropic";

/** Takes secrets out of words, as of an error message. */
export type Words = (text: string) => string;

/** What a dialect makes of the events it reads. */
export interface SlimDialect {
  /** One event, a JSON object. */
  read(body: any): void;
  /** The data of an event that is no JSON object. */
  readText(data: string): void;
  /** The stream is over. */
  end(): void;
}

/** The fields of `value` that are text, numbers or booleans. */
export function pick(value: object): Record<string, string | number | boolean> {
  return Object.fromEntries(
    Object.entries(value).filter(([, field]) => ["string", "number", "boolean"].includes(typeof field)),
  );
}

/** Characters of a provider's error message that are passed on: the board shows 300. */
export const MESSAGE_LENGTH = 600;

/** An error as it stands in a stream or a body, with what boards and clients read of it, and without secrets. */
export function slimError(error: any, words: Words): unknown {
  const cut = (text: unknown): string => words(String(text)).slice(0, MESSAGE_LENGTH);
  if (typeof error !== "object") return typeof error === "string" ? cut(error) : error;
  const { type, code, status } = error;
  return { message: cut(error.message || JSON.stringify(error)), ...pick({ type, code, status }) };
}
