/** What the build makes of the folder `tools/`: every file's default export as one branch of `loadTool`. */
declare module "tools:all" {
  /** The names of all files' tools, comma separated, in order of file name. `loadTool(i)` loads the i-th. */
  export function toolNames(): string;
  /** Makes the i-th tool anew from flash. It costs RAM only as long as the caller holds it. */
  export function loadTool(index: number): import("./types").LoadedTool;
}
