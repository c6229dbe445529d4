// The audit log: who changed what, and when.
import * as api from "../api.js";
import { clock, plural, utc } from "../format.js";
import { html } from "../html.js";
import { state } from "../live.js";
import { button, empty, failure, link } from "../parts.js";
import { polling } from "../polling.js";

const PAGE = 100, LOOK_MS = 3000;

const said = {
  "pipeline.create": () => "made the pipeline",
  "pipeline.delete": () => "deleted the pipeline",
  "pipeline.update": (detail) => `changed ${Object.entries(detail).map(([key, value]) => `${key.replace("_", " ")} to ${api.stringify(value)}`).join(", ")}`,
  "pipeline.state": ({ desired, replicas }) => [desired && (desired === "started" ? "started it" : "stopped it"), replicas && `set ${plural(replicas, "replica")}`].filter(Boolean).join(" and "),
  "config.rollback": ({ to, version }) => `rolled back to version ${to}, as version ${version}`,
  "letter.edit": ({ offset }) => `corrected the dead letter of offset ${offset}`,
  "letter.replay": ({ offset }) => `replayed the dead letter of offset ${offset}`,
  "letters.discard": ({ count }) => `discarded ${plural(count, "dead letter")}`,
  "pending.newest_config": ({ ranges }) => `let ${plural(ranges, "stuck range")} use the newest config`,
  "token.create": ({ name, role }) => `made the token ${name} with the role ${role}`,
  "token.revoke": ({ name }) => `revoked the token ${name}`,
};
const sentence = ({ action, detail }) => {
  if (said[action]) return said[action](detail);
  if (action.startsWith("config.")) return `changed the ${action.slice(7)} config, version ${detail.version}`;
  return `${action} ${Object.entries(detail).map(([key, value]) => `${key} ${typeof value === "object" ? api.stringify(value) : value}`).join(", ")}`;
};

export default {
  mixins: [polling({ look: LOOK_MS })],
  data: () => ({ entries: null, failed: null, whole: false }),
  methods: {
    async look(signal) {
      if ((this.entries?.length ?? 0) > PAGE) return false; // older ones are looked at
      const found = await api.get("/api/audit", { limit: PAGE, pipelineId: state.query.pipeline }, signal);
      Object.assign(this, { entries: found, whole: found.length < PAGE });
    },
    async more() {
      this.failed = null;
      try {
        const found = await api.get("/api/audit", { limit: PAGE, before: this.entries.at(-1).id, pipelineId: state.query.pipeline });
        Object.assign(this, { entries: [...this.entries, ...found], whole: found.length < PAGE });
      } catch (error) {
        this.failed = error;
      }
    },
    about(entry) {
      const row = state.overview?.pipelines[entry.pipelineId];
      if (row) return link(`/pipelines/${row.id}`, row.name, { class: "name" });
      return entry.pipelineId ? html`<span class="soft">${entry.detail.name ?? entry.pipelineId}</span>` : "–";
    },
  },
  render() {
    if (!this.entries) return html`<div class="page"><h1 class="soft">Reading the audit log…</h1>${failure(this.error)}</div>`;
    const [newest] = this.entries, people = new Set(this.entries.map((each) => each.who)).size;
    const text = newest ? `${newest.who} made the last change, ${clock(newest.at)}` : "Nobody has changed anything yet";
    return html`<div class="page"><header class="page-head"><div><p class="crumbs">Audit</p><h1 class="says">${text}</h1><p class="lead">${newest ? `${plural(this.entries.length, "change")} shown, made by ${plural(people, "token")}. Secrets are never written here.` : "Each change of a pipeline, its config or a token is noted here with its author."}</p></div></header>${failure(this.failed ?? this.error)}
      ${!newest ? html`<section class="card">${empty("Who changed what, and when", "The first pipeline that is made is the first line.", link("/", "See the pipelines", { class: "btn" }))}</section>` : html`
      <section class="card wide"><table class="table"><thead><tr><th>When</th><th>Who</th><th>What</th><th>Pipeline</th></tr></thead>
        <tbody>${this.entries.map((entry) => html`<tr key=${entry.id}><td title=${utc(entry.at)}>${clock(entry.at)}</td><td>${entry.who}</td><td>${sentence(entry)}</td><td>${this.about(entry)}</td></tr>`)}</tbody></table>
        ${!this.whole && html`<div class="pad">${button("Show older ones", this.more)}</div>`}</section>`}</div>`;
  },
};
