import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { PassThrough } from "node:stream";
import { afterEach, beforeEach, expect, it } from "vitest";
import { readArguments } from "../../cli/arguments";
import type { Input } from "../../cli/console";
import { gatewayCommand } from "../../cli/gateway";
import { UsageError } from "../../cli/settings";

let folder: string;
beforeEach(() => void (folder = mkdtempSync(path.join(tmpdir(), "gateway-files-"))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const local = (): string[] => ["--upstream", "http://127.0.0.1:11434/v1", "--listen", "127.0.0.1:0", ...state()];
const state = (): string[] => ["--state", path.join(folder, "state")];
const files = (): string => path.join(folder, "files");

/** Runs the command until it ends, or says `until` on stderr: then `meanwhile`, and it is stopped. */
async function run(args: string[], until?: string, meanwhile: (err: string) => Promise<void> = async () => {}) {
  let out = "";
  let err = "";
  let isDue = until !== undefined;
  const stop = new AbortController();
  const io = {
    env: { HOME: folder },
    stdin: new PassThrough() as unknown as Input,
    stdout: { isTTY: true, write: (data: string | Uint8Array) => void (out += String(data)) },
    stderr: {
      write(data: string | Uint8Array) {
        err += String(data);
        if (!isDue || !err.includes(until!)) return;
        isDue = false;
        void meanwhile(err).finally(() => stop.abort(0));
      },
    },
    signal: stop.signal,
  };
  try {
    const { positional, options } = readArguments(gatewayCommand, args);
    return { code: await gatewayCommand.run(positional, options, io), out, err };
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return { code: 2, out, err: error.message };
  }
}

it.each<[string[], RegExp]>([
  [["--files-expire", "5"], /--files-expire says nothing without --files/],
  [["--files-url", "https://x.example"], /--files-url says nothing without --files/],
  [["--max-file-bytes", "5"], /--max-file-bytes says nothing without --files/],
  [["--files", "f", "--files-expire", "0"], /--files-expire must be a whole number from 1 to/],
  [["--files", "f", "--files-total", "1e9"], /--files-total must be a whole number/],
  [["--files", "f", "--files-total", "1000"], /--max-file-bytes \(10485760\) must not be above --files-total \(1000\)/],
  [["--files", "f", "--files-url", "files.example"], /--files-url must be a URL/],
  [["--files", "f", "--files-url", "https://me:pass@files.example"], /--files-url must be a URL/],
  [["--files", "f", "--files-url", `https://${"x".repeat(220)}`], /--files-url is longer than 200 characters/],
])("%j is bad usage", async (args, message) => {
  const { code, err } = await run([...local(), ...args]);
  expect(code).toBe(2);
  expect(err).toMatch(message);
  expect(err).not.toContain("pass@");
});

it("a folder that cannot be used, or is in use, exits with 1", async () => {
  writeFileSync(files(), "");
  expect(await run([...local(), "--files", path.join(files(), "x")])).toMatchObject({
    code: 1,
    err: expect.stringMatching(/^--files: the folder .*files\/x cannot be used \(ENOTDIR.*\): choose another\n$/),
  });
  rmSync(files());
  expect((await run([...local(), "--files", files()], "no board has a token")).code).toBe(0);
  writeFileSync(path.join(files(), "gateway.pid"), String(process.ppid));
  expect(await run([...local(), "--files", files()])).toMatchObject({
    code: 1,
    err: expect.stringMatching(/^--files: .*files is used by another gateway, process \d+: stop that, or choose another folder/),
  });
});

it("says where files go, takes one, shows it on one line, and tells what to type at a board", async () => {
  const { out: shown } = await run(["token", "add", "desk", ...state()]);
  const token = /eagw_[\w-]+/.exec(shown)![0];
  let added = "";
  const args = [...local(), "--files", files(), "--files-url", "https://files.example.org/gw/", "--files-expire", "24"];
  const { code, out, err } = await run(args, "tokens: 1", async (said) => {
    const origin = /boards: (\S+)\/v1/.exec(said)![1];
    const body = new FormData();
    body.set("file", new Blob(["words"]), "a\u001b[31m.txt");
    const headers = { authorization: `Bearer ${token}` };
    const response = await fetch(`${origin}/upload`, { method: "POST", body, headers });
    const { data } = (await response.json()) as any;
    expect(data.url).toBe(`https://files.example.org/gw/download/${data.file_id}`);
    expect(await (await fetch(`${origin}/download/${data.file_id}`)).text()).toBe("words");
    added = (await run(["token", "add", "kitchen", ...state()])).out;
    expect(added).toContain(`multimodal:true,uploadUrl:"${origin}/upload",fileToken:"${/eagw_[\w-]+/.exec(added)![0]}"`);
  });
  expect(code).toBe(0);
  expect(err).toMatch(/files: .*files, each up to 10485760 bytes for 24 h, 1073741824 bytes in all, links https:/);
  expect(err).not.toContain("failed");
  expect(added).not.toBe("");
  expect(out).toMatch(/desk POST \/upload a_\[31m\.txt 200 done, 5 bytes, \d/);
  expect(out).toMatch(/\(127\.0\.0\.1\) GET \/download\/:id a_\[31m\.txt 200 done, 5 bytes/);
  expect(out).not.toContain("\u001b");
  expect(readdirSync(path.join(files(), "content"))).toHaveLength(1);
});
