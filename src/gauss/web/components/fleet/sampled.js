// Sampled records as the pages of a mapping look at them: values by path, examples, and where a bad value stands.
import { parse, stringify } from "../api.js";
import { html } from "../html.js";
import { coloured } from "../parts.js";

export function parsed(raw) {
  try { return parse(raw); } catch { return undefined; }
}
export function valueAt(record, path) {
  let found = record;
  for (const name of path.split(".")) {
    if (found === null || typeof found !== "object" || Array.isArray(found)) return undefined;
    found = found[name];
  }
  return found;
}
export const brief = (value, most = 24) => {
  const text = stringify(value) ?? "";
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
};

// A few values of a column's field, and in how many records it is absent. Of formats that are no text the rows tell.
export function examples(records, rows, column) {
  const seen = new Set();
  let absent = 0;
  rows.forEach((row, index) => {
    if (records[index] === undefined && !row.mapped) return;
    const value = records[index] === undefined ? row.mapped[column.column] : valueAt(records[index], column.fieldPath);
    if (value === undefined || value === null) absent++;
    else if (seen.size < 3) seen.add(brief(value, 18));
  });
  return { shown: [...seen].join(", "), absent };
}

// Why a record does not fit a column, in words: the value and the type that it is not.
export function why(record, column, detail) {
  if (record === undefined) return detail;
  const value = valueAt(record, column.fieldPath);
  if (value === undefined) return "missing";
  return value === null ? "null" : `${brief(value)} is no ${column.type}`;
}

// The text of a record with its bad values marked. A value is found by the last name of its path.
export function marked(raw, record, paths) {
  const places = [];
  for (const path of paths) {
    const value = valueAt(record, path), name = path.split(".").at(-1).replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    if (value === undefined) continue;
    for (const found of raw.matchAll(new RegExp(`"${name}"\\s*:\\s*("(?:[^"\\\\]|\\\\.)*"|\\[[^\\]]*\\]|[^,}\\]\\s]+)`, "g"))) {
      const end = found.index + found[0].length, start = end - found[1].length;
      if (stringify(parsed(found[1])) !== stringify(value) || places.some(([first, last]) => start < last && end > first)) continue;
      places.push([start, end]);
      break;
    }
  }
  const parts = [];
  let at = 0;
  for (const [start, end] of places.sort((one, other) => one[0] - other[0])) {
    parts.push(coloured(raw.slice(at, start)), html`<mark>${raw.slice(start, end)}</mark>`);
    at = end;
  }
  return [...parts, coloured(raw.slice(at))];
}
