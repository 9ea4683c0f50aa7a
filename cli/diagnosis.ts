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

/** What was seen instead of a prompt, and what to do about it. */
export function explainNoPrompt(port: string, printed: string): string {
  const text = printed.replace(/\x1b\[[0-9;]*[A-Za-z]/g, "");
  if (isCrashLoop(text)) {
    const reason = /[^\r\n]*(?:Guru Meditation|abort\(\) was called|assert failed|Brownout detector)[^\r\n]*/i.exec(
      text,
    );
    const why = reason ? `: ${reason[0].trim().slice(0, 120)}` : "";
    if (reason && /brownout/i.test(reason[0])) {
      return `${port}: the board restarts again and again${why}. It gets too little power: another cable or USB port`;
    }
    return (
      `${port}: the board restarts again and again${why}.\n` +
      "If the code in its Storage does that, erase it (for an ESP32; the firmware stays), then run flash again:\n" +
      `  python -m esptool --chip esp32 --port ${port} erase_region 0x320000 0xE0000\n` +
      `If it goes on, the firmware does not fit the board. ${howToInstall(port)}`
    );
  }
  if (/waiting for download/i.test(text)) {
    return `${port}: the board waits for new firmware (its BOOT pin was low as it started). Press its RESET button`;
  }
  if (/password>\s*$/.test(text)) {
    return `${port}: Espruino's console has a password (E.setPassword): give it at another terminal first`;
  }
  if (isGarbage(text)) {
    return `${port}: what comes is no text: the wrong baud rate? Espruino on an ESP32 uses 115200 (--baud)`;
  }
  if (/MicroPython|CircuitPython|>>> ?$/.test(text)) {
    return `${port}: this board runs Python, not Espruino. ${howToInstall(port)}`;
  }
  if (/espruino\.com|Espruino \d+v\d+/.test(text)) {
    return (
      `${port}: Espruino has started, but does not answer: its program keeps it busy, or has moved the console. ` +
      "Press the board's RESET button and try again at once"
    );
  }
  const [header] = text.match(bootHeader) ?? [];
  if (header !== undefined)
    return `${port}: there is no Espruino on this board, only its boot loader answers. ${howToInstall(port)}`;
  if (text.trim() !== "") {
    const shown = JSON.stringify(fromBytes(text).trim().slice(0, 60));
    return `${port}: something answers, but it is no Espruino: ${shown}. ${howToInstall(port)}`;
  }
  return (
    `${port}: nothing answers. Is it the right port, and does the board have power? Press its RESET button: if ` +
    `nothing is printed then either, there is no Espruino on it. ${howToInstall(port)}`
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
  const name = /^tcp:/.test(port) ? "/dev/ttyUSB0" : port;
  return (
    "To install Espruino, get espruino_2v27_esp32.tgz (or later) from https://www.espruino.com/Download, unpack it:\n" +
    `  python -m esptool --chip esp32 --port ${name} --baud 921600 write_flash -z \\\n` +
    "    --flash_mode dio --flash_freq 40m \\\n" +
    "    0x1000 bootloader.bin 0x8000 partitions_espruino.bin 0x10000 espruino_esp32.bin\n" +
    "For an ESP32-C3 or S3 take its own package, and the command in its README_flash file"
  );
}
