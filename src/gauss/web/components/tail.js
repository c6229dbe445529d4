// The newest records of a topic, read anew twice a second while somebody looks: bounded at any rate of the topic. Rows of
// an external table have no place to go on from: each reading has all that is shown.
import * as api from "./api.js";
import { clock, count, exact, utc } from "./format.js";
import { html } from "./html.js";
import { coloured, empty, failure, note, segments, shown } from "./parts.js";

const PAUSE_MS = 600, KEPT = 200, AT_ONCE = 20;

export const Tail = {
  props: ["topic"],
  data: () => ({ rows: [], decoded: true, where: "", asked: "", paused: false, held: false, error: null, end: null, seen: 0, taken: 0, format: null, first: true, whole: false }),
  mounted() {
    this.alive = true;
    this.next();
  },
  beforeUnmount() {
    this.alive = false;
    clearTimeout(this.timer);
    this.request?.abort();
  },
  methods: {
    async next() {
      if (!this.paused && !this.held && !document.hidden) await this.read();
      if (this.alive) this.timer = setTimeout(() => this.next(), PAUSE_MS);
    },
    async read() {
      this.request = new AbortController();
      const query = { count: this.first || this.whole ? 50 : AT_ONCE, after: this.end, where: this.asked, decoded: this.decoded };
      try {
        const found = await api.get(api.path("topics", this.topic, "latest"), query, this.request.signal);
        this.error = null;
        this.rows = [...found.records.reverse(), ...(found.whole ? [] : this.rows)].slice(0, KEPT);
        Object.assign(this, { end: found.end, seen: found.seen, taken: found.records.length, format: found.format, first: false, whole: found.whole });
      } catch (error) {
        if (error.name !== "AbortError") this.error = error;
      }
    },
    restart() {
      this.request?.abort();
      clearTimeout(this.timer);
      Object.assign(this, { rows: [], end: null, asked: this.where.trim(), error: null, first: true, paused: false });
      this.next();
    },
    said() {
      if (this.paused) return "paused";
      if (this.held) return "held while you read";
      if (this.whole) return this.rows.length ? `the newest ${this.rows.length} rows` : "";
      if (!this.asked && this.seen > this.taken && this.taken) return `1 of ${Math.round(this.seen / this.taken)} shown`;
      return this.asked && this.seen ? `${this.taken} of ${count(this.seen)} match` : this.rows.length ? "every record is shown" : "";
    },
  },
  render() {
    const choose = (decoded) => { this.decoded = decoded; this.restart(); };
    return html`<div class="tail">
      <form class="tail-bar" onSubmit=${(event) => { event.preventDefault(); this.restart(); }}>
        ${segments("Form of records", [[false, "Raw"], [true, "Decoded"]], this.decoded, choose)}
        <label class="code-field"><span>where</span><input data-filter value=${this.where} placeholder=".bid > 100" spellcheck="false" autocomplete="off" aria-label="Only records where"
          aria-invalid=${String(Boolean(this.error))} onInput=${(event) => (this.where = event.target.value)} onBlur=${() => this.where.trim() !== this.asked && this.restart()} /></label>
        <span class="faint small tail-said" role="status">${this.said()}</span>
        <button type="button" class="btn" aria-pressed=${String(this.paused)} onClick=${() => (this.paused = !this.paused)}>${this.paused ? "Go on" : "Pause"}</button></form>
      ${this.error && html`<div class="pad">${failure(this.error)}</div>`}
      <div class="tail-rows" role="log" aria-live="off" aria-label="Newest records of ${this.topic}" tabindex="0"
          onMouseenter=${() => (this.held = true)} onMouseleave=${() => (this.held = false)} onFocus=${() => {}}>
        ${this.rows.map((row, index) => html`<div key=${this.whole ? index : `${row.offset} ${row.ts_ms}`} class="tail-row"><span title="offset">${exact(row.offset)}</span>
          <time title=${utc(row.ts_ms)}>${clock(row.ts_ms, true)}</time><code>${coloured(shown(row.data))}</code></div>`)}
        ${this.rows.length === 0 && !this.error && empty(this.asked ? "No record matches" : "No record has come yet", this.asked ? "The newest records were searched; the condition may name a field that they do not have." : "Records appear here as they arrive.")}</div></div>`;
  },
};
