// The pipeline file as it runs, with the faults of `gauss check` in place; each entry is a link to its node.
import * as api from "./api.js";
import { plural } from "./format.js";
import { html } from "./html.js";
import { state } from "./live.js";
import { button, failure, link, note } from "./parts.js";

const TOML = /("""[\s\S]*?"""|"(?:[^"\\]|\\.)*"|'[^']*')|(#.*$)|(^\s*\[\[?[^\]]+\]\]?)|\b(true|false)\b|\b(-?\d[\d_.]*)\b|([A-Za-z_][\w.-]*)(?=\s*=)/gm;

export function toml(line) {
  const parts = [];
  let at = 0;
  for (const found of line.matchAll(TOML)) {
    if (found.index > at) parts.push(line.slice(at, found.index));
    const kind = found[1] ? "s" : found[2] ? "faint" : found[3] || found[4] ? "w" : found[5] ? "d" : "k";
    parts.push(html`<span class=${kind}>${found[0]}</span>`);
    at = found.index + found[0].length;
  }
  return [...parts, line.slice(at)];
}

export default {
  data: () => ({ found: null, error: null }),
  mounted() { this.read(); },
  methods: {
    async read() {
      try {
        this.found = await api.get("/api/pipeline");
        this.error = null;
      } catch (error) {
        this.error = error;
      }
    },
    entry(entry) {
      const node = this.to(entry);
      return html`  <small class="faint">${entry.name}${node ? " · " : ""}</small>${node}`;
    },
    to(entry) {
      if (entry.kind === "topic" && state.overview?.topics[entry.name]) return link("/", "graph", { query: { topic: entry.name }, "aria-label": `${entry.name} in the graph` });
      if (entry.kind === "processor" && state.overview?.processors[entry.name]) return link("/", "graph", { query: { processor: entry.name }, "aria-label": `${entry.name} in the graph` });
      return entry.kind === "sync" ? link(`/syncs/${encodeURIComponent(entry.name)}`, "sync", { "aria-label": `sync ${entry.name}` }) : null;
    },
  },
  render() {
    if (!this.found) return html`<div class="page"><h1 class="soft">Reading the file…</h1>${failure(this.error)}</div>`;
    const { file, text, faults, entries, changed } = this.found;
    const errors = faults.filter((each) => !each.warning), warnings = faults.length - errors.length;
    const said = errors.length ? `${file} has ${plural(errors.length, "error")}` : changed ? `${file} has changed since the start` : `${file} runs as it stands`;
    const lead = errors.length ? "The run goes on with what it has read; it would not start again with this file." : changed ? "It is valid. Stop gauss run and start it again to use it." : `${plural(entries.length, "entry", "entries")}, ${warnings ? plural(warnings, "warning") : "no faults"}.`;
    return html`<div class="page"><header class="page-head"><div><p class="crumbs">Pipeline file</p><h1 class="says">${said}</h1><p class="lead">${lead}</p></div><div class="actions">${button("Check again", this.read)}</div></header>
      ${faults.length > 0 && html`<div class="stack">${faults.map((each) => note(each.warning ? "warn" : "bad", each.warning ? "▲" : "✕", html`<b>Line ${each.line}.</b> ${each.message}${each.expected ? `: expected ${each.expected}` : ""}${each.found ? `, found ${each.found}` : ""}. ${each.hint}`))}</div>`}
      <section class="card wide"><div class="code lines" role="region" aria-label=${file} tabindex="0">${text.replace(/\n$/, "").split("\n").map((line, index) => {
        const number = index + 1, here = faults.filter((each) => each.line === number), entry = entries.find((each) => each.line === number);
        const tint = here.some((each) => !each.warning) ? "err" : here.length ? "warned" : "";
        return [html`<div key=${number} class=${tint} data-line=${number}><span class="ln">${number}</span>${toml(line)}${entry ? this.entry(entry) : null}</div>`,
          here.map((each) => html`<div class="${tint} under small"><span class="ln"></span>${" ".repeat(Math.max(0, each.column - 1))}↑ ${each.message}</div>`)];
      })}</div></section></div>`;
  },
};
