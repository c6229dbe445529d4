// The mapping of a pipeline that exists, tried on its newest records before it is saved.
import * as api from "../api.js";
import { html } from "../html.js";
import { go } from "../live.js";
import { empty, failure, link, operator } from "../parts.js";
import { read } from "./known.js";
import StepMapping from "./step_mapping.js";
import { named } from "./types.js";

export default {
  props: ["row"],
  data: () => ({ known: null, said: {}, error: null }),
  async mounted() {
    try { this.known = await read(this.row.id); } catch (error) { this.error = error; }
  },
  methods: {
    // Viewers see what is saved; trying changes is for those who may make them.
    plain() {
      return html`<section class="card wide"><header><h2>Columns</h2><span class="faint small">viewers cannot change them</span></header><table class="table"><thead><tr><th>Column</th><th>Field</th><th>Type</th><th>May be null</th></tr></thead><tbody>${this.known.mapping.columns.map((each) => html`<tr key=${each.column}><td class="mono">${each.column}</td><td class="mono">.${each.fieldPath}</td><td class="mono">${named(each)}</td><td>${each.nullable ? "yes" : "no"}</td></tr>`)}</tbody></table></section>`;
    },
  },
  render() {
    const { known, said } = this;
    if (!known) return html`<div>${failure(this.error) ?? html`<p class="soft">Reading the mapping…</p>`}</div>`;
    if (!known.mapping || !known.clickhouse) return html`<section class="card">${empty("It has no mapping yet", "The wizard proposes one from the records of the topic.", operator() && link("/new/kafka", "Set it up", { class: "btn", query: { pipeline: known.id } }))}</section>`;
    if (!operator()) return this.plain();
    return html`<div class="stack"><div><h2 class="said" aria-live="polite">${said.text}</h2><p class="lead small">${said.lead}${known.desired === "started" ? " What is saved applies from the next range of records on." : ""}</p></div>
      <${StepMapping} known=${known} editing=${true} onSay=${(given) => (this.said = given)} onGo=${() => go(api.path("pipelines", known.id).replace("/api", ""))} /></div>`;
  },
};
