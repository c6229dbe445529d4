// Step 3: which field fills which column. Every change is tried on the sampled records at once, before it is saved.
// With `editing` it is the page of a pipeline that exists: saving applies to what runs.
import * as api from "../api.js";
import { plural } from "../format.js";
import { html } from "../html.js";
import { toast } from "../live.js";
import { action, button, failure, note, segments } from "../parts.js";
import { differences, guarantee, statement } from "./ddl.js";
import { Filter } from "./filter.js";
import { verdict } from "./known.js";
import { MappingColumns } from "./mapping_columns.js";
import { MappingSample } from "./mapping_sample.js";
import { parsed, valueAt } from "./sampled.js";

const LIMIT = 100, PAUSE_MS = 200, MOST_UNDO = 100;
const copy = (value) => api.parse(api.stringify(value));
const where = { end: "newest", beginning: "oldest" };

export default {
  props: ["known", "editing"],
  emits: ["say", "go"],
  data: () => ({ draft: null, first: null, past: [], fields: [], shown: null, filter: "", problem: null, wrong: {}, busy: false, saving: false, as: "create", table: null }),
  computed: {
    records() { return (this.shown?.rows ?? []).map((each) => parsed(each.raw)); },
    faults() { return Object.fromEntries((this.shown?.columns ?? []).map((each) => [each.column, each])); },
    // By row: the columns that it does not fit.
    perRow() {
      const found = {};
      for (const each of this.shown?.columns ?? []) {
        const column = this.draft.columns.find((one) => one.column === each.column);
        if (column) for (const { row, detail } of each.faults) (found[row] ??= []).push([column, detail]);
      }
      return found;
    },
    // Records that no column could make fit are not counted at columns.
    whole() { return (this.shown?.rows ?? []).filter((each, index) => !each.error || this.perRow[index]).length; },
    changed() {
      const before = Object.fromEntries(this.first.columns.map((each) => [each.column, api.stringify(each)]));
      return new Set(this.draft.columns.filter((each) => before[each.column] !== api.stringify(each)).map((each) => each.column));
    },
    unsaved() { return api.stringify(this.draft) !== api.stringify(this.known.mapping) || this.filter !== (this.known.filters?.enabled ? this.known.filters.expression : ""); },
    kinds() { return Object.fromEntries(this.paths.map((path) => [path, typeof this.records.map((each) => valueAt(each, path)).find((value) => value !== undefined && value !== null)])); },
    paths() { return [...new Set([...this.fields.map((each) => each.fieldPath), ...this.draft.columns.map((each) => each.fieldPath)])]; },
  },
  async mounted() {
    const { known } = this;
    this.filter = known.filters?.enabled ? known.filters.expression : "";
    this.$emit("say", { text: "Trying the mapping on some records…" });
    try {
      const proposal = await api.get(api.path("pipelines", known.id, "proposal"), { limit: LIMIT, from: known.from });
      Object.assign(known, { ttl: known.ttl ?? proposal.ttl });
      this.fields = proposal.mapping.columns;
      this.draft = copy(known.draft ?? known.mapping ?? proposal.mapping);
    } catch (error) {
      this.problem = error;
      if (known.mapping) this.draft = copy(known.mapping);
    }
    if (this.draft) {
      this.first = copy(known.mapping ?? this.draft);
      await this.look();
    } else this.$emit("say", { text: "The records can't be read", lead: "A mapping is proposed from sampled records." });
  },
  beforeUnmount() { clearTimeout(this.timer); },
  methods: {
    path(...parts) { return api.path("pipelines", this.known.id, ...parts); },
    // Notes the mapping for Undo, changes it, and tries it.
    change(run) {
      this.past = [...this.past.slice(1 - MOST_UNDO), api.stringify(this.draft)];
      run(this.draft);
      this.later();
    },
    later() {
      this.known.draft = this.draft;
      clearTimeout(this.timer);
      this.timer = setTimeout(this.look, PAUSE_MS);
    },
    edit(at, given) {
      this.change((draft) => {
        const column = draft.columns[at], before = column.column;
        Object.assign(column, given);
        if (column.nullable) draft.orderBy = draft.orderBy.filter((each) => each !== before); // ClickHouse sorts by no nulls
        draft.orderBy = draft.orderBy.map((each) => (each === before ? column.column : each));
      });
    },
    drop(at) {
      this.change((draft) => {
        const [gone] = draft.columns.splice(at, 1);
        draft.orderBy = draft.orderBy.filter((each) => each !== gone.column);
      });
    },
    add(path) {
      const known = this.fields.find((each) => each.fieldPath === path), taken = new Set(this.draft.columns.map((each) => each.column));
      const name = known?.column ?? path.replaceAll(/\W+/g, "_").replace(/^_+|_+$/g, "");
      let free = name;
      for (let number = 2; taken.has(free); number++) free = `${name}_${number}`;
      this.change((draft) => draft.columns.push({ ...(known ?? { fieldPath: path, type: "String", nullable: true, encoding: null }), column: free }));
    },
    undo() {
      if (!this.past.length) return;
      this.draft = api.parse(this.past.at(-1));
      this.past = this.past.slice(0, -1);
      this.later();
    },
    filtered(text) {
      this.filter = text;
      this.later();
    },
    async look() {
      const asked = (this.asked = {});
      this.busy = true;
      try {
        const { known } = this, shown = await api.post(this.path("preview"), { mapping: this.draft, filter: this.filter, limit: LIMIT, from: known.from });
        if (asked !== this.asked) return; // a newer question is under way
        Object.assign(this, { shown, problem: null, wrong: {} });
        this.say();
        if (this.as === "diff") await this.compare();
      } catch (error) {
        if (asked !== this.asked) return;
        this.problem = this.placed(error) ? null : error;
        this.$emit("say", { text: "The mapping has a mistake", lead: this.problem ? "It is not saved." : "It is shown at its column, and nothing is saved." });
      }
      this.busy = false;
    },
    // Puts a refusal beside the column that it names.
    placed(error) {
      const found = error.message.match(/^columns\.(\d+)\.?[\w.]*: (.*)/), { columns } = this.draft;
      let at = found ? Number(found[1]) : -1, text = found?.[2];
      if (at < 0) {
        const named = error.message.match(/^(?:column|field) (.+?): (.*)/) ?? [], twice = error.message.match(/fill the column '(.*)'/)?.[1];
        at = twice === undefined ? columns.findIndex((each) => [each.column, each.fieldPath].includes(named[1])) : columns.findLastIndex((each) => each.column === twice);
        text = named[2] ?? "another field fills the column of this name";
      }
      this.wrong = at < 0 ? {} : { [at]: `${text}${error.hint ? `; ${error.hint}` : ""}` };
      return at >= 0;
    },
    say() {
      const { rows, columns } = this.shown, fit = rows.filter((each) => !each.error).length, names = columns.map((each) => each.column);
      const text = !rows.length ? "The topic has no records to try it on" : fit === rows.length ? (fit === 1 ? "The sampled row fits" : `All ${fit} sampled rows fit`) : `${fit} of ${plural(rows.length, "sampled row")} fit`;
      const lead = fit === rows.length ? "Each of these records becomes one row of the table." : names.length ? `${plural(rows.length - fit, "record does", "records do")} not fit ${names.length === 1 ? `the column ${names[0]}` : `the columns ${names.slice(0, 3).join(", ")}${names.length > 3 ? " and others" : ""}`}. Fix it, or let such records go to the dead letters.` : `${plural(rows.length - fit, "record is", "records are")} not ${this.known.kafka.format} as it should be: such ones go to the dead letters.`;
      this.$emit("say", { text, lead });
    },
    async compare() {
      this.as = "diff";
      if (!this.known.clickhouse) return;
      try { this.table = await api.post(this.path("draft", "table"), { clickhouse: this.known.clickhouse, mapping: this.draft }); } catch (error) { this.table = { ok: false, exists: false, message: error.message, hint: error.hint, differences: [] }; }
    },
    // `sure`: although no row would be inserted, which somebody has read.
    async save(sure = false) {
      Object.assign(this, { saving: true, problem: null });
      const { known } = this;
      try {
        if (this.editing && !sure) {
          await this.compare();
          if (verdict(this.table, known.clickhouse.createTableIfMissing).blocks) return;
        }
        const enabled = this.filter.trim() !== "";
        if (this.filter !== (known.filters?.enabled ? known.filters.expression : "")) known.filters = await api.put(this.path("filters-config"), { enabled, language: "scan", expression: this.filter });
        known.mapping = await api.put(this.path("mapping"), this.draft);
        known.draft = null;
        if (this.editing) toast(known.desired === "started" ? "Saved. It applies from the next range of records on" : "Saved. It applies at the next start");
        this.$emit("go", "table");
      } catch (error) {
        this.problem = this.placed(error) ? null : error;
      } finally {
        this.saving = false;
      }
    },
    side() {
      const found = this.table && verdict(this.table, this.known.clickhouse?.createTableIfMissing);
      return html`<section class="card pane table-pane"><header><h2>Table</h2><span class="push"></span>${segments("What is shown of the table", [["create", "Create"], ["diff", "Diff"]], this.as, (as) => (as === "diff" ? this.compare() : (this.as = as)))}</header>
        ${this.as === "create" ? this.shown?.ddl && statement(this.shown.ddl, new Set(Object.keys(this.faults)), this.changed) : !this.known.clickhouse ? html`<p class="pad soft small">The server and the table are named in the next step.</p>` : this.table && html`<div class="pad">${differences(this.table)}</div>`}
        <div class="pad">${guarantee(!found || this.as === "create" || found.once)}</div></section>`;
    },
    foot() {
      const { rows } = this.shown ?? { rows: [] }, kept = rows.filter((each) => !each.error && each.kept !== false).length, out = rows.filter((each) => !each.error && each.kept === false).length, dead = rows.length - kept - out;
      const blocked = this.editing && this.table && this.as === "diff" ? verdict(this.table, this.known.clickhouse?.createTableIfMissing).blocks : "";
      const busy = this.saving || Object.keys(this.wrong).length > 0 || Boolean(this.shown?.filterError) || !this.draft.columns.length;
      return html`<section class="card">${blocked && html`<div class="pad">${note("bad", "✕", html`<b>With this mapping no row would be inserted.</b> ${blocked}. Records would wait in Kafka; nothing is lost.`)}</div>`}
        <footer class="wizard-foot"><div class="fitting"><span class="meter ${dead ? "warn" : "ok"}" style=${{ "--v": rows.length ? kept / rows.length : 0 }}><i></i></span><span class="small soft">${plural(kept, "row goes", "rows go")} to the table, ${dead} to the dead letters${out ? `, ${out} ${out === 1 ? "is" : "are"} left out by the filter` : ""}; none is lost</span></div>
        ${this.editing ? [this.unsaved && button("Discard changes", () => { Object.assign(this, { draft: copy(this.known.mapping), past: [], filter: this.known.filters?.enabled ? this.known.filters.expression : "" }); this.later(); }), action(blocked ? "Save anyway" : this.saving ? "Saving…" : "Save", () => this.save(Boolean(blocked)), { kind: blocked ? "danger" : "solid", busy: busy || !this.unsaved, "data-testid": "next" })]
          : [button("Back", () => this.$emit("go", "sample")), action(this.saving ? "Saving…" : "Continue to table", () => this.save(), { kind: "solid", busy, "data-testid": "next" })]}</footer></section>`;
    },
  },
  render() {
    const { known, draft, shown } = this;
    if (!draft) return html`<div class="stack">${failure(this.problem)}${this.problem && html`<div class="actions">${button("Back", () => this.$emit("go", "sample"))}</div>`}</div>`;
    const used = new Set(draft.columns.map((each) => each.fieldPath)), changes = this.changed.size;
    const on = { onEdit: this.edit, onDrop: this.drop, onAdd: this.add, onUndo: this.undo };
    return html`<div class="stack" aria-busy=${String(this.busy)}>${failure(this.problem)}<div class="mapping">
        <${MappingSample} rows=${shown?.rows ?? []} records=${this.records} faults=${this.perRow} about=${`${known.kafka?.topic ?? ""}, ${where[known.from] ?? "newest"} ${shown?.rows.length ?? ""}`} />
        <${MappingColumns} columns=${draft.columns} records=${this.records} rows=${shown?.rows ?? []} total=${this.whole} faults=${this.faults} wrong=${this.wrong} unused=${this.fields.map((each) => each.fieldPath).filter((path) => !used.has(path))} orderBy=${draft.orderBy} note=${`${draft.columns.length} columns${changes ? `, ${changes} changed by you` : ""}`} ...${on} />
        ${this.side()}</div>
      <${Filter} id=${known.id} format=${known.kafka?.format} expression=${this.filter} fields=${this.paths} kinds=${this.kinds} tried=${shown?.rows ?? []} wrong=${shown?.filterError ?? ""} onChange=${this.filtered} />${this.foot()}</div>`;
  },
};
