// Step 1: which topic, on which brokers, in which format.
import * as api from "../api.js";
import { html } from "../html.js";
import { go } from "../live.js";
import { action, failure, link } from "../parts.js";
import { faultsOf, field } from "./fields.js";

// What the schemas of a format are given as; other settings are JSON.
const SCHEMAS = { avro: [["schema_text", "Schema of the records (.avsc), as JSON", { area: true, class: "mono" }]], protobuf: [["proto_text", "Schema of the records (.proto)", { area: true, class: "mono" }], ["message", "Message", { placeholder: "Order" }]] };
const REGISTRY = [["url", "Address of the registry", { placeholder: "http://registry:8081" }], ["subject", "Subject", { placeholder: "orders-value" }], ["username", "User"], ["password", "Password", { type: "password", autocomplete: "new-password", said: "stored encrypted, never shown" }]];
const NAMES = ["name", "brokers", "topic", "groupId", "startOffset", "securityProtocol", "saslMechanism", "saslUsername", "saslPassword", "tlsCa", "tlsCert", "tlsKey", "formatConfig", "format"];
const FORMATS = ["json", "avro", "protobuf", "msgpack", "csv"].map((each) => [each, each]);
const SECURITY = [["plaintext", "none"], ["ssl", "TLS"], ["sasl_plaintext", "password, without TLS"], ["sasl_ssl", "password and TLS"]];
const MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"].map((each) => [each, each]);

// What a refusal of the brokers means, beside the setting that it is about.
function unanswered({ message, hint }, security) {
  if (message.includes("UNKNOWN_TOPIC")) return { topic: "The brokers have no topic of this name" };
  if (message.includes("TOPIC_AUTHORIZATION")) return { topic: "This user may not read the topic" };
  if (message.includes("_AUTHENTICATION")) return { [security.startsWith("sasl") ? "saslPassword" : "securityProtocol"]: `The brokers refuse this login${/mechanism/.test(message) ? " or its mechanism" : ""}` };
  return { brokers: `${message[0].toUpperCase()}${message.slice(1)}${hint ? `; ${hint}` : ""}` };
}

export default {
  props: ["known"],
  emits: ["say", "go"],
  data() {
    const { registry, ...others } = this.known.kafka?.formatConfig ?? {}, inSchemas = Object.values(SCHEMAS).flat().map(([key]) => key);
    const settings = Object.fromEntries(Object.entries(others).filter(([key]) => !inSchemas.includes(key)));
    const kafka = this.known.kafka ?? {}, start = kafka.startOffset ?? "earliest", named = ["earliest", "latest"].includes(start);
    return {
      form: { ...kafka, name: this.known.name, brokers: (kafka.brokers ?? []).join(", "), topic: kafka.topic ?? "", format: kafka.format ?? "json", securityProtocol: kafka.securityProtocol ?? "plaintext", saslMechanism: kafka.saslMechanism ?? "PLAIN",
        start: named ? start : typeof start === "string" ? "time" : "offsets", at: typeof start === "string" && !named ? start : "", formatConfig: api.stringify(settings) },
      schema: { ...others }, registry: { ...registry },
      faults: {}, busy: false, error: null,
    };
  },
  mounted() { this.$emit("say", { text: this.known.id ? `Records come from ${this.known.kafka?.topic ?? "a topic"}` : "Where do the records come from?", lead: this.known.desired === "started" ? "The brokers are asked before a change is saved. It applies to the running pipeline at once." : "The brokers are asked before you go on. Nothing is read or written yet." }); },
  methods: {
    config() {
      const { name, start, at, ...form } = this.form, given = (from) => Object.fromEntries(Object.entries(from).filter(([, value]) => value));
      const startOffset = start === "time" ? at : start === "offsets" ? this.known.kafka.startOffset : start;
      const schema = Object.fromEntries((SCHEMAS[form.format] ?? []).map(([key]) => [key, this.schema[key]]));
      const registry = SCHEMAS[form.format] && this.registry.url ? { registry: given(this.registry) } : {};
      return { ...form, startOffset, formatConfig: { ...api.parse(form.formatConfig || "{}"), ...given(schema), ...registry } };
    },
    async next() {
      Object.assign(this, { faults: {}, error: null });
      let config;
      try { config = this.config(); } catch { this.faults = { formatConfig: "expected a JSON object, such as {\"fields\": [\"id\"]}" }; return; }
      for (const [key, text] of [["name", "give it a name"], ["brokers", "such as broker1:9092, broker2:9092"], ["topic", "the name of the topic"]]) if (!this.form[key].trim()) this.faults[key] = text;
      if (Object.keys(this.faults).length) return;
      this.busy = true;
      try {
        const found = await this.save(config);
        if (found.ok) return this.$emit("go", "sample");
        Object.assign(this.faults, unanswered(found, this.form.securityProtocol));
      } catch (error) {
        this.faults = error.status === 422 ? faultsOf(error, NAMES) : {};
        if (error.status !== 422) this.error = error;
      } finally {
        this.busy = false;
      }
    },
    // A new pipeline is made, and a config is saved, only when the brokers have answered.
    async save(config) {
      const { known } = this, name = this.form.name.trim();
      const found = await (known.id ? api.post(api.path("pipelines", known.id, "draft", "kafka"), { kafka: config }) : api.post("/api/validate/kafka", config));
      if (!found.ok) return found;
      if (!known.id) {
        known.id = (await api.post("/api/pipelines", { name })).id;
        go("/new/kafka", { pipeline: known.id }, true);
      } else if (name !== known.name) await api.put(api.path("pipelines", known.id), { name, description: (await api.get(api.path("pipelines", known.id))).description });
      known.name = name;
      known.kafka = await api.put(api.path("pipelines", known.id, "kafka-config"), config);
      return found;
    },
  },
  render() {
    const { form, faults } = this, sasl = form.securityProtocol.startsWith("sasl"), tls = form.securityProtocol.endsWith("ssl");
    const input = (key, label, more) => field(form, key, label, faults, more);
    return html`<form class="card wizard" onSubmit=${(event) => { event.preventDefault(); this.next(); }}><div class="form pad">
        <div class="pair-fields">${input("name", "Name of the pipeline", { placeholder: "orders" })}${input("topic", "Topic", { placeholder: "shop.orders" })}</div>
        ${input("brokers", "Brokers", { placeholder: "broker1:9092, broker2:9092", said: "host:port, with commas" })}
        <div class="pair-fields">${input("format", "Format of the records", { options: FORMATS })}${input("start", "Start at", { options: [["earliest", "the oldest record"], ["latest", "records from now on"], ["time", "a time"], ...(form.start === "offsets" ? [["offsets", "offsets per partition"]] : [])] })}</div>
        ${form.start === "time" && field(form, "at", "Time, with its zone", { at: faults.startOffset }, { placeholder: "2026-01-31T10:00:00Z" })}
        ${SCHEMAS[form.format]?.map(([key, label, more]) => field(this.schema, key, label, {}, more))}
        ${SCHEMAS[form.format] && html`<details open=${Boolean(this.registry.url)}><summary>Schema registry</summary><div class="pair-fields">${REGISTRY.map(([key, label, more]) => field(this.registry, key, label, {}, more))}</div></details>`}
        ${SCHEMAS[form.format] && faults.formatConfig && failure({ message: faults.formatConfig })}
        ${((form.format !== "json" && !SCHEMAS[form.format]) || form.formatConfig !== "{}") && input("formatConfig", "Settings of the format, as JSON", { area: true, class: "mono" })}
        <div class="pair-fields">${input("securityProtocol", "Security", { options: SECURITY })}${sasl && input("saslMechanism", "Mechanism", { options: MECHANISMS })}</div>
        ${sasl && html`<div class="pair-fields">${input("saslUsername", "User")}${input("saslPassword", "Password", { type: "password", autocomplete: "new-password", said: "stored encrypted, never shown" })}</div>`}
        ${tls && html`<div class="pair-fields">${input("tlsCa", "Authority of the brokers, PEM", { area: true, class: "mono", said: "empty: those of the system" })}${input("tlsCert", "Own certificate, PEM", { area: true, class: "mono" })}</div>`}
        ${tls && input("tlsKey", "Its key, PEM", { area: true, class: "mono", said: "stored encrypted, never shown" })}
        <details><summary>More</summary>${input("groupId", "Consumer group", { placeholder: "one of this pipeline" })}</details>
        ${faults[""] && failure({ message: faults[""] })}${failure(this.error)}</div>
      <footer class="wizard-foot"><span class="soft small">${this.busy ? "Asking the brokers…" : "Next: a look at the records"}</span><span class="push"></span>${link("/", "Cancel", { class: "btn" })}${action(this.busy ? "Checking…" : "Check and continue", this.next, { kind: "solid", busy: this.busy, "data-testid": "next" })}</footer></form>`;
  },
};
