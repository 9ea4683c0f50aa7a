/**
 * Builds the board's bundle: `node esbuild.config.mjs` writes `dist/agent.js` and `dist/agent.js.map`, prints what each
 * room costs, and fails with the TypeScript file and line on what the board would not run, or over the size budget.
 */
import * as esbuild from "esbuild";
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { checkSource, formatProblem } from "./esbuild.check.mjs";
import { cutSlices, MAX_TOOL_CODE, SLICE_NAMES } from "./esbuild.slices.mjs";
import { toolPlace, toolsPlugin } from "./esbuild.tools.mjs";

export { toolsPlugin };

const ROOT = path.dirname(fileURLToPath(import.meta.url));

/**
 * Bytes of the minified bundle, everything included. The board reads it in place from its Storage (about 900 kB on an
 * ESP32, shared with the person's files), and skips over unused code by reading it: size is load time.
 */
export const SIZE_BUDGET = 150_000;

/**
 * Stands for the board's own `require` while esbuild works, which would put a helper in its place. It has as many
 * letters, so that putting the name back moves nothing in the source map.
 */
const REQUIRE = "$equire";

/**
 * Property names that nobody outside the bundle sees: esbuild makes them short. A name of up to four characters is one
 * variable on the board, a longer one two, in every object that has it. No name of an event, a setting, a tool, a file or of
 * Espruino's own library may stand here.
 */
const INTERNAL_PROPERTIES =
  "abort alike append attempts batch begin begun between broken child compose confirm count dropped " +
  "echo echoBytes ended failure feed first frame fresh full gives hand hasId heard held history idea " +
  "idleMs inner into joinText journal keepBytes keySetting last lastCallId later learn lessons lines look " +
  "lost made mark maxArgs maxString midLine mine most node onData onDone onHead onReady page parent past plans printed " +
  "problem problemOf prompt raised readArguments received reply response rest rollback root " +
  "running sample scanned semis session show showBytes shown sizes skipEvent skipLine rough soon spoilt thought timer times toText " +
  "toolBytes tools totalMs turn unread until urlSetting used waited wait wholeLength wise withTools word wrap";

/**
 * Files of `firmware/` whose functions are made where they are used and cost nothing at rest (esbuild.slices.mjs). To make
 * one takes the board some 200,000 instructions: what is called for every event of a stream is none.
 */
const ROOMS = (
  "caller wrap agents utf8 turn provider/openai body request reply sift sse transport loop channel/serial channel/event channel/chat provider/index provider/anthropic " +
  "session repair failure files card disk sink parts media media-type media-body upload numbers pins saved-tools saved observers subagent fetch message-log guard graph graph-check sandbox history camera"
).split(" ");

/** @typedef {import("./esbuild.check.mjs").Problem} Problem */
/** @typedef {{ room: string, bytes: number }} RoomSize */

/**
 * Builds and checks one bundle. Never throws for what is wrong with the sources.
 * @param {{ entry?: string, toolsDir?: string, outfile?: string, write?: boolean, budget?: number }} [options]
 *   paths are relative to the repository; nothing is written where there are problems, or with `write: false`
 * @returns {Promise<{ code: string, map: string, problems: Problem[], sizes: RoomSize[] }>} `code` is ASCII
 */
export async function buildBundle(options = {}) {
  const entry = path.resolve(ROOT, options.entry ?? "firmware/main.ts");
  const toolsDir = path.resolve(ROOT, options.toolsDir ?? "tools");
  const outfile = path.resolve(ROOT, options.outfile ?? "dist/agent.js");
  const budget = options.budget ?? SIZE_BUDGET;
  /** What `cutSlices` must know of the tools. @type {{ files: string[], texts: string[] }} */
  const slices = { files: [], texts: [] };
  const rooms = ROOMS.map((name) => path.join(ROOT, `firmware/${name}.ts`));
  const isRoom = (/** @type {string} */ source) => rooms.includes(path.resolve(path.dirname(outfile), source));

  let result;
  try {
    result = await esbuild.build({
      absWorkingDir: ROOT,
      entryPoints: [entry],
      outfile,
      write: false,
      bundle: true,
      minify: true,
      mangleProps: new RegExp(`^(${INTERNAL_PROPERTIES.split(" ").join("|")})$`),
      // No function around it: what is at the top becomes global.
      format: "cjs",
      platform: "neutral",
      target: "es2015",
      // Literals hold bytes when esbuild sees them, and it writes a byte as \xNN: no byte beyond ASCII is left.
      charset: "ascii",
      legalComments: "none",
      sourcemap: "external",
      metafile: true,
      logLevel: "silent",
      treeShaking: true,
      define: { require: REQUIRE },
      tsconfigRaw: { compilerOptions: { useDefineForClassFields: false } },
      // Behind the source check: what esbuild must not lower, because its helpers do not run on the board either.
      supported: {
        "array-spread": false,
        "default-argument": false,
        destructuring: false,
        "rest-argument": false,
        generator: false,
        "async-await": false,
        "async-generator": false,
        "for-await": false,
        "new-target": false,
        bigint: false,
        "top-level-await": false,
        "dynamic-import": false,
        "import-meta": false,
      },
      plugins: [toolsPlugin({ toolsDir, slices })],
    });
  } catch (error) {
    if (!error.errors) throw error;
    const problems = await Promise.all(error.errors.map((message) => problemOfMessage(message, toolsDir)));
    return { code: "", map: "", sizes: [], problems };
  }

  const whole = result.outputFiles.find((f) => f.path === outfile).text.split(REQUIRE).join("require").trimEnd();
  const wholeMap = result.outputFiles.find((f) => f.path === `${outfile}.map`).text;
  const file = path.relative(ROOT, outfile).split(path.sep).join("/");
  // With the slices still in it: what they use and what uses them is one program.
  const problems = checkSource(whole, { map: wholeMap, file, globals: SLICE_NAMES });
  if (problems.length) return { code: whole, map: wholeMap, problems, sizes: [] };
  const { code, map, tooLong } = cutSlices(whole, wholeMap, { ...slices, isRoom });
  for (const { tool, length } of tooLong) {
    const message = `the tool's code has ${length} bytes: at most ${MAX_TOOL_CODE}`;
    const hint = "move a part of it into a file of firmware/ that is one of ROOMS in esbuild.config.mjs";
    problems.push({ message, hint, file: path.relative(ROOT, slices.files[tool]).split(path.sep).join("/"), line: 1, column: 1 });
  }
  const stray = code.search(/[^\x00-\x7f]/);
  if (stray >= 0) {
    const message = `the bundle holds ${JSON.stringify(code[stray])} at character ${stray}`;
    problems.push({ message, hint: "keep text beyond ASCII in string literals", file, line: 1, column: stray + 1 });
  }
  const sizes = roomSizes(result.metafile, path.dirname(path.dirname(entry)), code.length);
  if (code.length > budget) {
    const largest = sizes.slice(0, 3).map((s) => `${s.room} ${s.bytes}`);
    const message = `the bundle has ${code.length} bytes, ${code.length - budget} over the budget of ${budget}`;
    const hint = `shorten it, or raise SIZE_BUDGET in esbuild.config.mjs; largest: ${largest.join(", ")}`;
    problems.push({ message, hint, file, line: 1, column: 1 });
  }
  if (problems.length === 0 && options.write !== false) {
    fs.mkdirSync(path.dirname(outfile), { recursive: true });
    fs.writeFileSync(outfile, code);
    fs.writeFileSync(`${outfile}.map`, map);
  }
  return { code, map, problems, sizes };
}

/** @returns {Promise<Problem>} */
async function problemOfMessage({ text, location, notes, detail }, toolsDir) {
  const place = location ? await toolPlace(location, toolsDir, ROOT, true) : { file: "build", line: 1, column: 0 };
  const unsupported = /^Transforming (.*) to the configured target environment/.exec(text);
  const message = unsupported ? `${unsupported[1]} is not parsed by the board` : text;
  // esbuild adds to an error of a plugin what led to the plugin: nothing the reader can act on.
  const note = notes?.find((n) => !n.text.startsWith("The plugin "));
  const advice = note?.location && note.text.endsWith(":") ? `${note.text} line ${note.location.line}` : note?.text;
  const hint =
    unsupported ? "no spread, rest, defaults, destructuring, async or generators"
    // Here esbuild's own advice is about Node.
    : text.startsWith('Could not resolve ".') ? "there is no such file"
    : text.startsWith("Could not resolve") ? "import files as ./name; modules of the board are read with require"
    : detail?.hint ?? advice;
  const file = place.file.split(path.sep).join("/");
  return { message, hint: hint ?? "", file, line: place.line, column: place.column + 1 };
}

/** One entry a file of `firmware/`, one a subfolder, one for the tools; largest first. */
function roomSizes(metafile, base, total) {
  const rooms = new Map();
  let rest = total;
  for (const { inputs } of Object.values(metafile.outputs)) {
    for (const [input, { bytesInOutput }] of Object.entries(inputs)) {
      const file = path.relative(base, path.resolve(ROOT, input)).split(path.sep).join("/");
      const [folder, name, ...deeper] = file.split("/");
      const room = deeper.length ? `${folder}/${name}/` : folder === "tools" ? "tools/" : file;
      rooms.set(room, (rooms.get(room) ?? 0) + bytesInOutput);
      rest -= bytesInOutput;
    }
  }
  if (rest > 0) rooms.set("(wrapper)", rest);
  return [...rooms].map(([room, bytes]) => ({ room, bytes })).sort((a, b) => b.bytes - a.bytes);
}

if (process.argv[1] && fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const { code, problems, sizes } = await buildBundle();
  for (const { room, bytes } of sizes) console.log(`${String(bytes).padStart(7)}  ${room}`);
  if (problems.length) {
    for (const problem of problems) console.error(formatProblem(problem));
    console.error(`build failed: ${problems.length} problem${problems.length === 1 ? "" : "s"}`);
    process.exitCode = 1;
  } else {
    console.log(`${String(code.length).padStart(7)}  dist/agent.js, of ${SIZE_BUDGET} bytes`);
  }
}
