"""A ring: the newest records as chunks in memory. One writer at a time; readers take no lock."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

import numpy as np

from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Placed
from gauss.contracts.framing import Framing
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.storage import StorageContext
from gauss.model.errors import Collected
from gauss.scan.merge import coalesced, record_ends

SMALL = 4 << 10
SMALL_RUN = 64
JOINED = 16 << 10
"""SMALL_RUN consecutive chunks below SMALL are joined into chunks up to JOINED, because a ring of single records
would consist mostly of object overhead. Fewer are not joined, so that readers that keep up get each chunk unchanged."""


class _Blocks:
    """Parallel lists with one entry per chunk. The writer appends at the end and clears slots at the front; a reader
    may continue to use this object after the writer has switched to a compacted copy."""

    __slots__ = ("chunks", "ends", "head", "last_ts", "starts", "sums")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.chunks: list[Chunk | None] = []  # None: trimmed
        self.last_ts: list[int] = []
        self.sums: list[int] = []  # bytes appended before this chunk, since the log began
        self.head = 0

    def compacted(self) -> _Blocks:
        """A copy without the trimmed slots."""
        fresh = _Blocks()
        for column, copy in zip(self._columns(), fresh._columns(), strict=True):
            copy.extend(column[self.head :])
        return fresh

    def joined_from(self, first: int) -> _Blocks:
        """A copy in which small neighbours from block `first` on are joined."""
        fresh = _Blocks()
        for column, copy in zip(self._columns(), fresh._columns(), strict=True):
            copy.extend(column[:first])
        fresh.head = self.head
        pairs = zip(self.starts[first:], self.chunks[first:], strict=True)
        tail = [Placed(start, chunk) for start, chunk in pairs if chunk is not None]
        for offset, chunk in coalesced(tail, small=SMALL, large=JOINED):
            fresh.starts.append(offset)
            fresh.ends.append(offset + chunk.count)
            fresh.chunks.append(chunk)
            fresh.last_ts.append(chunk.last_ts())
            # The sizes as counted before: joined Arrow buffers are a little smaller than their parts.
            fresh.sums.append(self.sums[bisect_left(self.starts, offset)])
        return fresh

    def _columns(self) -> tuple[list[Any], ...]:
        return self.starts, self.ends, self.chunks, self.last_ts, self.sums

    def cut(self, length: int) -> None:
        for column in self._columns():
            del column[length:]


class Ring:
    """A `Log` in memory. Chunks keep their framing."""

    framing: Framing | None = None
    times_vary = False

    def __init__(self, _config: PluginConfig | None, context: StorageContext | None, start: int = 0) -> None:
        self.inc = context.incarnation(0) if context else 0
        self._blocks = _Blocks()
        self._floor = self._end = self._appended = start
        self._shown = 0  # number of visible blocks
        self._total = 0
        self._small_run = 0  # how many of the newest chunks are small and not joined
        self._total_shown = 0
        self._last_ts = 0
        self._last_ts_shown = 0

    @property
    def floor(self) -> int:
        return self._floor

    @property
    def end(self) -> int:
        return self._end

    def append(self, chunk: Chunk, publish: int = 0) -> None:  # noqa: ARG002 - a crash leaves nothing to cut
        if chunk.count == 0:
            return
        blocks = self._blocks
        blocks.ends.append(self._appended + chunk.count)
        blocks.last_ts.append(chunk.last_ts())
        blocks.sums.append(self._total)
        blocks.chunks.append(chunk)
        blocks.starts.append(self._appended)
        self._appended += chunk.count
        self._total += chunk.nbytes
        self._last_ts = blocks.last_ts[-1]

    def reveal(self) -> None:
        self._join_small()
        self._shown = len(self._blocks.starts)
        self._total_shown, self._last_ts_shown = self._total, self._last_ts
        self._end = self._appended  # last: readers read nothing beyond it

    def _join_small(self) -> None:
        """Joins the newest chunks when many of them are small. Readers continue with the blocks that they have."""
        blocks = self._blocks
        newest = blocks.chunks[-1] if blocks.chunks else None
        added = len(blocks.starts) - self._shown
        self._small_run = self._small_run + added if newest is not None and newest.nbytes <= SMALL else 0
        if self._small_run < SMALL_RUN:
            return
        first = max(len(blocks.starts) - self._small_run, blocks.head)
        self._small_run = 0
        self._blocks = blocks.joined_from(first)

    def rollback(self) -> None:
        self._blocks.cut(self._shown)
        self._appended, self._total, self._last_ts = self._end, self._total_shown, self._last_ts_shown

    def chunks(self, start: int, stop: int, max_bytes: int) -> list[Placed]:
        stop = min(stop, self._end)
        blocks = self._blocks
        if start < self._floor:
            raise Collected(f"offset {start} is behind the oldest retained record {self._floor}")
        if start >= stop:
            return []
        first = bisect_right(blocks.ends, start)
        limit = bisect_left(blocks.starts, stop)
        # Up to `max_bytes`, but at least one chunk.
        if limit > first:
            limit = min(limit, max(first + 1, bisect_right(blocks.sums, blocks.sums[first] + max_bytes)))
        taken = blocks.chunks[first:limit]
        placed = []
        for offset, chunk in zip(blocks.starts[first:limit], taken, strict=False):
            if chunk is None:
                raise Collected(f"offset {start} was collected while it was read")
            begin, end = max(start, offset), min(stop, offset + chunk.count)
            if begin < end:
                placed.append(Placed(begin, chunk.slice(begin - offset, end - begin)))
        if start < self._floor and (not placed or placed[0].offset > start):
            raise Collected(f"offset {start} was collected while it was read")
        return coalesced(placed)

    def offset_at(self, ts_ms: int) -> int:
        end, blocks = self._end, self._blocks
        index = bisect_left(blocks.last_ts, ts_ms, blocks.head)
        # Slices, because a rollback may remove invisible blocks concurrently.
        for start, chunk in zip(blocks.starts[index : index + 1], blocks.chunks[index : index + 1], strict=False):
            if chunk is None:
                return self._floor
            inside = 0 if isinstance(chunk.ts_ms, int) else int(np.searchsorted(chunk.ts_ms, ts_ms))
            return min(max(start + inside, self._floor), end)
        return end

    def bytes_from(self, offset: int) -> int:
        blocks = self._blocks
        index = max(bisect_right(blocks.ends, offset), blocks.head)
        one = slice(index, index + 1)
        for start, chunk, before in zip(blocks.starts[one], blocks.chunks[one], blocks.sums[one], strict=False):
            held, passed = self._total - before, offset - start
            if chunk is not None and passed > 0 and chunk.nbytes <= JOINED:
                held -= int(record_ends(chunk)[passed - 1])  # joined chunks count record by record
            return held
        return 0

    def offset_within(self, limit: int) -> int:
        blocks = self._blocks
        surplus = self._total - limit
        index = bisect_left(blocks.sums, surplus, blocks.head)
        newest = index == len(blocks.starts)
        chunk = blocks.chunks[index - 1] if index > blocks.head else None
        if chunk is not None and (newest or chunk.nbytes <= JOINED):
            # Small chunks count record by record; of the newest one, at least one record stays.
            passed = int(np.searchsorted(record_ends(chunk), surplus - blocks.sums[index - 1])) + 1
            return blocks.starts[index - 1] + min(passed, chunk.count - 1 if newest else chunk.count)
        return self._appended if newest else blocks.starts[index]

    def trim(self, floor: int) -> None:
        floor = min(floor, self._end)
        if floor <= self._floor:
            return
        self._floor = floor
        blocks = self._blocks
        while blocks.head < self._shown and blocks.ends[blocks.head] <= floor:
            blocks.chunks[blocks.head] = None
            blocks.head += 1
        if blocks.head > 64 and blocks.head * 2 > len(blocks.starts):
            self._shown -= blocks.head
            self._blocks = blocks.compacted()

    def skip_to(self, offset: int) -> None:
        if offset > self._appended:
            self._appended = self._end = offset

    def last_ts(self) -> int:
        return self._last_ts_shown

    def maintain(self, passed: int, now_ms: int | None = None) -> None:
        """Does nothing: a ring has no age retention."""

    def close(self) -> None:
        self._blocks = _Blocks()
