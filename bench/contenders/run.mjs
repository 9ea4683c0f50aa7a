/** What every contender does: runs the same prompt over and over and says how that went, as one line of JSON. */
export const PROMPT = "turn on the LED and add 19 and 23";
export const ANSWER = "The LED is on and the sum is 42.";
export const SYSTEM = "You are an agent that runs on a small board.";

/** `http://…/v1` of the model, and the tools that the board sends, as OpenAI's API has them. */
export const [baseUrl, tools] = [process.argv[2], JSON.parse(process.argv[3])];
const [warmUp, runs] = process.argv.slice(4).map(Number);

/** What a tool does, by its name. */
export function execute(name, args) {
  return name === "add" ? String(args.a + args.b) : `pin ${args.pin} is ${args.value}`;
}

/** Measures `once`, which runs the prompt in a new conversation and gives the answer's text. */
export async function measure(once) {
  const check = async () => {
    const text = await once();
    if (text !== ANSWER) throw new Error(`the answer is ${JSON.stringify(text)}`);
  };
  for (let i = 0; i < warmUp; i++) await check();
  const cpu = process.cpuUsage();
  const started = process.hrtime.bigint();
  for (let i = 0; i < runs; i++) await check();
  const ms = Number(process.hrtime.bigint() - started) / 1e6;
  const { user, system } = process.cpuUsage(cpu);
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  console.log(
    JSON.stringify({
      runsPerSecond: (1000 * runs) / ms,
      cpuMs: (user + system) / 1000 / runs,
      maxRssMb: process.resourceUsage().maxRSS / 1024,
      heapMb: (heapUsed + external) / 1024 / 1024,
    }),
  );
  process.exit(0);
}
