"""Sorted runs of a table's rows. Runs are immutable; newer ones override older ones."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PAGE_ROWS = 262_144
PAGE_BYTES = 16 << 20
FOLD_ROWS = 32_768
"""Maximum rows folded at once where runs overlap, to limit the wait for a reader's first rows."""

BATCH_BYTES = 2048
"""Overhead of a batch besides its buffers."""

CANDIDATES = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
        pa.field("ts_ms", pa.int64(), nullable=False),
        pa.field("deleted", pa.bool_(), nullable=False),
        pa.field("data", pa.binary(), nullable=False),
    ]
)
KEY, VERSION, TS_MS, DELETED, DATA = range(5)

Bound = str | None
"""The exclusive end of a range of keys; None for no end."""


def fold(batches: Sequence[pa.RecordBatch], *, keep_deleted: bool) -> pa.RecordBatch:
    """The newest event of each key, sorted by the bytes of keys; `batches` are oldest first."""
    whole = pa.concat_batches(batches)
    keys = whole.column(KEY)
    order = pc.array_sort_indices(keys)  # stable, so the last of equal keys is the newest
    ordered = keys.take(order)
    if len(ordered) > 1:
        newest = pc.not_equal(ordered.slice(0, len(ordered) - 1), ordered.slice(1))
        order = order.filter(pa.concat_arrays([newest, pa.array([True])]))
    if not keep_deleted:
        order = order.filter(pc.invert(whole.column(DELETED).take(order)))
    return whole.take(order)


def paged(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Splits a batch into pages, so that no array overflows its offsets and a range read touches only its pages."""
    if not batch.num_rows:
        return []
    most = max(1, min(PAGE_ROWS, batch.num_rows * PAGE_BYTES // max(batch.nbytes, 1)))
    if most >= batch.num_rows:
        return [batch]
    rows = math.ceil(batch.num_rows / math.ceil(batch.num_rows / most))  # equal sizes, so that none is small
    # Each page has its own buffers, so that it keeps no other page alive.
    places = np.arange(batch.num_rows)
    return [batch.take(pa.array(places[start : start + rows])) for start in range(0, batch.num_rows, rows)]


class Run:
    """Rows with distinct keys in pages, sorted at the first read, so that filling and sealing cost nothing."""

    __slots__ = ("_pages", "_unsorted", "firsts", "rows")

    def __init__(self, unsorted: list[pa.RecordBatch], count: int, rows: int) -> None:
        """The first `count` of `unsorted`: a list that its writer only appends to."""
        self._unsorted: tuple[list[pa.RecordBatch], int] | None = (unsorted, count)
        self._pages: list[pa.RecordBatch] | None = None
        self.firsts: list[str] = []
        self.rows = rows
        """Number of rows; before sorting, each event of a key counts."""

    @classmethod
    def of(cls, pages: list[pa.RecordBatch]) -> Run:
        """A run of sorted pages."""
        run = cls([], 0, 0)
        run._settle(pages)
        return run

    def pages(self) -> list[pa.RecordBatch]:
        """Sorts on first use; concurrent readers may both sort, with the same result."""
        unsorted = self._unsorted
        if self._pages is None and unsorted is not None:
            batches, count = unsorted
            self._settle(paged(fold(batches[:count], keep_deleted=True)) if count else [])
        assert self._pages is not None
        return self._pages

    def parts(self) -> list[pa.RecordBatch]:
        """The batches in memory, sorted or not."""
        pages, unsorted = self._pages, self._unsorted
        if pages is not None or unsorted is None:
            return pages or []
        batches, count = unsorted
        return batches[:count]

    def _settle(self, pages: list[pa.RecordBatch]) -> None:
        self.firsts = [page.column(KEY)[0].as_py() for page in pages]
        self.rows = sum(page.num_rows for page in pages)
        self._pages = pages  # last but one: readers that see the pages need the other attributes
        self._unsorted = None

    def between(self, low: Bound, high: Bound) -> list[pa.RecordBatch]:
        """The rows with keys in [low, high), as slices of pages."""
        pages = self.pages()
        first = 0 if low is None else max(bisect_right(self.firsts, low) - 1, 0)
        last = len(pages) if high is None else bisect_left(self.firsts, high)
        found = []
        for index in range(first, last):
            page = pages[index]
            start = place(page, low) if index == first and low is not None and low > self.firsts[index] else 0
            below = index < last - 1 or high is None or (last < len(pages) and high == self.firsts[last])
            stop = page.num_rows if below else place(page, high)
            if start < stop:
                found.append(page if stop - start == page.num_rows else page.slice(start, stop - start))
        return found


def place(page: pa.RecordBatch, key: str | None) -> int:
    """The position of a key in a page, or where it would be inserted."""
    return int(pc.search_sorted(page.column(KEY), pa.scalar(key, pa.string())).as_py())


def ranges(runs: Sequence[Run], low: Bound, high: Bound) -> Iterator[tuple[Bound, Bound]]:
    """Splits [low, high) into parts of about a page, at the page boundaries of the run with most pages."""
    if not runs:
        return
    firsts = max((run.firsts for run in runs if run.pages()), key=len, default=[])
    inner = firsts[1:]
    inner = inner[0 if low is None else bisect_right(inner, low) : None if high is None else bisect_left(inner, high)]
    edges: list[Bound] = [low, *inner, high]
    yield from itertools.pairwise(edges)


def rows_between(runs: Sequence[Run], low: Bound, high: Bound) -> Iterator[pa.RecordBatch]:
    """The live rows of the runs (oldest first) in [low, high), sorted by key."""
    for start, stop in ranges(runs, low, high):
        parts = [part for run in runs for part in run.between(start, stop)]
        if len(parts) == 1 and not parts[0].column(DELETED).true_count:
            yield parts[0]
        elif parts:
            yield from _folded(parts)


def _folded(parts: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The live rows of sorted parts, in batches."""
    keys = max(parts, key=len).column(KEY)
    edges = [keys[index].as_py() for index in range(FOLD_ROWS, len(keys), FOLD_ROWS)]
    starts = [0] * len(parts)
    for edge in (*edges, None):
        stops = [part.num_rows if edge is None else place(part, edge) for part in parts]
        taken = [part.slice(start, stop - start) for part, start, stop in zip(parts, starts, stops, strict=True)]
        starts = stops
        if (found := fold(taken, keep_deleted=False)).num_rows:
            yield found


def merged(older: Run, newer: Run, *, keep_deleted: bool) -> Run:
    """Merges two runs; unchanged pages of the older one are shared."""
    pages: list[pa.RecordBatch] = []
    for start, stop in ranges((older, newer), None, None):
        below, above = older.between(start, stop), newer.between(start, stop)
        if not above and (keep_deleted or not any(part.column(DELETED).true_count for part in below)):
            pages += below
        elif found := paged(fold([*below, *above], keep_deleted=keep_deleted)):
            pages += found
    return Run.of(_joined(pages))


def _joined(pages: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Joins neighbours that fit into one page, because scans work page by page."""
    result: list[pa.RecordBatch] = []
    for page in pages:
        if (
            result
            and result[-1].num_rows + page.num_rows <= PAGE_ROWS
            and result[-1].nbytes + page.nbytes <= PAGE_BYTES
        ):
            result[-1] = pa.concat_batches([result[-1], page])
        else:
            result.append(page)
    return result


def in_range(batch: pa.RecordBatch, low: Bound, high: Bound) -> pa.RecordBatch:
    """The events of an unsorted batch whose keys are in [low, high)."""
    keys = batch.column(KEY)
    if low is not None:
        batch = batch.filter(pc.greater_equal(keys, low))
        keys = batch.column(KEY)
    return batch if high is None else batch.filter(pc.less(keys, high))


def candidate_batch(
    keys: pa.StringArray, first_version: int, ts_ms: int | np.ndarray, deleted: np.ndarray | None, data: pa.BinaryArray
) -> pa.RecordBatch:
    """Consecutive events from `first_version` on."""
    count = len(keys)
    versions = pa.array(np.arange(first_version, first_version + count, dtype=np.int64))
    times = pa.array(np.full(count, ts_ms, dtype=np.int64) if isinstance(ts_ms, int) else ts_ms, pa.int64())
    gone = pa.array(np.zeros(count, bool) if deleted is None else deleted)
    return pa.RecordBatch.from_arrays([keys, versions, times, gone, data], schema=CANDIDATES)
