// Step 5: what will run, with how many replicas, and what a start will do.
import * as api from "../api.js";
import { exact, plural } from "../format.js";
import { html } from "../html.js";
import { icon } from "../icons.js";
import { go, state, toast } from "../live.js";
import { action, button, failure, link, note } from "../parts.js";
import { guarantee } from "./ddl.js";
import { verdict } from "./known.js";
import { room } from "./state.js";

const MOST_REPLICAS = 1000;
const STARTS = { earliest: "the oldest record", latest: "records from the start on" };

export default {
  props: ["known"],
  emits: ["say", "go"],
  data() { return { replicas: this.known.replicas, partitions: null, table: this.known.table ?? null, busy: false, error: null }; },
  async mounted() {
    const { known } = this;
    this.$emit("say", { text: known.desired === "started" ? `${known.name} is started` : `${known.name} is ready to start`, lead: "Everything is checked. Records become rows once it is started; you can stop it at any time, and nothing is lost." });
    const ask = async (key, run) => { try { this[key] = await run(); } catch (error) { this.error = error; } };
    await Promise.all([ask("partitions", async () => (await api.post(this.path("validate", "kafka"))).partitions), !this.table && ask("table", () => api.post(this.path("draft", "table"), { clickhouse: known.clickhouse, mapping: known.mapping }))]);
  },
  methods: {
    path(...parts) { return api.path("pipelines", this.known.id, ...parts); },
    set(replicas) { if (Number.isInteger(replicas)) this.replicas = Math.max(1, Math.min(MOST_REPLICAS, replicas)); },
    // What a start with so many replicas does, slot by slot.
    effect() {
      const { replicas, partitions } = this, free = room(state.overview?.workers ?? []);
      if (free === null) return ["warn", html`<b>It would wait: no worker is up.</b> Start <code>gauss worker</code> with the store of this server, or <code>gauss serve --with-worker</code>. Records wait in Kafka.`];
      if (partitions && replicas > partitions) return ["warn", html`<b>${plural(replicas - partitions, "replica")} would have nothing to read</b>: the topic has ${plural(partitions, "partition")}.`];
      if (free < replicas) return ["warn", html`<b>${slots(free, replicas)} would wait: no worker has room.</b> The others run, and Kafka shares all partitions among them. Start one more <code>gauss worker</code>, or raise --max-slots.`];
      if (replicas === 1) return ["move", html`<b>A worker takes the slot within seconds.</b> ${partitions > 1 ? `It reads all ${partitions} partitions; more replicas share them.` : ""}`];
      return ["move", html`<b>Workers take all ${replicas} slots within seconds.</b> ${partitions ? `Kafka shares the ${partitions} partitions among them.` : ""}`];
    },
    async start() {
      Object.assign(this, { busy: true, error: null });
      try {
        await api.put(this.path("state"), { desired: "started", replicas: this.replicas });
        toast(`${this.known.name} starts`);
        go(`/pipelines/${this.known.id}`);
      } catch (error) {
        this.error = error;
      }
      this.busy = false;
    },
    part(step, name, facts) {
      return html`<section class="card" key=${step}><header><h2>${name}</h2><span class="push"></span>${link(`/new/${step}`, "Change", { class: "btn", query: { pipeline: this.known.id }, "aria-label": `Change ${name}` })}</header><dl class="pairs pad">${facts.map(([key, text]) => [html`<dt>${key}</dt>`, html`<dd>${text}</dd>`])}</dl></section>`;
    },
  },
  render() {
    const { known, table } = this, { kafka, clickhouse, mapping, filters } = known, [tint, text] = this.effect(), mono = (value) => html`<span class="mono">${value}</span>`;
    const found = table && verdict(table, clickhouse.createTableIfMissing), nulls = mapping.columns.filter((each) => each.nullable).length;
    return html`<div class="stack">${failure(this.error)}<div class="two"><div class="stack">
        ${this.part("kafka", "From Kafka", [["Topic", mono(kafka.topic)], ["Brokers", mono(kafka.brokers.join(", "))], ["Format", kafka.format], ["Starts at", STARTS[kafka.startOffset] ?? (typeof kafka.startOffset === "string" ? kafka.startOffset : "offsets per partition")], ["Partitions", this.partitions ?? "–"]])}
        ${this.part("mapping", "Mapping", [["Columns", `${mapping.columns.length}, of which ${nulls} may be null`], ["Filter", filters?.enabled ? mono(filters.expression) : "none: all records become rows"]])}
        ${this.part("table", "To ClickHouse", [["Table", mono(`${clickhouse.database}.${clickhouse.table || kafka.topic.replaceAll(".", "_")}`)], ["Is there", !table ? "–" : table.exists ? "yes" : clickhouse.createTableIfMissing ? "no: it is made at the start" : "no"], ["Batches", `${exact(clickhouse.batchSize)} rows or ${clickhouse.flushIntervalMs} ms`], ["Limit", clickhouse.insertRateLimit ? `${exact(clickhouse.insertRateLimit)} rows/s` : "none"]])}</div>
      <div class="stack"><section class="card desired"><header><h2>Start</h2></header><div class="pad stack">
          <div class="replicas"><label for="replicas">Replicas</label><span class="stepper"><button type="button" aria-label="One less" disabled=${this.replicas <= 1} onClick=${() => this.set(this.replicas - 1)}>−</button>
            <input id="replicas" inputmode="numeric" value=${this.replicas} onChange=${(event) => { this.set(Number(event.target.value)); event.target.value = this.replicas; }} /><button type="button" aria-label="One more" data-testid="more" disabled=${this.replicas >= MOST_REPLICAS} onClick=${() => this.set(this.replicas + 1)}>+</button></span></div>
          ${note(tint, tint === "warn" ? "▲" : "→", text)}
          ${found && (found.blocks ? note("bad", "✕", html`<b>No row would be inserted.</b> ${found.blocks}. ${found.hint}`) : guarantee(found.once))}</div></section></div></div>
      <section class="card"><footer class="wizard-foot"><span class="soft small">${known.desired === "started" ? "What is changed applies from the next range of records on" : "It can be stopped and changed at any time"}</span><span class="push"></span>${button("Back", () => this.$emit("go", "table"))}
        ${known.desired === "started" ? link(`/pipelines/${known.id}`, "See it run", { class: "btn solid" }) : [link(`/pipelines/${known.id}`, "Not yet", { class: "btn" }), action(this.busy ? "Starting…" : html`${icon("play")}Start`, this.start, { kind: "solid", busy: this.busy || Boolean(found?.blocks), "data-testid": "start" })]}</footer></section></div>`;
  },
};

const slots = (free, replicas) => (free === replicas - 1 ? `Slot ${free}` : `Slots ${free} to ${replicas - 1}`);
