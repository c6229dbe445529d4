// Dead letters: how many reasons there are, what is wrong with a record, and whether a correction is right.
import * as api from "./api.js";
import { clock, count, exact, plural, utc } from "./format.js";
import { html } from "./html.js";
import { go, state, toast } from "./live.js";
import { action, button, coloured, empty, failure, link, note, operator, shown, spaced } from "./parts.js";

const WORDS = { bad_json: "not JSON", bad_frame: "wrong framing", bad_compression: "cannot be decompressed" };
const said = (reason) => WORDS[reason] ?? reason.replaceAll("_", " ");
const PAGE = 50, LOOK_MS = 3000, AROUND = 14;
const decode = (data) => new TextDecoder().decode(Uint8Array.from(atob(data), (char) => char.charCodeAt(0)));
const keyOf = (group) => `${group.processor}\n${group.reason}\n${group.stage}`;

export default {
  data: () => ({ groups: null, letters: [], chosen: null, editing: false, draft: "", verdict: null, error: null, busy: false, hidden: new Set() }),
  computed: {
    group() {
      const { processor, reason } = state.query;
      const fits = (each) => (!processor || each.processor === processor) && (!reason || each.reason === reason);
      return this.groups?.find(fits) ?? null;
    },
    letter() { return this.letters.find((each) => each.dead_offset === this.chosen) ?? this.letters[0] ?? null; },
    isTransform() {
      const node = state.graph?.processors.find((each) => each.name === this.letter?.processor);
      return Boolean(this.letter?.processor.startsWith("_table.")) || node?.role === "transform";
    },
  },
  watch: {
    group(now, before) { if (now && (!before || keyOf(now) !== keyOf(before))) { this.letters = []; this.chosen = null; this.edit(false); this.read(); } },
  },
  mounted() {
    document.addEventListener("keydown", this.key);
    this.look();
  },
  beforeUnmount() {
    document.removeEventListener("keydown", this.key);
    clearTimeout(this.timer);
  },
  methods: {
    async look() {
      if (!document.hidden) await this.count();
      this.timer = setTimeout(() => this.look(), LOOK_MS);
    },
    async count() {
      try {
        const found = await api.get("/api/dlq");
        const before = this.group?.count;
        this.groups = found.groups.sort((one, other) => other.count - one.count);
        this.error = null;
        if (this.group && this.group.count !== before && !this.editing) await this.read();
        if (!this.group) this.letters = [];
      } catch (error) {
        this.error = error;
      }
    },
    async read(more = false) {
      const { processor, reason } = this.group;
      const before = more ? this.letters.at(-1)?.dead_offset : undefined;
      const found = await api.get("/api/dlq/letters", { processor, reason, limit: PAGE, before });
      const letters = found.letters.filter((each) => !this.hidden.has(each.dead_offset));
      this.letters = more ? [...this.letters, ...letters] : letters;
    },
    choose(letter) {
      this.chosen = letter.dead_offset;
      this.edit(false);
    },
    edit(on) {
      this.editing = on;
      this.verdict = null;
      this.error = null;
      if (on && this.letter) this.draft = decode(this.letter.data);
    },
    async attempt() {
      this.busy = true;
      try {
        this.verdict = await api.post("/api/dlq/try", { processor: this.letter.processor, data: this.draft });
        this.error = null;
      } catch (error) {
        this.error = error;
      }
      this.busy = false;
    },
    async replay(body, many) {
      this.busy = true;
      try {
        const found = await api.post("/api/dlq/replay", { processor: this.group.processor, ...body });
        if (found.refused) this.error = { message: `${plural(found.refused, "record was", "records were")} not replayed`, hint: found.refused_hint };
        else this.error = null;
        if (found.replayed) toast(`${plural(found.replayed, "record")} of ${this.group.processor} replayed`);
        if (!many && found.replayed) this.edit(false);
        await this.count();
      } catch (error) {
        this.error = error;
      }
      this.busy = false;
    },
    async resend() {
      const node = state.graph.processors.find((each) => each.name === this.letter.processor);
      try {
        await api.post(api.path("topics", node.targets[0], "records"), this.draft);
        toast(`The corrected record is in ${node.targets[0]}`);
        this.edit(false);
      } catch (error) {
        this.error = error;
      }
    },
    discard(letters, body, text) {
      if (!operator()) return;
      for (const each of letters) this.hidden.add(each.dead_offset);
      this.letters = this.letters.filter((each) => !this.hidden.has(each.dead_offset));
      const back = () => { for (const each of letters) this.hidden.delete(each.dead_offset); this.count(); if (this.group) this.read(); };
      toast(text, { undo: back, then: async () => {
        try { await api.post("/api/dlq/discard", body); } catch (error) { this.error = error; }
        this.hidden.clear(); // the remaining ones have new numbers
        this.chosen = null;
        await this.count();
        if (this.group) await this.read();
      } });
    },
    key(event) {
      if (event.target.closest("input, textarea, dialog") || event.ctrlKey || event.metaKey || !this.letter) return;
      const at = this.letters.indexOf(this.letter);
      const step = { j: 1, k: -1 }[event.key];
      if (step) this.choose(this.letters[Math.max(0, Math.min(this.letters.length - 1, at + step))]);
      else if (event.key === "e") { event.preventDefault(); this.edit(true); }
      else if (event.key === "r" && operator() && this.isTransform) this.replay({ offsets: [this.letter.dead_offset] });
      else if (event.key === "x") this.discardOne();
    },
    discardOne() { this.discard([this.letter], { offsets: [this.letter.dead_offset] }, "1 dead letter discarded"); },
    excerpt(letter) {
      const text = decode(letter.data), place = letter.bad_place;
      if (!place) return html`<code class="clip">${text.slice(0, 60)}</code>`;
      const start = Math.max(0, place.start - AROUND);
      return html`<code class="clip">${start ? "…" : ""}${text.slice(start, place.start)}<mark>${text.slice(place.start, place.end)}</mark>${text.slice(place.end, place.end + AROUND)}…</code>`;
    },
    payload(letter) {
      const text = decode(letter.data), place = letter.bad_place;
      if (!place) return html`<div class="code"><div class="err">${coloured(text)}</div><div class="under small">${letter.detail}</div></div>`;
      const lines = [];
      let start = 0;
      for (const part of broken(text)) {
        const end = start + part.length, from = Math.max(place.start, start), to = Math.min(place.end, end);
        const bad = from < to;
        lines.push(html`<div class=${bad ? "err" : ""}><span class="ln">${lines.length + 1}</span>${bad ? [coloured(text.slice(start, from)), html`<mark>${text.slice(from, to)}</mark>`, coloured(text.slice(to, end))] : coloured(part)}</div>`);
        if (bad && place.end <= end) lines.push(html`<div class="err under small"><span class="ln"></span>${" ".repeat(Math.min(from - start, 24))}↑ ${letter.detail}</div>`);
        start = end;
      }
      return html`<div class="code">${lines}</div>`;
    },
    verdicts() {
      if (!this.verdict) return null;
      const { passes, row, results, reason, detail, not_tried: untried } = this.verdict;
      const becomes = results?.length ? [" ", results.map((each) => html`<span>${each.topic} gets <code>${shown(each.data)}</code>. </span>`)] : row ? html` It becomes <code>${spaced(row)}</code>. ` : " It writes nothing. ";
      return passes ? note("ok", "✓", html`<b>It would pass now.</b>`, becomes, untried && `Not tried: ${untried}.`) : note("bad", "✕", html`<b>It would be refused again: ${said(reason)}.</b>`, ` ${detail}`);
    },
    detail(letter) {
      const facts = [["stage", letter.stage], ["processor", letter.processor], ["arrived", html`<span title=${utc(letter.ts_ms)}>${clock(letter.ts_ms, true)}</span>`], ["from", letter.topic ? `${letter.topic} at ${letter.offset < 0 ? "–" : exact(letter.offset)}` : "a connection"], ["attempts", letter.attempts], ...(letter.column ? [["column", letter.column]] : [])];
      const target = state.graph?.processors.find((each) => each.name === letter.processor)?.targets?.[0];
      return html`<section><header><h2 class="mono small">${letter.topic || letter.processor} / ${letter.offset < 0 ? `#${letter.dead_offset}` : exact(letter.offset)}</h2><span class="push"></span>
          ${button(this.editing ? "Cancel" : "Edit", () => this.edit(!this.editing), { "data-testid": "edit" })}${action("Discard", this.discardOne, { kind: "danger", "data-testid": "discard" })}</header>
        <div class="letter"><dl class="pairs">${facts.map(([name, value]) => [html`<dt>${name}</dt>`, html`<dd>${value}</dd>`])}</dl>
          ${this.editing ? html`<label class="field"><span>Your correction</span><textarea spellcheck="false" value=${this.draft} onInput=${(event) => { this.draft = event.target.value; this.verdict = null; }}></textarea></label>` : this.payload(letter)}
          ${this.verdicts()}${failure(this.error)}
          <div class="actions">${this.editing ? [button("Try", this.attempt, { disabled: this.busy, "data-testid": "try" }),
            this.isTransform ? action("Replay corrected", () => this.replay({ offsets: [letter.dead_offset], data: { [letter.dead_offset]: this.draft } }), { kind: this.verdict?.passes ? "solid" : "", busy: this.busy, "data-testid": "replay-corrected" }) : target && action(`Send to ${target}`, this.resend, { kind: "solid" })]
            : this.isTransform ? [this.group.count > 1 && action(`Replay all ${exact(this.group.count)}`, () => this.replay({ reason: this.group.reason }, true), { kind: "solid", busy: this.busy }), action(this.group.count > 1 ? "Replay this one" : "Replay", () => this.replay({ offsets: [letter.dead_offset] }), { kind: this.group.count > 1 ? "" : "solid", busy: this.busy, "data-testid": "replay-one" })] : html`<p class="small soft">It was never a record of a topic: correct it and send it again.</p>`}
            ${!this.editing && this.group.count > 1 && action(`Discard all ${exact(this.group.count)}`, () => this.discard(this.letters, { processor: this.group.processor, reason: this.group.reason }, `${plural(this.group.count, "dead letter")} discarded`), { kind: "danger" })}</div></div></section>`;
    },
  },
  render() {
    const groups = this.groups;
    if (!groups) return html`<div class="page"><h1 class="soft">Reading dead letters…</h1>${failure(this.error)}</div>`;
    const total = groups.reduce((sum, each) => sum + each.count, 0), most = groups[0];
    const text = !total ? "No dead letters" : groups.length === 1 ? `${plural(total, "dead letter")}, all for one reason` : most.count > 0.9 * total ? `${exact(total)} dead letters, nearly all for one reason` : `${exact(total)} dead letters for ${groups.length} reasons`;
    const lead = total ? `${most.processor.replace("_table.", "The table ")} refuses records since ${clock(most.first_ts_ms)}: ${said(most.reason)}. Nothing is lost; records that came from a topic can be replayed.` : "Every record could be framed, decoded and written.";
    return html`<div class="page"><header class="page-head"><div><h1 class="says">${text}</h1><p class="lead">${lead}</p></div></header>
      ${!total ? html`<section class="card">${empty("What cannot pass comes here", "With its bytes, the reason and its origin. It can be corrected, tried and replayed; nothing is dropped silently.", link("/", "Back to the graph", { class: "btn solid" }))}</section>` : html`
      <div class="panes card"><section aria-label="Reasons"><header><h2>Reasons</h2><small>${groups.length}</small></header><div class="pane-list">${groups.map((each) => html`<button type="button" key=${keyOf(each)} class="pick" aria-current=${String(each === this.group)} onClick=${() => go("/dead", { processor: each.processor, reason: each.reason }, true)}>
            <span><b title=${each.reason}>${said(each.reason)}</b><b>${exact(each.count)}</b></span><span class="meter warn" style=${{ "--v": each.count / most.count }}><i></i></span><span><small>${each.processor.replace("_table.", "table ")}</small><small>${each.stage}</small></span></button>`)}</div></section>
        <section aria-label="Letters"><header><h2>${this.group ? plural(this.group.count, "letter") : "Letters"}</h2><small>newest first</small></header><div class="pane-list">${this.letters.map((each) => html`<button type="button" key=${each.dead_offset} class="pick" aria-current=${String(each === this.letter)} onClick=${() => this.choose(each)}>
            <span><b>${each.offset < 0 ? `#${each.dead_offset}` : exact(each.offset)}</b><small>${clock(each.ts_ms)}</small></span>${this.excerpt(each)}</button>`)}
          ${this.group && this.letters.length >= PAGE && this.letters.length < this.group.count && html`<div class="pad">${button("More", () => this.read(true))}</div>`}</div><p class="pad small soft"><kbd>j</kbd> <kbd>k</kbd> move · <kbd>e</kbd> edit · <kbd>r</kbd> replay · <kbd>x</kbd> discard</p></section>
        ${this.letter ? this.detail(this.letter) : html`<section>${this.group ? html`<p class="pad soft">Reading…</p>` : html`<p class="pad soft">Nothing of this kind is left.</p>`}</section>`}</div>`}</div>`;
  },
};

// JSON of one line broken behind commas and brackets, every character kept.
function broken(text) {
  if (text.length < 60 || text.includes("\n")) return text.split(/(?<=\n)/);
  const parts = [];
  let quoted = false, depth = 0, last = 0;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (char === '"' && text[at - 1] !== "\\") quoted = !quoted;
    if (quoted) continue;
    if ("{[".includes(char)) depth++;
    if ("}]".includes(char)) depth--;
    if ((char === "," && depth <= 1) || (char === "{" && at === 0)) { parts.push(text.slice(last, at + 1)); last = at + 1; }
  }
  parts.push(text.slice(last));
  return parts;
}
