// All topics: how full, how fast, how old, and who reads them.
import { markRaw } from "vue";
import { ago, bytes, count, exact, percent, rate, utc } from "./format.js";
import { html } from "./html.js";
import { go, state } from "./live.js";
import { chip, empty, link, segments, sparkline } from "./parts.js";

const SHOWN = 50;
const RANK = { full: 0, filling: 1, flowing: 2, idle: 3 };

export default {
  data: () => ({ shown: SHOWN, order: [] }),
  computed: {
    statics: () => Object.fromEntries((state.graph?.topics ?? []).map((each) => [each.name, each])),
    readers() {
      const found = {};
      for (const each of state.graph?.processors ?? []) if (!each.name.startsWith("_")) for (const { topic } of each.sources) (found[topic] ??= []).push(each.name);
      return markRaw(found);
    },
    text: () => state.query.filter ?? "",
    only: () => state.query.only ?? "all",
  },
  watch: {
    only() { this.order = []; },
  },
  mounted() { document.addEventListener("keydown", this.key); },
  beforeUnmount() { document.removeEventListener("keydown", this.key); },
  methods: {
    // Rows keep their places while figures change; they are sorted anew when the choice does.
    names(topics) {
      const fits = (name) => (this.only === "all" || topics[name].pressure === this.only) && name.toLowerCase().includes(this.text.toLowerCase());
      if (this.order.length !== Object.keys(topics).length || this.order.some((name) => !topics[name]))
        this.order = Object.keys(topics).sort((one, other) => RANK[topics[one].pressure] - RANK[topics[other].pressure] || topics[other].rate - topics[one].rate || one.localeCompare(other));
      return this.order.filter(fits);
    },
    key(event) {
      if (event.target.closest("input, textarea, dialog") || !["j", "k"].includes(event.key)) return;
      const links = [...this.$el.querySelectorAll("a.name")];
      const at = links.indexOf(document.activeElement);
      links[Math.max(0, Math.min(links.length - 1, at + (event.key === "j" ? 1 : -1)))]?.focus();
    },
    row(name, row) {
      const one = this.statics[name] ?? {};
      const readers = this.readers[name] ?? [];
      const behind = readers.map((reader) => state.overview.processors[reader]).reduce((most, each) => Math.max(most, each?.behind ?? 0), row.behind ?? 0);
      const tint = { full: "bad", filling: "warn", flowing: "ok" }[row.pressure] ?? "idle";
      return html`<tr key=${name} data-id=${name}><td>${link(`/topics/${encodeURIComponent(name)}`, name, { class: "name" })}<small>${one.table ? `${one.table} table` : one.kind === "table" ? `${one.storage} table` : one.storage}${one.durable ? " · durable" : ""}</small></td>
        <td>${chip(row.pressure)}</td>
        <td class="spare">${sparkline(state.history.topics[name] ?? [], tint, `records per second of ${name}`)}</td>
        <td class="n"><b>${rate(row.rate)}</b><small>${bytes(row.bytes_rate)}/s</small></td>
        <td class="spare">${row.fill === null ? html`<span class="faint">no bound</span>` : html`<span class="meter ${tint}" style=${{ "--v": row.fill }}><i></i></span>${percent(row.fill)}`}</td>
        <td class="n" title=${exact(row.records)}>${count(row.records)}<small>${bytes(row.bytes)}</small></td>
        <td class="n spare" title=${utc(row.last_ts_ms)}>${ago(row.last_ts_ms, state.now)}</td>
        <td class="n">${readers.length + (row.insert ? 1 : 0) || "–"}<small class=${behind ? "late" : ""}>${behind ? `${count(behind)} behind` : readers.length ? "up to date" : "nobody reads"}</small></td></tr>`;
    },
  },
  render() {
    const topics = state.overview?.topics;
    if (!topics) return html`<div class="page"><h1 class="soft">Reading the run…</h1></div>`;
    const names = this.names(topics), all = Object.values(topics);
    const of = (pressure) => all.filter((row) => row.pressure === pressure).length;
    const full = of("full"), filling = of("filling");
    const total = all.reduce((sum, row) => sum + row.bytes, 0);
    const text = full ? `${full} of ${all.length} topics hold their writers back` : filling ? `${filling} of ${all.length} topics fill up` : all.length ? `All ${all.length} topics have room` : "No topics";
    return html`<div class="page"><header class="page-head"><div><h1 class="says">${text}</h1><p class="lead">${count(all.reduce((sum, row) => sum + row.records, 0))} records, ${bytes(total)} are kept. ${of("flowing")} receive records now.</p></div></header>
      ${all.length === 0 ? html`<section class="card">${empty("Topics keep records between processors", "Add [[topics]] to the pipeline file; each appears here with what it holds.", link("/pipeline", "See the file", { class: "btn solid" }))}</section>` : html`
      <div class="bar"><input type="search" data-filter placeholder="Filter by name" aria-label="Filter by name" value=${this.text} onInput=${(event) => go("/topics", { ...state.query, filter: event.target.value }, true)} />
        ${segments("Only", [["all", `All ${all.length}`], ["full", `Full ${full}`], ["filling", `Filling ${filling}`], ["idle", `Idle ${of("idle")}`]], this.only, (only) => go("/topics", { ...state.query, only: only === "all" ? "" : only }, true))}<span class="push"></span><span class="faint small">sorted by need, then rate</span></div>
      <section class="card wide"><table class="table"><thead><tr><th>Topic</th><th>State</th><th class="spare">Rate, 1 min</th><th class="n">In</th><th class="spare">Full</th><th class="n">Holds</th><th class="n spare">Newest</th><th class="n">Readers</th></tr></thead>
        <tbody>${names.slice(0, this.shown).map((name) => this.row(name, topics[name]))}</tbody></table>
        ${names.length === 0 && html`<p class="pad soft">No topic matches. ${link("/topics", "Show all")}</p>`}
        ${names.length > this.shown && html`<div class="pad"><button type="button" class="btn" onClick=${() => (this.shown += SHOWN)}>Show ${Math.min(SHOWN, names.length - this.shown)} more of ${names.length}</button></div>`}</section>`}</div>`;
  },
};
