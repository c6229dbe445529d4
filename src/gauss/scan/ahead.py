"""More records than a step takes, as one batch: framed and made into Arrow once, then cut step by step."""

from __future__ import annotations

import pyarrow as pa

from gauss.contracts.cursor import Placed, Step
from gauss.model.batch import RECORD_SCHEMA

STEPS = 16
FEWEST_STEPS = 4
MOST_BYTES = 1 << 20
"""What one cursor may have in hand; one chunk of a log may be larger."""


class Ahead:
    """Records without a gap between their offsets."""

    def __init__(self, placed: list[Placed]) -> None:
        self._batch = rows(placed)
        self._first = placed[0].offset
        self._stop = self._first + self._batch.num_rows
        self._size = sum(entry.chunk.nbytes for entry in placed)

    def holds(self, start: int, stop: int, max_bytes: int) -> bool:
        """Whether all of [start, stop) is here, and a step of so many bytes surely takes it whole."""
        return self._first <= start and stop <= self._stop and self._size <= max_bytes

    def cut(self, start: int, stop: int) -> tuple[pa.RecordBatch, int]:
        """Records [start, stop), and their share of the bytes in the log."""
        begin, end, count = start - self._first, stop - self._first, self._batch.num_rows
        return self._batch.slice(begin, end - begin), self._size * end // count - self._size * begin // count


def reach(start: int, end: int, step: Step) -> tuple[int, int]:
    """Where records at hand shall end at the latest, and how many bytes they may have."""
    return min(end, start + STEPS * step.limit), min(MOST_BYTES, step.max_bytes)


def look_ahead(placed: list[Placed], start: int, step: Step) -> Ahead | None:
    """What the next steps will take, if they are like this one; None: not more than this one, or there are gaps."""
    at = start
    for number, (offset, chunk) in enumerate(placed):
        if offset != at:
            return None
        at += chunk.count
        if at >= start + FEWEST_STEPS * step.limit:  # enough: records of several chunks must be copied together
            del placed[number + 1 :]
    return Ahead(placed) if at > start + step.limit else None


def rows(placed: list[Placed]) -> pa.RecordBatch:
    """One batch (offset, ts_ms, data) of chunks in order."""
    batches = [entry.chunk.batch(entry.offset) for entry in placed]
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays([batch.column(index) for batch in batches]) for index in range(len(RECORD_SCHEMA))]
    return pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)
