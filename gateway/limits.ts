/** Every limit of the gateway, with its unit and reason. */
export interface Limits {
  /** Bytes of a request's body. A board sends up to 40 kB; other clients may send more, but hardly pictures. */
  bodyBytes: number;
  /** Milliseconds for a request to arrive whole. A board sends 512 bytes at a time over a weak Wi-Fi. */
  requestMs: number;
  /** Milliseconds without a byte from the upstream. A reasoning model may think for a minute before it speaks. */
  silenceMs: number;
  /** Milliseconds from asking the upstream to the end of its reply: the longest that a board can be set to wait. */
  totalMs: number;
  /** Milliseconds in which a board takes nothing of what is ready for it. Its own tools may keep it busy for some. */
  stallMs: number;
  /** Bytes of a reply that is not a stream: it is read whole. */
  replyBytes: number;
  /** Characters of one event of an upstream's stream. What a server's own tool has found may come as one. */
  eventLength: number;
  /** Milliseconds that replies under way get when the gateway stops. */
  graceMs: number;
}

export const LIMITS: Limits = {
  bodyBytes: 1024 * 1024,
  requestMs: 60_000,
  silenceMs: 120_000,
  totalMs: 900_000,
  stallMs: 60_000,
  replyBytes: 4 * 1024 * 1024,
  eventLength: 1024 * 1024,
  graceMs: 10_000,
};

/** The longest silence that Node's fetch itself allows, in milliseconds. */
export const MOST_SILENCE_MS = 300_000;

/** Limits of the file server. */
export interface FileLimits {
  /** Bytes of a file. Providers take pictures of 5 to 20 MB; a board's camera makes 300 kB of one. */
  fileBytes: number;
  /** Milliseconds that a file stays. A conversation on a board may go on for days, with links to what was sent before. */
  expireMs: number;
  /** Bytes of all files together. */
  totalBytes: number;
  /** Files at a time, however small: what is known of them is in memory. */
  totalFiles: number;
  /** Milliseconds for an upload to arrive whole: 10 MB over a weak Wi-Fi take minutes. */
  uploadMs: number;
}

export const FILE_LIMITS: FileLimits = {
  fileBytes: 10 * 1024 * 1024,
  expireMs: 7 * 24 * 3_600_000,
  totalBytes: 1024 * 1024 * 1024,
  totalFiles: 10_000,
  uploadMs: 900_000,
};
