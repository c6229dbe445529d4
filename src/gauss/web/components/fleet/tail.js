// The newest records of the topic and the row that the mapping makes of each.
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
  },
  render() {
    if (!this.records) return html`<div>${failure(this.error) ?? html`<p class="soft">Reading the newest records…</p>`}</div>`;
    const bad = this.records.filter((each) => each.error).length;
    return html`<section class="card" onMouseenter=${() => (this.over = true)} onMouseleave=${() => (this.over = false)}><header><h2>${bad ? `${bad} of the newest ${this.records.length} do not fit` : `The newest ${plural(this.records.length, "record fits", "records fit")}`}</h2><span class="faint small">${this.paused || this.over ? "paused" : "every 2 s"} · raw → row, before the filter</span><span class="push"></span>${button(this.paused ? "Go on" : "Pause", () => (this.paused = !this.paused))}</header>
      ${failure(this.error)}${this.records.length === 0 ? empty("The topic has no records", "They appear here as producers send them.") : html`
      <div class="tail-rows pairs-tail" role="log" aria-live="off" aria-label="Newest records" tabindex="0">${this.records.map((each) => html`<div key=${`${each.partition} ${each.offset}`} class="pair ${each.error ? "bad" : ""}"><span>${each.partition} / ${exact(each.offset)}</span><code>${each.raw === null ? "no value" : coloured(shown(each.raw))}</code><code>${each.error ? html`<b>${each.error.column ? `${each.error.column}: ` : ""}${each.error.detail || each.error.reason}</b>` : coloured(spaced(each.mapped))}</code></div>`)}</div>`}</section>`;
  },
};
