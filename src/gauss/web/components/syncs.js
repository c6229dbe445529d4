// Syncs: last and next run, a run live, history, and the cursors of streams, shown and edited.
import * as api from "./api.js";
import { ago, bytes, clock, count, duration, exact, plural, utc } from "./format.js";
import { html } from "./html.js";
import { state, toast } from "./live.js";
import { action, chip, empty, failure, link, note, tile } from "./parts.js";
import { polling } from "./polling.js";

const LOOK_MS = 1000;

export default {
  mixins: [polling({ look: LOOK_MS })],
  props: ["name"],
  data: () => ({ syncs: null, runs: [], editing: null, draft: "", failed: null, speed: 0, before: null }),
  methods: {
    async look(signal) {
      const found = await (this.name ? api.get(api.path("syncs", this.name), {}, signal).catch((error) => (error.status === 404 ? null : Promise.reject(error))) : api.get("/api/syncs", {}, signal));
      this.syncs = this.name ? [found].filter(Boolean) : found.syncs;
      const [one] = this.name ? this.syncs : [];
      if (!one) return;
      const size = one.last?.bytes ?? 0, now = performance.now();
      if (this.before && one.state === "running" && size >= this.before[0]) this.speed = (1000 * (size - this.before[0])) / (now - this.before[1]);
      this.before = [size, now];
      this.runs = (await api.get(api.path("syncs", this.name, "runs"), {}, signal)).runs;
    },
    async act(name, verb) {
      try {
        await api.post(api.path("syncs", name, verb));
        toast(verb === "run" ? `${name} starts` : `${name} writes what it has read, and stops`);
        this.failed = null;
        await this.again("look");
      } catch (error) {
        this.failed = error;
      }
    },
    async store() {
      try {
        const cursor = this.draft.trim() ? api.parse(this.draft) : null;
        await api.put(api.path("syncs", this.name, "streams", this.editing.name, "cursor"), { cursor });
        toast(`The next run of ${this.editing.name} reads ${cursor ? "what is behind the new cursor" : "everything"}`);
        this.editing = null;
        this.failed = null;
        await this.again("look");
      } catch (error) {
        this.failed = error instanceof SyntaxError ? { message: `not JSON: ${error.message}`, hint: 'for example {"int64": 5}' } : error;
      }
    },
    last: (sync) => (sync.last ? `${sync.last.status}, ${plural(sync.last.rows ?? 0, "row")}` : "never ran"),
    next: (sync) => (sync.state === "running" ? "runs now" : sync.next_ms ? `in ${duration(Math.max(sync.next_ms - state.now, 0))}` : "by hand"),
    list() {
      const bad = this.syncs.filter((each) => each.state === "failed");
      const text = bad.length ? `${bad.length} of ${this.syncs.length} syncs failed` : this.syncs.some((each) => each.state === "running") ? `${plural(this.syncs.filter((each) => each.state === "running").length, "sync")} run now` : `All ${this.syncs.length} syncs are up to date`;
      return html`<div class="page"><header class="page-head"><div><h1 class="says">${this.syncs.length ? text : "No syncs"}</h1><p class="lead">Each copies streams between systems, and goes on where its last run has committed.</p></div></header>${failure(this.failed ?? this.error)}
        <section class="card wide">${this.syncs.length ? html`<table class="table"><thead><tr><th>Sync</th><th>State</th><th>Last run</th><th>Next</th><th class="n">Dead letters</th><th></th></tr></thead><tbody>${this.syncs.map((each) => html`<tr key=${each.name}><td>${link(`/syncs/${encodeURIComponent(each.name)}`, each.name, { class: "name" })}<small>${each.source} → ${each.destination}</small></td><td>${chip(each.state)}</td><td>${this.last(each)}<small title=${utc(each.last?.started_ms)}>${each.last ? ago(each.last.started_ms, state.now) : ""}</small></td><td>${this.next(each)}<small>${each.every ? `every ${each.every}` : ""}</small></td><td class="n">${each.letters || "–"}</td><td class="n">${each.state === "running" ? action("Stop", () => this.act(each.name, "stop"), { "aria-label": `Stop ${each.name}` }) : action("Start", () => this.act(each.name, "run"), { "aria-label": `Start ${each.name}` })}</td></tr>`)}</tbody></table>` : empty("A sync copies tables between systems", "Add [[syncs]] to the pipeline file. Each appears here with its runs.")}</section></div>`;
    },
    one(sync) {
      const running = sync.state === "running", last = sync.last;
      return html`<div class="page"><header class="page-head"><div><p class="crumbs">${link("/syncs", "Syncs")} / ${sync.name}</p><h1>${sync.name} ${chip(sync.state)}</h1><p class="lead">${sync.source} → ${sync.destination} · ${sync.every ? `every ${sync.every}` : "started by hand"} · next ${this.next(sync)}</p></div>
          <div class="actions">${running ? action("Stop", () => this.act(sync.name, "stop")) : action("Start now", () => this.act(sync.name, "run"), { kind: "solid" })}</div></header>
        ${failure(this.failed)}${sync.problem && note("bad", "✕", sync.problem)}${last?.error && sync.state === "failed" && note("bad", "✕", html`<b>The last run failed.</b> ${last.error} What it had committed stays; the next run goes on from there.`)}
        <div class="tiles">${tile({ label: running ? "Rows so far" : "Rows, last run", figure: count(last?.rows ?? 0), meaning: last ? this.last(sync) : "never ran", title: exact(last?.rows) })}${tile({ label: "Speed", figure: running ? (this.speed / 2 ** 20).toFixed(1) : last?.seconds ? ((last.bytes ?? 0) / 2 ** 20 / last.seconds).toFixed(1) : "–", unit: "MiB/s", meaning: running ? "now" : "last run" })}${tile({ label: "Time", figure: duration(1000 * (last?.seconds ?? (running && last ? (state.now - last.started_ms) / 1000 : 0))), meaning: last ? `since ${clock(last.started_ms)}` : "" })}${tile({ label: "Dead letters", figure: exact(sync.letters), meaning: sync.letters ? link("/dead", "see them", { query: { sync: sync.name } }) : "every row was written", tint: sync.letters ? "warn" : "" })}</div>
        <section class="card wide"><header><h2>Streams</h2></header><table class="table"><thead><tr><th>Stream</th><th>State</th><th class="n">Rows</th><th>Cursor</th><th></th></tr></thead><tbody>${sync.streams.map((each) => html`<tr key=${each.name}><td><b>${each.name}</b></td><td>${each.status ? chip(each.status) : "–"}</td><td class="n">${exact(each.rows ?? 0)}</td><td class="mono">${each.cursor === null ? "none: reads everything" : api.stringify(each.cursor)}<small>${each.cursor_ms ? `committed ${ago(each.cursor_ms, state.now)}` : ""}</small></td><td class="n">${action("Edit cursor", () => { this.editing = each; this.draft = each.cursor === null ? "" : api.stringify(each.cursor); this.failed = null; }, { disabled: running || state.role !== "operator", "aria-label": `Edit the cursor of ${each.name}` })}</td></tr>`)}</tbody></table>
          ${this.editing && html`<form class="bar pad" onSubmit=${(event) => { event.preventDefault(); this.store(); }}><label class="code-field"><span>cursor of ${this.editing.name}</span><input data-testid="cursor" value=${this.draft} placeholder="empty: read everything again" spellcheck="false" onInput=${(event) => (this.draft = event.target.value)} /></label><button type="submit" class="btn solid">Store</button><button type="button" class="btn" onClick=${() => (this.editing = null)}>Cancel</button></form>`}</section>
        <section class="card wide"><header><h2>History</h2></header>${this.runs.length ? html`<table class="table"><thead><tr><th>Run</th><th>State</th><th class="n">Rows</th><th class="n">Time</th><th class="spare">Detail</th></tr></thead><tbody>${this.runs.map((each) => html`<tr key=${each.generation}><td title=${utc(each.started_ms)}>${clock(each.started_ms)}</td><td>${chip(each.status)}</td><td class="n">${exact((each.streams ?? []).reduce((sum, stream) => sum + stream.rows, 0))}</td><td class="n">${each.ended_ms ? duration(each.ended_ms - each.started_ms) : "–"}</td><td class="spare">${each.detail}</td></tr>`)}</tbody></table>` : html`<p class="pad soft">It has never run.</p>`}</section></div>`;
    },
  },
  render() {
    if (!this.syncs) return html`<div class="page"><h1 class="soft">Reading syncs…</h1>${failure(this.error)}</div>`;
    if (!this.name) return this.list();
    const found = this.syncs.find((each) => each.name === this.name);
    return found ? this.one(found) : html`<div class="page"><h1>There is no sync "${this.name}"</h1><p class="lead">${link("/syncs", "All syncs")}</p></div>`;
  },
};
