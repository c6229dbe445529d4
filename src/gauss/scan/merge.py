"""Merges small neighbouring chunks, so that readers stay fast if the writer appends single records."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Placed
from gauss.model.batch import RECORD_SCHEMA, value_lengths


def same_kind(first: Chunk, second: Chunk) -> bool:
    """Whether the payloads can be concatenated."""
    if first.framing is None or second.framing is None:
        return first.framing is second.framing
    return second.is_framed_as(first.framing)


def joined(chunks: list[Chunk]) -> Chunk:
    """Consecutive chunks of the same kind merged into one."""
    first = chunks[0]
    if len(chunks) == 1:
        return first
    count = sum(chunk.count for chunk in chunks)
    if first.framing is None:
        return Chunk(pa.concat_arrays([chunk.payload for chunk in chunks]), count, joined_times(chunks))
    return Chunk(b"".join(chunk.payload for chunk in chunks), count, joined_times(chunks), first.framing)


def joined_times(chunks: list[Chunk]) -> int | np.ndarray:
    """One arrival time if it is the same for all records, else one per record."""
    first = chunks[0].ts_ms
    if isinstance(first, int) and all(isinstance(chunk.ts_ms, int) and chunk.ts_ms == first for chunk in chunks):
        return first
    return np.concatenate(
        [
            np.full(chunk.count, chunk.ts_ms, dtype=np.int64) if isinstance(chunk.ts_ms, int) else chunk.ts_ms
            for chunk in chunks
        ]
    )


def rows(placed: list[Placed]) -> pa.RecordBatch:
    """Chunks as one batch (offset, ts_ms, data), in order."""
    batches = [entry.chunk.batch(entry.offset) for entry in placed]
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays([batch.column(index) for batch in batches]) for index in range(len(RECORD_SCHEMA))]
    return pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)


def record_ends(chunk: Chunk) -> np.ndarray:
    """Cumulative size in bytes after each record of the chunk."""
    if chunk.framing is not None:
        return chunk.frame_ends()
    # nbytes includes Arrow's offsets: split them evenly among the records.
    ends = np.cumsum(value_lengths(chunk.payload))
    extra = chunk.nbytes - int(ends[-1])
    return ends + np.arange(1, chunk.count + 1) * extra // chunk.count


def fitting(chunk: Chunk, limit: int) -> int:
    """How many leading records of the chunk fit into `limit` bytes."""
    if chunk.nbytes <= limit:
        return chunk.count
    return int(np.searchsorted(record_ends(chunk), limit, side="right"))


def coalesced(placed: list[Placed], small: int = 16 << 10, large: int = 256 << 10) -> list[Placed]:
    """Merges runs of small chunks into chunks of at most `large` bytes. Other chunks stay unchanged."""
    if len(placed) < 2:
        return placed
    result: list[Placed] = []
    run: list[Placed] = []
    size = 0

    def flush() -> None:
        nonlocal size
        if run:
            result.append(Placed(run[0].offset, joined([entry.chunk for entry in run])))
            run.clear()
            size = 0

    for entry in placed:
        chunk = entry.chunk
        if run and (
            size + chunk.nbytes > large
            or chunk.nbytes > small
            or run[-1].offset + run[-1].chunk.count != entry.offset
            or not same_kind(run[-1].chunk, chunk)
        ):
            flush()
        if chunk.nbytes > small:
            result.append(entry)
        else:
            run.append(entry)
            size += chunk.nbytes
    flush()
    return result
