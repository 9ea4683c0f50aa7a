// What a file is: by its name, else by its first bytes; "" where neither tells.
export function mediaType(name: string, start: string): string {
  const known =
    "jpg image/jpeg jpeg image/jpeg png image/png gif image/gif webp image/webp bmp image/bmp wav audio/wav mp3 audio/mpeg " +
    "ogg audio/ogg m4a audio/mp4 flac audio/flac mp4 video/mp4 webm video/webm mov video/quicktime pdf application/pdf";
  const words = known.split(" ");
  const at = words.indexOf(name.substr(name.lastIndexOf(".") + 1).toLowerCase());
  if (at >= 0 && !(at & 1)) return words[at + 1];
  if (start.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (start.startsWith("\x89PNG")) return "image/png";
  if (start.startsWith("GIF8")) return "image/gif";
  if (start.startsWith("%PDF")) return "application/pdf";
  if (start.startsWith("RIFF")) return start.substr(8, 4) === "WEBP" ? "image/webp" : start.substr(8, 4) === "WAVE" ? "audio/wav" : "";
  if (start.startsWith("ID3")) return "audio/mpeg";
  if (start.substr(4, 4) === "ftyp") return "video/mp4";
  return "";
}
