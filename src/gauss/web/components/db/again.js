// Chooses what to prepare again, and says before it is done what would run.
import * as api from "../api.js";
import { plural } from "../format.js";
import { html } from "../html.js";
import { go } from "../live.js";
import { failure, note } from "../parts.js";
import { asked, requests, sentence } from "./words.js";

const MOST = 8;

// What can be prepared: the databases of the pipeline, and what commands have prepared here.
export function choices({ named, jobs }) {
  const known = requests(jobs.filter((job) => !named.some((each) => JSON.stringify([each.prepare_kind, each.args]) === JSON.stringify([job.prepare_kind, job.args]))));
  return [
    ...named.map((each) => ({ body: { database: each.name }, name: each.name, text: asked(each) })),
    ...known.slice(0, MOST).map((job) => ({ body: { again: job.job_id }, name: asked(job), text: `in ${job.cwd}` })),
  ];
}

export const Again = {
  props: ["choices"],
  emits: ["no"],
  data: () => ({ at: 0, plan: null, error: null, busy: false }),
  mounted() {
    this.$el.showModal();
    this.choose(0);
  },
  methods: {
    async choose(at) {
      Object.assign(this, { at, plan: null, error: null });
      try {
        const plan = await api.post("/api/databases/explain", this.choices[at].body);
        if (this.at === at) this.plan = plan;
      } catch (error) {
        if (this.at === at) this.error = error;
      }
    },
    async prepare() {
      this.busy = true;
      try {
        const made = await api.post("/api/databases/prepare-jobs", this.choices[this.at].body);
        this.$emit("no");
        go(`/db/jobs/${made.job_id}`);
      } catch (error) {
        Object.assign(this, { error, busy: false });
      }
    },
    effect() {
      if (!this.plan) return this.error ? null : html`<p class="small soft">Looking at what would run…</p>`;
      const { outcome, steps, reason } = this.plan, cached = steps.filter((each) => each.cached).length;
      if (outcome === "hit") return note("ok", "✓", html`<b>Nothing runs.</b> ${steps.length === 1 ? "Its step is" : `All ${steps.length} steps are`} cached: it is a clone.`);
      return note("warn", "▲", html`<b>${steps.length - cached} of ${plural(steps.length, "step")} ${steps.length - cached === 1 ? "runs" : "run"}.</b> ${sentence(reason)}`);
    },
  },
  render() {
    return html`<dialog class="confirm again" aria-label="New database" onCancel=${(event) => { event.preventDefault(); this.$emit("no"); }}>
      <h2>New database</h2><p class="small soft">Prepared again from the scripts as they are now.</p>
      <fieldset>${this.choices.map((each, at) => html`<label key=${at} class="choice"><input type="radio" name="choice" checked=${at === this.at} onChange=${() => this.choose(at)} /><span><b class="clip">${each.name}</b><small class="clip">${each.text}</small></span></label>`)}</fieldset>
      ${this.effect()}${failure(this.error)}
      <footer><button type="button" class="btn" onClick=${() => this.$emit("no")}>Cancel</button><button type="button" class="btn solid" data-testid="prepare" disabled=${this.busy || Boolean(this.error)} onClick=${this.prepare}>Prepare</button></footer></dialog>`;
  },
};
