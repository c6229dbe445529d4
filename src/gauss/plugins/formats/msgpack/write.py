"""Encodes batches of rows: each column to bytes in MessagePack's shortest form, then joined to maps."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.format import FieldType
from gauss.plugins.formats.columns import as_declared, moment_text
from gauss.plugins.formats.encoded_columns import alike, big_endian, filled, instead_of_null, join, varied

_BORDERS = np.array([-(2**31), -(2**15), -(2**7), -(2**5), 2**7, 2**8, 2**16, 2**32])
_CODES = np.array([0xD3, 0xD2, 0xD1, 0xD0, 0, 0xCC, 0xCD, 0xCE, 0xCF], np.uint8)
_SIZES = np.array([8, 4, 2, 1, 0, 1, 2, 4, 8])
_NOT_AS_HELD = ("time", "uint64", "array", "map", "tuple", "struct")
"""Types whose values are encoded differently from their columns."""


def encode(rows: pa.RecordBatch, types: dict[str, FieldType]) -> pa.BinaryArray | None:
    """Rows as maps; None if a value or type must be written by the row codec."""
    declared = as_declared(rows, types)
    if declared is None or not 0 < rows.num_columns < 16 or any(name.startswith("$.") for name in rows.schema.names):
        return None
    parts: list[pa.BinaryArray | bytes] = [bytes([0x80 | rows.num_columns])]
    for name, values in zip(rows.schema.names, declared.columns, strict=True):
        pieces = _column(values, types.get(name))
        if pieces is None:
            return None
        parts += [msgspec.msgpack.encode(name), instead_of_null(pieces, b"\xc0")]
    return join(*parts)


def _column(values: pa.Array, type_: FieldType | None) -> pa.BinaryArray | None:
    kinds, kind = pa.types, values.type
    if type_ is not None and type_.name in _NOT_AS_HELD:
        return None
    if kinds.is_integer(kind) and (type_ is None or type_.name != "timestamp"):
        return _whole(values.cast(pa.int64())) if not kinds.is_uint64(kind) else None
    if kinds.is_floating(kind):
        made = np.empty(len(values), [("code", "u1"), ("value", ">f8")])
        made["code"], made["value"] = 0xCB, filled(values.cast(pa.float64()))
        return alike(made, values)
    if kinds.is_boolean(kind):
        return alike(0xC2 + filled(values).astype(np.uint8), values)
    if kinds.is_string(kind):
        return _text(values)
    if kinds.is_binary(kind):
        return join(_lengths(values, 0, (0xC4, 0xC5, 0xC6)), values)
    if kinds.is_date(kind):
        return _text(values.cast(pa.string()))
    if kinds.is_timestamp(kind) and type_ is not None:
        text = moment_text(values, type_.attrs)
        return _text(text) if type_.attrs.get("unit", "iso") == "iso" else _whole(text.cast(pa.int64()))
    if kinds.is_decimal(kind) and kind.scale > 0:
        text = values.cast(pa.string())
        return None if pc.any(pc.match_substring(text, "E")).as_py() else _text(text)
    return None


def _whole(values: pa.Int64Array) -> pa.BinaryArray:
    numbers = filled(values)
    form = np.searchsorted(_BORDERS, numbers, side="right")
    sizes = _SIZES[form]
    table = np.empty((len(numbers), 1 + int(sizes.max(initial=0))), np.uint8)
    table[:, 0] = np.where(sizes == 0, numbers & 255, _CODES[form])
    whole = big_endian(numbers)
    for size in (1, 2, 4, 8):
        if (some := sizes == size).any():
            table[some, 1 : 1 + size] = whole[some, 8 - size :]
    return varied(table, 1 + sizes, values)


def _text(values: pa.StringArray) -> pa.BinaryArray:
    return join(_lengths(values, 0xA0, (0xD9, 0xDA, 0xDB)), values.cast(pa.binary()))


def _lengths(values: pa.Array, short: int, codes: tuple[int, int, int]) -> pa.BinaryArray:
    """Lengths as text or bytes begin with; `short` holds those below 32 in itself, if it is there."""
    lengths = filled(pc.binary_length(values)).astype(np.int64)
    form = np.searchsorted([32 if short else 0, 2**8, 2**16], lengths, side="right")
    sizes = np.array([0, 1, 2, 4])[form]
    table = np.empty((len(lengths), 5), np.uint8)
    table[:, 0] = np.where(form == 0, short | lengths, np.array([0, *codes])[form])
    whole = big_endian(lengths)
    for size in (1, 2, 4):
        if (some := sizes == size).any():
            table[some, 1 : 1 + size] = whole[some, 8 - size :]
    return varied(table, 1 + sizes, values)
