// Step 2: what is in the topic, and what is found in it.
import * as api from "../api.js";
import { plural } from "../format.js";
import { html } from "../html.js";
import { action, button, coloured, empty, failure, note, segments } from "../parts.js";

const LIMIT = 100;
const STARTS = [["end", "Newest"], ["beginning", "Oldest"], ["-1h", "Last hour"]];

export default {
  props: ["known"],
  emits: ["say", "go"],
  data: () => ({ rows: null, found: null, error: null, busy: false }),
  mounted() { this.read(); },
  methods: {
    async read(anew = false) {
      const { id, from } = this.known;
      Object.assign(this, { busy: true, error: null });
      this.$emit("say", { text: "Reading some records…" });
      try {
        const { rows } = await api.post(api.path("pipelines", id, "preview"), { limit: LIMIT, from, anew });
        Object.assign(this, { rows, found: rows.length ? await api.get(api.path("pipelines", id, "proposal"), { limit: LIMIT, from }) : null });
        const fields = this.found?.mapping.columns.length ?? 0;
        this.$emit("say", rows.length ? { text: `${plural(rows.length, "record")}, ${plural(fields, "field")}`, lead: `Types are those that fit every one of them.${this.known.mapping ? " Your saved mapping stays unless you take these fields." : ""}` } : { text: "The topic has no records here", lead: "Produce some, or look elsewhere in it." });
      } catch (error) {
        this.error = error;
        this.$emit("say", { text: "The records can't be read", lead: "The topic is not changed." });
      }
      this.busy = false;
    },
    next(take) {
      if (take) Object.assign(this.known, { draft: this.found.mapping, ttl: this.found.ttl });
      else this.known.draft = null;
      this.$emit("go", "mapping");
    },
  },
  render() {
    const { known, rows, found } = this;
    return html`<div class="stack"><div class="bar">${segments("Sample", STARTS, known.from, (from) => { known.from = from; this.read(); })}${button("Sample again", () => this.read(true), { disabled: this.busy })}</div>${failure(this.error)}
      ${found?.ignored.length > 0 && note("warn", "▲", html`<b>${plural(found.ignored.length, "field is", "fields are")} left out</b>: no path can name ${found.ignored.join(", ")}.`)}
      ${rows?.length === 0 && html`<section class="card">${empty("Nothing to look at yet", "A proposal needs at least one record. Producers may send one now; then sample again.")}</section>`}
      ${rows?.length > 0 && html`<div class="sampled"><section class="card"><header><h2>Sample</h2><span class="faint small">${known.kafka.topic}</span></header><div class="samples" tabindex="0" role="region" aria-label="Sampled records">${rows.map((each) => html`<div key=${`${each.partition} ${each.offset}`}><code>${each.raw === null ? "no value" : coloured(each.raw)}</code><span>${each.partition} / ${each.offset}</span></div>`)}</div></section>
        <section class="card wide"><header><h2>Fields</h2><span class="faint small">${found?.mapping.columns.length} found</span></header><table class="table"><thead><tr><th>Field</th><th>Type</th><th>May be missing</th></tr></thead><tbody>${found?.mapping.columns.map((each) => html`<tr key=${each.fieldPath}><td class="mono">${each.fieldPath}</td><td class="mono">${each.type}${each.encoding && html`<small>from ${each.encoding}</small>`}</td><td>${each.nullable ? "yes" : "no"}</td></tr>`)}</tbody></table></section></div>`}
      <section class="card"><footer class="wizard-foot"><span class="soft small">Next: which field becomes which column</span><span class="push"></span>${button("Back", () => this.$emit("go", "kafka"))}
        ${known.mapping && action("Take these fields anew", () => this.next(true), { busy: !found })}${action(known.mapping ? "Continue with the saved mapping" : "Continue to the mapping", () => this.next(!known.mapping), { kind: "solid", busy: this.busy || (!found && !known.mapping), "data-testid": "next" })}</footer></section></div>`;
  },
};
