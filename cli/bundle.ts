/** The board's code, built from this repository. */
import type { Surroundings } from "./command";
import type { Output } from "./console";
import { UsageError } from "./settings";

type Build = NonNullable<Surroundings["build"]>;

/** The bundle's code (default: this repository's); undefined where the sources have problems, which are then told. */
export async function makeBundle(build: Build | undefined, stderr: Output): Promise<string | undefined> {
  const { code, problems } = await (build ?? (await loadBuild()))().catch((error: NodeJS.ErrnoException) => {
    if (error.syscall === undefined) throw error;
    throw new UsageError(`dist/ cannot be written: ${error.message}`);
  });
  if (problems.length === 0) return code;
  const { formatProblem } = await import("../esbuild.check.mjs");
  for (const problem of problems) stderr.write(`${formatProblem(problem)}\n`);
  stderr.write("the bundle could not be built, so there is nothing to start\n");
  return undefined;
}

/** The bundler takes half a second to load. */
export async function loadBuild(): Promise<Build> {
  return (await import("../esbuild.config.mjs")).buildBundle;
}
