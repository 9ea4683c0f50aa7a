/** The real interpreter loses its power, or its wire, while it is flashed. */
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { interpreterOnPort, type PortBoard } from "./boards";
import { agentCode, run } from "./program";

const binary = process.env.ESPRUINO_BIN;
const longMs = 600_000;
/** About what this repository's bundle may have: two of them do not fit the 256 kB that the Linux build has. */
const largeBytes = 150_000;

interface Cutter {
  readonly port: string;
  /** Bytes to the board until `onCut` is called and the connection ends. */
  cutAfter(bytes: number, onCut: () => Promise<void>): void;
  close(): Promise<void>;
}

/** Between a client and a board on TCP. */
async function createCutter(target: string): Promise<Cutter> {
  const to = Number(new URL(target.replace("tcp:", "http:")).port);
  let left = Infinity;
  let cut = async (): Promise<void> => {};
  const sockets = new Set<Socket>();
  const server: Server = createServer((client) => {
    const board = connect(to, "127.0.0.1");
    for (const socket of [client, board]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        client.destroy();
        board.destroy();
      });
    }
    board.pipe(client);
    client.on("data", (data) => {
      board.write(data.subarray(0, left));
      left -= data.length;
      if (left > 0) return;
      left = Infinity;
      void cut().then(() => client.destroy());
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: `tcp://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cutAfter(bytes, onCut) {
      left = bytes;
      cut = onCut;
    },
    close() {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

describe.skipIf(!binary)("the interpreter", () => {
  let board: PortBoard;
  let cutter: Cutter;
  beforeAll(async () => {
    board = await interpreterOnPort(binary!).start();
    cutter = await createCutter(board.port);
  });
  afterAll(async () => {
    await cutter.close();
    await board.stop();
  });

  it("always starts an agent, and the next flash completes", { timeout: longMs }, async () => {
    const oldBundle = agentCode("old", 1500);
    expect(await run(["flash", "--port", board.port], { bundle: oldBundle })).toMatchObject({ code: 0 });
    let isOld = true;
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 50, max: 12_000 }), fc.boolean(), async (bytes, losesPower) => {
        const [name, bundle] = isOld ? ["new", agentCode("new", 2500)] : ["old", oldBundle];
        let isPowered: Promise<void> | undefined;
        cutter.cutAfter(bytes, async () => {
          if (losesPower) await (isPowered = board.powerCycle());
        });
        const cut = await run(["flash", "--port", cutter.port], { bundle });
        await (isPowered ?? board.powerCycle());
        const boots = await run([
          "console",
          "--port",
          board.port,
          "--send",
          "agentName",
          "--expect",
          '="',
          "--timeout",
          "5",
        ]);
        expect(boots.out).toMatch(/^="(old|new)"$/m);
        if (cut.code !== 0) expect(cut.err).toMatch(/closed the connection|connection broke/);
        const again = await run(["flash", "--port", board.port], { bundle });
        expect(again).toMatchObject({ code: 0, err: "" });
        const now = await run(["console", "--port", board.port, "--send", "agentName", "--expect", `="${name}"`]);
        expect(now.code).toBe(0);
        const list = 'print(require("Storage").list().sort().join())';
        expect(
          (await run(["console", "--port", board.port, "--send", list, "--expect", ".bootcde,agent\r"])).code,
        ).toBe(0);
        isOld = !isOld;
      }),
      { numRuns: 6, seed: 42, endOnFailure: true },
    );
  });

  it("with --replace, two bundles that do not fit: starts to a prompt, and the next flash completes", {
    timeout: 2 * longMs,
  }, async () => {
    const send = (text: string, expected: string) =>
      run(["console", "--port", board.port, "--send", text, "--expect", expected, "--timeout", "10"]);
    await send('require("Storage").eraseAll()', "=");
    await send('require("Storage").write("agent.json",\'{"model":"mine"}\')', "=true");
    await send('require("Storage").write(".bootcde","var mine=1;")', "=true");
    const bundles = [agentCode("old", largeBytes), agentCode("new", largeBytes)];
    expect(await run(["flash", "--port", board.port], { bundle: bundles[0] })).toMatchObject({ code: 0, err: "" });
    const refused = await run(["flash", "--port", board.port], { bundle: bundles[1] });
    expect(refused.code).toBe(1);
    expect(refused.err).toMatch(/too full for the old and the new agent: .*--replace/);

    for (const [round, bytes] of [10_000, 80_000, 150_000].entries()) {
      const bundle = bundles[(round + 1) % 2]!;
      let isPowered: Promise<void> | undefined;
      cutter.cutAfter(bytes, () => (isPowered = board.powerCycle()));
      const cut = await run(["flash", "--port", cutter.port, "--replace"], { bundle });
      expect(cut).toMatchObject({ code: 1, err: expect.stringMatching(/\. Run espruino-agent flash again/) });
      await isPowered;
      expect((await send("mine", "=1")).code).toBe(0);
      const doctor = await run(["doctor", "--port", board.port]);
      expect(doctor.out).toMatch(/^✗ agent .*cut/m);
      // The old one is gone: there is room.
      expect(await run(["flash", "--port", board.port], { bundle })).toMatchObject({ code: 0, err: "" });
      expect((await send("agentName", `="${round % 2 === 0 ? "new" : "old"}"`)).code).toBe(0);
      const list = 'print(require("Storage").list().sort().join())';
      expect((await send(list, ".bootcde,agent,agent.json\r")).code).toBe(0);
      expect((await send('require("Storage").readJSON("agent.json").model', '="mine"')).code).toBe(0);
    }
  });
});
