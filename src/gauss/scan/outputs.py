"""The blob of a batch, by output. rows: a MessagePack map of column names and rows. columnar: an Arrow IPC stream.
scalar: a MessagePack array of values. offset_len: a MessagePack array of [offset, count, ts_ms, framing, bytes]."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from gauss.contracts.cursor import Output, Placed
from gauss.model.batch import packed, value_lengths

Item: TypeAlias = pa.RecordBatch | list[Placed] | bytes
"""What a cursor gives in process: a batch for rows and scalar, an IPC stream for columnar, chunks for offset_len."""


JSON_TEXT = {b"gauss": b"json"}
"""Metadata of a column that holds any value as its JSON text; decoders are asked for one by the same mark."""


def packed_size(data: pa.BinaryArray) -> int:
    """The bytes of all values, without Arrow's own: the same however Arrow came to hold them."""
    offsets = data.buffers()[1]
    if offsets is None or not len(data):
        return 0
    ends = np.frombuffer(offsets, np.int32, count=data.offset + len(data) + 1)
    return int(ends[-1]) - int(ends[data.offset])


def lengths(data: pa.BinaryArray) -> np.ndarray:
    """The bytes of each value, in the type of Arrow's offsets."""
    offsets = data.buffers()[1]
    if offsets is None or not len(data):
        return np.zeros(0, np.int32)
    ends = np.frombuffer(offsets, np.int32, count=data.offset + len(data) + 1)
    return ends[data.offset + 1 :] - ends[data.offset : -1]


def ipc_stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream


def read_ipc(blob: bytes) -> pa.RecordBatch:
    return pa.ipc.open_stream(blob).read_next_batch()


def encode_item(output: Output, item: Item) -> bytes:
    """The blob of what a cursor gave."""
    if isinstance(item, bytes):
        return item
    if isinstance(item, list):
        return msgspec.msgpack.encode([_placed(entry) for entry in item])
    if output is Output.SCALAR:
        return msgspec.msgpack.encode(_values(item, 0))
    columns = [_values(item, index) for index in range(item.num_columns)]
    rows = list(zip(*columns, strict=True)) if columns else [()] * item.num_rows
    return msgspec.msgpack.encode({"columns": item.schema.names, "rows": rows})


def _values(batch: pa.RecordBatch, index: int) -> list[Any]:
    """A column's values; of a field that no schema describes, what its JSON text says."""
    values: list[Any] = batch.column(index).to_pylist()
    if (batch.schema.field(index).metadata or {}) != JSON_TEXT:
        return values
    return [None if value is None else msgspec.json.decode(value) for value in values]


def _placed(entry: Placed) -> list[Any]:
    offset, chunk = entry
    times = chunk.ts_ms if isinstance(chunk.ts_ms, int) else np.asarray(chunk.ts_ms).tolist()
    if chunk.framing is not None:
        return [offset, chunk.count, times, list(chunk.framing.key), bytes(chunk.payload)]
    # Without a framing the lengths say where records end.
    return [offset, chunk.count, times, value_lengths(chunk.payload).tolist(), bytes(packed(chunk.payload))]


def decode_item(output: Output, blob: bytes) -> Any:
    """What a blob holds: a list of row maps, a batch, a list of values, or a list of chunks."""
    match output:
        case Output.COLUMNAR:
            return read_ipc(blob)
        case Output.ROWS:
            found = msgspec.msgpack.decode(blob)
            return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
        case _:
            return msgspec.msgpack.decode(blob)
