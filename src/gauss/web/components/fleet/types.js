// The types that columns are offered, and how each reads a field.
const UNITS = [["iso", "text"], ["s", "epoch s"], ["ms", "epoch ms"], ["us", "epoch µs"], ["ns", "epoch ns"]];
const GROUPS = [
  ["Numbers", ["Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64", "Decimal(18, 2)", "Decimal(18, 4)", "Decimal(38, 10)", "Bool"].map((type) => [type, null])],
  ["Text", [["String", null], ["LowCardinality(String)", null], ["UUID", null], ["IPv4", null], ["IPv6", null], ["String", "json"]]],
  ["Times", [["Date32", null], ...["DateTime", "DateTime64(3)", "DateTime64(6)"].flatMap((type) => UNITS.slice(0, 4).map(([unit]) => [type, unit])), ["DateTime64(9)", "ns"]]],
  ["Lists", ["Array(String)", "Array(Int64)", "Array(Float64)", "Array(Bool)"].map((type) => [type, null])],
];

export const typed = ({ type, encoding }) => `${type}|${encoding ?? ""}`;
export function named({ type, encoding }) {
  if (encoding === "json") return `${type}, as JSON`;
  const unit = UNITS.find(([name]) => name === encoding);
  return unit ? `${type}, ${unit[1]}` : type;
}
// The groups of a select, with the type that is chosen among them.
export function groups(chosen) {
  const all = GROUPS.map(([name, types]) => [name, types.map(([type, encoding]) => [typed({ type, encoding }), named({ type, encoding })])]);
  if (!all.some(([, types]) => types.some(([value]) => value === typed(chosen)))) all.unshift(["As it is", [[typed(chosen), named(chosen)]]]);
  return all;
}
export const parse = (value) => ({ type: value.slice(0, value.lastIndexOf("|")), encoding: value.slice(value.lastIndexOf("|") + 1) || null });
