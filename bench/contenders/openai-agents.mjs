import { Agent, OpenAIChatCompletionsModel, run, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { baseUrl, execute, measure, PROMPT, SYSTEM, tools as given } from "./run.mjs";

setTracingDisabled(true);
const client = new OpenAI({ baseURL: baseUrl, apiKey: "none" });
const tools = given.map(({ function: { name, description, parameters } }) =>
  tool({
    name,
    description,
    parameters: { ...parameters, required: parameters.required ?? [], additionalProperties: true },
    strict: false,
    execute: async (args) => execute(name, args),
  }),
);
const agent = new Agent({
  name: "board",
  instructions: SYSTEM,
  model: new OpenAIChatCompletionsModel(client, "scripted"),
  tools,
});

await measure(async () => {
  let text = "";
  const result = await run(agent, PROMPT, { stream: true });
  for await (const delta of result.toTextStream()) text += delta;
  await result.completed;
  return text;
});
