// The pages of `gauss serve`: what they read, where they are, what can be found.
import { defineAsyncComponent } from "vue";
import * as api from "../api.js";
import * as db from "../db/site.js";
import { plural } from "../format.js";
import { html } from "../html.js";
import { go, state } from "../live.js";
import { note, operator } from "../parts.js";
import { live as up, needs } from "./state.js";
import List from "./list.js";

const page = (name) => defineAsyncComponent(() => import(`./${name}.js`));

export const fleet = {
  rows: ["pipelines"],
  async read() {
    const [overview, history] = await Promise.all([api.get("/api/overview"), api.get("/api/history")]);
    return { overview, history };
  },
  routes: [
    [/^\/$/, List], [/^\/pipelines\/([^/]+)(?:\/.*)?$/, page("pipeline")],
    [/^\/new\/file$/, page("file")], [/^\/new(?:\/([a-z]+))?$/, page("wizard"), "wizard"], // the steps share a page
   
    [/^\/workers$/, page("workers")], [/^\/audit$/, page("audit")], ...db.routes,
  ],
  rail: [["/", "pipelines", "Pipelines", "g p"], ["/workers", "workers", "Workers", "g w"], db.rail, null, ["/audit", "file", "Audit", "g a"]],
  home: "the pipelines",
  homes: ["/pipelines", "/new"],
  process: "server",
  signIn: "gauss serve",
  keys: [["e r x", "edit, replay, discard a dead letter"]],
  hides: () => false,
  counts: (seen) => {
    const rows = Object.values(seen.pipelines);
    const bad = rows.filter((each) => needs(each, seen.workers)).length;
    return { "/": bad ? [bad, "warn"] : [rows.length], "/workers": [up(seen.workers).length] };
  },
  live: ({ workers }) => (up(workers).length ? ["ok", `Live · ${plural(up(workers).length, "worker")}`] : ["warn", "No worker is up"]),
  banner({ workers }) {
    const without = up(workers).filter((each) => each.mode === "no-leases");
    if (!without.length) return null;
    return note("warn", "▲", html`<b>${plural(without.length, "worker runs", "workers run")} with --no-leases.</b> Each runs one instance of every started pipeline, whatever its replicas; rows are still written once. Start ${without.length === 1 ? "it" : "them"} without the option to place replicas.`);
  },
  finds: "A pipeline, a page…",
  found: ({ pipelines }) => [
    ...Object.values(pipelines).map((each) => ["pipelines", each.name, "pipeline", () => go(`/pipelines/${each.id}`)]),
    ...(operator() ? [["plus", "New pipeline", "do", () => go("/new/kafka")]] : []),
    ...(state.role === "admin" ? [["file", "New pipeline of a Gauss file", "do", () => go("/new/file")]] : []),
  ],
};
