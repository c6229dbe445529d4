"""Encoding of a batch as a blob, per output.

rows: a MessagePack map of column names and rows. columnar: an Arrow IPC stream. scalar: a MessagePack array of values.
offset_len: a MessagePack array of [offset, count, ts_ms, lengths, bytes], one for each run of consecutive offsets:
`ts_ms` is one number if it is the same for all records, else an array; `bytes` are the concatenated records, without
framing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from gauss.contracts.cursor import Output, Placed
from gauss.model.batch import packed, value_lengths
from gauss.scan.compact import compacted

Item: TypeAlias = pa.RecordBatch | list[Placed] | bytes
"""A batch in process: a RecordBatch for rows and scalar, an IPC stream for columnar, chunks for offset_len."""


_LEAST_INT, _MOST_INT = -(1 << 63), (1 << 64) - 1
"""Range of MessagePack integers."""
JSON_TEXT = {b"gauss": b"json"}
"""Metadata of a column that holds values as JSON text. Also used to request such a column from a decoder."""


def packed_size(data: pa.BinaryArray) -> int:
    """Total bytes of the values, without Arrow's offsets. Independent of the memory layout."""
    offsets = data.buffers()[1]
    if offsets is None or not len(data):
        return 0
    ends = np.frombuffer(offsets, np.int32, count=data.offset + len(data) + 1)
    return int(ends[-1]) - int(ends[data.offset])


def lengths(data: pa.BinaryArray) -> np.ndarray:
    """The size of each value in bytes, in the integer type of Arrow's offsets."""
    offsets = data.buffers()[1]
    if offsets is None or not len(data):
        return np.zeros(0, np.int32)
    ends = np.frombuffer(offsets, np.int32, count=data.offset + len(data) + 1)
    return ends[data.offset + 1 :] - ends[data.offset : -1]


def ipc_stream(batch: pa.RecordBatch) -> bytes:
    """The batch as an Arrow IPC stream. Equal batches give equal bytes, whatever else their buffers hold."""
    batch = pa.RecordBatch.from_arrays([compacted(column) for column in batch.columns], schema=batch.schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream


def encode_item(output: Output, item: Item) -> bytes:
    """Encodes a batch as a blob."""
    if isinstance(item, bytes):
        return item
    if isinstance(item, list):
        return msgspec.msgpack.encode([_records(run) for run in _runs(item)])
    try:
        return _encoded(output, item, msgspec.json.decode)
    except (msgspec.MsgspecError, OverflowError, UnicodeError, RecursionError):  # a value MessagePack cannot hold
        return _encoded(output, item, json_value)


def _encoded(output: Output, batch: pa.RecordBatch, parse: Callable[[str], Any]) -> bytes:
    if output is Output.SCALAR:
        return msgspec.msgpack.encode(_values(batch, 0, parse))
    columns = [_values(batch, index, parse) for index in range(batch.num_columns)]
    rows = list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows
    return msgspec.msgpack.encode({"columns": batch.schema.names, "rows": rows})


def _values(batch: pa.RecordBatch, index: int, parse: Callable[[str], Any]) -> list[Any]:
    """A column's values. JSON text (fields without a schema) is parsed."""
    column = batch.column(index)
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        return [None if value is None else _whole(int(value)) for value in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    if (batch.schema.field(index).metadata or {}) != JSON_TEXT:
        return values
    return [None if value is None else parse(value) for value in values]


def json_value(text: str) -> Any:
    """A JSON text as a value that MessagePack can hold. Integers beyond 64 bits become doubles; numbers beyond a
    double, values nested too deep and invalid text become null."""
    try:
        value = json.loads(text, parse_int=lambda digits: _whole(int(digits)), parse_float=_finite)
        msgspec.msgpack.encode(value)
    except (ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return None
    return value


def _whole(value: int) -> int | float | None:
    if _LEAST_INT <= value <= _MOST_INT:
        return value
    try:
        return float(value)
    except OverflowError:
        return None


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _runs(placed: list[Placed]) -> Iterator[list[Placed]]:
    """Groups chunks with consecutive offsets."""
    run: list[Placed] = []
    for entry in placed:
        if run and run[-1].offset + run[-1].chunk.count != entry.offset:
            yield run
            run = []
        run.append(entry)
    if run:
        yield run


def _records(run: list[Placed]) -> list[Any]:
    """Consecutive records as one entry, independent of how the log has cut and framed them."""
    times = np.concatenate([np.full(chunk.count, chunk.ts_ms, np.int64) for _, chunk in run])
    data = [chunk.data() for _, chunk in run]
    lengths = [length for each in data for length in value_lengths(each).tolist()]
    same = bool((times == times[0]).all())
    stamp = int(times[0]) if same else times.tolist()
    return [run[0].offset, len(lengths), stamp, lengths, b"".join(packed(each) for each in data)]
