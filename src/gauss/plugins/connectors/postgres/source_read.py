"""Emits the rows of one stream in batches, with checkpoints."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gauss.contracts.connector.cursor import CursorValue
from gauss.contracts.connector.emitter import Emitter
from gauss.contracts.connector.host import Host
from gauss.plugins.connectors.postgres.catalog import Relation
from gauss.plugins.connectors.postgres.source_chunk import Chunk
from gauss.plugins.connectors.postgres.source_position import CursorOrder, Position
from gauss.plugins.processors.pg_source.copy_stream import BLOCK_BYTES, BLOCK_ROWS, CopyRows

CHUNK_BYTES = 4 << 20
"""Maximum size of what is decoded at once: what is in flight is a multiple of it."""


class Stop(threading.Event):
    """Set by `interrupt`, and seen as set when the run is cancelled."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host = host

    def is_set(self) -> bool:
        return super().is_set() or self._host.cancelled()


@dataclass
class StreamReader:
    """Reads one stream to its end."""

    emitter: Emitter
    relation: Relation
    order: CursorOrder | None = None
    """None: a full refresh."""
    position: Position | None = None
    """Behind what was emitted; None before the first row of the first run."""

    def __post_init__(self) -> None:
        names = [column.name for column in self.relation.columns]
        self._places = [names.index(column.name) for column in self.order.columns] if self.order else []
        # The last row without a key that was emitted: more with its cursor may follow.
        self._last: dict[str, pa.Scalar] | None = None
        self._size = ChunkSize.of(self.emitter)

    def read(self, blocks: Iterator[CopyRows], *, nulls: bool = False) -> None:
        """Emits all rows of a COPY. `nulls`: those whose cursor is null."""
        for rows in chunks(blocks, self._size, self.emitter.fetched):
            self._read_chunk(rows, nulls=nulls)
            del rows  # its memory is free while the next chunk is fetched

    def _read_chunk(self, rows: CopyRows, *, nulls: bool) -> None:
        began = time.monotonic()
        chunk = Chunk(rows, self.relation.columns, self._places, self.emitter.host.opaque)
        self.emitter.decode_s += time.monotonic() - began
        if self.order is not None and not self.order.ties and not nulls:
            self._emit_between_values(self.order, chunk)
            return
        self._emit(chunk, 0, len(chunk))
        if self.order is not None and self.order.ties and (last := chunk.last_placed()) >= 0:
            self.position = self.order.at(chunk.row(last))
        # Without a key there is no position among rows whose cursor is null.
        if self.emitter.due() and (self.order is None or self.order.ties):
            self.checkpoint()

    def _emit_between_values(self, order: CursorOrder, chunk: Chunk) -> None:
        """Emits rows that have no key: a checkpoint lies between two values of the cursor."""
        name, (first, last) = order.column.name, chunk.placed()
        if first > last:
            self._emit(chunk, 0, len(chunk))
            return
        values = chunk.position[name]
        if self.emitter.due() and self._last is not None and not order.same_cursor(self._last[name], values[first]):
            self.position = order.at(self._last)
            self.checkpoint()
        low, high = first, last  # in search of the first row with the last value
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if order.same_cursor(values[middle], values[last]) else (middle + 1, high)
        done = 0
        if low > first:
            self._emit(chunk, 0, low)
            done, self.position = low, order.at(chunk.row(low - 1))
            if self.emitter.due():
                self.checkpoint()
        self._emit(chunk, done, len(chunk))
        self._last = chunk.row(last)

    def end_of_nulls(self) -> None:
        """All rows whose cursor is null are emitted."""
        if self.position is not None or self.emitter.records:
            self.position = Position()
            if self.emitter.due():
                self.checkpoint()

    def finish(self) -> None:
        """The last checkpoint of the stream."""
        if self.order is not None and self._last is not None:
            self.position = self.order.at(self._last)
        self.checkpoint()

    def _emit(self, chunk: Chunk, start: int, stop: int) -> None:
        size = int(chunk.rows.offsets[stop] - chunk.rows.offsets[start])
        self.emitter.emit(chunk.batches(start, stop, self.emitter.stream.limits, self.emitter.host), size)

    def checkpoint(self) -> None:
        self.emitter.checkpoint(self._cursor(), self.order.column.name if self.order is not None else None)

    def _cursor(self) -> CursorValue | None:
        return None if self.order is None or self.position is None else self.order.stored(self.position)


class ChunkSize(NamedTuple):
    """What is decoded and emitted at once, at most."""

    rows: int
    size: int

    @staticmethod
    def of(emitter: Emitter) -> ChunkSize:
        most, bound = emitter.stream.limits.max_batch_bytes, emitter.thresholds
        return ChunkSize(bound.batch_rows, min(most, CHUNK_BYTES, bound.batch_bytes))


def chunks(blocks: Iterator[CopyRows], most: ChunkSize, fetched: Callable[[float], None]) -> Iterator[CopyRows]:
    """Blocks put together up to a size; at once if the server has no more rows for now."""
    held, rows, size = list[CopyRows](), 0, 0
    while True:
        began = time.monotonic()
        block = next(blocks, None)
        fetched(time.monotonic() - began)
        if block is not None:
            # Many blocks are joined at once: each join copies all rows.
            held.append(block)
            rows, size = rows + len(block), size + len(block.body)
        idle = block is not None and len(block) < BLOCK_ROWS and len(block.body) < BLOCK_BYTES
        if held and (block is None or idle or size + BLOCK_BYTES > most.size or rows + BLOCK_ROWS > most.rows):
            yield from _parts(_joined(held), most)
            rows, size = 0, 0
        if block is None:
            return


def _parts(rows: CopyRows, most: ChunkSize) -> Iterator[CopyRows]:
    """Rows of a block that is larger than a chunk may be, in chunks."""
    start = 0
    while start < len(rows):
        bound = rows.offsets[start] + most.size
        stop = int(np.searchsorted(rows.offsets[start : start + most.rows + 1], bound, side="right")) - 1 + start
        stop = max(stop, start + 1)
        yield rows if stop - start == len(rows) else rows.part(start, stop)
        start = stop


def _joined(blocks: list[CopyRows]) -> CopyRows:
    """Blocks as one. The list is emptied: the blocks' memory is free while their rows wait for the destination."""
    if len(blocks) == 1:
        return blocks.pop()
    starts = np.cumsum([0, *(len(block.body) for block in blocks)])
    offsets = [block.offsets[:-1] + start for block, start in zip(blocks, starts[:-1], strict=True)]
    joined = CopyRows(np.concatenate([block.body for block in blocks]), np.concatenate([*offsets, starts[-1:]]))
    blocks.clear()
    return joined
