// Step 4: the server and the table that rows go to, how it is made, and how rows are sent. It is compared with a live
// table before anything is saved.
import * as api from "../api.js";
import { plural } from "../format.js";
import { html } from "../html.js";
import { icon } from "../icons.js";
import { action, button, failure, note, segments } from "../parts.js";
import { differences, guarantee, statement } from "./ddl.js";
import { apart, joined } from "./dsn.js";
import { faultsOf, field } from "./fields.js";
import { verdict } from "./known.js";

const NAMES = ["dsn", "database", "table", "batchSize", "flushIntervalMs", "insertRateLimit", "orderBy", "partitionBy", "engine", "ttl"];
const ENGINES = ["MergeTree", "ReplacingMergeTree", "ReplicatedMergeTree"];
const NUMBERS = ["batchSize", "flushIntervalMs", "insertRateLimit"];
const PAUSE_MS = 300;
const copy = (value) => api.parse(api.stringify(value));

export default {
  props: ["known"],
  emits: ["say", "go"],
  data() {
    const { known } = this, saved = known.clickhouse ?? { dsn: "", database: "default", table: "", batchSize: 50_000, flushIntervalMs: 1_000, insertRateLimit: 0, createTableIfMissing: true };
    return { form: { ...saved, ...apart(saved.dsn) }, mapping: copy(known.mapping), server: null, table: null, faults: {}, error: null, busy: "", as: "create" };
  },
  computed: {
    name() { return this.form.table || this.known.kafka.topic.replaceAll(".", "_"); },
    keys() { return this.mapping.columns.filter((each) => !each.nullable && !this.mapping.orderBy.includes(each.column)).map((each) => each.column); },
    found() { return this.table && verdict(this.table, this.form.createTableIfMissing); },
  },
  watch: {
    mapping: { deep: true, handler() { this.later(); } },
    "form.createTableIfMissing"() { this.say(); },
  },
  mounted() {
    this.say();
    if (this.form.server) this.connect();
  },
  beforeUnmount() { clearTimeout(this.timer); },
  methods: {
    path(...parts) { return api.path("pipelines", this.known.id, ...parts); },
    config() {
      const { form } = this, config = { dsn: joined(form), database: form.database, table: form.table.trim(), createTableIfMissing: form.createTableIfMissing };
      for (const key of NUMBERS) config[key] = `${form[key]}`.trim() === "" ? 0 : Number.isNaN(Number(form[key])) ? form[key] : Number(form[key]);
      return config;
    },
    say() {
      const { server, table, found } = this;
      if (!server?.ok) this.$emit("say", { text: "Where do the rows go?", lead: "Name a ClickHouse server; its databases and tables are listed then. Nothing is made before you start." });
      else if (found?.blocks) this.$emit("say", { text: `The table ${this.name} does not fit`, lead: "Correct it here or in the mapping. Nothing is changed in ClickHouse." });
      else if (table?.exists) this.$emit("say", { text: `Rows go to the table ${this.name}`, lead: found.adds.length ? `It is there; ${plural(found.adds.length, "column is", "columns are")} added at the start.` : "It is there, and each column of the mapping fits." });
      else if (table) this.$emit("say", { text: `The table ${this.name} will be made`, lead: "ClickHouse has tried the statement; the table is made at the start." });
    },
    refused(error) {
      if (error.status !== 422) return (this.error = error);
      this.faults = faultsOf(error, NAMES);
      if (this.faults.dsn) this.faults.server = this.faults.dsn;
    },
    // Asks the server what it has.
    async connect() {
      Object.assign(this, { busy: "connect", error: null, faults: {} });
      const typed = apart(this.form.server);
      if (typed.user || typed.rest) Object.assign(this.form, typed.user ? typed : {}, { server: typed.server, rest: "", kept: false, database: typed.rest.slice(1).split("?")[0] || this.form.database }); // a whole address was pasted
      if (!this.form.server.trim()) this.faults = { server: "such as http://clickhouse:8123, https for TLS" };
      else
        try {
          this.server = await api.post(this.path("draft", "clickhouse"), { clickhouse: this.config() });
          if (this.server.ok) await this.compare();
          else this.faults = this.unanswered(this.server);
        } catch (error) {
          this.server = null;
          this.refused(error);
        }
      this.busy = "";
      this.say();
      return this.server?.ok;
    },
    unanswered({ message, hint, databases }) {
      if (message.includes("AUTHENTICATION_FAILED")) return { password: "ClickHouse refuses this user or password" };
      return { [databases.length ? "database" : "server"]: `${message}${hint ? `; ${hint}` : ""}` };
    },
    later() {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.server?.ok && this.compare(), PAUSE_MS);
    },
    async compare() {
      const asked = (this.asked = {});
      try {
        const table = await api.post(this.path("draft", "table"), { clickhouse: this.config(), mapping: this.mapping });
        if (asked !== this.asked) return;
        if (table.exists !== this.table?.exists) this.as = table.exists ? "diff" : "create";
        Object.assign(this, { table, error: null, faults: {} });
      } catch (error) {
        if (asked === this.asked) this.refused(error);
      }
      this.say();
    },
    async next() {
      clearTimeout(this.timer);
      if (!(await this.connect()) || Object.keys(this.faults).length || this.error || this.found?.blocks) return;
      this.busy = "save";
      const { known } = this;
      try {
        known.clickhouse = await api.put(this.path("clickhouse-config"), this.config());
        if (api.stringify(this.mapping) !== api.stringify(known.mapping)) known.mapping = await api.put(this.path("mapping"), this.mapping);
        known.table = this.table;
        this.$emit("go", "start");
      } catch (error) {
        this.refused(error);
      }
      this.busy = "";
    },
    move(at, by) {
      const order = this.mapping.orderBy, [each] = order.splice(at, 1);
      order.splice(at + by, 0, each);
    },
    sorting() {
      const { orderBy } = this.mapping;
      return html`<fieldset class="sorting"><legend>Sorted by</legend><div class="chips">${orderBy.map((each, at) => html`<span class="key" key=${each}>${at > 0 && html`<button type="button" aria-label="Move ${each} forward" onClick=${() => this.move(at, -1)}>‹</button>`}<b class="mono">${each}</b><button type="button" aria-label="Do not sort by ${each}" onClick=${() => orderBy.splice(at, 1)}>${icon("close")}</button></span>`)}
        ${this.keys.length > 0 && html`<select aria-label="Also sort by" onChange=${(event) => { if (event.target.value) orderBy.push(event.target.value); event.target.value = ""; }}><option value="">${orderBy.length ? "then by…" : "no order"}</option>${this.keys.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select>`}</div>
        <small>${this.faults.orderBy ? html`<span class="fault">✕ ${this.faults.orderBy}</span>` : "Columns with few values first, then the time. Columns that may be null can't be sorted by."}</small></fieldset>`;
    },
    // How a table that is made is made; one that is there keeps its own.
    made() {
      const { mapping, known } = this, set = (key) => ({ value: mapping[key] ?? "", onInput: (event) => (mapping[key] = event.target.value.trim() ? event.target.value : null) });
      const engines = [...new Set([...ENGINES, mapping.engine])].map((each) => [each, each]);
      return html`<details open=${!this.table?.exists}><summary>How the table is made</summary><div class="form">
        ${this.sorting()}
        <div class="pair-fields">${field(mapping, "engine", "Engine", this.faults, { options: engines, onInput: null, onChange: (event) => (mapping.engine = event.target.value), said: mapping.engine.includes("Replacing") ? "rows with the same sorting key become one" : "" })}${field(mapping, "partitionBy", "Partitioned by", this.faults, { class: "mono", placeholder: "nothing", ...set("partitionBy") })}</div>
        ${field(mapping, "ttl", "Rows are deleted after", this.faults, { class: "mono", placeholder: known.ttl ? `never; such as ${known.ttl}` : "never", ...set("ttl") })}
        ${known.ttl && !mapping.ttl && html`<div>${button(`Take ${known.ttl}`, () => (mapping.ttl = known.ttl))}</div>`}</div></details>`;
    },
    side() {
      const { table, found } = this;
      if (!table) return html`<section class="card pane table-pane"><header><h2>Table</h2></header><p class="pad soft small">Its statement is shown here once the server answers.</p></section>`;
      return html`<section class="card pane table-pane"><header><h2>Table</h2><span class="faint small clip">${this.form.database}.${this.name}</span><span class="push"></span>${segments("What is shown of the table", [["create", "Create"], ["diff", "Diff"]], this.as, (as) => (this.as = as))}</header>
        ${this.as === "create" ? statement(table.ddl, new Set(), new Set()) : html`<div class="pad">${differences(table)}</div>`}
        <div class="pad stack">${found.blocks ? note("bad", "✕", html`<b>No row would be inserted.</b> ${found.blocks}. ${found.hint}`) : guarantee(found.once, table.guarantee.startsWith("at least once: ") ? `${table.guarantee[15].toUpperCase()}${table.guarantee.slice(16)}` : "")}
          ${!found.blocks && found.others.length > 0 && note("idle", "○", `${plural(found.others.length, "other difference does", "other differences do")} no harm: the live table stays as it is.`)}</div></section>`;
    },
  },
  render() {
    const { form, faults, server } = this, input = (key, label, more) => field(form, key, label, faults, more);
    const again = { onChange: () => this.connect() };
    return html`<form class="stack" onSubmit=${(event) => { event.preventDefault(); this.next(); }}><div class="table-step"><section class="card"><header><h2>ClickHouse</h2>${server?.ok && html`<span class="small fits">✓ answers</span>`}</header><div class="form pad">
          ${input("server", "Server", { placeholder: "http://clickhouse:8123", said: "http or https, with its port" })}
          <div class="pair-fields">${input("user", "User", { placeholder: "default" })}${input("password", "Password", { type: "password", autocomplete: "new-password", placeholder: form.kept ? "as it is saved" : "none", said: "stored encrypted, never shown" })}</div>
          <div>${action(this.busy === "connect" ? "Connecting…" : server?.ok ? "Connect again" : "Connect", () => this.connect(), { busy: this.busy !== "", "data-testid": "connect" })}</div>
          ${server?.databases.length > 0 && html`<div class="pair-fields">${input("database", "Database", { options: [...new Set([form.database, ...server.databases])].map((each) => [each, each]), ...again })}${input("table", "Table", { list: "known-tables", placeholder: this.name, said: `${plural(server.tables.length, "table")} there; another name is a new one`, ...again })}</div>
          <datalist id="known-tables">${server.tables.map((each) => html`<option key=${each} value=${each}></option>`)}</datalist>
          <label class="check"><input type="checkbox" checked=${form.createTableIfMissing} onChange=${(event) => (form.createTableIfMissing = event.target.checked)} />Make the table if it is missing</label>${this.made()}
          <details><summary>How rows are sent: ${form.batchSize} rows or ${form.flushIntervalMs} ms at a time${Number(form.insertRateLimit) > 0 ? `, ${form.insertRateLimit} rows/s at most` : ""}</summary><div class="form"><div class="pair-fields">${input("batchSize", "Rows of a batch", { inputmode: "numeric" })}${input("flushIntervalMs", "Longest wait of a record, ms", { inputmode: "numeric" })}</div>
            ${input("insertRateLimit", "Most rows per second", { inputmode: "numeric", said: "of the whole pipeline, all replicas together; 0: no limit" })}</div></details>`}
          ${faults[""] && failure({ message: faults[""] })}${failure(this.error)}</div></section>${this.side()}</div>
      <section class="card"><footer class="wizard-foot"><span class="soft small">${this.busy === "save" ? "Saving…" : "Next: a summary, and the start"}</span><span class="push"></span>${button("Back", () => this.$emit("go", "mapping"))}${action(this.busy ? "Checking…" : "Check and continue", this.next, { kind: "solid", busy: this.busy !== "", "data-testid": "next" })}</footer></section></form>`;
  },
};
