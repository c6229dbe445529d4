"""Maps field types to Arrow types that Spark supports, and back.

The column's metadata holds the source type, so that a writer can restore types that Spark lacks: uint64 is
decimal(20,0), text that may not be UTF-8 is binary, a decimal above 38 digits is a string, a timestamp finer than a
microsecond is an int64 of nanoseconds, a tuple is a struct, a map with keys other than text is an array of pairs.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from gauss.contracts.format import FieldType, SourceField
from gauss.contracts.target import field_type_dict
from gauss.model.errors import ConfigError

MARK = b"source_type"
"""The metadata key of a column's source type."""

_SIMPLE = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    # Spark has no unsigned integers: use the next wider signed one, and a decimal for uint64.
    "uint8": pa.int16(),
    "uint16": pa.int32(),
    "uint32": pa.int64(),
    "uint64": pa.decimal128(20, 0),
    "float": pa.float32(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "varchar": pa.string(),
    "json": pa.string(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "time": pa.int64(),  # microseconds since midnight
    "duration": pa.int64(),  # nanoseconds
    "enum": pa.int32(),
    # Postgres names
    "int2": pa.int16(),
    "int4": pa.int32(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "text": pa.string(),
    "bpchar": pa.string(),
    "jsonb": pa.string(),
    "bytea": pa.binary(),
    "uuid": pa.binary(),
    "timestamptz": pa.timestamp("us", tz="UTC"),
}


def arrow_type(field_type: FieldType) -> pa.DataType:
    """The Arrow type of a field type."""
    field_type = field_type.general
    name, attrs = field_type.name, field_type.attrs
    match name:
        case "int8" if attrs.get("bits") == 64:  # Postgres names the size in bytes, others in bits
            return pa.int64()
        case "decimal" | "numeric":
            precision = attrs.get("precision")
            if precision is None or precision > 38:
                return pa.string()
            return pa.decimal128(precision, attrs.get("scale", 0))
        case "timestamp":
            # Local time is stored as if it were UTC; the source type tells the difference.
            return pa.int64() if attrs.get("precision", 6) > 6 else pa.timestamp("us", tz="UTC")
        case "string" | "varchar" | "text" | "bpchar" if attrs.get("utf8") is False:
            return pa.binary()
        case "array":
            return pa.list_(pa.field("element", arrow_type(parse_type(attrs["element"]))))
        case "map":
            key, value = arrow_type(parse_type(attrs.get("key", "string"))), arrow_type(parse_type(attrs["value"]))
            if pa.types.is_string(key):
                return pa.map_(key, value)
            return pa.list_(pa.field("element", pa.struct([("key", key), ("value", value)])))
        case "tuple" | "struct":
            members = [parse_member(index, member) for index, member in enumerate(attrs["fields"])]
            return pa.struct([pa.field(name, arrow_type(kind)) for name, kind in members])
    try:
        return _SIMPLE[name]
    except KeyError:
        known = ", ".join([*_SIMPLE, "decimal", "timestamp", "array", "map", "tuple", "struct"])
        raise ConfigError(f'type "{name}" is not supported by Spark', hint=known) from None


def parse_type(value: Any) -> FieldType:
    """Parses a type in attributes: a name, or `{name, attrs}`."""
    if isinstance(value, FieldType):
        return value
    return FieldType(value) if isinstance(value, str) else FieldType(value["name"], value.get("attrs", {}))


def parse_member(index: int, member: Any) -> tuple[str, FieldType]:
    """Parses a member of a tuple (a type, named by its index: `f0`) or of a struct (`{name, type}`)."""
    if isinstance(member, dict) and "type" in member:
        return member["name"], parse_type(member["type"])
    return f"f{index}", parse_type(member)


def plain_type(field_type: FieldType) -> dict[str, Any]:
    """A type as a value for attributes and metadata."""
    return field_type_dict(field_type)


def arrow_field(field: SourceField) -> pa.Field:
    """A field as an Arrow field, with its source type in the metadata."""
    mark = {MARK: json.dumps(plain_type(field.field_type), sort_keys=True).encode()}
    return pa.field(field.name, arrow_type(field.field_type), metadata=mark)


def arrow_schema(fields: tuple[SourceField, ...] | list[SourceField]) -> pa.Schema:
    """The schema of a format as an Arrow schema."""
    return pa.schema([arrow_field(field) for field in fields])


def source_type(field: pa.Field) -> FieldType:
    """The source type of a column: from its metadata, else from its Arrow type."""
    mark = (field.metadata or {}).get(MARK)
    return parse_type(json.loads(mark)) if mark else type_of(field.type)


def type_of(arrow: pa.DataType) -> FieldType:
    """The field type of any Arrow type."""
    kinds = pa.types
    if kinds.is_dictionary(arrow):
        return type_of(arrow.value_type)
    if kinds.is_decimal(arrow):
        return FieldType("decimal", {"precision": arrow.precision, "scale": arrow.scale})
    if kinds.is_timestamp(arrow):
        digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[arrow.unit]
        return FieldType("timestamp", {"precision": digits} | ({} if arrow.tz else {"timezone": False}))
    if kinds.is_map(arrow):
        key, value = type_of(arrow.key_type), type_of(arrow.item_type)
        return FieldType("map", {"key": plain_type(key), "value": plain_type(value)})
    if kinds.is_list(arrow) or kinds.is_large_list(arrow) or kinds.is_fixed_size_list(arrow):
        return FieldType("array", {"element": plain_type(type_of(arrow.value_type))})
    if kinds.is_struct(arrow):
        return FieldType("struct", {"fields": [{"name": f.name, "type": plain_type(type_of(f.type))} for f in arrow]})
    for test, name in _TESTS:
        if test(arrow):
            return FieldType(name)
    if kinds.is_integer(arrow):
        return FieldType(str(arrow))
    raise ConfigError(f"Arrow type {arrow} is not supported", hint="cast the column to a type that Spark supports")


_TESTS = (
    (pa.types.is_boolean, "bool"),
    (pa.types.is_float16, "float"),
    (pa.types.is_float32, "float"),
    (pa.types.is_floating, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_string_view, "string"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_large_binary, "bytes"),
    (pa.types.is_binary_view, "bytes"),
    (pa.types.is_fixed_size_binary, "bytes"),
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time"),
    (pa.types.is_duration, "duration"),
    (pa.types.is_null, "string"),
)
