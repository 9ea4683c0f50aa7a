/**
 * Contracts only: no code of this file reaches the board. All text in board code is a *byte string*: one character per
 * UTF-8 byte (0x00–0xFF). The host's terminal turns bytes into characters.
 */

import type { Part, PartList } from "./parts";

/** One parameter of a tool. `"double"` is an alias of `"number"` in a tool's own schema and is never sent to a model. */
export interface ParameterSchema {
  type: "string" | "number" | "double" | "integer" | "boolean" | "array" | "object";
  description?: string;
  enum?: (string | number)[];
  /** Of an array: some servers refuse one without. */
  items?: ParameterSchema;
  /** Of an object. */
  properties?: Record<string, ParameterSchema>;
  minimum?: number;
  maximum?: number;
}

/** JSON Schema (the part of it that is checked on the board) of a tool's arguments. */
export interface ToolParameters {
  type: "object";
  properties: Record<string, ParameterSchema>;
  required?: string[];
}

/** What a tool call came to. A failure the model can act on is a value: say what was wrong and what to do instead. */
export interface ToolResult {
  isError: boolean;
  content: string;
  /** Ends the run with this result, for this reason. */
  ends?: StopReason;
  /** Goes into the `RunResult` of a run that it ends. */
  data?: any;
  /** Files that the model is to see, and texts. */
  parts?: Part[];
  /** Of a failure: the same may succeed a little later. */
  retry?: boolean;
}

/**
 * What `execute` may give: text or a list of parts for success, a `ToolResult` to say it failed. A throw is an error result
 * too.
 */
export type ToolOutput = string | ToolResult | PartList;

/** What a tool can see of the agent that runs it. */
export interface ToolContext {
  /** The conversation that the call is a part of. */
  session: Session;
  /** The tool's place in the registry. */
  node: ToolNode;
  /**
   * Runs another tool: see `Caller.call`. Also one of `tools/` that the agent itself does not have; an error result once this
   * call is over.
   */
  call(call: ToolCall, done: (result: ToolResult) => void): void;
  /** The session's `abort`, or undefined, as long as this call goes on; null once its time is up. */
  running?: Session["abort"] | null;
  /** Of the tool that this one has called last. */
  inner?: ToolContext;
}

/** One call on its way through a tool's processors. */
export interface WrappedCall extends ToolCall {
  /** What `arguments` say; undefined as long as they are no JSON object. */
  args?: any;
}

/**
 * Looks at a call before its tool: changes `call.args`, ends it with a result for the model, or gives nothing and passes
 * it on; later, where it gives a promise. A throw ends the call with an error result.
 *
 * The first one of a tool is also called, at once, with arguments that are no JSON object: it may set `args`, and its
 * result does not count.
 */
export type Before = (call: WrappedCall, context: ToolContext) => ToolResult | undefined | void | Promise<ToolResult | undefined | void>;

/** Takes what the tool, or the processor before it, gave, and gives what the next one gets. A throw is an error result. */
export type After = (output: any, call: WrappedCall, context: ToolContext) => any;

/** What stands around a tool, in order. */
export interface Wrap {
  before?: Before[];
  after?: After[];
}

/**
 * A tool is one plain object, the default export of one file in `tools/`. The build turns `description` and
 * `parameters` into JSON text and the whole file into a branch of one function in flash, so that a tool at rest costs
 * its registry node only.
 */
export interface Tool {
  /** `^[a-zA-Z0-9_-]{1,63}$`: what both provider dialects accept. */
  name: string;
  /** When to use it, what goes in, what comes out. Plain text, at most about 300 bytes: every request carries it. */
  description: string;
  parameters: ToolParameters;
  /** True where the same call may give another outcome (a sensor): it is then never answered from memory. */
  repeatable?: boolean;
  /** Milliseconds that a call may take, where that is not `toolTimeoutMs`. */
  timeoutMs?: number;
  /**
   * `do` tools are, with mode `deep`, not the person's own agent's, but those sub-agents' that name them. `agent` tools have
   * others do the work: they are there with that mode only, and have 15 minutes where `timeoutMs` does not say otherwise.
   * Any other tool is always there.
   */
  tier?: "do" | "agent";
  /** Name of a setting that must be set, or the tool is not there. */
  needs?: string;
  /** Runs one call. `args` were checked against `parameters` and numeric text was turned into numbers. May throw. */
  execute(args: any, context: ToolContext): ToolOutput | Promise<ToolOutput>;
}

/** A tool as the board loads it: descriptions are JSON text already. Tools registered at run time look the same. */
export interface LoadedTool {
  name: string;
  /** A JSON string literal with its quotes. */
  description: string;
  /** A JSON Schema as JSON text, without `"double"`. */
  parameters: string;
  repeatable?: boolean;
  timeoutMs?: number;
  tier?: "do" | "agent";
  needs?: string;
  /** Where it is a saved tool: who saved it, `by the model` or `at the console`. */
  origin?: string;
  /** See wrap.ts. */
  before?: Before[];
  after?: After[];
  execute(args: any, context: ToolContext): ToolOutput | Promise<ToolOutput>;
}

/** One call the model asked for. `arguments` is JSON text of an object, or as it came where it could not be read. */
export interface ToolCall {
  id: string;
  name: string;
  arguments: string;
}

/**
 * Why a run ended. `done`: an answer without calls. `maxIterations`: the cap was reached, the answer came without
 * tools. `transportError`: no usable answer from the server. `aborted`: Ctrl-C or `abort`. `awaitUser`: the model asks the
 * person something, and the next prompt is the answer.
 */
export type StopReason = "done" | "maxIterations" | "transportError" | "aborted" | "awaitUser";

/** The only way out of the loop. Sent in order; `final` ends every run, `error` is a warning that does not. */
export type AgentEvent = (
  | { type: "iterationStart"; iteration: number }
  | { type: "textDelta"; text: string }
  | { type: "reasoningDelta"; text: string }
  | { type: "toolRequest"; calls: ToolCall[] }
  | { type: "toolStart"; name: string; callId: string; arguments: string }
  | { type: "toolEnd"; name: string; callId: string; isError: boolean; content: string; ends?: StopReason }
  | { type: "retry"; attempt: number; waitMs: number; reason: string }
  | { type: "error"; message: string }
  | { type: "plan"; steps: PlanStep[] }
  | { type: "upload"; path: string; sent: number; total: number }
  | { type: "file"; path: string; size: number; url: string }
  | { type: "final"; text: string; stopReason: StopReason; isError?: boolean; message?: string; data?: any }
) & {
  /** The sub-agent whose event it is; the person's own agent has none. */
  agent?: string;
};

/** One step of a plan. It is sent anew whenever a step has begun or ended. */
export interface PlanStep {
  task: string;
  /** The sub-agent that does it. */
  agent: string;
  state: "todo" | "doing" | "done" | "failed";
}

/**
 * An agent that does a task for another one: its model sees it as a tool, whose `execute` gives what `runAgent` of
 * subagent.ts makes of this.
 */
export interface Subagent {
  /** What it is told; `{time}`, `{board}`, `{folder}`, `{memory}` and `{question}` are filled in, see text.ts. */
  instruction: string;
  /** Names of its tools, comma separated: of `tools/`, saved ones, graphs in files. One whose setting is not set is left out. */
  tools: string;
  /** Settings that differ from the main agent's while it runs, by their names in config.ts. */
  settings?: Record<string, any>;
  /** Puts processors around its tools, where they are not the main agent's. */
  wrap?: (tool: LoadedTool) => LoadedTool;
}

/** What a run came to. `text` is the answer as far as the history keeps it; the deltas carried all of it. */
export interface RunResult {
  text: string;
  stopReason: StopReason;
  /** Set where the run failed: what failed and which setting to look at. Never contains the API key. */
  message?: string;
  /** What the tool that ended the run gave besides its text. */
  data?: any;
}

/** One conversation: its tools and history, the run that is under way, and where events go out. */
export interface Session {
  /** Name of the sub-agent whose it is, and the conversation that it works for. */
  name?: string;
  parent?: Session;
  /** The sub-agent at work. */
  child?: Session;
  /** What the person asked for, in the run under way. */
  prompt?: string;
  /** Model calls that are left to the run under way, with all its sub-agents. */
  calls?: number;
  /** Plans that were made in the run under way. */
  plans?: number;
  tools: Registry;
  history?: History;
  /** Bytes of all tools as a request writes them; counted once for a set of tools. */
  toolBytes?: number;
  /** Checksum of the files of tools and graphs for which they were counted. */
  toolSum?: number;
  /** The person was told what https is worth on this board. */
  warned?: boolean;
  /** Files that were uploaded, see upload.ts. */
  uploads?: string[];
  /** When tools whose calls are limited were called, in seconds, by name; of the session without a parent. */
  times?: Record<string, number[]>;
  /** Number of the last tool call that was given an id here, so that no two of a conversation are the same. */
  lastCallId: number;
  /** Ends the run under way; undefined while there is none. */
  abort?: (reason: string) => void;
  /** Where events are shown; set by the channel that is in use. */
  show?: (event: AgentEvent) => void;
  /** Puts the agent's processors around a tool that is to be called. */
  wrap?: (tool: LoadedTool) => LoadedTool;
  /** Asks the person at the console a question; false for no, and where no answer comes. */
  confirm?: (question: string) => Promise<boolean>;
  /** Sends an event out: to the channel, and to whoever listens with `E.on("agent", …)`. */
  emit(event: AgentEvent): void;
}

/** The tools of an agent: a singly linked list, in order of registration. */
export interface Registry {
  first?: ToolNode;
  last?: ToolNode;
  count: number;
}

export interface ToolNode {
  name: string;
  /**
   * Number for `loadTool`; the Storage file of a saved tool or of a graph, or a graph's JSON text; or the tool itself
   * where it was registered at run time.
   */
  tool: number | string | LoadedTool;
  /**
   * Of a graph that was checked: CRC32 of its text, where in that its description and its inputs stand (0: none),
   * `repeatable` and `timeoutMs` (0: none), with spaces between.
   */
  seal?: string;
  /** A saved tool, or an agent, has been run since it was registered. */
  ran?: boolean;
  next?: ToolNode;
}

/** The message buffer, see history.ts. */
export interface History {
  bytes: Uint8Array;
  used: number;
  /** length × 16 + kind of each message, oldest first. Small numbers cost one variable each. */
  sizes: number[];
  /** There are references to files in it, or were. */
  media?: boolean;
  /** Whose dialect the messages are in. */
  provider: string;
}

/**
 * A provider is a pure dialect: it writes requests and messages as text and reads events. It does no I/O and is made anew
 * wherever one is needed, so it remembers nothing but what it reads of one reply. The history holds what `compose` gave.
 */
export interface Provider {
  /**
   * A message as wire JSON. By kind (history.ts): USER and ANSWER of `text`; CALLS, an assistant message of `text` and
   * `calls`; ECHO_CALLS, the same with `echo`; RESULT of `text` for `calls[0]`; SHORT_RESULT, the message `text` with its
   * content cut to a marker; SHORT_CALLS, the message `text` without its echo; USER and RESULT with HAS_MEDIA, a message of
   * the user's with `text` and the parts in `echo`, and one of parts that follows results.
   */
  compose(kind: number, text: string, calls?: ReplyCall[], isError?: boolean, echo?: string): string;
  /** What stands around the messages and tools of a request. */
  frame(options: RequestOptions): RequestFrame;
  /** One tool in pieces, of which the longest are in flash; a comma before it unless it is the first. */
  tool(tool: LoadedTool, first: boolean): string[];
  /** Its `read` adds to a reply's `echo`, if to anything. */
  echoes: boolean;
  /** Reads `reply.body`, one event of a stream or a whole reply, into `reply`, and lets go of it on the way. */
  read(reply: ReplyCollector): void;
}

export interface RequestOptions {
  apiKey: string;
  model: string;
  systemPrompt: string;
  maxTokens: number;
  tokensField: string;
  /** -1 where it is the server's to choose. */
  temperature: number;
  topP: number;
  withTools: boolean;
}

export interface RequestFrame {
  /** Path after `baseUrl`. */
  path: string;
  headers: Record<string, string>;
  /** Everything before the first message of the history, what stands between messages and tools, and the end. */
  head: string;
  between: string;
  tail: string;
}

/** Where in its text a reply is. An enum, since its members stand as numbers in the bundle. */
export enum Mode {
  /** Nothing but white space and thinking came so far. */
  Before,
  /** In the answer. */
  Plain,
  /** Between think tags. */
  Thinking,
  /** What is held may be a call written as text. */
  MaybeCall,
}

/** What came of an event. An enum, since its members stand as numbers in the bundle. */
export enum Gives {
  Nothing,
  /** Something else than those below, or more than one of them. */
  More,
  /** One text: of the answer, of the thinking, or of a tool call's arguments. */
  Text,
  Thought,
  Arguments,
}

/** Where a reply is collected while it streams in. A provider sets `fresh`, `stop` and `failure`, and calls the rest. */
export interface ReplyCollector {
  /**
   * What is to be read next. Not an argument: where one throws, the interpreter never frees the scope of the function that it
   * is for.
   */
  body?: any;
  /** Text that came and is not shown yet: a provider appends to it. */
  fresh: string;
  /** The thinking that is not shown yet. */
  wise: string;
  /** What the event that is read has given so far, and the text of it. */
  gives: Gives;
  got: string;
  /** Index of the call that came last, as the server gives it. */
  index?: any;
  /** Why the reply ended: `stop`, `length` (the output limit), `done` (no reason given); "" while it goes on. */
  stop: string;
  /**
   * The reasoning that goes back with the calls of this reply, in a form that is the provider's own; "" for none. A
   * provider adds to it, up to `echoBytes`, and may set those to 0.
   */
  echo: string;
  echoBytes: number;
  /** The server reported a failure inside the reply; `status` as HTTP has it, 0 if unknown. */
  failure?: { status: number; message: string };
  /** The answer as far as it is kept. */
  text: string;
  /** True where text was shown to the person already, so that asking again would repeat it. */
  shown?: boolean;
  calls: ReplyCall[];
  /** Text that is not shown yet, since it may be the start of a tag or of a call, or half of a surrogate pair; see sift.ts. */
  held: string;
  mode: Mode;
  /** `wise` ends in half of a surrogate pair, the other half of which comes in the next delta. */
  half?: boolean;
  /** Index of a call that was left out, `true` if it has none: pieces of it belong to no call. */
  dropped?: any;
  emit(event: AgentEvent): void;
  tools?: Registry;
  /** Bytes of the answer that are kept, of a call's arguments, and of thinking that is shown at once. */
  keepBytes: number;
  maxArgs: number;
  showBytes: number;
}

export interface ReplyCall extends ToolCall {
  /** The index that the server gave it, if any. */
  index?: number;
  /** It is the first, or the last, of the calls of its turn. */
  first?: boolean;
  last?: boolean;
  /** Why it must not be run, in words for the model. */
  problem?: string;
  /** JSON text that goes back on the call as it came, e.g. the signature of the thought that led to it. */
  echo?: string;
}
