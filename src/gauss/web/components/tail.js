// The newest records of a topic, read anew twice a second while somebody looks: bounded at any rate of the topic. Rows of
// an external table have no place to go on from: each reading has all that is shown.
import * as api from "./api.js";
import { clock, count, exact, utc } from "./format.js";
import { html } from "./html.js";
import { coloured, empty, failure, segments, shown, spaced } from "./parts.js";
import { polling } from "./polling.js";

const PAUSE_MS = 600, KEPT = 200, AT_ONCE = 20;

export const Tail = {
  mixins: [polling({ look: PAUSE_MS })],
  props: ["topic"],
  data: () => ({ rows: [], decoded: true, where: "", asked: "", paused: false, hovered: false, focused: false, scrolled: false, end: null, seen: 0, taken: 0, matched: 0, searched: 0, unsearched: 0, format: null, first: true, whole: false }),
  computed: {
    held() { return this.hovered || this.focused || this.scrolled; },
  },
  methods: {
    async look(signal) {
      if (this.paused || (this.held && !this.first)) return false;
      const query = { count: this.first || this.whole ? 50 : AT_ONCE, after: this.end, where: this.asked, decoded: this.decoded };
      const found = await api.get(api.path("topics", this.topic, "latest"), query, signal);
      this.rows = [...found.records.reverse(), ...(found.whole ? [] : this.rows)].slice(0, KEPT);
      if (found.searched !== null) {
        this.matched += found.matched;
        this.searched += found.searched;
        this.unsearched += this.first ? 0 : found.seen - found.searched; // nobody has asked for older ones
      }
      Object.assign(this, { end: found.end, seen: found.seen, taken: found.records.length, format: found.format, first: false, whole: found.whole });
    },
    restart() {
      Object.assign(this, { rows: [], end: null, asked: this.where.trim(), first: true, paused: false, scrolled: false, matched: 0, searched: 0, unsearched: 0 });
      this.again("look");
    },
    said() {
      if (this.paused) return "paused";
      if (this.held) return "held while you read";
      if (this.asked && !this.searched) return this.rows.length ? `the newest ${this.rows.length} that match` : "";
      if (this.asked) return `${count(this.matched)} of the newest ${count(this.searched)} match${this.unsearched > 0 ? `, ${count(this.unsearched)} were not searched` : ""}`;
      if (this.whole) return this.rows.length ? `the newest ${this.rows.length} rows` : "";
      if (this.seen > this.taken && this.taken) return `1 of ${Math.round(this.seen / this.taken)} shown`;
      return this.rows.length ? "every record is shown" : "";
    },
    // Decoded records have fields of any name; bytes that are no text stand alone.
    text(data) { return typeof data === "string" || !(this.whole || (this.decoded && this.format)) ? shown(data) : spaced(data); },
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
          onMouseenter=${() => (this.hovered = true)} onMouseleave=${() => (this.hovered = false)} onScroll=${(event) => (this.scrolled = event.target.scrollTop > 0)}
          onFocus=${(event) => (this.focused = event.target.matches(":focus-visible"))} onBlur=${() => (this.focused = false)}>
        ${this.rows.map((row, index) => html`<div key=${this.whole ? index : `${row.offset} ${row.ts_ms}`} class="tail-row"><span title="offset">${exact(row.offset)}</span>
          <time title=${utc(row.ts_ms)}>${clock(row.ts_ms, true)}</time><code>${coloured(this.text(row.data))}</code></div>`)}
        ${this.rows.length === 0 && !this.first && !this.error && empty(this.asked ? "No record matches" : "No record has come yet", this.asked ? "The newest records were searched; the condition may name a field that they do not have." : "Records appear here as they arrive.")}</div></div>`;
  },
};
