// The columns of a mapping: name, field, type and nullability of each, how many samples fit it, and what would mend it.
import { plural } from "../format.js";
import { html } from "../html.js";
import { icon } from "../icons.js";
import { button, closing } from "../parts.js";
import { examples, why } from "./sampled.js";
import { groups, named, parse, typed } from "./types.js";

const MOST_TOLD = 3, SHOWN = 100;

export const MappingColumns = {
  // `total`: the records that are whole; `wrong`: the fault of a column's setting by index; `faults`: what samples do not fit, by column name.
  props: ["columns", "records", "rows", "total", "faults", "wrong", "unused", "orderBy", "note"],
  emits: ["edit", "drop", "add", "undo"],
  data: () => ({ own: null, shown: SHOWN, kept: new Set(), adding: "" }),
  methods: {
    pick(at, event) {
      if (event.target.value === "other") this.own = at;
      else this.$emit("edit", at, parse(event.target.value));
    },
    type(each, at, bad) {
      if (this.own === at) return html`<input class="mono" aria-label="Type of ${each.column}" value=${each.type} autofocus onChange=${(event) => { this.own = null; this.$emit("edit", at, { type: event.target.value.trim(), encoding: null }); }} onBlur=${() => (this.own = null)} />`;
      return html`<select class="mono" aria-label="Type of ${each.column}" aria-invalid=${bad ? "true" : null} value=${typed(each)} title=${named(each)} onChange=${(event) => this.pick(at, event)}>${groups(each).map(([name, types]) => html`<optgroup key=${name} label=${name}>${types.map(([value, text]) => html`<option key=${value} value=${value} selected=${value === typed(each)}>${text}</option>`)}</optgroup>`)}<option value="other">Another type…</option></select>`;
    },
    verb(each, fix) {
      const same = fix.type === each.type && (fix.encoding ?? null) === (each.encoding ?? null);
      const also = fix.nullable && !each.nullable && !same ? ", nullable" : "";
      const text = same ? "Make it nullable" : fix.encoding === "json" ? `Make it JSON text${also}` : `Make it ${named(fix)}${also}`;
      return fix.fits < this.total ? `${text} · fits ${fix.fits}` : text;
    },
    mend(each, at, found) {
      if (!found || this.kept.has(each.column)) return null;
      const told = found.faults.slice(0, MOST_TOLD).map(({ row, detail }) => `row ${row + 1} ${why(this.records[row], each, detail).replace(/ is no .*/, "")}`), more = found.faults.length - told.length;
      return html`<tr class="mend" key=${`mend ${at}`}><td colspan="5"><div class="note bad" role="alert"><div><p><b>${plural(found.faults.length, "row does", "rows do")} not fit:</b> ${told.join(", ")}${more > 0 && ` and ${more} more`}</p>
        <div class="actions">${found.fixes.map((fix) => button(this.verb(each, fix), () => this.$emit("edit", at, { type: fix.type, nullable: fix.nullable, encoding: fix.encoding }), { "data-testid": "fix" }))}${button("Keep; send to dead letters", () => this.kept.add(each.column), { kind: "bare" })}</div></div></div></td></tr>`;
    },
    line(each, at) {
      const { shown, absent } = examples(this.records, this.rows, each), found = this.faults[each.column], fits = this.total - (found?.faults.length ?? 0), wrong = this.wrong[at];
      const list = each.type.startsWith("Array") || each.type.startsWith("Map");
      return [html`<tr key=${`column ${at}`} data-column=${each.column} class=${found ? "unfit" : ""}><td><input class="mono name" aria-label="Name of the column from ${each.fieldPath}" value=${each.column} onChange=${(event) => this.$emit("edit", at, { column: event.target.value.trim() })} />
          <small class="clip" title=${`.${each.fieldPath} · ${shown}`}>.${each.fieldPath} · ${shown}${absent > 0 && `${shown ? ", " : ""}absent in ${absent}`}${this.orderBy.includes(each.column) && html` <i class="tag">sorted by</i>`}</small></td>
        <td>${this.type(each, at, found || wrong)}</td>
        <td><button type="button" role="switch" class="switch" aria-checked=${String(each.nullable)} aria-label="${each.column} may be null" title=${list ? "A missing list is empty" : each.nullable ? "A missing value is NULL" : "A missing value is a dead letter"} onClick=${() => this.$emit("edit", at, { nullable: !each.nullable })}></button></td>
        <td class="n">${found ? html`<b class="fault" title=${`${fits} of ${this.total} fit`}>${fits}</b>` : html`<span class="soft">${this.total}</span>`}</td><td>${closing(() => this.$emit("drop", at), `Drop ${each.column}`)}</td></tr>`,
      wrong && html`<tr class="mend" key=${`wrong ${at}`}><td colspan="5"><div class="note bad" role="alert"><p><b>${each.column}:</b> ${wrong}</p></div></td></tr>`, this.mend(each, at, found)];
    },
  },
  render() {
    return html`<section class="card pane columns"><header><h2>Columns</h2><span class="faint small">${this.note}</span><span class="push"></span>${button(html`${icon("undo")}Undo`, () => this.$emit("undo"), { kind: "bare", "data-testid": "undo" })}</header>
      <div class="wide"><table class="table"><thead><tr><th>column, from field</th><th>type</th><th>null</th><th class="n">fit</th><th><span class="sr">Drop</span></th></tr></thead><tbody>${this.columns.map((each, at) => (at < this.shown || this.faults[each.column] || this.wrong[at] ? this.line(each, at) : null))}</tbody></table>${this.columns.length > this.shown && html`<div class="pad">${button(`Show ${Math.min(SHOWN, this.columns.length - this.shown)} more of ${this.columns.length}`, () => (this.shown += SHOWN))}</div>`}</div>
      <form class="pane-foot" onSubmit=${(event) => { event.preventDefault(); if (this.adding.trim()) this.$emit("add", this.adding.trim()); this.adding = ""; }}><input list="unused-fields" class="mono" aria-label="Field of a new column" placeholder=${this.unused.length ? `${plural(this.unused.length, "field")} left out` : "another field, such as ship.city"} value=${this.adding} onInput=${(event) => (this.adding = event.target.value)} /><datalist id="unused-fields">${this.unused.map((each) => html`<option key=${each} value=${each}></option>`)}</datalist><button type="submit" class="btn" data-testid="add-column">${icon("plus")}Add a column</button></form></section>`;
  },
};
