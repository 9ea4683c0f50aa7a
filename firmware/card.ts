import { type CheckedFile } from "./files";

/** Paths of the SD card, and what its file system says. Apart from what opens files: an open one keeps what is in its file. */

/**
 * Longest path of the card: the interpreter of an ESP32 has 64 bytes for one, refuses some of the longer ones and cuts
 * others.
 */
const PATH_BYTES = 63;

/** Whether a path is one of the SD card. */
export function isOnCard(path: string): boolean {
  return path.substr(0, 3).toLowerCase() === "sd:";
}

/**
 * The card's own path for `sd:/a/b.jpg` or `sd:a/b.jpg`, below its root, and what is wrong with it. FAT refuses the same
 * characters; a `:` would name a drive.
 */
export function checkCardPath(path: string): CheckedFile {
  const name = path.substr(3).replace(/^\/+/, "");
  const isBad = name.length > PATH_BYTES || /[\x00-\x1f"*:<>?|\\\x7f]/.test(name) || name.split("/").indexOf("..") >= 0;
  return {
    name,
    problem: isBad
      ? "A path of the SD card has at most 63 bytes, starts at its root as in sd:photos/a.jpg, and holds none of \\ : * ? \" < > | or .."
      : "",
  };
}

/** What an error of the card's file system means, in words for the model. `path` is as it was asked for. */
export function cardProblem(path: string, error: any): string {
  const text = String((error && error.message) || error);
  if (/not found|not a function/.test(text))
    return "This board's firmware has no file system for SD cards: use a file of the Storage, without sd:.";
  if (/connectSDCard|mount/.test(text))
    return (
      "There is no SD card that can be read (" + text + "). Tell the person to put in one with FAT32, and to connect it at " +
      "the console: SPI1.setup({mosi:D23,miso:D19,sck:D18}); E.connectSDCard(SPI1,D5), with the pins it is at."
    );
  if (/INVALID_NAME/.test(text)) return path + " is no path for a FAT file system: choose another name.";
  // What the Linux build says of every failure is UNKNOWN.
  if (/NO_FILE|NO_PATH|UNKNOWN/.test(text))
    return "There is no " + path + " on the SD card. Call tree with sd: to see the names.";
  return "The SD card failed at " + path + " (" + text + "): was it taken out, is it full or write-protected?";
}
