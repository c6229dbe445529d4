"""ClickHouse column types for the field types of formats, and the general types of its columns."""

from __future__ import annotations

import re

from gauss.contracts.field_types import parse_member
from gauss.contracts.format import FieldType
from gauss.contracts.target import as_field_type

_COLUMNS = {
    "string": "String",
    "varchar": "String",
    "text": "String",
    "bpchar": "String",
    "json": "String",
    "jsonb": "String",
    "bytes": "String",
    "bytea": "String",
    "double": "Float64",
    "float8": "Float64",
    "float": "Float32",
    "float4": "Float32",
    "bool": "Bool",
    "date": "Date32",
    "time": "Int64",
    "duration": "Int64",
    "enum": "Int32",
    "uuid": "UUID",
    "int2": "Int16",
    "int4": "Int32",
    **{f"{sign}int{bits}": f"{'U' if sign else ''}Int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def column_type(source: FieldType) -> FieldType | None:
    """The column type for a field, nullable where ClickHouse allows it, since any field may be missing."""
    made = _not_null(source)
    if made is None or made.name in {"Array", "Map", "Tuple"}:
        return made
    return FieldType("Nullable", {"inner": made})


def _not_null(source: FieldType) -> FieldType | None:
    source = source.general  # for a column of another table
    name, attrs = source.name, source.attrs
    match name:
        case "decimal" | "numeric":
            precision = attrs.get("precision")
            if precision is None or precision > 76:
                return FieldType("String")
            width = next(bits for digits, bits in ((9, 32), (18, 64), (38, 128), (76, 256)) if precision <= digits)
            return FieldType(f"Decimal{width}", {"scale": attrs.get("scale", 0)})
        case "timestamp" | "timestamptz":
            return FieldType("DateTime64", {"precision": attrs.get("precision", 6)})
        case "int8" if attrs.get("bits") == 64:
            return FieldType("Int64")
        case "array":
            inner = column_type(as_field_type(attrs["element"]))
            return None if inner is None else FieldType("Array", {"element": inner})
        case "map":
            key, value = (
                _not_null(as_field_type(attrs.get("key", "string"))),
                column_type(as_field_type(attrs["value"])),
            )
            return None if key is None or value is None else FieldType("Map", {"key": key, "value": value})
        case "tuple" | "struct":
            return _tuple(source)
    return FieldType(_COLUMNS[name]) if name in _COLUMNS else None


def _tuple(source: FieldType) -> FieldType | None:
    """A tuple whose elements have the members' names."""
    given = source.attrs.get("fields") or source.attrs.get("elements") or source.attrs.get("types") or ()
    members = [parse_member(place, member) for place, member in enumerate(given)]
    kinds = [(name, column_type(kind)) for name, kind in members]
    if not kinds or any(kind is None for _, kind in kinds):
        return None
    return FieldType("Tuple", {"elements": [{"name": name, "type": kind} for name, kind in kinds]})


_INTEGER = re.compile(r"U?Int(8|16|32|64)")
_DECIMALS = {"Decimal32": 9, "Decimal64": 18, "Decimal128": 38, "Decimal256": 76}
_GENERAL = {
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


def general_type(field_type: FieldType) -> FieldType | None:
    """The general type for a ClickHouse type; None if it is not one."""
    name, attrs = field_type.name, field_type.attrs
    if name in ("Nullable", "LowCardinality", "SimpleAggregateFunction"):
        inner = attrs.get("inner")
        return FieldType("string") if inner is None else general_type(as_field_type(inner))
    if _INTEGER.fullmatch(name):
        return FieldType(name.lower())
    if name in _DECIMALS or name == "Decimal":
        precision = _DECIMALS.get(name) or attrs.get("precision", 10)
        return FieldType("decimal", {"precision": precision, "scale": attrs.get("scale", 0)})
    if name == "DateTime64":
        return FieldType("timestamp", {"precision": attrs.get("precision", 3)})
    if name == "Array":
        element = general_type(as_field_type(attrs["element"]))
        if element is None or element.name not in _ELEMENTS:
            return FieldType("json")
        return FieldType("array", {"element": {"name": element.name, "attrs": element.attrs}})
    if name == "String" and attrs.get("utf8") is False:  # created for bytes
        return FieldType("bytes")
    if name in _NESTED:
        return FieldType("json")
    if name in _TEXT or re.fullmatch(r"U?Int(128|256)", name):
        return FieldType("string")
    return _GENERAL.get(name)


_ELEMENTS = frozenset({"bool", "float", "double", "decimal", "string"} | {f"int{bits}" for bits in (8, 16, 32, 64)})
"""Element types of arrays that stay arrays outside ClickHouse; any other array is JSON."""
