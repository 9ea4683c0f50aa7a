/** What a file is called: no path, and nothing that a header, a log or a terminal would read as more than a name. */
import { extensionOf, firstExtension } from "./types";

/** Bytes of a name, so that the answer to an upload stays under the 512 bytes that a small device reads. */
const NAME_BYTES = 100;

/**
 * The name without its folders (slashes of either kind), and with `_` for control and formatting characters and for
 * those that mean something to shells, file systems and headers. May be empty.
 */
export function cleanName(sent: string): string {
  return (
    sent
      // Browsers and their like write these three so in a form.
      .replace(/%22|%0d|%0a/gi, "_")
      .replace(/^.*[/\\]/s, "")
      .normalize("NFC")
      .replace(/[\p{C}\p{Zl}\p{Zp}\ufffd<>:"|?*%;`$]/gu, "_")
      .replace(/\s/gu, " ")
      .replace(/^[. ]+|[. ]+$/g, "")
  );
}

/** A clean name as it is kept: with an extension, that of `type` if it has none, and at most 100 bytes long. */
export function fileName(clean: string, type: string): string {
  const own = extensionOf(clean);
  const end = `.${own === "" ? firstExtension(type) : own}`;
  const stem = (own === "" ? clean : clean.slice(0, -end.length)).trimEnd();
  let name = "";
  for (const character of stem || "file") {
    // Cut between characters, not within one.
    if (Buffer.byteLength(name + character) > NAME_BYTES - end.length) break;
    name += character;
  }
  return name.trimEnd() + end;
}
