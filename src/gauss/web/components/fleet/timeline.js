// Who held each slot in the last hour: a band per owner with its epoch, hatched where nobody held it.
import * as api from "../api.js";
import { clock, duration } from "../format.js";
import { html } from "../html.js";
import { state } from "../live.js";
import { failure } from "../parts.js";
import { polling } from "../polling.js";

const LOOK_MS = 5000, SECONDS = 3600, COLOURS = 6, MOST_SLOTS = 32, WIDE = 6;

export const Timeline = {
  mixins: [polling({ look: LOOK_MS })],
  props: ["row"],
  data: () => ({ takeovers: null }),
  computed: {
    slots() {
      const found = new Map();
      for (const each of this.takeovers ?? []) found.set(each.slot, [...(found.get(each.slot) ?? []), each]);
      return [...found];
    },
    owners() { return [...new Set((this.takeovers ?? []).map((each) => each.workerId))]; },
    // From the first takeover that is known, at most an hour ago.
    start() { return Math.max(state.at - SECONDS * 1000, Math.min(...(this.takeovers ?? []).map((each) => each.beganAt))); },
  },
  methods: {
    async look(signal) {
      this.takeovers = await api.get(api.path("pipelines", this.row.id, "takeovers"), { seconds: SECONDS }, signal);
    },
    colour(worker) { return `var(--c${(this.owners.indexOf(worker) % COLOURS) + 1})`; },
    band({ workerId, epoch, beganAt, endedAt }) {
      const whole = Math.max(state.at - this.start, 1000), share = (at) => (100 * Math.max(at - this.start, 0)) / whole;
      const left = Math.min(share(beganAt), 100), width = Math.max(Math.min(share(endedAt ?? state.at), 100) - left, 0.4);
      return html`<i key=${epoch} class="owned" data-epoch=${epoch} style=${{ left: `${left}%`, width: `${width}%`, "--b": this.colour(workerId) }} title=${`epoch ${epoch}: ${workerId}, ${clock(beganAt)} – ${endedAt ? clock(endedAt) : "now"}`}>${width > WIDE && epoch}</i>`;
    },
    said(slot, bands) {
      return `Slot ${slot}: ${bands.map((each) => `epoch ${each.epoch} by ${each.workerId} from ${clock(each.beganAt)} to ${each.endedAt ? clock(each.endedAt) : "now"}`).join("; ")}`;
    },
  },
  render() {
    if (!this.takeovers?.length) return this.error && failure(this.error);
    return html`<section class="card timeline"><header><h2>Who held the slots</h2><span class="faint small">last ${duration(state.at - this.start)} · a number is an epoch · hatched: nobody</span></header>
      <div class="pad">${failure(this.error)}<ul>${this.slots.slice(0, MOST_SLOTS).map(([slot, bands]) => html`<li key=${slot} data-slot=${slot}><b>${slot}</b><div role="img" aria-label=${this.said(slot, bands)}>${bands.map(this.band)}</div></li>`)}</ul>
        <p class="small soft owners">${this.owners.map((each) => html`<span key=${each}><i style=${{ background: this.colour(each) }}></i><span class="mono clip">${each}</span></span>`)}</p></div></section>`;
  },
};
