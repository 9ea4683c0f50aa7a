import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { toolsPlugin } from "../../esbuild.tools.mjs";
import type { Tool, ToolContext, ToolResult } from "../../firmware/types";
import { createManualClock } from "../../host-sim/clock";
import { createPins } from "../../host-sim/pin";
import { createStorage } from "../../host-sim/storage";
import { createWifi } from "../../host-sim/wifi";

const folder = fileURLToPath(new URL("../../tools/", import.meta.url));

/** Every file of `tools/`, in order of name. */
export const toolFiles = readdirSync(folder).filter((name) => name.endsWith(".ts")).sort();

// As one script with free globals: on the board `require` is a global, too, and in an imported module it is not.
const script = (
  await build({
    stdin: {
      contents: `module.exports = [${toolFiles.map((name) => `require("./${name}").default`).join()}]`,
      resolveDir: folder,
    },
    bundle: true,
    write: false,
    format: "cjs",
    platform: "neutral",
    external: ["Storage", "Wifi", "http", "fs"],
    plugins: [toolsPlugin({ toolsDir: folder })],
  })
).outputFiles[0]!.text;

export interface BoardOptions {
  /** Bytes, a multiple of 4096. */
  storageBytes?: number;
  hasWifi?: boolean;
}

/** All tools on a fresh board of simulated peripherals. */
export function plugInBoard(options: BoardOptions = {}) {
  const clock = createManualClock();
  const pins = createPins(clock);
  const storage = createStorage({ capacity: options.storageBytes }).api;
  const wifi = createWifi(clock).api;
  const globals = {
    module: { exports: [] as Tool[] },
    require(name: string) {
      if (name === "Storage") return storage;
      if (name === "Wifi" && options.hasWifi !== false) return wifi;
      throw new Error(`Module "${name}" not found`);
    },
    process: { env: { BOARD: "ESP32", VERSION: "2v29" }, memory: () => ({ free: 3100, total: 4000 }) },
    digitalWrite: pins.write,
    digitalRead: pins.read,
    pinMode: pins.mode,
    getPinMode: pins.getMode,
    analogWrite: pins.analogWrite,
    analogRead: pins.analogRead,
  };
  new Function(...Object.keys(globals), script)(...Object.values(globals));
  const tools = globals.module.exports;

  function call(name: string, args: object, context: ToolContext = {} as any): string | ToolResult {
    return tools.find((tool) => tool.name === name)!.execute(args, context) as string | ToolResult;
  }
  return {
    clock,
    tools,
    pins,
    storage,
    wifi,
    call,
    /** Runs a tool and expects text. */
    run(name: string, args: object, context?: ToolContext): string {
      const output = call(name, args, context);
      if (typeof output !== "string") throw new Error(`${name} gave ${JSON.stringify(output)}`);
      return output;
    },
    /** Runs a tool and expects an error result; gives its text. */
    fail(name: string, args: object): string {
      const output = call(name, args) as ToolResult;
      if (!output.isError) throw new Error(`${name} gave ${JSON.stringify(output)}`);
      return output.content;
    },
  };
}
