// All databases and the states that they are cloned from: what is cached, what ran again, what is up.
import * as api from "../api.js";
import { ago, bytes, exact, percent, plural, utc } from "../format.js";
import { html } from "../html.js";
import { icon } from "../icons.js";
import { go, state } from "../live.js";
import { action, failure, link, tile } from "../parts.js";
import { Again, choices } from "./again.js";
import { because, outcome } from "./job.js";
import { following } from "./following.js";
import { Instances } from "./instances.js";
import { StateTable } from "./states.js";
import { Steps } from "./steps.js";
import { asked, jobChip, reasons, short, took } from "./words.js";
import { watching } from "./watching.js";

const COPIES = { btrfs: "Clones are btrfs snapshots.", reflink: "Clones share blocks (reflinks).", copy: "Clones are copies: on btrfs or XFS they would take milliseconds." };
const SHOWN_JOBS = 10;

// The preparation that runs now, beside the rest.
const Running = {
  mixins: [following],
  props: ["name"],
  methods: {
    cancel() { return api.post(api.path("databases", "prepare-jobs", this.name, "cancel")).catch((error) => (this.lost = error)); },
  },
  render() {
    if (!this.job) return html`<section class="card pad soft">Reading the prepare…${failure(this.missing)}</section>`;
    const ended = Boolean(this.ended());
    return html`<section class="card" data-testid="running"><header><h2>Prepare ${link(`/db/jobs/${this.name}`, short(this.name), { class: "mono" })}</h2>${jobChip(this.job, this.status)}<small class="soft clip">${asked(this.job)}</small><span class="push"></span>${!ended && action("Cancel", this.cancel, { kind: "danger" })}</header>
      ${this.miss && html`<div class="pad">${because(this.miss)}</div>`}<${Steps} tasks=${this.tasks} ended=${ended} /></section>`;
  },
};

export default {
  mixins: [watching],
  data: () => ({ choosing: false, jobs: SHOWN_JOBS, watched: null }),
  computed: { text: () => (state.query.filter ?? "").toLowerCase() },
  watch: {
    // It stays in view when it has ended, until another one runs.
    reading(found) { this.watched = found.jobs.find((each) => ["running", "queued"].includes(each.status))?.job_id ?? this.watched; },
  },
  mounted() { document.addEventListener("keydown", this.key); },
  beforeUnmount() { document.removeEventListener("keydown", this.key); },
  methods: {
    key(event) {
      if (event.target.closest("input, textarea, dialog") || !["j", "k"].includes(event.key)) return;
      const links = [...this.$el.querySelectorAll(".states a.name")];
      links[Math.max(0, Math.min(links.length - 1, links.indexOf(document.activeElement) + (event.key === "j" ? 1 : -1)))]?.focus();
    },
    matches(one) { return `${one.title} ${one.state_id} ${reasons(one.marks)}`.toLowerCase().includes(this.text); },
    // What matches, with what it was made of.
    filtered() {
      const { states } = this.reading;
      if (!this.text) return states;
      const known = new Map(states.map((each) => [each.state_id, each])), kept = new Set();
      for (const one of states.filter(this.matches)) for (let at = one; at && !kept.has(at.state_id); at = known.get(at.parent_state_id)) kept.add(at.state_id);
      return states.filter((each) => kept.has(each.state_id));
    },
    headline() {
      const { instances, jobs, steps } = this.reading, up = instances.filter((each) => each.status === "running").length;
      const runs = jobs.filter((each) => each.status === "running").length, cached = steps.all ? `${exact(steps.cached)} of ${plural(steps.all, "step")} came from the cache` : "no step has run yet";
      if (runs) return `${plural(runs, "prepare runs", "prepares run")}, ${cached}`;
      if (jobs[0]?.status === "failed" && jobs[0].error?.code !== "cancelled") return `The last prepare failed: ${asked(jobs[0])}`;
      return `${up ? plural(up, "database is up", "databases are up") : "No database is up"}, ${cached}`;
    },
    tiles() {
      const { cache, jobs, steps, states } = this.reading;
      const hits = jobs.filter((each) => each.status === "succeeded" && !each.plan_only && each.steps.all && each.steps.cached === each.steps.all).map((each) => each.ended_ms - each.started_ms).sort((one, other) => one - other);
      const marked = states.filter((each) => each.marks.length).length;
      return html`<div class="tiles">${tile({ label: "Steps from the cache", figure: steps.all ? percent(steps.cached / steps.all) : "–", meaning: steps.all ? `${exact(steps.all - steps.cached)} of ${exact(steps.all)} ran` : "of the last prepares" })}
        ${tile({ label: "A clone is ready in", figure: hits.length ? took(hits[Math.floor(hits.length / 2)]) : "–", meaning: hits.length ? `median of ${plural(hits.length, "full hit")}` : "no full hit yet" })}
        ${tile({ label: "Cache", figure: bytes(cache.used_bytes), meaning: `of ${bytes(cache.capacity_bytes)}, evicted at ${percent(cache.high_water)}`, tint: cache.used_bytes > cache.high_water * cache.capacity_bytes ? "warn" : "" })}
        ${tile({ label: "Not reproducible", figure: marked, meaning: marked ? "states that a new run may make differently" : "every state is what its scripts say", tint: marked ? "warn" : "" })}</div>`;
    },
    prepares() {
      const { jobs } = this.reading;
      return html`<section class="card wide"><header><h2>Prepares</h2><small class="soft">of equal ones the last two</small></header><table class="table jobs"><thead><tr><th>Prepare</th><th>State</th><th class="n">Cached</th><th class="n spare">Took</th><th class="n spare">When</th></tr></thead>
        <tbody>${jobs.slice(0, this.jobs).map((each) => html`<tr key=${each.job_id} data-id=${each.job_id}><td>${link(`/db/jobs/${each.job_id}`, asked(each), { class: "name clip", title: `${asked(each)} in ${each.cwd}` })}<small class="clip"><span class="mono">${short(each.job_id)}</span>${each.plan_only ? " · plan only" : ""}${each.now ? ` · ${each.now} runs` : each.error ? ` · ${each.error.message}` : ""}</small></td><td>${jobChip(each)}</td><td class="n">${each.steps.all ? `${each.steps.cached} of ${each.steps.all}` : "–"}</td><td class="n spare">${took(each.ended_ms && each.started_ms ? each.ended_ms - each.started_ms : null)}</td><td class="n spare" title=${utc(each.created_ms)}>${ago(each.created_ms, state.now)}</td></tr>`)}</tbody></table>
        ${jobs.length > this.jobs && html`<div class="pad"><button type="button" class="btn" onClick=${() => (this.jobs += 20)}>Show ${jobs.length - this.jobs} more</button></div>`}</section>`;
    },
  },
  render() {
    if (!this.reading) return html`<div class="page"><h1 class="soft">Reading the databases…</h1>${failure(this.error)}</div>`;
    const { reading } = this, options = choices(reading);
    const fresh = options.length > 0 && action(html`${icon("plus")}New database`, () => (this.choosing = true), { kind: "solid", "data-testid": "new" });
    const dialog = this.choosing && html`<${Again} choices=${options} onNo=${() => { this.choosing = false; this.read(); }} />`;
    if (reading.engine !== "running") {
      const { title, content } = this.nothing();
      return html`<div class="page"><header class="page-head"><div><h1 class="says">${title}</h1><p class="lead">A database is prepared by scripts, stored step by step, and cloned for each who needs it.</p></div><div class="actions">${fresh}</div></header>${failure(this.error)}<section class="card">${content}</section>${dialog}</div>`;
    }
    const shown = this.filtered();
    return html`<div class=${["page", this.goneAt && "as-of"]}><header class="page-head"><div><h1 class="says" aria-live="polite">${this.headline()}</h1><p class="lead">${plural(reading.states.length, "state")}, ${plural(reading.instances.length, "database")}. ${COPIES[reading.cache.backend]}</p></div><div class="actions">${fresh}</div></header>
      ${this.trouble()}${this.tiles()}
      <div class="db-columns"><section class="card"><header><h2>States</h2><small class="soft spare">size is what deleting it would free</small><span class="push"></span><input type="search" class="small-search" data-filter placeholder="id or file" aria-label="Filter states by id or file" value=${state.query.filter ?? ""} onInput=${(event) => go("/db", { ...state.query, filter: event.target.value }, true)} /></header>
          ${!reading.states.length ? html`<p class="pad soft">None yet: the first prepare makes one for each step.</p>` : shown.length ? html`<${StateTable} states=${shown} matches=${this.text ? this.matches : null} />` : html`<p class="pad soft">No state matches. ${link("/db", "Show all")}</p>`}</section>
        <${Instances} instances=${reading.instances} states=${reading.states} open=${state.query.open} onChanged=${this.read} /></div>
      ${this.watched && html`<${Running} key=${this.watched} name=${this.watched} />`}
      ${reading.jobs.length > 0 && this.prepares()}${dialog}</div>`;
  },
};
