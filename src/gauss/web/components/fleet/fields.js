// Fields of forms, each with what is wrong with it beneath.
import { html } from "../html.js";

// The faults of a refused config by field: "brokers: expected …; topic: …". What names no field is under "".
export function faultsOf(error, names) {
  const found = {};
  for (const part of `${error.message}`.split("; ")) {
    const name = names.find((each) => part.startsWith(`${each}: `) || part.startsWith(`${each}.`)) ?? "";
    const text = name ? part.slice(part.indexOf(": ") + 2) : part;
    found[name] = found[name] ? `${found[name]}; ${text}` : text;
  }
  if (found[""] && error.hint) found[""] += `. ${error.hint}`;
  return found;
}

// `form`: the object whose value `key` is edited. `about`: options, placeholder and the like.
export function field(form, key, label, faults = {}, { options = null, area = false, said = "", ...more } = {}) {
  const props = { name: key, value: form[key] ?? "", "aria-invalid": faults[key] ? "true" : null, "aria-describedby": faults[key] ? `fault-${key}` : null, onInput: (event) => { form[key] = event.target.value; delete faults[key]; }, ...more };
  const input = options ? html`<select ...${props}>${options.map(([value, text]) => html`<option key=${value} value=${value} selected=${value === form[key]}>${text}</option>`)}</select>`
    : area ? html`<textarea rows="3" spellcheck="false" ...${props}></textarea>` : html`<input autocomplete="off" spellcheck="false" ...${props} />`;
  return html`<label class="field"><span>${label}</span>${input}${faults[key] ? html`<span class="fault" id=${`fault-${key}`} role="alert">✕ ${faults[key]}</span>` : said && html`<small>${said}</small>`}</label>`;
}
