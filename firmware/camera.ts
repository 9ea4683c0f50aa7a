/** A camera that keeps one picture, which is read in pieces. Every call ends in one call of `done`, never within itself. */
export interface Camera {
  /** Takes a picture: `problem` in words for the model, "" if there is none, and the picture's bytes. */
  take(done: (problem: string, size: number) => void): void;
  /** A piece of the picture that was taken, of at most 512 bytes. */
  read(from: number, length: number, done: (problem: string, piece: string) => void): void;
  /** Stops listening. What is under way ends in no `done` any more. */
  close(): void;
}

/** Milliseconds that a camera may think about a command, beside the time that the bytes take on the line. */
const ANSWER_MS = 1000;
/** Milliseconds from power-up or a reset until a camera takes commands. */
const START_MS = 3000;
/** How often a piece is read once more that did not arrive as it was sent. */
const REREADS = 3;
/** The camera reads its memory in units of so many bytes. */
const UNIT = 8;
const LOST = "Bytes got lost between camera and board: check the wires, or set a lower cameraBaud.";

// A number as 4 bytes, the highest first.
function bytes4(n: number): string {
  return String.fromCharCode(n >>> 24, (n >>> 16) & 255, (n >>> 8) & 255, n & 255);
}

/**
 * A camera with the VC0706 chip (Adafruit's TTL camera, LinkSprite's LS-Y201) at a serial port that is set up at `baud`
 * bits a second. A command is 56 00, its number, how many bytes follow and those bytes; a reply 76 00, the number, a
 * status (0 is well), how many bytes follow and those. The bytes of a piece come between two replies of their own, which
 * shows where one was lost on the line.
 */
export function openVc0706(port: Espruino.Serial, baud: number): Camera {
  /** What came since the last command, from where its reply begins. */
  let came = "";
  /** What the reply begins with; "" while none is waited for. */
  let head = "";
  /** Bytes that come between the reply and a second one. */
  let between = 0;
  let timer: number | undefined;
  let answer: (problem: string, data: string) => void;

  function end(problem: string, data: string): void {
    head = came = "";
    if (timer) clearTimeout(timer);
    timer = undefined;
    answer(problem, data);
  }

  function onData(piece: string): void {
    if (!head) return;
    came += piece;
    // The reply begins at its head; of what comes before it, the last bytes may be the beginning of the head. (The board's
    // indexOf also finds the part of it that the text ends with: that is the right place, too.)
    const at = came.indexOf(head);
    if (at) came = came.substr(at < 0 ? Math.max(0, came.length - 2) : at);
    if (came.length < 5) return;
    const status = came.charCodeAt(3);
    const size = came.charCodeAt(4);
    if (status) return end("The camera refused (status " + status + ").", "");
    if (came.length < 5 + (between ? between + 5 : size)) return;
    if (!between) return end("", came.substr(5, size));
    end(came.substr(5 + between, 3) === head ? "" : LOST, came.substr(5, between));
  }

  // Sends a command, and hands on what its reply holds.
  function command(code: number, data: string, length: number, done: (problem: string, data: string) => void): void {
    if (timer) clearTimeout(timer);
    came = "";
    between = length;
    head = "\x76\x00" + String.fromCharCode(code);
    answer = done;
    timer = setTimeout(function () {
      timer = undefined;
      end(came.length > 2 ? LOST : "The camera does not answer.", "");
    }, ANSWER_MS + (length * 20000) / baud);
    port.write("\x56\x00" + String.fromCharCode(code, data.length) + data);
  }

  port.on("data", onData);
  return {
    take: function (done) {
      let hasReset = false;

      function measure(problem: string): void {
        if (problem) return done(problem, 0);
        // How long the frame is that stands still.
        command(0x34, "\x00", 0, function (problem, data) {
          let size = 0;
          for (let i = 0; i < 4; i++) size = size * 256 + data.charCodeAt(i);
          if (!problem && data.length !== 4) problem = "The camera's answer cannot be read.";
          done(problem, problem ? 0 : size);
        });
      }

      // Lets the camera run on, because the frame of the last picture may still stand, then stops it at this one.
      function start(): void {
        command(0x36, "\x03", 0, function (problem) {
          if (!problem) return command(0x36, "\x00", 0, measure);
          if (hasReset) return done(problem, 0);
          hasReset = true;
          command(0x26, "", 0, function () {
            timer = setTimeout(start, START_MS);
          });
        });
      }

      start();
    },
    read: function (from, length, done) {
      let tries = 0;
      // A multiple of the unit; what is read behind the end is left out.
      const whole = Math.ceil(length / UNIT) * UNIT;
      function read(): void {
        command(0x32, "\x00\x0a" + bytes4(from) + bytes4(whole) + "\x00\x0a", whole, function (problem, data) {
          if (problem && tries++ < REREADS) return read();
          done(problem, data.length > length ? data.substr(0, length) : data);
        });
      }
      read();
    },
    close: function () {
      head = "";
      if (timer) clearTimeout(timer);
      timer = undefined;
      port.removeListener("data", onData);
    },
  };
}
