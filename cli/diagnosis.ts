/** What is at the other end of a wire where no Espruino answers, judged by what it prints. */
import { fromBytes } from "./text";

/** The first line of the ROM boot loader of each chip of the family. */
const bootHeader = /(?:^|\n)(?:ets [A-Z][a-z]{2} |ESP-ROM:)|rst:0x/g;

function bootCount(printed: string): number {
  return Math.max(printed.split(/rst:0x/).length - 1, printed.split(/(?:ets [A-Z][a-z]{2} |ESP-ROM:)/).length - 1);
}

/** A board that starts for the third time within seconds, or for the second time after it has said why. */
export function isCrashLoop(printed: string): boolean {
  const isCrash = /Guru Meditation|abort\(\) was called|Backtrace:|panic|assert failed|Brownout detector/i.test(
    printed,
  );
  return bootCount(printed) >= (isCrash ? 2 : 3);
}

/** What only Espruino's interpreter prints: its banner, its identity, its errors, its prompt on a line of its own. */
const espruinoMarks = new RegExp(
  [
    /espruino\.com|Espruino \d+v\d+/,
    /Uncaught |Execution Interrupted|New interpreter error|at REPL \(|\(:\d+:\d+\)/,
    /(?:^|[\r\n])(?:debug)?>(?=[\r\n]|$)/,
  ]
    .map(({ source }) => source)
    .join("|"),
);

function withoutEscapes(printed: string): string {
  return printed.replace(/\x1b\[[?0-9;]*[A-Za-z]/g, "");
}

/** Whether some of it was printed by Espruino, whatever else was. */
export function isOfEspruino(printed: string): boolean {
  return !isPython(printed) && espruinoMarks.test(withoutEscapes(printed));
}

/** Python's interpreter: no Espruino will come. */
export function isPython(printed: string): boolean {
  return /MicroPython|CircuitPython|(?:^|[\r\n])>>> ?$/.test(printed);
}

/** Espruino's console asks for a password. */
export function isLocked(printed: string): boolean {
  return /password>\s*$/.test(printed);
}

/** A chip that has just started: it may take its time. */
export function isStarting(printed: string): boolean {
  return bootCount(printed) > 0;
}

/** Nothing came but what `device.ts` has sent: an enquiry, a Ctrl-C, lines that print a frame. */
function isEcho(text: string): boolean {
  const rest = text.replace(/\x10print\("\\x1e\d+=1\\x1e"\)/g, "");
  return /[\x03\x05]/.test(rest) && /^[\x03\x05\s]*$/.test(rest);
}

/** The line that is printed most often, as it may be shown; "" where none is `least` times. */
export function usualLine(text: string, least = 1): string {
  const counts = new Map<string, number>();
  for (const line of fromBytes(withoutEscapes(text)).split(/[\r\n]+/)) {
    const shown = line.replace(/[\x00-\x1f\x7f]/g, "").trim().slice(0, 60);
    if (shown !== "" && shown !== ">") counts.set(shown, (counts.get(shown) ?? 0) + 1);
  }
  const [line, count] = [...counts].sort(([, a], [, b]) => b - a)[0] ?? ["", 0];
  return count >= least ? line : "";
}

/**
 * What was seen instead of a prompt, and what to do about it. `isUnasked`: something is printed also while nothing is
 * typed, so that it tells nothing of who would answer.
 */
export function explainNoPrompt(port: string, printed: string, isUnasked: boolean): string {
  const text = withoutEscapes(printed);
  if (isCrashLoop(text)) {
    const reason = /[^\r\n]*(?:Guru Meditation|abort\(\) was called|assert failed|Brownout detector)[^\r\n]*/i.exec(
      text,
    );
    const why = reason ? `: ${reason[0].trim().slice(0, 120)}` : "";
    if (reason && /brownout/i.test(reason[0])) {
      return `${port}: the board restarts again and again${why}. It gets too little power: another cable or USB port`;
    }
    const { name, note } = portForTool(port);
    return (
      `${port}: the board restarts again and again${why}.\n` +
      "If the code in its Storage does that, erase it (for an ESP32; the firmware stays), then run flash again:\n" +
      `  python -m esptool --chip esp32 --port ${name} erase_region 0x320000 0xE0000${note}\n` +
      `If it goes on, the firmware does not fit the board. ${howToInstall(port)}`
    );
  }
  if (/waiting for download/i.test(text)) {
    return `${port}: the board waits for new firmware (its BOOT pin was low as it started). Press its RESET button`;
  }
  if (isLocked(text)) {
    return `${port}: Espruino's console has a password (E.setPassword): give it at another terminal first`;
  }
  if (isEcho(text)) {
    return (
      `${port}: what is sent comes back as it is, and nothing else: the wire ends in itself (are RX and TX connected ` +
      "to each other?), or a program there only echoes. If it is a board with Espruino, press its RESET button and " +
      "try again at once"
    );
  }
  if (isPython(text)) return `${port}: this board runs Python, not Espruino. ${howToInstall(port)}`;
  const isEspruino = isOfEspruino(text);
  if (isUnasked && (isEspruino || !isGarbage(text))) return explainUnasked(port, text, isEspruino);
  if (isEspruino) {
    return (
      `${port}: Espruino is there, but does not answer: its program keeps it busy, or has moved the console. ` +
      "Press the board's RESET button and try again at once"
    );
  }
  if (isGarbage(text)) {
    return `${port}: what comes is no text: the wrong baud rate? Espruino on an ESP32 uses 115200 (--baud)`;
  }
  const [header] = text.match(bootHeader) ?? [];
  if (header !== undefined) {
    return (
      `${port}: only the board's boot loader is heard. If it has Espruino, a program in its Storage keeps it busy: ` +
      `press its RESET button and try again at once. If it has none: ${howToInstall(port)}`
    );
  }
  if (text.trim() !== "") {
    const shown = JSON.stringify(fromBytes(text).replace(/[\x00-\x08\x0e-\x1f]/g, "").trim().slice(0, 60));
    return `${port}: something answers, but not as Espruino does: ${shown}. ${howToInstall(port)}`;
  }
  return (
    `${port}: nothing answers. Is it the right port, and does the board have power? Press its RESET button: if ` +
    `nothing is printed then either, there is no Espruino on it. ${howToInstall(port)}`
  );
}

/** Something prints all the time. Firmware is not to be overwritten for that. */
function explainUnasked(port: string, text: string, isEspruino: boolean): string {
  const usual = usualLine(text);
  const shown = usual === "" ? "" : ` (${JSON.stringify(usual)})`;
  const terminal = `espruino-agent console --port ${port}`;
  if (isEspruino) {
    return (
      `${port}: Espruino is there, but something prints all the time${shown}, so that no answer of its is heard: a ` +
      "program on the board does that.\n" +
      "Press the board's RESET button and try again at once: what is typed early enough stops the program.\n" +
      `If that does not help: open ${terminal}, press RESET, then Ctrl-C until it is silent. reset() gives an empty ` +
      'interpreter there, and require("Storage").erase(".bootcde") takes a program off that starts at power-up'
    );
  }
  return (
    `${port}: something prints all the time${shown}, and what is typed is not answered. On a board with Espruino a ` +
    "program does that.\n" +
    "Press the board's RESET button and try again at once: what is typed early enough stops the program.\n" +
    `If it goes on, look at what comes after RESET, with ${terminal}. Where it is another firmware that starts, ` +
    "https://www.espruino.com/Download has Espruino"
  );
}

/** At another baud rate the bytes are all over the place; a boot log in another one is only a few lines of it. */
function isGarbage(text: string): boolean {
  const strange = text.match(/[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f-\xff]/g)?.length ?? 0;
  return text.length >= 4 && strange / text.length > 0.3;
}

/**
 * Which firmware, and how: file names and offsets as in README_flash.txt of Espruino's ESP32 package,
 * https://www.espruino.com/binaries/espruino_2v27_esp32/README_flash.txt (README_flash_C3.txt and README_flash_S3.txt
 * in the packages of those chips have the bootloader at 0x0).
 */
export function howToInstall(port: string): string {
  const { name, note } = portForTool(port);
  return (
    "To install Espruino, get espruino_2v27_esp32.tgz (or later) from https://www.espruino.com/Download, unpack it:\n" +
    `  python -m esptool --chip esp32 --port ${name} --baud 921600 write_flash -z \\\n` +
    "    --flash_mode dio --flash_freq 40m \\\n" +
    `    0x1000 bootloader.bin 0x8000 partitions_espruino.bin 0x10000 espruino_esp32.bin${note}\n` +
    "For an ESP32-C3 or S3 take its own package, and the command in its README_flash file"
  );
}

/** Espressif's tool wants the board's own serial port, which a bridge has and this computer does not know. */
function portForTool(port: string): { name: string; note: string } {
  if (!/^tcp:/i.test(port)) return { name: port, note: "" };
  return { name: "PORT", note: `\n(at the machine that ${port} leads to: PORT is the board's serial port there)` };
}
