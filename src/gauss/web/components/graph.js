// The graph of a run. A node is a button; its border shows pressure, lag or kind; a line is as wide as its rate.
import { markRaw } from "vue";
import { count, duration, exact, percent, rate } from "./format.js";
import { html } from "./html.js";
import { icon } from "./icons.js";
import { NODE, grouped, keyOf, place } from "./layout.js";
import { state } from "./live.js";

const FLOW = { idle: 0, flowing: 1, filling: 2, full: 3, failed: 3 };
const WORDS = { idle: "idle", flowing: "flowing", filling: "filling", full: "full", failed: "failed" };
const MOST_BEADS = 60, MOST_LABELS = 90;
const LATE_MS = 1000, VERY_LATE_MS = 10000;

export const Graph = {
  props: ["graph", "mode", "chosen"],
  emits: ["choose"],
  data: () => ({ width: 0, open: new Set() }),
  mounted() {
    this.observer = new ResizeObserver(([seen]) => (this.width = Math.floor(seen.contentRect.width)));
    this.observer.observe(this.$el);
  },
  beforeUnmount() { this.observer.disconnect(); },
  computed: {
    statics() {
      const { topics, processors } = this.graph;
      return markRaw({
        topic: Object.fromEntries(topics.map((each) => [each.name, each])),
        processor: Object.fromEntries(processors.map((each) => [each.name, each])),
      });
    },
    drawn() {
      const inner = (kind, name) => kind === "processor" && name.startsWith("_table.");
      const columns = this.graph.columns.map((column) => column.filter(([kind, name]) => !inner(kind, name)).map(([kind, name]) => keyOf(kind, name))).filter((column) => column.length);
      const arrows = this.graph.edges.filter(([from, to]) => !inner(...from) && !inner(...to)).map(([from, to]) => [keyOf(...from), keyOf(...to)]);
      return markRaw(grouped(columns, arrows, this.open));
    },
    laid() {
      return this.width ? markRaw(place(this.drawn.columns, this.drawn.arrows, this.width)) : null;
    },
  },
  methods: {
    row(key) {
      const group = this.drawn.groups[key];
      if (!group) {
        const [kind, name] = key.split(/ (.*)/);
        return state.overview[`${kind}s`][name];
      }
      const rows = group.members.map((name) => state.overview[`${group.kind}s`][name]).filter(Boolean);
      const worst = rows.reduce((most, row) => (FLOW[row.pressure] > FLOW[most] ? row.pressure : most), "idle");
      const fills = rows.map((row) => row.fill).filter((fill) => fill !== null && fill !== undefined);
      return { rate: rows.reduce((sum, row) => sum + row.rate, 0), pressure: worst, behind_ms: Math.max(0, ...rows.map((row) => row.behind_ms ?? 0)), fill: fills.length ? Math.max(...fills) : null };
    },
    kind(key) {
      const [first, name] = (this.drawn.groups[key] ? `${this.drawn.groups[key].kind} ${this.drawn.groups[key].members[0]}` : key).split(/ (.*)/);
      return first === "topic" ? "topic" : this.statics.processor[name]?.where === "spark" ? "spark" : "engine";
    },
    tint(key, row) {
      if (this.mode === "kind") return `var(--${this.kind(key)})`;
      if (this.mode === "pressure") return `var(--flow-${FLOW[row.pressure]})`;
      const late = row.behind_ms ?? 0;
      return `var(--flow-${late > VERY_LATE_MS ? 3 : late > LATE_MS ? 2 : row.rate ? 1 : 0})`;
    },
    lines() {
      const rows = this.drawn.arrows.map(([from, to]) => {
        const one = this.row(from), other = this.row(to);
        if (!one || !other) return null;
        const topic = from.includes("topic ") ? one : other, processor = from.includes("topic ") ? other : one;
        const name = to.split(/ (.*)/)[1];
        const blocks = topic === one && topic.blocked_by === name;
        let flow = Math.min(FLOW[topic.pressure], topic === one ? Math.max(FLOW[processor.pressure], blocks ? 3 : 0) : 3);
        if (topic === one && processor.rate && !blocks) flow = Math.max(flow, 1);
        if (topic !== one && FLOW[topic.pressure] === 3) flow = 2;
        return { rate: topic === one ? processor.rate : Math.min(topic.rate, processor.rate || topic.rate), flow, from, to };
      });
      const most = Math.max(1, ...rows.map((row) => row?.rate ?? 0));
      return rows.map((row, index) => row && { ...row, ...this.laid.paths[index], width: row.rate ? 1.5 + (4.5 * Math.log1p(row.rate)) / Math.log1p(most) : 1.5 });
    },
    line(one, beads) {
      const colour = this.mode === "pressure" ? `var(--flow-${one.rate ? Math.max(one.flow, 1) : one.flow})` : this.tint(one.to.startsWith("processor") ? one.to : one.from, this.row(one.to.startsWith("processor") ? one.to : one.from));
      return html`<g key=${one.from + one.to}><path d=${one.d} class="edge" style=${{ stroke: colour, strokeWidth: `${one.width.toFixed(1)}px` }} />
        ${beads && one.rate > 0 && html`<path d=${one.d} class="beads" style=${{ animationDuration: `${Math.max(0.8, 6 - Math.log10(one.rate + 1)).toFixed(1)}s` }} />`}</g>`;
    },
    subtitle(key) {
      const group = this.drawn.groups[key];
      if (group) return `${group.members.length} ${group.kind}s`;
      const [kind, name] = key.split(/ (.*)/);
      const one = this.statics[kind][name];
      if (kind === "topic") {
        const { records, bytes } = one.capacity ?? {};
        const bound = records ? exact(records) : bytes ? `${Math.round(bytes / 2 ** 20)} MiB` : "";
        return [one.table ? `${one.table} table` : one.kind === "table" ? `${one.storage} table` : one.storage, bound].filter(Boolean).join(" · ");
      }
      if (one.address) return `${one.plugin} · :${one.address.port}`;
      return `${one.plugin} · ${one.where === "spark" ? `Spark${one.runs === "hosted" ? ", hosted" : one.stateful ? ", stateful" : ""}` : "engine"}`;
    },
    aside(key, row) {
      const [kind, name] = key.split(/ (.*)/);
      if (this.mode === "kind") return "";
      if (this.mode === "lag") return row.behind_ms ? duration(row.behind_ms) : row.behind === undefined ? "" : "up to date";
      if (kind === "topic") return row.fill === null ? `${count(row.records)} kept` : percent(row.fill);
      if (kind === "group") return row.fill === null ? "" : `most ${percent(row.fill)}`;
      if (row.behind > 0) return `${count(row.behind)} behind`;
      const one = this.statics.processor[name];
      if (one.address) return `${row.connections} ${row.connections === 1 ? "peer" : "peers"}`;
      return row.batch_ms ? `${row.batch_ms} ms` : row.state === "running" ? "" : row.state;
    },
    flag(key, row) {
      const [kind, name] = key.split(/ (.*)/);
      if (kind === "processor" && state.overview.bottleneck === name) return "bottleneck";
      if (kind === "processor" && row.pressure === "failed") return row.state;
      if (kind === "topic" && row.blocked_by) return `full, ${duration(1000 * row.blocked_s)}`;
      return row.dead > 0 && kind === "processor" ? `${count(row.dead)} dead` : "";
    },
    node(key) {
      const row = this.row(key), at = this.laid.places[key];
      if (!row) return null;
      const group = this.drawn.groups[key];
      const [kind, name] = group ? [group.kind, group.prefix ? `${group.prefix}…` : "various"] : key.split(/ (.*)/);
      const flag = this.flag(key, row), where = this.kind(key);
      const chosen = this.chosen && keyOf(this.chosen.kind, this.chosen.name) === key;
      const choose = () => (group ? (this.open = new Set([...this.open, key])) : this.$emit("choose", chosen ? null : { kind, name }));
      const aside = this.aside(key, row);
      const label = `${kind} ${name}, ${WORDS[row.pressure]}, ${rate(row.rate)}${aside ? `, ${aside}` : ""}${flag ? `, ${flag}` : ""}`;
      const loud = this.mode !== "pressure" || FLOW[row.pressure] > 1;
      return html`<button key=${key} type="button" data-id=${key} class="node ${chosen ? "chosen" : ""} ${loud ? "loud" : ""}" aria-label=${label} aria-expanded=${String(Boolean(chosen))}
          style=${{ left: `${at.x}px`, top: `${at.y}px`, width: `${at.width ?? NODE.width}px`, "--n": this.tint(key, row) }} onClick=${choose}>
        <span class="node-name" style=${{ "--k": `var(--${where})` }}>${icon(where)}<b class="clip">${name}</b></span>
        <span class="node-sub clip">${this.subtitle(key)}</span>
        <span class="node-figures"><b>${count(row.rate)}<small> /s</small></b><span>${aside}</span></span>
        ${row.fill >= 0.02 && html`<i class="node-fill" style=${{ width: `${Math.min(100, 100 * row.fill)}%` }}></i>`}
        ${flag && html`<em class="flag ${row.dead && !row.blocked_by && row.pressure !== "failed" && flag !== "bottleneck" ? "warn" : "bad"}">${flag}</em>`}</button>`;
    },
  },
  render() {
    const laid = this.laid;
    if (!laid) return html`<section class="graph card" aria-label="Graph"></section>`;
    const lines = this.lines().filter(Boolean);
    const beads = lines.length <= MOST_BEADS;
    return html`<section class="graph card" aria-label="Graph of the pipeline" style=${{ height: `${laid.height}px` }}>
      <svg aria-hidden="true" width=${laid.width} height=${laid.height}>${lines.map((one) => this.line(one, beads))}
        ${lines.length <= MOST_LABELS && lines.filter((one) => one.rate > 0 && one.label).map((one) => html`<text key=${`t${one.from}${one.to}`} x=${one.label[0]} y=${one.label[1]}>${rate(one.rate)}</text>`)}</svg>
      ${this.drawn.columns.flat().map((key) => this.node(key))}
      ${this.open.size > 0 && html`<button type="button" class="btn fold" onClick=${() => (this.open = new Set())}>Fold all groups</button>`}</section>`;
  },
};
