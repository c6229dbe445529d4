// The bytes of a record as text that can be edited, and back, without loss. A byte that is no UTF-8 is the lone surrogate
// U+DC00 + byte, which browsers show as �; so is a carriage return, which a text area would drop.
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const LONE = /([\udc0d\udc80-\udcff])/u;

export const bytesOf = (base64) => Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
export const base64Of = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));

export function textOf(bytes) {
  try { return strict.decode(bytes); } catch { /* piece by piece */ }
  let text = "";
  for (let at = 0; at < bytes.length; ) {
    const size = bytes[at] < 0x80 ? 1 : bytes[at] < 0xe0 ? 2 : bytes[at] < 0xf0 ? 3 : 4;
    try {
      text += strict.decode(bytes.subarray(at, at + size));
      at += size;
    } catch {
      text += String.fromCharCode(0xdc00 + bytes[at++]);
    }
  }
  return text;
}
export const draftOf = (bytes) => textOf(bytes).replaceAll("\r", "\udc0d");
export const isLossy = (draft) => LONE.test(draft);

export function bytesOfDraft(draft) {
  const parts = draft.split(LONE).map((part) => (LONE.test(part) ? [part.charCodeAt(0) - 0xdc00] : new TextEncoder().encode(part)));
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

// A place in characters, as the API counts them, in the units of JavaScript's strings.
export function unitsOf(text, place) {
  if (!place || !/[\ud800-\udbff]/.test(text)) return place;
  let start = null, at = 0, seen = 0;
  for (const char of text) {
    if (seen === place.start) start = at;
    if (seen === place.end) break;
    at += char.length;
    seen++;
  }
  return { start: start ?? at, end: at };
}
