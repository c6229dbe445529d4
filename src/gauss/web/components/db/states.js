// The table of states with their lanes.
import { ago, bytes, count, exact, utc } from "../format.js";
import { html } from "../html.js";
import { state as live } from "../live.js";
import { chip, link } from "../parts.js";
import { lanes, MOST_LANES } from "./lanes.js";
import { reasons, short } from "./words.js";

const SHOWN = 200, STEP = 16;
const x = (lane) => STEP * (lane + 0.5);
const PATHS = {
  pass: (lane) => `M${x(lane)} 0V40`, top: (lane) => `M${x(lane)} 0V20`, bottom: (lane) => `M${x(lane)} 20V40`,
  fork: (lane, from) => `M${x(from)} 20C${x(from)} 33 ${x(lane)} 27 ${x(lane)} 40`,
};
const colour = (number) => `var(--c${number + 1})`;

export const StateTable = {
  props: ["states", "chosen", "matches"],
  data: () => ({ shown: SHOWN }),
  computed: {
    drawn() { return lanes(this.states); },
    most() { return Math.max(1, ...this.states.map((each) => each.exclusive_bytes ?? 0)); },
  },
  methods: {
    lane(row) {
      const width = STEP * Math.min(this.drawn.count, MOST_LANES + 1);
      const kind = row.base ? "base" : row.state.status === "failed" ? "failed" : row.state.hits || row.state.instances ? "" : "unused";
      return html`<span class="lanes" aria-hidden="true" style=${{ "--lanes": width / STEP }}><svg viewBox="0 0 ${width} 40" preserveAspectRatio="none">${row.lines.map(([line, lane, tone, from]) => html`<path d=${PATHS[line](lane, from)} stroke=${colour(tone)} />`)}</svg><i class=${kind} style=${{ "--at": row.lane + 0.5, "--d": colour(row.colour) }}></i></span>`;
    },
    base(row) {
      return html`<tr key=${row.id} data-id=${row.id} class="base"><td>${this.lane(row)}<span class="what"><b class="clip">${row.base.engine} ${row.base.version}</b><small>empty cluster</small></span></td><td class="spare"></td><td class="n faint">–</td><td class="n faint">–</td><td class="n spare"></td></tr>`;
    },
    row(row) {
      const one = row.state, size = one.exclusive_bytes, share = (size ?? 0) / this.most;
      const marks = reasons(one.marks);
      return html`<tr key=${row.id} data-id=${row.id} class=${[this.chosen === row.id && "chosen", this.matches && !this.matches(one) && "dim"]}><td>${this.lane(row)}<span class="what">${link(`/db/states/${row.id}`, one.title, { class: "name clip", title: one.title })}
          <small class="mono">${short(row.id)}</small>${one.status !== "ready" && chip(one.status === "failed" ? "failed" : "starting", one.status === "failed" ? "failed" : "being made")}${marks && html`<span class="chip warn mark" title=${`not reproducible: ${marks}`}><i aria-hidden="true">▲</i>${marks}</span>`}${row.from && html`<small>from ${row.from.state?.title ?? "the empty cluster"}</small>`}</span></td>
        <td class="spare bar-cell"><span class="meter" style=${{ "--v": share, "--d": colour(row.colour) }}><i></i></span></td>
        <td class="n" title=${size === null ? "not measured yet" : `${exact(size)} bytes of its own, ${exact(one.bytes)} in all`}>${size === null ? html`<span class="faint">…</span>` : bytes(size)}</td>
        <td class="n" title=${`${exact(one.hits)} hits, used ${ago(one.used_ms, live.now)}, made ${utc(one.created_ms)}`}>${count(one.hits)}</td><td class="n spare">${one.instances || html`<span class="faint">–</span>`}</td></tr>`;
    },
  },
  render() {
    const { rows } = this.drawn;
    return html`<div><table class=${["table states", this.drawn.count > 4 && "many-lanes"]}><thead><tr><th>State</th><th class="spare"><span class="sr">Share</span></th><th class="n">Own size</th><th class="n">Hits</th><th class="n spare">Databases</th></tr></thead>
      <tbody>${rows.slice(0, this.shown).map((row) => (row.base ? this.base(row) : this.row(row)))}</tbody></table>
      ${rows.length > this.shown && html`<div class="pad"><button type="button" class="btn" onClick=${() => (this.shown += SHOWN)}>Show ${Math.min(SHOWN, rows.length - this.shown)} more of ${exact(rows.length)}</button></div>`}</div>`;
  },
};
