"""Adds a head or tail to each record of a batch, without a loop over the records."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.model.batch import binary_array, packed, value_lengths

SMALL = 64
"""Mean record size below which picking heads and records in turn beats joining each pair (measured)."""
LARGE = 512
"""Mean record size from which joining each record with its tail beats joining all by it (measured)."""


def with_tail(data: pa.BinaryArray, tail: bytes) -> bytes | memoryview:
    """The records, each followed by `tail`, as one stream."""
    count = len(data)
    if count == 0:
        return b""
    lengths = value_lengths(data)
    if (lengths == lengths[0]).all():
        return _equal_rows(data, int(lengths[0]), np.zeros((count, 0), np.uint8), tail)
    if int(lengths.sum()) >= count * LARGE:
        return packed(pc.binary_join_element_wise(data, pa.scalar(tail, pa.binary()), pa.scalar(b"", pa.binary())))
    as_one_list = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), data)
    joined = pc.binary_join(as_one_list, pa.scalar(tail, pa.binary()))
    return b"".join([packed(joined), tail])


def with_heads(data: pa.BinaryArray, heads: np.ndarray, widths: np.ndarray) -> bytes | memoryview:
    """Every record with the first `widths[i]` bytes of row i of `heads` (uint8) before it, as one stream."""
    count = len(data)
    if count == 0:
        return b""
    lengths = value_lengths(data)
    if (lengths == lengths[0]).all():
        return _equal_rows(data, int(lengths[0]), heads[:, : int(widths[0])], b"")
    offsets = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(widths, out=offsets[1:])
    all_used = int(offsets[-1]) == heads.size
    used = heads if all_used else heads[np.arange(heads.shape[1]) < widths[:, None]]
    before = binary_array(np.ascontiguousarray(used), offsets)
    if int(lengths.sum()) >= count * SMALL:
        return packed(pc.binary_join_element_wise(before, data, pa.scalar(b"", pa.binary())))
    in_turn = np.arange(2 * count, dtype=np.int32).reshape(2, count).T.ravel()
    return packed(pa.concat_arrays([before, data]).take(pa.array(in_turn)))


def _equal_rows(data: pa.BinaryArray, length: int, heads: np.ndarray, tail: bytes) -> memoryview:
    count, width = heads.shape
    row = width + length + len(tail)
    out = np.empty(count * row, np.uint8)
    # As one opaque value per row numpy copies with memcpy.
    if width:
        np.ndarray((count,), f"V{width}", out, 0, (row,))[:] = np.ascontiguousarray(heads).view(f"V{width}")[:, 0]
    if length:
        np.ndarray((count,), f"V{length}", out, width, (row,))[:] = np.frombuffer(packed(data), f"V{length}")
    if tail:
        np.ndarray((count,), f"V{len(tail)}", out, width + length, (row,))[:] = np.void(tail)
    return out.data.toreadonly()
