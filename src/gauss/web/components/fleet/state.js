// What the state of a pipeline means to people: does it need somebody, why, what is safe, what to do next.
import { count, exact } from "../format.js";
import { html } from "../html.js";

export const live = (workers) => workers.filter((each) => each.live);
const full = (workers) => live(workers).length > 0 && live(workers).every((each) => each.maxSlots !== null && each.slots >= each.maxSlots);

// How many more slots workers can take; null if none is up.
export function room(workers) {
  const up = live(workers);
  return up.length ? up.reduce((sum, each) => sum + (each.maxSlots === null ? Infinity : Math.max(each.maxSlots - each.slots, 0)), 0) : null;
}

// Null for a pipeline that needs nobody, else what is wrong with it and the page that helps.
export function needs(row, workers) {
  if (row.desired === "stopped") return null;
  const safe = row.lag ? `${count(row.lag)} records wait in Kafka; none is lost.` : "Nothing is lost: records wait in Kafka.";
  if (row.observed === "failing") return { tint: "bad", cause: row.reason, safe, next: "Workers try again by themselves once it is corrected.", to: "", verb: "Open" };
  if (live(workers).length === 0) return { tint: "bad", cause: "No worker is up", safe, next: html`Start <code>gauss worker</code> with the store of this server, or <code>gauss serve --with-worker</code>.`, to: "", verb: "Open" };
  const room = full(workers) ? "All workers are full: start one more, or raise --max-slots." : html`Start one more <code>gauss worker</code>, or lower the replicas.`;
  if (row.observed === "degraded") return { tint: "warn", cause: row.reason, safe, next: row.held < row.replicas ? room : "", to: "", verb: "Open" };
  if (row.observed === "starting" && row.held === 0 && full(workers)) return { tint: "warn", cause: "No worker has room for it", safe, next: room, to: "", verb: "Open" };
  if (row.alert) return { tint: "warn", cause: row.alert, safe: kept(row), next: "", to: "/dead", verb: "See them" };
  return null;
}

// Which dead letters can still be replayed.
export const kept = (row) => (row.lettersDropped ? `${exact(row.lettersKept)} are kept and can be replayed, ${exact(row.lettersDropped)} were only counted.` : "All are kept for 30 days and can be replayed.");

const MOST_SQUARES = 12;
// Filled squares are held, hollow ones are missing; stopped pipelines want none.
export function slots(row) {
  const text = `${row.held}/${row.replicas}`;
  if (row.replicas > MOST_SQUARES) return html`<span class="slots">${text}</span>`;
  const missing = row.desired === "stopped" ? "off" : "missing";
  const squares = Array.from({ length: Math.max(row.replicas, row.held) }, (_, at) => html`<i key=${at} class=${at < row.held ? "held" : missing}></i>`);
  return html`<span class="slots" title=${`${row.held} of ${row.replicas} slots are held`}>${squares}<span>${text}</span></span>`;
}

const TINTS = { running: "ok", starting: "move", stopping: "move", degraded: "warn", failing: "bad", stopped: "idle" };
export const tintOf = (row) => TINTS[row.observed] ?? "idle";
export const isDraft = (row) => !row.isFile && (!row.topic || !row.table);

// Seconds as people say lag.
export function behind(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}
