import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import { toBytes } from "../drivers/bytes";
import { bootFirmware } from "./board";

let firmware: ReturnType<typeof bootFirmware>;
beforeEach(() => {
  firmware = bootFirmware();
});

const limits = {
  maxToolArgLen: [1024, 64, 4096],
  messageTrim: [24, 2, 64],
  maxToolIterations: [10, 1, 25],
  toolResultBytes: [1024, 64, 4096],
} as const;
const numbers = () => firmware.openSettings().names.filter((name) => firmware.limitOf(name));
const flags = () => firmware.openSettings().names.filter((name) => typeof firmware.setting(name) === "boolean");
const texts = () =>
  firmware.openSettings().names.filter((name) => !firmware.limitOf(name) && !flags().includes(name));

describe("settings", () => {
  it("have the defaults and ranges that people rely on", () => {
    for (const [name, limit] of Object.entries(limits)) {
      expect(firmware.limitOf(name)).toEqual(limit);
      expect(firmware.setting(name)).toBe(limit[0]);
    }
    expect(firmware.setting("historyBytes")).toBe(4096);
    expect(firmware.setting("provider")).toBe("openai");
    expect(firmware.setting("baseUrl")).toBe("");
    expect(firmware.setting("systemPrompt").length).toBeLessThanOrEqual(1024);
    for (const name of [
      "baseUrl",
      "apiKey",
      "model",
      "provider",
      "systemPrompt",
      "maxTokens",
      "historyBytes",
      "sseLineBytes",
      "requestTimeoutMs",
      "idleTimeoutMs",
      "toolTimeoutMs",
      "retries",
    ]) {
      expect(firmware.openSettings().names).toContain(name);
    }
  });

  it("take each number of their range, and no other", () => {
    for (const name of numbers()) {
      const [normal, least, most] = firmware.limitOf(name)!;
      const { apply } = firmware.openSettings();
      for (const good of [least!, most!, normal!]) {
        expect(apply({ [name]: good }, true)).toEqual([]);
        expect(firmware.setting(name)).toBe(good);
      }
      for (const bad of [
        least! - 1,
        most! + 1,
        least! + 0.5,
        NaN,
        Infinity,
        -Infinity,
        String(normal),
        "",
        true,
        [normal],
        {},
        undefined,
      ]) {
        expect(apply({ [name]: bad }, true), `${name} ${String(bad)}`).toEqual([
          `${name} must be a${least! < 0 ? "" : " whole"} number from ${least} to ${most}`,
        ]);
        expect(firmware.setting(name)).toBe(normal);
      }
    }
  });

  it("take text where they are text", () => {
    for (const name of texts()) {
      for (const bad of [5, true, [], {}, undefined, "x".repeat(1025)]) {
        const problems = firmware.openSettings().apply({ [name]: bad }, true);
        expect(problems, `${name} ${String(bad)}`).toHaveLength(1);
        expect(problems[0]).toContain(name);
      }
    }
  });

  it("refuse what would not work, by name", () => {
    const { apply } = firmware.openSettings();
    expect(apply({ baseUrl: "ftp://x" }, true)).toEqual(["baseUrl must start with http:// or https://"]);
    expect(apply({ baseUrl: "model:8080" }, true)).toHaveLength(1);
    expect(apply({ provider: "oracle" }, true)[0]).toContain("provider must be");
    expect(apply({ tokensField: "tokens" }, true)[0]).toContain("max_completion_tokens");
    // A line break would end the header that the key stands in.
    for (const name of ["apiKey", "baseUrl", "model"]) {
      for (const bad of ["http://a b", "http://a\r\nX: y", "http://a\n", "http://\0"])
        expect(apply({ [name]: bad }, true), name).toHaveLength(1);
    }
    expect(apply({ systemPrompt: "Two lines\nwith spaces" }, true)).toEqual([]);
    expect(
      apply(
        {
          baseUrl: "http://h:1/v1",
          model: "qwen3:0.6b",
          apiKey: "sk-1",
          tokensField: "max_completion_tokens",
          provider: "openai",
        },
        true,
      ),
    ).toEqual([]);
  });

  it("refuse names that are none, own or inherited", () => {
    for (const name of ["baseurl", "BASEURL", "", "toString", "constructor", "hasOwnProperty", "0"]) {
      expect(firmware.openSettings().apply({ [name]: 1 }, true)).toEqual([`no setting is called ${name}`]);
      expect(firmware.openSettings().apply({ [name]: null }, true)).toEqual([`no setting is called ${name}`]);
    }
    const odd = JSON.parse('{"__proto__":{"retries":1}}');
    expect(firmware.openSettings().apply(odd, true)).toEqual(["no setting is called __proto__"]);
    expect(firmware.setting("retries")).toBe(2);
  });

  it("go back to the default with null", () => {
    const { apply } = firmware.openSettings();
    apply({ retries: 5, model: "m", systemPrompt: "Be brief" }, true);
    expect(apply({ retries: null, model: null, systemPrompt: null }, true)).toEqual([]);
    expect(firmware.setting("retries")).toBe(2);
    expect(firmware.setting("model")).toBe("");
    expect(firmware.setting("systemPrompt")).toContain("ESP32");
  });

  it("change all or nothing, or what is good of them", () => {
    const { apply } = firmware.openSettings();
    apply({ retries: 1 }, true);
    const mixed = { retries: 3, model: "m", messageTrim: 1, colour: "red", apiKey: null };
    const problems = ["messageTrim must be a whole number from 2 to 64", "no setting is called colour"];
    expect(apply(mixed, true)).toEqual(problems);
    expect(firmware.setting("retries")).toBe(1);
    expect(firmware.setting("model")).toBe("");
    expect(apply(mixed, false)).toEqual(problems);
    expect(firmware.setting("retries")).toBe(3);
    expect(firmware.setting("model")).toBe("m");
    expect(firmware.setting("messageTrim")).toBe(24);
  });

  it("are never out of range, whatever is applied", () => {
    const { names, apply } = firmware.openSettings();
    const value = fc.oneof(
      fc.integer(),
      fc.integer({ min: -2, max: 5000 }),
      fc.double(),
      fc.jsonValue(),
      fc.constantFrom(null, undefined, "http://h", ""),
    );
    const values = fc.dictionary(fc.oneof(fc.constantFrom(...names), fc.string()), value);
    fc.assert(
      fc.property(values, fc.boolean(), (some, strict) => {
        const before = names.map(firmware.setting);
        const problems = apply(some, strict);
        if (strict && problems.length) expect(names.map(firmware.setting)).toEqual(before);
        for (const name of numbers()) {
          const [, least, most] = firmware.limitOf(name)!;
          const now = firmware.setting(name);
          expect((least! < 0 || Number.isInteger(now)) && now >= least! && now <= most!, `${name} ${now}`).toBe(true);
        }
        for (const name of ["showReasoning", "echoReasoning"])
          expect(firmware.setting(name)).toBeTypeOf("boolean");
        for (const name of texts()) expect(firmware.setting(name)).toBeTypeOf("string");
      }),
    );
  });
});

describe("agent.json", () => {
  const load = (text?: string) => {
    if (text === undefined) delete firmware.files["agent.json"];
    else firmware.files["agent.json"] = text;
    return firmware.openSettings().load();
  };

  it("may be missing", () => {
    expect(load()).toBe("");
    expect(firmware.setting("retries")).toBe(2);
  });

  it.each([
    "",
    " ",
    "{",
    '{"retries":1',
    '{"model":"x',
    "[]",
    "[1]",
    "null",
    "5",
    "true",
    '"text"',
    "not JSON",
    "\0",
    "\xff\xff\xff\xff",
    "{retries:1}",
    '{"retries":}',
    "-",
    '{"retries":-}',
  ])("that is damaged (%j) gives defaults and one line, and stays", (text) => {
    load('{"retries":1}');
    expect(load(text)).toContain("agent.json is not a JSON object");
    expect(firmware.setting("retries")).toBe(2);
    expect(firmware.files["agent.json"]).toBe(text);
  });

  it("that names something wrong keeps the rest", () => {
    const message = load('{"retries":1,"messageTrim":1000,"colour":"red","model":"m","apiKey":null}');
    expect(message).toContain("agent.json: ");
    expect(message).toContain("messageTrim");
    expect(message).toContain("colour");
    expect(firmware.setting("retries")).toBe(1);
    expect(firmware.setting("model")).toBe("m");
    expect(firmware.setting("messageTrim")).toBe(24);
  });

  it("forgets what was set before", () => {
    load('{"retries":1}');
    load("{}");
    expect(firmware.setting("retries")).toBe(2);
  });

  it("may hold UTF-8, as bytes or as escapes", () => {
    load(toBytes('{"systemPrompt":"Sprich Bärndütsch 😀"}'));
    expect(firmware.setting("systemPrompt")).toBe(toBytes("Sprich Bärndütsch 😀"));
    load('{"systemPrompt":"caf\\u00e9 \\ud83d\\ude00"}');
    expect(firmware.setting("systemPrompt")).toBe(toBytes("café 😀"));
  });

  it("is written as it is read", () => {
    const prompt = fc.string({ unit: "binary", maxLength: 200 });
    fc.assert(
      fc.property(prompt, fc.integer({ min: 0, max: 5 }), (text, retries) => {
        const settings = firmware.openSettings();
        expect(settings.apply({ systemPrompt: toBytes(text), retries, baseUrl: "http://h:1/v1" }, true)).toEqual([]);
        expect(settings.save()).toBe("");
        expect(JSON.parse(Buffer.from(firmware.files["agent.json"]!, "latin1").toString("utf8"))).toEqual({
          systemPrompt: text,
          retries,
          baseUrl: "http://h:1/v1",
        });
        settings.apply({ systemPrompt: null, retries: null }, true);
        expect(settings.load()).toBe("");
        expect(firmware.setting("systemPrompt")).toBe(toBytes(text));
        expect(firmware.setting("retries")).toBe(retries);
      }),
    );
  });

  it("stays as it was where the Storage is full", () => {
    load('{"retries":1}');
    firmware.setFree(50);
    const settings = firmware.openSettings();
    settings.apply({ model: "m".repeat(100) }, true);
    expect(settings.save()).toContain("full");
    expect(firmware.files["agent.json"]).toBe('{"retries":1}');
    expect(firmware.setting("model")).toBe("m".repeat(100));
  });
});
