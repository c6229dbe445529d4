"""Encoded columns: the bytes of each value, joined row by row to records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def join(*parts: Any) -> pa.BinaryArray:
    """Concatenates columns (or constant bytes) row by row; null where any of them is null."""
    return pc.binary_join_element_wise(*(_scalar(part) if isinstance(part, bytes) else part for part in parts), b"")


def instead_of_null(pieces: pa.BinaryArray, null: bytes) -> pa.BinaryArray:
    return pc.fill_null(pieces, _scalar(null))


def _scalar(value: bytes) -> pa.Scalar:
    return pa.scalar(value, pa.binary())


def filled(values: pa.Array) -> np.ndarray:
    """The numbers of a column, 0 for null."""
    nothing = False if pa.types.is_boolean(values.type) else 0
    found: np.ndarray = pc.fill_null(values, nothing).to_numpy(zero_copy_only=False)
    return found


def alike(made: np.ndarray, values: pa.Array) -> pa.BinaryArray:
    """The bytes of each element as a column, null where `values` are."""
    offsets = np.arange(len(made) + 1, dtype=np.int32) * made.itemsize
    return _pieces(offsets, np.ascontiguousarray(made), values)


def varied(table: np.ndarray, sizes: np.ndarray, values: pa.Array) -> pa.BinaryArray:
    """The first sizes[i] bytes of row i of a table as a column, null where `values` are."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return _pieces(offsets, table[np.arange(table.shape[1]) < sizes[:, None]], values)


def _pieces(offsets: np.ndarray, content: np.ndarray, values: pa.Array) -> pa.BinaryArray:
    valid = pc.is_valid(values).buffers()[1] if values.null_count else None
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(values), buffers)


def big_endian(numbers: np.ndarray) -> np.ndarray:
    """The eight bytes of each number, big-endian."""
    return numbers.astype(">i8").view(np.uint8).reshape(-1, 8)
