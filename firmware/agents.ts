import { setting } from "./config";
import type { LoadedTool, Wrap } from "./types";
import { processors, wrapTool } from "./wrap";

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
  const p = processors();
  const wrap: Wrap = { before: repairs ? [p.repairJson] : [], after: [p.redactSecrets] };
  switch (tool.name) {
    case "edit_file":
      wrap.after = [p.shortEdit];
      break;
    case "run_js":
      wrap.after = [p.formatRun, p.redactSecrets, p.limitResult(setting("toolResultBytes"), "print less, or write it to a file")];
      break;
    case "web_search":
      wrap.before!.push(p.rateLimit(10, 60));
  }
  if (tool.origin) wrap.after = [p.formatRun, p.redactSecrets];
  if (("," + setting("confirmTools") + ",").split("," + tool.name + ",").length > 1) wrap.before!.push(p.confirmOnSerial);
  return wrapTool(tool, wrap);
}
