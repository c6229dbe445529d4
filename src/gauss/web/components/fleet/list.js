// All pipelines: the headline says who needs somebody, cards say why, the table compares.
import { bytes, count, exact, percent, plural, rate } from "../format.js";
import { html } from "../html.js";
import { icon } from "../icons.js";
import { go, state } from "../live.js";
import { chip, empty, link, operator, segments, sparkline, tile } from "../parts.js";
import { behind, isDraft, live, needs, slots, tintOf } from "./state.js";

const SHOWN = 50, CARDS = 4;
const RANK = { bad: 0, warn: 1 };
const LATE_SECONDS = 60;

export default {
  data: () => ({ order: [], shown: SHOWN }),
  computed: {
    text: () => state.query.filter ?? "",
    only: () => state.query.only ?? "all",
    rows: () => Object.values(state.overview?.pipelines ?? {}),
  },
  watch: { only() { this.order = []; } },
  mounted() { document.addEventListener("keydown", this.key); },
  beforeUnmount() { document.removeEventListener("keydown", this.key); },
  methods: {
    need(row) { return needs(row, state.overview.workers); },
    // Rows keep their places while figures change; they are sorted anew when the choice does.
    ordered() {
      const rows = state.overview.pipelines;
      if (this.order.length !== this.rows.length || this.order.some((id) => !rows[id]))
        this.order = this.rows.sort((one, other) => (RANK[this.need(one)?.tint] ?? 2) - (RANK[this.need(other)?.tint] ?? 2) || (one.desired === "stopped") - (other.desired === "stopped") || other.lagSeconds - one.lagSeconds || one.name.localeCompare(other.name)).map((each) => each.id);
      const text = this.text.toLowerCase();
      const keep = { all: () => true, need: this.need, running: (row) => row.desired === "started", stopped: (row) => row.desired === "stopped" }[this.only] ?? (() => true);
      return this.order.map((id) => rows[id]).filter((row) => keep(row) && `${row.name} ${row.topic} ${row.table}`.toLowerCase().includes(text));
    },
    key(event) {
      if (event.target.closest("input, textarea, dialog") || !["j", "k"].includes(event.key)) return;
      const links = [...this.$el.querySelectorAll("a.name")];
      links[Math.max(0, Math.min(links.length - 1, links.indexOf(document.activeElement) + (event.key === "j" ? 1 : -1)))]?.focus();
    },
    row(row) {
      const tint = tintOf(row), late = row.lagSeconds > LATE_SECONDS ? "late" : "";
      return html`<tr key=${row.id} data-id=${row.id}><td>${link(`/pipelines/${row.id}`, row.name, { class: "name" })}<small>${row.isFile ? "a Gauss file" : isDraft(row) ? "not set up yet" : `kafka ${row.topic} → ${row.table}`}</small></td>
        <td>${chip(row.observed)}</td><td class="spare">${slots(row)}</td>
        <td class="spare"><span class="with-figure">${sparkline(state.history.pipelines?.[row.id] ?? [], tint, `rows per second of ${row.name}`)}<b>${rate(row.rate)}</b></span></td>
        <td class="n" title=${exact(row.lag)}>${row.desired === "stopped" && !row.lag ? "–" : [html`<b class=${late}>${behind(row.lagSeconds)}</b>`, html`<small>${count(row.lag)} records</small>`]}</td>
        <td class="n spare" title=${exact(row.deadLetters)}>${row.deadLetters ? [html`<b class="late">${count(row.deadLetters)}</b>`, html`<small>${percent(row.deadRatio)} of late</small>`] : "–"}</td></tr>`;
    },
    card(row) {
      const { tint, cause, safe, next, to, verb } = this.need(row);
      return html`<section key=${row.id} class="card alert ${tint}"><div><h2>${row.name} ${chip(row.observed)}</h2><p><b>${cause}.</b> ${safe} ${next}</p></div>
        ${link(`/pipelines/${row.id}${to}`, verb, { class: "btn", "aria-label": `${verb}: ${row.name}` })}</section>`;
    },
    tiles() {
      const sum = (name) => this.rows.reduce((total, row) => total + row[name], 0);
      const started = this.rows.filter((row) => row.desired === "started");
      const slowest = started.reduce((most, row) => (row.lagSeconds > (most?.lagSeconds ?? 0) ? row : most), null);
      const wanted = started.reduce((total, row) => total + row.replicas, 0), held = started.reduce((total, row) => total + Math.min(row.held, row.replicas), 0);
      const points = Object.values(state.history.pipelines ?? {}), length = Math.max(0, ...points.map((each) => each.length));
      const total = Array.from({ length }, (_, at) => points.reduce((all, each) => all + (each[each.length - length + at] ?? 0), 0));
      const workers = live(state.overview.workers).length, worst = this.rows.reduce((most, row) => (row.deadLetters > (most?.deadLetters ?? 0) ? row : most), null);
      return html`<div class="tiles">
        ${tile({ label: "Rows per second", figure: count(sum("rate")), meaning: `${bytes(sum("bytesRate"))}/s · last minute`, values: total })}
        ${tile({ label: "Furthest behind", figure: slowest ? behind(slowest.lagSeconds) : "none", meaning: slowest ? `${slowest.name} · ${count(slowest.lag)} records` : "all records are in their tables", tint: slowest?.lagSeconds > LATE_SECONDS ? "warn" : "" })}
        ${tile({ label: "Dead letters", figure: count(sum("deadLetters")), meaning: worst ? `most in ${worst.name}` : "every record became a row", title: exact(sum("deadLetters")) })}
        ${tile({ label: "Slots held", figure: held, unit: `of ${wanted}`, meaning: `${workers ? plural(workers, "worker") : "no worker is up"}${held < wanted ? ` · ${wanted - held} wait` : ""}`, tint: held < wanted ? "warn" : "" })}</div>`;
    },
  },
  render() {
    if (!state.overview) return html`<div class="page"><h1 class="soft">Reading the pipelines…</h1></div>`;
    const { rows } = this, need = rows.filter(this.need), started = rows.filter((row) => row.desired === "started");
    const fresh = operator() ? link("/new/kafka", html`${icon("plus")}New pipeline`, { class: "btn solid", "data-testid": "new" }) : html`<button type="button" class="btn solid" disabled title="Viewers cannot change anything">New pipeline</button>`;
    const file = state.role === "admin" && link("/new/file", "From a Gauss file", { class: "btn", "data-testid": "new-file" });
    if (!rows.length) return html`<div class="page"><header class="page-head"><div><h1>No pipelines yet</h1><p class="lead">A pipeline takes the records of a Kafka topic to a ClickHouse table, each exactly once.</p></div></header>
      <section class="card">${empty("From a topic to a table in five steps", "Name a topic, see its records, take the proposed columns, start. Its health, lag and dead letters are then here.", fresh, ...(file ? [file] : []))}</section></div>`;
    const text = need.length ? `${need.length} of ${rows.length} ${rows.length === 1 ? "pipeline needs" : "pipelines need"} you` : started.length ? `${started.length === 1 ? "The pipeline runs" : `All ${started.length} pipelines run`} well` : `${rows.length === 1 ? "The pipeline is" : `All ${rows.length} pipelines are`} stopped`;
    const shown = this.ordered(), total = rows.reduce((sum, row) => sum + row.rate, 0);
    return html`<div class="page"><header class="page-head"><div><h1 class="says" aria-live="polite">${text}</h1><p class="lead">${started.length - need.length} run well, ${rows.length - started.length} stopped on purpose. ${rate(total)} land in ClickHouse.</p></div><div class="actions">${file}${fresh}</div></header>
      ${this.tiles()}
      ${need.length > 0 && html`<div class="alerts">${need.sort((one, other) => RANK[this.need(one).tint] - RANK[this.need(other).tint]).slice(0, CARDS).map(this.card)}</div>`}
      <div class="bar"><input type="search" data-filter placeholder="Filter by name, topic, table" aria-label="Filter by name, topic, table" value=${this.text} onInput=${(event) => go("/", { ...state.query, filter: event.target.value }, true)} />
        ${segments("Only", [["all", `All ${rows.length}`], ["need", `Need you ${need.length}`], ["running", `Started ${started.length}`], ["stopped", `Stopped ${rows.length - started.length}`]], this.only, (only) => go("/", { ...state.query, only: only === "all" ? "" : only }, true))}<span class="push"></span><span class="faint small">sorted by need, then lag</span></div>
      <section class="card wide"><table class="table"><thead><tr><th>Pipeline</th><th>State</th><th class="spare">Slots</th><th class="spare">Rows/s, 1 min</th><th class="n">Lag</th><th class="n spare">Dead letters</th></tr></thead>
        <tbody>${shown.slice(0, this.shown).map(this.row)}</tbody></table>
        ${shown.length === 0 && html`<p class="pad soft">No pipeline matches. ${link("/", "Show all")}</p>`}
        ${shown.length > this.shown && html`<div class="pad"><button type="button" class="btn" onClick=${() => (this.shown += SHOWN)}>Show ${Math.min(SHOWN, shown.length - this.shown)} more of ${shown.length}</button></div>`}</section></div>`;
  },
};
