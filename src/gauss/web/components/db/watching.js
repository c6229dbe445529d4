// One reading of the engine a second while somebody looks, fewer if a reading takes long; one without news is not sent. When the engine ends meanwhile, the last figures stay.
import * as api from "../api.js";
import { clock } from "../format.js";
import { html } from "../html.js";
import { toast } from "../live.js";
import { action, empty, failure, note } from "../parts.js";

const LOOK_MS = 1000, SHARE = 4;

export const watching = {
  data: () => ({ reading: null, error: null, goneAt: 0, starting: false }),
  mounted() {
    document.addEventListener("visibilitychange", this.look);
    this.look();
  },
  beforeUnmount() {
    this.left = true;
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.look);
  },
  methods: {
    async look() {
      clearTimeout(this.timer);
      const began = performance.now();
      if (!document.hidden) await this.read();
      clearTimeout(this.timer);
      if (!this.left) this.timer = setTimeout(this.look, Math.max(LOOK_MS, SHARE * (performance.now() - began)));
    },
    async read() {
      try {
        const found = await api.get("/api/databases"), text = api.stringify(found);
        this.error = null;
        if (found.engine !== "running" && this.reading?.engine === "running") {
          this.goneAt ||= this.readAt;
          return;
        }
        Object.assign(this, { goneAt: 0, readAt: Date.now() });
        if (text !== this.text) Object.assign(this, { reading: found, text });
      } catch (error) {
        this.error = error;
      }
    },
    async startEngine() {
      this.starting = true;
      try {
        await api.post("/api/databases/start");
        toast("The engine runs");
      } catch (error) {
        this.error = error;
      }
      this.starting = false;
      await this.read();
    },
    startButton(kind = "") { return action(this.starting ? "Starting…" : "Start the engine", this.startEngine, { kind, busy: this.starting, "data-testid": "start" }); },
    // What is wrong with the engine, above the last figures.
    trouble() {
      if (this.error) return failure(this.error);
      if (!this.goneAt) return null;
      return html`<div class="gone">${note("warn", "▲", html`<b>The engine has ended.</b> You look at ${clock(this.goneAt)}. States stay on the disk, and so do the databases if it was killed; the next <code>gauss db</code> command starts it.`)}${this.startButton()}</div>`;
    },
    // Instead of figures, where there are none.
    nothing() {
      const typed = html`<pre class="code typed"><div>gauss db prepare --data-dir ${this.reading.data_dir} -- -f schema.sql</div></pre>`;
      if (this.reading.engine === "never")
        return { title: "No database has been prepared here", content: empty("From scripts to a Postgres, in milliseconds the next time", html`Each step is stored as a state; what did not change is cloned. Prepare the first one on this machine:`, typed) };
      return { title: "The engine is not running", content: empty("States stay on the disk", html`The engine ends after 15 minutes without databases. The next command starts it:`, typed, this.startButton(this.reading.named.length ? "" : "solid")) };
    },
  },
};
