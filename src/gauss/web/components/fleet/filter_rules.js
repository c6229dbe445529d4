// Rules of a filter as the builder edits them, written as an expression of the scan language and read from one.
// A rule: { path, op, value, text }, where `text` says that the value is one although it looks like a number; a group: { join: "and" | "or", not, rules }.
export const OPERATORS = [["==", "equals"], ["!=", "is not"], ["contains", "contains"], ["test", "matches regex"], ["exists", "exists"], [">", ">"], [">=", "≥"], ["<", "<"], ["<=", "≤"]];
const COMPARED = ["==", "!=", ">=", "<=", ">", "<"];

export const rule = (path = "") => ({ path, op: "==", value: "" });
export const group = (rules = [rule()], join = "and") => ({ join, not: false, rules });
export const isGroup = (each) => each.rules !== undefined;

const step = (name) => (/^[A-Za-z_]\w*$/.test(name) ? `.${name}` : `.[${JSON.stringify(name)}]`);
export const pathText = (path) => path.split(".").map(step).join("").replaceAll("].[", "][") || ".";

// A value as it is written: a number, true and false as such, all else as text. `kinds`: what samples have at each path.
function literal(value, kind) {
  const text = `${value}`.trim();
  if (kind !== "string" && /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text)) return text;
  return kind !== "string" && (text === "true" || text === "false") ? text : JSON.stringify(`${value}`);
}

export function write(node, kinds = {}, inner = false) {
  if (!isGroup(node)) {
    if (!node.path) return "";
    const path = pathText(node.path);
    if (node.op === "exists") return `${path} != null`;
    if (node.op === "contains" || node.op === "test") return `(${path} | ${node.op}(${JSON.stringify(`${node.value}`)}))`;
    if (`${node.value}`.trim() === "" && !node.text && kinds[node.path] !== "string") return ""; // not complete yet
    return `${path} ${node.op} ${literal(node.value, node.text ? "string" : kinds[node.path])}`;
  }
  const parts = node.rules.map((each) => write(each, kinds, true)).filter(Boolean);
  if (!parts.length) return "";
  const text = parts.join(` ${node.join} `);
  if (node.not) return `not (${text})`;
  return inner && parts.length > 1 ? `(${text})` : text;
}

const TOKEN = /\s*(?:(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)|("(?:[^"\\]|\\.)*")|((?:\.[A-Za-z_]\w*|\.?\[\s*"(?:[^"\\]|\\.)*"\s*\])+)|(==|!=|<=|>=|<|>|\(|\)|\|)|([A-Za-z_]\w*))/y;

function tokens(text) {
  const found = [];
  TOKEN.lastIndex = 0;
  for (let at = 0; text.slice(at).trim(); at = TOKEN.lastIndex) {
    const one = TOKEN.exec(text);
    if (!one) throw new Error("no token");
    const [, number, string, path, sign, word] = one;
    found.push(number !== undefined ? { value: number } : string !== undefined ? { value: JSON.parse(string), text: true } : path ? { path } : { sign: sign ?? word });
  }
  return found;
}
const names = (path) => [...path.matchAll(/\.([A-Za-z_]\w*)|\[\s*("(?:[^"\\]|\\.)*")\s*\]/g)].map(([, plain, quoted]) => plain ?? JSON.parse(quoted)).join(".");

// The group that an expression stands for; null if it has more than the builder can show.
export function read(text) {
  try {
    const left = tokens(text);
    const take = (sign) => (left[0]?.sign === sign ? left.shift() : null);
    const need = (sign) => { if (!take(sign)) throw new Error(sign); };
    const chain = (join, next) => () => {
      const rules = [next()];
      while (take(join)) rules.push(next());
      return rules.length === 1 ? rules[0] : { join, not: false, rules };
    };
    const one = () => {
      if (take("not")) {
        const found = one();
        return isGroup(found) && !found.not ? { ...found, not: true } : { join: "and", not: true, rules: [found] };
      }
      if (left[0]?.sign === "(" && left[1]?.path && left[2]?.sign === "|") return applied();
      if (take("(")) { const found = either(); need(")"); return found; }
      const path = names(left[0].path), op = left[1].sign, given = left[2];
      if (!COMPARED.includes(op)) throw new Error(op);
      left.splice(0, 3);
      if (given.sign === "null" && op === "!=") return { path, op: "exists", value: "" };
      if (given.sign === "true" || given.sign === "false") return { path, op, value: given.sign };
      if (given.value === undefined) throw new Error("a value");
      return { path, op, value: given.value, text: given.text };
    };
    const applied = () => {
      need("(");
      const path = names(left.shift().path);
      need("|");
      const op = left.shift().sign;
      if (!["contains", "test"].includes(op)) throw new Error(op);
      need("(");
      const { value } = left.shift();
      need(")"); need(")");
      return { path, op, value };
    };
    const either = chain("or", chain("and", one));
    if (!left.length) return group([]);
    const found = either();
    if (left.length) return null;
    return isGroup(found) ? found : group([found]);
  } catch {
    return null;
  }
}
