// From a topic to a table in five steps; each is checked before the next one opens.
import { defineAsyncComponent } from "vue";
import { html } from "../html.js";
import { go, state } from "../live.js";
import { failure, link, operator } from "../parts.js";
import { read } from "./known.js";
import Kafka from "./step_kafka.js";

const page = (name) => defineAsyncComponent(() => import(`./step_${name}.js`));
const STEPS = [["kafka", "Kafka", Kafka], ["sample", "Sample", page("sample")], ["mapping", "Mapping", page("mapping")], ["table", "Table", page("table")], ["start", "Start", page("start")]];

export default {
  props: ["name"],
  data: () => ({ known: null, error: null, said: {} }),
  computed: {
    id: () => state.query.pipeline ?? "",
    wanted() { return Math.max(0, STEPS.findIndex(([step]) => step === this.name)); },
    // The step of the address, or the last one before it that can be opened.
    at() {
      let at = this.wanted;
      while (at > 0 && !this.open(at)) at--;
      return at;
    },
  },
  watch: {
    id() { if (this.id !== this.known?.id) this.read(); },
    name() { this.said = {}; },
  },
  mounted() { this.read(); },
  methods: {
    async read() {
      try {
        Object.assign(this, { known: await read(this.id), error: null });
      } catch (error) {
        this.error = error;
      }
    },
    to(step) { go(`/new/${step}`, { pipeline: this.known.id }); },
    // How far one may go: a step needs what those before it have saved.
    open(index) {
      const { id, kafka, mapping, clickhouse } = this.known;
      return [true, id && kafka, id && kafka && (mapping || index <= this.wanted), mapping, mapping && clickhouse][index];
    },
  },
  render() {
    if (!state.overview) return html`<div class="page"><h1 class="soft">Reading the pipeline…</h1></div>`;
    if (!operator()) return html`<div class="page"><h1>Viewers cannot make pipelines</h1><p class="lead">Ask an operator of this fleet, or for a link with another role.</p></div>`;
    if (!this.known || this.known.id !== this.id) return html`<div class="page"><h1 class=${this.error ? "" : "soft"}>${this.error ? "This pipeline can't be read" : "Reading the pipeline…"}</h1>${failure(this.error)}</div>`;
    const [step, , shown] = STEPS[this.at];
    const crumb = this.known.id ? link(`/pipelines/${this.known.id}`, this.known.name) : "New pipeline";
    return html`<div class="page"><header class="page-head"><div><p class="crumbs">${link("/", "Pipelines")} / ${crumb}</p><h1 aria-live="polite">${this.said.text ?? "…"}</h1><p class="lead">${this.said.lead ?? ""}</p></div></header>
      <ol class="steps" aria-label="Steps">${STEPS.map(([name, text], index) => html`<li key=${name} class=${index < this.at ? "done" : index === this.at ? "here" : ""} aria-current=${index === this.at ? "step" : null}>
        ${index !== this.at && this.open(index) ? link(`/new/${name}`, [html`<i>${index < this.at ? "✓" : index + 1}</i>`, text], { query: this.known.id ? { pipeline: this.known.id } : {} }) : html`<span><i>${index + 1}</i>${text}</span>`}</li>`)}</ol>
      <${shown} key=${step} known=${this.known} onSay=${(said) => (this.said = said)} onGo=${this.to} /></div>`;
  },
};
