"""Puts a head before and a tail behind each record of a batch, without a loop over the records."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.model.batch import binary_array, packed, value_offsets

SMALL = 48
"""Mean record size below which moving bytes by a mask beats Arrow's concatenation of each record (measured)."""


def surround(data: pa.BinaryArray, heads: np.ndarray, widths: np.ndarray, tail: bytes) -> bytes:
    """Row i of `heads` (uint8), its first `widths[i]` bytes, then record i, then `tail`; for all records."""
    count = len(data)
    if count == 0:
        return b""
    lengths = np.diff(value_offsets(data))
    length, width = int(lengths[0]), int(widths[0])
    if (lengths == length).all() and (widths == width).all():
        return _equal_rows(packed(data), count, length, heads[:, :width], tail)
    if int(lengths.sum()) >= count * SMALL:
        return _concatenated(data, heads, widths, tail)
    return _scattered(packed(data), lengths, heads, widths, tail)


def _equal_rows(content: memoryview, count: int, length: int, heads: np.ndarray, tail: bytes) -> bytes:
    width = heads.shape[1]
    row = width + length + len(tail)
    out = np.empty((count, row), dtype=np.uint8)
    out[:, :width] = heads
    if tail:
        out[:, width + length :] = np.frombuffer(tail, np.uint8)
    if length:
        # As one opaque value per row numpy copies with memcpy.
        rows = np.ndarray((count,), f"V{length}", out.data, width, (row,))
        rows[:] = np.frombuffer(content, f"V{length}")
    return out.tobytes()


def _concatenated(data: pa.BinaryArray, heads: np.ndarray, widths: np.ndarray, tail: bytes) -> bytes:
    parts: list[object] = [data]
    if heads.shape[1]:
        offsets = np.zeros(len(widths) + 1, dtype=np.int64)
        np.cumsum(widths, out=offsets[1:])
        used = np.arange(heads.shape[1]) < widths[:, None]
        parts.insert(0, binary_array(heads[used], offsets))
    if tail:
        parts.append(pa.scalar(tail, pa.binary()))
    joined = pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))
    return bytes(packed(joined))


def _scattered(content: memoryview, lengths: np.ndarray, heads: np.ndarray, widths: np.ndarray, tail: bytes) -> bytes:
    ends = np.cumsum(widths + lengths + len(tail))
    out = np.empty(int(ends[-1]), dtype=np.uint8)
    is_content = np.ones(len(out), dtype=bool)
    starts = ends - (widths + lengths + len(tail))
    for place in range(heads.shape[1]):
        has = widths > place
        positions = starts[has] + place
        is_content[positions] = False
        out[positions] = heads[has, place]
    for place, byte in enumerate(tail):
        positions = ends - len(tail) + place
        is_content[positions] = False
        out[positions] = byte
    out[is_content] = np.frombuffer(content, np.uint8)
    return out.tobytes()
