/** Boards and wires that do not do what they should: what a person is told, and that nothing is lost. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { httpsWarning } from "../../cli/board-settings";
import { createDevice, describeBoard, DeviceError, maskSecrets } from "../../cli/device";
import { flashBoard } from "../../cli/flash";
import { joinWifi } from "../../cli/wifi";
import { readSum, sumOf, uploadFile } from "../../cli/upload";
import { boardLiteral } from "../../cli/text";
import { createStorage } from "../../host-sim/storage";
import { createBench, createFaultyWire, listen, quiet, type WireFaults } from "./bench";
import { agentCode } from "./program";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Something on a wire that answers as `answer` says; `say` prints on its own. */
function createThing(answer: (bytes: string, say: (text: string) => void) => void) {
  const listeners = new Set<(bytes: string) => void>();
  const say = (text: string): void => {
    for (const listener of [...listeners]) listener(text);
  };
  return {
    say,
    console: {
      write: (bytes: string) => answer(bytes, say),
      onData(listener: (bytes: string) => void) {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      },
    },
  };
}

/** What `wake` says of something that prints `text` at once, and again every `everyMs`. */
async function explain(text: string, everyMs: number) {
  const thing = createThing(() => {});
  setTimeout(() => thing.say(text), 50);
  const timer = setInterval(() => thing.say(text), everyMs);
  try {
    const bench = createBench();
    const device = createDevice(createFaultyWire(thing.console));
    return await bench.run(
      device.wake().then(
        () => expect.fail("it is no Espruino"),
        (error: unknown) => {
          expect(error).toBeInstanceOf(DeviceError);
          return (error as Error).message;
        },
      ),
    );
  } finally {
    clearInterval(timer);
  }
}

const bootLog =
  "ets Jun  8 2016 00:22:57\r\n\r\nrst:0x1 (POWERON_RESET),boot:0x13 (SPI_FAST_FLASH_BOOT)\r\nconfigsip: 0\r\n" +
  "I (29) boot: ESP-IDF v3.3 2nd stage bootloader\r\n";
const panic = "Guru Meditation Error: Core  0 panic'ed (LoadProhibited).\r\nBacktrace: 0x400d1\r\nRebooting...\r\n";

describe("what is at the end of the wire is told", () => {
  it.each<[string, string, number, RegExp[]]>([
    ["nothing", "", 500, [/^test: nothing answers/, /esptool/, /espruino_2v27_esp32\.tgz/]],
    ["a crash loop", bootLog + panic, 1500, [/restarts again and again: Guru Meditation/, /erase_region 0x320000/]],
    ["too little power", `${bootLog}Brownout detector was triggered\r\n`, 1500, [/too little power/]],
    [
      "a boot loader that finds nothing",
      bootLog,
      20_000,
      [/only the board's boot loader/, /If it has none: /, /0x10000 espruino_esp32\.bin/],
    ],
    ["the download mode", `${bootLog}waiting for download\r\n`, 20_000, [/BOOT pin/, /RESET/]],
    ["another baud rate", "\x9c\xfe\x00\xe0\x1c\x8e\xff\x13\xf2ab\x80", 300, [/wrong baud rate/, /115200/]],
    ["MicroPython", "MicroPython v1.20 on 2023; ESP32\r\n>>> ", 20_000, [/runs Python/]],
    [
      "something that prints now and then",
      "temperature: 21.5\r\n",
      1000,
      [/prints all the time \("temperature: 21\.5"\)/, /RESET/, /^(?!.*esptool)/s],
    ],
    ["something that prints without end", "tick tick\r\n", 10, [/all the time \("tick tick"\)/, /^(?!.*esptool)/s]],
    [
      "an Espruino that prints without end",
      "Uncaught Error: no\r\n    at REPL (:1:21)\r\ntick\r\ntick\r\n",
      10,
      [/^test: Espruino is there, but something prints all the time \("tick"\)/, /\.bootcde/, /^(?!.*esptool)/s],
    ],
    [
      "an Espruino that prints without end, after RESET",
      `${bootLog}>\r\nx\r\nx\r\n`,
      10_000,
      [/^test: Espruino is there/, /^(?!.*esptool)/s],
    ],
    ["a password", "\r\npassword>", 1000, [/has a password/]],
  ])("%s", async (_, text, everyMs, messages) => {
    const message = await explain(text, everyMs);
    for (const expected of messages) expect(message).toMatch(expected);
  });

  /** What `wake` says of something that answers. */
  async function explainAnswer(answer: (bytes: string) => string, port = "test"): Promise<string> {
    const thing = createThing((bytes, say) => say(answer(bytes)));
    const bench = createBench();
    const waits: string[] = [];
    const wire = { ...createFaultyWire(thing.console), port };
    const device = createDevice(wire, { onWait: (what) => void waits.push(what) });
    const outcome = await bench.run(device.wake().catch((error: unknown) => error));
    expect(outcome).toBeInstanceOf(DeviceError);
    if (waits.length > 0) expect(waits[0]).toMatch(/waiting for/);
    return (outcome as Error).message;
  }

  it("a wire that ends in itself", async () => {
    const message = await explainAnswer((bytes) => bytes);
    expect(message).toMatch(/comes back as it is, and nothing else: .*RX and TX/);
    expect(message).not.toMatch(/baud|esptool/);
  });

  it("another firmware with a prompt of its own, at the end of a bridge whose port is not known", async () => {
    const message = await explainAnswer(
      (bytes) => (bytes.includes("\r") ? "\r\nesp32> Unrecognized command\r\nesp32> " : ""),
      "tcp://10.0.0.5:3333",
    );
    expect(message).toMatch(/answers, but not as Espruino does: "esp32> Unrecognized command/);
    expect(message).toMatch(/--port PORT --baud/);
    expect(message).toMatch(/\(at the machine that tcp:\/\/10\.0\.0\.5:3333 leads to: PORT is/);
    expect(message).not.toContain("ttyUSB0");
  });

  it("MicroPython that answers", async () => {
    const answer = (bytes: string): string => (bytes.includes("\r") ? "\r\nSyntaxError\r\n>>> " : "");
    expect(await explainAnswer(answer)).toMatch(/runs Python/);
  });

  it("an Espruino that does not answer", async () => {
    expect(await explain(" 2v29 (c) 2025 G.Williams\r\nhttp://espruino.com/Donate\r\n", 20_000)).toMatch(
      /Espruino is there, but does not/,
    );
  });

  it("a board that is just starting is waited for", async () => {
    const bench = createBench();
    const board = bench.power();
    const listeners = new Set<(bytes: string) => void>();
    let isUp = false;
    board.console.onData((bytes) => isUp && listeners.forEach((listener) => listener(bytes)));
    const wire = createFaultyWire({
      write: (bytes) => isUp && board.console.write(bytes),
      onData(listener) {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      },
    });
    setTimeout(() => listeners.forEach((listener) => listener(bootLog)), 300);
    setTimeout(() => (isUp = true), 6000);
    expect(await bench.run(createDevice(wire).wake())).toEqual([]);
  });

  it.each([
    ["another firmware", { VERSION: "1.0", BOARD: "X" }, /unknown firmware \(X, version 1\.0\)/],
    ["no version at all", {}, /unknown firmware \(no board, version none\)/],
    ["an old one", { VERSION: "2v04", BOARD: "ESP32" }, /Espruino 2v04 is too old: the agent needs 2v14/],
  ])("%s", async (_, env, message) => {
    const bench = createBench();
    bench.power().evaluate(`Object.defineProperty(process,"env",{get:function(){return ${JSON.stringify(env)}}})`);
    const device = createDevice(bench.wire());
    await bench.run(device.wake());
    await expect(bench.run(describeBoard(device))).rejects.toThrow(message);
  });
});

describe("what holds the console is left", () => {
  it("the agent's chat, with a line typed half", async () => {
    const bench = createBench();
    const board = bench.power();
    // As the agent's chat does it.
    board.evaluate(
      'var lines=[];function chat(){var l="";echo(false);E.setConsole(null,{force:true});Serial1.write("\\ryou> ");' +
        'Serial1.on("data",function(d){for(var c of d){if(c=="\\r"){if(l=="exit"){Serial1.removeAllListeners("data");' +
        'E.setConsole(Serial1,{force:true});echo(true);Serial1.write("\\r\\n>");return}' +
        'if(l)lines.push(l);l="";Serial1.write("\\r\\nyou> ")}' +
        'else if(c=="\\x03"){l="";Serial1.write("^C\\r\\nyou> ")}else if(c>=" ")l+=c}})}',
    );
    board.console.write("\x10chat()\n");
    board.console.write("delete every");
    const device = createDevice(bench.wire());
    expect(await bench.run(device.wake())).toEqual(["left the agent's chat"]);
    // Nothing was asked of the model.
    expect(await bench.run(device.evaluate("lines"))).toEqual([]);
  });

  it("a line that was begun", async () => {
    const bench = createBench();
    bench.power().console.write("print((1+");
    expect(await bench.run(createDevice(bench.wire()).wake())).toEqual([]);
  });

  it("a prompt that does not echo", async () => {
    const bench = createBench();
    bench.power().evaluate("echo(0)");
    const device = createDevice(bench.wire());
    await bench.run(device.wake());
    expect(await bench.run(device.evaluate("6*7"))).toBe(42);
  });
});

describe("an upload", () => {
  const content = agentCode("x", 6000);

  async function upload(faults: WireFaults, hasPackets = true, capacity?: number) {
    const bench = createBench({ storage: createStorage(capacity === undefined ? {} : { capacity }) });
    bench.power();
    const device = createDevice(bench.wire(faults));
    const steps: number[] = [];
    const outcome = await bench
      .run(uploadFile(device, "file", content, { hasPackets, onProgress: (bytes) => steps.push(bytes) }))
      .catch((error: unknown) => error as Error);
    return { outcome, steps, stored: bench.storage.api.read("file") };
  }

  it("goes in packets, or in lines where the firmware is old", async () => {
    expect(await upload({})).toMatchObject({ outcome: { method: "packets", restarts: 0 }, stored: content });
    expect(await upload({}, false)).toMatchObject({ outcome: { method: "lines", restarts: 0 }, stored: content });
  });

  it("falls back to lines where packets are not answered", async () => {
    // A bridge that keeps SOH for itself.
    const toBoard = (bytes: string): string => bytes.replaceAll("\x01", "");
    expect(await upload({ toBoard })).toMatchObject({ outcome: { method: "lines" }, stored: content });
  });

  it("sends a packet again after NAK", async () => {
    let naks = 0;
    const toHost = (bytes: string): string => (bytes === "\x06" && naks++ === 2 ? "\x15" : bytes);
    // This NAK was an ACK: the piece is there twice, the CRC tells, and it begins anew.
    expect(await upload({ toHost })).toMatchObject({ outcome: { method: "packets", restarts: 1 }, stored: content });
  });

  it("goes on after a lost ACK", async () => {
    let acks = 0;
    const toHost = (bytes: string): string => (bytes === "\x06" && acks++ === 2 ? "" : bytes);
    const { outcome, steps, stored } = await upload({ toHost });
    expect({ outcome, stored }).toEqual({ outcome: { method: "packets", restarts: 0 }, stored: content });
    expect(steps).toEqual([...steps].sort((a, b) => a - b));
  });

  it("goes on after a lost byte", async () => {
    const toBoard = (bytes: string, at: number): string =>
      at <= 2000 && at + bytes.length > 2000 ? bytes.slice(0, 2000 - at) + bytes.slice(2001 - at) : bytes;
    expect(await upload({ toBoard })).toMatchObject({ outcome: { method: "packets", restarts: 0 }, stored: content });
  });

  it("begins anew after a changed byte", async () => {
    let changes = 1;
    const toBoard = (bytes: string): string =>
      bytes.startsWith("\x10\x01\x81") && changes-- > 0 ? bytes.replace("x", "y") : bytes;
    expect(await upload({ toBoard })).toMatchObject({ outcome: { method: "packets", restarts: 1 }, stored: content });
  });

  it("gives up where the wire changes something every time", async () => {
    const toBoard = (bytes: string): string => (bytes.startsWith("\x10\x01\x81") ? bytes.replace("x", "y") : bytes);
    const { outcome } = await upload({ toBoard });
    expect((outcome as Error).message).toMatch(/^file did not arrive as it was sent, 4 times: a bad cable/);
  });

  it("finds the Storage full", async () => {
    for (const hasPackets of [true, false]) {
      const { outcome } = await upload({}, hasPackets, 4096);
      expect((outcome as Error).message).toMatch(/Storage is full|Unable to find or create file/);
    }
  });

  it("ends where the board falls silent", async () => {
    const bench = createBench();
    bench.power();
    const device = createDevice(bench.wire({ toBoard: (bytes, at) => (at < 3000 ? bytes : "") }));
    await bench.run(device.wake());
    const outcome = bench.run(uploadFile(device, "file", content, { hasPackets: true }));
    await expect(outcome).rejects.toThrow(
      /^test: the board stopped answering\. Press its RESET button, and run this again$/,
    );
  });

  it("survives a board that resets itself in the middle", async () => {
    const bench = createBench();
    const board = bench.power();
    let isReset = false;
    const toBoard = (bytes: string, at: number): string => {
      if (at < 3000 || isReset) return bytes;
      isReset = true;
      setTimeout(() => board.console.write("\x15\x10load()\n"), 5);
      return "";
    };
    const device = createDevice(bench.wire({ toBoard }));
    await bench.run(uploadFile(device, "file", content, { hasPackets: true }));
    expect(await bench.run(readSum(device, "file"))).toEqual(sumOf(content));
  });
});

describe("flash", () => {
  const job = (code: string) => ({ code, isBoot: true });

  it("says what is missing where the Storage is too full, and changes nothing", async () => {
    const storage = createStorage({ capacity: 8192 });
    storage.api.write("agent", agentCode("old", 1000));
    storage.api.write("mine", "x".repeat(4500));
    const bench = createBench({ storage });
    bench.power();
    const before = storage.api.list().map((name) => [name, storage.api.read(name)]);
    const outcome = bench.run(flashBoard(createDevice(bench.wire()), job(agentCode("new", 3000)), quiet));
    await expect(outcome).rejects.toThrow(/Storage is too full: \d+ bytes are needed, \d+ are free.*erase/s);
    expect(storage.api.list().map((name) => [name, storage.api.read(name)])).toEqual(before);
  });

  it("makes room by compacting", async () => {
    const storage = createStorage({ capacity: 8192 });
    storage.api.write("trash", "x".repeat(5000));
    storage.api.erase("trash");
    storage.api.write("agent", agentCode("old", 500));
    const bench = createBench({ storage });
    bench.power();
    await bench.run(flashBoard(createDevice(bench.wire()), job(agentCode("new", 1500)), quiet));
    expect(storage.api.read("agent")).toBe(agentCode("new", 1500));
  });

  it.each([
    ["2v14", ""],
    ["2v24", ""],
    ["2v24", "echo(0)"],
  ])("uses lines on firmware %s, which knows no packets and no enquiry (own code: %j)", async (version, own) => {
    const storage = createStorage();
    // From the first boot file on it is that firmware, after each reset, too.
    const env = `function(){e.VERSION="${version}";return e}`;
    storage.api.write(".boot0", `(function(e){Object.defineProperty(process,"env",{get:${env}})})(process.env)`);
    if (own !== "") storage.api.write(".bootcde", own);
    storage.api.write("agent", agentCode("old", 700));
    const bench = createBench({ storage });
    bench.power();
    const toBoard = (bytes: string): string => {
      expect(bytes).not.toContain("\x10\x01");
      return bytes.replaceAll("\x05", "");
    };
    const progress = listen();
    const device = createDevice(bench.wire({ toBoard }));
    const whole = { ...job(agentCode("new", 900)), settings: { model: "m" } };
    const result = await bench.run(flashBoard(device, whole, progress));
    expect(result).toMatchObject({ version, agent: { isChanged: true, method: "lines" }, isStarted: true });
    expect(progress.lines.join("\n")).toMatch(/written line by line, CRC read back, tried/);
    expect(storage.api.read("agent")).toBe(agentCode("new", 900));
    expect(storage.api.list().sort()).toEqual([".boot0", ".bootcde", "agent", "agent.json"]);
  });

  it.each([
    ["does not parse", "print(1", /does not start on this board: the board says: SyntaxError/],
    ["throws", 'throw new Error("no PSRAM")', /does not start on this board: the board says: Error: no PSRAM/],
  ])("keeps the old agent where the new one %s", async (_, code, message) => {
    const storage = createStorage();
    const old = agentCode("old", 500);
    storage.api.write("agent", old);
    const bench = createBench({ storage });
    bench.power();
    const outcome = bench.run(flashBoard(createDevice(bench.wire()), job(code), quiet));
    await expect(outcome).rejects.toThrow(message);
    expect(storage.api.list()).toEqual(["agent"]);
    expect(storage.api.read("agent")).toBe(old);
  });

  it("tells where the board's own program keeps the agent from starting", async () => {
    const storage = createStorage();
    storage.api.write(".boot0", 'Modules.addCached("agent","exports=1")');
    const bench = createBench({ storage });
    bench.power();
    const progress = listen();
    const outcome = bench.run(flashBoard(createDevice(bench.wire()), job(agentCode("new", 500)), progress));
    await expect(outcome).rejects.toThrow(/everything is on the board, but the agent did not start/);
  });

  /** `flash` onto a board with code of its own in `.bootcde`. */
  async function flashOver(own: string, faults: WireFaults = {}) {
    const storage = createStorage();
    if (own !== "") storage.api.write(".bootcde", own);
    const bench = createBench({ storage });
    bench.power();
    const progress = listen();
    const work = flashBoard(createDevice(bench.wire(faults)), job(agentCode("new", 500)), progress);
    const outcome = await bench.run(work.catch((error: unknown) => (error as Error).message));
    return { outcome, lines: progress.lines.join("\n") };
  }

  it.each<[string, string, RegExp]>([
    ["restarts the board", "setTimeout(function(){E.reboot()},500)", /restarts by itself after the agent was loaded\. Run flash again; if it happens again: its/],
    [
      "takes the console away",
      "if(global.agentName)E.setConsole(null,{force:true})",
      /the board does not answer after the agent was loaded\. Its/,
    ],
    [
      "takes it away a moment later",
      "setTimeout(function(){E.setConsole(null,{force:true})},900)",
      /the board does not answer after the agent was loaded\. Its/,
    ],
  ])("says so where the person's own code behind the agent's line %s", async (_, own, message) => {
    const { outcome, lines } = await flashOver(own);
    expect(outcome).toMatch(/^everything is on the board, but /);
    expect(outcome).toMatch(message);
    expect(outcome).toMatch(/has \d+ bytes of code of your own .*\.erase\("\.bootcde"\)/);
    expect(lines).not.toContain("The agent runs");
  });

  it.each([
    ["prints all the time", 'setInterval(function(){print("tick")},50)'],
    ["turns the echo off", "echo(0)"],
    [
      "goes into a chat",
      'if(global.agentName){E.setConsole(null,{force:true});Serial1.write("\\r\\nyou> ")}',
    ],
  ])("is content where the person's own code %s", async (_, own) => {
    const { outcome, lines } = await flashOver(own);
    expect(outcome).toMatchObject({ isStarted: true });
    expect(lines).toContain("The agent runs");
  });

  it("says what a board prints that answers nothing after the agent was loaded", async () => {
    let isOver = false;
    const toHost = (bytes: string): string => {
      isOver ||= bytes.includes("espruino-agent: ask new");
      return isOver && !bytes.includes("espruino-agent") ? "x\r\n" : bytes;
    };
    let isTrying = true;
    const { outcome } = await flashOver("", {
      toHost: (bytes) => {
        // The first time it is tried.
        if (isTrying && bytes.includes("espruino-agent: ask new")) {
          isTrying = false;
          return bytes;
        }
        return isTrying ? bytes : toHost(bytes);
      },
    });
    expect(outcome).toMatch(/answer after the agent was loaded; it prints "x"\. To take out what runs at power-up/);
  });

  it("keeps the board's settings, escapes and secrets in them, too", async () => {
    const storage = createStorage();
    storage.api.write(
      "agent.json",
      '{"systemPrompt":"\\u20ac \\ud83d\\ude42 \\"\xc3\xa9\\"","apiKey":"sk-\\"old","topP":0.5}',
    );
    const bench = createBench({ storage });
    bench.power();
    const settings = { model: "new", topP: null };
    await bench.run(flashBoard(createDevice(bench.wire()), { ...job(agentCode("new", 500)), settings }, quiet));
    const saved = JSON.parse(Buffer.from(storage.api.read("agent.json")!, "latin1").toString("utf8"));
    expect(saved).toEqual({ systemPrompt: '€ 🙂 "é"', apiKey: 'sk-"old', model: "new" });
    expect(bench.printed()).not.toContain("old");
  });

  it("ends with what https takes from a board that is given such an address", async () => {
    const bench = createBench({ storage: createStorage() });
    bench.power();
    const progress = listen();
    const settings = { baseUrl: "https://192.168.1.10:8089/v1", model: "m" };
    const flashing = flashBoard(createDevice(bench.wire()), { ...job(agentCode("new", 500)), settings }, progress);
    expect(await bench.run(flashing)).toMatchObject({ isStarted: true, warning: httpsWarning });
    expect(progress.lines.slice(-2)).toEqual([
      expect.stringMatching(/^The agent runs\./),
      `warning: the server has an https address: ${httpsWarning}`,
    ]);
  });

  it("says so where .bootrst runs in place of .bootcde", async () => {
    const storage = createStorage();
    storage.api.write(".bootrst", 'require("agent")');
    const bench = createBench({ storage });
    bench.power();
    const progress = listen();
    await bench
      .run(flashBoard(createDevice(bench.wire()), job(agentCode("new", 500)), progress))
      .catch(() => undefined);
    expect(progress.lines.join("\n")).toMatch(/\.bootrst is there, which Espruino runs in its place/);
  });
});

describe("Wi-Fi", () => {
  const wifi = {
    ssid: "Home",
    password: "right password",
    networks: [{ ssid: Buffer.from("Größe", "utf8").toString("latin1") }],
    connected: false,
  };

  async function join(ssid: string, password: string) {
    const bench = createBench({ wifi });
    bench.power();
    const device = createDevice(bench.wire(), { secrets: [password] });
    const outcome = await bench
      .run(joinWifi(device, ssid, password))
      .catch((error: unknown) => (error as Error).message);
    return { outcome, saved: bench.storage.api.readJSON(".wificfg", true) as { ssid: string } | undefined };
  }

  it("joins and saves", async () => {
    expect(await join("Home", "right password")).toMatchObject({ outcome: "192.168.4.20", saved: { ssid: "Home" } });
    expect(await join("Größe", "")).toMatchObject({ outcome: "192.168.4.20" });
  });

  it("tells a wrong password, and saves nothing", async () => {
    const { outcome, saved } = await join("Home", "wrong-secret");
    expect(outcome).toMatch(/^Wi-Fi: "Home" does not accept the password \(the board says \w+; nothing was saved\)/);
    expect(outcome).not.toContain("wrong-secret");
    expect(saved).toBeUndefined();
  });

  it("tells what is in range where the network is not", async () => {
    const { outcome } = await join("Hoem", "right password");
    expect(outcome).toMatch(/^Wi-Fi: "Hoem" is not in range of the board\. In range: "Home", "Größe"\. .*2\.4 GHz/);
  });
});

it("secrets are masked in every form", () => {
  const secret = 'a"b\\cé';
  const text = `1 ${secret} 2 ${JSON.stringify(secret)} 3 ${Buffer.from(secret, "utf8").toString("latin1")}`;
  expect(maskSecrets(text, [secret, ""])).toBe('1 ••• 2 "•••" 3 •••');
  const line = JSON.stringify(boardLiteral(secret));
  expect(maskSecrets(line, [secret])).toBe('"\\"•••\\""');
});
