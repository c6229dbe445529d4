"""Encodes batches of rows: each column to text, quoted where needed, then joined to lines."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.format import FieldType, SourceField
from gauss.plugins.formats.columns import as_declared, moment_text
from gauss.plugins.formats.csv.line import LineCodec
from gauss.plugins.formats.values import RANGES


def encode(rows: pa.RecordBatch, fields: list[SourceField], codec: LineCodec) -> pa.BinaryArray | None:
    """Rows as lines; None if a value or type must be written by the line codec."""
    declared = as_declared(rows, {field.name: field.field_type for field in fields})
    if declared is None or not fields:
        return None
    null = pa.scalar(codec.null, pa.binary())
    cells = []
    for field in fields:
        at = declared.schema.get_field_index(field.name)
        if at < 0:
            cells.append(pa.repeat(null, len(rows)))
            continue
        text = _text(declared.column(at), field.field_type)
        quoted = _quoted(text.cast(pa.binary()), codec) if text is not None else None
        if quoted is None:
            return None
        cells.append(pc.fill_null(quoted, null))
    return pc.binary_join_element_wise(*cells, codec.delimiter) if len(cells) > 1 else cells[0]


def _text(values: pa.Array, type_: FieldType) -> pa.Array | None:
    kind = type_.name
    if kind in RANGES or kind in ("bool", "date"):
        return values.cast(pa.string())
    if kind in ("string", "varchar"):
        return values
    if kind == "double":
        finite = pc.all(pc.is_finite(values)).as_py()
        return values.cast(pa.string()) if finite is not False else None
    if kind == "timestamp" and pa.types.is_timestamp(values.type):
        return moment_text(values, type_.attrs)
    return None


def _quoted(text: pa.BinaryArray, codec: LineCodec) -> pa.BinaryArray | None:
    needs = pc.equal(text, codec.null)
    for mark in (codec.delimiter, codec.quote, b"\n", b"\r"):
        if mark:
            needs = pc.or_(needs, pc.match_substring(text, mark))
    if not np.asarray(pc.fill_null(needs, False)).any():
        return text
    if not codec.quote:
        return None
    doubled = pc.replace_substring(text, codec.quote, codec.quote * 2)
    return pc.if_else(needs, pc.binary_join_element_wise(codec.quote, doubled, codec.quote, b""), text)
