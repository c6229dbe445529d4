// What all pages share: the newest figures, who looks, and where. Figures come as one whole reading and then as changes.
import { markRaw, reactive } from "vue";
import * as api from "./api.js";

export const state = reactive({
  overview: null, history: markRaw({}), graph: null, role: "viewer",
  at: 0, connected: true, signedOut: false, problem: null, now: Date.now(), path: location.pathname,
  query: Object.fromEntries(new URLSearchParams(location.search)), toasts: [],
});
const KEPT = 60;
let waiting = null;

let site = null;

// What these pages are about, a run or a fleet: `rows` are the parts of its figures that come row by row, `read` gets all.
export const use = (given) => (site = given);

export function apply(changes) {
  if (waiting) return waiting.push(changes);
  state.at = changes.at_ms;
  state.connected = true;
  if (!state.overview) return;
  for (const [key, value] of Object.entries(changes)) if (!site.rows.includes(key) && !key.startsWith("gone_")) state.overview[key] = value;
  for (const kind of site.rows) {
    const rows = state.overview[kind], histories = (state.history[kind] ??= {}); // raw: thousands of figures a second
    Object.assign(rows, changes[kind]);
    for (const name of changes[`gone_${kind}`] ?? []) delete rows[name];
    for (const [name, row] of Object.entries(rows)) {
      const seen = (histories[name] ??= []);
      seen.push(row.rate);
      if (seen.length > KEPT) seen.shift();
    }
  }
  state.history = markRaw({ ...state.history });
}

export async function refresh() {
  waiting = [];
  try {
    const [found, session] = await Promise.all([site.read(), api.get("/api/session")]);
    for (const each of [found.history, found.graph]) if (each) markRaw(each);
    Object.assign(state, found, { role: session.role, at: Date.now(), problem: null, connected: true });
  } catch (error) {
    state.problem = error;
  } finally {
    const missed = waiting ?? [];
    waiting = null;
    missed.forEach(apply);
  }
}

export function go(path, query = {}, replace = false) {
  const given = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== "" && value !== undefined));
  const url = api.withQuery(path, given);
  history[replace ? "replaceState" : "pushState"](null, "", url);
  const moved = state.path !== path;
  Object.assign(state, { path, query: given });
  if (moved) scrollTo(0, 0);
}
addEventListener("popstate", () => {
  state.path = location.pathname;
  state.query = Object.fromEntries(new URLSearchParams(location.search));
});
addEventListener("signed-out", () => (state.signedOut = true));
setInterval(() => (state.now = Date.now()), 1000);

let number = 0;
// A toast says that something is done; with `undo` it is done only when its time has passed, when it is finished by the
// function that is returned, or when the pages are left.
export function toast(text, { undo = null, then = null, seconds = 8 } = {}) {
  const one = { id: ++number, text, undo };
  let ended = false, done;
  const end = (kept) => {
    if (ended) return done;
    ended = true;
    clearTimeout(timer);
    state.toasts = state.toasts.filter((each) => each.id !== one.id);
    return (done = kept ? then?.() : undo?.());
  };
  const timer = setTimeout(() => end(true), seconds * 1000);
  Object.assign(one, { take_back: () => end(false), finish: () => end(true) });
  state.toasts.push(one);
  return one.finish;
}
addEventListener("pagehide", () => { for (const each of [...state.toasts]) each.finish(); });
