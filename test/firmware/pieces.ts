/** `text` in pieces of `size` bytes. */
export function inPieces(text: string, size: number): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; at += size) pieces.push(text.substr(at, size));
  return pieces;
}

/** `text` cut at the given places; those beyond its end are folded back into it, and one twice makes an empty piece. */
export function cutAt(text: string, places: number[]): string[] {
  const sorted = places.map((place) => place % (text.length + 1)).sort((a, b) => a - b);
  return [0, ...sorted].map((from, i) => text.slice(from, sorted[i] ?? text.length));
}
