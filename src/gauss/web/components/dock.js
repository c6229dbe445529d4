// What stands below the graph for the chosen node: a topic with its tail, or a processor with plan and actions.
import { html } from "./html.js";
import { ProcessorDock } from "./processor.js";
import { Tail } from "./tail.js";
import { count, duration, percent, rate } from "./format.js";
import { icon } from "./icons.js";
import { state } from "./live.js";
import { chip, closing, empty, link } from "./parts.js";

export const Dock = {
  props: ["node"],
  emits: ["close"],
  methods: {
    topic(name, row) {
      const word = row.pressure === "full" ? "blocking" : row.pressure;
      const reader = row.blocked_by.replace("_table.", "the table "), reads = (state.overview.processors[row.blocked_by] ?? row.insert)?.rate ?? 0;
      const why = row.blocked_by && (row.blocked_by === state.overview.bottleneck ? state.overview.bottleneck_why : `${reader} reads ${rate(reads)}; producers wait for ${duration(1000 * row.blocked_s)}, nothing is dropped`);
      return html`<header class="dock-head"><h2>${icon("topic")}${name}</h2>${chip(row.pressure, word)}
          <dl class="facts"><dt>in</dt><dd>${rate(row.rate)}</dd>${row.fill !== null && [html`<dt>full</dt>`, html`<dd>${percent(row.fill)}</dd>`]}<dt>holds</dt><dd>${count(row.records)}</dd></dl>
          ${why && html`<span class="why bad">${why}</span>`}<span class="push"></span>
          ${link(`/topics/${encodeURIComponent(name)}`, "Open topic", { class: "btn" })}${closing(() => this.$emit("close"), "Close the dock")}</header>
        <${Tail} topic=${name} />`;
    },
  },
  render() {
    const { kind, name } = this.node;
    const row = state.overview[`${kind}s`]?.[name];
    const gone = () => html`<header class="dock-head"><h2>${name}</h2>${chip("gone")}<span class="push"></span>${closing(() => this.$emit("close"), "Close the dock")}</header>
      ${empty(`There is no ${kind} "${name}" in this run`, "It was removed from the file, or renamed. Its link is from an earlier run.")}`;
    return html`<section class="dock card" aria-label="${kind} ${name}">
      ${!row ? gone() : kind === "topic" ? this.topic(name, row) : html`<${ProcessorDock} name=${name} row=${row} onClose=${() => this.$emit("close")} />`}</section>`;
  },
};
