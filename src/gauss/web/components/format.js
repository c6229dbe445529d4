// Figures as people read them. The exact value belongs into the title of what shows them.
const UNITS = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];

// `given` may be a BigInt, as all whole numbers of the API that JavaScript would round.
export function count(given) {
  if (given === null || given === undefined) return "–";
  const number = Number(given);
  for (const [size, unit] of UNITS)
    if (Math.abs(number) >= 0.9995 * size) return `${Number((number / size).toPrecision(3))} ${unit}`;
  return `${Number(number.toPrecision(3))}`;
}
export const exact = (number) => (number ?? 0).toLocaleString("en");
export const rate = (number) => `${count(number)}/s`;
export const percent = (share) => (share === null || share === undefined ? "–" : `${Math.round(100 * share)} %`);
export const plural = (number, one, many = `${one}s`) => `${exact(number)} ${number === 1 ? one : many}`;

export function bytes(given) {
  if (given === null || given === undefined) return "–";
  const size = Number(given);
  for (const [unit, power] of [["GiB", 3], ["MiB", 2], ["KiB", 1]])
    if (size >= 1024 ** power) return `${(size / 1024 ** power).toFixed(1)} ${unit}`;
  return `${Math.round(size)} B`;
}
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 120) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 172800) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} days`;
}
export const ago = (ms, now = Date.now()) => (ms ? `${duration(Math.max(now - ms, 0))} ago` : "never");
export const utc = (ms) => (ms ? new Date(ms).toISOString().replace("T", " ").replace("Z", " UTC") : "");
export function clock(ms, millis = false) {
  if (!ms) return "–";
  const at = new Date(ms);
  const day = at.toDateString() === new Date().toDateString() ? "" : `${at.toLocaleDateString("sv")} `;
  return day + at.toLocaleTimeString("sv") + (millis ? `.${String(at.getMilliseconds()).padStart(3, "0")}` : "");
}
