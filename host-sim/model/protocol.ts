/**
 * What an OpenAI-compatible server reads from POST /v1/chat/completions, and what it refuses. The checks on the history
 * and on the tools are those of OpenAI's own API (platform.openai.com/docs/api-reference/chat), so that a history that
 * would be refused there is refused here first. Two are stricter, because servers that translate for other models fail
 * on them later and less clearly: a call's arguments must be a JSON object, and two tools must not share a name.
 */

import { type Media, mediaPartTypes, readMedia } from "./media";
import { isObject, RequestError } from "./request-error";

export { RequestError };

/** The part of JSON Schema that tools are described in. Unknown keywords are let through and not used. */
export interface JsonSchema {
  type?: string | string[];
  description?: string;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  items?: JsonSchema;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
}

export interface ToolSpec {
  name: string;
  description: string;
  parameters: JsonSchema;
}

/** One call in an assistant message. `arguments` is the JSON text as sent. */
export interface WireCall {
  id: string;
  name: string;
  arguments: string;
}

/** A message with its content brought to plain text, and the files of a user's beside it. */
export type ChatMessage =
  | { role: "system"; text: string }
  /** `unshown`: which files the sender could not show, and why. */
  | { role: "user"; text: string; media: Media[]; unshown: string[] }
  | { role: "assistant"; text: string; calls: WireCall[] }
  | { role: "tool"; text: string; callId: string };

export interface ChatRequest {
  model: string;
  messages: ChatMessage[];
  tools: ToolSpec[];
  /** `auto`, `none`, `required`, or the one tool that has to be called. */
  toolChoice: "auto" | "none" | "required" | { name: string };
  parallelToolCalls: boolean;
  stream: boolean;
  includeUsage: boolean;
  /** Most tokens of an answer's text, where the request sets a limit. */
  maxTokens?: number;
}

const toolNamePattern = /^[a-zA-Z0-9_-]{1,64}$/;
const maxCallIdLength = 40;
const schemaTypes = ["string", "number", "integer", "boolean", "array", "object", "null"];

/**
 * Checks a request body and brings it to the form the model works on.
 * @throws {RequestError} with status 400 and a message that names what is wrong and where (`messages[3].content`).
 */
export function readChatRequest(body: unknown): ChatRequest {
  if (!isObject(body)) throw new RequestError(400, "The request body must be a JSON object.");
  if (typeof body.model !== "string" || body.model === "") {
    throw new RequestError(400, "you must provide a model parameter", "model");
  }
  if (body.messages === undefined) throw missing("messages");
  if (!Array.isArray(body.messages)) throw wrongType("messages", "an array of objects", body.messages);
  if (body.messages.length === 0) throw emptyArray("messages");
  const messages = body.messages.map(readMessage);
  checkOrder(messages);
  const tools = readTools(body.tools);
  if (body.stream !== undefined && body.stream !== null && typeof body.stream !== "boolean") {
    throw wrongType("stream", "a boolean", body.stream);
  }
  const stream = body.stream === true;
  return {
    model: body.model,
    messages,
    tools,
    toolChoice: readToolChoice(body.tool_choice, tools),
    parallelToolCalls: body.parallel_tool_calls !== false,
    stream,
    includeUsage: readIncludeUsage(body.stream_options, stream),
    maxTokens: readMaxTokens(body),
  };
}

function typeName(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  return typeof value === "object" ? "an object" : "a " + typeof value;
}

function wrongType(param: string, expected: string, value: unknown): RequestError {
  const message = `Invalid type for '${param}': expected ${expected}, but got ${typeName(value)} instead.`;
  return new RequestError(400, message, param, "invalid_type");
}

function missing(param: string): RequestError {
  return new RequestError(400, `Missing required parameter: '${param}'.`, param, "missing_required_parameter");
}

function emptyArray(param: string): RequestError {
  const message = `Invalid '${param}': empty array. Expected an array with minimum length 1.`;
  return new RequestError(400, message, param, "empty_array");
}

function readMessage(message: unknown, index: number): ChatMessage {
  const at = `messages[${index}]`;
  if (!isObject(message)) throw wrongType(at, "an object", message);
  if (message.role === undefined) throw missing(`${at}.role`);
  switch (message.role) {
    case "system":
    case "developer":
      return { role: "system", text: readContent(message.content, `${at}.content`, ["text"]) };
    case "user":
      return { role: "user", ...readUserContent(message.content, `${at}.content`) };
    case "assistant":
      return readAssistant(message, at);
    case "tool":
      if (message.tool_call_id === undefined) throw missing(`${at}.tool_call_id`);
      if (typeof message.tool_call_id !== "string") {
        throw wrongType(`${at}.tool_call_id`, "a string", message.tool_call_id);
      }
      return {
        role: "tool",
        text: readContent(message.content, `${at}.content`, ["text"]),
        callId: message.tool_call_id,
      };
    default:
      throw new RequestError(
        400,
        `Invalid value: ${JSON.stringify(message.role)}. Supported values of '${at}.role' are: 'system', 'assistant', ` +
          "'user', 'tool' and 'developer'.",
        `${at}.role`,
        "invalid_value",
      );
  }
}

function readContent(content: unknown, at: string, partTypes: string[]): string {
  if (typeof content === "string") return content;
  if (content === undefined) throw missing(at);
  if (content === null) {
    throw new RequestError(400, `Invalid value for '${at}': expected a string, got null.`, at, "invalid_value");
  }
  if (!Array.isArray(content)) throw wrongType(at, "a string or an array of content parts", content);
  if (content.length === 0) throw emptyArray(at);
  return content
    .map((part: unknown, i) => {
      if (!isObject(part)) throw wrongType(`${at}[${i}]`, "an object", part);
      if (typeof part.type !== "string" || !partTypes.includes(part.type)) {
        const message = `Invalid value: ${JSON.stringify(part.type)}. Supported values of '${at}[${i}].type' are: `;
        throw new RequestError(400, message + partTypes.join(", ") + ".", `${at}[${i}].type`, "invalid_value");
      }
      if (part.type !== "text") return "";
      if (typeof part.text !== "string") throw wrongType(`${at}[${i}].text`, "a string", part.text);
      return part.text;
    })
    .join("");
}

/** A text right before a file that is a name, and not the whole of what is said, is the file's label. */
const labelPattern = /^([^\s[\]]{1,100}|[^\n[\]]{1,95}\.\w{1,4})$/;
/** In the place of a file that is not sent any more. */
const notePattern = /^\[[^\n]*\]$/;
/** A line of the sender's for each file that it could not show. */
const unshownPattern = /^\[([^\n]*) cannot be shown: ([^\n]*)\]$/gm;

function readUserContent(content: unknown, at: string): { text: string; media: Media[]; unshown: string[] } {
  const all = readContent(content, at, ["text", ...mediaPartTypes]);
  const parts = Array.isArray(content) ? (content as Record<string, unknown>[]) : [];
  const media: Media[] = [];
  const texts: string[] = [];
  parts.forEach((part, i) => {
    if (part.type !== "text") {
      const one = readMedia(part, `${at}[${i}]`);
      const before = i > 0 && parts[i - 1]!.type === "text" ? (parts[i - 1]!.text as string) : "";
      if (labelPattern.test(before)) one.label ??= before;
      media.push(one);
      return;
    }
    const text = part.text as string;
    const isLabel = labelPattern.test(text) && parts[i + 1] !== undefined && parts[i + 1]!.type !== "text";
    if (!isLabel && !notePattern.test(text)) texts.push(text);
  });
  const said = media.length > 0 || texts.length < parts.length ? texts.join("\n") : all;
  const unshown = [...said.matchAll(unshownPattern)].map(([, name, why]) => `${name}: ${why}`);
  return { text: unshown.length > 0 ? said.replace(unshownPattern, "").trim() : said, media, unshown };
}

function readAssistant(message: Record<string, unknown>, at: string): ChatMessage {
  const calls = message.tool_calls;
  if (calls === undefined || calls === null) {
    if (message.content === null || message.content === undefined) {
      const text = `Invalid value for '${at}.content': expected a string, got null. It may be null only with 'tool_calls'.`;
      throw new RequestError(400, text, `${at}.content`, "invalid_value");
    }
    return { role: "assistant", text: readContent(message.content, `${at}.content`, ["text", "refusal"]), calls: [] };
  }
  if (!Array.isArray(calls)) throw wrongType(`${at}.tool_calls`, "an array of objects", calls);
  if (calls.length === 0) throw emptyArray(`${at}.tool_calls`);
  const hasText = message.content !== null && message.content !== undefined;
  return {
    role: "assistant",
    text: hasText ? readContent(message.content, `${at}.content`, ["text", "refusal"]) : "",
    calls: calls.map((call: unknown, i) => readCall(call, `${at}.tool_calls[${i}]`)),
  };
}

function readCall(call: unknown, at: string): WireCall {
  if (!isObject(call)) throw wrongType(at, "an object", call);
  if (call.id === undefined) throw missing(`${at}.id`);
  if (typeof call.id !== "string") throw wrongType(`${at}.id`, "a string", call.id);
  if (call.id === "" || call.id.length > maxCallIdLength) {
    const message = `Invalid '${at}.id': expected 1 to ${maxCallIdLength} characters, got ${call.id.length}.`;
    throw new RequestError(400, message, `${at}.id`, "string_above_max_length");
  }
  if (call.type === undefined) throw missing(`${at}.type`);
  if (call.type !== "function") {
    const message = `Invalid value: ${JSON.stringify(call.type)}. Supported value of '${at}.type' is: 'function'.`;
    throw new RequestError(400, message, `${at}.type`, "invalid_value");
  }
  if (!isObject(call.function)) throw wrongType(`${at}.function`, "an object", call.function);
  const { name, arguments: args } = call.function;
  if (typeof name !== "string") throw wrongType(`${at}.function.name`, "a string", name);
  if (!toolNamePattern.test(name)) throw badName(`${at}.function.name`, name);
  if (typeof args !== "string") throw wrongType(`${at}.function.arguments`, "a string", args);
  if (!isObject(parseJson(args))) {
    const message = `Invalid '${at}.function.arguments': expected a JSON object as text, got ${JSON.stringify(args)}.`;
    throw new RequestError(400, message, `${at}.function.arguments`, "invalid_value");
  }
  return { id: call.id, name, arguments: args };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function badName(at: string, name: string): RequestError {
  const message =
    `Invalid '${at}': ${JSON.stringify(name)} does not match the pattern. ` +
    "Expected a string that matches '^[a-zA-Z0-9_-]{1,64}$'.";
  return new RequestError(400, message, at, "invalid_value");
}

/** Every tool message answers a call of the assistant message before it, and every call is answered before the next. */
function checkOrder(messages: ChatMessage[]): void {
  let open: string[] = [];
  let callsAt = -1;
  const checkAnswered = (): void => {
    if (open.length === 0) return;
    const message =
      "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. " +
      `The following tool_call_ids of messages[${callsAt}] did not have response messages: ${open.join(", ")}`;
    throw new RequestError(400, message, `messages.[${callsAt}].role`);
  };
  messages.forEach((message, index) => {
    if (message.role === "tool") {
      const i = open.indexOf(message.callId);
      if (i < 0) {
        const text =
          "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls': " +
          `messages[${index}] answers '${message.callId}', which is not an open call.`;
        throw new RequestError(400, text, `messages.[${index}].role`);
      }
      open.splice(i, 1);
      return;
    }
    checkAnswered();
    if (message.role !== "assistant") return;
    callsAt = index;
    open = message.calls.map((call) => call.id);
    const twice = open.find((id, i) => open.indexOf(id) !== i);
    if (twice !== undefined) {
      const text = `Duplicate value for 'tool_call_id' of '${twice}' in messages[${index}].`;
      throw new RequestError(400, text, `messages.[${index}].tool_calls`);
    }
  });
  checkAnswered();
}

function readTools(tools: unknown): ToolSpec[] {
  if (tools === undefined || tools === null) return [];
  if (!Array.isArray(tools)) throw wrongType("tools", "an array of objects", tools);
  if (tools.length === 0) throw emptyArray("tools");
  const specs = tools.map(readTool);
  specs.forEach((spec, i) => {
    if (specs.findIndex((other) => other.name === spec.name) === i) return;
    throw new RequestError(400, `Invalid 'tools[${i}].function.name': duplicate of '${spec.name}'.`, "tools");
  });
  return specs;
}

function readTool(tool: unknown, index: number): ToolSpec {
  const at = `tools[${index}]`;
  if (!isObject(tool)) throw wrongType(at, "an object", tool);
  if (tool.type !== "function") {
    const message = `Invalid value: ${JSON.stringify(tool.type)}. Supported value of '${at}.type' is: 'function'.`;
    throw new RequestError(400, message, `${at}.type`, "invalid_value");
  }
  if (tool.function === undefined) throw missing(`${at}.function`);
  if (!isObject(tool.function)) throw wrongType(`${at}.function`, "an object", tool.function);
  const { name, description, parameters } = tool.function;
  if (name === undefined) throw missing(`${at}.function.name`);
  if (typeof name !== "string") throw wrongType(`${at}.function.name`, "a string", name);
  if (!toolNamePattern.test(name)) throw badName(`${at}.function.name`, name);
  if (description !== undefined && typeof description !== "string") {
    throw wrongType(`${at}.function.description`, "a string", description);
  }
  if (parameters === undefined) return { name, description: description ?? "", parameters: { type: "object" } };
  const where = `${at}.function.parameters`;
  if (!isObject(parameters)) throw wrongType(where, "an object", parameters);
  if (parameters.type !== "object") {
    const got = JSON.stringify(parameters.type) ?? "none";
    throw badSchema(name, where, `schema must be a JSON Schema of 'type: "object"', got 'type: ${got}'`);
  }
  checkSchema(parameters, name, where);
  return { name, description: description ?? "", parameters: parameters as JsonSchema };
}

function badSchema(name: string, at: string, what: string): RequestError {
  return new RequestError(
    400,
    `Invalid schema for function '${name}' at '${at}': ${what}.`,
    at,
    "invalid_function_parameters",
  );
}

function checkSchema(schema: unknown, name: string, at: string): void {
  if (typeof schema === "boolean") return;
  if (!isObject(schema)) throw badSchema(name, at, `expected a schema object, got ${typeName(schema)}`);
  const types = Array.isArray(schema.type) ? schema.type : schema.type === undefined ? [] : [schema.type];
  for (const type of types) {
    if (typeof type !== "string" || !schemaTypes.includes(type)) {
      throw badSchema(name, at, `${JSON.stringify(type)} is not a type of JSON Schema`);
    }
  }
  if (schema.enum !== undefined && !Array.isArray(schema.enum)) throw badSchema(name, at, "enum must be an array");
  for (const limit of ["minimum", "maximum"]) {
    if (schema[limit] !== undefined && typeof schema[limit] !== "number") {
      throw badSchema(name, at, `${limit} must be a number`);
    }
  }
  if (schema.description !== undefined && typeof schema.description !== "string") {
    throw badSchema(name, at, "description must be a string");
  }
  const required = schema.required;
  if (required !== undefined && !(Array.isArray(required) && required.every((key) => typeof key === "string"))) {
    throw badSchema(name, at, "required must be an array of strings");
  }
  if (schema.properties !== undefined) {
    if (!isObject(schema.properties)) throw badSchema(name, at, "properties must be an object");
    for (const [key, value] of Object.entries(schema.properties)) checkSchema(value, name, `${at}.properties.${key}`);
  }
  if (types.includes("array") && schema.items === undefined) throw badSchema(name, at, "array schema missing items");
  if (schema.items !== undefined) checkSchema(schema.items, name, `${at}.items`);
  for (const keyword of ["anyOf", "oneOf"]) {
    const list = schema[keyword];
    if (list === undefined) continue;
    if (!Array.isArray(list)) throw badSchema(name, at, `${keyword} must be an array`);
    list.forEach((option, i) => checkSchema(option, name, `${at}.${keyword}[${i}]`));
  }
}

function readToolChoice(choice: unknown, tools: ToolSpec[]): ChatRequest["toolChoice"] {
  if (choice === undefined || choice === null) return "auto";
  if (tools.length === 0) {
    const message = "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.";
    throw new RequestError(400, message, "tool_choice");
  }
  if (choice === "auto" || choice === "none" || choice === "required") return choice;
  if (!isObject(choice) || choice.type !== "function" || !isObject(choice.function)) {
    throw new RequestError(400, `Invalid value for 'tool_choice': ${JSON.stringify(choice)}.`, "tool_choice");
  }
  const name = choice.function.name;
  if (typeof name !== "string" || !tools.some((tool) => tool.name === name)) {
    const message = `Invalid value for 'tool_choice': no function named ${JSON.stringify(name)} was specified in 'tools'.`;
    throw new RequestError(400, message, "tool_choice");
  }
  return { name };
}

function readIncludeUsage(options: unknown, stream: boolean): boolean {
  if (options === undefined || options === null) return false;
  if (!stream) {
    const message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
    throw new RequestError(400, message, "stream_options");
  }
  if (!isObject(options)) throw wrongType("stream_options", "an object", options);
  return options.include_usage === true;
}

function readMaxTokens(body: Record<string, unknown>): number | undefined {
  for (const key of ["max_completion_tokens", "max_tokens"]) {
    const value = body[key];
    if (value === undefined || value === null) continue;
    if (typeof value !== "number" || !Number.isInteger(value)) throw wrongType(key, "an integer", value);
    if (value < 1) {
      const message = `Invalid '${key}': integer below minimum value. Expected a value >= 1, but got ${value} instead.`;
      throw new RequestError(400, message, key, "integer_below_min_value");
    }
    return value;
  }
  return undefined;
}
