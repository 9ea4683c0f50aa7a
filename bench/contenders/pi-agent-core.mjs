import { Agent } from "@mariozechner/pi-agent-core";
import { baseUrl, execute, measure, PROMPT, SYSTEM, tools as given } from "./run.mjs";

const model = {
  id: "scripted",
  name: "scripted",
  api: "openai-completions",
  provider: "local",
  baseUrl,
  reasoning: false,
  input: ["text"],
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
  contextWindow: 128_000,
  maxTokens: 2048,
};
const tools = given.map(({ function: { name, description, parameters } }) => ({
  name,
  label: name,
  description,
  parameters,
  execute: async (_id, args) => ({ content: [{ type: "text", text: execute(name, args) }], details: {} }),
}));

await measure(async () => {
  const agent = new Agent({ initialState: { systemPrompt: SYSTEM, model, tools }, getApiKey: () => "none" });
  let text = "";
  agent.subscribe((event) => {
    if (event.type === "message_update" && event.assistantMessageEvent.type === "text_delta") {
      text += event.assistantMessageEvent.delta;
    }
  });
  await agent.prompt(PROMPT);
  if (agent.state.errorMessage) throw new Error(agent.state.errorMessage);
  return text;
});
