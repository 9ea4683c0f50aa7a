import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readArguments } from "../../cli/arguments";
import { printable } from "../../esbuild.slices.mjs";
import type { Command } from "../../cli/command";
import { UsageError } from "../../cli/settings";
import { cut } from "../../cli/upload";
import { explainSerial, listPorts, openWire, tellPorts } from "../../cli/wire";
import { run } from "../device/program";

let dir: string;
beforeEach(() => void (dir = mkdtempSync(path.join(tmpdir(), "program-"))));
afterEach(() => rmSync(dir, { recursive: true }));

const command: Command = {
  name: "try",
  usage: "",
  summary: "Tries",
  examples: ["espruino-agent try"],
  options: [
    ["--text <text>", "A text"],
    ["--retry-after <text>", "Another"],
    ["--json", "A switch"],
    ["--no-boot", "A switch that is on"],
  ],
  run: async () => 0,
};

describe("the command line", () => {
  it("leaves texts as they were typed", () => {
    fc.assert(
      fc.property(fc.string(), fc.array(fc.string()), (text, words) => {
        fc.pre(text.trim() !== "" && !["--text", "--retry-after"].includes(text));
        const positional = words.filter((word) => !word.startsWith("-"));
        const read = readArguments(command, [...positional.slice(0, 1), "--text", text, ...positional.slice(1)]);
        expect(read.positional).toEqual(positional);
        expect(read.options.text).toBe(text);
        expect(readArguments(command, [`--text=${text}`]).options.text).toBe(text);
        expect(readArguments(command, ["--", ...words]).positional).toEqual(words);
      }),
    );
    const { positional, options } = readArguments(command, ["--json", "007", "--text", "-3 plus 5", "1e3"]);
    expect({ positional, text: options.text, json: options.json }).toEqual({
      positional: ["007", "1e3"],
      text: "-3 plus 5",
      json: true,
    });
  });

  it("knows switches that are on, and names with dashes", () => {
    expect(readArguments(command, []).options).toEqual({ boot: true });
    expect(readArguments(command, ["--no-boot", "--retry-after", "2"]).options).toMatchObject({
      boot: false,
      retryAfter: "2",
    });
  });

  it.each([
    [["--nope"], /--nope/],
    [["-x"], /-x/],
    [["--text"], /--text needs a value/],
    [["--text", " "], /--text needs a value that is not empty/],
    [["--text", "a", "--text", "b"], /--text was given more than once/],
    [["--retry-after"], /--retry-after needs a value/],
    [["--json", "--json"], /--json was given more than once/],
    [["--json=7"], /--json takes no value/],
  ])("%j is refused", (args, message) => {
    expect(() => readArguments(command, args)).toThrow(UsageError);
    expect(() => readArguments(command, args)).toThrow(message);
  });
});

describe("espruino-agent", () => {
  it("lists its commands, and each has a help with examples", async () => {
    const { code, out } = await run(["--help"]);
    expect(code).toBe(0);
    const names = ["sim", "flash", "console", "gateway", "doctor"];
    for (const name of names) {
      expect(out).toMatch(new RegExp(`^  ${name} +[A-Z]`, "m"));
      for (const help of [await run([name, "--help"]), await run(["help", name])]) {
        expect(help).toMatchObject({ code: 0, err: "" });
        expect(help.out).toMatch(/^Usage: espruino-agent \w+/m);
        expect(help.out).toMatch(/^Examples:\n {2}.*espruino-agent/m);
        for (const line of help.out.split("\n")) expect(line.length).toBeLessThanOrEqual(130);
      }
    }
    expect((await run(["--version"])).out).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  it.each([
    [[], /Usage: espruino-agent <command>/],
    [["nope"], /there is no command "nope": sim, flash/],
    [["constructor"], /there is no command "constructor"/],
    [["flash", "board"], /unexpected "board": the port is named by --port/],
    [["flash", "--port", "udp://host:1"], /"udp:\/\/host:1" is no port/],
    [["flash", "--port", "tcp://host"], /"tcp:\/\/host" is no port/],
    [["flash", "--port", "tcp://host:0"], /is no port/],
    [["flash", "--port", "tcp://host:99999"], /is no port/],
    [["flash", "--port", "x", "--baud", "fast"], /--baud: "fast" is no rate/],
    [["flash", "--port", "x", "--config", "/none/agent.json"], /--config: \/none\/agent\.json cannot be read/],
    [["flash", "--port", "x", "--gateway", "localhost"], /--gateway has to be a URL/],
    [["flash", "--port", "x", "--gateway", "http://me:sk-secret@host"], /--gateway has to be a URL/],
    [
      ["flash", "--port", "x", "--gateway", "http://host", "--token", "sk secret"],
      /--token: apiKey must not contain spaces/,
    ],
    [["flash", "--port", "x", "--token", "sk-secret"], /--token needs --gateway/],
    [["flash", "--port", "x", "--replace-config"], /--replace-config needs/],
    [["flash", "--port", "x", "--wifi", "Home"], /set AGENT_WIFI_PASSWORD/],
    [["console", "--port", "x", "--timeout", "soon"], /--timeout: "soon" is no number/],
    [["console", "--port", "x", "hello"], /text for the board goes behind --send/],
    [["doctor", "--port", "tcp://"], /is no port/],
    [["sim", "--listen", "no"], /--listen: "no" is no port/],
    [["sim", "--ask", "x", "--listen", "1"], /nobody could connect/],
  ])("%j is bad usage: 2 and no secret", async (args, message) => {
    const { code, out, err } = await run(args);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toMatch(message);
    expect(err).not.toContain("secret");
  });

  it.each([
    ["{", /--config: .* is not JSON/],
    ["[]", /--config: .* has to hold a JSON object/],
    ['{"colour":1}', /--config: no setting is called colour/],
    ['{"retries":99}', /--config: retries must be/],
    ['{"apiKey":"a b"}', /--config: apiKey must not contain/],
  ])("a --config with %s is refused before anything is opened", async (text, message) => {
    const file = path.join(dir, "agent.json");
    writeFileSync(file, text);
    const { code, err } = await run(["flash", "--port", "tcp://127.0.0.1:1", "--config", file]);
    expect(code).toBe(2);
    expect(err).toMatch(message);
  });

  it.each([["short"], ["x".repeat(65)]])("a Wi-Fi password that cannot be one is refused (%s)", async (password) => {
    const env = { AGENT_WIFI_PASSWORD: password };
    const { code, err } = await run(["flash", "--port", "tcp://127.0.0.1:1", "--wifi", "Home"], { env });
    expect({ code, err }).toEqual({
      code: 2,
      err: "the Wi-Fi password has to have 8 to 63 characters; leave it empty for an open network\n",
    });
  });

  it("a port that cannot be opened is 1 and a line, as JSON where that is wanted", async () => {
    const missing = path.join(dir, "ttyUSB0");
    for (const port of ["tcp://127.0.0.1:1", missing, "tcp://no-such-host.invalid:1"]) {
      for (const name of ["flash", "console", "doctor"]) {
        const { code, out, err } = await run([name, "--port", port]);
        expect(code).toBe(1);
        expect(name === "doctor" ? out : err).toMatch(/nobody listens|there is no port|no such host/);
      }
    }
    const { code, out, err } = await run(["flash", "--port", missing, "--json"]);
    expect({ code, err }).toEqual({ code: 1, err: "" });
    expect(JSON.parse(out)).toEqual({ ok: false, port: missing, error: expect.stringContaining("there is no port") });
  });

  it("starts as a program of its own", { timeout: 60_000 }, async () => {
    const file = fileURLToPath(new URL("../../cli/espruino-agent.mjs", import.meta.url));
    const started = await new Promise<{ code: unknown; out: string; err: string }>((resolve) => {
      execFile(process.execPath, [file, "nope"], { cwd: dir }, (error, out, err) =>
        resolve({ code: error?.code, out, err }),
      );
    });
    expect(started).toMatchObject({ code: 2, out: "" });
    expect(started.err).toMatch(/^there is no command "nope"/);
  });
});

describe("ports", () => {
  it("are found without udev", async () => {
    if (process.platform !== "linux") return;
    expect(await listPorts(path.join(dir, "none"))).toEqual([]);
    for (const name of ["ttyUSB10", "ttyUSB2", "ttyACM0", "ttyS0", "tty1", "null"])
      writeFileSync(path.join(dir, name), "");
    const byId = path.join(dir, "serial", "by-id");
    mkdirSync(byId, { recursive: true });
    symlinkSync("../../ttyUSB2", path.join(byId, "usb-Silicon_Labs_CP2102_USB_to_UART_0001-if00-port0"));
    const ports = await listPorts(dir);
    expect(ports).toEqual([
      { path: path.join(dir, "ttyACM0"), description: "" },
      { path: path.join(dir, "ttyUSB2"), description: "Silicon Labs CP2102 USB to UART 0001" },
      { path: path.join(dir, "ttyUSB10"), description: "" },
    ]);
    expect(tellPorts(ports.slice(1, 2))).toBe(`There is ${dir}/ttyUSB2 (Silicon Labs CP2102 USB to UART 0001)`);
  });

  // Messages as serialport gives them, on Linux, macOS and Windows.
  it.each<[string, NodeJS.Platform, RegExp]>([
    [
      "Error: No such file or directory, cannot open /dev/ttyUSB0",
      "linux",
      /^there is no port \/dev\/ttyUSB0\. There is COM7/,
    ],
    ["Opening /dev/ttyUSB0: File not found", "win32", /^there is no port/],
    ["Error: Permission denied, cannot open /dev/ttyUSB0", "linux", /sudo usermod -aG dialout \$USER, then log out/],
    ["Error Resource temporarily unavailable Cannot lock port", "linux", /is in use: close the other program/],
    ["Error: Resource busy, cannot open /dev/ttyUSB0", "darwin", /is in use/],
    ["Opening /dev/ttyUSB0: Access denied", "win32", /is in use/],
    ["Error: Permission denied, cannot open /dev/ttyUSB0", "darwin", /no permission to open it$/],
    ["Error: Inappropriate ioctl for device, cannot open", "linux", /is no serial port/],
    ["Error: Something else", "linux", /cannot be opened: Error: Something else/],
  ])("%s (%s)", (message, platform, expected) => {
    expect(explainSerial("/dev/ttyUSB0", message, [{ path: "COM7", description: "" }], platform)).toMatch(expected);
  });

  it("what is no serial port is told", async () => {
    writeFileSync(path.join(dir, "file"), "");
    await expect(openWire(path.join(dir, "file"))).rejects.toThrow(/is no serial port/);
    await expect(openWire(dir)).rejects.toThrow(dir);
  });
});

it("what is sent has no control characters, and is the same program", () => {
  const code = 'var s="\x03\x04\x11\x13\x7f\x00",r=/[\x01-\x1f]/;\n';
  const safe = printable(code).text;
  expect(safe).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f]/);
  expect(new Function(`${safe}return [s, r.source]`)()).toEqual(["\x03\x04\x11\x13\x7f\x00", "[\\x01-\\x1f]"]);
  const template = "return `a\n\x03${`\n`}\n` + 1\n;";
  expect(printable(template).text.split("\n")).toHaveLength(2);
  expect(new Function(printable(template).text)()).toBe(new Function(template)());
  expect(printable("print(`\n").text).toBe("print(`\n");
});

it("pieces are at most so long, and have harmless lengths", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 5000 }), fc.integer({ min: 1, max: 1100 }), (length, size) => {
      const content = "x".repeat(length);
      const pieces = cut(content, size);
      expect(pieces.join("")).toBe(content);
      for (const piece of pieces) {
        expect(piece.length).toBeGreaterThan(0);
        expect(piece.length).toBeLessThanOrEqual(size);
        expect([3, 4, 17, 19]).not.toContain(piece.length & 0xff);
      }
    }),
  );
});
