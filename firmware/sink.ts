import { cardProblem, checkCardPath, isOnCard } from "./card";
import { checkFile, checkRoom } from "./files";

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
