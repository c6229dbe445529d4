"""Postgres column types for the field types of formats. Postgres types are general types themselves."""

from __future__ import annotations

from gauss.contracts.format import FieldType
from gauss.contracts.target import as_field_type

_COLUMNS = {
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


def column_type(source: FieldType) -> FieldType | None:
    """The column type for a field; None if there is none."""
    source = source.general  # for a column of another table
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
            inner = column_type(as_field_type(attrs["element"]))
            return None if inner is None else FieldType("ARRAY", {"element": inner})
        case "map" | "tuple" | "struct":
            return FieldType("JSONB")
    return FieldType(_COLUMNS[name]) if name in _COLUMNS else None
