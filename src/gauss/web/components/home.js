// Home of a run: the headline says whether data flows, the graph shows where, the dock below what is there.
import { Dock } from "./dock.js";
import { count, duration } from "./format.js";
import { Graph } from "./graph.js";
import { html } from "./html.js";
import { go, state } from "./live.js";
import { chip, empty, link, note, segments } from "./parts.js";

const MODES = [["pressure", "Pressure"], ["lag", "Lag"], ["kind", "Kind"]];
const LEGENDS = {
  pressure: [["flow-0", "idle"], ["flow-1", "flowing"], ["flow-2", "filling, 75 % and more"], ["flow-3", "full: what writes here waits"]],
  lag: [["flow-0", "reads nothing"], ["flow-1", "up to date"], ["flow-2", "more than 1 s behind"], ["flow-3", "more than 10 s behind"]],
  kind: [["topic", "topic"], ["engine", "in the engine"], ["spark", "on Spark"]],
};

export default {
  props: ["name"],
  computed: {
    mode: () => (MODES.some(([key]) => key === state.query.by) ? state.query.by : "pressure"),
    chosen() {
      if (this.name) return { kind: "processor", name: this.name };
      if (state.query.topic) return { kind: "topic", name: state.query.topic };
      return state.query.processor ? { kind: "processor", name: state.query.processor } : null;
    },
  },
  methods: {
    choose(node) {
      const query = { by: state.query.by };
      if (node) query[node.kind] = node.name;
      go("/", query, true);
      if (node) this.$nextTick(() => this.$refs.dock?.$el.scrollIntoView({ block: "nearest", behavior: "smooth" }));
    },
    // Reasons of the run's health that the headline does not tell already.
    reasons() {
      const { reasons, headline } = state.overview, told = `${headline.text} ${headline.detail}`;
      return reasons.filter((reason) => !told.includes(reason.includes(": ") ? reason.slice(reason.indexOf(": ") + 2) : reason));
    },
    about() {
      const { headline } = state.overview;
      if (!headline.processor && !headline.topic) return null;
      const node = headline.processor ? { kind: "processor", name: headline.processor } : { kind: "topic", name: headline.topic };
      if (!state.overview[`${node.kind}s`][node.name]) return null;
      return html`<button type="button" class="btn" onClick=${() => this.choose(node)}>Why</button>`;
    },
  },
  render() {
    const seen = state.overview;
    if (!seen || !state.graph) return html`<div class="page"><p class="crumbs">Graph</p><h1 class="soft">Reading the run…</h1></div>`;
    const { headline } = seen;
    const nothing = !Object.keys(seen.topics).length && !Object.keys(seen.processors).length;
    return html`<div class="page">
      <header class="page-head"><div><p class="crumbs">${seen.folder} / ${seen.config}</p>
        <h1 aria-live="polite" class=${`says ${headline.level}`}>${headline.text}</h1><p class="lead">${headline.detail}</p></div>
        <div class="actions">${this.about()}${segments("Colour by", MODES, this.mode, (by) => go(state.path, { ...state.query, by: by === "pressure" ? "" : by }, true))}</div></header>
      ${this.reasons().map((reason) => note("warn", "▲", reason))}
      ${nothing ? html`<section class="card">${empty("A file describes it, one command runs it", "Add a topic and a processor to the file; gauss new writes a commented one. Topics and processors appear here when you start again.", link("/pipeline", "See the file", { class: "btn solid" }))}</section>`
        : html`<${Graph} graph=${state.graph} mode=${this.mode} chosen=${this.chosen} onChoose=${this.choose} />`}
      ${this.chosen && html`<${Dock} ref="dock" key=${this.chosen.kind + this.chosen.name} node=${this.chosen} onClose=${() => this.choose(null)} />`}
      <p class="legend">${LEGENDS[this.mode].map(([tint, text]) => html`<span><i style=${{ background: `var(--${tint})` }}></i>${text}</span>`)}<span class="faint">width of a line: records per second</span></p>
    </div>`;
  },
};
