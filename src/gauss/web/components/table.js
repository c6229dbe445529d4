// What the table of a topic is: key, DDL, how it follows its records, and whether the live table still fits.
import * as api from "./api.js";
import { html } from "./html.js";
import { failure, note } from "./parts.js";

const WORDS = /\b(CREATE|TABLE|IF|NOT|EXISTS|ENGINE|ORDER|PARTITION|PRIMARY|KEY|UNIQUE|BY|SETTINGS|TTL|NULL|DEFAULT|INDEX|ON)\b|(`[^`]*`|"[^"]*"|'[^']*')|\b(\d+)\b/g;

function sql(line) {
  const parts = [];
  let at = 0;
  for (const found of line.matchAll(WORDS)) {
    parts.push(line.slice(at, found.index), html`<span class=${found[1] ? "w" : found[2] ? "k" : "d"}>${found[0]}</span>`);
    at = found.index + found[0].length;
  }
  return [...parts, line.slice(at)];
}

export const TableCard = {
  props: ["topic"],
  data: () => ({ table: null, error: null }),
  async mounted() {
    try {
      this.table = await api.get(api.path("topics", this.topic, "table"));
    } catch (error) {
      this.error = error;
    }
  },
  methods: {
    facts() {
      const { key, time, system, attrs } = this.table;
      return [["System", system], ["Key", key.length ? key.join(", ") : "none: every record is a row"], ...(time ? [["Time", time]] : []),
        ...Object.entries(attrs).filter(([, value]) => value && value.length).map(([name, value]) => [name[0].toUpperCase() + name.slice(1).replaceAll("_", " "), [value].flat().join(", ")])];
    },
    verdict() {
      const { differences, verdict, evolve } = this.table;
      if (!verdict) return null;
      return differences?.length ? note(evolve === "evolve" ? "warn" : "bad", "▲", html`<b>${verdict}.</b> ${differences.join("; ")}`) : note(differences === null ? "idle" : "ok", differences === null ? "○" : "✓", verdict);
    },
  },
  render() {
    const table = this.table;
    return html`<section class="card" aria-label="Table"><header><h2>Table</h2><span class="faint small">what records become</span></header><div class="stack pad">${failure(this.error)}
      ${table && [this.verdict(), html`<dl class="pairs">${this.facts().map(([name, value]) => [html`<dt>${name}</dt>`, html`<dd>${value}</dd>`])}</dl>`,
        table.statement && html`<div class="code" role="region" aria-label="DDL" tabindex="0">${table.statement.split("\n").map((line, index) => html`<div key=${index}>${sql(line)}</div>`)}</div>`,
        html`<p class="small soft">${table.evolution}</p>`]}</div></section>`;
  },
};
