// The scan box: a program with completion of fields, faults under the caret, cost and time, rows as table or JSON.
import * as api from "./api.js";
import { bytes, count, exact } from "./format.js";
import { html } from "./html.js";
import { state } from "./live.js";
import { coloured, copy, empty, segments, spaced } from "./parts.js";

const LIMIT = 200, CHECK_MS = 350;
const RANGES = [[0, "All"], [1, "Last minute"], [15, "15 min"], [60, "1 h"]];
const WORDS = ["select(", "count", "sum(", "min(", "max(", "group_by(", "contains(", "startswith(", "length", "tonumber", "tostring"];

const flat = (value, prefix = "") => value && typeof value === "object" && !Array.isArray(value) ? Object.entries(value).flatMap(([key, item]) => [`${prefix}.${key}`, ...flat(item, `${prefix}.${key}`)]) : [];

export const Scan = {
  props: ["topic", "timed"],
  data: () => ({ program: "", fields: {}, fault: null, plan: null, rows: null, took: 0, used: null, error: null, busy: false, form: "table", at: -1, word: "", format: "" }),
  async mounted() {
    try {
      const found = await api.get(api.path("topics", this.topic, "latest"), { count: 20, decoded: true });
      this.format = found.format?.name ?? "json";
      for (const row of found.records) {
        let data = row.data;
        if (typeof data === "string") try { data = api.parse(data); } catch { data = null; }
        for (const field of flat(data)) this.fields[field] ??= typeof field.split(".").slice(1).reduce((value, key) => value?.[key], data);
      }
    } catch (error) {
      this.error = error;
    }
    this.check();
  },
  beforeUnmount() { clearTimeout(this.timer); },
  computed: {
    suggestions() {
      if (!this.word) return [];
      const all = this.word.startsWith(".") ? Object.entries(this.fields) : WORDS.map((each) => [each, "function"]);
      return all.filter(([name]) => name.startsWith(this.word) && name !== this.word).slice(0, 8);
    },
    command() { return `gauss scan ${this.topic} ${quoted(this.program || ".")}${this.asked.format ? ` --format ${this.format}` : ""} --data-dir ${quoted(state.overview.data_dir)}`; },
    asked() { return { program: this.program.trim(), format: this.program.trim() ? this.format : "" }; },
    curl() {
      const url = `${location.origin}${api.path("topics", this.topic, "scan")}`;
      return `curl -sS -G -H "Authorization: Bearer $(cat ${quoted(`${state.overview.data_dir}/read.token`)})" ${url} --data-urlencode ${quoted(`program=${this.asked.program}`)}${this.asked.format ? ` --data-urlencode format=${this.format}` : ""}`;
    },
  },
  methods: {
    typed(event) {
      this.program = event.target.value;
      const before = this.program.slice(0, event.target.selectionStart);
      this.word = before.match(/[.\w]+$/)?.[0] ?? "";
      this.at = -1;
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.check(), CHECK_MS);
    },
    key(event) {
      const many = this.suggestions.length;
      if (many && ["ArrowDown", "ArrowUp"].includes(event.key)) {
        event.preventDefault();
        this.at = (this.at + (event.key === "ArrowDown" ? 1 : -1) + many) % many;
      } else if (many && this.at >= 0 && event.key === "Enter") {
        event.preventDefault();
        this.complete(this.suggestions[this.at][0]);
      } else if (event.key === "Escape") this.word = "";
    },
    complete(name) {
      const field = this.$el.querySelector("input");
      const start = field.selectionStart - this.word.length;
      this.program = this.program.slice(0, start) + name + this.program.slice(field.selectionStart);
      this.word = "";
      this.check();
      this.$nextTick(() => { field.focus(); field.setSelectionRange(start + name.length, start + name.length); });
    },
    async check() {
      const { asked } = this;
      const say = (found) => asked === this.asked && Object.assign(this, found); // an answer to what is still typed there
      try {
        const plan = await api.get(api.path("topics", this.topic, "scan", "explain"), asked);
        say({ plan, fault: null });
      } catch (fault) {
        say({ plan: null, fault });
      }
    },
    async run() {
      this.word = "";
      this.busy = true;
      const began = performance.now();
      try {
        const { rows } = await api.lines(api.path("topics", this.topic, "scan"), { ...this.asked, program: await this.bounded(), limit: LIMIT, cost: true });
        const { cost = null, error = null } = rows.pop() ?? {}; // the last line is never a row: what it cost, or why it ended
        Object.assign(this, { used: cost, error, rows });
      } catch (error) {
        this.error = error;
      }
      this.took = performance.now() - began;
      this.busy = false;
    },
    // The last minutes as a view of the program, so that it can be changed and copied.
    since(minutes) {
      const rest = this.program.replace(/^\s*range\(ts:[^)]*\)\s*\|?\s*/, "");
      const view = minutes ? `range(ts: ${Date.now() - 60000 * minutes})` : "";
      this.program = [view, rest].filter(Boolean).join(" | ");
      this.check();
    },
    // The first records of a full ring are overwritten while a scan begins: it begins a little behind them.
    async bounded() {
      const { program } = this.asked;
      const topic = await api.get(api.path("topics", this.topic));
      const moves = topic.storage === "memory" && topic.kind === "log" && topic.records && topic.records === topic.capacity_records;
      if (!moves || /^(seq|range|prefix|keys)\b/.test(program)) return program;
      const view = `seq(from: ${topic.floor + Math.ceil(0.05 * topic.records)})`;
      return program ? `${view} | ${program}` : view;
    },
    table() {
      const names = [...new Set(this.rows.slice(0, 50).flatMap((row) => Object.keys(row)))];
      return html`<div class="wide" role="region" aria-label="Rows" tabindex="0"><table class="table"><thead><tr>${names.map((name) => html`<th>${name}</th>`)}</tr></thead><tbody>${this.rows.map((row, index) => html`<tr key=${index}>${names.map((name) => html`<td class="mono ${["number", "bigint"].includes(typeof row[name]) ? "n" : ""}">${typeof row[name] === "object" && row[name] !== null ? spaced(row[name]) : String(row[name] ?? "")}</td>`)}</tr>`)}</tbody></table></div>`;
    },
  },
  render() {
    const cost = this.plan?.cost, problem = this.fault ?? this.error;
    const taken = (text, what) => () => copy(text, what);
    return html`<div class="scan stack pad">
      <form class="bar" onSubmit=${(event) => { event.preventDefault(); this.run(); }}>
        <label class="code-field suggest"><span>scan</span><input data-filter data-testid="scan" value=${this.program} placeholder="select(.bid > 100) | {symbol, bid}" spellcheck="false" autocomplete="off" aria-label="Scan program" aria-invalid=${String(Boolean(this.fault))} onInput=${this.typed} onKeydown=${this.key} onBlur=${() => setTimeout(() => (this.word = ""), 150)} />
          ${this.suggestions.length > 0 && html`<ul role="listbox" aria-label="Fields and functions">${this.suggestions.map(([name, kind], index) => html`<li key=${name} role="option" aria-selected=${String(index === this.at)} onMousedown=${(event) => { event.preventDefault(); this.complete(name); }}>${name}<small class="faint">${kind}</small></li>`)}</ul>`}</label>
        <button type="submit" class="btn solid" disabled=${this.busy || Boolean(this.fault)}>Run</button></form>
      ${problem && html`<pre class="caret" role="alert">${problem.message}${problem.hint ? `\n${problem.hint}` : ""}</pre>`}
      <div class="bar small soft">${this.timed && html`<span class="segments" role="group" aria-label="Time range">${RANGES.map(([minutes, text]) => html`<button key=${text} type="button" onClick=${() => this.since(minutes)}>${text}</button>`)}</span>`}${this.rows ? html`<span>${exact(this.rows.length)}${this.rows.length === LIMIT ? ` rows, the first ${LIMIT}` : " rows"} in ${Math.round(this.took)} ms${this.used ? ` · ${count(this.used.fuel)} fuel, ${bytes(this.used.read_bytes)} read` : ""}</span>` : null}
        ${cost && html`<span title=${exact(cost.scan_at_least)}>${count(this.plan.candidates)} candidates · ${count(cost.scan_at_least)} fuel of ${count(cost.max_scan)}</span>`}<span class="push"></span>
        ${this.rows && segments("Form of rows", [["table", "Table"], ["json", "JSON"]], this.form, (form) => (this.form = form))}
        <button type="button" class="btn" onClick=${taken(this.command, "The command")}>Copy command</button><button type="button" class="btn" onClick=${taken(this.curl, "The curl command")}>Copy curl</button></div>
      ${this.rows && (this.rows.length === 0 ? empty("No row comes out", "The program ran to its end; no record passes its conditions.") : this.form === "table" ? this.table() : html`<div class="code">${this.rows.map((row, index) => html`<div key=${index}>${coloured(spaced(row))}</div>`)}</div>`)}</div>`;
  },
};
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
