import { startVitest } from "vitest/node";

/**
 * `npm run test:target`: the scenario suite on the real interpreter that `ESPRUINO_BIN` names. The environment is
 * passed on to it, so that a build which reads its number of variables from there can be given one.
 */
if (!process.env.ESPRUINO_BIN) {
  console.log("test:target: skipped. Set ESPRUINO_BIN to an Espruino interpreter built for Linux to run it.");
} else {
  // Two at once: an interpreter waits most of the time, but its input thread polls.
  const vitest = await startVitest(
    "test",
    ["test/scenarios/", "test/drivers/"],
    { run: true, watch: false, maxWorkers: 2, env: { TEST_DRIVER: "espruino" } },
  );
  await vitest.close();
}
