// How states, jobs and times are called.
import { duration } from "../format.js";
import { chip } from "../parts.js";

export const short = (id) => id.slice(0, 8);
export const took = (ms) => (ms === null || ms === undefined ? "–" : ms < 1000 ? `${Math.round(ms)} ms` : duration(ms));
const quoted = (word) => (/^[\w./:=@…-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
// The words of the command that asks for the same.
export const command = (job) => ["gauss", "db", "prepare", ...(job.prepare_kind === "psql" ? [] : ["--kind", job.prepare_kind]), ...(job.image ? ["--image", quoted(job.image)] : []), "--", ...job.args.map(quoted)];
export const sentence = (text) => text && `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
export const asked = (job) => `${job.prepare_kind} ${job.args.map(quoted).join(" ")}`;
export const reasons = (marks) => [...new Set(marks.map((each) => each.reason))].join(", ");

// The state of a job; a running one moves.
export const jobChip = (job, status = job.status) => {
  const word = job.error?.code === "cancelled" ? "cancelled" : (status ?? job.status);
  return chip(word === "running" ? "starting" : word, word);
};

// Time left of an instance, as a share and in words. One that is held or kept has no end.
export function left(instance, now) {
  if (instance.held) return { share: 1, text: "in use", tint: "ok" };
  if (instance.expires_ms === null) return { share: 1, text: "kept", tint: "ok" };
  const ms = Math.max(instance.expires_ms - now, 0), share = Math.min(ms / 1000 / instance.ttl_secs, 1);
  const seconds = Math.floor(ms / 1000), clock = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  return { share, text: seconds >= 6000 ? duration(ms) : clock, tint: share < 0.1 ? "bad" : share < 1 / 3 ? "warn" : "ok" };
}

// Of several jobs that asked for the same the newest one: what can be prepared again.
export function requests(jobs) {
  const seen = new Map();
  for (const job of jobs) {
    const key = JSON.stringify([job.prepare_kind, job.args, job.cwd, job.image]);
    if (!seen.has(key)) seen.set(key, job);
  }
  return [...seen.values()];
}
