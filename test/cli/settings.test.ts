import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { hidingSources, layOver, readEnvironment, savedSettings } from "../../cli/settings";
import { createStorage } from "../../host-sim/storage";

let dir: string;
beforeEach(() => void (dir = mkdtempSync(path.join(tmpdir(), "settings-"))));
afterEach(() => rmSync(dir, { recursive: true }));

function config(text: string): string {
  const file = path.join(dir, "config.json");
  writeFileSync(file, text);
  return file;
}

describe("readEnvironment", () => {
  it("lays the variables over the file", () => {
    const AGENT_CONFIG = config('\uFEFF{"model":"a","retries":0}');
    const env = { AGENT_CONFIG, AGENT_BASE_URL: "http://host:1/v1", AGENT_MODEL: "b", AGENT_API_KEY: "", HOME: "/" };
    expect(readEnvironment(env)).toEqual({ baseUrl: "http://host:1/v1", model: "b", retries: 0 });
  });

  it("refuses a file that is not there, not JSON or no object, without showing what is in it", () => {
    const read = (AGENT_CONFIG: string) => () => readEnvironment({ AGENT_CONFIG });
    expect(read(path.join(dir, "none.json"))).toThrow(/^AGENT_CONFIG: .*none\.json cannot be read: ENOENT/);
    expect(read(dir)).toThrow(/cannot be read/);
    expect(read(config('{"apiKey":"sk-secret" x}'))).toThrow(/is not JSON/);
    expect(read(config('{"apiKey":"sk-secret" x}'))).not.toThrow(/secret/);
    expect(read(config("[1]"))).toThrow(/JSON object/);
  });

  it("refuses what the board refuses, naming the variable and no value", () => {
    const read = (env: Record<string, string>) => () => readEnvironment(env);
    expect(read({ AGENT_BASE_URL: "host:11434" })).toThrow(/^AGENT_BASE_URL: baseUrl must .*http:\/\//);
    expect(read({ AGENT_BASE_URL: "http://" })).toThrow(/^AGENT_BASE_URL: baseUrl must be a URL/);
    expect(read({ AGENT_BASE_URL: "http://me:sk-1@host/v1" })).toThrow(/^AGENT_BASE_URL: baseUrl must not [^@]*$/);
    expect(read({ AGENT_PROVIDER: "foo" })).toThrow("AGENT_PROVIDER: provider must be openai or anthropic");
    expect(read({ AGENT_API_KEY: "sk 1" })).toThrow(/^AGENT_API_KEY: apiKey must not contain spaces or line breaks$/);
    const AGENT_CONFIG = config('{"baseUrl":"x","retries":99,"f\u00e4rbe\\n":1}');
    expect(read({ AGENT_CONFIG })).toThrow(
      /^AGENT_CONFIG: baseUrl must .*, retries must be .* 0 to 5, no setting is called färbe\?$/,
    );
    expect(read({ AGENT_CONFIG: config('{"retries":null,"systemPrompt":"Grüße"}') })).not.toThrow();
  });
});

describe("hidingSources", () => {
  const saved = { model: "a", retries: 1, provider: "openai", apiKey: "" };

  it("names what hides a saved setting, once", () => {
    const env = { AGENT_CONFIG: "x.json", AGENT_MODEL: "b", AGENT_API_KEY: "k" };
    const environment = { model: "b", apiKey: "k", retries: 2, provider: null, maxTokens: 5 };
    expect(hidingSources(saved, env, environment, {}).sort()).toEqual(["AGENT_CONFIG", "AGENT_MODEL"]);
    expect(hidingSources(saved, env, environment, { model: "c" })).toEqual(["the stand-in", "AGENT_CONFIG"]);
  });

  it("names nothing where the values are the same or nothing is saved", () => {
    expect(hidingSources(saved, { AGENT_MODEL: "a" }, { model: "a" }, { baseUrl: "http://x" })).toEqual([]);
  });
});

describe("layOver", () => {
  const start = (saved: string | undefined, laid: Record<string, unknown>) => {
    const flash = createStorage({ dir });
    if (saved !== undefined) flash.api.write("agent.json", saved);
    const board = layOver(flash, laid);
    return { board: board.api, state: () => board.state(), onDisk: () => savedSettings(createStorage({ dir })) };
  };

  it("shows both to the board and leaves the saved file alone", () => {
    const { board, onDisk } = start('{"retries":1,"model":"a"}', { model: "b", apiKey: "sk-1" });
    expect(JSON.parse(board.read("agent.json")!)).toEqual({ retries: 1, model: "b", apiKey: "sk-1" });
    expect(onDisk()).toEqual({ retries: 1, model: "a" });
  });

  it("saves what the board changes, and only that", () => {
    const { board, onDisk } = start('{"model":"a"}', { model: "b", apiKey: "sk-1", baseUrl: "http://x" });
    board.write("agent.json", JSON.stringify({ model: "b", apiKey: "sk-1", baseUrl: "http://mine", retries: 5 }));
    expect(onDisk()).toEqual({ model: "a", baseUrl: "http://mine", retries: 5 });
    expect(JSON.parse(board.read("agent.json")!).apiKey).toBe("sk-1");
  });

  it("saves nothing where only laid-over settings are written", () => {
    const { board, onDisk } = start(undefined, { model: "b" });
    board.write("agent.json", '{"model":"b"}');
    expect(onDisk()).toBeUndefined();
  });

  it("keeps text in UTF-8, and a file that is not JSON as it is", () => {
    const { board, onDisk } = start("not json", { systemPrompt: "Grüße" });
    expect(board.read("agent.json")).toBe('{"systemPrompt":"Gr\xc3\xbc\xc3\x9fe"}');
    expect(onDisk()).toBeUndefined();
    expect(createStorage({ dir }).api.read("agent.json")).toBe("not json");
  });

  it("lists, erases and counts the file as the board's own", () => {
    const { board, state, onDisk } = start('{"model":"a"}', { model: "b", retries: 2 });
    board.write("notes.txt", "hi");
    expect(board.list().sort()).toEqual(["agent.json", "notes.txt"]);
    expect(state().files).toEqual({ "notes.txt": 2, "agent.json": board.read("agent.json")!.length });
    board.erase("agent.json");
    expect(board.list()).toEqual(["notes.txt"]);
    expect(onDisk()).toBeUndefined();
  });
});
