import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { jsonSchema, stepCountIs, streamText, tool } from "ai";
import { baseUrl, execute, measure, PROMPT, SYSTEM, tools as given } from "./run.mjs";

const model = createOpenAICompatible({ name: "local", baseURL: baseUrl, apiKey: "none" })("scripted");
const tools = Object.fromEntries(
  given.map(({ function: { name, description, parameters } }) => [
    name,
    tool({ description, inputSchema: jsonSchema(parameters), execute: async (args) => execute(name, args) }),
  ]),
);

await measure(async () => {
  let text = "";
  const result = streamText({ model, system: SYSTEM, prompt: PROMPT, tools, stopWhen: stepCountIs(10) });
  for await (const delta of result.textStream) text += delta;
  return text;
});
