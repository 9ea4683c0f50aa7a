import { setting } from "../firmware/config";
import { askService } from "../firmware/fetch";
import { checkFile } from "../firmware/files";
import { cutUtf8, toJson, wireText } from "../firmware/text";
import type { Tool } from "../firmware/types";

/** Bytes of the image in one piece of the request: a multiple of three, which base64 turns into four characters. */
const PIECE_BYTES = 384;

/**
 * Weaviate: POST /v1/graphql, Get with `nearText` or `nearImage`, whose image is base64 without a data URL:
 * https://docs.weaviate.io/weaviate/api/graphql/search-operators. Weaviate calls its GraphQL deprecated, but its REST search
 * has no search by image, and its other APIs are none that a board could speak. The collection needs a vectorizer for texts
 * and images, such as multi2vec-clip.
 */
const searchSimilarImages: Tool = {
  name: "search_similar_images",
  description:
    "Find images in the image database that look like an image file of the board, or that fit a description. Use it with " +
    "either text or image. Returns what is known of each, nearest first.",
  parameters: {
    type: "object",
    properties: {
      text: { type: "string", description: "What is to be seen" },
      image: { type: "string", description: "Name of an image file of the board" },
      limit: { type: "integer", minimum: 1, maximum: 10, description: "Number of images, default 3" },
    },
  },
  needs: "weaviateUrl",
  timeoutMs: 90000,
  execute(args, context) {
    const storage = require("Storage");
    const name = setting("weaviateClass");
    const fields: string[] = setting("weaviateFields").split(",");
    const most = setting("toolResultBytes");
    const text = (args.text || "").trim();
    const headers: Record<string, string> = { "Content-Type": "application/json", Accept: "application/json" };
    let near = "nearText:{concepts:[" + wireText(text) + "]}";
    let file = "";
    let bytes = 0;
    /** Bytes of the image that were sent; -1 before anything was. */
    let sent = -1;

    if (!text === !args.image) return { isError: true, content: "Give either text or image." };
    if (args.image) {
      const checked = checkFile(args.image, false);
      file = checked.name;
      const data = checked.problem ? undefined : storage.read(file);
      if (checked.problem) return { isError: true, content: checked.problem };
      if (data === undefined) return { isError: true, content: "There is no file " + file + ". Call tree to see the names." };
      if (!/^\xff\xd8\xff|^\x89PNG|^GIF8|^RIFF|^BM/.test(data.substr(0, 4)))
        return { isError: true, content: file + " is no image: JPEG, PNG, GIF, WebP and BMP are." };
      bytes = data.length;
      near = 'nearImage:{image:""}';
    }
    if (setting("weaviateKey")) headers.Authorization = "Bearer " + setting("weaviateKey");
    const body = toJson({
      query: "{Get{" + name + "(limit:" + (args.limit || 3) + "," + near + "){" + fields.join(" ") + " _additional{distance}}}}",
    });
    // Behind the quote that begins the image.
    const at = file ? body.indexOf('{image:\\"') + 9 : body.length;

    let lines = "";
    let line = "";
    let distance = "";
    let problem = "";

    return askService({
      url: setting("weaviateUrl").replace(/\/+$/, "") + "/v1/graphql",
      headers: headers,
      length: body.length + Math.ceil(bytes / 3) * 4,
      next: function () {
        const from = sent;
        if (from > bytes) return undefined;
        sent = from < 0 ? 0 : from < bytes ? Math.min(from + PIECE_BYTES, bytes) : bytes + 1;
        if (from < 0) return body.substr(0, at);
        if (from < bytes) return btoa(storage.read(file, from, PIECE_BYTES)!);
        return file ? body.substr(at) : undefined;
      },
      timeoutMs: 80000,
      session: context.session,
      what: "The image database",
      urlSetting: "weaviateUrl",
      keySetting: "weaviateKey",
      keys: "data,Get,_additional,distance,errors,message," + name + "," + fields.join(","),
      maxString: 200,
      take: function (key, value) {
        if (key === "message") problem = value;
        else if (key === "distance" && value.toFixed) distance = ", distance " + value.toFixed(3);
        else if (key) line += (line && ", ") + key + ": " + String(value).split("\n").join(" ");
        else if (line || distance) {
          line = cutUtf8(line || "(no " + fields.join() + ")", 300) + distance;
          if (lines.length + line.length >= most) return true;
          lines += (lines && "\n") + line;
          line = distance = "";
        }
        return false;
      },
      end: function () {
        if (problem)
          return {
            isError: true,
            content: "The image database refused the search: " + problem + " (see weaviateClass " + name + ", weaviateFields " + fields.join() + ")",
          };
        return lines || "No image was found.";
      },
    });
  },
};

export default searchSimilarImages;
