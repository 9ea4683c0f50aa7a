import { cardProblem, checkCardPath, isOnCard } from "./card";
import { checkFile } from "./files";

/**
 * Files in pieces, of the Storage or of an SD card: a picture or a recording never fits into memory. Whoever opens one
 * closes it on every path: an open file of the card holds 45 variables on an ESP32, and they come back no other way.
 */

/** A file to be read in pieces: of the Storage, or, where its path starts with `sd:`, of the SD card. */
export interface Source {
  /** Base name: what stands behind the last `/`. */
  name: string;
  /** Bytes, at least 1. */
  size: number;
  /** Shorter than asked for only where the file has become shorter or the card is gone. Never throws. */
  read(from: number, length: number): string;
  close(): void;
}

/**
 * Opens a file to be read. Text says what is wrong and what to do, in words for the model. Costs a variable or two for the
 * Storage, whose files stay in flash; about 45 for the card.
 */
export function openSource(path: string): Source | string {
  if (isOnCard(path)) return openOfCard(path);
  const file = checkFile(path, false);
  const storage = require("Storage");
  const text = file.problem ? undefined : storage.read(file.name);
  if (file.problem) return file.problem;
  if (text === undefined) return "There is no file " + file.name + ". Call tree to see the names.";
  if (!text) return file.name + " is empty.";
  return {
    name: file.name.substr(file.name.lastIndexOf("/") + 1),
    size: text.length,
    read: function (from, length) {
      // For a length of 0 the board reads all the rest.
      return (length > 0 && storage.read(file.name, from, length)) || "";
    },
    close: function () {},
  };
}

function openOfCard(path: string): Source | string {
  const checked = checkCardPath(path);
  if (checked.problem) return checked.problem;
  if (!checked.name) return "sd: is the SD card itself: name a file of it. Call tree with sd: to see the names.";
  let file: Espruino.File | undefined;
  let size = 0;
  /** Where the next `read` of the file begins; -1 where that is not known. */
  let at = 0;
  try {
    const info = require("fs").statSync(checked.name);
    if (info && info.dir) return path + " is a folder. Call tree with " + path + "/ to see what is in it.";
    if (info && !info.size) return path + " is empty.";
    // Also where there is no such file: what this throws says whether that or the card is the reason.
    file = E.openFile(checked.name, "r");
    if (info) size = info.size;
  } catch (e) {
    return cardProblem(path, e);
  }
  if (!file) return "There is not enough memory to open " + path + ".";

  return {
    name: checked.name.substr(checked.name.lastIndexOf("/") + 1),
    size,
    read: function (from, length) {
      if (!file || length <= 0) return "";
      try {
        if (at !== from) file.seek(from);
        const piece = file.read(length) || "";
        at = from + piece.length;
        return piece;
      } catch (e) {
        at = -1;
        return "";
      }
    },
    close: function () {
      try {
        if (file) file.close();
      } catch (e) {
        // The card is gone, and the file with it.
      }
      file = undefined;
    },
  };
}
