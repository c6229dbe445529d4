"""Columns of tables as scans see them, and the column that holds the record's time."""

from __future__ import annotations

import pyarrow as pa

from gauss.contracts.expression import Kind
from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import FieldType, SourceSchema
from gauss.contracts.target import TargetField, TargetSchema
from gauss.scan.outputs import JSON_TEXT
from gauss.scan.program.kinds import arrow_kinds

TIME = "ts_ms"
_BYTES = ("bytes", "bytea")


def candidate(name: str, general: FieldType) -> pa.Field:
    """The scan type of a column: Spark's type, but large integers stay integers and a UUID is text."""
    if general.name == "uint64":
        return pa.field(name, pa.uint64())
    if general.name == "uuid":
        return pa.field(name, pa.string())
    mark = JSON_TEXT if general.name in ("json", "jsonb") else None
    return pa.field(name, arrow_type(general), metadata=mark)


def holds_bytes(field: TargetField, source: SourceSchema) -> bool:
    """Whether a column may hold bytes that are not valid text."""
    kinds = {entry.name: entry.field_type for entry in source.fields}
    found = kinds.get(field.source or "")
    return found is not None and (found.name in _BYTES or found.attrs.get("utf8") is False)


def time_column(target: TargetSchema, columns: dict[str, pa.Field]) -> str:
    """`ts_ms`, else the first column mapped from the record's time, else empty."""
    fitting = [name for name, field in columns.items() if is_time(field)]
    if TIME in fitting:
        return TIME
    own = [field.name for field in target.fields if field.source in (TIME, "@ts_ms") and field.name in fitting]
    return own[0] if own else ""


def is_time(field: pa.Field) -> bool:
    return bool(pa.types.is_integer(field.type) or pa.types.is_timestamp(field.type))


def compared_kinds(columns: dict[str, pa.Field]) -> dict[str, Kind]:
    """Kinds of the columns that the database compares as expressions do."""
    kinds = arrow_kinds(pa.schema([field.with_name(name) for name, field in columns.items()]))
    return {
        name: kind
        for name, kind in kinds.items()
        if (kind in (Kind.INT, Kind.STRING, Kind.BOOL) and not columns[name].metadata)
        or (kind is Kind.NUMBER and pa.types.is_floating(columns[name].type))
    }
