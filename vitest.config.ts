import path from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { toolsVitePlugin } from "./esbuild.tools.mjs";

const root = path.dirname(fileURLToPath(import.meta.url));

export default defineConfig({
  root,
  plugins: [toolsVitePlugin({ toolsDir: path.join(root, "tools") })],
  test: {
    include: ["test/**/*.test.ts"],
    environment: "node",
    watch: false,
    // A build and a simulated board in one test take seconds on a slow machine.
    testTimeout: 30_000,
    coverage: { include: ["firmware/**", "tools/**", "host-sim/**", "gateway/**", "cli/**"] },
  },
});
