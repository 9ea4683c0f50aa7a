import { writeFile } from "./files";
import { fromJson, toJson } from "./text";

/**
 * Every limit: name, default, least, most, unit and reason; and the settings that are text. Any can be set in the
 * board's Storage file `agent.json` without a rebuild. README's settings table is made from this file.
 *
 * Only what was set is held in RAM; a default is made when it is asked for.
 */

/**
 * What was set on this board, by name: under a name that the board leaves out where it prints an object. All globals are
 * printed by `global` and `dump()`, and keys are among the settings.
 */
const kept: Record<string, Record<string, any>> = { "\xff*": {} };
/** What a sub-agent sets otherwise while it runs. */
let overlay: Record<string, any> | undefined;

// [default, least, most] of a number; undefined where there is no such limit.
export function limitOf(name: string): number[] | undefined {
  switch (name) {
    // MAX_TOOL_ARG_LEN (PKG_AGENT_MAX_TOOL_ARG_LEN), bytes: the longest arguments text of one tool call. Past it
    // nothing more is kept and the tool is not run, so that a model that rambles cannot fill the memory.
    case "maxToolArgLen":
      return [1024, 64, 4096];
    // MESSAGE_TRIM (PKG_AGENT_MESSAGE_TRIM), messages: the most that the history keeps, whole exchanges at a time.
    case "messageTrim":
      return [24, 2, 64];
    // MAX_TOOL_ITERATIONS, model calls with tools in one run. At the cap one last call goes without tools, so that the
    // person gets an answer.
    case "maxToolIterations":
      return [10, 1, 25];
    // HISTORY_BYTES, bytes: the message buffer, allocated once; 4 kB are 307 of about 4,000 variables.
    case "historyBytes":
      return [4096, 1024, 16384];
    // SSE_LINE_BYTES, bytes: the longest line of a reply, and the longest reply that is not a stream. It is parsed
    // whole, at about three times its size.
    case "sseLineBytes":
      return [3072, 256, 8192];
    // TOOL_RESULT_BYTES, bytes: the most of one tool result that goes to the model; the rest is cut with a marker.
    case "toolResultBytes":
      return [1024, 64, 4096];
    // REASONING_BYTES, bytes: the most of a reply's reasoning that goes back with its tool calls, within the run. Anthropic
    // dialect: only whole, or not at all; openai: cut, and only with echoReasoning.
    case "reasoningBytes":
      return [1024, 0, 4096];
    // MAX_TOKENS, tokens: the most the model may write in one reply; 0 leaves it to the server.
    case "maxTokens":
      return [2048, 0, 65536];
    // REQUEST_TIMEOUT_MS, milliseconds: one model request in all. A small model on a slow machine takes minutes.
    case "requestTimeoutMs":
      return [180000, 1000, 900000];
    // IDLE_TIMEOUT_MS, milliseconds: the longest silence within a request. A server may load the model first.
    case "idleTimeoutMs":
      return [60000, 500, 600000];
    // TOOL_TIMEOUT_MS, milliseconds: one tool call. A tool that never settles must not hang the run.
    case "toolTimeoutMs":
      return [10000, 100, 300000];
    // WATCHDOG_MS, milliseconds: how long code of the model's may block the board before it restarts; 0 for never. From the
    // first such code on it watches all of the board, and connecting to a server that is not there blocks for a minute, too.
    case "watchdogMs":
      return [120000, 0, 3600000];
    // MAX_MODEL_CALLS, model calls of one prompt with all its sub-agents: what a prompt may cost at the most.
    case "maxModelCalls":
      return [40, 1, 200];
    // TEMPERATURE, a number with decimals: how freely the model chooses its words; -1 leaves it to the server.
    case "temperature":
      return [-1, -1, 2];
    // TOP_P, a number with decimals: the share of likely words that it chooses from; -1 leaves it to the server.
    case "topP":
      return [-1, -1, 1];
    // GRAPH_BYTES, bytes: the longest graph of tools. It is parsed whole, which takes a variable for every four bytes.
    case "graphBytes":
      return [2048, 256, 8192];
    // GRAPH_NODES, nodes: the most nodes of a graph. Each takes a dozen variables while it is checked or run.
    case "graphNodes":
      return [32, 1, 256];
    // RETRIES, attempts after the first one, for failures that may pass (no connection, 408, 429, 5xx).
    case "retries":
      return [2, 0, 5];
    // RETRY_BUDGET_MS, milliseconds: all waiting between the attempts of one request together.
    case "retryBudgetMs":
      return [30000, 0, 300000];
    // INLINE_BYTES, bytes: the largest file that goes to the model within a request, as base64, a third longer. It goes again
    // with each request of the run.
    case "inlineBytes":
      return [524288, 1024, 8388608];
    // UPLOAD_BYTES, bytes: the largest file that is uploaded to the file server.
    case "uploadBytes":
      return [4194304, 1024, 67108864];
    // UPLOAD_TIMEOUT_MS, milliseconds: one upload in all, at some 20 kB a second.
    case "uploadTimeoutMs":
      return [120000, 1000, 900000];
    // MEDIA_BYTES, bytes: the largest file that save_media fetches.
    case "mediaBytes":
      return [1048576, 1024, 67108864];
    // CAMERA_BAUD, bits a second: what the serial camera speaks.
    case "cameraBaud":
      return [38400, 9600, 921600];
    // MESSAGE_LOG, bytes: how much of the Storage the log of prompts and answers may fill; 0 for no log. Each time a half of
    // it is full, the older half is given up, and its place in the flash with it until the Storage is compacted.
    case "messageLog":
      return [0, 0, 65536];
  }
  return undefined;
}

// Lays settings over all others and returns those that were laid over before. With `instead`, only if it is those.
export function layOver(settings: Record<string, any> | undefined, instead?: Record<string, any>): Record<string, any> | undefined {
  const before = overlay;
  if (!instead || instead === before) overlay = settings;
  return before;
}

// The value in force: a sub-agent's own, what was set, else the default. A text that has no default is "".
export function setting(name: string): any {
  if (overlay && name in overlay) return overlay[name];
  const overrides = kept["\xff*"];
  if (name in overrides) return overrides[name];
  const limit = limitOf(name);
  if (limit) return limit[0];
  switch (name) {
    // Which dialect the server speaks: openai or anthropic.
    case "provider":
      return "openai";
    // Name of the field that carries maxTokens: newer OpenAI models want max_completion_tokens.
    case "tokensField":
      return "max_tokens";
    // flat: one agent with all tools. deep: it looks and delegates, and sub-agents do.
    case "mode":
      return "flat";
    // Tools that ask the person at the console before each call, comma separated.
    case "confirmTools":
    // Where web_search asks, and with which key: a server with Tavily's or DuckDuckGo's API, best the gateway in the LAN.
    case "searchUrl":
    case "searchKey":
    // tavily or duckduckgo. Without it: tavily where there is a searchKey.
    case "searchProvider":
    // Where search_similar_images asks: a Weaviate server.
    case "weaviateUrl":
    case "weaviateKey":
    // Where get_recent_user_messages and get_recent_group_messages ask, if not the board's own log.
    case "messageUrl":
    case "messageToken":
    // Where files are uploaded, and with which token; and what stands before their ids in a link, where it is not the same
    // address with /download in the place of /upload.
    case "uploadUrl":
    case "downloadUrl":
    case "fileToken":
    // The model that image_reader asks, if not the usual one.
    case "imageModel":
    // The serial port of the camera, such as Serial2, and its pins: rx,tx.
    case "cameraPort":
    case "cameraPins":
      break;
    // Which files go along with a request: those of the run, always all that are in the history, or only those that the model
    // has not answered yet (once). In the place of others stands a short text.
    case "mediaKept":
      return "run";
    // The collection with the images, and what is told of each one found: names of properties, comma separated.
    case "weaviateClass":
      return "Image";
    case "weaviateFields":
      return "title,url";
    // Not to be set: whether there are messages to read.
    case "messages":
      return setting("messageUrl") || setting("messageLog");
    // Not to be set: the settings that nobody is shown. The name of each ends in Key or Token.
    case "secrets":
      return "apiKey,searchKey,weaviateKey,messageToken,fileToken";
    // Whether the model's reasoning is shown to the person.
    case "showReasoning":
    // Whether files are shown to the model at all.
    case "multimodal":
    // Whether they go within the request, even where there is a file server: for models that cannot reach it.
    case "mediaInline":
    // Whether audio and video go as audio_url and video_url, as vLLM and servers like it take them.
    case "mediaUrlParts":
    // Whether the model may run JavaScript of its own on the board, with all that the board can do.
    case "allowJs":
    // Whether it goes back with the tool calls of the openai dialect: some servers refuse a call without it, others with it.
    case "echoReasoning":
      return false;
    // What the model is told before every conversation, at most 1,024 bytes.
    case "systemPrompt":
      return (
        "You are an agent that runs on a small ESP32 board. Use the tools to look at and change the board: never " +
        "claim to have done something that no tool result confirms. If a tool returns an error, correct the call or " +
        "tell the person what is wrong. Answer briefly, in plain text, in the person's language."
      );
  }
  return "";
}

/** What changes settings. It exists while they are changed. */
export interface Settings {
  names: string[];
  /** What is wrong with a value for a setting, in words that say what to change; "" if nothing is. */
  problemOf(name: string, value: any): string;
  /**
   * Lays the good ones of `values` over the settings and returns what is wrong with the others, by name. `null` puts a
   * setting back to its default. With `allOrNothing`, one bad value refuses them all.
   */
  apply(values: any, allOrNothing: boolean): string[];
  /**
   * Reads `agent.json`. Returns a message where it is no JSON object or names something wrong: the board starts all
   * the same, with defaults for what could not be used, and the file is left as it is.
   */
  load(): string;
  /**
   * Writes what was set to `agent.json`. Returns a message where the Storage is full: the old file is still there.
   */
  save(): string;
}

export function openSettings(): Settings {
  const names = (
    "baseUrl,apiKey,model,provider,systemPrompt,tokensField,mode,agentModels,allowJs,confirmTools,showReasoning,echoReasoning,reasoningBytes,maxTokens,maxToolArgLen,messageTrim,maxToolIterations," +
    "historyBytes,sseLineBytes,toolResultBytes,maxModelCalls,temperature,topP,requestTimeoutMs,idleTimeoutMs,toolTimeoutMs,watchdogMs,graphBytes,graphNodes,retries,retryBudgetMs," +
    "multimodal,uploadUrl,downloadUrl,fileToken,mediaInline,mediaUrlParts,mediaKept,inlineBytes,uploadBytes,uploadTimeoutMs,mediaBytes,imageModel,cameraPort,cameraPins,cameraBaud," +
    "searchUrl,searchKey,searchProvider,weaviateUrl,weaviateKey,weaviateClass,weaviateFields,messageUrl,messageToken,messageLog"
  ).split(",");

  function problemOf(name: string, value: any): string {
    if (names.indexOf(name) < 0) return "no setting is called " + name;
    const limit = limitOf(name);
    if (value === null) return "";
    if (limit) {
      if (typeof value === "number" && (limit[1] < 0 ? value >= 0 || value === limit[1] : value === Math.floor(value)) && value >= limit[1] && value <= limit[2]) return "";
      return name + " must be a" + (limit[1] < 0 ? "" : " whole") + " number from " + limit[1] + " to " + limit[2];
    }
    if ("showReasoning,echoReasoning,allowJs,multimodal,mediaInline,mediaUrlParts".split(",").indexOf(name) >= 0)
      return typeof value === "boolean" ? "" : name + " must be true or false";
    if (typeof value !== "string") return name + " must be text";
    if (value.length > 1024) return name + " must be at most 1024 bytes long";
    if (name.endsWith("Url") && value && !value.startsWith("http://") && !value.startsWith("https://"))
      return name + " must start with http:// or https://";
    if (name.endsWith("Url") && value.indexOf("@") >= 0)
      return name + " must not hold a user or password: there is a setting for the key or token";
    if (name === "searchProvider" && value && value !== "tavily" && value !== "duckduckgo")
      return "searchProvider must be tavily or duckduckgo";
    if (name === "provider" && value !== "openai" && value !== "anthropic") return "provider must be openai or anthropic";
    if (name === "mediaKept" && value !== "run" && value !== "always" && value !== "once") return "mediaKept must be run, always or once";
    if (name === "mode" && value !== "flat" && value !== "deep") return "mode must be flat or deep";
    if (name === "tokensField" && value !== "max_tokens" && value !== "max_completion_tokens")
      return "tokensField must be max_tokens or max_completion_tokens";
    // A line break in a header would end it: the key could then be read where it does not belong.
    if (name !== "systemPrompt" && /[\x00-\x20]/.test(value)) return name + " must not contain spaces or line breaks";
    return "";
  }

  function apply(values: any, allOrNothing: boolean): string[] {
    const problems: string[] = [];
    const good: Record<string, any> = {};
    for (const name in values) {
      const problem = problemOf(name, values[name]);
      if (problem) problems.push(problem);
      else good[name] = values[name];
    }
    if (problems.length && allOrNothing) return problems;
    const overrides = kept["\xff*"];
    for (const name in good) {
      if (good[name] === null) delete overrides[name];
      else overrides[name] = good[name];
    }
    return problems;
  }

  return {
    names: names,
    problemOf: problemOf,
    apply: apply,
    load: function () {
      kept["\xff*"] = {};
      const text = require("Storage").read("agent.json");
      if (text === undefined) return "";
      let values;
      try {
        values = fromJson(text);
      } catch (e) {
        values = undefined;
      }
      if (!values || typeof values !== "object" || values instanceof Array)
        return "agent.json is not a JSON object: using defaults. Correct it, or write it anew with set_config({...})";
      const problems = apply(values, false);
      return problems.length ? "agent.json: " + problems.join("; ") + " (using the default)" : "";
    },
    save: function () {
      return writeFile("agent.json", [toJson(kept["\xff*"])]);
    },
  };
}
