import { beforeEach, describe, expect, it } from "vitest";
import type { After, Before, LoadedTool, Session } from "../../firmware/types";
import { bootFirmware, callTool } from "./board";

let firmware: ReturnType<typeof bootFirmware>;
let session: Session;
let seen: any[];

beforeEach(() => {
  firmware = bootFirmware();
  session = { tools: { count: 0 }, lastCallId: 0, emit: () => {} };
  seen = [];
});

/** Registers a tool `t` that takes a number and gives what `execute` gives, and calls it with `args`. */
async function call(
  wrap: { before?: Before[]; after?: After[] } | undefined,
  args: unknown,
  execute: (args: any) => any = () => "raw",
): Promise<any> {
  if (!session.tools.count) {
    const tool = {
      name: "t",
      description: "T",
      parameters: { type: "object", properties: { n: { type: "number" } } },
      execute(given: any) {
        seen.push(given);
        return execute(given);
      },
    };
    expect(firmware.editRegistry(session.tools).append(tool)).toBe("");
  }
  session.wrap = (tool: LoadedTool) => (wrap ? firmware.wrapTool(tool, wrap) : tool);
  return callTool(firmware, session, "t", args);
}

describe("a wrapped tool", () => {
  it("passes a call through its processors in order, outer ones outside", async () => {
    const order: string[] = [];
    const before =
      (name: string): Before =>
      (call) => {
        order.push(name);
        call.args.n++;
      };
    const after =
      (name: string): After =>
      (output) => {
        order.push(name);
        return `${output} ${name}`;
      };
    session.wrap = undefined;
    const inner = { before: [before("b2")], after: [after("a1")] };
    const outer = { before: [before("b1")], after: [after("a2")] };
    await call(undefined, {});
    session.wrap = (tool) => firmware.wrapTool(firmware.wrapTool(tool, inner), outer);
    seen = [];
    const result = await callTool(firmware, session, "t", { n: 1 });
    expect(result).toEqual({ isError: false, content: "raw a1 a2" });
    expect(order).toEqual(["b1", "b2", "a1", "a2"]);
    expect(seen).toEqual([{ n: 3 }]);
  });

  it("waits for processors that give promises", async () => {
    const wrap = {
      before: [async (call: any) => void (call.args.n = 7)],
      after: [async (output: any) => `${output} later`],
    };
    expect(await call(wrap, { n: 1 })).toEqual({ isError: false, content: "raw later" });
    expect(seen).toEqual([{ n: 7 }]);
  });

  it("is not run where a processor rejects the call, at once or later", async () => {
    const no = { isError: true, content: "not today" };
    for (const before of [() => no, () => Promise.resolve(no)]) {
      expect(await call({ before: [before, () => void seen.push("second")] }, { n: 1 })).toEqual(no);
    }
    expect(seen).toEqual([]);
    // What comes out still goes through what stands behind.
    expect(await call({ before: [() => no], after: [() => "hidden"] }, {})).toEqual({ isError: false, content: "hidden" });
  });

  it("is not run where a processor fails, and its result is not passed on where a later one fails", async () => {
    const boom = () => {
      throw new Error("boom");
    };
    const later = () => Promise.reject(new Error("boom"));
    for (const bad of [boom, later]) {
      const before = await call({ before: [bad] }, { n: 1 });
      expect(before).toEqual({ isError: true, content: "t was not run: boom" });
      expect(seen).toEqual([]);
    }
    for (const bad of [boom, later]) {
      const after = await call({ after: [bad, (output: any) => output] }, {}, () => "secret");
      expect(after).toEqual({ isError: true, content: "t ran, but its result could not be processed: boom" });
    }
  });

  it("checks the arguments that its processors made", async () => {
    const wrap = { before: [(call: any) => void (call.args.n = "x")] };
    expect(await call(wrap, { n: 1 })).toMatchObject({ isError: true, content: expect.stringContaining('"n"') });
    expect(seen).toEqual([]);
  });

  it("ends where a processor does not, and a late one changes nothing", async () => {
    let release = (): void => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    const pending = call({ before: [() => held] }, { n: 1 });
    firmware.clock.advance(60_000);
    expect(await pending).toMatchObject({ isError: true });
    release();
    await new Promise((resolve) => setImmediate(resolve));
    expect(seen).toEqual([]);
  });
});

describe("processors", () => {
  it("repairJson reads what is no JSON, and leaves JSON alone", () => {
    const call: any = { id: "", name: "t", arguments: "{'a': True,}" };
    firmware.repairJson(call);
    expect(call.args).toEqual({ a: true });
    const good: any = { id: "", name: "t", arguments: "junk", args: { b: 1 } };
    firmware.repairJson(good);
    expect(good.args).toEqual({ b: 1 });
    const cut: any = { id: "", name: "t", arguments: '{"value": 12' };
    firmware.repairJson(cut);
    expect(cut.args).toBeUndefined();
  });

  it("redactSecrets takes the keys out, of errors and of objects, too", async () => {
    firmware.openSettings().apply({ apiKey: "sk-very-secret" }, true);
    const wrap = () => ({ after: [firmware.redactSecrets] });
    expect(await call(wrap(), {}, () => "a sk-very-secret b sk-very-secret")).toEqual({ isError: false, content: "a *** b ***" });
    session.tools = { count: 0 };
    const bad = () => {
      throw new Error("sk-very-secret is wrong");
    };
    expect(await call(wrap(), {}, bad)).toEqual({ isError: true, content: "*** is wrong" });
    session.tools = { count: 0 };
    expect((await call(wrap(), {}, () => ({ key: "sk-very-secret" }))).content).toBe('{"key":"***"}');
  });

  it("limitResult says how much was cut, and how to read the rest", async () => {
    const wrap = { after: [firmware.limitResult(100, "read it in rows")] };
    const { content } = await call(wrap, {}, () => "x".repeat(500));
    expect(content).toMatch(/^x+\n\[cut: (\d+) of 500 bytes; read it in rows\]$/);
    expect(content.length).toBeLessThanOrEqual(100);
    expect(/\d+/.exec(content)![0]).toBe(String(/^x+/.exec(content)![0].length));
  });

  it("formatRun writes what a run gave as short text", () => {
    const format = firmware.formatRun as any;
    expect(format({ stdout: "hi", value: "3", changed: ["a", "b"] })).toEqual({
      isError: false,
      content: "hi\nresult: 3\nchanged files: a, b",
    });
    expect(format({ stdout: "", stderr: "no such thing", changed: [] })).toEqual({
      isError: true,
      content: "error: no such thing",
    });
    expect(format({ stdout: "" }).content).toBe("done (no output)");
    for (const other of ["text", undefined, { isError: true, content: "off" }]) expect(format(other)).toBe(other);
  });

  it("shortEdit says that it was done", () => {
    const short = firmware.shortEdit as any;
    expect(short({ path: "notes.txt", size: 12 })).toBe("success: notes.txt, 12 bytes");
    expect(short({ isError: true, content: "full" })).toEqual({ isError: true, content: "full" });
  });

  it("confirmOnSerial asks, and a no, a missing console and a lost one refuse", async () => {
    const wrap = { before: [firmware.confirmOnSerial] };
    const refused = { isError: true, content: expect.stringContaining("did not allow") };
    expect(await call(wrap, { n: 1 })).toMatchObject(refused);
    const asked: string[] = [];
    for (const answer of [false, true]) {
      session.confirm = async (question) => {
        asked.push(question);
        return answer;
      };
      const result = await call(wrap, { n: 1 });
      if (answer) expect(result).toEqual({ isError: false, content: "raw" });
      else expect(result).toMatchObject(refused);
    }
    expect(asked).toEqual(['t {"n":1}', 't {"n":1}']);
    session.confirm = () => Promise.reject(new Error("gone"));
    expect(await call(wrap, { n: 1 })).toEqual({ isError: true, content: "t was not run: gone" });
    expect(seen).toHaveLength(1);
  });

  it("rateLimit lets so many through in so long a time", async () => {
    const wrap = { before: [firmware.rateLimit(2, 10)] };
    const go = () => call(wrap, { n: 1 });
    expect((await go()).isError).toBe(false);
    firmware.clock.advance(4000);
    expect((await go()).isError).toBe(false);
    expect(await go()).toEqual({ isError: true, content: "t may be called 2 times in 10 s: again in 6 s" });
    firmware.clock.advance(6000);
    expect((await go()).isError).toBe(false);
    expect((await go()).isError).toBe(true);
  });
});
