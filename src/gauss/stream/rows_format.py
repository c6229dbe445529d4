"""Table rows as JSON objects, for processors that read a table and name no input format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from gauss import registry
from gauss.contracts.field_types import parse_type
from gauss.contracts.format import Decoded, FieldType, Format, FormatSpec, SourceField, SourceSchema
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.target import field_type_dict
from gauss.model.names import INC_COLUMN, OFFSET_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa

    from gauss.contracts.table_read import TableReader

_JSON = {
    "text": "string", "bpchar": "string", "varchar": "string", "int2": "int16", "int4": "int32", "float4": "float",
    "float8": "double", "bytea": "bytes", "uuid": "bytes", "jsonb": "json", "numeric": "decimal",
    "timestamptz": "timestamp",
}  # fmt: skip


class RowsConfig(PluginConfig):
    """Columns with their database types, and the attributes of the table."""

    fields: list[dict[str, Any]]
    """`{name, type: {name, attrs}}`"""
    attrs: dict[str, Any] = Field(default={})
    """The attributes of the source schema."""


def rows_config(reader: TableReader) -> dict[str, Any]:
    """The config for the columns of a table, without the bookkeeping columns of Gauss."""
    own = [column for column in reader.columns if column.name not in (INC_COLUMN, OFFSET_COLUMN)]
    fields = [{"name": column.name, "type": field_type_dict(column.field_type)} for column in own]
    return {"fields": fields, "attrs": reader.attrs}


class RowsFormat:
    """Implements `Format`: the schema is the table's, the bytes are JSON."""

    def __init__(self, config: RowsConfig) -> None:
        fields = [SourceField(field["name"], parse_type(field["type"])) for field in config.fields]
        self._schema = SourceSchema(tuple(fields), config.attrs)
        spec = registry.spec(FormatSpec, "json")
        made = [{"name": field.name, "type": _json_type(field.field_type)} for field in fields]
        self._json: Format = registry.build(spec, spec.validate({"fields": made}))

    def schema(self) -> SourceSchema:
        return self._schema

    def decode(self, data: bytes) -> dict[str, Any]:
        return self._json.decode(data)

    def encode(self, row: dict[str, Any]) -> bytes:
        return self._json.encode(row)

    def decode_batch(self, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
        return self._json.decode_batch(data, fields)

    def encode_batch(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        return self._json.encode_batch(rows)


def _json_type(field_type: FieldType) -> dict[str, Any]:
    """The closest JSON field type that can hold every value."""
    found = field_type.general
    name, attrs = _JSON.get(found.name, found.name), found.attrs
    match name:
        case "decimal":
            precision = attrs.get("precision")
            if precision is None or precision > 38:
                return {"name": "string"}
            return {"name": "decimal", "attrs": {"precision": precision, "scale": attrs.get("scale", 0)}}
        case "int8" if attrs.get("bits") == 64:
            return {"name": "int64"}
        case "timestamp":
            precision = attrs.get("precision", 6)
            return {"name": "int64"} if precision > 6 else {"name": "timestamp", "attrs": {"precision": precision}}
        case "array":
            return {"name": "array", "attrs": {"element": _json_type(parse_type(attrs["element"]))}}
    return {"name": name}


SPEC = FormatSpec(
    name="rows",
    summary="the rows of a table, as JSON objects",
    config=RowsConfig,
    implementation="gauss.stream.rows_format:RowsFormat",
)
ROWS = "gauss.stream.rows_format:SPEC"
