// The pages of `gauss run`: what they read, where they are, what can be found.
import { defineAsyncComponent } from "vue";
import * as api from "./api.js";
import { go, state } from "./live.js";
import * as db from "./db/site.js";
import Home from "./home.js";

const page = (name) => defineAsyncComponent(() => import(`./${name}.js`));

export const run = {
  rows: ["topics", "processors"],
  async read() {
    const [overview, history, graph] = await Promise.all([api.get("/api/overview"), api.get("/api/history"), state.graph ?? api.get("/api/graph")]);
    return { overview, history, graph };
  },
  routes: [
    [/^\/$/, Home], [/^\/topics$/, page("topics")], [/^\/topics\/(.+)$/, page("topic")], [/^\/dead$/, page("dead")],
    [/^\/processors\/(.+)$/, Home], [/^\/syncs$/, page("syncs")], [/^\/syncs\/(.+)$/, page("syncs")],
    [/^\/pipeline$/, page("pipeline")], [/^\/health$/, page("health")], ...db.routes,
  ],
  rail: [
    ["/", "graph", "Graph", "g h"], ["/topics", "topic", "Topics", "g t"], ["/dead", "dead", "Dead letters", "g d", "Letters"],
    ["/syncs", "sync", "Syncs", "g s"], db.rail, null, ["/pipeline", "file", "Pipeline file", "g f"], ["/health", "health", "Health and logs", "g l"],
  ],
  home: "the graph",
  homes: ["/processors"],
  process: "run",
  signIn: "gauss open",
  keys: [["e r x", "edit, replay, discard a dead letter"]],
  hides: (path, seen) => (path === "/syncs" && !seen.syncs.all) || (path === "/db" && !seen.databases),
  counts: (seen) => ({ "/topics": [Object.keys(seen.topics).length], "/dead": [seen.dead, "warn"], "/syncs": [seen.syncs.all] }),
  live({ processes }) {
    const down = processes.filter((each) => each.state !== "ready");
    return down.length ? ["warn", `${down[0].name} ${down[0].state}`] : ["ok", `Live · ${processes.length} ${processes.length === 1 ? "process" : "processes"}`];
  },
  banner: () => null,
  finds: "A topic, a processor, a page…",
  found: ({ topics, processors }) => [
    ...Object.keys(topics).map((name) => ["topic", name, "topic", () => go(`/topics/${encodeURIComponent(name)}`)]),
    ...Object.keys(processors).map((name) => ["spark", name, "processor", () => go("/", { processor: name })]),
  ],
};
