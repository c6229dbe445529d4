"""Records in code: an Arrow batch `(offset, ts_ms, data)`; never one Python object per record."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

RECORD_SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("ts_ms", pa.int64(), nullable=False),
        pa.field("data", pa.binary(), nullable=False),
    ]
)


def record_batch(first_offset: int, ts_ms: int | np.ndarray, data: pa.BinaryArray) -> pa.RecordBatch:
    """Consecutive records from `first_offset` on; `ts_ms` is one arrival time or one per record."""
    count = len(data)
    offsets = pa.array(np.arange(first_offset, first_offset + count, dtype=np.int64))
    times = np.full(count, ts_ms, dtype=np.int64) if isinstance(ts_ms, int) else ts_ms
    return pa.RecordBatch.from_arrays([offsets, pa.array(times, type=pa.int64()), data], schema=RECORD_SCHEMA)


def binary_array(buffer: bytes | memoryview | pa.Buffer, offsets: np.ndarray) -> pa.BinaryArray:
    """A binary array over `buffer` without a copy; `offsets` has one entry more than there are records."""
    values = buffer if isinstance(buffer, pa.Buffer) else pa.py_buffer(buffer)
    positions = pa.py_buffer(np.ascontiguousarray(offsets, dtype=np.int32))
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, positions, values])


def gather(buffer: bytes | memoryview, starts: np.ndarray, ends: np.ndarray) -> pa.BinaryArray:
    """The records `buffer[starts[i]:ends[i]]` as one compact binary array: a copy of the bytes, no loop."""
    lengths = ends - starts
    offsets = np.zeros(len(starts) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    source = np.frombuffer(buffer, dtype=np.uint8)
    total = int(offsets[-1])
    if total == 0:
        return binary_array(b"", offsets)
    # One run of kept bytes per record: +1 at its start, -1 at its end, then a running sum is the mask.
    edge = np.zeros(len(source) + 1, dtype=np.int8)
    filled = lengths > 0
    edge[starts[filled]] += 1
    edge[ends[filled]] -= 1
    kept = source[np.cumsum(edge[:-1], dtype=np.int8).view(bool)]
    return binary_array(pa.py_buffer(kept), offsets)


def value_lengths(data: pa.BinaryArray) -> np.ndarray:
    """The byte length of each record, without a copy of the records."""
    return np.diff(value_offsets(data))


def value_offsets(data: pa.BinaryArray) -> np.ndarray:
    """The n + 1 positions of the records in `value_bytes(data)`'s buffer, as they are (they may not start at 0)."""
    raw = np.frombuffer(data.buffers()[1], dtype=np.int32) if data.buffers()[1] is not None else np.zeros(1, np.int32)
    return raw[data.offset : data.offset + len(data) + 1].astype(np.int64)


def value_buffer(data: pa.BinaryArray) -> memoryview:
    """The bytes behind `value_offsets`."""
    buffer = data.buffers()[2]
    return memoryview(buffer) if buffer is not None else memoryview(b"")
