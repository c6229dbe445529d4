// The events of a job as they come: its tasks, log, and why its first executed step was not cached.
import * as api from "../api.js";

const MOST_LINES = 500, AGAIN_MS = 1000;

export const following = {
  data: () => ({ job: null, tasks: [], log: [], miss: null, status: null, lost: null, missing: null }),
  mounted() {
    document.addEventListener("visibilitychange", this.follow);
    this.restart();
  },
  beforeUnmount() {
    document.removeEventListener("visibilitychange", this.follow);
    this.end();
  },
  watch: { name() { this.restart(); } },
  methods: {
    end() {
      this.request?.abort();
      clearTimeout(this.timer);
      this.request = null;
    },
    restart() {
      this.end();
      Object.assign(this, { job: null, tasks: [], log: [], miss: null, status: null, lost: null, missing: null });
      this.seq = 0;
      this.follow();
    },
    // A hidden tab gets nothing; one that is shown again goes on behind the last event that it has.
    async follow() {
      this.end();
      if (document.hidden || this.ended()) return;
      const request = (this.request = new AbortController()), path = api.path("databases", "prepare-jobs", this.name);
      try {
        if (!this.job) this.job = await api.get(path, {}, request.signal);
        this.lost = null;
        await api.stream(`${path}/events`, { from: this.seq + 1 }, request.signal, this.take);
        this.job = await api.get(path, {}, request.signal);
        this.status = this.job.status;
      } catch (error) {
        if (error.name === "AbortError" || this.request !== request) return;
        if (error.status === 404) this.missing = error;
        else Object.assign(this, { lost: error, timer: setTimeout(this.follow, AGAIN_MS) });
      }
    },
    ended() { return ["succeeded", "failed"].includes(this.status) || this.missing; },
    take(event) {
      if (event.seq <= this.seq) return; // a heartbeat
      this.seq = event.seq;
      if (event.type === "status") {
        this.status = event.status === "succeeded" || event.status === "failed" ? this.status : event.status;
        if (event.recovered) this.tasks = [];
      } else if (event.type === "task") this.tasks[event.task.number - 1] = event.task;
      else if (event.type === "log") {
        if (event.miss) this.miss = event.miss;
        this.log.push({ seq: event.seq, ts: event.ts, text: event.message, tint: event.stream === "stderr" ? "warn" : "" });
        if (this.log.length > MOST_LINES) this.log.shift();
      } else if (event.type === "error") this.log.push({ seq: event.seq, ts: event.ts, text: event.error.message, tint: "bad" });
    },
  },
};
