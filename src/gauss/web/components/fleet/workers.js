// Workers: who is up, what each holds, who has room.
import * as api from "../api.js";
import { ago, clock, plural, utc } from "../format.js";
import { html } from "../html.js";
import { state } from "../live.js";
import { chip, empty, failure, link } from "../parts.js";
import { polling } from "../polling.js";
import { live } from "./state.js";

const LOOK_MS = 2000, MOST_SLOTS = 8;

export default {
  mixins: [polling({ look: LOOK_MS })],
  data: () => ({ workers: null }),
  methods: {
    async look(signal) { this.workers = await api.get("/api/workers", {}, signal); },
    row(worker, most) {
      const shown = worker.slots.slice(0, MOST_SLOTS), more = worker.slots.length - shown.length;
      const room = !worker.live ? "none: it is gone" : worker.mode === "no-leases" ? "one of each pipeline" : most === null ? "any number" : most > worker.slots.length ? `${most - worker.slots.length} more` : "full";
      return html`<tr key=${worker.id}><td><b>${worker.host}</b><small class="mono">${worker.id}</small></td>
        <td>${chip(worker.live ? "running" : "lost", worker.live ? "up" : "silent")}</td>
        <td>${worker.slots.length || "–"}${worker.slots.length > 0 && html`<small>${shown.map((each, at) => [at > 0 && ", ", link(`/pipelines/${each.pipelineId}`, `${each.pipeline} ${each.slot}`), html`<span title="epoch"> · ${each.epoch}</span>`])}${more > 0 && ` and ${more} more`}</small>`}</td>
        <td>${room}</td><td class="n spare">${worker.pid}</td>
        <td class="n spare" title=${utc(worker.seenAt)}>${worker.live ? ago(worker.seenAt, state.now) : clock(worker.seenAt)}</td></tr>`;
    },
  },
  render() {
    if (!this.workers || !state.overview) return html`<div class="page"><h1 class="soft">Reading the workers…</h1>${failure(this.error)}</div>`;
    const up = live(this.workers), limits = Object.fromEntries(state.overview.workers.map((each) => [each.id, each.maxSlots]));
    const roomy = up.filter((each) => (limits[each.id] ?? Infinity) > each.slots.length).length;
    const text = !up.length ? "No worker is up" : roomy ? `${roomy} of ${plural(up.length, "worker")} ${roomy === 1 ? "has" : "have"} room` : up.length === 1 ? "The worker is full" : `All ${up.length} workers are full`;
    const lead = !up.length ? "Started pipelines wait, and their records wait in Kafka. Nothing is lost." : `${plural(up.reduce((sum, each) => sum + each.slots.length, 0), "slot")} held. The slots of a worker that ends go to the others.`;
    return html`<div class="page"><header class="page-head"><div><h1 class="says">${text}</h1><p class="lead">${lead}</p></div></header>${failure(this.error)}
      ${this.workers.length === 0 ? html`<section class="card">${empty("Workers run the pipelines", html`Start <code>gauss worker --store URL</code> on any machine with the store of this server, or <code>gauss serve --with-worker</code> for one here.`)}</section>` : html`
      <section class="card wide"><table class="table"><thead><tr><th>Worker</th><th>State</th><th>Holds: pipeline, slot, epoch</th><th>Room</th><th class="n spare">Pid</th><th class="n spare">Seen</th></tr></thead>
        <tbody>${this.workers.map((each) => this.row(each, limits[each.id] ?? null))}</tbody></table></section>`}</div>`;
  },
};
