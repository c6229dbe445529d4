"""Batches as Arrow IPC streams, which is how Wasm modules, tasks and dead letters have them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from gauss.contracts.connector.errors import ConnectorError


def read_batch(data: bytes) -> pa.RecordBatch:
    """The one batch of an Arrow IPC stream; raises ConnectorError."""
    try:
        with pa.ipc.open_stream(data) as reader:
            batch = reader.read_next_batch()
            batch.validate(full=True)
            if _has_more(reader):
                raise ConnectorError.data("BAD_BATCH", "an IPC stream of one batch is expected, found several")
            return batch
    except StopIteration:
        raise ConnectorError.config("EMPTY_BATCH", "a batch has at least one row, found none") from None
    except (pa.ArrowInvalid, pa.ArrowException, OSError, EOFError) as error:
        raise ConnectorError.data("BAD_BATCH", f"the batch is not an Arrow IPC stream: {error}") from error


def write_batch(batch: pa.RecordBatch, compression: str | None = None) -> bytes:
    """A batch as an Arrow IPC stream. `compression`: `lz4` or `zstd`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _has_more(reader: Any) -> bool:
    try:
        reader.read_next_batch()
    except StopIteration:
        return False
    return True
