import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { lockFolder, setAside } from "../../gateway/state";

let folder: string;
beforeEach(() => void (folder = mkdtempSync(path.join(tmpdir(), "gateway-"))));
afterEach(() => rmSync(folder, { recursive: true }));

describe("the lock of a folder", () => {
  const lock = (): string => path.join(folder, "gateway.pid");

  it("is there while it is held, and gone afterwards", async () => {
    const unlock = await lockFolder(folder, "--state");
    expect(readFileSync(lock(), "utf8")).toMatch(new RegExp(`^${process.pid} `));
    await unlock();
    expect(readdirSync(folder)).toEqual([]);
  });

  it("names the process that has it, the folder, the option and the file", async () => {
    writeFileSync(lock(), String(process.ppid));
    await expect(lockFolder(folder, "--state")).rejects.toThrow(
      `--state: ${folder} is used by another gateway, process ${process.ppid}: stop that, or choose another folder. ` +
        `If that process is no gateway, delete ${lock()}`,
    );
    expect(readFileSync(lock(), "utf8")).toBe(String(process.ppid));
  });

  it.each([
    ["a process that is gone", "999999999"],
    ["a process of an earlier start of the machine", `${process.ppid} 0-0-0\n`],
    ["a process of the same number, as in a container", String(process.pid)],
    ["nobody: it is empty", ""],
    ["nobody: it is damaged", "\0\0\0"],
  ])("is taken over from %s", async (_name, text) => {
    writeFileSync(lock(), text);
    const unlock = await lockFolder(folder, "--state");
    expect(readFileSync(lock(), "utf8")).toMatch(new RegExp(`^${process.pid} `));
    await unlock();
  });

  it("that somebody else has taken is left alone", async () => {
    const unlock = await lockFolder(folder, "--state");
    writeFileSync(lock(), "1234");
    await unlock();
    expect(readFileSync(lock(), "utf8")).toBe("1234");
  });

  it("cannot be made where no folder is", async () => {
    await expect(lockFolder(path.join(folder, "x"), "--files")).rejects.toThrow(
      /^--files: the folder .*x cannot be used \(ENOENT.*\): choose another$/,
    );
  });
});

it("what is put aside is told once, and what cannot be moved as well", async () => {
  const problems: string[] = [];
  const aside = (name: string): Promise<void> =>
    setAside(path.join(folder, name), new Error("no JSON"), "it is gone", (problem) => problems.push(problem));
  writeFileSync(path.join(folder, "a"), "x");
  await Promise.all([aside("a"), aside("a")]);
  expect(problems).toEqual([`${folder}/a is damaged (no JSON): it is now ${folder}/a.bad, and it is gone`]);
  // A file in place of the folder.
  await aside("a.bad/b");
  expect(problems[1]).toMatch(/a\.bad\/b is damaged, and cannot be put aside \(ENOTDIR.*\): delete it; it is gone$/);
});
