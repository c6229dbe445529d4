// The sampled records beside a mapping: as they came or as rows, each with what is wrong with it.
import { html } from "../html.js";
import { coloured, segments, spaced } from "../parts.js";
import { marked, why } from "./sampled.js";

export const MappingSample = {
  // `faults`: per index of a row, [column, detail] of each column that it does not fit.
  props: ["rows", "records", "faults", "about"],
  data: () => ({ only: false, as: "records" }),
  methods: {
    one(row, index) {
      const faults = this.faults[index] ?? [], record = this.records[index];
      const bad = row.error && (faults.length ? faults.map(([column, detail]) => html`<b key=${column.column}>${column.column}: ${why(record, column, detail)}</b>`) : html`<b>${row.error.column && `${row.error.column}: `}${row.error.detail || row.error.reason}</b>`);
      const text = this.as === "rows" && row.mapped ? coloured(spaced(row.mapped)) : row.raw === null ? "no value" : marked(row.raw, record, faults.map(([column]) => column.fieldPath));
      return html`<div key=${`${row.partition} ${row.offset}`} class=${row.error ? "bad" : row.kept === false ? "out" : ""} data-row=${index}><code>${text}</code><span title="partition / offset">${row.partition} / ${row.offset}</span>${bad}${row.kept === false && html`<small>left out by the filter</small>`}</div>`;
    },
  },
  render() {
    const wrong = this.rows.filter((each) => each.error).length, shown = this.rows.map((row, index) => [row, index]).filter(([row]) => !this.only || row.error);
    return html`<section class="card pane"><header><h2>Sample</h2><span class="faint small clip">${this.about}</span><span class="push"></span>${wrong > 0 && html`<button type="button" class="btn bare count" aria-pressed=${String(this.only)} aria-label=${`${wrong} do not fit. ${this.only ? "Show all" : "Show only them"}`} onClick=${() => (this.only = !this.only)}>${wrong} ✕</button>`}</header>
      <div class="pane-bar">${segments("Show the sample as", [["records", "Records"], ["rows", "Rows"]], this.as, (as) => (this.as = as))}</div>
      <div class="samples" tabindex="0" role="region" aria-label="Sampled records">${shown.map(([row, index]) => this.one(row, index))}</div></section>`;
  },
};
