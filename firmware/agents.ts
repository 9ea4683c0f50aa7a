import { setting } from "./config";
import type { LoadedTool, Wrap } from "./types";
import { confirmOnSerial, formatRun, limitResult, rateLimit, redactSecrets, repairJson, shortEdit, wrapTool } from "./wrap";

// Whether the agent that the person talks to has a tool; with `any`, whether one agent or another may have it.
export function picksMain(tool: LoadedTool, any?: boolean): boolean {
  if (tool.needs && !setting(tool.needs)) return false;
  return setting("mode") === "deep" ? any || tool.tier !== "do" : tool.tier !== "agent";
}

// Which tools are wrapped how: repair first, then whoever may refuse; redaction before anything is cut.
export function wrapMain(tool: LoadedTool): LoadedTool {
  return wrapFor(tool, true);
}

// The same without repair, for a model that writes good JSON.
export function wrapSteady(tool: LoadedTool): LoadedTool {
  return wrapFor(tool, false);
}

function wrapFor(tool: LoadedTool, repairs: boolean): LoadedTool {
  const wrap: Wrap = { before: repairs ? [repairJson] : [], after: [redactSecrets] };
  switch (tool.name) {
    case "edit_file":
      wrap.after = [shortEdit];
      break;
    case "run_js":
      wrap.after = [formatRun, redactSecrets, limitResult(setting("toolResultBytes"), "print less, or write it to a file")];
      break;
    case "web_search":
      wrap.before!.push(rateLimit(10, 60));
  }
  if (tool.origin) wrap.after = [formatRun, redactSecrets];
  if (("," + setting("confirmTools") + ",").split("," + tool.name + ",").length > 1) wrap.before!.push(confirmOnSerial);
  return wrapTool(tool, wrap);
}
