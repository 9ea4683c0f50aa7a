import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { plugInBoard, toolFiles } from "./board";

const board = plugInBoard();
const { tools } = board;

describe("every tool", () => {
  it.each(tools.map((tool, i) => [toolFiles[i]!, tool] as const))("%s is as models need it", (file, tool) => {
    expect(`${tool.name}.ts`).toBe(file);
    expect(tool.description.length).toBeLessThanOrEqual(400);
    expect(tool.description).toMatch(/^[A-Z][ -~]+\.$/);
    expect(tool.parameters.type).toBe("object");
    for (const rule of Object.values(tool.parameters.properties)) expect(rule.description ?? "ASCII").toMatch(/^[ -~]+$/);
    for (const name of tool.parameters.required ?? []) expect(tool.parameters.properties).toHaveProperty(name);
  });
});

describe("wifi_status", () => {
  it("tells network, address and signal, never the password", () => {
    const { clock, wifi, run } = plugInBoard();
    const connected = /^Wi-Fi is connected to espruino-sim, IP [\d.]+, gateway [\d.]+, signal -\d+ dBm$/;
    expect(run("wifi_status", {})).toMatch(connected);
    wifi.disconnect();
    clock.advance(1000);
    expect(run("wifi_status", {})).toBe("Wi-Fi is not connected (ASSOC_LEAVE)");
  });

  it("says that there is no Wi-Fi where there is none", () => {
    expect(plugInBoard({ hasWifi: false }).fail("wifi_status", {})).toBe("There is no Wi-Fi module on this board.");
  });
});

describe("get_agent_public_info", () => {
  it("tells the version of package.json, the board and the memory", () => {
    const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
    expect(board.run("get_agent_public_info", {})).toBe(
      `espruino-agent ${version} on ESP32, Espruino 2v29, 3100 of 4000 variables free`,
    );
  });
});

describe("get_function_list", () => {
  const listOf = (entries: [string, string][]) =>
    board.run("get_function_list", {}, {
      session: {
        tools: {
          first: entries.reduceRight<unknown>(
            (next, [name, description]) => ({ name, next, tool: { name, description: JSON.stringify(description) } }),
            undefined,
          ),
        },
      },
    } as any);

  it("gives each tool's name and first sentence", () => {
    expect(listOf([["a", "Do a. Use it for a."], ["b", "Do b"]])).toBe("a: Do a\nb: Do b");
  });

  it("fits the tools that are there without any setting into one result", () => {
    const own = tools.filter((tool) => !tool.needs && tool.tier !== "agent");
    const lines = listOf(own.map((tool) => [tool.name, tool.description])).split("\n");
    expect(lines.map((line) => line.split(":")[0])).toEqual(own.map((tool) => tool.name));
    expect(lines.join("\n").length).toBeLessThanOrEqual(1024);
  });

  it("gives names only where there are too many", () => {
    const many = Array.from({ length: 40 }, (_, i) => [`tool_${i}`, "Does something rather long"] as [string, string]);
    expect(listOf(many)).toBe(many.map(([name]) => name).join(", "));
  });
});
