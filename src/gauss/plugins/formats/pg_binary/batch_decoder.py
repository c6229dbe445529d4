"""Decodes batches of rows: a walk finds where each column lies, numpy converts whole columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import FieldType, SourceField
from gauss.plugins.formats.columns import YEARS_DAYS, YEARS_US, Columns, bytes_of
from gauss.plugins.formats.pg_binary import numeric
from gauss.plugins.formats.pg_binary.tuples import FIXED, reader
from gauss.plugins.formats.pg_binary.walk import WALK, PgRowWalk

Y2K_US, Y2K_DAYS = 946_684_800_000_000, 10_957
FORMS = {"h": "i2", "i": "i4", "q": "i8", "f": "f4", "d": "f8", "?": "u1"}


def decode(data: pa.BinaryArray, fields: list[SourceField]) -> tuple[np.ndarray, Columns]:
    """(which records are plain, their columns)."""
    offsets, body = bytes_of(data)
    count, width = len(data), len(fields)
    starts, lengths = np.zeros(count * width, np.int64), np.zeros(count * width, np.int64)
    suspects = np.zeros(count, np.uint8)
    function, compiled = WALK.ready(count, int(offsets[-1] - offsets[0]))
    if compiled:
        function(PgRowWalk(body.view(np.int8), offsets, width, starts, lengths, suspects))
    else:
        function(PgRowWalk(body.tobytes(), offsets.tolist(), width, starts, lengths, suspects))
    plain = suspects == 0
    made: dict[str, pa.Array] = {}
    all_starts, all_lengths = starts.reshape(count, width)[plain], lengths.reshape(count, width)[plain]
    bad = np.zeros(len(all_starts), bool)
    for index, field in enumerate(fields):
        made[field.name], odd = _column(body, all_starts[:, index], all_lengths[:, index], field.field_type)
        bad |= odd
    if bad.any():
        plain[np.flatnonzero(plain)[bad]] = False
        made = {name: values.filter(pa.array(~bad)) for name, values in made.items()}
    return plain, made


def _column(body: np.ndarray, starts: np.ndarray, lengths: np.ndarray, type_: FieldType) -> tuple[pa.Array, np.ndarray]:
    """(values, which are left to the row codec)."""
    kind, null = type_.name, lengths < 0
    if kind in FIXED:
        return _fixed(body, starts, lengths, np.dtype(">" + FORMS[FIXED[kind][1:]]), type_)
    if kind == "numeric" and type_.attrs.get("precision", numeric.MOST_DIGITS + 1) <= numeric.MOST_DIGITS:
        return numeric.decode(body, starts, lengths, type_.attrs["precision"], type_.attrs.get("scale", 0))
    if kind in ("numeric", "array"):
        return _each(body, starts, lengths, type_)
    if kind == "jsonb":
        odd = ~null & ((lengths < 1) | (body[np.where(null | (lengths < 1), 0, starts)] != 1))
        starts, lengths = starts + 1, np.where(null | odd, lengths, lengths - 1)
    else:
        odd = ~null & (lengths != 16) if kind == "uuid" else np.zeros(len(null), bool)
    values = _pieces(body, starts, np.where(null | odd, 0, lengths), null)
    if not pa.types.is_string(arrow_type(type_)):
        return values, odd
    try:
        return values.cast(pa.string()), odd
    except pa.ArrowInvalid:
        broken = np.fromiter((not _is_text(value) for value in values.to_pylist()), bool, len(values))
        kept = _pieces(body, starts, np.where(null | odd | broken, 0, lengths), null)
        return kept.cast(pa.string()), odd | broken


def _fixed(
    body: np.ndarray, starts: np.ndarray, lengths: np.ndarray, form: np.dtype[Any], type_: FieldType
) -> tuple[pa.Array, np.ndarray]:
    null = lengths < 0
    odd = ~null & (lengths != form.itemsize)
    safe = np.where(null | odd, -1, starts)
    pieces = np.zeros((len(starts), form.itemsize), np.uint8)
    held = safe >= 0
    pieces[held] = body[safe[held][:, None] + np.arange(form.itemsize)]
    values = pieces.view(form).ravel().astype(form.newbyteorder("="))
    if type_.name in ("timestamp", "timestamptz"):
        low, high = YEARS_US
        odd |= held & ((values < low - Y2K_US) | (values > high - Y2K_US))
        values = np.where(odd, 0, values) + Y2K_US
        return pa.array(values, pa.int64(), mask=null).cast(pa.timestamp("us", tz="UTC")), odd
    if type_.name == "date":
        low, high = YEARS_DAYS
        days = values.astype(np.int64)
        odd |= held & ((days < low - Y2K_DAYS) | (days > high - Y2K_DAYS))
        days = np.where(odd, 0, days) + Y2K_DAYS
        return pa.array(days.astype(np.int32), pa.int32(), mask=null).cast(pa.date32()), odd
    if type_.name == "bool":
        values = values != 0
    return pa.array(values, arrow_type(type_), mask=null), odd


def _pieces(body: np.ndarray, starts: np.ndarray, lengths: np.ndarray, null: np.ndarray) -> pa.BinaryArray:
    """Slices of the records as a binary column."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    valid = pa.array(~null).buffers()[1] if null.any() else None
    buffers = [valid, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(body[places])]
    return pa.BinaryArray.from_buffers(pa.binary(), len(starts), buffers)


def _each(body: np.ndarray, starts: np.ndarray, lengths: np.ndarray, type_: FieldType) -> tuple[pa.Array, np.ndarray]:
    """Values that have no fixed form, one by one."""
    read = reader(type_, "")
    null = lengths < 0
    odd = np.zeros(len(starts), bool)
    values: list[Any] = []
    for index, piece in enumerate(_pieces(body, starts, np.where(null, 0, lengths), null).to_pylist()):
        try:
            values.append(None if piece is None else read(piece))
        except ValueError:
            odd[index] = True
            values.append(None)
    return pa.array(values, arrow_type(type_)), odd


def _is_text(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
