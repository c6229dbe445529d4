// The dead letters of a pipeline: how many reasons there are, what is wrong with a record, and its correction.
import * as api from "../api.js";
import { bytes, clock, count, exact, percent, plural, utc } from "../format.js";
import { html } from "../html.js";
import { state, toast } from "../live.js";
import { action, button, coloured, empty, failure, link, note, operator } from "../parts.js";

const MOST = 1000, LOOK_MS = 3000, READ_MS = 30_000, SHOWN = 100, AT_ONCE = 200;
const keyOf = (letter) => `${letter.inc} ${letter.offset}`;
const textOf = (letter) => letter.edited ?? letter.text ?? "";
const placeOf = ({ inc, offset }) => ({ inc, offset });

// Where the bad value stands in the text, as far as the name of its column or field tells.
function badPlace(letter) {
  const text = textOf(letter);
  const field = letter.column || letter.detail.match(/\$\.([\w.]+)/)?.[1].split(".").at(-1) || "";
  for (let name = field; name; name = name.includes("_") ? name.slice(name.indexOf("_") + 1) : "") {
    const escaped = name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    const found = text.match(new RegExp(`"${escaped}"\\s*:\\s*("(?:[^"\\\\]|\\\\.)*"|[^,}\\]\\s]+)`));
    if (found) return [found.index + found[0].length - found[1].length, found.index + found[0].length];
  }
  return null;
}

export default {
  props: ["row"],
  data: () => ({ letters: null, whole: null, chosen: null, editing: false, draft: "", refused: null, error: null, busy: false, hidden: new Set(), shown: SHOWN }),
  computed: {
    groups() {
      const found = new Map();
      for (const each of this.letters ?? []) {
        const key = `${each.stage}\n${each.reason}\n${each.column}`;
        if (!found.has(key)) found.set(key, { key, stage: each.stage, reason: each.reason, column: each.column, letters: [] });
        found.get(key).letters.push(each);
      }
      return [...found.values()].sort((one, other) => other.letters.length - one.letters.length);
    },
    group() { return this.groups.find((each) => each.reason === state.query.reason && each.column === (state.query.column ?? "")) ?? this.groups[0] ?? null; },
    listed() { return this.group?.letters.find((each) => keyOf(each) === this.chosen) ?? this.group?.letters[0] ?? null; },
    // A list has the beginnings of records; the whole one is read when it is chosen.
    letter() { return this.listed && this.whole && keyOf(this.whole) === keyOf(this.listed) ? this.whole : this.listed; },
    version() { return this.listed && `${keyOf(this.listed)} ${this.listed.editedBy} ${this.listed.edited}`; },
  },
  watch: { version() { this.readWhole(); } },
  mounted() {
    document.addEventListener("keydown", this.key);
    this.look();
  },
  beforeUnmount() {
    document.removeEventListener("keydown", this.key);
    this.left = true;
    clearTimeout(this.timer);
  },
  methods: {
    path(...parts) { return api.path("pipelines", this.row.id, "dead-letters", ...parts); },
    async look() {
      const isOld = this.counts !== this.counted() || Date.now() - this.readAt > READ_MS;
      if (!document.hidden && !this.editing && isOld) await this.read();
      if (!this.left) this.timer = setTimeout(() => this.look(), LOOK_MS);
    },
    counted() { return `${this.row.deadLetters} ${this.row.lettersKept}`; },
    async read() {
      const counts = this.counted();
      try {
        const found = await api.get(this.path(), { limit: MOST });
        this.letters = found.filter((each) => !this.hidden.has(keyOf(each)));
        Object.assign(this, { counts, readAt: Date.now() });
      } catch (error) {
        this.error = error;
      }
    },
    async readWhole() {
      const wanted = this.listed;
      if (!wanted) return;
      try {
        const found = await api.get(this.path(wanted.inc, wanted.offset));
        if (keyOf(found) === keyOf(this.listed ?? {})) this.whole = found;
      } catch (error) {
        if (error.status !== 404) this.error = error; // somebody has replayed or discarded it
      }
    },
    choose(letter) {
      this.chosen = keyOf(letter);
      this.edit(false);
    },
    async edit(on) {
      if (on) await this.readWhole();
      Object.assign(this, { editing: on && this.whole !== null && this.letter === this.whole, refused: null, error: null });
      if (this.editing) this.draft = textOf(this.whole);
    },
    async replay(letters) {
      Object.assign(this, { busy: true, error: null, refused: null });
      try {
        if (this.editing) await api.put(this.path(this.letter.inc, this.letter.offset), { text: this.draft });
        const found = await api.post(this.path("replay"), letters.slice(0, AT_ONCE).map(placeOf));
        const done = found.filter((each) => each.outcome === "replayed").length, filtered = found.filter((each) => each.outcome === "filtered").length;
        this.refused = found.find((each) => each.outcome === "refused") ?? null;
        if (done) toast(`${plural(done, "dead letter is a row", "dead letters are rows")} now`);
        if (filtered) toast(`The filter leaves ${plural(filtered, "record")} out`);
        if (!this.refused) this.editing = false;
        await this.read();
      } catch (error) {
        this.error = error;
      }
      this.busy = false;
    },
    discard(letters) {
      if (!operator() || !letters.length) return;
      for (const each of letters) this.hidden.add(keyOf(each));
      this.letters = this.letters.filter((each) => !this.hidden.has(keyOf(each)));
      this.edit(false);
      const free = () => { for (const each of letters) this.hidden.delete(keyOf(each)); return this.read(); };
      toast(`${plural(letters.length, "dead letter")} discarded`, { undo: free, then: async () => {
        try { await api.post(this.path("discard"), letters.map(placeOf)); } catch (error) { this.error = error; }
        await free();
      } });
    },
    key(event) {
      if (event.target.closest("input, textarea, dialog") || event.ctrlKey || event.metaKey || !this.letter) return;
      const { letters } = this.group, step = { j: 1, k: -1 }[event.key];
      if (step) this.choose(letters[Math.max(0, Math.min(letters.length - 1, letters.indexOf(this.listed) + step))]);
      else if (event.key === "e" && operator()) { event.preventDefault(); this.edit(true); }
      else if (event.key === "r" && operator()) this.replay([this.letter]);
      else if (event.key === "x") this.discard([this.letter]);
    },
    gone() {
      const { lettersDropped: dropped, lettersExpired: expired } = this.row;
      return [dropped > 0 && html`<b class="late">${exact(dropped)} more came while there was no room: only their number is known.</b> `, expired > 0 && `${exact(expired)} were older than 30 days and are removed. `];
    },
    excerpt(letter) {
      const text = textOf(letter), place = badPlace(letter);
      if (!place) return html`<code class="clip">${letter.text === null ? "no value" : text.slice(0, 60)}</code>`;
      const start = Math.max(0, place[0] - 14);
      return html`<code class="clip">${start ? "…" : ""}${text.slice(start, place[0])}<mark>${text.slice(...place)}</mark>${text.slice(place[1], place[1] + 14)}</code>`;
    },
    payload(letter) {
      const text = textOf(letter), place = badPlace(letter);
      if (letter.text === null) return html`<div class="code"><div class="soft">The record has no value.</div></div>`;
      const body = place ? [coloured(text.slice(0, place[0])), html`<mark>${text.slice(...place)}</mark>`, coloured(text.slice(place[1]))] : coloured(text);
      return html`<div class="code"><div class="err">${body}</div><div class="err under small">↑ ${letter.detail || letter.reason}</div></div>`;
    },
    facts(letter) {
      const facts = [["stage", letter.stage], ["reason", letter.reason], ["arrived", html`<span title=${utc(letter.tsMs)}>${clock(letter.tsMs, true)}</span>`], ["from", `${letter.topic} ${letter.partition}`], ["column", letter.column || "–"], ["size", bytes(letter.size)], ["edited by", letter.editedBy ?? "–"]];
      return html`<dl class="pairs">${facts.map(([name, value]) => [html`<dt>${name}</dt>`, html`<dd>${value}</dd>`])}</dl>`;
    },
    detail(letter) {
      const { letters } = this.group, many = Math.min(letters.length, AT_ONCE);
      return html`<section><header><h2 class="mono small">${letter.topic} ${letter.partition} / ${exact(letter.offset)}</h2><span class="push"></span>
          ${button(this.editing ? "Cancel" : "Edit", () => this.edit(!this.editing), { "data-testid": "edit", disabled: letter.text === null })}${action("Discard", () => this.discard([letter]), { kind: "danger", "data-testid": "discard" })}</header>
        <div class="letter">${this.facts(letter)}
          ${this.editing ? html`<label class="field"><span>The record that is replayed instead</span><textarea data-testid="draft" spellcheck="false" value=${this.draft} onInput=${(event) => (this.draft = event.target.value)}></textarea></label>` : this.payload(letter)}
          ${failure(this.error)}${this.refused && note("bad", "✕", html`<b>Refused again: ${this.refused.reason || "it does not fit"}.</b> It stays a dead letter; correct it, or the mapping.`)}
          <p class="soft small">A replay makes one row by the newest config. Replaying twice changes nothing: rows are keyed by partition and offset.</p>
          <div class="actions">${action(this.editing ? "Save and replay" : "Replay this one", () => this.replay([letter]), { kind: "solid", busy: this.busy, "data-testid": "replay" })}
            ${!this.editing && letters.length > 1 && [action(`Replay ${many === letters.length ? "all" : "the newest"} ${many}`, () => this.replay(letters), { busy: this.busy }), action(`Discard all ${letters.length}`, () => this.discard(letters), { kind: "danger", busy: this.busy })]}</div></div></section>`;
    },
  },
  render() {
    if (!this.letters) return html`<div>${failure(this.error) ?? html`<p class="soft">Reading dead letters…</p>`}</div>`;
    const { groups, group, letter } = this, all = this.letters.length;
    if (!all) return html`<section class="card">${failure(this.error)}${empty("No dead letters", "A record that can't be read, decoded, mapped or inserted is kept here with its reason, until somebody corrects, replays or discards it.", link(`/pipelines/${this.row.id}`, "See how it runs", { class: "btn" }))}</section>`;
    const said = groups.length === 1 ? `${plural(all, "dead letter")}, all for one reason` : `${plural(all, "dead letter")} for ${groups.length} reasons`;
    return html`<div class="stack"><div class="page-head"><div><h2 aria-live="polite">${all === MOST ? `The newest ${said}` : said}</h2><p class="lead small">Each can be corrected and replayed. ${this.gone()}${percent(this.row.deadRatio)} of recent records, an alert is raised above the limit in ${link(`/pipelines/${this.row.id}/settings`, "Settings")}.</p></div></div>
      <div class="card panes"><section><header><h2>Reasons</h2><small>${groups.length}</small></header><div class="pane-list">${groups.map((each) => html`
          <button key=${each.key} type="button" class="pick" aria-current=${String(each === group)} onClick=${() => { state.query = { reason: each.reason, column: each.column }; this.chosen = null; this.edit(false); }}><span><b>${each.column ? `${each.column}: ` : ""}${each.reason}</b><b>${count(each.letters.length)}</b></span><span class="meter warn" style=${{ "--v": each.letters.length / all }}><i></i></span><small>${each.stage}</small></button>`)}</div></section>
        <section><header><h2>${plural(group.letters.length, "letter")}</h2><small>newest first</small></header><div class="pane-list">${group.letters.slice(0, this.shown).map((each) => html`
          <button key=${keyOf(each)} type="button" class="pick" aria-current=${String(each === this.listed)} onClick=${() => this.choose(each)}><span>${each.partition} / ${exact(each.offset)}<small>${clock(each.at)}</small></span>${this.excerpt(each)}</button>`)}
          ${group.letters.length > this.shown && html`<div class="pad">${button("Show more", () => (this.shown += SHOWN))}</div>`}</div>
          <p class="pad faint small"><kbd>j</kbd> <kbd>k</kbd> move · <kbd>e</kbd> edit · <kbd>r</kbd> replay · <kbd>x</kbd> discard</p></section>
        ${this.detail(letter)}</div></div>`;
  },
};
