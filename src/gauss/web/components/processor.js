// A processor: state, plan in words, figures, last error, and its actions, each with a preview of what it will do.
import * as api from "./api.js";
import { count, duration, exact, rate } from "./format.js";
import { html } from "./html.js";
import { icon } from "./icons.js";
import { state, toast } from "./live.js";
import { Confirm, action, chip, closing, failure, link, note, sparkline } from "./parts.js";
import { polling } from "./polling.js";

const LOOK_MS = 2000;
const WORDS = { retry: "Retry", skip: "Skip", "drop-state": "Drop state", rebuild: "Rebuild", seek: "Seek" };

export const ProcessorDock = {
  props: ["name", "row"],
  emits: ["close"],
  mixins: [polling({ look: LOOK_MS })],
  data: () => ({ plan: null, detail: null, previews: [], told: "", readers: [], chosen: null, to: "earliest", reader: "", busy: false, failed: null }),
  methods: {
    async look(signal) {
      const { state: now } = this.row;
      this.plan ??= await api.get(api.path("processors", this.name, "plan"), {}, signal);
      if (now !== this.told) { // what is allowed depends on it
        this.previews = (await api.get(api.path("processors", this.name, "actions"), {}, signal)).actions;
        if (this.previews.length) this.readers = (await api.get("/api/readers", {}, signal)).readers.filter((each) => each.name === this.name && this.isSource(each.topic)).map((each) => each.topic);
        this.told = now;
      }
      this.detail = await api.get(api.path("processors", this.name), {}, signal);
    },
    // A topic that it reads, or a partition of one: not what replayed letters come by.
    isSource(topic) {
      const { sources = [] } = state.graph.processors.find((each) => each.name === this.name) ?? {};
      return sources.some((each) => topic === each.topic || topic.startsWith(`${each.topic}/`));
    },
    async ask(name) {
      this.failed = null;
      try {
        const found = await api.get(api.path("processors", this.name, "actions"), { to: this.to, topic: this.reader });
        const asked = found.actions.find((each) => each.action === name);
        if (asked?.allowed) this.chosen = asked;
        else this.failed = { message: asked?.refusal ?? `${WORDS[name]} is not possible`, hint: "" };
        if (name !== "seek") this.previews = found.actions;
      } catch (error) {
        this.failed = error;
      }
    },
    async run() {
      this.busy = true;
      const { action: name, topic, reader } = this.chosen;
      try {
        if (name === "seek") await api.post(api.path("readers", topic, reader, "seek"), { to: this.to });
        else await api.post(api.path("processors", this.name, name));
        toast(`${WORDS[name]} of ${this.name} is on its way`);
        this.chosen = null;
      } catch (error) {
        this.failed = error;
      }
      this.busy = false;
    },
    // What a seek moves: of a join one of its sources, of a topic in Kafka all of its partitions or one.
    choice() {
      const text = (topic) => (this.readers.some((each) => each.startsWith(`${topic}/`)) ? `${topic}, all partitions` : topic);
      return this.readers.length > 1 && html`<select aria-label="What a seek moves" onChange=${(event) => (this.reader = event.target.value)}>${this.readers.map((topic) => html`<option key=${topic} value=${topic} selected=${topic === (this.reader || this.readers[0])}>${text(topic)}</option>`)}</select>`;
    },
    facts() {
      const row = this.row, detail = this.detail ?? {};
      const spent = detail.tasks?.[0];
      return [
        ["reads", rate(row.rate)], ["behind", row.behind ? `${count(row.behind)} · ${duration(row.behind_ms)}` : "nothing"],
        ["last batch", row.batch_ms ? `${exact(detail.batch_rows ?? 0)} in ${row.batch_ms} ms` : "–"],
        ...(spent ? [["of that", `read ${Math.round(spent.read_ms)}, work ${Math.round(spent.work_ms)}, publish ${Math.round(spent.publish_ms)} ms`]] : []),
        ["epoch", detail.epoch >= 0 ? exact(detail.epoch) : "–"], ["dead letters", row.dead ? exact(row.dead) : "none"],
        ...(detail.late ? [["late", exact(detail.late)]] : []), ...(detail.address ? [["address", detail.address], ["peers", row.connections]] : []),
      ];
    },
  },
  render() {
    const row = this.row, failed = row.pressure === "failed";
    const limits = state.overview.bottleneck === this.name;
    const seekable = this.previews.find((each) => each.action === "seek");
    return [html`<header class="dock-head"><h2>${icon(this.plan && this.plan.runs !== "edge" && this.plan.runs !== "pump" ? "spark" : "engine")}${this.name}</h2>${chip(row.state)}
        ${limits && html`<span class="why bad">${state.overview.bottleneck_why}</span>`}<span class="push"></span>${closing(() => this.$emit("close"), "Close the dock")}</header>`,
      html`<div class="dock-body">
        ${this.error && failure(this.error)}
        ${(failed || (row.detail && row.state !== "running")) && note(failed ? "bad" : "warn", failed ? "✕" : "▲", html`<b>${row.state}.</b>`, ` ${row.detail || "No reason was given."}`)}
        <div class="split"><div><h3>Now</h3><div class="trend">${sparkline(state.history.processors[this.name] ?? [], failed ? "bad" : "ok", "records per second, last minute")}</div>
            <dl class="pairs">${this.facts().map(([name, value]) => [html`<dt>${name}</dt>`, html`<dd>${value}</dd>`])}</dl>
            ${row.dead > 0 && link("/dead", "See its dead letters", { query: { processor: this.name } })}</div>
          <div><h3>How it runs</h3>${this.plan && html`<p class="small soft">${this.plan.summary}</p><dl class="pairs plan">${this.plan.lines.filter((each) => each.step !== "runs").map((each) => [html`<dt>${each.step}</dt>`, html`<dd>${each.what}</dd>`])}</dl>`}</div></div>
        ${this.previews.length > 0 && html`<footer class="dock-actions">${this.previews.filter((each) => each.action !== "seek").map((each) => action(WORDS[each.action], () => this.ask(each.action), { disabled: !each.allowed || state.role !== "operator", title: each.refusal || each.what, "data-testid": each.action, kind: each.action === "rebuild" || each.action === "drop-state" ? "danger" : "" }))}
          ${seekable && html`<span class="seek">${this.choice()}<label class="sr" for="seek-to">Seek to</label><input id="seek-to" value=${this.to} onInput=${(event) => (this.to = event.target.value)} placeholder="earliest, end, 41 or -100" spellcheck="false" />${action("Seek", () => this.ask("seek"), { "data-testid": "seek" })}</span>`}</footer>`}
        ${failure(!this.chosen && this.failed)}</div>`,
      this.chosen && html`<${Confirm} title=${this.chosen.title} goes=${this.chosen.goes} stays=${this.chosen.stays} verb=${WORDS[this.chosen.action]} keep="Cancel" danger=${this.chosen.destructive}
        typed=${this.chosen.destructive ? this.name : ""} error=${this.failed} busy=${this.busy} onYes=${this.run} onNo=${() => (this.chosen = null)} />`];
  },
};
