"""ClickHouse's own types as the general ones, for whoever reads a table of it. Postgres's are general ones already."""

from __future__ import annotations

import re

from gauss.contracts.format import FieldType
from gauss.contracts.target import as_field_type

_INTEGER = re.compile(r"U?Int(8|16|32|64)")
_DECIMALS = {"Decimal32": 9, "Decimal64": 18, "Decimal128": 38, "Decimal256": 76}
_PLAIN = {
    "Bool": FieldType("bool"),
    "Float32": FieldType("float"),
    "Float64": FieldType("double"),
    "BFloat16": FieldType("float"),
    "Date": FieldType("date"),
    "Date32": FieldType("date"),
    "String": FieldType("string"),
    "FixedString": FieldType("bytes"),
    "UUID": FieldType("uuid"),
    "DateTime": FieldType("timestamp", {"precision": 0}),
}
_NESTED = frozenset({"Map", "Tuple", "Nested", "JSON", "Object", "Variant", "Dynamic", "AggregateFunction"})
_TEXT = frozenset({"Enum", "Enum8", "Enum16", "IPv4", "IPv6", "Time", "Time64"})


def general(field_type: FieldType) -> FieldType | None:
    """The general type; None: it is no type of ClickHouse."""
    name, attrs = field_type.name, field_type.attrs
    if name in ("Nullable", "LowCardinality", "SimpleAggregateFunction"):
        inner = attrs.get("inner")
        return FieldType("string") if inner is None else general(as_field_type(inner))
    if _INTEGER.fullmatch(name):
        return FieldType(name.lower())
    if name in _DECIMALS or name == "Decimal":
        precision = _DECIMALS.get(name) or attrs.get("precision", 10)
        return FieldType("decimal", {"precision": precision, "scale": attrs.get("scale", 0)})
    if name == "DateTime64":
        return FieldType("timestamp", {"precision": attrs.get("precision", 3)})
    if name == "Array":
        element = general(as_field_type(attrs["element"]))
        if element is None or element.name not in _ELEMENTS:
            return FieldType("json")
        return FieldType("array", {"element": {"name": element.name, "attrs": element.attrs}})
    if name == "String" and attrs.get("utf8") is False:  # made of bytes
        return FieldType("bytes")
    if name in _NESTED:
        return FieldType("json")
    if name in _TEXT or re.fullmatch(r"U?Int(128|256)", name):
        return FieldType("string")
    return _PLAIN.get(name)


_ELEMENTS = frozenset({"bool", "float", "double", "decimal", "string"} | {f"int{bits}" for bits in (8, 16, 32, 64)})
"""What arrays are made of that are arrays outside ClickHouse too; any other is JSON."""
