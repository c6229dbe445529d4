"""Whole columns of maps that hold nothing but plain values, each of its type."""

from __future__ import annotations

from types import NoneType
from typing import Any

import pyarrow as pa

from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import FieldType
from gauss.plugins.formats.columns import as_declared
from gauss.plugins.formats.values import RANGES

_PLAIN: dict[str, set[type]] = {
    **{name: {int, NoneType} for name in RANGES},
    "double": {float, int, NoneType},
    "bool": {bool, NoneType},
    "string": {str, NoneType},
    "varchar": {str, NoneType},
    "bytes": {bytes, NoneType},
}


def columns(rows: list[dict[str, Any]], types: dict[str, FieldType], fields: pa.Schema) -> list[pa.Array] | None:
    """The asked columns; None: some value or type needs a look at each."""
    made = {}
    for name, type_ in types.items():
        if type_.name not in _PLAIN or name.startswith("$.") or type_.attrs.get("utf8") is False:
            return None
        values = [row.get(name) for row in rows]
        if not set(map(type, values)) <= _PLAIN[type_.name]:
            return None
        if type_.name in RANGES:
            low, high = RANGES[type_.name]
            present = [value for value in values if value is not None]
            if present and not low <= min(present) <= max(present) <= high:
                return None
        try:
            made[name] = pa.array(values, arrow_type(type_))
        except (pa.ArrowInvalid, OverflowError):
            return None
    if any(field.name not in made or made[field.name].type != field.type for field in fields):
        return None
    return [made[field.name] for field in fields]


def plain_rows(rows: pa.RecordBatch, types: dict[str, FieldType]) -> list[dict[str, Any]] | None:
    """Rows whose values are written as they are; None: some value or type needs a look at each."""
    for name in rows.schema.names:
        type_ = types.get(name)
        # Spark holds a uint64 as a decimal.
        if type_ is None or type_.name not in _PLAIN or type_.name == "uint64" or name.startswith("$."):
            return None
    declared = as_declared(rows, types)
    found: list[dict[str, Any]] | None = declared.to_pylist() if declared is not None else None
    return found
