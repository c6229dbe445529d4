// The editor of what is wanted of a pipeline; it says what a change will do before it is applied.
import * as api from "../api.js";
import { html } from "../html.js";
import { icon } from "../icons.js";
import { operator, action, button, failure, note, segments } from "../parts.js";
import { state, toast } from "../live.js";
import { live } from "./state.js";

const MOST_REPLICAS = 1000;

export const Desired = {
  props: ["row", "partitions"],
  data: () => ({ draft: {}, error: null, busy: false }),
  computed: {
    desired() { return this.draft.desired ?? this.row.desired; },
    replicas() { return this.draft.replicas ?? this.row.replicas; },
    changed() { return this.desired !== this.row.desired || this.replicas !== this.row.replicas; },
    up: () => live(state.overview.workers),
    noLeases() { return this.up.length > 0 && this.up.every((each) => each.mode === "no-leases"); },
  },
  methods: {
    effect() {
      const { row, replicas } = this;
      if (this.desired !== row.desired) {
        if (this.desired === "stopped") return ["move", html`<b>Stop.</b> What is in hand is committed; then records wait in Kafka, and a start goes on from there.`];
        return this.up.length ? ["move", html`<b>Start.</b> Workers take ${replicas === 1 ? "the slot" : `${replicas} slots`} within seconds.`] : ["warn", html`<b>Start.</b> It would wait: no worker is up. Nothing else changes.`];
      }
      const step = html`<b>${row.replicas} → ${replicas}.</b> `;
      if (replicas < row.replicas) return ["move", html`${step}The surplus commits what it has in hand, then its partitions go to the others.`];
      if (row.desired === "stopped") return ["move", html`${step}It takes effect at the next start.`];
      if (this.partitions && replicas > this.partitions) return ["warn", html`${step}The topic has ${this.partitions} partitions: ${replicas - this.partitions} would have nothing to read.`];
      const room = this.up.some((each) => each.maxSlots === null || each.slots < each.maxSlots);
      return room ? ["move", html`${step}A worker with room takes each new slot, and Kafka shares the partitions anew.`] : ["warn", html`${step}New slots would wait: no worker has room. Nothing else changes.`];
    },
    set(replicas) {
      if (Number.isInteger(replicas)) this.draft.replicas = Math.max(1, Math.min(MOST_REPLICAS, replicas));
    },
    async apply() {
      Object.assign(this, { busy: true, error: null });
      const before = { desired: this.row.desired, replicas: this.row.replicas };
      const path = api.path("pipelines", this.row.id, "state");
      try {
        await api.patch(path, this.draft);
        toast(`${this.row.name}: ${this.desired}, ${this.replicas} ${this.replicas === 1 ? "replica" : "replicas"}`, { undo: () => api.patch(path, before).catch((error) => (this.error = error)) });
        Object.assign(this.row, this.draft);
        this.draft = {};
      } catch (error) {
        Object.assign(this, { error, draft: {} });
      }
      this.busy = false;
    },
  },
  render() {
    const [tint, text] = this.changed ? this.effect() : [];
    const off = !operator() || this.noLeases || this.row.isFile;
    return html`<section class="card desired"><header><h2>Desired state</h2></header><div class="pad stack">
      <fieldset disabled=${!operator()}>${segments("Desired state", [["started", html`${icon("play")}Started`], ["stopped", html`${icon("stop")}Stopped`]], this.desired, (desired) => (this.draft = { ...this.draft, desired }))}</fieldset>
      <div class="replicas"><label for="replicas">Replicas</label><span class="stepper"><button type="button" aria-label="One less" disabled=${off || this.replicas <= 1} onClick=${() => this.set(this.replicas - 1)}>−</button>
        <input id="replicas" inputmode="numeric" disabled=${off} value=${this.replicas} onChange=${(event) => { this.set(Number(event.target.value)); event.target.value = this.replicas; }} />
        <button type="button" aria-label="One more" data-testid="more" disabled=${off || this.replicas >= MOST_REPLICAS} onClick=${() => this.set(this.replicas + 1)}>+</button></span></div>
      ${this.noLeases && note("warn", "▲", "All workers run with --no-leases: each runs one instance, whatever the number of replicas.")}
      ${!operator() && html`<p class="soft small">Viewers cannot change anything.</p>`}
      ${failure(this.error)}${text && note(tint, tint === "warn" ? "▲" : "→", text)}
      ${this.changed && html`<div class="actions">${action("Apply", this.apply, { kind: "solid", busy: this.busy, "data-testid": "apply" })}${button("Reset", () => (this.draft = {}))}</div>`}</div></section>`;
  },
};
