import { readFile, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { plain, POWER_CYCLE, sessions } from "./repl-exchange";
import { interpreterPeer, type Peer, simulatedPeer } from "./repl-peers";

const FILE = fileURLToPath(new URL("./repl-exchange.json", import.meta.url));
/** Real ms for an answer that does not come; it ends a failing test. */
const GIVE_UP_MS = 5000;
/** Real ms of silence after which an answer that nobody knows yet counts as complete. */
const QUIET_MS = 250;

type Recording = Record<string, { sent: string; got: string }[]>;
const recording = JSON.parse(await readFile(FILE, "utf8").catch(() => "{}")) as Recording;
const binary = process.env.ESPRUINO_BIN;
const isRecording = binary !== undefined && process.env.RECORD_EXCHANGE !== undefined;

/** The interpreter after its first banner, which is no part of the exchange. */
async function interpreter(): Promise<Peer> {
  const peer = await interpreterPeer(binary!);
  const socket = connect(peer.port, "127.0.0.1");
  await new Promise((resolve) => setTimeout(resolve, 4 * QUIET_MS));
  socket.destroy();
  return peer;
}

/** Sends every piece of a session and gives what came back, each time until it is what is expected or nothing comes. */
async function exchange(peer: Peer, pieces: string[], expected: string[] | undefined): Promise<string[]> {
  const socket = connect(peer.port, "127.0.0.1");
  let got = "";
  let wake = (): void => undefined;
  socket.on("data", (bytes) => {
    got += bytes.toString("latin1");
    wake();
  });
  await new Promise((resolve) => socket.once("connect", resolve));
  const answers: string[] = [];
  for (const [i, piece] of pieces.entries()) {
    got = "";
    if (piece === POWER_CYCLE) await peer.powerCycle();
    else socket.write(Buffer.from(piece, "latin1"));
    const wanted = expected?.[i];
    const isDone = (): boolean => wanted !== undefined && plain(got) === wanted;
    while (!isDone()) {
      const isMore = await new Promise<boolean>((resolve) => {
        const timer = setTimeout(() => resolve(false), wanted === undefined ? QUIET_MS : GIVE_UP_MS);
        wake = () => {
          clearTimeout(timer);
          resolve(true);
        };
      });
      if (!isMore) break;
    }
    answers.push(plain(got));
  }
  socket.destroy();
  return answers;
}

const asSteps = (pieces: string[], answers: string[]): { sent: string; got: string }[] =>
  pieces.map((sent, i) => ({ sent, got: answers[i]! }));

describe.runIf(isRecording)("recording", () => {
  it(
    "writes down what the interpreter answers",
    async () => {
      const result: Recording = {};
      for (const [name, pieces] of Object.entries(sessions)) {
        const peer = await interpreter();
        try {
          const answers = await exchange(peer, pieces, undefined);
          result[name] = asSteps(pieces, answers.map((one) => one.replaceAll("USB", "Serial1")));
        } finally {
          await peer.stop();
        }
      }
      await writeFile(FILE, `${JSON.stringify(result, undefined, 1)}\n`);
    },
    600_000,
  );
});

describe.skipIf(isRecording).each(Object.entries(sessions))("the exchange %s", (name, pieces) => {
  const expected = recording[name]?.map((step) => step.got);

  it("is what was recorded", () => {
    expect(recording[name]?.map((step) => step.sent)).toEqual(pieces);
  });

  it("goes the same way on the simulated board", async () => {
    const peer = await simulatedPeer();
    try {
      const answers = await exchange(peer, pieces, expected);
      expect(asSteps(pieces, answers)).toEqual(recording[name]);
    } finally {
      await peer.stop();
    }
  });

  it.runIf(binary !== undefined)("goes the same way on the interpreter", async () => {
    const peer = await interpreter();
    try {
      const answers = await exchange(peer, pieces, expected);
      expect(asSteps(pieces, answers)).toEqual(recording[name]);
    } finally {
      await peer.stop();
    }
  });
});
