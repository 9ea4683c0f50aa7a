import { readFileSync } from "node:fs";
import { Validator } from "@cfworker/json-schema";
import { describe, expect, test } from "vitest";
import { jpeg } from "../fixtures/picture";
import { text, toolCall, type Turn } from "../fixtures/scripted-model";
import { claude, show, stored, withFileServer } from "./uploads";

/** See test/fixtures/schemas/make.md. */
const schemas = Object.fromEntries(
  [["openai", "openai-chat"], ["anthropic", "anthropic-messages"]].map(([provider, name]) => {
    const file = new URL(`../fixtures/schemas/${name}.json`, import.meta.url);
    return [provider!, new Validator(JSON.parse(readFileSync(file, "utf8")), "7", false)];
  }),
);

/** What is wrong with a request, most of it in its smallest parts; none where it is as the provider's types have it. */
const problems = (provider: string, json: unknown): string[] =>
  schemas[provider]!.validate(json).errors.map((error) => `${error.instanceLocation}: ${error.error}`);

const files = { "cat.jpg": jpeg(700), "cat.png": "\x89PNG 123456789", "a.pdf": "%PDF-1.4 ...", "a.wav": "RIFF....WAVE" };
const kindsOf = (messages: any[]): string[] =>
  messages.flatMap((message) => (Array.isArray(message.content) ? message.content : []))
    .map((part: any) => part.type + (part.source ? `/${part.source.type}` : part.file ? `/${Object.keys(part.file).join("+")}` : ""));

const expected: Record<string, Record<string, string[]>> = {
  openai: {
    inline: ["image_url", "file/filename+file_data", "input_audio"],
    link: ["image_url", "file/filename+file_data", "input_audio"],
    id: ["file/file_id", "input_audio"],
  },
  anthropic: {
    inline: ["image/base64", "document/base64"],
    link: ["image/url", "document/url"],
    id: ["image/file", "document/file"],
  },
};

describe("bodies with files are as the provider's own types have them", () => {
  for (const provider of ["openai", "anthropic"])
    for (const way of ["inline", "link", "id"]) {
      const call = { name: "look", args: { n: 1 } };
      const turns: Turn[] = provider === "openai"
        ? [text("Files."), [toolCall(call.name, call.args), toolCall("add", { a: 1, b: 2 })], text("A cat."), text("Bye.")]
        : [claude("Files."), claude({ name: call.name, input: call.args }, { name: "add", input: { a: 1, b: 2 } }), claude("A cat."), claude("Bye.")];
      withFileServer(`${provider}, ${way}`, (_, number) => (way === "id" ? Response.json({ id: `file-${number}` }) : stored(`f-${number}`)()),
        (url) => (way === "link" ? {} : way === "id" ? { uploadUrl: `${url}/v1/files` } : { mediaInline: true }),
        { settings: { multimodal: true, provider, historyBytes: 8192 }, files, turns },
        async ({ board, model }) => {
          await board.runLine("init_tools");
          await board.runLine('add_tool({name:"look",description:"Look.",parameters:{type:"object",properties:{n:{type:"integer"}}},execute:function(){return {parts:[{type:"text",content:"a picture"},{type:"image",content:"cat.jpg"}]}}})');
          await show(board, "What are these?", Object.keys(files));
          await board.ask("look, and add 1 and 2");
          await board.ask("bye");
          expect(model.requests).toHaveLength(4);
          for (const { json } of model.requests) expect(problems(provider, json)).toEqual([]);
          const sent = new Set(kindsOf(model.requests.flatMap(({ json }) => json.messages)));
          for (const kind of expected[provider]![way]!) expect(sent).toContain(kind);
        });
    }
});

test("what no provider takes does not pass", () => {
  const anthropic = (content: unknown): unknown => ({ model: "m", max_tokens: 9, stream: true, messages: [{ role: "user", content }] });
  const bmp = { type: "image", source: { type: "base64", media_type: "image/bmp", data: "AAAA" } };
  expect(problems("anthropic", anthropic("hello"))).toEqual([]);
  expect(problems("anthropic", anthropic([bmp]))).not.toEqual([]);
  expect(problems("anthropic", anthropic([{ ...bmp, source: { ...bmp.source, media_type: "image/png" } }]))).toEqual([]);
  const openai = (part: unknown): unknown => ({ model: "m", stream: true, messages: [{ role: "user", content: [part] }] });
  expect(problems("openai", openai({ type: "input_audio", input_audio: { data: "AAAA", format: "wav" } }))).toEqual([]);
  expect(problems("openai", openai({ type: "input_audio", input_audio: { data: "AAAA", format: "ogg" } }))).not.toEqual([]);
  expect(problems("openai", openai({ type: "video_url", video_url: { url: "http://a/b" } }))).not.toEqual([]);
  expect(problems("openai", openai({ type: "image_url", image_url: { link: "http://a/b" } }))).not.toEqual([]);
});
