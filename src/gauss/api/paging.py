"""Pages of a topic, limited in rows and bytes, with the position of the next page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.api.records import Decode, rows
from gauss.model.batch import value_lengths

PAGE_ROWS = 1000
"""Default limit."""
MOST_PAGE_ROWS = 10_000
MOST_PAGE_BYTES = 8 << 20
ROW_BYTES = 64
"""Overhead of a row in bytes."""


def page_rows(limit: int | None) -> int:
    """Maximum rows of a page."""
    return min(limit or PAGE_ROWS, MOST_PAGE_ROWS)


def gathered(batches: Iterable[pa.RecordBatch], limit: int, decode: Decode | None) -> tuple[list[dict[str, Any]], bool]:
    """Up to `limit` records as objects, and whether the page is full."""
    found: list[dict[str, Any]] = []
    room = MOST_PAGE_BYTES
    for batch in batches:
        costs = np.cumsum(value_lengths(batch.column("data")) + ROW_BYTES)
        fit = min(_fitting(costs, room, first=not found), limit - len(found))
        found += rows(batch.slice(0, fit), decode)
        if fit < len(batch) or len(found) >= limit:
            return found, True
        room -= int(costs[-1]) if len(costs) else 0
    return found, False


def by_version(batches: Iterable[pa.RecordBatch], first: int, limit: int | None) -> tuple[list[pa.RecordBatch], bool]:
    """The rows of a table from a version on, in that order, as many as a page takes, and whether there are more: the
    table gives them by key."""
    kept: pa.Table | None = None
    more = False
    for batch in batches:
        found = pa.Table.from_batches([batch])
        found = found.filter(pc.greater_equal(found["version"], first))
        kept = found if kept is None else pa.concat_tables([kept, found])
        if kept.nbytes > 2 * MOST_PAGE_BYTES or (limit is not None and kept.num_rows > 2 * limit):
            kept, cut = _lowest(kept, limit)
            more = more or cut
    if kept is None:
        return [], False
    kept, cut = _lowest(kept, limit)
    return kept.to_batches(), more or cut


def _lowest(table: pa.Table, limit: int | None) -> tuple[pa.Table, bool]:
    """The rows of the lowest versions that fit into a page, and whether that leaves others out."""
    ordered = table.sort_by("version").slice(0, limit).combine_chunks()
    lengths = [value_lengths(chunk) for chunk in ordered["data"].chunks]
    costs = np.cumsum(np.concatenate(lengths) + ROW_BYTES) if lengths else np.zeros(0, np.int64)
    kept = ordered.slice(0, _fitting(costs, MOST_PAGE_BYTES, first=True))
    return kept, kept.num_rows < table.num_rows


def _fitting(costs: np.ndarray, room: int, *, first: bool) -> int:
    """How many rows of these summed costs fit; the first of a page always does."""
    return max(int(np.searchsorted(costs, room, side="right")), int(first and len(costs) > 0))
