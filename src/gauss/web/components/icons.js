// Icons as inline SVG, 16 px, drawn with the colour of their text.
import { html } from "./html.js";

const PATHS = {
  graph: "M3 3h3.4v3.4H3zM9.6 9.6H13V13H9.6zM9.6 1.6H13V5H9.6zM6.4 4.2h3.2M5 6.4v3.9a1 1 0 0 0 1 1h3.6",
  topic: "M3 4c0-1.1 2.2-2 5-2s5 .9 5 2-2.2 2-5 2-5-.9-5-2zM3 4v8c0 1.1 2.2 2 5 2s5-.9 5-2V4M3 8c0 1.1 2.2 2 5 2s5-.9 5-2",
  dead: "M2 3.5h12v9H2zM2 4l6 5 6-5",
  sync: "M13 6.5A5.2 5.2 0 0 0 3.6 5M3 2v3.2h3.2M3 9.5A5.2 5.2 0 0 0 12.4 11M13 14v-3.2H9.8",
  file: "M4 1.8h5l3.2 3.2v9.2H4zM9 1.8V5h3.2M6 8.5h4M6 11h4",
  health: "M1.5 8.5h3l1.6-4.8 3 8.6 1.7-3.8h3.7",
  engine: "M1.5 8h3l1.5-4 3 8 1.5-4h4",
  spark: "M9 1.5 3.5 9H8l-1 5.5L12.5 7H8z",
  db: "M8 2.2a1.7 1.7 0 1 0 0 3.4 1.7 1.7 0 0 0 0-3.4zM3.8 10.6a1.7 1.7 0 1 0 0 3.4 1.7 1.7 0 0 0 0-3.4zM12.2 10.6a1.7 1.7 0 1 0 0 3.4 1.7 1.7 0 0 0 0-3.4zM8 5.6v1.6c0 1-.7 1.5-1.6 1.8-1 .3-2.2.6-2.6 1.6M8 7.2c0 1 .7 1.5 1.6 1.8 1 .3 2.2.6 2.6 1.6",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.4 10.4l3.4 3.4",
  moon: "M13 9.6A5.6 5.6 0 0 1 6.4 3 5.6 5.6 0 1 0 13 9.6z",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8 13 13M13 3l-1.2 1.2M4.2 11.8 3 13",
  system: "M2 3h12v8H2zM6 14h4M8 11v3",
  pipelines: "M2 4h3c4 0 2 8 6 8h3M12 10l2 2-2 2M2 12h3c1 0 1.6-.6 2-1.5M9 5.5C9.4 4.6 10 4 11 4h3M12 2l2 2-2 2", workers: "M2.5 2.5h11v4.5h-11zM2.5 9h11v4.5h-11zM5 4.8h.01M5 11.2h.01", plus: "M8 3v10M3 8h10", back: "M10 3 5 8l5 5",
  play: "M5 3v10l8-5z", stop: "M4 4h8v8H4z", shield: "M8 1.8 13 3.6v4c0 3.2-2.1 5.4-5 6.6-2.9-1.2-5-3.4-5-6.6v-4zM5.7 7.9l1.7 1.7 3-3.3", undo: "M3 6.5h6.5a3.5 3.5 0 0 1 0 7H6M6 3.5l-3 3 3 3",
  close: "M4 4l8 8M12 4l-8 8", more: "M6 3.5 10.5 8 6 12.5", copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
};
export const icon = (name, title = "") => html`
  <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden=${title ? null : "true"} aria-label=${title || null}
    fill="none" stroke="currentColor" stroke-width="1.4" stroke-linejoin="round" stroke-linecap="round"><path d=${PATHS[name]} /></svg>`;

export const curve = () => html`
  <svg viewBox="0 0 160 60" fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true">
    <path d="M4 54h152" stroke="var(--line)" /><path d="M56 30v24M80 12v42M104 30v24" stroke-dasharray="1 5" opacity=".5" />
    <path d="M4 54c46 0 46-46 76-46s30 46 76 46" /><circle cx="80" cy="8" r="4" fill="currentColor" stroke="none" /></svg>`;

export const logo = () => html`
  <svg viewBox="0 0 28 22" width="27" height="22" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" aria-hidden="true">
    <path d="M2 19.5c6.5 0 6.5-15 12-15s5.5 15 12 15" /><circle cx="14" cy="4.5" r="2.7" fill="currentColor" stroke="none" /><path d="M14 10v9" stroke-dasharray="1 4" opacity=".5" /></svg>`;
