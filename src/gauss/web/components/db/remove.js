// Asks before a removal: first a dry run says what goes and what forbids it, then the id of a state must be typed.
import * as api from "../api.js";
import { bytes, plural } from "../format.js";
import { html } from "../html.js";
import { toast } from "../live.js";
import { failure, note } from "../parts.js";
import { short } from "./words.js";

const MOST = 8;
const REASONS = {
  active_connections: "clients are connected to it", active_tasks: "it is in use by a job or a process",
  has_descendants: "other states or databases were made of it", blocked_by_descendant: "something below it is in use",
};

function flat(root) {
  const found = [], left = [root];
  while (left.length) {
    const node = left.pop();
    found.push(node);
    left.push(...[...node.children].reverse());
  }
  return found;
}

export const Remove = {
  props: ["kind", "id", "title", "states", "typed"],
  emits: ["done", "no"],
  data: () => ({ recurse: false, force: false, found: null, error: null, text: "", busy: false }),
  computed: {
    nodes() { return this.found ? flat(this.found.root) : []; },
    may() { return this.found?.outcome === "would_delete" && !this.busy && (!this.typed || this.text === this.typed); },
  },
  mounted() {
    this.$el.showModal();
    this.$el.querySelector("[data-keep]").focus();
    this.ask();
  },
  methods: {
    url(dry) { return api.withQuery(api.path("databases", this.kind, this.id), { ...(this.kind === "states" && { recurse: this.recurse }), force: this.force, dry_run: dry }); },
    async ask() {
      try {
        Object.assign(this, { found: await api.remove(this.url(true)), error: null });
      } catch (error) {
        this.error = error;
      }
    },
    async remove() {
      this.busy = true;
      try {
        await api.remove(this.url(false));
        toast(`${this.title} is removed`);
        this.$emit("done");
      } catch (error) {
        this.error = error;
        await this.ask(); // what forbids it now
        this.error = error;
      }
      this.busy = false;
    },
    node(node) {
      const known = this.states.find((each) => each.state_id === node.id);
      const name = node.kind === "state" ? html`${known?.title ?? "state"} <code>${short(node.id)}</code>` : html`database <code>${short(node.id)}</code>${node.connections > 0 && `, ${plural(node.connections, "connection")}`}`;
      return html`<li key=${node.id} class=${node.reason ? "why-not" : ""}>${name}${node.reason && html`<small>${REASONS[node.reason] ?? node.reason}</small>`}</li>`;
    },
    tree() {
      const states = this.nodes.filter((each) => each.kind === "state"), databases = this.nodes.length - states.length;
      const sizes = states.map((each) => this.states.find((one) => one.state_id === each.id)?.exclusive_bytes ?? 0);
      const blocked = this.found.outcome === "blocked";
      const what = [states.length && plural(states.length, "state"), databases && plural(databases, "database")].filter(Boolean).join(" and ");
      return html`<div class="dry" aria-live="polite"><p><b>${blocked ? "It can't be removed like this." : `${what} would go.`}</b> ${!blocked && this.kind === "states" && `At least ${bytes(sizes.reduce((sum, each) => sum + each, 0))} become free.`} Nothing is removed yet.</p>
        <ul class="goes">${this.nodes.slice(0, MOST).map(this.node)}${this.nodes.length > MOST && html`<li>and ${this.nodes.length - MOST} more</li>`}</ul></div>`;
    },
    option(name, text) { return html`<label class="option"><input type="checkbox" data-testid=${name} checked=${this[name]} onChange=${(event) => { this[name] = event.target.checked; this.ask(); }} />${text}</label>`; },
  },
  render() {
    const below = this.kind === "states" && (this.recurse || this.nodes.length > 1), force = this.force || this.nodes.some((each) => each.kind !== "state" && each.reason);
    return html`<dialog class="confirm" aria-label=${`Remove ${this.title}?`} onCancel=${(event) => { event.preventDefault(); this.$emit("no"); }}>
      <h2>Remove ${this.title}?</h2>
      ${this.found ? this.tree() : !this.error && html`<p class="soft dry">Looking at what depends on it…</p>`}
      ${below && this.option("recurse", "Also what was made of it: states and databases")}${force && this.option("force", "Also databases that are in use: their connections are cut")}
      ${this.found?.outcome === "would_delete" && this.kind === "states" && note("idle", "○", "Scripts and other states stay. What is removed can be prepared again.")}
      ${this.typed && this.found?.outcome === "would_delete" && html`<label class="field"><span>Type <b class="mono">${this.typed}</b> to confirm</span><input value=${this.text} data-testid="typed" autocomplete="off" spellcheck="false" onInput=${(event) => (this.text = event.target.value)} /></label>`}
      ${failure(this.error)}
      <footer><button type="button" class="btn" data-keep onClick=${() => this.$emit("no")}>Keep it</button><button type="button" class="btn danger solid" data-testid="really" disabled=${!this.may} onClick=${this.remove}>Remove</button></footer></dialog>`;
  },
};
