/**
 * The agent in a board's Storage, so that the board can start an agent at every moment of it: the one it had, until the
 * new one is there, proved and tried.
 *
 * Storage has no rename, and writes a file anew by erasing it first. So the new bundle goes to `agent.new`. Then a boot
 * file says that `agent` is to be read from there: a file of a new name is there or not, with nothing in between. Then
 * `agent` is written, on the board, from `agent.new`; last, the boot file and `agent.new` go. Wherever this is cut, a
 * later call finds what it needs to go on.
 *
 * Where the Storage has no room for two, and the person has said so, the old one goes first. Then a boot file stands in
 * for the agent until the new one is there: it says at power-up that there is none, and `require("agent")` does not
 * fail.
 */
import { type BoardInfo, type Device, DeviceError, hasPackets } from "./device";
import type { Progress } from "./progress";
import { boardLiteral } from "./text";
import { compactMs, eraseFile, freeSpace, isSame, readSum, sizeInStorage, type Sum, sumOf, uploadFile } from "./upload";

const agentFile = "agent";
const newFile = `${agentFile}.new`;
const bootFile = ".bootcde";
export const settingsFile = "agent.json";
const startLine = 'require("agent")';
const storage = 'require("Storage")';

/** Boot files that Espruino runs before `.bootcde`, since 2v01; the last one is the least used. */
const redirectFiles = [".boot3", ".boot2", ".boot1", ".boot0"];
/** Makes `require("agent")` give what `agent.new` gives. */
const redirectCode = `Modules.addCached("${agentFile}",${storage}.read("${newFile}"))`;
/** Stands in for an agent that is not there, or not whole. One statement: a half of it does nothing. */
const absentCode =
  `Modules.addCached("${agentFile}",` +
  `'print("No agent on this board: its update was not completed. Run espruino-agent flash again")')`;

/** Room for the boot files and settings. */
const spareBytes = 1024;
/** Time for an agent to start. */
const startMs = 15_000;

/** What an upload that was cut has left is completed, or taken back. The board is at its prompt, without a program. */
export async function recover(device: Device, progress: Progress): Promise<void> {
  for (const { name, state } of await redirects(device)) {
    if (state === "ours" && (await isComplete(device, newFile))) {
      progress.say("An earlier upload was cut after it was proved: it is completed");
      await finishSwitch(device, name, progress);
    } else if (state === "ours" || state === "incomplete") await eraseFile(device, name);
    else if (state === "absent") {
      if (await isComplete(device, agentFile)) await eraseFile(device, name);
      else progress.say("An earlier update was cut after the old agent was erased: the new one is written again");
    }
  }
  for (const name of [bootFile, settingsFile]) await recoverFile(device, name, progress);
  let isLeft = false;
  for (const name of [newFile, agentFile, bootFile, settingsFile]) {
    if (!(await readSum(device, name)) || (name !== newFile && (await isComplete(device, name)))) continue;
    await eraseFile(device, name);
    isLeft = true;
  }
  if (isLeft) progress.say("What was left of an earlier upload is erased");
  await eraseFile(device, `${settingsFile}.part`);
}

/**
 * Puts `code` (ASCII) into the Storage as `agent`, unless it is there already. Returns whether it had to. With
 * `mayReplace`, the old agent is erased first where there is no room for both: from then until the end, a cut leaves
 * the board without one.
 * @throws {DeviceError} it does not fit, does not arrive, or does not start: the board is as it was before, or, where
 * the old agent had to go, without one
 */
export async function installAgent(
  device: Device,
  info: BoardInfo,
  code: string,
  mayReplace: boolean,
  progress: Progress,
): Promise<{ isChanged: boolean; method?: "packets" | "lines" }> {
  const wanted = sumOf(code);
  const old = await readSum(device, agentFile);
  if (isSame(old, wanted)) {
    await eraseRedirects(device, "absent");
    return { isChanged: false };
  }
  const isBeside = await findRoom(device, code.length, old, mayReplace);
  if (!isBeside) {
    progress.say(
      "agent: the Storage has no room for two, so the old one is erased now. Do not unplug the board: it has no agent\n" +
        "  until flash has ended",
    );
    await redirectBoot(device, absentCode);
    await eraseFile(device, agentFile);
  }
  const onCompact = (): void => progress.begin("Storage: making room. Do not unplug the board now", 0);
  await freeSpace(device, sizeInStorage(code.length) + spareBytes, onCompact);

  const target = old && isBeside ? newFile : agentFile;
  progress.begin(`agent: ${code.length} bytes to the board`, code.length);
  const options = { hasPackets: hasPackets(info), onProgress: (bytes: number) => progress.advance(bytes) };
  const { method } = await uploadFile(device, target, code, options);
  progress.begin("agent: trying it", 0);
  try {
    const name = boardLiteral(target);
    // What stands in for it is cached.
    await device.evaluate(`(Modules.removeAllCached(),require(${name}),1)`, { attempts: 1, ms: startMs });
  } catch (error) {
    if (!(error instanceof DeviceError)) throw error;
    await device.reset();
    await eraseFile(device, target);
    const rest = !old
      ? "It was taken off the board again"
      : isBeside
        ? "The agent that was on the board is still there"
        : "It was taken off the board again, which is without an agent now: there was no room for the old one";
    throw new DeviceError(`the new agent does not start on this board: ${error.message}. ${rest}`);
  }
  await device.reset();
  if (target === newFile) await finishSwitch(device, await redirectBoot(device, redirectCode), progress);
  else await eraseRedirects(device, "absent");
  progress.end();
  return { isChanged: true, method };
}

/** From here on `agent.new` is what the board starts, until `agent` is the same. */
async function finishSwitch(device: Device, redirect: string, progress: Progress): Promise<void> {
  progress.begin("agent: in place of the old one", 0);
  await copyFile(device, newFile, agentFile);
  await eraseFile(device, redirect);
  await eraseFile(device, newFile);
  progress.end();
}

/**
 * Copies a file on the board; what was there under `to` is erased first. `prefix` is put before it, `skip` bytes of it
 * are left out.
 */
export async function copyFile(device: Device, from: string, to: string, prefix = "", skip = 0): Promise<void> {
  // Through base64, so that each piece is a copy in RAM: the source moves where writing makes Storage compact itself.
  const copy =
    `(function(s,a,b,p,k,l,n){n=s.read(a).length-k;l=p.length;s.erase(b);if(l)s.write(b,p,0,l+n);` +
    `for(var o=0;o<n;o+=256)s.write(b,atob(btoa(s.read(a,o+k,256))),o+l,n+l);return 1})` +
    `(${storage},${boardLiteral(from)},${boardLiteral(to)},${boardLiteral(prefix)},${skip})`;
  // More than once: it begins anew.
  for (let attempt = 0; attempt < 2; attempt++) {
    try {
      await device.evaluate(copy, { ms: compactMs });
    } catch (error) {
      if (!(error instanceof DeviceError) || attempt === 1) throw error;
    }
    if (isSame(await readSum(device, to, prefix.length), await readSum(device, from, skip))) return;
  }
  throw new DeviceError(`${to} is not the same as ${from} on the board: its flash may be worn out`);
}

/**
 * Whether the new agent fits beside the old one; if not, it fits in the place of the old one.
 * @throws {DeviceError} it does not fit, or it does and `mayReplace` does not allow it
 */
async function findRoom(device: Device, size: number, old: Sum | undefined, mayReplace: boolean): Promise<boolean> {
  const room = await device.evaluate<number>(
    `(function(s,t){t=s.getStats?s.getStats():{};return s.getFree()+(t.trashBytes||0)})(${storage})`,
  );
  const needed = sizeInStorage(size);
  const freed = old ? sizeInStorage(old.length) : 0;
  // Beside the old one first; then the old one goes, and the new one is there twice for a moment.
  const beside = Math.max(needed, old ? 2 * needed - freed : 0) + spareBytes;
  if (room >= beside) return true;
  const isEnough = old !== undefined && room + freed >= needed + spareBytes && room >= sizeInStorage(absentCode.length);
  if (isEnough && mayReplace) return false;
  const replace = isEnough
    ? ", or run this again with --replace: it erases the old agent before the new one is on the board, so that a cut " +
      "leaves the board without an agent until flash is run again"
    : "";
  throw new DeviceError(
    `the board's Storage is too full${isEnough ? " for the old and the new agent" : ""}: ${beside} bytes are needed, ` +
      `${room} are free. Erase files that you do not need${replace}. ` +
      `At its console ${storage}.list() names the files, ${storage}.erase("NAME") erases one`,
  );
}

/**
 * What is under each name that a redirect may have: nothing, what makes `agent.new` the agent, what stands in for an
 * agent that is not there, one of these written half, or something of the person's own.
 */
async function redirects(device: Device): Promise<{ name: string; state: RedirectState }[]> {
  const codes = [redirectCode, absentCode].map(boardLiteral).join();
  const states = await device.evaluate<number[]>(
    `(function(c){return ${JSON.stringify(redirectFiles)}.map(function(n){n=${storage}.read(n);` +
      `return n===undefined?0:n===c[0]?1:n===c[1]?2:` +
      `(n.length===c[0].length||n.length===c[1].length)&&n.endsWith("\xff")?3:4})})([${codes}])`,
  );
  const names = ["free", "ours", "absent", "incomplete", "other"] as const;
  return redirectFiles.map((name, i) => ({ name, state: names[states[i]!]! }));
}

type RedirectState = "free" | "ours" | "absent" | "incomplete" | "other";

/** Has the board run `code` at power-up before anything that needs the agent. Returns the name of the file. */
async function redirectBoot(device: Device, code: string): Promise<string> {
  const own: RedirectState = code === absentCode ? "absent" : "ours";
  const places = await redirects(device);
  const place = places.find(({ state }) => state === own) ?? places.find(({ state }) => state === "free");
  if (!place) {
    await eraseFile(device, newFile);
    throw new DeviceError(
      `the board has files of its own under all of ${redirectFiles.join(", ")}: erase one of them`,
    );
  }
  await writeLine(device, place.name, code);
  return place.name;
}

async function eraseRedirects(device: Device, wanted: RedirectState): Promise<void> {
  for (const { name, state } of await redirects(device)) if (state === wanted) await eraseFile(device, name);
}

/** Whether an upload of the agent was cut, so that `recover` has something to do. */
export async function isCut(device: Device): Promise<boolean> {
  if (await readSum(device, newFile)) return true;
  return (await redirects(device)).some(({ state }) => state !== "free" && state !== "other");
}

/** A short file in one call. Writing the same again changes nothing. */
async function writeLine(device: Device, name: string, content: string): Promise<void> {
  const isWritten = await device.evaluate<boolean>(`${storage}.write(${boardLiteral(name)},${boardLiteral(content)})`, {
    ms: compactMs,
  });
  if (!isWritten) throw new DeviceError(`${name} could not be written to the board's Storage`);
}

/** A file is written from its beginning, and flash that was not written reads as 0xFF. False where there is no file. */
async function isComplete(device: Device, name: string): Promise<boolean> {
  const read = `${storage}.read(${boardLiteral(name)})`;
  return device.evaluate<boolean>(`(function(t){return t!==undefined&&!t.endsWith("\\xff")})(${read})`);
}

/**
 * Writes a text file in the place of another without a moment in which neither is on the board: the new one is proved
 * under a name of its own first.
 */
export async function replaceFile(device: Device, info: BoardInfo, name: string, content: string): Promise<void> {
  const old = await readSum(device, name);
  if (isSame(old, sumOf(content))) return;
  const target = old ? `${name}.new` : name;
  await uploadFile(device, target, content, { hasPackets: hasPackets(info) });
  if (!old) return;
  await copyFile(device, target, name);
  await eraseFile(device, target);
}

/** After `replaceFile` was cut: completes it where the new file was proved, takes it back where not. */
async function recoverFile(device: Device, name: string, progress: Progress): Promise<void> {
  const spare = `${name}.new`;
  if (!(await readSum(device, spare))) return;
  if ((await isComplete(device, spare)) && !(await isComplete(device, name))) {
    await copyFile(device, spare, name);
    progress.say(`${name} was lost in an earlier upload that was cut: it is back`);
  }
  await eraseFile(device, spare);
}

/**
 * Has the board start the agent at power-up, or not, and says what was done. A `.bootcde` of the person's own stays:
 * the agent's line is put before it, and taken out again. It is changed on the board, and not sent to this computer.
 */
export async function setBoot(device: Device, isWanted: boolean): Promise<string> {
  const { length, hasLine, isOurs, hasRst } = await readBoot(device);
  const warning = hasRst
    ? ". But a file .bootrst is there, which Espruino runs in its place: put the line there, or erase it"
    : "";
  if (isWanted) {
    if (hasLine) return `${bootFile} starts the agent at power-up, as before${warning}`;
    if (length === 0) await writeLine(device, bootFile, startLine);
    else await changeFile(device, bootFile, `${startLine};\n`, 0);
    return length === 0
      ? `${bootFile} starts the agent at power-up${warning}`
      : `${bootFile} starts the agent at power-up: ${startLine}; was put before the code that was there${warning}`;
  }
  if (!hasLine) return `${bootFile} does not start the agent at power-up`;
  if (isOurs && length === startLine.length) {
    await eraseFile(device, bootFile);
    return `${bootFile} is erased: it did nothing but start the agent`;
  }
  const before = `${startLine};\n`;
  if (!isSame(await readSum(device, bootFile, 0, before.length), sumOf(before))) {
    return `${bootFile} starts the agent with a line of its own: take it out there`;
  }
  await changeFile(device, bootFile, "", before.length);
  return `${bootFile} no longer starts the agent: the line is taken out, the rest stays`;
}

/** What runs at power-up. */
export interface BootState {
  /** Bytes of `.bootcde`; 0 where there is none. */
  length: number;
  /** It starts the agent. */
  hasLine: boolean;
  /** It begins as this program writes it. */
  isOurs: boolean;
  /** A file `.bootrst` is there, which Espruino runs in its place. */
  hasRst: boolean;
}

export function readBoot(device: Device): Promise<BootState> {
  return device.evaluate<BootState>(
    `(function(s,t){t=s.read("${bootFile}");return{length:t===undefined?0:t.length,` +
      `hasLine:t!==undefined&&/require\\( *.agent. *\\)/.test(t),` +
      `isOurs:t!==undefined&&t.startsWith(${boardLiteral(startLine)}),` +
      `hasRst:s.read(".bootrst")!==undefined}})(${storage})`,
  );
}

/** Bytes of the person's own code in `.bootcde`, about: without the agent's line. */
export function ownBytes({ length, hasLine }: BootState): number {
  if (!hasLine) return length;
  const rest = length - startLine.length;
  return rest <= ";\r\n".length ? 0 : rest;
}

/** Puts `prefix` before a file, or takes `skip` bytes from its beginning; one whole file is always on the board. */
async function changeFile(device: Device, name: string, prefix: string, skip: number): Promise<void> {
  const spare = `${name}.new`;
  await copyFile(device, name, spare, prefix, skip);
  await copyFile(device, spare, name);
  await eraseFile(device, spare);
}
