// Places the columns of a graph in a width: bands of columns below each other, or downwards where it is narrow.
export const NODE = { width: 166, height: 74 };
const EDGE_X = 36, PAD_Y = 30, ROW = 30, BAND = 58, LEAST_GAP = 62, MOST_GAP = 120, NARROW = 560, LANE = 9;

export const keyOf = (kind, name) => `${kind} ${name}`;

// `columns`: lists of keys; `arrows`: [from, to]. Returns the place of each key, a path for each arrow, and the size.
export function place(columns, arrows, width) {
  return width < NARROW ? downwards(columns, arrows, width) : bands(columns, arrows, width);
}

function bands(columns, arrows, width) {
  const fit = Math.max(2, Math.floor((width - 2 * EDGE_X + LEAST_GAP) / (NODE.width + LEAST_GAP)));
  const rows = Math.ceil(columns.length / fit);
  const across = Math.min(columns.length, fit);
  const gap = across > 1 ? Math.min(rows > 1 ? 1e9 : MOST_GAP, (width - 2 * EDGE_X - across * NODE.width) / (across - 1)) : 0;
  const places = {};
  const tops = [];
  let y = PAD_Y;
  for (let row = 0; row < rows; row++) {
    const band = columns.slice(row * fit, (row + 1) * fit);
    const tallest = Math.max(...band.map((column) => column.length));
    const height = tallest * (NODE.height + ROW) - ROW;
    tops.push(y);
    band.forEach((column, index) => {
      const own = column.length * (NODE.height + ROW) - ROW;
      column.forEach((key, position) => {
        places[key] = { x: EDGE_X + index * (NODE.width + gap), y: y + (height - own) / 2 + position * (NODE.height + ROW), row, column: index };
      });
    });
    y += height + BAND;
  }
  tops.push(y);
  const lanes = {};
  const paths = arrows.map(([from, to]) => {
    const one = places[from], other = places[to];
    const start = [one.x + NODE.width, one.y + NODE.height / 2], end = [other.x, other.y + NODE.height / 2];
    if (one.row === other.row && other.column === one.column + 1) return curved(start, end);
    // Around the nodes between: down behind the band, along a lane that all lines of a node share, and to the target.
    const known = (lanes[one.row] ??= []);
    const first = !known.includes(from);
    if (first) known.push(from);
    const lane = known.indexOf(from) % 4;
    const below = tops[one.row + 1] - BAND / 2 - 4 + [0, -1, 1, 2][lane] * LANE;
    const left = Math.max(8, other.x - 20 - lane * 4), right = Math.min(width - 6, start[0] + 20 + lane * 4);
    return { d: rounded([start, [right, start[1]], [right, below], [left, below], [left, end[1]], end]), label: first ? [(left + right) / 2, below] : null };
  });
  return { places, paths, height: y - BAND + PAD_Y, width, vertical: false };
}

function downwards(columns, arrows, width) {
  const most = width < 400 ? 2 : 3;
  const places = {};
  let y = 16;
  for (const column of columns)
    for (let at = 0; at < column.length; at += most) {
      const line = column.slice(at, at + most);
      const own = Math.min(NODE.width, (width - 16 - (line.length - 1) * 14) / line.length);
      const start = (width - line.length * own - (line.length - 1) * 14) / 2;
      line.forEach((key, index) => (places[key] = { x: start + index * (own + 14), y, width: own }));
      y += NODE.height + 34;
    }
  const paths = arrows.map(([from, to]) => {
    const one = places[from], other = places[to];
    const start = [one.x + one.width / 2, one.y + NODE.height], end = [other.x + other.width / 2, other.y];
    const bend = Math.max(14, Math.min(40, (end[1] - start[1]) / 2));
    const d = `M${start}C${start[0]} ${start[1] + bend} ${end[0]} ${end[1] - bend} ${end}`;
    return { d, label: [(start[0] + end[0]) / 2 + 30, end[1] - 15] };
  });
  return { places, paths, height: y - 18, width, vertical: true };
}

function curved(start, end) {
  const bend = (end[0] - start[0]) / 2;
  const middle = [(start[0] + end[0]) / 2, (start[1] + end[1]) / 2 - (start[1] === end[1] ? 12 : 0)];
  return { d: `M${start}C${start[0] + bend} ${start[1]} ${end[0] - bend} ${end[1]} ${end}`, label: middle };
}

function rounded(points, radius = 20) {
  let d = `M${points[0]}`;
  for (let at = 1; at < points.length - 1; at++) {
    const [before, corner, after] = points.slice(at - 1, at + 2);
    d += `L${towards(corner, before, radius)}Q${corner} ${towards(corner, after, radius)}`;
  }
  return `${d}L${points.at(-1)}`;
}
function towards(from, to, most) {
  const [x, y] = [to[0] - from[0], to[1] - from[1]];
  const length = Math.hypot(x, y) || 1;
  const share = Math.min(most, length / 2) / length;
  return [from[0] + x * share, from[1] + y * share];
}

// Above this many nodes those of one column and name prefix become one; a click on it shows them. Names without common
// prefixes become one node per column and kind.
export const MOST_NODES = 160;
const PREFIX = (name) => name.split(/[._\-\d]/)[0] || name;

export function grouped(columns, arrows, open) {
  const all = columns.flat().length;
  if (all <= MOST_NODES) return { columns, arrows, groups: {} };
  const fits = folded(columns, arrows, new Set(), PREFIX).columns.flat().length <= MOST_NODES;
  return folded(columns, arrows, open, fits ? PREFIX : () => "");
}

function folded(columns, arrows, open, prefixOf) {
  const groups = {}, home = {};
  const shown = columns.map((column, index) => {
    const kept = [];
    for (const key of column) {
      const [kind, name] = key.split(/ (.*)/);
      const prefix = prefixOf(name);
      const group = `group ${kind} ${prefix} ${index}`;
      if (open.has(group)) { kept.push(key); continue; }
      if (!groups[group]) { groups[group] = { kind, prefix, members: [] }; kept.push(group); }
      groups[group].members.push(name);
      home[key] = group;
    }
    return kept;
  });
  const single = Object.entries(groups).filter(([, group]) => group.members.length === 1);
  for (const [key, group] of single) {
    const own = keyOf(group.kind, group.members[0]);
    delete home[own];
    delete groups[key];
    for (const column of shown) if (column.includes(key)) column[column.indexOf(key)] = own;
  }
  const seen = new Set();
  const joined = arrows.map(([from, to]) => [home[from] ?? from, home[to] ?? to]).filter(([from, to]) => from !== to && !seen.has(`${from}>${to}`) && seen.add(`${from}>${to}`));
  return { columns: shown, arrows: joined, groups };
}
