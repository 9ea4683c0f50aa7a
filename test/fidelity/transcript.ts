/**
 * The form in which probes are kept: what a terminal shows, so that a probe reads as a session at the console.
 *
 *     ## name needs=bytes wait=20
 *     >"é".length
 *     =2
 *
 * Lines that begin with `>` are typed, lines of `:` go on with them; all else is what the board printed. Bytes that are
 * no ASCII text are written `‹1b›`. Where the output would leave open what was typed (control characters, output that
 * looks like a prompt), the typed lines stand first, each after `<`. Keys of the heading:
 *
 * - `needs`: what another build of the interpreter may not have, comma-separated (see `Need`)
 * - `wait`: milliseconds that pass after each line
 * - `until`: a line that ends the probe when it is printed; for what takes as long as a network takes
 *
 * `@PORT` in what is typed stands for the port of the test server, `@TLS5` for that at which it speaks TLS, `@CUT5` for one
 * where nothing listens.
 */
import { openBrackets } from "../../host-sim/repl";

/**
 * `bytes`: strings without Unicode support; `variables`: a fixed number of variables of 14 bytes; `flash`: Storage that
 * is mapped into memory; `lines`: stack traces that show the line of the source. An ESP32 has all of them.
 */
export type Need = "bytes" | "variables" | "flash" | "lines";

/** One probe. Text is byte strings: one character per byte. */
export interface Probe {
  name: string;
  needs: Need[];
  waitMs: number;
  until?: string;
  /** What is typed, line by line, without line ends. */
  input: string[];
  /** Console bytes from the prompt the first line is typed at to the last prompt; undefined before the first recording. */
  output?: string;
}

const NEEDS: readonly string[] = ["bytes", "variables", "flash", "lines"];
const KEYS = ["needs", "wait", "until"];
const DEFAULT_WAIT_MS = 0;
const HEADING = "## ";
/** Stands where the output does not end with a prompt. */
const NO_PROMPT = "‹no prompt›";
const PROMPT = "\r\n>";

const show = (bytes: string): string =>
  bytes
    .replace(/\r\n|[^\x20-\x7e]/g, (char) =>
      char === "\r\n" ? "\n" : `‹${char.charCodeAt(0).toString(16).padStart(2, "0")}›`,
    );
const read = (text: string): string =>
  text.replaceAll("\n", "\r\n").replace(/‹([0-9a-f]{2})›/g, (_, code: string) => String.fromCharCode(parseInt(code, 16)));

/** The typed lines of a session. */
const typedLines = (session: string): string[] => {
  const typed: string[] = [];
  let open = "";
  for (const line of session.split("\n")) {
    const isNew = line.startsWith(">");
    if (!isNew && !(open !== "" && line.startsWith(":"))) {
      open = "";
      continue;
    }
    typed.push(read(line.slice(1)));
    open = isNew ? line.slice(1) : `${open}\n${line.slice(1)}`;
    if (openBrackets(open) <= 0) open = "";
  }
  return typed;
};

const parseProbe = (text: string, fail: (what: string) => never): Probe => {
  const [heading = "", ...lines] = text.trimEnd().split("\n");
  const [name = "", ...pairs] = heading.split(" ");
  const keys = new Map(pairs.map((pair) => pair.split(/=(.*)/, 2) as [string, string]));
  const wrong = (what: string): never => fail(`probe "${name}" ${what}`);
  if (!/^\w+$/.test(name)) wrong("has a name that is not made of letters, digits and _");
  for (const key of keys.keys()) if (!KEYS.includes(key)) wrong(`has the key "${key}"; known are ${KEYS.join(", ")}`);
  const needs = keys.get("needs")?.split(",") ?? [];
  for (const need of needs) if (!NEEDS.includes(need)) wrong(`needs "${need}"; known are ${NEEDS.join(", ")}`);
  const wait = keys.get("wait") ?? String(DEFAULT_WAIT_MS);
  if (!/^\d+$/.test(wait)) wrong(`has wait=${wait}, which is no number of milliseconds`);

  const first = lines.findIndex((line) => !line.startsWith("<"));
  const given = lines.slice(0, first < 0 ? lines.length : first).map((line) => read(line.slice(1)));
  const session = lines.slice(given.length).join("\n");
  const input = given.length ? given : typedLines(session);
  if (input.length === 0) wrong("types nothing");
  const isRecorded = session.split("\n").length > (given.length ? 1 : input.length);
  const output = session.endsWith(NO_PROMPT) ? session.slice(0, -NO_PROMPT.length) : `${session}\n>`;
  return {
    name,
    needs: needs as Need[],
    waitMs: Number(wait),
    until: keys.get("until"),
    input,
    output: isRecorded ? read(output) : undefined,
  };
};

interface Ports {
  port: number;
  tlsPort: number;
  closedPort: number;
}

/** Puts the ports of the test server into what is typed. */
export const fillPorts = (line: string, { port, tlsPort, closedPort }: Ports): string =>
  line.replaceAll("@PORT", String(port)).replaceAll("@TLS5", String(tlsPort)).replaceAll("@CUT5", String(closedPort));

/** The prompt that is shown between two events, and taken away again. */
const IDLE_PROMPT = ">\r\x1b[J";

/**
 * Takes out of what was printed what is another with each run: the ports of the test server, and for what comes from
 * the network (`until`) whether the console had the time to show its prompt in between.
 */
export const settle = (probe: Probe, output: string, { port, tlsPort, closedPort }: Ports): string => {
  const settled = output
    .replaceAll(String(port), "@PORT")
    .replaceAll(String(tlsPort), "@TLS5")
    .replaceAll(String(closedPort), "@CUT5");
  return probe.until === undefined ? settled : settled.replaceAll(IDLE_PROMPT, "");
};

/** Whether the line that ends the probe has been printed. */
export const isOver = ({ until }: Probe, output: string): boolean =>
  until === undefined || output.replaceAll(IDLE_PROMPT, "").includes(`\n${until}\r\n`);

/** Reads a file of probes. Throws an Error that names the file and the probe where it cannot. */
export const parseProbes = (text: string, file: string): Probe[] => {
  const fail = (what: string): never => {
    throw new Error(`${file}: ${what}`);
  };
  const probes = `\n${text}`
    .split(`\n${HEADING}`)
    .slice(1)
    .map((part) => parseProbe(part, fail));
  const names = probes.map((probe) => probe.name);
  const twice = names.find((name, index) => names.indexOf(name) < index);
  if (twice) fail(`two probes are called "${twice}"`);
  return probes;
};

/** Writes a file of probes; `parseProbes` gives them back. */
export const formatProbes = (probes: Probe[]): string => probes.map(formatProbe).join("\n");

const formatProbe = (probe: Probe): string => {
  let heading = `${HEADING}${probe.name}`;
  if (probe.needs.length) heading += ` needs=${probe.needs.join()}`;
  if (probe.waitMs !== DEFAULT_WAIT_MS) heading += ` wait=${probe.waitMs}`;
  if (probe.until !== undefined) heading += ` until=${probe.until}`;
  const typed = probe.input.map((line) => `<${show(line)}`).join("\n");
  if (probe.output === undefined) return `${heading}\n${probe.input.map((line) => `>${show(line)}`).join("\n")}\n`;
  const session = formatOutput(probe.output);
  const isClear = JSON.stringify(typedLines(session)) === JSON.stringify(probe.input) && !session.startsWith("<");
  return `${heading}\n${isClear ? "" : `${typed}\n`}${session}\n`;
};

/** Console bytes as the files have them. */
export const formatOutput = (bytes: string): string =>
  bytes.endsWith(PROMPT) ? show(bytes.slice(0, -PROMPT.length)) : show(bytes) + NO_PROMPT;
