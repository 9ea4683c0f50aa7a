import type { Tool } from "../firmware/types";

const wordCount: Tool = {
  name: "word_count",
  description:
    "Count the words of a text. Use it when asked how many words a sentence or text has. Takes the text itself, " +
    "not a file name. Returns the number of words.",
  parameters: {
    type: "object",
    properties: { text: { type: "string", description: "The text to be counted, word for word" } },
    required: ["text"],
  },
  execute(args) {
    // Counted by the gaps: an array of all words would take hundreds of variables on the board.
    const text = args.text.replace(/\s+/g, " ").trim();
    let words = text ? 1 : 0;
    for (let gap = text.indexOf(" "); gap >= 0; gap = text.indexOf(" ", gap + 1)) words++;
    return words + (words === 1 ? " word" : " words");
  },
};

export default wordCount;
