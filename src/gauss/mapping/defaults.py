"""The columns of a table without a schema map: the record's time, then every field under a plain name."""

from __future__ import annotations

import re
from collections.abc import Callable

from gauss.contracts.field_types import parse_member
from gauss.contracts.format import FieldType, SourceSchema
from gauss.contracts.native_types import general
from gauss.contracts.target import TargetField, TargetSchema, as_field_type
from gauss.model.errors import ConfigError

TypeMap = Callable[[FieldType], FieldType | None]
"""The type of a column for a field's type; None: there is none."""


def default_target(source: SourceSchema, target: TargetSchema, type_map: TypeMap, time_type: str) -> TargetSchema:
    """`ts_ms` and one column per field, in order."""
    fields = []
    if not any(field.name in {"ts_ms", "$.ts_ms"} for field in source.fields):
        fields.append(TargetField("ts_ms", FieldType(time_type), "ts_ms"))
    taken = {field.name for field in fields}
    clauses = " ".join(str(text) for key, text in target.attrs.items() if key != "table")
    named = {"ts_ms", *re.findall(r"\w+", clauses)}
    for field in source.fields:
        made = type_map(field.field_type)
        if made is None:
            raise ConfigError(
                f'field "{field.name}" has the type {field.field_type.name}, which has no column type here',
                hint="write a schema map that leaves it out or gives it a type",
            )
        name = column_name(field.name)
        if name in taken:
            raise ConfigError(
                f'two fields would become the column "{name}", the second is "{field.name}"',
                hint="write a schema map that names them apart",
            )
        taken.add(name)
        if made.name == "Nullable" and name in named:  # no clause of a table (ORDER BY, PARTITION BY, …) takes nulls
            made = as_field_type(made.attrs["inner"])
        fields.append(TargetField(name, made, field.name))
    return TargetSchema(tuple(fields), target.attrs)


def column_name(field: str) -> str:
    """A plain name for a field or a path: `$.order.items[*].sku` becomes `order_items_sku`."""
    return re.sub(r"[^\w]+", "_", field.removeprefix("$.").replace("[*]", "")).strip("_") or "field"


_CLICKHOUSE = {
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


def clickhouse_type(source: FieldType) -> FieldType | None:
    """A ClickHouse column for a field: nullable where the engine allows it, since any field may be missing."""
    made = _clickhouse(source)
    if made is None or made.name in {"Array", "Map", "Tuple"}:
        return made
    return FieldType("Nullable", {"inner": made})


def _clickhouse(source: FieldType) -> FieldType | None:
    source = general(source) or source  # a column of another table
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
            inner = clickhouse_type(as_field_type(attrs["element"]))
            return None if inner is None else FieldType("Array", {"element": inner})
        case "map":
            key, value = (
                _clickhouse(as_field_type(attrs.get("key", "string"))),
                clickhouse_type(as_field_type(attrs["value"])),
            )
            return None if key is None or value is None else FieldType("Map", {"key": key, "value": value})
        case "tuple" | "struct":
            return _clickhouse_tuple(source)
    return FieldType(_CLICKHOUSE[name]) if name in _CLICKHOUSE else None


def _clickhouse_tuple(source: FieldType) -> FieldType | None:
    """A tuple whose elements have the members' names."""
    given = source.attrs.get("fields") or source.attrs.get("elements") or source.attrs.get("types") or ()
    members = [parse_member(place, member) for place, member in enumerate(given)]
    kinds = [(name, clickhouse_type(kind)) for name, kind in members]
    if not kinds or any(kind is None for _, kind in kinds):
        return None
    return FieldType("Tuple", {"elements": [{"name": name, "type": kind} for name, kind in kinds]})


_POSTGRES = {
    "string": "TEXT",
    "text": "TEXT",
    "bpchar": "TEXT",
    "json": "JSONB",
    "jsonb": "JSONB",
    "bytes": "BYTEA",
    "bytea": "BYTEA",
    "double": "DOUBLE PRECISION",
    "float8": "DOUBLE PRECISION",
    "float": "REAL",
    "float4": "REAL",
    "bool": "BOOLEAN",
    "date": "DATE",
    "time": "BIGINT",
    "duration": "BIGINT",
    "enum": "INTEGER",
    "uuid": "UUID",
    "int8": "SMALLINT",
    "int16": "SMALLINT",
    "int2": "SMALLINT",
    "uint8": "SMALLINT",
    "int32": "INTEGER",
    "int4": "INTEGER",
    "uint16": "INTEGER",
    "int64": "BIGINT",
    "uint32": "BIGINT",
    "timestamptz": "TIMESTAMPTZ",
}


def postgres_type(source: FieldType) -> FieldType | None:
    """A Postgres column for a field."""
    source = general(source) or source  # a column of another table
    name, attrs = source.name, source.attrs
    match name:
        case "decimal" | "numeric":
            return FieldType("NUMERIC", {key: attrs[key] for key in ("precision", "scale") if key in attrs})
        case "uint64":
            return FieldType("NUMERIC", {"precision": 20, "scale": 0})
        case "int8" if attrs.get("bits") == 64:
            return FieldType("BIGINT")
        case "varchar":
            length = attrs.get("length")
            return FieldType("TEXT") if length in (None, "max") else FieldType("VARCHAR", {"length": length})
        case "timestamp":
            precision = {"precision": min(attrs["precision"], 6)} if "precision" in attrs else {}
            return FieldType("TIMESTAMP", {**precision, "timezone": attrs.get("timezone", True)})
        case "array":
            inner = postgres_type(as_field_type(attrs["element"]))
            return None if inner is None else FieldType("ARRAY", {"element": inner})
        case "map" | "tuple" | "struct":
            return FieldType("JSONB")
    return FieldType(_POSTGRES[name]) if name in _POSTGRES else None
