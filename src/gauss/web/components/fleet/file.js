// A whole Gauss file as a pipeline: made at /new/file, and edited on a page of its pipeline.
import * as api from "../api.js";
import { plural } from "../format.js";
import { html } from "../html.js";
import { go, state, toast } from "../live.js";
import { action, button, failure, link, note } from "../parts.js";
import { field } from "./fields.js";
import { FileEditor } from "./file_editor.js";

const PAUSE_MS = 300;

export default {
  props: ["row"],
  data: () => ({ form: { name: "" }, text: "", saved: "", faults: [], wrong: {}, checked: false, error: null, busy: false }),
  computed: { errors() { return this.faults.filter((each) => !each.warning).length; }, admin: () => state.role === "admin" },
  async mounted() {
    if (!this.row) return;
    try {
      this.text = this.saved = (await api.get(api.path("pipelines", this.row.id, "file-config"))).text;
      await this.check();
    } catch (error) {
      this.error = error;
    }
  },
  beforeUnmount() { clearTimeout(this.timer); },
  methods: {
    change(text, name = "") {
      this.text = text;
      if (name && !this.form.name) this.form.name = name.replace(/\.toml$/, "");
      clearTimeout(this.timer);
      this.checked = false;
      this.timer = setTimeout(this.check, PAUSE_MS);
    },
    async check() {
      const { text } = this;
      if (!this.admin || !text.trim()) return Object.assign(this, { faults: [], checked: false });
      try {
        const { faults } = await api.post("/api/validate/file", { text });
        if (text === this.text) Object.assign(this, { faults, checked: true, error: null });
      } catch (error) {
        this.error = error;
      }
    },
    async save() {
      this.wrong = this.row || this.form.name.trim() ? {} : { name: "give it a name" };
      if (Object.keys(this.wrong).length) return;
      Object.assign(this, { busy: true, error: null });
      try {
        await this.check();
        if (this.errors || this.error) return;
        const id = this.row?.id ?? this.made ?? (this.made = (await api.post("/api/pipelines", { name: this.form.name.trim() })).id);
        this.saved = (await api.put(api.path("pipelines", id, "file-config"), { text: this.text })).text;
        toast(this.row ? (this.row.desired === "started" ? "Saved. The run is replaced by one of this file" : "Saved. It applies at the next start") : `${this.form.name} is made; start it when you like`);
        if (!this.row) go(`/pipelines/${id}`);
      } catch (error) {
        this.error = error;
      } finally {
        this.busy = false;
      }
    },
    said() {
      if (!this.text.trim()) return "Take a file of gauss run, or write one";
      if (!this.checked) return "Checking the file…";
      return this.errors ? `The file has ${plural(this.errors, "error")}` : this.faults.length ? `No errors, ${plural(this.faults.length, "warning")}` : "The file has no faults";
    },
    body() {
      return html`${failure(this.error)}<${FileEditor} text=${this.text} faults=${this.faults} locked=${!this.admin} onChange=${this.change} />
        <section class="card"><footer class="wizard-foot"><span class="soft small">A worker runs it under one slot, as gauss run does. Its passwords are variables of the workers, such as \${PASSWORD}.</span><span class="push"></span>${!this.row && link("/", "Cancel", { class: "btn" })}${this.row && this.text !== this.saved && button("Discard changes", () => this.change(this.saved))}
          ${action(this.busy ? "Saving…" : this.row ? "Save" : "Make the pipeline", this.save, { kind: "solid", busy: this.busy || !this.admin || this.errors > 0 || !this.text.trim() || (this.row && this.text === this.saved), "data-testid": "next" })}</footer></section>`;
    },
  },
  render() {
    const locked = state.overview && !this.admin && note("idle", "○", html`<b>Only admins change files.</b> A file names code, and files of the machine that runs it.`);
    if (this.row) return html`<div class="stack"><h2 class="said" aria-live="polite">${this.admin ? this.said() : "The file that runs"}</h2>${locked}${this.body()}</div>`;
    if (!state.overview) return html`<div class="page"><h1 class="soft">Reading…</h1></div>`;
    if (!this.admin) return html`<div class="page"><h1>Only admins make pipelines of files</h1><p class="lead">A file names code, and files of the machine that runs it. Ask an admin of this fleet.</p></div>`;
    return html`<div class="page"><header class="page-head"><div><p class="crumbs">${link("/", "Pipelines")} / New pipeline</p><h1 aria-live="polite">${this.said()}</h1><p class="lead">Whatever gauss run can do, such as windows, joins and sockets, runs in the fleet too: as one pipeline with one replica.</p></div></header>
      <section class="card"><div class="form pad">${field(this.form, "name", "Name of the pipeline", this.wrong, { placeholder: "market" })}</div></section>${this.body()}</div>`;
  },
};
