// How a pipeline runs: rates, slots and leases, partitions with lag, and the editor of what is wanted.
import * as api from "../api.js";
import { bytes, clock, count, exact, percent, plural, rate, utc } from "../format.js";
import { html } from "../html.js";
import { state } from "../live.js";
import { chip, empty, failure, link, note, sparkline, tile } from "../parts.js";
import { polling } from "../polling.js";
import { Desired } from "./desired.js";
import { behind, tintOf } from "./state.js";
import { Timeline } from "./timeline.js";

const LOOK_MS = 1000, TTL_MS = 20_000, COLOURS = 6, MOST_BARS = 32;

export default {
  mixins: [polling({ look: LOOK_MS })],
  props: ["row"],
  data: () => ({ assignments: null, claims: [], promise: null, longest: TTL_MS }),
  mounted() { this.ask(); },
  methods: {
    async look(signal) {
      const [assignments, claims] = await Promise.all(["assignments", "claims"].map((part) => api.get(api.path("pipelines", this.row.id, part), {}, signal)));
      this.longest = Math.max(this.longest, ...assignments.map((each) => each.leaseUntil - state.at));
      Object.assign(this, { assignments, claims: claims.sort((one, other) => one.partition - other.partition) });
    },
    async ask() {
      const found = (part) => api.get(api.path("pipelines", this.row.id, part)).catch(() => null);
      const [kafka, clickhouse] = await Promise.all([found("kafka-config"), found("clickhouse-config")]);
      this.promise = { kafka, clickhouse };
      if (clickhouse && state.role !== "viewer") // asking ClickHouse is a POST, which viewers may not send
        this.promise.table = await api.post(api.path("pipelines", this.row.id, "validate", "clickhouse-table"), {}).catch((error) => ({ ok: false, message: error.message, hint: error.hint }));
    },
    colour: (slot) => `var(--c${(slot % COLOURS) + 1})`,
    slot(number) {
      const held = this.assignments.find((each) => each.slot === number);
      const mine = this.claims.filter((each) => each.slot === number);
      if (!held) return html`<li key=${number} data-slot=${number}><b class="slot">${number}</b><div><b>no worker</b><small>waits for one with room</small></div><span class="lease"></span><span class="free">free</span></li>`;
      const left = Math.max(held.leaseUntil - state.at, 0), low = left < this.longest / 3;
      return html`<li key=${number} data-slot=${number}><b class="slot owned" style=${{ "--b": this.colour(number) }}>${number}</b><div><b class="clip" title=${held.workerId}>${held.workerId}</b>
          <small>${mine.length ? `partitions ${ranges(mine.map((each) => each.partition))}` : "no partitions: more replicas than partitions"} · epoch ${held.epoch}${held.reason && html` · <span class="late">${held.reason}</span>`}</small></div>
        <span class="lease ${low ? "warn" : "ok"}" style=${{ "--v": Math.min(left / this.longest, 1) }}></span><span class="num" title=${`until ${utc(held.leaseUntil)}`}>${Math.round(left / 1000)} s</span>${chip(held.state || "starting")}</li>`;
    },
    bars() {
      const shown = this.claims.slice(0, MOST_BARS), most = Math.max(...shown.map((each) => each.lag), 1);
      return html`<div class="bars lags" role="img" aria-label="Lag of each partition">${shown.map((each) => html`<div key=${each.partition} style=${{ height: `${Math.max(2, (100 * each.lag) / most)}%`, "--b": this.colour(each.slot ?? 0) }} title=${`${exact(each.lag)} records`}><b>${each.lag ? behind(each.lagSeconds) : "0"}</b><span>${each.partition}</span></div>`)}</div>`;
    },
    partitions() {
      if (!this.claims.length) return html`<section class="card">${empty("No partition is claimed", this.row.desired === "stopped" ? "Start the pipeline: Kafka assigns partitions to its slots, and each appears here with its lag." : "Kafka assigns partitions to the slots within seconds of the start.")}</section>`;
      return html`<section class="card wide"><header><h2>Lag per partition</h2><span class="faint small">time behind; colour is the slot</span></header>${this.bars()}
        <table class="table"><thead><tr><th>Partition</th><th>Slot, worker</th><th class="n">Next offset</th><th class="n">Lag</th><th class="n spare">Epoch</th><th class="spare">Pending</th></tr></thead>
        <tbody>${this.claims.map((each) => html`<tr key=${each.partition}><td>${each.topic} ${each.partition}</td><td class="clip">${each.slot ?? "–"}<small class="mono clip">${each.workerId}</small></td><td class="n">${exact(each.nextOffset)}</td><td class="n" title=${exact(each.lag)}>${count(each.lag)}<small>${behind(each.lagSeconds)}</small></td><td class="n spare">${each.epoch}</td><td class="spare">${each.pendingTo ? `to ${exact(each.pendingTo)}, version ${each.pendingVersion}` : "–"}</td></tr>`)}</tbody></table></section>`;
    },
    tiles(points, tint) {
      const { row } = this;
      return html`<div class="tiles five">
        ${tile({ label: "Rows per second", figure: count(row.rate), meaning: `${bytes(row.bytesRate)}/s · last minute`, values: points, tint })}
        ${tile({ label: "Insert", figure: row.insertMs === null ? "–" : Math.round(row.insertMs), unit: row.insertMs === null ? "" : "ms", meaning: "read and insert one batch" })}
        ${tile({ label: "Lag", figure: behind(row.lagSeconds), meaning: `${count(row.lag)} records wait`, title: exact(row.lag), tint: row.lagSeconds > 60 ? "warn" : "" })}
        ${tile({ label: "Rows", figure: count(row.rows), meaning: plural(row.batches, "batch", "batches"), title: exact(row.rows) })}
        ${tile({ label: "Dead letters", figure: count(row.deadLetters), meaning: row.deadLetters ? `${percent(row.deadRatio)} of recent records` : "every record became a row", tint: row.alert ? "warn" : "" })}</div>`;
    },
    chart(points, tint) {
      return html`<section class="card"><header><h2>Throughput</h2><span class="faint small">rows per second, last minute · now ${rate(this.row.rate)} · most ${rate(Math.max(0, ...points))}</span></header><div class="chart">${sparkline(points, tint, "rows per second, last minute")}</div></section>`;
    },
    promises() {
      if (!this.promise || this.row.isFile) return null;
      const { kafka, clickhouse, table } = this.promise;
      const delivery = table?.guarantee || (clickhouse ? "exactly once, if the table keeps _inc and _offset" : "–");
      const facts = [["Delivery", html`<span class=${delivery.startsWith("at least") ? "late" : ""}>${delivery}</span>`], ["Reads", html`<span class="mono">${this.row.topic || "–"}</span>, as ${kafka?.format ?? "–"}`], ["Group", html`<span class="mono">${kafka?.groupId || `gauss-${this.row.id}`}</span>`], ["Writes", html`<span class="mono">${this.row.table || "–"}</span>`], ["Batches", clickhouse ? `${exact(clickhouse.batchSize)} rows or ${clickhouse.flushIntervalMs} ms` : "–"], ["Config", link(`/pipelines/${this.row.id}/versions`, `version ${this.row.version}`)]];
      return html`<section class="card"><header><h2>What it promises</h2></header><dl class="pairs pad">${facts.map(([name, value]) => [html`<dt>${name}</dt>`, html`<dd>${value}</dd>`])}</dl>
        ${table && !table.ok && html`<div class="pad">${failure({ message: table.message, hint: table.hint })}</div>`}</section>`;
    },
  },
  render() {
    const { row } = this, tint = tintOf(row), points = state.history.pipelines?.[row.id] ?? [];
    const numbers = Array.from({ length: Math.max(row.desired === "started" ? row.replicas : 0, ...(this.assignments ?? []).map((each) => each.slot + 1), 0) }, (_, at) => at);
    return html`<div class="stack">${failure(this.error)}${row.isFile ? note("idle", "○", "It is a whole file: its topics, rates and dead letters are those of gauss run on the machine of its worker.") : this.tiles(points, tint)}
      <div class="two"><div class="stack">
        ${!row.isFile && this.chart(points, tint)}
        <section class="card"><header><h2>Slots and leases</h2><span class="faint small">slot → worker, until</span></header>
          ${this.assignments && numbers.length === 0 ? html`<p class="pad soft">No slot is wanted while it is stopped.</p>` : html`<ul class="slot-list">${this.assignments && numbers.map(this.slot)}</ul>`}</section>
        <${Timeline} row=${row} />
        ${this.assignments && !row.isFile && this.partitions()}</div>
      <div class="stack"><${Desired} row=${row} partitions=${this.claims.length} />${this.promises()}
        <p class="faint small">Figures are from ${clock(state.at)}.</p></div></div></div>`;
  },
};

// Sorted numbers as people write them: 0–3, 8.
function ranges(numbers) {
  const found = [];
  for (const number of numbers) {
    const last = found.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else found.push([number, number]);
  }
  return found.map(([first, last]) => (first === last ? first : `${first}–${last}`)).join(", ");
}
