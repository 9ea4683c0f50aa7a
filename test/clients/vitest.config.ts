import path from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/** Programs of others against the simulated board. They are downloaded, so that `npm test` does without them. */
export default defineConfig({
  root: path.join(path.dirname(fileURLToPath(import.meta.url)), "../.."),
  test: {
    include: ["test/clients/**/*.spec.ts"],
    environment: "node",
    watch: false,
    // One upload of the bundle takes a minute at the client's own pace.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    fileParallelism: false,
  },
});
