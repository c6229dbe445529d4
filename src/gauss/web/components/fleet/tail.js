// The newest records of the topic on their way: as they are, what the filter says, and the row that the mapping makes.
import * as api from "../api.js";
import { exact, plural } from "../format.js";
import { html } from "../html.js";
import { button, coloured, empty, failure, shown, spaced } from "../parts.js";
import { polling } from "../polling.js";

const LOOK_MS = 2000, LIMIT = 20;

export default {
  mixins: [polling({ look: LOOK_MS })],
  props: ["row"],
  data: () => ({ records: null, paused: false, over: false }),
  methods: {
    async look(signal) {
      if (this.paused || this.over) return false;
      const found = await api.get(api.path("pipelines", this.row.id, "preview"), { limit: LIMIT, from: "end" }, signal);
      this.records = found.reverse();
    },
    headline() {
      const all = this.records.length, bad = this.records.filter((each) => each.error).length, out = this.records.filter((each) => each.kept === false).length;
      const left = out ? `, the filter leaves ${exact(out)} out` : "";
      return bad ? `${bad} of the newest ${all} do not fit${left}` : out ? `The newest ${plural(all, "record")}: the filter leaves ${exact(out)} out` : `The newest ${plural(all, "record fits", "records fit")}`;
    },
    verdict({ kept, error }) {
      if (kept === false) return html`<span>− left out</span>`;
      if (error?.stage === "filter") return html`<b>✕ can't be judged</b>`;
      return html`<span>${kept ? "✓ kept" : "no filter"}</span>`;
    },
    made({ kept, error, mapped }) {
      if (kept === false) return html`<code class="faint">no row</code>`;
      return html`<code>${error ? html`<b>${error.column ? `${error.column}: ` : ""}${error.detail || error.reason}</b>` : coloured(spaced(mapped))}</code>`;
    },
  },
  render() {
    if (!this.records) return html`<div>${failure(this.error) ?? html`<p class="soft">Reading the newest records…</p>`}</div>`;
    return html`<section class="card" onMouseenter=${() => (this.over = true)} onMouseleave=${() => (this.over = false)}><header><h2>${this.headline()}</h2><span class="faint small">${this.paused || this.over ? "paused" : "every 2 s"} · raw → filtered → mapped</span><span class="push"></span>${button(this.paused ? "Go on" : "Pause", () => (this.paused = !this.paused))}</header>
      ${failure(this.error)}${this.records.length === 0 ? empty("The topic has no records", "They appear here as producers send them.") : html`
      <div class="tail-rows pairs-tail" role="log" aria-live="off" aria-label="Newest records" tabindex="0">${this.records.map((each) => html`<div key=${`${each.partition} ${each.offset}`} class="pair three ${each.error ? "bad" : each.kept === false ? "out" : ""}"><span>${each.partition} / ${exact(each.offset)}</span><code>${each.raw === null ? "no value" : coloured(shown(each.raw))}</code>${this.verdict(each)}${this.made(each)}</div>`)}</div>`}</section>`;
  },
};
