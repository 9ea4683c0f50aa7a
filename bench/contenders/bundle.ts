import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { createBoard } from "../../host-sim/board";
import { baseUrl, measure, PROMPT } from "./run.mjs";

/** The bundle on a simulated board, as `npm start` runs it. */
const board = createBoard();
const { api } = board.storage;
api.write("agent", readFileSync(fileURLToPath(new URL("../../dist/agent.js", import.meta.url)), "latin1"));
api.write("agent.json", JSON.stringify({ baseUrl, model: "scripted", apiKey: "none" }));
api.write(".bootcde", 'require("agent")');

let over: (text: string) => void = () => undefined;
board.onEvent("agent", (event) => {
  if (event.type === "final") over(String(event.text));
});
board.boot();

await measure(async () => {
  const answer = new Promise<string>((resolve) => (over = resolve));
  board.console.write(`clear_history();ask(${JSON.stringify(PROMPT)})\n`);
  return answer;
});
