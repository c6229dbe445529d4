// States in the order and the lanes of a git log: a chain goes straight down, each branch has a lane of its own.
export const MOST_LANES = 7;
const COLOURS = 6;

// `states` as the API lists them; returns rows { id, state, lane, colour, lines, from } and how many lanes there are.
// `lines` are what is drawn in a row: ["pass" | "top" | "bottom", lane, colour] or ["fork", lane, colour, from lane].
export function lanes(states) {
  const known = new Map(states.map((each) => [each.state_id, each]));
  const below = new Map(), roots = new Map();
  for (const each of states) {
    const parent = known.has(each.parent_state_id) ? each.parent_state_id : each.base_id;
    if (parent === each.base_id && !roots.has(parent)) roots.set(parent, each);
    below.set(parent, [...(below.get(parent) ?? []), each.state_id]);
  }
  const sizes = sized(below, [...roots.keys()]);
  const rows = [], chains = [];
  let most = 0;
  for (const [base, first] of roots) {
    const waiting = [{ id: base, from: null }];
    while (waiting.length) {
      const { id, from } = waiting.pop();
      const chain = { from, first: rows.length, colour: chains.length % COLOURS };
      const branches = [];
      for (let at = id; at !== undefined; ) {
        const children = [...(below.get(at) ?? [])].sort((one, other) => sizes.get(other) - sizes.get(one));
        const row = { id: at, state: known.get(at) ?? null, base: at === base ? first : null, chain, lines: [] };
        for (const child of children.slice(1).reverse()) branches.push({ id: child, from: rows.length });
        rows.push(row);
        at = children[0];
      }
      chain.last = rows.length - 1;
      chain.lane = free(chains, chain, from === null ? 0 : rows[from].chain.lane + 1);
      chains.push(chain);
      waiting.push(...branches);
    }
  }
  for (const chain of chains) most = Math.max(most, draw(rows, chain));
  return { rows: rows.map(({ chain, ...row }) => ({ ...row, lane: Math.min(chain.lane, MOST_LANES), colour: chain.colour, from: chain.lane >= MOST_LANES && rows[chain.first].id === row.id ? rows[chain.from] : null })), count: most + 1 };
}

// How many states each one carries, itself included; without recursion, for chains may be long.
function sized(below, roots) {
  const order = [...roots], sizes = new Map();
  for (let at = 0; at < order.length; at++) order.push(...(below.get(order[at]) ?? []));
  for (const id of order.reverse()) sizes.set(id, 1 + (below.get(id) ?? []).reduce((sum, child) => sum + sizes.get(child), 0));
  return sizes;
}

const start = (chain) => chain.from ?? chain.first - 1;
function free(chains, chain, least) {
  for (let lane = least; lane < MOST_LANES; lane++)
    if (!chains.some((each) => each.lane === lane && start(each) < chain.last && start(chain) < each.last)) return lane;
  return MOST_LANES; // no line is drawn there: its rows name where they come from
}

function draw(rows, { from, first, last, lane, colour }) {
  if (lane >= MOST_LANES) return lane;
  if (from !== null) {
    rows[from].lines.push(["fork", lane, colour, rows[from].chain.lane]);
    for (let at = from + 1; at < first; at++) rows[at].lines.push(["pass", lane, colour]);
    rows[first].lines.push(["top", lane, colour]);
  }
  for (let at = first; at <= last; at++) {
    if (at > first) rows[at].lines.push(["top", lane, colour]);
    if (at < last) rows[at].lines.push(["bottom", lane, colour]);
  }
  return lane;
}

// A state with all that it comes from and all that was made of it.
export function family(states, id) {
  const known = new Map(states.map((each) => [each.state_id, each]));
  const kept = new Set();
  for (let at = id; known.has(at); at = known.get(at).parent_state_id) kept.add(at);
  const below = new Set([id]);
  for (let grown = true; grown; ) {
    grown = false;
    for (const each of states) if (!below.has(each.state_id) && below.has(each.parent_state_id)) grown = Boolean(below.add(each.state_id));
  }
  return states.filter((each) => kept.has(each.state_id) || below.has(each.state_id));
}
