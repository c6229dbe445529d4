// Health: processes with restarts and memory, Spark's queries, and searchable logs of all processes.
import * as api from "./api.js";
import { bytes, clock, count, duration, plural, rate } from "./format.js";
import { html } from "./html.js";
import { state } from "./live.js";
import { chip, failure, link, note, segments } from "./parts.js";
import { polling } from "./polling.js";

const LOOK_MS = 2000, LOG_MS = 4000, TYPING_MS = 300;

export default {
  mixins: [polling({ look: LOOK_MS, follow: LOG_MS })],
  data: () => ({ processes: null, health: null, logs: null, search: "", level: "info", process: "", before: {} }),
  beforeUnmount() { clearTimeout(this.typing); },
  methods: {
    async look(signal) {
      const [found, health] = await Promise.all([api.get("/api/processes", {}, signal), api.get("/api/health", {}, signal)]);
      const now = performance.now();
      for (const each of found.processes) {
        const then = this.before[each.name];
        each.load = then ? Math.max(0, (1000 * (each.cpu_seconds - then[0])) / (now - then[1])) : null;
        this.before[each.name] = [each.cpu_seconds, now];
      }
      Object.assign(this, { processes: found, health });
    },
    async follow(signal) {
      this.logs = await api.get("/api/logs", { process: this.process, search: this.search, level: this.level }, signal);
    },
    queries() {
      const rows = Object.entries(state.overview.processors).filter(([name]) => state.graph.processors.find((each) => each.name === name)?.where === "spark");
      if (!rows.length) return null;
      return html`<section class="card wide"><header><h2>On Spark</h2><span class="faint small">standing tasks and streaming queries</span></header><table class="table"><thead><tr><th>Processor</th><th>State</th><th class="n">Reads</th><th class="n">Last batch</th><th class="n">Behind</th></tr></thead>
        <tbody>${rows.map(([name, row]) => html`<tr key=${name}><td>${link("/", name, { query: { processor: name }, class: "name" })}<small>${state.graph.processors.find((each) => each.name === name).runs}</small></td><td>${chip(row.state)}</td><td class="n">${rate(row.rate)}</td><td class="n">${row.batch_ms ? `${row.batch_ms} ms` : "–"}</td><td class="n">${row.behind ? `${count(row.behind)} · ${duration(row.behind_ms)}` : "–"}</td></tr>`)}</tbody></table></section>`;
    },
  },
  render() {
    if (!this.processes || !state.overview) return html`<div class="page"><h1 class="soft">Reading processes…</h1>${failure(this.error)}</div>`;
    const rows = this.processes.processes, down = rows.filter((each) => each.state !== "ready");
    const memory = rows.reduce((sum, each) => sum + each.memory_bytes, 0);
    const restarts = rows.reduce((sum, each) => sum + each.restarts, 0);
    const text = down.length ? `${down[0].name} is ${down[0].state}` : this.health.reasons.length ? "All processes are up, something needs you" : `All ${rows.length} processes are up`;
    return html`<div class="page"><header class="page-head"><div><h1 class="says">${text}</h1><p class="lead">up ${duration(1000 * this.health.uptime_s)} · ${bytes(memory)} of memory · ${restarts ? plural(restarts, "restart") : "no restarts"} · ${bytes(this.processes.free_bytes)} of disk free</p></div></header>
      ${failure(this.error)}${this.health.reasons.map((reason) => note("warn", "▲", reason))}
      <section class="card wide"><header><h2>Processes</h2></header><table class="table"><thead><tr><th>Process</th><th>State</th><th class="n">Memory</th><th class="n">Cores</th><th class="n">Restarts</th><th class="n spare">Pid</th></tr></thead>
        <tbody>${rows.map((each) => html`<tr key=${each.name}><td><b>${each.name}</b>${each.detail && html`<small>${each.detail}</small>`}</td><td>${chip(each.state)}</td><td class="n">${bytes(each.memory_bytes)}</td><td class="n">${each.load === null ? "–" : each.load.toFixed(2)}</td><td class="n">${each.restarts || "–"}</td><td class="n spare">${each.pid ?? "–"}</td></tr>`)}</tbody></table></section>
      ${this.queries()}
      <section class="card"><header><h2>Logs</h2></header><form class="bar pad" onSubmit=${(event) => { event.preventDefault(); this.again("follow"); }}>
          <input type="search" data-filter aria-label="Search the logs" placeholder="Search" value=${this.search} onInput=${(event) => { this.search = event.target.value; clearTimeout(this.typing); this.typing = setTimeout(() => this.again("follow"), TYPING_MS); }} />
          <select aria-label="Process" onChange=${(event) => { this.process = event.target.value; this.again("follow"); }}><option value="">all logs</option>${(this.logs?.logs ?? []).map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select>
          ${segments("Level", [["info", "All"], ["warning", "Warnings"], ["error", "Errors"]], this.level, (level) => { this.level = level; this.again("follow"); })}<span class="push"></span><span class="small faint">newest first</span></form>
        <div class="code log" role="log" aria-live="off" aria-label="Log lines" tabindex="0">${(this.logs?.lines ?? []).map((line, index) => html`<div key=${index + line.time} class=${{ error: "bad", critical: "bad", warning: "warn" }[line.level] ?? ""}><time title=${line.time}>${line.time ? clock(Date.parse(line.time)) : "–"}</time>  <b>${line.process}</b>  ${line.message}</div>`)}
          ${this.logs?.lines.length === 0 && html`<div class="soft">No line matches.</div>`}</div></section></div>`;
  },
};
