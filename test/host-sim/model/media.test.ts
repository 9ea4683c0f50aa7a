import { http, HttpResponse } from "msw";
import { setupServer } from "msw/node";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { modelResponse } from "../../../host-sim/model/server";

/** A picture as far as its header says: a JPEG with a frame of so many pixels. */
function jpeg(width: number, height: number, size: number): Buffer {
  const bytes = Buffer.alloc(size, 0x55);
  const [app, frame] = ["ffd8ffe000104a46494600010100000100010000", "ffc0001108"];
  const sizes = Buffer.from([height >> 8, height & 255, width >> 8, width & 255]).toString("hex");
  Buffer.from(`${app}${frame}${sizes}03012200021101031101ffda000801010000003f00`, "hex").copy(bytes);
  bytes.set([0xff, 0xd9], size - 2);
  return bytes;
}
const png = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);
const dataUrl = (type: string, bytes: Buffer): string => `data:${type};base64,${bytes.toString("base64")}`;
const image = (url: string): object => ({ type: "image_url", image_url: { url } });
const text = (content: string): object => ({ type: "text", text: content });

const server = setupServer();
beforeAll(() => server.listen({ onUnhandledRequest: "error" }));
afterEach(() => server.resetHandlers());
afterAll(() => server.close());

async function send(messages: object[], tools: object[] = []): Promise<{ status: number; body: any }> {
  const body = { model: "any", messages, ...(tools.length > 0 && { tools }) };
  const request = new Request("http://127.0.0.1:1/v1/chat/completions", { method: "POST", body: JSON.stringify(body) });
  const response = await modelResponse(request);
  return { status: response.status, body: await response.json() };
}
async function say(content: unknown, tools?: object[]): Promise<string> {
  const { status, body } = await send([{ role: "user", content }], tools);
  expect(body.error, JSON.stringify(body)).toBeUndefined();
  expect(status).toBe(200);
  return body.choices[0].message.content;
}
async function refuse(content: unknown): Promise<any> {
  const { status, body } = await send([{ role: "user", content }]);
  expect(status).toBe(400);
  return body.error;
}

describe("a file in a message", () => {
  it("is described by what its bytes say", async () => {
    const picture = dataUrl("image/jpeg", jpeg(640, 480, 23_456));
    expect(await say([text("What is this?"), image(picture)])).toBe(
      "It is a JPEG image of 640 x 480 pixels, 23456 bytes. That is all that an offline stand-in can tell.",
    );
    // Whatever it calls itself.
    expect(await say([text("What is this?"), text("a.jpg"), image(dataUrl("image/jpeg", png))])).toMatch(
      /^a\.jpg is a PNG image of 1 x 1 pixels, 70 bytes\./,
    );
  });

  it("of other kinds has its format and size told", async () => {
    const wav = Buffer.concat([Buffer.from("RIFF\x24\0\0\0WAVEfmt ", "latin1"), Buffer.alloc(28)]);
    const audio = { type: "input_audio", input_audio: { data: wav.toString("base64"), format: "wav" } };
    const pdf = { type: "file", file: { filename: "a.pdf", file_data: dataUrl("application/pdf", Buffer.from("%PDF-1.4\n%")) } };
    expect(await say([audio, pdf, { type: "file", file: { file_id: "file-abc" } }])).toBe(
      "It is a WAV recording, 44 bytes. a.pdf is a PDF file, 10 bytes. It is known to me by its id file-abc only: " +
        "I cannot see it. That is all that an offline stand-in can tell.",
    );
    expect(await say([{ type: "video_url", video_url: { url: dataUrl("video/mp4", Buffer.alloc(9)) } }])).toMatch(
      /^It is a video in a format unknown to me, 9 bytes\./,
    );
  });

  it("is fetched from an address of this network", async () => {
    server.use(http.get("http://192.168.1.5:8080/download/1", () => HttpResponse.arrayBuffer(jpeg(320, 240, 900).buffer as ArrayBuffer)));
    expect(await say([image("http://192.168.1.5:8080/download/1")])).toMatch(/JPEG image of 320 x 240 pixels/);
  });

  it.each([
    [image("http://example.com/a.jpg"), /Error while downloading http:\/\/example\.com\/a\.jpg: .*offline/, "invalid_image_url"],
    [image("http://127.0.0.1/none.jpg"), /Error while downloading .*: status 404/, "invalid_image_url"],
    [image("http://127.0.0.1/lost.jpg"), /Error while downloading/, "invalid_image_url"],
    [image(dataUrl("image/jpeg", Buffer.from("<html>"))), /unsupported image/, "invalid_image_format"],
    [image(dataUrl("image/bmp", Buffer.from("BM0000000000000000000000"))), /unsupported image/, "invalid_image_format"],
    [image("data:image/jpeg;base64,@@@"), /Invalid base64/, "invalid_base64"],
    [image("data:image/jpeg;base64,"), /Invalid base64/, "invalid_base64"],
    [image("sd:a.jpg"), /Invalid URL/, "invalid_value"],
    [{ type: "image_url" }, /expected an object/, "invalid_type"],
    [{ type: "image_url", image_url: {} }, /Missing required parameter/, "missing_required_parameter"],
    [{ type: "image_url", image_url: { url: 5 } }, /expected a string/, "invalid_type"],
    [{ type: "input_audio", input_audio: { data: "AAAA", format: "ogg" } }, /'wav' and 'mp3'/, "invalid_value"],
    [{ type: "smell" }, /Supported values/, "invalid_value"],
  ])("%j is refused", async (part, message, code) => {
    server.use(
      http.get("http://127.0.0.1/none.jpg", () => new HttpResponse(null, { status: 404 })),
      http.get("http://127.0.0.1/lost.jpg", () => HttpResponse.error()),
    );
    const error = await refuse([text("What is this?"), part]);
    expect(error).toMatchObject({ message: expect.stringMatching(message), code, type: "invalid_request_error" });
    expect(error.param).toMatch(/^messages\[0\]\.content\[1\]/);
  });
});

const takePhoto = {
  type: "function",
  function: { name: "take_photo", description: "Take a photo with the camera.", parameters: { type: "object", properties: {} } },
};

it("the file of a result, in the user message after it, belongs to the same turn", async () => {
  const call = { id: "c1", type: "function", function: { name: "take_photo", arguments: "{}" } };
  const messages = [
    { role: "user", content: "take a photo" },
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: "c1", content: "photo1.jpg, 900 bytes" },
    { role: "user", content: [text("photo1.jpg"), image(dataUrl("image/jpeg", jpeg(320, 240, 900)))] },
  ];
  const { body } = await send(messages, [takePhoto]);
  expect(body.choices[0].message.content).toBe(
    "photo1.jpg, 900 bytes. photo1.jpg is a JPEG image of 320 x 240 pixels, 900 bytes. That is all that an offline stand-in can tell.",
  );
});

it("what stands in the place of a file that is not sent any more is not taken for a request", async () => {
  const { body } = await send([{ role: "user", content: [text("take a photo"), text("[a.jpg was shown earlier]")] }], [takePhoto]);
  expect(body.choices[0].message.tool_calls[0].function).toEqual({ name: "take_photo", arguments: "{}" });
});

it("what could not be shown is told, and not taken for a request", async () => {
  const note = "[photo.jpg cannot be shown: There is no file photo.jpg. Call take_photo to have one.]";
  const { body } = await send([{ role: "user", content: `What is this?\n${note}` }], [takePhoto]);
  expect(body.choices[0].message).toMatchObject({
    content: "I was not shown photo.jpg: There is no file photo.jpg. Call take_photo to have one.",
  });
  const picture = image(dataUrl("image/jpeg", jpeg(64, 48, 900)));
  expect(await say([text(`What are these?\n${note}`), text("my cat.jpg"), picture], [takePhoto])).toBe(
    "I was not shown photo.jpg: There is no file photo.jpg. Call take_photo to have one. " +
      "my cat.jpg is a JPEG image of 64 x 48 pixels, 900 bytes. That is all that an offline stand-in can tell.",
  );
});

it("the SD card is where a tool that knows it looks", async () => {
  const pattern = { type: "string", description: "Only names that contain this: *.txt, sd:photos/*.jpg" };
  const parameters = { type: "object", properties: { pattern } };
  const tree = { type: "function", function: { name: "tree", description: "List the files on the board.", parameters } };
  for (const [asked, args] of [
    ["which files are on the SD card?", { pattern: "sd:" }],
    ["list the files on the sd card", { pattern: "sd:" }],
    ["list the files in sd:garden/", { pattern: "sd:garden/" }],
    ["which files are on the board?", {}],
  ] as const) {
    const { body } = await send([{ role: "user", content: asked }], [tree]);
    expect(JSON.parse(body.choices[0].message.tool_calls[0].function.arguments), asked).toEqual(args);
  }
});
