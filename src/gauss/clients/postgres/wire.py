"""Converts Arrow columns for COPY BINARY."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from gauss.clients.errors import RowError
from gauss.clients.postgres.types import canonical, render_type
from gauss.contracts.format import FieldType
from gauss.contracts.target import as_field_type

_DIRECT = {
    "SMALLINT": pa.int16(), "INTEGER": pa.int32(), "BIGINT": pa.int64(), "REAL": pa.float32(),
    "DOUBLE PRECISION": pa.float64(), "BOOLEAN": pa.bool_(), "TEXT": pa.string(), "VARCHAR": pa.string(),
    "CHAR": pa.string(), "NAME": pa.string(), "JSON": pa.string(), "BYTEA": pa.binary(), "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"), "TIME": pa.time64("us"),
}  # fmt: skip
_PLAIN_ELEMENTS = {"SMALLINT", "INTEGER", "BIGINT", "REAL", "DOUBLE PRECISION", "BOOLEAN", "TEXT", "VARCHAR"}
_JSONB_VERSION = b"\x01"
_NUMERIC_DIGITS = 38


def wire_column(name: str, values: pa.ChunkedArray, field_type: FieldType) -> tuple[pa.ChunkedArray, str]:
    """A column ready for COPY, and the type to which the server casts it ("" if it has the column's type already).

    Types without a binary form here are sent as text and parsed by Postgres.
    """
    wanted = canonical(field_type)
    try:
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        direct = _direct(values, wanted)
        if direct is not None:
            return direct, ""
        return _as_text(values), render_type(field_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise RowError(
            f"column {name}: {values.type} does not fit {render_type(field_type)}: {str(error).splitlines()[0]}",
            reason="convert",
            column=name,
        ) from error


def _direct(values: pa.ChunkedArray, wanted: FieldType) -> pa.ChunkedArray | None:
    name, kind = wanted.name, values.type
    if name == "TIME" and wanted.attrs.get("timezone"):
        return None
    if name in _DIRECT:
        if name in ("TEXT", "VARCHAR", "CHAR", "NAME", "JSON") and not _is_text(kind):
            return None
        if name == "TIMESTAMP":
            if not pa.types.is_timestamp(kind):
                return None
            # The wire form is microseconds UTC, with or without a zone.
            if kind.unit == "ns":
                values = pc.floor_temporal(values, unit="microsecond")
            return values.cast(pa.timestamp("us", tz=kind.tz)).cast(pa.int64()).cast(pa.timestamp("us"))
        return values if kind == _DIRECT[name] else values.cast(_DIRECT[name])
    if name == "NUMERIC":
        if pa.types.is_integer(kind):
            values = values.cast(pa.decimal128(20, 0))
        if not pa.types.is_decimal(values.type) or values.type.bit_width > 128:
            return None
        precision = wanted.attrs.get("precision", values.type.precision)
        scale = wanted.attrs.get("scale", values.type.scale)
        if precision > _NUMERIC_DIGITS or scale < 0 or scale > precision:
            return None
        return values.cast(pa.decimal128(precision, scale))
    if name == "UUID" and kind == pa.binary(16):
        return values
    if name == "JSONB" and _is_text(kind):
        prefix = pa.scalar(_JSONB_VERSION, pa.binary())
        return pc.binary_join_element_wise(prefix, values.cast(pa.binary()), pa.scalar(b"", pa.binary()))
    if name == "INTERVAL" and pa.types.is_duration(kind):
        return values.cast(pa.duration("us"))
    if name == "ARRAY" and pa.types.is_list(kind) and not pa.types.is_nested(kind.value_type):
        element = canonical(as_field_type(wanted.attrs["element"])).name
        if element in _PLAIN_ELEMENTS:
            return values.cast(pa.list_(_DIRECT[element]))
    return None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _as_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = values.type
    if pa.types.is_nested(kind):
        return pa.chunked_array([pa.array([_array_text(value) for value in values.to_pylist()], pa.string())])
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.chunked_array([pa.array([None if v is None else f"\\x{v.hex()}" for v in values.to_pylist()])])
    return values.cast(pa.string())


def _array_text(value: object) -> str | None:
    """An array as Postgres writes it: `{{1,2},{3,NULL}}`."""
    if value is None:
        return None
    if isinstance(value, list):
        return "{" + ",".join("NULL" if item is None else _array_text(item) or "" for item in value) + "}"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, bytes):
        value = f"\\x{value.hex()}"
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def wire_table(rows: pa.Table, types: Mapping[str, FieldType]) -> tuple[pa.Table, dict[str, str]]:
    """All columns ready for COPY, and by name those that the server has to cast."""
    columns, casts = [], {}
    for name in rows.schema.names:
        column, cast = wire_column(name, rows[name], types[name])
        columns.append(column)
        if cast:
            casts[name] = cast
    return pa.table(columns, names=rows.schema.names), casts
