// The CREATE TABLE statement of a mapping, with what is wrong and what was changed at its line; or what differs from a
// live table.
import { html } from "../html.js";
import { note } from "../parts.js";

const COLUMN = /^\s*`((?:[^`\\]|\\.)*)` (.*?)(,?)$/, PLAIN = /^[A-Za-z_]\w*$/;
const WORDS = /\b(CREATE TABLE|IF NOT EXISTS|ENGINE|PARTITION BY|ORDER BY|TTL|SETTINGS|DEFAULT|MATERIALIZED|INTERVAL|DAY|MONTH)\b/;

const worded = (line) => line.replaceAll(/`([A-Za-z_]\w*)`/g, "$1").split(WORDS).map((part, index) => (index % 2 ? html`<span class="w">${part}</span>` : part));

// `bad`, `changed`: names of columns.
export function statement(ddl, bad, changed) {
  const lines = ddl.split("\n"), columns = lines.map((line) => line.match(COLUMN));
  const shown = (name) => (PLAIN.test(name) ? name : `\`${name}\``), width = Math.max(0, ...columns.map((found) => (found ? shown(found[1]).length : 0)));
  return html`<div class="code ddl" tabindex="0" role="region" aria-label="CREATE TABLE statement">${lines.map((line, index) => {
    const found = columns[index];
    if (!found) return html`<div>${worded(line)}</div>`;
    const [, name, type, comma] = found, wrong = bad.has(name);
    return html`<div class=${wrong ? "err" : changed.has(name) ? "add" : name.startsWith("_") ? "faint" : ""}>  ${shown(name).padEnd(Math.min(width, 24))}  ${wrong ? html`<mark>${type}</mark>` : html`<span class="k">${type}</span>`}${comma}</div>`;
  })}</div>`;
}

const SIGNS = { add: "+", extra: "−", type: "~", default: "~", table: "~" };
// `table`: the answer of the API that compares it with the mapping.
export function differences(table) {
  if (!table.exists) return table.ok ? html`<p class="pad soft small">The table is not there yet: it is made as in <b>Create</b>.</p>` : note("bad", "✕", html`<b>${table.message}.</b> ${table.hint}`);
  if (!table.differences.length) return note("ok", "✓", html`<b>Nothing differs.</b> The table has each column of the mapping.`);
  return html`<div class="code diff" tabindex="0" role="region" aria-label="Differences from the live table">${table.differences.map((each) => html`<div key=${each.change + each.name} class=${each.change === "add" ? "add" : each.change === "type" ? "del" : ""}>${SIGNS[each.change]} ${each.name} ${each.change === "add" ? each.wanted : each.change === "extra" ? html`${each.live}<span class="faint">  only in the table: its default is used</span>` : `${each.live} → ${each.wanted}`}</div>`)}</div>`;
}

export const guarantee = (once, why = "") => once
  ? note("ok", "✓", html`<b>Exactly once.</b> <code>_inc</code> and <code>_offset</code> are kept with each row, so that none is written twice.`)
  : note("warn", "≥", html`<b>At least once.</b> ${why || "The table is yours and has no columns _inc and _offset"}: after a failure some rows may be there twice.`);
