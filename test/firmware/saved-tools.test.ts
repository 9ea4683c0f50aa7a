import { afterEach, describe, expect, it } from "vitest";
import { plugInSandbox, type SandboxBoard, type SandboxBoardOptions } from "./sandbox-board";

let board: SandboxBoard | undefined;

afterEach(() => {
  board?.stop();
  board = undefined;
});

async function start(options?: SandboxBoardOptions): Promise<SandboxBoard> {
  return (board = await plugInSandbox(options));
}

const double = {
  name: "double",
  description: "Doubles x.",
  parameters: { type: "object", properties: { x: { type: "number" } }, required: ["x"] },
  code: "return args.x * 2",
};

/** Saves as somebody does at the console. */
const save = (tool: unknown): { isError: boolean; content: string } =>
  board!.value(`saved.save(${JSON.stringify(tool)},"at the console",session,editRegistry)`);
const remove = (name: string): { isError: boolean; content: string } =>
  board!.value(`saved.remove(${JSON.stringify(name)},session,editRegistry)`);
const restore = (name: string): { isError: boolean; content: string } =>
  board!.value(`saved.restore(${JSON.stringify(name)},session,editRegistry)`);
const files = (): string[] => board!.storage.list(/^tool/).sort();

describe("a saved tool", () => {
  it("is registered at once and at every start, and runs", async () => {
    await start();
    expect(save(double)).toEqual({ isError: false, content: expect.stringMatching(/^double is saved, 12\d bytes/) });
    expect(board!.tools().at(-1)).toBe("double: at the console");
    expect(await board!.call("double", { x: 4 })).toEqual({ isError: false, content: "8" });
    expect(await board!.call("double", {})).toEqual({ isError: true, content: 'double: the argument "x" is missing' });
    board!.restart();
    expect(board!.tools().at(-1)).toBe("double: at the console");
    expect(await board!.call("double", { x: "5" })).toEqual({ isError: false, content: "10" });
  });

  it("is text that a person can read", async () => {
    await start();
    save({ ...double, description: "Doubles \xe9.", code: "for (;;) return args.x * 2" });
    const [head, ...rest] = board!.storage.read("tool.double")!.split("\n");
    expect(head).toMatch(/^\d+ at the console$/);
    expect(rest).toEqual([
      '"Doubles \xc3\xa9."',
      '{"type":"object","properties":{"x":{"type":"number"}},"required":["x"]}',
      "function $run(){for (;;++$n%17||$()) return args.x * 2",
      "}$run()",
    ]);
  });

  it.each([
    ["a body", "return args.x + 1", "5"],
    ["an expression", "args.x + 2", "6"],
    ["a function", "function (args) { return args.x + 3 }", "7"],
    ["a function with a name", "function f(a) { return a.x + 4 };", "8"],
    ["an arrow", "(args) => args.x + 5", "9"],
    ["functions and a call", "function f(x) { return x }\nreturn f(args.x)", "4"],
    ["what it prints, too", "print('at'); return args.x", "at\nresult: 4"],
    ["a result of its own", "return {isError: false, content: 'own'}", "own"],
    ["nothing", "var x = args.x; if (0) x", "done (no output)"],
  ])("may be written as %s", async (_what, code, content) => {
    await start();
    expect(save({ ...double, code })).toMatchObject({ isError: false });
    expect(await board!.call("double", { x: 4 })).toEqual({ isError: false, content });
  });

  it("fails in words", async () => {
    await start();
    save({ ...double, code: "nosuch(args)" });
    expect(await board!.call("double", { x: 1 })).toEqual({
      isError: true,
      content: 'error: "nosuch" is not defined (line 1: nosuch(args))',
    });
    remove("double");
    save({ ...double, code: "return {isError: true, content: 'no paper'}" });
    expect(await board!.call("double", { x: 1 })).toEqual({ isError: true, content: "error: no paper" });
  });

  it("may do without parameters, and may have them as text", async () => {
    await start();
    expect(save({ name: "one", description: "One.", code: "return 1" })).toMatchObject({ isError: false });
    expect(await board!.call("one", {})).toMatchObject({ content: "1" });
    expect(save({ ...double, parameters: JSON.stringify(double.parameters) })).toMatchObject({ isError: false });
    expect(await board!.call("double", { x: 1 })).toMatchObject({ content: "2" });
  });

  it.each([
    [{ ...double, name: "" }, /needs a name/],
    [{ ...double, name: 5 }, /needs a name/],
    [{ ...double, name: "x".repeat(24) }, /at most 23 characters/],
    [{ ...double, name: "a/b" }, /letters, digits/],
    [{ ...double, name: "gpio_write" }, /there is a tool called gpio_write/],
    [{ ...double, name: "save_tool" }, /there is a tool called save_tool/],
    [{ ...double, description: undefined }, /needs a description/],
    [{ ...double, parameters: [] }, /parameters must look like/],
    [{ ...double, parameters: "{" }, /parameters must look like/],
    [{ ...double, parameters: { type: "object" } }, /parameters must look like/],
    [{ ...double, parameters: { type: "object", properties: { x: 5 } } }, /x needs a type/],
    [{ ...double, parameters: { ...double.parameters, required: "x" } }, /parameters must look like/],
    [{ ...double, parameters: { ...double.parameters, required: ["y"] } }, /^parameters needs .* required names that are properties/],
    [
      {
        ...double,
        parameters: { type: "object", properties: { x: { type: "string", description: "d".repeat(600) } } },
      },
      /more than 600 bytes/,
    ],
    [{ ...double, code: undefined }, /double needs code/],
    [{ ...double, code: "return )" }, /^not saved: it does not parse/],
    [{ ...double, code: "E.reboot()" }, /^not saved: code must not use reboot/],
    [null, /^save_tool\({name:/],
  ])("is refused, and nothing stored: %j", async (tool, words) => {
    await start();
    const before = board!.tools();
    expect(save(tool)).toEqual({ isError: true, content: expect.stringMatching(words) });
    expect(board!.tools()).toEqual(before);
    expect(files()).toEqual([]);
  });

  it("of 23 characters fits into the Storage", async () => {
    await start();
    const name = "n".repeat(23);
    expect(save({ ...double, name })).toMatchObject({ isError: false });
    expect(files()).toEqual([`tool.${name}`]);
    expect(await board!.call(name, { x: 1 })).toMatchObject({ content: "2" });
  });

  it("is not there where the Storage is full", async () => {
    await start({ storageBytes: 48 * 4096 });
    board!.storage.write("fill", "x".repeat(board!.storage.getFree() - 120));
    const before = board!.tools();
    expect(save(double)).toEqual({ isError: true, content: expect.stringContaining("The Storage is full") });
    expect(board!.tools()).toEqual(before);
  });

  it("keeps its name for itself, until it is removed", async () => {
    await start();
    save(double);
    expect(save({ ...double, code: "return 0" })).toEqual({
      isError: true,
      content: expect.stringContaining("there is a tool called double"),
    });
    expect(await board!.call("double", { x: 3 })).toMatchObject({ content: "6" });
    expect(remove("nosuch")).toEqual({ isError: true, content: "no saved tool is called nosuch. Saved: double" });
    expect(remove("add")).toMatchObject({ isError: true });
    expect(remove("double")).toEqual({ isError: false, content: "double is removed" });
    expect(files()).toEqual([]);
    expect(await board!.call("double", { x: 3 })).toMatchObject({
      isError: true,
      content: expect.stringContaining("there is no tool called double"),
    });
    expect(save({ ...double, code: "return 0" })).toMatchObject({ isError: false });
    expect(await board!.call("double", { x: 3 })).toMatchObject({ content: "0" });
  });

  it("says so where its file is gone", async () => {
    await start();
    save(double);
    board!.storage.erase("tool.double");
    expect(await board!.call("double", {})).toEqual({
      isError: true,
      content: "the file of double is gone or damaged: remove_tool removes it",
    });
  });

  it("is told and left out where its file is damaged", async () => {
    await start();
    save(double);
    const text = board!.storage.read("tool.double")!;
    board!.storage.write("tool.double", text.replace("* 2", "* 3"));
    board!.restart();
    expect(board!.printed()).toContain('the saved tool double is damaged: remove_tool("double"), or save it anew');
    expect(board!.tools()).not.toContain("double: at the console");
    expect(remove("double")).toMatchObject({ isError: false });
  });
});

describe("a saved tool that does not come back", () => {
  it("is set aside at the next start, and can be put back", async () => {
    await start();
    save(double);
    board!.value('journal().begin("tool.double")');
    board!.restart();
    expect(board!.value("saved.lastRun(false)")).toBe(
      'the board was started anew while the saved tool double ran: it is set aside, save_tool("double") at the console puts it back',
    );
    expect(files()).toEqual(["tool!double"]);
    expect(board!.value("saved.lastRun(true)")).toContain("is set aside");
    expect(board!.value("saved.lastRun(true)")).toBe("");
    expect(restore("none")).toMatchObject({ isError: true });
    board!.value("(editor().unlink('double'),1)");
    expect(restore("double")).toEqual({ isError: false, content: "double is back" });
    expect(files()).toEqual(["tool.double"]);
    expect(await board!.call("double", { x: 1 })).toMatchObject({ content: "2" });
  });

  it("can be removed, or saved anew", async () => {
    await start();
    save(double);
    board!.value('journal().begin("tool.double")');
    board!.value("(saved.lastRun(true),editor().unlink('double'),1)");
    expect(remove("double")).toEqual({ isError: false, content: "double is removed" });
    expect(files()).toEqual([]);
  });

  it("is noted for its first run after a start only", async () => {
    await start();
    save(double);
    const journal = (): string => board!.storage.read(".agentrun")!.split("\xff")[0]!;
    await board!.call("double", { x: 1 });
    await board!.call("double", { x: 2 });
    expect(journal()).toBe("tool.double\n");
    board!.restart();
    await board!.call("double", { x: 3 });
    expect(journal()).toBe("tool.double\ntool.double\n");
  });
});
