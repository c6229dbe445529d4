"""Encodes batches of rows: each column to lengths and bytes, then joined to tuples."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import FieldType, SourceField
from gauss.plugins.formats.columns import as_declared
from gauss.plugins.formats.encoded_columns import alike, filled, instead_of_null, join
from gauss.plugins.formats.pg_binary.batch_decoder import FORMS, Y2K_DAYS, Y2K_US
from gauss.plugins.formats.pg_binary.tuples import FIXED

_NULL = b"\xff\xff\xff\xff"


def encode(rows: pa.RecordBatch, fields: list[SourceField]) -> pa.BinaryArray | None:
    """Rows as tuples; None if a value or type must be written by the row codec."""
    declared = as_declared(rows, {field.name: field.field_type for field in fields})
    if declared is None:
        return None
    parts: list[pa.BinaryArray | bytes] = [len(fields).to_bytes(2, "big")]
    for field in fields:
        at = declared.schema.get_field_index(field.name)
        values = declared.column(at) if at >= 0 else pa.nulls(len(rows), arrow_type(field.field_type))
        pieces = _column(values, field.field_type)
        if pieces is None:
            return None
        parts.append(instead_of_null(pieces, _NULL))
    return join(*parts)


def _column(values: pa.Array, type_: FieldType) -> pa.BinaryArray | None:
    kind = type_.name
    if kind in ("text", "varchar", "bpchar", "json", "bytea"):
        return join(_numbers(pc.binary_length(values), ">i4"), values.cast(pa.binary()))
    if kind not in FIXED:
        return None
    if kind in ("timestamp", "timestamptz"):
        values = pc.subtract(values.cast(pa.int64()), Y2K_US)
    elif kind == "date":
        values = pc.subtract(values.cast(pa.int32()), Y2K_DAYS)
    return _numbers(values, ">" + FORMS[FIXED[kind][1:]], prefix=True)


def _numbers(values: pa.Array, form: str, *, prefix: bool = False) -> pa.BinaryArray:
    """Numbers as bytes, after their length if requested."""
    kind = np.dtype([("length", ">i4"), ("value", form)] if prefix else [("value", form)])
    made = np.empty(len(values), kind)
    made["value"] = filled(values)
    if prefix:
        made["length"] = kind.itemsize - 4
    return alike(made, values)
