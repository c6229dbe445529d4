"""Copies Arrow columns into buffers of their own size."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gauss.model.batch import value_offsets


def compacted(column: pa.Array) -> pa.Array:
    """The same values in buffers that hold nothing else. A slice shares the buffers of the whole column, and Arrow's
    IPC would write up to 63 bytes of its neighbours. Values of nulls are zeroed."""
    type_ = column.type
    if column.null_count or not (_is_plain(type_) or pa.types.is_binary(type_) or pa.types.is_string(type_)):
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        places = np.where(valid, np.arange(len(column)), 0)
        return column.take(pa.array(places, mask=~valid))
    buffers = column.buffers()
    if _is_plain(type_):
        width = type_.bit_width // 8
        values = buffers[1].slice(column.offset * width, len(column) * width)
        return pa.Array.from_buffers(type_, len(column), [None, values], 0)
    offsets = value_offsets(column)
    begin, end = int(offsets[0]), int(offsets[-1])
    values = None if buffers[2] is None else buffers[2].slice(begin, end - begin)
    positions = pa.py_buffer((offsets - begin).astype(np.int32))
    return pa.Array.from_buffers(type_, len(column), [None, positions, values], 0)


def _is_plain(type_: pa.DataType) -> bool:
    """Whether values lie one after the other, in whole bytes."""
    return bool(
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_temporal(type_)
    ) and not pa.types.is_interval(type_)
