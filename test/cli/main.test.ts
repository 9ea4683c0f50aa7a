import { spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { PassThrough, Readable } from "node:stream";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Input } from "../../cli/console";
import { main } from "../../cli/main";
import { buildBundle } from "../../esbuild.config.mjs";
import { run as runDevice } from "../device/program";

let bundle: Awaited<ReturnType<typeof buildBundle>>;
beforeAll(async () => void (bundle = await buildBundle({ write: false })));

let dir: string;
beforeEach(() => void (dir = mkdtempSync(path.join(tmpdir(), "start-"))));
afterEach(() => rmSync(dir, { recursive: true }));

const at = (name: string): string => path.join(dir, name);

interface Started {
  stdin?: Input | string;
  env?: Record<string, string>;
  isTTY?: boolean;
  signal?: AbortSignal;
  build?: typeof buildBundle;
}

/** Runs the program in this process. `output.until` resolves once stdout has shown a text. */
function launch(args: string[], options: Started = {}) {
  let out = "";
  let err = "";
  let check = (): void => {};
  const stdin = typeof options.stdin === "object" ? options.stdin : Readable.from([Buffer.from(options.stdin ?? "")]);
  const exit = main(args, {
    env: options.env ?? {},
    stdin: stdin as Input,
    stdout: {
      isTTY: options.isTTY,
      write(data) {
        out += Buffer.from(data as Uint8Array).toString("latin1");
        check();
      },
    },
    stderr: { write: (data) => void (err += String(data)) },
    signal: options.signal ?? new AbortController().signal,
    build: options.build ?? (async () => bundle),
  });
  return {
    exit,
    until: (text: string) =>
      new Promise<void>((resolve) => {
        check = () => out.includes(text) && resolve();
        check();
      }),
    out: () => Buffer.from(out, "latin1").toString("utf8"),
    err: () => err,
  };
}

async function run(args: string[], options: Started = {}): Promise<{ code: number; out: string; err: string }> {
  const started = launch(args, options);
  const code = await started.exit;
  return { code, out: started.out(), err: started.err() };
}

function readEvents(): { type: string; [key: string]: unknown }[] {
  const lines = readFileSync(at("events.jsonl"), "utf8").trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line));
}

describe("--ask", () => {
  it("prints only the answer and exits with 0", async () => {
    const { code, out, err } = await run(["--ask", "what is 21 times 2"]);
    expect({ code, out }).toEqual({ code: 0, out: "21 times 2 is 42.\n" });
    expect(err).toMatch(/^model: offline-stand-in at http:\/\/127\.0\.0\.1:\d+\/v1 .*\n$/);
  });

  it("writes events and state, with text as UTF-8", async () => {
    const text = 'how many words are in "Größe „zwei“ 🙂"';
    const { code, out } = await run(["--ask", text, "--events", at("events.jsonl"), "--state", at("state.json")]);
    expect(code).toBe(0);
    expect(out).toContain("3 words");
    const events = readEvents();
    expect(events.map((event) => event.type)).toEqual(
      expect.arrayContaining(["iterationStart", "toolStart", "toolEnd"]),
    );
    const start = events.find((event) => event.type === "toolStart")!;
    expect(JSON.parse(start.arguments as string)).toEqual({ text: "Größe „zwei“ 🙂" });
    expect(events.at(-1)).toMatchObject({ type: "final", stopReason: "done" });
    const state = JSON.parse(readFileSync(at("state.json"), "utf8"));
    expect(Object.keys(state).sort()).toEqual(["files", "memory", "pins", "wifi"]);
    expect(state.files).toMatchObject({ agent: bundle.code.length, "agent.json": expect.any(Number) });
  });

  it("exits with 1 and says why on stderr where the server is not there", async () => {
    writeFileSync(at("config.json"), '{"retries":0}');
    const env = {
      AGENT_BASE_URL: "http://127.0.0.1:1/v1",
      AGENT_API_KEY: "sk-hidden",
      AGENT_CONFIG: at("config.json"),
    };
    const { code, out, err } = await run(["--ask", "hello"], { env });
    expect({ code, out }).toEqual({ code: 1, out: "" });
    expect(err).toContain("http://127.0.0.1:1/v1");
    expect(err.split("\n").length).toBeGreaterThan(2);
    expect(err).not.toContain("sk-hidden");
  });

  it("takes a text that looks like an option or a number", async () => {
    expect((await run(["--ask", "-3 plus 5"])).out).toContain("2");
    expect((await run(["--ask=007"])).code).toBe(0);
  });

  it("passes on what the board says about its saved settings", async () => {
    mkdirSync(at("flash"));
    writeFileSync(path.join(at("flash"), "agent.json"), '{"retries":99,"colour":"red"}');
    const { code, err } = await run(["--ask", "hello", "--storage", at("flash")]);
    expect(code).toBe(0);
    expect(err).toMatch(/agent\.json: .*retries/);
    expect(err).toContain("colour");
  });
});

describe("bad usage exits with 2 and one clear line", () => {
  it.each<[string, () => string[], RegExp, (() => Record<string, string>)?]>([
    ["an unknown option", () => ["--nope"], /--nope/],
    ["an unexpected word", () => ["hello"], /"hello"/],
    ["--ask without text", () => ["--ask"], /--ask/],
    ["--ask with an empty text", () => ["--ask", "  "], /--ask/],
    ["--ask twice", () => ["--ask", "a", "--ask", "b"], /more than once/],
    ["--events in no folder", () => ["--events", at("none/events")], /--events: .*none.*ENOENT/],
    ["--state on a folder", () => ["--state", dir], /--state: .*EISDIR/],
    ["--events -", () => ["--events", "-"], /--events: name a file/],
    ["--state -", () => ["--state=-"], /--state: name a file/],
    ["--storage where no folder can be", () => ["--storage", "/proc/nope/flash"], /--storage: .*\/proc\/nope/],
    ["--sd on no folder", () => ["--sd", at("none")], /--sd: .*none cannot be used as an SD card/],
    ["--camera on no folder", () => ["--camera", at("none")], /--camera: .*none cannot be used as a camera/],
    ["--camera on a folder without pictures", () => ["--camera", dir], /--camera: .*there is no \.jpg file in it/],
    [
      "--storage on a file",
      () => {
        writeFileSync(at("file"), "");
        return ["--storage", at("file")];
      },
      /--storage: .*file/,
    ],
    [
      "--storage as Espruino's own command line has it",
      () => ["--storage", `${at("workflow_set")}/night_light:night_light.json`],
      /--storage: ".*" is no folder: .* copy night_light\.json to DIR\/\S*workflow_set%2Fnight_light$/m,
    ],
    [
      "--storage with a file that is there",
      () => {
        writeFileSync(at("agent.js"), "1");
        return ["--storage", `agent:${at("agent.js")}`];
      },
      /--storage: "agent:.*" is no folder: .* copy \S+agent\.js to DIR\/agent$/m,
    ],
    ["AGENT_CONFIG that is not there", () => [], /AGENT_CONFIG: .*none/, () => ({ AGENT_CONFIG: at("none") })],
    ["AGENT_BASE_URL that is none", () => [], /AGENT_BASE_URL/, () => ({ AGENT_BASE_URL: "localhost" })],
    ["an unknown AGENT_PROVIDER", () => [], /AGENT_PROVIDER: .*anthropic/, () => ({ AGENT_PROVIDER: "foo" })],
  ])("%s", async (_, args, message, env = () => ({})) => {
    const { code, out, err } = await run(args(), { env: env() });
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toMatch(message);
    expect(err.trimEnd().split("\n")).toHaveLength(1);
  });
});

it("a secret in a variable that is refused is not shown", async () => {
  const env = { AGENT_BASE_URL: "http://user:sk-hidden@127.0.0.1:1/v1", AGENT_API_KEY: "sk-hidden 2" };
  const { code, out, err } = await run(["--ask", "hi"], { env });
  expect({ code, out }).toEqual({ code: 2, out: "" });
  expect(err).toMatch(/^AGENT_BASE_URL: .*AGENT_API_KEY: [^\n]*\n$/);
  expect(err).not.toContain("sk-hidden");
});

it("--events and --state may not be one file, under whatever names, and what is in it stays", async () => {
  writeFileSync(at("out"), "before");
  symlinkSync(at("out"), at("link"));
  for (const other of [at("out"), path.join(dir, ".", "x", "..", "out"), at("link")]) {
    const { code, out, err } = await run(["--events", at("out"), "--state", other]);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toBe("--events and --state name the same file: name two\n");
    expect(readFileSync(at("out"), "utf8")).toBe("before");
  }
});

it("files from an earlier start are written anew", async () => {
  writeFileSync(at("events.jsonl"), "x".repeat(100_000));
  writeFileSync(at("state.json"), "x".repeat(100_000));
  await run(["--ask", "what is 21 times 2", "--events", at("events.jsonl"), "--state", at("state.json")]);
  expect(readEvents().at(-1)).toMatchObject({ type: "final" });
  expect(JSON.parse(readFileSync(at("state.json"), "utf8"))).toHaveProperty("pins");
});

it.skipIf(process.platform === "win32")("files of events, state and flash are their owner's alone", async () => {
  writeFileSync(at("events.jsonl"), "", { mode: 0o644 });
  const stdin = '\x04set_config({apiKey:"sk-hidden"})\n';
  const args = ["--events", at("events.jsonl"), "--state", at("state.json"), "--storage", at("flash")];
  expect(await run(args, { stdin })).toMatchObject({ code: 0 });
  const names = ["events.jsonl", "state.json", "flash", ...readdirSync(at("flash")).map((name) => `flash/${name}`)];
  expect(names).toContain("flash/agent.json");
  for (const name of names) expect({ name, open: statSync(at(name)).mode & 0o077 }).toEqual({ name, open: 0 });
});

describe.skipIf(!existsSync("/dev/full"))("a full disk", () => {
  it.each<[string, string[], string]>([
    ["under --events", ["--events", "/dev/full"], "what is 21 times 2\nwhat is 21 times 2\n"],
    ["under --events of one question", ["--events", "/dev/full", "--ask", "what is 21 times 2"], ""],
    ["under --state", ["--state", "/dev/full"], "what is 21 times 2\n"],
    ["under --state of one question", ["--state", "/dev/full", "--ask", "what is 21 times 2"], ""],
  ])("%s is one line and exit code 1", async (_, args, stdin) => {
    const { code, err } = await run(args, { stdin });
    expect(code).toBe(1);
    const lines = err
      .trimEnd()
      .split("\n")
      .filter((line) => !line.startsWith("model: "));
    expect(lines).toEqual([expect.stringMatching(/^--(events|state): \/dev\/full cannot be written: ENOSPC/)]);
  });
});

it("exits with 2 and the path where the bundle cannot be written", async () => {
  writeFileSync(at("dist"), "");
  const build: typeof buildBundle = () => buildBundle({ outfile: path.join(at("dist"), "agent.js"), budget: 1e6 });
  const { code, out, err } = await run([], { build });
  expect({ code, out }).toEqual({ code: 2, out: "" });
  expect(err).toMatch(/^dist\/ cannot be written: E\w+: [^\n]*dist[^\n]*\n$/);
});

it("--help and --version", async () => {
  const help = await run(["--help"]);
  expect(help.code).toBe(0);
  for (const word of ["--ask", "--events", "--state", "--storage", "AGENT_BASE_URL"]) expect(help.out).toContain(word);
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  expect(await run(["--version"])).toMatchObject({ code: 0, out: `${version}\n` });
});

it("exits with 1 and the problems where the bundle cannot be built", async () => {
  const problem = { message: "no", hint: "yes", file: "tools/x.ts", line: 3, column: 1 };
  const build = async () => ({ code: "", map: "", sizes: [], problems: [problem] });
  const { code, err } = await run([], { build });
  expect(code).toBe(1);
  expect(err).toContain("tools/x.ts:3");
});

describe("lines in a pipe", () => {
  it("are typed one after another, each when the board is idle", async () => {
    const stdin = "what is 21 times 2\r\nturn on the LED on pin D2\nGrüße";
    const { code, out } = await run(["--state", at("state.json"), "--events", at("events.jsonl")], { stdin });
    expect(code).toBe(0);
    const [first, second, third] = [
      "you> what is 21 times 2\n",
      "21 times 2 is 42.",
      "you> turn on the LED on pin D2\n",
    ].map((text) => out.indexOf(text));
    expect(first).toBeGreaterThan(0);
    expect(second).toBeGreaterThan(first!);
    expect(third).toBeGreaterThan(second!);
    expect(out).toContain("Grüße");
    expect(out).toMatch(/\n\[gpio_write[^\n]*\n/);
    expect(JSON.parse(readFileSync(at("state.json"), "utf8")).pins.D2).toMatchObject({ mode: "output" });
    expect(readEvents().filter((event) => event.type === "final")).toHaveLength(3);
  });

  it("Ctrl-D leaves the chat, a second one the program", async () => {
    const stdin = "\x04print(6*7)\n\x04print('not reached')\n";
    const { code, out } = await run([], { stdin });
    expect(code).toBe(0);
    expect(out).toContain("\n42\n");
    expect(out).not.toContain("not reached");
  });

  it("give exit code 1 if any run failed, and the rest are typed all the same", async () => {
    const change = 'set_config({baseUrl:"http://127.0.0.1:1/v1",retries:0})';
    const stdin = `what is 21 times 2\n\x04${change}\nask("hello")\nprint(6*7)\n`;
    const { code, out } = await run(["--events", at("events.jsonl")], { stdin });
    expect(code).toBe(1);
    expect(out).toContain("\n42\n");
    expect(
      readEvents()
        .filter((event) => event.type === "final")
        .map((event) => event.isError === true),
    ).toEqual([false, true]);
  });

  it("may have no lines at all", async () => {
    expect(await run([])).toMatchObject({ code: 0, err: "" });
  });

  it("never shows the key", async () => {
    const stdin = "\x04show_llm_config\nstatus\n";
    const env = { AGENT_API_KEY: "sk-hidden", AGENT_BASE_URL: "http://127.0.0.1:1/v1?key=sk-hidden" };
    const { code, out, err } = await run([], { stdin, env });
    expect(code).toBe(0);
    expect(out).toContain("model: the server's default at http://127.0.0.1:1/v1");
    expect(out.split("\n")[0]).not.toContain("sk-hidden");
    expect(out).toContain("apiKey: set");
    expect(err).toBe("");
  });
});

describe("--storage", () => {
  it("takes a folder with a colon in its name that is there, and makes none", async () => {
    mkdirSync(at("a:b"));
    expect((await run(["--storage", at("a:b")])).code).toBe(0);
    expect((await run(["--storage", at("a:c")])).code).toBe(2);
    expect(readdirSync(dir)).toEqual(["a:b"]);
  });

  it("keeps the board's files and its own settings, not the environment's", async () => {
    const env = { AGENT_API_KEY: "sk-hidden", AGENT_MODEL: "from-env" };
    const stdin = '\x04set_config({retries:1})\nrequire("Storage").write("notes.txt","hi")\n';
    expect(await run(["--storage", at("flash")], { stdin, env })).toMatchObject({ code: 0 });
    for (const file of readdirSync(at("flash"))) {
      expect(readFileSync(path.join(at("flash"), file), "latin1")).not.toContain("sk-hidden");
    }
    const stdin2 = '\x04show_llm_config\nprint(require("Storage").read("notes.txt"))\n';
    const { out } = await run(["--storage", at("flash")], { stdin: stdin2 });
    expect(out).toContain("retries: 1\n");
    expect(out).toContain("apiKey: not set\n");
    expect(out).toContain("\nhi\n");
    expect(out).not.toContain("from-env");
  });

  it("uses the server the board has saved", async () => {
    const stdin = '\x04set_config({baseUrl:"http://127.0.0.1:1/v1",model:"mine"})\n';
    await run(["--storage", at("flash")], { stdin });
    expect((await run(["--storage", at("flash")])).out).toContain("model: mine at http://127.0.0.1:1/v1\n");
  });

  it("says what is laid over the board's own settings", async () => {
    await run(["--storage", at("flash")], { stdin: '\x04set_config({model:"mine",retries:1})\n' });
    const firstLine = async (env: Record<string, string>) =>
      (await run(["--storage", at("flash")], { env })).out.split("\n")[0];
    expect(await firstLine({})).toMatch(/; for this start, the stand-in is laid over the board's own settings$/);
    writeFileSync(at("config.json"), '{"retries":2}');
    const env = { AGENT_BASE_URL: "http://127.0.0.1:1/v1", AGENT_MODEL: "other" };
    expect(await firstLine(env)).toMatch(/; for this start, AGENT_MODEL is laid over/);
    expect(await firstLine({ ...env, AGENT_CONFIG: at("config.json") })).toMatch(
      /; for this start, AGENT_CONFIG and AGENT_MODEL are laid over/,
    );
    expect(await firstLine({ AGENT_BASE_URL: "http://127.0.0.1:1/v1" })).toBe("model: mine at http://127.0.0.1:1/v1");
  });

  it("says so where the folder cannot be written any more", async () => {
    const build = async () => {
      rmSync(at("flash"), { recursive: true });
      return bundle;
    };
    const { code, out, err } = await run(["--storage", at("flash")], { build });
    expect({ code, lines: out.trimEnd().split("\n").length }).toEqual({ code: 2, lines: 1 });
    expect(err).toMatch(/^--storage: Storage folder .*flash cannot be written: ENOENT[^\n]*\n$/);
  });

  it("starts where the saved server is no URL, and says when the bundle does not fit", async () => {
    await run(["--storage", at("flash")]);
    writeFileSync(path.join(at("flash"), "agent.json"), '{"baseUrl":5}');
    expect(await run(["--storage", at("flash")])).toMatchObject({ code: 0, out: expect.stringContaining("no URL") });
    writeFileSync(path.join(at("flash"), "big"), "x".repeat(870_000));
    rmSync(path.join(at("flash"), "agent"));
    const { code, err } = await run(["--storage", at("flash")], {
      build: async () => ({ ...bundle, code: "1;".repeat(40_000) }),
    });
    expect(code).toBe(2);
    expect(err).toMatch(/^--storage: the bundle \(80000 bytes\) does not fit/);
  });

  it("leaves a start-up file of one's own and settings that are not JSON as they are", async () => {
    await run(["--storage", at("flash")]);
    writeFileSync(path.join(at("flash"), ".bootcde"), "print('mine')");
    writeFileSync(path.join(at("flash"), "agent.json"), "{{{");
    const { code, out, err } = await run(["--storage", at("flash")], { stdin: "what is 21 times 2\n" });
    expect(code).toBe(0);
    expect(out).toContain("\nmine\n");
    expect(out).toContain("21 times 2 is 42.");
    expect(err).toContain("agent.json");
    expect(readFileSync(path.join(at("flash"), ".bootcde"), "utf8")).toBe("print('mine')");
    expect(readFileSync(path.join(at("flash"), "agent.json"), "utf8")).toBe("{{{");
  });
});

describe("--sd and --camera", () => {
  const header = "ffd8ffe000104a46494600010100000100010000ffc000110800f0014003012200021101031101ffda000801010000003f00";
  const picture = Buffer.concat([Buffer.from(header, "hex"), Buffer.alloc(900, 7), Buffer.from("ffd9", "hex")]);
  const lines = "take a photo\nread the file sd:notes.txt\n";

  it("a photo goes to the card, and the stand-in says what it sees", async () => {
    for (const name of ["card", "pictures"]) mkdirSync(at(name));
    writeFileSync(at("card/notes.txt"), "milk, bread");
    writeFileSync(at("pictures/a.jpg"), picture);
    const { code, out, err } = await run(["--sd", at("card"), "--camera", at("pictures")], { stdin: lines });
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toContain(`It is a JPEG image of 320 x 240 pixels, ${picture.length} bytes.`);
    expect(out).toContain("milk, bread");
    expect(readFileSync(at("card/photo1.jpg")).equals(picture)).toBe(true);
  });

  it("pictures of the card are seen", async () => {
    mkdirSync(at("card"));
    writeFileSync(at("card/a.jpg"), picture);
    const { out } = await run(["--sd", at("card"), "--ask", "what is in sd:a.jpg?"]);
    expect(out).toContain(`It is a JPEG image of 320 x 240 pixels, ${picture.length} bytes.`);
  });

  it("the camera is at the port and the speed that are set", async () => {
    mkdirSync(at("pictures"));
    writeFileSync(at("pictures/a.jpg"), picture);
    writeFileSync(at("config.json"), '{"cameraPort":"Serial3","cameraBaud":57600,"multimodal":false}');
    const env = { AGENT_CONFIG: at("config.json") };
    const { code, out } = await run(["--camera", at("pictures"), "--ask", "take a photo"], { env });
    expect(code).toBe(0);
    expect(out).toContain(`photo1.jpg, ${picture.length} bytes`);
    expect(out).not.toContain("JPEG image");
  });
});

describe("a terminal", () => {
  function terminal() {
    const modes: boolean[] = [];
    const input = Object.assign(new PassThrough(), {
      isTTY: true,
      setRawMode: (isRaw: boolean) => void modes.push(isRaw),
    });
    return { input, modes };
  }

  it("is raw while the console is open: Ctrl-C and Ctrl-D go to the board, the second Ctrl-D ends", async () => {
    const { input, modes } = terminal();
    const started = launch([], { stdin: input, isTTY: true });
    await started.until("you> ");
    input.write("abc\x03");
    await started.until("^C");
    input.write("what is 21 times 2\r");
    await started.until("21 times 2 is 42.");
    input.write("\x04");
    await started.until("\n>");
    input.write("1+1\r");
    await started.until("=2");
    input.write("\x04");
    expect(await started.exit).toBe(0);
    expect(modes[0]).toBe(true);
    expect(modes.at(-1)).toBe(false);
  });

  it("two Ctrl-D at once end the program", async () => {
    const { input } = terminal();
    const started = launch([], { stdin: input, isTTY: true });
    await started.until("you> ");
    input.write("\x04\x04");
    expect(await started.exit).toBe(0);
  });

  it("is given back when a signal ends the program, and the state is written", async () => {
    const { input, modes } = terminal();
    const stop = new AbortController();
    const started = launch(["--state", at("state.json")], { stdin: input, isTTY: true, signal: stop.signal });
    await started.until("you> ");
    stop.abort(143);
    expect(await started.exit).toBe(143);
    expect(modes.at(-1)).toBe(false);
    expect(JSON.parse(readFileSync(at("state.json"), "utf8"))).toHaveProperty("pins");
  });
});

describe("the process", () => {
  const root = new URL("../..", import.meta.url);
  const start = (...args: string[]) =>
    spawn(process.execPath, ["--import", "tsx", "cli/start.ts", ...args], { cwd: root });
  const exitOf = (child: ReturnType<typeof start>) =>
    new Promise<number | null>((resolve) => child.on("exit", (code) => resolve(code)));

  it("answers on stdout and exits", async () => {
    const child = start("--ask", "what is 21 times 2");
    let out = "";
    child.stdout.on("data", (data) => (out += String(data)));
    expect(await exitOf(child)).toBe(0);
    expect(out).toBe("21 times 2 is 42.\n");
    expect(existsSync(new URL("dist/agent.js", root))).toBe(true);
  });

  it("ends with 143 on SIGTERM and 141 where nobody reads", async () => {
    const child = start();
    await new Promise<void>((resolve) =>
      child.stdout.on("data", (data) => String(data).includes("chat:") && resolve()),
    );
    child.kill("SIGTERM");
    expect(await exitOf(child)).toBe(143);
    const unread = start();
    unread.stdout.destroy();
    expect(await exitOf(unread)).toBe(141);
  });
});

describe("offered to other programs", () => {
  it("hangs in a board program's loop as a board does, until Ctrl-C comes; a signal ends it all the same", async () => {
    const root = new URL("../..", import.meta.url);
    const child = spawn(process.execPath, ["--import", "tsx", "cli/start.ts", "--listen", "0"], { cwd: root });
    try {
      let out = "";
      let err = "";
      let look = (): void => {};
      child.stdout.on("data", (data) => (out += String(data), look()));
      child.stderr.on("data", (data) => (err += String(data), look()));
      const until = (isThere: () => boolean) =>
        new Promise<void>((resolve) => {
          look = () => isThere() && resolve();
          look();
        });
      await until(() => /console: tcp:\S+\n/.test(out));
      const port = /console: (tcp:\S+)/.exec(out)![1]!;
      const typed = await runDevice(["console", "--port", port, "--send", "while(1);", "--timeout", "1"]);
      expect(typed).toMatchObject({ code: 1, err: "the prompt did not come back within 1 s\n" });
      await until(() => err.includes("Ctrl-C at a connected console breaks it"));
      const next = await runDevice(["console", "--port", port, "--send", "6*7", "--expect", "=42"]);
      expect(next).toMatchObject({ code: 0, err: "" });
      await until(() => err.includes("the board listens again"));
      await runDevice(["console", "--port", port, "--send", "while(1);", "--timeout", "1"]);
      await until(() => err.split("Ctrl-C at a connected console").length === 3);
      const exit = new Promise((resolve) => child.on("exit", (_, signal) => resolve(signal)));
      child.kill("SIGTERM");
      expect(await exit).toBe("SIGTERM");
    } finally {
      child.kill("SIGKILL");
    }
  });

  it("is at the interpreter's prompt on a TCP port, and goes on when the input ends", async () => {
    const stopped = new AbortController();
    const started = launch(["--listen", "0"], { signal: stopped.signal });
    await started.until("console: tcp://");
    const port = /console: (tcp:\S+)/.exec(started.out())![1]!;
    const seen = await runDevice(["console", "--port", port, "--send", "E.getConsole()", "--expect", '="Serial1"']);
    expect(seen).toMatchObject({ code: 0, err: "" });
    const taken = await run(["--listen", port.replace(/^tcp:\/\//, "")]);
    expect(taken).toMatchObject({ code: 1 });
    expect(taken.err).toMatch(/^port \d+ of 127\.0\.0\.1 is taken by another program/);
    stopped.abort(143);
    expect(await started.exit).toBe(143);
    await expect(runDevice(["console", "--port", port, "--send", "1"])).resolves.toMatchObject({ code: 1 });
  });

  it.skipIf(process.platform === "win32")("is a pseudo-terminal that is a serial port", async () => {
    const stopped = new AbortController();
    const started = launch(["--pty"], { signal: stopped.signal });
    await started.until("console: /dev/");
    const port = /console: (\/dev\/\S+)/.exec(started.out())![1]!;
    const seen = await runDevice(["console", "--port", port, "--send", "6*7", "--expect", "=42"]);
    expect(seen).toMatchObject({ code: 0, err: "" });
    stopped.abort(143);
    expect(await started.exit).toBe(143);
  });
});
