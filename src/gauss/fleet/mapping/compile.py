"""A mapping as what `gauss.tables` runs: a format, a source schema, a target schema and a store."""

from __future__ import annotations

from collections.abc import Mapping as Items
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from gauss import registry
from gauss.clients.clickhouse.server import ClickHouseServer, address_of
from gauss.config.formats import build_format
from gauss.contracts.field_types import plain_type
from gauss.contracts.format import FieldType, Format, FormatSpec, SourceField, SourceSchema
from gauss.contracts.table import TablePlace, TableSpec, TableStore
from gauss.contracts.target import TargetField, as_field_type
from gauss.fleet.config.model import faults
from gauss.fleet.mapping.column import Mapping, MappingColumn
from gauss.mapping.columns import ColumnMap
from gauss.model.errors import ConfigError
from gauss.tables.mapped_table import MappedTable, load_attribute

ANSWER_SECONDS = 30
"""Of ClickHouse. While a request hangs, a task of Spark waits for it, and a lease is not renewed for ever."""
FORMATS = ("json", "avro", "protobuf", "msgpack", "csv")
TYPED = ("json", "msgpack")
"""Formats whose fields have the types that the mapping names."""
_WHOLE = {"Int": "int", "UInt": "uint"}
_SCALARS = {"Bool": "bool", "Float32": "float", "Float64": "double", "Date": "date", "Date32": "date"}
_DECIMALS = {"Decimal32": 9, "Decimal64": 18, "Decimal128": 38, "Decimal256": 76}


@dataclass(frozen=True)
class TableName:
    """Where a pipeline's rows go."""

    dsn: str
    database: str
    table: str


@dataclass(frozen=True)
class ParsedTimes(MappedTable):
    """Times with nanoseconds that are read as text are parsed here, so that their zone means what it means
    in every format."""

    def columns(self) -> ColumnMap:
        kind = self.store.kind

        def arrow(wanted: FieldType, given: pa.DataType) -> pa.DataType:
            times = pa.types.is_string(given) and _is_nanoseconds(wanted)
            return kind.arrow(wanted, pa.timestamp("ns", tz="UTC") if times else given)

        return ColumnMap(self.source, self.mapped, replace(kind, arrow=arrow))


def _is_nanoseconds(kind: FieldType) -> bool:
    if kind.name in ("Nullable", "LowCardinality"):
        return _is_nanoseconds(as_field_type(kind.attrs["inner"]))
    return kind.name == "DateTime64" and bool(kind.attrs.get("precision", 3) > 6)


def compile_mapping(
    mapping: Mapping, format_name: str, format_config: Items[str, Any], where: TableName
) -> MappedTable:
    """Raises ConfigError if a column can't be filled; opens no connection."""
    if not mapping.columns:
        raise ConfigError("the mapping has no columns", hint="take those that the samples propose")
    format_, fields = _source(mapping, format_name, format_config)
    spec = registry.spec(TableSpec, "clickhouse")
    address = address_of(ClickHouseServer(dsn=where.dsn))
    given = {
        "host": address.host, "port": address.port, "user": address.user, "password": address.password,
        "secure": address.secure, "database": where.database, "format": format_name,
        "schema": _attrs(mapping, where),
    }  # fmt: skip
    config: Any = spec.validate(given)
    place = TablePlace(where.table, Path(), ANSWER_SECONDS)
    store: TableStore = load_attribute(spec.writer)(config, place)
    columns = tuple(_column(each, fields) for each in mapping.columns)
    source = SourceSchema(tuple(fields.values()))
    target = store.target(source, lambda start: replace(start, fields=columns))
    made = ParsedTimes(where.table, config, store, format_, source, target, None)  # type: ignore[arg-type]
    made.columns()  # finds a converter for each
    return made


def _attrs(mapping: Mapping, where: TableName) -> dict[str, Any]:
    found: dict[str, Any] = {"table": where.table, "database": where.database, "engine": mapping.engine}
    given = {"order_by": mapping.order_by, "partition_by": mapping.partition_by, "ttl": mapping.ttl}
    return found | {name: value for name, value in given.items() if value}


def create_statement(table: MappedTable) -> str:
    """The CREATE TABLE statement of a mapping."""
    return table.store.statement(table.target)


def _column(column: MappingColumn, fields: Items[str, SourceField]) -> TargetField:
    kind = column.column_type
    props = {"default": "[]"} if column.nullable and kind.name == "Array" else {}
    return TargetField(column.column, kind, fields[column.field_path].name, props)


def _source(mapping: Mapping, name: str, config: Items[str, Any]) -> tuple[Format, dict[str, SourceField]]:
    """The format, and the source field of each path."""
    if name not in FORMATS:
        raise ConfigError(f'format: there is no format "{name}"', hint=f"one of {', '.join(FORMATS)}")
    for column in mapping.columns:
        if column.encoding == "json" and name != "json":
            raise ConfigError(
                f"column {column.column}: {name} records have no JSON text", hint="leave the field out, or take a type"
            )
    if name in TYPED:
        kinds = {each.field_path: decoded_type(each, name) for each in mapping.columns}
        for column in mapping.columns:
            if kinds[column.field_path] != decoded_type(column, name):
                raise ConfigError(
                    f"field {column.field_path}: it can't be read as two types", hint="keep one column of it"
                )
        fields = [{"name": source_name(path), "type": plain_type(kind)} for path, kind in kinds.items()]
        made = build_format(name, {**config, "fields": fields})
        given = {column.field_path: source_type(column, name) for column in mapping.columns}
        return made, {path: SourceField(source_name(path), kind) for path, kind in given.items()}
    if name == "csv":
        config = {**config, "fields": _csv_fields(mapping, config)}
    made = build_format(name, config)
    schema = made.schema()
    known = {} if schema is None else {field.name.removeprefix("$."): field for field in schema.fields}
    for column in mapping.columns:
        if column.field_path not in known:
            raise ConfigError(
                f"field {column.field_path}: the {name} schema has no such field", hint=f"it has {', '.join(known)}"
            )
    return made, known


def _csv_fields(mapping: Mapping, config: Items[str, Any]) -> list[Any]:
    """The columns of the lines, in order, those of the mapping with its types."""
    wanted = {each.field_path: plain_type(source_type(each, "csv")) for each in mapping.columns}
    found = []
    for field in config.get("fields") or []:
        name = str(field.get("name") if isinstance(field, dict) else field)
        found.append({"name": name, "type": wanted.get(name, "string")})
    return found


def source_name(path: str) -> str:
    """The name of a field in a format: a plain name, or a path."""
    return f"$.{path}" if "." in path or "[" in path else path


def decoded_type(column: MappingColumn, format_name: str) -> FieldType:
    """The type as which a format reads a field. Nanoseconds are read as a number: JSON's times have microseconds."""
    return FieldType("int64") if column.encoding == "ns" else source_type(column, format_name)


def source_type(column: MappingColumn, format_name: str) -> FieldType:
    """The type of a field whose values fill a column without loss. JSON's times have microseconds: a finer one is read
    as text, and parsed as what the column is."""
    if column.encoding == "json":
        return FieldType("json")
    found = _source_of(as_field_type(column.column_type), column.encoding or "iso")
    if found is not None and format_name == "json" and _is_finer(found):
        return FieldType("string")
    if found is None or (found.name == "array" and _is_finer(as_field_type(found.attrs["element"]))):
        raise ConfigError(
            f"column {column.column}: no field fills the type {column.type}",
            hint="take a String with the encoding json, and convert it in ClickHouse",
        )
    return found


def _source_of(kind: FieldType, unit: str) -> FieldType | None:
    name, attrs = kind.name, kind.attrs
    if name in ("Nullable", "LowCardinality"):
        return _source_of(as_field_type(attrs["inner"]), unit)
    if name in _SCALARS:
        return FieldType(_SCALARS[name])
    if name in _DECIMALS or name == "Decimal":
        precision = _DECIMALS.get(name) or attrs.get("precision", 10)
        return FieldType("decimal", {"precision": min(precision, 38), "scale": attrs.get("scale", 0)})
    if name in ("DateTime", "DateTime64"):
        precision = attrs.get("precision", 3) if name == "DateTime64" else 0
        if unit == "ns":
            return FieldType("timestamp", {"precision": 9})
        return FieldType("timestamp", {"precision": precision if unit == "iso" else min(precision, 6), "unit": unit})
    if name == "Array":
        element = _source_of(as_field_type(attrs["element"]), unit)
        return None if element is None else FieldType("array", {"element": plain_type(element)})
    for prefix, general in _WHOLE.items():
        if name in (f"{prefix}{bits}" for bits in (8, 16, 32, 64)):
            return FieldType(f"{general}{name.removeprefix(prefix)}")
    if name in ("String", "FixedString", "UUID", "IPv4", "IPv6", "Enum8", "Enum16", "Enum"):
        return FieldType("string")
    return None


def _is_finer(kind: FieldType) -> bool:
    """Whether a type is a time as text with more than microseconds."""
    return kind.name == "timestamp" and kind.attrs.get("unit") == "iso" and kind.attrs["precision"] > 6


def check_format(name: str, config: Items[str, Any]) -> None:
    """Raises ConfigError if a format's settings are wrong."""
    if name not in FORMATS:
        raise ConfigError(f'format: there is no format "{name}"', hint=f"one of {', '.join(FORMATS)}")
    try:
        registry.spec(FormatSpec, name).validate(dict(config))
    except ValidationError as error:
        raise ConfigError(f"formatConfig: {faults(error)}", hint=f"see the format {name}") from None
