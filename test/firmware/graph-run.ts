import type { Session, ToolResult } from "../../firmware/types";
import { bootFirmware, callTool } from "./board";

/** A board with a few tools of the test's own and whatever graphs are added. */
export function bootGraphs() {
  const firmware = bootFirmware();
  const session: Session = { tools: { count: 0 }, lastCallId: 0, calls: 0, emit() {} } as Session;
  const registry = session.tools;
  const editor = firmware.editRegistry(registry);
  /** Names and arguments of the calls of the test's own tools. */
  const calls: [name: string, args: any][] = [];

  function addTool(
    name: string,
    properties: object,
    execute: (args: any) => unknown,
    required = Object.keys(properties),
  ): void {
    const problem = editor.append({
      name,
      description: `Does ${name}`,
      parameters: { type: "object", properties, required },
      execute(args: any) {
        calls.push([name, args]);
        return execute(args);
      },
    });
    if (problem) throw new Error(problem);
  }

  /** Lets the board's time pass, a millisecond at a time, until a promise settles; `undefined` where it does not. */
  async function settle<T>(promise: Promise<T>, steps = 2000): Promise<T | undefined> {
    let result: { value: T } | undefined;
    let failure: { error: unknown } | undefined;
    promise.then(
      (value) => (result = { value }),
      (error) => (failure = { error }),
    );
    for (let step = 0; step < steps && !result && !failure; step++) {
      firmware.clock.advance(1);
      for (let turn = 0; turn < 8; turn++) await Promise.resolve();
    }
    if (failure) throw failure.error;
    return result?.value;
  }

  return {
    ...firmware,
    registry,
    calls,
    addTool,
    settle,
    /** What is wrong with a graph; "" where it was registered. */
    add: (graph: unknown): string => editor.appendGraph(graph),
    /** What becomes of a call by the model. */
    call: (name: string, args: unknown = {}): Promise<ToolResult | undefined> =>
      settle(callTool(firmware, session, name, args)),
  };
}
