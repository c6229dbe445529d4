"""What the expression language makes of fields' types, and the types it asks decoders for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.format import FieldType, SourceSchema
from gauss.contracts.native_types import general
from gauss.scan.program.ir import Kind

if TYPE_CHECKING:
    import pyarrow as pa

_KINDS = {
    "float": Kind.NUMBER,
    "double": Kind.NUMBER,
    "decimal": Kind.NUMBER,
    "bool": Kind.BOOL,
    "string": Kind.STRING,
    "varchar": Kind.STRING,
    "json": Kind.ANY,
    # Postgres' own names
    "float4": Kind.NUMBER,
    "float8": Kind.NUMBER,
    "text": Kind.STRING,
    "bpchar": Kind.STRING,
}
DECODED = {Kind.NUMBER: "double", Kind.STRING: "string", Kind.BOOL: "bool", Kind.INT: "int64", Kind.ANY: "json"}
"""The field type to decode a field as when no schema says it."""


def field_kind(field_type: FieldType) -> Kind:
    """The kind of a field type."""
    if field_type.name.startswith(("int", "uint")):
        return Kind.INT
    if (found := general(field_type)) is not None:
        return field_kind(found)
    return _KINDS.get(field_type.name, Kind.OPAQUE)


def schema_kinds(schema: SourceSchema) -> dict[str, Kind]:
    """The kinds of a format's fields by dotted path."""
    return {entry.name.removeprefix("$."): field_kind(entry.field_type) for entry in schema.fields}


def arrow_kinds(schema: pa.Schema) -> dict[str, Kind]:
    """The kinds of Arrow columns, such as a candidate's."""
    return {entry.name: _arrow_kind(entry.type) for entry in schema}


def _arrow_kind(held: pa.DataType) -> Kind:
    from pyarrow import types

    if types.is_dictionary(held):
        held = held.value_type
    if types.is_integer(held):
        return Kind.INT
    if types.is_floating(held) or types.is_decimal(held):
        return Kind.NUMBER
    if types.is_string(held) or types.is_large_string(held) or types.is_string_view(held):
        return Kind.STRING
    return Kind.BOOL if types.is_boolean(held) else Kind.OPAQUE
