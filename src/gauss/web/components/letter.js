// What is shown of one dead letter: its facts, and its payload with the bad place marked.
import { clock, exact, utc } from "./format.js";
import { html } from "./html.js";
import { coloured, spaced } from "./parts.js";
import { bytesOf, textOf, unitsOf } from "./record_text.js";

const AROUND = 14, EXCERPT = 60;

// A letter as pages use it, with its text. One of a sync has a row, and a number of its own.
export function read(letter) {
  if (letter.sync) return { ...letter, dead_offset: letter.number, processor: "", stage: letter.side, offset: -1, text: spaced(letter.row), bad_place: null };
  const bytes = bytesOf(letter.data), text = textOf(bytes);
  return { ...letter, data: null, bytes, text, bad_place: unitsOf(text, letter.bad_place) };
}

export function excerpt({ text, bad_place: place }) {
  if (!place) return html`<code class="clip">${text.slice(0, EXCERPT)}</code>`;
  const start = Math.max(0, place.start - AROUND);
  return html`<code class="clip">${start ? "…" : ""}${text.slice(start, place.start)}<mark>${text.slice(place.start, place.end)}</mark>${text.slice(place.end, place.end + AROUND)}…</code>`;
}

export function payload({ text, bad_place: place, detail }) {
  if (!place) return html`<div class="code"><div class="err">${coloured(text)}</div><div class="under small">${detail}</div></div>`;
  const lines = [];
  let start = 0;
  for (const part of broken(text)) {
    const end = start + part.length, from = Math.max(place.start, start), to = Math.min(place.end, end);
    const bad = from < to;
    lines.push(html`<div class=${bad ? "err" : ""}><span class="ln">${lines.length + 1}</span>${bad ? [coloured(text.slice(start, from)), html`<mark>${text.slice(from, to)}</mark>`, coloured(text.slice(to, end))] : coloured(part)}</div>`);
    if (bad && place.end <= end) lines.push(html`<div class="err under small"><span class="ln"></span>${" ".repeat(Math.min(from - start, 24))}↑ ${detail}</div>`);
    start = end;
  }
  return html`<div class="code">${lines}</div>`;
}

export function facts(letter) {
  const origin = letter.sync ? `stream ${letter.stream}, run ${letter.run}` : letter.topic ? `${letter.topic} at ${letter.offset < 0 ? "–" : exact(letter.offset)}` : "a connection";
  const found = [["stage", letter.stage], letter.sync ? ["sync", letter.sync] : ["processor", letter.processor], ["arrived", html`<span title=${utc(letter.ts_ms)}>${clock(letter.ts_ms, true)}</span>`], ["from", origin], ["attempts", letter.attempts], ...(letter.column ? [["column", letter.column]] : [])];
  return html`<dl class="pairs">${found.map(([name, value]) => [html`<dt>${name}</dt>`, html`<dd>${value}</dd>`])}</dl>`;
}

// JSON of one line broken behind commas and brackets, every character kept.
function broken(text) {
  if (text.length < 60 || text.includes("\n")) return text.split(/(?<=\n)/);
  const parts = [];
  let quoted = false, depth = 0, last = 0;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (char === '"' && text[at - 1] !== "\\") quoted = !quoted;
    if (quoted) continue;
    if ("{[".includes(char)) depth++;
    if ("}]".includes(char)) depth--;
    if ((char === "," && depth <= 1) || (char === "{" && at === 0)) { parts.push(text.slice(last, at + 1)); last = at + 1; }
  }
  parts.push(text.slice(last));
  return parts;
}
