"""Decodes rows of binary COPY to Arrow, column by column, without a Python object per row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.connector.errors import ConnectorError
from gauss.plugins.connectors.postgres.catalog_types import Reading
from gauss.plugins.connectors.postgres.source_arrays import locate_elements
from gauss.plugins.formats.pg_binary import numeric
from gauss.plugins.processors.pg_source.copy_stream import CopyRows

Y2K_US, Y2K_DAYS = 946_684_800_000_000, 10_957
DAY_US = 86_400_000_000
_LONGEST_US = 2**63 - 1 - Y2K_US
_FORMS = {
    "bool": "u1", "int2": ">i2", "int4": ">i4", "int8": ">i8", "oid": ">u4", "float4": ">f4", "float8": ">f8",
    "date": ">i4", "time": ">i8", "timestamp": ">i8",
}  # fmt: skip
_HEX = np.frombuffer(b"".join(b"%02x" % number for number in range(256)), np.uint8).reshape(256, 2)
_UUID_PLACES = np.array([place for place in range(36) if place not in (8, 13, 18, 23)])
_NOT_NUMBERS = pa.array(["NaN", "Infinity", "-Infinity"])


class Pieces(NamedTuple):
    """Where the values of a column lie in a buffer, in ascending order."""

    body: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    """Below 0 for null."""

    @property
    def null(self) -> np.ndarray:
        return self.lengths < 0


class Decoded(NamedTuple):
    """Columns of rows."""

    columns: list[pa.Array]
    bad: dict[int, np.ndarray]
    """By column: which rows have a value without an Arrow value; it is null there."""


def decode(rows: CopyRows, readings: Sequence[Reading]) -> Decoded:
    """The columns of rows; raises ConnectorError if they are not rows of these columns."""
    columns, bad = [], {}
    for number, (pieces, reading) in enumerate(zip(locate(rows, len(readings)), readings, strict=True)):
        values, odd = column(pieces, reading)
        columns.append(values)
        if odd is not None and odd.any():
            bad[number] = odd
    return Decoded(columns, bad)


def locate(rows: CopyRows, width: int) -> list[Pieces]:
    """Where each column lies."""
    body, at, found = rows.body, rows.offsets[:-1].astype(np.int64), []
    try:
        fits = bool((_numbers(body, ">i2")[at] == width).all())
        at = at + 2
        lengths = _numbers(body, ">i4")
        for _ in range(width if fits else 0):
            length = lengths[at].astype(np.int64)
            at = at + 4
            found.append(Pieces(body, at, length))
            at = at + np.maximum(length, 0)
    except IndexError:
        fits = False
    if not fits or not np.array_equal(at, rows.offsets[1:]):
        raise ConnectorError.internal(
            "BAD_COPY",
            f"Postgres sent rows that do not have {width} columns",
            hint="check for a proxy between Gauss and Postgres that changes the data",
        )
    return found


def _numbers(body: np.ndarray, form: str) -> np.ndarray:
    """A number at every byte of a buffer."""
    kind = np.dtype(form)
    return np.ndarray((max(len(body) - kind.itemsize + 1, 0),), kind, body, strides=(1,))


def column(pieces: Pieces, reading: Reading) -> tuple[pa.Array, np.ndarray | None]:
    """(values, which have no Arrow value and are null; None: all have one)."""
    if reading.kind in _FORMS:
        return _fixed(pieces, reading)
    return _DECODERS[reading.kind](pieces, reading)


def _fixed(pieces: Pieces, reading: Reading) -> tuple[pa.Array, np.ndarray | None]:
    null = pieces.null
    form = np.dtype(_FORMS[reading.kind])
    if not ((pieces.lengths == form.itemsize) | null).all():
        raise ConnectorError.internal("BAD_COPY", f"Postgres sent a {reading.kind} without {form.itemsize} bytes")
    if null.all():
        return pa.nulls(len(null), reading.arrow), None
    some = bool(null.any())
    at = np.where(null, pieces.starts[~null][0], pieces.starts) if some else pieces.starts
    values = _numbers(pieces.body, _FORMS[reading.kind])[at].astype(form.newbyteorder("="))
    odd: np.ndarray | None = None
    match reading.kind:
        case "timestamp":
            odd = (values > _LONGEST_US) | (values == -(2**63))
            values = np.where(odd, 0, values) + Y2K_US
        case "date":
            odd = (values == 2**31 - 1) | (values == -(2**31))
            values = np.where(odd, 0, values) + np.int32(Y2K_DAYS)
        case "time":
            odd = values >= DAY_US
        case "oid":
            values = values.astype(np.int64)
        case "bool":
            values = values != 0
    mask = null if some else None
    if odd is not None:
        odd &= ~null
        if odd.any():
            mask = null | odd
    if pa.types.is_temporal(reading.arrow):
        return _viewed(values, mask, reading.arrow), odd
    return pa.array(values, reading.arrow, mask=mask), odd


def _viewed(values: np.ndarray, mask: np.ndarray | None, kind: pa.DataType) -> pa.Array:
    """Integers as a type of the same bytes: `pa.array` would check each against the years of Python."""
    return pa.array(values, mask=mask).view(kind)


def slices(pieces: Pieces) -> pa.BinaryArray:
    """Slices of the buffer as a binary column: Arrow takes every second one of adjacent slices."""
    count, null = len(pieces.starts), pieces.null
    if not count:
        return pa.array([], pa.binary())
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0:-1:2] = pieces.starts
    offsets[1::2] = pieces.starts + np.maximum(pieces.lengths, 0)
    offsets[-1] = offsets[-2]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(pieces.body)]
    slices = pa.BinaryArray.from_buffers(pa.binary(), 2 * count, buffers)
    places = np.arange(0, 2 * count, 2, dtype=np.int32)
    return slices.take(pa.array(places, mask=null if null.any() else None))


def _bytea(pieces: Pieces, _: Reading) -> tuple[pa.Array, None]:
    return slices(pieces), None


def _text(pieces: Pieces, _: Reading | None = None) -> tuple[pa.Array, np.ndarray | None]:
    values = slices(pieces)
    try:
        return values.cast(pa.string()), None
    except pa.ArrowInvalid:
        odd = np.fromiter((not is_text(value) for value in values.to_pylist()), bool, len(values))
        kept = pc.if_else(pa.array(odd), pa.scalar(None, pa.binary()), values)
        return kept.cast(pa.string()), odd


def _jsonb(pieces: Pieces, _: Reading) -> tuple[pa.Array, np.ndarray | None]:
    """Text behind a byte with the version."""
    return _text(Pieces(pieces.body, pieces.starts + ~pieces.null, np.where(pieces.null, -1, pieces.lengths - 1)))


def _uuid(pieces: Pieces, _: Reading) -> tuple[pa.Array, None]:
    """16 bytes as text of 36 letters."""
    count, null = len(pieces.starts), pieces.null
    letters = np.full((count, 36), ord("-"), np.uint8)
    there = np.flatnonzero(~null)
    if not (pieces.lengths[there] == 16).all():
        raise ConnectorError.internal("BAD_COPY", "Postgres sent a uuid without 16 bytes")
    digits = _HEX[pieces.body[pieces.starts[there][:, None] + np.arange(16)]].reshape(len(there), 32)
    letters[there[:, None], _UUID_PLACES] = digits
    valid = pa.array(~null).buffers()[1] if null.any() else None
    offsets = np.arange(0, 36 * count + 1, 36, dtype=np.int32)
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(letters)]
    return pa.StringArray.from_buffers(count, buffers[1], buffers[2], buffers[0]), None


def _number(pieces: Pieces, _: Reading | None = None) -> tuple[pa.Array, np.ndarray | None]:
    """Digits as text."""
    values = slices(pieces).cast(pa.string())
    odd = pc.is_in(values, value_set=_NOT_NUMBERS).to_numpy(zero_copy_only=False)
    return (pc.if_else(pa.array(odd), pa.scalar(None, pa.string()), values) if odd.any() else values), odd


def _decimal(pieces: Pieces, reading: Reading) -> tuple[pa.Array, np.ndarray | None]:
    """Decimals that are sent as text."""
    values, odd = _number(pieces)
    return values.cast(reading.arrow), odd


def _numeric(pieces: Pieces, reading: Reading) -> tuple[pa.Array, np.ndarray | None]:
    values, odd = numeric.decode(*pieces, reading.arrow.precision, reading.arrow.scale)
    return (pc.if_else(pa.array(odd), pa.scalar(None, reading.arrow), values) if odd.any() else values), odd


def _list(pieces: Pieces, reading: Reading) -> tuple[pa.Array, np.ndarray | None]:
    assert reading.element is not None
    counts, starts, lengths, odd = locate_elements(*pieces)
    elements, bad = column(Pieces(pieces.body, starts, lengths), reading.element)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    if bad is not None and bad.any():
        owners = np.repeat(np.arange(len(counts)), counts)
        odd[owners[bad]] = True
    null = pieces.null | odd
    mask = pa.array(null) if null.any() else None
    return pa.ListArray.from_arrays(pa.array(offsets), elements, type=reading.arrow, mask=mask), odd


def is_text(value: bytes | None) -> bool:
    """Whether bytes are UTF-8."""
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


_DECODERS: dict[str, Callable[[Pieces, Any], tuple[pa.Array, np.ndarray | None]]] = {
    "text": _text,
    "bytea": _bytea,
    "jsonb": _jsonb,
    "uuid": _uuid,
    "number": _number,
    "money": _number,
    "inet": _text,
    "decimal": _decimal,
    "numeric": _numeric,
    "list": _list,
}
