"""The segments of a log in order: lookup by offset, bytes and time, and reads. Readers take no lock."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque

from gauss.contracts.cursor import Placed
from gauss.model.errors import Collected, Damaged
from gauss.plugins.storages.file.rolled_segment import RolledSegment
from gauss.plugins.storages.file.segment import Segment

ROLLS_MET = 10
"""How often a read is retried because a segment was rolled during the read."""
MAPPED_SEGMENTS = 16


class Segments:
    """The segments as a tuple `all`, which the writer replaces; readers continue with the tuple they have taken."""

    def __init__(self, found: list[Segment | RolledSegment]) -> None:
        self.all = tuple(found)
        self.mapped: deque[Segment | RolledSegment] = deque()
        """The memory-mapped segments, the longest mapped first."""

    @property
    def active(self) -> Segment:
        """The segment being written."""
        active = self.all[-1]
        assert isinstance(active, Segment)
        return active

    @property
    def floor(self) -> int:
        return self.all[0].base

    def last_ts(self) -> int:
        """The newest time, ignoring damaged entries."""
        return max((each.last_ts for each in self.all[-2:] if each is self.all[-1] or each.ends_soundly()), default=0)

    def bytes_from(self, offset: int) -> int:
        segments = self.all
        total = segments[-1].before + segments[-1].size
        segment = segments[max(bisect_right(segments, offset, key=_base) - 1, 0)]
        return total - segment.before - segment.bytes_before(offset)

    def offset_within(self, limit: int) -> int:
        """The first offset within `limit` bytes of the end, by whole segments, since those are removed as a whole."""
        segments = self.all
        total = segments[-1].before + segments[-1].size
        number = bisect_left(segments, total - limit, key=_before)
        return segments[min(number, len(segments) - 1)].base

    def offset_at(self, ts_ms: int) -> int | None:
        """Offset of the first record with `ts_ms >=` the given time, including staged ones; None if there is none."""
        # An empty last segment (after a gap) has no time of its own.
        for _ in range(ROLLS_MET):
            filled = [segment for segment in self.all if segment.blocks]
            number = bisect_left(filled, ts_ms, key=_last_ts)
            while number and not filled[number - 1].ends_soundly():
                number -= 1  # its newest time may be wrong
            if number == len(filled):
                return None
            try:
                return filled[number].offset_at(ts_ms)
            except (FileNotFoundError, Damaged):
                if filled[number] in self.all:
                    raise
        raise Collected(f"segments went while time {ts_ms} was looked for")

    def read(self, start: int, stop: int, max_bytes: int) -> list[Placed]:
        """Reads the records of [start, stop), up to about `max_bytes`."""
        for _ in range(ROLLS_MET):
            try:
                return self._read(start, stop, max_bytes)
            except Collected:
                if start < self.floor:
                    raise
                # A segment was rolled during the read: the log files are removed, but the records still exist.
        return self._read(start, stop, max_bytes)

    def _read(self, start: int, stop: int, max_bytes: int) -> list[Placed]:
        segments = self.all
        number = bisect_right(segments, start, key=_base) - 1
        if number < 0:
            raise Collected(f"offset {start} was collected while it was read")
        placed: list[Placed] = []
        while number < len(segments) and start < stop and max_bytes > 0:
            segment = segments[number]
            number += 1
            if segment.end <= start or segment.base >= stop:
                continue
            try:
                found = self._read_one(segment, max(start, segment.base), stop, max_bytes)
            except Damaged:
                if placed:
                    break
                raise
            placed += found
            if found:
                start = found[-1].offset + found[-1].chunk.count
                max_bytes -= sum(entry.chunk.nbytes for entry in found)
                if start < min(segment.end, stop):
                    break  # the budget ended in this segment, though a block that is cut left some of it
        return placed

    def _read_one(self, segment: Segment | RolledSegment, start: int, stop: int, max_bytes: int) -> list[Placed]:
        try:
            fresh = not segment.is_mapped
            placed = segment.read(start, stop, max_bytes)
        except (FileNotFoundError, Damaged):
            if segment in self.all:
                raise
            # Its files were removed during the read, which is no damage.
            raise Collected(f"offset {start} was collected while it was read") from None
        if fresh:
            self.mapped.append(segment)
            if len(self.mapped) > MAPPED_SEGMENTS:
                self.mapped.popleft().unmap()
        return placed


def _base(segment: Segment | RolledSegment) -> int:
    return segment.base


def _before(segment: Segment | RolledSegment) -> int:
    return segment.before


def _last_ts(segment: Segment | RolledSegment) -> int:
    return segment.last_ts
