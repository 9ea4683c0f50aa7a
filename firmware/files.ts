/** A file of the board's Storage as a tool may use it: its name, and what is wrong with using it (`""`: nothing). */
export interface CheckedFile {
  name: string;
  problem: string;
}

/**
 * The Storage's name for what a model calls a path (`/notes.txt` and `./notes.txt` are `notes.txt`), and whether a tool
 * may read or write it. The Storage cuts names at 28 bytes and takes `x:` off the front, so that `x:agent.json` would
 * be `agent.json`. That file holds the API key, and of the files in `.` some hold the Wi-Fi password (`.wificfg`) or
 * an image of all variables (`.varimg`): they must not reach a model.
 */
export function checkFile(path: string, writing: boolean): CheckedFile {
  const name = path.substr(path.startsWith("./") ? 2 : path.startsWith("/") ? 1 : 0);
  let problem = "";
  if (!name || name.length > 28 || name.charAt(1) === ":" || /[\x00-\x1f]/.test(name))
    problem = "A file name has 1 to 28 bytes, no drive letter and no line break.";
  else if (name === "agent.json")
    problem = "agent.json holds the agent's settings and API key: only set_config at the console changes it.";
  else if (name.charAt(0) === ".") problem = name + " is a system file of the board: tools may not use it.";
  else if (writing && (name.startsWith("tool.") || name.startsWith("tool!")))
    problem = name + " is a saved tool: save_tool and remove_tool change those.";
  else if (writing && name === "agent") problem = "agent is the agent's own program: choose another file name.";
  return { name, problem };
}

/**
 * Writes a file of the Storage from pieces, and returns what is wrong; `""` if it was written. Where there is no room,
 * nothing was changed.
 *
 * The Storage gives up the old file before it looks for room, and to make room it moves files, this running program
 * among them. So neither may happen: 40 bytes are a file's header and its rounding. Piece by piece, because the whole
 * might not fit into memory; pieces may be slices of the old file, whose bytes stay in flash while they are copied.
 */
export function writeFile(name: string, pieces: string[]): string {
  let size = 0;
  for (const piece of pieces) size += piece.length;
  const problem = checkRoom(size);
  if (problem) return problem;
  let at = 0;
  for (const piece of pieces) {
    if (!piece) continue;
    if (!require("Storage").write(name, piece, at, at ? 0 : size)) return name + " could not be written.";
    at += piece.length;
  }
  return "";
}

// What stands against a new file of `size` bytes in the Storage; "" if nothing does.
export function checkRoom(size: number): string {
  const free = require("Storage").getFree();
  if (!size) return "A file cannot be empty on this board.";
  if (size + 40 <= free) return "";
  return (
    "The Storage is full: " + free + " bytes free, " + (size + 40) + " needed. Nothing was changed. To make room " +
    'at the console: require("Storage").erase("name"), then reset(), require("Storage").compact(), load().'
  );
}
