// Versions of a pipeline's config: who changed what, what differs, and a way back.
import * as api from "../api.js";
import { clock, plural, utc } from "../format.js";
import { html } from "../html.js";
import { go, state, toast } from "../live.js";
import { action, Confirm, empty, failure } from "../parts.js";

const value = (given) => (given === null || given === undefined ? "–" : typeof given === "string" ? given : api.stringify(given));

export default {
  props: ["row"],
  data: () => ({ versions: null, changes: null, error: null, asking: false, busy: false }),
  computed: { chosen() { return Number(state.query.version) || this.row.version; } },
  watch: {
    "row.version"() { this.read(); },
    chosen() { this.compare(); },
  },
  mounted() { this.read(); },
  methods: {
    path(...parts) { return api.path("pipelines", this.row.id, "versions", ...parts); },
    async read() {
      try {
        this.versions = await api.get(this.path());
        await this.compare();
      } catch (error) {
        this.error = error;
      }
    },
    async compare() {
      if (!this.chosen) return;
      try {
        Object.assign(this, { changes: await api.get(this.path("diff"), { before: this.chosen - 1, after: this.chosen }), error: null });
      } catch (error) {
        this.error = error;
      }
    },
    async rollback() {
      this.busy = true;
      try {
        const { version } = await api.post(this.path(this.chosen, "rollback"));
        toast(`Version ${version} equals version ${this.chosen}; it applies to the next range`);
        this.asking = false;
        go(state.path, {}, true);
        await this.read();
      } catch (error) {
        this.error = error;
      }
      this.busy = false;
    },
  },
  render() {
    if (!this.versions) return html`<div>${failure(this.error) ?? html`<p class="soft">Reading versions…</p>`}</div>`;
    if (!this.versions.length) return html`<section class="card">${empty("No version yet", "Each change of the config makes a version, with its author and what differs.")}</section>`;
    const one = this.versions.find((each) => each.version === this.chosen) ?? this.versions[0];
    return html`<div class="card panes versions"><section><header><h2>${plural(this.versions.length, "version")}</h2><small>newest first</small></header><div class="pane-list">${this.versions.map((each) => html`
        <button key=${each.version} type="button" class="pick" aria-current=${String(each === one)} onClick=${() => go(state.path, { version: each.version }, true)}><span><b>Version ${each.version}</b><small title=${utc(each.at)}>${clock(each.at)}</small></span><small>${each.kinds.join(", ")} · ${each.who}${each.note && ` · ${each.note}`}</small></button>`)}</div></section>
      <section><header><h2>What version ${one.version} changed</h2><span class="push"></span>${one.version !== this.row.version && action(`Go back to version ${one.version}`, () => (this.asking = true), { "data-testid": "rollback" })}</header>
        <div class="letter">${failure(this.error)}<div class="code diff">${(this.changes ?? []).map((each) => html`<div key=${each.path} class="faint">${each.path}</div>${each.before !== null && html`<div class="del">− ${value(each.before)}</div>`}${each.after !== null && html`<div class="add">+ ${value(each.after)}</div>`}`)}${this.changes?.length === 0 && html`<div class="soft">Nothing differs.</div>`}</div>
          <p class="soft small">Secrets are masked. A running pipeline takes a new version at the next range; ranges that are in hand end with theirs.</p></div></section>
      ${this.asking && html`<${Confirm} title=${`Go back to version ${one.version}?`} goes=${[`a new version ${this.row.version + 1} equals version ${one.version}`]} stays=${["all versions stay, so this can be undone", "rows that were written stay as they are"]} verb="Go back" keep="Leave it" danger=${false} error=${this.error} busy=${this.busy} onYes=${this.rollback} onNo=${() => (this.asking = false)} />`}</div>`;
  },
};
