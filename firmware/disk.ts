import { checkFile, checkRoom, type CheckedFile } from "./files";

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

/** A file that is written in pieces. After `close` or `drop` it takes no more. None of it throws. */
export interface Sink {
  /** "", or what is wrong, in words for the model. */
  write(piece: string): string;
  /**
   * Ends the file: "", or what is wrong, such as fewer bytes than were announced. Then nothing is left of it.
   */
  close(): string;
  /** Takes away what was written. */
  drop(): void;
}

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

/**
 * Opens a new file to be written; one that is there is never written over. `size`: bytes that will come, or -1 where
 * that is not known, which only the card takes. Text says what is wrong and what to do, in words for the model.
 */
export function openSink(path: string, size: number): Sink | string {
  if (!size) return "A file cannot be empty on this board.";
  return isOnCard(path) ? openOnCard(path, size) : openInStorage(path, size);
}

function openInStorage(path: string, size: number): Sink | string {
  const file = checkFile(path, true);
  const name = file.name;
  const storage = require("Storage");
  if (file.problem) return file.problem;
  if (size < 0) return "The Storage needs to know the size beforehand: write to the SD card, sd:" + name + ".";
  if (isThere(name)) return name + " exists already: choose another name.";
  const full = checkRoom(size);
  if (full) return full;
  let at = 0;

  function drop(): void {
    if (at > 0) storage.erase(name);
    at = -1;
  }

  return {
    write: function (piece) {
      if (at < 0) return name + " is closed.";
      if (!piece) return "";
      // Others may have written since. To make room, the Storage would move files, this running program among them.
      let problem = at ? "" : checkRoom(size);
      if (at + piece.length > size) problem = "More than the " + size + " bytes that were announced for " + name + " came.";
      if (!problem) {
        try {
          if (!storage.write(name, piece, at, at ? 0 : size)) problem = name + " could not be written.";
        } catch (e: any) {
          problem = name + " could not be written: " + (e.message || e);
        }
      }
      if (!problem) at += piece.length;
      return problem;
    },
    close: function () {
      if (at < 0) return name + " is closed.";
      const problem = at < size ? "Only " + at + " of " + size + " bytes of " + name + " came." : "";
      if (problem) drop();
      at = -1;
      return problem;
    },
    drop,
  };
}

// Whether there is a file, or a folder of the card, of that name. Throws where there is no card.
function isThere(path: string): boolean {
  if (isOnCard(path)) return !!require("fs").statSync(checkCardPath(path).name);
  return require("Storage").read(path, 0, 1) !== undefined;
}

/** The next path that is free, `photo1.jpg` and so on: of the SD card where one is in the board, else of the Storage. */
export function freePath(stem: string, ending: string): string {
  let path = "sd:" + stem;
  try {
    isThere(path);
  } catch (e) {
    path = stem;
  }
  let number = 1;
  while (isThere(path + number + ending)) number++;
  return path + number + ending;
}

function openOnCard(path: string, size: number): Sink | string {
  const checked = checkCardPath(path);
  if (checked.problem) return checked.problem;
  if (!checked.name) return "sd: is the SD card itself: name a file of it, such as sd:photo.jpg.";
  let file: Espruino.File | undefined;
  let at = 0;
  try {
    if (isThere(path)) return path + " exists already: choose another name.";
    file = E.openFile(checked.name, "w");
  } catch (e) {
    const problem = cardProblem(path, e);
    return problem.startsWith("There is no " + path) ? "There is no such folder for " + path + ": choose one that is there." : problem;
  }
  if (!file) return "There is not enough memory to open " + path + ".";

  function end(isDropped: boolean): void {
    try {
      if (file) file.close();
      if (file && isDropped) require("fs").unlinkSync(checked.name);
    } catch (e) {
      // The card is gone, and the file with it.
    }
    file = undefined;
  }

  return {
    write: function (piece) {
      if (!file) return path + " is closed.";
      if (size > 0 && at + piece.length > size) return "More than the " + size + " bytes that were announced for " + path + " came.";
      let written = 0;
      try {
        written = piece ? file.write(piece) : 0;
      } catch (e) {
        return cardProblem(path, e);
      }
      at += written;
      return written < piece.length ? "The SD card is full, or was taken out: " + at + " bytes of " + path + " were written." : "";
    },
    close: function () {
      if (!file) return path + " is closed.";
      end(false);
      let problem = size > 0 && at < size ? "Only " + at + " of " + size + " bytes of " + path + " came." : "";
      if (!at) problem = "Nothing came for " + path + ".";
      try {
        // Closing a file says nothing of a card that is gone.
        const info = require("fs").statSync(checked.name);
        if (!problem && (!info || info.size !== at)) problem = "The SD card did not keep " + path + ": was it taken out?";
        if (problem) require("fs").unlinkSync(checked.name);
      } catch (e) {
        problem = problem || cardProblem(path, e);
      }
      return problem;
    },
    drop: function () {
      end(true);
    },
  };
}
