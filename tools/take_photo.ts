import { openVc0706 } from "../firmware/camera";
import { setting } from "../firmware/config";
import { freePath, openSink, type Sink } from "../firmware/sink";
import { createParts } from "../firmware/parts";
import { pinProblem } from "../firmware/pins";
import type { Tool, ToolOutput } from "../firmware/types";

/** Bytes of the picture in one piece: what the camera sends at once fits into the board's buffer for a serial port. */
const PIECE_BYTES = 512;
/** Bytes of a picture at the least and at the most. A camera of this kind has 640 x 480 pixels. */
const LEAST_BYTES = 128;
const MOST_BYTES = 262144;
/** Milliseconds: 50 kB take 15 seconds at 38,400 baud. */
const LIMIT_MS = 120000;

const takePhoto: Tool = {
  name: "take_photo",
  description:
    "Take a photo with the camera of the board and save it as a JPEG file. Use it to see what is in front of the board. " +
    "Returns the file's name and size, and the picture.",
  parameters: {
    type: "object",
    properties: { path: { type: "string", description: "New file, such as door.jpg, or sd:door.jpg on the SD card. Default: the next photo1.jpg" } },
  },
  needs: "cameraPort",
  repeatable: true,
  timeoutMs: LIMIT_MS + 5000,
  execute(args, context) {
    const name: string = setting("cameraPort");
    const baud = setting("cameraBaud");
    const pins: string[] = setting("cameraPins") ? setting("cameraPins").split(",") : [];
    const port: Espruino.Serial = global[name];
    const path: string = args.path || freePath("photo", ".jpg");
    const started = getTime();
    const session = context.session;
    const running = session && session.abort;
    let sink: Sink | undefined;
    let problem = "";
    let at = 0;

    if (!/\.[jJ][pP][eE]*[gG]$/.test(path)) problem = "The picture is a JPEG: let its path end in .jpg.";
    else if (!port || typeof port.write !== "function") problem = "cameraPort is " + name + ", and this board has no such serial port: set it to Serial2.";
    else if (E.getConsole() === name) problem = "cameraPort is " + name + ", which is the console: set it to Serial2.";
    else if (pins.length && pins.length !== 2) problem = "cameraPins must be two pins, rx,tx, such as 16,17.";
    for (let i = 0; i < pins.length && !problem; i++)
      problem = /^[0-9]+$/.test(pins[i]) ? pinProblem(+pins[i], i ? "write" : "read") : "cameraPins must be two numbers of pins, rx,tx, such as 16,17.";
    if (problem) return { isError: true, content: problem };

    if (pins.length) port.setup(baud, { rx: new Pin(+pins[0]), tx: new Pin(+pins[1]) });
    else port.setup(baud);
    const camera = openVc0706(port, baud);

    return new Promise<ToolOutput>(function (resolve) {
      // Ends it on every path: nobody listens to the port, no file is open, nothing half-written is left.
      function end(failure: string): void {
        camera.close();
        if (sink && failure) sink.drop();
        else if (sink) failure = sink.close();
        if (failure) return resolve({ isError: true, content: "No photo was taken. " + failure });
        const parts = createParts(2);
        parts.append("text", path + ", " + at + " bytes");
        parts.append("image", path);
        resolve(parts);
      }

      camera.take(function (failure, size) {
        if (failure) return end(failure + " Tell the person to check its power, cameraPins (rx and tx may be the wrong way round) and cameraBaud (" + baud + ").");
        if (size < LEAST_BYTES || size > MOST_BYTES) return end("The camera says that its picture has " + size + " bytes, which cannot be.");
        const opened = openSink(path, size);
        if (typeof opened === "string") return end(opened);
        sink = opened;

        function next(): void {
          if (session && session.abort !== running) return end("It was stopped.");
          if ((getTime() - started) * 1000 > LIMIT_MS) return end("It took longer than " + LIMIT_MS / 1000 + " seconds: set a higher cameraBaud.");
          camera.read(at, Math.min(PIECE_BYTES, size - at), function (failure, piece) {
            if (!failure && !at && !piece.startsWith("\xff\xd8")) failure = "What the camera sent is no JPEG.";
            failure = failure || sink!.write(piece);
            if (failure) return end(failure);
            at += piece.length;
            // From the idle loop: here the stack is deep, and all of it holds memory.
            if (at < size) setTimeout(next, 1);
            else end("");
          });
        }
        setTimeout(next, 1);
      });
    });
  },
};

export default takePhoto;
