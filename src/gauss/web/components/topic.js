// One topic: what is in it now, its time range, who reads it, a scan box, and the live tail.
import * as api from "./api.js";
import { ago, bytes, clock, count, duration, exact, percent, rate, utc } from "./format.js";
import { html } from "./html.js";
import { state } from "./live.js";
import { chip, empty, link, segments, tile } from "./parts.js";
import { polling } from "./polling.js";
import { TableCard } from "./table.js";
import { Scan } from "./scan.js";
import { Tail } from "./tail.js";

const LOOK_MS = 2000;

export default {
  mixins: [polling({ look: LOOK_MS })],
  props: ["name"],
  data: () => ({ topic: null, first: null, oldestAt: null, tab: "tail" }),
  methods: {
    async look(signal) {
      this.topic = await api.get(api.path("topics", this.name), {}, signal);
      const place = `${this.topic.inc} ${this.topic.floor}`; // a ring that is written has another first record now
      if (this.oldestAt !== place && this.topic.records) {
        const found = await api.get(api.path("topics", this.name, "latest"), { count: 1, oldest: true }, signal);
        Object.assign(this, { first: found.oldest_ms ?? 0, oldestAt: place });
      }
    },
    facts(row, one) {
      const topic = this.topic;
      const pairs = [["Storage", `${one.storage}${one.durable ? ", survives a restart" : ", empty after a restart"}`], ["When full", topic.write_full],
        ["Bound", topic.capacity_records ? `${exact(topic.capacity_records)} records` : topic.capacity_bytes ? bytes(topic.capacity_bytes) : "none"],
        ["Read by", (topic.read_modes ?? []).join(", ")], ["Offsets", `${exact(topic.floor)} – ${exact(topic.end)}`],
        ...(topic.kind === "log" ? [["Oldest", this.first ? clock(this.first) : "–"]] : []), ["Newest", clock(topic.last_ts_ms)],
        ["Lost", ["dropped", "overwritten", "lost", "missed"].filter((key) => topic[key]).map((key) => `${count(topic[key])} ${key}`).join(", ") || "nothing"]];
      return html`<section class="card"><header><h2>What it promises</h2></header><dl class="pairs pad">${pairs.map(([name, value]) => [html`<dt>${name}</dt>`, html`<dd>${value}</dd>`])}</dl></section>`;
    },
    readers() {
      const readers = this.topic.readers ?? [];
      return html`<section class="card wide"><header><h2>Readers</h2><span class="faint small">${readers.length}</span></header>
        ${readers.length ? html`<table class="table"><thead><tr><th>Reader</th><th class="n">Position</th><th class="n">Behind</th></tr></thead><tbody>${readers.map((each) => html`<tr key=${each.name + each.topic}>
          <td>${state.overview.processors[each.name] ? link("/", each.name, { query: { processor: each.name }, class: "name" }) : html`<b>${each.name}</b>`}${each.topic !== this.name && html`<small>${each.topic}</small>`}</td>
          <td class="n">${exact(each.position)}</td><td class="n">${each.behind ? count(each.behind) : "–"}<small>${each.behind ? duration(each.behind_ms) : "up to date"}</small></td></tr>`)}</tbody></table>` : html`<p class="pad soft small">Nobody has a position here. Tails and scans hold nothing back.</p>`}</section>`;
    },
    // Processors read each partition by itself; sinks read all as one log, so they are among the readers of the topic.
    partitions() {
      const rows = this.topic.partitions ?? [];
      if (!rows.length) return null;
      const slowest = (each) => each.readers.reduce((most, reader) => (reader.behind > (most?.behind ?? -1) ? reader : most), null);
      return html`<section class="card wide" aria-label="Partitions"><header><h2>Partitions</h2><span class="faint small">${rows.length}, with their slowest processor</span></header>
        <table class="table"><thead><tr><th class="n">No.</th><th class="n">Offsets</th><th>Reader</th><th class="n">Behind</th></tr></thead><tbody>${rows.map((each) => {
          const reader = slowest(each);
          return html`<tr key=${each.partition}><td class="n">${each.partition}</td><td class="n">${exact(each.floor)} – ${exact(each.end)}</td><td>${reader ? reader.name : "–"}</td><td class="n">${!reader ? "–" : reader.behind ? count(reader.behind) : "up to date"}${reader && reader.behind > 0 && html`<small>${duration(reader.behind_ms)}</small>`}</td></tr>`;
        })}</tbody></table></section>`;
    },
  },
  render() {
    const row = state.overview?.topics[this.name], one = (state.graph?.topics ?? []).find((each) => each.name === this.name);
    const crumbs = html`<p class="crumbs">${link("/topics", "Topics")} / ${this.name}</p>`;
    if (state.overview && !row) return html`<div class="page">${crumbs}<h1>There is no topic "${this.name}"</h1><section class="card">${empty("It is not part of this run", "It was removed from the pipeline file, or renamed. What it kept on disk is still in the data directory.", link("/topics", "All topics", { class: "btn solid" }))}</section></div>`;
    if (!row || !this.topic) return html`<div class="page">${crumbs}<h1>${this.name}</h1>${this.error ? html`<p class="lead">${this.error.message}</p>` : null}</div>`;
    const lead = row.blocked_by ? `${row.blocked_by.replace("_table.", "The table ")} is too slow: writers wait for ${duration(1000 * row.blocked_s)}, nothing is dropped.` : row.rate ? `${rate(row.rate)} come in, ${bytes(row.bytes_rate)}/s; the newest is from ${ago(row.last_ts_ms, state.now)}.` : row.records ? `Nothing comes in now; the newest record is from ${ago(row.last_ts_ms, state.now)}.` : "It is empty: nothing has come in yet.";
    const tint = { full: "bad", filling: "warn", flowing: "ok" }[row.pressure] ?? "idle";
    return html`<div class="page"><header class="page-head"><div>${crumbs}<h1>${this.name} ${chip(row.pressure)}</h1><p class="lead">${lead}</p></div>
        <div class="actions">${link("/", "Show in graph", { query: { topic: this.name }, class: "btn" })}</div></header>
      <div class="tiles">${tile({ label: "In", figure: count(row.rate), unit: "/s", meaning: `${bytes(row.bytes_rate)}/s · 1 min`, values: state.history.topics[this.name] ?? [], tint })}
        ${tile({ label: "Holds", figure: count(row.records), unit: this.topic.kind === "table" ? "rows" : "records", meaning: bytes(row.bytes), title: exact(row.records) })}
        ${tile({ label: "Full", figure: row.fill === null ? "–" : percent(row.fill).replace(" %", ""), unit: row.fill === null ? "" : "%", meaning: row.fill === null ? "it has no bound" : "of what readers have yet to read", tint })}
        ${row.insert ? tile({ label: "Insert", figure: count(row.insert.behind), unit: "wait", meaning: `${rate(row.insert.rate)} into the table` }) : this.topic.kind !== "log" ? tile({ label: "Newest", figure: duration(state.now - row.last_ts_ms), unit: "ago", meaning: row.last_ts_ms ? `at ${clock(row.last_ts_ms)}` : "no row yet" }) : tile({ label: "Age of the oldest", figure: this.first ? duration(state.now - this.first) : "–", meaning: this.first ? `since ${clock(this.first)}` : "no record yet", title: utc(this.first) })}</div>
      <div class="two"><div class="stack"><section class="card"><header><h2>Records</h2><span class="push"></span>${segments("Show", [["tail", "Live tail"], ["scan", "Scan"]], this.tab, (tab) => (this.tab = tab))}</header>
          ${this.tab === "tail" ? html`<${Tail} topic=${this.name} />` : html`<${Scan} topic=${this.name} timed=${this.topic.kind === "log"} />`}</section>${this.topic.kind !== "log" && html`<${TableCard} topic=${this.name} />`}</div>
        <div class="stack">${this.readers()}${this.partitions()}${this.facts(row, one ?? {})}</div></div></div>`;
  },
};
