/** A piece of a message or a tool result. Of all but `text`, `content` is a path: a file of the Storage, or `sd:…` on the SD card. */
export interface Part {
  type: "text" | "image" | "audio" | "video";
  content: string;
}

/** What a tool may give in place of a text: a list of parts of a fixed capacity. */
export interface PartList {
  /** All that were appended, in order. */
  parts: Part[];
  /** Appends a part, and returns what is wrong with it; `""` if it was appended. */
  append(type: Part["type"], content: string): string;
  /** The part at `index`, from 0 on; undefined where there is none. */
  get(index: number): Part | undefined;
  /** Lets go of all parts; the list is empty then, and may be filled anew. */
  release(): void;
}

/** Parts of one message at the most: the reference to each takes up to 400 bytes of the history. */
export const MAX_PARTS = 8;

// An empty list of parts, `capacity` at the most; a capacity that is no number from 1 to MAX_PARTS becomes the nearest.
export function createParts(capacity: number): PartList {
  capacity = Math.min(Math.max(capacity | 0, 1), MAX_PARTS);
  const list: PartList = {
    parts: [],
    append: function (type, content) {
      if (["text", "image", "audio", "video"].indexOf(type) < 0) return "a part is of the type text, image, audio or video, not " + type;
      if (typeof content !== "string" || !content) return "a part needs " + (type === "text" ? "a text" : "the path of a file");
      if (list.parts.length >= capacity) return "the list of parts is full: it was made for " + capacity;
      list.parts.push({ type: type, content: content });
      return "";
    },
    get: function (index) {
      return index >= 0 ? list.parts[index] : undefined;
    },
    release: function () {
      list.parts = [];
    },
  };
  return list;
}
