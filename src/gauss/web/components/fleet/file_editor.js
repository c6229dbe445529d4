// An editor of a pipeline file: its lines in colours, with the faults of `gauss check` where they are.
import { html } from "../html.js";
import { toml } from "../pipeline.js";

export const FileEditor = {
  props: ["text", "faults", "locked"],
  emits: ["change"],
  methods: {
    // Puts the caret where a fault is.
    to({ line, column }) {
      const area = this.$el.querySelector("textarea"), lines = this.text.split("\n");
      const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0) + Math.max(column - 1, 0);
      area.focus();
      area.setSelectionRange(start, start + (lines[line - 1]?.slice(Math.max(column - 1, 0)).match(/^[\w.$"'-]+/)?.[0].length ?? 0));
    },
    upload(event) {
      const [file] = event.target.files;
      file?.text().then((text) => this.$emit("change", text, file.name));
      event.target.value = "";
    },
    // Tab indents while something is typed; Escape and then Tab leaves the field.
    key(event) {
      if (event.key === "Escape") this.leaving = true;
      else if (event.key !== "Tab" || event.shiftKey || this.leaving) this.leaving = false;
      else {
        event.preventDefault();
        event.target.setRangeText("  ", event.target.selectionStart, event.target.selectionEnd, "end");
        this.$emit("change", event.target.value);
      }
    },
    line(text, index) {
      const here = this.faults.filter((each) => each.line === index + 1), tint = here.some((each) => !each.warning) ? "err" : here.length ? "warned" : "";
      return html`<div key=${index} class=${tint} data-line=${index + 1}><span class="ln">${index + 1}</span>${toml(text)}${here.length > 0 && html`<i class=${tint}>${here[0].warning ? "▲" : "✕"} ${here[0].message}</i>`}</div>`;
    },
  },
  render() {
    const lines = this.text.split("\n"), width = Math.max(...lines.map((each) => each.length), 40);
    return html`<div class="stack"><section class="card"><header><h2>The file</h2><span class="faint small">TOML, as for gauss run</span><span class="push"></span>${!this.locked && html`<label class="btn">Open a file…<input class="sr" type="file" accept=".toml,text/plain" data-testid="upload" onChange=${this.upload} /></label>`}</header>
        <div class="editor"><div class="code" style=${{ minWidth: `calc(${width}ch + 90px)`, minHeight: `${19 * Math.max(lines.length, 12) + 22}px` }}><div aria-hidden="true" class="drawn">${lines.map(this.line)}</div>
          <textarea aria-label="Pipeline file" spellcheck="false" autocapitalize="off" autocomplete="off" data-testid="file" placeholder="[[topics]] …" readonly=${this.locked} value=${this.text} onInput=${(event) => this.$emit("change", event.target.value)} onKeydown=${this.key}></textarea></div></div></section>
      ${this.faults.length > 0 && html`<ul class="faults" aria-label="Faults">${this.faults.map((each) => html`<li key=${`${each.line} ${each.column} ${each.message}`} class=${each.warning ? "warn" : "bad"}><button type="button" onClick=${() => this.to(each)}><b>${each.warning ? "▲" : "✕"} Line ${each.line}</b><span>${each.message}${each.expected && `: expected ${each.expected}`}${each.found && `, found ${each.found}`}. ${each.hint}</span></button></li>`)}</ul>`}</div>`;
  },
};
