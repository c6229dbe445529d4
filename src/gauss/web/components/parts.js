// The parts of which pages are made: chip, tile, sparkline, segmented control, note, empty state, code, confirm.
import { stringify } from "./api.js";
import { html } from "./html.js";
import { curve, icon } from "./icons.js";
import { go, state, toast } from "./live.js";

const STATES = {
  running: ["ok", "●"], ready: ["ok", "●"], flowing: ["ok", "●"], succeeded: ["ok", "✓"], done: ["ok", "✓"],
  starting: ["move", "◐"], restarting: ["move", "◐"], draining: ["move", "◐"], stopping: ["move", "◐"], waiting: ["move", "◐"], queued: ["move", "◐"],
  degraded: ["warn", "▲"], filling: ["warn", "▲"], cancelled: ["warn", "▲"], late: ["warn", "▲"],
  failed: ["bad", "✕"], failing: ["bad", "✕"], full: ["bad", "✕"], lost: ["bad", "✕"], gone: ["bad", "✕"],
  stopped: ["idle", "■"], idle: ["idle", "○"], edited: ["idle", "✎"], replayed: ["idle", "↻"],
};
export const level = (name) => (STATES[name] ?? ["idle"])[0];
export const chip = (name, word = name) => {
  const [tint, glyph] = STATES[name] ?? ["idle", "○"];
  return html`<span class="chip ${tint}"><i aria-hidden="true">${glyph}</i>${word}</span>`;
};

// `values` from oldest to newest; always 60 wide and from zero, so that two sparklines can be compared.
export function sparkline(values, tint = "", label = "") {
  const shown = values.slice(-60);
  const most = Math.max(...shown, 1e-9);
  const x = (index) => 60 - shown.length + index + (shown.length < 60 ? 0.5 : 0.5);
  const line = shown.map((value, index) => `${index ? "L" : "M"}${x(index)} ${(19 - (18 * value) / most).toFixed(1)}`).join("");
  return html`<svg class="spark ${tint}" viewBox="0 0 60 20" preserveAspectRatio="none" role="img" aria-label=${label || "trend"}>
    ${shown.length > 1 && html`<path class="fill" d="${line}L60 20L${x(0)} 20Z" />`}
    ${shown.length > 1 && html`<path class="line" d=${line} />`}</svg>`;
}

export const tile = ({ label, figure, unit = "", meaning = "", values = null, tint = "", title = "" }) => html`
  <div class="card stat ${tint}"><span>${label}</span><b title=${title || null}>${figure}<small>${unit}</small></b>
    <em>${meaning}</em>${values && sparkline(values, tint, `${label}, last minute`)}</div>`;

export const segments = (label, options, chosen, choose) => html`
  <div class="segments" role="group" aria-label=${label}>${options.map(([value, text]) => html`
    <button key=${value} type="button" aria-pressed=${String(value === chosen)} onClick=${() => choose(value)}>${text}</button>`)}</div>`;

export const note = (tint, glyph, ...content) => html`
  <div class="note ${tint}" role=${tint === "bad" ? "alert" : "status"}><span aria-hidden="true">${glyph}</span><p>${content}</p></div>`;
export const failure = (error) => error && note("bad", "✕", html`<b>${error.message}.</b>`, error.hint ? ` ${error.hint}` : "");

export const empty = (title, text, ...actions) => html`
  <div class="empty">${curve()}<h2>${title}</h2><p>${text}</p>${actions.length > 0 && html`<div class="actions">${actions}</div>`}</div>`;

// A link within the pages: loads nothing anew.
export function link(path, content, { query = {}, ...props } = {}) {
  const url = Object.keys(query).length ? `${path}?${new URLSearchParams(query)}` : path;
  const follow = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    go(path, query);
  };
  return html`<a href=${url} onClick=${follow} ...${props}>${content}</a>`;
}

export const operator = () => state.role !== "viewer";
// A control that changes something. For viewers it says why it is off; the API refuses them as well.
export const action = (text, run, { kind = "", busy = false, ...props } = {}) => html`
  <button type="button" class="btn ${kind}" disabled=${busy || !operator()} title=${operator() ? null : "Viewers cannot change anything"}
    onClick=${run} ...${props}>${text}</button>`;
export const button = (text, run, { kind = "", ...props } = {}) => html`
  <button type="button" class="btn ${kind}" onClick=${run} ...${props}>${text}</button>`;
export const closing = (run, label = "Close") => html`
  <button type="button" class="btn bare square" aria-label=${label} title=${label} onClick=${run}>${icon("close")}</button>`;

const TOKENS = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;
// JSON text with colours. Only text nodes are made of it, so what a record holds is shown and never run.
export function coloured(text) {
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(TOKENS)) {
    if (found.index > at) parts.push(text.slice(at, found.index));
    const [whole, quoted, colon, word] = found;
    parts.push(html`<span class=${quoted ? (colon ? "k" : "s") : word ? "w" : "d"}>${quoted ?? whole}</span>`, colon ?? "");
    at = found.index + whole.length;
  }
  return [...parts, text.slice(at)];
}
// The bytes of a record as text: the API has them as text, or as `{base64}` if they are none.
export const shown = (data) => (typeof data === "string" ? data : data && Object.keys(data).join() === "base64" ? `base64:${data.base64}` : spaced(data));
// One line of JSON with spaces, as people write it. Within strings there is no newline.
export const spaced = (value) => stringify(value, 1)?.replace(/([{[])?\n *([}\]])?/g, (_all, open = "", close = "") => open + (open || close ? "" : " ") + close) ?? "null";

// Over plain HTTP beyond localhost there is no clipboard for scripts; a copy of selected text is allowed there.
export async function copy(text, what) {
  const done = await (navigator.clipboard?.writeText(text).then(() => true, () => false) ?? false);
  toast(done || copySelected(text) ? `${what} is in the clipboard` : `The browser lets no page copy: ${text}`);
}

function copySelected(text) {
  const field = document.createElement("textarea"), before = document.activeElement;
  field.value = text;
  field.className = "sr";
  (before?.closest("dialog") ?? document.body).append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  before?.focus();
  return done;
}

// Asks before something that cannot be taken back: what goes, what stays. `typed` is what must be typed to confirm.
export const Confirm = {
  props: ["title", "goes", "stays", "typed", "verb", "keep", "danger", "error", "busy"],
  emits: ["yes", "no"],
  data: () => ({ text: "" }),
  mounted() {
    this.$el.showModal();
    this.$el.querySelector("[data-keep]").focus();
  },
  render() {
    const may = !this.typed || this.text === this.typed;
    const list = (items, name) => items?.length > 0 && html`<ul class=${name}>${items.map((each) => html`<li>${each}</li>`)}</ul>`;
    return html`<dialog class="confirm" aria-label=${this.title} onCancel=${(event) => { event.preventDefault(); this.$emit("no"); }}>
      <h2>${this.title}</h2>
      ${list(this.goes, "goes")}${list(this.stays, "stays")}
      ${this.typed && html`<label class="field"><span>Type <b class="mono">${this.typed}</b> to confirm</span>
        <input value=${this.text} onInput=${(event) => (this.text = event.target.value)} /></label>`}
      ${failure(this.error)}
      <footer><button type="button" class="btn" data-keep onClick=${() => this.$emit("no")}>${this.keep ?? "Keep it"}</button>
        <button type="button" class="btn ${this.danger === false ? "solid" : "danger solid"}" disabled=${!may || this.busy}
          onClick=${() => this.$emit("yes")}>${this.verb}</button></footer></dialog>`;
  },
};
