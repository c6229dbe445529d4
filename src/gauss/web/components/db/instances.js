// Instances with what is left of their time. One that is opened shows its connections and what can be done with it.
import * as api from "../api.js";
import { plural, utc } from "../format.js";
import { html } from "../html.js";
import { icon } from "../icons.js";
import { state, toast } from "../live.js";
import { Confirm, action, button, copy, failure, link } from "../parts.js";
import { Remove } from "./remove.js";
import { left, short } from "./words.js";

const LOOK_MS = 2000;

export const Instances = {
  props: ["instances", "states", "open"],
  emits: ["changed"],
  data: () => ({ chosen: null, detail: null, dsn: null, error: null, asking: null, busy: false }),
  watch: {
    instances(found) { if (!this.asking && this.chosen && !found.some((each) => each.instance_id === this.chosen)) this.choose(this.chosen); },
  },
  created() { if (this.open) this.choose(this.open); },
  beforeUnmount() {
    this.over = true;
    clearTimeout(this.timer);
  },
  methods: {
    choose(id) {
      clearTimeout(this.timer);
      Object.assign(this, { chosen: this.chosen === id ? null : id, detail: null, dsn: null, error: null });
      if (this.chosen) this.look();
    },
    async look() {
      const id = this.chosen;
      if (!document.hidden)
        try {
          const found = await api.get(api.path("databases", "instances", id));
          if (this.chosen === id) this.detail = found;
        } catch (error) {
          if (this.chosen === id) this.error = error;
        }
      if (this.chosen === id && !this.over) this.timer = setTimeout(() => this.look(), LOOK_MS);
    },
    async act(run, said) {
      this.busy = true;
      try {
        const found = await run(api.path("databases", "instances", this.chosen));
        Object.assign(this, { error: null, asking: null });
        if (said) toast(said);
        this.$emit("changed");
        return found;
      } catch (error) {
        this.error = error;
      } finally {
        this.busy = false;
      }
    },
    async connect() { this.dsn = (await this.act((path) => api.post(`${path}/connection`)))?.dsn ?? null; },
    reset() { return this.act((path) => api.post(`${path}/reset`), `${short(this.chosen)} has the content of its state again`); },
    keep(kept) { return this.act((path) => api.patch(path, { kept }), kept ? "It is kept until it is removed" : "Its time runs again"); },
    removed() {
      this.choose(this.chosen);
      this.asking = null;
      this.$emit("changed");
    },
    details(one) {
      const { detail, dsn } = this;
      const used = detail && (detail.connections ? plural(detail.connections, "connection") : "no connections");
      return html`<div class="instance-more">${detail ? html`<p class="small soft">${used} · port ${detail.port} · ${detail.runtime} · since <span title=${utc(detail.created_ms)}>${new Date(detail.created_ms).toLocaleTimeString("sv")}</span> · made by ${link(`/db/jobs/${detail.job_id}`, short(detail.job_id), { class: "mono" })}</p>` : !this.error && html`<p class="small soft">Reading…</p>`}
        ${dsn && html`<label class="code-field"><span class="sr">DSN</span><input readonly value=${dsn} data-testid="dsn" onFocus=${(event) => event.target.select()} /></label>`}${failure(this.error)}
        <div class="actions">${dsn ? button("Copy", () => copy(dsn, "The DSN, with its password,")) : action("Show DSN", this.connect, { busy: this.busy, "data-testid": "connect" })}
          ${action("Reset", () => (this.asking = { what: "reset", one }), { busy: this.busy, "data-testid": "reset" })}${!one.held && action(one.kept ? "Do not keep" : "Keep", () => this.keep(!one.kept), { busy: this.busy, "data-testid": "keep" })}${action("Remove", () => (this.asking = { what: "remove", one }), { kind: "danger", "data-testid": "remove" })}</div></div>`;
    },
    row(one) {
      const time = left(one, state.now), open = this.chosen === one.instance_id, from = this.states.find((each) => each.state_id === one.state_id);
      const word = one.status === "stopped" ? "stopped" : one.held ? "in use by a process" : "up";
      return html`<li key=${one.instance_id} data-id=${one.instance_id}><button type="button" class="instance" aria-expanded=${String(open)} onClick=${() => this.choose(one.instance_id)}>
          <span class="line"><b class=${one.name ? "clip" : "mono"}>${one.name ?? short(one.instance_id)}</b><small>${word}</small></span>
          <span class="line"><small class="clip">${from?.title ?? short(one.state_id)}</small><span class="lease ${time.tint}" role="img" aria-label=${`time left: ${time.text}`} style=${{ "--v": time.share }}></span><small class="time">${time.text}</small>${icon("more")}</span></button>
        ${open && this.details(one)}</li>`;
    },
  },
  render() {
    const { asking } = this, one = asking?.one;
    return html`<section class="card"><header><h2>Databases</h2><small class="soft">${this.instances.length || ""}</small></header>
      ${this.instances.length ? html`<ul class="instances">${this.instances.map(this.row)}</ul>` : html`<p class="pad soft small">None is up. A prepared database is a clone of a state, with a server, a port and a password of its own.</p>`}
      ${asking?.what === "reset" && html`<${Confirm} title=${`Reset ${one.name ?? short(one.instance_id)}?`} goes=${["Everything that was written to it since it was made.", "Its connections are cut."]} stays=${["Its address and password, and the state."]} verb="Reset" busy=${this.busy} error=${this.error} onYes=${this.reset} onNo=${() => (this.asking = null)} />`}
      ${asking?.what === "remove" && html`<${Remove} kind="instances" id=${one.instance_id} title=${`database ${one.name ?? short(one.instance_id)}`} states=${this.states} onDone=${this.removed} onNo=${() => (this.asking = null)} />`}</section>`;
  },
};
