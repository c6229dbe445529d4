// Dead letters: how many reasons there are, what is wrong with a record, and whether a correction is right.
import { markRaw } from "vue";
import * as api from "./api.js";
import { discard, forget, isHidden, keyOf, left, settle } from "./discards.js";
import { bytes, clock, exact, plural } from "./format.js";
import { html } from "./html.js";
import { excerpt, facts, payload, read } from "./letter.js";
import { go, state, toast } from "./live.js";
import { action, button, empty, failure, link, note, operator, shown, spaced } from "./parts.js";
import { polling } from "./polling.js";
import { base64Of, bytesOfDraft, draftOf, isLossy } from "./record_text.js";

const WORDS = { bad_json: "not JSON", bad_frame: "wrong framing", bad_compression: "cannot be decompressed" };
const said = (reason) => WORDS[reason] ?? reason.replaceAll("_", " ");
const PAGE = 50, MOST = 1000, LOOK_MS = 3000;
const SELECTED = ["sync", "processor", "reason", "stage"];
const owner = (each) => (each.sync ? `sync ${each.sync}` : each.processor.replace("_table.", "table "));

export default {
  mixins: [polling({ look: LOOK_MS })],
  data: () => ({ all: null, order: [], pinned: "", letters: [], shownAs: "", chosen: null, editing: null, drafts: {}, verdict: null, failed: null, busy: false }),
  computed: {
    // Groups keep their places while counts change; new ones come last.
    groups() { return this.order.map((key) => this.all.find((each) => keyOf(each) === key)).filter((each) => each && left(each) > 0); },
    group() {
      const asked = SELECTED.filter((name) => state.query[name]);
      if (asked.length) return this.groups.find((each) => asked.every((name) => (each[name] ?? "") === state.query[name])) ?? null;
      return this.groups.find((each) => keyOf(each) === this.pinned) ?? this.groups[0] ?? null;
    },
    key() { return this.group ? keyOf(this.group) : ""; },
    // Behind the newest letter of the group that was shown.
    end() { return this.letters.find((each) => keyOf(each) === this.key).dead_offset + 1; },
    visible() { return this.letters.filter((each) => keyOf(each) === this.key && !isHidden(each)); },
    // The one that is edited stays, whatever becomes of its group.
    letter() { return this.editing ?? this.visible.find((each) => each.dead_offset === this.chosen) ?? this.visible[0] ?? null; },
    draft() { return this.editing && this.drafts[this.editing.dead_offset]; },
    isTransform() {
      const node = state.graph?.processors.find((each) => each.name === this.letter?.processor);
      return Boolean(this.letter?.processor.startsWith("_table.")) || node?.role === "transform";
    },
    target() { return state.graph?.processors.find((each) => each.name === this.letter?.processor)?.targets?.[0]; },
    canReplay() { return operator() && this.isTransform && !this.busy && !this.letter.truncated; },
  },
  watch: {
    key(now) { if (now && now !== this.reading) this.again("look"); },
  },
  mounted() { document.addEventListener("keydown", this.pressed); },
  beforeUnmount() { document.removeEventListener("keydown", this.pressed); },
  methods: {
    async look(signal) {
      const { groups } = await api.get("/api/dlq", {}, signal);
      forget();
      const known = new Set(this.order), found = groups.sort((one, other) => other.count - one.count).map(keyOf);
      Object.assign(this, { all: groups, order: [...this.order, ...found.filter((key) => !known.has(key))] });
      this.pinned = this.reading = this.key;
      if (this.group && this.shownAs !== this.newest()) await this.read(signal);
    },
    newest() { return `${this.key}\n${this.group.count} ${this.group.last_ts_ms}`; },
    async read(signal, more = 0) {
      const before = this.letters.filter((each) => keyOf(each) === this.key), shownAs = this.newest();
      const { processor, reason, stage, sync } = this.group;
      const limit = Math.min(MOST, Math.max(PAGE, before.length + more));
      const found = await api.get("/api/dlq/letters", { processor, reason, stage, sync, limit }, signal);
      const at = this.visible.indexOf(this.letter);
      Object.assign(this, { letters: found.letters.map((each) => markRaw(read(each))), shownAs });
      // The one that was shown stays so; if it is gone, the next one is.
      if (!this.visible.some((each) => each.dead_offset === this.chosen)) this.chosen = (this.visible[Math.max(at, 0)] ?? this.visible.at(-1))?.dead_offset ?? null;
    },
    async more() {
      this.failed = null;
      try { await this.read(undefined, PAGE); } catch (error) { this.failed = error; }
    },
    choose(letter) { Object.assign(this, { chosen: letter.dead_offset, editing: null, verdict: null, failed: null }); },
    // A draft is kept until it is replayed, sent or cancelled, also while another letter is looked at.
    edit() {
      const { letter } = this;
      this.drafts[letter.dead_offset] ??= draftOf(letter.bytes);
      Object.assign(this, { chosen: letter.dead_offset, editing: letter, verdict: null, failed: null });
    },
    endEdit() {
      delete this.drafts[this.editing.dead_offset];
      Object.assign(this, { editing: null, verdict: null, failed: null });
    },
    async act(run) {
      if (this.busy) return;
      Object.assign(this, { busy: true, failed: null });
      try { await run(); } catch (error) { this.failed = error; }
      this.busy = false;
    },
    attempt() {
      const { draft, letter } = this;
      return this.act(async () => {
        const verdict = await api.post("/api/dlq/try", { processor: letter.processor, data: { base64: base64Of(bytesOfDraft(draft)) } });
        if (this.draft === draft && this.letter.dead_offset === letter.dead_offset) this.verdict = verdict;
      });
    },
    replay(processor, choice) {
      return this.act(async () => {
        await settle();
        const found = await api.post("/api/dlq/replay", { processor, ...choice });
        if (found.replayed) {
          toast(`${plural(found.replayed, "record")} of ${owner({ processor })} replayed`);
          if (choice.data) this.endEdit();
        }
        await this.again("look");
        if (found.refused) throw new api.ApiError(200, { message: `${plural(found.refused, "record was", "records were")} not replayed`, hint: found.refused_hint });
        if (found.already) throw new api.ApiError(200, { message: `${plural(found.already, "record was", "records were")} replayed before`, hint: "somebody else did, or the engine has just done it" });
      });
    },
    replayOne({ processor, dead_offset: number }) { return this.replay(processor, { offsets: [number] }); },
    replayCorrected({ processor, dead_offset: number }) { return this.replay(processor, { offsets: [number], data: { [number]: { base64: base64Of(bytesOfDraft(this.draft)) } } }); },
    replayAll({ processor, reason, stage }) { return this.replay(processor, { reason, stage, before: this.end }); },
    // As one record, whatever bytes it has; its letter has done its duty then.
    send(letter) {
      const { target } = this, body = bytesOfDraft(this.draft), framed = new Uint8Array(4 + body.length);
      new DataView(framed.buffer).setUint32(0, body.length);
      framed.set(body, 4);
      return this.act(async () => {
        const { accepted } = await api.post(api.path("topics", target, "records"), framed, { framing: "length_prefixed", prefix_type: "u32be" });
        if (accepted !== 1) throw new api.ApiError(200, { message: `${target} has not taken the record`, hint: "it is full, or cannot store it" });
        this.endEdit();
        await api.post("/api/dlq/discard", { offsets: [letter.dead_offset] });
        toast(`The corrected record is in ${target}; its dead letter is gone`);
        await this.again("look");
      });
    },
    changed(error) {
      this.failed = error ?? this.failed;
      this.shownAs = "";
      return this.again("look");
    },
    discardOne() {
      const { letter } = this, at = this.visible.indexOf(letter), next = this.visible[at + 1] ?? this.visible[at - 1];
      if (!operator() || !letter || letter.sync) return;
      if (this.editing) this.endEdit();
      delete this.drafts[letter.dead_offset];
      discard(letter, { offsets: [letter.dead_offset] }, 1, this.changed);
      this.chosen = next?.dead_offset ?? null;
    },
    discardAll() { discard(this.group, { before: this.end }, left(this.group), this.changed); },
    pressed(event) {
      if (event.target.closest("input, textarea, select, dialog") || event.ctrlKey || event.metaKey || event.altKey || event.repeat && !"jk".includes(event.key) || !this.letter) return;
      const step = { j: 1, k: -1 }[event.key], at = this.visible.findIndex((each) => each.dead_offset === this.letter.dead_offset);
      const next = step && this.visible[Math.max(0, Math.min(this.visible.length - 1, at + step))];
      if (next) this.choose(next);
      else if (this.editing || this.letter.sync) return; // what is typed there is not what these would replay or discard
      else if (event.key === "e") { event.preventDefault(); this.edit(); }
      else if (event.key === "r" && this.canReplay) this.replayOne(this.letter);
      else if (event.key === "x") this.discardOne();
    },
    verdicts() {
      if (!this.verdict) return null;
      const { passes, row, results, reason, detail, not_tried: untried } = this.verdict;
      const becomes = results?.length ? [" ", results.map((each) => html`<span>${each.topic} gets <code>${shown(each.data)}</code>. </span>`)] : row ? html` It becomes <code>${spaced(row)}</code>. ` : " It writes nothing. ";
      return passes ? note("ok", "✓", html`<b>It would pass now.</b>`, becomes, untried && `Not tried: ${untried}.`) : note("bad", "✕", html`<b>It would be refused again: ${said(reason)}.</b>`, ` ${detail}`);
    },
    editor(letter) {
      return html`<label class="field"><span>Your correction</span><textarea spellcheck="false" value=${this.draft} onInput=${(event) => { this.drafts[letter.dead_offset] = event.target.value; this.verdict = null; }}></textarea></label>
        ${isLossy(this.draft) && html`<p class="small soft">Each � is a byte that is no text, or a carriage return: it stays as it is unless you replace it.</p>`}`;
    },
    controls(letter) {
      const many = this.group ? left(this.group) : 0;
      if (letter.sync) return html`<p class="small soft">A row of a sync, which its destination can write again: <code>gauss dlq replay --sync ${letter.sync}</code>. Its number is ${letter.number}.</p>`;
      if (this.editing)
        return [button("Try", this.attempt, { disabled: this.busy, "data-testid": "try" }),
          this.isTransform ? action("Replay corrected", () => this.replayCorrected(letter), { kind: this.verdict?.passes ? "solid" : "", busy: this.busy, "data-testid": "replay-corrected" }) : this.target && action(`Send to ${this.target}`, () => this.send(letter), { kind: "solid", busy: this.busy, "data-testid": "send" })];
      return [this.isTransform ? [many > 1 && action(`Replay all ${exact(many)}`, () => this.replayAll(this.group), { kind: "solid", busy: this.busy, "data-testid": "replay-all" }), action(many > 1 ? "Replay this one" : "Replay", () => this.replayOne(letter), { kind: many > 1 ? "" : "solid", busy: !this.canReplay, "data-testid": "replay-one" })] : html`<p class="small soft">It was never a record of a topic: correct it and send it again.</p>`,
        many > 1 && action(`Discard all ${exact(many)}`, this.discardAll, { kind: "danger", "data-testid": "discard-all" })];
    },
    detail(letter) {
      return html`<section aria-label="Letter" data-number=${letter.dead_offset}><header><h2 class="mono small">${letter.sync || letter.topic || letter.processor} / ${letter.offset < 0 ? `#${letter.dead_offset}` : exact(letter.offset)}</h2><span class="push"></span>
          ${!letter.sync && [button(this.editing ? "Cancel" : "Edit", () => (this.editing ? this.endEdit() : this.edit()), { "data-testid": "edit" }), action("Discard", this.discardOne, { kind: "danger", "data-testid": "discard" })]}</header>
        <div class="letter">${facts(letter)}
          ${letter.truncated && note("warn", "▲", html`<b>It was cut.</b> Only the first ${bytes(letter.bytes.length)} of ${bytes(letter.truncated)} are kept, so it can't be replayed as it is. A correction is taken for the whole record.`)}
          ${this.editing ? this.editor(letter) : payload(letter)}
          ${this.verdicts()}${failure(this.failed ?? this.error)}
          <div class="actions">${this.controls(letter)}</div></div></section>`;
    },
    list() {
      return html`<section aria-label="Letters"><header><h2>${this.group ? plural(left(this.group), "letter") : "Letters"}</h2><small>newest first</small></header><div class="pane-list">${this.visible.map((each) => html`<button type="button" key=${each.dead_offset} data-number=${each.dead_offset} class="pick" aria-current=${String(each.dead_offset === this.letter?.dead_offset)} onClick=${() => this.choose(each)}>
            <span><b>${each.offset < 0 ? `#${each.dead_offset}` : exact(each.offset)}</b><small>${each.dead_offset in this.drafts ? "✎ " : ""}${clock(each.ts_ms)}</small></span>${excerpt(each)}</button>`)}
          ${this.letters.length >= PAGE && this.letters.length < Math.min(MOST, this.group?.count ?? 0) && html`<div class="pad">${button("More", this.more)}</div>`}</div><p class="pad small soft"><kbd>j</kbd> <kbd>k</kbd> move · <kbd>e</kbd> edit · <kbd>r</kbd> replay · <kbd>x</kbd> discard</p></section>`;
    },
  },
  render() {
    if (!this.all) return html`<div class="page"><h1 class="soft">Reading dead letters…</h1>${failure(this.error)}</div>`;
    const { groups } = this, total = groups.reduce((sum, each) => sum + left(each), 0);
    const most = groups.reduce((found, each) => (found && left(found) >= left(each) ? found : each), null);
    const text = !total ? "No dead letters" : groups.length === 1 ? `${plural(total, "dead letter")}, all for one reason` : left(most) > 0.9 * total ? `${exact(total)} dead letters, nearly all for one reason` : `${exact(total)} dead letters for ${groups.length} reasons`;
    const lead = total ? `${most.sync ? `The sync ${most.sync}` : most.processor.replace("_table.", "The table ")} refuses records since ${clock(most.first_ts_ms)}: ${said(most.reason)}. Nothing is lost; records that came from a topic can be replayed.` : "Every record could be framed, decoded and written.";
    return html`<div class="page"><header class="page-head"><div><h1 class="says">${text}</h1><p class="lead">${lead}</p></div></header>
      ${!this.letter && failure(this.failed ?? this.error)}
      ${!total && !this.editing ? html`<section class="card">${empty("What cannot pass comes here", "With its bytes, the reason and its origin. It can be corrected, tried and replayed; nothing is dropped silently.", link("/", "Back to the graph", { class: "btn solid" }))}</section>` : html`
      <div class="panes card"><section aria-label="Reasons"><header><h2>Reasons</h2><small>${groups.length}</small></header><div class="pane-list">${groups.map((each) => html`<button type="button" key=${keyOf(each)} class="pick" aria-current=${String(each === this.group)} onClick=${() => { this.editing = null; go("/dead", Object.fromEntries(SELECTED.map((name) => [name, each[name] ?? ""])), true); }}>
            <span><b title=${each.reason}>${said(each.reason)}</b><b>${exact(left(each))}</b></span><span class="meter warn" style=${{ "--v": left(each) / left(most) }}><i></i></span><span><small>${owner(each)}</small><small>${each.stage}</small></span></button>`)}</div></section>
        ${this.list()}
        ${this.letter ? this.detail(this.letter) : html`<section>${this.group ? html`<p class="pad soft">Reading…</p>` : html`<p class="pad soft">Nothing of this kind is left.</p>`}</section>`}</div>`}</div>`;
  },
};
