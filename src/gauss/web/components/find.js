// Find or do: one field for every page, thing and action.
import { html } from "./html.js";
import { icon } from "./icons.js";
import { go, state } from "./live.js";

const MOST = 12;

export const Find = {
  props: ["site"],
  emits: ["close", "theme"],
  data: () => ({ text: "", at: 0 }),
  mounted() {
    this.$el.showModal();
    this.$el.querySelector("input").focus();
  },
  computed: {
    found() {
      const all = [
        ...(state.overview ? this.site.found(state.overview) : []),
        ...this.site.rail.filter(Boolean).map(([path, glyph, text, keys]) => [glyph, text, keys, () => go(path)]),
        ["moon", "Change theme", "do", () => this.$emit("theme")],
      ];
      const words = this.text.toLowerCase().split(/\s+/).filter(Boolean);
      const fits = all.filter(([, name, kind]) => words.every((word) => `${name} ${kind}`.toLowerCase().includes(word)));
      const starts = (each) => (words[0] && each[1].toLowerCase().startsWith(words[0]) ? 0 : 1);
      return (words.length ? fits.sort((one, other) => starts(one) - starts(other)) : [...all.slice(-7), ...all.slice(0, -7)]).slice(0, MOST);
    },
  },
  methods: {
    take(one) {
      this.$emit("close");
      one?.[3]();
    },
    key(event) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) {
        event.preventDefault();
        this.at = (this.at + step + this.found.length) % Math.max(this.found.length, 1);
      } else if (event.key === "Enter") {
        event.preventDefault();
        this.take(this.found[this.at]);
      }
    },
  },
  render() {
    return html`<dialog class="find" aria-label="Find or do" onCancel=${(event) => { event.preventDefault(); this.$emit("close"); }}
        onClick=${(event) => event.target === this.$el && this.$emit("close")}>
      <label class="find-field">${icon("search")}<span class="sr">Find anything</span>
        <input value=${this.text} placeholder=${this.site.finds} role="combobox" aria-expanded="true" aria-controls="found"
          aria-activedescendant=${`found-${this.at}`} autocomplete="off" spellcheck="false"
          onInput=${(event) => { this.text = event.target.value; this.at = 0; }} onKeydown=${this.key} /></label>
      <ul id="found" role="listbox" aria-label="Found">${this.found.map((one, index) => html`
        <li key=${one[1] + one[2]} id=${`found-${index}`} role="option" aria-selected=${String(index === this.at)} onClick=${() => this.take(one)}>
          ${icon(one[0])}<span>${one[1]}</span><small>${one[2]}</small></li>`)}
        ${this.found.length === 0 && html`<li class="nothing">Nothing is called that.</li>`}</ul></dialog>`;
  },
};
