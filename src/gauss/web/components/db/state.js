// One state: what it is, what it comes from, what its key was made of, who uses it; and its removal.
import * as api from "../api.js";
import { ago, bytes, clock, count, exact, plural, utc } from "../format.js";
import { html } from "../html.js";
import { go, state, toast } from "../live.js";
import { action, chip, failure, link, note } from "../parts.js";
import { Instances } from "./instances.js";
import { family } from "./lanes.js";
import { Remove } from "./remove.js";
import { StateTable } from "./states.js";
import { short } from "./words.js";
import { watching } from "./watching.js";

const SHOWN = 12;
const WORDS = { file: "script", inline: "text of -c", data_file: "data file" };

export default {
  mixins: [watching],
  props: ["name"],
  data: () => ({ detail: null, missing: null, removing: false, failed: null, busy: false, shown: SHOWN }),
  watch: { name() { this.detail = this.missing = null; this.find(); }, reading() { if (!this.detail) this.find(); } },
  mounted() { this.find(); },
  methods: {
    async find() {
      const { name } = this;
      try {
        const found = await api.get(api.path("databases", "states", name));
        if (name === this.name) Object.assign(this, { detail: found, missing: null });
      } catch (error) {
        if (name === this.name) this.missing = error;
      }
    },
    // The newest job that led to this state: it can be prepared again.
    job() { return this.reading.jobs.find((each) => each.state_id === this.detail.state_id && !each.plan_only); },
    async again() {
      Object.assign(this, { busy: true, failed: null });
      try {
        const made = await api.post("/api/databases/prepare-jobs", { again: this.job().job_id });
        toast("It is prepared again");
        go(`/db/jobs/${made.job_id}`);
      } catch (error) {
        this.failed = error;
      }
      this.busy = false;
    },
    removed() {
      this.removing = false;
      go("/db");
    },
    // Statements of one file are counted: each has a digest of its own.
    key() {
      const groups = new Map();
      for (const each of this.detail.ingredients) {
        const name = `${each.kind} ${each.name}`, group = groups.get(name) ?? { ...each, lines: 0 };
        if (each.line !== null) group.lines++;
        groups.set(name, group);
      }
      const rows = [...groups.values()];
      return html`<section class="card wide"><header><h2>What its key was made of</h2><small class="soft">a change of any makes another state</small></header><table class="table"><thead><tr><th>What</th><th>Name</th><th class="n">Parts</th><th class="spare">Digest</th></tr></thead><tbody>${rows.slice(0, this.shown).map((each) => html`<tr key=${each.kind + each.name}><td>${WORDS[each.kind] ?? each.kind}</td><td class="breaks">${each.name || "–"}</td><td class="n">${each.lines || "–"}</td><td class="spare mono faint">${each.lines > 1 ? "one each" : each.digest.slice(0, 12)}</td></tr>`)}</tbody></table>
        ${rows.length > this.shown && html`<div class="pad"><button type="button" class="btn" onClick=${() => (this.shown = rows.length)}>Show ${rows.length - this.shown} more</button></div>`}</section>`;
    },
  },
  render() {
    const crumbs = html`<p class="crumbs">${link("/db", "Databases")} / state ${short(this.name)}</p>`;
    const { detail, reading } = this;
    if (this.missing && !detail) {
      const gone = this.missing.status !== 503;
      return html`<div class="page"><div>${crumbs}<h1>${gone ? `There is no state ${short(this.name)}` : "The engine is not running"}</h1><p class="lead">${gone ? "It was removed, or evicted to make room. Preparing its scripts again makes it again." : "It is started by the next gauss db command."} ${link("/db", "All states")}</p></div>${!gone && html`<div>${this.startButton("solid")}</div>`}</div>`;
    }
    if (!detail || !reading) return html`<div class="page"><div>${crumbs}<h1 class="soft">Reading the state…</h1></div>${failure(this.error)}</div>`;
    const id = detail.state_id, now = reading.states.find((each) => each.state_id === id);
    if (!now && reading.engine === "running" && !this.removing) return html`<div class="page"><div>${crumbs}<h1>State ${short(id)} was removed</h1><p class="lead">${link("/db", "All states")}</p></div></div>`;
    const one = now ?? detail, parent = reading.states.find((each) => each.state_id === one.parent_state_id), children = reading.states.filter((each) => each.parent_state_id === id);
    const users = reading.instances.filter((each) => each.state_id === id), job = this.job();
    const use = users.length ? `${plural(users.length, "database is", "databases are")} cloned from it` : children.length ? `${plural(children.length, "state was", "states were")} made of it` : "nothing depends on it";
    return html`<div class=${["page", this.goneAt && "as-of"]}><header class="page-head"><div>${crumbs}<h1 class="breaks">${one.title} ${chip(one.status === "ready" ? "ready" : one.status === "failed" ? "failed" : "starting", one.status === "creating" ? "being made" : one.status)}</h1>
          <p class="lead">Deleting it frees ${one.exclusive_bytes === null ? "an unknown size" : bytes(one.exclusive_bytes)}; ${use}.</p></div>
        <div class="actions">${job && action("New database of it", this.again, { kind: "solid", busy: this.busy, "data-testid": "again" })}${action("Remove", () => (this.removing = true), { kind: "danger", "data-testid": "remove" })}</div></header>
      ${this.trouble()}${failure(this.failed)}${one.error && note("bad", "✕", html`<b>It was not made:</b> ${one.error}. It is never used.`)}
      ${one.marks.length > 0 && note("warn", "▲", html`<b>Not reproducible.</b> A new run may make something else, because of ${one.marks.slice(0, 6).map((mark, at) => [at > 0 && ", ", html`<code>${mark.reason}</code>`, mark.path ? ` at ${mark.path.split("/").at(-1)}:${mark.line}` : ` in line ${mark.line}`])}${one.marks.length > 6 && ` and ${one.marks.length - 6} more`}. Clones of this state are equal.`)}
      <div class="db-columns"><div class="stack"><section class="card"><header><h2>Where it comes from, what was made of it</h2></header><${StateTable} states=${family(reading.states, id)} chosen=${id} /></section>${this.key()}</div>
        <div class="stack"><section class="card"><header><h2>About</h2></header><dl class="pairs pad"><dt>id</dt><dd class="mono">${id}</dd><dt>made of</dt><dd>${parent ? link(`/db/states/${parent.state_id}`, parent.title) : `an empty ${one.engine} ${one.version}`}</dd><dt>by</dt><dd>${one.prepare_kind}${job && [" · ", link(`/db/jobs/${job.job_id}`, `prepare ${short(job.job_id)}`)]}</dd><dt>made</dt><dd title=${utc(one.created_ms)}>${clock(one.created_ms)}</dd><dt>used</dt><dd title=${utc(one.used_ms)}>${ago(one.used_ms, state.now)}</dd><dt>hits</dt><dd title=${exact(one.hits)}>${count(one.hits)}</dd><dt>own size</dt><dd title=${exact(one.exclusive_bytes)}>${bytes(one.exclusive_bytes)} of ${bytes(one.bytes)}</dd>${one.warm > 0 && [html`<dt>warm</dt>`, html`<dd>${plural(one.warm, "database")} started in advance</dd>`]}</dl></section>
          <${Instances} instances=${users} states=${reading.states} onChanged=${this.read} /></div></div>
      ${this.removing && html`<${Remove} kind="states" id=${id} title=${`state ${one.title}`} typed=${short(id)} states=${reading.states} onDone=${this.removed} onNo=${() => (this.removing = false)} />`}</div>`;
  },
};
