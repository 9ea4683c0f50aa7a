import { setting } from "../firmware/config";
import { guardCode } from "../firmware/guard";
import { openSandbox } from "../firmware/sandbox";
import type { Tool } from "../firmware/types";

const runJs: Tool = {
  name: "run_js",
  description:
    "Run JavaScript on the board, for what no other tool does. Returns what it prints, its value (of the last " +
    "expression or return; a promise is awaited), its error with the line, changed files, and timers that go on. " +
    "Define before use. No async, spread, destructuring, default arguments, ?. or Map: Espruino has none. Files: " +
    'require("Storage").',
  parameters: {
    type: "object",
    properties: { code: { type: "string", description: "The code, such as print(process.env.VERSION)" } },
    required: ["code"],
  },
  needs: "allowJs",
  repeatable: true,
  // Its own limit comes first, and says more.
  timeoutMs: setting("toolTimeoutMs") + 2000,
  tier: "do",
  execute(args) {
    const guarded = guardCode(args.code);
    const what = "run_js " + args.code.substr(0, 48);
    // The text is in memory often enough.
    delete args.code;
    if (guarded.problem) return { isError: true, content: "not run: " + guarded.problem };
    return openSandbox().run(what, guarded.code, undefined) as any;
  },
};

export default runJs;
