"""The order of the records of several partitions: that in which the engine saw the partitions grow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

_BLOCK = 4096
"""Steps looked at together."""


class Piece(NamedTuple):
    """Consecutive records of one partition, and the offset of the first in the log."""

    partition: int
    start: int
    stop: int
    offset: int


class _Steps(NamedTuple):
    """Row k of `ends` has the ends of all partitions after step k, `sums` their sum. Row 0 is where the index begins.
    Rows beyond `rows` are free; a row below never changes, so that readers need no lock."""

    ends: np.ndarray
    sums: np.ndarray
    rows: int

    def row_of(self, offset: int) -> int:
        """The step that has an offset; `rows` if none has it yet."""
        return int(np.searchsorted(self.sums[: self.rows], offset, side="right"))


class OrderIndex:
    """Steps in which the partitions grew. Within a step records are ordered by partition.

    An offset is the sum of the partitions' ends before it. A partition that is added later begins at 0 and changes no
    earlier offset.
    """

    def __init__(self, base: Mapping[int, int] | None = None) -> None:
        width = max(base or {0: 0}) + 1
        ends = np.zeros((16, width), np.int64)
        for partition, end in (base or {}).items():
            ends[0, partition] = end
        sums = np.zeros(16, np.int64)
        sums[0] = ends[0].sum()
        self._steps = _Steps(ends, sums, 1)

    @property
    def end(self) -> int:
        steps = self._steps
        return int(steps.sums[steps.rows - 1])

    @property
    def begin(self) -> int:
        """The oldest offset whose place is known."""
        return int(self._steps.sums[0])

    @property
    def nbytes(self) -> int:
        """Memory of the steps."""
        steps = self._steps
        return 8 * steps.rows * (len(steps.ends[0]) + 1)

    def ends(self) -> list[int]:
        """The ends of the partitions at the end of the log."""
        steps = self._steps
        return [int(end) for end in steps.ends[steps.rows - 1]]

    def base(self) -> dict[int, int]:
        """The ends of the partitions where the index begins."""
        return {number: int(end) for number, end in enumerate(self._steps.ends[0]) if end}

    def changes(self) -> Iterator[dict[int, int]]:
        """For each step the partitions that grew, and their new ends."""
        steps = self._steps
        for row in range(1, steps.rows):
            grown = np.flatnonzero(steps.ends[row] != steps.ends[row - 1])
            yield {int(number): int(steps.ends[row, number]) for number in grown}

    def growth(self, ends: Mapping[int, int]) -> dict[int, int]:
        """The partitions among the given ones that have grown. Ends never go back."""
        known = self.ends()
        return {
            number: end for number, end in sorted(ends.items()) if end > (known[number] if number < len(known) else 0)
        }

    def grow(self, grown: Mapping[int, int]) -> None:
        """Adds a step, or extends the last one if that changes no offset: what grew then was no later partition."""
        if not grown:
            return
        steps = self._with_room(max(grown) + 1)
        last = steps.ends[steps.rows - 1]
        row = last.copy()
        for number, end in grown.items():
            row[number] = end
        # Readers of the last row see the same records up to the end that they know: what is added comes after them.
        extends = steps.rows > 1 and not (last != steps.ends[steps.rows - 2])[min(grown) + 1 :].any()
        place = steps.rows - 1 if extends else steps.rows
        steps.ends[place] = row
        steps.sums[place] = row.sum()
        self._steps = _Steps(steps.ends, steps.sums, place + 1)

    def _with_room(self, width: int) -> _Steps:
        """The steps with room for one more, and for so many partitions."""
        steps = self._steps
        room, known = steps.ends.shape
        if steps.rows < room and width <= known:
            return steps
        room = 2 * room if steps.rows == room else room
        ends, sums = np.zeros((room, max(width, known)), np.int64), np.zeros(room, np.int64)
        ends[: steps.rows, :known] = steps.ends[: steps.rows]
        sums[: steps.rows] = steps.sums[: steps.rows]
        return _Steps(ends, sums, steps.rows)

    def forget(self, floor: int) -> None:
        """Drops the steps that lie below an offset."""
        steps = self._steps
        first = steps.row_of(floor) - 1
        if first > 0:
            kept = slice(first, steps.rows)
            self._steps = _Steps(steps.ends[kept].copy(), steps.sums[kept].copy(), steps.rows - first)

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        """Where the records [start, stop) are, in order."""
        steps = self._steps
        row = max(steps.row_of(start), 1)
        while start < stop and row < steps.rows:
            before, after, offset = steps.ends[row - 1], steps.ends[row], int(steps.sums[row - 1])
            for number in np.flatnonzero(after > before):
                first, length = int(before[number]), int(after[number] - before[number])
                if offset + length > start and start < stop:
                    begin, end = start - offset, min(length, stop - offset)
                    yield Piece(int(number), first + begin, first + end, start)
                    start = offset + end
                offset += length
            row += 1

    def ends_at(self, offset: int) -> dict[int, int]:
        """By partition: the end of the records before an offset of the log."""
        steps = self._steps
        row = min(steps.row_of(offset), steps.rows - 1)
        before, after = steps.ends[max(row - 1, 0)], steps.ends[row]
        grown = after - before
        left = offset - int(steps.sums[max(row - 1, 0)]) - (np.cumsum(grown) - grown)
        return dict(enumerate((before + np.clip(left, 0, grown)).tolist()))

    def offset_of(self, partition: int, offset: int) -> int:
        """The offset in the log of a partition's record; the end if it is not in the log yet."""
        return int(self.offsets_of(partition, np.array([offset]))[0])

    def offsets_of(self, partition: int, offsets: np.ndarray) -> np.ndarray:
        """The same of several records."""
        steps = self._steps
        ends, last = steps.ends[: steps.rows], steps.rows - 1
        if partition >= ends.shape[1]:
            return np.full(len(offsets), steps.sums[last])
        rows = np.searchsorted(ends[:, partition], offsets, side="right")
        before, after = np.maximum(rows - 1, 0), np.minimum(rows, last)
        earlier = ends[:, :partition].sum(axis=1)
        found: np.ndarray = steps.sums[before] + earlier[after] - earlier[before] + offsets - ends[before, partition]
        found[rows == 0], found[rows > last] = steps.sums[0], steps.sums[last]
        return found

    def floor(self, earliest: Mapping[int, int], since: int) -> int:
        """The first offset from `since` on that has not been deleted, given the oldest offset of each partition."""
        steps = self._steps
        limits = np.zeros(steps.ends.shape[1], np.int64)
        for number, offset in earliest.items():
            if number < len(limits):
                limits[number] = offset
        row = max(steps.row_of(since), 1)
        while row < steps.rows:
            block = steps.ends[row - 1 : min(row + _BLOCK, steps.rows)]
            left = (block[1:] > np.maximum(block[:-1], limits)).any(axis=1)
            if left.any():
                row += int(left.argmax())
                break
            row += len(block) - 1
        for piece in self.pieces(max(since, int(steps.sums[row - 1])), int(steps.sums[steps.rows - 1])):
            if piece.stop > limits[piece.partition]:
                return piece.offset + max(0, int(limits[piece.partition]) - piece.start)
        return int(steps.sums[steps.rows - 1])
