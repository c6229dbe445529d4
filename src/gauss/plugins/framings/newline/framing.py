"""Records that end with a delimiter, found left to right; occurrences never overlap."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.chunk import LARGE_RECORD
from gauss.contracts.framing import Buffer
from gauss.model.batch import packed, value_lengths
from gauss.plugins.framings.affixes import with_tail
from gauss.plugins.framings.buffered_splitter import BufferedSplitter, Cut, head, too_long
from gauss.plugins.framings.newline.spec import NewlineConfig

SCANNED_BYTES = 4
"""Bytes of a delimiter that are compared over the whole buffer; the rest only where these match."""
BLOCK = 128 << 10
"""Bytes that are compared at a time: what the comparison makes of them stays in the cache."""
FEW = 16
"""Records before their mean size decides how delimiters are searched: one after the other (large records), or by
comparing every byte."""


class NewlineFraming:
    raw = True
    carries_all = False

    def __init__(self, config: NewlineConfig) -> None:
        self.delimiter = config.delimiter.encode(config.encoding)
        self.unit = 1 if config.encoding == "utf-8" else 2
        """Bytes of a code unit: a delimiter begins only at a multiple of them from a record's first byte."""
        self.key: tuple[object, ...] = ("newline", self.delimiter, self.unit)
        size = len(self.delimiter)
        # `||` can overlap itself: after `a` in `a|||` the delimiter stands at 1, not at 2.
        steps = range(self.unit, size, self.unit)
        self.periods = [step for step in steps if self.delimiter[step:] == self.delimiter[: size - step]]

    def splitter(self, max_record_bytes: int) -> NewlineSplitter:
        return NewlineSplitter(self, max_record_bytes)

    def joiner(self) -> NewlineJoiner:
        return NewlineJoiner(self.delimiter)

    def bounds(self, buffer: Buffer) -> tuple[np.ndarray, np.ndarray]:
        return self.between(self.positions(buffer))

    def between(self, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the records, given where each delimiter begins."""
        starts = np.zeros_like(ends)
        starts[1:] = ends[:-1] + len(self.delimiter)
        return starts, ends

    def positions(self, buffer: Buffer) -> np.ndarray:
        """Where each delimiter begins."""
        size = len(self.delimiter)
        source = np.frombuffer(buffer, dtype=np.uint8)
        blocks = [np.flatnonzero(hits) + at for at, hits in self.matches(source)]
        found = np.concatenate(blocks) if len(blocks) > 1 else blocks[0]
        for place in range(SCANNED_BYTES, size):
            found = found[source[found + place] == self.delimiter[place]]
        if self.unit > 1:
            found = found[found % self.unit == 0]
        if self.periods and len(found) > 1 and int(np.diff(found).min()) < size:
            if self.unit > 1:
                return _apart(found, size)
            lengths = np.fromiter(map(len, bytes(buffer).split(self.delimiter)), np.int64)[:-1]
            found = np.cumsum(lengths + size) - size
        return found

    def matches(self, source: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """A bool for each place where a delimiter can begin: whether its first bytes stand there; block by block, each
        with the place of its first."""
        last = max(0, len(source) - len(self.delimiter) + 1)
        for at in range(0, max(last, 1), BLOCK):
            stop = min(at + BLOCK, last)
            hits: np.ndarray = source[at:stop] == self.delimiter[0]
            for place in range(1, min(len(self.delimiter), SCANNED_BYTES)):
                hits &= source[at + place : stop + place] == self.delimiter[place]
            yield at, hits

    def unfit(self, data: pa.BinaryArray) -> np.ndarray | None:
        if len(self.delimiter) == 1:
            content = np.frombuffer(packed(data), np.uint8)
            if not any(hits.any() for _, hits in self.matches(content)):
                return None
        inside = pc.match_substring(data, self.delimiter)
        for period in self.periods:  # such an end, with the delimiter behind it, holds the delimiter earlier
            inside = pc.or_(inside, pc.ends_with(data, self.delimiter[:period]))
        bad: np.ndarray = inside.to_numpy(zero_copy_only=False).astype(bool)
        if self.unit > 1:
            for index in np.flatnonzero(bad):  # what looks like a delimiter may be halves of two characters
                record = data[int(index)].as_py()
                bad[index] = self.positions(record + self.delimiter).tolist() != [len(record)]
            bad |= value_lengths(data) % self.unit != 0
        return bad if bad.any() else None


class NewlineSplitter(BufferedSplitter):
    def __init__(self, framing: NewlineFraming, max_record_bytes: int) -> None:
        super().__init__(max_record_bytes)
        self._framing = framing
        self._delimiter = framing.delimiter

    def _may_cut(self, fresh: int) -> bool:
        held, size = len(self._held), len(self._delimiter)
        # What was held has no delimiter in it: a long record is not searched again with every piece of it.
        if held > self._limit + size - 1:
            return True
        start = max(0, held - fresh - size + 1)
        if self._framing.unit == 1:
            return self._held.find(self._delimiter, start) >= 0
        start -= start % self._framing.unit  # what looks like a delimiter between two characters is none
        return bool(len(self._framing.positions(memoryview(self._held)[start:])))

    def _cut(self, buffer: bytes | bytearray) -> Cut:
        size = len(self._delimiter)
        bounds = None
        if self._framing.periods or self._framing.unit > 1:
            positions = self._framing.positions(buffer)
            count, used = len(positions), int(positions[-1]) + size if len(positions) else 0
        elif (sparse := self._sparse(buffer)) is not None:
            count, used = len(sparse), sparse[-1] + size if sparse else 0
            if used >= LARGE_RECORD * count:
                bounds = self._framing.between(np.array(sparse, np.int64))
        else:
            used = buffer.rfind(self._delimiter) + size
            count = self._count(buffer, used)
        if used > self._limit:  # only then can one of the whole records be too long
            starts, ends = bounds or self._framing.bounds(memoryview(buffer)[:used])
            long = np.flatnonzero(ends - starts > self._limit)
            if len(long):
                first = int(long[0])
                start = int(starts[first])
                error = too_long(int(ends[first]) - start, self._limit, buffer, start)
                return Cut(head(buffer, start), first, start, error=error)
        rest = len(buffer) - used
        if rest > self._limit + size - 1:
            error = too_long(rest - size + 1, self._limit, buffer, used)
            return Cut(head(buffer, used), count, used, error=error)
        return Cut(head(buffer, used), count, used, bounds=bounds)

    def _sparse(self, buffer: bytes | bytearray) -> list[int] | None:
        """Where each delimiter begins; None if there are many, which `matches` counts faster."""
        found: list[int] = []
        at = buffer.find(self._delimiter)
        while at >= 0:
            found.append(at)
            if at < LARGE_RECORD * (len(found) - FEW):
                return None
            at = buffer.find(self._delimiter, at + len(self._delimiter))
        return found

    def _count(self, buffer: bytes | bytearray, used: int) -> int:
        if len(self._delimiter) <= SCANNED_BYTES and used > 1024:  # numpy starts slower, then is four times as fast
            source = np.frombuffer(buffer, np.uint8, used)
            return int(sum(np.count_nonzero(hits) for _, hits in self._framing.matches(source)))
        return buffer.count(self._delimiter, 0, used)


class NewlineJoiner:
    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter

    def join(self, data: pa.BinaryArray) -> bytes | memoryview:
        return with_tail(data, self._delimiter)


def _apart(found: np.ndarray, size: int) -> np.ndarray:
    """Of places that overlap, the first, and then those behind it."""
    kept, end = [], 0
    for place in found.tolist():
        if place >= end:
            kept.append(place)
            end = place + size
    return np.array(kept, np.int64)
