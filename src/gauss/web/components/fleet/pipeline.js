// One pipeline: what all its pages share (name, state, why, start and stop), and the page by the path.
import { defineAsyncComponent } from "vue";
import * as api from "../api.js";
import { count, exact } from "../format.js";
import { html } from "../html.js";
import { icon } from "../icons.js";
import { state } from "../live.js";
import { action, chip, empty, failure, link, note, operator } from "../parts.js";
import { isDraft, kept, needs } from "./state.js";
import Running from "./running.js";

const page = (name) => defineAsyncComponent(() => import(`./${name}.js`));
const PARTS = { "": Running, tail: page("tail"), mapping: page("mapping"), dead: page("letters"), file: page("file"), versions: page("versions"), settings: page("settings") };

export default {
  props: ["name"],
  data: () => ({ error: null, busy: false, asked: null }),
  computed: {
    row() { return state.overview?.pipelines[this.name]; },
    part: () => state.path.split("/")[3] ?? "",
  },
  watch: {
    name() { this.error = null; },
    "row.desired"() { this.asked = null; },
  },
  methods: {
    async change(verb) {
      Object.assign(this, { busy: true, asked: verb, error: null });
      try {
        await api.post(api.path("pipelines", this.name, verb));
      } catch (error) {
        Object.assign(this, { error, asked: null });
      }
      this.busy = false;
    },
    sentence(row) {
      const need = needs(row, state.overview.workers);
      if (need) return html`<b class="soft">${need.cause}.</b> ${need.safe} ${need.next}`;
      if (isDraft(row)) return "It is not set up yet.";
      if (row.isFile) return row.reason || (row.observed === "running" ? "A worker runs its file." : row.observed === "stopped" ? "Stopped on purpose. Its data stay with the worker that ran it." : "A worker takes it.");
      const way = html`<span class="mono">${row.topic}</span> → <span class="mono">${row.table}</span>`;
      if (row.observed === "stopped") return html`${way} · stopped on purpose; records wait in Kafka.`;
      if (row.observed === "running") return html`${way} · ${row.lag ? `${count(row.lag)} records are not in the table yet` : "every record is in the table"}.`;
      return html`${way}${row.reason ? ` · ${row.reason}` : ""}`;
    },
    tabs(row) {
      const own = row.isFile ? [["file", "File"]] : [["tail", "Live tail"], ["mapping", "Mapping"], ["dead", "Dead letters", row.lettersKept]];
      const tabs = [["", "Run"], ...own, ["versions", "Versions", row.version], ["settings", "Settings"]];
      return html`<nav class="tabs" aria-label="Pages of ${row.name}">${tabs.map(([part, text, number]) => link(`/pipelines/${row.id}${part && `/${part}`}`, [text, number !== undefined && html`<small title=${exact(number)}>${count(number)}</small>`], { "aria-current": part === this.part ? "page" : null }))}</nav>`;
    },
  },
  render() {
    if (!state.overview) return html`<div class="page"><h1 class="soft">Reading the pipeline…</h1></div>`;
    const { row } = this, shown = PARTS[this.part];
    if (!row || !shown) return html`<div class="page"><h1>${row ? "There is no such page" : "There is no such pipeline"}</h1><section class="card">${empty("It may have been deleted", "The audit log says by whom. What it has written stays in ClickHouse.", link("/", "See all pipelines", { class: "btn solid" }), link("/audit", "Audit", { class: "btn" }))}</section></div>`;
    const stopped = row.desired === "stopped";
    const observed = this.asked === "start" ? "starting" : this.asked === "stop" ? "stopping" : row.observed;
    return html`<div class="page"><header class="page-head"><div><p class="crumbs">${link("/", "Pipelines")} / ${row.name}</p>
        <h1 class="named">${row.name} ${chip(observed)}</h1><p class="lead" aria-live="polite">${this.sentence(row)}</p></div>
      <div class="actions">${isDraft(row) ? operator() && link("/new/kafka", "Set it up", { class: "btn solid", query: { pipeline: row.id } }) : [
        stopped ? action(html`${icon("play")}Start`, () => this.change("start"), { kind: "solid", busy: this.busy, "data-testid": "start" }) : action(html`${icon("stop")}Stop`, () => this.change("stop"), { busy: this.busy, "data-testid": "stop" }),
        row.isFile ? this.part !== "file" && link(`/pipelines/${row.id}/file`, "See the file", { class: "btn" }) : this.part !== "mapping" && operator() && link(`/pipelines/${row.id}/mapping`, "Edit mapping", { class: "btn" })]}</div></header>
      ${this.tabs(row)}${failure(this.error)}
      ${row.alert && this.part !== "dead" && note("warn", "▲", html`<b>${row.alert}.</b> ${kept(row)} `, link(`/pipelines/${row.id}/dead`, "See why"))}
      <${shown} key=${row.id + this.part} row=${row} /></div>`;
  },
};
