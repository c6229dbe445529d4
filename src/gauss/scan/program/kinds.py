"""Maps field types and Arrow types to kinds, and kinds to the types requested from decoders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.expression import Kind
from gauss.contracts.format import FieldType, SourceSchema

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
    # Postgres names
    "float4": Kind.NUMBER,
    "float8": Kind.NUMBER,
    "text": Kind.STRING,
    "bpchar": Kind.STRING,
}
DECODED = {Kind.NUMBER: "double", Kind.STRING: "string", Kind.BOOL: "bool", Kind.INT: "int64", Kind.ANY: "json"}
"""Field type to decode a field as if there is no schema."""


def field_kind(field_type: FieldType) -> Kind:
    """The kind of a field type."""
    name = field_type.general.name
    return Kind.INT if name.startswith(("int", "uint")) else _KINDS.get(name, Kind.OPAQUE)


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
