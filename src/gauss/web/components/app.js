// The shell of all pages: rail, find-or-do, theme, live dot, banners and toasts; the page by the path.
import { Find } from "./find.js";
import { clock, count, duration } from "./format.js";
import { html } from "./html.js";
import { icon, logo } from "./icons.js";
import { apply, go, refresh, state, use } from "./live.js";
import { link, note } from "./parts.js";

const THEMES = { system: ["system", null], light: ["sun", false], dark: ["moon", true] };
const STALE_MS = 6000, SILENT_MS = 4000;
// A name in a path; one that nobody has encoded well is shown as it is.
const named = (text) => {
  try { return decodeURIComponent(text); } catch { return text; }
};

// The component for the pages of a `site`, which says what they are about: `run.js`, `fleet/site.js`.
export const shell = (site) => ({
  emits: ["watch"],
  data: () => ({ theme: localStorage.gaussTheme ?? "system", finding: false, helping: false, chord: "", asked: 0 }),
  created() {
    use(site);
    window.setDark(THEMES[this.theme]?.[1] ?? null);
  },
  async mounted() {
    await this.$nextTick(); // NiceGUI opens the socket when it is mounted itself
    window.socket.on("live", apply);
    window.socket.on("connect", () => this.look());
    window.socket.on("disconnect", () => (state.connected = false));
    document.addEventListener("visibilitychange", () => this.look());
    document.addEventListener("keydown", this.key);
    this.look();
    // A page that asks for figures before NiceGUI's handshake is done is not heard: it asks again when none come.
    setInterval(() => {
      if (window.socket.connected && !document.hidden && !state.signedOut && Date.now() - Math.max(state.at, this.asked) > SILENT_MS) this.look();
    }, 1000);
  },
  methods: {
    look() {
      this.asked = Date.now();
      this.$emit("watch", !document.hidden);
      if (!document.hidden) refresh();
    },
    turn() {
      const names = Object.keys(THEMES);
      this.theme = names[(names.indexOf(this.theme) + 1) % names.length];
      localStorage.gaussTheme = this.theme;
      window.setDark(THEMES[this.theme][1]);
    },
    key(event) {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        this.finding = true;
        return;
      }
      const typing = event.target.closest?.("input, textarea, select, dialog, [contenteditable]");
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      if (this.chord === "g") {
        const found = site.rail.find((each) => each && each[3] === `g ${event.key}`);
        this.chord = "";
        if (found) go(found[0]);
      } else if (event.key === "g") {
        this.chord = "g";
        setTimeout(() => (this.chord = ""), 1200);
      } else if (event.key === "/") {
        const field = document.querySelector("[data-filter]");
        if (field) { event.preventDefault(); field.focus(); }
      } else if (event.key === "?") this.helping = !this.helping;
    },
    rail() {
      const seen = state.overview, counts = seen && site.counts(seen);
      return site.rail.map((each) => {
        if (!each) return html`<hr />`;
        const [path, glyph, text, keys, short = text.split(" ")[0]] = each;
        if (seen && site.hides(path, seen)) return null;
        const here = path === "/" ? state.path === "/" || site.homes.some((start) => state.path.startsWith(start)) : state.path.startsWith(path);
        const [number, tint = ""] = counts?.[path] ?? [];
        const content = html`${icon(glyph)}<span class="word">${text}</span><span class="short" aria-hidden="true">${short}</span>${number > 0 && html`<small class=${tint}>${count(number)}</small>`}`;
        return link(path, content, { class: "rail-link", "aria-current": here ? "page" : null, title: `${text} (${keys})` });
      });
    },
    stale() {
      if (state.signedOut) return note("bad", "✕", html`<b>You are signed out.</b> Your session has ended; figures stay as they were. <a href=${location.href}>Sign in again</a>, or run <code>${site.signIn}</code> for a link.`);
      if (state.problem && !state.overview) return note("bad", "✕", html`<b>${state.problem.message}.</b> ${state.problem.hint}`);
      if (!state.connected || (state.overview && state.now - state.at > STALE_MS))
        return note("warn", "▲", html`<b>You look at ${clock(state.at)}.</b> The ${site.process} has not answered for ${duration(Math.max(state.now - state.at, 1000))}; the page reconnects by itself, and figures are from then.`);
      return null;
    },
  },
  render() {
    const [pattern, shown, kept] = site.routes.find(([each]) => each.test(state.path)) ?? [];
    const [whole, name = ""] = pattern ? state.path.match(pattern) : [""];
    // A page is made anew for another topic or sync: what is read or typed for one is never shown or sent for the other.
    const key = kept ?? `${whole.split("/")[1]}/${name}`;
    const stale = this.stale();
    const live = stale ? ["warn", "Reconnecting"] : state.overview ? site.live(state.overview) : ["idle", "Reading"];
    const banner = stale ?? (state.overview && site.banner(state.overview));
    return html`<div class="shell">
      <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to the page</a>
      <header class="top">${link("/", html`<span class="logo">${logo()}</span><b>Gauss</b>`, { class: "brand", "aria-label": `Gauss, ${site.home}` })}
        <button type="button" class="btn bare square" aria-label="Find or do" onClick=${() => (this.finding = true)}>${icon("search")}</button></header>
      <nav class="rail" aria-label="Pages">
        ${link("/", html`<span class="logo">${logo()}</span><b>Gauss</b>`, { class: "brand", "aria-label": `Gauss, ${site.home}` })}
        <button type="button" class="find-open" onClick=${() => (this.finding = true)}>${icon("search")}<span>Find or do…</span><kbd>Ctrl K</kbd></button>
        <div class="rail-links">${this.rail()}</div>
        <div class="rail-foot"><span class="live ${live[0]}"><i aria-hidden="true"></i>${live[1]}</span>
          <div class="role"><span>${state.role}</span>
            <button type="button" class="btn bare square" title="Theme: ${this.theme}" aria-label="Theme: ${this.theme}. Change" onClick=${this.turn}>${icon(THEMES[this.theme]?.[0] ?? "system")}</button></div></div>
      </nav>
      <main id="main" tabindex="-1" data-path=${state.path} class=${stale ? "stale" : ""}>
        ${banner && html`<div class="banner">${banner}</div>`}
        ${shown ? html`<${shown} key=${key} name=${named(name)} />` : html`<h1>There is no such page</h1>`}
      </main>
      <div class="toasts" role="status" aria-live="polite">${state.toasts.map((each) => html`<div class="toast" key=${each.id}>${each.text}${each.undo && html`<button type="button" onClick=${each.take_back}>Undo</button>`}</div>`)}</div>
      ${this.finding && html`<${Find} site=${site} onClose=${() => (this.finding = false)} onTheme=${this.turn} />`}
      ${this.helping && html`<dialog open class="keys" aria-label="Keys"><h2>Keys</h2><dl>${[["Ctrl K", "find or do"], ["/", "filter"], ["j k", "next, previous row"], ["Enter", "open"], ...site.keys, ...site.rail.filter(Boolean).map((each) => [each[3], each[2]]), ["?", "this list"]].map(([keys, text]) => html`<dt><kbd>${keys}</kbd></dt><dd>${text}</dd>`)}</dl></dialog>`}
    </div>`;
  },
});
