import type { Failure } from "../../firmware/failure";
import type { AgentEvent, Registry, ReplyCollector, Session } from "../../firmware/types";
import { decodeStrings, fromBytes } from "../drivers/bytes";
import type { bootFirmware } from "./board";

export type Firmware = ReturnType<typeof bootFirmware>;

export interface Answer {
  status?: number;
  headers?: Record<string, string>;
  pieces: string[];
  /**
   * `reset` ends the connection as the board sees one, `hang` leaves it open; with `early`, the server answers and closes
   * it while the request is being sent.
   */
  end?: "reset" | "hang" | "early";
}

/** What one exchange with the model came to, as text rather than bytes. */
export interface Outcome {
  text: string;
  reasoning: string;
  /** Calls that may be run, with the arguments that their tools would get. */
  calls: { id: string; name: string; arguments: any }[];
  /** Calls that must be answered with an error, and why. */
  refused: { name: string; problem: string }[];
  stop: string;
  failure?: Failure;
  events: AgentEvent[];
  warnings: string[];
  waits: number[];
}

export const OK: Answer = { pieces: ['data: {"choices":[{"delta":{"content":"fine"},"finish_reason":"stop"}]}\n\n'] };

/** Runs one exchange; the n-th attempt gets the n-th answer, and the last one again from there on. */
export function exchangeWith(firmware: Firmware, tools: Registry, answers: Answer[]): Outcome {
  const { clock, requests } = firmware;
  const events: AgentEvent[] = [];
  const session: Session = {
    tools,
    history: firmware.createHistory(4096),
    lastCallId: 0,
    wrap: firmware.wrapMain,
    emit: (event) => events.push(event),
  };
  let reply: ReplyCollector | undefined;
  let failure: Failure | undefined;
  const first = requests.length;
  const take = (_: unknown, ended?: ReplyCollector, why?: Failure) => {
    if (reply) throw new Error("an exchange ended twice");
    reply = ended;
    failure = why;
  };
  const started = firmware.exchange(session, true, take, undefined);
  for (let i = 0; !reply; i++) {
    const request = requests[first + i];
    if (!request) throw new Error("no request, and no end");
    const answer = answers[Math.min(i, answers.length - 1)]!;
    if (answer.end !== "early") request.receive();
    request.head(answer.status ?? 200, answer.headers);
    for (const piece of answer.pieces) request.data(piece);
    if (answer.end === "early") request.fail("This socket is closed");
    else if (answer.end !== "hang") request.end();
    // Silence ends at a timeout, and a retry comes after its wait.
    while (!reply && clock.pending() && requests.length === first + i + 1)
      clock.advance(clock.nextDue()! - clock.now());
    if (!request.closed) throw new Error("the connection was left open");
  }
  firmware.stopExchange(started);
  if (clock.pending()) throw new Error(`${clock.pending()} timers were left`);
  requests.length = first;

  const caller = firmware.createCaller(session);
  const outcome: Outcome = {
    text: "",
    reasoning: "",
    calls: [],
    refused: [],
    stop: reply.stop,
    failure,
    events,
    warnings: [],
    waits: [],
  };
  for (const event of events) {
    if (event.type === "textDelta") outcome.text += event.text;
    if (event.type === "reasoningDelta") outcome.reasoning += event.text;
    if (event.type === "error") outcome.warnings.push(event.message);
    if (event.type === "retry") outcome.waits.push(event.waitMs);
  }
  outcome.text = fromBytes(outcome.text);
  outcome.reasoning = fromBytes(outcome.reasoning);
  for (const call of failure ? [] : reply.calls) {
    const { id, name } = call;
    let problem = call.problem;
    try {
      if (!problem) outcome.calls.push(decodeStrings({ id, name, arguments: caller.readArguments(call, reply.stop !== "length") }));
    } catch (error) {
      problem = (error as Error).message;
    }
    if (problem) outcome.refused.push({ name, problem });
  }
  return outcome;
}
