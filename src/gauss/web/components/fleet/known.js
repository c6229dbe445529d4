// What is known of a pipeline that is made or changed: its saved configs, and what is proposed but not saved.
import * as api from "../api.js";

export async function read(id) {
  const known = { id, name: "", kafka: null, clickhouse: null, mapping: null, filters: null, draft: null, from: "end", desired: "stopped", replicas: 1 };
  if (!id) return known;
  const part = (path) => api.get(api.path("pipelines", id, path)).catch((error) => { if (error.status !== 404) throw error; return null; });
  const [one, kafka, clickhouse, mapping, filters] = await Promise.all([api.get(api.path("pipelines", id)), part("kafka-config"), part("clickhouse-config"), part("mapping"), part("filters-config")]);
  return Object.assign(known, { name: one.name, kafka, clickhouse, mapping, filters, desired: one.desired, replicas: one.replicas });
}

// What stands between a live table and a mapping, as the API compares them. `blocks`: why no row would be inserted.
export function verdict(table, create) {
  const all = table.differences ?? [], theirs = all.some((each) => each.change === "add" && ["_inc", "_offset"].includes(each.name));
  const lacking = all.filter((each) => each.change === "add" && !["_inc", "_offset"].includes(each.name)), types = all.filter((each) => each.change === "type");
  let blocks = "";
  if (!table.exists && !table.ok) blocks = table.message;
  else if (!table.exists && !create) blocks = "The table is missing, and shall not be made";
  else if (types.length) blocks = `${types.map((each) => `${each.name} is ${each.live} in the table, ${each.wanted} in the mapping`).join("; ")}`;
  else if (theirs && lacking.length) blocks = `The table is yours and never changed, but has no ${lacking.map((each) => each.name).join(", ")}`;
  return { blocks, hint: table.hint ?? "", theirs, once: !theirs, adds: theirs ? [] : lacking, others: all.filter((each) => ["table", "default", "extra"].includes(each.change)) };
}
