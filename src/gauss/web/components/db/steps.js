// The tasks of a job on one line of time: cached ones are hollow, executed ones have a bar.
import { html } from "../html.js";
import { state } from "../live.js";
import { link } from "../parts.js";
import { took } from "./words.js";

const RUN = 5;
const GLYPHS = { succeeded: ["ok", "✓"], running: ["move", "◐"], failed: ["bad", "✕"], skipped: ["idle", "–"], queued: ["idle", "○"] };

// Five and more cached steps in a row become one, which a click opens.
export function folded(tasks, open) {
  const found = [];
  for (const task of tasks.filter(Boolean)) {
    const last = found.at(-1);
    if (task.cached && !open && last?.cached) last.tasks.push(task);
    else found.push({ cached: task.cached, tasks: [task] });
  }
  return found.flatMap((each) => (each.tasks.length >= RUN ? [each] : each.tasks.map((task) => ({ cached: task.cached, tasks: [task] }))));
}

export const Steps = {
  props: ["tasks", "ended"],
  data: () => ({ open: false }),
  methods: {
    // Where the bar of a task begins and ends, as shares of the whole.
    span(task, from, until) {
      if (!task.started_ms) return null;
      const whole = Math.max(until - from, 1), begin = (task.started_ms - from) / whole;
      return { left: `${100 * begin}%`, width: `${Math.max(100 * ((task.ended_ms ?? until) - task.started_ms) / whole, 0.6)}%` };
    },
    told(task) {
      if (task.cached) return "cached";
      if (task.status === "running") return `${took(Math.max(state.now - task.started_ms, 0))}…`;
      if (task.status === "succeeded") return took(task.duration_ms);
      return { queued: "waits", failed: "failed", skipped: "not run" }[task.status] ?? task.status;
    },
    row({ tasks }, from, until, at) {
      const [task] = tasks, [tint, glyph] = GLYPHS[task.status] ?? GLYPHS.queued, many = tasks.length > 1;
      const span = many || task.cached ? null : this.span(task, from, until);
      const name = many ? html`<button type="button" class="btn bare fold-open" aria-label=${`Show all ${tasks.length} cached steps`} onClick=${() => (this.open = true)}>${tasks.length} steps, ${task.title} to ${tasks.at(-1).title}</button>` : task.type === "state_execute" && task.state_id && task.status === "succeeded" ? link(`/db/states/${task.state_id}`, task.title, { class: "name clip", title: task.title }) : html`<span class="clip" title=${task.title}>${task.title}</span>`;
      return html`<li key=${task.number} class=${task.status} data-cached=${String(Boolean(task.cached))}><span class="chip step-glyph ${tint}"><i aria-hidden="true">${glyph}</i><span class="sr">${task.cached ? "cached" : task.status}</span></span>${name}
        <span class="track" aria-hidden="true">${task.cached ? html`<i class="hollow" style=${{ left: `${at}%` }}></i>` : span && html`<i class="solid ${tint}" style=${span}></i>`}</span><span class="told">${this.told(task)}</span></li>`;
    },
  },
  render() {
    const rows = folded(this.tasks, this.open), started = this.tasks.filter((each) => each?.started_ms);
    const from = Math.min(...started.map((each) => each.started_ms)), until = this.ended ? Math.max(...started.map((each) => each.ended_ms ?? each.started_ms)) : Math.max(state.now, from + 1);
    const first = started.find((each) => !each.cached && each.type !== "plan" && each.type !== "resolve_image");
    const place = first ? (100 * (first.started_ms - from)) / Math.max(until - from, 1) : 4;
    return html`<div><ol class="task-list">${rows.map((each, at) => this.row(each, from, until, Math.min(place, 90) + Math.min(at, 5) * 0.9))}</ol>
      <p class="legend pad"><span><i class="hollow"></i>cached</span><span><i class="solid"></i>ran</span></p></div>`;
  },
};
