import { setting } from "../config";
import type { Provider } from "../types";
import { createAnthropic } from "./anthropic";
import { createOpenai } from "./openai";

// The dialect that the settings name.
export function openProvider(): Provider {
  return setting("provider") === "anthropic" ? createAnthropic() : createOpenai(setting("echoReasoning"));
}
