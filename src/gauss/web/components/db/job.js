// One preparation, live: which steps came from the cache, which ran and why, how long each took.
import * as api from "../api.js";
import { clock, duration, plural, utc } from "../format.js";
import { html } from "../html.js";
import { go, state, toast } from "../live.js";
import { action, failure, link, note } from "../parts.js";
import { following } from "./following.js";
import { Steps } from "./steps.js";
import { command, jobChip, sentence, short, took } from "./words.js";

// What a job came to, in one sentence.
export function outcome(job, tasks, status) {
  const steps = tasks.filter((each) => each?.type === "state_execute"), cached = steps.filter((each) => each.cached).length;
  const from = steps.length ? `${cached} of ${plural(steps.length, "step")} came from the cache` : "it is being planned";
  const at = tasks.find((each) => each?.status === (status === "failed" ? "failed" : "running"));
  if (status === "failed") return job.error?.code === "cancelled" ? "Cancelled" : at ? `Failed at ${at.title}` : "Failed";
  if (status === "succeeded") return `${job.plan_only ? "Planned" : "Ready"} in ${took(job.ended_ms - (job.started_ms ?? job.created_ms))}: ${from}`;
  return status === "queued" ? "Waits for its turn" : at && steps.length ? `${at.title} runs, ${from}` : `Running: ${from}`;
}

export const because = (miss) => {
  if (!miss) return null;
  const near = miss.nearest_state_id && html` The nearest cached state is ${link(`/db/states/${miss.nearest_state_id}`, short(miss.nearest_state_id), { class: "mono" })}.`;
  return note(miss.changes.length ? "warn" : "move", miss.changes.length ? "▲" : "→", html`<b>Ran from step ${miss.number} on:</b> ${miss.reason}.`, near);
};

export default {
  mixins: [following],
  props: ["name"],
  data: () => ({ failed: null, busy: false }),
  beforeUpdate() {
    const log = this.$el?.querySelector?.(".log");
    this.atEnd = !log || log.scrollTop + log.clientHeight >= log.scrollHeight - 30;
  },
  // The log follows, unless somebody has scrolled up in it.
  updated() {
    const log = this.$el?.querySelector?.(".log");
    if (log && this.atEnd) log.scrollTop = log.scrollHeight;
  },
  methods: {
    async act(run) {
      Object.assign(this, { busy: true, failed: null });
      try {
        await run();
      } catch (error) {
        this.failed = error;
      }
      this.busy = false;
    },
    cancel() { return this.act(() => api.post(api.path("databases", "prepare-jobs", this.job.job_id, "cancel"))); },
    again() {
      return this.act(async () => {
        const made = await api.post("/api/databases/prepare-jobs", { again: this.job.job_id });
        toast("It is prepared again");
        go(`/db/jobs/${made.job_id}`);
      });
    },
    lines() {
      return html`<section class="card"><header><h2>Log</h2></header><div class="code log" role="log" aria-live="off" tabindex="0" aria-label="Log">${this.log.map((each) => html`<div key=${each.seq} class=${each.tint}><time title=${utc(each.ts)}>${clock(each.ts, true)}</time>  ${each.text}</div>`)}${!this.log.length && html`<div class="soft">Nothing yet.</div>`}</div></section>`;
    },
  },
  render() {
    const { job, status } = this;
    const crumbs = html`<p class="crumbs">${link("/db", "Databases")} / prepare ${short(this.name)}</p>`;
    if (this.missing) return html`<div class="page"><div>${crumbs}<h1>There is no prepare ${short(this.name)}</h1><p class="lead">${sentence(this.missing.hint)} Of equal ones only the last two are kept. ${link("/db", "All databases")}</p></div></div>`;
    if (!job) return html`<div class="page"><div>${crumbs}<h1 class=${this.lost ? "" : "soft"}>${this.lost ? "The engine does not answer" : "Reading the prepare…"}</h1></div>${failure(this.lost)}</div>`;
    const ended = Boolean(this.ended()), made = job.result?.instance_id;
    return html`<div class="page"><header class="page-head"><div>${crumbs}<h1 class="says" aria-live="polite">${outcome(job, this.tasks, status ?? job.status)} ${jobChip(job, status)}</h1>
          <p class="lead"><code>${command(job).map((word, at) => [at > 0 && " ", html`<span class="whole">${word}</span>`])}</code></p><p class="lead small">in ${job.cwd} · <span title=${utc(job.created_ms)}>${clock(job.created_ms)}</span>${!ended && job.started_ms && ` · ${duration(Math.max(state.now - job.started_ms, 0))}`}</p></div>
        <div class="actions">${ended ? action("Prepare again", this.again, { kind: "solid", busy: this.busy, "data-testid": "again" }) : action("Cancel", this.cancel, { kind: "danger", busy: this.busy, "data-testid": "cancel" })}</div></header>
      ${failure(this.failed)}${this.lost && note("warn", "▲", html`<b>The engine does not answer.</b> What you see is the last that came; the page asks again each second. A job that was interrupted goes on when the engine is started.`)}
      ${job.error && ended && note("bad", "✕", html`<b>${job.error.message}.</b> ${sentence(job.error.hint)} States that were made stay; the next attempt begins after them.`)}
      ${because(this.miss)}
      ${made && note("ok", "✓", html`<b>Database ${link("/db", short(made), { class: "mono", query: { open: made } })} is made</b> from state ${link(`/db/states/${job.result.state_id}`, short(job.result.state_id), { class: "mono" })}. <code>gauss db psql ${short(made)}</code> connects to it.`)}
      <section class="card"><header><h2>Steps</h2></header>${this.tasks.length ? html`<${Steps} tasks=${this.tasks} ended=${ended} />` : html`<p class="pad soft">It waits for its turn.</p>`}</section>${this.lines()}</div>`;
  },
};
