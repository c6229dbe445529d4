// The filter of a pipeline: rules to click together, the expression that they make, and a trial on sampled records.
import * as api from "../api.js";
import { plural } from "../format.js";
import { html } from "../html.js";
import { icon } from "../icons.js";
import { button, closing, note, segments } from "../parts.js";
import { group, isGroup, OPERATORS, read, rule, write } from "./filter_rules.js";
import { parsed } from "./sampled.js";

export const Filter = {
  // `tried`: the rows that were sampled, with `kept`; `wrong`: why the expression can't be used.
  props: ["id", "format", "expression", "fields", "kinds", "tried", "wrong"],
  emits: ["change"],
  data() { return { tree: read(this.expression), as: "rules", record: null, answer: null }; },
  watch: {
    expression(text) { if (this.tree === null || text !== write(this.tree, this.kinds)) this.tree = read(text); },
  },
  methods: {
    edited() { this.$emit("change", write(this.tree, this.kinds)); },
    begin() {
      this.tree = group([rule(this.fields[0] ?? "")]);
      this.edited();
    },
    text(event) {
      this.tree = read(event.target.value);
      this.$emit("change", event.target.value);
    },
    async test() {
      this.answer = null;
      const text = this.record ?? this.tried[0]?.raw ?? "";
      const sample = ["json", "csv"].includes(this.format) ? text : (parsed(text) ?? text); // others are shown as JSON
      try { this.answer = await api.post(api.path("pipelines", this.id, "filters-eval"), { expression: this.expression, sample }); } catch (error) { this.answer = { error: error.message }; }
    },
    rule(each, parent, at) {
      const name = `Rule ${at + 1}`, set = (key) => (event) => { each[key] = event.target.value; this.edited(); };
      return html`<li key=${at} class="rule"><input list="filter-fields" class="mono" aria-label="${name}: field" placeholder="field" value=${each.path} onInput=${set("path")} />
        <select aria-label="${name}: condition" value=${each.op} onChange=${set("op")}>${OPERATORS.map(([value, text]) => html`<option key=${value} value=${value} selected=${value === each.op}>${text}</option>`)}</select>
        ${each.op === "exists" ? html`<span></span>` : html`<input class="mono" aria-label="${name}: value" placeholder="value" value=${each.value} onInput=${set("value")} />`}${closing(() => { parent.rules.splice(at, 1); this.edited(); }, `Remove rule ${at + 1}`)}</li>`;
    },
    group(each, parent = null, at = 0) {
      return html`<div class="rules ${parent ? "nested" : ""}" key=${`group ${at}`}><div class="bar">${segments("How rules are joined", [["and", "All of"], ["or", "Any of"]], each.join, (join) => { each.join = join; this.edited(); })}
          <label class="check"><input type="checkbox" checked=${each.not} onChange=${(event) => { each.not = event.target.checked; this.edited(); }} />not</label>${parent && closing(() => { parent.rules.splice(at, 1); this.edited(); }, "Remove the group")}</div>
        <ul>${each.rules.map((one, index) => (isGroup(one) ? html`<li key=${index}>${this.group(one, each, index)}</li>` : this.rule(one, each, index)))}</ul>
        <div class="bar">${button(html`${icon("plus")}Rule`, () => { each.rules.push(rule(this.fields[0] ?? "")); this.edited(); }, { "data-testid": "add-rule" })}${button(html`${icon("plus")}Group`, () => { each.rules.push(group([rule(this.fields[0] ?? "")], each.join === "and" ? "or" : "and")); this.edited(); })}</div></div>`;
    },
    said() {
      if (this.wrong) return note("bad", "✕", html`<b>The condition can't be used.</b> ${this.wrong}`);
      const kept = this.tried.filter((each) => each.kept).length, out = this.tried.filter((each) => each.kept === false).length, unclear = this.tried.length - kept - out;
      return note(unclear ? "warn" : "move", unclear ? "▲" : "→", html`<b>It keeps ${kept} of ${plural(this.tried.length, "sampled record")}.</b> ${out} are left out and counted${unclear ? `; ${unclear} can't be judged and become dead letters` : ""}.`);
    },
  },
  render() {
    const { expression, tree, answer } = this;
    if (!expression && !tree?.rules.length) return html`<section class="card filter"><header><h2>Filter</h2><span class="faint small">all records become rows</span><span class="push"></span>${button(html`${icon("plus")}Add a filter`, this.begin, { "data-testid": "add-filter" })}</header></section>`;
    return html`<section class="card filter"><header><h2>Filter</h2><span class="faint small">records that do not match are left out, and counted</span><span class="push"></span>${button("Remove", () => { this.tree = group([]); this.$emit("change", ""); })}</header>
      <div class="filter-panes"><div class="stack">${tree ? this.group(tree) : note("idle", "✎", html`This condition has more than rules can show. Edit it as text.`)}
          <datalist id="filter-fields">${this.fields.map((each) => html`<option key=${each} value=${each}></option>`)}</datalist>
          <label class="field"><span>As an expression of the scan language</span><textarea class="mono" rows="2" spellcheck="false" data-testid="expression" aria-invalid=${this.wrong ? "true" : null} value=${expression} onInput=${this.text}></textarea></label></div>
        <div class="stack">${this.said()}<label class="field"><span>Try it on a record</span><textarea class="mono" rows="3" spellcheck="false" data-testid="filter-sample" value=${this.record ?? this.tried[0]?.raw ?? ""} onInput=${(event) => { this.record = event.target.value; this.answer = null; }}></textarea></label>
          <div class="bar">${button("Try", this.test, { "data-testid": "try-filter" })}<span role="status" class="small">${answer && (answer.error ? html`<span class="fault">✕ ${answer.error}</span>` : answer.result ? html`<span class="fits">✓ kept</span>` : html`<span class="soft">○ left out</span>`)}</span></div></div></div></section>`;
  },
};
