// Markup as tagged templates that become Vue nodes. Vue's own templates are compiled by `new Function`, which the
// Content-Security-Policy of the pages forbids; these are parsed once per template and need no eval.
import { h } from "vue";

const plans = new WeakMap();
const TAG = /<(\/?)([\w-]+|\0\d+\0)?((?:[^>"\0]|"[^"]*"|\0\d+\0)*?)(\/?)>/g;
const ATTRIBUTE = /\.\.\.\0(\d+)\0|([\w:.-]+)(?:=(?:"([^"]*)"|(\0\d+\0)|([^\s"]+)))?/g;

export function html(strings, ...values) {
  let plan = plans.get(strings);
  if (!plan) plans.set(strings, (plan = parse(strings)));
  const nodes = plan.map((node) => build(node, values));
  return nodes.length === 1 ? nodes[0] : nodes;
}

function parse(strings) {
  const source = strings.reduce((text, part, index) => `${text}\0${index - 1}\0${part}`);
  const root = { children: [] };
  const open = [root];
  let at = 0;
  for (const found of source.matchAll(TAG)) {
    addText(open.at(-1), source.slice(at, found.index));
    at = found.index + found[0].length;
    if (found[1]) {
      open.pop();
      continue;
    }
    const element = { tag: hole(found[2]), attributes: attributes(found[3]), children: [] };
    open.at(-1).children.push(element);
    if (!found[4]) open.push(element);
  }
  addText(root, source.slice(at));
  if (open.length !== 1) throw new Error(`unclosed <${open.at(-1).tag}> in ${source.slice(0, 80)}`);
  return root.children;
}

const hole = (text) => (/^\0\d+\0$/.test(text) ? Number(text.slice(1, -1)) : text);

function pieces(text) {
  return text.split(/(\0\d+\0)/).filter((part) => part !== "").map(hole);
}

function addText(parent, text) {
  for (const part of pieces(text.replace(/\s*\n\s*/g, ""))) parent.children.push(part);
}

function attributes(text) {
  return [...text.matchAll(ATTRIBUTE)].map(([, spread, name, quoted, single, bare]) =>
    spread !== undefined ? { spread: Number(spread) } : { name, parts: pieces(quoted ?? single ?? bare ?? ""), is: quoted ?? single ?? bare });
}

function build(node, values) {
  if (typeof node === "number") return values[node] === false ? null : values[node];
  if (typeof node === "string") return node;
  const props = {};
  for (const { spread, name, parts, is } of node.attributes) {
    if (spread !== undefined) Object.assign(props, values[spread]);
    else if (is === undefined) props[name] = true;
    else if (parts.length === 1) props[name] = typeof parts[0] === "number" ? values[parts[0]] : parts[0];
    else props[name] = parts.map((part) => (typeof part === "number" ? (values[part] ?? "") : part)).join("");
  }
  const tag = typeof node.tag === "number" ? values[node.tag] : node.tag;
  const children = node.children.map((child) => build(child, values));
  if (typeof tag === "string") return h(tag, props, children);
  return h(tag, props, children.length ? { default: () => children } : undefined);
}
