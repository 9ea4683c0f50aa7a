import { find, load } from "../firmware/registry";
import { fromJson, limitText, toJson } from "../firmware/text";
import type { PlanStep, Tool, ToolNode, ToolResult } from "../firmware/types";
import { setting } from "../firmware/config";

/** Steps of a plan: more are no plan that a board can carry out, or a person would read. */
const MAX_STEPS = 12;
/** Plans in one run, the first one and new ones after a step that failed. */
const MAX_PLANS = 3;

const createPlan: Tool = {
  name: "create_plan",
  description:
    "Do a task that takes several steps, or several agents. Give the steps in order, each one task that makes sense on " +
    "its own; they are done one after the other by the agents you name. Returns what each came to. If a step fails, call " +
    "it again with what is left to do.",
  parameters: {
    type: "object",
    properties: {
      steps: {
        type: "array",
        description: "1 to 12 steps",
        items: {
          type: "object",
          properties: {
            task: { type: "string", description: "What to do, with all that the agent must know" },
            agent: { type: "string", description: "Name of the agent; left out, one whose description fits does it" },
          },
        },
      },
    },
    required: ["steps"],
  },
  tier: "agent",
  repeatable: true,
  timeoutMs: 3600000,
  execute(args, context) {
    const session = context.session;
    const steps: PlanStep[] = [];
    const results: string[] = [];

    // Whether a step may name it: an agent, and no tool that plans.
    function isAgent(node: ToolNode | undefined): boolean {
      return !!node && load(node).tier === "agent" && node.name !== "create_plan" && node.name !== "submit_result";
    }

    // The agent with the most words of the task in its name and description; "" where there is none at all.
    function fitting(task: string): string {
      let best = "";
      let most = -1;
      const words = task.toLowerCase().split(" ");
      for (let node = session.tools.first; node; node = node.next) {
        if (!isAgent(node)) continue;
        const text = (node.name + " " + fromJson(load(node).description)).toLowerCase();
        let score = 0;
        // Not indexOf: on the board it also finds a part of the word at the end of the text.
        for (const word of words) if (word.length > 3 && text.split(word).length > 1) score++;
        if (score > most) {
          most = score;
          best = node.name;
        }
      }
      return best;
    }

    // What is wrong with the plan, in words for the model.
    function read(): string {
      if (!args.steps.length) return "a plan needs at least one step";
      if (args.steps.length > MAX_STEPS) return "a plan has at most " + MAX_STEPS + " steps, not " + args.steps.length + ": plan less at once";
      for (const one of args.steps) {
        const task = typeof one === "string" ? one : one && one.task;
        if (typeof task !== "string" || !task.trim()) return "step " + (steps.length + 1) + " has no task";
        const agent = (one.agent as string) || fitting(task);
        if (!isAgent(find(session.tools, agent)))
          return "step " + (steps.length + 1) + ": there is no agent " + (agent || "at all");
        steps.push({ task: task.trim(), agent: agent, state: "todo" });
      }
      session.plans = (session.plans || 0) + 1;
      return session.plans > MAX_PLANS ? "planned " + MAX_PLANS + " times already: end with submit_result, or answer" : "";
    }

    const problem = read();
    if (problem) return { isError: true, content: problem };
    const share = Math.floor(setting("toolResultBytes") / steps.length);

    return new Promise(function (resolve: (result: ToolResult) => void) {
      function show(): void {
        // A copy for those who keep it.
        session.emit({
          type: "plan",
          steps: steps.map(function (step) {
            return { task: step.task, agent: step.agent, state: step.state };
          }),
        });
      }

      // Does the next step, from the idle loop: a chain of promises would grow by every step.
      function next(): void {
        const step = steps[results.length];
        if (!step) return resolve({ isError: false, content: results.join("\n") });
        step.state = "doing";
        show();
        let task = step.task;
        if (results.length) task += "\nDone before:\n" + limitText(results.join("\n"), 512);
        context.call({ id: "", name: step.agent, arguments: toJson({ task: task }) }, function (result) {
          const number = results.length + 1;
          step.state = result.isError ? "failed" : "done";
          results.push(number + ". " + step.state + ": " + limitText(result.content, Math.max(share - 40, 60)));
          // The run may have been stopped meanwhile.
          if (session.abort !== context.running) return resolve({ isError: true, content: "stopped" });
          show();
          if (result.ends) return resolve(result);
          if (!result.isError) setTimeout(next, 1);
          else
            resolve({
              isError: true,
              content:
                results.join("\n") + "\nStep " + number + " of " + steps.length + " failed, those after it were not done. " +
                (session.plans! < MAX_PLANS ? "Call create_plan with what is left, done in another way, or submit_result." : "Call submit_result."),
            });
        });
      }

      // From the idle loop: here the stack is deep.
      setTimeout(next, 1);
    });
  },
};

export default createPlan;
