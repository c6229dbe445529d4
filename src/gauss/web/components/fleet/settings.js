// Settings of a pipeline: its name, when to warn, its config, and its end.
import * as api from "../api.js";
import { exact, percent, plural } from "../format.js";
import { html } from "../html.js";
import { go, toast } from "../live.js";
import { action, Confirm, failure, link, operator } from "../parts.js";

export default {
  props: ["row"],
  data: () => ({ found: null, draft: null, kafka: null, clickhouse: null, filters: null, error: null, busy: false, asking: false }),
  async mounted() {
    const part = (name) => api.get(api.path("pipelines", this.row.id, ...(name ? [name] : []))).catch(() => null);
    const [found, kafka, clickhouse, filters] = await Promise.all(["", "kafka-config", "clickhouse-config", "filters-config"].map(part));
    Object.assign(this, { found, kafka, clickhouse, filters });
    if (found) this.draft = { name: found.name, description: found.description, alert: String(100 * found.alertRatio) };
  },
  methods: {
    async save() {
      Object.assign(this, { busy: true, error: null });
      try {
        const { name, description, alert } = this.draft;
        await api.put(api.path("pipelines", this.row.id), { name, description, alertRatio: Number(alert) / 100 });
        toast("Saved");
      } catch (error) {
        this.error = error;
      }
      this.busy = false;
    },
    async filter() {
      Object.assign(this, { busy: true, error: null });
      try {
        this.filters = await api.put(api.path("pipelines", this.row.id, "filters-config"), { ...this.filters, enabled: this.filters.expression.trim() !== "" });
        toast(this.filters.enabled ? "The filter applies from the next range on" : "All records become rows");
      } catch (error) {
        this.error = error;
      }
      this.busy = false;
    },
    async remove() {
      this.busy = true;
      try {
        await api.remove(api.path("pipelines", this.row.id));
        toast(`${this.row.name} is deleted`);
        go("/");
      } catch (error) {
        this.error = error;
      }
      this.busy = false;
    },
    input(key, label, more = {}) {
      return html`<label class="field"><span>${label}</span><input value=${this.draft[key]} disabled=${!operator()} onInput=${(event) => (this.draft[key] = event.target.value)} ...${more} /></label>`;
    },
  },
  render() {
    if (!this.draft) return html`<p class="soft">Reading settings…</p>`;
    const { row, kafka, clickhouse } = this;
    const parts = [["kafka", "Kafka", kafka ? [["Brokers", kafka.brokers.join(", ")], ["Topic", kafka.topic], ["Starts at", value(kafka.startOffset)], ["Security", kafka.securityProtocol], ["Format", kafka.format]] : []],
      ["table", "ClickHouse", clickhouse ? [["Server", clickhouse.dsn], ["Table", `${clickhouse.database}.${clickhouse.table || row.topic.replaceAll(".", "_")}`], ["Batches", `${exact(clickhouse.batchSize)} rows or ${clickhouse.flushIntervalMs} ms`], ["Limit", clickhouse.insertRateLimit ? `${exact(clickhouse.insertRateLimit)} rows/s` : "none"]] : []]];
    return html`<div class="two"><div class="stack">${failure(this.error)}
        <section class="card"><header><h2>Name and alert</h2></header><form class="pad form" onSubmit=${(event) => { event.preventDefault(); this.save(); }}>${this.input("name", "Name")}${this.input("description", "Description")}${this.input("alert", "Warn when more than this % of recent records become dead letters", { inputmode: "decimal" })}
          <div class="actions">${action("Save", this.save, { busy: this.busy })}</div></form></section>
        ${!row.isFile && html`<section class="card"><header><h2>Filter</h2><span class="faint small">records that do not match are left out, and counted</span></header><div class="pad form"><label class="field"><span>Condition, such as .amount > 10 and .kind == "buy"; empty: all records</span><input class="mono" value=${this.filters?.expression ?? ""} disabled=${!operator()} onInput=${(event) => (this.filters.expression = event.target.value)} /></label>
          <div class="actions">${action("Apply the filter", this.filter, { busy: this.busy })}</div></div></section>`}</div>
      <div class="stack">${!row.isFile && parts.map(([step, name, facts]) => html`<section key=${step} class="card"><header><h2>${name}</h2><span class="push"></span>${operator() && link(`/new/${step}`, "Edit", { class: "btn", query: { pipeline: row.id }, "aria-label": `Edit ${name}` })}</header><dl class="pairs pad">${facts.map(([key, text]) => [html`<dt>${key}</dt>`, html`<dd class="mono">${text}</dd>`])}</dl></section>`)}
        <section class="card"><header><h2>Delete</h2></header><div class="pad stack"><p class="soft small">Its config and its place in the topic go; the table stays.</p><div>${action("Delete the pipeline", () => (this.asking = true), { kind: "danger", "data-testid": "delete" })}</div></div></section></div>
      ${this.asking && html`<${Confirm} title=${`Delete ${row.name}?`} goes=${[`its config with ${plural(row.version, "version")}`, "its place in the topic: a new pipeline starts anew", row.lettersKept ? `${exact(row.lettersKept)} dead letters, ${percent(row.deadRatio)} of recent records` : "no dead letters"]} stays=${["the table with all its rows", "the topic with all its records"]} typed=${row.name} verb="Delete" keep="Keep it" error=${this.error} busy=${this.busy} onYes=${this.remove} onNo=${() => (this.asking = false)} />`}</div>`;
  },
};
const value = (given) => (typeof given === "string" ? given : api.stringify(given));
