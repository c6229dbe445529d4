"""Sizes of rows in bytes: values only, without Arrow's overhead, so that they do not depend on the memory layout."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.chunk import Chunk
from gauss.model.batch import value_lengths
from gauss.scan.outputs import packed_size


def row_sizes(batch: pa.RecordBatch) -> np.ndarray:
    """Size of each row in bytes."""
    sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        sizes += _text_sizes(column) if _is_text(column.type) else _width(column.type)
    return sizes


def byte_counter(schema: pa.Schema) -> Callable[[pa.RecordBatch], int]:
    """A function that returns the total bytes of a batch with this schema."""
    texts = [n for n, type_ in enumerate(schema.types) if _is_text(type_)]
    width = sum(_width(type_) for n, type_ in enumerate(schema.types) if n not in texts)

    def count(batch: pa.RecordBatch) -> int:
        size = width * int(batch.num_rows)
        for index in texts:
            column = batch.column(index)
            size += int(_text_sizes(column).sum()) if column.null_count else packed_size(column)
        return size

    return count


def record_sizes(chunk: Chunk) -> np.ndarray:
    """Size of each record of a chunk in bytes, without framing."""
    if chunk.framing is None:
        return value_lengths(chunk.payload)
    starts, ends = chunk.bounds()
    sizes: np.ndarray = ends - starts
    return sizes


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_binary(type_) or pa.types.is_string(type_))


def _text_sizes(column: pa.Array) -> np.ndarray:
    if not column.null_count:
        return value_lengths(column)
    found: np.ndarray = pc.fill_null(pc.binary_length(column), 0).to_numpy()  # bytes of a null are arbitrary
    return found


def _width(type_: pa.DataType) -> int:
    try:
        return max(1, int(type_.bit_width) // 8)
    except ValueError:  # a nested type: exact sizes would be expensive, and only records hold them
        return 8
